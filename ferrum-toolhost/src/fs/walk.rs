//! Walks a directory tree by descriptors, in a stable order, for `find` and `grep`.
//!
//! Entries come sorted by name, depth first, without a stat of their own. Links are never
//! followed and every open is beneath the start, so a tree that changes under the walk cannot
//! lead it elsewhere. `.gitignore` and `.ignore` count whether or not there is a repository;
//! hidden files are part of the tree; version control's own directories, installed packages and
//! tagged caches are left out unless the caller names them.

use crate::admit::{self, Judge, Permit};
use crate::fs::atomic::SIBLING;
use crate::fs::budget::Budget;
use crate::fs::gaps::Gaps;
use crate::fs::ignored::{IGNORE_FILES, Rules};
use crate::fs::list::{EntryKind, Listed, list};
use crate::fs::resolve::{Found, kind_of, readable_by_mode};
use crate::fs::{FsError, Wall};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstat};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Entries between two looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// A directory that holds this file is a cache (bford.info/cachedir): cargo's `target`, pytest.
pub(crate) const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// Directories that hold nothing that was written by hand.
pub(crate) const NOISY: [&str; 16] = [
    ".git",
    ".hg",
    ".svn",
    ".jj",
    "node_modules",
    "bower_components",
    "__pycache__",
    ".venv",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".gradle",
    ".terraform",
    ".direnv",
];

/// One entry of a walk that is not a directory.
#[derive(Debug)]
pub struct Entry {
    /// Relative to the start.
    pub relative: Vec<u8>,
    pub kind: EntryKind,
}

/// The directory being walked, for opening what the walk found; shared between threads.
#[derive(Debug)]
pub struct Start {
    directory: OwnedFd,
    canonical: PathBuf,
}

impl Start {
    /// # Errors
    /// The permitted object is no directory or cannot be opened.
    pub fn new(permit: &Permit<Found>) -> Result<Self, FsError> {
        let found = permit.subject();
        Ok(Self {
            directory: found.open_directory()?,
            canonical: found.canonical().to_path_buf(),
        })
    }

    /// Opens a regular file beneath the start, never blocking, through no link. `None` where there
    /// is none any more.
    ///
    /// # Errors
    /// The system's error, with the wall that explains it.
    pub fn open_file(&self, relative: &[u8]) -> Result<Option<File>, FsError> {
        let file = match self.open(relative, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY) {
            Ok(file) => file,
            Err(Errno::ENOENT | Errno::ELOOP | Errno::ENXIO) => return Ok(None),
            Err(errno) => return Err(self.refused(relative, errno)),
        };
        let stat = fstat(&file).map_err(|errno| self.refused(relative, errno))?;
        Ok((kind_of(&stat) == SFlag::S_IFREG).then(|| File::from(file)))
    }

    fn open_directory(&self, relative: &[u8]) -> Result<OwnedFd, FsError> {
        self.open(relative, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
            .map_err(|errno| self.refused(relative, errno))
    }

    /// A wall is named only where the object's own permissions would have let us in.
    fn refused(&self, relative: &[u8], errno: Errno) -> FsError {
        let by_mode = || {
            let stat = self.open(relative, OFlag::O_PATH).and_then(fstat);
            stat.is_ok_and(|stat| readable_by_mode(&stat))
        };
        let wall = (errno == Errno::EACCES && by_mode()).then_some(Wall::Read);
        FsError::System {
            operation: "open",
            path: self.canonical(relative),
            errno,
            wall,
        }
    }

    /// The canonical path of an entry.
    #[must_use]
    pub fn canonical(&self, relative: &[u8]) -> PathBuf {
        self.canonical.join(OsStr::from_bytes(relative))
    }

    fn open(&self, relative: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let path = if relative.is_empty() { b"." } else { relative };
        openat2(
            &self.directory,
            path,
            OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve),
        )
    }
}

/// The walk itself: an iterator over everything that is not a directory.
pub struct Walk<'a> {
    start: &'a Start,
    judge: &'a Judge,
    budget: Budget<'a>,
    /// Names that are looked into though they are noisy.
    wanted: &'a [&'a str],
    stack: Vec<Level>,
    rules: Rules,
    ticks: u32,
    pub gaps: Gaps,
}

