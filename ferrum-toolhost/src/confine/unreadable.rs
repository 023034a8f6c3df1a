//! uid 0 reads system files as their owner, with no capability at all. Finds what others may not
//! read, so that it can be covered.
//!
//! The search runs beside the building of the view and touches only descriptors, so it does not
//! care that the root changes under it.

use super::cover::cover;
use super::step::Step;
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, fstatat};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Entries that one search looks at. What lies deeper is covered whole.
const ENTRIES_MAX: usize = 20_000;
/// Directories that are open at once.
const DEPTH_MAX: usize = 32;

/// A search under way.
pub struct Search(JoinHandle<Vec<Unreadable>>);

struct Unreadable {
    path: PathBuf,
    is_directory: bool,
}

/// Starts looking below each of `tops`, which are opened before this returns.
///
/// # Errors
/// No thread is to be had.
pub fn search(tops: &[&str]) -> Result<Search, Step> {
    let opened: Vec<Level> = tops
        .iter()
        .filter_map(|top| Level::open(None, top.into()))
        .collect();
    let work = move || {
        // A table of descriptors that two threads share grows only after a grace period of the
        // kernel. Where it stays shared the search is slower, no more.
        let _ = unshare(CloneFlags::CLONE_FILES);
        opened.into_iter().flat_map(below).collect()
    };
    std::thread::Builder::new()
        .spawn(work)
        .map(Search)
        .map_err(|source| step("look for unreadable system files", source))
}

impl Search {
    /// Waits for the end of the search and covers what it found.
    ///
    /// # Errors
    /// [`Step`].
    pub fn cover(self) -> Result<(), Step> {
        let found = self
            .0
            .join()
            .map_err(|_| step("look for unreadable system files", io::Error::other("a panic")))?;
        found
            .iter()
            .try_for_each(|one| cover(&one.path, one.is_directory))
    }
}

fn step(what: &str, source: io::Error) -> Step {
    Step {
        what: what.into(),
        source,
    }
}

/// A directory that is being looked through.
struct Level {
    path: PathBuf,
    directory: Dir,
    /// Entries that are still to be looked at.
    names: Vec<CString>,
}

impl Level {
    /// Opens a directory, below `parent` where there is one, and reads its names.
    fn open(parent: Option<&Dir>, path: PathBuf) -> Option<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let mut directory = match parent {
            Some(parent) => Dir::openat(parent.as_fd(), path.file_name()?, flags, Mode::empty()),
            None => Dir::open(&path, flags, Mode::empty()),
        }
        .ok()?;
        let mut names = Vec::new();
        for entry in directory.iter().flatten() {
            let is_itself = matches!(entry.file_name().to_bytes(), b"." | b"..");
            if !is_itself && entry.file_type() != Some(Type::Symlink) {
                names.push(entry.file_name().to_owned());
            }
        }
        Some(Self {
            path,
            directory,
            names,
        })
    }
}

fn below(top: Level) -> Vec<Unreadable> {
    let mut found = Vec::new();
    let mut seen = top.names.len();
    let mut open = vec![top];
    while let Some(level) = open.last_mut() {
        let Some(name) = level.names.pop() else {
            open.pop();
            continue;
        };
        let Ok(stat) = fstatat(
            level.directory.as_fd(),
            name.as_c_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        ) else {
            continue;
        };
        let (kind, mode) = (stat.st_mode & libc::S_IFMT, stat.st_mode);
        let path = level.path.join(OsStr::from_bytes(name.to_bytes()));
        if kind == libc::S_IFREG && mode & 0o004 == 0 {
            found.push(Unreadable {
                path,
                is_directory: false,
            });
        } else if kind == libc::S_IFDIR {
            let readable = mode & 0o005 == 0o005;
            let inside = (readable && seen < ENTRIES_MAX)
                .then(|| Level::open(Some(&level.directory), path.clone()))
                .flatten();
            match inside {
                Some(inside) if open.len() < DEPTH_MAX => {
                    seen += inside.names.len();
                    open.push(inside);
                }
                _ => found.push(Unreadable {
                    path,
                    is_directory: true,
                }),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn closed_files_and_directories_are_found_and_open_ones_are_not() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = root.path().join(name);
            if name.ends_with('/') {
                fs::create_dir(&path).unwrap();
            } else {
                fs::write(&path, "x").unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make("open/", 0o755);
        make("open/key", 0o640);
        make("open/text", 0o644);
        make("closed/", 0o750);
        let mut names: Vec<PathBuf> = below(Level::open(None, root.path().into()).unwrap())
            .into_iter()
            .map(|u| u.path)
            .collect();
        names.sort();
        assert_eq!(names, [root.path().join("closed"), root.path().join("open/key")]);
    }
}
