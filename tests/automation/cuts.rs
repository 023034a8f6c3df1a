//! A run that is cut: by signals, by the clock, by a reader who leaves or never reads.

use super::{LONG, Live, is_whole, lines, records, scene_with, wait};
use ferrum_tests::processes::{appeared, left_after};
use ferrum_tests::provider::{Answer, calls, says, stream_head, streamed};
use ferrum_tests::scene::{Scene, unique};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

const SIGNALS: [(Signal, i32, &str); 3] = [
    (Signal::SIGINT, 130, "cancelled"),
    (Signal::SIGTERM, 143, "terminated"),
    (Signal::SIGHUP, 143, "terminated"),
];

/// The first words of an answer, and then silence.
fn stalled() -> Answer {
    let words =
        json!({"choices": [{"index": 0, "delta": {"content": "first words"}, "finish_reason": null}]});
    Answer::Stall([stream_head(), format!("data: {words}\n\n").into_bytes()].concat())
}

fn sleeping(marker: &str) -> Answer {
    calls(&[
        ("bash", json!({"command": format!("sleep 300; : {marker}")})),
        ("bash", json!({"command": "true"})),
    ])
}

/// The session's last record says how the turn was cut, and no call is open.
#[track_caller]
fn is_interrupted(scene: &Scene, session: &str, reason: &str, phase: &str) {
    let records = records(scene, session);
    let last = records.last().expect("a record");
    assert_eq!(last["type"], "metadata");
    assert_eq!(last["interrupted"]["reason"], reason, "{last}");
    assert_eq!(last["interrupted"]["phase"], phase, "{last}");
    let count = |kind: &str| {
        let blocks = records
            .iter()
            .filter_map(|record| record["message"]["content"].as_array());
        blocks.flatten().filter(|block| block["type"] == kind).count()
    };
    assert_eq!(count("tool_use"), count("tool_result"), "{records:?}");
}

#[test]
fn a_signal_during_an_answer_ends_with_a_whole_stream_and_session() {
    for (signal, code, reason) in SIGNALS {
        let (scene, _provider) = scene_with(vec![stalled()]);
        let mut live = Live::start(&scene.ferrum(["-p", "x", "--output", "stream-json", "--session", "s"]));
        live.until("first words");
        live.signal(signal);
        let (status, out, err) = live.end();
        assert_eq!(status, Some(code), "{err}");
        let events = lines(&out);
        is_whole(&events, 1);
        let last = events.last().expect("a line");
        assert_eq!(
            (&last["reason"], &last["phase"]),
            (&json!(reason), &json!("model"))
        );
        is_interrupted(&scene, "s", reason, "model");
        assert_eq!(
            records(&scene, "s").last().expect("a record")["interrupted"]["partial"],
            "first words"
        );
    }
}

#[test]
fn a_signal_during_a_call_ends_what_the_call_started() {
    for (signal, code, reason) in SIGNALS {
        let marker = unique();
        let (scene, _provider) = scene_with(vec![sleeping(&marker)]);
        let mut live = Live::start(&scene.ferrum(["-p", "x", "--output", "stream-json", "--session", "s"]));
        live.until("tool_call");
        assert!(appeared(&marker, 1, LONG), "the command did not start");
        live.signal(signal);
        let (status, out, err) = live.end();
        assert_eq!(status, Some(code), "{err}");
        assert_eq!(left_after(&marker, Duration::from_secs(3)), Vec::<u32>::new());
        let events = lines(&out);
        is_whole(&events, 1);
        let results: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "tool_result")
            .collect();
        assert_eq!(results.len(), 1, "a call that never began was told: {results:?}");
        assert_eq!(results[0]["outcome"], "interrupted");
        assert_eq!(events.last().expect("a line")["phase"], "tool");
        is_interrupted(&scene, "s", reason, "tool");
    }
}

