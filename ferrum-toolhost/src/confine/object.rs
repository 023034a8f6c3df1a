//! Objects of the machine, told apart by what they are and not by what they are called.
//!
//! Whoever writes in a directory can put a link, or another directory, in the place of a name
//! between two looks at it. So a path of the view is opened once, by names that are no links, and
//! what was opened is what is judged, mounted and allowed.

use crate::fs::path::names_backwards;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, fstat, stat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// As many links as the kernel follows in one path.
const LINKS_MAX: usize = 40;

/// Which object it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    device: u64,
    inode: u64,
}

impl Object {
    /// What stands at a path without links.
    ///
    /// # Errors
    /// The system's; `ELOOP` where a component is a link.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(open_plain(AT_FDCWD, path)?.as_fd())
    }

    /// # Errors
    /// The system's.
    pub fn of(opened: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::from(&fstat(opened)?))
    }

    /// The working directory of this process, whatever its name leads to by now.
    ///
    /// # Errors
    /// The system's.
    pub fn working_directory() -> io::Result<Self> {
        Ok(Self::from(&stat(".")?))
    }

    /// # Errors
    /// Where `opened` is another object, and the system's.
    pub fn expect(self, opened: BorrowedFd<'_>) -> io::Result<()> {
        if Self::of(opened)? == self {
            return Ok(());
        }
        Err(exchanged())
    }
}

/// What is told of a place at which something else stands by now.
#[must_use]
pub fn exchanged() -> io::Error {
    io::Error::other("something else has this name than when the session began; start again")
}

impl From<&FileStat> for Object {
    fn from(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// Opens a path in which no component is a link, for its place only.
///
/// # Errors
/// The system's; `ELOOP` where a component is a link.
pub fn open_plain(base: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(base, path, how)?)
}

/// True where a component is a link.
#[must_use]
pub fn is_link_on_the_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ELOOP as i32)
}

/// Where an absolute path leads when the links before its last component are followed. None where
/// one of them lies in `written`: whoever writes there could lead it anywhere.
#[must_use]
pub fn real(path: &Path, written: &[PathBuf]) -> Option<PathBuf> {
    let is_written = |path: &Path| written.iter().any(|root| path.starts_with(root));
    let mut result = PathBuf::from("/");
    let mut rest = names_backwards(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            result.pop();
            continue;
        }
        result.push(name);
        if rest.is_empty() {
            break;
        }
        let Ok(target) = std::fs::read_link(&result) else {
            continue;
        };
        links += 1;
        if links > LINKS_MAX || is_written(&result) {
            return None;
        }
        result.pop();
        if target.is_absolute() {
            result = PathBuf::from("/");
        }
        rest.extend(names_backwards(&target));
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        for name in ["root/sub", "ssh/bin", "home"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        (place, path)
    }

    #[test]
    fn a_root_that_was_exchanged_after_judging_is_refused() {
        let (_keep, place) = place();
        let sub = place.join("root/sub");
        let judged = Object::at(&sub).unwrap();
        assert!(judged.expect(open_plain(AT_FDCWD, &sub).unwrap().as_fd()).is_ok());
        fs::rename(&sub, place.join("root/old")).unwrap();
        symlink("../ssh", &sub).unwrap();
        assert!(is_link_on_the_way(&open_plain(AT_FDCWD, &sub).unwrap_err()));
        assert!(is_link_on_the_way(
            &open_plain(AT_FDCWD, &sub.join("bin")).unwrap_err()
        ));
        fs::remove_file(&sub).unwrap();
        fs::create_dir(&sub).unwrap();
        assert!(
            judged
                .expect(open_plain(AT_FDCWD, &sub).unwrap().as_fd())
                .is_err()
        );
    }

    #[test]
    fn links_are_followed_where_no_session_writes() {
        let (_keep, place) = place();
        let written = [place.join("root")];
        symlink("../ssh", place.join("home/own")).unwrap();
        symlink("../root/link", place.join("home/through")).unwrap();
        symlink("../ssh", place.join("root/link")).unwrap();
        let check = |path: &str| real(&place.join(path), &written);
        assert_eq!(check("home/own/bin"), Some(place.join("ssh/bin")));
        assert_eq!(check("home/own"), Some(place.join("home/own")));
        assert_eq!(check("home/through/bin"), None);
        assert_eq!(check("root/link/bin"), None);
        assert_eq!(check("root/sub"), Some(place.join("root/sub")));
    }
}
