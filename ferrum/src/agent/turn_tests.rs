//! The loop with a scripted provider and a scripted host.

use super::*;
use crate::agent::message::{ContentBlock, close_pairs};
use crate::audit::chain::Keyed;
use crate::audit::{AuditLog, verify};
use crate::host::Cause;
use crate::host::client::ToolResult;
use crate::provider::fake::Fake;
use crate::session::log;
use crate::session::log::Log;
use crate::tools::catalog;
use ferrum_proto::reply::{Outcome, Refusal, Reply, Steering, Survey, Timings};
use ferrum_proto::request::ToolRequest;
use ferrum_proto::seal::{Granted, Ready, Selection};
use ferrum_proto::terms::{Containment, Isolation, Network, PathBytes, Require, Shell, Tier};
use serde_json::Value;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A host without a kernel: answers by the path or command that it is asked for.
pub(crate) struct ScriptedHost {
    pub(crate) granted: Granted,
    pub(crate) calls: RefCell<Vec<String>>,
    pub(crate) fail_ready: bool,
    pub(crate) survey: RefCell<Option<Survey>>,
}

pub(crate) fn granted(tools: &[&str]) -> Granted {
    Granted {
        tier: Tier::Medium,
        floor: Tier::Low,
        network: Network::Private,
        shell: Shell::Static,
        require: Require::Kernel,
        tools: tools.iter().map(|t| (*t).to_owned()).collect(),
        tools_removed: Vec::new(),
        cwd: PathBytes(b"/home/ada/tree".to_vec()),
        work_tree: None,
        writable_roots: vec![PathBytes(b"/home/ada/tree".to_vec())],
        readable_roots: Vec::new(),
        max_tool_rounds: 0,
        skills: Selection::default(),
        mcp_enabled: false,
        mcp: Selection::default(),
        project_files: Vec::new(),
        policies: Vec::new(),
        origins: Vec::new(),
        notices: Vec::new(),
        preflight: None,
    }
}

pub(crate) fn host(tools: &[&str]) -> ScriptedHost {
    ScriptedHost {
        granted: granted(tools),
        calls: RefCell::default(),
        fail_ready: false,
        survey: RefCell::default(),
    }
}

fn ready() -> Ready {
    Ready {
        isolation: Isolation::Full,
        network: Network::Private,
        shell: Shell::Static,
        containment: Containment::PidNamespace,
        walls: Vec::new(),
        promises: Vec::new(),
        view: Vec::new(),
        protected: Vec::new(),
        limits: Vec::new(),
        environment: Vec::new(),
        notices: Vec::new(),
        setup_us: 0,
    }
}

fn reply(outcome: Outcome) -> Reply {
    let timings = Timings::default();
    Reply {
        outcome,
        text_bytes: 0,
        denials: Vec::new(),
        command: None,
        changed: Vec::new(),
        timings,
    }
}

impl ToolHost for ScriptedHost {
    fn granted(&self) -> &Granted {
        &self.granted
    }

    async fn ready(&self) -> Result<Ready, Fault> {
        tokio::task::yield_now().await;
        if self.fail_ready {
            Err(Fault::NotStarted(Cause::Socket("no walls".into())))
        } else {
            Ok(ready())
        }
    }

    async fn survey(&self) -> Result<Survey, Fault> {
        Ok(self.survey.borrow_mut().take().unwrap_or_default())
    }

    async fn call(&self, request: ToolRequest, progress: &mut dyn FnMut(&str)) -> Result<ToolResult, Fault> {
        let what = match &request {
            ToolRequest::Read(read) => read.path.clone(),
            ToolRequest::Write(write) => write.path.clone(),
            ToolRequest::Bash(bash) => bash.command.clone(),
            other => other.tool().to_owned(),
        };
        self.calls.borrow_mut().push(format!("{} {what}", request.tool()));
        progress("alive");
        // The first of several finishes last.
        tokio::time::sleep(Duration::from_millis(if what == "slow" { 20 } else { 0 })).await;
        let (outcome, text) = match what.as_str() {
            "hang" => std::future::pending().await,
            "fault" => return Err(Fault::EffectUnknown(Cause::Socket("pipe closed".into()))),
            "refused" => {
                let message = "no".to_owned();
                let code = "privilege".to_owned();
                let refusal = Refusal {
                    code,
                    line: 0,
                    column: 0,
                    message,
                    hint: String::new(),
                };
                (Outcome::Refused(refusal), "refused by policy".to_owned())
            }
            "missing" => (Outcome::Failed, "no such file".to_owned()),
            other => (Outcome::Done, format!("result of {other} key-0123456789abcdef")),
        };
        Ok(ToolResult {
            reply: reply(outcome),
            text,
        })
    }
}

