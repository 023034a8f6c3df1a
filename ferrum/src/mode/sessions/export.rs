//! A session as people and as programs read it.

use crate::agent::message::{ContentBlock, Message, Role};
use crate::session::check::{Report, summary};
use crate::ui::terminal_text::without_thinking;
use serde_json::json;
use std::fmt::Write as _;

/// Lines of a call or result in the short form.
const LINES_MAX: usize = 6;

/// One JSON object a message.
pub(super) fn lines(report: &Report) -> String {
    let mut text = String::new();
    for message in &report.messages {
        // Writing to a string cannot fail; nor do messages that were read from JSON.
        let _ = writeln!(text, "{}", serde_json::to_string(message).unwrap_or_default());
    }
    text
}

/// Everything as one JSON object.
pub(super) fn json(report: &Report) -> String {
    let all = json!({ "session": report.metadata(), "messages": report.messages });
    format!("{all:#}\n")
}

/// The conversation, with calls and results cut short.
pub(super) fn shown(report: &Report) -> String {
    let mut out = String::new();
    for message in &report.messages {
        for block in &message.content {
            let text = match block {
                ContentBlock::Text { text } => without_thinking(text).trim().to_owned(),
                ContentBlock::ToolUse { name, input, .. } => {
                    format!("→ {name} {}", summary(&input.to_string()))
                }
                ContentBlock::ToolResult {
                    content, is_error, ..
                } => {
                    format!("← {}{}", if *is_error { "error: " } else { "" }, short(content))
                }
                ContentBlock::Image { mime_type, .. } => format!("[picture {mime_type}]"),
                ContentBlock::Thinking { .. } | ContentBlock::Other(_) => continue,
            };
            let who = if message.role == Role::User { "> " } else { "" };
            if !text.is_empty() {
                let _ = writeln!(out, "{who}{text}\n");
            }
        }
    }
    out
}

fn short(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    if text.lines().count() > LINES_MAX {
        lines.push("…");
    }
    lines.join("\n  ")
}

/// The whole conversation as a document.
pub(super) fn markdown(report: &Report) -> String {
    let all = report.metadata();
    let title = all["title"].as_str().unwrap_or(&report.id);
    let mut out = format!("# {title}\n\n");
    for name in ["session_id", "cwd", "provider", "model"] {
        if let Some(value) = all[name].as_str() {
            let _ = writeln!(out, "- {name}: {value}");
        }
    }
    for message in &report.messages {
        out.push_str(&section(message));
    }
    out
}

fn section(message: &Message) -> String {
    let mut out = String::new();
    for block in &message.content {
        let (head, body) = match block {
            ContentBlock::Text { text } => {
                let head = if message.role == Role::User {
                    "User"
                } else {
                    "Assistant"
                };
                (head.to_owned(), without_thinking(text).trim().to_owned())
            }
            ContentBlock::ToolUse { name, input, .. } => {
                (format!("Call: {name}"), fenced(&format!("{input:#}")))
            }
            ContentBlock::ToolResult {
                content, is_error, ..
            } => {
                let head = if *is_error { "Result: error" } else { "Result" };
                (head.to_owned(), fenced(content))
            }
            ContentBlock::Image {
                mime_type, source, ..
            } => {
                let from = source.as_deref().unwrap_or("no name");
                ("Picture".to_owned(), format!("{mime_type}, {from}"))
            }
            ContentBlock::Thinking { .. } | ContentBlock::Other(_) => continue,
        };
        if !body.is_empty() {
            let _ = write!(out, "\n## {head}\n\n{body}\n");
        }
    }
    out
}

/// A fence that is longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_holds_whatever_is_in_the_text() {
        assert_eq!(fenced("a"), "```\na\n```");
        assert_eq!(fenced("````\nx\n````\n"), "`````\n````\nx\n````\n`````");
    }
}
