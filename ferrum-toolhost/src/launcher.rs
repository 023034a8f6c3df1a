//! The launcher: holds the user's ordinary authority, and does one of four things when asked.
//!
//! Single-threaded. Parses nothing but the front's bounded control frames, and starts nothing but
//! its own image, opened before the first byte was read. It never reads the project, never uses the
//! network, and has no provider key: its environment is empty.

mod cgroup;
mod directories;
mod hosts;

use crate::sys::process::{adopt, close_from, inherited, prctl};
use ferrum_proto::control::{FromLauncher, ToLauncher};
use ferrum_proto::frame::{self, FrameReader};
use ferrum_proto::limits::CONTROL_FRAME_BYTES_MAX;
use ferrum_proto::order::ToLauncherOrder;
use hosts::Hosts;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The control socket's number.
const CONTROL: i32 = 3;

/// Runs until the front goes away.
pub fn run() {
    // The front is gone or was never there: nothing to report to.
    let Some(control) = inherited(CONTROL) else {
        std::process::exit(2)
    };
    close_from(4);
    let Some(launcher) = Launcher::new(control) else {
        std::process::exit(1)
    };
    launcher.serve();
}

struct Launcher {
    control: File,
    reader: FrameReader,
    order: ToLauncherOrder,
    signals: SignalFd,
    hosts: Hosts,
    null: OwnedFd,
    /// Descriptors that came and wait for their frame.
    passed: Vec<OwnedFd>,
    /// The front died, or something asks for this process's end: nobody took leave of the hosts.
    abandoned: bool,
}

