//! `ferrum sessions`, and session files that are none.

use super::{records, scene_with};
use ferrum_tests::provider::{Provider, calls, says, streamed};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

fn sessions(scene: &Scene, arguments: &[&str]) -> Output {
    let mut run = scene.ferrum(["sessions"]).args(arguments);
    run.deadline = Duration::from_secs(20);
    run.output()
}

fn file(scene: &Scene, name: &str) -> PathBuf {
    scene.data_dir().join(format!("sessions/{name}.jsonl"))
}

/// Two sessions of one turn each, and nothing else.
fn two() -> Scene {
    let (scene, _provider) = scene_with(vec![calls(&[("ls", json!({"path": "."}))]), says("the answer")]);
    let old = file(&scene, "old");
    if old.exists() {
        std::fs::remove_file(old).expect("the scene's own session");
    }
    for (name, prompt) in [("a", "first ☃"), ("b", "second")] {
        let output = scene
            .ferrum(["-p", prompt, "--session", name, "--title", name])
            .output();
        assert_eq!(output.status, Some(0), "{}", output.all());
    }
    scene
}

#[test]
fn sessions_are_listed_shown_and_exported() {
    let scene = two();
    let listed = sessions(&scene, &["list", "--json"]);
    let rows: Vec<Value> = listed
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["session_id"].as_str()).collect();
    assert_eq!(ids, ["b", "a"], "the latest comes first");
    assert_eq!(
        (&rows[1]["first_message"], &rows[1]["mode"]),
        (&json!("first ☃"), &json!("print"))
    );
    assert_eq!(rows[1]["damaged"], false);
    let table = sessions(&scene, &["list"]);
    assert!(
        table.out().lines().count() == 2 && table.out().contains("print"),
        "{}",
        table.out()
    );
    let shown = sessions(&scene, &["show", "a"]);
    for word in ["> first ☃", "→ ls", "the answer"] {
        assert!(shown.out().contains(word), "{word}: {}", shown.out());
    }
    assert!(
        sessions(&scene, &["export", "a"])
            .out()
            .contains("## User\n\nfirst ☃\n")
    );
    let object: Value =
        serde_json::from_str(&sessions(&scene, &["export", "a", "--json"]).out()).expect("JSON");
    assert_eq!(object["session"]["session_id"], "a");
    assert_eq!(sessions(&scene, &["show", "absent"]).status, Some(2));
}

#[test]
fn check_tells_damage_from_what_a_crash_leaves() {
    let scene = two();
    assert_eq!(sessions(&scene, &["check"]).status, Some(0));
    let whole = std::fs::read(file(&scene, "a")).expect("the session");
    let expect = |bytes: Vec<u8>, code: i32, word: &str| {
        std::fs::write(file(&scene, "a"), &bytes).expect("written from outside");
        let output = sessions(&scene, &["check", "a"]);
        assert_eq!(output.status, Some(code), "{}", output.all());
        assert!(output.out().contains(word), "{word}: {}", output.out());
        let rows = sessions(&scene, &["check", "--json"]);
        assert!(
            rows.out()
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
        );
        assert_eq!(
            std::fs::read(file(&scene, "a")).expect("the session"),
            bytes,
            "check changed it"
        );
    };
    expect(whole[..whole.len() - 30].to_vec(), 0, "torn");
    expect([&whole[..], b"\0\0\0\0"].concat(), 0, "torn");
    let first = whole.iter().position(|&b| b == b'\n').expect("a line") + 1;
    expect(
        [&whole[..first], b"junk\n", &whole[first..]].concat(),
        1,
        "line 2",
    );
    expect(whole[first..].to_vec(), 1, "no header");
}

