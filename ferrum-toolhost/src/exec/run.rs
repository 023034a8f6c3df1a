//! One command from stage to end.

use super::cgroup::{CommandCgroup, SessionCgroup};
use super::check::Checker;
use super::output::Capture;
use super::processes::{self, Swept};
use crate::sys::ipc;
use crate::sys::process::{CommandPlan, Ended, STAGE_STEPS, Waited, kill, spawn_command, wait_any};
use ferrum_proto::reply::CommandEnd;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{pipe2, read};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between TERM and KILL, in milliseconds.
const GRACE_MS: u64 = 200;
/// How soon a cut is seen while a cancelled command has its grace, in milliseconds.
const CUT_MS_MAX: u64 = 10;
/// How long output may still come after the last process is gone, in milliseconds.
const DRAIN_MS_MAX: u64 = 250;
/// All spools of a session together, in bytes.
pub const SESSION_SPOOL_BYTES_MAX: u64 = 256 << 20;
/// Bytes taken from a pipe at once.
const READ_BYTES: usize = 64 << 10;

/// Says "stop" to a running call, from another thread.
pub struct Cancel {
    flag: AtomicBool,
    /// Nobody waits for the answer any more: no time for a last word.
    cut: AtomicBool,
    event: EventFd,
}

impl Cancel {
    /// # Errors
    /// The system's, when descriptors run out.
    pub fn new() -> nix::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            flag: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            event,
        })
    }

    pub fn cancel(&self) {
        self.flag.store(true, Ordering::SeqCst);
        // A full counter is already readable.
        let _ = self.event.write(1);
    }

    /// Cancels without the time between TERM and KILL.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.cancel();
    }

    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    #[must_use]
    pub fn event(&self) -> &EventFd {
        &self.event
    }
}

/// How the end of a call is brought about and known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This process is pid 1 of the session's namespace.
    Namespace,
    /// This process is a subreaper among the user's other processes. `scoped`: its signals reach
    /// none of those.
    Subreaper { scoped: bool },
}

/// What every command of a session shares.
pub struct Runner {
    pub bash: CString,
    /// Run in place of bash, with the text of the command as its argument.
    pub prober: Option<OwnedFd>,
    pub environment: Vec<CString>,
    pub cwd: OwnedFd,
    pub landlock: Option<OwnedFd>,
    pub cgroup: Option<SessionCgroup>,
    pub reach: Reach,
    /// What each command adds to the host's own filter.
    pub filter: Vec<libc::sock_filter>,
    pub signals: SignalFd,
    pub null: OwnedFd,
    pub spool: PathBuf,
    pub spool_budget: u64,
    pub pids: u32,
    /// The namespace's own `pid_max` holds `pids`.
    pub pids_held: bool,
    pub memory: u64,
    pub file: u64,
    pub commands: u64,
    pub checker: Checker,
}

/// What came of one command.
pub struct Ran {
    pub end: CommandEnd,
    pub main: Option<Ended>,
    pub stdout: Capture,
    pub stderr: Capture,
    pub output_incomplete: bool,
    pub swept: Swept,
    pub joined_cgroup: bool,
    pub cgroup_error: Option<String>,
    pub peak_memory: Option<u64>,
    pub limits_missing: Vec<&'static str>,
}

struct Pipe {
    read: Option<OwnedFd>,
    capture: Capture,
}

