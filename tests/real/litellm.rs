//! The whole agent through a LiteLLM proxy, which shapes every answer anew, in front of llama.cpp: over
//! Chat Completions and over Messages, and with the proxy itself speaking either to the server.

use crate::gguf::Scripted;
use crate::llama::{self, blocks, expect, print, records};
use crate::server::{Server, python, smol};
use ferrum_tests::place;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::{everyone, ordinary};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const KEY: &str = "sk-local-proxy-key";
/// It imports half of a package index before it listens.
const START: Duration = Duration::from_secs(240);

/// Calls a tool, unless it is asked to think or to talk.
const SCRIPT: Scripted<'_> = Scripted {
    scripts: &[
        llama::CALLS_THEN_ANSWERS.scripts[0],
        llama::CALLS_THEN_ANSWERS.scripts[1],
        llama::THINKS.scripts[0],
        llama::TALKS.scripts[0],
    ],
    choice: "{% set last = messages[-1] %}{% if last.role == 'tool' %}<|answer|>\
        {% elif 'ponder' in last.content %}<|think|>{% elif 'talk' in last.content %}<|talk|>{% else %}<|call|>{% endif %}",
};

/// The proxy and what stands behind it; all of them end with the test program.
struct Proxy {
    port: u16,
    _behind: [Server; 2],
    _child: Child,
}

/// The one proxy of this test program; `None` where nothing is installed.
fn proxy() -> Option<&'static Proxy> {
    static PROXY: OnceLock<Option<Proxy>> = OnceLock::new();
    PROXY
        .get_or_init(|| python().map(|python| start(&python)))
        .as_ref()
}

fn start(python: &Path) -> Proxy {
    let place = place::scratch();
    let model = place.path().join("model.gguf");
    SCRIPT.write(&model);
    let behind = [
        Server::start(python, &model, llama::ROOMY),
        Server::start(python, &smol(python), 4_096),
    ];
    let config = place.path().join("config.yaml");
    std::fs::write(&config, models(&behind[0].base_url, &behind[1].base_url)).expect("the configuration");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("its number").port();
    drop(free);
    let mut child = Command::new(python)
        .args(["-c", include_str!("proxy.py")])
        .arg(&config)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the proxy starts");
    let began = Instant::now();
    while !is_up(port) {
        assert!(child.try_wait().expect("its state").is_none(), "the proxy ended");
        assert!(began.elapsed() < START, "the proxy does not come up");
        std::thread::sleep(Duration::from_millis(200));
    }
    Proxy {
        port,
        _behind: behind,
        _child: child,
    }
}

fn is_up(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /health/liveliness HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains(" 200 "))
}

/// The proxy's configuration: JSON is YAML.
fn models(scripted: &str, smol: &str) -> String {
    let model = |name: &str, parameters: serde_json::Value| serde_json::json!({"model_name": name, "litellm_params": parameters});
    let at = |kind: &str, base: String| serde_json::json!({"model": kind, "api_base": base, "api_key": "x"});
    let fails = |how: &str| serde_json::json!({"model": "openai/any", "api_key": "x", "mock_response": how});
    serde_json::json!({
        "model_list": [
            model("chat", at("openai/any", format!("{scripted}/v1"))),
            model("messages", at("anthropic/any", scripted.to_owned())),
            model("smol", at("openai/any", format!("{smol}/v1"))),
            model("busy", fails("litellm.RateLimitError")),
            model("full", fails("litellm.ContextWindowExceededError")),
        ],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0, "telemetry": false},
    })
    .to_string()
}

impl Proxy {
    /// A user who speaks `wire` to the proxy; `more` are further keys of the provider.
    fn config(&self, wire: &str, model: &str, more: &str) -> String {
        let path = if wire == "anthropic" { "" } else { "/v1" };
        format!(
            "provider = \"proxy\"\nmodel = \"{model}\"\n[providers.proxy]\ntype = \"{wire}\"\n\
             base_url = \"http://127.0.0.1:{}{path}\"\napi_key_env = \"OPENAI_API_KEY\"\n{more}\n",
            self.port
        )
    }

    fn scene(&self, wire: &str, model: &str, more: &str) -> Scene {
        let scene = Scene::new(&ordinary());
        scene.write(
            &scene.config_dir().join("config.toml"),
            self.config(wire, model, more),
        );
        scene
    }
}

const WIRES: [&str; 2] = ["openai-compatible", "anthropic"];

#[test]
fn calls_and_results_go_through_in_every_combination() {
    let Some(proxy) = proxy() else { return };
    for who in everyone() {
        for wire in WIRES {
            for model in ["chat", "messages"] {
                for streaming in ["", "streaming = false"] {
                    let scene = Scene::new(&who);
                    let config = proxy.config(wire, model, streaming);
                    scene.write(&scene.config_dir().join("config.toml"), config);
                    scene.write(&scene.root().join("notes.txt"), "from the notes\n");
                    for turn in 1..=2 {
                        let run =
                            print(&scene, &["--session", "kept", "-p", "go"]).env("OPENAI_API_KEY", KEY);
                        let output = run.output();
                        let what = format!("{wire} {model} {streaming} {turn}: {}", output.all());
                        assert_eq!(output.status, Some(0), "{what}");
                        assert_eq!(output.out().trim(), "The tool ran.", "{what}");
                        let records = records(&scene, "kept");
                        assert_eq!(blocks(&records, "tool_result").len(), turn, "{what}");
                        let counted = records
                            .iter()
                            .filter(|r| r["message"]["usage"]["source"] == "provider")
                            .count();
                        assert_eq!(counted, turn * 2, "an answer without token counts: {what}");
                    }
                    let made = std::fs::read_to_string(scene.root().join("made.txt")).expect("the file");
                    assert_eq!(made, "from the notes\n");
                }
            }
        }
    }
}

