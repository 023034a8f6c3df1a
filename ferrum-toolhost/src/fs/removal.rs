//! Removing what a command made, however it made it: closed, read-only or endlessly deep.
//!
//! Works by descriptor from the parent on, follows no link, needs two descriptors at any depth,
//! and leaves a parent that had to be opened as it was.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What its owner needs to list a directory and to change what is in it.
const OWNER: u32 = 0o700;

/// Removes whatever is at `path`; nothing there is success.
///
/// # Errors
/// The system's.
pub fn remove(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let parent = match openat(AT_FDCWD, parent_of(path), flags, Mode::empty()) {
        Ok(parent) => parent,
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    in_open_parent(path, || Ok(remove_at(parent.as_fd(), name)?))
}

/// Runs `change`, which changes something at `path`; where the parent's mode forbids it, once more
/// with the parent opened to its owner for as long as that takes.
///
/// # Errors
/// Those of `change`.
pub fn in_open_parent<T>(path: &Path, change: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let result = change();
    let Err(error) = &result else { return result };
    if error.kind() != io::ErrorKind::PermissionDenied {
        return result;
    }
    let parent = parent_of(path);
    let Ok(Some(mode)) = open_to_owner(parent) else {
        return result;
    };
    let result = change();
    // A parent that cannot be closed again is the smaller evil.
    let _ = fs::set_permissions(parent, fs::Permissions::from_mode(mode));
    result
}

/// Gives a directory its owner's rights, and returns the mode that it had where it lacked some.
///
/// # Errors
/// The system's, such as for a directory of somebody else.
pub fn open_to_owner(directory: &Path) -> io::Result<Option<u32>> {
    let mode = fs::symlink_metadata(directory)
        .and_then(|m| {
            if m.is_dir() {
                Ok(m)
            } else {
                Err(io::ErrorKind::NotADirectory.into())
            }
        })?
        .permissions()
        .mode()
        & 0o7777;
    if mode & OWNER == OWNER {
        return Ok(None);
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(mode | OWNER))?;
    Ok(Some(mode))
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes `name` in an open directory; nothing there is success.
///
/// # Errors
/// The system's.
pub fn remove_at(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::EISDIR) => {
            empty(open_directory(parent, name)?.as_fd())?;
            unlinkat(parent, name, UnlinkatFlags::RemoveDir)
        }
        Err(errno) => Err(errno),
    }
}

/// Opens a directory to look into and change it, whatever its mode.
fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let handle = openat(parent, name, flags | OFlag::O_PATH, Mode::empty())?;
    let mode = fstat(&handle)?.st_mode & 0o7777;
    if mode & OWNER != OWNER {
        let mode = Mode::from_bits_truncate(mode | OWNER);
        fchmodat(parent, name, mode, FchmodatFlags::NoFollowSymlink)?;
    }
    openat(parent, name, flags | OFlag::O_RDONLY, Mode::empty())
}

/// Empties a directory: what lies in its sub-directories is moved up first, so that depth costs
/// neither stack nor descriptors.
fn empty(top: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut moved = 0;
    loop {
        let (mut any, mut trouble) = (false, None);
        for name in names(top)? {
            match remove_shallow(top, &name, &mut moved) {
                Ok(()) => any = true,
                Err(errno) => trouble = Some(errno),
            }
        }
        match (any, trouble) {
            (false, None) => return Ok(()),
            (false, Some(errno)) => return Err(errno),
            (true, _) => {}
        }
    }
}

fn remove_shallow(top: BorrowedFd<'_>, name: &OsStr, moved: &mut u64) -> Result<(), Errno> {
    match unlinkat(top, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR) => {}
        other => return other,
    }
    if unlinkat(top, name, UnlinkatFlags::RemoveDir).is_ok() {
        return Ok(());
    }
    let directory = open_directory(top, name)?;
    for inner in names(directory.as_fd())? {
        let plain = unlinkat(&directory, inner.as_os_str(), UnlinkatFlags::NoRemoveDir);
        if plain != Err(Errno::EISDIR)
            || unlinkat(&directory, inner.as_os_str(), UnlinkatFlags::RemoveDir).is_ok()
        {
            continue;
        }
        // Moving a directory writes its own entry for the parent.
        drop(open_directory(directory.as_fd(), &inner)?);
        loop {
            *moved += 1;
            let up = format!("ferrum-removal-{moved}");
            let flags = RenameFlags::RENAME_NOREPLACE;
            match renameat2(&directory, inner.as_os_str(), top, up.as_str(), flags) {
                Err(Errno::EEXIST) => {}
                other => break other?,
            }
        }
    }
    unlinkat(top, name, UnlinkatFlags::RemoveDir)
}

/// The first names in a directory; bounded, since the caller comes again.
fn names(directory: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    const NAMES_MAX: usize = 4096;
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut entries = Dir::openat(directory, ".", flags, Mode::empty())?;
    Ok(entries
        .iter()
        .flatten()
        .map(|e| OsStr::from_bytes(e.file_name().to_bytes()).to_owned())
        .filter(|name| name != "." && name != "..")
        .take(NAMES_MAX)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn closed_directories_in_a_read_only_parent_are_removed_and_the_parent_stays_read_only() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        let victim = root.join("victim");
        fs::create_dir_all(victim.join("a/b/c")).unwrap();
        fs::write(victim.join("a/b/file"), "x").unwrap();
        fs::create_dir(base.path().join("other")).unwrap();
        fs::write(base.path().join("other/kept"), "x").unwrap();
        symlink(base.path().join("other"), victim.join("a/link")).unwrap();
        for path in [victim.join("a/b"), victim.join("a"), victim.clone()] {
            mode(&path, 0);
        }
        mode(&root, 0o555);
        remove(&victim).unwrap();
        assert!(fs::symlink_metadata(&victim).is_err());
        assert!(base.path().join("other/kept").exists());
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o555);
        remove(&victim).unwrap();
        mode(&root, 0o755);
    }

    #[test]
    fn depth_beyond_any_path_is_no_hindrance() {
        let base = tempfile::tempdir().unwrap();
        let victim = base.path().join("victim");
        fs::create_dir(&victim).unwrap();
        let mut at: OwnedFd = fs::File::open(&victim).unwrap().into();
        for _ in 0..2_000 {
            nix::sys::stat::mkdirat(&at, "directory", Mode::S_IRWXU).unwrap();
            at = openat(&at, "directory", OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        }
        drop(at);
        remove(&victim).unwrap();
        assert!(fs::symlink_metadata(&victim).is_err());
    }
}
