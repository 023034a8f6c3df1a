//! The whole agent against llama.cpp: streams, calls in the sandbox, reasoning, a full context.

use crate::gguf::Scripted;
use crate::server::{DEADLINE, Server, python, smol};
use ferrum_tests::place;
use ferrum_tests::run::{Output, Run};
use ferrum_tests::scene::Scene;
use ferrum_tests::who::{everyone, ordinary};
use serde_json::Value;

/// Room for the first request with all tools, where each byte is a token.
pub const ROOMY: u32 = 32_768;

pub const CALLS_THEN_ANSWERS: Scripted<'_> = Scripted {
    scripts: &[
        (
            "<|call|>",
            &[
                "<tool_call>",
                "\n{\"name\": \"",
                "bash",
                "\", \"arguments\": ",
                "{\"command\": \"",
                "tee made.txt < notes.txt",
                "\"}",
                "}\n",
                "</tool_call>",
            ],
        ),
        ("<|answer|>", &["The", " tool", " ran."]),
    ],
    choice: "{% if messages[-1].role == 'tool' %}<|answer|>{% else %}<|call|>{% endif %}",
};

pub const THINKS: Scripted<'_> = Scripted {
    scripts: &[(
        "<|think|>",
        &["<think>\n", "weighing", " it", "\n</think>\n\n", "Forty", "-two."],
    )],
    choice: "<|think|>",
};

/// Begins a call and leaves the rest to chance: the server holds it to the form of a call.
const BABBLES: Scripted<'_> = Scripted {
    scripts: &[(
        "<|babble|>",
        &[
            "<tool_call>",
            "\n{\"name\": \"",
            "grep",
            "\", \"arguments\": ",
            "{\"pattern\": \"",
        ],
    )],
    choice: "<|babble|>",
};

pub const TALKS: Scripted<'_> = Scripted {
    scripts: &[("<|talk|>", &["Hello", " from", " a", " script."])],
    choice: "<|talk|>",
};

/// A scene whose user configured `server`.
fn scene(server: &Server, more: &str) -> Scene {
    let scene = Scene::new(&ordinary());
    scene.write(&scene.config_dir().join("config.toml"), server.config(more));
    scene
}

fn scripted(model: &Scripted<'_>, context: u32) -> Option<Server> {
    let python = python()?;
    let place = place::scratch();
    let file = place.path().join("model.gguf");
    model.write(&file);
    Some(Server::start(&python, &file, context))
}

pub fn print(scene: &Scene, words: &[&str]) -> Run {
    let mut run = scene.ferrum(words);
    run.deadline = DEADLINE;
    run
}

#[track_caller]
pub fn expect(output: &Output, status: i32) {
    assert!(!output.timed_out, "hangs: {}", output.all());
    assert_eq!(output.status, Some(status), "{}", output.all());
}