#[test]
fn thoughts_are_kept_apart_from_the_answer() {
    let Some(proxy) = proxy() else { return };
    for streaming in ["", "streaming = false"] {
        let scene = proxy.scene("openai-compatible", "chat", streaming);
        for _ in 0..2 {
            let run = print(&scene, &["--session", "kept", "-p", "ponder"]).env("OPENAI_API_KEY", KEY);
            let output = run.output();
            expect(&output, 0);
            assert_eq!(output.out().trim(), "Forty-two.");
        }
        let thoughts = blocks(&records(&scene, "kept"), "thinking");
        assert!(
            thoughts.len() == 2 && thoughts[0]["text"].to_string().contains("weighing it"),
            "{thoughts:?}"
        );
    }
}

#[test]
fn a_prompt_beyond_the_context_ends_with_3() {
    let Some(proxy) = proxy() else { return };
    let long = "a line of the long text\n".repeat(3_000);
    for wire in WIRES {
        for (model, words) in [("chat", long.as_str()), ("messages", &long), ("full", "")] {
            let scene = proxy.scene(wire, model, "");
            let run = print(&scene, &["-p", "sum up"])
                .env("OPENAI_API_KEY", KEY)
                .stdin(words);
            let output = run.output();
            assert_eq!(output.status, Some(3), "{wire} {model}: {}", output.all());
            assert!(output.err().contains("context"), "{}", output.err());
            assert_eq!(output.out(), "");
        }
    }
}

#[test]
fn a_limit_is_waited_for_and_a_wrong_key_is_not() {
    let Some(proxy) = proxy() else { return };
    for wire in WIRES {
        let scene = proxy.scene(wire, "busy", "");
        let output = print(&scene, &["-p", "go"]).env("OPENAI_API_KEY", KEY).output();
        expect(&output, 1);
        assert_eq!(
            output.err().matches("trying again").count(),
            3,
            "{}",
            output.err()
        );
        assert!(output.err().contains("429"), "{}", output.err());
        let scene = proxy.scene(wire, "chat", "");
        let run = print(&scene, &["-p", "go"]).env("OPENAI_API_KEY", "sk-not-the-key-at-all");
        let output = run.output();
        expect(&output, 1);
        assert!(!output.err().contains("trying again"), "{}", output.err());
        // What it says of keys that it does not know, where it has no database of them.
        assert!(output.err().contains("No connected db"), "{}", output.err());
        assert!(
            !output.all().contains("sk-not-the-key-at-all"),
            "{}",
            output.all()
        );
    }
}

#[test]
fn a_kill_in_the_middle_leaves_a_session_that_goes_on() {
    let Some(proxy) = proxy() else { return };
    use nix::sys::signal::Signal;
    for (signal, status) in [(Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
        for wire in WIRES {
            let scene = proxy.scene(wire, "smol", "");
            let words = ["--no-tools", "--session", "kept", "-p", "count to ten thousand"];
            let run = print(&scene, &words).env("OPENAI_API_KEY", KEY);
            let mut child = run.command().spawn().expect("ferrum starts");
            std::thread::sleep(Duration::from_secs(2));
            let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
            nix::sys::signal::kill(pid, signal).expect("the signal");
            assert_eq!(
                child.wait().expect("ferrum ends").code(),
                status,
                "{wire} {signal}"
            );
            let more = proxy.config(wire, "smol", "extra_body = { max_tokens = 8 }");
            scene.write(&scene.config_dir().join("config.toml"), more);
            let run =
                print(&scene, &["--no-tools", "--session", "kept", "-p", "stop"]).env("OPENAI_API_KEY", KEY);
            let output = run.output();
            assert!(
                matches!(output.status, Some(0 | 3)),
                "{wire} {signal}: {}",
                output.all()
            );
        }
    }
}

#[test]
fn setup_lists_the_models_of_the_proxy_and_tries_one() {
    let Some(proxy) = proxy() else { return };
    let scene = Scene::new(&ordinary());
    let url = format!("http://127.0.0.1:{}/v1", proxy.port);
    let words = [
        "setup",
        "--yes",
        "--provider",
        "proxy",
        "--base-url",
        &url,
        "--model",
        "chat",
    ];
    let run = print(&scene, &words)
        .args(["--api-key-env", "OPENAI_API_KEY"])
        .env("OPENAI_API_KEY", KEY);
    let output = run.output();
    expect(&output, 0);
    let text = std::fs::read_to_string(scene.config_dir().join("config.toml")).expect("written");
    assert!(text.contains("model = \"chat\"") && !text.contains(KEY), "{text}");
}
