//! The request: the conversation as Chat Completions wants it.
//!
//! Each message is converted once and its bytes kept, so that a round late in a long session costs
//! no more than copying them.

use super::chunk::REASONING_FIELDS;
use crate::agent::message::{Carry, ContentBlock, Message, Role};
use crate::provider::call::{wire_id, wire_name};
use crate::provider::progress::Progress;
use crate::provider::{ProviderSettings, Request, Thinking};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;

/// The request body, as far as it never changes.
pub(in crate::provider) struct Body {
    /// `{"messages":[` and the converted messages, comma after each but the last.
    bytes: Vec<u8>,
    progress: Progress,
    /// `"model":…` and the rest, without braces.
    tail: String,
    /// Longest id of a call, where the server has a limit.
    id_chars_max: Option<usize>,
}

const HEAD: &[u8] = br#"{"messages":["#;

impl Body {
    pub(in crate::provider) fn new(settings: &ProviderSettings) -> Self {
        Self {
            bytes: HEAD.to_vec(),
            progress: Progress::default(),
            tail: tail(settings),
            id_chars_max: id_chars_max(&settings.base_url),
        }
    }

    /// The whole body of one request.
    pub(in crate::provider) fn render(&mut self, request: &Request<'_>) -> Vec<u8> {
        let (anew, messages) = self.progress.advance(request);
        if anew {
            self.bytes.truncate(HEAD.len());
        }
        for message in messages {
            append(&mut self.bytes, message, self.id_chars_max);
        }
        let mut body = Vec::with_capacity(self.bytes.len() + self.tail.len() + 8 * 1024);
        body.extend_from_slice(&self.bytes);
        if let Some(remark) = request.remark() {
            // Many chat templates refuse a system message that is not the first.
            push(&mut body, &json!({"role": "user", "content": remark}));
        }
        body.push(b']');
        let mut rest = String::new();
        tools(&mut rest, request);
        rest.push(',');
        rest.push_str(&self.tail);
        rest.push('}');
        body.extend_from_slice(rest.as_bytes());
        body
    }
}

/// The fields that are the same in each request. The user's `extra_body` wins over ours.
fn tail(settings: &ProviderSettings) -> String {
    let mut fields = Map::new();
    fields.insert("model".into(), json!(settings.model));
    fields.insert("stream".into(), json!(settings.streaming));
    if settings.streaming && settings.stream_usage {
        fields.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if let Some(effort) = effort(settings.thinking) {
        fields.insert("reasoning_effort".into(), json!(effort));
    }
    settings.members(fields, &["messages", "tools", "tool_choice"])
}

fn effort(thinking: Thinking) -> Option<&'static str> {
    match thinking {
        Thinking::Off => None,
        Thinking::Xhigh => Some("high"),
        Thinking::Minimal | Thinking::Low | Thinking::Medium | Thinking::High | Thinking::Max => {
            Some(thinking.name())
        }
    }
}

/// The tools stay in the last request too: servers want them while the history holds calls, and
/// the prompt cache keeps its prefix.
fn tools(out: &mut String, request: &Request<'_>) {
    if request.tools.is_empty() {
        return;
    }
    out.push_str(r#","tools":["#);
    for (at, tool) in request.tools.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let description = Value::from(tool.description);
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            r#"{{"type":"function","function":{{"name":"{}","description":{description},"parameters":{}}}}}"#,
            tool.name, tool.parameters
        );
    }
    out.push(']');
    if !request.may_call {
        out.push_str(r#","tool_choice":"none""#);
    }
}

fn push(bytes: &mut Vec<u8>, message: &impl Serialize) {
    let length = bytes.len();
    if length > HEAD.len() {
        bytes.push(b',');
    }
    if serde_json::to_writer(&mut *bytes, message).is_err() {
        // Values of ours always serialise; should one not, the array stays well formed.
        bytes.truncate(length);
    }
}

#[derive(Serialize)]
struct Plain<'a> {
    role: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct ToolReply<'a> {
    role: &'a str,
    tool_call_id: &'a str,
    content: &'a str,
}

/// OpenAI itself refuses longer ids, which a session begun with another provider may hold. Elsewhere
/// an id can carry state of the server's own and goes back as it came.
fn id_chars_max(base_url: &str) -> Option<usize> {
    let url = reqwest::Url::parse(base_url).ok()?;
    (url.host_str() == Some("api.openai.com")).then_some(40)
}

fn call_id(id: &str, chars_max: Option<usize>) -> Cow<'_, str> {
    chars_max.map_or(Cow::Borrowed(id), |most| wire_id(id, most))
}

