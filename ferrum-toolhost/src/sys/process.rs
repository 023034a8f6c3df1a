//! Making processes, and what a process gives up.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Process id as the kernel gives it.
pub type Pid = libc::pid_t;

/// Which side of a fork the caller is on.
pub enum Fork {
    Parent(Pid),
    Child,
}

/// fork or clone with `flags` and the given exit signal in them; memory is copied.
///
/// # Errors
/// The kernel's: `EPERM`, `ENOSPC` or `EUSERS` where namespaces are denied.
pub fn clone(flags: libc::c_int) -> io::Result<Fork> {
    // SAFETY: without CLONE_VM this is fork with more flags: the child runs on a copy of this
    // stack. The caller is single-threaded, so no lock is held by a thread that is gone.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(flags),
            0usize,
            0usize,
            0usize,
            0usize,
        )
    };
    match super::check_int(pid)? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends the calling process without running destructors or exit handlers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Everything that a spawned role of this program gets.
pub struct RolePlan<'a> {
    /// The program's own image.
    pub image: BorrowedFd<'a>,
    pub argv: &'a [&'a CStr],
    /// Descriptors that become 0, 1, 2, 3, … in this order; `None` stays closed.
    pub descriptors: &'a [Option<BorrowedFd<'a>>],
    pub cwd: BorrowedFd<'a>,
    /// The cgroup leaf that the process begins in, if it can. Where it cannot, the descriptor
    /// numbered `cgroup_slot` is closed, so the role sees that there is none.
    pub cgroup: Option<BorrowedFd<'a>>,
    pub cgroup_slot: RawFd,
    /// uid and gid to become first.
    pub become_user: Option<(u32, u32)>,
}

