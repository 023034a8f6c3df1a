//! The loop of a sealed host: frame → checked request → permit → tool → frame.
//!
//! One thread reads frames. Read-only calls run beside each other in threads of their own; commands
//! run one at a time in theirs. Every thread was started after the walls stood and has them all.

use crate::admit::Judge;
use crate::command::Commands;
use crate::exec::run::{Cancel, Runner};
use crate::from_wire::from_wire;
use crate::guard::Guard;
use crate::host::{Built, Start};
use crate::report;
use crate::seal::to_wire;
use crate::sys::process::exit_now;
use crate::tool::{CommandCall, Native, ToolError, ToolOutput, native, run_native};
use ferrum_proto::frame::{self, FrameReader};
use ferrum_proto::limits::{
    CHUNK_BYTES_MAX, FROM_HOST_FRAME_BYTES_MAX, RESULT_BYTES_MAX, TO_HOST_FRAME_BYTES_MAX,
};
use ferrum_proto::order::ToHostOrder;
use ferrum_proto::reply::{CommandReport, Denial, FromHost, Outcome, Refusal, Reply, Timings};
use ferrum_proto::request::{ToHost, ToolRequest};
use ferrum_proto::seal::{Ready, SealFailed, SealFailure};
use ferrum_proto::terms::PathBytes;
use nix::unistd::{read, write};
use policy::isolation::Walls;
use policy::{Ground, Network, Tier};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The tool socket's sending side, shared by all threads. A frame is written whole or the host ends.
#[derive(Clone)]
pub struct Outbox {
    socket: Arc<OwnedFd>,
    writing: Arc<Mutex<()>>,
}

impl Outbox {
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket: Arc::new(socket),
            writing: Arc::new(Mutex::new(())),
        }
    }

    pub fn hello(&self) {
        let build = ferrum_proto::BUILD.to_owned();
        self.send(&FromHost::Hello {
            protocol: ferrum_proto::PROTOCOL,
            build,
        });
    }

    /// Sends one frame. A front that is gone, or a frame that is too large for the wire, ends the host.
    pub fn send(&self, message: &FromHost) {
        let Ok(bytes) = frame::encode(message, FROM_HOST_FRAME_BYTES_MAX) else {
            exit_now(3)
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match write(&*self.socket, rest) {
                Ok(count) => rest = &rest[count..],
                Err(nix::Error::EINTR) => {}
                Err(_) => exit_now(0),
            }
        }
    }

    /// Reads from the front; 0 when it is gone.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&self, buffer: &mut [u8]) -> nix::Result<usize> {
        loop {
            match read(&*self.socket, buffer) {
                Err(nix::Error::EINTR) => {}
                other => return other,
            }
        }
    }

    /// Sends a result: its text in chunks, then the reply.
    pub fn reply(&self, id: u64, done: Finished) {
        let mut text = done.text;
        if text.len() > RESULT_BYTES_MAX {
            let mut end = RESULT_BYTES_MAX - 64;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("\n[the result was cut here]");
        }
        for chunk in text.as_bytes().chunks(CHUNK_BYTES_MAX) {
            self.send(&FromHost::Chunk {
                id,
                bytes: chunk.to_vec(),
            });
        }
        let reply = Reply {
            outcome: done.outcome,
            text_bytes: text.len() as u64,
            denials: done.denials,
            command: done.command,
            changed: done
                .changed
                .iter()
                .map(|p| PathBytes::from(p.as_path()))
                .collect(),
            timings: done.timings,
        };
        self.send(&FromHost::Reply { id, reply });
    }
}

/// How a call ended, before it is put into frames.
pub struct Finished {
    pub outcome: Outcome,
    pub text: String,
    pub denials: Vec<Denial>,
    pub command: Option<CommandReport>,
    pub changed: Vec<PathBuf>,
    pub timings: Timings,
}

impl Finished {
    #[must_use]
    pub fn failed(text: String, denials: Vec<Denial>, timings: Timings) -> Self {
        Self {
            outcome: Outcome::Failed,
            text,
            denials,
            command: None,
            changed: Vec::new(),
            timings,
        }
    }

    /// A policy refusal as the model reads it.
    #[must_use]
    pub fn refused(refusal: &policy::Refusal, timings: Timings) -> Self {
        let place = if refusal.line > 0 {
            format!(" at {}:{}", refusal.line, refusal.column)
        } else {
            String::new()
        };
        let mut text = format!("refused by policy ({}){place}: {}", refusal.code, refusal.message);
        if !refusal.hint.is_empty() {
            text.push_str("\nhint: ");
            text.push_str(&refusal.hint);
        }
        let refusal = Refusal {
            code: refusal.code.into(),
            line: refusal.line,
            column: refusal.column,
            message: refusal.message.clone(),
            hint: refusal.hint.clone(),
        };
        Self {
            outcome: Outcome::Refused(refusal),
            text,
            denials: Vec::new(),
            command: None,
            changed: Vec::new(),
            timings,
        }
    }
}

