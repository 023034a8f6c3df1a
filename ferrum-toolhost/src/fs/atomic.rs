//! Replaces or creates one file so that at every instant the old or the new one is whole.
//!
//! The new content goes to a file without a name (`O_TMPFILE`) in the same directory, is synced,
//! and gets its name at the end. A new file is linked directly. For a replacement it is linked
//! under a hidden sibling name and exchanged with the target in one step; what came out is then
//! compared with what was read, and put back if it is something else. A kill between the two
//! steps can leave the sibling; it is unlocked then, so the next write of the same file and
//! [`sweep`] know it for a leftover. Process ids would say nothing: every host is process 1.
//!
//! Never follows a link, never writes into the old file, never leaves another owner, mode or
//! access list on it.

use crate::fs::FsError;
use crate::fs::resolve::{Identity, Parent, errno_of, kind_name, kind_of, sync_directory};
use crate::sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{AccessFlags, Gid, Uid, UnlinkatFlags, access, faccessat, fchown, linkat, unlinkat};
use policy::Target;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How the sibling names begin. Whoever lists names for people may leave them out.
pub const SIBLING_PREFIX: &str = ".ferrum-new-";

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
                Errno::EROFS => FsError::mutation("change", asked, errno),
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
/// is not `old` any more (or, without `old`, when there is one by now). Nothing has changed then.
pub fn commit(parent: &Parent, old: Option<&Old>, content: &[&[u8]]) -> Result<(), FsError> {
    let asked = parent.asked();
    let staged = Staged::new(parent, old.is_some())?;
    let filled = fill(&staged.file, old, content, asked);
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

/// The new content before it has its final name.
struct Staged {
    file: Flock<File>,
    sibling: String,
    /// It already stands under the sibling name.
    named: bool,
}

impl Staged {
    fn new(parent: &Parent, replaces: bool) -> Result<Self, FsError> {
        let sibling = sibling_name(parent.name());
        // A replacement is never more open than its target, not even for a moment.
        let mode = Mode::from_bits_truncate(if replaces { 0o600 } else { 0o666 });
        let base = OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let failed = |errno| FsError::mutation("create a new file beside", parent.asked(), errno);
        let nameless = openat(parent.directory(), ".", base | OFlag::O_TMPFILE, mode);
        let (file, named) = match nameless {
            Ok(file) if access("/proc/self/fd", AccessFlags::X_OK).is_ok() => (file, false),
            // The file system has no nameless files, or without /proc none can be linked.
            Ok(_) | Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => {
                clear_leftover(parent.directory(), &sibling, parent.asked())?;
                let flags = base | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
                let made = openat(parent.directory(), sibling.as_str(), flags, mode).map_err(failed)?;
                (made, true)
            }
            Err(errno) => return Err(failed(errno)),
        };
        let file = Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| FsError::system("lock the new file of", parent.asked(), errno))?;
        Ok(Self { file, sibling, named })
    }

    fn create(&self, parent: &Parent) -> Result<(), FsError> {
        let linked = if self.named {
            match renameat2(
                parent.directory(),
                self.sibling.as_str(),
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
            errno => FsError::mutation("create", parent.asked(), errno),
        })
    }

    fn replace(&self, parent: &Parent, expected: &Identity) -> Result<(), FsError> {
        let asked = parent.asked();
        if !self.named {
            let sibling = OsStr::new(&self.sibling);
            let linked = match self.link(parent, sibling) {
                Err(Errno::EEXIST) => {
                    clear_leftover(parent.directory(), &self.sibling, asked)?;
                    self.link(parent, sibling)
                }
                other => other,
            };
            linked.map_err(|errno| FsError::mutation("create a new file beside", asked, errno))?;
        }
        let replaced = self.exchange(parent, expected);
        if replaced.is_err() {
            let _ = unlinkat(
                parent.directory(),
                self.sibling.as_str(),
                UnlinkatFlags::NoRemoveDir,
            );
        }
        replaced
    }

    /// The sibling takes the place of the target, if the target is still the one expected.
    fn exchange(&self, parent: &Parent, expected: &Identity) -> Result<(), FsError> {
        let (directory, asked) = (parent.directory(), parent.asked());
        let changed = || FsError::Changed {
            path: asked.to_path_buf(),
        };
        let failed = |errno| match errno {
            Errno::ENOENT => changed(),
            errno => FsError::mutation("replace", asked, errno),
        };
        if identity_at(directory, parent.name()).map_err(failed)? != *expected {
            return Err(changed());
        }
        let sibling = self.sibling.as_str();
        let swap = || {
            renameat2(
                directory,
                sibling,
                directory,
                parent.name(),
                RenameFlags::RENAME_EXCHANGE,
            )
        };
        match swap() {
            Ok(()) => {}
            // A file system without exchange: the check a moment ago has to do.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                return renameat(directory, sibling, directory, parent.name()).map_err(failed);
            }
            Err(errno) => return Err(failed(errno)),
        }
        let out = identity_at(directory, OsStr::new(sibling));
        if out.is_ok_and(|out| out.same_content(expected)) {
            return unlinkat(directory, sibling, UnlinkatFlags::NoRemoveDir)
                .map_err(|errno| FsError::system("remove the old content of", asked, errno));
        }
        swap().map_err(|errno| FsError::system("put back the newer content of", asked, errno))?;
        Err(changed())
    }

    /// Gives the nameless file a name.
    fn link(&self, parent: &Parent, name: &OsStr) -> Result<(), Errno> {
        let proc = format!("/proc/self/fd/{}", self.file.as_raw_fd());
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
        linkat(
            directory,
            self.sibling.as_str(),
            directory,
            parent.name(),
            AtFlags::empty(),
        )?;
        unlinkat(directory, self.sibling.as_str(), UnlinkatFlags::NoRemoveDir)
    }

    /// Removes the sibling of a failed fallback; a nameless file vanishes by itself.
    fn discard(&self, parent: &Parent) {
        if self.named {
            let _ = unlinkat(
                parent.directory(),
                self.sibling.as_str(),
                UnlinkatFlags::NoRemoveDir,
            );
        }
    }
}

