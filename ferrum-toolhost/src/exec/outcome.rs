//! What is known of a finished command, as the lines that the model reads.
//!
//! The fixed lines come first, in a fixed order, all of them ours; what the program wrote comes
//! last, under headings that say its length. A program cannot put a line before them.

use super::run::Ran;
use crate::fs::name::shown_line;
use crate::guard::Findings;
use ferrum_proto::reply::{CommandEnd, CommandReport, Denial, Residual};
use std::fmt::Write;

/// The whole text of a result.
#[must_use]
pub fn text(ran: &Ran, report: &CommandReport, denials: &[Denial], findings: &Findings) -> String {
    let mut lines = Lines::default();
    ending(&mut lines, ran, report);
    resources(&mut lines, report);
    for denial in denials {
        lines.add("denied", denial_line(denial));
    }
    for finding in findings {
        lines.add("protected", finding);
    }
    let mut text = lines.0;
    for (name, capture) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} ({} bytes):", capture.total);
        text.push_str(&capture.text());
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    text.push('\n');
    text
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        // Values hold names that programs chose: none may begin a line of its own.
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{name}: {}", shown_line(&value.to_string()));
    }
}

fn ending(lines: &mut Lines, ran: &Ran, report: &CommandReport) {
    let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
    let status = report.status.map(|status| format!("Some({status})"));
    let output_error = ran.stdout.error.as_deref().or(ran.stderr.error.as_deref());
    let names = match report.ended_names.join(", ") {
        names if names.is_empty() => names,
        names => format!(" ({names})"),
    };
    lines.add("outcome", end_name(report.end));
    lines.add("status", status.as_deref().unwrap_or("None"));
    lines.add("output_incomplete", report.output_incomplete);
    lines.add("output_error", or_none(output_error));
    lines.add("termination_error", or_none(ran.swept.error.as_deref()));
    lines.add("containment", report.containment.name());
    lines.add("containment_error", or_none(ran.cgroup_error.as_deref()));
    lines.add("residual_descendants", residual_name(report.residual));
    lines.add("ended_with_call", format!("{}{names}", report.ended_with_call));
    lines.add("isolation", report.isolation.name());
}

/// What is not known has no line.
fn resources(lines: &mut Lines, report: &CommandReport) {
    if let Some(signal) = report.signal {
        let name = nix::sys::signal::Signal::try_from(signal).map_or("unnamed", |signal| signal.as_str());
        lines.add("signal", format!("{signal} ({name})"));
    }
    if let Some(micros) = report.cpu_us {
        lines.add("cpu_ms", micros.div_ceil(1_000));
    }
    if let Some(bytes) = report.peak_memory {
        lines.add("peak_memory_bytes", bytes);
    }
    if !report.limits_missing.is_empty() {
        lines.add("limits_not_in_force", report.limits_missing.join(", "));
    }
}

fn end_name(end: CommandEnd) -> &'static str {
    match end {
        CommandEnd::Exited => "exited",
        CommandEnd::TimedOut => "timed_out",
        CommandEnd::Cancelled => "cancelled",
    }
}

fn residual_name(residual: Residual) -> &'static str {
    match residual {
        Residual::None => "false",
        Residual::Some => "true",
        Residual::Unknown => "unknown",
    }
}

fn denial_line(denial: &Denial) -> String {
    let inferred = if denial.certain { "" } else { " (inferred)" };
    let remedy = match denial.remedy.as_str() {
        "" => String::new(),
        remedy => format!("; the operator can allow it: {remedy}"),
    };
    format!("{} by {}{inferred}{remedy}", denial.what, denial.wall)
}
