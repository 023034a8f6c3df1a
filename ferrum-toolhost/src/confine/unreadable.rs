//! uid 0 reads system files as their owner, with no capability at all. Finds what others may not
//! read, so that it can be covered.
//!
//! The outer half of the host searches while the inner one builds the view.

use super::cover::cover;
use super::step::{At, Step};
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::pipe2;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries that one search looks at. What lies deeper is covered whole.
const ENTRIES_MAX: usize = 20_000;
/// Directories that are open at once.
const DEPTH_MAX: usize = 32;

const WHAT: &str = "look for unreadable system files";
/// How a line of the answer begins, and how the answer ends when it is whole.
const FILE: u8 = b'f';
const DIRECTORY: u8 = b'd';
const WHOLE: &[u8] = b".";

/// Where the searcher tells what it found.
pub struct Searcher(OwnedFd);

/// Where that arrives.
pub struct Search(OwnedFd);

struct Unreadable {
    path: PathBuf,
    is_directory: bool,
}

/// The two ends, for two processes. A process that keeps the end that is not its own makes the
/// other one wait for ever.
///
/// # Errors
/// No descriptor is to be had.
pub fn ends() -> Result<(Searcher, Search), Step> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).at(WHAT)?;
    Ok((Searcher(write), Search(read)))
}

impl Searcher {
    /// Looks below each of `tops` and tells it. Whoever waits for it may have ended by then.
    pub fn search(self, tops: &[&str]) {
        let mut answer = Vec::new();
        let levels = tops.iter().filter_map(|top| Level::open(None, top.into()));
        for found in levels.flat_map(below) {
            answer.push(if found.is_directory { DIRECTORY } else { FILE });
            answer.extend(found.path.as_os_str().as_bytes());
            answer.push(0);
        }
        answer.extend(WHOLE);
        let _ = File::from(self.0).write_all(&answer);
    }
}

impl Search {
    /// Waits for the end of the search and covers what it found.
    ///
    /// # Errors
    /// [`Step`].
    pub fn cover(self) -> Result<(), Step> {
        let mut answer = Vec::new();
        File::from(self.0).read_to_end(&mut answer).at(WHAT)?;
        let mut lines = answer.split(|byte| *byte == 0);
        if lines.next_back() != Some(WHOLE) {
            return Err(Step::new(WHAT, io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        lines
            .filter_map(<[u8]>::split_first)
            .try_for_each(|(kind, path)| cover(Path::new(OsStr::from_bytes(path)), *kind == DIRECTORY))
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
