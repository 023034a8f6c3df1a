//! Walks a directory tree by descriptors, in a stable order, for `find` and `grep`.
//!
//! Entries come sorted by name, depth first, without a stat of their own. Links are never
//! followed and every open is beneath the start, so a tree that changes under the walk cannot
//! lead it elsewhere. `.gitignore` and `.ignore` count whether or not there is a repository;
//! hidden files are part of the tree; version control's own directories, installed packages and
//! tagged caches are left out unless the caller names them.

use crate::admit::{self, Judge, Permit};
use crate::fs::atomic::is_sibling;
use crate::fs::resolve::{Found, kind_of};
use crate::fs::{FsError, name::shown_bytes};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time of one `find` or `grep`.
pub const WALK_TIME_MAX: Duration = Duration::from_secs(10);
/// Largest ignore file that counts, in bytes; real ones have a few kilobytes.
const IGNORE_FILE_BYTES_MAX: u64 = 1 << 20;
/// Unreadable places that a result names; the rest is counted.
const UNREADABLE_NAMED_MAX: usize = 5;
/// Entries between two looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// A directory that holds this file is a cache (bford.info/cachedir): cargo's `target`, pytest.
const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// Directories that hold nothing that was written by hand.
const NOISY: [&str; 16] = [
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

/// What an entry is, by its own name and not by what a link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    Special,
}

/// One name in a directory.
#[derive(Debug)]
pub struct Listed {
    pub name: Vec<u8>,
    pub kind: EntryKind,
}

/// Names and kinds of one directory, unsorted. Entries get a stat only where the file system
/// does not tell the kind.
///
/// # Errors
/// The directory cannot be opened or read.
pub fn list(directory: BorrowedFd<'_>, asked: &Path) -> Result<Vec<Listed>, FsError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut dir = Dir::openat(directory, ".", flags, Mode::empty())
        .map_err(|errno| FsError::system("list", asked, errno))?;
    let mut listed = Vec::new();
    for entry in dir.iter() {
        let entry = entry.map_err(|errno| FsError::system("list", asked, errno))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            Some(Type::File) => EntryKind::File,
            Some(Type::Directory) => EntryKind::Directory,
            Some(Type::Symlink) => EntryKind::Symlink,
            Some(Type::Fifo | Type::Socket | Type::CharacterDevice | Type::BlockDevice) => EntryKind::Special,
            None => kind_by_stat(directory, name),
        };
        listed.push(Listed {
            name: name.to_bytes().to_vec(),
            kind,
        });
    }
    Ok(listed)
}

fn kind_by_stat(directory: BorrowedFd<'_>, name: &std::ffi::CStr) -> EntryKind {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|stat| kind_of(&stat)) {
        Ok(SFlag::S_IFREG) => EntryKind::File,
        Ok(SFlag::S_IFDIR) => EntryKind::Directory,
        Ok(SFlag::S_IFLNK) => EntryKind::Symlink,
        Ok(_) | Err(_) => EntryKind::Special,
    }
}

/// Time and patience of one call.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    deadline: Instant,
    cancel: &'a AtomicBool,
}

/// Why a walk ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Deadline,
    Cancelled,
}

impl<'a> Budget<'a> {
    #[must_use]
    pub fn new(time: Duration, cancel: &'a AtomicBool) -> Self {
        Self {
            deadline: Instant::now() + time,
            cancel,
        }
    }

    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        if self.cancel.load(Ordering::Relaxed) {
            Some(Stop::Cancelled)
        } else {
            (Instant::now() >= self.deadline).then_some(Stop::Deadline)
        }
    }
}

/// What a walk could not or did not look at.
#[derive(Debug, Default)]
pub struct Gaps {
    named: Vec<String>,
    unreadable: usize,
    refused: usize,
    skipped: BTreeSet<String>,
    pub binary: usize,
    pub stop: Option<Stop>,
}

impl Gaps {
    pub fn unreadable(&mut self, relative: &[u8], why: &str) {
        self.unreadable += 1;
        if self.named.len() < UNREADABLE_NAMED_MAX {
            self.named.push(format!("{} ({why})", shown_bytes(relative)));
        }
    }

    pub fn refused(&mut self) {
        self.refused += 1;
    }

    /// Lines for the end of a result. Left-out directories matter only where nothing was found.
    #[must_use]
    pub fn notes(&self, found_nothing: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.stop == Some(Stop::Deadline) {
            let seconds = WALK_TIME_MAX.as_secs();
            notes.push(format!(
                "[incomplete: stopped after {seconds} seconds; use a narrower path]"
            ));
        }
        if self.unreadable > 0 {
            let more = self.unreadable - self.named.len();
            let rest = if more == 0 {
                String::new()
            } else {
                format!(" and {more} more")
            };
            notes.push(format!(
                "[incomplete: could not read {}{rest}]",
                self.named.join(", ")
            ));
        }
        if self.refused > 0 {
            notes.push(format!(
                "[{} left out: policy does not let them be read]",
                count(self.refused, "place")
            ));
        }
        if self.binary > 0 {
            notes.push(format!("[{} skipped]", count(self.binary, "binary file")));
        }
        if found_nothing && !self.skipped.is_empty() {
            let names: Vec<&str> = self
                .skipped
                .iter()
                .take(UNREADABLE_NAMED_MAX)
                .map(String::as_str)
                .collect();
            notes.push(format!(
                "[not looked at: {}; name one as path to search it]",
                names.join(", ")
            ));
        }
        notes
    }
}

