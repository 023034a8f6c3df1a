//! Bringing the loopback interface of a fresh network namespace up.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Sets `lo` up in the network namespace of the caller.
///
/// # Errors
/// The kernel's.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: takes three integers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let fd = super::check_int(libc::c_long::from(fd))?;
    // SAFETY: the kernel just returned this descriptor and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero ifreq is a valid value of the type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).expect("IFF_UP is 1");
    // SAFETY: `request` is valid for the length of the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    super::check(libc::c_long::from(done)).map(|_| ())
}
