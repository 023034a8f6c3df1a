//! Path text → opened objects, with the facts that policy judges.
//!
//! The kernel resolves every path, from a descriptor, without magic links; what came out is then
//! asked for its canonical name. No decision rests on the text of a path, and a path that does
//! not resolve is an error, never a guess.

use crate::from_wire::PathText;
use crate::fs::{FsError, Wall};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2, readlink};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use policy::Ground;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Where paths start: the session's working directory, and what `~` means.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    pub cwd: BorrowedFd<'a>,
    pub ground: &'a Ground,
}

/// What tells one file from another and one state of it from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub size: i64,
    pub modified: (i64, i64),
    /// The kernel sets it at every change, also where the time of modification was put back.
    pub changed: (i64, i64),
}

impl Identity {
    #[must_use]
    pub fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The same file with the same content, though a rename may have touched it.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode) && self.same_state(other)
    }

    /// The same size and time of modification, of whatever file.
    #[must_use]
    pub fn same_state(&self, other: &Self) -> bool {
        (self.size, self.modified) == (other.size, other.modified)
    }
}

/// An object that exists. It was found, not opened: nothing was read and no device was touched.
#[derive(Debug)]
pub struct Found {
    handle: OwnedFd,
    stat: FileStat,
    canonical: PathBuf,
    asked: PathBuf,
}

impl Found {
    #[must_use]
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// The path as the model wrote it, `~` expanded; for messages and results.
    #[must_use]
    pub fn asked(&self) -> &Path {
        &self.asked
    }

    #[must_use]
    pub fn is_directory(&self) -> bool {
        kind_of(&self.stat) == SFlag::S_IFDIR
    }

    /// Opens a regular file for reading, never blocking.
    ///
    /// # Errors
    /// Anything but a regular file; a file that is no longer the one that was found.
    pub fn open_file(&self) -> Result<File, FsError> {
        if kind_of(&self.stat) != SFlag::S_IFREG {
            let found = kind_name(&self.stat);
            return Err(FsError::Kind {
                path: self.asked.clone(),
                found,
                wanted: "a regular file",
            });
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).resolve(plain_links());
        let file = openat2(AT_FDCWD, &self.canonical, how).map_err(|errno| self.refused("open", errno))?;
        let now = fstat(&file).map_err(|errno| FsError::system("stat", &self.asked, errno))?;
        if (now.st_dev, now.st_ino) != (self.stat.st_dev, self.stat.st_ino) {
            return Err(FsError::Changed {
                path: self.asked.clone(),
            });
        }
        Ok(File::from(file))
    }

