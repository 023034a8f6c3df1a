//! The few raw calls that the safe crates lack: capabilities, the system call filter, a signal.
#![expect(
    unsafe_code,
    reason = "capset, capability prctls, PR_SET_SECCOMP, signal and a look before main have no safe wrapper in our crates"
)]

use libc::{c_int, c_ulong};
use nix::errno::Errno;
use std::sync::atomic::{AtomicBool, Ordering};

/// `linux/capability.h`, version 3: two 32-bit halves.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

fn prctl(option: c_int, first: c_ulong) -> nix::Result<c_int> {
    let zero: c_ulong = 0;
    // SAFETY: the options used here take numbers only; unused arguments must be 0.
    Errno::result(unsafe { libc::prctl(option, first, zero, zero, zero) })
}

/// Empties the bounding set. `EPERM` without CAP_SETPCAP.
pub(crate) fn drop_bounding_set() -> nix::Result<()> {
    /// Above every capability that a kernel could know: the set is a 64-bit mask.
    const CAPABILITIES: c_ulong = 64;
    for capability in 0..CAPABILITIES {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(_) => {}
            // Past the last capability of this kernel.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Empties the ambient, effective, permitted and inheritable sets of this thread.
pub(crate) fn drop_capabilities() -> nix::Result<()> {
    let (ambient, clear) = (libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL);
    #[expect(clippy::cast_sign_loss, reason = "a small positive constant")]
    prctl(ambient, clear as c_ulong)?;
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let none = [CapabilityHalf {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    }; 2];
    // SAFETY: both pointers are to live values of the layout that version 3 prescribes.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    Errno::result(done).map(|_| ())
}

/// Makes a write beyond RLIMIT_FSIZE fail with `EFBIG` instead of ending the process: a full
/// session or audit log is to be told, not to be died of.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Takes over a descriptor that was received: nobody else may own it.
#[cfg(test)]
pub(crate) fn adopt(descriptor: std::os::fd::RawFd) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: the caller has it from the kernel and passes it on here alone.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) }
}

/// Adds a seccomp filter to this thread. Needs no-new-privileges.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> nix::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut(),
    };
    let zero: c_ulong = 0;
    // SAFETY: the kernel copies `len` instructions from `filter` and writes nothing.
    let done = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
            zero,
            zero,
        )
    };
    Errno::result(done).map(|_| ())
}

/// Set before `main`: the standard library opens `/dev/null` in the place of a closed stdout, and
/// what is written would be lost without an error.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_at_stdout() {
    // SAFETY: F_GETFD takes no argument and touches no memory.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions without arguments, which the loader calls one by
// one before `main`; this one allocates nothing and relies on nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

/// True where this program was started without a stdout.
#[must_use]
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}
