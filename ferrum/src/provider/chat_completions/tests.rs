//! The adapter against a server that plays raw bytes.

use super::*;
use crate::agent::message::{ContentBlock, Message, Role};
use crate::provider::played::{self, Asked, Play, ask_as, cut_everywhere, status, stream};
use crate::provider::{Finish, ProviderKind};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const KIND: ProviderKind = ProviderKind::OpenAiCompatible;

fn ask(plays: Vec<Play>, streaming: bool, buffered: bool) -> Asked {
    ask_as(KIND, |settings| settings.streaming = streaming, plays, buffered)
}

fn settings(port: u16) -> ProviderSettings {
    played::settings(KIND, port)
}

const HELLO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n\
    : keep-alive\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\r\n\r\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello, w\u{f6}rld \u{2603}\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\\\"path\\\":\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\".\\\"}\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":4}}\n\n\
    data: [DONE]\n\n";

#[test]
fn a_stream_means_the_same_wherever_it_is_cut() {
    let Asked {
        result,
        requests,
        events,
    } = ask(vec![stream(HELLO)], true, false);
    let whole = result.unwrap();
    assert_eq!(whole.finish, Finish::Done);
    assert_eq!(whole.message.visible_text(), "Hello, wörld ☃");
    assert_eq!(
        whole.message.tool_uses().next().unwrap().input,
        &json!({"path": "."})
    );
    assert_eq!(whole.message.usage.as_ref().unwrap().input_tokens, Some(11));
    assert_eq!(events, ["thinking hm", "text Hello, wörld ☃"]);
    assert!(
        requests[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{}",
        requests[0]
    );
    assert!(requests[0].contains("authorization: Bearer key-0123456789\r\n"));
    assert!(requests[0].contains("x-extra: 1\r\n"));
    assert_eq!(cut_everywhere(Answer::default, HELLO), whole);
    let mut bytewise = stream("");
    bytewise.pieces = HELLO.as_bytes().chunks(1).map(<[u8]>::to_vec).collect();
    assert_eq!(ask(vec![bytewise], true, true).result, Ok(whole));
}

#[test]
fn an_answer_that_is_not_streamed_reads_the_same() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
    for streaming in [true, false] {
        let asked = ask(vec![status("200 OK", body, "")], streaming, true);
        assert!(asked.requests[0].contains(&format!("\"stream\":{streaming}")));
        assert_eq!(asked.text(), "Hi");
    }
}

#[test]
fn the_end_marker_ends_the_answer_though_the_server_stays() {
    let mut play =
        stream("data: {\"choices\":[{\"delta\":{\"content\":\"ok\"}}]}\n\ndata: [DONE]\n\ndata: junk\n\n");
    play.hold = true;
    assert_eq!(ask(vec![play], true, true).text(), "ok");
}

#[test]
fn a_finished_answer_does_not_wait_for_a_server_that_stays() {
    let mut play =
        stream("data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n");
    play.hold = true;
    assert_eq!(ask(vec![play], true, true).text(), "ok");
}

#[test]
fn a_cut_stream_is_not_an_answer_and_not_replayed() {
    let play = stream("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n");
    let Asked { result, requests, .. } = ask(vec![play], true, true);
    assert!(matches!(result, Err(ProviderError::Incomplete(_))), "{result:?}");
    assert_eq!(requests.len(), 1);
}

#[test]
fn what_is_no_stream_is_named() {
    let page = played::answer("200 OK", "text/html", "", "<html>");
    let error = ask(vec![page], true, true).error();
    assert!(
        error.contains("text/html") && !error.contains("<html>"),
        "{error}"
    );
    let error = ask(vec![stream("data: error: engine died\n\n")], true, true).error();
    assert!(error.contains("engine died"), "{error}");
}

#[test]
fn passing_failures_are_retried_and_final_ones_are_not() {
    let busy = || status("503 Busy", "{}", "retry-after: 0\r\n");
    let Asked {
        result,
        requests,
        events,
    } = ask(vec![busy(), busy(), stream(HELLO)], true, true);
    assert!(result.is_ok());
    assert_eq!((requests.len(), events), (3, vec!["retry".to_owned(); 2]));
    let Asked { result, requests, .. } = ask(vec![busy(), busy(), busy(), busy()], true, true);
    assert!(matches!(result, Err(ProviderError::Status { status: 503, .. })));
    assert_eq!(requests.len(), 4);
    let overflow = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let Asked { result, requests, .. } = ask(vec![status("400 Bad Request", overflow, "")], true, true);
    assert!(matches!(result, Err(ProviderError::Overflow(_))));
    assert_eq!(requests.len(), 1);
    let redirect = status("302 Found", "", "location: http://127.0.0.1:1/\r\n");
    assert!(matches!(
        ask(vec![redirect], true, true).result,
        Err(ProviderError::Status { status: 302, .. })
    ));
}

#[test]
fn nothing_is_replayed_after_visible_text() {
    let late = || {
        stream(
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"code\":503,\"message\":\"boom\"}}\n\n",
        )
    };
    let Asked { result, requests, .. } = ask(vec![late()], true, false);
    assert!(result.unwrap_err().to_string().contains("boom"));
    assert_eq!(requests.len(), 1);
}

#[test]
fn a_server_that_is_not_there_is_a_connect_error() {
    let error = played::runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let http = Http::new(&settings(port), HeaderMap::new()).unwrap();
        http.post("/x", HeaderMap::new(), Vec::new(), FIRST_BYTE)
            .await
            .unwrap_err()
    });
    assert!(
        matches!(&error, ProviderError::Connect { cause, .. } if cause.contains("refused")),
        "{error}"
    );
}

#[test]
fn a_key_does_not_travel_in_clear_text() {
    let mut settings = settings(1);
    settings.base_url = "http://example.org".into();
    let error = ChatCompletions::new(&settings)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("providers.test: ") && error.contains("allow_insecure_http"),
        "{error}"
    );
    settings.allow_insecure_http = true;
    assert!(ChatCompletions::new(&settings).is_ok());
}

#[test]
fn the_request_is_valid_json_with_every_kind_of_block() {
    let mut body = encode::Body::new(&settings(1));
    let image = ContentBlock::Image {
        mime_type: "image/png".into(),
        data_base64: "AA==".into(),
        sha256: None,
        source: None,
    };
    let messages = [
        Message::text(Role::System, "s"),
        Message {
            role: Role::User,
            content: vec![image, ContentBlock::Text { text: "see".into() }],
            usage: None,
        },
    ];
    let request = Request {
        epoch: 0,
        messages: &messages,
        tools: &[],
        may_call: true,
        nudge: None,
        buffered: true,
    };
    let value: Value = serde_json::from_slice(&body.render(&request)).unwrap();
    assert_eq!(
        value["messages"][1]["content"][0]["image_url"]["url"],
        "data:image/png;base64,AA=="
    );
}
