//! `ferrum setup`: what it finds, what it writes, and what it leaves alone.

use ferrum_tests::not_tried;
use ferrum_tests::provider::{Answer, Provider, says, status};
use ferrum_tests::run::{Output, Run};
use ferrum_tests::scene::Scene;
use ferrum_tests::who::ordinary;
use std::io::{Read, Write};
use std::net::TcpListener;

const MODELS: &str = r#"{"object":"list","data":[{"id":"big","meta":{"n_ctx":4096}},{"id":"small"}]}"#;

fn models() -> Answer {
    status("200 OK", MODELS)
}

fn setup(scene: &Scene, words: &[&str]) -> Run {
    scene.ferrum(["setup"]).args(words)
}

fn text(scene: &Scene) -> Option<String> {
    std::fs::read_to_string(scene.config_dir().join("config.toml")).ok()
}

#[track_caller]
fn expect(output: &Output, status: i32, words: &[&str]) {
    output.expect(status, &output.all(), words);
}

#[test]
fn without_a_terminal_it_says_which_options_it_needs() {
    let scene = Scene::new(&ordinary());
    expect(
        &setup(&scene, &[]).output(),
        2,
        &["--yes", "--provider", "--base-url", "--api-key-env"],
    );
    expect(
        &setup(&scene, &["--base-url", "http://x"]).output(),
        2,
        &["--provider"],
    );
    expect(
        &setup(&scene, &["--provider", "nowhere"]).output(),
        2,
        &["nowhere", "--base-url"],
    );
    let offline = setup(&scene, &["--yes"]).env("FERRUM_OFFLINE", "1").output();
    expect(&offline, 2, &["FERRUM_OFFLINE"]);
    assert_eq!(text(&scene), None);
}

#[test]
fn a_provider_is_tried_and_written_beside_what_stands_there() {
    let scene = Scene::new(&ordinary());
    let server = Provider::start(vec![models(), says("ready"), says("later")]);
    let file = scene.config_dir().join("config.toml");
    scene.write(
        &file,
        "# mine\nmodel = \"old\" # before\n\n[tools]\ndeny = [] # none\n",
    );
    let url = server.base_url();
    let words = [
        "--provider",
        "own",
        "--base-url",
        &url,
        "--api-key-env",
        "OPENAI_API_KEY",
        "--model",
        "big",
    ];
    let output = setup(&scene, &words).args(["--shell", "auto"]).output();
    expect(
        &output,
        0,
        &[
            "It answers: ready",
            "config.toml",
            "ferrum -p",
            "OPENAI_API_KEY exported",
        ],
    );
    let new = text(&scene).expect("written");
    for part in [
        "# mine\n",
        "model = \"big\" # before\n",
        "deny = [] # none\n",
        "provider = \"own\"\n",
        "shell = \"auto\"\n",
        "[providers.own]\n",
        "api_key_env = \"OPENAI_API_KEY\"\n",
        "max_context_tokens = 4096\n",
    ] {
        assert!(new.contains(part), "{part:?} is missing: {new}");
    }
    assert!(
        !new.contains(&scene.secret) && !output.all().contains(&scene.secret),
        "the key is shown"
    );
    let requests = server.requests();
    assert!(
        requests[0].head.starts_with("GET /v1/models"),
        "{}",
        requests[0].head
    );
    assert_eq!(requests[1].body["model"], "big");
    assert!(
        requests
            .iter()
            .all(|request| request.head.contains(&scene.secret)),
        "sent without the key"
    );
    // Twice is once.
    expect(&setup(&scene, &words).args(["--no-test"]).output(), 0, &[]);
    assert_eq!(text(&scene), Some(new));
    let output = scene.ferrum(["-p", "hello"]).output();
    expect(&output, 0, &["later"]);
}

#[test]
fn a_model_that_is_called_by_its_path_gets_a_name() {
    let scene = Scene::new(&ordinary());
    let list = r#"{"data":[{"id":"/srv/models/tiny.gguf","meta":{"n_ctx":2048}}]}"#;
    let server = Provider::start(vec![status("200 OK", list), says("ready"), says("later")]);
    let words = ["--yes", "--provider", "own", "--base-url", &server.base_url()];
    let words = [&words[..], &["--model", "/srv/models/tiny.gguf"]].concat();
    expect(&setup(&scene, &words).output(), 0, &["Trying tiny.gguf"]);
    let new = text(&scene).expect("written");
    for part in [
        "model = \"tiny.gguf\"\n",
        "[models.\"tiny.gguf\"]\nprovider = \"own\"\nactual_model = \"/srv/models/tiny.gguf\"\nmax_context_tokens = 2048\n",
    ] {
        assert!(new.contains(part), "{part:?} is missing: {new}");
    }
    expect(&scene.ferrum(["-p", "hello"]).output(), 0, &["later"]);
    let requests = server.requests();
    assert!(
        requests[1..]
            .iter()
            .all(|request| request.body["model"] == "/srv/models/tiny.gguf")
    );
}

