//! A law: whatever happened in a session, and wherever it broke off, its conversation is one that
//! each wire format accepts.

use super::{ProviderKind, ProviderSettings, Request, chat_completions, messages, responses};
use crate::agent::message::{Carry, ContentBlock, Message, Role, close_pairs};
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
    )
        .prop_map(|(id, name, invalid)| ContentBlock::ToolUse {
            id,
            name,
            input: json!({"path": "x"}),
            invalid: invalid.then(|| "no JSON".to_owned()),
            extra_content: invalid.then(|| json!({"responses": {"id": "fc_1", "model": "m"}})),
        })
}

fn thinking() -> impl Strategy<Value = ContentBlock> {
    let block = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    let carries = vec![
        None,
        Some(Carry::ChatCompletions {
            field: Some("reasoning_content".into()),
            details: Vec::new(),
        }),
        Some(Carry::Messages {
            model: "m".into(),
            block,
        }),
        Some(Carry::Responses {
            model: "m".into(),
            item,
        }),
    ];
    proptest::sample::select(carries).prop_map(|carry| ContentBlock::Thinking {
        text: "hm".into(),
        carry,
    })
}

/// One answer, and the results of the calls that came to their end.
fn round() -> impl Strategy<Value = Vec<Message>> {
    (
        proptest::option::of(thinking()),
        words(),
        proptest::collection::vec(call(), 0..4),
        0usize..5,
    )
        .prop_map(|(thinking, text, calls, finished)| {
            let mut used = BTreeSet::new();
            // Within an answer ids differ: see `call.rs`.
            let calls: Vec<ContentBlock> = calls
                .into_iter()
                .filter(|block| matches!(block, ContentBlock::ToolUse { id, .. } if used.insert(id.clone())))
                .collect();
            let mut content: Vec<ContentBlock> = thinking.into_iter().collect();
            content.push(ContentBlock::Text { text });
            content.extend(calls);
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

/// Turns, each begun by the user, cut anywhere and taken up again.
fn history() -> impl Strategy<Value = Vec<Message>> {
    let turn = (words(), proptest::collection::vec(round(), 0..4)).prop_map(|(text, rounds)| {
        let user = Message::text(Role::User, format!("go {text}"));
        [vec![user], rounds.concat()].concat()
    });
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

fn settings(kind: ProviderKind) -> ProviderSettings {
    ProviderSettings::new("p", kind, "https://api.openai.com/v1", "m")
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

fn chat_is_valid(body: &Value) {
    let mut open: Vec<&Value> = Vec::new();
    for message in list(body, "messages") {
        if message["role"] == "tool" {
            assert_eq!(open.first(), Some(&&message["tool_call_id"]), "{body}");
            open.remove(0);
            continue;
        }
        assert!(open.is_empty(), "a call without a result: {body}");
        if message["role"] == "assistant" {
            let calls = list(message, "tool_calls");
            assert!(!calls.is_empty() || !message["content"].as_str().unwrap_or_default().is_empty());
            for call in calls {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                assert!(is_name(&call["function"]["name"]) && call["id"].as_str().unwrap().len() <= 40);
                open.push(&call["id"]);
            }
        }
    }
    assert!(open.is_empty());
}

fn messages_is_valid(body: &Value) {
    let messages = list(body, "messages");
    let mut used = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], role, "{body}");
        let content = list(message, "content");
        assert!(!content.is_empty(), "{body}");
        let of = |kind: &str, key: &str| -> Vec<&Value> {
            content
                .iter()
                .filter(|block| block["type"] == kind)
                .map(|block| &block[key])
                .collect()
        };
        assert!(
            of("text", "text")
                .iter()
                .all(|text| !text.as_str().unwrap().trim().is_empty())
        );
        for (id, name) in of("tool_use", "id").iter().zip(of("tool_use", "name")) {
            assert!(
                is_name(id) && is_name(name) && used.insert((*id).clone().to_string()),
                "{body}"
            );
        }
        assert_ne!(content.last().unwrap()["type"], "thinking", "{body}");
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
}

fn responses_is_valid(body: &Value) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let mut before = &Value::Null;
    for item in list(body, "input") {
        let answers = item["role"] != "user" && item["type"] != "function_call_output";
        assert!(before["type"] != "reasoning" || answers, "{body}");
        before = item;
        match item["type"].as_str() {
            Some("function_call") => {
                assert!(is_name(&item["call_id"]) && is_name(&item["name"]), "{body}");
                calls.push(item["call_id"].to_string());
            }
            Some("function_call_output") => {
                assert!(calls.contains(&item["call_id"].to_string()), "{body}");
                results.push(item["call_id"].to_string());
            }
            _ => {}
        }
    }
    assert_eq!(calls, results, "{body}");
    assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len());
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
    let request = request(history);
    let parse = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let chat = settings(ProviderKind::OpenAiCompatible);
    chat_is_valid(&parse(
        chat_completions::encode::Body::new(&chat).render(&request),
    ));
    let anthropic = settings(ProviderKind::Anthropic);
    messages_is_valid(&parse(messages::encode::Body::new(&anthropic).render(&request)));
    let codex = settings(ProviderKind::OpenAiCodex);
    responses_is_valid(&parse(responses::encode::Body::new(&codex, "c").render(&request)));
}
