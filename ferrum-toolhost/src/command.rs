//! `bash` and `wait`: permit → runner → the lines that the model gets.

use crate::admit::{self, Judge, Permit};
use crate::exec::run::{Cancel, Ran, Runner};
use crate::exec::{denial, outcome, syntax};
use crate::from_wire::{CommandText, Until, Wait};
use crate::guard::{Findings, Guard};
use crate::outbox::{Finished, Outbox, micros};
use crate::seal::to_wire;
use crate::serve::{Job, worker};
use crate::tool::CommandCall;
use ferrum_proto::limits::PROGRESS_INTERVAL_MS_MIN;
use ferrum_proto::reply::{CommandEnd, CommandReport, Denial, FromHost, Outcome, Residual, Timings};
use ferrum_proto::terms::{Containment, Isolation};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::faccessat;
use policy::{Network, Refusal, Tier};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs the session's commands, one at a time.
pub struct Commands {
    runner: Runner,
    judge: Arc<Judge>,
    guard: Arc<Mutex<Guard>>,
    network: Network,
    isolation: Isolation,
    containment: Containment,
    /// Every path of the view.
    view: Vec<PathBuf>,
}

/// Bytes at the end of a stream that are searched for what a wall refused.
const LOOKED_AT: usize = 16 << 10;

/// One run of a command and what was found after it.
struct Round {
    ran: Ran,
    findings: Findings,
}

impl Commands {
    #[must_use]
    pub fn new(
        runner: Runner,
        judge: Arc<Judge>,
        guard: Arc<Mutex<Guard>>,
        network: Network,
        containment: Containment,
        view: Vec<PathBuf>,
    ) -> Self {
        let isolation = to_wire::isolation(judge.ground.isolation);
        Self {
            runner,
            judge,
            guard,
            network,
            isolation,
            containment,
            view,
        }
    }

    /// Starts the worker and returns its queue.
    #[must_use]
    pub fn start(self, outbox: Outbox) -> Sender<Job> {
        worker(self, outbox)
    }

    /// Judges and runs one call to its end.
    pub fn run(&mut self, job: &Job, outbox: &Outbox) -> Finished {
        let text = match &job.call {
            CommandCall::Bash(call) => &call.command,
            CommandCall::Wait(call) => &call.command,
        };
        let permit = match self.admit(text) {
            Ok(permit) => permit,
            Err(refusal) => return self.refused(&refusal, job.arrived),
        };
        let admit_us = micros(job.arrived);
        let mut progress = Progress {
            id: job.id,
            outbox,
            last: Instant::now(),
        };
        let mut finished = match &job.call {
            CommandCall::Bash(call) => self.bash(&permit, call.timeout, &job.cancel, &mut progress),
            CommandCall::Wait(call) => self.wait(&permit, call, &job.cancel, &mut progress),
        };
        finished.timings = Timings {
            admit_us,
            run_us: micros(job.arrived) - admit_us,
        };
        finished
    }

    fn refused(&self, refusal: &Refusal, arrived: Instant) -> Finished {
        Finished::refused(
            refusal,
            Timings {
                admit_us: micros(arrived),
                run_us: 0,
            },
        )
    }

    /// Policy's verdict and the second opinion on syntax: the text policy's parser accepts some texts
    /// that bash reads otherwise. Where the walls alone bound a command (`auto`), bash speaks for itself.
    fn admit(&mut self, text: &CommandText) -> Result<Permit<CommandText>, Refusal> {
        if self.runner.prober.is_some() {
            return Ok(admit::probe(text.clone()));
        }
        let admitted = admit::run(&self.judge, text.clone());
        if !self.is_checked() || !syntax::is_asked(admitted.as_ref().err()) {
            return admitted;
        }
        match self.runner.syntax(text.as_str()) {
            Some(refusal) => Err(refusal),
            None => admitted,
        }
    }

    fn is_checked(&self) -> bool {
        self.runner.prober.is_none() && self.is_judged_static()
    }

    fn is_judged_static(&self) -> bool {
        self.judge.shell() == policy::ShellMode::Static || self.judge.grant.tier() != Tier::Medium
    }

    /// What can be done while nobody waits.
    pub fn idle(&mut self) {
        if self.is_checked() {
            self.runner.prepare_check();
        }
    }

    fn bash(
        &mut self,
        permit: &Permit<CommandText>,
        timeout: Duration,
        cancel: &Cancel,
        progress: &mut Progress<'_>,
    ) -> Finished {
        match self.round(permit, timeout, cancel, progress) {
            Ok(round) => self.finished(&round, String::new()),
            Err(text) => Finished::failed(text, Vec::new(), Timings::default()),
        }
    }

    /// Pauses, then runs; with `until` again and again. The pause holds nothing but this worker.
    fn wait(
        &mut self,
        permit: &Permit<CommandText>,
        call: &Wait,
        cancel: &Cancel,
        progress: &mut Progress<'_>,
    ) -> Finished {
        let began = Instant::now();
        let mut checks = 0u32;
        loop {
            if !pause(call.pause, cancel) {
                let text = format!("outcome: cancelled\nwait_reason: cancelled\nchecks: {checks}");
                return Finished {
                    outcome: Outcome::Done,
                    ..Finished::failed(text, Vec::new(), Timings::default())
                };
            }
            checks += 1;
            let round = match self.round(permit, call.timeout, cancel, progress) {
                Ok(round) => round,
                Err(text) => return Finished::failed(text, Vec::new(), Timings::default()),
            };
            let Some(reason) = wait_reason(call.until.as_ref(), &round.ran, began) else {
                continue;
            };
            let head = format!(
                "wait_reason: {reason}\nchecks: {checks}\nelapsed_seconds: {}\n",
                began.elapsed().as_secs()
            );
            return self.finished(&round, head);
        }
    }

