//! Path text → opened objects, with the facts that policy judges.
//!
//! The kernel resolves every path, from a descriptor, without magic links; what came out is then
//! asked for its canonical name. No decision rests on the text of a path, and a path that does
//! not resolve is an error, never a guess.

use crate::from_wire::PathText;
use crate::fs::{FsError, Wall};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlink};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use policy::{Ground, Target};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

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
        Self {
            changed: other.changed,
            ..*self
        } == *other
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

/// A place for a file: the nearest existing directory, what is missing below it, the name.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    missing: Vec<OsString>,
    name: OsString,
    canonical: PathBuf,
    asked: PathBuf,
    target: Target,
}

impl Place {
    #[must_use]
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    #[must_use]
    pub fn asked(&self) -> &Path {
        &self.asked
    }

    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Makes the missing directories and opens the last one.
    ///
    /// # Errors
    /// A directory that cannot be made or opened; those that were made are removed again.
    pub fn into_parent(self) -> Result<Parent, FsError> {
        let mut parent = Parent {
            chain: vec![self.directory],
            made: Vec::new(),
            name: self.name,
            asked: self.asked,
        };
        for name in self.missing {
            if let Err(error) = parent.descend(&name) {
                parent.undo();
                return Err(error);
            }
        }
        Ok(parent)
    }
}

/// The directory of a file that is about to be written.
#[derive(Debug)]
pub struct Parent {
    /// The existing directory and each one below it down to the parent; never empty.
    chain: Vec<OwnedFd>,
    /// Names of those that we made, each within the directory of the same index.
    made: Vec<Option<OsString>>,
    name: OsString,
    asked: PathBuf,
}

impl Parent {
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.chain
            .last()
            .expect("the chain starts with the existing directory")
            .as_fd()
    }

    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    #[must_use]
    pub fn asked(&self) -> &Path {
        &self.asked
    }

    /// Removes what [`Place::into_parent`] made, as far as it is still empty.
    pub fn undo(mut self) {
        while let Some(made) = self.made.pop() {
            self.chain.pop();
            if let Some(name) = made {
                // Somebody else may use it by now; then it stays.
                let _ = unlinkat(self.directory(), name.as_os_str(), UnlinkatFlags::RemoveDir);
            }
        }
    }

    fn descend(&mut self, name: &OsStr) -> Result<(), FsError> {
        let made = match mkdirat(self.directory(), name, Mode::from_bits_truncate(0o777)) {
            Ok(()) => Some(name.to_os_string()),
            // Another call made it just now.
            Err(Errno::EEXIST) => None,
            Err(errno) => {
                return Err(FsError::mutation(
                    "create the parent directory of",
                    &self.asked,
                    errno,
                ));
            }
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let next = openat(self.directory(), name, flags, Mode::empty())
            .map_err(|errno| FsError::system("open the parent directory of", &self.asked, errno))?;
        if made.is_some() {
            sync_directory(self.directory())
                .map_err(|errno| FsError::system("sync the parent directory of", &self.asked, errno))?;
        }
        self.made.push(made);
        self.chain.push(next);
        Ok(())
    }
}

/// Finds the place of a file that may or may not exist. A link in the last component is not
/// followed: it is the fact [`Target::Symlink`].
///
/// # Errors
/// A path that names no file, whose directories do not resolve, or that leads through a link to
/// nowhere.
pub fn place(base: &Base<'_>, text: &PathText) -> Result<Place, FsError> {
    let asked = expand(base.ground, text);
    let bytes = asked.as_os_str().as_bytes();
    if bytes.ends_with(b"/") {
        return Err(FsError::other(
            &asked,
            "the path ends in '/' and so names a directory, not a file",
        ));
    }
    let split = bytes
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    let (before, name) = bytes.split_at(split);
    if matches!(name, b"" | b"." | b"..") {
        return Err(FsError::other(&asked, "the path names a directory, not a file"));
    }
    let name = OsString::from_vec(name.to_vec());
    let before = if before.is_empty() {
        Path::new(".")
    } else {
        Path::new(OsStr::from_bytes(before))
    };
    let (directory, missing) = nearest(base, before, &asked)?;
    let stat = fstat(&directory).map_err(|errno| FsError::system("stat", &asked, errno))?;
    let mut canonical = canonical(base, directory.as_fd(), &stat, before)?;
    canonical.extend(&missing);
    canonical.push(&name);
    let target = if missing.is_empty() {
        target(directory.as_fd(), &name, &asked)?
    } else {
        Target::Absent
    };
    Ok(Place {
        directory,
        missing,
        name,
        canonical,
        asked,
        target,
    })
}

