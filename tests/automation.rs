//! What a program that drives Ferrum relies on: exit codes, the lines of stdout, and that a run
//! can be cut at any moment. See docs/AUTOMATION.md.

mod cuts;
mod forms;
mod input;
mod sessions;
mod stored;

use ferrum_tests::provider::{Answer, Provider};
use ferrum_tests::run::Run;
use ferrum_tests::scene::Scene;
use ferrum_tests::schema::Schema;
use ferrum_tests::who::ordinary;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Far beyond what anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A scene whose user configured the scripted server.
fn scene_with(script: Vec<Answer>) -> (Scene, Provider) {
    let scene = Scene::new(&ordinary());
    let provider = Provider::start(script);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    (scene, provider)
}

/// Every line of `text` as an object that fits the schema.
#[track_caller]
fn lines(text: &str) -> Vec<Value> {
    let schema = Schema::named("events.json");
    let mut events = Vec::new();
    for line in text.lines() {
        let event = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line:?}"));
        schema.expect(&event);
        events.push(event);
    }
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line has no end: {text:?}"
    );
    events
}

fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

/// The laws of the stream: the session comes first, each call has its one result, each turn one end.
#[track_caller]
fn is_whole(events: &[Value], turns: usize) {
    let first = events.first().map(kind);
    assert!(matches!(first, Some("session")), "begins with {first:?}");
    let mut open: Vec<&str> = Vec::new();
    let mut ends = 0;
    for event in events {
        let id = event["id"].as_str().unwrap_or_default();
        match kind(event) {
            "tool_call" => open.push(id),
            "tool_result" => {
                let at = open.iter().position(|open| *open == id);
                open.remove(at.unwrap_or_else(|| panic!("a result without a call: {event}")));
            }
            "turn_end" | "turn_interrupted" => {
                assert!(open.is_empty(), "calls without a result: {open:?}");
                ends += 1;
            }
            _ => {}
        }
    }
    assert_eq!(ends, turns, "ends of turns in {events:?}");
}

/// The records of a session file, each of which must be whole.
#[track_caller]
fn records(scene: &Scene, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(scene.data_dir().join(format!("sessions/{name}.jsonl")));
    let text = text.expect("the session");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a whole record"))
        .collect()
}

/// A running Ferrum whose stdout is read line by line.
struct Live {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Live {
    fn start(run: &Run) -> Self {
        let mut child = run.command().spawn().expect("ferrum starts");
        let lines = read_lines(child.stdout.take().expect("a pipe"));
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for a line that holds `word`.
    #[track_caller]
    fn until(&mut self, word: &str) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(word) {
                        return line;
                    }
                }
                Err(why) => panic!("{word:?} did not come ({why}): {:?}", self.seen),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("the signal");
    }

    /// Waits for the end; its code, everything on stdout, everything on stderr.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String, String) {
        let code = wait(&mut self.child);
        let rest = std::iter::from_fn(|| self.lines.recv_timeout(Duration::from_secs(1)).ok());
        self.seen.extend(rest);
        let mut err = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut err).expect("stderr");
        }
        (code, self.seen.concat(), err)
    }
}

#[track_caller]
fn wait(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(status) = child.try_wait().expect("the state of a child") {
            return status.code();
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("ferrum does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_lines(pipe: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    receiver
}