/// The records of the session named `name`; each line must be one.
pub fn records(scene: &Scene, name: &str) -> Vec<Value> {
    let file = scene.data_dir().join(format!("sessions/{name}.jsonl"));
    let text = std::fs::read_to_string(file).expect("the session");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

/// The blocks of one type in the session's messages.
pub fn blocks(records: &[Value], kind: &str) -> Vec<Value> {
    let contents = records
        .iter()
        .filter_map(|record| record["message"]["content"].as_array());
    contents
        .flatten()
        .filter(|block| block["type"] == kind)
        .cloned()
        .collect()
}

#[test]
fn a_call_runs_in_the_sandbox_and_the_next_turn_goes_on() {
    let Some(server) = scripted(&CALLS_THEN_ANSWERS, ROOMY) else {
        return;
    };
    for who in everyone() {
        for streaming in ["", "streaming = false"] {
            let scene = Scene::new(&who);
            scene.write(&scene.config_dir().join("config.toml"), server.config(streaming));
            scene.write(&scene.root().join("notes.txt"), "from the notes\n");
            let output = print(&scene, &["--session", "kept", "-p", "go"]).output();
            expect(&output, 0);
            assert_eq!(output.out().trim(), "The tool ran.");
            let made = std::fs::read_to_string(scene.root().join("made.txt")).expect("the file");
            assert_eq!(made, "from the notes\n");
            // What is kept of the first turn is a history that the server's template takes.
            let output = print(&scene, &["--session", "kept", "-p", "again"]).output();
            expect(&output, 0);
            let records = records(&scene, "kept");
            let results = blocks(&records, "tool_result");
            assert_eq!(results.len(), 2, "{results:?}");
            assert!(results[0].to_string().contains("from the notes"), "{results:?}");
            assert!(results[0].to_string().contains("isolation: full"), "{results:?}");
            let counted = records
                .iter()
                .filter(|r| r["message"]["usage"]["source"] == "provider")
                .count();
            assert_eq!(counted, 4, "an answer without the server's token counts");
        }
    }
}

/// The same over Messages, which this server speaks too.
#[test]
fn calls_and_results_go_over_messages_as_well() {
    let Some(server) = scripted(&CALLS_THEN_ANSWERS, ROOMY) else {
        return;
    };
    for streaming in ["", "streaming = false"] {
        let scene = Scene::new(&ordinary());
        let config = format!(
            "provider = \"llama\"\nmodel = \"any\"\n[providers.llama]\ntype = \"anthropic\"\nbase_url = \"{}\"\n\
             api_key_env = \"OPENAI_API_KEY\"\n{streaming}\n",
            server.base_url
        );
        scene.write(&scene.config_dir().join("config.toml"), config);
        scene.write(&scene.root().join("notes.txt"), "from the notes\n");
        for turn in 1..=2 {
            let output = print(&scene, &["--session", "kept", "-p", "go"]).output();
            expect(&output, 0);
            assert_eq!(output.out().trim(), "The tool ran.");
            let results = blocks(&records(&scene, "kept"), "tool_result");
            assert_eq!(results.len(), turn, "{results:?}");
        }
        let made = std::fs::read_to_string(scene.root().join("made.txt")).expect("the file");
        assert_eq!(made, "from the notes\n");
    }
}

#[test]
fn reasoning_is_kept_apart_from_the_answer() {
    let Some(server) = scripted(&THINKS, ROOMY) else {
        return;
    };
    for streaming in ["", "streaming = false"] {
        let scene = scene(&server, streaming);
        for _ in 0..2 {
            let output = print(&scene, &["--session", "kept", "-p", "how many?"]).output();
            expect(&output, 0);
            assert_eq!(output.out().trim(), "Forty-two.");
        }
        let thoughts = blocks(&records(&scene, "kept"), "thinking");
        assert_eq!(thoughts.len(), 2);
        assert!(
            thoughts[0]["text"].to_string().contains("weighing it"),
            "{thoughts:?}"
        );
    }
}

#[test]
fn calls_full_of_noise_leave_a_session_that_goes_on() {
    let Some(server) = scripted(&BABBLES, ROOMY) else {
        return;
    };
    let scene = scene(&server, "extra_body = { max_tokens = 150, seed = 7 }");
    for _ in 0..2 {
        let words = [
            "--session",
            "kept",
            "--tools",
            "read",
            "grep",
            "find",
            "ls",
            "edit",
        ];
        let run = print(&scene, &words)
            .args(["-p", "go"])
            .env("FERRUM_MAX_TOOL_ROUNDS", "3");
        let output = run.output();
        // 3: cut by the limit, or the rounds are used up.
        assert!(matches!(output.status, Some(0 | 3)), "{}", output.all());
    }
    let records = records(&scene, "kept");
    let (calls, results) = (blocks(&records, "tool_use"), blocks(&records, "tool_result"));
    assert!(!calls.is_empty(), "the server let no call through");
    assert_eq!(calls.len(), results.len(), "{records:?}");
}

#[test]
fn a_prompt_beyond_the_context_ends_with_3_and_says_so() {
    let Some(server) = scripted(&TALKS, ROOMY) else {
        return;
    };
    let scene = scene(&server, "");
    let long = "a line of the long text\n".repeat(3_000);
    let output = print(&scene, &["--session", "kept", "-p", "sum up"])
        .stdin(long)
        .output();
    expect(&output, 3);
    assert!(output.err().contains("context"), "{}", output.err());
    assert_eq!(output.out(), "");
    expect(&print(&scene, &["-p", "short"]).output(), 0);
}

#[test]
fn a_context_filled_by_a_result_ends_with_3_and_keeps_the_result() {
    // The first request with one tool has some 4,000 bytes.
    let Some(server) = scripted(&CALLS_THEN_ANSWERS, 8_192) else {
        return;
    };
    let scene = scene(&server, "");
    scene.write(
        &scene.root().join("notes.txt"),
        "a line of the long notes\n".repeat(1_000),
    );
    let output = print(&scene, &["--session", "kept", "--tools", "bash", "-p", "go"]).output();
    expect(&output, 3);
    assert!(output.err().contains("context"), "{}", output.err());
    assert!(scene.root().join("made.txt").exists());
    let results = blocks(&records(&scene, "kept"), "tool_result");
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0].to_string().contains("long notes"), "{results:?}");
}