impl Runner {
    /// Runs `command` and returns when nothing of it is left.
    ///
    /// # Errors
    /// A sentence: the stage failed, so nothing was run.
    pub fn run(
        &mut self,
        command: &str,
        timeout: Duration,
        cancel: &Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran, String> {
        self.commands += 1;
        let number = self.commands;
        let mut cgroup_error = None;
        let mut limits_missing = vec![];
        limits_missing.extend((self.pids > 0 && !self.pids_held).then_some("pids"));
        limits_missing.extend((self.memory > 0).then_some("memory"));
        let cgroup = self
            .cgroup
            .as_mut()
            .and_then(|session| match session.open(self.pids, self.memory) {
                Ok((cgroup, held)) => {
                    limits_missing.retain(|limit| !held.contains(limit));
                    Some(cgroup)
                }
                Err(e) => {
                    cgroup_error = Some(format!("cannot make a cgroup: {e}"));
                    None
                }
            });
        let limits = limits(self.file);
        let prober = self.prober.as_ref().map(by_descriptor);
        let shared = Stage {
            bash: prober.as_ref().unwrap_or(&self.bash),
            environment: &self.environment,
            cwd: self.cwd.as_raw_fd(),
            landlock: self.landlock.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            filter: &self.filter,
            input: self.null.as_raw_fd(),
            limits: &limits,
            reach: self.reach,
        };
        let text = CString::new(command).map_err(|_| "the command holds a NUL character".to_owned())?;
        let argv: &[&CStr] = match prober {
            Some(_) => &[c"ferrum-toolhost", c"probe", text.as_c_str()],
            None => &[c"bash", c"--noprofile", c"--norc", c"-c", text.as_c_str()],
        };
        let started = shared.start(argv, cgroup.as_ref())?;
        let mut pipes = [
            Pipe {
                read: Some(started.stdout),
                capture: Capture::new(self.spool.join(format!("{number}-stdout.log"))),
            },
            Pipe {
                read: Some(started.stderr),
                capture: Capture::new(self.spool.join(format!("{number}-stderr.log"))),
            },
        ];
        let mut watch = Watching {
            pid: started.pid,
            pipes: &mut pipes,
            signals: &self.signals,
            cancel,
            budget: &mut self.spool_budget,
            deadline: Instant::now() + timeout,
            progress,
        };
        let (end, main) = watch.until_ended();
        let swept = match self.reach {
            Reach::Namespace => {
                let swept = processes::sweep_namespace();
                // The namespace is the session's: with its processes gone these are nobody's.
                ipc::remove_all();
                swept
            }
            Reach::Subreaper { scoped } => processes::sweep_children(
                started.pid,
                scoped,
                || {
                    if let Some(cgroup) = &cgroup {
                        cgroup.kill();
                    }
                },
                || cgroup.as_ref().is_some_and(CommandCgroup::is_populated),
            ),
        };
        // A process that was ended while it still held a pipe had more to say.
        let cut_off = swept.count > 0 && watch.pipes.iter().any(|p| p.read.is_some());
        let output_incomplete = watch.drain() || cut_off;
        let joined_cgroup = cgroup.is_some();
        let peak_memory = cgroup
            .as_ref()
            .and_then(CommandCgroup::peak_memory)
            .or(main.map(|m| m.peak_memory));
        if let Some(cgroup) = cgroup {
            cgroup.close();
        }
        let [stdout, stderr] = pipes.map(|p| p.capture);
        Ok(Ran {
            end,
            main,
            stdout,
            stderr,
            output_incomplete,
            swept,
            joined_cgroup,
            cgroup_error,
            peak_memory,
            limits_missing,
        })
    }
}

/// A path that leads to an open file in every view: `/proc/self` is the stage's own.
fn by_descriptor(file: &OwnedFd) -> CString {
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// Limits that need no controller.
pub(super) fn limits(file: u64) -> Vec<(libc::__rlimit_resource_t, u64)> {
    let mut limits = vec![(libc::RLIMIT_CORE, 0)];
    if file > 0 {
        limits.push((libc::RLIMIT_FSIZE, file));
    }
    limits
}

/// The parts of a [`Runner`] that the stage needs, apart from its cgroup.
pub(super) struct Stage<'a> {
    pub(super) bash: &'a CStr,
    pub(super) environment: &'a [CString],
    pub(super) cwd: i32,
    pub(super) landlock: i32,
    pub(super) filter: &'a [libc::sock_filter],
    pub(super) input: i32,
    pub(super) limits: &'a [(libc::__rlimit_resource_t, u64)],
    pub(super) reach: Reach,
}

pub(super) struct Started {
    pub(super) pid: i32,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Stage<'_> {
    pub(super) fn start(
        &self,
        argv: &[&CStr],
        cgroup: Option<&CommandCgroup<'_>>,
    ) -> Result<Started, String> {
        let argv: Vec<_> = argv
            .iter()
            .map(|a| a.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        let envp: Vec<_> = self
            .environment
            .iter()
            .map(|e| e.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        let make = || pipe2(OFlag::O_CLOEXEC).map_err(|e| format!("cannot make a pipe: {e}"));
        let ((stdout, stdout_end), (stderr, stderr_end), (failure, failure_end)) =
            (make()?, make()?, make()?);
        let pid = spawn_command(&CommandPlan {
            program: self.bash,
            argv: &argv,
            envp: &envp,
            stdin: self.input,
            stdout: stdout_end.as_raw_fd(),
            stderr: stderr_end.as_raw_fd(),
            failure: failure_end.as_raw_fd(),
            cwd: self.cwd,
            cgroup: cgroup.map(CommandCgroup::ways),
            landlock: self.landlock,
            filter: self.filter,
            limits: self.limits,
            die_with_host: self.reach != Reach::Namespace,
        })
        .map_err(|e| format!("cannot start a process: {e}"))?;
        drop((stdout_end, stderr_end, failure_end));
        if let Some(reason) = stage_failure(&failure) {
            // The stage has ended itself; reap it, so that the next wait does not see it.
            while matches!(wait_any(), Waited::Running) {
                std::thread::sleep(Duration::from_micros(50));
            }
            return Err(reason);
        }
        for pipe in [&stdout, &stderr] {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
                .map_err(|e| format!("cannot set up a pipe: {e}"))?;
        }
        Ok(Started { pid, stdout, stderr })
    }
}

/// Waits until the exec closed its end (success) or the stage reported a failed step.
fn stage_failure(failure: &OwnedFd) -> Option<String> {
    let mut report = [0u8; 8];
    loop {
        match read(failure, &mut report) {
            Ok(8) => break,
            Err(Errno::EINTR) => {}
            _ => return None,
        }
    }
    let word = |at: usize| i32::from_ne_bytes([report[at], report[at + 1], report[at + 2], report[at + 3]]);
    let step = usize::try_from(word(4))
        .ok()
        .and_then(|s| STAGE_STEPS.get(s))
        .copied()
        .unwrap_or("unknown");
    Some(format!(
        "the command was not started: {step}: {}",
        io::Error::from_raw_os_error(word(0))
    ))
}

/// A command under way.
struct Watching<'a> {
    pid: i32,
    pipes: &'a mut [Pipe; 2],
    signals: &'a SignalFd,
    cancel: &'a Cancel,
    budget: &'a mut u64,
    deadline: Instant,
    progress: &'a mut dyn FnMut(u64),
}

impl Watching<'_> {
    /// Reads output and reaps orphans until the command's own process has ended.
    fn until_ended(&mut self) -> (CommandEnd, Option<Ended>) {
        let mut end = CommandEnd::Exited;
        let mut stop_at: Option<Instant> = None;
        loop {
            if let Some(main) = self.reap() {
                return (end, Some(main));
            }
            let now = Instant::now();
            match stop_at {
                None if self.cancel.is_cancelled() || now >= self.deadline => {
                    end = if self.cancel.is_cancelled() {
                        CommandEnd::Cancelled
                    } else {
                        CommandEnd::TimedOut
                    };
                    let _ = kill(-self.pid, libc::SIGTERM);
                    stop_at = Some(now + Duration::from_millis(GRACE_MS));
                }
                Some(at) if now >= at || self.cancel.is_cut() => return (end, None),
                _ => {}
            }
            self.wait(stop_at.unwrap_or(self.deadline), stop_at.is_none());
            (self.progress)(self.pipes.iter().map(|p| p.capture.total).sum());
        }
    }

