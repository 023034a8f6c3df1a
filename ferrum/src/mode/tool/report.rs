//! The JSON object of `ferrum tool --json`. Its keys are documented; none is ever left out.

use crate::host::ToolResult;
use ferrum_proto::reply::{CommandEnd, CommandReport, Outcome, Refusal, Residual};
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
        Outcome::Refused(refusal) => ("refused", refused(refusal)),
    };
    let denials = reply.denials.iter().map(|denial| {
        json!({
            "what": denial.what,
            "wall": denial.wall,
            "remedy": denial.remedy,
            "certain": denial.certain,
        })
    });
    let changed = reply
        .changed
        .iter()
        .map(|path| path.as_path().to_string_lossy().into_owned());
    json!({
        "tool": tool,
        "outcome": outcome,
        "text": result.text,
        "refusal": refusal,
        "isolation": isolation(granted, ready),
        "denials": denials.collect::<Vec<_>>(),
        "command": reply.command.as_ref().map(command),
        "changed": changed.collect::<Vec<_>>(),
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

fn refused(refusal: &Refusal) -> Value {
    json!({
        "code": refusal.code,
        "line": refusal.line,
        "column": refusal.column,
        "message": refusal.message,
        "hint": refusal.hint,
    })
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

fn command(report: &CommandReport) -> Value {
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
