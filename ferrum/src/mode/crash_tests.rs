//! A law: whatever a run did, however it was cut, and wherever its session's file breaks off, what a
//! resume sends is a conversation in which every call has its one result, and one that each wire
//! format accepts.
#![expect(clippy::disallowed_methods, reason = "tests put files in place")]

use super::*;
use crate::agent::event::{Event, Reason, Sink};
use crate::agent::message::{ContentBlock, Role};
use crate::agent::redact::Redactor;
use crate::agent::turn::tests::host;
use crate::agent::turn::{Conversation, State, Turn};
use crate::provider::fake::Fake;
use crate::provider::histories::accepted_by_all;
use crate::tools::catalog;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Nobody looks.
struct Nobody;

impl Sink for Nobody {
    fn streams(&self) -> bool {
        false
    }
    fn record(&mut self, _: Event<'_>) {}
}

/// One call, of every kind of end: done, slow, failed, refused, a host that breaks, one that never
/// answers, a tool that does not exist, one that policy took away, arguments that are none.
fn call(kind: usize, id: usize) -> ContentBlock {
    let (name, input, invalid) = match kind {
        0 => ("read", json!({"path": "a"}), false),
        1 => ("read", json!({"path": "slow"}), false),
        2 => ("read", json!({"path": "missing"}), false),
        3 => ("bash", json!({"command": "refused"}), false),
        4 => ("bash", json!({"command": "fault"}), false),
        5 => ("bash", json!({"command": "hang"}), false),
        6 => ("fly", json!({}), false),
        7 => ("edit", json!({}), false),
        _ => ("read", json!({}), true),
    };
    ContentBlock::ToolUse {
        id: format!("call_{id}"),
        name: name.into(),
        input,
        invalid: invalid.then(|| "arguments are not valid JSON".to_owned()),
        extra_content: None,
    }
}

fn answer() -> impl Strategy<Value = Message> {
    let text = prop_oneof![Just(""), Just("looking ☃"), Just("\u{1}\"\n")];
    (text, proptest::collection::vec(0usize..9, 0..5)).prop_map(|(text, kinds)| {
        let text = ContentBlock::Text { text: text.into() };
        // Ids begin anew with each answer, as some providers' do.
        let calls = kinds.iter().enumerate().map(|(id, kind)| call(*kind, id));
        Message {
            role: Role::Assistant,
            content: std::iter::once(text).chain(calls).collect(),
            usage: None,
        }
    })
}

/// The bytes of the session after two turns, the last of which may be cut after so many milliseconds.
fn played(script: Vec<Message>, rounds_max: u32, cut: u64, dir: &Path) -> Vec<u8> {
    let path = dir.join("s.jsonl");
    let host = host(&["read", "bash"]);
    let opening = opening(&path, dir).0;
    let open = |ready: Ready| opening.open(&host.granted, ready);
    let mut provider = Provider::scripted(Fake::playing(script));
    let (mut conversation, mut session) = (Conversation::default(), None);
    let runtime = crate::mode::runtime().unwrap();
    for cut in [50, cut] {
        let mut turn = Turn {
            host: &host,
            provider: &mut provider,
            conversation: &mut conversation,
            session: &mut session,
            open: &open,
            tools: &catalog::exposed(&host.granted.tools),
            redactor: &Redactor::default(),
            sink: &mut Nobody,
            rounds_max,
            state: State::default(),
        };
        runtime.block_on(async {
            let user = Message::text(Role::User, "go");
            match tokio::time::timeout(Duration::from_millis(cut), turn.run(user)).await {
                Ok(ended) => turn.close(ended.unwrap().word()).await.unwrap(),
                Err(_) => drop(turn.interrupted(Reason::Timeout).await.unwrap()),
            }
        });
    }
    drop(session);
    fs::read(&path).unwrap()
}

fn opening(path: &Path, dir: &Path) -> (Opening, TakenUp) {
    let audit = Audit {
        directory: dir.join("audit"),
        keyed: Keyed::new(&[7; 32]),
    };
    Opening::new(path.to_owned(), Map::new(), audit).unwrap()
}

#[test]
fn a_foreign_file_is_no_session_however_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let open = |bytes: &[u8]| {
        let path = dir.path().join("s.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let audit = Audit {
            directory: dir.path().join("audit"),
            keyed: Keyed::new(&[7; 32]),
        };
        let opened = Opening::new(path.clone(), Map::new(), audit).is_ok();
        assert_eq!(std::fs::read(path).unwrap(), bytes);
        opened
    };
    assert!(!open(b"\x7fELF\n\x01\x02\n{\x03"));
    assert!(!open(b"notes\nmore"));
    // A first record that a crash cut.
    assert!(open(b"{\"record_type\":\"hea"));
    assert!(open(b""));
}

fn results(message: &Message) -> Vec<&str> {
    let ids = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
        _ => None,
    });
    ids.collect()
}

fn is_closed(messages: &[Message]) -> Result<(), TestCaseError> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            for id in results(message) {
                let at = open.iter().position(|open| *open == id);
                prop_assert!(at.is_some(), "a result without a call");
                open.remove(at.unwrap());
            }
        } else {
            prop_assert!(open.is_empty(), "a call without a result");
            prop_assert!(message.role != Role::System, "a system message from a file");
            open = message.tool_uses().map(|call| call.id).collect();
            let objects = message.tool_uses().all(|call| call.input.is_object());
            prop_assert!(objects, "arguments that are no object");
        }
    }
    prop_assert!(open.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_session_cut_at_any_byte_is_taken_up_whole(
        script in proptest::collection::vec(answer(), 1..6),
        rounds_max in 0u32..4,
        cut in 0u64..40,
        places in proptest::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let whole = played(script, rounds_max, cut, dir.path());
        let ends = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').flat_map(|(at, _)| [at, at + 1]);
        let torn = places.iter().map(|place| place.index(whole.len() + 1));
        let path = dir.path().join("cut.jsonl");
        let mut longest = 0;
        for end in ends.chain(torn) {
            fs::write(&path, &whole[..end]).unwrap();
            let (_, taken) = opening(&path, dir.path());
            is_closed(&taken.messages)?;
            let system = Message::text(Role::System, "be good");
            let next = Message::text(Role::User, "and now");
            accepted_by_all(&[vec![system], taken.messages.clone(), vec![next]].concat());
            // What was whole before the cut is still there.
            let lines = whole[..end].split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
            let kept = lines.filter(|line| line.starts_with(b"{\"type\":\"message\"")).count();
            prop_assert!(taken.messages.len() >= kept, "{} messages of {kept}", taken.messages.len());
            longest = longest.max(taken.messages.len());
        }
        prop_assert!(longest >= 2, "nothing was recorded");
    }
}
