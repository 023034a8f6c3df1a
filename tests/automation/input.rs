//! What goes in: the prompt, stdin, and messages as lines.

use super::{LONG, Live, is_whole, kind, lines, scene_with};
use ferrum_tests::processes::left_after;
use ferrum_tests::provider::{Provider, says, status};
use ferrum_tests::scene::Scene;
use ferrum_tests::who::ordinary;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

fn users(provider: &Provider, request: usize) -> Vec<String> {
    let body = &provider.requests()[request].body;
    let messages = body["messages"].as_array().expect("messages");
    let users = messages.iter().filter(|message| message["role"] == "user");
    users
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_prompt_is_never_a_command() {
    for prompt in ["/etc/hosts explain", "/quit", "!touch ran", "!!touch ran"] {
        let (scene, provider) = scene_with(vec![says("well")]);
        let output = scene.ferrum(["-p", prompt]).output();
        assert_eq!(output.status, Some(0), "{}", output.all());
        assert_eq!(users(&provider, 0).last().map(String::as_str), Some(prompt));
        assert!(!scene.root().join("ran").exists());
        assert!(!output.stdout.contains(&0x1b), "an escape byte on a pipe");
    }
}

#[test]
fn a_silent_stdin_is_named_after_two_seconds() {
    for (prompt, word) in [("hi", "belongs to the prompt"), ("", "the prompt")] {
        let (scene, provider) = scene_with(vec![says("well")]);
        let run = scene.ferrum(["-p", prompt, "--output", "json"]).stdin("");
        let mut child = run.command().spawn().expect("ferrum starts");
        let stdin = child.stdin.take();
        let mut told = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        stderr.read_line(&mut told).expect("a line");
        assert!(
            told.contains("waiting") && told.contains("stdin") && told.contains(word),
            "{told}"
        );
        assert_eq!(provider.requests().len(), 0);
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        nix::sys::signal::kill(pid, Signal::SIGINT).expect("the signal");
        assert_eq!(super::wait(&mut child), Some(130));
        drop(stdin);
    }
}

#[test]
fn a_prompt_that_is_no_text_is_named() {
    let (scene, provider) = scene_with(vec![says("well")]);
    let output = scene
        .ferrum(["-p", "review"])
        .stdin(b"caf\xe9\n".to_vec())
        .output();
    assert_eq!(output.status, Some(2), "{}", output.all());
    assert!(output.err().contains("UTF-8"), "{}", output.err());
    assert_eq!(provider.requests().len(), 0);
}

#[test]
fn without_a_prompt_and_a_terminal_the_way_is_named() {
    let scene = Scene::new(&ordinary());
    let output = scene.ferrum(Vec::<&str>::new()).stdin("hello\n").output();
    assert_eq!(output.status, Some(2), "{}", output.all());
    assert!(output.err().contains("ferrum -p"), "{}", output.err());
    assert_eq!(output.out(), "");
}

#[test]
fn options_that_do_not_go_together_are_usage_errors() {
    let scene = Scene::new(&ordinary());
    for arguments in [
        &["--jsonl", "-p", "x"][..],
        &["--jsonl", "--output", "json"],
        &["-p", "x", "--continue", "--session", "s"],
        &["-p", "x", "--resume", "s", "--session", "s"],
        &["-p", "x", "--continue", "--resume"],
        &["-p", "x", "--max-rounds", "0"],
        &["-p", "x", "--timeout", "0"],
        &["-p", "x", "--timeout", "soon"],
        &["-p", "x", "--output", "yaml"],
    ] {
        let output = scene.ferrum(arguments).output();
        assert_eq!(
            (output.status, output.out().as_str()),
            (Some(2), ""),
            "{arguments:?}: {}",
            output.err()
        );
    }
}

#[test]
fn a_conversation_goes_on_over_wrong_lines_and_failed_turns() {
    let (scene, provider) = scene_with(vec![says("one"), status("400 Bad Request", "{}"), says("three")]);
    let lines_in = [
        r#"{"type":"message","text":"first"}"#,
        "not json",
        r#"{"type":"message","text":7}"#,
        "",
        r#"{"type":"message","text":"second"}"#,
        r#"{"type":"order","text":"x"}"#,
        r#"{"type":"message","text":"third"}"#,
    ];
    let run = scene
        .ferrum(["--jsonl", "--session", "talk"])
        .stdin(lines_in.join("\n"));
    let output = run.output();
    let events = lines(&output.out());
    is_whole(&events, 2);
    let kinds: Vec<&str> = events
        .iter()
        .map(kind)
        .filter(|kind| ["turn_end", "error"].contains(kind))
        .collect();
    assert_eq!(
        kinds,
        ["turn_end", "error", "error", "error", "error", "turn_end"],
        "{}",
        output.all()
    );
    // The failed turn counts before the lines that were no messages.
    assert_eq!(output.status, Some(1), "{}", output.all());
    assert_eq!(users(&provider, 2), ["first", "second", "third"]);
}

/// A driver whose every line is broken does not end in success.
#[test]
fn lines_that_are_no_messages_are_no_success() {
    let (scene, _provider) = scene_with(vec![says("one")]);
    for (text, code) in [
        ("", 0),
        ("\n \n", 0),
        ("nonsense\n", 2),
        ("nonsense\n{\"type\":\"message\",\"text\":\"a\"}\n", 2),
        ("{\"type\":\"message\",\"text\":\"a\"}\n{\"type\":\"message\"", 2),
        ("{\"type\":\"message\",\"text\":\"a\"}\n", 0),
    ] {
        let output = scene.ferrum(["--jsonl"]).stdin(text).output();
        assert_eq!(output.status, Some(code), "{text:?}: {}", output.all());
    }
}

/// A driver waits for each end before it says more: nothing may be held back.
#[test]
fn a_conversation_is_answered_turn_by_turn() {
    let (scene, provider) = scene_with(vec![says("well")]);
    let mut live = Live::start(&scene.ferrum(["--jsonl"]).stdin(""));
    let mut stdin = live.child.stdin.take().expect("a pipe");
    let session = live.until("session");
    assert_eq!(
        serde_json::from_str::<Value>(&session).expect("JSON")["resumed"],
        false
    );
    for text in ["a", "b", "c"] {
        use std::io::Write;
        writeln!(stdin, "{}", json!({"type": "message", "text": text})).expect("stdin takes it");
        live.until("turn_end");
    }
    drop(stdin);
    let pid = live.child.id();
    let (status, out, err) = live.end();
    assert_eq!((status, err.as_str()), (Some(0), ""));
    is_whole(&lines(&out), 3);
    assert_eq!(users(&provider, 2), ["a", "b", "c"]);
    assert_eq!(
        left_after(&format!("ferrum-parent-{pid}"), LONG),
        Vec::<u32>::new()
    );
}

/// An answer that goes nowhere is no success, and is not asked for.
#[test]
fn a_stdout_that_is_closed_is_an_error_before_a_request() {
    let (scene, provider) = scene_with(vec![says("one")]);
    let ferrum = ferrum_tests::place::ferrum().display().to_string();
    let closed = |redirection: &str| {
        let script = format!("exec \"$0\" -p go {redirection} < /dev/null");
        scene.run("/bin/bash").args(["-c", &script, &ferrum]).output()
    };
    let output = closed(">&-");
    assert_eq!(output.status, Some(2), "{}", output.all());
    assert!(output.err().contains("stdout is closed"), "{}", output.err());
    assert_eq!(provider.requests().len(), 0);
    assert_eq!(closed("> /dev/null").status, Some(0));
}
