//! The normalised conversation: what sessions store and what every provider adapter converts.
//!
//! The serde shapes here are the session file format (docs/SESSIONS.md).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    Text {
        text: String,
    },
    /// Reasoning, and what its provider wants back with it.
    Thinking {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carry: Option<Carry>,
    },
    ToolUse {
        id: String,
        name: String,
        /// Always an object; empty when the model's text was not one.
        input: Value,
        /// Why the model's argument text was not usable. The text itself is not kept: it would
        /// poison later requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invalid: Option<String>,
        /// Opaque data of the provider that it wants back with the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra_content: Option<Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: String,
        #[serde(default)]
        is_error: bool,
    },
    Image {
        mime_type: String,
        data_base64: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// A block of a newer format, kept as it is and sent to no provider.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

/// What belongs to a piece of reasoning when it goes back to its provider. No other wire format
/// gets it; those of a login or a signature also no other model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "wire", rename_all = "snake_case")]
pub enum Carry {
    ChatCompletions {
        /// The field that the text came in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
        /// OpenRouter's `reasoning_details`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        details: Vec<Value>,
    },
    /// The whole block: `thinking` with its signature, or `redacted_thinking`.
    Messages { model: String, block: Value },
    /// The whole item, with what is encrypted in it.
    Responses { model: String, item: Value },
}

/// Where token counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageSource {
    Provider,
    Estimated,
    #[default]
    #[serde(other)]
    Unknown,
}

/// Tokens of one request. `input_tokens` includes cached ones, `output_tokens` reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub source: UsageSource,
}

impl Usage {
    /// Adds the tokens of another request.
    pub fn add(&mut self, one: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b)).or(a).or(b);
        self.input_tokens = sum(self.input_tokens, one.input_tokens);
        self.output_tokens = sum(self.output_tokens, one.output_tokens);
        self.total_tokens = sum(self.total_tokens, one.total_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(one.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(one.cache_write_tokens);
        self.source = one.source;
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: Vec<ContentBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// One tool call of a message.
#[derive(Debug, Clone, Copy)]
pub struct ToolUse<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub input: &'a Value,
    pub invalid: Option<&'a str>,
}

impl Message {
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: vec![ContentBlock::Text { text: text.into() }],
            usage: None,
        }
    }

    #[must_use]
    pub fn tool_result(id: &str, content: String, is_error: bool) -> Self {
        Self {
            role: Role::Tool,
            content: vec![ContentBlock::ToolResult {
                tool_use_id: id.to_owned(),
                content,
                is_error,
            }],
            usage: None,
        }
    }

    /// All text blocks, joined; reasoning and calls left out.
    #[must_use]
    pub fn visible_text(&self) -> String {
        let mut out = String::new();
        for block in &self.content {
            if let ContentBlock::Text { text } = block {
                out.push_str(text);
            }
        }
        out
    }

    /// The tool calls in the model's order.
    pub fn tool_uses(&self) -> impl Iterator<Item = ToolUse<'_>> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse {
                id,
                name,
                input,
                invalid,
                ..
            } => Some(ToolUse {
                id,
                name,
                input,
                invalid: invalid.as_deref(),
            }),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolResult { .. }
            | ContentBlock::Image { .. }
            | ContentBlock::Other(_) => None,
        })
    }

    fn result_ids(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolUse { .. }
            | ContentBlock::Image { .. }
            | ContentBlock::Other(_) => None,
        })
    }
}

/// Ids of the calls of the last assistant message that have no result yet, in order.
#[must_use]
pub fn open_calls(messages: &[Message]) -> Vec<String> {
    let Some(at) = messages.iter().rposition(|m| m.role != Role::Tool) else {
        return Vec::new();
    };
    let answered: BTreeSet<&str> = messages[at + 1..].iter().flat_map(Message::result_ids).collect();
    messages[at]
        .tool_uses()
        .filter(|call| !answered.contains(call.id))
        .map(|call| call.id.to_owned())
        .collect()
}

