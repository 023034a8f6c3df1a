//! One tool call of a message: from what the model wrote to what it is answered.

use super::message::ToolUse;
use super::session::Session;
use crate::host::Fault;
use crate::host::client::{ToolHost, ToolResult};
use crate::session::log::Log;
use crate::tools::args::{self, Call};
use crate::tools::catalog::{self, Tool};
use crate::tools::history;
use ferrum_proto::reply::{CommandEnd, CommandReport, Denial, Outcome, Refusal, Reply, Timings};
use ferrum_proto::terms::{Isolation, PathBytes};
use serde_json::Value;
use std::time::{Duration, Instant};

/// One result as stored and sent, in bytes. Tools give about 110 KiB; six times this, as JSON might
/// escape it, still fits a session record.
const RESULT_BYTES_MAX: usize = 2 << 20;

/// What a finished tool call says to model, record and operator.
pub struct CallResult {
    pub text: String,
    pub outcome: CallOutcome,
    /// What the model should take for an error.
    pub is_error: bool,
    pub denials: Vec<Denial>,
    /// The walls behind it; `None` where no host answered.
    pub isolation: Option<Isolation>,
    pub command: Option<CommandReport>,
    /// Files that it created or changed, as far as it is known.
    pub changed: Vec<PathBytes>,
    pub took: Duration,
    /// The host's own times; zero where none answered.
    pub timings: Timings,
}

/// How a call ended. Refusal, failure and fault are different things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool ran.
    Done,
    /// The tool tried and could not.
    Failed,
    /// Policy said no; nothing was started.
    Refused(Refusal),
    /// There is no such tool, or the arguments were not usable; nothing was started.
    Invalid,
    /// The host broke before the call reached it.
    NotStarted,
    /// The host broke during the call; its effect is unknown.
    Fault,
    /// The turn was cut during the call; its effect is unknown.
    Interrupted,
    /// The turn ended before the call's turn came; nothing was started.
    NotRun,
}

impl CallOutcome {
    /// The word of event stream and audit log.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused(_) => "refused",
            Self::Invalid => "invalid",
            Self::NotStarted => "not_started",
            Self::Fault => "fault",
            Self::Interrupted => "interrupted",
            Self::NotRun => "not_run",
        }
    }

    /// What policy said, as far as the front knows.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Done | Self::Failed => "allowed",
            Self::Refused(_) => "refused",
            Self::Invalid | Self::NotStarted | Self::NotRun => "not_asked",
            Self::Fault | Self::Interrupted => "unknown",
        }
    }

    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Done
            | Self::Failed
            | Self::Invalid
            | Self::NotStarted
            | Self::Fault
            | Self::Interrupted
            | Self::NotRun => None,
        }
    }
}

impl CallResult {
    /// A call that came to nothing.
    pub(crate) fn error(outcome: CallOutcome, text: String) -> Self {
        Self {
            text,
            outcome,
            is_error: true,
            denials: Vec::new(),
            isolation: None,
            command: None,
            changed: Vec::new(),
            took: Duration::ZERO,
            timings: Timings::default(),
        }
    }

    /// An answer of the front itself.
    pub(crate) fn answer(text: String) -> Self {
        Self {
            is_error: false,
            ..Self::error(CallOutcome::Done, text)
        }
    }

    pub(crate) fn of_host(result: ToolResult, isolation: Option<Isolation>) -> Self {
        let is_error = is_error(&result.reply);
        let reply = result.reply;
        Self {
            text: result.text,
            is_error,
            outcome: match reply.outcome {
                Outcome::Done => CallOutcome::Done,
                Outcome::Failed => CallOutcome::Failed,
                Outcome::Refused(refusal) => CallOutcome::Refused(refusal),
            },
            denials: reply.denials,
            isolation: reply
                .command
                .as_ref()
                .map(|command| command.isolation)
                .or(isolation),
            command: reply.command,
            changed: reply.changed,
            took: Duration::ZERO,
            timings: reply.timings,
        }
    }
}

/// One call with what is to be done for it.
pub(super) struct Planned {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
    /// The checked call, or what answers it.
    step: Result<Call, (CallOutcome, String)>,
}