/// Keeps the events as words.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<String>,
    pub(crate) streams: bool,
}

impl Sink for Seen {
    fn streams(&self) -> bool {
        self.streams
    }

    fn record(&mut self, event: Event<'_>) {
        self.events.push(match event {
            Event::Session { ready, .. } => format!("session {}", ready.isolation.name()),
            Event::AssistantDelta(text) => format!("delta {text}"),
            Event::ThinkingDelta(text) => format!("thinks {text}"),
            Event::Assistant(message) => format!("says {}", message.visible_text()),
            Event::ToolCall(call) => format!("calls {} {}", call.id, call.name),
            Event::ToolResult { id, result, .. } => format!("{} {id}", result.outcome.word()),
            Event::Notice(text) => format!("notice {text}"),
            Event::Usage(_) => "usage".to_owned(),
            Event::Steering { survey, .. } => format!("steering {}", survey.files.len()),
            Event::Progress(_) | Event::TurnEnd(_) | Event::Interrupted(_) | Event::Error(_) => return,
        });
    }
}

/// Every call that was announced has one result after it.
fn paired(events: &[String]) -> bool {
    let mut open = Vec::new();
    for event in events {
        if let Some(call) = event.strip_prefix("calls ") {
            open.push(call.split(' ').next().unwrap_or_default().to_owned());
        } else if let Some((word, id)) = event.split_once(' ') {
            let results = [
                "done",
                "failed",
                "refused",
                "invalid",
                "not_started",
                "fault",
                "interrupted",
            ];
            if results.contains(&word) {
                let Some(at) = open.iter().position(|open| open == id) else {
                    return false;
                };
                open.remove(at);
            }
        }
    }
    open.is_empty()
}

fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse {
        id: id.into(),
        name: name.into(),
        input,
        invalid: None,
        extra_content: None,
    }
}

fn calls(blocks: Vec<ContentBlock>) -> Message {
    Message {
        role: Role::Assistant,
        content: blocks,
        usage: None,
    }
}

fn says(text: &str) -> Message {
    Message::text(Role::Assistant, text)
}

struct Ran {
    end: Result<End, TurnError>,
    messages: Vec<Message>,
    stored: Vec<Message>,
    seen: Vec<String>,
    steering: Vec<Value>,
    refused: u32,
}

impl Ran {
    fn results(&self) -> Vec<(String, bool)> {
        let blocks = self.messages.iter().flat_map(|m| &m.content);
        blocks
            .filter_map(|block| match block {
                ContentBlock::ToolResult {
                    content, is_error, ..
                } => Some((content.clone(), *is_error)),
                _ => None,
            })
            .collect()
    }
}

/// Runs one turn; with `cancel_after`, drops it then and completes the record.
fn run(host: &ScriptedHost, script: Vec<Message>, rounds_max: u32, cancel_after: Option<Duration>) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("s.jsonl");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut provider = Provider::scripted(Fake::playing(script));
    let mut conversation = Conversation::default();
    let redactor = Redactor::new(vec!["key-0123456789abcdef".into()]);
    let (mut sink, mut session) = (Seen::default(), None);
    let tools = catalog::exposed(&host.granted.tools);
    let open = |ready: Ready| {
        let keyed = Keyed::new(&[7; 32]);
        let audit = AuditLog::open(&dir.path().join("audit"), "s", keyed, Map::new())?;
        Ok(Session::new(Log::open(&path)?, audit, ready))
    };
    let mut turn = Turn {
        host,
        provider: &mut provider,
        conversation: &mut conversation,
        session: &mut session,
        open: &open,
        tools: &tools,
        redactor: &redactor,
        sink: &mut sink,
        rounds_max,
        state: State::default(),
    };
    let go = || Message::text(Role::User, "go");
    let end = runtime.block_on(async {
        match cancel_after {
            None => turn.run(go()).await,
            Some(after) => {
                let cut = tokio::time::timeout(after, turn.run(go())).await;
                assert!(cut.is_err(), "the turn ended by itself");
                let at = turn.interrupted(Reason::Cancelled).await.unwrap();
                assert_eq!(at.phase, "tool");
                Ok(End::Stopped("cancelled".into()))
            }
        }
    });
    runtime.block_on(turn.survey()).unwrap();
    let refused = turn.state.totals.refused;
    drop(session);
    let records = log::load(&path).map(|loaded| loaded.records).unwrap_or_default();
    let steering = records.iter().filter_map(|(_, r)| match &r.body {
        record::Body::Metadata(fields) => fields.get("steering").cloned(),
        _ => None,
    });
    let steering = steering.collect();
    let stored = record::conversation(records.into_iter().map(|(_, r)| r));
    assert_eq!(
        close_pairs(stored.clone(), "x"),
        stored,
        "every call has its result"
    );
    assert!(paired(&sink.events), "{:?}", sink.events);
    assert_eq!(
        logged(&dir.path().join("audit")),
        calls_of(&conversation.messages)
    );
    Ran {
        end,
        messages: conversation.messages,
        stored,
        seen: sink.events,
        steering,
        refused,
    }
}

