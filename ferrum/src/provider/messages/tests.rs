//! The adapter against raw bytes, and its requests.

use super::*;
use crate::agent::message::{Carry, ContentBlock, Message, Role};
use crate::provider::played::{Asked, ask_as, cut_everywhere, read, status, stream};
use crate::provider::{Finish, ProviderKind, Thinking};
use crate::tools::catalog;
use serde_json::{Value, json};

const KIND: ProviderKind = ProviderKind::Anthropic;

const HELLO: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":9,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1}}}"#,
    "\n\nevent: content_block_start\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    "\n\nevent: ping\n",
    r#"data: {"type":"ping"}"#,
    "\n\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    "\n\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
    "\n\n",
    r#"data: {"type":"content_block_stop","index":0}"#,
    "\n\n",
    r#"data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xx"}}"#,
    "\n\n",
    r#"data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
    "\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello, w\u{f6}rld \u{2603}\"}}",
    "\n\n",
    r#"data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"ls","input":{}}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    "\n\n",
    r#"data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \""}}"#,
    "\n\n",
    r#"data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":".\"}"}}"#,
    "\n\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":44}}"#,
    "\n\n",
    r#"data: {"type":"message_stop"}"#,
    "\n\n",
);

fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn answered(events: &[&str]) -> Result<Completion, ProviderError> {
    let body: String = events.iter().map(|json| event(json)).collect();
    read(Answer::new("m"), &[body.as_bytes()])
}

const TEXT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
const STOP: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;

#[test]
fn a_stream_means_the_same_wherever_it_is_cut() {
    let whole = cut_everywhere(|| Answer::new("m"), HELLO);
    assert_eq!(whole.finish, Finish::Done);
    let carried = |block: Value| {
        Some(Carry::Messages {
            model: "m".into(),
            block,
        })
    };
    assert_eq!(
        whole.message.content,
        [
            ContentBlock::Thinking {
                text: "hm".into(),
                carry: carried(json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"})),
            },
            ContentBlock::Thinking {
                text: String::new(),
                carry: carried(json!({"type": "redacted_thinking", "data": "xx"})),
            },
            ContentBlock::Text {
                text: "Hello, wörld ☃".into()
            },
            ContentBlock::ToolUse {
                id: "toolu_1".into(),
                name: "ls".into(),
                input: json!({"path": "."}),
                invalid: None,
                extra_content: None,
            },
        ]
    );
    let usage = whole.message.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(129), Some(44)));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (100, 20));
}

#[test]
fn the_request_has_the_headers_of_the_format() {
    let Asked {
        result,
        requests,
        events,
    } = ask_as(KIND, |_| {}, vec![stream(HELLO)], false);
    assert_eq!(result.unwrap().message.visible_text(), "Hello, wörld ☃");
    assert_eq!(events, ["thinking hm", "text Hello, wörld ☃"]);
    // The base address ends in /v1 here.
    assert!(
        requests[0].starts_with("POST /v1/messages HTTP/1.1\r\n"),
        "{}",
        requests[0]
    );
    for header in [
        "x-api-key: key-0123456789\r\n",
        "anthropic-version: 2023-06-01\r\n",
        "x-extra: 1\r\n",
    ] {
        assert!(requests[0].contains(header), "{}", requests[0]);
    }
    assert!(!requests[0].contains("authorization"));
}

#[test]
fn what_servers_leave_out_is_not_missed() {
    let text = |events: &[&str]| answered(events).unwrap().message.visible_text();
    assert_eq!(text(&[TEXT, STOP]), "a");
    assert_eq!(text(&[TEXT, r#"{"type":"message_stop"}"#]), "a");
    let no_input = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"ls"}}"#;
    let call = answered(&[no_input, STOP]).unwrap();
    assert_eq!(call.message.tool_uses().next().unwrap().input, &json!({}));
    let at_once = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"ls","input":{"path":"x"}}}"#;
    let call = answered(&[at_once, STOP]).unwrap();
    assert_eq!(
        call.message.tool_uses().next().unwrap().input,
        &json!({"path": "x"})
    );
    let whole = r#"{"type":"message","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"ls","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let whole = read(Answer::new("m"), &[whole.as_bytes()]).unwrap();
    assert_eq!(
        (whole.message.visible_text(), whole.message.tool_uses().count()),
        ("a".into(), 1)
    );
    assert_eq!(whole.message.usage.unwrap().output_tokens, Some(2));
}

