//! Events as the JSON objects of docs/AUTOMATION.md. Every field is always there; `null` says
//! that there is nothing to say. Nothing of a provider's own format gets in.

use super::SessionFacts;
use crate::agent::call::CallResult;
use crate::agent::event::{Event, Interrupted, Totals, TurnEnd};
use crate::agent::message::{ToolUse, Usage, UsageSource};
use crate::agent::turn::End;
use crate::exit::Failure;
use crate::session::record;
use ferrum_proto::reply::{CommandEnd, CommandReport, Denial, Refusal, Residual};
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::PathBytes;
use serde::Serialize;
use serde_json::{Value, json};

/// Version of these shapes: it grows when a field changes its meaning or goes.
pub const VERSION: u64 = 1;

/// One event as one line with its line end; `None` where a form has no line for it.
#[must_use]
pub fn line(event: Event<'_>, facts: &SessionFacts) -> Option<Vec<u8>> {
    let value = match event {
        Event::AssistantDelta(text) => return Some(delta("assistant_delta", text)),
        Event::ThinkingDelta(text) => return Some(delta("thinking_delta", text)),
        Event::Assistant(_) | Event::Progress(_) => return None,
        Event::Session { granted, ready } => session(facts, granted, ready),
        Event::ToolCall(call) => tool_call(call),
        Event::ToolResult { id, name, result } => tool_result(id, name, result),
        Event::Usage(usage) => with_type("usage", self::usage(usage)),
        Event::Steering { survey, .. } => with_type("steering", record::steering(survey)),
        Event::Notice(text) => json!({ "type": "notice", "text": text }),
        Event::TurnEnd(end) => turn_end(end),
        Event::Interrupted(cut) => interrupted(cut),
        Event::Error(failure) => error(failure),
    };
    Some(as_line(&value))
}

/// One object as one line with its line end.
#[must_use]
pub fn as_line(value: &impl Serialize) -> Vec<u8> {
    // Our own values have string keys and no failing serialiser.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The most frequent line by far: no value is built for it.
fn delta(kind: &'static str, text: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Delta<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        text: &'a str,
    }
    as_line(&Delta { kind, text })
}

fn with_type(kind: &str, mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.insert("type".into(), json!(kind));
    }
    value
}

fn session(facts: &SessionFacts, granted: &Granted, ready: &Ready) -> Value {
    with_type("session", self::session_facts(facts, granted, ready))
}

/// Which session this is and what holds in it.
#[must_use]
pub fn session_facts(facts: &SessionFacts, granted: &Granted, ready: &Ready) -> Value {
    json!({
        "version": VERSION,
        "session_id": facts.id,
        "path": facts.path,
        "resumed": facts.resumed,
        "cwd": granted.cwd.as_path().to_string_lossy(),
        "provider": facts.provider,
        "model": facts.model,
        "safety": granted.tier.name(),
        "tools": granted.tools,
        "isolation": isolation(granted, ready),
    })
}

/// The walls, asked for and in force.
#[must_use]
pub fn isolation(granted: &Granted, ready: &Ready) -> Value {
    json!({
        "requested": granted.require.name(),
        "effective": ready.isolation.name(),
        "network": ready.network.name(),
        "shell": ready.shell.name(),
        "containment": ready.containment.name(),
    })
}

fn tool_call(call: ToolUse<'_>) -> Value {
    json!({
        "type": "tool_call",
        "id": call.id,
        "name": call.name,
        "arguments": arguments(call.input),
    })
}

/// Always an object: a reader of the stream need not be ready for what a model may write.
fn arguments(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => json!({}),
        other => json!({ "invalid": other }),
    }
}

fn tool_result(id: &str, name: &str, result: &CallResult) -> Value {
    json!({
        "type": "tool_result",
        "id": id,
        "name": name,
        "outcome": result.outcome.word(),
        "is_error": result.is_error,
        "text": result.text,
        "refusal": result.outcome.refusal().map(refusal),
        "isolation": result.isolation.map(|isolation| isolation.name()),
        "denials": denials(&result.denials),
        "command": result.command.as_ref().map(command),
        "changed": paths(&result.changed),
        "took_ms": u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX),
    })
}

fn turn_end(end: TurnEnd<'_>) -> Value {
    let (outcome, why) = match end.end {
        End::Answered => ("answered", None),
        End::Stopped(why) => ("stopped", Some(why)),
    };
    json!({
        "type": "turn_end",
        "outcome": outcome,
        "why": why,
        "totals": totals(end.totals),
        "exit_code": end.exit_code,
    })
}

fn interrupted(cut: Interrupted<'_>) -> Value {
    json!({
        "type": "turn_interrupted",
        "reason": cut.reason.word(),
        "phase": cut.phase,
        "totals": totals(cut.totals),
        "exit_code": cut.exit_code,
    })
}

fn error(failure: &Failure) -> Value {
    with_type("error", self::failure(failure))
}

/// An error as data.
#[must_use]
pub fn failure(failure: &Failure) -> Value {
    json!({
        "kind": failure.kind.word(),
        "message": failure.message,
        "hint": failure.hint,
        "exit_code": failure.kind.code(),
    })
}

/// Counts of a turn.
#[must_use]
pub fn totals(totals: &Totals) -> Value {
    json!({
        "rounds": totals.rounds,
        "refused": totals.refused,
        "usage": usage(&totals.usage),
    })
}

/// Tokens.
#[must_use]
pub fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "source": match usage.source {
            UsageSource::Provider => "provider",
            UsageSource::Estimated => "estimated",
            UsageSource::Unknown => "unknown",
        },
    })
}

/// A refusal by policy.
#[must_use]
pub fn refusal(refusal: &Refusal) -> Value {
    json!({
        "code": refusal.code,
        "line": refusal.line,
        "column": refusal.column,
        "message": refusal.message,
        "hint": refusal.hint,
    })
}

/// What walls refused.
#[must_use]
pub fn denials(denials: &[Denial]) -> Value {
    let rows = denials.iter().map(|denial| {
        json!({
            "what": denial.what,
            "wall": denial.wall,
            "remedy": denial.remedy,
            "certain": denial.certain,
        })
    });
    Value::Array(rows.collect())
}

/// What is known of a command.
#[must_use]
pub fn command(report: &CommandReport) -> Value {
    json!({
        "end": match report.end {
            CommandEnd::Exited => "exited",
            CommandEnd::TimedOut => "timed_out",
            CommandEnd::Cancelled => "cancelled",
        },
        "status": report.status,
        "signal": report.signal,
        "isolation": report.isolation.name(),
        "containment": report.containment.name(),
        "residual_descendants": match report.residual {
            Residual::None => "false",
            Residual::Some => "true",
            Residual::Unknown => "unknown",
        },
        "ended_with_call": report.ended_with_call,
        "ended_names": report.ended_names,
        "output_incomplete": report.output_incomplete,
        "stdout_bytes": report.stdout_bytes,
        "stderr_bytes": report.stderr_bytes,
        "cpu_us": report.cpu_us,
        "peak_memory_bytes": report.peak_memory,
        "limits_not_in_force": report.limits_missing,
    })
}

/// Paths as text.
#[must_use]
pub fn paths(paths: &[PathBytes]) -> Value {
    let texts = paths.iter().map(|path| json!(path.as_path().to_string_lossy()));
    Value::Array(texts.collect())
}