/// Makes every call have exactly one result right after it, and every result a call: missing
/// results are made up as errors, stray ones dropped. Without this a crash in mid-call would
/// make every later request invalid.
#[must_use]
pub fn close_pairs(messages: Vec<Message>, note: &str) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::with_capacity(messages.len());
    let mut open: Vec<String> = Vec::new();
    for mut message in messages {
        if message.role == Role::Tool {
            message.content.retain(|block| match block {
                ContentBlock::ToolResult { tool_use_id, .. } => {
                    match open.iter().position(|id| id == tool_use_id) {
                        Some(at) => {
                            open.remove(at);
                            true
                        }
                        None => false,
                    }
                }
                _ => true,
            });
            if message.result_ids().next().is_some() {
                out.push(message);
            }
            continue;
        }
        out.extend(
            open.drain(..)
                .map(|id| Message::tool_result(&id, note.to_owned(), true)),
        );
        open.extend(message.tool_uses().map(|call| call.id.to_owned()));
        out.push(message);
    }
    out.extend(
        open.drain(..)
            .map(|id| Message::tool_result(&id, note.to_owned(), true)),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(id: &str) -> ContentBlock {
        ContentBlock::ToolUse {
            id: id.into(),
            name: "read".into(),
            input: serde_json::json!({"path": "x"}),
            invalid: None,
            extra_content: None,
        }
    }

    fn assistant(ids: &[&str]) -> Message {
        Message {
            role: Role::Assistant,
            content: ids.iter().map(|id| call(id)).collect(),
            usage: None,
        }
    }

    #[test]
    fn blocks_have_the_documented_shapes() {
        let text = serde_json::to_string(&assistant(&["a"])).unwrap();
        assert_eq!(
            text,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"read","input":{"path":"x"}}]}"#
        );
        let text = serde_json::to_string(&Message::tool_result("a", "ok".into(), false)).unwrap();
        assert_eq!(
            text,
            r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"a","content":"ok","is_error":false}]}"#
        );
    }

    #[test]
    fn a_block_of_a_newer_format_survives() {
        let text = r#"{"role":"user","content":[{"depth":3,"type":"hologram"}]}"#;
        let message: Message = serde_json::from_str(text).unwrap();
        assert!(matches!(message.content[0], ContentBlock::Other(_)));
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
    }

    #[test]
    fn a_call_without_a_result_gets_an_error_result() {
        let fixed = close_pairs(
            vec![Message::text(Role::User, "go"), assistant(&["a", "b"])],
            "interrupted",
        );
        assert_eq!(fixed.len(), 4);
        assert!(open_calls(&fixed).is_empty());
    }

    #[test]
    fn a_result_without_a_call_is_dropped() {
        let stray = Message::tool_result("z", "old".into(), false);
        let fixed = close_pairs(vec![stray.clone(), Message::text(Role::User, "go"), stray], "n");
        assert_eq!(fixed, vec![Message::text(Role::User, "go")]);
    }

    proptest! {
        /// Whatever a crash, a cut or a damaged line left of a session: what is sent is a sequence
        /// that every provider accepts.
        #[test]
        fn any_history_closes_its_pairs(kinds in proptest::collection::vec((0u8..4, 0usize..4), 0..30)) {
            const IDS: [&str; 4] = ["a", "b", "c", "d"];
            let messages = kinds.into_iter().map(|(kind, n)| match kind {
                0 => Message::text(Role::User, "u"),
                1 => Message::text(Role::Assistant, "a"),
                2 => assistant(&IDS[..n]),
                _ => Message::tool_result(IDS[n], "r".into(), false),
            });
            let fixed = close_pairs(messages.collect(), "lost");
            let mut open: Vec<String> = Vec::new();
            for message in &fixed {
                if message.role == Role::Tool {
                    for id in message.result_ids() {
                        let at = open.iter().position(|o| o == id);
                        prop_assert!(at.is_some(), "a result without a call");
                        open.remove(at.unwrap());
                    }
                } else {
                    prop_assert!(open.is_empty(), "a call without a result");
                    open.extend(message.tool_uses().map(|call| call.id.to_owned()));
                }
            }
            prop_assert!(open.is_empty());
            prop_assert_eq!(close_pairs(fixed.clone(), "lost"), fixed);
        }
    }

    #[test]
    fn a_repeated_id_in_a_later_round_is_paired_with_the_nearest_call() {
        let ok = || Message::tool_result("a", "ok".into(), false);
        let good = vec![assistant(&["a"]), ok(), assistant(&["a"]), ok()];
        assert_eq!(close_pairs(good.clone(), "n"), good);
    }
}