#[test]
fn two_calls_with_one_index_stay_two() {
    let call = |id: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"{id}","name":"ls","input":{{}}}}}}"#
        )
    };
    let part = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"x\"}"}}"#;
    let done = answered(&[&call("a"), part, &call("b"), part, STOP]).unwrap();
    assert!(
        done.message
            .tool_uses()
            .all(|call| call.input == &json!({"path": "x"}))
    );
    assert_eq!(done.message.tool_uses().count(), 2);
}

#[test]
fn reasons_and_errors_are_told_apart() {
    let stopped = |reason: &str| {
        let stop = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
        answered(&[TEXT, &stop]).map(|done| done.finish)
    };
    for (reason, finish) in [
        ("end_turn", Finish::Done),
        ("stop_sequence", Finish::Done),
        ("max_tokens", Finish::Length),
        ("refusal", Finish::Filtered),
    ] {
        assert_eq!(stopped(reason), Ok(finish), "{reason}");
    }
    assert!(matches!(
        stopped("model_context_window_exceeded"),
        Err(ProviderError::Overflow(_))
    ));
    assert!(matches!(answered(&[TEXT]), Err(ProviderError::Incomplete(_))));
    let error = |kind: &str, message: &str| {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}}).to_string();
        answered(&[TEXT, &error]).unwrap_err()
    };
    for passing in [
        "overloaded_error",
        "api_error",
        "rate_limit_error",
        "timeout_error",
    ] {
        assert!(
            matches!(error(passing, "m"), ProviderError::Passing { .. }),
            "{passing}"
        );
    }
    assert!(matches!(error("invalid_request_error", "m"), ProviderError::Reported(m) if m == "m"));
    let long = "prompt is too long: 210000 tokens > 200000 maximum";
    assert!(matches!(
        error("invalid_request_error", long),
        ProviderError::Overflow(_)
    ));
    assert!(matches!(answered(&["nonsense"]), Err(ProviderError::Malformed(m)) if m.contains("nonsense")));
}

#[test]
fn overload_is_retried_and_overflow_is_not() {
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let plays = vec![
        status("529 Overloaded", busy, "retry-after: 0\r\n"),
        stream(HELLO),
    ];
    let asked = ask_as(KIND, |_| {}, plays, true);
    assert_eq!((asked.requests.len(), asked.result.is_ok()), (2, true));
    let long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    let asked = ask_as(KIND, |_| {}, vec![status("400 Bad Request", long, "")], true);
    assert!(matches!(asked.result, Err(ProviderError::Overflow(_))));
    let large = r#"{"type":"error","error":{"type":"request_too_large","message":"m"}}"#;
    let asked = ask_as(KIND, |_| {}, vec![status("413 Too Large", large, "")], true);
    assert!(matches!(asked.result, Err(ProviderError::Overflow(_))));
}

fn settings() -> ProviderSettings {
    ProviderSettings::new("p", KIND, "http://127.0.0.1:1", "m")
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

fn of_model(content: Vec<ContentBlock>) -> Message {
    Message {
        role: Role::Assistant,
        content,
        usage: None,
    }
}

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolUse {
        id: id.into(),
        name: "ls".into(),
        input: json!({"path": "."}),
        invalid: None,
        extra_content: None,
    }
}

fn conversation() -> Vec<Message> {
    let image = ContentBlock::Image {
        mime_type: "image/png".into(),
        data_base64: "AA==".into(),
        sha256: None,
        source: None,
    };
    let thinking = |model: &str| ContentBlock::Thinking {
        text: "hm".into(),
        carry: Some(Carry::Messages {
            model: model.into(),
            block: json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        }),
    };
    vec![
        Message::text(Role::System, "be good"),
        Message::text(Role::System, "rules \u{1}\"ü"),
        Message {
            role: Role::User,
            content: vec![image, ContentBlock::Text { text: "see".into() }],
            usage: None,
        },
        of_model(vec![thinking("m"), thinking("other"), call("a"), call("b|+/")]),
        Message::tool_result("a", "one".into(), false),
        Message::tool_result("b|+/", "two".into(), true),
        of_model(vec![ContentBlock::Text { text: " \n".into() }]),
        of_model(vec![ContentBlock::Text { text: "done".into() }]),
        Message::text(Role::User, "more"),
    ]
}

