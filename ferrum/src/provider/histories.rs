//! A law: whatever happened in a session, and wherever it broke off, its conversation is one that
//! each wire format accepts.

use super::{ProviderKind, ProviderSettings, Request, Thinking, chat_completions, messages, responses};
use crate::agent::message::{Carry, ContentBlock, Message, Role, close_pairs};
use crate::tools::catalog::{self, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-z\u{1}\"☃ ]{1,8}"]
}

fn call() -> impl Strategy<Value = ContentBlock> {
    let id = prop_oneof![
        Just("call_0".to_owned()),
        "[a-z]{1,6}",
        "[a-z|+/=]{80,90}",
        Just("é".to_owned())
    ];
    (
        id,
        prop_oneof!["[a-z]{1,5}", Just(String::new()), "[a-z. /é]{60,70}"],
        any::<bool>(),
        item(),
    )
        .prop_map(|(id, name, invalid, item)| ContentBlock::ToolUse {
            id,
            name,
            input: json!({"path": "x"}),
            invalid: invalid.then(|| "no JSON".to_owned()),
            extra_content: item,
        })
}

/// What a provider may have left beside a call.
fn item() -> impl Strategy<Value = Option<Value>> {
    let of = |id: &str, model: &str| Some(json!({"responses": {"id": id, "model": model}}));
    let google = Some(json!({"google": {"thought_signature": "s"}}));
    let kinds = vec![
        None,
        google,
        of("fc_1", "m"),
        of("fc_2", "m"),
        of("call_1", "m"),
        of("fc_1", "other"),
    ];
    proptest::sample::select(kinds)
}

fn picture() -> ContentBlock {
    ContentBlock::Image {
        mime_type: "image/png".into(),
        data_base64: "AAAA".into(),
        sha256: None,
        source: None,
    }
}

fn thinking() -> impl Strategy<Value = ContentBlock> {
    let block = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let sealed = json!({"type": "redacted_thinking", "data": "s"});
    let item = |id| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "e"});
    let messages = |model: &str, block| Carry::Messages {
        model: model.into(),
        block,
    };
    let responses = |model: &str, id| Carry::Responses {
        model: model.into(),
        item: item(id),
    };
    let chat = Carry::ChatCompletions {
        field: Some("reasoning_content".into()),
        details: Vec::new(),
    };
    let carries = vec![
        None,
        Some(chat),
        Some(messages("m", block.clone())),
        Some(messages("m", sealed)),
        Some(messages("other", block)),
        Some(responses("m", "rs_1")),
        Some(responses("m", "rs_2")),
        Some(responses("other", "rs_1")),
    ];
    proptest::sample::select(carries).prop_map(|carry| ContentBlock::Thinking {
        text: "hm".into(),
        carry,
    })
}

/// One answer, and the results of the calls that came to their end.
fn round() -> impl Strategy<Value = Vec<Message>> {
    (
        proptest::collection::vec(thinking(), 0..3),
        words(),
        proptest::collection::vec(call(), 0..4),
        0usize..5,
        words(),
    )
        .prop_map(|(thinking, text, calls, finished, after)| {
            let mut used = BTreeSet::new();
            // Within an answer ids differ: see `call.rs`.
            let calls: Vec<ContentBlock> = calls
                .into_iter()
                .filter(|block| matches!(block, ContentBlock::ToolUse { id, .. } if used.insert(id.clone())))
                .collect();
            let mut content: Vec<ContentBlock> = thinking.into_iter().collect();
            content.push(ContentBlock::Text { text });
            content.extend(calls);
            content.push(ContentBlock::Text { text: after });
            let answer = Message {
                role: Role::Assistant,
                content,
                usage: None,
            };
            let ids: Vec<String> = answer.tool_uses().map(|call| call.id.to_owned()).collect();
            let results = ids.iter().take(finished);
            let results = results.map(|id| Message::tool_result(id, "ok".into(), false));
            let results: Vec<Message> = results.collect();
            [vec![answer], results].concat()
        })
}

/// Words, a picture, or both; the front sends nothing that holds neither.
fn user() -> impl Strategy<Value = Message> {
    (words(), any::<bool>()).prop_map(|(text, shows)| {
        let text = if shows { text } else { format!("go {text}") };
        let mut message = Message::text(Role::User, text);
        message.content.extend(shows.then(picture));
        message
    })
}

/// Turns, each begun by the user, cut anywhere and taken up again.
fn history() -> impl Strategy<Value = Vec<Message>> {
    let turn = (user(), proptest::collection::vec(round(), 0..4))
        .prop_map(|(user, rounds)| [vec![user], rounds.concat()].concat());
    (
        proptest::collection::vec(turn, 1..4),
        any::<proptest::sample::Index>(),
    )
        .prop_map(|(turns, cut)| {
            let all = turns.concat();
            let kept = all[..=cut.index(all.len())].to_vec();
            let mut messages = vec![Message::text(Role::System, "be good")];
            messages.extend(close_pairs(kept, "lost"));
            messages.push(Message::text(Role::User, "and now"));
            messages
        })
}

