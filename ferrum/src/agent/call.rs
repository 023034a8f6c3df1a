//! One tool call of a message: from what the model wrote to what it is answered.

use super::message::ToolUse;
use crate::host::Fault;
use crate::host::client::ToolHost;
use crate::session::log::Log;
use crate::tools::args::{self, Call};
use crate::tools::catalog::{self, Tool};
use crate::tools::history;
use ferrum_proto::reply::{CommandEnd, CommandReport, Denial, Outcome, Reply};
use serde_json::Value;

/// One result as stored and sent, in bytes. Tools give about 110 KiB; six times this, as JSON might
/// escape it, still fits a session record.
const RESULT_BYTES_MAX: usize = 2 << 20;

/// What a finished tool call says to model, record and operator.
pub struct CallResult {
    pub text: String,
    pub is_error: bool,
    pub refused: bool,
    pub denials: Vec<Denial>,
}

impl CallResult {
    fn error(text: String) -> Self {
        Self {
            text,
            is_error: true,
            refused: false,
            denials: Vec::new(),
        }
    }
}

/// One call with what is to be done for it.
pub(super) struct Planned {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
    /// The checked call, or the sentence that answers it.
    step: Result<Call, String>,
}

impl Planned {
    /// What is to be done for one call. Everything that cannot be run becomes a sentence for the
    /// model.
    pub(super) fn new(call: ToolUse<'_>, tools: &[&'static Tool]) -> Self {
        let exposed = || tools.iter().map(|tool| tool.name).collect::<Vec<_>>().join(" ");
        let step = if catalog::find(call.name).is_none() {
            let name: String = call.name.chars().filter(|c| !c.is_control()).take(80).collect();
            Err(format!("tool {name:?} does not exist; there are: {}", exposed()))
        } else if !tools.iter().any(|tool| tool.name == call.name) {
            let name = call.name;
            Err(format!(
                "tool {name:?} is not available under the current policy; there are: {}",
                exposed()
            ))
        } else if let Some(why) = call.invalid {
            Err(format!("{}: {why}. Nothing was run.", call.name))
        } else {
            args::from_value(call.name, call.input.clone()).map_err(|e| format!("{e}. Nothing was run."))
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

/// Runs one planned call. A broken channel is an answer too: the turn goes on.
pub(super) async fn execute(
    host: &impl ToolHost,
    log: Option<&Log>,
    call: &Planned,
    progress: &mut dyn FnMut(&str),
) -> CallResult {
    let request = match &call.step {
        Err(sentence) => return CallResult::error(sentence.clone()),
        Ok(Call::Host(request)) => request,
        Ok(history) => return look_back(log, history).await,
    };
    match host.call(request.clone(), progress).await {
        Ok(result) => CallResult {
            text: result.text,
            is_error: is_error(&result.reply),
            refused: matches!(result.reply.outcome, Outcome::Refused(_)),
            denials: result.reply.denials,
        },
        Err(fault @ Fault::NotStarted(_)) => CallResult::error(format!("{}: {fault}", request.tool())),
        Err(fault @ Fault::EffectUnknown(_)) => CallResult::error(format!(
            "the tool host failed during {}: {fault}. Look before you repeat it.",
            request.tool()
        )),
    }
}

/// What a model should take for an error: the tool did not do it, or the command did not come to
/// its own end. A status other than 0 is an answer: `grep` found nothing, a test failed.
fn is_error(reply: &Reply) -> bool {
    let cut_short = |command: &CommandReport| command.end != CommandEnd::Exited || command.signal.is_some();
    reply.outcome != Outcome::Done || reply.command.as_ref().is_some_and(cut_short)
}

async fn look_back(log: Option<&Log>, call: &Call) -> CallResult {
    let Some(log) = log else {
        return CallResult::error("this session has no records".to_owned());
    };
    if let Err(error) = log.durable().await {
        return CallResult::error(error.to_string());
    }
    let answer = match call {
        Call::HistorySearch {
            query,
            literal,
            ignore_case,
            limit,
        } => history::search(log.path(), query, *literal, *ignore_case, *limit),
        Call::HistoryRead { offset, limit } => history::read(log.path(), *offset, *limit),
        Call::Host(request) => return CallResult::error(format!("{} is not a history tool", request.tool())),
    };
    match answer {
        Ok(text) => CallResult {
            text,
            is_error: false,
            refused: false,
            denials: Vec::new(),
        },
        Err(error) => CallResult::error(error.to_string()),
    }
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
