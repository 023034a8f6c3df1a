//! The request: the conversation as Messages wants it.
//!
//! Each message is converted once and its bytes kept. Neighbouring messages of one side become one
//! message: all results of one answer must stand in the same message, at its head.

use crate::agent::message::{Carry, ContentBlock, Message, Role};
use crate::provider::call::{Ids, said, wire_name};
use crate::provider::progress::Progress;
use crate::provider::{ProviderSettings, Request, Thinking};
use serde_json::{Map, Value, json};

/// Tokens of an answer beside what it may think; the format wants a number.
const ANSWER_TOKENS: u64 = 16_000;
/// Longest id of a call.
const ID_CHARS_MAX: usize = 64;

const HEAD: &[u8] = br#"{"messages":["#;
/// Up to the end of the block that carries this, the provider may keep what it has read.
const CACHE: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// The request body, as far as it never changes.
pub(in crate::provider) struct Body {
    /// The head and the converted messages. The last message is still open: `]}` is missing.
    bytes: Vec<u8>,
    /// The role of the message that is open.
    open: Option<&'static str>,
    /// Where the last blocks of the last two messages of the user's end, before their brace. A
    /// mark at each lets the provider find what it kept at the last request, however many blocks
    /// this one adds.
    ends: [usize; 2],
    /// The system prompt's blocks.
    system: Vec<String>,
    progress: Progress,
    turn: Turn,
    /// `"model":…` and the rest, without braces: with thinking as it is set, and without.
    tails: [String; 2],
    model: String,
    ids: Ids,
}

/// The model's last turn: see [`Body::tail`].
#[derive(Default)]
struct Turn {
    /// The user has said something since.
    is_over: bool,
    begins_with_thinking: bool,
    /// Its last answer calls a tool.
    ends_with_call: bool,
}

impl Turn {
    fn answer_begins_with(&mut self, block: &Value) {
        if self.is_over {
            let thinks = matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"));
            self.begins_with_thinking = thinks;
        }
        self.is_over = false;
        self.ends_with_call = false;
    }

    fn takes(&mut self, role: &str, block: &Value) {
        self.is_over |= role == "user" && block["type"] != "tool_result";
        self.ends_with_call |= block["type"] == "tool_use";
    }
}

impl Body {
    pub(in crate::provider) fn new(settings: &ProviderSettings) -> Self {
        Self {
            bytes: HEAD.to_vec(),
            open: None,
            ends: [0; 2],
            system: Vec::new(),
            progress: Progress::default(),
            turn: Turn::default(),
            tails: [settings.thinking, Thinking::Off].map(|thinking| tail(settings, thinking)),
            model: settings.model.clone(),
            ids: Ids::new(ID_CHARS_MAX),
        }
    }

    /// The whole body of one request.
    pub(in crate::provider) fn render(&mut self, request: &Request<'_>) -> Vec<u8> {
        let (anew, messages) = self.progress.advance(request);
        if anew {
            self.bytes.truncate(HEAD.len());
            self.open = None;
            self.ends = [0; 2];
            self.system.clear();
            self.turn = Turn::default();
            self.ids.clear();
        }
        for message in messages {
            self.append(message);
        }
        let mut body = self.marked();
        let mut rest = String::new();
        self.close(request.remark(), &mut rest);
        rest.push(']');
        self.system(&mut rest);
        tools(&mut rest, request);
        rest.push(',');
        rest.push_str(self.tail());
        rest.push('}');
        body.extend_from_slice(rest.as_bytes());
        body
    }

    /// A model that is to think must have begun the turn, to whose calls it gets results, with a
    /// thought of its own. After a turn of another model, or of a time without thinking, the request
    /// does without.
    fn tail(&self) -> &str {
        let [as_set, without] = &self.tails;
        if self.turn.ends_with_call && !self.turn.begins_with_thinking {
            without
        } else {
            as_set
        }
    }