/// Ids of the calls in the audit log, each of which has exactly one result behind it.
fn logged(dir: &Path) -> Vec<String> {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let each = |line: &[u8], _: &_| {
        let record: Value = serde_json::from_slice(line).unwrap();
        let id = || record["id"].as_str().unwrap_or_default().to_owned();
        match record["type"].as_str() {
            Some("call") => calls.push(id()),
            Some("result") => results.push(id()),
            _ => {}
        }
    };
    let Ok(checked) = verify::read(dir, "s", &Keyed::new(&[7; 32]), each) else {
        return Vec::new();
    };
    assert_eq!(checked.damage, None);
    let mut sorted = (calls.clone(), results);
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1);
    calls
}

fn calls_of(messages: &[Message]) -> Vec<String> {
    let calls = messages.iter().flat_map(Message::tool_uses);
    calls.map(|call| call.id.to_owned()).collect()
}

const ALL: [&str; 10] = [
    "read",
    "write",
    "edit",
    "bash",
    "wait",
    "grep",
    "find",
    "ls",
    "history_search",
    "history_read",
];

#[test]
fn a_turn_runs_its_calls_and_ends_with_the_answer() {
    let host = host(&ALL);
    let script = vec![
        calls(vec![
            ContentBlock::Text {
                text: "looking".into(),
            },
            call("1", "read", json!({"path": "slow"})),
            call("2", "read", json!({"path": "b"})),
            call("3", "write", json!({"path": "c", "content": ""})),
            call("4", "read", json!({"path": "d"})),
        ]),
        says("done"),
    ];
    let ran = run(&host, script, 0, None);
    assert_eq!(ran.end.as_ref().unwrap(), &End::Answered);
    assert_eq!(*host.calls.borrow(), ["read slow", "read b", "write c", "read d"]);
    let texts: Vec<String> = ran.results().into_iter().map(|(text, _)| text).collect();
    assert!(texts[0].starts_with("result of slow [redacted]") && texts[1].starts_with("result of b"));
    let first = [
        "session full",
        "delta looking",
        "says looking",
        "calls 1 read",
        "calls 2 read",
    ];
    assert_eq!(ran.seen[..5], first);
    assert_eq!(ran.seen[ran.seen.len() - 2..], ["delta done", "says done"]);
    assert_eq!(ran.stored, ran.messages);
}

#[test]
fn what_cannot_be_run_becomes_an_error_for_the_model() {
    let host = host(&["read", "bash"]);
    let mut broken = call("3", "read", json!({}));
    if let ContentBlock::ToolUse { invalid, .. } = &mut broken {
        *invalid = Some("arguments are not valid JSON".into());
    }
    let script = vec![
        calls(vec![
            call("1", "functions.read", json!({"path": "a"})),
            call("2", "write", json!({"path": "a", "content": ""})),
            broken,
            call("4", "read", json!({"file": "a"})),
            call("5", "bash", json!({"command": "refused"})),
            call("6", "bash", json!({"command": "fault"})),
        ]),
        says("done"),
    ];
    let ran = run(&host, script, 0, None);
    let results = ran.results();
    let expected = [
        "does not exist; there are: read bash",
        "not available under the current policy",
        "not valid JSON",
        "\"path\" is missing",
        "refused by policy",
        "whether the call took effect is unknown",
    ];
    for ((text, is_error), expected) in results.iter().zip(expected) {
        assert!(*is_error && text.contains(expected), "{text}");
    }
    assert_eq!(results.len(), 6);
    assert_eq!(ran.refused, 2);
    let outcomes: Vec<&str> = ran
        .seen
        .iter()
        .filter_map(|e| e.split_once(' '))
        .map(|(w, _)| w)
        .collect();
    for word in ["invalid", "refused", "fault"] {
        assert!(outcomes.contains(&word), "{outcomes:?}");
    }
    assert_eq!(*host.calls.borrow(), ["bash refused", "bash fault"]);
}

