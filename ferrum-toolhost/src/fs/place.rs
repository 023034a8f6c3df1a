//! Where a file is to be written: the opened directory, what is missing on the way, the name.
//!
//! Nothing is made before the verdict. A link in the last component is a fact for policy and is
//! never followed; a link to nowhere on the way is an error.

use crate::from_wire::PathText;
use crate::fs::FsError;
use crate::fs::resolve::{Base, canonical, expand, kind_of, open_path};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use policy::Target;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

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
                return Err(FsError::change_in(
                    self.directory(),
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
