//! What a session file holds, what is wrong with it, and what taking it up again would do.

use super::log::{self, End, LogError};
use super::record::{self, Body, Record};
use super::select;
use crate::agent::message::{Message, Role, close_pairs};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Characters of a message in a summary.
const SUMMARY_CHARS_MAX: usize = 80;

/// Everything that is known of one session.
#[derive(Debug)]
pub struct Report {
    pub id: String,
    pub records: usize,
    pub has_header: bool,
    /// Lines that cannot be read, and what else must not be in a session.
    pub damage: Vec<String>,
    /// What a crash leaves, and what a resume puts right by itself.
    pub repairs: Vec<String>,
    /// As a resume would send it.
    pub messages: Vec<Message>,
    /// Of the header and all metadata; the last value counts.
    pub facts: Map<String, Value>,
    pub created_ms: u64,
    pub updated_ms: u64,
}

impl Report {
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// What `ferrum sessions list` says of it.
    #[must_use]
    pub fn metadata(&self) -> Value {
        let said = || {
            self.messages
                .iter()
                .filter(|message| matches!(message.role, Role::User | Role::Assistant))
        };
        let texts = || {
            said()
                .map(Message::visible_text)
                .filter(|text| !text.trim().is_empty())
        };
        let fact = |name: &str| self.facts.get(name).cloned().unwrap_or(Value::Null);
        json!({
            "type": "session_metadata",
            "session_id": self.id,
            "created_at": self.created_ms,
            "updated_at": self.updated_ms,
            "mode": fact("mode"),
            "cwd": fact("cwd"),
            "provider": fact("provider"),
            "model": fact("model"),
            "title": fact("title"),
            "messages": said().count(),
            "first_message": texts().next().map(|text| summary(&text)),
            "last_message": texts().next_back().map(|text| summary(&text)),
            "damaged": self.is_damaged(),
        })
    }
}

/// The beginning of a text, in one line that a terminal can show.
#[must_use]
pub fn summary(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(SUMMARY_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Reads a session file and judges it. Changes nothing.
///
/// # Errors
/// [`LogError`] when it cannot be opened or read at all.
pub fn check(path: &Path) -> Result<Report, LogError> {
    let torn = torn_bytes(path)?;
    let mut loaded = log::load(path)?;
    let mut report = Report {
        id: select::id(path),
        records: loaded.records.len(),
        has_header: false,
        damage: Vec::new(),
        repairs: Vec::new(),
        messages: Vec::new(),
        facts: Map::new(),
        created_ms: 0,
        updated_ms: 0,
    };
    if let Some(torn) = torn {
        // Its line is the last diagnostic, where it could not be read.
        if torn.whole {
            report
                .repairs
                .push("the last record has no line end; it gets one".to_owned());
        } else {
            loaded.diagnostics.pop();
            let text = format!("the last record is torn; its {} bytes are taken off", torn.bytes);
            report.repairs.push(text);
        }
    }
    report.damage = loaded.diagnostics;
    let first = loaded.records.first().map(|(_, record)| record.timestamp_ms);
    report.created_ms = first.unwrap_or(0);
    report.updated_ms = loaded
        .records
        .iter()
        .map(|(_, r)| r.timestamp_ms)
        .max()
        .unwrap_or(0);
    look_at(&mut report, &loaded.records);
    let records = loaded.records.into_iter().map(|(_, record)| record);
    let messages = record::conversation(records);
    let before = messages.len();
    report.messages = close_pairs(messages, "no result");
    let made_up = report.messages.len().saturating_sub(before);
    if made_up > 0 {
        let text = format!("{made_up} calls have no result; each gets one that says so");
        report.repairs.push(text);
    }
    Ok(report)
}

fn look_at(report: &mut Report, records: &[(usize, Record)]) {
    let mut compacted = None;
    for (line, record) in records {
        match &record.body {
            Body::Header(fields) => {
                if report.has_header {
                    report.damage.push(format!("line {line} is a second header"));
                }
                report.has_header = true;
                report.facts.extend(fields.clone());
            }
            Body::Metadata(fields) => report.facts.extend(fields.clone()),
            Body::Compaction(_) => compacted = Some(*line),
            Body::Message(_) | Body::Unknown(_) => {}
        }
    }
    if !report.has_header {
        report.damage.push("it has no header".to_owned());
    }
    if let Some(line) = compacted {
        let text = format!("everything before line {line} stands in the summary there");
        report.repairs.push(text);
    }
}

/// True where the file does not end with a line end.
///
/// # Errors
/// When it cannot be read, or ends in what no writer mends.
pub fn is_torn(path: &Path) -> Result<bool, LogError> {
    Ok(torn_bytes(path)?.is_some())
}

struct Torn {
    bytes: u64,
    whole: bool,
}

/// What stands behind the last line end, as the next writer will find it.
fn torn_bytes(path: &Path) -> Result<Option<Torn>, LogError> {
    let file = log::open_to_read(path)?;
    Ok(match log::end(&file, path)? {
        End::Line => None,
        End::Whole(bytes) => Some(Torn { bytes, whole: true }),
        End::Torn(bytes) => Some(Torn { bytes, whole: false }),
    })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