fn append(bytes: &mut Vec<u8>, message: &Message, id_chars_max: Option<usize>) {
    match message.role {
        Role::System => push(
            bytes,
            &Plain {
                role: "system",
                content: &message.visible_text(),
            },
        ),
        Role::User => user(bytes, message),
        Role::Assistant => assistant(bytes, message, id_chars_max),
        Role::Tool => {
            for block in &message.content {
                if let ContentBlock::ToolResult {
                    tool_use_id, content, ..
                } = block
                {
                    push(
                        bytes,
                        &ToolReply {
                            role: "tool",
                            tool_call_id: &call_id(tool_use_id, id_chars_max),
                            content,
                        },
                    );
                }
            }
        }
    }
}

fn user(bytes: &mut Vec<u8>, message: &Message) {
    let has_image = message
        .content
        .iter()
        .any(|b| matches!(b, ContentBlock::Image { .. }));
    if !has_image {
        return push(
            bytes,
            &Plain {
                role: "user",
                content: &message.visible_text(),
            },
        );
    }
    let parts: Vec<Value> = message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text { text } => (!text.is_empty()).then(|| json!({"type": "text", "text": text})),
            ContentBlock::Image {
                mime_type,
                data_base64,
                ..
            } => Some(json!({
                "type": "image_url",
                "image_url": {"url": format!("data:{mime_type};base64,{data_base64}")},
            })),
            ContentBlock::Thinking { .. }
            | ContentBlock::ToolUse { .. }
            | ContentBlock::ToolResult { .. }
            | ContentBlock::Other(_) => None,
        })
        .collect();
    push(bytes, &json!({"role": "user", "content": parts}));
}

fn assistant(bytes: &mut Vec<u8>, message: &Message, id_chars_max: Option<usize>) {
    let text = message.visible_text();
    let blocks = message.content.iter();
    let calls: Vec<Value> = blocks.filter_map(|block| call(block, id_chars_max)).collect();
    if calls.is_empty() {
        // Servers refuse an assistant message with neither text nor calls.
        if !text.is_empty() {
            push(
                bytes,
                &Plain {
                    role: "assistant",
                    content: &text,
                },
            );
        }
        return;
    }
    let mut fields = Map::new();
    fields.insert("role".into(), json!("assistant"));
    fields.insert(
        "content".into(),
        if text.is_empty() { Value::Null } else { json!(text) },
    );
    reasoning(message, &mut fields);
    fields.insert("tool_calls".into(), Value::Array(calls));
    push(bytes, &Value::Object(fields));
}

fn call(block: &ContentBlock, id_chars_max: Option<usize>) -> Option<Value> {
    let ContentBlock::ToolUse {
        id,
        name,
        input,
        extra_content,
        ..
    } = block
    else {
        return None;
    };
    let mut call = json!({
        "id": call_id(id, id_chars_max),
        "type": "function",
        "function": {"name": wire_name(name), "arguments": input.to_string()},
    });
    if let Some(extra) = extra_content
        .as_ref()
        .filter(|extra| extra.get("responses").is_none())
    {
        call["extra_content"] = extra.clone();
    }
    Some(call)
}

