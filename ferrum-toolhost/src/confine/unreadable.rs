//! uid 0 reads system files as their owner, with no capability at all; and whoever may write a
//! socket reaches who listens. Finds what others may not read, and sockets, so that they can be
//! covered.
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

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Sockets: somebody outside may listen, and a read-only mount does not keep anyone from
    /// connecting.
    Sockets,
    /// Sockets, and what others may not read.
    All,
}

/// Where the searcher tells what it found.
pub struct Searcher(OwnedFd);

/// Where that arrives.
pub struct Search(OwnedFd);

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
    /// Looks below each of `tops`, but not at `own`, and tells it. Whoever waits for it may have
    /// ended by then.
    pub fn search(self, tops: &[(&str, Wanted)], own: &[PathBuf]) {
        let mut answer = Vec::new();
        let found = tops
            .iter()
            .flat_map(|(top, wanted)| of(Path::new(top), own, *wanted));
        for (path, is_directory) in found {
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
            .map(|(kind, path)| cover(Path::new(OsStr::from_bytes(path)), *kind == DIRECTORY))
            // What its owner has just removed needs no cover.
            .find(|done| matches!(done, Err(step) if step.source.kind() != io::ErrorKind::NotFound))
            .unwrap_or(Ok(()))
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
    /// Opens a directory, below `parent` where there is one, and reads the names that matter.
    fn open(parent: Option<&Dir>, path: PathBuf, wanted: Wanted) -> Option<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let mut directory = match parent {
            Some(parent) => Dir::openat(parent.as_fd(), path.file_name()?, flags, Mode::empty()),
            None => Dir::open(&path, flags, Mode::empty()),
        }
        .ok()?;
        let mut names = Vec::new();
        for entry in directory.iter().flatten() {
            let is_itself = matches!(entry.file_name().to_bytes(), b"." | b"..");
            let matters = match entry.file_type() {
                Some(Type::Symlink) => false,
                Some(Type::File) => wanted == Wanted::All,
                _ => true,
            };
            if !is_itself && matters {
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

/// What is wanted below `top`: paths, and whether each is a directory. What is the session's own is
/// left out: what commands made there would otherwise decide whether the next session starts.
#[must_use]
pub fn of(top: &Path, own: &[PathBuf], wanted: Wanted) -> Vec<(PathBuf, bool)> {
    let Some(level) = Level::open(None, top.to_path_buf(), wanted) else {
        return Vec::new();
    };
    let mut walk = Walk {
        own,
        wanted,
        seen: level.names.len(),
        open: vec![level],
        found: Vec::new(),
    };
    while walk.step().is_some() {}
    walk.found
}

struct Walk<'a> {
    own: &'a [PathBuf],
    wanted: Wanted,
    seen: usize,
    open: Vec<Level>,
    found: Vec<(PathBuf, bool)>,
}

impl Walk<'_> {
    fn step(&mut self) -> Option<()> {
        let level = self.open.last_mut()?;
        let Some(name) = level.names.pop() else {
            self.open.pop();
            return Some(());
        };
        let path = level.path.join(OsStr::from_bytes(name.to_bytes()));
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        let Ok(stat) = fstatat(level.directory.as_fd(), name.as_c_str(), flags) else {
            return Some(());
        };
        if self.own.contains(&path) {
            return Some(());
        }
        let is_closed = level.is_closed;
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFSOCK => self.found.push((path, false)),
            libc::S_IFREG if is_closed || stat.st_mode & 0o004 == 0 => self.unreadable(path, false),
            libc::S_IFDIR => self.directory(path, !is_closed && stat.st_mode & 0o005 == 0o005),
            _ => {}
        }
        Some(())
    }

    fn directory(&mut self, path: PathBuf, is_readable: bool) {
        let is_way = self.own.iter().any(|own| own.starts_with(&path));
        // Every name in it still makes a path that can be covered.
        let fits = path.as_os_str().len() < libc::PATH_MAX as usize - NAME_BYTES_MAX - 2;
        let is_small = fits && self.seen < ENTRIES_MAX && self.open.len() < DEPTH_MAX;
        let enter = is_way || is_small && (is_readable || self.wanted == Wanted::Sockets);
        let parent = self.open.last().filter(|_| enter).map(|level| &level.directory);
        match parent.and_then(|parent| Level::open(Some(parent), path.clone(), self.wanted)) {
            Some(mut inside) => {
                self.seen += inside.names.len();
                inside.is_closed = !is_readable;
                self.open.push(inside);
            }
            None => self.unreadable(path, true),
        }
    }

    fn unreadable(&mut self, path: PathBuf, is_directory: bool) {
        if self.wanted == Wanted::All {
            self.found.push((path, is_directory));
        }
    }
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
        let socket = root.path().join("open/socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(of(root.path(), &[], Wanted::Sockets), [(socket.clone(), false)]);
        assert!(of(root.path(), std::slice::from_ref(&socket), Wanted::Sockets).is_empty());
        fs::remove_file(socket).unwrap();
        make("closed/root/", 0o755);
        make("closed/root/own", 0o600);
        make("closed/beside/", 0o755);
        let check = |roots: &[PathBuf], expected: &[&str]| {
            let mut names: Vec<PathBuf> = of(root.path(), roots, Wanted::All)
                .into_iter()
                .map(|u| u.0)
                .collect();
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
        let found = of(root.path(), &[], Wanted::All);
        assert_eq!(found.len(), 1);
        let (path, is_directory) = &found[0];
        let length = path.as_os_str().len();
        assert!(*is_directory && length < libc::PATH_MAX as usize, "{length}");
    }
}
