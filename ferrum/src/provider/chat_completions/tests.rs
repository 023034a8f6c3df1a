//! The adapter against a server that plays raw bytes.

use super::*;
use crate::agent::message::{ContentBlock, Message, Role};
use crate::provider::{Finish, ProviderKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with one connection.
#[derive(Clone)]
struct Play {
    head: String,
    pieces: Vec<Vec<u8>>,
    /// Keep the connection open after the last piece.
    hold: bool,
}

fn head(status: &str, media: &str, more: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\nconnection: close\r\n{more}\r\n")
}

fn stream(body: &str) -> Play {
    Play {
        head: head("200 OK", "text/event-stream", ""),
        pieces: vec![body.into()],
        hold: false,
    }
}

fn status(status: &str, body: &str, more: &str) -> Play {
    Play {
        head: head(status, "application/json", more),
        pieces: vec![body.into()],
        hold: false,
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "))
                .unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return text;
            }
        }
        let mut buffer = [0; 4096];
        let read = socket.read(&mut buffer).await.unwrap();
        assert!(read > 0, "request cut");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// Plays the answers in order; returns the requests.
async fn serve(listener: TcpListener, plays: Vec<Play>) -> Vec<String> {
    let mut requests = Vec::new();
    for play in plays {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        requests.push(read_request(&mut socket).await);
        socket.write_all(play.head.as_bytes()).await.unwrap();
        for piece in play.pieces {
            // The client may have seen its end already.
            let _ = socket.write_all(&piece).await;
            tokio::task::yield_now().await;
        }
        if play.hold {
            let mut rest = [0; 1];
            let _ = socket.read(&mut rest).await;
        }
    }
    requests
}

fn settings(port: u16) -> ProviderSettings {
    let base_url = format!("http://127.0.0.1:{port}/v1/");
    let mut settings = ProviderSettings::new("test", ProviderKind::OpenAiCompatible, &base_url, "m");
    settings.api_key = Some("key-0123456789".into());
    settings.headers = vec![("x-extra".into(), "1".into())];
    settings
}

type Asked = (Result<Completion, ProviderError>, Vec<String>, Vec<String>);

/// One request of the model loop: the result, the HTTP requests, the events.
fn ask(plays: Vec<Play>, streaming: bool, buffered: bool) -> Asked {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut settings = settings(port);
        settings.streaming = streaming;
        let mut chat = ChatCompletions::new(&settings).unwrap();
        let messages = [Message::text(Role::User, "go")];
        let request = Request {
            epoch: 0,
            messages: &messages,
            tools: &[],
            may_call: true,
            nudge: None,
            buffered,
        };
        let mut events = Vec::new();
        let mut on_event = |event: Event<'_>| {
            events.push(match event {
                Event::Text(text) => format!("text {text}"),
                Event::Thinking(text) => format!("thinking {text}"),
                Event::Retry { .. } => "retry".to_owned(),
            });
        };
        let asking = async {
            let result = chat.complete(request, &mut on_event).await;
            drop(chat);
            result
        };
        let (result, requests) = tokio::join!(asking, serve(listener, plays));
        (result, requests, events)
    })
}

fn text_of(result: Result<Completion, ProviderError>) -> String {
    result.unwrap().message.visible_text()
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
    let body = HELLO.as_bytes();
    let (whole, requests, events) = ask(vec![stream(HELLO)], true, false);
    let whole = whole.unwrap();
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
    for cut in 1..body.len() {
        let mut play = stream("");
        play.pieces = vec![body[..cut].to_vec(), body[cut..].to_vec()];
        assert_eq!(ask(vec![play], true, true).0.as_ref(), Ok(&whole), "cut at {cut}");
    }
    let mut bytewise = stream("");
    bytewise.pieces = body.chunks(1).map(<[u8]>::to_vec).collect();
    assert_eq!(ask(vec![bytewise], true, true).0, Ok(whole));
}

#[test]
fn an_answer_that_is_not_streamed_reads_the_same() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
    for streaming in [true, false] {
        let (result, requests, _) = ask(vec![status("200 OK", body, "")], streaming, true);
        assert_eq!(text_of(result), "Hi");
        assert!(requests[0].contains(&format!("\"stream\":{streaming}")));
    }
}

#[test]
fn the_end_marker_ends_the_answer_though_the_server_stays() {
    let mut play =
        stream("data: {\"choices\":[{\"delta\":{\"content\":\"ok\"}}]}\n\ndata: [DONE]\n\ndata: junk\n\n");
    play.hold = true;
    assert_eq!(text_of(ask(vec![play], true, true).0), "ok");
}

#[test]
fn a_finished_answer_does_not_wait_for_a_server_that_stays() {
    let mut play =
        stream("data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n");
    play.hold = true;
    assert_eq!(text_of(ask(vec![play], true, true).0), "ok");
}

#[test]
fn a_cut_stream_is_not_an_answer_and_not_replayed() {
    let play = stream("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n");
    let (result, requests, _) = ask(vec![play], true, true);
    assert!(matches!(result, Err(ProviderError::Incomplete(_))), "{result:?}");
    assert_eq!(requests.len(), 1);
}

#[test]
fn what_is_no_stream_is_named() {
    let page = Play {
        head: head("200 OK", "text/html", ""),
        pieces: vec![b"<html>".to_vec()],
        hold: false,
    };
    let error = ask(vec![page], true, true).0.unwrap_err().to_string();
    assert!(
        error.contains("text/html") && !error.contains("<html>"),
        "{error}"
    );
    let error = ask(vec![stream("data: error: engine died\n\n")], true, true)
        .0
        .unwrap_err()
        .to_string();
    assert!(error.contains("engine died"), "{error}");
}

#[test]
fn passing_failures_are_retried_and_final_ones_are_not() {
    let busy = || status("503 Busy", "{}", "retry-after: 0\r\n");
    let (result, requests, events) = ask(vec![busy(), busy(), stream(HELLO)], true, true);
    assert!(result.is_ok());
    assert_eq!((requests.len(), events), (3, vec!["retry".to_owned(); 2]));
    let (result, requests, _) = ask(vec![busy(), busy(), busy(), busy()], true, true);
    assert!(matches!(result, Err(ProviderError::Status { status: 503, .. })));
    assert_eq!(requests.len(), 4);
    let overflow = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let (result, requests, _) = ask(vec![status("400 Bad Request", overflow, "")], true, true);
    assert!(matches!(result, Err(ProviderError::Overflow(_))));
    assert_eq!(requests.len(), 1);
    let redirect = status("302 Found", "", "location: http://127.0.0.1:1/\r\n");
    assert!(matches!(
        ask(vec![redirect], true, true).0,
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
    let (result, requests, _) = ask(vec![late()], true, false);
    assert!(result.unwrap_err().to_string().contains("boom"));
    assert_eq!(requests.len(), 1);
}

#[test]
fn a_server_that_is_not_there_is_a_connect_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime.block_on(async {
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
