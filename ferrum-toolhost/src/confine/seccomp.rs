//! The system-call filter of a host and everything that it starts.
//!
//! A deny list with a default of "allow": bash runs any program, so an allow-list would break on
//! the next libc. What it denies are calls that leave the walls (mounts, namespaces), reach the
//! kernel past them (io_uring, bpf, keyrings), or speak to other processes. It never filters
//! send, receive or connect: the network namespace holds those.

use std::io;

/// What a row answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Errno(i32),
    Kill,
    Allow,
}

/// Which rows are in.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Sockets of AF_INET and AF_INET6 cannot be made.
    pub deny_inet: bool,
    /// Sockets of AF_UNIX cannot be made, but for pairs that reach nothing else: where no mount view
    /// hides their paths.
    pub deny_unix: bool,
    /// There is no pid namespace, so calls that name another process are denied altogether.
    pub shared_pids: bool,
    /// No program can be started: for the reader thread.
    pub deny_exec: bool,
    /// clone3 does not exist. It hides its flags behind a pointer; with ENOSYS libc falls back to
    /// clone, with EPERM threads fail.
    pub deny_clone3: bool,
    /// System V and POSIX queues, semaphores and shared memory: where no ipc namespace parts those
    /// of the session from the user's.
    pub deny_ipc: bool,
    /// Modes, owners, times and attributes cannot be changed: at high without a mount view, which
    /// would hold them, since Landlock does not.
    pub deny_attributes: bool,
}

const EPERM: Answer = Answer::Errno(libc::EPERM);
const ENOSYS: Answer = Answer::Errno(libc::ENOSYS);
const EACCES: Answer = Answer::Errno(libc::EACCES);
const EAFNOSUPPORT: Answer = Answer::Errno(libc::EAFNOSUPPORT);

/// Calls that are denied whatever their arguments.
const DENIED: &[(libc::c_long, Answer)] = &[
    // Mounts and roots: the view is built once, by the host.
    (libc::SYS_mount, EPERM),
    (libc::SYS_umount2, EPERM),
    (libc::SYS_pivot_root, EPERM),
    (libc::SYS_chroot, EPERM),
    (libc::SYS_move_mount, EPERM),
    (libc::SYS_open_tree, EPERM),
    (OPEN_TREE_ATTR, EPERM),
    (libc::SYS_fsopen, EPERM),
    (libc::SYS_fsconfig, EPERM),
    (libc::SYS_fsmount, EPERM),
    (libc::SYS_fspick, EPERM),
    (libc::SYS_mount_setattr, EPERM),
    // Namespaces.
    (libc::SYS_unshare, EPERM),
    (libc::SYS_setns, EPERM),
    // The kernel itself.
    (libc::SYS_init_module, EPERM),
    (libc::SYS_finit_module, EPERM),
    (libc::SYS_delete_module, EPERM),
    (libc::SYS_kexec_load, EPERM),
    (libc::SYS_kexec_file_load, EPERM),
    (libc::SYS_reboot, EPERM),
    (libc::SYS_swapon, EPERM),
    (libc::SYS_swapoff, EPERM),
    (libc::SYS_acct, EPERM),
    (libc::SYS_quotactl, EPERM),
    (libc::SYS_quotactl_fd, EPERM),
    (libc::SYS_syslog, EPERM),
    (libc::SYS_vhangup, EPERM),
    (libc::SYS_settimeofday, EPERM),
    (libc::SYS_clock_settime, EPERM),
    (libc::SYS_adjtimex, EPERM),
    (libc::SYS_clock_adjtime, EPERM),
    (libc::SYS_sethostname, EPERM),
    (libc::SYS_setdomainname, EPERM),
    (libc::SYS_bpf, EPERM),
    (libc::SYS_perf_event_open, EPERM),
    (libc::SYS_userfaultfd, EPERM),
    (libc::SYS_lookup_dcookie, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, EPERM),
    // A ring makes sockets and opens files without passing this filter.
    (libc::SYS_io_uring_setup, EPERM),
    (libc::SYS_io_uring_enter, EPERM),
    (libc::SYS_io_uring_register, EPERM),
    // Keyrings are shared by all processes of a user, in every namespace.
    (libc::SYS_add_key, EPERM),
    (libc::SYS_request_key, EPERM),
    (libc::SYS_keyctl, EPERM),
    // Handles open files by number, past every path.
    (libc::SYS_open_by_handle_at, EPERM),
    (libc::SYS_name_to_handle_at, EPERM),
    (libc::SYS_fanotify_init, EPERM),
    (libc::SYS_fanotify_mark, EPERM),
    // Descriptors and memory of other processes, beyond what debuggers need.
    (libc::SYS_kcmp, EPERM),
    (libc::SYS_pidfd_getfd, EPERM),
    (libc::SYS_process_madvise, EPERM),
    (libc::SYS_process_mrelease, EPERM),
    (libc::SYS_migrate_pages, EPERM),
    (libc::SYS_move_pages, EPERM),
    (libc::SYS_nfsservctl, ENOSYS),
];