/// Several processes begin one session at the same time: one header, every answer, no damage.
#[test]
fn first_starts_at_once_write_one_header() {
    let (scene, _provider) = scene_with(vec![says("the answer")]);
    let start = |prompt: &str| {
        let run = scene.ferrum(["-p", prompt, "--session", "shared"]);
        let mut command = run.command();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("ferrum starts")
    };
    let all: Vec<Child> = (0..5).map(|n| start(&format!("prompt {n}"))).collect();
    for child in all {
        let output = child.wait_with_output().expect("its end");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let kinds = |kind: &str| {
        records(&scene, "shared")
            .iter()
            .filter(|record| record["type"] == kind)
            .count()
    };
    assert_eq!((kinds("header"), kinds("message")), (1, 10));
    let checked = sessions(&scene, &["check", "shared"]);
    assert_eq!(checked.status, Some(0), "{}", checked.all());
    let verified = scene.ferrum(["audit", "verify"]).output();
    assert_eq!(verified.status, Some(0), "{}", verified.all());
}

/// What `check` says of a file's end is what a start makes of it, before anybody is asked.
#[test]
fn an_end_that_no_writer_leaves_is_refused_before_a_request() {
    let scene = two();
    let provider = Provider::start(vec![says("never asked")]);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    let path = file(&scene, "a");
    let grown = std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("the session");
    grown.set_len(4 << 30).expect("a sparse tail");
    let checked = sessions(&scene, &["check", "a"]);
    assert_eq!(checked.status, Some(1), "{}", checked.all());
    let why = "ends in more than 16 MiB without a line end";
    assert!(checked.out().contains(why), "{}", checked.all());
    let output = scene.ferrum(["-p", "go on", "--session", "a"]).output();
    assert_eq!(output.status, Some(1), "{}", output.all());
    assert!(output.err().contains(why), "{}", output.err());
    assert_eq!(provider.requests().len(), 0);
}

#[test]
fn odd_session_files_are_named_and_left_alone() {
    let scene = two();
    for (what, make) in [
        ("a directory", "mkdir \"$1\""),
        ("a pipe", "mkfifo \"$1\""),
        ("a link", "ln -s /etc/hostname \"$1\""),
        ("4 GB of nothing", "truncate -s 4G \"$1\""),
        ("unreadable", ": > \"$1\"; chmod 0 \"$1\""),
        ("no session", "echo precious > \"$1\""),
    ] {
        let path = file(&scene, "odd");
        let bash = |script: &str| {
            let done = scene
                .run("/bin/bash")
                .args(["-c", script, "x", &path.display().to_string()])
                .output();
            assert_eq!(done.status, Some(0), "{what}: {}", done.all());
        };
        bash(make);
        let before = std::fs::symlink_metadata(&path).expect("made").len();
        let mut run = scene.ferrum(["-p", "go", "--session", "odd"]);
        run.deadline = Duration::from_secs(30);
        let output = run.output();
        assert_eq!(output.status, Some(1), "{what}: {}", output.all());
        assert!(output.err().contains("odd.jsonl"), "{what}: {}", output.err());
        let checked = sessions(&scene, &["check"]);
        assert_eq!(checked.status, Some(1), "{what}: {}", checked.all());
        assert!(
            checked.out().contains("odd: DAMAGED"),
            "{what}: {}",
            checked.out()
        );
        assert_eq!(sessions(&scene, &["list"]).status, Some(0), "{what}");
        assert_eq!(
            std::fs::symlink_metadata(&path).expect("still there").len(),
            before,
            "{what}"
        );
        bash("chmod 700 \"$1\" 2>/dev/null; rm -rf \"$1\"");
    }
}

/// The output limit cuts a message: none of its calls runs, and the next request is whole.
#[test]
fn calls_cut_by_the_output_limit_do_not_run_and_poison_nothing() {
    let call = json!({"index": 0, "id": "c1", "type": "function",
        "function": {"name": "write", "arguments": "{\"path\":\"ran\",\"content\":\"hal"}});
    let choice = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let cut = streamed(&[
        choice(json!({"role": "assistant", "tool_calls": [call]}), Value::Null),
        choice(json!({}), json!("length")),
    ]);
    let (scene, provider) = scene_with(vec![cut, says("well")]);
    let output = scene.ferrum(["-p", "go", "--session", "s"]).output();
    assert_eq!(output.status, Some(3), "{}", output.all());
    assert!(!scene.root().join("ran").exists());
    let output = scene.ferrum(["-p", "on", "--session", "s"]).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    let body = provider.requests().pop().expect("a request").body;
    for message in body["messages"].as_array().expect("messages") {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().expect("a text");
            assert!(
                serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()),
                "{body}"
            );
        }
    }
    let results = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|message| message["role"] == "tool");
    let calls = body["messages"].to_string().matches("\"tool_calls\"").count();
    assert_eq!(results.count(), calls, "{body}");
    assert!(!records(&scene, "s").is_empty());
}
