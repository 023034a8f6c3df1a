//! `grep`: lines by content, with ripgrep's own engine.
//!
//! The tree is walked by one thread in a stable order while others search the files of the batch
//! before; results keep the walk's order. Binary files are passed over, links are not followed,
//! long lines are cut around the match.

mod hits;
mod line;
mod page;

use crate::admit::{self, Permit};
use crate::from_wire::Grep;
use crate::fs::FsError;
use crate::fs::budget::{Budget, WALK_TIME_MAX};
use crate::fs::gaps::Gaps;
use crate::fs::list::EntryKind;
use crate::fs::name::{shown, shown_bytes};
use crate::fs::resolve::Found;
use crate::fs::walk::{Start, Walk};
use crate::tool::find::Glob;
use crate::tool::{Bench, ToolError, ToolOutput, cancelled, joined};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use hits::{Hits, Taker};
use page::Page;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Files searched as one batch: enough to keep the threads busy, few enough to hold the results.
const BATCH_FILES: usize = 512;
/// Batches below this are searched without further threads.
const THREADED_FILES_MIN: usize = 16;
/// Threads that search; the same number as parallel read-only calls.
const THREADS_MAX: usize = 8;
/// Longest line that is searched, in bytes: one line is held in memory as a whole.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Memory of a compiled pattern and of its cache, in bytes.
const PATTERN_MEMORY_MAX: usize = 10 << 20;

/// # Errors
/// A pattern or glob that cannot be read, an object that is neither file nor directory.
pub fn run(call: &Grep, permit: &Permit<Found>, bench: &Bench<'_>) -> Result<ToolOutput, ToolError> {
    let search = Search::new(call, bench).map_err(ToolError::failed)?;
    let found = permit.subject();
    let mut page = Page::new(call.limit, call.context > 0);
    let gaps = if found.is_directory() {
        let start = Start::new(permit).map_err(|error| bench.failure(&error))?;
        let globs: Vec<&str> = call.glob.iter().map(String::as_str).collect();
        let mut walk = Walk::new(&start, bench.judge, search.budget, &globs);
        search.tree(&start, &mut walk, found, &mut page);
        walk.gaps
    } else {
        let file = found.open_file().map_err(|error| bench.failure(&error))?;
        let mut gaps = Gaps::default();
        let hits = search.file(&mut search.searcher(), &file, found.asked());
        let name = found.asked().as_os_str().as_bytes();
        page.add(&shown(found.asked()), hits.noted(name, &mut gaps));
        gaps
    };
    cancelled(gaps.stop)?;
    Ok(bench.walked(page.finish(&gaps), &gaps))
}

/// One call, shared by the searching threads.
struct Search<'a> {
    call: &'a Grep,
    bench: &'a Bench<'a>,
    matcher: RegexMatcher,
    glob: Option<Glob>,
    budget: Budget<'a>,
}

impl<'a> Search<'a> {
    fn new(call: &'a Grep, bench: &'a Bench<'a>) -> Result<Self, String> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(call.ignore_case)
            .fixed_strings(call.literal)
            .crlf(true)
            .size_limit(PATTERN_MEMORY_MAX)
            .dfa_size_limit(PATTERN_MEMORY_MAX)
            .build(&call.pattern)
            .map_err(|error| {
                format!("pattern is not a regular expression that can be searched line by line: {error}")
            })?;
        let glob = call
            .glob
            .as_deref()
            .map(|text| Glob::new("glob", text))
            .transpose()?;
        let budget = Budget::new(WALK_TIME_MAX, bench.cancel);
        Ok(Self {
            call,
            bench,
            matcher,
            glob,
            budget,
        })
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(self.call.context)
            .after_context(self.call.context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LINE_BYTES_MAX))
            .build()
    }

    fn tree(&self, start: &Start, walk: &mut Walk<'_>, found: &Found, page: &mut Page) {
        let mut batch = self.next_batch(walk);
        while !batch.is_empty() {
            let (hits, next) = self.batch(start, &batch, || self.next_batch(walk));
            for (relative, hits) in batch.iter().zip(hits) {
                let path = joined(found.asked(), relative);
                page.add(&shown_bytes(&path), hits.noted(relative, &mut walk.gaps));
                if page.is_full() {
                    return;
                }
            }
            if walk.gaps.stop.is_some() {
                return;
            }
            batch = next;
        }
    }

    fn next_batch(&self, walk: &mut Walk<'_>) -> Vec<Vec<u8>> {
        let wanted = |relative: &[u8]| self.glob.as_ref().is_none_or(|glob| glob.admits(relative));
        walk.by_ref()
            .filter(|entry| entry.kind == EntryKind::File && wanted(&entry.relative))
            .map(|entry| entry.relative)
            .take(BATCH_FILES)
            .collect()
    }

    /// Searches one batch, on several threads if it pays, while this one walks on.
    fn batch<T>(&self, start: &Start, batch: &[Vec<u8>], meanwhile: impl FnOnce() -> T) -> (Vec<Hits>, T) {
        let results: Vec<Mutex<Hits>> = batch.iter().map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut searcher = self.searcher();
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < batch.len()) {
                let hits = self.entry(&mut searcher, start, &batch[index]);
                *results[index].lock().unwrap_or_else(PoisonError::into_inner) = hits;
            }
        };
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(THREADS_MAX);
        let meanwhile = if batch.len() < THREADED_FILES_MIN || threads == 1 {
            work();
            meanwhile()
        } else {
            std::thread::scope(|scope| {
                // Where the process limit is reached there are fewer threads, at worst this one.
                for _ in 1..threads {
                    let _ = std::thread::Builder::new().spawn_scoped(scope, work);
                }
                let meanwhile = meanwhile();
                work();
                meanwhile
            })
        };
        let hits = results
            .into_iter()
            .map(|hits| hits.into_inner().unwrap_or_else(PoisonError::into_inner));
        (hits.collect(), meanwhile)
    }

    fn entry(&self, searcher: &mut Searcher, start: &Start, relative: &[u8]) -> Hits {
        if let Some(stop) = self.budget.stop() {
            return Hits {
                stop: Some(stop),
                ..Hits::default()
            };
        }
        if admit::beneath(self.bench.judge, &start.canonical(relative)).is_err() {
            return Hits {
                refused: true,
                ..Hits::default()
            };
        }
        match start.open_file(relative) {
            Ok(Some(file)) => self.file(searcher, &file, &start.canonical(relative)),
            Ok(None) => Hits::default(),
            Err(error) => Hits {
                error: Some(error),
                ..Hits::default()
            },
        }
    }

    fn file(&self, searcher: &mut Searcher, file: &File, path: &Path) -> Hits {
        let mut taker = Taker::new(&self.matcher, self.call.limit);
        let reader = Watched {
            file,
            budget: &self.budget,
        };
        let searched = searcher.search_reader(&self.matcher, reader, &mut taker);
        let mut hits = taker.into_hits();
        if let Err(error) = searched {
            hits.stop = self.budget.stop();
            if hits.stop.is_none() {
                hits.error = Some(FsError::other(path, error.to_string()));
            }
        }
        hits
    }
}

/// A file whose reading ends when the call's time does.
struct Watched<'a> {
    file: &'a File,
    budget: &'a Budget<'a>,
}

impl std::io::Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.budget.stop().is_some() {
            return Err(std::io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
}