fn render(body: &mut encode::Body, request: &Request<'_>) -> Value {
    serde_json::from_slice(&body.render(request)).unwrap()
}

#[test]
fn a_growing_conversation_renders_as_if_built_at_once() {
    let messages = conversation();
    let mut growing = encode::Body::new(&settings());
    for n in 1..=messages.len() {
        let nudged = Request {
            nudge: Some("enough"),
            ..request(&messages[..n])
        };
        for request in [request(&messages[..n]), nudged] {
            let now = growing.render(&request);
            assert_eq!(now, encode::Body::new(&settings()).render(&request), "{n}");
            serde_json::from_slice::<Value>(&now).unwrap();
        }
    }
    let fresh = [Message::text(Role::User, "new")];
    let body = render(
        &mut growing,
        &Request {
            epoch: 1,
            ..request(&fresh)
        },
    );
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    assert_eq!(body.get("system"), None);
}

#[test]
fn the_conversation_has_the_shape_that_the_format_wants() {
    let messages = conversation();
    let body = render(&mut encode::Body::new(&settings()), &request(&messages));
    let sent = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = sent
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(sent[0]["content"][0]["source"]["media_type"], "image/png");
    // Only this model's thinking, unchanged and before the calls.
    assert_eq!(
        sent[1]["content"][0],
        json!({"type": "thinking", "thinking": "hm", "signature": "s"})
    );
    assert_eq!(sent[1]["content"].as_array().unwrap().len(), 3);
    // Both results in one message, with the ids of their calls.
    for at in 0..2 {
        assert_eq!(
            sent[2]["content"][at]["tool_use_id"],
            sent[1]["content"][at + 1]["id"]
        );
    }
    assert_eq!(sent[2]["content"][1]["is_error"], true);
    assert_eq!(body["system"].as_array().unwrap().len(), 2);
    assert_eq!(body["max_tokens"], 16_000);
}

#[test]
fn cache_marks_stand_at_the_system_prompt_and_the_last_two_messages_of_the_user() {
    let messages = conversation();
    let mut growing = encode::Body::new(&settings());
    for n in 1..=messages.len() {
        let body = render(&mut growing, &request(&messages[..n]));
        let count = body.to_string().matches("cache_control").count();
        assert!((1..=4).contains(&count), "{n}: {count}");
    }
    let body = render(&mut growing, &request(&messages));
    let marked = |block: &Value| block["cache_control"]["type"] == "ephemeral";
    assert!(marked(&body["system"][1]) && !marked(&body["system"][0]));
    let sent = body["messages"].as_array().unwrap();
    let marks: Vec<Vec<bool>> = sent
        .iter()
        .map(|message| {
            message["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(marked)
                .collect()
        })
        .collect();
    assert_eq!(
        marks,
        [
            vec![false, false],
            vec![false; 3],
            vec![false, true],
            vec![false],
            vec![true]
        ]
    );
}

#[test]
fn thinking_and_tools_and_the_users_own_keys() {
    let tools: Vec<&catalog::Tool> = catalog::ALL.iter().collect();
    let messages = [Message::text(Role::User, "go")];
    let mut settings = settings();
    settings.thinking = Thinking::High;
    settings.extra_body = serde_json::from_str(r#"{"top_k":5,"messages":[],"system":"x"}"#).unwrap();
    let last = Request {
        tools: &tools,
        may_call: false,
        ..request(&messages)
    };
    let body = render(&mut encode::Body::new(&settings), &last);
    assert_eq!(
        body["thinking"],
        json!({"type": "enabled", "budget_tokens": 16_000})
    );
    assert!(body["max_tokens"].as_u64() > body["thinking"]["budget_tokens"].as_u64());
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    assert_eq!(
        (&body["top_k"], body["messages"].as_array().unwrap().len()),
        (&json!(5), 1)
    );
}