    /// Opens a directory for listing and as the base of further opens.
    ///
    /// # Errors
    /// Anything but a directory; no permission.
    pub fn open_directory(&self) -> Result<OwnedFd, FsError> {
        if !self.is_directory() {
            let found = kind_name(&self.stat);
            return Err(FsError::Kind {
                path: self.asked.clone(),
                found,
                wanted: "a directory",
            });
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        openat(&self.handle, ".", flags, Mode::empty()).map_err(|errno| self.refused("open", errno))
    }

    /// A wall is named only where the file's own permissions would have let us in.
    fn refused(&self, operation: &'static str, errno: Errno) -> FsError {
        let wall = (errno == Errno::EACCES && readable_by_mode(&self.stat)).then_some(Wall::Read);
        FsError::System {
            operation,
            path: self.asked.clone(),
            errno,
            wall,
        }
    }
}

/// Finds an object that must exist, following ordinary links.
///
/// # Errors
/// A path that does not resolve; a place that the view hides is marked as such.
pub fn existing(base: &Base<'_>, text: &PathText) -> Result<Found, FsError> {
    let asked = expand(base.ground, text);
    let handle = open_path(base.cwd, &asked, OFlag::empty()).map_err(|errno| {
        let hidden = errno == Errno::ENOENT && is_outside_view(base.ground, &asked);
        let wall = hidden.then_some(Wall::Hidden);
        FsError::System {
            operation: "open",
            path: asked.clone(),
            errno,
            wall,
        }
    })?;
    let stat = fstat(&handle).map_err(|errno| FsError::system("stat", &asked, errno))?;
    let canonical = canonical(base, handle.as_fd(), &stat, &asked)?;
    Ok(Found {
        handle,
        stat,
        canonical,
        asked,
    })
}

/// `~` and `~/…` mean the home directory that commands see, as users expect; `~name` is a name.
pub(crate) fn expand(ground: &Ground, text: &PathText) -> PathBuf {
    match text.as_str().strip_prefix('~') {
        Some("") => ground.home.clone(),
        // Not `join`, which drops a slash at the end.
        Some(rest) if rest.starts_with('/') => {
            let mut whole = ground.home.clone().into_os_string();
            whole.push(rest);
            whole.into()
        }
        _ => PathBuf::from(text.as_str()),
    }
}

fn plain_links() -> ResolveFlag {
    ResolveFlag::RESOLVE_NO_MAGICLINKS
}

pub(crate) fn open_path(cwd: BorrowedFd<'_>, path: &Path, extra: OFlag) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | extra;
    openat2(cwd, path, OpenHow::new().flags(flags).resolve(plain_links()))
}

/// The canonical path of an open object: the kernel's own answer, or, without `/proc`, a
/// resolution that is proven to lead to the same object.
pub(crate) fn canonical(
    base: &Base<'_>,
    handle: BorrowedFd<'_>,
    stat: &FileStat,
    asked: &Path,
) -> Result<PathBuf, FsError> {
    let path = match readlink(format!("/proc/self/fd/{}", handle.as_raw_fd()).as_str()) {
        Ok(path) => PathBuf::from(path),
        Err(_) => base
            .ground
            .cwd
            .join(asked)
            .canonicalize()
            .map_err(|error| FsError::system("resolve", asked, errno_of(&error)))?,
    };
    if stat.st_nlink == 0 && path.as_os_str().as_bytes().ends_with(b" (deleted)") {
        return Err(FsError::other(asked, "it was removed while it was being opened"));
    }
    let again = openat2(
        AT_FDCWD,
        &path,
        OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_SYMLINKS),
    );
    let same = again
        .and_then(fstat)
        .is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino));
    if path.is_absolute() && same {
        Ok(path)
    } else {
        Err(FsError::other(
            asked,
            "its real path changed while it was being opened",
        ))
    }
}

/// The system's own error number behind an I/O error.
#[must_use]
pub fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Places that exist on nearly every machine and that a view leaves out.
fn is_outside_view(ground: &Ground, asked: &Path) -> bool {
    // Without a home of its own the session has no view that could hide anything.
    if !ground.private.contains(&ground.home) {
        return false;
    }
    const LEFT_OUT: [&str; 9] = [
        "/home", "/root", "/run", "/var", "/mnt", "/media", "/srv", "/boot", "/sys",
    ];
    let granted = ground
        .writable
        .iter()
        .chain(&ground.readable)
        .chain(&ground.private);
    LEFT_OUT.iter().any(|place| asked.starts_with(place))
        && !granted
            .chain([&ground.cwd, &ground.home])
            .any(|root| asked.starts_with(root))
}

pub(crate) fn readable_by_mode(stat: &FileStat) -> bool {
    let owner = stat.st_uid == nix::unistd::geteuid().as_raw();
    let group = stat.st_gid == nix::unistd::getegid().as_raw();
    let bit = if owner {
        0o400
    } else if group {
        0o040
    } else {
        0o004
    };
    stat.st_mode & bit != 0
}

/// The file type of a stat.
#[must_use]
pub fn kind_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// The file type in words.
#[must_use]
pub fn kind_name(stat: &FileStat) -> &'static str {
    match kind_of(stat) {
        SFlag::S_IFREG => "a regular file",
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFLNK => "a symbolic link",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    }
}
