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
/// The kernel's bound for one name.
const NAME_BYTES_MAX: usize = 255;

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
    /// Looks below each of `tops`, but not in `roots`, and tells it. Whoever waits for it may have
    /// ended by then.
    pub fn search(self, tops: &[&str], roots: &[PathBuf]) {
        let mut answer = Vec::new();
        for (path, is_directory) in tops.iter().flat_map(|top| of(Path::new(top), roots)) {
            answer.push(if is_directory { DIRECTORY } else { FILE });
            answer.extend(path.as_os_str().as_bytes());
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
    /// Others may not look in, so everything in it is for some users only.
    is_closed: bool,
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
            is_closed: false,
            names,
        })
    }
}

/// What others may not read below `top`: paths, and whether each is a directory. Roots are left out,
/// which the session has for its own: what commands made there would otherwise decide whether the
/// next session starts.
#[must_use]
pub fn of(top: &Path, roots: &[PathBuf]) -> Vec<(PathBuf, bool)> {
    let top = Level::open(None, top.to_path_buf());
    let found = top.into_iter().flat_map(|top| below(top, roots));
    found.map(|found| (found.path, found.is_directory)).collect()
}

fn below(top: Level, roots: &[PathBuf]) -> Vec<Unreadable> {
    let mut found = Vec::new();
    let mut seen = top.names.len();
    let mut open = vec![top];
    while let Some(level) = open.last_mut() {
        let Some(name) = level.names.pop() else {
            open.pop();
            continue;
        };
        let path = level.path.join(OsStr::from_bytes(name.to_bytes()));
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        let Ok(stat) = fstatat(level.directory.as_fd(), name.as_c_str(), flags) else {
            continue;
        };
        let (kind, mode) = (stat.st_mode & libc::S_IFMT, stat.st_mode);
        if roots.contains(&path) {
            continue;
        }
        if kind == libc::S_IFREG && (level.is_closed || mode & 0o004 == 0) {
            found.push(Unreadable {
                path,
                is_directory: false,
            });
        } else if kind == libc::S_IFDIR {
            let is_way = roots.iter().any(|root| root.starts_with(&path));
            let readable = !level.is_closed && mode & 0o005 == 0o005;
            // Every name in it still makes a path that can be covered.
            let fits = path.as_os_str().len() < libc::PATH_MAX as usize - NAME_BYTES_MAX - 2;
            let inside = (is_way || readable && fits && seen < ENTRIES_MAX)
                .then(|| Level::open(Some(&level.directory), path.clone()))
                .flatten();
            match inside {
                Some(mut inside) if is_way || open.len() < DEPTH_MAX => {
                    seen += inside.names.len();
                    inside.is_closed = !readable;
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
        make("closed/root/", 0o755);
        make("closed/root/own", 0o600);
        make("closed/beside/", 0o755);
        let check = |roots: &[PathBuf], expected: &[&str]| {
            let mut names: Vec<PathBuf> = of(root.path(), roots).into_iter().map(|u| u.0).collect();
            names.sort();
            let expected: Vec<PathBuf> = expected.iter().map(|name| root.path().join(name)).collect();
            assert_eq!(names, expected);
        };
        check(&[], &["closed", "open/key"]);
        // The root is left out; what stands around it is not.
        check(&[root.path().join("closed/root")], &["closed/beside", "open/key"]);
        check(&[root.path().join("open")], &["closed"]);
    }

    #[test]
    fn a_path_that_is_too_long_is_covered_from_above() {
        use nix::sys::stat::mkdirat;
        let root = tempfile::tempdir().unwrap();
        let name = "n".repeat(203);
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY;
        let mut inside = nix::fcntl::open(root.path(), flags, Mode::empty()).unwrap();
        for _ in 0..30 {
            mkdirat(&inside, name.as_str(), Mode::from_bits_truncate(0o755)).unwrap();
            inside = nix::fcntl::openat(&inside, name.as_str(), flags, Mode::empty()).unwrap();
        }
        let found = of(root.path(), &[]);
        assert_eq!(found.len(), 1);
        let (path, is_directory) = &found[0];
        let length = path.as_os_str().len();
        assert!(*is_directory && length < libc::PATH_MAX as usize, "{length}");
    }
}
