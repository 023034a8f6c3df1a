//! A server that plays given bytes: what a case's provider answers.

use crate::ground::Ground;
use crate::keys::Keys;
use ferrum_tests::provider::read_request;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// How the connection ends after an answer.
#[derive(Debug, Clone, Copy)]
enum End {
    Close,
    Reset,
    Hold,
}

#[derive(Debug, Clone)]
struct Answer {
    head: String,
    pieces: Vec<Vec<u8>>,
    end: End,
}

/// The answers in their order, and what follows them.
pub struct Script {
    answers: Vec<Answer>,
    repeat_first: bool,
    /// A short text in the case's wire format.
    after: Answer,
}

impl Script {
    /// # Errors
    /// A sentence that names the key.
    pub fn read(keys: &mut Keys, wire: &str, ground: &Ground) -> Result<Self, String> {
        let generated = keys
            .part("generate")?
            .map(|step| made(step, ground))
            .transpose()?;
        let answers = keys.tables("answers")?.ok_or("no answers")?;
        let answers = answers
            .into_iter()
            .map(|answer| one(answer, generated.as_deref(), ground));
        Ok(Self {
            answers: answers.collect::<Result<_, _>>()?,
            repeat_first: keys.flag("repeat_first")?.unwrap_or(false),
            after: after(wire),
        })
    }

    fn answer(&self, number: usize) -> &Answer {
        let first = self.answers.first().filter(|_| self.repeat_first);
        self.answers.get(number).or(first).unwrap_or(&self.after)
    }
}

/// What a line of shell prints: bodies that are too large for a file.
fn made(mut step: Keys, ground: &Ground) -> Result<Vec<u8>, String> {
    let script = step.text("sh")?.ok_or("generate has no sh")?;
    step.nothing_left("generate")?;
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &ground.fill(&script)])
        .current_dir(ground.copies())
        .output()
        .map_err(|e| format!("sh: {e}"))?;
    Ok(output.stdout)
}

fn one(mut keys: Keys, generated: Option<&[u8]>, ground: &Ground) -> Result<Answer, String> {
    let head = if keys.flag("raw")?.unwrap_or(false) {
        String::new()
    } else {
        head(&mut keys)?
    };
    let name = keys.text("body")?.ok_or("an answer without a body")?;
    let path = ground.copies().join(&name);
    let body = match generated {
        Some(bytes) => bytes.to_vec(),
        None if name == "generated" => return Err("nothing is generated".to_owned()),
        None => std::fs::read(&path).map_err(|e| format!("{name}: {e}"))?,
    };
    let end = match keys.text("end")?.as_deref() {
        None | Some("close") => End::Close,
        Some("reset") => End::Reset,
        Some("hold") => End::Hold,
        Some(other) => return Err(format!("the runner cannot express end {other}")),
    };
    let pieces = pieces(&body, &mut keys)?;
    keys.nothing_left("an answer")?;
    Ok(Answer { head, pieces, end })
}

fn head(keys: &mut Keys) -> Result<String, String> {
    let status = keys.whole("status")?.ok_or("an answer without a status")?;
    let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
    for (name, value) in keys.part("headers")?.unwrap_or_default().rest() {
        let value = value.as_str().ok_or("a header that is no text")?;
        head.push_str(&format!("{name}: {}\r\n", dated(value)));
    }
    Ok(head + "\r\n")
}

fn pieces(body: &[u8], keys: &mut Keys) -> Result<Vec<Vec<u8>>, String> {
    let cuts: Vec<usize> = match keys.take("chunks") {
        None => Vec::new(),
        Some(toml::Value::String(word)) if word == "each-byte" => (1..body.len()).collect(),
        Some(toml::Value::Array(offsets)) => {
            let offsets = offsets
                .iter()
                .map(|n| n.as_integer().and_then(|n| usize::try_from(n).ok()));
            offsets.collect::<Option<_>>().ok_or("chunks must be offsets")?
        }
        Some(other) => return Err(format!("the runner cannot express chunks {other}")),
    };
    let mut from = 0;
    let mut all = Vec::new();
    for cut in cuts.into_iter().chain([body.len()]) {
        let cut = cut.min(body.len());
        all.push(body.get(from..cut).ok_or("chunks must ascend")?.to_vec());
        from = cut;
    }
    Ok(all)
}

/// `{HTTP_DATE_NOW+n}`: the date in n seconds, counted from the next full one.
fn dated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{HTTP_DATE_NOW+") else {
        return text.to_owned();
    };
    let Some((seconds, after)) = rest.split_once('}') else {
        return text.to_owned();
    };
    let ahead = Duration::from_secs(seconds.parse().unwrap_or_default());
    format!(
        "{before}{}{after}",
        httpdate::fmt_http_date(SystemTime::now() + ahead)
    )
}

fn after(wire: &str) -> Answer {
    let body = match wire {
        "codex" => concat!(
            "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\",\"role\":\"assistant\",",
            "\"content\":[{\"type\":\"output_text\",\"text\":\"all done\"}]}}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
        ),
        "anthropic" => concat!(
            "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"all done\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n",
        ),
        _ => concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"all done\"},\"finish_reason\":\"stop\"}]}\n\n",
            "data: [DONE]\n\n",
        ),
    };
    Answer {
        head: "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned(),
        pieces: vec![body.as_bytes().to_vec()],
        end: End::Close,
    }
}

/// One request: when it was there, and its body.
type Request = (Instant, Value);

pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// # Panics
    /// When there is no loopback.
    pub fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, script) = (Arc::clone(&requests), Arc::new(script));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
                std::thread::spawn(move || serve(stream, &seen, &script));
            }
        });
        Self { port, requests }
    }

    pub fn times(&self) -> Vec<Instant> {
        let requests = self.requests.lock().expect("no serving thread panics");
        requests.iter().map(|(at, _)| *at).collect()
    }

    pub fn body(&self, number: usize) -> Value {
        let requests = self.requests.lock().expect("no serving thread panics");
        requests.get(number).map_or(Value::Null, |(_, body)| body.clone())
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Request>>, script: &Script) {
    let Some(request) = read_request(&mut stream) else {
        return;
    };
    let number = {
        let mut seen = seen.lock().expect("no serving thread panics");
        seen.push((request.at, request.body));
        seen.len() - 1
    };
    let answer = script.answer(number);
    let _ = stream.set_nodelay(true);
    let _ = stream.write_all(answer.head.as_bytes());
    for piece in &answer.pieces {
        // A client that has seen its end goes.
        if stream.write_all(piece).is_err() {
            return;
        }
        if answer.pieces.len() > 1 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    match answer.end {
        End::Close => {}
        End::Reset => reset(&stream),
        End::Hold => {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(120)));
            let _ = stream.read(&mut [0; 1]);
        }
    }
}

/// Closing with a linger of zero sends a reset instead of an end.
fn reset(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = nix::sys::socket::setsockopt(
        &std::os::fd::AsFd::as_fd(stream),
        nix::sys::socket::sockopt::Linger,
        &linger,
    );
}
