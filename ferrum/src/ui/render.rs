//! Tool calls and results as the operator reads them on stderr: short, and cleaned.

use super::terminal_text::sanitise;
use crate::agent::call::CallResult;
use ferrum_proto::reply::Survey;
use ferrum_proto::seal::{Granted, Ready};
use serde_json::Value;
use std::fmt::Write as _;

/// Lines of a preview.
const LINES_MAX: usize = 12;
/// Characters of one line.
const LINE_CHARS_MAX: usize = 160;

/// The policy and the walls in force, in one line.
#[must_use]
pub fn ready(granted: &Granted, ready: &Ready) -> String {
    format!(
        "ferrum: safety {}, isolation {} (required {}), network {}, shell {}\n",
        granted.tier.name(),
        ready.isolation.name(),
        granted.require.name(),
        ready.network.name(),
        ready.shell.name(),
    )
}

/// What a turn left that somebody obeys without being asked.
#[must_use]
pub fn survey(granted: &Granted, survey: &Survey) -> String {
    let mut out = String::new();
    if !survey.files.is_empty() {
        out.push_str("ferrum: this turn touched files that programs or agents obey without being asked:\n");
    }
    for file in &survey.files {
        let path = file.path.as_path();
        let path = path
            .strip_prefix(granted.cwd.as_path())
            .unwrap_or(path)
            .to_string_lossy();
        let how = if file.created { "new" } else { "changed" };
        let line = format!("{path} ({}, {how})", file.kind);
        let _ = writeln!(out, "  {}", clip(&sanitise(&line)));
    }
    if survey.more > 0 {
        let _ = writeln!(out, "  and {} more", survey.more);
    }
    for finding in &survey.findings {
        let _ = writeln!(out, "ferrum: found after a call: {}", clip(&sanitise(finding)));
    }
    out
}

/// A call, its main argument first.
#[must_use]
pub fn tool_call(name: &str, input: &Value) -> String {
    let main = ["command", "path", "pattern", "query"];
    let mut out = format!("→ {}", clip(&sanitise(name)));
    let Value::Object(fields) = input else {
        return out + "\n";
    };
    let ordered = main.iter().filter_map(|key| fields.get_key_value(*key));
    let others = fields.iter().filter(|(key, _)| !main.contains(&key.as_str()));
    for (key, value) in ordered.chain(others) {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = sanitise(&text);
        if text.contains('\n') {
            let _ = write!(out, "\n  {}:\n{}", clip(&sanitise(key)), preview(&text));
        } else {
            let _ = write!(out, "\n  {}: {}", clip(&sanitise(key)), clip(&text));
        }
    }
    out.trim_end().to_owned() + "\n"
}

/// A bounded preview of a result.
#[must_use]
pub fn tool_result(name: &str, result: &CallResult) -> String {
    let word = match (result.outcome.refusal(), result.is_error) {
        (Some(_), _) => "refused",
        (None, true) => "error",
        (None, false) => "result",
    };
    let text = sanitise(&result.text);
    let text = without_the_ordinary(&text).unwrap_or(text);
    let mut out = format!("← {} {word}\n{}", clip(&sanitise(name)), preview(&text));
    for denial in &result.denials {
        let certain = if denial.certain {
            "denied"
        } else {
            "probably denied"
        };
        let _ = write!(
            out,
            "  {certain} by {}: {}",
            sanitise(&denial.wall),
            clip(&sanitise(&denial.what))
        );
        if !denial.remedy.is_empty() {
            let _ = write!(out, " (allowed by {})", clip(&sanitise(&denial.remedy)));
        }
        out.push('\n');
    }
    out
}

/// Lines of a command's result that say that nothing is out of the ordinary.
const ORDINARY: [&str; 11] = [
    "outcome: exited",
    "status: Some(0)",
    "output_incomplete: false",
    "output_error: none",
    "termination_error: none",
    "containment: cgroup_v2+pidns",
    "containment: pidns",
    "containment_error: none",
    "residual_descendants: false",
    "ended_with_call: 0",
    "isolation: full",
];
/// What is of no use at a glance, or is told in words below.
const BESIDE: [&str; 3] = ["cpu_ms: ", "peak_memory_bytes: ", "denied: "];

/// A command's result for the eye: what is out of the ordinary, then its output. `None` for the
/// result of anything else.
fn without_the_ordinary(text: &str) -> Option<String> {
    let is_command = text.starts_with("outcome: ") || text.starts_with("wait_reason: ");
    let at = is_command.then(|| text.find("\nstdout ("))??;
    let (head, body) = (&text[..at], &text[at + 1..]);
    let is_ordinary =
        |line: &&str| ORDINARY.contains(line) || BESIDE.iter().any(|word| line.starts_with(word));
    let is_empty = |line: &&str| ["stdout (0 bytes):", "stderr (0 bytes):"].contains(line);
    let telling = head.lines().filter(|line| !is_ordinary(line));
    let lines: Vec<&str> = telling
        .chain(body.lines().filter(|line| !is_empty(line)))
        .collect();
    Some(if lines.is_empty() {
        "done, without output".to_owned()
    } else {
        lines.join("\n")
    })
}

fn preview(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().take(LINES_MAX) {
        let _ = writeln!(out, "  {}", clip(line));
    }
    let more = text.lines().count().saturating_sub(LINES_MAX);
    if more > 0 {
        let _ = writeln!(out, "  … {more} more lines");
    }
    out
}

fn clip(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> CallResult {
        CallResult::answer(text.into())
    }

    #[test]
    fn calls_show_their_main_argument_first() {
        let input = serde_json::json!({"a": 1, "path": "x\u{1b}[2J", "content": "one\ntwo"});
        assert_eq!(
            tool_call("write", &input),
            "→ write\n  path: x\n  a: 1\n  content:\n  one\n  two\n"
        );
    }

    #[test]
    fn a_command_shows_what_is_out_of_the_ordinary_and_its_output() {
        let head = ORDINARY[..6].join("\n");
        let shown = |head: &str, body: &str| tool_result("bash", &result(&format!("{head}\n{body}")));
        let quiet = shown(&head, "stdout (0 bytes):\nstderr (0 bytes):\n");
        assert_eq!(quiet, "← bash result\n  done, without output\n");
        let loud = shown(
            &head.replace("Some(0)", "Some(2)"),
            "cpu_ms: 3\nstdout (3 bytes):\noutcome: exited\nstderr (0 bytes):\n",
        );
        assert_eq!(
            loud,
            "← bash result\n  status: Some(2)\n  stdout (3 bytes):\n  outcome: exited\n"
        );
        assert_eq!(
            tool_result("read", &result("outcome: exited")),
            "← read result\n  outcome: exited\n"
        );
    }

    #[test]
    fn previews_are_bounded_both_ways() {
        let long = format!("{}\n{}", "x".repeat(500), "line\n".repeat(100));
        let shown = tool_result("read", &result(&long));
        assert!(
            shown.lines().count() == 2 + LINES_MAX && shown.contains("89 more lines"),
            "{shown}"
        );
        assert!(
            shown
                .lines()
                .all(|line| line.chars().count() <= LINE_CHARS_MAX + 3)
        );
    }
}