#[test]
fn a_signal_in_a_conversation_ends_it() {
    let (scene, _provider) = scene_with(vec![says("well"), stalled()]);
    let run = scene.ferrum(["--jsonl", "--session", "s"]).stdin("");
    let mut live = Live::start(&run);
    let mut stdin = live.child.stdin.take().expect("a pipe");
    let mut say = |text: &str| {
        use std::io::Write;
        writeln!(stdin, "{}", json!({"type": "message", "text": text})).expect("stdin takes it");
    };
    say("one");
    live.until("turn_end");
    say("two");
    live.until("first words");
    live.signal(Signal::SIGINT);
    let (status, out, _) = live.end();
    assert_eq!(status, Some(130));
    is_whole(&lines(&out), 2);
    // Between two turns there is no turn to interrupt.
    let mut live = Live::start(&run);
    let stdin = live.child.stdin.take();
    live.until("session");
    live.signal(Signal::SIGTERM);
    let (status, out, _) = live.end();
    drop(stdin);
    assert_eq!(status, Some(143));
    let last = lines(&out).pop().expect("a line");
    assert_eq!(
        (&last["type"], &last["kind"]),
        (&json!("error"), &json!("terminated"))
    );
}

#[test]
fn a_reader_who_leaves_ends_the_run_at_once() {
    for form in ["text", "stream-json"] {
        let marker = unique();
        let (scene, _provider) = scene_with(vec![sleeping(&marker)]);
        let mut child = scene
            .ferrum(["-p", "x", "--output", form, "--session", "s"])
            .command()
            .spawn()
            .expect("ferrum starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        if form == "stream-json" {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("a line");
        }
        assert!(appeared(&marker, 1, LONG), "the command did not start");
        drop(stdout);
        assert_eq!(wait(&mut child), Some(141));
        assert_eq!(left_after(&marker, Duration::from_secs(3)), Vec::<u32>::new());
        let mut err = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut err)
            .expect("stderr");
        for word in ["panicked", "Broken pipe", "closed"] {
            assert!(!err.contains(word), "{err}");
        }
        is_interrupted(&scene, "s", "output_closed", "tool");
    }
}

/// Ten megabytes for a reader who reads nothing: the turn waits, and a signal is still heard.
#[test]
fn a_reader_who_never_reads_does_not_keep_a_signal_from_being_obeyed() {
    let words = "x".repeat(50_000);
    let delta = json!({"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": null}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let mut chunks = vec![delta; 100];
    chunks.push(end);
    let (scene, provider) = scene_with(vec![streamed(&chunks)]);
    let mut child = scene
        .ferrum(["-p", "x", "--output", "stream-json"])
        .command()
        .spawn()
        .expect("ferrum starts");
    let asked = std::time::Instant::now();
    while provider.requests().is_empty() {
        assert!(asked.elapsed() < LONG, "no request came");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let code = loop {
        // One tells the turn to end, one that nobody is waited for.
        nix::sys::signal::kill(pid, Signal::SIGTERM).expect("the signal");
        std::thread::sleep(Duration::from_millis(300));
        if let Some(status) = child.try_wait().expect("its state") {
            break status.code();
        }
        assert!(asked.elapsed() < LONG, "it does not end");
    };
    assert!(matches!(code, Some(143 | 0)), "{code:?}");
}

/// A kill leaves no last record; the session is whole all the same when it is taken up again.
#[test]
fn a_killed_run_can_be_taken_up_again() {
    let marker = unique();
    let (scene, provider) = scene_with(vec![sleeping(&marker), says("well")]);
    let mut live = Live::start(&scene.ferrum(["-p", "x", "--output", "stream-json", "--session", "s"]));
    live.until("tool_call");
    assert!(appeared(&marker, 1, LONG), "the command did not start");
    live.signal(Signal::SIGKILL);
    let (_, out, _) = live.end();
    lines(&out);
    assert_eq!(left_after(&marker, Duration::from_secs(5)), Vec::<u32>::new());
    let output = scene.ferrum(["-p", "go on", "--session", "s"]).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    let request = provider.requests().pop().expect("a request");
    let messages = request.body["messages"].as_array().expect("messages").clone();
    let results: Vec<&Value> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .collect();
    assert_eq!(results.len(), 2, "{messages:?}");
    assert!(
        results[0]["content"].to_string().contains("unknown"),
        "{results:?}"
    );
}

/// Nobody reads, and nobody sends a signal: the time that was given still ends the program.
#[test]
fn a_reader_who_never_reads_does_not_outlast_the_time() {
    let long = "word ".repeat(1 << 16);
    let (scene, _provider) = scene_with(vec![says(&long)]);
    let mut run = scene.ferrum(["-p", "go", "--timeout", "2"]).command();
    let mut child = run
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ferrum starts");
    let status = child.wait().expect("it ends by itself");
    assert_eq!(status.code(), Some(3));
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
    assert!(said.contains("not read to its end"), "{said}");
}