#[test]
fn a_model_that_does_not_answer_writes_nothing() {
    let scene = Scene::new(&ordinary());
    let server = Provider::start(vec![
        models(),
        status("401 Unauthorized", r#"{"error":{"message":"no"}}"#),
    ]);
    let url = server.base_url();
    let words = ["--provider", "own", "--base-url", &url, "--model", "big"];
    expect(&setup(&scene, &words).output(), 1, &["401", "--no-test"]);
    assert_eq!(text(&scene), None);
    let dry = setup(&scene, &words).args(["--no-test", "--dry-run"]).output();
    expect(&dry, 0, &["provider = \"own\"\n"]);
    assert_eq!(text(&scene), None);
    expect(&setup(&scene, &words).args(["--no-test"]).output(), 0, &[]);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(scene.config_dir().join("config.toml"))
            .expect("written")
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_known_provider_needs_its_key_and_a_model_of_choice() {
    let scene = Scene::new(&ordinary());
    let server = Provider::start(vec![models()]);
    let openai =
        || setup(&scene, &["--provider", "openai", "--no-test"]).env("OPENAI_BASE_URL", server.base_url());
    expect(&openai().output(), 2, &["--model", "big, small"]);
    let output = setup(&scene, &["--provider", "mistral", "--no-test"]).output();
    expect(&output, 2, &["MISTRAL_API_KEY"]);
    assert_eq!(text(&scene), None);
    expect(&openai().args(["--model", "small"]).output(), 0, &[]);
    let written = text(&scene).expect("written");
    assert!(written.contains("type = \"openai-compatible\"\n"), "{written}");
}

#[test]
fn a_broken_file_stays_as_it_is() {
    let scene = Scene::new(&ordinary());
    scene.write(&scene.config_dir().join("config.toml"), "model = \n");
    let words = [
        "--provider",
        "own",
        "--base-url",
        "http://127.0.0.1:1/v1",
        "--model",
        "m",
        "--no-test",
    ];
    expect(&setup(&scene, &words).output(), 2, &["config.toml:1"]);
    assert_eq!(text(&scene).as_deref(), Some("model = \n"));
}

/// A server on the port of Ollama, which knows models and says one word.
fn ollama() -> Option<()> {
    let listener = TcpListener::bind("127.0.0.1:11434").ok()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 65_536];
            let count = stream.read(&mut head).unwrap_or(0);
            let answer = if head[..count].starts_with(b"GET ") {
                models()
            } else {
                says("ready")
            };
            if let Answer::Bytes(bytes) = answer {
                let _ = stream.write_all(&bytes);
            }
        }
    });
    Some(())
}

#[test]
fn servers_of_this_machine_are_found_and_a_terminal_is_asked() {
    if ollama().is_none() {
        return not_tried("port 11434 is taken, so no server can be put there");
    }
    let scene = Scene::new(&ordinary());
    let listed = setup(&scene, &["--provider", "ollama", "--yes"]).output();
    expect(&listed, 0, &["It answers: ready"]);
    let written = text(&scene).expect("written");
    assert!(
        written.contains("base_url = \"http://127.0.0.1:11434/v1\""),
        "{written}"
    );
    assert!(written.contains("model = \"big\""), "{written}");

    // At a terminal: which one, which model, and whether shell = "auto".
    let scene = Scene::new(&ordinary());
    let line = format!("{} setup", ferrum_tests::place::ferrum().display());
    let asked = scene.run("/usr/bin/script").args(["-qec", &line, "/dev/null"]);
    let asked = asked
        .env("OPENAI_API_KEY", "")
        .stdin("nonsense\nollama: a server on port 11434, as Ollama has it\n2\n\n");
    if !std::path::Path::new("/usr/bin/script").exists() {
        return not_tried("there is no script(1) to make a terminal");
    }
    let output = asked.output();
    expect(
        &output,
        0,
        &["Which one?", "Which model?", "shell = \"auto\"", "Trying small"],
    );
    let written = text(&scene).expect("written");
    for part in ["provider = \"ollama\"", "model = \"small\"", "shell = \"auto\""] {
        assert!(written.contains(part), "{part:?} is missing: {written}");
    }
}
