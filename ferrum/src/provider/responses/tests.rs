//! The adapter against raw bytes, and its requests.

use super::*;
use crate::agent::message::{Carry, ContentBlock, Message, Role};
use crate::provider::credentials::Pending;
use crate::provider::played::{Asked, Play, ask_as, cut_everywhere, read, status, stream};
use crate::provider::{Finish, ProviderKind, Thinking};
use crate::tools::catalog;
use serde_json::{Value, json};
use std::cell::Cell;

const KIND: ProviderKind = ProviderKind::OpenAiCodex;

const HELLO: &str = concat!(
    "event: response.created\n",
    r#"data: {"type":"response.created","response":{"id":"r","status":"in_progress"},"sequence_number":0}"#,
    "\n\nevent: response.output_item.added\n",
    r#"data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
    "\n\n",
    r#"data: {"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0}"#,
    "\n\n",
    r#"data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm"}"#,
    "\n\n",
    r#"data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"enc"}}"#,
    "\n\n",
    r#"data: {"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}"#,
    "\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":1,\"content_index\":0,\"delta\":\"Hello, w\u{f6}r\"}",
    "\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":1,\"content_index\":0,\"delta\":\"ld \u{2603}\"}",
    "\r\n\r\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hello, w\u{f6}rld \u{2603}\"}]}}",
    "\n\n",
    r#"data: {"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":""}}"#,
    "\n\n",
    r#"data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"path\":"}"#,
    "\n\n",
    r#"data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"\".\"}"}"#,
    "\n\n",
    r#"data: {"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"path\":\".\"}"}"#,
    "\n\n",
    r#"data: {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{\"path\":\".\"}"}}"#,
    "\n\n",
    r#"data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"total_tokens":12}}}"#,
    "\n\n",
);

fn reasoning_item() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "enc"})
}

fn answered(events: &[&str]) -> Result<Completion, ProviderError> {
    let body: String = events.iter().map(|json| format!("data: {json}\n\n")).collect();
    read(Answer::new("m"), &[body.as_bytes()])
}

const TEXT: &str = r#"{"type":"response.output_text.delta","delta":"a"}"#;
const DONE: &str = r#"{"type":"response.completed","response":{"status":"completed"}}"#;

#[test]
fn a_stream_means_the_same_wherever_it_is_cut() {
    let whole = cut_everywhere(|| Answer::new("m"), HELLO);
    assert_eq!(whole.finish, Finish::Done);
    assert_eq!(
        whole.message.content,
        [
            ContentBlock::Thinking {
                text: "hm".into(),
                carry: Some(Carry::Responses {
                    model: "m".into(),
                    item: reasoning_item()
                }),
            },
            ContentBlock::Text {
                text: "Hello, wörld ☃".into()
            },
            ContentBlock::ToolUse {
                id: "call_1".into(),
                name: "ls".into(),
                input: json!({"path": "."}),
                invalid: None,
                extra_content: Some(json!({"responses": {"id": "fc_1", "model": "m"}})),
            },
        ]
    );
    let usage = whole.message.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cache_read_tokens), (Some(9), 4));
}

#[test]
fn the_request_has_the_headers_and_fields_of_the_backend() {
    let Asked {
        result,
        requests,
        events,
    } = ask_as(
        KIND,
        |settings| settings.base_url = settings.base_url.replace("/v1/", "/backend-api"),
        vec![stream(HELLO)],
        false,
    );
    assert_eq!(result.unwrap().message.visible_text(), "Hello, wörld ☃");
    assert_eq!(events, ["thinking hm", "text Hello, wör", "text ld ☃"]);
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /backend-api/codex/responses HTTP/1.1"),
        "{head}"
    );
    for header in [
        "authorization: Bearer key-0123456789",
        "originator: ferrum",
        "openai-beta: responses=experimental",
        "accept: text/event-stream",
        "session_id: ",
        "x-client-request-id: ",
        "user-agent: ferrum/",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert!(head.contains(body["prompt_cache_key"].as_str().unwrap()));
}