/// Objects that all processes of a user share by number or name.
const IPC: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// setxattrat, removexattrat, open_tree_attr, file_setattr: the same number everywhere.
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const OPEN_TREE_ATTR: libc::c_long = 467;
const FILE_SETATTR: libc::c_long = 469;

/// Calls that change what is known about a file rather than what is in it.
const ATTRIBUTES: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`.
const ATTRIBUTE_REQUESTS: [u32; 2] = [0x4008_6602, 0x401c_5820];

/// Calls that set something of the process in their first argument.
const OTHER_PID: &[libc::c_long] = &[
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// The newest call of the kernel that the rows were checked against (6.18: file_setattr). Later
/// ones are unknown and therefore absent.
const NEWEST_CALL: u32 = 469;

const NAMESPACE_FLAGS: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const OFFSET_CALL: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;

fn offset_argument(index: u32) -> u32 {
    // Low half of a little-endian 64-bit argument.
    16 + 8 * index
}

/// A growing filter program.
struct Program(Vec<libc::sock_filter>);

impl Program {
    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        let code = u16::try_from(code).expect("instruction codes are 16 bits");
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }

    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    }

    /// The next instruction runs only if the loaded word equals `k`.
    fn if_equal(&mut self, k: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, 0, 1);
    }

    fn answer(&mut self, answer: Answer) {
        let k = match answer {
            Answer::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
            Answer::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Answer::Allow => libc::SECCOMP_RET_ALLOW,
        };
        self.push(libc::BPF_RET | libc::BPF_K, k, 0, 0);
    }

    fn skip(&mut self, instructions: usize) {
        let k = u32::try_from(instructions).expect("a program is short");
        self.push(libc::BPF_JMP | libc::BPF_JA, k, 0, 0);
    }

    fn deny(&mut self, call: libc::c_long, answer: Answer) {
        self.if_equal(number(call));
        self.answer(answer);
    }

    /// For `call`, runs `rest`, which ends in an answer on every path; other calls skip it.
    fn for_call(&mut self, call: libc::c_long, rest: impl FnOnce(&mut Self)) {
        self.when_equal(number(call), rest);
    }

    /// Runs `rest`, which ends in an answer on every path, only if the loaded word equals `k`.
    fn when_equal(&mut self, k: u32, rest: impl FnOnce(&mut Self)) {
        let jump = self.0.len();
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, 0, 0);
        rest(self);
        let skip = self.0.len() - jump - 1;
        self.0[jump].jf = u8::try_from(skip).expect("a block is short");
    }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("system call numbers are small")
}

/// Calls that are denied whatever their arguments, by number.
fn denied(profile: Profile) -> Vec<(u32, Answer)> {
    const EXEC: &[libc::c_long] = &[libc::SYS_execve, libc::SYS_execveat, libc::SYS_socket];
    let groups = [
        (profile.deny_exec, EXEC, EPERM),
        (profile.deny_clone3, &[libc::SYS_clone3], ENOSYS),
        (profile.deny_ipc, IPC, ENOSYS),
        (profile.deny_attributes, ATTRIBUTES, EPERM),
    ];
    let more = groups.iter().filter(|(is_in, _, _)| *is_in);
    let more = more.flat_map(|(_, calls, answer)| calls.iter().map(|call| (*call, *answer)));
    let all = DENIED.iter().copied().chain(more);
    let mut rows: Vec<(u32, Answer)> = all.map(|(call, answer)| (number(call), answer)).collect();
    rows.sort_by_key(|(call, _)| *call);
    rows
}

/// Looks the loaded number up in sorted rows; what is in none of them runs off the end. By halves,
/// since the kernel plays the program through for every call that it knows when it is loaded.
fn search(rows: &[(u32, Answer)]) -> Vec<libc::sock_filter> {
    const AT_ONCE: usize = 3;
    let mut p = Program(Vec::new());
    if rows.len() <= AT_ONCE {
        for (call, answer) in rows {
            p.if_equal(*call);
            p.answer(*answer);
        }
        return p.0;
    }
    let (low, high) = rows.split_at(rows.len() / 2);
    let (first, low, high) = (high[0].0, search(low), search(high));
    p.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, first, 0, 1);
    p.skip(low.len() + 1);
    p.0.extend(low);
    p.skip(high.len());
    p.0.extend(high);
    p.0
}

/// The whole filter for `profile`.
fn program(profile: Profile) -> Vec<libc::sock_filter> {
    let mut p = Program(Vec::with_capacity(256));
    p.load(OFFSET_ARCHITECTURE);
    p.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, ARCHITECTURE, 1, 0);
    p.answer(Answer::Kill);
    p.load(OFFSET_CALL);
    // Unknown newer calls, and the x32 numbers above them.
    p.push(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, NEWEST_CALL, 0, 1);
    p.answer(ENOSYS);
    p.0.extend(search(&denied(profile)));
    p.for_call(libc::SYS_clone, |p| {
        p.load(offset_argument(0));
        p.push(
            libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
            NAMESPACE_FLAGS,
            0,
            1,
        );
        p.answer(EPERM);
        p.answer(Answer::Allow);
    });
    p.for_call(libc::SYS_socket, |p| socket_families(p, profile, false));
    p.for_call(libc::SYS_socketpair, |p| socket_families(p, profile, true));
    // Typing into a terminal, and the console's own commands.
    p.for_call(libc::SYS_ioctl, |p| {
        p.load(offset_argument(1));
        for request in [libc::TIOCSTI, libc::TIOCLINUX] {
            p.if_equal(u32::try_from(request).expect("ioctl numbers are 32 bits"));
            p.answer(EPERM);
        }
        if profile.deny_attributes {
            for request in ATTRIBUTE_REQUESTS {
                p.if_equal(request);
                p.answer(EPERM);
            }
        }
        p.answer(Answer::Allow);
    });
    // Limits of another process, the host's own included; libc itself always says 0.
    {
        let call = libc::SYS_prlimit64;
        own_process_only(&mut p, call, 0);
    }
    // 0 means "all that are mine" where a user is asked for: PRIO_USER, IOPRIO_WHO_USER.
    own_process_only_unless(&mut p, libc::SYS_setpriority, 1, libc::PRIO_USER);
    own_process_only_unless(&mut p, libc::SYS_ioprio_set, 1, 3);
    for call in OTHER_PID {
        // In a pid namespace only pid 1, the host, is worth protecting: thread libraries set the
        // affinity of their own threads by number.
        if profile.shared_pids {
            own_process_only(&mut p, *call, 0);
        } else {
            p.for_call(*call, |p| {
                p.load(offset_argument(0));
                p.if_equal(1);
                p.answer(EPERM);
                p.answer(Answer::Allow);
            });
        }
    }
    p.answer(Answer::Allow);
    p.0
}

/// The same, and nothing at all where the first argument is `which`.
fn own_process_only_unless(p: &mut Program, call: libc::c_long, index: u32, which: u32) {
    p.for_call(call, |p| {
        p.load(offset_argument(0));
        p.if_equal(which);
        p.answer(EPERM);
        p.load(offset_argument(index));
        p.if_equal(0);
        p.answer(Answer::Allow);
        p.answer(EPERM);
    });
}

/// Denies `call` unless the argument at `index` is 0, "myself".
fn own_process_only(p: &mut Program, call: libc::c_long, index: u32) {
    p.for_call(call, |p| {
        p.load(offset_argument(index));
        p.if_equal(0);
        p.answer(Answer::Allow);
        p.answer(EPERM);
    });
}

/// An allow-list of families: anything else (packet, vsock, bluetooth, alg, …) does not exist.
fn socket_families(p: &mut Program, profile: Profile, pair: bool) {
    // Raw sockets need a capability that nobody has, but ICMP datagrams and MPTCP need none.
    p.load(offset_argument(0));
    let inet = if profile.deny_inet { EACCES } else { Answer::Allow };
    match (profile.deny_unix, pair) {
        (true, true) => p.when_equal(libc::AF_UNIX.cast_unsigned(), unaddressable_pairs),
        (denied, _) => {
            p.if_equal(libc::AF_UNIX.cast_unsigned());
            p.answer(if denied { EACCES } else { Answer::Allow });
        }
    }
    for (family, answer) in [(libc::AF_INET, inet), (libc::AF_INET6, inet)] {
        p.if_equal(family.cast_unsigned());
        p.answer(answer);
    }
    // Route netlink answers getifaddrs; the other netlink families are closed.
    p.push(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::AF_NETLINK.cast_unsigned(),
        0,
        4,
    );
    p.load(offset_argument(2));
    p.if_equal(libc::NETLINK_ROUTE.cast_unsigned());
    p.answer(Answer::Allow);
    p.answer(EPERM);
    p.answer(EAFNOSUPPORT);
}

/// Ends of a stream or packet stream stay with each other. Those of datagrams (and raw ones, which
/// are the same) send to whatever name they are given. The bits above the type are flags.
fn unaddressable_pairs(p: &mut Program) {
    p.load(offset_argument(1));
    p.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xf, 0, 0);
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        p.if_equal(kind.cast_unsigned());
        p.answer(Answer::Allow);
    }
    p.answer(EACCES);
}

/// What a command adds where its host may use clone3. The architecture was checked by the host's.
pub(super) fn command() -> Vec<libc::sock_filter> {
    let mut p = Program(Vec::new());
    p.load(OFFSET_CALL);
    p.deny(libc::SYS_clone3, ENOSYS);
    p.answer(Answer::Allow);
    p.0
}

/// Puts the filter on the calling thread.
///
/// # Errors
/// The kernel's.
pub fn apply(profile: Profile) -> io::Result<()> {
    crate::sys::seccomp::load(&program(profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_stays_inside_the_program_and_it_ends_with_an_answer() {
        for bits in 0..128 {
            let profile = Profile {
                deny_inet: bits & 1 != 0,
                deny_unix: bits & 2 != 0,
                shared_pids: bits & 4 != 0,
                deny_exec: bits & 8 != 0,
                deny_ipc: bits & 16 != 0,
                deny_attributes: bits & 32 != 0,
                deny_clone3: bits & 64 != 0,
            };
            let program = program(profile);
            assert!(program.len() < 512, "{}", program.len());
            let ret = u16::try_from(libc::BPF_RET | libc::BPF_K).expect("small");
            assert_eq!(program.last().map(|i| i.code), Some(ret));
            for (at, i) in program.iter().enumerate() {
                if u32::from(i.code) == libc::BPF_JMP | libc::BPF_JA {
                    assert!(at + 1 + i.k as usize <= program.len());
                } else if u32::from(i.code) & 7 == libc::BPF_JMP {
                    assert!(at + 1 + usize::from(i.jt.max(i.jf)) < program.len());
                }
            }
        }
    }

    /// Plays a program through, as the kernel does, for a call whose arguments are all 0.
    fn answer_to(program: &[libc::sock_filter], call: u32) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let i = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { i.jt } else { i.jf });
            match u32::from(i.code) {
                c if c == libc::BPF_RET | libc::BPF_K => return i.k,
                c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    word = match i.k {
                        OFFSET_CALL => call,
                        OFFSET_ARCHITECTURE => ARCHITECTURE,
                        _ => 0,
                    }
                }
                c if c == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => word &= i.k,
                c if c == libc::BPF_JMP | libc::BPF_JA => at += i.k as usize,
                c if c == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += jump(word == i.k),
                c if c == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += jump(word >= i.k),
                c if c == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K => at += jump(word > i.k),
                c if c == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => at += jump(word & i.k != 0),
                c => panic!("instruction {c:#x}"),
            }
        }
    }

    #[test]
    fn every_row_is_found_and_nothing_else_is_denied() {
        let errno = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
        let open = Profile {
            deny_inet: false,
            deny_unix: false,
            shared_pids: false,
            deny_exec: false,
            deny_ipc: false,
            deny_attributes: false,
            deny_clone3: false,
        };
        let closed = Profile {
            deny_exec: true,
            deny_ipc: true,
            deny_attributes: true,
            deny_clone3: true,
            ..open
        };
        for profile in [open, closed] {
            let program = program(profile);
            let rows: std::collections::BTreeMap<_, _> = denied(profile).into_iter().collect();
            for call in 0..=NEWEST_CALL {
                let wanted = match rows.get(&call) {
                    Some(Answer::Errno(e)) => errno(*e),
                    // A family of 0 is none of those that exist.
                    None if call == number(libc::SYS_socket) || call == number(libc::SYS_socketpair) => {
                        errno(libc::EAFNOSUPPORT)
                    }
                    _ => libc::SECCOMP_RET_ALLOW,
                };
                assert_eq!(answer_to(&program, call), wanted, "call {call}");
            }
            for call in [NEWEST_CALL + 1, 0x4000_0000, u32::MAX] {
                assert_eq!(answer_to(&program, call), errno(libc::ENOSYS), "call {call}");
            }
            assert_eq!(rows.contains_key(&number(libc::SYS_execve)), profile.deny_exec);
        }
        assert_eq!(denied(open).len(), DENIED.len());
    }
}