/// Starts a role by exec with an empty environment. Returns its pid.
///
/// # Errors
/// fork's. A failing exec shows as exit status 127.
pub fn spawn_role(plan: &RolePlan<'_>) -> io::Result<Pid> {
    let argv: Vec<*const libc::c_char> = plan
        .argv
        .iter()
        .map(|a| a.as_ptr())
        .chain([std::ptr::null()])
        .collect();
    let envp = [std::ptr::null::<libc::c_char>()];
    let sources: Vec<RawFd> = plan
        .descriptors
        .iter()
        .map(|d| d.as_ref().map_or(-1, AsRawFd::as_raw_fd))
        .collect();
    let (side, joined) = fork_in(plan.cgroup)?;
    if let Fork::Parent(pid) = side {
        return Ok(pid);
    }
    // SAFETY: between fork and exec: plain system calls on memory prepared above, no allocation.
    unsafe {
        libc::setsid();
        if libc::fchdir(plan.cwd.as_raw_fd()) != 0 {
            libc::_exit(126);
        }
        if let Some((uid, gid)) = plan.become_user {
            let groups = libc::setgroups(0, std::ptr::null());
            if groups != 0 || libc::setresgid(gid, gid, gid) != 0 || libc::setresuid(uid, uid, uid) != 0 {
                libc::_exit(126);
            }
        }
        // First far above every target, so that no source is overwritten before it is used.
        let base = 64;
        let image = libc::fcntl(plan.image.as_raw_fd(), libc::F_DUPFD_CLOEXEC, base);
        let mut high = [-1; 16];
        for (slot, source) in high.iter_mut().zip(&sources) {
            if *source >= 0 {
                *slot = libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, base);
            }
        }
        for (number, source) in (0..).zip(high.iter().take(sources.len())) {
            let dropped = *source < 0 || (number == plan.cgroup_slot && !joined);
            if dropped {
                libc::close(number);
            } else {
                libc::dup2(*source, number);
            }
        }
        libc::syscall(
            libc::SYS_close_range,
            sources.len(),
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::syscall(
            libc::SYS_execveat,
            image,
            c"".as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
        libc::_exit(127)
    }
}

/// fork, with the child in `cgroup` from its first instant where that can be had. A process that
/// joins later waits for a grace period of the kernel: milliseconds. Threads of the caller are no
/// matter: the child makes only plain system calls on memory that was prepared.
fn fork_in(cgroup: Option<BorrowedFd<'_>>) -> io::Result<(Fork, bool)> {
    if let Some(cgroup) = cgroup
        && let Ok(side) = clone_into(cgroup)
    {
        return Ok((side, true));
    }
    clone(libc::SIGCHLD).map(|side| (side, false))
}

/// `CLONE_INTO_CGROUP` of `linux/sched.h` (5.7).
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

fn clone_into(cgroup: BorrowedFd<'_>) -> io::Result<Fork> {
    // SAFETY: a structure of integers, for which zero is a valid value.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD.unsigned_abs().into();
    arguments.cgroup = cgroup.as_raw_fd().unsigned_abs().into();
    // SAFETY: as in `clone`; the structure outlives the call and its size is passed.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) };
    match super::check_int(pid)? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Everything that one command gets, prepared before the fork.
pub struct CommandPlan<'a> {
    pub program: &'a CStr,
    pub argv: &'a [*const libc::c_char],
    pub envp: &'a [*const libc::c_char],
    pub stdin: RawFd,
    pub stdout: RawFd,
    pub stderr: RawFd,
    /// Receives an errno and a step number as two native ints when a step fails.
    pub failure: RawFd,
    pub cwd: RawFd,
    /// The command's cgroup, and its `cgroup.procs`.
    pub cgroup: Option<(BorrowedFd<'a>, RawFd)>,
    /// The command's own Landlock layer, or -1.
    pub landlock: RawFd,
    /// The command's own filter; may be empty.
    pub filter: &'a [libc::sock_filter],
    pub limits: &'a [(libc::__rlimit_resource_t, u64)],
    /// Send SIGKILL when the host dies: needed where no pid namespace does it.
    pub die_with_host: bool,
}

/// The steps of a stage, in order, as reported on failure.
pub const STAGE_STEPS: [&str; 8] = [
    "cgroup",
    "descriptors",
    "working directory",
    "limits",
    "landlock",
    "close",
    "filter",
    "exec",
];

/// fork, then the stage: own session, cgroup, descriptors, limits, Landlock layer, exec.
///
/// # Errors
/// fork's. Later failures arrive on `failure`.
pub fn spawn_command(plan: &CommandPlan<'_>) -> io::Result<Pid> {
    let (side, joined) = fork_in(plan.cgroup.map(|(directory, _)| directory))?;
    if let Fork::Parent(pid) = side {
        return Ok(pid);
    }
    let step = stage(plan, joined);
    // SAFETY: reports the failed step and ends the child.
    unsafe {
        let report = [*libc::__errno_location(), step];
        libc::write(
            plan.failure,
            report.as_ptr().cast(),
            std::mem::size_of_val(&report),
        );
        libc::_exit(127)
    }
}

/// Returns the number of the step that failed; does not return where all went well.
fn stage(plan: &CommandPlan<'_>, joined: bool) -> libc::c_int {
    // SAFETY: between fork and exec: plain system calls on prepared memory, no allocation.
    unsafe {
        libc::setsid();
        if plan.die_with_host {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        if let Some((_, procs)) = plan.cgroup
            && !joined
            && libc::write(procs, c"0".as_ptr().cast(), 1) != 1
        {
            return 0;
        }
        for (source, target) in [(plan.stdin, 0), (plan.stdout, 1), (plan.stderr, 2)] {
            if libc::dup2(source, target) < 0 {
                return 1;
            }
        }
        if libc::fchdir(plan.cwd) != 0 {
            return 2;
        }
        for (resource, value) in plan.limits {
            let mut limit: libc::rlimit = std::mem::zeroed();
            // What the user may have is less: then that is the limit.
            let most = match libc::getrlimit(*resource, &raw mut limit) {
                0 => limit.rlim_max.min(*value),
                _ => *value,
            };
            limit.rlim_cur = most;
            limit.rlim_max = most;
            if libc::setrlimit(*resource, &raw const limit) != 0 {
                return 3;
            }
        }
        if plan.landlock >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, plan.landlock, 0u32) != 0 {
            return 4;
        }
        if libc::syscall(
            libc::SYS_close_range,
            3u32,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        ) != 0
        {
            return 5;
        }
        if !plan.filter.is_empty() && super::seccomp::load(plan.filter).is_err() {
            return 6;
        }
        default_signals();
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
        7
    }
}

/// Ignored signals stay ignored through an exec; a command finds all of them as they are by
/// default. By number, because the C library keeps its own two (32, 33) from its wrapper.
fn default_signals() {
    const SIGNALS: libc::c_int = 64;
    // The kernel's structure (handler, flags, restorer, mask) with every field zero: SIG_DFL.
    let default = [0u64; 4];
    for signal in 1..=SIGNALS {
        // SAFETY: `default` outlives the call; the kernel reads no more than the structure. KILL
        // and STOP are refused, which is no loss.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8usize,
            );
        }
    }
}

