//! For tests: adapters against a server that plays raw bytes, and against bytes alone.

use super::exchange::{Assembly, pieces};
use super::{Completion, Event, Provider, ProviderError, ProviderKind, ProviderSettings, Request};
use crate::agent::message::{Message, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with one request.
#[derive(Clone)]
pub(super) struct Play {
    pub(super) head: String,
    pub(super) pieces: Vec<Vec<u8>>,
    /// Keep the connection open after the last piece.
    pub(super) hold: bool,
    /// The connection serves the next request too.
    pub(super) reuse: bool,
}

pub(super) fn answer(status: &str, media: &str, more: &str, body: &str) -> Play {
    Play {
        head: format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\nconnection: close\r\n{more}\r\n"),
        pieces: vec![body.into()],
        hold: false,
        reuse: false,
    }
}

pub(super) fn stream(body: &str) -> Play {
    answer("200 OK", "text/event-stream", "", body)
}

/// A stream in HTTP's chunked encoding, on a connection that stays.
pub(super) fn chunked(body: &str) -> Play {
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    Play {
        head: "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .into(),
        pieces: vec![chunk.into(), b"0\r\n\r\n".to_vec()],
        hold: false,
        reuse: true,
    }
}

pub(super) fn status(status: &str, body: &str, more: &str) -> Play {
    answer(status, "application/json", more, body)
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse::<usize>().unwrap()) {
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
pub(super) async fn serve(listener: TcpListener, plays: Vec<Play>) -> Vec<String> {
    let mut requests = Vec::new();
    let mut kept: Option<TcpStream> = None;
    for play in plays {
        let mut socket = match kept.take() {
            Some(socket) => socket,
            None => listener.accept().await.unwrap().0,
        };
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
        kept = play.reuse.then_some(socket);
    }
    requests
}

/// The settings of a provider of this kind on that port.
pub(super) fn settings(kind: ProviderKind, port: u16) -> ProviderSettings {
    let base_url = format!("http://127.0.0.1:{port}/v1/");
    let mut settings = ProviderSettings::new("test", kind, &base_url, "m");
    settings.api_key = Some("key-0123456789".into());
    settings.headers = vec![("x-extra".into(), "1".into())];
    settings
}

/// What came of one request of the model loop.
pub(super) struct Asked {
    pub(super) result: Result<Completion, ProviderError>,
    /// The HTTP requests.
    pub(super) requests: Vec<String>,
    pub(super) events: Vec<String>,
}

impl Asked {
    pub(super) fn text(self) -> String {
        self.result.unwrap().message.visible_text()
    }

    pub(super) fn error(self) -> String {
        self.result.unwrap_err().to_string()
    }
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Asks once, with settings that `change` has seen.
pub(super) fn ask_as(
    kind: ProviderKind,
    change: impl FnOnce(&mut ProviderSettings),
    plays: Vec<Play>,
    buffered: bool,
) -> Asked {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings(kind, listener.local_addr().unwrap().port());
        change(&mut settings);
        let mut provider = Provider::new(settings).unwrap();
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
        let mut on_event = |event: Event<'_>| events.push(word(event));
        let asking = async {
            let result = provider.complete(request, &mut on_event).await;
            drop(provider);
            result
        };
        let (result, requests) = tokio::join!(asking, serve(listener, plays));
        Asked {
            result,
            requests,
            events,
        }
    })
}

pub(super) fn word(event: Event<'_>) -> String {
    match event {
        Event::Text(text) => format!("text {text}"),
        Event::Thinking(text) => format!("thinking {text}"),
        Event::Retry { .. } => "retry".to_owned(),
    }
}

/// Reads a body that comes in the given pieces, without a network.
pub(super) fn read<A: Assembly>(answer: A, bytes: &[&[u8]]) -> Result<Completion, ProviderError> {
    pieces(answer, bytes, &mut |_| {})
}

/// Reads the body whole, cut in two at every byte, and byte by byte; all must mean the same.
pub(super) fn cut_everywhere<A: Assembly>(new: impl Fn() -> A, body: &str) -> Completion {
    let bytes = body.as_bytes();
    let whole = read(new(), &[bytes]).unwrap();
    for cut in 1..bytes.len() {
        let (a, b) = bytes.split_at(cut);
        assert_eq!(read(new(), &[a, b]).as_ref(), Ok(&whole), "cut at {cut}");
    }
    let each: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(new(), &each).as_ref(), Ok(&whole));
    whole
}
