//! The few raw calls of the tests, made between fork and exec: a filter that denies namespaces,
//! and a controlling terminal.

use std::process::Command;

/// Gives the program a session of its own with its standard input as controlling terminal.
#[expect(unsafe_code, reason = "pre_exec and TIOCSCTTY have no safe wrapper")]
pub fn take_terminal(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure makes two system calls, allocates nothing and is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Makes the program run under a seccomp filter that answers `unshare`, `setns` and `clone` with
/// new-namespace flags by EPERM and `clone3` by ENOSYS, as the default profile of containers does.
#[expect(unsafe_code, reason = "pre_exec and prctl have no safe wrapper")]
pub fn deny_namespaces(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure makes two prctl calls on data that lives on its own stack and is
    // async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let filter = namespace_filter();
            let program = libc::sock_fprog {
                len: filter.len().try_into().expect("a filter of ten rows"),
                filter: filter.as_ptr().cast_mut(),
            };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Makes the program run on a kernel without Landlock, as far as it can tell: its calls do not exist.
#[expect(unsafe_code, reason = "pre_exec and prctl have no safe wrapper")]
pub fn deny_landlock(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: as above.
    unsafe {
        command.pre_exec(|| {
            const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
            const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
            const ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
            const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
            // landlock_create_ruleset, _add_rule, _restrict_self: the same numbers everywhere.
            let filter = [
                row(LOAD, 0, 0, 0),
                row(AT_LEAST, 0, 2, 444),
                row(ABOVE, 1, 0, 446),
                row(
                    RETURN,
                    0,
                    0,
                    libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
                ),
                row(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            ];
            let program = libc::sock_fprog {
                len: 5,
                filter: filter.as_ptr().cast_mut(),
            };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

const fn row(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        #[expect(clippy::cast_possible_truncation, reason = "BPF codes fit in 8 bits")]
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// CLONE_NEWTIME … CLONE_NEWNET, all eight.
const NEW_NAMESPACES: u32 = 0x7e02_0080;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "system call numbers are small"
)]
fn namespace_filter() -> [libc::sock_filter; 10] {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let fail = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    [
        row(LOAD, 0, 0, 0),
        row(EQUAL, 6, 0, libc::SYS_unshare as u32),
        row(EQUAL, 5, 0, libc::SYS_setns as u32),
        row(EQUAL, 5, 0, libc::SYS_clone3 as u32),
        row(EQUAL, 0, 2, libc::SYS_clone as u32),
        row(LOAD, 0, 0, 16),
        row(ANY_BIT, 1, 0, NEW_NAMESPACES),
        row(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        row(RETURN, 0, 0, fail(libc::EPERM)),
        row(RETURN, 0, 0, fail(libc::ENOSYS)),
    ]
}