/// `1 file`, `2 files`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

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

    /// Opens a regular file beneath the start, never blocking, through no link.
    ///
    /// # Errors
    /// The system's error; `EINVAL` for anything but a regular file.
    pub fn open_file(&self, relative: &[u8]) -> Result<File, Errno> {
        let file = self.open(relative, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)?;
        match kind_of(&fstat(&file)?) {
            SFlag::S_IFREG => Ok(File::from(file)),
            _ => Err(Errno::EINVAL),
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
    ignores: Vec<Gitignore>,
    ticks: u32,
    pub gaps: Gaps,
}

struct Level {
    entries: std::vec::IntoIter<Listed>,
    relative: Vec<u8>,
    /// Ignore rules that hold outside this directory.
    ignores_before: usize,
}

impl<'a> Walk<'a> {
    /// `globs` are the caller's own patterns: a noisy directory that one of them names is walked.
    #[must_use]
    pub fn new(start: &'a Start, judge: &'a Judge, budget: Budget<'a>, wanted: &'a [&'a str]) -> Self {
        let ignores = outer_ignores(start, judge);
        let gaps = Gaps::default();
        let mut walk = Self {
            start,
            judge,
            budget,
            wanted,
            stack: Vec::new(),
            ignores,
            ticks: 0,
            gaps,
        };
        walk.enter(Vec::new());
        walk
    }

    fn enter(&mut self, relative: Vec<u8>) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let listed = self.start.open(&relative, flags).and_then(|directory| {
            let listed = list(directory.as_fd(), Path::new("")).map_err(|error| match error {
                FsError::System { errno, .. } => errno,
                _ => Errno::EIO,
            })?;
            Ok((directory, listed))
        });
        let (directory, mut entries) = match listed {
            Ok(listed) => listed,
            Err(errno) => {
                self.gaps
                    .unreadable(if relative.is_empty() { b"." } else { &relative }, errno.desc());
                return;
            }
        };
        if !relative.is_empty()
            && entries.iter().any(|entry| entry.name == CACHE_TAG)
            && !self.wants(&relative)
        {
            self.gaps.skipped.insert(shown_bytes(&relative).into_owned());
            return;
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let ignores_before = self.ignores.len();
        if entries
            .iter()
            .any(|entry| matches!(&entry.name[..], b".gitignore" | b".ignore"))
        {
            self.ignores.extend(ignores_of(
                directory.as_fd(),
                &self.start.canonical(&relative),
                false,
            ));
        }
        self.stack.push(Level {
            entries: entries.into_iter(),
            relative,
            ignores_before,
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
            self.gaps.skipped.insert(shown_bytes(relative).into_owned());
            return false;
        }
        if admit::beneath(self.judge, &self.start.canonical(relative)).is_err() {
            self.gaps.refused();
            return false;
        }
        true
    }

    fn is_ignored(&self, relative: &[u8], is_directory: bool) -> bool {
        if self.ignores.is_empty() {
            return false;
        }
        let path = self.start.canonical(relative);
        for rules in self.ignores.iter().rev() {
            match rules.matched(&path, is_directory) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
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
                self.ignores.truncate(level.ignores_before);
                self.stack.pop();
                continue;
            };
            let mut relative = level.relative.clone();
            if !relative.is_empty() {
                relative.push(b'/');
            }
            relative.extend_from_slice(&entry.name);
            let is_directory = entry.kind == EntryKind::Directory;
            if is_sibling(&entry.name) || self.is_ignored(&relative, is_directory) {
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

/// Rules from above the start: those of the repository around it, or else those from the working
/// directory down.
fn outer_ignores(start: &Start, judge: &Judge) -> Vec<Gitignore> {
    let cwd = &judge.ground.cwd;
    let is_repository =
        |directory: &&Path| fstatat(AT_FDCWD, &directory.join(".git"), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    let repository = start.canonical.ancestors().find(is_repository);
    let top = repository.or_else(|| start.canonical.starts_with(cwd).then_some(cwd.as_path()));
    let Some(top) = top else { return Vec::new() };
    let mut above: Vec<&Path> = start
        .canonical
        .ancestors()
        .take_while(|directory| directory.starts_with(top))
        .collect();
    above.reverse();
    let mut rules = Vec::new();
    for directory in above {
        let is_start = directory == start.canonical;
        let is_top = Some(directory) == repository;
        if (is_start && !is_top) || admit::beneath(judge, directory).is_err() {
            continue;
        }
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        let Ok(open) = openat2(AT_FDCWD, directory, how) else {
            continue;
        };
        if is_start {
            // Its own ignore files come with its listing; only the repository's list is missing.
            rules.extend(excludes_of(open.as_fd(), directory));
        } else {
            rules.extend(ignores_of(open.as_fd(), directory, is_top));
        }
    }
    rules
}

/// The repository's own list, which is weaker than any `.gitignore`.
fn excludes_of(directory: BorrowedFd<'_>, canonical: &Path) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(canonical);
    add_rules(&mut builder, directory, ".git/info/exclude");
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// The rules in one directory; the later line and the later file win.
fn ignores_of(directory: BorrowedFd<'_>, canonical: &Path, is_top: bool) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(canonical);
    let files: &[&str] = if is_top {
        &[".git/info/exclude", ".gitignore", ".ignore"]
    } else {
        &[".gitignore", ".ignore"]
    };
    for file in files {
        add_rules(&mut builder, directory, file);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

fn add_rules(builder: &mut GitignoreBuilder, directory: BorrowedFd<'_>, file: &str) {
    for line in small_file(directory, file).unwrap_or_default().lines() {
        // A line that is no glob is ignored, as git does.
        let _ = builder.add_line(None, line);
    }
}

fn small_file(directory: BorrowedFd<'_>, name: &str) -> Option<String> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    let file = openat2(directory, name, how).ok()?;
    if kind_of(&fstat(&file).ok()?) != SFlag::S_IFREG {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file)
        .take(IGNORE_FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
