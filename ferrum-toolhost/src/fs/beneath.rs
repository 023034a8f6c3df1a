//! Making directories, files and links below a directory that commands write.
//!
//! What stands in the way was made by earlier commands: a link is never followed and nothing but
//! a directory is gone through; it is removed. A place on another mount is left to the caller.
//! Hosts of other sessions may make the same at the same time.

use super::removal;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::symlinkat;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

/// The directory `relative` of `base`, made where it is not there. `None` where the way leads to
/// another mount.
///
/// # Errors
/// The system's; `EINVAL` for a path that goes up.
pub fn directory(base: &Path, relative: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut at = openat(AT_FDCWD, base, flags, Mode::empty())?;
    for component in relative.components() {
        let Component::Normal(name) = component else {
            return Err(Errno::EINVAL.into());
        };
        match step(at.as_fd(), name) {
            Ok(next) => at = next,
            Err(Errno::EXDEV) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Some(at))
}

fn step(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(at, name, how) {
        Err(Errno::ENOENT) => {}
        Err(Errno::ELOOP | Errno::ENOTDIR) => removal::remove_at(at, name)?,
        other => return other,
    }
    match mkdirat(at, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) | Err(Errno::EEXIST) => openat2(at, name, how),
        Err(errno) => Err(errno),
    }
}

/// Writes a file of mode 0644 at `relative` of `base`, in place of whatever is there.
///
/// # Errors
/// The system's.
pub fn file(base: &Path, relative: &Path, content: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = in_place(base, relative, |parent, name| {
        openat(parent, name, flags, Mode::from_bits_truncate(0o644))
    })?;
    File::from(file).write_all(content)
}

/// Makes a link at `relative` of `base`, in place of whatever is there.
///
/// # Errors
/// The system's.
pub fn link(base: &Path, relative: &Path, target: &Path) -> io::Result<()> {
    in_place(base, relative, |parent, name| symlinkat(target, parent, name))
}

/// Makes something in place of whatever is there, again where somebody else was quicker.
fn in_place<T>(
    base: &Path,
    relative: &Path,
    make: impl Fn(BorrowedFd<'_>, &OsStr) -> Result<T, Errno>,
) -> io::Result<T> {
    const TRIES_MAX: u32 = 100;
    let (parent, name) = parent(base, relative)?;
    for _ in 0..TRIES_MAX {
        removal::remove_at(parent.as_fd(), name)?;
        match make(parent.as_fd(), name) {
            Err(Errno::EEXIST) => {}
            other => return Ok(other?),
        }
    }
    Err(Errno::EEXIST.into())
}

fn parent<'a>(base: &Path, relative: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = relative.file_name().ok_or(Errno::EINVAL)?;
    let above = relative.parent().unwrap_or(Path::new(""));
    let parent = directory(base, above)?.ok_or(Errno::EXDEV)?;
    Ok((parent, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn several_hosts_make_the_same_at_once() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..200 {
                        let place = format!("{round}/a/b");
                        assert!(directory(base, Path::new(&place)).unwrap().is_some());
                        file(base, Path::new(&format!("{place}/file")), b"x").unwrap();
                        link(base, Path::new(&format!("{place}/link")), Path::new("/x")).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn what_a_command_put_in_the_way_is_replaced_and_never_followed() {
        let base = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        let (base, victim) = (base.path(), victim.path());
        fs::write(victim.join("config"), "theirs").unwrap();
        symlink(victim, base.join("linked")).unwrap();
        fs::write(base.join("plain"), "").unwrap();
        fs::create_dir(base.join("there")).unwrap();
        symlink(victim.join("config"), base.join("there/config")).unwrap();
        file(base, Path::new("linked/git/config"), b"ours").unwrap();
        file(base, Path::new("there/config"), b"ours").unwrap();
        link(base, Path::new("plain/bin"), Path::new("/x")).unwrap();
        assert!(directory(base, Path::new("there/deeper")).unwrap().is_some());
        assert_eq!(
            fs::read_to_string(base.join("linked/git/config")).unwrap(),
            "ours"
        );
        assert_eq!(fs::read_to_string(base.join("there/config")).unwrap(), "ours");
        assert!(fs::symlink_metadata(base.join("linked")).unwrap().is_dir());
        assert_eq!(fs::read_link(base.join("plain/bin")).unwrap(), Path::new("/x"));
        assert_eq!(fs::read_dir(victim).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(victim.join("config")).unwrap(), "theirs");
        assert!(directory(base, Path::new("../x")).is_err());
    }
}
