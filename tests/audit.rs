//! The audit log through the real programs: what is in it, how damage shows, and that nothing is
//! run that cannot be logged.

use ferrum_tests::processes::{appeared, children, left_after};
use ferrum_tests::provider::{Answer, Provider, calls, says};
use ferrum_tests::run::Output;
use ferrum_tests::scene::{Scene, unique};
use ferrum_tests::who::{everyone, ordinary};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

fn scene_with(script: Vec<Answer>) -> (Scene, Provider) {
    let scene = Scene::new(&ordinary());
    let provider = Provider::start(script);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    (scene, provider)
}

fn log(scene: &Scene, name: &str) -> PathBuf {
    scene.data_dir().join(format!("audit/{name}.jsonl"))
}

#[track_caller]
fn records(scene: &Scene, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log(scene, name)).expect("the log");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

#[track_caller]
fn verified(scene: &Scene, code: i32) -> Value {
    let output = scene.ferrum(["audit", "verify", "--json"]).output();
    assert_eq!(output.status, Some(code), "{}", output.all());
    serde_json::from_str(&output.out()).expect("one object")
}

fn print(scene: &Scene, arguments: &[&str]) -> Output {
    scene.ferrum(["-p", "go"]).args(arguments).output()
}

/// Type and outcome of each record.
fn kinds(kept: &[Value]) -> Vec<(&str, &str)> {
    kept.iter()
        .map(|record| {
            let word = |name: &str| record[name].as_str().unwrap_or("");
            (word("type"), word("outcome"))
        })
        .collect()
}

#[test]
fn every_request_verdict_and_outcome_is_logged_before_the_turn_ends() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let provider = Provider::start(vec![
            calls(&[
                ("read", json!({"path": "README.md"})),
                ("bash", json!({"command": format!("echo {}", scene.secret)})),
                ("bash", json!({"command": "sudo id"})),
                ("write", json!({"path": "new.txt", "content": "x".repeat(9_000)})),
                ("fly", json!({"to": "moon"})),
            ]),
            says("done"),
        ]);
        scene.write(&scene.config_dir().join("config.toml"), provider.config());
        let output = print(&scene, &["--session", "s"]);
        assert_eq!(output.status, Some(0), "{}", output.all());
        let records = records(&scene, "s");
        let kinds: Vec<&str> = records
            .iter()
            .filter_map(|record| record["type"].as_str())
            .collect();
        let all =
            |kind: &str| -> Vec<&Value> { records.iter().filter(|record| record["type"] == kind).collect() };
        assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("open", "turn"));
        assert_eq!(records[0]["isolation"]["effective"], "full");
        assert_eq!((all("call").len(), all("result").len()), (5, 5), "{kinds:?}");
        let verdicts: Vec<&str> = all("result")
            .iter()
            .filter_map(|r| r["verdict"].as_str())
            .collect();
        assert_eq!(
            verdicts,
            ["allowed", "allowed", "refused", "allowed", "not_asked"]
        );
        assert_eq!(all("result")[2]["rule"], "privilege");
        assert_eq!(all("result")[1]["command"]["status"], 0);
        assert_eq!(all("call")[3]["arguments"], Value::Null);
        assert!(
            all("call")[3]["arguments_sha256"]
                .as_str()
                .is_some_and(|digest| digest.len() == 64)
        );
        assert!(all("result")[3]["changed"].to_string().contains("new.txt"));
        let text = std::fs::read_to_string(log(&scene, "s")).expect("the log");
        assert!(!text.contains(&scene.secret), "a key is in the log");

        let mode = |path: PathBuf| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode(log(&scene, "s")), 0o600);
        assert_eq!(mode(scene.config_dir().join("audit.key")), 0o600);
        assert_eq!(verified(&scene, 0)["logs"][0]["records"], records.len());

        let shown = scene.ferrum(["audit", "show", "--denied"]).output();
        assert_eq!(shown.status, Some(0), "{}", shown.all());
        assert!(
            shown.out().contains("refused (privilege)") && shown.out().contains("sudo id"),
            "{}",
            shown.out()
        );
        assert!(!shown.out().contains("README.md"), "{}", shown.out());
        let none = scene.ferrum(["audit", "show", "--since", "2999-01-01"]).output();
        assert_eq!((none.status, none.out().as_str()), (Some(0), ""));
        let lines = scene
            .ferrum(["audit", "show", "--session", "s", "--json"])
            .output();
        assert!(
            lines
                .out()
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
        );
        assert_eq!(
            scene
                .ferrum(["audit", "show", "--session", "absent"])
                .output()
                .status,
            Some(2)
        );
    }
}

