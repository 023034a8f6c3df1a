//! The unsafe fence: raw system calls that the crates lack, each as a small safe function.
//!
//! Nothing here decides anything. Every function is one call or one short, fixed sequence of
//! calls, returns the kernel's error as it is, and owns what it opens.
#![expect(
    unsafe_code,
    reason = "the one place in the tool host where raw system calls are made"
)]

pub mod attempt;
pub mod ipc;
pub mod landlock;
pub mod mount;
pub mod process;
pub mod seccomp;
pub mod socket;
pub mod xattr;

use std::io;

/// Turns a raw return value into a result.
fn check(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

/// A result that fits a descriptor or a small count.
fn check_int(value: libc::c_long) -> io::Result<i32> {
    check(value).map(|v| i32::try_from(v).expect("the kernel returns descriptors and pids as int"))
}
