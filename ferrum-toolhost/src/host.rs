//! The host's start order: from exec to the first call.
//!
//! The outer half reads the seal, lets the reader thread decide, answers `Granted` and makes the
//! process that will serve, in namespaces of its own where the machine allows it. The inner half
//! builds the walls, answers `Ready` and serves. Nothing before `confine` touches what commands made.

use crate::confine::landlock::Ability;
use crate::confine::mounts::{self, Step, Tree};
use crate::confine::namespace::{Ids, Namespaces};
use crate::confine::rules::{self, Plan};
use crate::confine::view::{self, View};
use crate::confine::{Mode, give_up_privileges, reader, seccomp};
use crate::exec::cgroup::SessionCgroup;
use crate::exec::environment;
use crate::exec::run::{Reach, Runner, SESSION_SPOOL_BYTES_MAX};
use crate::guard::{Guard, repos};
use crate::report;
use crate::seal::{self, Decision};
use crate::serve::{Outbox, Session};
use crate::sys::process::{Fork, close_from, exit_now, inherited, prctl};
use ferrum_proto::frame;
use ferrum_proto::limits::SEAL_BYTES_MAX;
use ferrum_proto::reply::FromHost;
use ferrum_proto::seal::{Seal, SealFailed, SealFailure};
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode as FileMode;
use nix::unistd::{pipe2, read, write};
use policy::{Network, Tier};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

const TOOL: i32 = 3;
const SEAL: i32 = 4;
const CGROUP: i32 = 5;
const LIFE: i32 = 6;

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
    life: OwnedFd,
    ids: Ids,
    /// Walls that are not in force, with what failed.
    pub missing: Vec<(&'static str, String)>,
}

/// The first half of a start, the same in both roles of a host.
pub struct Opening {
    pub seal: Seal,
    pub decision: Decision,
    pub outbox: Outbox,
    cgroup: Option<OwnedFd>,
    life: OwnedFd,
}