/// Reasoning goes back only in the field that it came in, beside tool calls: DeepSeek wants it
/// there, and a server that never sent such a field might refuse it.
fn reasoning(message: &Message, fields: &mut Map<String, Value>) {
    for block in &message.content {
        let ContentBlock::Thinking {
            text,
            carry: Some(Carry::ChatCompletions { field, details }),
        } = block
        else {
            continue;
        };
        if let Some(field) = field.as_deref().filter(|field| REASONING_FIELDS.contains(field)) {
            fields.insert(field.to_owned(), json!(text));
        }
        if !details.is_empty() {
            fields.insert("reasoning_details".into(), json!(details));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderKind;
    use crate::tools::catalog;

    fn settings() -> ProviderSettings {
        ProviderSettings::new("p", ProviderKind::OpenAiCompatible, "http://127.0.0.1:1/v1", "m")
    }

    fn request(messages: &[Message]) -> Request<'_> {
        Request {
            epoch: 0,
            messages,
            tools: &[],
            may_call: true,
            nudge: None,
            buffered: true,
        }
    }

    fn render(body: &mut Body, request: &Request<'_>) -> Value {
        serde_json::from_slice(&body.render(request)).unwrap()
    }

    fn with_call(name: &str) -> Message {
        Message {
            role: Role::Assistant,
            content: vec![
                ContentBlock::Thinking {
                    text: "hm".into(),
                    carry: Some(Carry::ChatCompletions {
                        field: Some("reasoning_content".into()),
                        details: vec![json!({"type": "reasoning.encrypted", "id": "a", "data": "d"})],
                    }),
                },
                ContentBlock::ToolUse {
                    id: "a".into(),
                    name: name.into(),
                    input: json!({"path": "x"}),
                    invalid: None,
                    extra_content: Some(json!({"google": {"thought_signature": "s"}})),
                },
            ],
            usage: None,
        }
    }

    #[test]
    fn a_growing_conversation_renders_as_if_built_at_once() {
        let messages = vec![
            Message::text(Role::System, "sys"),
            Message::text(Role::User, "go \u{1}\"ü"),
            with_call("read"),
            Message::tool_result("a", "ok".into(), false),
            Message::text(Role::Assistant, "done"),
        ];
        let mut growing = Body::new(&settings());
        for n in 1..=messages.len() {
            let now = growing.render(&request(&messages[..n]));
            let fresh = Body::new(&settings()).render(&request(&messages[..n]));
            assert_eq!(now, fresh);
        }
        let body = render(&mut growing, &request(&messages));
        assert_eq!(body["messages"].as_array().unwrap().len(), 5);
        assert_eq!(body["messages"][2]["content"], Value::Null);
        assert_eq!(body["messages"][2]["reasoning_content"], "hm");
        assert_eq!(body["messages"][2]["reasoning_details"][0]["data"], "d");
        assert_eq!(
            body["messages"][2]["tool_calls"][0]["function"]["arguments"],
            r#"{"path":"x"}"#
        );
        assert_eq!(
            body["messages"][2]["tool_calls"][0]["extra_content"]["google"]["thought_signature"],
            "s"
        );
        assert_eq!(
            body["messages"][3],
            json!({"role": "tool", "tool_call_id": "a", "content": "ok"})
        );
        assert_eq!(body["stream_options"]["include_usage"], true);
    }

    #[test]
    fn a_new_epoch_starts_over() {
        let mut body = Body::new(&settings());
        render(&mut body, &request(&[Message::text(Role::User, "old")]));
        let messages = [Message::text(Role::User, "new")];
        let value = render(
            &mut body,
            &Request {
                epoch: 1,
                ..request(&messages)
            },
        );
        assert_eq!(value["messages"][0]["content"], "new");
    }

    #[test]
    fn a_nudge_is_in_one_request_only() {
        let mut body = Body::new(&settings());
        let messages = [Message::text(Role::User, "go")];
        let nudged = render(
            &mut body,
            &Request {
                nudge: Some("enough"),
                ..request(&messages)
            },
        );
        assert_eq!(
            nudged["messages"][1]["content"],
            "Remark by Ferrum, not by the user: enough"
        );
        assert_eq!(
            render(&mut body, &request(&messages))["messages"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn ids_are_shortened_only_where_there_is_a_limit() {
        let mut settings = settings();
        let mut long = with_call("read");
        let id = format!("call|{}", "x".repeat(60));
        if let ContentBlock::ToolUse { id: place, .. } = &mut long.content[1] {
            place.clone_from(&id);
        }
        let messages = [long, Message::tool_result(&id, "ok".into(), false)];
        let body = render(&mut Body::new(&settings), &request(&messages));
        assert_eq!(body["messages"][1]["tool_call_id"], id);
        settings.base_url = "https://api.openai.com/v1".into();
        let body = render(&mut Body::new(&settings), &request(&messages));
        let short = body["messages"][1]["tool_call_id"].as_str().unwrap();
        assert!(short.len() <= 40);
        assert_eq!(body["messages"][0]["tool_calls"][0]["id"], short);
    }

    #[test]
    fn an_empty_answer_is_not_sent_back() {
        let empty = Message {
            role: Role::Assistant,
            content: vec![],
            usage: None,
        };
        let messages = [
            Message::text(Role::User, "a"),
            empty,
            Message::text(Role::User, "b"),
        ];
        let body = render(&mut Body::new(&settings()), &request(&messages));
        assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn extra_body_wins_but_not_over_the_conversation() {
        let mut settings = settings();
        settings.thinking = Thinking::Xhigh;
        settings.extra_body = serde_json::from_str(r#"{"model":"other","messages":[],"top_k":5}"#).unwrap();
        let messages = [Message::text(Role::User, "go")];
        let body = render(&mut Body::new(&settings), &request(&messages));
        assert_eq!((&body["model"], &body["top_k"]), (&json!("other"), &json!(5)));
        assert_eq!(body["reasoning_effort"], "high");
        assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn tools_stay_in_the_last_request_but_may_not_be_called() {
        let tools: Vec<&catalog::Tool> = catalog::ALL.iter().collect();
        let messages = [Message::text(Role::User, "go")];
        let last = Request {
            tools: &tools,
            may_call: false,
            ..request(&messages)
        };
        let body = render(&mut Body::new(&settings()), &last);
        assert_eq!(body["tools"].as_array().unwrap().len(), 10);
        assert_eq!(body["tool_choice"], "none");
    }
}
