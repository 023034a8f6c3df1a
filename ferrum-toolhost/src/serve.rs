//! The loop of a sealed host: frame → checked request → permit → tool → frame.
//!
//! One thread reads frames. Read-only calls run beside each other in threads of their own; commands
//! run one at a time in theirs. Every thread was started after the walls stood and has them all.

use crate::admit::{self, Judge};
use crate::command::Commands;
use crate::exec::run::Cancel;
use crate::from_wire::from_wire;
use crate::fs::name::shown;
use crate::guard::Guard;
use crate::outbox::{Finished, Outbox, micros};
use crate::session::Session;
use crate::sys::process::exit_now;
use crate::tool::{CommandCall, Native, ToolError, ToolOutput, native, run_native};
use ferrum_proto::frame::FrameReader;
use ferrum_proto::limits::TO_HOST_FRAME_BYTES_MAX;
use ferrum_proto::order::ToHostOrder;
use ferrum_proto::reply::{FromHost, Outcome, Timings};
use ferrum_proto::request::{ToHost, ToolRequest};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long a host whose front is gone may put back what a command left, in milliseconds. Nothing
/// is to run 300 ms after the front's end.
const LEAVE_MS_MAX: u64 = 180;

/// Serves until the front goes away. The process ends here, and with it everything that runs.
pub fn serve(session: Session) -> ! {
    session.outbox.send(&FromHost::Ready(Box::new(session.ready)));
    let secured = {
        let guard = session.guard.lock().unwrap_or_else(PoisonError::into_inner);
        guard.secured()
    };
    let mut desk = Desk {
        outbox: session.outbox.clone(),
        judge: session.judge,
        cwd: session.cwd,
        probes: session.probes,
        secured,
        guard: session.guard,
        order: Arc::new(Mutex::new(ToHostOrder::default())),
        running: Arc::new(Mutex::new(HashMap::new())),
        queue: session.commands.start(session.outbox.clone()),
    };
    let mut reader = FrameReader::new(TO_HOST_FRAME_BYTES_MAX);
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        match session.outbox.receive(&mut buffer) {
            // The front is gone: so is the reason to be.
            Ok(0) | Err(_) => desk.leave(),
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
    probes: bool,
    guard: Arc<Mutex<Guard>>,
    secured: Arc<AtomicBool>,
    order: Arc<Mutex<ToHostOrder>>,
    running: Arc<Mutex<HashMap<u64, Arc<Cancel>>>>,
    queue: Sender<Job>,
}

impl Desk {
    /// Ends what runs and this process, once what a command left in known places is put back. The
    /// launcher waits for that, a little longer than this does.
    fn leave(&self) -> ! {
        for cancel in (self.running.lock().unwrap_or_else(PoisonError::into_inner)).values() {
            cancel.cut();
        }
        let deadline = Instant::now() + Duration::from_millis(LEAVE_MS_MAX);
        while Instant::now() < deadline && !self.secured.load(Ordering::SeqCst) {
            match self.guard.try_lock() {
                // Held to the end: nothing begins any more.
                Ok(_guard) => exit_now(0),
                Err(TryLockError::Poisoned(_)) => break,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        exit_now(0)
    }

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
            ToHost::Survey { id } => self.survey(id),
        }
    }

    fn call(&mut self, id: u64, request: ToolRequest, arrived: Instant) {
        let done = Done {
            order: Arc::clone(&self.order),
            running: Arc::clone(&self.running),
            outbox: self.outbox.clone(),
        };
        let exposed = match (self.probes, request.tool()) {
            // Whether the session would have bash has nothing to do with the walls.
            (true, "bash") => Ok(()),
            (true, other) => Err(admit::no_tool(other)),
            (false, name) => admit::tool(&self.judge, name),
        };
        if let Err(refusal) = exposed {
            return done.answer(id, Finished::refused(&refusal, Timings::default()));
        }
        if is_removed(&self.cwd) {
            return self.give_up(id, &done);
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

    /// Waits for whatever runs: a command holds the guard until the look after it.
    fn survey(&self, id: u64) {
        let (guard, order, outbox) = (
            Arc::clone(&self.guard),
            Arc::clone(&self.order),
            self.outbox.clone(),
        );
        let work = move || {
            let survey = guard.lock().unwrap_or_else(PoisonError::into_inner).survey();
            order.lock().unwrap_or_else(PoisonError::into_inner).answered(id);
            outbox.send(&FromHost::Surveyed { id, survey });
        };
        if std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(work)
            .is_err()
        {
            exit_now(3);
        }
    }

    /// A sealed host cannot follow to a new directory of that name, so it makes room for one that
    /// can: once nothing else runs or waits, this host ends.
    fn give_up(&self, id: u64, done: &Done) {
        let text = format!(
            "the working directory {} does not exist any more; nothing was run. Once it is there again, repeat the call.",
            shown(&self.judge.ground.cwd)
        );
        let is_idle = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty();
        // Asked before the answer: after it the next call may already be meant for the next host.
        let is_last = is_idle && self.outbox.is_quiet();
        done.answer(id, Finished::failed(text, Vec::new(), Timings::default()));
        if is_last {
            self.outbox.hang_up();
            exit_now(0);
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
            let mut guard = (!read_only).then(|| guard.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(guard) = &mut guard {
                guard.begin();
            }
            let result = run_native(&call, &judge, cwd.as_fd(), cancel.flag());
            if let (Some(guard), Ok(output)) = (&mut guard, &result) {
                guard.wrote(&output.changed);
            }
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

/// A directory that has lost its last name.
fn is_removed(directory: &OwnedFd) -> bool {
    nix::sys::stat::fstat(directory).is_ok_and(|stat| stat.st_nlink == 0)
}

/// The queue of commands and its one worker.
#[must_use]
pub fn worker(mut commands: Commands, outbox: Outbox) -> Sender<Job> {
    let (sender, receiver) = channel::<Job>();
    let work = move || {
        commands.idle();
        for job in receiver {
            let finished = commands.run(&job, &outbox);
            job.done.answer(job.id, finished);
            commands.idle();
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
