//! The check role: reads the seal and the project's policy as a host does, and answers what policy
//! says about acts. It runs nothing that it is asked about and needs no wall.
//!
//! From its first question on it can read the machine and write nothing; the only program that it
//! can start is `bash -n`, the second opinion on syntax. What it does not know, because no session
//! was built, it takes from the question or assumes: see [`Assumed`].

use crate::admit::lexical;
use crate::confine::landlock::{self, Ability};
use crate::confine::namespace::Namespaces;
use crate::confine::{give_up_privileges, seccomp};
use crate::exec::syntax;
use crate::host::{Opening, find_bash};
use crate::outbox::Outbox;
use crate::seal::{self, Decision, from_wire};
use crate::sys::process::{Fork, exit_now, prctl};
use ferrum_proto::frame::FrameReader;
use ferrum_proto::limits::TO_HOST_FRAME_BYTES_MAX;
use ferrum_proto::order::ToHostOrder;
use ferrum_proto::reply::{Explanation, FromHost, Refusal};
use ferrum_proto::request::{Act, Query, ToHost};
use ferrum_proto::seal::{Seal, SealFailed, SealFailure};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::pipe2;
use policy::{Action, Ground, Isolation, ShellMode, Target, Tier, Verdict, Wish};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time for one `bash -n`, in milliseconds, as in a session: texts are at most 64 KiB.
const SYNTAX_MS_MAX: u64 = 5_000;
/// What is kept of bash's complaint, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;

/// What a session would find out by building its walls.
#[derive(Debug, Clone, Copy)]
struct Assumed {
    /// The machine gives user namespaces, so `/tmp` and `HOME` would be private.
    mounts: bool,
    isolation: Isolation,
}

/// Everything that answering needs.
struct Check {
    seal: Seal,
    decision: Decision,
    assumed: Assumed,
    bash: CString,
    outbox: Outbox,
    order: ToHostOrder,
    /// Grants by what was asked for; there are only a few.
    grants: BTreeMap<(Option<Tier>, Option<ShellMode>), Result<policy::Grant, policy::NarrowError>>,
}

/// The check role: does not return.
pub fn run() {
    let Opening {
        seal,
        decision,
        outbox,
        ..
    } = Opening::read();
    // Without its launcher nobody would reap it.
    let _ = prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0);
    let mounts = has_namespaces();
    let ability = Ability::probe();
    let isolation = match (mounts, ability.abi) {
        (true, 1..) => Isolation::Full,
        (_, 3..) => Isolation::Kernel,
        _ => Isolation::Partial,
    };
    let granted = FromHost::Granted(Box::new(seal::granted(&seal, &decision)));
    let bash = match find_bash().ok_or_else(|| "bash is not installed".to_owned()) {
        Ok(bash) => bash,
        Err(message) => fail(&outbox, message),
    };
    if let Err(message) = confine(ability, &bash) {
        fail(&outbox, message);
    }
    outbox.send(&granted);
    let check = Check {
        seal,
        decision,
        assumed: Assumed { mounts, isolation },
        bash,
        outbox,
        order: ToHostOrder::check(),
        grants: BTreeMap::new(),
    };
    check.serve();
}

fn fail(outbox: &Outbox, message: String) -> ! {
    outbox.send(&FromHost::SealFailed(SealFailed {
        kind: SealFailure::Setup,
        message,
        hint: "run `ferrum doctor`".into(),
    }));
    exit_now(1)
}

/// Tried for real: a process that enters the namespaces of a session and ends.
fn has_namespaces() -> bool {
    let namespaces = Namespaces {
        pid: true,
        network: true,
        loopback: false,
        ipc: true,
    };
    match namespaces.enter() {
        Ok(Fork::Child) => exit_now(0),
        Ok(Fork::Parent(_)) => true,
        Err(_) => false,
    }
}

