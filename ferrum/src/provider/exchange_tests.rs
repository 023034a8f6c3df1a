//! Deadlines, forms of bodies and connections, with the simplest of formats.

use super::super::played::{self, Play, answer, ask_as, chunked, stream};
use super::super::{Provider, ProviderKind, Request};
use super::*;
use crate::agent::message::{Message, Role};
use tokio::net::TcpListener;

const OK: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const WHOLE: &str = r#"{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}"#;

fn ask(play: Play) -> played::Asked {
    ask_as(ProviderKind::OpenAiCompatible, |_| {}, vec![play], true)
}

#[test]
fn the_form_is_told_by_the_bytes_and_not_by_the_label() {
    for media in [
        "text/event-stream; charset=utf-8",
        "application/json",
        "text/plain",
        "",
    ] {
        assert_eq!(ask(answer("200 OK", media, "", OK)).text(), "ok", "{media}");
        assert_eq!(ask(answer("200 OK", media, "", WHOLE)).text(), "ok", "{media}");
        // DeepSeek sends blank lines until the answer is there.
        let late = format!("\n\n\n{WHOLE}");
        assert_eq!(ask(answer("200 OK", media, "", &late)).text(), "ok", "{media}");
        let page = ask(answer("200 OK", media, "", "\n<html>secret page</html>")).error();
        assert!(
            page.contains("content type") && !page.contains("secret page"),
            "{page}"
        );
    }
    let error = ask(answer("200 OK", "text/plain", "", "Bad gateway\n")).error();
    assert!(error.contains("text/plain"), "{error}");
    let error = r#"{"error":{"message":"boom"}}"#;
    assert!(ask(stream(error)).error().contains("boom"));
}

#[test]
fn a_connection_serves_again() {
    let requests = played::runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut provider = Provider::new(played::settings(ProviderKind::OpenAiCompatible, port)).unwrap();
        let messages = [Message::text(Role::User, "go")];
        let asking = async {
            for _ in 0..3 {
                let request = Request {
                    epoch: 0,
                    messages: &messages,
                    tools: &[],
                    may_call: true,
                    nudge: None,
                    buffered: true,
                };
                assert!(provider.complete(request, &mut |_| {}).await.is_ok());
                // What a turn does between two requests.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // The server accepts one connection and no other.
        tokio::join!(asking, played::serve(listener, vec![chunked(OK); 3])).1
    });
    assert_eq!(requests.len(), 3);
}

/// How long a peer that goes on sending `again` every `every` seconds is waited for, in seconds
/// of a clock that the test moves.
fn waited_for(head: &'static str, again: &'static str, every: u64) -> (u64, ProviderError) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut provider = Provider::new(played::settings(ProviderKind::OpenAiCompatible, port)).unwrap();
        let messages = [Message::text(Role::User, "go")];
        let request = Request {
            epoch: 0,
            messages: &messages,
            tools: &[],
            may_call: true,
            nudge: None,
            buffered: true,
        };
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut socket, _) = listener.accept().await.unwrap();
            assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
            socket.write_all(head.as_bytes()).await.unwrap();
            loop {
                tokio::time::sleep(Duration::from_secs(every)).await;
                if socket.write_all(again.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let began = Instant::now();
        let error = provider.complete(request, &mut |_| {}).await.unwrap_err();
        (began.elapsed().as_secs(), error)
    })
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

#[test]
fn silence_and_comments_have_an_end() {
    let (seconds, error) = waited_for("", "", 1_000);
    assert_eq!(
        (seconds, error),
        (60, timed_out("answer", Duration::from_secs(60)))
    );
    let (seconds, error) = waited_for(HEAD, ": ping\n\n", 1_000);
    assert_eq!(
        (seconds, error),
        (90, timed_out("data of the answer", STREAM_IDLE))
    );
    for nothing in [": ping\n\n", "event: ping\n\n", "data:\n\n", "\n"] {
        let (seconds, error) = waited_for(HEAD, nothing, 50);
        assert_eq!(
            (seconds, error),
            (600, timed_out("event of the answer", NO_EVENT)),
            "{nothing:?}"
        );
    }
}

#[test]
fn a_stream_that_goes_on_is_not_cut_by_the_clock() {
    let (seconds, error) = waited_for(HEAD, "data: {\"choices\":[]}\n\n", 80);
    assert!(matches!(error, ProviderError::TooLarge(_)), "{error}");
    assert!(seconds > 100_000);
}

#[test]
fn a_request_can_be_dropped_at_any_byte() {
    let whole = format!("{HEAD}{OK}");
    for sent in 0..whole.len() {
        played::runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let mut provider = Provider::new(played::settings(ProviderKind::OpenAiCompatible, port)).unwrap();
            let messages = [Message::text(Role::User, "go")];
            let request = Request {
                epoch: 0,
                messages: &messages,
                tools: &[],
                may_call: true,
                nudge: None,
                buffered: false,
            };
            let (ready, mut there) = tokio::sync::oneshot::channel();
            let head = whole[..sent].to_owned();
            let peer = tokio::spawn(async move {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 4096];
                assert!(socket.read(&mut buffer).await.unwrap() > 0);
                socket.write_all(head.as_bytes()).await.unwrap();
                ready.send(()).unwrap();
                // The end of the connection: nobody holds on to a dropped request.
                while socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            });
            let mut ignore = |_: Event<'_>| {};
            tokio::select! {
                biased;
                answered = provider.complete(request, &mut ignore) => {
                    // All but the last line end is an answer already.
                    assert!(answered.is_ok(), "{sent}: {answered:?}");
                }
                _ = &mut there => {}
            }
            tokio::time::timeout(Duration::from_secs(20), peer)
                .await
                .expect("the connection ends")
                .unwrap();
        });
    }
}