/// What the tools can reach holds neither the log nor its key.
#[test]
fn no_tool_reaches_log_or_key() {
    let (scene, _provider) = scene_with(vec![says("done")]);
    assert_eq!(print(&scene, &[]).status, Some(0));
    for file in [
        scene.config_dir().join("audit.key"),
        scene.data_dir().join("audit"),
    ] {
        for tier in ["low", "medium"] {
            let command = json!({"command": format!("cat {0}/* {0}; ls {0}", file.display())});
            let ran = scene.tool("bash", &command, &["--safety", tier, "--shell", "auto"]);
            let key = std::fs::read_to_string(scene.config_dir().join("audit.key")).expect("the key");
            assert!(!ran.output.all().contains(key.trim()), "{tier}");
            assert_ne!(ran.status(), Some(0), "{tier}: {}", ran.text());
        }
    }
}

#[test]
fn damage_is_found_and_named_with_exit_code_one() {
    let (scene, _provider) = scene_with(vec![calls(&[("ls", json!({"path": "."}))]), says("done")]);
    for session in ["a", "b"] {
        assert_eq!(print(&scene, &["--session", session]).status, Some(0));
    }
    verified(&scene, 0);
    let whole = std::fs::read_to_string(log(&scene, "a")).expect("the log");
    let lines: Vec<&str> = whole.lines().collect();
    let harm = |text: String, word: &str| {
        std::fs::write(log(&scene, "a"), text).expect("the log can be written from outside");
        let report = verified(&scene, 1);
        let damaged: Vec<&Value> = list(&report["logs"])
            .filter(|row| !row["damage"].is_null())
            .collect();
        assert_eq!(damaged.len(), 1, "{report}");
        assert_eq!(damaged[0]["log"], "a", "{report}");
        assert!(
            damaged[0]["damage"]["what"].to_string().contains(word),
            "{word}: {report}"
        );
        let output = scene.ferrum(["audit", "verify"]).output();
        assert!(output.out().contains("DAMAGED: record"), "{}", output.all());
        let shown = scene.ferrum(["audit", "show", "--session", "a"]).output();
        assert!(word == "gone" || shown.status == Some(1), "{}", shown.all());
    };
    harm(whole.replacen("\"ls\"", "\"rm\"", 1), "changed");
    harm(lines[..lines.len() - 1].join("\n") + "\n", "gone");
    harm(
        format!("{}\n{}\n{}", lines[1], lines[0], lines[2..].join("\n")),
        "missing",
    );
    std::fs::write(log(&scene, "a"), whole).expect("put back");
    verified(&scene, 0);
    std::fs::remove_file(log(&scene, "b")).expect("the log goes");
    let report = verified(&scene, 1);
    assert!(report.to_string().contains("is gone"), "{report}");
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[test]
fn a_kill_leaves_a_log_that_proves_what_was_asked() {
    let marker = unique();
    let (scene, _provider) = scene_with(vec![
        calls(&[("bash", json!({"command": format!("sleep 300; : {marker}")}))]),
        says("done"),
    ]);
    let mut child = scene
        .ferrum(["-p", "go", "--session", "s"])
        .command()
        .spawn()
        .expect("ferrum starts");
    assert!(
        appeared(&marker, 1, Duration::from_secs(60)),
        "the command did not start"
    );
    child.kill().expect("the kill");
    child.wait().expect("its end");
    assert_eq!(left_after(&marker, Duration::from_secs(5)), Vec::<u32>::new());
    let last = records(&scene, "s").pop().expect("a record");
    assert_eq!((&last["type"], &last["tool"]), (&json!("call"), &json!("bash")));
    verified(&scene, 0);
    let shown = scene.ferrum(["audit", "show"]).output();
    assert!(shown.out().contains("no result"), "{}", shown.out());
    // The same log is gone on with.
    assert_eq!(print(&scene, &["--session", "s"]).status, Some(0));
    let report = verified(&scene, 0);
    assert_eq!(list(&report["logs"]).count(), 1, "{report}");
}

#[test]
fn two_at_once_and_a_lost_host_are_logged() {
    let marker = unique();
    let command = format!("sleep 2; : {marker}");
    let (scene, _provider) = scene_with(vec![
        calls(&[("bash", json!({"command": command}))]),
        says("done"),
        says("done"),
    ]);
    let start = || {
        scene
            .ferrum(["-p", "go", "--session", "s"])
            .command()
            .spawn()
            .expect("ferrum starts")
    };
    let first = start();
    assert!(
        appeared(&marker, 1, Duration::from_secs(60)),
        "the command did not start"
    );
    // The first one's log is in use until its command has ended.
    let both = [start(), first];
    for child in both {
        let output = child.wait_with_output().expect("its end");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let report = verified(&scene, 0);
    let logs: Vec<&Value> = list(&report["logs"]).map(|row| &row["log"]).collect();
    assert_eq!(logs, ["s", "s~1"]);
}

/// A host that is killed in mid-call: the call's effect is unknown, the next one says that another
/// host answers, and the chain holds.
#[test]
fn a_host_that_is_killed_in_mid_call_is_in_the_log() {
    let marker = unique();
    let command = format!("sleep 300; : {marker}");
    let (scene, _provider) = scene_with(vec![
        calls(&[("bash", json!({"command": command}))]),
        calls(&[("ls", json!({"path": "."}))]),
        says("done"),
    ]);
    let mut run = scene.ferrum(["-p", "go", "--session", "s"]).command();
    let front = run.stdin(Stdio::null()).spawn().expect("ferrum starts");
    assert!(
        appeared(&marker, 1, Duration::from_secs(60)),
        "the command did not start"
    );
    for host in children(front.id()).into_iter().flat_map(children) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(host).expect("a pid"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("the kill");
    }
    let output = front.wait_with_output().expect("its end");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let kept = records(&scene, "s");
    assert_eq!(
        kinds(&kept),
        [
            ("open", ""),
            ("call", ""),
            ("result", "fault"),
            ("call", ""),
            ("host_restarted", ""),
            ("result", "done"),
            ("turn", "answered"),
        ]
    );
    assert_eq!(kept[2]["verdict"], "unknown");
    verified(&scene, 0);
    let shown = scene.ferrum(["audit", "show"]).output();
    assert!(
        shown.out().contains("the tool host was replaced"),
        "{}",
        shown.out()
    );
}

/// `ferrum tool` has no session: its calls share a log, before the act as well.
#[test]
fn single_calls_are_logged_too() {
    let scene = Scene::new(&ordinary());
    assert_eq!(scene.tool("ls", &json!({"path": "."}), &[]).outcome(), "done");
    let write = json!({"path": "../outside.txt", "content": scene.secret});
    assert_eq!(scene.tool("write", &write, &[]).outcome(), "refused");
    let kept = records(&scene, "@tool");
    assert_eq!(
        kinds(&kept),
        [
            ("open", ""),
            ("call", ""),
            ("result", "done"),
            ("open", ""),
            ("call", ""),
            ("result", "refused")
        ]
    );
    assert_eq!(kept[5]["rule"], "outside-root");
    assert!(!kept[4].to_string().contains(&scene.secret), "{}", kept[4]);
    verified(&scene, 0);
    let shown = scene
        .ferrum(["audit", "show", "--denied", "--session", "@tool"])
        .output();
    assert!(shown.out().contains("refused (outside-root)"), "{}", shown.out());
    // What cannot be logged is not run.
    std::fs::remove_file(log(&scene, "@tool")).expect("the log goes");
    std::fs::create_dir(log(&scene, "@tool")).expect("a directory in its place");
    let write = json!({"path": "new.txt", "content": "x"});
    let refused = scene.tool_run("write", &write, &[]).output();
    assert_eq!(refused.status, Some(1), "{}", refused.all());
    assert!(!scene.root().join("new.txt").exists());
}

/// Nothing is run that cannot be logged: where the log cannot grow, the turn stops before the act.
#[test]
fn a_full_disk_stops_the_turn_before_the_act() {
    let long = "x".repeat(3_500);
    let fill = calls(&vec![("read", json!({ "path": long })); 10]);
    let act = || calls(&[("write", json!({"path": "ran", "content": "x"}))]);
    let mut stopped = 0;
    for spare in 0..4 {
        let (scene, _provider) = scene_with(vec![fill.clone(), says("so far"), act(), says("done")]);
        // Eight failed calls in a row are enough for the loop guard.
        assert_eq!(print(&scene, &["--session", "s"]).status, Some(3));
        // The session is new and small; its log goes on.
        std::fs::remove_file(scene.data_dir().join("sessions/s.jsonl")).expect("the session goes");
        let kilobytes = std::fs::metadata(log(&scene, "s")).expect("the log").len() / 1024 + spare;
        let ferrum = ferrum_tests::place::ferrum();
        let script = format!(
            "ulimit -f {kilobytes}; exec '{}' -p go --session s",
            ferrum.display()
        );
        let output = scene.run("/bin/bash").args(["-c", &script]).output();
        let ran = scene.root().join("ran").exists();
        let asked = |record: &Value| record["type"] == "call" && record["arguments"]["path"] == "ran";
        if output.status == Some(1) {
            stopped += 1;
            assert!(output.err().contains("File too large"), "{}", output.err());
            assert!(output.err().contains("audit log"), "{}", output.err());
        } else {
            assert_eq!(output.status, Some(0), "{}", output.all());
        }
        // A record that was begun and cut is taken off again.
        let logged = records(&scene, "s").iter().any(asked);
        assert!(logged || !ran, "an act that is not in the log: {}", output.all());
        verified(&scene, 0);
    }
    assert!(stopped > 0, "no limit was small enough");
}

#[test]
fn odd_logs_stop_the_turn_at_once_and_are_left_alone() {
    let (scene, provider) = scene_with(vec![
        calls(&[("write", json!({"path": "ran", "content": "x"}))]),
        says("done"),
    ]);
    let key = scene.config_dir().join("audit.key").display().to_string();
    let script = "umask 077; mkdir -p \"${1%/*}\"; printf '%064d\\n' 7 > \"$1\"";
    let made = scene.run("/bin/bash").args(["-c", script, "make", &key]).output();
    assert_eq!(made.status, Some(0), "{}", made.all());
    for (what, make) in [
        ("a directory", "mkdir -p \"$1\""),
        ("a pipe", "mkfifo \"$1\""),
        ("a link", "ln -s /etc/hostname \"$1\""),
        ("no log", "echo precious > \"$1\""),
        ("4 GB of nothing", "truncate -s 4G \"$1\""),
        ("unreadable", ": > \"$1\"; chmod 0 \"$1\""),
    ] {
        let path = log(&scene, "s");
        let script = format!("mkdir -p \"${{1%/*}}\"; {make}");
        let made = scene
            .run("/bin/bash")
            .args(["-c", &script, "make", &path.display().to_string()])
            .output();
        assert_eq!(made.status, Some(0), "{what}: {}", made.all());
        let before = std::fs::symlink_metadata(&path).expect("made").len();
        let mut run = scene.ferrum(["-p", "go", "--session", "s"]);
        run.deadline = Duration::from_secs(20);
        let output = run.output();
        assert_eq!(output.status, Some(1), "{what}: {}", output.all());
        assert!(output.err().contains("s.jsonl"), "{what}: {}", output.err());
        assert!(!scene.root().join("ran").exists(), "{what}: the act was done");
        assert_eq!(
            std::fs::symlink_metadata(&path).expect("still there").len(),
            before,
            "{what}"
        );
        let mut run = scene.ferrum(["audit", "verify"]);
        run.deadline = Duration::from_secs(20);
        assert_eq!(run.output().status, Some(1), "{what}");
        let gone = scene.run("/bin/bash").args([
            "-c",
            "chmod 700 \"$1\"; rm -rf \"$1\"",
            "rm",
            &path.display().to_string(),
        ]);
        assert_eq!(gone.output().status, Some(0));
    }
    drop(provider);
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let (scene, _provider) = scene_with(vec![says("done")]);
    assert_eq!(print(&scene, &[]).status, Some(0));
    let key = scene.config_dir().join("audit.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    let output = print(&scene, &[]);
    assert_eq!(output.status, Some(1), "{}", output.all());
    assert!(
        output.err().contains("audit.key") && output.err().contains("chmod 600"),
        "{}",
        output.err()
    );
    std::fs::remove_file(&key).expect("the key goes");
    let output = scene.ferrum(["audit", "verify"]).output();
    assert_eq!(
        output.status,
        Some(1),
        "without the key nothing is proven: {}",
        output.all()
    );
    // A new key in its place would make whatever is found look whole, or everything changed.
    let output = print(&scene, &[]);
    assert_eq!(output.status, Some(1), "{}", output.all());
    assert!(
        output.err().contains("it is gone, and the audit log"),
        "{}",
        output.err()
    );
    assert!(!key.exists(), "no new key is made");
}