/// Microseconds since `from`.
#[must_use]
pub fn micros(from: Instant) -> u64 {
    u64::try_from(from.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A sealed host, ready to serve.
pub struct Session {
    outbox: Outbox,
    judge: Arc<Judge>,
    cwd: Arc<OwnedFd>,
    commands: Commands,
    guard: Arc<Mutex<Guard>>,
    ready: Ready,
}

impl Session {
    /// Judges the walls by the tier's promises.
    ///
    /// # Errors
    /// The failed seal, where less is in force than is required.
    pub fn new(
        start: Start,
        built: Built,
        runner: Runner,
        cwd: OwnedFd,
        walls: Walls,
        network: Network,
        environment: Vec<String>,
    ) -> Result<Self, (Outbox, SealFailed)> {
        let grant = start.decision.grant.clone();
        let (isolation, promises) = policy::isolation::judge(grant.tier(), network, &walls);
        let wall_report = report::walls(&walls, &start.missing);
        if !is_enough(grant.tier(), isolation, grant.require()) {
            let (message, hint) = report::too_weak(grant.tier(), isolation, grant.require(), &wall_report);
            return Err((
                start.outbox,
                SealFailed {
                    kind: SealFailure::Isolation,
                    message,
                    hint,
                },
            ));
        }
        let places = &start.seal.charter.places;
        let own: Vec<PathBuf> = [&places.config, &places.data].map(|p| p.to_path_buf()).into();
        let private = private_places(&built, walls.mount_view && grant.tier() != Tier::Low);
        let ground = Ground {
            cwd: start.decision.cwd.clone(),
            home: built.home.clone(),
            writable: grant.writable_roots().to_vec(),
            readable: grant.readable_roots().to_vec(),
            private,
            protected: own,
            isolation,
        };
        let containment = report::containment(&walls, signal_is_refused());
        let mut notices = built.notices.clone();
        if network != grant.network() {
            notices.push(
                "network is none: private needs a network namespace, which this machine does not give".into(),
            );
        }
        let shell = report::shell(grant.shell(), isolation);
        if shell != grant.shell() {
            notices.push("shell is static: auto needs full isolation".into());
        }
        let ready = Ready {
            isolation: to_wire::isolation(isolation),
            network: to_wire::network(network),
            shell: to_wire::shell(shell),
            containment,
            walls: wall_report,
            promises: report::promises(promises),
            view: report::view(&built.view),
            environment,
            notices,
            setup_us: micros(start.began),
        };
        let judge = Arc::new(Judge { grant, ground });
        let guard = Arc::new(Mutex::new(built.guard));
        let commands = Commands::new(
            runner,
            Arc::clone(&judge),
            Arc::clone(&guard),
            network,
            containment,
        );
        Ok(Self {
            outbox: start.outbox,
            judge,
            cwd: Arc::new(cwd),
            commands,
            guard,
            ready,
        })
    }

    /// Serves until the front goes away. The process ends here, and with it everything that runs.
    pub fn serve(self) -> ! {
        self.outbox.send(&FromHost::Ready(Box::new(self.ready)));
        let mut desk = Desk {
            outbox: self.outbox.clone(),
            judge: self.judge,
            cwd: self.cwd,
            guard: self.guard,
            order: Arc::new(Mutex::new(ToHostOrder::default())),
            running: Arc::new(Mutex::new(HashMap::new())),
            queue: self.commands.start(self.outbox.clone()),
        };
        let mut reader = FrameReader::new(TO_HOST_FRAME_BYTES_MAX);
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            match self.outbox.receive(&mut buffer) {
                // The front is gone: so is the reason to be.
                Ok(0) | Err(_) => exit_now(0),
                Ok(count) => reader.push(&buffer[..count]),
            }
            loop {
                match reader.next::<ToHost>() {
                    Ok(Some(message)) => desk.take(message),
                    Ok(None) => break,
                    Err(_) => exit_now(3),
                }
            }
        }
    }
}

fn is_enough(tier: Tier, isolation: policy::Isolation, require: policy::Require) -> bool {
    let wanted = match require {
        policy::Require::Any => policy::Isolation::Partial,
        policy::Require::Kernel if tier == Tier::Low => policy::Isolation::Partial,
        policy::Require::Kernel => policy::Isolation::Kernel,
        policy::Require::Full => policy::Isolation::Full,
    };
    isolation >= wanted
}

/// Signal 0 to the launcher, which is this process's parent where there is no pid namespace.
fn signal_is_refused() -> bool {
    let parent = nix::unistd::getppid().as_raw();
    parent > 0 && crate::sys::process::kill(parent, 0).is_err_and(|e| e.raw_os_error() == Some(libc::EPERM))
}

fn private_places(built: &Built, mounted: bool) -> Vec<PathBuf> {
    if mounted {
        ["/tmp", "/var/tmp", "/dev/shm"]
            .iter()
            .map(PathBuf::from)
            .chain([built.home.clone()])
            .collect()
    } else {
        vec![built.temporary.clone(), built.home.clone()]
            .into_iter()
            .filter(|p| p != Path::new("/tmp") && p != &built.view.home)
            .collect()
    }
}

/// One command, waiting for its turn.
pub struct Job {
    pub id: u64,
    pub call: CommandCall,
    pub cancel: Arc<Cancel>,
    pub arrived: Instant,
    pub done: Done,
}

/// What has to happen when a call is answered.
#[derive(Clone)]
pub struct Done {
    order: Arc<Mutex<ToHostOrder>>,
    running: Arc<Mutex<HashMap<u64, Arc<Cancel>>>>,
    outbox: Outbox,
}

impl Done {
    pub fn answer(&self, id: u64, finished: Finished) {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id);
        self.order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .answered(id);
        self.outbox.reply(id, finished);
    }
}