/// How a waited-for process ended, with what it used.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub pid: Pid,
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    pub cpu_us: u64,
    /// Largest resident set of the process or a waited-for child, in bytes.
    pub peak_memory: u64,
}

/// What a non-blocking wait found.
pub enum Waited {
    Ended(Ended),
    /// Children are there, none has ended.
    Running,
    /// There are no children at all.
    Childless,
}

/// Reaps one child of any kind, without blocking.
#[must_use]
pub fn wait_any() -> Waited {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of the type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the length of the call.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut usage) };
    if pid < 0 {
        return Waited::Childless;
    }
    if pid == 0 {
        return Waited::Running;
    }
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    let code = signal.map_or(libc::WEXITSTATUS(status), |signal| 128 + signal);
    let micros = |t: libc::timeval| (t.tv_sec * 1_000_000 + t.tv_usec).cast_unsigned();
    Waited::Ended(Ended {
        pid,
        status: code,
        signal,
        cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_memory: usage.ru_maxrss.cast_unsigned() * 1024,
    })
}

/// Sends `signal` to a pid, a group (negative) or all (-1).
///
/// # Errors
/// The kernel's: `ESRCH` where nobody is left.
pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: takes two integers.
    let done = unsafe { libc::kill(pid, signal) };
    super::check(libc::c_long::from(done)).map(|_| ())
}

/// True while `pid` is a child of this process that has not been waited for.
#[must_use]
pub fn is_child(pid: Pid) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: zero is a valid value of the structure, which outlives the call.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        pid > 0 && libc::waitid(libc::P_PID, pid.unsigned_abs(), &raw mut found, flags) == 0
    }
}

/// One prctl with integer arguments.
///
/// # Errors
/// The kernel's.
pub fn prctl(option: libc::c_int, a: u64, b: u64) -> io::Result<i32> {
    // SAFETY: only options whose arguments are integers are used by the callers.
    let done = unsafe { libc::prctl(option, a, b, 0u64, 0u64) };
    super::check_int(libc::c_long::from(done))
}

/// Marks every descriptor from `first` on as close-on-exec, or closes it.
pub fn close_from(first: u32) {
    // SAFETY: takes integers; descriptors above `first` are owned by nobody at this point.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0u32) };
}

/// Takes an inherited descriptor by number, if it is open.
#[must_use]
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: takes integers.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: the descriptor is open and, by the start order, owned by nobody yet.
    Some(unsafe { std::os::fd::FromRawFd::from_raw_fd(number) })
}

/// Takes ownership of a descriptor that the kernel has just put into this process.
#[must_use]
pub fn adopt(number: RawFd) -> OwnedFd {
    // SAFETY: a system call made this descriptor for this process and nobody else knows its number.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(number) }
}

/// Clears every capability set, the bounding and ambient ones included.
///
/// # Errors
/// The kernel's.
pub fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    // Ambient first, then bounding while CAP_SETPCAP is still there. Past the last capability
    // PR_CAPBSET_READ says EINVAL.
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0);
    for capability in 0..64 {
        match prctl(libc::PR_CAPBSET_READ, capability, 0) {
            Ok(1) => {
                // EPERM for a process that never had it: then nothing can be gained from it either.
                let _ = prctl(libc::PR_CAPBSET_DROP, capability, 0);
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let none = [Sets {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    }; 2];
    // SAFETY: both structures are valid for the length of the call.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    super::check(done).map(|_| ())
}

/// A soft and hard resource limit.
///
/// # Errors
/// The kernel's.
pub fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: `limit` is valid for the length of the call.
    let done = unsafe { libc::setrlimit(resource, &raw const limit) };
    super::check(libc::c_long::from(done)).map(|_| ())
}