#[test]
fn an_interrupt_in_the_middle_frees_the_server() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &smol(&python), 4_096);
    let scene = scene(&server, "extra_body = { ignore_eos = true }");
    let run = print(
        &scene,
        &["--no-tools", "--session", "kept", "-p", "count to ten thousand"],
    );
    let mut child = run.command().spawn().expect("ferrum starts");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("the signal");
    assert_eq!(child.wait().expect("ferrum ends").code(), Some(130));
    // The server has one slot: this waits for ever where the first answer still runs.
    let more = server.config("extra_body = { max_tokens = 8, ignore_eos = true }");
    scene.write(&scene.config_dir().join("config.toml"), more);
    let output = print(&scene, &["--no-tools", "--session", "kept", "-p", "stop"]).output();
    expect(&output, 3);
    assert!(output.err().contains("limit"), "{}", output.err());
}

#[test]
fn setup_reads_the_models_of_the_server_and_tries_one() {
    let Some(server) = scripted(&TALKS, ROOMY) else {
        return;
    };
    let scene = Scene::new(&ordinary());
    let url = format!("{}/v1", server.base_url);
    let output = print(
        &scene,
        &["setup", "--yes", "--provider", "home", "--base-url", &url],
    )
    .output();
    expect(&output, 0);
    assert!(
        output.out().contains("It answers: Hello from a script."),
        "{}",
        output.out()
    );
    let text = std::fs::read_to_string(scene.config_dir().join("config.toml")).expect("written");
    assert!(text.contains(&format!("max_context_tokens = {ROOMY}")), "{text}");
    let output = print(&scene, &["-p", "hello"]).output();
    expect(&output, 0);
    assert_eq!(output.out().trim(), "Hello from a script.");
}

/// A real model of 135 million weights: nobody knows what it says, only that it must be taken.
#[test]
fn a_real_model_answers_whatever_it_likes() {
    let Some(python) = python() else { return };
    let server = Server::start(&python, &smol(&python), 8_192);
    for (more, words) in [
        ("streaming = false", ["--no-tools", "-p", "Say hello."].as_slice()),
        ("", &["--no-tools", "-p", "Say hello."]),
        ("", &["-p", "List the files here."]),
    ] {
        let scene = scene(&server, &format!("extra_body = {{ max_tokens = 24 }}\n{more}"));
        let output = print(&scene, &["--session", "kept"]).args(words).output();
        // 3: cut by the limit above.
        assert!(matches!(output.status, Some(0 | 3)), "{}", output.all());
        assert!(
            output.status == Some(0) || output.err().contains("limit"),
            "{}",
            output.err()
        );
        let records = records(&scene, "kept");
        assert!(
            records.iter().any(|r| r["message"]["role"] == "assistant"),
            "{records:?}"
        );
    }
}