/// The frame reader's side: admits, routes, cancels.
struct Desk {
    outbox: Outbox,
    judge: Arc<Judge>,
    cwd: Arc<OwnedFd>,
    guard: Arc<Mutex<Guard>>,
    order: Arc<Mutex<ToHostOrder>>,
    running: Arc<Mutex<HashMap<u64, Arc<Cancel>>>>,
    queue: Sender<Job>,
}

impl Desk {
    fn take(&mut self, message: ToHost) {
        let arrived = Instant::now();
        if self
            .order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .admit(&message)
            .is_err()
        {
            exit_now(3);
        }
        match message {
            // The table admits no question here.
            ToHost::Hello { .. } | ToHost::Explain { .. } => {}
            ToHost::Cancel { id } => {
                if let Some(cancel) = self
                    .running
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get(&id)
                {
                    cancel.cancel();
                }
            }
            ToHost::Call { id, request } => self.call(id, request, arrived),
        }
    }

    fn call(&mut self, id: u64, request: ToolRequest, arrived: Instant) {
        let done = Done {
            order: Arc::clone(&self.order),
            running: Arc::clone(&self.running),
            outbox: self.outbox.clone(),
        };
        let exposed = self
            .judge
            .grant
            .tools()
            .iter()
            .any(|t| t.name() == request.tool());
        if !exposed {
            let text = format!(
                "the tool `{}` is not available under the current policy",
                request.tool()
            );
            let refusal = policy::Refusal::plain("tool", text, "");
            return done.answer(id, Finished::refused(&refusal, Timings::default()));
        }
        let read_only = request.is_read_only();
        let request = match from_wire(request) {
            Ok(request) => request,
            Err(text) => return done.answer(id, Finished::failed(text, Vec::new(), Timings::default())),
        };
        let Ok(cancel) = Cancel::new().map(Arc::new) else {
            let text = "the host has no descriptors left".to_owned();
            return done.answer(id, Finished::failed(text, Vec::new(), Timings::default()));
        };
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, Arc::clone(&cancel));
        match native(request) {
            Ok(call) => self.native(id, call, cancel, arrived, read_only, done),
            Err(call) => {
                // The receiver lives as long as the process.
                let _ = self.queue.send(Job {
                    id,
                    call,
                    cancel,
                    arrived,
                    done,
                });
            }
        }
    }

    fn native(
        &self,
        id: u64,
        call: Native,
        cancel: Arc<Cancel>,
        arrived: Instant,
        read_only: bool,
        done: Done,
    ) {
        let (judge, cwd, guard) = (
            Arc::clone(&self.judge),
            Arc::clone(&self.cwd),
            Arc::clone(&self.guard),
        );
        let work = move || {
            let admit_us = micros(arrived);
            // The look after a command must not take a tool's own write for the command's.
            let _guard = (!read_only).then(|| guard.lock().unwrap_or_else(PoisonError::into_inner));
            let result = run_native(&call, &judge, cwd.as_fd(), cancel.flag());
            let timings = Timings {
                admit_us,
                run_us: micros(arrived) - admit_us,
            };
            done.answer(id, finished(result, timings));
        };
        if std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(work)
            .is_err()
        {
            // No thread to be had: the process limit of the session is reached.
            exit_now(3);
        }
    }
}

fn finished(result: Result<ToolOutput, ToolError>, timings: Timings) -> Finished {
    match result {
        Ok(ToolOutput {
            text,
            changed,
            denials,
        }) => Finished {
            outcome: Outcome::Done,
            text,
            denials,
            command: None,
            changed,
            timings,
        },
        Err(ToolError::Failed { text, denials }) => Finished::failed(text, denials, timings),
        Err(ToolError::Refused(refusal)) => Finished::refused(&refusal, timings),
    }
}

/// The queue of commands and its one worker.
#[must_use]
pub fn worker(mut commands: Commands, outbox: Outbox) -> Sender<Job> {
    let (sender, receiver) = channel::<Job>();
    let work = move || {
        for job in receiver {
            let finished = commands.run(&job, &outbox);
            job.done.answer(job.id, finished);
        }
    };
    if std::thread::Builder::new()
        // Judging recurses as deep as the syntax trees of a text and of the texts inside it.
        .stack_size(8 << 20)
        .spawn(work)
        .is_err()
    {
        exit_now(3);
    }
    sender
}