#[test]
fn the_round_limit_gives_one_last_answer() {
    let host = host(&ALL);
    let read = |n: u32| calls(vec![call(&n.to_string(), "read", json!({"path": n.to_string()}))]);
    let ran = run(&host, vec![read(1), read(2), read(3)], 2, None);
    assert!(matches!(&ran.end, Ok(End::Stopped(why)) if why.contains("max_tool_rounds")));
    assert_eq!(host.calls.borrow().len(), 2);
    assert!(ran.seen.last().unwrap().starts_with("says Stopped"));
}

#[test]
fn a_repeated_call_is_stopped() {
    let host = host(&ALL);
    let read = calls(vec![call("1", "read", json!({"path": "a"}))]);
    let ran = run(&host, vec![read; 20], 0, None);
    assert!(matches!(ran.end, Ok(End::Stopped(_))));
    assert_eq!(host.calls.borrow().len(), 7);
}

#[test]
fn an_interrupted_turn_is_a_valid_record() {
    let host = host(&ALL);
    let script = vec![calls(vec![
        call("1", "read", json!({"path": "a"})),
        call("2", "bash", json!({"command": "hang"})),
        call("3", "bash", json!({"command": "never"})),
    ])];
    let ran = run(&host, script, 0, Some(Duration::from_millis(50)));
    assert_eq!(*host.calls.borrow(), ["read a", "bash hang"]);
    let results = ran.results();
    assert!(!results[0].1 && results[1].1 && results[2].1, "{results:?}");
    assert!(results[1].0.contains("interrupted"));
    assert_eq!(ran.stored, ran.messages);
}

#[test]
fn history_tools_see_the_running_session() {
    let host = host(&ALL);
    let script = vec![
        calls(vec![call("1", "history_search", json!({"query": "GO"}))]),
        says("done"),
    ];
    let ran = run(&host, script, 0, None);
    assert!(ran.results()[0].0.contains("user: go"), "{:?}", ran.results());
}

#[test]
fn without_walls_nothing_is_asked_for_twice_and_nothing_runs() {
    let mut host = host(&ALL);
    host.fail_ready = true;
    let script = vec![calls(vec![call("1", "read", json!({"path": "a"}))])];
    let ran = run(&host, script, 0, None);
    assert!(matches!(ran.end, Err(TurnError::Host(_))));
    assert!(host.calls.borrow().is_empty());
}

#[test]
fn a_turn_that_acted_is_surveyed_once_and_that_is_recorded() {
    let touched = || Survey {
        files: vec![Steering {
            path: PathBytes(b"/home/ada/tree/AGENTS.md".to_vec()),
            kind: "agent".into(),
            created: true,
        }],
        more: 0,
        findings: vec!["put back x".into()],
    };
    for (tool, input, expected) in [
        ("bash", json!({"command": "x"}), vec!["steering 1".to_owned()]),
        ("read", json!({"path": "x"}), vec![]),
        // A command whose fate is unknown may have touched anything.
        ("bash", json!({"command": "fault"}), vec!["steering 1".to_owned()]),
    ] {
        let host = host(&["bash", "read"]);
        *host.survey.borrow_mut() = Some(touched());
        let ran = run(
            &host,
            vec![calls(vec![call("1", tool, input)]), says("done")],
            0,
            None,
        );
        let told: Vec<String> = ran
            .seen
            .into_iter()
            .filter(|event| event.starts_with("steering"))
            .collect();
        assert_eq!(told, expected, "{tool}");
        assert_eq!(ran.steering.len(), expected.len());
        if let Some(stored) = ran.steering.first() {
            assert_eq!(stored["files"][0]["kind"], "agent");
            assert_eq!(stored["findings"], json!(["put back x"]));
        }
    }
}
