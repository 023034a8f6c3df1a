//! `history_search` and `history_read`: the session's own records, answered by the front because
//! the host never sees the session file.

use crate::agent::message::{ContentBlock, Message, Role};
use crate::session::log::{Line, LogError, for_each_line};
use crate::session::record::{self, Body};
use regex::{Regex, RegexBuilder};
use std::fmt::Write as _;
use std::path::Path;

/// Text of one answer, in bytes: as much as `read` gives.
const ANSWER_BYTES_MAX: usize = 50 << 10;
/// Characters shown before and after a match.
const AROUND_CHARS: usize = 120;
/// A compiled pattern, in bytes of memory.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// What could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("pattern: {0}")]
    Pattern(String),
    #[error(transparent)]
    Log(#[from] LogError),
}

struct Entry {
    line: usize,
    text: String,
}

/// Finds records whose text matches. One line each: number, state, snippet.
///
/// # Errors
/// [`HistoryError`] for a pattern that does not compile and a file that cannot be read.
pub fn search(
    path: &Path,
    query: &str,
    literal: bool,
    ignore_case: bool,
    limit: usize,
) -> Result<String, HistoryError> {
    let pattern = if literal {
        regex::escape(query)
    } else {
        query.to_owned()
    };
    let pattern = RegexBuilder::new(&pattern)
        .case_insensitive(ignore_case)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|e| HistoryError::Pattern(e.to_string()))?;
    let mut found: Vec<Entry> = Vec::new();
    let mut more = false;
    let archived_before = entries(path, |entry| {
        if let Some(snippet) = snippet(&pattern, &entry.text) {
            more = found.len() == limit;
            if !more {
                found.push(Entry {
                    line: entry.line,
                    text: snippet,
                });
            }
        }
    })?;
    if found.is_empty() {
        return Ok("no matches".to_owned());
    }
    let mut out = String::new();
    for entry in &found {
        let state = state(entry.line, archived_before);
        let _ = writeln!(out, "line {} ({state}): {}", entry.line, entry.text);
    }
    if more {
        let _ = writeln!(
            out,
            "limit reached, use limit={} or a narrower query",
            (limit * 2).min(50)
        );
    }
    out.push_str("read on with history_read offset=LINE");
    Ok(out)
}

/// Shows `limit` records from line `offset` on.
///
/// # Errors
/// [`HistoryError::Log`] when the file cannot be read.
pub fn read(path: &Path, offset: usize, limit: usize) -> Result<String, HistoryError> {
    let mut shown: Vec<Entry> = Vec::new();
    let (mut bytes, mut last) = (0, 0);
    let archived_before = entries(path, |entry| {
        last = entry.line;
        if entry.line >= offset && shown.len() < limit && bytes < ANSWER_BYTES_MAX {
            let text = clip(&entry.text, ANSWER_BYTES_MAX - bytes);
            bytes += text.len();
            shown.push(Entry {
                line: entry.line,
                text,
            });
        }
    })?;
    if shown.is_empty() {
        return Ok(format!(
            "no records from line {offset} on; the last one is line {last}"
        ));
    }
    let mut out = String::new();
    for entry in &shown {
        let _ = writeln!(
            out,
            "--- line {} ({})\n{}",
            entry.line,
            state(entry.line, archived_before),
            entry.text
        );
    }
    if let Some(end) = shown.last().filter(|entry| entry.line < last) {
        let _ = writeln!(out, "more records follow: offset={}", end.line + 1);
    }
    Ok(out)
}

fn state(line: usize, archived_before: usize) -> &'static str {
    if line < archived_before {
        "archived"
    } else {
        "active"
    }
}

