//! Loading a classic BPF filter.

use std::io;

/// Puts `program` on the calling thread, for ever.
///
/// # Errors
/// The kernel's: `EACCES` without no_new_privs, `EINVAL` for a malformed program.
pub fn load(program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies `len` instructions from `filter` and does not keep the pointer.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0u32,
            &raw const program,
        )
    };
    super::check(done).map(|_| ())
}