#[test]
fn items_are_found_with_and_without_ids_and_indexes() {
    let text = |events: &[&str]| answered(events).unwrap().message.visible_text();
    assert_eq!(text(&[TEXT, TEXT, DONE]), "aa");
    let done = |text: &str| {
        format!(
            r#"{{"type":"response.output_item.done","item":{{"type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}}}"#
        )
    };
    assert_eq!(text(&[&done("whole"), DONE]), "whole");
    assert_eq!(text(&[TEXT, &done("abc"), TEXT, &done("ad"), DONE]), "abcad");
    let refusal = r#"{"type":"response.refusal.delta","delta":"no"}"#;
    assert_eq!(text(&[refusal, DONE, "junk"]), "no");
    let at_the_end = r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"late"}]}]}}"#;
    assert_eq!(text(&[at_the_end]), "late");
    let whole = r#"{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"one piece"}]}]}"#;
    assert_eq!(
        read(Answer::new("m"), &[whole.as_bytes()])
            .unwrap()
            .message
            .visible_text(),
        "one piece"
    );
    // Two calls without any index, as llama.cpp sends them.
    let call = |kind: &str, id: &str, arguments: &str| {
        json!({"type": format!("response.output_item.{kind}"), "item": {"type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": "ls", "arguments": arguments}}).to_string()
    };
    let delta = |id: &str| {
        json!({"type": "response.function_call_arguments.delta", "item_id": id, "delta": "{\"path\":\"x\"}"})
            .to_string()
    };
    let calls = answered(&[
        &call("added", "1", ""),
        &delta("1"),
        &call("added", "2", ""),
        &delta("2"),
        &call("done", "1", "{\"path\":\"x\"}"),
        DONE,
    ])
    .unwrap();
    let ids: Vec<&str> = calls.message.tool_uses().map(|call| call.id).collect();
    assert_eq!(ids, ["call_1", "call_2"]);
    assert!(
        calls
            .message
            .tool_uses()
            .all(|call| call.input == &json!({"path": "x"}))
    );
}

#[test]
fn reasoning_that_cannot_be_read_again_is_not_carried() {
    let item = r#"{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_1","summary":[{"text":"a"},{"text":"b"}]}}"#;
    let done = answered(&[item, TEXT, DONE]).unwrap();
    assert_eq!(
        done.message.content[0],
        ContentBlock::Thinking {
            text: "a\n\nb".into(),
            carry: None
        }
    );
}