/// The forms that a request for the same conversation can take.
fn requests<'a>(messages: &'a [Message], tools: &'a [&'static Tool]) -> [Request<'a>; 3] {
    let plain = Request {
        epoch: 0,
        messages,
        tools,
        may_call: true,
        nudge: None,
        buffered: true,
    };
    [
        plain,
        Request {
            may_call: false,
            nudge: Some("enough"),
            ..plain
        },
        Request { tools: &[], ..plain },
    ]
}

fn settings(kind: ProviderKind) -> ProviderSettings {
    ProviderSettings {
        thinking: Thinking::High,
        ..ProviderSettings::new("p", kind, "https://api.openai.com/v1", "m")
    }
}

fn is_name(name: &Value) -> bool {
    let name = name.as_str().unwrap_or_default();
    !name.is_empty()
        && name.len() <= 64
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn words_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Every key of an object is one of these; servers with strict schemas refuse others.
fn has_only(object: &Value, keys: &[&str]) -> bool {
    object
        .as_object()
        .unwrap()
        .keys()
        .all(|key| keys.contains(&key.as_str()))
}

fn chat_is_valid(body: &Value) {
    let mut open: Vec<&Value> = Vec::new();
    let messages = list(body, "messages");
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            assert!(
                has_only(message, &["role", "tool_call_id", "content"]) && message["content"].is_string()
            );
            assert_eq!(open.first(), Some(&&message["tool_call_id"]), "{body}");
            open.remove(0);
            continue;
        }
        assert!(open.is_empty(), "a call without a result: {body}");
        match words_of(&message["role"]) {
            "system" => assert_eq!(at, 0, "{body}"),
            "user" => chat_user_is_valid(message),
            "assistant" => open = chat_calls(message),
            other => panic!("role {other}: {body}"),
        }
    }
    assert!(open.is_empty());
    assert_eq!(messages[1]["role"], "user", "{body}");
    assert_ne!(messages.last().unwrap()["role"], "assistant", "{body}");
    assert!(body["tools"].is_null() || !list(body, "tools").is_empty());
    assert!(body["tool_choice"].is_null() || body["tools"].is_array());
}

fn chat_user_is_valid(message: &Value) {
    let is_part = |part: &Value| match words_of(&part["type"]) {
        "text" => !words_of(&part["text"]).is_empty(),
        "image_url" => words_of(&part["image_url"]["url"]).starts_with("data:image/png;base64,"),
        _ => false,
    };
    let parts = list(message, "content");
    let is_text = !words_of(&message["content"]).is_empty();
    assert!(
        is_text || (!parts.is_empty() && parts.iter().all(is_part)),
        "{message}"
    );
}

/// The ids of the calls of an answer.
fn chat_calls(message: &Value) -> Vec<&Value> {
    let calls = list(message, "tool_calls");
    assert!(!calls.is_empty() || !words_of(&message["content"]).is_empty());
    assert!(message["content"].is_string() || message["content"].is_null());
    assert!(message["tool_calls"].is_null() || !calls.is_empty(), "{message}");
    let mut ids: Vec<&Value> = Vec::new();
    for call in calls {
        let arguments = words_of(&call["function"]["arguments"]);
        assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
        assert!(is_name(&call["function"]["name"]) && words_of(&call["id"]).len() <= 40);
        assert!(
            call["type"] == "function" && !ids.contains(&&call["id"]),
            "{message}"
        );
        ids.push(&call["id"]);
    }
    ids
}

fn messages_is_valid(body: &Value) {
    let messages = list(body, "messages");
    let mut used = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], role, "{body}");
        let content = list(message, "content");
        assert!(!content.is_empty(), "{body}");
        content.iter().for_each(|block| block_is_valid(block, role));
        let of = |kind: &str, key: &str| -> Vec<&Value> {
            content
                .iter()
                .filter(|block| block["type"] == kind)
                .map(|block| &block[key])
                .collect()
        };
        for id in of("tool_use", "id") {
            assert!(used.insert(words_of(id).to_owned()), "{body}");
        }
        assert!(!thinks(content.last().unwrap()), "{body}");
        // The results of an answer stand at the head of the next message, all of them.
        let asked = of("tool_use", "id");
        let next = messages.get(at + 1).map_or(&[][..], |next| list(next, "content"));
        let got: Vec<&Value> = next
            .iter()
            .take(asked.len())
            .map(|block| &block["tool_use_id"])
            .collect();
        assert_eq!(asked, got, "{body}");
        let results = next.iter().filter(|block| block["type"] == "tool_result").count();
        assert!(at % 2 == 0 || results == asked.len(), "{body}");
    }
    assert_eq!(messages.len() % 2, 1);
    thinking_is_valid(body, messages);
    // The format takes four marks, and none on a thought.
    assert!(body.to_string().matches("cache_control").count() <= 4, "{body}");
}

