//! The command line: exit codes, and every kind of bad input with its message and its way out.

use ferrum_tests::provider::{Answer, Provider, calls, says, status, stream_head};
use ferrum_tests::run::{Output, Run};
use ferrum_tests::scene::Scene;
use ferrum_tests::who::{everyone, ordinary};
use serde_json::{Value, json};
use std::time::Duration;

fn scene() -> Scene {
    Scene::new(&ordinary())
}

/// A scene whose user configured the scripted server.
fn scene_with(script: Vec<Answer>) -> (Scene, Provider) {
    let scene = scene();
    let provider = Provider::start(script);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    (scene, provider)
}

fn print(scene: &Scene, words: &[&str]) -> Run {
    scene.ferrum(["-p"]).args(words)
}

#[track_caller]
fn expect(output: &Output, status: i32, words: &[&str]) {
    output.expect(status, &output.err(), words);
}

#[test]
fn tool_exit_codes_tell_ran_failed_and_refused_apart() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let code = |tool: &str, arguments: Value, options: &[&str]| {
            scene
                .ferrum(["tool", tool, &arguments.to_string()])
                .args(options)
                .output()
        };
        expect(&code("bash", json!({"command": "exit 7"}), &[]), 0, &[]);
        expect(&code("read", json!({"path": "README.md"}), &[]), 0, &[]);
        expect(&code("read", json!({"path": "absent"}), &[]), 1, &[]);
        expect(
            &code("write", json!({"path": ".git/config", "content": ""}), &[]),
            5,
            &[],
        );
        expect(&code("bash", json!({"command": "sudo true"}), &[]), 5, &[]);
        expect(
            &code("bash", json!({"command": "touch x"}), &["--safety", "high"]),
            5,
            &[],
        );
        expect(
            &code("read", json!({"path": "README.md"}), &["--safety", "extreme"]),
            2,
            &["extreme"],
        );
    }
}

