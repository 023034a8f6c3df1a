//! Landlock's three calls and its bits, after include/uapi/linux/landlock.h.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub const EXECUTE: u64 = 1;
pub const WRITE_FILE: u64 = 1 << 1;
pub const READ_FILE: u64 = 1 << 2;
pub const READ_DIR: u64 = 1 << 3;
pub const REMOVE_DIR: u64 = 1 << 4;
pub const REMOVE_FILE: u64 = 1 << 5;
pub const MAKE_CHAR: u64 = 1 << 6;
pub const MAKE_DIR: u64 = 1 << 7;
pub const MAKE_REG: u64 = 1 << 8;
pub const MAKE_SOCK: u64 = 1 << 9;
pub const MAKE_FIFO: u64 = 1 << 10;
pub const MAKE_BLOCK: u64 = 1 << 11;
pub const MAKE_SYM: u64 = 1 << 12;
/// From ABI 2.
pub const REFER: u64 = 1 << 13;
/// From ABI 3.
pub const TRUNCATE: u64 = 1 << 14;
/// From ABI 5.
pub const IOCTL_DEV: u64 = 1 << 15;

/// From ABI 6.
pub const SCOPE_ABSTRACT_UNIX: u64 = 1;
pub const SCOPE_SIGNAL: u64 = 1 << 1;

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// The kernel's ABI number, 0 where Landlock is missing or switched off.
#[must_use]
pub fn abi() -> u32 {
    // SAFETY: with the version flag the kernel takes a null pointer and a zero size.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// An empty rule set that handles `fs` rights and `scoped` scopes.
///
/// # Errors
/// The kernel's, such as `EINVAL` for a bit that its ABI does not know.
pub fn create(fs: u64, scoped: u64) -> io::Result<OwnedFd> {
    let attr = RulesetAttr {
        handled_access_fs: fs,
        handled_access_net: 0,
        scoped,
    };
    // ABI 1 to 3 know only the first field, ABI 4 and 5 the first two: a longer structure is
    // accepted as long as the rest is zero.
    let size = std::mem::size_of::<RulesetAttr>();
    // SAFETY: `attr` is a valid structure of the stated size for the length of the call.
    let fd = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size, 0u32) };
    let fd = super::check_int(fd)?;
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Allows `access` beneath `parent`.
///
/// # Errors
/// The kernel's: `EINVAL` for a right that is not handled or, on a file, not for files.
pub fn allow(ruleset: BorrowedFd<'_>, parent: BorrowedFd<'_>, access: u64) -> io::Result<()> {
    let attr = PathBeneathAttr {
        allowed_access: access,
        parent_fd: parent.as_raw_fd(),
    };
    // SAFETY: `attr` is a valid packed structure for the length of the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const attr,
            0u32,
        )
    };
    super::check(done).map(|_| ())
}

/// Restricts the calling thread, for ever. Safe to call between fork and exec.
///
/// # Errors
/// The kernel's: `EPERM` without no_new_privs, `E2BIG` after 16 layers.
pub fn restrict_self(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor and flags, no pointers.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    super::check(done).map(|_| ())
}