impl Launcher {
    fn new(control: OwnedFd) -> Option<Self> {
        // Not dumpable: other processes of the user cannot look into it. Hosts map ids first.
        prctl(libc::PR_SET_DUMPABLE, 0, 0).ok()?;
        prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0).ok()?;
        // TERM, not KILL: a killed launcher could not clean up after itself.
        prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as u64, 0).ok()?;
        prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).ok()?;
        let mut set = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block().ok()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).ok()?;
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let image = open("/proc/self/exe", flags, Mode::empty()).ok()?;
        let start = open(".", flags | OFlag::O_DIRECTORY, Mode::empty()).ok()?;
        nix::unistd::chdir("/").ok()?;
        Some(Self {
            control: File::from(control),
            reader: FrameReader::new(CONTROL_FRAME_BYTES_MAX),
            order: ToLauncherOrder::default(),
            signals,
            hosts: Hosts::new(image, start),
            null: open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).ok()?,
            passed: Vec::new(),
            abandoned: false,
        })
    }

    /// Any fault of the front's ends everything, as its death does.
    fn serve(mut self) {
        while self.step().is_some() {}
        if self.abandoned {
            self.hosts.let_end();
        }
        self.hosts.kill_all();
        // Tells a front that waits: everything is killed. What is left is tidying up, which whoever
        // reads the front's output to its end need not wait for: that end is ours too.
        let _ = nix::unistd::dup2_stderr(&self.null);
        drop(self.control);
        self.hosts.end_all();
    }

    fn step(&mut self) -> Option<()> {
        let mut polled = vec![
            PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        polled.extend(
            self.hosts
                .life_pipes()
                .map(|pipe| PollFd::new(pipe, PollFlags::POLLIN)),
        );
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
        let is_set = |fd: &PollFd<'_>| fd.any() == Some(true);
        let (control, signal) = (is_set(&polled[0]), is_set(&polled[1]));
        drop(polled);
        self.hosts.read_pids();
        if signal {
            self.signals()?;
        }
        if control { self.receive() } else { Some(()) }
    }

    fn signals(&mut self) -> Option<()> {
        while let Ok(Some(info)) = self.signals.read_signal() {
            if info.ssi_signo != Signal::SIGCHLD as u32 {
                self.abandoned = true;
                return None;
            }
        }
        for (host, how) in self.hosts.reap() {
            self.order.closed(host);
            self.send(&FromLauncher::HostExited { host, how })?;
        }
        Some(())
    }

    fn receive(&mut self) -> Option<()> {
        let mut buffer = [0u8; 16 << 10];
        let mut space = nix::cmsg_space!([i32; 4]);
        let count = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message = match recvmsg::<()>(self.control.as_raw_fd(), &mut parts, Some(&mut space), flags) {
                Ok(message) => message,
                Err(Errno::EINTR) => return Some(()),
                Err(_) => return None,
            };
            if message.flags.contains(MsgFlags::MSG_CTRUNC) {
                return None;
            }
            for control in message.cmsgs().ok()? {
                if let ControlMessageOwned::ScmRights(descriptors) = control {
                    self.passed.extend(descriptors.into_iter().map(adopt));
                }
            }
            message.bytes
        };
        if count == 0 {
            self.abandoned = self.is_closed();
            return None;
        }
        if self.passed.len() > 1 {
            return None;
        }
        self.reader.push(&buffer[..count]);
        while let Some(message) = self.reader.next::<ToLauncher>().ok()? {
            self.act(message)?;
        }
        // A descriptor belongs to the frame that came with it: none is kept for a later one.
        (self.passed.is_empty() || self.reader.is_partial()).then_some(())
    }

    /// A front that takes leave shuts its writing side only (unix(7): HUP needs both).
    fn is_closed(&self) -> bool {
        let mut polled = [PollFd::new(self.control.as_fd(), PollFlags::empty())];
        let _ = poll(&mut polled, PollTimeout::ZERO);
        let events = polled[0].revents();
        events.is_some_and(|events| events.contains(PollFlags::POLLHUP))
    }

    fn act(&mut self, message: ToLauncher) -> Option<()> {
        let wants = matches!(
            message,
            ToLauncher::OpenHost { .. } | ToLauncher::OpenCheck { .. } | ToLauncher::OpenLint { .. }
        );
        let descriptors = usize::from(wants && !self.passed.is_empty());
        self.order.admit(&message, descriptors).ok()?;
        match message {
            ToLauncher::Hello { build, .. } => {
                let own = ferrum_proto::BUILD.to_owned();
                self.send(&FromLauncher::Hello {
                    protocol: ferrum_proto::PROTOCOL,
                    build: own,
                })?;
                // A charter of another build would be misread. The front says so.
                (build == ferrum_proto::BUILD).then_some(())
            }
            ToLauncher::Charter(charter) => {
                self.hosts.charter(*charter);
                Some(())
            }
            ToLauncher::OpenHost { host, cwd, wish } => {
                let socket = self.passed.pop()?;
                let opened = self.hosts.open(host, &cwd, wish, socket);
                self.opened(host, opened)
            }
            ToLauncher::OpenCheck { host, cwd, wish } => {
                let socket = self.passed.pop()?;
                let opened = self.hosts.open_check(host, &cwd, wish, socket);
                self.opened(host, opened)
            }
            ToLauncher::OpenLint { host, cwd, file } => {
                let socket = self.passed.pop()?;
                let opened = self.hosts.open_lint(host, &cwd, file, socket);
                self.opened(host, opened)
            }
            ToLauncher::CloseHost { host } => {
                self.hosts.close(host);
                Some(())
            }
        }
    }

    fn opened(&mut self, host: u32, result: Result<(), String>) -> Option<()> {
        match result {
            Ok(()) => self.send(&FromLauncher::HostStarted { host }),
            Err(message) => {
                self.order.closed(host);
                self.send(&FromLauncher::HostRefused { host, message })
            }
        }
    }

    fn send(&mut self, message: &FromLauncher) -> Option<()> {
        let bytes = frame::encode(message, CONTROL_FRAME_BYTES_MAX).ok()?;
        self.control.write_all(&bytes).ok()
    }
}