    /// The messages with their cache marks.
    fn marked(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.bytes.len() + 16 * 1024);
        let mut from = 0;
        for end in self.ends.into_iter().filter(|end| *end > 0) {
            body.extend_from_slice(&self.bytes[from..end]);
            body.extend_from_slice(CACHE);
            from = end;
        }
        body.extend_from_slice(&self.bytes[from..]);
        body
    }

    /// Closes the messages, with a remark of the loop in the last one of the user's.
    fn close(&self, remark: Option<String>, out: &mut String) {
        let remark = remark.map(|remark| text(&remark));
        match (self.open, remark) {
            (Some("user"), Some(remark)) => out.push_str(&format!(",{remark}]}}")),
            (Some(_), None) => out.push_str("]}"),
            (open, Some(remark)) => {
                out.push_str(if open.is_some() { "]}," } else { "" });
                out.push_str(&format!(r#"{{"role":"user","content":[{remark}]}}"#));
            }
            (None, None) => {}
        }
    }

    fn system(&self, out: &mut String) {
        let Some((last, before)) = self.system.split_last() else {
            return;
        };
        out.push_str(r#","system":["#);
        for block in before {
            out.push_str(block);
            out.push(',');
        }
        out.push_str(&last[..last.len() - 1]);
        out.push_str(&String::from_utf8_lossy(CACHE));
        out.push_str("}]");
    }

    fn append(&mut self, message: &Message) {
        match message.role {
            Role::System => {
                let words = message.visible_text();
                if !words.trim().is_empty() {
                    self.system.push(text(&words).to_string());
                }
            }
            Role::User | Role::Tool => {
                for block in &message.content {
                    if let Some(block) = user_block(block, &self.ids) {
                        self.block("user", &block);
                        self.ends[1] = self.bytes.len() - 1;
                    }
                }
            }
            Role::Assistant => {
                for block in said(&message.content) {
                    if let Some(block) = assistant_block(block, &self.model, &mut self.ids) {
                        self.block("assistant", &block);
                    }
                }
            }
        }
    }

    fn block(&mut self, role: &'static str, block: &Value) {
        if self.open == Some(role) {
            self.bytes.push(b',');
        } else {
            if self.open.is_some() {
                self.bytes.extend_from_slice(b"]},");
            }
            if role == "user" {
                self.ends[0] = self.ends[1];
            }
            self.bytes
                .extend_from_slice(format!(r#"{{"role":"{role}","content":["#).as_bytes());
            self.open = Some(role);
            if role == "assistant" {
                self.turn.answer_begins_with(block);
            }
        }
        self.turn.takes(role, block);
        self.bytes.extend_from_slice(block.to_string().as_bytes());
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The format refuses a text without a visible character.
fn worded(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}

fn user_block(block: &ContentBlock, ids: &Ids) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => worded(text),
        ContentBlock::ToolResult {
            tool_use_id,
            content,
            is_error,
        } => Some(json!({
            "type": "tool_result",
            "tool_use_id": ids.result(tool_use_id),
            "content": content,
            "is_error": is_error,
        })),
        ContentBlock::Image {
            mime_type,
            data_base64,
            ..
        } => Some(json!({
            "type": "image",
            "source": {"type": "base64", "media_type": mime_type, "data": data_base64},
        })),
        ContentBlock::Thinking { .. } | ContentBlock::ToolUse { .. } | ContentBlock::Other(_) => None,
    }
}

/// Thinking goes back as it came, to the model that it came from.
fn assistant_block(block: &ContentBlock, model: &str, ids: &mut Ids) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => worded(text),
        ContentBlock::ToolUse { id, name, input, .. } => Some(json!({
            "type": "tool_use",
            "id": ids.call(id),
            "name": wire_name(name),
            "input": input,
        })),
        ContentBlock::Thinking {
            carry: Some(Carry::Messages { model: from, block }),
            ..
        } => (from == model).then(|| block.clone()),
        ContentBlock::Thinking { .. }
        | ContentBlock::ToolResult { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::Other(_) => None,
    }
}

fn tools(out: &mut String, request: &Request<'_>) {
    if request.tools.is_empty() {
        return;
    }
    out.push_str(r#","tools":["#);
    for (at, tool) in request.tools.iter().enumerate() {
        let description = Value::from(tool.description);
        out.push_str(&format!(
            r#"{}{{"name":"{}","description":{description},"input_schema":{}}}"#,
            if at > 0 { "," } else { "" },
            tool.name,
            tool.parameters
        ));
    }
    out.push(']');
    if !request.may_call {
        out.push_str(r#","tool_choice":{"type":"none"}"#);
    }
}

/// The fields that are the same in each request. The user's `extra_body` wins over ours.
fn tail(settings: &ProviderSettings, thinking: Thinking) -> String {
    let budget = budget(thinking);
    let mut fields = Map::new();
    fields.insert("model".into(), json!(settings.model));
    fields.insert("max_tokens".into(), json!(ANSWER_TOKENS + budget));
    fields.insert("stream".into(), json!(settings.streaming));
    if budget > 0 {
        fields.insert(
            "thinking".into(),
            json!({"type": "enabled", "budget_tokens": budget}),
        );
    }
    settings.members(fields, &["messages", "system", "tools", "tool_choice"])
}

/// Tokens of thinking; 0 is none. The format's least is 1,024.
fn budget(thinking: Thinking) -> u64 {
    match thinking {
        Thinking::Off => 0,
        Thinking::Minimal => 1_024,
        Thinking::Low => 2_048,
        Thinking::Medium => 8_192,
        Thinking::High => 16_000,
        Thinking::Xhigh => 32_000,
        Thinking::Max => 48_000,
    }
}
