//! The check role: reads the seal and the project's policy as a host does, and answers what policy
//! says about acts. It runs nothing that it is asked about and needs no wall.
//!
//! From its first question on it can read the machine and write nothing; the only program that it
//! can start is `bash -n`, the second opinion on syntax. What it does not know, because no session
//! was built, it takes from the question or assumes: see [`Assumed`].

mod answer;
mod bash;
mod facts;
mod lint;

use crate::confine::landlock::{self, Ability};
use crate::confine::namespace::Namespaces;
use crate::confine::{give_up_privileges, seccomp, view};
use crate::host::{Opening, Sealed, find_bash};
use crate::outbox::Outbox;
use crate::seal::{self, Decision};
use crate::sys::process::{Fork, exit_now, prctl};
use ferrum_proto::frame::FrameReader;
use ferrum_proto::limits::TO_HOST_FRAME_BYTES_MAX;
use ferrum_proto::order::ToHostOrder;
use ferrum_proto::reply::{Explanation, FromHost};
use ferrum_proto::request::ToHost;
use ferrum_proto::seal::{Lint, Seal, SealFailed, SealFailure};
use policy::{Isolation, ShellMode, Tier};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// What a session would find out by building its walls.
#[derive(Debug, Clone, Copy)]
struct Assumed {
    /// The machine gives user namespaces, so `/tmp` and `HOME` would be private.
    mounts: bool,
    isolation: Isolation,
    landlock_abi: u32,
}

/// Everything that answering needs.
pub struct Check {
    seal: Seal,
    decision: Decision,
    assumed: Assumed,
    bash: RefCell<bash::Reader>,
    outbox: Outbox,
    order: ToHostOrder,
    /// Grants by what was asked for; there are only a few.
    grants: BTreeMap<Asked, Result<Rc<Terms>, policy::NarrowError>>,
}

/// What a question may ask for besides the session's own.
type Asked = (Option<Tier>, Option<ShellMode>);

/// A grant, and what a session under it would see.
struct Terms {
    grant: policy::Grant,
    view: Vec<view::Entry>,
}

/// The check role: does not return.
pub fn run() {
    let sealed = Sealed::read();
    // Without its launcher nobody would reap it.
    let _ = prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0);
    match sealed.seal.lint.clone() {
        Some(lint) => look(&sealed, &lint),
        None => {
            let Opening {
                seal,
                decision,
                outbox,
                ..
            } = sealed.decide();
            let granted = FromHost::Granted(Box::new(seal::granted(&seal, &decision)));
            let check = Check::new(seal, decision, outbox);
            check.outbox.send(&granted);
            check.serve()
        }
    }
}

/// Looks at project files, says what it found, and ends.
fn look(sealed: &Sealed, lint: &Lint) -> ! {
    let examined = sealed.reading(|seal| lint::examine(seal, lint));
    let linted = match examined.decision {
        Some(decision) => {
            let mut check = Check::new(sealed.seal.clone(), decision, sealed.outbox.clone());
            check.report(&examined.files, examined.problems)
        }
        None => lint::report_of(&examined.files, examined.problems),
    };
    sealed.outbox.send(&FromHost::Linted(Box::new(linted)));
    exit_now(0)
}

impl Check {
    /// Finds out what there is to know, and gives up everything else.
    fn new(seal: Seal, decision: Decision, outbox: Outbox) -> Self {
        let mounts = has_namespaces();
        let ability = Ability::probe();
        let isolation = match (mounts, ability.abi) {
            (true, 1..) => Isolation::Full,
            (_, 3..) => Isolation::Kernel,
            _ => Isolation::Partial,
        };
        let assumed = Assumed {
            mounts,
            isolation,
            landlock_abi: ability.abi,
        };
        let bash = match find_bash().ok_or_else(|| "bash is not installed".to_owned()) {
            Ok(bash) => bash,
            Err(message) => fail(&outbox, message),
        };
        if let Err(message) = confine(ability, &bash) {
            fail(&outbox, message);
        }
        Self {
            seal,
            decision,
            assumed,
            bash: RefCell::new(bash::Reader::new(bash)),
            outbox,
            order: ToHostOrder::check(),
            grants: BTreeMap::new(),
        }
    }
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
                let (answer, basis) = self.explain(&query).unwrap_or_else(|e| {
                    let (message, hint) = (e.message, e.hint);
                    (Explanation::Unanswerable { message, hint }, None)
                });
                self.order.answered(id);
                self.outbox.send(&FromHost::Explained { id, answer, basis });
            }
            // The table admits no call.
            ToHost::Hello { .. } | ToHost::Call { .. } | ToHost::Cancel { .. } | ToHost::Survey { .. } => {}
        }
    }
}
