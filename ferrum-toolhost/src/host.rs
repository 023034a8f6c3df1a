//! The host's start order: from exec to the first call.
//!
//! The outer half reads the seal, lets the reader thread decide, answers `Granted` and makes the
//! process that will serve, in namespaces of its own where the machine allows it. The inner half
//! builds the walls, answers `Ready` and serves. Nothing before `confine` touches what commands made.

mod build;
mod restrict;

pub use build::Built;
pub use restrict::find_bash;

use crate::confine::namespace::{Ids, Namespaces};
use crate::confine::unreadable::{self, Searcher, Wanted};
use crate::confine::{self, reader};
use crate::outbox::Outbox;
use crate::seal::{self, Decision};
use crate::sys::process::{Fork, close_from, exit_now, inherited, prctl};
use build::Trouble;
use ferrum_proto::frame;
use ferrum_proto::limits::SEAL_BYTES_MAX;
use ferrum_proto::reply::FromHost;
use ferrum_proto::seal::{Seal, SealFailed, SealFailure};
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::{pipe2, read, write};
use policy::{Network, Tier};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

const TOOL: i32 = 3;
const SEAL: i32 = 4;
const CGROUP: i32 = 5;
const LIFE: i32 = 6;
const GATE: i32 = 7;

/// Where files lie that are for some users only, and sockets of what an administrator installed.
const SEARCHED: [(&str, Wanted); 3] = [
    ("/etc", Wanted::All),
    ("/opt", Wanted::All),
    ("/usr/local", Wanted::Sockets),
];

/// What the inner half says to the outer one: the view stands, or namespaces are not to be had.
const UP: u8 = b'u';
const DENIED_PROC: u8 = b'p';
const DENIED: u8 = b'd';

/// Everything that a host holds from its start.
pub struct Start {
    pub began: Instant,
    pub seal: Seal,
    pub decision: Decision,
    pub outbox: Outbox,
    pub cgroup: Option<OwnedFd>,
    /// The program's own image, where the host was opened to run it as a prober.
    pub image: Option<OwnedFd>,
    life: OwnedFd,
    ids: Ids,
    /// No user namespace can be made inside.
    innermost: bool,
    /// Walls that are not in force, with what failed.
    pub missing: Vec<(&'static str, String)>,
}

/// What the inner half has of the outer one.
struct Up {
    /// Where it says how it went.
    say: OwnedFd,
    unreadable: unreadable::Search,
}

/// The first half of a start, the same in both roles of a host.
pub struct Opening {
    pub seal: Seal,
    pub decision: Decision,
    pub outbox: Outbox,
    cgroup: Option<OwnedFd>,
    life: OwnedFd,
    gate: Option<OwnedFd>,
}

/// What came with the exec, before anything of the project has been read.
pub struct Sealed {
    pub seal: Seal,
    pub outbox: Outbox,
    cgroup: Option<OwnedFd>,
    life: OwnedFd,
    /// A word comes through when the session's directories are there. None in role check, which
    /// has none.
    gate: Option<OwnedFd>,
}

impl Sealed {
    /// Takes the descriptors over, greets and reads the seal. Says itself what fails, and ends the
    /// process then.
    #[must_use]
    pub fn read() -> Self {
        let (Some(tool), Some(memory), Some(life)) = (inherited(TOOL), inherited(SEAL), inherited(LIFE))
        else {
            exit_now(2);
        };
        let cgroup = inherited(CGROUP);
        let gate = inherited(GATE);
        close_from(8);
        let outbox = Outbox::new(tool);
        outbox.hello();
        let mut bytes = Vec::new();
        let read = File::from(memory)
            .take(SEAL_BYTES_MAX as u64)
            .read_to_end(&mut bytes);
        let seal = match read.map(|_| frame::decode_value::<Seal>(&bytes)) {
            Ok(Ok(seal)) => seal,
            _ => fail(
                &outbox,
                SealFailure::Setup,
                "the launcher passed no valid seal",
                "",
            ),
        };
        Self {
            seal,
            outbox,
            cgroup,
            life,
            gate,
        }
    }

