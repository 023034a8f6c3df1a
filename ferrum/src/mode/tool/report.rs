//! The JSON object of `ferrum tool --json`. Its keys are documented; none is ever left out.

use crate::host::ToolResult;
use crate::output::wire;
use ferrum_proto::reply::Outcome;
use ferrum_proto::seal::{Granted, Ready, Wall};
use serde_json::{Value, json};
use std::time::Duration;

/// A call that was answered.
pub(super) fn answered(
    tool: &str,
    result: &ToolResult,
    granted: &Granted,
    ready: &Ready,
    took: Duration,
) -> String {
    let reply = &result.reply;
    let (outcome, refusal) = match &reply.outcome {
        Outcome::Done => ("done", Value::Null),
        Outcome::Failed => ("failed", Value::Null),
        Outcome::Refused(refusal) => ("refused", wire::refusal(refusal)),
    };
    json!({
        "tool": tool,
        "outcome": outcome,
        "text": result.text,
        "refusal": refusal,
        "isolation": isolation(granted, ready),
        "denials": wire::denials(&reply.denials),
        "command": reply.command.as_ref().map(wire::command),
        "changed": wire::paths(&reply.changed),
        "timings": {
            "admit_us": reply.timings.admit_us,
            "run_us": reply.timings.run_us,
            "setup_us": ready.setup_us,
            "total_us": u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        },
    })
    .to_string()
}

/// A call that came to nothing before or beside the host.
pub(super) fn failed(tool: &str, message: &str) -> String {
    json!({
        "tool": tool,
        "outcome": "failed",
        "text": message,
        "refusal": null,
        "isolation": null,
        "denials": [],
        "command": null,
        "changed": [],
        "timings": null,
    })
    .to_string()
}

fn isolation(granted: &Granted, ready: &Ready) -> Value {
    json!({
        "requested": granted.require.name(),
        "effective": ready.isolation.name(),
        "tier": granted.tier.name(),
        "network": ready.network.name(),
        "shell": ready.shell.name(),
        "containment": ready.containment.name(),
        "walls": walls(&ready.walls),
    })
}

/// As `doctor` shows them too.
pub(in crate::mode) fn walls(walls: &[Wall]) -> Value {
    let rows = walls
        .iter()
        .map(|wall| json!({ "name": wall.name, "in_force": wall.in_force, "detail": wall.detail }));
    Value::Array(rows.collect())
}