#[test]
fn a_tool_call_prints_what_the_model_gets() {
    let scene = scene();
    let output = scene
        .ferrum(["tool", "bash", r#"{"command":"echo hello; echo oops >&2"}"#])
        .output();
    expect(&output, 0, &[]);
    let text = output.out();
    for line in [
        "outcome: exited",
        "status: Some(0)",
        "containment: ",
        "residual_descendants: false",
        "isolation: full",
    ] {
        assert!(text.contains(line), "{line} is missing: {text}");
    }
    assert!(text.contains("hello") && text.contains("oops"), "{text}");
}

#[test]
fn unknown_tools_and_malformed_arguments_are_usage_or_tool_errors() {
    let scene = scene();
    for arguments in [
        ["tool", "fly", "{}"],
        ["tool", "read", "not json"],
        ["tool", "read", "{}"],
        ["tool", "read", "{\"path\":1}"],
        ["tool", "read", "{\"path\":\"x\",\"y\":1}"],
    ] {
        let output = scene.ferrum(arguments).output();
        assert!(
            matches!(output.status, Some(1 | 2)),
            "{arguments:?}: {}",
            output.all()
        );
        assert!(
            !output.err().is_empty() || !output.out().is_empty(),
            "{arguments:?}: no message"
        );
    }
}

#[test]
fn a_broken_project_file_is_named_with_its_line() {
    let scene = scene();
    let file = scene.root().join(".ferrum/config.toml");
    for (text, word) in [
        ("safety = \n", "config.toml"),
        ("safety = \"medium\"\ncolour = 1\n", "colour"),
        ("[tools]\nwings = true\n", "wings"),
        ("safety = \"extreme\"\n", "extreme"),
        ("max_tool_rounds = -1\n", "max_tool_rounds"),
        ("provider = \"x\"\n", "provider"),
        ("[mcp]\nenabled = \"maybe\"\n", "enabled"),
        ("[[mcp.servers]]\nname = \"x\"\n", "mcp"),
    ] {
        scene.write(&file, text);
        let output = scene
            .ferrum(["tool", "bash", r#"{"command":"touch ran"}"#])
            .output();
        expect(&output, 2, &[word, ".ferrum/config.toml"]);
        assert!(!scene.root().join("ran").exists(), "{text:?}: the tool ran");
    }
}

#[test]
fn a_project_file_that_widens_is_an_error() {
    let scene = scene();
    let file = scene.root().join(".ferrum/config.toml");
    scene.write(
        &scene.config_dir().join("config.toml"),
        "[safety]\nceiling = \"medium\"\ntier = \"medium\"\n",
    );
    for (text, word) in [
        ("[tools]\nwritable_roots = [\"/\"]\n", "writable_roots"),
        ("[tools]\nwritable_roots = [\"..\"]\n", "writable_roots"),
    ] {
        scene.write(&file, text);
        let output = scene.ferrum(["tool", "bash", r#"{"command":"true"}"#]).output();
        expect(&output, 2, &[word]);
    }
}

#[test]
fn a_project_that_narrows_cannot_be_undone_by_the_command_line() {
    let scene = scene();
    scene.write(&scene.root().join(".ferrum/config.toml"), "safety = \"high\"\n");
    let output = scene
        .ferrum(["tool", "bash", r#"{"command":"true"}"#, "--safety", "low"])
        .output();
    expect(&output, 2, &["high"]);
    let ran = scene.tool("write", &json!({"path": "new", "content": "x"}), &[]);
    assert_eq!(ran.output.status, Some(5), "{}", ran.output.all());
    assert!(!scene.root().join("new").exists());
}

#[test]
fn odd_project_files_are_errors_and_not_no_file() {
    let scene = scene();
    let dir = scene.root().join(".ferrum");
    for make in [
        "mkdir -p .ferrum/config.toml",
        "mkdir .ferrum; ln -s ../README.md .ferrum/config.toml",
        "mkdir .ferrum; mkfifo .ferrum/config.toml",
        "mkdir .ferrum; head -c 2000000 /dev/zero | tr '\\0' '#' > .ferrum/config.toml",
        "mkdir .ferrum; printf 'safety = \"\\377\"\\n' > .ferrum/config.toml",
    ] {
        let made = scene.bash(make);
        assert_eq!(made.status, Some(0), "{}", made.all());
        let mut run = scene.ferrum(["tool", "bash", r#"{"command":"true"}"#]);
        run.deadline = Duration::from_secs(20);
        expect(&run.output(), 2, &["config.toml"]);
        std::fs::remove_dir_all(&dir).expect("the project directory goes");
    }
}

#[test]
fn a_broken_user_file_is_named() {
    let scene = scene();
    let file = scene.config_dir().join("config.toml");
    scene.write(&file, b"provider = \"\xff\"\n");
    expect(&print(&scene, &["x"]).output(), 2, &["config.toml", "UTF-8"]);
    scene.write(&file, "provider = \n");
    expect(&print(&scene, &["x"]).output(), 2, &["config.toml"]);
    scene.write(&file, "[safety]\nceiling = \"sky\"\n");
    expect(&print(&scene, &["x"]).output(), 2, &["config.toml", "ceiling"]);
    scene.write(&file, "provider = \"absent\"\nmodel = \"m\"\n");
    expect(&print(&scene, &["x"]).output(), 2, &["absent"]);
}

#[test]
fn a_root_that_does_not_exist_is_named() {
    let scene = scene();
    scene.write(
        &scene.config_dir().join("config.toml"),
        "[tools]\nwritable_roots = [\".\", \"absent-root\"]\n",
    );
    let output = scene.ferrum(["tool", "bash", r#"{"command":"true"}"#]).output();
    assert!(output.all().contains("absent-root"), "{}", output.all());
    assert!(matches!(output.status, Some(0 | 2)), "{}", output.all());
}

#[test]
fn an_answer_goes_to_standard_output_alone() {
    let (scene, provider) = scene_with(vec![says("forty-two")]);
    let output = print(&scene, &["what is it?"]).output();
    expect(&output, 0, &[]);
    assert_eq!(output.out().trim(), "forty-two");
    let requests = provider.requests();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0].head.contains("/v1/chat/completions"),
        "{}",
        requests[0].head
    );
    assert!(requests[0].body["messages"].to_string().contains("what is it?"));
    assert!(
        requests[0].body["tools"]
            .as_array()
            .is_some_and(|tools| tools.len() == 10),
        "{}",
        requests[0].body["tools"]
    );
}

#[test]
fn standard_input_is_the_prompt_or_follows_it() {
    let (scene, provider) = scene_with(vec![says("ok")]);
    expect(&print(&scene, &[]).stdin("from the pipe").output(), 0, &[]);
    expect(&print(&scene, &["review"]).stdin("fn main() {}").output(), 0, &[]);
    let requests = provider.requests();
    assert!(requests[0].body["messages"].to_string().contains("from the pipe"));
    let second = requests[1].body["messages"].to_string();
    assert!(
        second.contains("review") && second.contains("fn main()"),
        "{second}"
    );
    let empty = print(&scene, &[]).stdin("").output();
    assert_eq!(empty.status, Some(2), "{}", empty.all());
}

#[test]
fn tool_calls_run_and_their_results_go_back() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let provider = Provider::start(vec![
            calls(&[
                ("read", json!({"path": "README.md"})),
                ("write", json!({"path": "made.txt", "content": "by the model\n"})),
                ("bash", json!({"command": "cat made.txt"})),
                ("read", json!({"path": "../../.netrc"})),
                ("fly", json!({})),
            ]),
            says("done"),
        ]);
        scene.write(&scene.config_dir().join("config.toml"), provider.config());
        let output = print(&scene, &["go"]).output();
        expect(&output, 0, &[]);
        assert!(output.out().contains("done"), "{}", output.out());
        let made = std::fs::read_to_string(scene.root().join("made.txt")).expect("the file");
        assert_eq!(made, "by the model\n");
        let requests = provider.requests();
        let results: Vec<String> = requests[1].body["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].to_string())
            .collect();
        assert_eq!(results.len(), 5, "{results:?}");
        assert!(results[0].contains("first"), "{}", results[0]);
        assert!(results[2].contains("by the model"), "{}", results[2]);
        assert!(results[4].contains("does not exist"), "{}", results[4]);
        let all = format!("{}{}", output.all(), requests[1].body);
        assert!(!all.contains(&scene.secret), "a secret reached the provider");
    }
}

#[test]
fn no_tools_offers_none() {
    let (scene, provider) = scene_with(vec![says("ok")]);
    expect(&scene.ferrum(["--no-tools", "-p", "x"]).output(), 0, &[]);
    let tools = &provider.requests()[0].body["tools"];
    assert!(
        tools.is_null() || tools.as_array().is_some_and(Vec::is_empty),
        "{tools}"
    );
}

#[test]
fn a_server_that_refuses_stalls_cuts_or_sends_junk_is_an_error_with_a_message() {
    let junk = |body: &str| Answer::Bytes([stream_head(), body.as_bytes().to_vec()].concat());
    for (what, answer) in [
        (
            "a refusal",
            status("401 Unauthorized", r#"{"error":{"message":"bad key"}}"#),
        ),
        (
            "not found",
            status("404 Not Found", r#"{"error":{"message":"no such model"}}"#),
        ),
        (
            "junk for a head",
            Answer::Bytes(b"\x00\xffnot http\r\n\r\n".to_vec()),
        ),
        ("nothing at all", Answer::Bytes(Vec::new())),
        ("junk for events", junk("data: {not json\n\n")),
        (
            "a cut stream",
            junk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n"),
        ),
        ("a web page", status("200 OK", "<html>hello</html>")),
    ] {
        let (scene, _provider) = scene_with(vec![answer]);
        let output = print(&scene, &["x"]).output();
        assert!(!output.timed_out, "{what} hangs");
        assert_eq!(output.status, Some(1), "{what}: {}", output.all());
        assert!(!output.err().trim().is_empty(), "{what}: no message");
        assert!(
            !output.all().contains(&scene.secret),
            "{what}: the key is shown: {}",
            output.all()
        );
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let (scene, provider) = scene_with(vec![]);
    let address = format!("127.0.0.1:{}", provider.port);
    let config = provider.config().replace(&address, "127.0.0.1:1");
    scene.write(&scene.config_dir().join("config.toml"), config);
    expect(&print(&scene, &["x"]).output(), 1, &["127.0.0.1:1"]);
}

#[test]
fn an_interrupt_ends_a_stalled_answer() {
    let (scene, _provider) = scene_with(vec![Answer::Stall(stream_head())]);
    let run = print(&scene, &["x"]);
    for (signal, code) in [(nix::sys::signal::SIGINT, 130), (nix::sys::signal::SIGTERM, 143)] {
        let mut child = run.command().spawn().expect("ferrum starts");
        std::thread::sleep(Duration::from_millis(1500));
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        nix::sys::signal::kill(pid, signal).expect("the signal");
        let status = child.wait().expect("ferrum ends");
        assert_eq!(status.code(), Some(code));
    }
}

/// Wherever the answer stands, down to the middle of its head and of an event.
#[test]
fn an_interrupt_is_heard_at_any_byte_of_an_answer() {
    let Answer::Bytes(whole) = calls(&[("ls", serde_json::json!({ "path": "." }))]) else {
        panic!("an answer in bytes")
    };
    let head = stream_head().len();
    for sent in [0, 1, head - 1, head, head + 3, head + 40, whole.len() - 40] {
        let (scene, provider) = scene_with(vec![Answer::Stall(whole[..sent].to_vec())]);
        let mut child = print(&scene, &["x"]).command().spawn().expect("ferrum starts");
        while provider.requests().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("the signal");
        let status = child.wait().expect("ferrum ends");
        assert_eq!(status.code(), Some(130), "after {sent} bytes");
    }
}

#[test]
fn usage_errors_end_with_two() {
    let scene = scene();
    for arguments in [
        vec!["--no-such-option"],
        vec!["tool"],
        vec!["--safety", "nope", "-p", "x"],
    ] {
        expect(&scene.ferrum(&arguments).output(), 2, &[]);
    }
    for arguments in [["--version"], ["--help"]] {
        let output = scene.ferrum(arguments).output();
        expect(&output, 0, &[]);
        assert!(!output.out().is_empty());
    }
}

#[test]
fn doctor_says_what_is_in_force() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let output = scene.ferrum(["doctor", "--json"]).output();
        expect(&output, 0, &[]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
        assert!(report.to_string().contains("landlock"), "{report}");
        expect(&scene.ferrum(["doctor"]).output(), 0, &[]);
    }
}

#[test]
fn the_session_is_written_and_names_its_isolation() {
    let (scene, _provider) = scene_with(vec![calls(&[("ls", json!({"path": "."}))]), says("end")]);
    expect(&scene.ferrum(["--session", "kept", "-p", "x"]).output(), 0, &[]);
    let file = scene.data_dir().join("sessions/kept.jsonl");
    let text = std::fs::read_to_string(&file).expect("the session");
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(records[0]["type"], "header");
    assert!(records[0].to_string().contains("full"), "{}", records[0]);
    let roles: Vec<&str> = records
        .iter()
        .filter_map(|record| record["message"]["role"].as_str())
        .collect();
    assert_eq!(
        roles.iter().filter(|role| **role == "assistant").count(),
        2,
        "{roles:?}"
    );
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).expect("its mode").permissions());
    assert_eq!(mode & 0o777, 0o600);
}