impl Opening {
    /// Takes the descriptors over, greets, reads the seal and lets the reader thread decide. Says
    /// itself what fails, and ends the process then.
    #[must_use]
    pub fn read() -> Self {
        let (Some(tool), Some(memory), Some(life)) = (inherited(TOOL), inherited(SEAL), inherited(LIFE))
        else {
            exit_now(2);
        };
        let cgroup = inherited(CGROUP);
        close_from(7);
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
        let decision = match reader(|| seal::decide(&seal)) {
            Ok(Ok(decision)) => decision,
            Ok(Err(failed)) => fail_with(&outbox, failed),
            Err(e) => fail(
                &outbox,
                SealFailure::Setup,
                &format!("cannot confine the policy reader: {e}"),
                "",
            ),
        };
        Self {
            seal,
            decision,
            outbox,
            cgroup,
            life,
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
    } = Opening::read();
    outbox.send(&FromHost::Granted(Box::new(seal::granted(&seal, &decision))));
    let start = Start {
        began,
        seal,
        decision,
        outbox,
        cgroup,
        life,
        ids: Ids::now(),
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
        for mode in [Mode::Full, Mode::SharedPids] {
            // At low commands see the user's processes, so there is only one mode with mounts.
            if self.tier() == Tier::Low && mode == Mode::Full {
                continue;
            }
            let (said, say) = match pipe2(OFlag::O_CLOEXEC) {
                Ok(pipe) => pipe,
                Err(e) => fail(&self.outbox, SealFailure::Setup, &format!("pipe: {e}"), ""),
            };
            let namespaces = self.namespaces(mode);
            match namespaces.enter() {
                Ok(Fork::Child) => {
                    drop(said);
                    self.inner(mode, namespaces, Some(say));
                }
                Ok(Fork::Parent(pid)) => {
                    drop(say);
                    // The launcher must know the pid before this process is gone.
                    let _ = write(&self.life, &pid.to_ne_bytes());
                    let mut word = [0u8; 1];
                    let count = read(&said, &mut word).unwrap_or(0);
                    let mut reason = String::new();
                    let _ = File::from(said).read_to_string(&mut reason);
                    match (count, word[0]) {
                        (1, DENIED_PROC) if mode == Mode::Full => {
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
        self.inner(Mode::LandlockOnly, none, None)
    }

    fn namespaces(&self, mode: Mode) -> Namespaces {
        let network = self.decision.grant.network();
        Namespaces {
            pid: mode == Mode::Full,
            network: network != Network::Full,
            loopback: network == Network::Private,
            ipc: self.tier() != Tier::Low,
        }
    }

    /// The serving half. `say` is there while the outer half waits to learn how it went.
    fn inner(mut self, mode: Mode, namespaces: Namespaces, say: Option<OwnedFd>) -> ! {
        // KILL does reach pid 1 of a namespace when it comes from an ancestor. The parent may be
        // gone already, and getppid cannot tell from in here: the pipe to the launcher can.
        if prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).is_err() || self.is_orphan() {
            exit_now(1);
        }
        let built = match mode {
            Mode::LandlockOnly => self.without_mounts(),
            Mode::Full | Mode::SharedPids => self.with_mounts(mode, namespaces),
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
        match self.confine(mode, namespaces, built) {
            Ok(session) => session.serve(),
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

    /// Everything that needs the namespaces' capabilities.
    fn with_mounts(&mut self, mode: Mode, namespaces: Namespaces) -> Result<Built, Trouble> {
        namespaces.settle(self.ids).map_err(Trouble::denied)?;
        if self.tier() == Tier::Low {
            return self.low_mounts();
        }
        let view = view::plan(&self.seal, &self.decision);
        let mut tree = Tree::pivot().map_err(Trouble::denied)?;
        tree.build(&view, &self.seal.session_dir.as_path().join("layers"))?;
        tree.keep_links(self.seal.cwd.as_path());
        tree.keep_links(self.seal.charter.places.home.as_path());
        tree.keep_worktrees(&self.git_directories());
        tree.devices(&view.devices, self.seal.charter.limits.shm)?;
        if mode == Mode::Full {
            mounts::own_proc().map_err(|step| Trouble::Denied(DENIED_PROC, step))?;
            if self.seal.charter.limits.pids > 0
                && let Err(e) = mounts::set_pid_max(self.seal.charter.limits.pids)
            {
                self.missing.push(("process limit", e.to_string()));
            }
        } else {
            tree.outer_proc()?;
        }
        mounts::cover_proc()?;
        tree.corner(&self.corners())?;
        let corner = own_corner(Path::new(mounts::SESSION))?;
        mounts::own_passwd_line(&view.home, &corner)?;
        if self.ids.uid == 0 {
            mounts::hide_unreadable(Path::new("/etc"))?;
            mounts::hide_unreadable(Path::new("/opt"))?;
        }
        let guard = self.guard(Some(rules::copies_of(&corner)))?;
        let mut notices = tree.finish()?;
        let home = view.home.clone();
        self.home_files(&home, &mut notices);
        Ok(Built {
            view,
            guard,
            home,
            temporary: "/tmp".into(),
            corner,
            notices,
        })
    }

    /// Low keeps the machine's own tree; single places are covered.
    fn low_mounts(&mut self) -> Result<Built, Trouble> {
        let view = view::plan(&self.seal, &self.decision);
        crate::confine::low::cover(&self.seal).map_err(Trouble::denied)?;
        let corner = own_corner(&self.corners())?;
        let guard = self.guard(Some(rules::copies_of(&corner)))?;
        let home = view.home.clone();
        Ok(Built {
            view,
            guard,
            home,
            temporary: "/tmp".into(),
            corner,
            notices: Vec::new(),
        })
    }

    fn without_mounts(&mut self) -> Result<Built, Trouble> {
        let view = view::plan(&self.seal, &self.decision);
        let corner = own_corner(&self.corners())?;
        let guard = self.guard(None)?;
        let (home, temporary) = if self.tier() == Tier::Low {
            (view.home.clone(), PathBuf::from("/tmp"))
        } else {
            (
                self.seal.home_dir.to_path_buf(),
                self.seal.session_dir.as_path().join("tmp"),
            )
        };
        let mut notices = Vec::new();
        if self.tier() != Tier::Low {
            crate::confine::home::link_toolchains(&view, &home);
            self.home_files(&home, &mut notices);
        }
        Ok(Built {
            view,
            guard,
            home,
            temporary,
            corner,
            notices,
        })
    }

    /// The git directories of the checkouts that the session is about.
    fn git_directories(&self) -> Vec<PathBuf> {
        let decision = &self.decision;
        let tops = decision.grant.writable_roots().iter().chain(&decision.work_tree);
        let mut all: Vec<PathBuf> = tops.map(|top| top.join(".git")).collect();
        all.extend(decision.linked.iter().map(|linked| linked.directory.clone()));
        all.dedup();
        all
    }

    /// The session's corners on disk, one for each of its hosts.
    fn corners(&self) -> PathBuf {
        self.seal.session_dir.as_path().join("corner")
    }

    /// At high nothing in the roots can be written, so there is nothing to guard.
    fn guard(&self, copies: Option<PathBuf>) -> Result<Guard, Step> {
        if self.tier() == Tier::High {
            return Guard::new(&[], Vec::new(), None);
        }
        let mut outside: Vec<repos::Repository> = Vec::new();
        if let Some(linked) = &self.decision.linked {
            outside.extend(linked.repositories.iter().cloned());
        }
        if let Some(top) = &self.decision.work_tree {
            outside.extend(repos::repositories_at(&top.join(".git")));
        }
        Guard::new(self.decision.grant.writable_roots(), outside, copies)
    }

    /// The user's git settings, without what is secret, in the private home.
    fn home_files(&self, home: &Path, notices: &mut Vec<String>) {
        if let Err(e) = crate::confine::home::fill(&self.decision, home) {
            notices.push(format!("{}: {e}", home.display()));
        }
    }

    /// Gives up everything else, and becomes the session.
    fn confine(
        self,
        mode: Mode,
        namespaces: Namespaces,
        built: Built,
    ) -> Result<Session, (Outbox, SealFailed)> {
        let outbox = self.outbox.clone();
        let setup = |what: String| {
            (
                outbox.clone(),
                SealFailed {
                    kind: SealFailure::Setup,
                    message: what,
                    hint: "run `ferrum doctor`".into(),
                },
            )
        };
        let ability = Ability::probe();
        let spool = built.spool();
        for directory in [&spool, &rules::copies_of(&built.corner)] {
            fs::create_dir_all(directory).map_err(|e| setup(format!("{}: {e}", directory.display())))?;
        }
        let (cwd, cwd_path) = self.open_cwd(&built).map_err(setup)?;
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, FileMode::empty())
            .map_err(|e| setup(format!("/dev/null: {e}")))?;
        let cgroup = self
            .cgroup
            .as_ref()
            .and_then(|fd| fd.try_clone().ok())
            .map(SessionCgroup::new);
        let bash = find_bash()
            .ok_or_else(|| setup("bash is not installed in /bin, /usr/bin or /usr/local/bin".into()))?;
        give_up_privileges().map_err(|step| setup(step.to_string()))?;
        let mounted = mode != Mode::LandlockOnly;
        let landlock = if ability.abi > 0 {
            let plan = Plan {
                ability,
                tier: self.tier(),
                view: &built.view,
                mounted,
                corner: &built.corner,
                copies: rules::copies_of(&built.corner),
                cgroup: cgroup.as_ref().map(SessionCgroup::descriptor),
            };
            let layers = plan.build().map_err(|e| setup(format!("landlock rules: {e}")))?;
            crate::confine::landlock::apply(&layers.host).map_err(|e| setup(format!("landlock: {e}")))?;
            Some(layers.command)
        } else {
            None
        };
        let network = report::network(self.decision.grant.network(), namespaces.network);
        let profile = seccomp::Profile {
            deny_inet: network == Network::None,
            deny_unix: !mounted && self.tier() != Tier::Low,
            shared_pids: mode != Mode::Full,
            deny_exec: false,
        };
        let filter = seccomp::apply(profile);
        let walls = policy::isolation::Walls {
            landlock_abi: ability.abi,
            seccomp: filter.is_ok(),
            no_capabilities: true,
            mount_view: mounted,
            pid_namespace: mode == Mode::Full,
            network_namespace: namespaces.network,
            socket_filter: profile.deny_inet && filter.is_ok(),
            cgroup: cgroup.is_some(),
            proc_read_only: mounted || ability.abi > 0,
            process_limit: mode == Mode::Full
                && !self.missing.iter().any(|(name, _)| *name == "process limit"),
        };
        let reach = if mode == Mode::Full {
            Reach::Namespace
        } else {
            // Also with a mount view: without it an orphan would be the launcher's, and outlive
            // its call.
            prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0).map_err(|e| setup(format!("subreaper: {e}")))?;
            Reach::Subreaper
        };
        let signals = block_signals().map_err(|e| setup(format!("signals: {e}")))?;
        let environment = environment::build(
            &self.seal.charter,
            self.tier(),
            &built.home,
            &built.temporary,
            &cwd_path,
        );
        let limits = self.seal.charter.limits;
        let runner = Runner {
            bash,
            environment: environment::strings(&environment),
            cwd: cwd.try_clone().map_err(|e| setup(e.to_string()))?,
            landlock,
            cgroup,
            reach,
            signals,
            null,
            spool,
            spool_budget: SESSION_SPOOL_BYTES_MAX,
            pids: limits.pids,
            pids_held: walls.process_limit,
            memory: limits.memory,
            file: limits.file,
            commands: 0,
            checker: crate::exec::check::Checker::default(),
        };
        let names = environment
            .keys()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        Session::new(self, built, runner, cwd, walls, network, names)
    }

    /// The working directory as commands get it: under the name that the user wrote, if it leads there.
    fn open_cwd(&self, built: &Built) -> Result<(OwnedFd, PathBuf), String> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let canonical = &self.decision.cwd;
        let written = self.seal.cwd.as_path();
        let name = if mounts::same_object(written, canonical) {
            written
        } else {
            canonical
        };
        if let Ok(fd) = open(canonical, flags, FileMode::empty()) {
            return Ok((fd, name.to_path_buf()));
        }
        // Not in the view (started in a dropped root): the private home is.
        let fd = open(&built.home, flags, FileMode::empty())
            .map_err(|e| format!("{}: {e}", built.home.display()))?;
        Ok((fd, built.home.clone()))
    }
}

/// What building the view came to.
pub struct Built {
    pub view: View,
    pub guard: Guard,
    pub home: PathBuf,
    pub temporary: PathBuf,
    pub corner: PathBuf,
    pub notices: Vec<String>,
}

impl Built {
    fn spool(&self) -> PathBuf {
        self.corner.join("spool")
    }
}

/// Why the view does not stand.
enum Trouble {
    /// Namespaces are denied here: the next mode is tried.
    Denied(u8, Step),
    Fault(Step),
}

impl Trouble {
    fn denied(step: Step) -> Self {
        if step.is_denial() {
            Self::Denied(DENIED, step)
        } else {
            Self::Fault(step)
        }
    }
}

impl From<Step> for Trouble {
    fn from(step: Step) -> Self {
        Self::Fault(step)
    }
}

/// The first free corner: earlier hosts of the session keep theirs, so that their spools can
/// still be read.
fn own_corner(corners: &Path) -> Result<PathBuf, Step> {
    const HOSTS_MAX: u32 = 10_000;
    for number in 1..HOSTS_MAX {
        let corner = corners.join(number.to_string());
        match fs::create_dir(&corner) {
            Ok(()) => return Ok(corner),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(Step {
                    what: corner.display().to_string(),
                    source,
                });
            }
        }
    }
    Err(Step {
        what: corners.display().to_string(),
        source: std::io::ErrorKind::AlreadyExists.into(),
    })
}

/// The bash that runs everything.
#[must_use]
pub fn find_bash() -> Option<CString> {
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| nix::unistd::access(*path, nix::unistd::AccessFlags::X_OK).is_ok())
        .and_then(|path| CString::new(path).ok())
}

/// Children are waited for by descriptor; a closed pipe is an error, not a signal.
fn block_signals() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    set.add(Signal::SIGPIPE);
    set.thread_block()?;
    let mut waited = SigSet::empty();
    waited.add(Signal::SIGCHLD);
    SignalFd::with_flags(&waited, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}
