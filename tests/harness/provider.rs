//! A scripted server that speaks streaming Chat Completions, or whatever bytes a test wants.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// These bytes, then the connection ends.
    Bytes(Vec<u8>),
    /// These bytes, then silence.
    Stall(Vec<u8>),
}

/// A server with its script; requests beyond the script get the last answer again.
pub struct Provider {
    pub port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub head: String,
    pub body: Value,
    /// When its last byte was there.
    pub at: Instant,
}

impl Provider {
    /// # Panics
    /// When there is no loopback.
    #[must_use]
    pub fn start(script: Vec<Answer>) -> Self {
        let mut script: VecDeque<Answer> = script.into();
        Self::answering(move || {
            if script.len() > 1 {
                script.pop_front()
            } else {
                script.front().cloned()
            }
        })
    }

    /// A server that asks `next` for each answer, once the request is there: what `next` does
    /// happens between two steps of the turn.
    ///
    /// # Panics
    /// When there is no loopback.
    #[must_use]
    pub fn answering(mut next: impl FnMut() -> Option<Answer> + Send + 'static) -> Self {
        Self::choosing(move |_| next())
    }

    /// As [`Provider::answering`], with a look at the request.
    ///
    /// # Panics
    /// When there is no loopback.
    #[must_use]
    pub fn choosing(next: impl FnMut(&Request) -> Option<Answer> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let next = Arc::new(Mutex::new(next));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (seen, next) = (Arc::clone(&seen), Arc::clone(&next));
                std::thread::spawn(move || serve(stream, &seen, &*next));
            }
        });
        Self { port, requests }
    }

    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The requests so far.
    ///
    /// # Panics
    /// When a serving thread panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no serving thread panics").clone()
    }

    /// `config.toml` that names this server.
    #[must_use]
    pub fn config(&self) -> String {
        format!(
            "provider = \"mock\"\nmodel = \"m\"\n[providers.mock]\ntype = \"openai-compatible\"\n\
             base_url = \"{}\"\napi_key_env = \"OPENAI_API_KEY\"\n",
            self.base_url()
        )
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    next: &Mutex<impl FnMut(&Request) -> Option<Answer>>,
) {
    let Some(request) = read_request(&mut stream) else {
        return;
    };
    if let Ok(mut requests) = seen.lock() {
        requests.push(request.clone());
    }
    let answer = next.lock().ok().and_then(|mut next| next(&request));
    match answer {
        None => {}
        Some(Answer::Bytes(bytes)) => {
            let _ = stream.write_all(&bytes);
        }
        Some(Answer::Stall(bytes)) => {
            let _ = stream.write_all(&bytes);
            std::thread::sleep(Duration::from_secs(300));
        }
    }
}

/// Reads one request to its end; `None` when the peer leaves before.
pub fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65_536];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(Some(0), |(_, value)| value.trim().parse::<usize>().ok())?;
            if bytes.len() >= end + 4 + length {
                let body = serde_json::from_slice(&bytes[end + 4..end + 4 + length]).unwrap_or(Value::Null);
                return Some(Request {
                    head,
                    body,
                    at: Instant::now(),
                });
            }
        }
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

/// A whole answer of text.
#[must_use]
pub fn says(text: &str) -> Answer {
    streamed(&[
        delta(&json!({ "role": "assistant", "content": text })),
        finish("stop"),
    ])
}

/// A whole answer of tool calls: names with their arguments.
#[must_use]
pub fn calls(tools: &[(&str, Value)]) -> Answer {
    let list: Vec<Value> = tools
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            json!({
                "index": index,
                "id": format!("call_{index}_{}", crate::scene::unique()),
                "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() },
            })
        })
        .collect();
    streamed(&[
        delta(&json!({ "role": "assistant", "tool_calls": list })),
        finish("tool_calls"),
    ])
}

/// Any chunks as a stream with its usage and end.
#[must_use]
pub fn streamed(chunks: &[Value]) -> Answer {
    let usage = json!({
        "id": "c", "object": "chat.completion.chunk", "choices": [],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
    });
    let mut bytes = stream_head();
    for chunk in chunks.iter().chain([&usage]) {
        bytes.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
    }
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    Answer::Bytes(bytes)
}

/// The head of a stream's answer.
#[must_use]
pub fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec()
}

/// An answer with a status and a body.
#[must_use]
pub fn status(line: &str, body: &str) -> Answer {
    Answer::Bytes(
        format!(
            "HTTP/1.1 {line}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

fn delta(delta: &Value) -> Value {
    json!({ "id": "c", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn finish(reason: &str) -> Value {
    json!({ "id": "c", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}
