//! What requests took, for the operator's own accounts: one line of `usage.jsonl` each, in the data
//! directory, over all sessions. Nothing depends on it.

use crate::agent::event::{Event, Sink};
use crate::agent::message::Usage;
use serde_json::{Map, Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file, and whose requests are written down.
#[derive(Debug, Clone)]
pub struct Ledger {
    file: PathBuf,
    provider: String,
    model: String,
}

/// A sink that writes down what it hears of usage, and hands everything on.
pub struct Counted<'a, S> {
    pub inner: &'a mut S,
    pub ledger: &'a Ledger,
}

impl Ledger {
    #[must_use]
    pub fn new(data: &Path, provider: &str, model: &str) -> Self {
        Self {
            file: data.join("usage.jsonl"),
            provider: provider.to_owned(),
            model: model.to_owned(),
        }
    }

    /// # Errors
    /// When the line cannot be added.
    pub fn add(&self, usage: &Usage) -> std::io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut record = Map::new();
        record.insert("timestamp_unix".into(), json!(now.as_secs()));
        record.insert("provider".into(), json!(self.provider));
        record.insert("model".into(), json!(self.model));
        if let Ok(Value::Object(counts)) = serde_json::to_value(usage) {
            record.extend(counts);
        }
        let line = format!("{}\n", Value::Object(record));
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.file)?;
        // One write: lines of several processes do not mix.
        (&file).write_all(line.as_bytes())
    }
}

impl<S: Sink> Sink for Counted<'_, S> {
    fn streams(&self) -> bool {
        self.inner.streams()
    }

    fn record(&mut self, event: Event<'_>) {
        if let Event::Usage(usage) = event
            && let Err(error) = self.ledger.add(usage)
        {
            let text = format!("{} takes no more lines: {error}", self.ledger.file.display());
            self.inner.record(Event::Notice(&text));
        }
        self.inner.record(event);
    }

    async fn room(&mut self) {
        self.inner.room().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::message::UsageSource;

    #[test]
    fn a_request_is_one_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::new(dir.path(), "p", "m");
        let usage = Usage {
            input_tokens: Some(10),
            cache_read_tokens: 4,
            source: UsageSource::Provider,
            ..Usage::default()
        };
        ledger.add(&usage).expect("written");
        ledger.add(&Usage::default()).expect("written");
        let text = std::fs::read_to_string(dir.path().join("usage.jsonl")).expect("text");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(
            (&lines[0]["provider"], &lines[0]["model"]),
            (&json!("p"), &json!("m"))
        );
        assert_eq!(
            (&lines[0]["input_tokens"], &lines[0]["cache_read_tokens"]),
            (&json!(10), &json!(4))
        );
        assert_eq!(
            (&lines[0]["source"], &lines[1]["source"]),
            (&json!("provider"), &json!("unknown"))
        );
        assert!(lines[0]["timestamp_unix"].as_u64() > Some(1_700_000_000));
        assert!(lines[1].get("input_tokens").is_none());
        let gone = Ledger::new(&dir.path().join("absent"), "p", "m");
        assert!(gone.add(&usage).is_err());
    }
}