fn thinks(block: &Value) -> bool {
    matches!(words_of(&block["type"]), "thinking" | "redacted_thinking")
}

fn block_is_valid(block: &Value, role: &str) {
    let good = match (words_of(&block["type"]), role) {
        ("text", _) => !words_of(&block["text"]).trim().is_empty(),
        ("image", "user") => {
            has_only(&block["source"], &["type", "media_type", "data"])
                && block["source"]["media_type"] == "image/png"
        }
        ("tool_result", "user") => block["content"].is_string() && block["is_error"].is_boolean(),
        ("tool_use", "assistant") => {
            is_name(&block["id"]) && is_name(&block["name"]) && block["input"].is_object()
        }
        ("thinking", "assistant") => block["signature"].is_string() && block["cache_control"].is_null(),
        ("redacted_thinking", "assistant") => block["data"].is_string() && block["cache_control"].is_null(),
        _ => false,
    };
    assert!(good, "{block}");
}

/// A turn that waits for results goes on with thinking only if it began with it. Turns begin where
/// the user says more than results.
fn thinking_is_valid(body: &Value, messages: &[Value]) {
    let Some(budget) = body["thinking"]["budget_tokens"].as_u64() else {
        return;
    };
    assert!(budget >= 1_024 && budget < body["max_tokens"].as_u64().unwrap());
    let answers = || messages.iter().enumerate().filter(|(at, _)| at % 2 == 1);
    let waits = |message: &Value| {
        let content = list(message, "content");
        content.iter().any(|block| block["type"] == "tool_use")
    };
    if !answers().next_back().is_some_and(|(_, message)| waits(message)) {
        return;
    }
    let says = |at: usize| {
        let content = list(&messages[at - 1], "content");
        content.iter().any(|block| block["type"] != "tool_result")
    };
    let first = answers().rfind(|(at, _)| says(*at));
    let (_, first) = first.expect("the first message is the user's");
    assert!(thinks(&list(first, "content")[0]), "{body}");
}

fn responses_is_valid(body: &Value) {
    let (mut calls, mut results, mut items) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut before = &Value::Null;
    for item in list(body, "input") {
        let answers = item["role"] != "user" && item["type"] != "function_call_output";
        assert!(before["type"] != "reasoning" || answers, "{body}");
        before = item;
        if let Some(id) = item["id"].as_str() {
            assert!(id.len() <= 64 && items.insert(id), "{id} twice: {body}");
        }
        match words_of(&item["type"]) {
            "function_call" => {
                assert!(is_name(&item["call_id"]) && is_name(&item["name"]), "{body}");
                assert!(item["id"].is_null() || words_of(&item["id"]).starts_with("fc_"));
                let arguments = words_of(&item["arguments"]);
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                calls.push(item["call_id"].to_string());
            }
            "function_call_output" => {
                assert!(calls.contains(&item["call_id"].to_string()), "{body}");
                assert!(item["output"].is_string());
                results.push(item["call_id"].to_string());
            }
            "reasoning" => assert!(words_of(&item["id"]).starts_with("rs_")),
            "message" => assert!(!words_of(&item["content"][0]["text"]).is_empty()),
            _ => {
                let parts = list(item, "content");
                assert!(item["role"] == "user" && !parts.is_empty(), "{body}");
                assert!(parts.iter().all(|part| part["text"] != ""), "{body}");
            }
        }
    }
    assert_ne!(before["type"], "reasoning", "{body}");
    assert_eq!(calls, results, "{body}");
    assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len());
    assert_eq!(body["store"], false);
}

proptest! {
    #[test]
    fn every_history_is_a_valid_request(history in history()) {
        accepted_by_all(&history);
    }
}

/// Renders a conversation in each wire format.
///
/// # Panics
/// Where one of them would be refused.
pub(crate) fn accepted_by_all(history: &[Message]) {
    let parse = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let tools: Vec<&Tool> = catalog::ALL.iter().collect();
    for request in requests(history, &tools) {
        let chat = settings(ProviderKind::OpenAiCompatible);
        chat_is_valid(&parse(
            chat_completions::encode::Body::new(&chat).render(&request),
        ));
        let anthropic = settings(ProviderKind::Anthropic);
        messages_is_valid(&parse(messages::encode::Body::new(&anthropic).render(&request)));
        let codex = settings(ProviderKind::OpenAiCodex);
        responses_is_valid(&parse(responses::encode::Body::new(&codex, "c").render(&request)));
    }
}
