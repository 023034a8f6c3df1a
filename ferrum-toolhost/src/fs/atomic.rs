//! Replaces or creates one file so that at every instant the old or the new one is whole.
//!
//! The new content goes to a file without a name (`O_TMPFILE`) in the same directory, is synced,
//! and gets its name at the end. A new file is linked directly. For a replacement it is linked
//! under a hidden sibling name and exchanged with the target in one step; what came out is then
//! compared with what was read, and put back if it is something else. A kill between the two
//! steps can leave the sibling; it is unlocked then, so the next write in that directory and
//! [`sweep`] know it for a leftover. Process ids would say nothing: every host is process 1.
//!
//! Never follows a link, never writes into the old file, never leaves another owner, mode or
//! access list on it.

use crate::fs::FsError;
use crate::fs::place::{Parent, sync_directory};
use crate::fs::resolve::{Identity, errno_of, kind_name, kind_of};
use crate::sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, OpenHow, RenameFlags, ResolveFlag, openat, openat2, renameat,
    renameat2,
};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, fstatfs};
use nix::unistd::{AccessFlags, Gid, Uid, UnlinkatFlags, access, faccessat, fchown, linkat, unlinkat};
use policy::Target;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// The one sibling name of every directory. Whoever lists names for people may leave it out.
pub const SIBLING: &str = ".ferrum-new.tmp";

/// How often and how long to wait for another session that uses the name; it has it for some
/// hundred microseconds at a time.
const SIBLING_TRIES: u32 = 50;
const SIBLING_PAUSE: Duration = Duration::from_millis(2);

/// The file that is to be replaced, as it was opened.
#[derive(Debug)]
pub struct Old {
    file: File,
    stat: FileStat,
}

impl Old {
    /// Opens the file at the place, which must be the kind of file that was judged.
    ///
    /// # Errors
    /// No regular file, another number of links than judged, or no permission to change it.
    pub fn open(parent: &Parent, judged: Target) -> Result<Option<Self>, FsError> {
        if parent.name() == SIBLING {
            return Err(FsError::other(
                parent.asked(),
                "this name is reserved for files that are being written",
            ));
        }
        let Target::File { links } = judged else {
            return match judged {
                Target::Absent => Ok(None),
                Target::Directory => Err(not_regular(parent.asked(), "a directory")),
                Target::Symlink => Err(not_regular(parent.asked(), "a symbolic link")),
                Target::Special | Target::File { .. } => {
                    Err(not_regular(parent.asked(), "a FIFO, socket or device"))
                }
            };
        };
        let asked = parent.asked();
        let eaccess = AtFlags::AT_EACCESS | AtFlags::AT_SYMLINK_NOFOLLOW;
        faccessat(parent.directory(), parent.name(), AccessFlags::W_OK, eaccess).map_err(
            |errno| match errno {
                Errno::EROFS => FsError::change_in(parent.directory(), "change", asked, errno),
                _ => FsError::system("change", asked, errno),
            },
        )?;
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
        let file = openat(
            parent.directory(),
            parent.name(),
            flags | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| FsError::system("open", asked, errno))?;
        let stat = fstat(&file).map_err(|errno| FsError::system("stat", asked, errno))?;
        if kind_of(&stat) != SFlag::S_IFREG {
            return Err(not_regular(asked, kind_name(&stat)));
        }
        if stat.st_nlink != links {
            return Err(FsError::Changed {
                path: asked.to_path_buf(),
            });
        }
        Ok(Some(Self {
            file: File::from(file),
            stat,
        }))
    }

    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

fn not_regular(path: &Path, found: &'static str) -> FsError {
    FsError::Kind {
        path: path.to_path_buf(),
        found,
        wanted: "a regular file",
    }
}

/// Writes `content`, the parts one after the other, as the whole file.
///
/// # Errors
/// The step that failed, with the system's error; [`FsError::Changed`] when the file at the place
/// is not `old` any more (or, without `old`, when there is one by now). Nothing has changed then,
/// except after a failed sync of the directory: that comes last.
pub fn commit(parent: &Parent, old: Option<&Old>, content: &[&[u8]]) -> Result<(), FsError> {
    let asked = parent.asked();
    let staged = Staged::new(parent, old.is_some())?;
    let filled = fill(staged.file.file(), old, content, asked);
    let done = filled.and_then(|()| match old {
        None => staged.create(parent),
        Some(old) => staged.replace(parent, &Identity::of(&old.stat)),
    });
    if done.is_err() {
        staged.discard(parent);
    }
    done?;
    sync_directory(parent.directory()).map_err(|errno| FsError::system("sync the directory of", asked, errno))
}

fn fill(file: &File, old: Option<&Old>, content: &[&[u8]], asked: &Path) -> Result<(), FsError> {
    let mut writer = file;
    for part in content {
        writer
            .write_all(part)
            .map_err(|error| FsError::system("write", asked, errno_of(&error)))?;
    }
    if let Some(old) = old {
        keep_attributes(file.as_fd(), old, asked)?;
    }
    file.sync_all()
        .map_err(|error| FsError::system("sync", asked, errno_of(&error)))
}

/// An open file that is locked as long as it is held, if the file system knows locks.
enum Held {
    Locked(Flock<File>),
    Unlocked(File),
}

impl Held {
    fn new(file: File) -> Self {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => Self::Locked(locked),
            Err((file, _)) => Self::Unlocked(file),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Locked(file) => file,
            Self::Unlocked(file) => file,
        }
    }
}

