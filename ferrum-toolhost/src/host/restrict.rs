//! From built walls to a session: the last steps, in their order.

use super::Start;
use super::build::Built;
use crate::confine::landlock::Ability;
use crate::confine::mounts;
use crate::confine::namespace::Namespaces;
use crate::confine::rules;
use crate::confine::{Mode, Restriction, restrict};
use crate::exec::cgroup::SessionCgroup;
use crate::exec::check::Checker;
use crate::exec::run::{Reach, Runner, SESSION_SPOOL_BYTES_MAX};
use crate::exec::{environment, processes};
use crate::outbox::Outbox;
use crate::session::Session;
use crate::sys::process::prctl;
use ferrum_proto::seal::{SealFailed, SealFailure};
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode as FileMode;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// What has to be opened before the walls close.
struct Opened {
    cwd: OwnedFd,
    /// Its name for commands.
    cwd_path: PathBuf,
    null: OwnedFd,
    cgroup: Option<SessionCgroup>,
    bash: CString,
    spool: PathBuf,
}

impl Start {
    /// Gives up everything else, and becomes the session.
    pub(super) fn restricted(
        self,
        mode: Mode,
        namespaces: Namespaces,
        built: Built,
    ) -> Result<Session, (Outbox, SealFailed)> {
        let outbox = self.outbox.clone();
        let setup = |message: String| {
            let kind = SealFailure::Setup;
            (
                outbox.clone(),
                SealFailed {
                    kind,
                    message,
                    hint: "run `ferrum doctor`".into(),
                },
            )
        };
        let opened = self.open_rest(&built).map_err(setup)?;
        let confined = restrict(&Restriction {
            mode,
            namespaces,
            innermost: self.innermost,
            tier: self.tier(),
            network: self.decision.grant.network(),
            view: &built.view,
            corner: &built.corner,
            cgroup: opened.cgroup.as_ref().map(SessionCgroup::descriptor),
            image: self.image.as_ref().map(AsFd::as_fd),
            process_limit: mode == Mode::Full
                && !self.missing.iter().any(|(name, _)| *name == "process limit"),
        })
        .map_err(|step| setup(step.to_string()))?;
        let reach = self.reach(mode);
        let signals = block_signals().map_err(|e| setup(format!("signals: {e}")))?;
        let environment = environment::build(
            &self.seal.charter,
            self.tier(),
            &built.home,
            &built.temporary,
            &opened.cwd_path,
        );
        let limits = self.seal.charter.limits;
        let prober = match self.image.as_ref().map(OwnedFd::try_clone).transpose() {
            Ok(prober) => prober,
            Err(e) => return Err(setup(e.to_string())),
        };
        let (cwd, layer) = (
            opened.cwd.try_clone().map_err(|e| setup(e.to_string()))?,
            confined.layer(),
        );
        let runner = Runner {
            bash: opened.bash,
            prober,
            environment: environment::strings(&environment),
            cwd: opened.cwd,
            landlock: layer.map_err(|e| setup(format!("landlock: {e}")))?,
            cgroup: opened.cgroup,
            reach,
            filter: confined.command_filter(),
            signals,
            null: opened.null,
            spool: opened.spool,
            spool_budget: SESSION_SPOOL_BYTES_MAX,
            pids: limits.pids,
            pids_held: confined.walls().process_limit,
            memory: limits.memory,
            file: limits.file,
            commands: 0,
            checker: Checker::default(),
        };
        let names = environment
            .keys()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        Session::new(self, built, confined, runner, cwd, names)
    }

    fn reach(&self, mode: Mode) -> Reach {
        if mode == Mode::Full {
            return Reach::Namespace;
        }
        // KILL at the launcher's death would leave the command's processes to nobody.
        let scoped = Ability::probe().scopes_signals()
            && processes::is_scoped()
            && (self.life.try_clone())
                .and_then(processes::end_with_launcher)
                .and_then(|()| prctl(libc::PR_SET_PDEATHSIG, 0, 0))
                .is_ok();
        Reach::Subreaper { scoped }
    }

    fn open_rest(&self, built: &Built) -> Result<Opened, String> {
        let spool = built.corner.join("spool");
        for directory in [&spool, &rules::copies_of(&built.corner)] {
            fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        }
        let (cwd, cwd_path) = self.open_cwd(built)?;
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, FileMode::empty())
            .map_err(|e| format!("/dev/null: {e}"))?;
        let cgroup = self
            .cgroup
            .as_ref()
            .and_then(|fd| fd.try_clone().ok())
            .map(SessionCgroup::new);
        let bash = find_bash().ok_or("bash is not installed in /bin, /usr/bin or /usr/local/bin")?;
        Ok(Opened {
            cwd,
            cwd_path,
            null,
            cgroup,
            bash,
            spool,
        })
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
