//! `grep`: lines by content, with ripgrep's own engine.
//!
//! The tree is walked by one thread in a stable order while others search the files of the batch
//! before; results keep the walk's order. Binary files are passed over, links are not followed,
//! long lines are cut around the match.

mod line;

use crate::admit::{self, Permit};
use crate::from_wire::Grep;
use crate::fs::name::{shown, shown_bytes};
use crate::fs::resolve::Found;
use crate::fs::walk::{Budget, EntryKind, Gaps, Start, Stop, WALK_TIME_MAX, Walk};
use crate::tool::find::Glob;
use crate::tool::{Bench, TEXT_BYTES_MAX, ToolError, ToolOutput, cancelled, joined, limit_note};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use nix::errno::Errno;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    let mut page = Page {
        text: String::new(),
        matches: 0,
        full: None,
        gaps: Gaps::default(),
    };
    if found.is_directory() {
        let start = Start::new(permit).map_err(|error| bench.failure(&error))?;
        let globs: Vec<&str> = call.glob.iter().map(String::as_str).collect();
        let mut walk = Walk::new(&start, bench.judge, search.budget, &globs);
        search.tree(&start, &mut walk, found, &mut page);
        let Page { gaps, .. } = &mut page;
        walk.gaps.binary += gaps.binary;
        walk.gaps.stop = walk.gaps.stop.or(gaps.stop);
        std::mem::swap(gaps, &mut walk.gaps);
    } else {
        let file = found.open_file().map_err(|error| bench.failure(&error))?;
        let hits = search.file(&mut search.searcher(), &file);
        page.add(shown(found.asked()).as_ref(), hits, call, b".");
    }
    cancelled(page.gaps.stop)?;
    Ok(ToolOutput {
        text: page.finish(),
        changed: Vec::new(),
    })
}

/// One call, shared by the searching threads.
struct Search<'a> {
    call: &'a Grep,
    bench: &'a Bench<'a>,
    matcher: RegexMatcher,
    glob: Option<Glob>,
    budget: Budget<'a>,
}

/// The outcome of one file.
#[derive(Default)]
struct Hits {
    lines: Vec<Line>,
    binary: bool,
    refused: bool,
    stop: Option<Stop>,
    error: Option<String>,
}

/// One line of a result, or the gap between two groups.
enum Line {
    Match { number: u64, text: String },
    Context { number: u64, text: String },
    Break,
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
        while !batch.is_empty() && page.full.is_none() {
            let (hits, next) = self.batch(start, &batch, || self.next_batch(walk));
            for (relative, hits) in batch.iter().zip(hits) {
                if let Some(error) = &hits.error {
                    walk.gaps.unreadable(relative, error);
                }
                if hits.refused {
                    walk.gaps.refused();
                }
                let path = joined(found.asked(), relative);
                page.add(&shown_bytes(&path), hits, self.call, relative);
                if page.full.is_some() {
                    break;
                }
            }
            if page.gaps.stop.is_some() {
                break;
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
                *results[index]
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) = hits;
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
        let hits = results.into_iter().map(|hits| {
            hits.into_inner()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        });
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
            Ok(file) => self.file(searcher, &file),
            // Gone, or no regular file any more.
            Err(Errno::ENOENT | Errno::EINVAL) => Hits::default(),
            Err(errno) => Hits {
                error: Some(errno.desc().to_owned()),
                ..Hits::default()
            },
        }
    }

    fn file(&self, searcher: &mut Searcher, file: &File) -> Hits {
        let mut taker = Taker {
            search: self,
            hits: Hits::default(),
            matches: 0,
            bytes: 0,
        };
        let reader = Watched {
            file,
            budget: &self.budget,
        };
        let searched = searcher.search_reader(&self.matcher, reader, &mut taker);
        let mut hits = taker.hits;
        if let Err(error) = searched {
            hits.stop = self.budget.stop();
            if hits.stop.is_none() {
                hits.error = Some(error.to_string());
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

/// Takes the lines of one file.
struct Taker<'a> {
    search: &'a Search<'a>,
    hits: Hits,
    matches: usize,
    bytes: usize,
}

impl Taker<'_> {
    fn push(&mut self, line: Line) -> bool {
        self.bytes += match &line {
            Line::Match { text, .. } | Line::Context { text, .. } => text.len(),
            Line::Break => 0,
        };
        self.hits.lines.push(line);
        self.bytes <= TEXT_BYTES_MAX
    }
}

impl Sink for Taker<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.matches += 1;
        let number = found.line_number().unwrap_or(0);
        let text = line::around_match(found.bytes(), &self.search.matcher);
        // One more than the limit shows that there are more.
        Ok(self.push(Line::Match { number, text }) && self.matches <= self.search.call.limit)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        debug_assert!(*found.kind() != SinkContextKind::Other, "passthru is off");
        let number = found.line_number().unwrap_or(0);
        Ok(self.push(Line::Context {
            number,
            text: line::from_start(found.bytes()),
        }))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        Ok(self.push(Line::Break))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.hits = Hits {
            binary: true,
            ..Hits::default()
        };
        Ok(false)
    }
}

/// The result as it grows.
struct Page {
    text: String,
    matches: usize,
    /// Why nothing more is taken.
    full: Option<String>,
    gaps: Gaps,
}

impl Page {
    fn add(&mut self, path: &str, hits: Hits, call: &Grep, relative: &[u8]) {
        self.gaps.binary += usize::from(hits.binary);
        self.gaps.stop = self.gaps.stop.or(hits.stop);
        if let (Some(error), b".") = (&hits.error, relative) {
            self.gaps.unreadable(path.as_bytes(), error);
        }
        if call.context > 0 && !self.text.is_empty() && !hits.lines.is_empty() {
            self.text.push_str("--\n");
        }
        for line in hits.lines {
            let line = match line {
                Line::Match { .. } if self.matches == call.limit => {
                    self.full = Some(limit_note(call.limit, "matching lines"));
                    return;
                }
                Line::Match { number, text } => {
                    self.matches += 1;
                    format!("{path}:{number}:{text}\n")
                }
                Line::Context { number, text } => format!("{path}-{number}-{text}\n"),
                Line::Break => "--\n".to_owned(),
            };
            if self.text.len() + line.len() > TEXT_BYTES_MAX {
                self.full =
                    Some("[output limit of 50 KiB reached; use a narrower path, glob or pattern]".to_owned());
                return;
            }
            self.text.push_str(&line);
        }
    }

    fn finish(mut self) -> String {
        if self.matches == 0 {
            self.text = "no matches\n".to_owned();
        }
        for note in self.full.iter().chain(&self.gaps.notes(self.matches == 0)) {
            self.text.push_str(note);
            self.text.push('\n');
        }
        self.text.truncate(self.text.trim_end_matches('\n').len());
        self.text
    }
}