#[test]
fn the_ways_to_end_are_told_apart() {
    let ended = |json: &str| answered(&[TEXT, json]);
    let incomplete = |reason: &str| {
        let event = json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": reason}}});
        ended(&event.to_string()).map(|done| done.finish)
    };
    assert_eq!(incomplete("max_output_tokens"), Ok(Finish::Length));
    assert_eq!(incomplete("content_filter"), Ok(Finish::Filtered));
    assert!(matches!(incomplete("other"), Err(ProviderError::Reported(_))));
    assert!(matches!(
        answered(&[TEXT, "[DONE]"]),
        Err(ProviderError::Incomplete(_))
    ));
    let failed = |code: &str| {
        let event = json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": "boom"}}});
        ended(&event.to_string()).unwrap_err()
    };
    assert!(matches!(
        failed("context_length_exceeded"),
        ProviderError::Overflow(_)
    ));
    assert!(matches!(failed("server_error"), ProviderError::Passing { .. }));
    assert!(failed("invalid_prompt").to_string().contains("boom"));
    for event in [
        r#"{"type":"error","code":"invalid_prompt","message":"boom","param":null}"#,
        r#"{"type":"error","error":{"code":"invalid_prompt","message":"boom"}}"#,
        r#"{"error":{"message":"boom"}}"#,
        r#"{"type":"response.completed","response":{"status":"failed","error":{"code":"x","message":"boom"}}}"#,
    ] {
        assert!(ended(event).unwrap_err().to_string().contains("boom"), "{event}");
    }
    assert!(ended(r#"{"type":"response.done","response":{"status":"cancelled"}}"#).is_err());
}

fn failed_stream(before: &str) -> Play {
    let failed = r#"data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 10ms"}}}"#;
    stream(&format!("{before}{failed}\n\n"))
}

#[test]
fn a_failure_that_passes_is_retried_unless_text_was_seen() {
    let thought = "data: {\"type\":\"response.reasoning_summary_text.delta\",\"delta\":\"hm\"}\n\n";
    let asked = ask_as(KIND, |_| {}, vec![failed_stream(thought), stream(HELLO)], false);
    assert_eq!((asked.requests.len(), asked.result.is_ok()), (2, true));
    let text = format!("data: {TEXT}\n\n");
    let asked = ask_as(KIND, |_| {}, vec![failed_stream(&text)], false);
    assert_eq!((asked.requests.len(), asked.result.is_err()), (1, true));
    let asked = ask_as(KIND, |_| {}, vec![failed_stream(&text), stream(HELLO)], true);
    assert_eq!(asked.requests.len(), 2);
    assert_eq!(asked.text(), "Hello, wörld ☃");
}

#[test]
fn a_used_up_allowance_is_told_and_not_retried() {
    let body =
        r#"{"error":{"type":"usage_limit_reached","message":"m","plan_type":"plus","resets_at":4000000000}}"#;
    let asked = ask_as(
        KIND,
        |_| {},
        vec![status("429 Too Many Requests", body, "")],
        true,
    );
    assert_eq!(asked.requests.len(), 1);
    let error = asked.error();
    assert!(
        error.contains("usage limit") && error.contains("Oct 2096"),
        "{error}"
    );
    let body = r#"{"error":{"type":"usage_not_included","message":"m"}}"#;
    assert_eq!(
        ask_as(
            KIND,
            |_| {},
            vec![status("429 Too Many Requests", body, "")],
            true
        )
        .requests
        .len(),
        1
    );
}

/// A login with one token in store.
struct Login {
    replaced: Cell<u32>,
}

fn token(bearer: &str) -> Token {
    Token {
        bearer: bearer.into(),
        account: Some("account-7".into()),
        fedramp: true,
    }
}

impl Credentials for Login {
    fn token(&self) -> Pending<'_> {
        let now = if self.replaced.get() == 0 { "old" } else { "new" };
        Box::pin(async move { Ok(token(now)) })
    }

    fn refreshed_after_401<'a>(&'a self, _: &'a Token) -> Pending<'a> {
        self.replaced.set(self.replaced.get() + 1);
        Box::pin(async { Ok(token("new")) })
    }
}

fn with_login(settings: &mut ProviderSettings) {
    settings.api_key = None;
    settings.credentials = Some(Box::new(Login {
        replaced: Cell::new(0),
    }));
}

#[test]
fn a_refused_token_is_replaced_once() {
    let refused = || status("401 Unauthorized", r#"{"error":{"message":"expired"}}"#, "");
    let asked = ask_as(KIND, with_login, vec![refused(), stream(HELLO)], true);
    assert!(asked.result.is_ok());
    assert!(asked.requests[0].contains("authorization: Bearer old\r\n"));
    assert!(asked.requests[1].contains("authorization: Bearer new\r\n"));
    assert!(asked.requests[1].contains("chatgpt-account-id: account-7\r\n"));
    assert!(asked.requests[1].contains("x-openai-fedramp: true\r\n"));
    let asked = ask_as(KIND, with_login, vec![refused(), refused()], true);
    assert_eq!(asked.requests.len(), 2);
    assert!(matches!(
        asked.result,
        Err(ProviderError::Status { status: 401, .. })
    ));
    // A fixed token has no other: the one request was all.
    let asked = ask_as(KIND, |_| {}, vec![refused()], true);
    assert!(matches!(asked.result, Err(ProviderError::Login(_))));
}

#[test]
fn without_a_login_nothing_is_sent() {
    let settings = ProviderSettings::new("p", KIND, "", "m");
    let error = Responses::new(settings).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, ProviderError::Config(text) if text.contains("ferrum login")),
        "{error}"
    );
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

fn body_for(model: &str, change: impl FnOnce(&mut ProviderSettings)) -> encode::Body {
    let mut settings = ProviderSettings::new("p", KIND, "", model);
    change(&mut settings);
    encode::Body::new(&settings, "conversation")
}

fn conversation() -> Vec<Message> {
    let whole = cut_everywhere(|| Answer::new("m"), HELLO);
    let image = ContentBlock::Image {
        mime_type: "image/png".into(),
        data_base64: "AA==".into(),
        sha256: None,
        source: None,
    };
    vec![
        Message::text(Role::System, "be good"),
        Message::text(Role::System, "rules"),
        Message {
            role: Role::User,
            content: vec![ContentBlock::Text { text: "see".into() }, image],
            usage: None,
        },
        whole.message,
        Message::tool_result("call_1", "ok".into(), false),
    ]
}

#[test]
fn a_growing_conversation_renders_as_if_built_at_once() {
    let messages = conversation();
    let mut growing = body_for("m", |_| {});
    for n in 1..=messages.len() {
        let request = Request {
            nudge: (n % 2 == 0).then_some("enough"),
            ..request(&messages[..n])
        };
        let now = growing.render(&request);
        assert_eq!(now, body_for("m", |_| {}).render(&request), "{n}");
        serde_json::from_slice::<Value>(&now).unwrap();
    }
}

#[test]
fn reasoning_goes_back_unchanged_to_its_own_model_only() {
    let messages = conversation();
    let body: Value = serde_json::from_slice(&body_for("m", |_| {}).render(&request(&messages))).unwrap();
    assert_eq!(body["instructions"], "be good\n\nrules");
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[0]["content"][1]["image_url"], "data:image/png;base64,AA==");
    assert_eq!(input[1], reasoning_item());
    assert_eq!(input[2]["content"][0]["type"], "output_text");
    assert_eq!(
        (&input[3]["id"], &input[3]["call_id"]),
        (&json!("fc_1"), &json!("call_1"))
    );
    assert_eq!(
        input[4],
        json!({"type": "function_call_output", "call_id": "call_1", "output": "ok"})
    );
    let body: Value = serde_json::from_slice(&body_for("n", |_| {}).render(&request(&messages))).unwrap();
    let input = body["input"].as_array().unwrap();
    assert_eq!(
        (input.len(), &input[2]["type"], &input[2]["id"]),
        (4, &json!("function_call"), &Value::Null)
    );
}

