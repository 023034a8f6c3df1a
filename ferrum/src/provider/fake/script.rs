//! Scripts for tests: from a file, or by name.

use crate::agent::message::{ContentBlock, Message, Role};
use crate::provider::ProviderError;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;

/// A script file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// More rounds than any turn runs.
const ENDLESS: usize = 300;

/// The messages of the script `name`: one of the built-in names, or a path.
///
/// # Errors
/// [`ProviderError::Config`] when there is no such script.
pub(super) fn load(name: &str) -> Result<Vec<Message>, ProviderError> {
    match named(name) {
        Some(messages) => Ok(messages),
        None => from_file(name)
            .map_err(|what| ProviderError::Config(format!("FERRUM_FAKE_SCRIPT={name}: {what}"))),
    }
}

fn from_file(path: &str) -> Result<Vec<Message>, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|e| format!("neither a built-in script nor a readable file: {e}"))?;
    let items: Vec<Value> = serde_json::from_str(&text).map_err(|e| format!("not a JSON list: {e}"))?;
    items
        .into_iter()
        .enumerate()
        .map(|(at, item)| message(item).map_err(|e| format!("entry {at}: {e}")))
        .collect()
}

fn message(item: Value) -> Result<Message, String> {
    match item {
        Value::String(text) => Ok(Message::text(Role::Assistant, text)),
        other => serde_json::from_value(other).map_err(|e| e.to_string()),
    }
}

fn calls(calls: &[(&str, Value)]) -> Message {
    let block = |(at, (name, input)): (usize, &(&str, Value))| ContentBlock::ToolUse {
        id: format!("fake_{at}"),
        name: (*name).to_owned(),
        input: input.clone(),
        invalid: None,
        extra_content: None,
    };
    Message {
        role: Role::Assistant,
        content: calls.iter().enumerate().map(block).collect(),
        usage: None,
    }
}

fn named(name: &str) -> Option<Vec<Message>> {
    let end = || Message::text(Role::Assistant, "done");
    let path = "ferrum-fake.txt";
    Some(match name {
        "repeat_read" => vec![calls(&[("read", json!({"path": path}))]); ENDLESS],
        "missing_read" => vec![
            calls(&[("read", json!({"path": "ferrum-fake-missing.txt"}))]),
            end(),
        ],
        "mixed_write_read" => vec![
            calls(&[
                ("write", json!({"path": path, "content": "one\n"})),
                ("read", json!({"path": path})),
                ("ls", json!({"path": "."})),
            ]),
            end(),
        ],
        "edit_preview" => vec![
            calls(&[("write", json!({"path": path, "content": "one\ntwo\n"}))]),
            calls(&[(
                "edit",
                json!({"path": path, "edits": [{"old_text": "two", "new_text": "2"}]}),
            )]),
            end(),
        ],
        "history_search_read" => vec![
            calls(&[("history_search", json!({"query": "e"}))]),
            calls(&[("history_read", json!({"offset": 1}))]),
            end(),
        ],
        "wait_cancel" => vec![
            calls(&[("wait", json!({"seconds": 1800, "command": "true"}))]),
            end(),
        ],
        _ => return None,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files in place")]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_texts_and_messages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.json");
        let text = r#"["hi", {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"ls","input":{"path":"."}}]}]"#;
        std::fs::write(&path, text).unwrap();
        let messages = load(path.to_str().unwrap()).unwrap();
        assert_eq!(messages[0].visible_text(), "hi");
        assert_eq!(messages[1].tool_uses().count(), 1);
        std::fs::write(&path, "[7]").unwrap();
        assert!(
            load(path.to_str().unwrap())
                .unwrap_err()
                .to_string()
                .contains("entry 0")
        );
        assert!(
            load("no-such-script")
                .unwrap_err()
                .to_string()
                .contains("no-such-script")
        );
    }
}
