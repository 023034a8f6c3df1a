//! Exit codes and the forms of output, end by end.

use super::{is_whole, kind, lines, scene_with};
use ferrum_tests::not_tried;
use ferrum_tests::provider::{Answer, Provider, calls, says, status, stream_head, streamed};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::{everyone, ordinary};
use serde_json::{Value, json};

const FORMS: [&str; 3] = ["text", "json", "stream-json"];

/// One way for a run to end.
struct Way {
    what: &'static str,
    script: Vec<Answer>,
    arguments: &'static [&'static str],
    code: i32,
    /// `outcome` of the object that `json` prints.
    outcome: &'static str,
}

fn ways() -> Vec<Way> {
    let way = |what, script, arguments, code, outcome| Way {
        what,
        script,
        arguments,
        code,
        outcome,
    };
    let sudo = || calls(&[("bash", json!({"command": "sudo id"}))]);
    let sleep = || calls(&[("bash", json!({"command": "sleep 60"}))]);
    let ls = || calls(&[("ls", json!({"path": "."}))]);
    let cut = || {
        let choice = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        streamed(&[
            choice(
                json!({"role": "assistant", "content": "half an ans"}),
                Value::Null,
            ),
            choice(json!({}), json!("length")),
        ])
    };
    let overflow =
        r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    vec![
        way("an answer", vec![ls(), says("well")], &[], 0, "answered"),
        way(
            "a refused call is no failure by itself",
            vec![sudo(), says("well")],
            &[],
            0,
            "answered",
        ),
        way(
            "a provider that fails",
            vec![status("401 Unauthorized", "{}")],
            &[],
            1,
            "error",
        ),
        way(
            "a session that does not exist",
            vec![says("well")],
            &["--resume", "absent"],
            2,
            "error",
        ),
        way(
            "a name that is none",
            vec![says("well")],
            &["--session", "../escape"],
            2,
            "error",
        ),
        way(
            "a provider that is not configured",
            vec![says("well")],
            &["--provider", "absent"],
            2,
            "error",
        ),
        way(
            "rounds used up",
            vec![ls(), ls(), says("so far")],
            &["--max-rounds", "2"],
            3,
            "stopped",
        ),
        way(
            "time used up in a call",
            vec![sleep()],
            &["--timeout", "1"],
            3,
            "interrupted",
        ),
        way(
            "time used up in an answer",
            vec![Answer::Stall(stream_head())],
            &["--timeout", "1"],
            3,
            "interrupted",
        ),
        way("the model's own limit", vec![cut()], &[], 3, "stopped"),
        way(
            "a context that is full",
            vec![status("400 Bad Request", overflow)],
            &[],
            3,
            "error",
        ),
        way(
            "a denial that must not be",
            vec![sudo(), says("well")],
            &["--fail-on-denial"],
            5,
            "answered",
        ),
        way(
            "a tool that policy took away",
            vec![sudo(), says("well")],
            &["--fail-on-denial", "--tools", "read"],
            5,
            "answered",
        ),
    ]
}

#[test]
fn each_end_has_its_code_in_every_form() {
    let scene = Scene::new(&ordinary());
    for Way {
        what,
        script,
        arguments,
        code,
        outcome,
    } in ways()
    {
        for form in FORMS {
            let provider = Provider::start(script.clone());
            scene.write(&scene.config_dir().join("config.toml"), provider.config());
            let output = scene
                .ferrum(["-p", "go", "--output", form])
                .args(arguments)
                .output();
            let what = format!("{what}, {form}");
            assert_eq!(output.status, Some(code), "{what}: {}", output.all());
            let silent = output.err().is_empty();
            assert!(code == 0 || !silent, "{what}: no word on stderr");
            assert!(code != 0 || silent || form == "text", "{what}: {}", output.err());
            match form {
                "text" => {}
                "json" => is_the_result(&output, code, outcome, &what),
                _ => ends_as(&output, code, &what),
            }
        }
    }
}

fn is_the_result(output: &Output, code: i32, outcome: &str, what: &str) {
    let objects = lines(&output.out());
    assert_eq!(objects.len(), 1, "{what}");
    assert_eq!(kind(&objects[0]), "result", "{what}");
    assert_eq!(objects[0]["outcome"], outcome, "{what}: {}", objects[0]);
    assert_eq!(objects[0]["exit_code"], code, "{what}: {}", objects[0]);
    assert_eq!(
        objects[0]["error"].is_null(),
        outcome != "error",
        "{what}: {}",
        objects[0]
    );
}

fn ends_as(output: &Output, code: i32, what: &str) {
    let events = lines(&output.out());
    let last = events.last().unwrap_or_else(|| panic!("{what}: nothing came"));
    assert_eq!(last["exit_code"], code, "{what}: {last}");
    match kind(last) {
        "error" => {}
        "turn_end" | "turn_interrupted" => is_whole(&events, 1),
        other => panic!("{what}: ends with {other}"),
    }
}

#[test]
fn isolation_that_cannot_be_had_is_four() {
    let (scene, provider) = scene_with(vec![says("well")]);
    let config = format!("{}[isolation]\nrequire = \"full\"\n", provider.config());
    scene.write(&scene.config_dir().join("config.toml"), config);
    for form in FORMS {
        let mut run = scene.ferrum(["-p", "go", "--output", form]);
        run.without_namespaces = true;
        let output = run.output();
        assert_eq!(output.status, Some(4), "{}", output.all());
        if form != "text" {
            let last = lines(&output.out()).pop().expect("a line");
            assert_eq!(last["exit_code"], 4, "{last}");
        }
    }
}

