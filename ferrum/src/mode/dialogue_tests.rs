//! The whole of print mode with a scripted host.

use super::*;
use crate::agent::message::{Message, Role};
use crate::agent::turn::tests::{ScriptedHost, host};
use crate::output::{Json, StreamJson, Text};
use crate::provider::fake::Fake;
use crate::provider::{ProviderKind, ProviderSettings};
use crate::session::{log, record};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

fn settings(kind: ProviderKind, base_url: &str) -> ProviderSettings {
    ProviderSettings::new("fake", kind, base_url, "fake")
}

fn fake() -> Provider {
    Provider::new(settings(ProviderKind::Fake, "")).unwrap()
}

/// What was written, for looking at afterwards.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
    Stream,
}

struct Played {
    ended: Result<(), Failure>,
    out: String,
    err: String,
}

fn play(
    host: &ScriptedHost,
    data: &Path,
    session: &str,
    provider: Provider,
    form: Form,
    budget: Budget,
) -> Played {
    let (out, err) = (Paper::default(), Paper::default());
    let outlet = Outlet::new(out.clone(), err.clone()).unwrap();
    let mut output = match form {
        Form::Text => Output::Text(Text::new(outlet.clone(), true)),
        Form::Json => Output::Json(Json::new(outlet.clone())),
        Form::Stream => Output::Stream(StreamJson::new(outlet.clone())),
    };
    let plan = Plan {
        provider,
        preface: Vec::new(),
        instructions: Vec::new(),
        untrusted: false,
        takes_images: true,
        which: Which::Session(session.into()),
        title: None,
        data: data.to_owned(),
        secrets: Vec::new(),
        audit: Keyed::new(&[7; 32]),
        budget,
    };
    let ended = crate::mode::runtime().unwrap().block_on(async {
        let mut signals = Signals::listen()?;
        let mut dialogue = Dialogue::new(host, plan, outlet.clone(), &mut output)?;
        let ended = dialogue
            .turn(Message::text(Role::User, "hello"), &mut signals)
            .await;
        outlet.drained().await.unwrap();
        ended
    });
    Played {
        ended,
        out: out.text(),
        err: err.text(),
    }
}

const ALL: [&str; 8] = ["read", "write", "edit", "bash", "wait", "grep", "find", "ls"];

fn records(data: &Path, session: &str) -> Vec<record::Record> {
    let path = data.join(format!("sessions/{session}.jsonl"));
    let records = log::load(&path).unwrap().records;
    records.into_iter().map(|(_, record)| record).collect()
}

#[test]
fn the_tour_answers_on_stdout_and_works_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(&ALL);
    let played = play(&host, dir.path(), "tour", fake(), Form::Text, Budget::default());
    assert_eq!(played.ended, Ok(()), "{}", played.err);
    let (answers, rest) = (played.out, played.err);
    assert!(
        answers.contains("tour") && answers.contains("What happened"),
        "{answers}"
    );
    assert!(rest.contains("→ bash\n  command: sudo id"), "{rest}");
    assert!(!answers.contains("→"));

    let first = records(dir.path(), "tour");
    let record::Body::Header(header) = &first[0].body else {
        panic!("no header")
    };
    assert_eq!(header["isolation"]["requested"], "kernel");
    assert_eq!(header["isolation"]["effective"], "full");
    assert_eq!(
        (&header["mode"], &header["safety"]),
        (&json!("print"), &json!("medium"))
    );

    // Taken up again: one header, twice the turns.
    play(&host, dir.path(), "tour", fake(), Form::Text, Budget::default());
    let again = records(dir.path(), "tour");
    let headers = again.iter().filter(|r| matches!(r.body, record::Body::Header(_)));
    assert_eq!(headers.count(), 1);
    assert!(again.len() > 2 * first.len() - 2);
}

#[test]
fn failures_have_their_exit_codes_and_keep_the_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(&ALL);
    let code = |played: &Played| played.ended.as_ref().unwrap_err().kind.code();
    let played = play(&host, dir.path(), "../x", fake(), Form::Text, Budget::default());
    assert_eq!(code(&played), 2);
    let nowhere = Provider::new(settings(ProviderKind::OpenAiCompatible, "http://127.0.0.1:1/v1")).unwrap();
    let played = play(&host, dir.path(), "b", nowhere, Form::Json, Budget::default());
    assert_eq!(code(&played), 1);
    let object: Value = serde_json::from_str(&played.out).unwrap();
    assert_eq!(
        (&object["outcome"], &object["exit_code"]),
        (&json!("error"), &json!(1))
    );
    let messages = record::conversation(records(dir.path(), "b"));
    assert_eq!(messages, [Message::text(Role::User, "hello")]);
}

