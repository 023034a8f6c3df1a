//! The descriptor-based mount calls: open_tree, fsopen, mount_setattr, move_mount; and statx for
//! mount ids.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub const ATTR_RDONLY: u64 = 0x1;
pub const ATTR_NOSUID: u64 = 0x2;
pub const ATTR_NODEV: u64 = 0x4;
pub const ATTR_NOEXEC: u64 = 0x8;

const OPEN_TREE_CLONE: u32 = 1;
const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC as u32;
const AT_RECURSIVE: u32 = 0x8000;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x4;
const FSOPEN_CLOEXEC: u32 = 1;
const FSMOUNT_CLOEXEC: u32 = 1;
const FSCONFIG_SET_FLAG: u32 = 0;
const FSCONFIG_SET_STRING: u32 = 1;
const FSCONFIG_CMD_CREATE: u32 = 6;

#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// A detached copy of the mount tree at `path` beneath `dir`. Links at the end are not followed
/// when `follow` is false, so a link itself can be mounted.
///
/// # Errors
/// The kernel's, such as `ENOENT`, or `EINVAL` where locked mounts forbid a copy without its
/// children.
pub fn clone_tree(dir: BorrowedFd<'_>, path: &CStr, recursive: bool, follow: bool) -> io::Result<OwnedFd> {
    let mut flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= AT_RECURSIVE;
    }
    if !follow {
        flags |= libc::AT_SYMLINK_NOFOLLOW.cast_unsigned();
    }
    if path.is_empty() {
        flags |= libc::AT_EMPTY_PATH.cast_unsigned();
    }
    // SAFETY: `path` is a valid C string for the length of the call.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, dir.as_raw_fd(), path.as_ptr(), flags) };
    let fd = super::check_int(fd)?;
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets attributes on a whole detached tree.
///
/// # Errors
/// The kernel's.
pub fn set_attributes(tree: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attr = MountAttr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let mut flags = libc::AT_EMPTY_PATH.cast_unsigned();
    if recursive {
        flags |= AT_RECURSIVE;
    }
    // SAFETY: `attr` is valid for the length of the call and its size is stated.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            std::mem::size_of::<MountAttr>(),
        )
    };
    super::check(done).map(|_| ())
}

/// Attaches a detached tree at `target`. The last component of `target` is not followed.
///
/// # Errors
/// The kernel's.
pub fn attach(tree: BorrowedFd<'_>, target: &CStr) -> io::Result<()> {
    // SAFETY: both strings are valid for the length of the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    super::check(done).map(|_| ())
}

/// A filesystem of a kind that is being configured.
///
/// # Errors
/// The kernel's, such as `ENODEV` for a kind that it does not know.
pub fn new_filesystem(kind: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `kind` is a valid C string for the length of the call.
    let fd = unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) };
    let fd = super::check_int(fd)?;
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a new filesystem; without a value it is a flag.
///
/// # Errors
/// The kernel's: `EINVAL` for an option that it does not know.
pub fn set_option(filesystem: BorrowedFd<'_>, key: &CStr, value: Option<&CStr>) -> io::Result<()> {
    let command = if value.is_some() {
        FSCONFIG_SET_STRING
    } else {
        FSCONFIG_SET_FLAG
    };
    let value = value.map_or(std::ptr::null(), CStr::as_ptr);
    configure(filesystem, command, key.as_ptr(), value)
}

/// Creates a configured filesystem and returns its detached mount.
///
/// # Errors
/// The kernel's.
pub fn detached(filesystem: BorrowedFd<'_>, attributes: u64) -> io::Result<OwnedFd> {
    let none = std::ptr::null();
    configure(filesystem, FSCONFIG_CMD_CREATE, none, none)?;
    // SAFETY: plain numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            filesystem.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        )
    };
    let fd = super::check_int(fd)?;
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Both texts are C strings or null.
fn configure(
    filesystem: BorrowedFd<'_>,
    command: u32,
    key: *const libc::c_char,
    value: *const libc::c_char,
) -> io::Result<()> {
    // SAFETY: the callers above hold the texts for the length of the call; the last number is
    // not used by these commands.
    let done = unsafe { libc::syscall(libc::SYS_fsconfig, filesystem.as_raw_fd(), command, key, value, 0) };
    super::check(done).map(|_| ())
}

/// The id of the mount that `path` lies on, without following a link at its end.
///
/// # Errors
/// The kernel's.
pub fn mount_id(path: &CStr) -> io::Result<u64> {
    // SAFETY: an all-zero statx is a valid value of the type.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `path` and `stat` are valid for the length of the call.
    let done = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT,
            libc::STATX_MNT_ID,
            &raw mut stat,
        )
    };
    super::check(libc::c_long::from(done)).map(|_| stat.stx_mnt_id)
}