    /// Lets the reader thread look at the project's text. Says itself what fails, and ends the
    /// process then.
    pub fn reading<T: Send>(&self, look: impl FnOnce(&Seal) -> T + Send) -> T {
        reader(|| look(&self.seal)).unwrap_or_else(|e| {
            let message = format!("cannot confine the policy reader: {e}");
            fail(
                &self.outbox,
                SealFailure::Isolation,
                &message,
                "run `ferrum doctor`",
            )
        })
    }

    /// Lets the reader thread decide. Says itself what fails, and ends the process then.
    #[must_use]
    pub fn decide(self) -> Opening {
        let decision = match self.reading(seal::decide) {
            Ok(decision) => decision,
            Err(failed) => fail_with(&self.outbox, failed),
        };
        Opening {
            seal: self.seal,
            decision,
            outbox: self.outbox,
            cgroup: self.cgroup,
            life: self.life,
            gate: self.gate,
        }
    }
}

/// The host role: does not return.
pub fn run() {
    let began = Instant::now();
    let Opening {
        seal,
        decision,
        outbox,
        cgroup,
        life,
        gate,
    } = Sealed::read().decide();
    outbox.send(&FromHost::Granted(Box::new(seal::granted(&seal, &decision))));
    if gate.is_none_or(|gate| read(&gate, &mut [0u8; 1]) != Ok(1)) {
        // The launcher has said why, or is gone.
        exit_now(1);
    }
    // Before the view, in which the image has no name.
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let image = (seal.wish.probes)
        .then(|| open("/proc/self/exe", flags, Mode::empty()).ok())
        .flatten();
    let start = Start {
        image,
        began,
        seal,
        decision,
        outbox,
        cgroup,
        life,
        ids: Ids::now(),
        innermost: false,
        missing: Vec::new(),
    };
    start.enter();
}

fn fail(outbox: &Outbox, kind: SealFailure, message: &str, hint: &str) -> ! {
    fail_with(
        outbox,
        SealFailed {
            kind,
            message: message.into(),
            hint: hint.into(),
        },
    )
}

fn fail_with(outbox: &Outbox, failed: SealFailed) -> ! {
    outbox.send(&FromHost::SealFailed(failed));
    exit_now(1)
}

impl Start {
    fn tier(&self) -> Tier {
        self.decision.grant.tier()
    }

    /// Tries the modes from the strongest down. Only a denial by the kernel or an administrator
    /// leads to the next one; any other failure ends the host with its reason.
    fn enter(mut self) -> ! {
        for mode in [confine::Mode::Full, confine::Mode::SharedPids] {
            // At low commands see the user's processes, so there is only one mode with mounts.
            if self.tier() == Tier::Low && mode == confine::Mode::Full {
                continue;
            }
            let (said, say) = match pipe2(OFlag::O_CLOEXEC) {
                Ok(pipe) => pipe,
                Err(e) => fail(&self.outbox, SealFailure::Setup, &format!("pipe: {e}"), ""),
            };
            let namespaces = self.namespaces(mode);
            let (searcher, unreadable) = match unreadable::ends() {
                Ok(ends) => ends,
                Err(step) => fail(&self.outbox, SealFailure::Setup, &step.to_string(), ""),
            };
            match namespaces.enter() {
                Ok(Fork::Child) => {
                    drop((said, searcher));
                    let up = Up { say, unreadable };
                    self.inner(mode, namespaces, Some(up));
                }
                Ok(Fork::Parent(pid)) => {
                    drop((say, unreadable));
                    // The launcher must know the pid before this process is gone.
                    let _ = write(&self.life, &pid.to_ne_bytes());
                    self.search(searcher);
                    let mut word = [0u8; 1];
                    let count = read(&said, &mut word).unwrap_or(0);
                    let mut reason = String::new();
                    let _ = File::from(said).read_to_string(&mut reason);
                    match (count, word[0]) {
                        (1, DENIED_PROC) if mode == confine::Mode::Full => {
                            self.missing.push(("pid namespace", reason))
                        }
                        (1, DENIED | DENIED_PROC) => {
                            self.missing.push(("mount view", reason));
                            break;
                        }
                        // It serves now, or has said itself why it ended.
                        _ => exit_now(0),
                    }
                }
                Err(step) => {
                    self.missing.push(("mount view", step.to_string()));
                    break;
                }
            }
        }
        let none = Namespaces {
            pid: false,
            network: false,
            loopback: false,
            ipc: false,
        };
        self.inner(confine::Mode::LandlockOnly, none, None)
    }

