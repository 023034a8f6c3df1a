//! Which entries `.gitignore`, `.ignore` and a repository's own list leave out.
//!
//! The rules count whether or not there is a repository. The user's global list does not: the
//! same tree gives the same result on every machine.

use crate::admit::{self, Judge};
use crate::fs::resolve::kind_of;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstat, fstatat};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

/// Largest ignore file that counts, in bytes; real ones have a few kilobytes.
const IGNORE_FILE_BYTES_MAX: u64 = 1 << 20;

/// The rules that hold at one place of a walk, the innermost last.
#[derive(Debug)]
pub struct Rules {
    stack: Vec<Gitignore>,
}

impl Rules {
    /// Rules from above `start`: those of the repository around it, or else those from the
    /// working directory down.
    #[must_use]
    pub fn above(start: &Path, judge: &Judge) -> Self {
        Self {
            stack: above(start, judge),
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Back to what held before a directory was entered.
    pub fn truncate(&mut self, len: usize) {
        self.stack.truncate(len);
    }

    /// Adds the rules that a directory's own files hold.
    pub fn enter(&mut self, directory: BorrowedFd<'_>, canonical: &Path) {
        self.stack.extend(rules_of(directory, canonical, &IGNORE_FILES));
    }

    #[must_use]
    pub fn leave_out(&self, canonical: &Path, is_directory: bool) -> bool {
        for rules in self.stack.iter().rev() {
            match rules.matched(canonical, is_directory) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// Names of ignore files; the later one wins.
pub const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// The repository's own list, which is weaker than any `.gitignore`.
const REPOSITORY_LIST: &str = ".git/info/exclude";

fn above(start: &Path, judge: &Judge) -> Vec<Gitignore> {
    let cwd = &judge.ground.cwd;
    let is_repository =
        |directory: &&Path| fstatat(AT_FDCWD, &directory.join(".git"), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    let repository = start.ancestors().find(is_repository);
    let Some(top) = repository.or_else(|| start.starts_with(cwd).then_some(cwd.as_path())) else {
        return Vec::new();
    };
    let mut above: Vec<&Path> = start
        .ancestors()
        .take_while(|directory| directory.starts_with(top))
        .collect();
    above.reverse();
    let mut stack = Vec::new();
    for directory in above {
        if admit::beneath(judge, directory).is_err() {
            continue;
        }
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        let Ok(open) = openat2(AT_FDCWD, directory, how) else {
            continue;
        };
        if Some(directory) == repository {
            stack.extend(rules_of(open.as_fd(), directory, &[REPOSITORY_LIST]));
        }
        // The start's own files come with its listing.
        if directory != start {
            stack.extend(rules_of(open.as_fd(), directory, &IGNORE_FILES));
        }
    }
    stack
}

fn rules_of(directory: BorrowedFd<'_>, canonical: &Path, files: &[&str]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(canonical);
    for file in files {
        for line in small_file(directory, file).unwrap_or_default().lines() {
            // A line that is no glob is ignored, as git does.
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
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
