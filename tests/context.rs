//! What the model is told at the start, and what is told of what it left at the end.

use ferrum_tests::provider::{Answer, Provider, calls, says};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;
use serde_json::{Value, json};

/// Runs a turn in which the model makes these calls, one a message, and answers.
fn turn(scene: &Scene, steps: &[(&str, Value)], args: &[&str]) -> (Output, Provider) {
    let mut script: Vec<Answer> = steps
        .iter()
        .map(|(tool, input)| calls(&[(*tool, input.clone())]))
        .collect();
    script.push(says("done"));
    let provider = Provider::start(script);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    let output = scene.ferrum([&["-p", "go"], args].concat()).output();
    (output, provider)
}

fn sessions(scene: &Scene) -> String {
    let sessions = std::fs::read_dir(scene.data_dir().join("sessions")).expect("sessions");
    let texts = sessions
        .flatten()
        .filter(|entry| entry.file_name() != "old.jsonl")
        .map(|entry| std::fs::read_to_string(entry.path()).expect("a session"));
    texts.collect()
}

/// Tokens are the user's money: 9 KB is what a request may have that says nothing yet.
#[test]
fn the_first_request_is_small() {
    let scene = Scene::new(&ferrum_tests::who::ordinary());
    std::fs::remove_dir_all(scene.root().join(".ferrum")).ok();
    let (output, provider) = turn(&scene, &[], &[]);
    assert_eq!(output.status, Some(0), "{}", output.all());
    let request = provider.requests().into_iter().next().expect("a request");
    let tools = request.body["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 10);
    let bytes = request.body.to_string().len();
    assert!(bytes <= 9 * 1024, "{bytes} bytes");
}

#[test]
fn a_turn_names_what_it_left_that_others_obey() {
    for who in everyone() {
        let scene = Scene::new(&who);
        scene.write(&scene.root().join("AGENTS.md"), "rules\n");
        scene.write(&scene.root().join("Makefile"), "all:\n");
        scene.write(
            &scene.root().join("settings.sh"),
            "git config core.pager ./evil\n",
        );
        scene.write(&scene.root().join("untouched/package.json"), "{}\n");
        let script = "mkdir -p .github/workflows pkg node_modules/m && echo x > .github/workflows/ci.yml && \
                      echo x > node_modules/m/package.json && echo x > pkg/ordinary.txt && ln Makefile link && \
                      echo x >> link && bash settings.sh";
        let steps = [
            ("bash", json!({ "command": script })),
            ("write", json!({ "path": "pkg/.envrc", "content": "x" })),
            (
                "edit",
                json!({ "path": "AGENTS.md", "edits": [{ "old_text": "rules", "new_text": "others" }] }),
            ),
        ];
        let (output, _) = turn(&scene, &steps, &[]);
        assert_eq!(output.status, Some(0), "{}", output.all());
        let said = output.err();
        for line in [
            "  AGENTS.md (agent, changed)\n",
            "  Makefile (build, changed)\n",
            "  .github/workflows/ci.yml (ci, new)\n",
            "  pkg/.envrc (shell, new)\n",
            "ferrum: found after a call: ",
        ] {
            assert!(said.contains(line), "{line:?} is missing in {said}");
        }
        for name in ["(package", "ordinary.txt ("] {
            assert!(!said.contains(name), "{name} in {said}");
        }
        let stored = sessions(&scene);
        assert!(
            stored.contains("\"steering\":{") && stored.contains("pkg/.envrc"),
            "{stored}"
        );
    }
}

#[test]
fn a_turn_that_was_cut_names_it_too_and_an_idle_one_nothing() {
    let scene = Scene::new(&ferrum_tests::who::ordinary());
    let steps = [("bash", json!({ "command": "echo x > justfile; sleep 60" }))];
    let (output, _) = turn(&scene, &steps, &["--timeout", "1", "--output", "json"]);
    assert_eq!(output.status, Some(3), "{}", output.all());
    let result: Value = serde_json::from_str(&output.out()).expect("one object");
    assert_eq!(result["steering"][0]["files"][0]["kind"], "task", "{result}");
    assert_eq!(result["steering"][0]["files"][0]["created"], true);
    let (output, _) = turn(
        &scene,
        &[("bash", json!({ "command": "ls > other.txt" }))],
        &["--output", "json"],
    );
    let result: Value = serde_json::from_str(&output.out()).expect("one object");
    assert_eq!(result["steering"], json!([]));
}