#[test]
fn an_answer_is_not_enough_where_denials_fail() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(&["read"]);
    let script = || {
        let call = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "ls"}}]});
        let call = serde_json::from_value(call).unwrap();
        Provider::scripted(Fake::playing(vec![
            call,
            Message::text(Role::Assistant, "so be it"),
        ]))
    };
    let strict = Budget {
        fail_on_denial: true,
        ..Budget::default()
    };
    let lax = play(&host, dir.path(), "a", script(), Form::Json, Budget::default());
    assert_eq!(lax.ended, Ok(()));
    let failed = play(&host, dir.path(), "b", script(), Form::Json, strict);
    assert_eq!(failed.ended.unwrap_err().kind, Kind::Denied);
    let object: Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!(object["outcome"], "answered");
    assert_eq!(object["answer"], "so be it");
    assert_eq!(object["exit_code"], 5);
    assert_eq!(object["refusals"][0]["tool"], "bash");
    assert_eq!(object["refusals"][0]["code"], "tool-not-available");
}

#[test]
fn the_stream_begins_with_the_session_and_ends_with_the_turn() {
    let dir = tempfile::tempdir().unwrap();
    let played = play(
        &host(&ALL),
        dir.path(),
        "s",
        fake(),
        Form::Stream,
        Budget::default(),
    );
    let events: Vec<Value> = played
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["type"], "session");
    assert_eq!(events[0]["session_id"], "s");
    assert_eq!(events.last().unwrap()["type"], "turn_end");
    assert_eq!(played.err, "");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    for kind in ["assistant_delta", "tool_call", "tool_result"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn out_of_time_gives_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let call = json!({"role": "assistant", "content": [{"type": "text", "text": "so far"},
        {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "hang"}}]});
    let provider = Provider::scripted(Fake::playing(vec![serde_json::from_value(call).unwrap()]));
    let short = Budget {
        time: Some(Duration::from_millis(50)),
        ..Budget::default()
    };
    let played = play(&host(&ALL), dir.path(), "t", provider, Form::Json, short);
    assert_eq!(played.ended.unwrap_err().kind, Kind::Budget);
    let object: Value = serde_json::from_str(&played.out).unwrap();
    assert_eq!(object["why"], "timeout in phase tool");
    assert_eq!(
        (&object["answer"], &object["exit_code"]),
        (&json!("so far"), &json!(3))
    );
    let last = records(dir.path(), "t").pop().unwrap();
    let record::Body::Metadata(fields) = last.body else {
        panic!("{last:?}")
    };
    assert_eq!(
        fields["interrupted"],
        json!({"reason": "timeout", "phase": "tool"})
    );
}

#[test]
fn a_reader_who_leaves_ends_the_turn() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(libc::EPIPE))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let call = json!({"role": "assistant", "content": [{"type": "text", "text": "hello?"},
        {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "hang"}}]});
    let provider = Provider::scripted(Fake::playing(vec![serde_json::from_value(call).unwrap()]));
    let outlet = Outlet::new(Closed, io::sink()).unwrap();
    let mut output = Output::Text(Text::new(outlet.clone(), false));
    let plan = Plan {
        provider,
        preface: Vec::new(),
        instructions: Vec::new(),
        untrusted: false,
        takes_images: true,
        which: Which::Session("gone".into()),
        title: None,
        data: dir.path().to_owned(),
        secrets: Vec::new(),
        audit: Keyed::new(&[7; 32]),
        budget: Budget::default(),
    };
    let host = host(&ALL);
    let ended = crate::mode::runtime().unwrap().block_on(async {
        let mut signals = Signals::listen()?;
        let mut dialogue = Dialogue::new(&host, plan, outlet.clone(), &mut output)?;
        dialogue
            .turn(Message::text(Role::User, "hello"), &mut signals)
            .await
    });
    assert_eq!(ended.unwrap_err().kind, Kind::OutputClosed);
    let messages = record::conversation(records(dir.path(), "gone"));
    assert_eq!(messages.last().unwrap().role, Role::Tool);
}