/// Makes changed names of a directory durable. A directory that may be searched and written but
/// not read cannot be opened for it; then the file system's own order is all there is.
pub(crate) fn sync_directory(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    match openat(directory, ".", flags, Mode::empty()) {
        Ok(open) => match fsync(open) {
            // Some network and user-space file systems have nothing to sync.
            Err(Errno::EINVAL | Errno::ENOSYS) => Ok(()),
            other => other,
        },
        Err(Errno::EACCES) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The nearest existing directory of `path`, and the names that are missing below it.
fn nearest(base: &Base<'_>, path: &Path, asked: &Path) -> Result<(OwnedFd, Vec<OsString>), FsError> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut components: Vec<Component<'_>> = path.components().collect();
    loop {
        let mut here: PathBuf = components.iter().collect();
        if here.as_os_str().is_empty() {
            here.push(".");
        }
        match open_path(base.cwd, &here, OFlag::O_DIRECTORY) {
            Ok(directory) => {
                if let Some(first) = missing.last() {
                    is_free(directory.as_fd(), first, asked)?;
                }
                missing.reverse();
                return Ok((directory, missing));
            }
            Err(Errno::ENOENT) => match components.pop() {
                Some(Component::Normal(name)) => missing.push(name.to_os_string()),
                Some(Component::ParentDir) => {
                    return Err(FsError::other(
                        asked,
                        "'..' follows a directory that does not exist",
                    ));
                }
                Some(Component::CurDir) => {}
                Some(Component::RootDir | Component::Prefix(_)) | None => {
                    return Err(FsError::system(
                        "open the parent directory of",
                        asked,
                        Errno::ENOENT,
                    ));
                }
            },
            Err(errno) => return Err(FsError::system("open the parent directory of", asked, errno)),
        }
    }
}

/// A name that does not open may still be there, as a link to nowhere.
fn is_free(directory: BorrowedFd<'_>, name: &OsStr, asked: &Path) -> Result<(), FsError> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(FsError::system("look at the parent directory of", asked, errno)),
        Ok(stat) if kind_of(&stat) == SFlag::S_IFLNK => Err(FsError::other(
            asked,
            "the path leads through a symbolic link to nowhere",
        )),
        // Somebody made it just now; the descent opens it or says why not.
        Ok(_) => Ok(()),
    }
}

fn target(directory: BorrowedFd<'_>, name: &OsStr, asked: &Path) -> Result<Target, FsError> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(Target::Absent),
        Err(errno) => Err(FsError::system("stat", asked, errno)),
        Ok(stat) => Ok(match kind_of(&stat) {
            SFlag::S_IFREG => Target::File { links: stat.st_nlink },
            SFlag::S_IFDIR => Target::Directory,
            SFlag::S_IFLNK => Target::Symlink,
            _ => Target::Special,
        }),
    }
}

/// `~` and `~/…` mean the home directory that commands see, as users expect; `~name` is a name.
fn expand(ground: &Ground, text: &PathText) -> PathBuf {
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

fn open_path(cwd: BorrowedFd<'_>, path: &Path, extra: OFlag) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | extra;
    openat2(cwd, path, OpenHow::new().flags(flags).resolve(plain_links()))
}

/// The canonical path of an open object: the kernel's own answer, or, without `/proc`, a
/// resolution that is proven to lead to the same object.
fn canonical(
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

fn readable_by_mode(stat: &FileStat) -> bool {
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