/// The new content before it has its final name.
struct Staged {
    file: Held,
    /// It already stands under the sibling name.
    named: bool,
}

impl Staged {
    fn new(parent: &Parent, replaces: bool) -> Result<Self, FsError> {
        // A replacement is never more open than its target, not even for a moment.
        let mode = Mode::from_bits_truncate(if replaces { 0o600 } else { 0o666 });
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_TMPFILE;
        match openat(parent.directory(), ".", flags, mode) {
            Ok(file) if access("/proc/self/fd", AccessFlags::X_OK).is_ok() => Ok(Self {
                file: Held::new(File::from(file)),
                named: false,
            }),
            // The file system has no nameless files, or without /proc none can be linked.
            Ok(_) | Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => {
                Self::with_name(parent, mode)
            }
            Err(errno) => {
                let what = "create a new file beside";
                Err(FsError::change_in(
                    parent.directory(),
                    what,
                    parent.asked(),
                    errno,
                ))
            }
        }
    }

    fn with_name(parent: &Parent, mode: Mode) -> Result<Self, FsError> {
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let file = take_sibling(parent, || openat(parent.directory(), SIBLING, flags, mode))?;
        Ok(Self {
            file: Held::new(File::from(file)),
            named: true,
        })
    }

    fn create(&self, parent: &Parent) -> Result<(), FsError> {
        let linked = if self.named {
            match renameat2(
                parent.directory(),
                SIBLING,
                parent.directory(),
                parent.name(),
                RenameFlags::RENAME_NOREPLACE,
            ) {
                Err(Errno::EINVAL | Errno::ENOSYS) => self.link_sibling(parent),
                other => other,
            }
        } else {
            self.link(parent, parent.name())
        };
        linked.map_err(|errno| match errno {
            Errno::EEXIST => FsError::Changed {
                path: parent.asked().to_path_buf(),
            },
            errno => FsError::change_in(parent.directory(), "create", parent.asked(), errno),
        })
    }

    fn replace(&self, parent: &Parent, expected: &Identity) -> Result<(), FsError> {
        if !self.named {
            take_sibling(parent, || self.link(parent, OsStr::new(SIBLING)))?;
        }
        self.exchange(parent, expected)
    }

