//! The request: the conversation as Responses wants it. Each message is converted once and its
//! bytes kept.

use crate::agent::message::{Carry, ContentBlock, Message, Role};
use crate::provider::call::{Ids, said, wire_name};
use crate::provider::progress::Progress;
use crate::provider::{ProviderSettings, Request, Thinking};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Longest id of a call.
const ID_CHARS_MAX: usize = 64;
const HEAD: &[u8] = br#"{"input":["#;

/// The request body, as far as it never changes.
pub(in crate::provider) struct Body {
    /// The head and the converted items, comma after each but the last.
    bytes: Vec<u8>,
    /// The system prompt.
    instructions: String,
    progress: Progress,
    /// `"model":…` and the rest, without braces.
    tail: String,
    model: String,
    ids: Ids,
    /// Ids of items that the backend gave and gets back: it refuses one that comes twice.
    items: BTreeSet<String>,
}

impl Body {
    pub(in crate::provider) fn new(settings: &ProviderSettings, conversation: &str) -> Self {
        Self {
            bytes: HEAD.to_vec(),
            instructions: String::new(),
            progress: Progress::default(),
            tail: tail(settings, conversation),
            model: settings.model.clone(),
            ids: Ids::new(ID_CHARS_MAX),
            items: BTreeSet::new(),
        }
    }

    /// The whole body of one request.
    pub(in crate::provider) fn render(&mut self, request: &Request<'_>) -> Vec<u8> {
        let (anew, messages) = self.progress.advance(request);
        if anew {
            self.bytes.truncate(HEAD.len());
            self.instructions.clear();
            self.ids.clear();
            self.items.clear();
        }
        for message in messages {
            self.append(message);
        }
        let mut body = Vec::with_capacity(self.bytes.len() + self.instructions.len() + 16 * 1024);
        body.extend_from_slice(&self.bytes);
        if let Some(remark) = request.remark() {
            push(
                &mut body,
                &user(vec![json!({"type": "input_text", "text": remark})]),
            );
        }
        let mut rest = format!(r#"],"instructions":{}"#, Value::from(self.instructions.as_str()));
        tools(&mut rest, request);
        rest.push(',');
        rest.push_str(&self.tail);
        rest.push('}');
        body.extend_from_slice(rest.as_bytes());
        body
    }

    fn append(&mut self, message: &Message) {
        match message.role {
            Role::System => {
                if !self.instructions.is_empty() {
                    self.instructions.push_str("\n\n");
                }
                self.instructions.push_str(&message.visible_text());
            }
            Role::User => {
                let parts: Vec<Value> = message.content.iter().filter_map(part).collect();
                if !parts.is_empty() {
                    push(&mut self.bytes, &user(parts));
                }
            }
            Role::Assistant | Role::Tool => {
                for block in said(&message.content) {
                    if let Some(item) = self.item(block) {
                        push(&mut self.bytes, &item);
                    }
                }
            }
        }
    }

    /// Reasoning goes back as it came, to the model that it came from. The backend pairs it with the
    /// item ids of calls, so those of another model are left out.
    fn item(&mut self, block: &ContentBlock) -> Option<Value> {
        match block {
            ContentBlock::Text { text } => (!text.is_empty()).then(|| {
                json!({
                    "type": "message", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                })
            }),
            ContentBlock::Thinking {
                carry: Some(Carry::Responses { model, item }),
                ..
            } => (*model == self.model && self.is_new(&item["id"])).then(|| item.clone()),
            ContentBlock::ToolUse {
                id,
                name,
                input,
                extra_content,
                ..
            } => {
                let mut call = json!({
                    "type": "function_call",
                    "call_id": self.ids.call(id),
                    "name": wire_name(name),
                    "arguments": input.to_string(),
                });
                let known = extra_content.as_ref().and_then(|extra| extra.get("responses"));
                if let Some(known) = known.filter(|known| known["model"] == self.model)
                    && known["id"].as_str().is_some_and(|id| id.starts_with("fc_"))
                    && self.is_new(&known["id"])
                {
                    call["id"] = known["id"].clone();
                }
                Some(call)
            }
            ContentBlock::ToolResult {
                tool_use_id, content, ..
            } => Some(json!({
                "type": "function_call_output",
                "call_id": self.ids.result(tool_use_id),
                "output": content,
            })),
            ContentBlock::Thinking { .. } | ContentBlock::Image { .. } | ContentBlock::Other(_) => None,
        }
    }

    /// An item without an id cannot come twice.
    fn is_new(&mut self, id: &Value) -> bool {
        id.as_str().is_none_or(|id| self.items.insert(id.to_owned()))
    }
}

fn push(bytes: &mut Vec<u8>, item: &Value) {
    if bytes.len() > HEAD.len() {
        bytes.push(b',');
    }
    bytes.extend_from_slice(item.to_string().as_bytes());
}

fn user(parts: Vec<Value>) -> Value {
    json!({"role": "user", "content": parts})
}

fn part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => {
            (!text.is_empty()).then(|| json!({"type": "input_text", "text": text}))
        }
        ContentBlock::Image {
            mime_type,
            data_base64,
            ..
        } => Some(json!({
            "type": "input_image",
            "detail": "auto",
            "image_url": format!("data:{mime_type};base64,{data_base64}"),
        })),
        ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse { .. }
        | ContentBlock::ToolResult { .. }
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
            r#"{}{{"type":"function","name":"{}","description":{description},"strict":null,"parameters":{}}}"#,
            if at > 0 { "," } else { "" },
            tool.name,
            tool.parameters
        ));
    }
    let choice = if request.may_call { "auto" } else { "none" };
    out.push_str(&format!(
        r#"],"tool_choice":"{choice}","parallel_tool_calls":true"#
    ));
}

/// The fields that are the same in each request. The user's `extra_body` wins over ours.
fn tail(settings: &ProviderSettings, conversation: &str) -> String {
    let mut fields = Map::new();
    fields.insert("model".into(), json!(settings.model));
    fields.insert("store".into(), json!(false));
    fields.insert("stream".into(), json!(true));
    fields.insert("include".into(), json!(["reasoning.encrypted_content"]));
    fields.insert("prompt_cache_key".into(), json!(conversation));
    if let Some(effort) = effort(settings.thinking) {
        fields.insert("reasoning".into(), json!({"effort": effort, "summary": "auto"}));
    }
    settings.members(
        fields,
        &["input", "instructions", "tools", "tool_choice", "stream"],
    )
}

/// `None` leaves it to the model.
fn effort(thinking: Thinking) -> Option<&'static str> {
    match thinking {
        Thinking::Off => None,
        // The models of this backend know nothing below it.
        Thinking::Minimal => Some("low"),
        Thinking::Low | Thinking::Medium | Thinking::High | Thinking::Xhigh | Thinking::Max => {
            Some(thinking.name())
        }
    }
}