    fn reap(&self) -> Option<Ended> {
        loop {
            match wait_any() {
                Waited::Ended(ended) if ended.pid == self.pid => return Some(ended),
                Waited::Ended(_) => {}
                Waited::Running | Waited::Childless => return None,
            }
        }
    }

    /// Sleeps until something happens, and takes what output is there.
    fn wait(&mut self, until: Instant, heed_cancel: bool) {
        // What was cancelled may be cut next, which its event, raised already, does not tell.
        let pause_ms = if heed_cancel { 1_000 } else { CUT_MS_MAX };
        let pause = until
            .saturating_duration_since(Instant::now())
            .min(Duration::from_millis(pause_ms));
        // Rounded up: a wait of 0 ms would spin through the last millisecond.
        let pause = PollTimeout::try_from(pause + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        let mut polled = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if heed_cancel {
            polled.push(PollFd::new(self.cancel.event().as_fd(), PollFlags::POLLIN));
        }
        let open: Vec<&OwnedFd> = self.pipes.iter().filter_map(|p| p.read.as_ref()).collect();
        polled.extend(open.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        // An interrupted poll is a short one.
        let _ = poll(&mut polled, pause);
        while let Ok(Some(_)) = self.signals.read_signal() {}
        self.take_output();
    }

    /// Reads at most a few chunks of each stream, so that a flood does not starve the rest.
    fn take_output(&mut self) -> bool {
        let mut buffer = [0u8; READ_BYTES];
        let mut any = false;
        for pipe in self.pipes.iter_mut() {
            for _ in 0..4 {
                let Some(fd) = &pipe.read else { break };
                match read(fd, &mut buffer) {
                    Ok(0) => pipe.read = None,
                    Ok(count) => {
                        any = true;
                        pipe.capture.push(&buffer[..count], self.budget);
                    }
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break,
                    Err(e) => {
                        pipe.capture.error = Some(format!("read: {e}"));
                        pipe.read = None;
                    }
                }
            }
        }
        any
    }

    /// Takes what is still in the pipes. True where a writer is still there after the deadline.
    fn drain(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_millis(DRAIN_MS_MAX);
        while self.pipes.iter().any(|p| p.read.is_some()) {
            if !self.take_output() {
                if Instant::now() >= deadline {
                    return true;
                }
                self.wait(deadline, false);
            }
        }
        false
    }
}