/// Reading only, no sockets, and of programs only bash. Where the kernel has no Landlock the
/// filter alone stands: this role acts on nothing, so that is no reason to refuse an answer.
fn confine(ability: Ability, bash: &CString) -> Result<(), String> {
    give_up_privileges().map_err(|step| step.to_string())?;
    if ability.abi > 0 {
        let bash = Path::new(std::ffi::OsStr::from_bytes(bash.as_bytes()));
        landlock::read_only_but(ability, bash).map_err(|e| format!("landlock: {e}"))?;
    }
    let profile = seccomp::Profile {
        deny_inet: true,
        deny_unix: true,
        shared_pids: true,
        deny_exec: false,
        deny_clone3: true,
        deny_ipc: true,
        deny_attributes: true,
    };
    // A kernel without filters gets none.
    let _ = seccomp::apply(profile);
    Ok(())
}

impl Check {
    fn serve(mut self) -> ! {
        let mut reader = FrameReader::new(TO_HOST_FRAME_BYTES_MAX);
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            match self.outbox.receive(&mut buffer) {
                Ok(0) | Err(_) => exit_now(0),
                Ok(count) => reader.push(&buffer[..count]),
            }
            loop {
                match reader.next::<ToHost>() {
                    Ok(Some(message)) => self.take(message),
                    Ok(None) => break,
                    Err(_) => exit_now(3),
                }
            }
        }
    }

    fn take(&mut self, message: ToHost) {
        if self.order.admit(&message).is_err() {
            exit_now(3);
        }
        match message {
            ToHost::Explain { id, query } => {
                let answer = self
                    .explain(&query)
                    .unwrap_or_else(|e| Explanation::Unanswerable {
                        message: e.message,
                        hint: e.hint,
                    });
                self.order.answered(id);
                self.outbox.send(&FromHost::Explained { id, answer });
            }
            // The table admits no call.
            ToHost::Hello { .. } | ToHost::Call { .. } | ToHost::Cancel { .. } | ToHost::Survey { .. } => {}
        }
    }

    /// The session's judgement, for the tier and shell mode of the question.
    fn explain(&mut self, query: &Query) -> Result<Explanation, policy::NarrowError> {
        let asked = (query.tier.map(from_wire::tier), query.shell.map(from_wire::shell));
        let grant = self.grant(asked)?;
        let isolation = query
            .isolation
            .map_or(self.assumed.isolation, from_wire::isolation);
        let ground = self.ground(&grant, isolation);
        let verdict = match &query.act {
            Act::Run(command) => self.command(&grant, &ground, command),
            Act::Read(path) => {
                let path = resolved(&ground.cwd, path);
                policy::judge(&grant, &ground, &Action::Read { path: &path })
            }
            Act::Change(path) => {
                let (path, target) = place(&ground.cwd, path);
                let path = &path;
                policy::judge(&grant, &ground, &Action::Mutate { path, target })
            }
        };
        Ok(match verdict {
            Verdict::Allow => Explanation::Allowed,
            Verdict::Refuse(refusal) => Explanation::Refused(Refusal {
                code: refusal.code.into(),
                line: refusal.line,
                column: refusal.column,
                message: refusal.message,
                hint: refusal.hint,
            }),
        })
    }

    fn grant(
        &mut self,
        asked: (Option<Tier>, Option<ShellMode>),
    ) -> Result<policy::Grant, policy::NarrowError> {
        let sealed = seal::wish(&self.seal.wish);
        let inputs = &self.decision.inputs;
        let narrowed = self.grants.entry(asked).or_insert_with(|| {
            let wish = Wish {
                tier: asked.0.or(sealed.tier),
                shell: asked.1.or(sealed.shell),
                ..sealed
            };
            policy::narrow(&inputs.user, &inputs.projects, &wish)
        });
        narrowed.clone()
    }

    /// The facts of a session, as far as they are known without one.
    fn ground(&self, grant: &policy::Grant, isolation: Isolation) -> Ground {
        let places = &self.seal.charter.places;
        let home = fs::canonicalize(places.home.as_path()).unwrap_or_else(|_| places.home.to_path_buf());
        let mut private = Vec::new();
        if self.assumed.mounts && grant.tier() != Tier::Low {
            private.extend(["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from));
            private.push(home.clone());
        }
        Ground {
            cwd: self.decision.cwd.clone(),
            home,
            writable: grant.writable_roots().to_vec(),
            readable: grant.readable_roots().to_vec(),
            private,
            protected: [&places.config, &places.data].map(|p| p.to_path_buf()).into(),
            isolation,
        }
    }

    /// As `bash` would be answered: exposed, judged, read by bash.
    fn command(&self, grant: &policy::Grant, ground: &Ground, command: &str) -> Verdict {
        if command.is_empty() {
            let message = "the command is empty";
            return Verdict::Refuse(policy::Refusal::plain("malformed", message, ""));
        }
        let verdict = policy::judge(grant, ground, &Action::Run { command });
        let mode = crate::report::shell(grant.shell(), ground.isolation);
        let bash_alone = mode == ShellMode::Auto && grant.tier() == Tier::Medium;
        if verdict != Verdict::Allow || bash_alone {
            return verdict;
        }
        match read_by_bash(&self.bash, command) {
            Ok(None) => Verdict::Allow,
            Ok(Some(complaint)) => Verdict::Refuse(syntax::refusal(&complaint)),
            Err(e) => Verdict::Refuse(syntax::refusal(&format!("bash -n: {e}"))),
        }
    }
}

/// `None` when bash can read the text, else what it said.
fn read_by_bash(bash: &CString, text: &str) -> io::Result<Option<String>> {
    let mut memory = File::from(memfd_create("command", MFdFlags::MFD_CLOEXEC)?);
    memory.write_all(text.as_bytes())?;
    memory.rewind()?;
    let (said, say) = pipe2(OFlag::O_CLOEXEC)?;
    let mut child = Command::new(std::ffi::OsStr::from_bytes(bash.as_bytes()))
        .arg0("bash")
        .args(["--noprofile", "--norc", "-n"])
        .env_clear()
        .stdin(memory)
        .stdout(Stdio::null())
        .stderr(say)
        .spawn()?;
    let deadline = Instant::now() + Duration::from_millis(SYNTAX_MS_MAX);
    let (mut complaint, mut said) = (Vec::new(), File::from(said));
    // bash keeps its end of the pipe until it ends.
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(said.as_fd(), PollFlags::POLLIN)];
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        if poll(&mut polled, left)? == 0 {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut buffer = [0; 1024];
        match said.read(&mut buffer)? {
            0 => break,
            count if complaint.len() < COMPLAINT_BYTES_MAX => {
                complaint.extend_from_slice(&buffer[..count]);
            }
            _ => {}
        }
    }
    let succeeded = child.wait()?.success();
    let complaint = String::from_utf8_lossy(&complaint).into_owned();
    Ok((!syntax::is_readable(succeeded, &complaint)).then_some(complaint))
}

/// The object that a path leads to; for one that leads nowhere, its text made absolute.
fn resolved(cwd: &Path, text: &str) -> PathBuf {
    let asked = cwd.join(text);
    fs::canonicalize(&asked).unwrap_or_else(|_| lexical(&asked))
}

/// The place that a path names, and what stands there.
fn place(cwd: &Path, text: &str) -> (PathBuf, Target) {
    let asked = lexical(&cwd.join(text));
    let (Some(parent), Some(name)) = (asked.parent(), asked.file_name()) else {
        return (asked, Target::Directory);
    };
    let path = fs::canonicalize(parent).map_or_else(|_| asked.clone(), |parent| parent.join(name));
    let target = match fs::symlink_metadata(&path) {
        Err(_) => Target::Absent,
        Ok(meta) if meta.is_dir() => Target::Directory,
        Ok(meta) if meta.is_symlink() => Target::Symlink,
        Ok(meta) if !meta.is_file() => Target::Special,
        Ok(meta) => Target::File { links: meta.nlink() },
    };
    (path, target)
}
