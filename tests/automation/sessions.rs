//! Going on with a session from the command line.

use super::{lines, scene_with};
use ferrum_tests::provider::{Provider, says};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use serde_json::Value;

#[track_caller]
fn answered(output: &Output) -> Value {
    assert_eq!(output.status, Some(0), "{}", output.all());
    lines(&output.out()).pop().expect("the result")
}

fn print(scene: &Scene, prompt: &str, arguments: &[&str]) -> Output {
    scene
        .ferrum(["-p", prompt, "--output", "json"])
        .args(arguments)
        .output()
}

fn said(provider: &Provider) -> Vec<String> {
    let request = provider.requests().pop().expect("a request");
    let messages = request.body["messages"].as_array().expect("messages").clone();
    let users = messages.iter().filter(|message| message["role"] == "user");
    users
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn continue_and_resume_go_on_in_print_mode() {
    let (scene, provider) = scene_with(vec![says("well")]);
    let first = answered(&print(&scene, "one", &[]));
    let id = first["session"]["session_id"].as_str().expect("an id").to_owned();
    assert_eq!(first["session"]["resumed"], false);

    let next = answered(&print(&scene, "two", &["--continue"]));
    assert_eq!(next["session"]["session_id"], id.as_str());
    assert_eq!(next["session"]["resumed"], true);
    assert_eq!(said(&provider), ["one", "two"]);

    answered(&print(&scene, "three", &["--resume"]));
    let uuid = id.split_once('-').expect("a uuid").1;
    for reference in [&id, &uuid[..8]] {
        let next = answered(&print(&scene, "again", &["--resume", reference]));
        assert_eq!(next["session"]["session_id"], id.as_str());
    }
    let path = scene.data_dir().join(format!("sessions/{id}.jsonl"));
    answered(&print(
        &scene,
        "by path",
        &["--session", &path.display().to_string()],
    ));
    assert_eq!(
        said(&provider),
        ["one", "two", "three", "again", "again", "by path"]
    );
}

#[test]
fn the_latest_of_another_directory_is_not_taken_up() {
    let (scene, provider) = scene_with(vec![says("well")]);
    answered(&print(&scene, "one", &[]));
    let elsewhere = scene.root().join("src");
    let mut run = scene.ferrum(["-p", "two", "--output", "json", "--continue"]);
    run.cwd = elsewhere;
    let result = answered(&run.output());
    assert_eq!(result["session"]["resumed"], false);
    let notices = result["notices"].to_string();
    assert!(notices.contains("no session to go on with"), "{notices}");
    assert_eq!(said(&provider), ["two"]);
}

#[test]
fn a_reference_that_leads_nowhere_makes_nothing() {
    let (scene, provider) = scene_with(vec![says("well")]);
    answered(&print(&scene, "one", &[]));
    answered(&print(&scene, "two", &[]));
    let before = std::fs::read_dir(scene.data_dir().join("sessions"))
        .expect("sessions")
        .count();
    for (arguments, word) in [
        (["--session", "../escape"], "there is no session"),
        (["--session", "a b"], "cannot be a session's name"),
        (["--resume", "nobody"], "there is no session"),
        // Both ids begin with the time.
        (["--resume", "1"], "ambiguous"),
    ] {
        let output = print(&scene, "x", &arguments);
        assert_eq!(output.status, Some(2), "{arguments:?}: {}", output.all());
        assert!(output.err().contains(word), "{}", output.err());
    }
    assert!(!scene.data_dir().join("escape.jsonl").exists());
    let after = std::fs::read_dir(scene.data_dir().join("sessions"))
        .expect("sessions")
        .count();
    assert_eq!(before, after);
    assert_eq!(provider.requests().len(), 2);
}