    /// The sibling takes the place of the target, if the target is still the one expected.
    fn exchange(&self, parent: &Parent, expected: &Identity) -> Result<(), FsError> {
        let (directory, asked) = (parent.directory(), parent.asked());
        let changed = || FsError::Changed {
            path: asked.to_path_buf(),
        };
        let failed = |errno| match errno {
            Errno::ENOENT => changed(),
            errno => FsError::change_in(directory, "replace", asked, errno),
        };
        if identity_at(directory, parent.name()).map_err(failed)? != *expected {
            return Err(changed());
        }
        let swap = || {
            renameat2(
                directory,
                SIBLING,
                directory,
                parent.name(),
                RenameFlags::RENAME_EXCHANGE,
            )
        };
        match swap() {
            Ok(()) => {}
            // A file system without exchange: the check a moment ago has to do.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                return renameat(directory, SIBLING, directory, parent.name()).map_err(failed);
            }
            Err(errno) => return Err(failed(errno)),
        }
        let out = identity_at(directory, OsStr::new(SIBLING));
        if out.is_ok_and(|out| {
            out.same_content(expected) || (out.same_state(expected) && is_overlay(directory))
        }) {
            return unlinkat(directory, SIBLING, UnlinkatFlags::NoRemoveDir)
                .map_err(|errno| FsError::system("remove the old content of", asked, errno));
        }
        swap().map_err(|errno| FsError::system("put back the newer content of", asked, errno))?;
        Err(changed())
    }

    /// Gives the nameless file a name.
    fn link(&self, parent: &Parent, name: &OsStr) -> Result<(), Errno> {
        let proc = format!("/proc/self/fd/{}", self.file.file().as_raw_fd());
        linkat(
            AT_FDCWD,
            proc.as_str(),
            parent.directory(),
            name,
            AtFlags::AT_SYMLINK_FOLLOW,
        )
    }

    fn link_sibling(&self, parent: &Parent) -> Result<(), Errno> {
        let directory = parent.directory();
        linkat(directory, SIBLING, directory, parent.name(), AtFlags::empty())?;
        unlinkat(directory, SIBLING, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes the sibling after a failure, if it is ours: one that could not be put back is not.
    /// Without a name the file vanishes by itself.
    fn discard(&self, parent: &Parent) {
        let ours = fstat(self.file.file()).map(|stat| (stat.st_dev, stat.st_ino));
        let there = identity_at(parent.directory(), OsStr::new(SIBLING)).map(|id| (id.device, id.inode));
        if ours.is_ok() && ours == there {
            let _ = unlinkat(parent.directory(), SIBLING, UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// In an overlay a rename copies a file up from a lower layer, which can change its number.
fn is_overlay(directory: BorrowedFd<'_>) -> bool {
    fstatfs(directory).is_ok_and(|stat| stat.filesystem_type() == OVERLAYFS_SUPER_MAGIC)
}

fn identity_at(directory: BorrowedFd<'_>, name: &OsStr) -> Result<Identity, Errno> {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|stat| Identity::of(&stat))
}

/// Does `take`, which needs the sibling name to be free, and frees it from leftovers.
fn take_sibling<T>(parent: &Parent, take: impl Fn() -> Result<T, Errno>) -> Result<T, FsError> {
    let (directory, asked) = (parent.directory(), parent.asked());
    for _ in 0..SIBLING_TRIES {
        match take() {
            Err(Errno::EEXIST) => {}
            taken => {
                let what = "create a new file beside";
                return taken.map_err(|errno| FsError::change_in(directory, what, asked, errno));
            }
        }
        let cleared = sweep(directory);
        if !cleared.map_err(|errno| FsError::system("remove the leftover beside", asked, errno))? {
            std::thread::sleep(SIBLING_PAUSE);
        }
    }
    Err(FsError::other(
        asked,
        "another session is writing in this directory; try again",
    ))
}

/// The same as [`sweep`] for the directory at a canonical path.
///
/// # Errors
/// The directory cannot be opened without following links, or the leftover cannot be removed.
pub fn sweep_at(directory: &Path) -> Result<bool, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    sweep(openat2(AT_FDCWD, directory, how)?.as_fd())
}

/// Removes what a dead writer left in one directory; false where a live one is at work. For the
/// start of a host, which looks at every directory of its roots anyway.
///
/// # Errors
/// The leftover cannot be removed.
pub fn sweep(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let lock = match openat(directory, SIBLING, flags, Mode::empty()) {
        Ok(file) => match Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => return Ok(false),
            lock => lock.ok(),
        },
        Err(Errno::ENOENT) => return Ok(true),
        // Unreadable or a link: nobody writes through it; only the name is in the way.
        Err(_) => None,
    };
    let removed = unlinkat(directory, SIBLING, UnlinkatFlags::NoRemoveDir);
    drop(lock);
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Owner, then mode (a change of owner clears set-id bits), then attributes and access lists.
fn keep_attributes(new: BorrowedFd<'_>, old: &Old, asked: &Path) -> Result<(), FsError> {
    let keep = |what: &'static str| move |errno| FsError::system(what, asked, errno);
    let now = fstat(new).map_err(keep("stat the new file of"))?;
    let uid = (now.st_uid != old.stat.st_uid).then(|| Uid::from_raw(old.stat.st_uid));
    let gid = (now.st_gid != old.stat.st_gid).then(|| Gid::from_raw(old.stat.st_gid));
    if uid.is_some() || gid.is_some() {
        fchown(new, uid, gid).map_err(keep("keep the owner of"))?;
    }
    let mode = Mode::from_bits_truncate(old.stat.st_mode & 0o7777);
    fchmod(new, mode).map_err(keep("keep the permissions of"))?;
    keep_xattrs(new, old.file.as_fd()).map_err(keep("keep the extended attributes of"))
}

fn keep_xattrs(new: BorrowedFd<'_>, old: BorrowedFd<'_>) -> Result<(), Errno> {
    let names = match xattr::list(old) {
        Ok(names) => names,
        Err(Errno::ENOTSUP | Errno::ENOSYS) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    for inherited in xattr::list(new)? {
        // A default access list of the directory must not open what the old file kept closed.
        if !names.contains(&inherited) && inherited.to_bytes().starts_with(b"system.") {
            xattr::remove(new, &inherited)?;
        }
    }
    for name in names {
        let value = xattr::get(old, &name)?;
        match xattr::set(new, &name, &value) {
            Ok(()) => {}
            // Labels are the system's to give: the new file has the one that its place calls for.
            Err(Errno::EPERM | Errno::EACCES | Errno::ENOTSUP)
                if name.to_bytes().starts_with(b"security.") => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