/// The tour makes every kind of result, through the real walls.
#[test]
fn the_tour_fits_the_schema_in_both_forms() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let stream = scene.ferrum(["-p", "x", "--output", "stream-json"]).output();
        assert_eq!(
            (stream.status, stream.err().as_str()),
            (Some(0), ""),
            "{}",
            stream.all()
        );
        let events = lines(&stream.out());
        is_whole(&events, 1);
        assert_eq!(events[0]["isolation"]["effective"], "full");
        let commands: Vec<&Value> = events
            .iter()
            .filter(|event| event["command"].is_object())
            .collect();
        assert!(commands.len() > 1, "no command reported");
        let denied = events
            .iter()
            .flat_map(|event| event["denials"].as_array().into_iter().flatten());
        assert!(denied.count() > 0, "no wall reported");
        let changed = events
            .iter()
            .flat_map(|event| event["changed"].as_array().into_iter().flatten());
        assert!(changed.count() > 0, "no change reported");

        let object = scene.ferrum(["-p", "x", "--output", "json"]).output();
        let result = lines(&object.out()).pop().expect("the result");
        assert!(
            result["refusals"].as_array().is_some_and(|rows| !rows.is_empty()),
            "{result}"
        );
        assert_eq!(result["session"]["isolation"]["effective"], "full");
        assert!(!object.all().contains(&scene.secret) && !stream.all().contains(&scene.secret));
    }
}

#[test]
fn deltas_are_the_answer_and_thinking_is_apart() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let script = || {
        vec![streamed(&[
            delta(json!({"role": "assistant", "reasoning_content": "hm\u{1b}[2J"})),
            delta(json!({"content": "<thi"})),
            delta(json!({"content": "nk>hidden</think>The "})),
            delta(json!({"content": "answ\u{1b}[31mer\n"})),
            end.clone(),
        ])]
    };
    let (scene, _provider) = scene_with(script());
    let output = scene.ferrum(["-p", "x", "--output", "stream-json"]).output();
    let events = lines(&output.out());
    let joined = |wanted: &str| {
        let texts = events.iter().filter(|event| kind(event) == wanted);
        texts
            .filter_map(|event| event["text"].as_str())
            .collect::<String>()
    };
    assert_eq!(joined("assistant_delta"), "The answ\u{1b}[31mer\n");
    assert_eq!(joined("thinking_delta"), "hm\u{1b}[2J");
    assert!(!output.stdout.contains(&0x1b), "a raw escape byte in JSON");
    let usage = events.iter().find(|event| kind(event) == "usage").expect("usage");
    assert_eq!(
        (&usage["input_tokens"], &usage["source"]),
        (&json!(10), &json!("provider"))
    );
    let (scene, _provider) = scene_with(script());
    let output = scene.ferrum(["-p", "x", "--output", "json"]).output();
    let result = lines(&output.out()).pop().expect("the result");
    assert_eq!(result["answer"], "The answ\u{1b}[31mer");
}

/// Whoever drives the program may hold the key; its output does not.
#[test]
fn keys_are_in_no_line() {
    let scene = Scene::new(&ordinary());
    let provider = Provider::start(vec![
        calls(&[("bash", json!({"command": format!("echo {}", scene.secret)}))]),
        says("done"),
    ]);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    let output = scene.ferrum(["-p", "x", "--output", "stream-json"]).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert!(output.out().contains("[redacted]"), "{}", output.out());
    assert!(!output.all().contains(&scene.secret), "the key is in the output");
}

#[test]
fn a_full_stdout_is_an_error() {
    if !std::path::Path::new("/dev/full").exists() {
        return not_tried("a full stdout: there is no /dev/full");
    }
    let (scene, _provider) = scene_with(vec![says("well")]);
    for form in FORMS {
        let ferrum = ferrum_tests::place::ferrum();
        let script = format!(
            "'{}' -p x --output {form} </dev/null >/dev/full",
            ferrum.display()
        );
        let output = scene.run("/bin/bash").args(["-c", &script]).output();
        assert_eq!(output.status, Some(1), "{}", output.all());
        assert!(output.err().contains("No space left"), "{}", output.err());
    }
}

/// A key in the model's own words, cut anywhere: it is in no form of the output and not in the session.
#[test]
fn a_key_that_the_model_says_is_redacted() {
    for at in [3, 10] {
        for form in FORMS {
            let scene = Scene::new(&ordinary());
            let (head, tail) = scene.secret.split_at(at);
            let words = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            let provider = Provider::start(vec![streamed(&[
                words("it is "),
                words(head),
                words(tail),
                words(", yes"),
                end,
            ])]);
            scene.write(&scene.config_dir().join("config.toml"), provider.config());
            let output = scene
                .ferrum(["-p", "go", "--output", form, "--session", "s"])
                .output();
            assert_eq!(output.status, Some(0), "{form}: {}", output.all());
            assert!(
                output.out().contains("it is [redacted], yes") || form == "stream-json",
                "{form}: {}",
                output.all()
            );
            assert!(!output.all().contains(&scene.secret), "{form}: {}", output.all());
            let stored =
                std::fs::read_to_string(scene.data_dir().join("sessions/s.jsonl")).expect("the session");
            assert!(
                stored.contains("it is [redacted], yes") && !stored.contains(&scene.secret),
                "{stored}"
            );
            if form == "stream-json" {
                let deltas = lines(&output.out());
                let deltas = deltas.iter().filter(|line| kind(line) == "assistant_delta");
                let said: String = deltas.filter_map(|line| line["text"].as_str()).collect();
                assert_eq!(said, "it is [redacted], yes");
            }
        }
    }
}