fn identity_at(directory: BorrowedFd<'_>, name: &OsStr) -> Result<Identity, Errno> {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|stat| Identity::of(&stat))
}

/// One sibling name for each file name, so that the next write meets what a dead one left.
fn sibling_name(name: &OsStr) -> String {
    let mut hasher = DefaultHasher::new();
    name.as_bytes().hash(&mut hasher);
    format!("{SIBLING_PREFIX}{:016x}", hasher.finish())
}

/// True for the name of a sibling, live or left over.
#[must_use]
pub fn is_sibling(name: &[u8]) -> bool {
    name.strip_prefix(SIBLING_PREFIX.as_bytes())
        .is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
}

/// Removes the siblings in one directory whose writers are gone. For the start of a host, which
/// looks at every directory of its roots anyway.
///
/// # Errors
/// The directory cannot be listed.
pub fn sweep(directory: BorrowedFd<'_>, asked: &Path) -> Result<(), FsError> {
    for entry in crate::fs::walk::list(directory, asked)? {
        if let Ok(name) = std::str::from_utf8(&entry.name)
            && is_sibling(&entry.name)
        {
            // One that is in use by another host stays.
            let _ = clear_leftover(directory, name, asked);
        }
    }
    Ok(())
}

fn clear_leftover(directory: BorrowedFd<'_>, name: &str, asked: &Path) -> Result<(), FsError> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let lock = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => match Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(FsError::other(
                    asked,
                    "another session is writing this file right now",
                ));
            }
            lock => lock.ok(),
        },
        Err(Errno::ENOENT) => return Ok(()),
        // Unreadable or a link: nobody writes through it; only the name is in the way.
        Err(_) => None,
    };
    let removed = unlinkat(directory, name, UnlinkatFlags::NoRemoveDir);
    drop(lock);
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(FsError::system("remove the leftover beside", asked, errno)),
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
mod tests {
    use super::*;
    use crate::from_wire::PathText;
    use crate::fs::resolve::{Base, place};
    use crate::tool::tests::Bed;
    use std::fs;
    use std::path::PathBuf;

    fn parent(bed: &Bed, name: &str) -> (Parent, Target) {
        let cwd = bed.cwd();
        let base = Base {
            cwd: cwd.as_fd(),
            ground: &bed.judge.ground,
        };
        let place = place(&base, &PathText::checked(name)).unwrap();
        let target = place.target();
        (place.into_parent().unwrap(), target)
    }

    fn names(bed: &Bed) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = fs::read_dir(bed.at(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into())
            .collect();
        names.sort();
        names
    }

    fn changed_by(change: impl Fn(&Bed)) {
        let bed = Bed::new();
        bed.file("race", "a\n");
        let (parent, judged) = parent(&bed, "race");
        let old = Old::open(&parent, judged).unwrap();
        change(&bed);
        let before = fs::read(bed.at("race")).ok();
        let error = commit(&parent, old.as_ref(), &[b"mine"]).unwrap_err();
        assert_eq!(error, FsError::Changed { path: "race".into() });
        assert!(error.to_string().contains("changed"));
        assert_eq!(fs::read(bed.at("race")).ok(), before);
        assert!(
            names(&bed).iter().all(|name| name == Path::new("race")),
            "{:?}",
            names(&bed)
        );
    }

