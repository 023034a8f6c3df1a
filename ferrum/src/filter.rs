//! The front's system call filter: what a process that never starts a program, never mounts and
//! never traces has no use for. A deny list, because the front's libraries are many and a missing
//! row of an allow list would be a crash at the worst time.

use libc::{c_long, sock_filter};

/// Refused with `EPERM`.
const DENIED: &[c_long] = &[
    // Starting programs: the launcher's business.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes' memory, descriptors and registers.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // The mount table and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Files by handle: around every path rule.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Interfaces with a long record of kernel faults, and none of our use.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    // Kernel keyrings hold other programs' secrets.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_personality,
];

/// All `CLONE_NEW*` flags that clone(2) takes.
const NEW_NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const NATIVE_ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const NATIVE_ARCHITECTURE: u32 = 0xC000_00B7;
#[cfg(target_arch = "riscv64")]
const NATIVE_ARCHITECTURE: u32 = 0xC000_00F3;

/// Offsets in `struct seccomp_data`; the first argument's low half on little-endian machines.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        // BPF codes are 16 bits wide by definition.
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt,
        jf,
        k,
    }
}

fn refuse(errno: i32) -> sock_filter {
    instruction(RETURN, libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(), 0, 0)
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// The program. Every test jumps over one instruction only, so no distance can be wrong.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut program = vec![
        instruction(LOAD, ARCHITECTURE, 0, 0),
        instruction(IF_EQUAL, NATIVE_ARCHITECTURE, 1, 0),
        instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        instruction(LOAD, NUMBER, 0, 0),
    ];
    // x32 numbers pass the architecture check; nothing of ours uses them.
    if cfg!(target_arch = "x86_64") {
        program.extend([instruction(IF_ANY_BIT, 0x4000_0000, 0, 1), refuse(libc::ENOSYS)]);
    }
    for call in DENIED {
        program.extend([instruction(IF_EQUAL, number(*call), 0, 1), refuse(libc::EPERM)]);
    }
    // The flags of clone3 lie in memory, where a filter cannot look; libc then uses clone.
    program.extend([
        instruction(IF_EQUAL, number(libc::SYS_clone3), 0, 1),
        refuse(libc::ENOSYS),
    ]);
    program.extend([
        instruction(IF_EQUAL, number(libc::SYS_clone), 0, 3),
        instruction(LOAD, FIRST_ARGUMENT, 0, 0),
        instruction(IF_ANY_BIT, NEW_NAMESPACES.unsigned_abs(), 0, 1),
        refuse(libc::EPERM),
        instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]);
    program
}