    /// At low the user's own authority is the measure, and any other user's reading is its own.
    fn search(&self, searcher: Searcher) {
        let tops = SEARCHED.map(|(top, wanted)| match self.ids.uid {
            0 => (top, wanted),
            _ => (top, Wanted::Sockets),
        });
        let tops: &[_] = if self.tier() == Tier::Low { &[] } else { &tops };
        let sockets = self
            .seal
            .charter
            .sockets
            .iter()
            .map(|socket| socket.to_path_buf());
        let roots = self.decision.grant.writable_roots().iter().cloned();
        searcher.search(tops, &roots.chain(sockets).collect::<Vec<_>>());
    }

    fn namespaces(&self, mode: confine::Mode) -> Namespaces {
        let network = self.decision.grant.network();
        Namespaces {
            pid: mode == confine::Mode::Full,
            network: network != Network::Full,
            loopback: network == Network::Private,
            ipc: self.tier() != Tier::Low,
        }
    }

    /// The serving half. `up` is there where the outer half waits to learn how it went.
    fn inner(mut self, mode: confine::Mode, namespaces: Namespaces, up: Option<Up>) -> ! {
        // KILL does reach pid 1 of a namespace when it comes from an ancestor. The parent may be
        // gone already, and getppid cannot tell from in here: the pipe to the launcher can.
        if prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).is_err() || self.is_orphan() {
            exit_now(1);
        }
        // Pid 1 of a namespace adopts anyway; elsewhere orphans of a command would go to the launcher.
        if let Err(e) = prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0) {
            fail(
                &self.outbox,
                SealFailure::Setup,
                &format!("subreaper: {e}"),
                "run `ferrum doctor`",
            );
        }
        let (say, built) = match up {
            None => (None, self.without_mounts()),
            Some(Up { say, unreadable }) => (Some(say), self.with_mounts(mode, namespaces, unreadable)),
        };
        let built = match built {
            Ok(built) => built,
            Err(Trouble::Denied(code, step)) if say.is_some() => {
                if let Some(say) = say {
                    let _ = write(&say, &[code]);
                    let _ = write(&say, step.to_string().as_bytes());
                }
                exit_now(1);
            }
            Err(Trouble::Denied(_, step) | Trouble::Fault(step)) => fail(
                &self.outbox,
                SealFailure::Setup,
                &format!("the walls could not be built: {step}"),
                "run `ferrum doctor`",
            ),
        };
        if let Some(say) = say {
            let _ = write(&say, &[UP]);
        }
        match self.restricted(mode, namespaces, built) {
            Ok(session) => crate::serve::serve(session),
            Err((outbox, failed)) => fail_with(&outbox, failed),
        }
    }

    fn is_orphan(&self) -> bool {
        let mut polled = [PollFd::new(self.life.as_fd(), PollFlags::empty())];
        let _ = poll(&mut polled, PollTimeout::ZERO);
        polled[0]
            .revents()
            .is_some_and(|r| r.contains(PollFlags::POLLERR))
    }
}