    fn round(
        &mut self,
        permit: &Permit<CommandText>,
        timeout: Duration,
        cancel: &Cancel,
        progress: &mut Progress<'_>,
    ) -> Result<Round, String> {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if cancel.is_cut() {
            return Err("nobody waits for it any more".to_owned());
        }
        guard.before();
        let ran = self
            .runner
            .run(permit.subject().as_str(), timeout, cancel, &mut |bytes| {
                progress.tell(bytes)
            });
        let findings = guard.after();
        drop(guard);
        Ok(Round { ran: ran?, findings })
    }

    fn finished(&self, round: &Round, head: String) -> Finished {
        let denials = self.denials(&round.ran);
        let report = self.report(&round.ran);
        let text = head + &outcome::text(&round.ran, &report, &denials, &round.findings);
        Finished {
            outcome: Outcome::Done,
            text,
            denials,
            command: Some(report),
            changed: Vec::new(),
            timings: Timings::default(),
        }
    }

    fn denials(&self, ran: &Ran) -> Vec<Denial> {
        if ran.main.is_some_and(|m| m.status == 0) || self.judge.grant.tier() == Tier::Low {
            return Vec::new();
        }
        let ground = denial::Ground {
            policy: &self.judge.ground,
            view: &self.view,
            network: self.network,
            system_programs_only: self.judge.grant.tier() == Tier::High,
            permits: &|path, mode| faccessat(AT_FDCWD, path, mode, AtFlags::AT_EACCESS).is_ok(),
        };
        let told = denial::infer(&ran.stderr.last(LOOKED_AT), &ground);
        if !told.is_empty() {
            return told;
        }
        // Many commands end in `2>&1`.
        denial::infer(&ran.stdout.last(LOOKED_AT), &ground)
    }

    fn report(&self, ran: &Ran) -> CommandReport {
        let containment = match self.containment {
            Containment::CgroupAndPidNamespace if !ran.joined_cgroup => Containment::PidNamespace,
            Containment::Cgroup if !ran.joined_cgroup => Containment::Subreaper,
            other => other,
        };
        CommandReport {
            end: ran.end,
            status: ran.main.map(|m| m.status),
            signal: ran.main.and_then(|m| m.signal),
            isolation: self.isolation,
            containment,
            residual: ran.swept.residual.unwrap_or(Residual::Unknown),
            ended_with_call: ran.swept.count,
            ended_names: ran.swept.names.clone(),
            output_incomplete: ran.output_incomplete,
            stdout_bytes: ran.stdout.total,
            stderr_bytes: ran.stderr.total,
            cpu_us: ran.main.map(|m| m.cpu_us),
            peak_memory: ran.peak_memory,
            limits_missing: ran
                .limits_missing
                .iter()
                .map(|limit| (*limit).to_owned())
                .collect(),
        }
    }
}

/// Why a wait is over, or `None` to go on.
fn wait_reason(until: Option<&Until>, ran: &Ran, began: Instant) -> Option<&'static str> {
    let Some(until) = until else {
        return Some("check_completed");
    };
    if ran.end == CommandEnd::Cancelled {
        return Some("cancelled");
    }
    let matched = [&ran.stdout, &ran.stderr]
        .iter()
        .any(|c| until.matches.is_match(c.text().as_bytes()));
    if matched {
        return Some("condition_matched");
    }
    if ran.end == CommandEnd::TimedOut || ran.main.is_some_and(|m| m.status == 127 || m.status == 126) {
        return Some("command_failed");
    }
    (began.elapsed() >= until.max_wait).then_some("max_wait_reached")
}

/// Sleeps; false when cancelled.
fn pause(length: Duration, cancel: &Cancel) -> bool {
    let until = Instant::now() + length;
    loop {
        if cancel.is_cancelled() {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        let timeout = PollTimeout::try_from(left.min(Duration::from_secs(60))).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(cancel.event().as_fd(), PollFlags::POLLIN)];
        // An interrupted poll is a short one.
        let _ = poll(&mut polled, timeout);
    }
}

/// Progress frames of one call, not more often than the wire allows.
struct Progress<'a> {
    id: u64,
    outbox: &'a Outbox,
    last: Instant,
}

/// The first sign of life of a long command, in milliseconds: short ones need none.
const FIRST_PROGRESS_MS: u64 = 1_000;

impl Progress<'_> {
    fn tell(&mut self, bytes: u64) {
        let least = Duration::from_millis(PROGRESS_INTERVAL_MS_MIN.max(FIRST_PROGRESS_MS));
        if self.last.elapsed() >= least {
            self.last = Instant::now();
            self.outbox.send(&FromHost::Progress {
                id: self.id,
                text: format!("{bytes} bytes of output"),
            });
        }
    }
}