struct Level {
    entries: std::vec::IntoIter<Listed>,
    relative: Vec<u8>,
    /// Ignore rules that hold outside this directory.
    rules_before: usize,
}

impl<'a> Walk<'a> {
    /// `globs` are the caller's own patterns: a noisy directory that one of them names is walked.
    #[must_use]
    pub fn new(start: &'a Start, judge: &'a Judge, budget: Budget<'a>, wanted: &'a [&'a str]) -> Self {
        let mut walk = Self {
            start,
            judge,
            budget,
            wanted,
            stack: Vec::new(),
            rules: Rules::above(&start.canonical, judge),
            ticks: 0,
            gaps: Gaps::default(),
        };
        walk.enter(Vec::new());
        walk
    }

    fn enter(&mut self, relative: Vec<u8>) {
        let canonical = self.start.canonical(&relative);
        let opened = self.start.open_directory(&relative);
        let listed = opened.and_then(|directory| {
            let listed = list(directory.as_fd(), &canonical)?;
            Ok((directory, listed))
        });
        let (directory, mut entries) = match listed {
            Ok(listed) => listed,
            // Removed since its parent was listed.
            Err(FsError::System {
                errno: Errno::ENOENT, ..
            }) => return,
            Err(error) => {
                self.gaps
                    .unreadable(if relative.is_empty() { b"." } else { &relative }, error);
                return;
            }
        };
        let is_cache = entries.iter().any(|entry| entry.name == CACHE_TAG);
        if is_cache && !relative.is_empty() && !self.wants(&relative) {
            self.gaps.skipped(&relative);
            return;
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let rules_before = self.rules.len();
        if entries
            .iter()
            .any(|entry| IGNORE_FILES.iter().any(|file| file.as_bytes() == entry.name))
        {
            self.rules.enter(directory.as_fd(), &canonical);
        }
        self.stack.push(Level {
            entries: entries.into_iter(),
            relative,
            rules_before,
        });
    }

    fn wants(&self, relative: &[u8]) -> bool {
        let name = relative.rsplit(|byte| *byte == b'/').next().unwrap_or(relative);
        self.wanted
            .iter()
            .any(|glob| glob.split('/').any(|part| part.as_bytes() == name))
    }

    /// Whether the walk goes into this directory.
    fn descends(&mut self, name: &[u8], relative: &[u8]) -> bool {
        if NOISY.iter().any(|noisy| noisy.as_bytes() == name) && !self.wants(relative) {
            self.gaps.skipped(relative);
            return false;
        }
        if admit::beneath(self.judge, &self.start.canonical(relative)).is_err() {
            self.gaps.refused();
            return false;
        }
        true
    }

    fn is_ignored(&self, relative: &[u8], is_directory: bool) -> bool {
        !self.rules.is_empty()
            && self
                .rules
                .leave_out(&self.start.canonical(relative), is_directory)
    }

    fn out_of_time(&mut self) -> bool {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks % CLOCK_EVERY == 1 && self.gaps.stop.is_none() {
            self.gaps.stop = self.budget.stop();
        }
        self.gaps.stop.is_some()
    }
}

impl Iterator for Walk<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if self.out_of_time() {
                return None;
            }
            let level = self.stack.last_mut()?;
            let Some(entry) = level.entries.next() else {
                self.rules.truncate(level.rules_before);
                self.stack.pop();
                continue;
            };
            let mut relative = level.relative.clone();
            if !relative.is_empty() {
                relative.push(b'/');
            }
            relative.extend_from_slice(&entry.name);
            let is_directory = entry.kind == EntryKind::Directory;
            if entry.name == SIBLING.as_bytes() || self.is_ignored(&relative, is_directory) {
                continue;
            }
            if !is_directory {
                return Some(Entry {
                    relative,
                    kind: entry.kind,
                });
            }
            if self.descends(&entry.name, &relative) {
                self.enter(relative);
            }
        }
    }
}