    #[test]
    fn a_newcomer_is_kept_and_nothing_is_left_over() {
        changed_by(|bed| {
            fs::write(bed.at("tmp2"), "newcomer\n").unwrap();
            fs::rename(bed.at("tmp2"), bed.at("race")).unwrap();
        });
        changed_by(|bed| fs::write(bed.at("race"), "b\n").unwrap());
        changed_by(|bed| fs::remove_file(bed.at("race")).unwrap());
    }

    #[test]
    fn a_newcomer_in_the_last_instant_is_put_back() {
        let bed = Bed::new();
        bed.file("race", "a\n");
        let (parent, judged) = parent(&bed, "race");
        let old = Old::open(&parent, judged).unwrap().unwrap();
        let staged = Staged::new(&parent, true).unwrap();
        fs::write(bed.at("race"), "newcomer\n").unwrap();
        // As if the look at the target had come before the change.
        let seen = identity_at(parent.directory(), parent.name()).unwrap();
        let expected = Identity {
            modified: (0, 0),
            ..seen
        };
        assert_ne!(expected, Identity::of(&old.stat));
        let error = staged.replace(&parent, &expected).unwrap_err();
        assert_eq!(error, FsError::Changed { path: "race".into() });
        assert_eq!(fs::read(bed.at("race")).unwrap(), b"newcomer\n");
        assert_eq!(names(&bed), [PathBuf::from("race")]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_kept() {
        let bed = Bed::new();
        let (parent, judged) = parent(&bed, "new");
        assert!(Old::open(&parent, judged).unwrap().is_none());
        bed.file("new", "theirs");
        let error = commit(&parent, None, &[b"mine"]).unwrap_err();
        assert_eq!(error, FsError::Changed { path: "new".into() });
        assert_eq!(fs::read(bed.at("new")).unwrap(), b"theirs");
    }

    #[test]
    fn before_the_last_steps_there_is_nothing_to_leave_over() {
        let bed = Bed::new();
        bed.file("a", "old");
        let (parent, _) = parent(&bed, "a");
        let staged = Staged::new(&parent, true).unwrap();
        fill(&staged.file, None, &[b"new"], Path::new("a")).unwrap();
        assert_eq!(names(&bed), [PathBuf::from("a")]);
        assert_eq!(fs::read(bed.at("a")).unwrap(), b"old");
    }

    #[test]
    fn a_leftover_of_a_dead_writer_goes_and_one_in_use_stays() {
        let bed = Bed::new();
        bed.file("a", "old");
        let (parent, judged) = parent(&bed, "a");
        let sibling = sibling_name(OsStr::new("a"));
        assert!(is_sibling(sibling.as_bytes()) && !is_sibling(b".ferrum-new-x"));

        bed.file(&sibling, "dead");
        let old = Old::open(&parent, judged).unwrap();
        commit(&parent, old.as_ref(), &[b"n", b"ew"]).unwrap();
        assert_eq!(fs::read(bed.at("a")).unwrap(), b"new");
        assert_eq!(names(&bed), [PathBuf::from("a")]);

        bed.file(&sibling, "dead");
        sweep(parent.directory(), Path::new(".")).unwrap();
        assert_eq!(names(&bed), [PathBuf::from("a")]);

        let live = fs::File::open(bed.file(&sibling, "live")).unwrap();
        let _lock = Flock::lock(live, FlockArg::LockExclusive).unwrap();
        let old = Old::open(&parent, judged).unwrap();
        let error = commit(&parent, old.as_ref(), &[b"mine"]).unwrap_err();
        assert!(error.to_string().contains("another session"), "{error}");
        sweep(parent.directory(), Path::new(".")).unwrap();
        assert_eq!(fs::read(bed.at(&sibling)).unwrap(), b"live");
        assert_eq!(fs::read(bed.at("a")).unwrap(), b"new");
    }

    #[test]
    fn attributes_of_the_old_file_stay() {
        let bed = Bed::new();
        let path = bed.file("a", "old");
        let file = fs::File::open(&path).unwrap();
        if xattr::set(file.as_fd(), c"user.kept", b"yes").is_err() {
            // The file system of the temporary directory has none.
            return;
        }
        let (parent, judged) = parent(&bed, "a");
        let old = Old::open(&parent, judged).unwrap();
        commit(&parent, old.as_ref(), &[b"new"]).unwrap();
        let file = fs::File::open(&path).unwrap();
        assert_eq!(xattr::get(file.as_fd(), c"user.kept").unwrap(), b"yes");
    }
}