/// Calls `each` with every readable record; returns the line of the last compaction, or 0.
fn entries(path: &Path, mut each: impl FnMut(&Entry)) -> Result<usize, HistoryError> {
    let mut compaction = 0;
    for_each_line(path, |line, bytes| {
        let Line::Bytes(bytes) = bytes else { return };
        let values = serde_json::Deserializer::from_slice(bytes).into_iter();
        for record in values
            .map_while(Result::ok)
            .filter_map(|value| record::parse(value).ok())
        {
            let text = match record.body {
                Body::Message(message) => render(&message),
                Body::Compaction(summary) => {
                    compaction = line;
                    format!("compaction: {summary}")
                }
                Body::Header(_) | Body::Metadata(_) | Body::Unknown(_) => continue,
            };
            each(&Entry { line, text });
        }
    })?;
    Ok(compaction)
}

fn render(message: &Message) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut out = format!("{role}:");
    for block in &message.content {
        // Writing to a string cannot fail.
        let _ = match block {
            ContentBlock::Text { text } => write!(out, " {text}"),
            ContentBlock::ToolUse { name, input, .. } => write!(out, " [calls {name} {input}]"),
            ContentBlock::ToolResult {
                content, is_error, ..
            } => {
                write!(out, " [{}] {content}", if *is_error { "error" } else { "result" })
            }
            ContentBlock::Image {
                mime_type, source, ..
            } => {
                write!(out, " [image {mime_type} {}]", source.as_deref().unwrap_or(""))
            }
            ContentBlock::Thinking { .. } | ContentBlock::Other(_) => Ok(()),
        };
    }
    out
}

fn snippet(pattern: &Regex, text: &str) -> Option<String> {
    let found = pattern.find(text)?;
    let before: String = text[..found.start()].chars().rev().take(AROUND_CHARS).collect();
    let before: String = before.chars().rev().collect();
    let after: String = text[found.start()..].chars().take(2 * AROUND_CHARS).collect();
    Some(
        format!("{before}{after}")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!(
        "{}\n[record cut: {} bytes left out]",
        &text[..end],
        text.len() - end
    )
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files in place")]
mod tests {
    use super::*;

    fn session() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let lines = [
            record::header(serde_json::Map::new()),
            record::message(&Message::text(Role::User, "find the Snowman ☃ please")),
            record::message(&Message::tool_result("a", "snowman.rs:1: x.y".into(), false)),
            record::compaction("a snowman was sought"),
            record::message(&Message::text(Role::Assistant, "snowman found")),
        ];
        std::fs::write(&path, lines.concat()).unwrap();
        (dir, path)
    }

    #[test]
    fn matches_name_their_line_and_state() {
        let (_dir, path) = session();
        let text = search(&path, "SNOWMAN", true, true, 10).unwrap();
        assert!(
            text.contains("line 2 (archived): user: find the Snowman ☃ please"),
            "{text}"
        );
        assert!(
            text.contains("line 5 (active): assistant: snowman found"),
            "{text}"
        );
        assert_eq!(search(&path, "SNOWMAN", true, false, 10).unwrap(), "no matches");
        assert_eq!(
            search(&path, "x.y", true, false, 10)
                .unwrap()
                .matches("line")
                .count(),
            1
        );
        assert!(
            search(&path, "snow", true, true, 2)
                .unwrap()
                .contains("limit reached, use limit=4")
        );
        assert!(matches!(
            search(&path, "(", false, true, 1),
            Err(HistoryError::Pattern(_))
        ));
    }

    #[test]
    fn reading_starts_at_a_raw_line_number() {
        let (_dir, path) = session();
        let text = read(&path, 3, 1).unwrap();
        assert!(
            text.starts_with("--- line 3 (archived)\ntool: [result] snowman.rs"),
            "{text}"
        );
        assert!(text.contains("offset=4"), "{text}");
        assert!(read(&path, 9, 1).unwrap().contains("the last one is line 5"));
    }

    #[test]
    fn a_long_record_is_cut_between_characters() {
        assert_eq!(clip("ab☃", 3), "ab\n[record cut: 3 bytes left out]");
        assert_eq!(clip("ab☃", 5), "ab☃");
    }
}