impl Planned {
    /// What is to be done for one call. Everything that cannot be run becomes a sentence for the
    /// model.
    pub(super) fn new(call: ToolUse<'_>, tools: &[&'static Tool]) -> Self {
        let invalid = |text: String| Err((CallOutcome::Invalid, text));
        let step = if catalog::find(call.name).is_none() {
            let name: String = call.name.chars().filter(|c| !c.is_control()).take(80).collect();
            invalid(format!(
                "tool {name:?} does not exist; there are: {}",
                exposed(tools)
            ))
        } else if !tools.iter().any(|tool| tool.name == call.name) {
            Err(unavailable(call.name, tools))
        } else if let Some(why) = call.invalid {
            invalid(format!("{}: {why}. Nothing was run.", call.name))
        } else {
            let parsed = args::from_value(call.name, call.input.clone());
            parsed.or_else(|error| invalid(format!("{error}. Nothing was run.")))
        };
        Self {
            id: call.id.to_owned(),
            name: call.name.to_owned(),
            input: call.input.clone(),
            step,
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        match &self.step {
            Ok(Call::Host(request)) => request.is_read_only(),
            Ok(Call::HistorySearch { .. } | Call::HistoryRead { .. }) | Err(_) => true,
        }
    }
}

fn exposed(tools: &[&'static Tool]) -> String {
    tools.iter().map(|tool| tool.name).collect::<Vec<_>>().join(" ")
}

/// Policy took the tool away: a refusal like any other.
fn unavailable(name: &str, tools: &[&'static Tool]) -> (CallOutcome, String) {
    let message = format!(
        "tool {name:?} is not available under the current policy; there are: {}",
        exposed(tools)
    );
    let refusal = Refusal {
        code: "tool-not-available".to_owned(),
        line: 0,
        column: 0,
        message: message.clone(),
        hint: String::new(),
    };
    (CallOutcome::Refused(refusal), message)
}

/// Runs one planned call. A broken channel is an answer too: the turn goes on.
pub(super) async fn execute(
    host: &impl ToolHost,
    session: Option<&Session>,
    call: &Planned,
    progress: &mut dyn FnMut(&str),
) -> CallResult {
    let begun = Instant::now();
    let mut result = match &call.step {
        Err((outcome, sentence)) => CallResult::error(outcome.clone(), sentence.clone()),
        Ok(Call::Host(request)) => match host.call(request.clone(), progress).await {
            Ok(result) => CallResult::of_host(result, session.map(|session| session.ready.isolation)),
            Err(fault) => broken(request.tool(), &fault),
        },
        Ok(history) => look_back(session.map(|session| &session.log), history).await,
    };
    result.took = begun.elapsed();
    result
}

fn broken(tool: &str, fault: &Fault) -> CallResult {
    match fault {
        Fault::NotStarted(_) => CallResult::error(CallOutcome::NotStarted, format!("{tool}: {fault}")),
        Fault::EffectUnknown(_) => CallResult::error(
            CallOutcome::Fault,
            format!("the tool host failed during {tool}: {fault}. Look before you repeat it."),
        ),
    }
}

/// What a model should take for an error: the tool did not do it, or the command did not come to
/// its own end. A status other than 0 is an answer: `grep` found nothing, a test failed.
fn is_error(reply: &Reply) -> bool {
    let cut_short = |command: &CommandReport| command.end != CommandEnd::Exited || command.signal.is_some();
    reply.outcome != Outcome::Done || reply.command.as_ref().is_some_and(cut_short)
}

async fn look_back(log: Option<&Log>, call: &Call) -> CallResult {
    let failed = |text: String| CallResult::error(CallOutcome::Failed, text);
    let Some(log) = log else {
        return failed("this session has no records".to_owned());
    };
    if let Err(error) = log.durable().await {
        return failed(error.to_string());
    }
    let answer = match call {
        Call::HistorySearch {
            query,
            literal,
            ignore_case,
            limit,
        } => history::search(log.path(), query, *literal, *ignore_case, *limit),
        Call::HistoryRead { offset, limit } => history::read(log.path(), *offset, *limit),
        Call::Host(request) => return failed(format!("{} is not a history tool", request.tool())),
    };
    answer.map_or_else(|error| failed(error.to_string()), CallResult::answer)
}

/// Bounds a result.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > RESULT_BYTES_MAX {
        let end = text.floor_char_boundary(RESULT_BYTES_MAX);
        let left_out = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[result cut: {left_out} bytes left out]"));
    }
    text
}