#[test]
fn tools_are_flat_and_the_effort_is_the_users() {
    let tools: Vec<&catalog::Tool> = catalog::ALL.iter().collect();
    let messages = [Message::text(Role::User, "go")];
    let last = Request {
        tools: &tools,
        may_call: false,
        ..request(&messages)
    };
    let change = |settings: &mut ProviderSettings| {
        settings.thinking = Thinking::Max;
        settings.extra_body = serde_json::from_str(r#"{"stream":false,"text":{"verbosity":"low"}}"#).unwrap();
    };
    let body: Value = serde_json::from_slice(&body_for("m", change).render(&last)).unwrap();
    assert_eq!(body["reasoning"], json!({"effort": "max", "summary": "auto"}));
    assert_eq!(
        (&body["stream"], &body["text"]["verbosity"]),
        (&json!(true), &json!("low"))
    );
    assert_eq!(body["tool_choice"], "none");
    assert_eq!(
        (&body["tools"][0]["type"], &body["tools"][0]["strict"]),
        (&json!("function"), &Value::Null)
    );
    assert_eq!(body["tools"][0]["parameters"]["type"], "object");
}

#[test]
fn models_are_listed_for_the_client_version() {
    use crate::provider::played::{runtime, serve, settings};
    let (models, requests) = runtime().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings(KIND, listener.local_addr().unwrap().port());
        with_login(&mut settings);
        settings.client_version = Some("9.9.9&x=1".into());
        let responses = Responses::new(settings).unwrap();
        let refused = status("401 Unauthorized", "{}", "");
        let list = status(
            "200 OK",
            r#"{"models":[{"slug":"gpt-x","visibility":"list"}]}"#,
            "",
        );
        tokio::join!(responses.models(), serve(listener, vec![refused, list]))
    });
    assert_eq!(models.unwrap()[0].id, "gpt-x");
    assert!(
        requests[1].starts_with("GET /v1/codex/models?client_version=9.9.9x1 HTTP/1.1\r\n"),
        "{}",
        requests[1]
    );
    assert!(requests[1].contains("Bearer new"));
}
