//! `ferrum login` against an issuer with the same wire: browser, pasted code, device code.

use ferrum_tests::provider::{Answer, Provider, status, stream_head};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::ordinary;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An issuer that gives the tokens of one account, to whoever brings the code `good`.
pub struct Issuer {
    pub address: String,
    /// Path and body of each request.
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Issuer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some((path, body)) = request(&mut stream) else {
                    continue;
                };
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.push((path.clone(), body.clone()));
                let polls = log.iter().filter(|(known, _)| *known == path).count();
                let (status, answer) = answer(&path, &body, polls);
                let answer = answer.to_string();
                let length = answer.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all((head + &answer).as_bytes());
            }
        });
        Self { address, seen }
    }

    pub fn seen(&self) -> Vec<(String, String)> {
        self.seen.lock().expect("no panic").clone()
    }
}

fn answer(path: &str, body: &str, polls: usize) -> (u16, Value) {
    match path {
        "/oauth/token" if body.contains("code=good&") => (200, tokens()),
        "/oauth/token" if body.contains("grant_type=refresh_token") && body.contains("=refresh-0&") => {
            (200, tokens())
        }
        "/oauth/token" if body.contains("grant_type=refresh_token") => (
            401,
            json!({"error": {"code": "refresh_token_reused", "message": "the token was used before"}}),
        ),
        "/oauth/token" => (
            400,
            json!({"error": {"code": "invalid_code", "message": "unknown code"}}),
        ),
        "/api/accounts/deviceauth/usercode" => (
            200,
            json!({"device_auth_id": "d1", "user_code": "ABCD-1234", "interval": "1"}),
        ),
        "/api/accounts/deviceauth/token" if polls < 2 => (403, json!({})),
        "/api/accounts/deviceauth/token" => (
            200,
            json!({"authorization_code": "good", "code_challenge": "c", "code_verifier": "v"}),
        ),
        _ => (404, json!({})),
    }
}

/// Unsigned tokens: header, claims, something.
pub fn tokens() -> Value {
    // {"exp":4102444800,"email":"ada@example.org","https://api.openai.com/auth":
    //  {"chatgpt_account_id":"acc-1","chatgpt_plan_type":"plus"}}
    const CLAIMS: &str = "eyJleHAiOjQxMDI0NDQ4MDAsImVtYWlsIjoiYWRhQGV4YW1wbGUub3JnIiwiaHR0cHM6Ly9hcGkub3BlbmFpLmNvbS9hdXRoIjp7ImNoYXRncHRfYWNjb3VudF9pZCI6ImFjYy0xIiwiY2hhdGdwdF9wbGFuX3R5cGUiOiJwbHVzIn19";
    json!({"id_token": "i", "access_token": format!("e30.{CLAIMS}.c2ln"), "refresh_token": "refresh-1", "expires_in": 3600})
}

fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(Some(0), |length| length.trim().parse().ok())? {
                return Some((head.split(' ').nth(1)?.to_owned(), body.to_owned()));
            }
        }
        match stream.read(&mut part) {
            Ok(count @ 1..) => bytes.extend_from_slice(&part[..count]),
            _ => return None,
        }
    }
}

/// There are two ports for browsers, and these tests run at once.
static PORTS: Mutex<()> = Mutex::new(());

/// A login that has said where to go.
struct Asked {
    _ports: MutexGuard<'static, ()>,
    child: Child,
    address: String,
    rest: BufReader<std::process::ChildStdout>,
}

fn ask(scene: &Scene, issuer: &Issuer, words: &[&str]) -> Asked {
    let ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let run = scene
        .ferrum(["login"])
        .args(words)
        .env("FERRUM_CODEX_ISSUER", issuer.address.clone());
    let mut child = run
        .command()
        .stdin(Stdio::piped())
        .spawn()
        .expect("ferrum starts");
    let mut rest = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.trim().starts_with(&issuer.address) {
        line.clear();
        assert!(
            rest.read_line(&mut line).expect("text") > 0,
            "no address was shown"
        );
    }
    Asked {
        _ports: ports,
        child,
        address: line.trim().to_owned(),
        rest,
    }
}

impl Asked {
    fn parameter(&self, name: &str) -> String {
        let found = self
            .address
            .split(['?', '&'])
            .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        found
            .expect("a parameter")
            .replace("%3A", ":")
            .replace("%2F", "/")
    }

    fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{line}").expect("read");
    }

    fn output(mut self) -> Output {
        let mut stdout = Vec::new();
        self.rest.read_to_end(&mut stdout).expect("text");
        let done = self.child.wait_with_output().expect("ferrum ends");
        Output {
            status: done.status.code(),
            stdout,
            stderr: done.stderr,
            timed_out: false,
        }
    }
}

fn visit(address: &str) -> String {
    let rest = address.strip_prefix("http://localhost:").expect("loopback");
    let (port, path) = rest.split_once('/').expect("a path");
    let mut stream =
        TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).expect("somebody listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    page
}

pub fn kept(scene: &Scene) -> Value {
    use std::os::unix::fs::PermissionsExt;
    let file = scene.config_dir().join("auth.json");
    let mode = std::fs::metadata(&file).expect("auth.json").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    serde_json::from_slice(&std::fs::read(file).expect("its text")).expect("JSON")
}

pub fn scene() -> Scene {
    let scene = Scene::new(&ordinary());
    // The scene keeps a secret there.
    scene.write(&scene.config_dir().join("auth.json"), "{\"other\": {\"key\": 1}}");
    scene
}

#[test]
fn a_browser_brings_the_code_and_the_configuration_follows() {
    let (scene, issuer) = (scene(), Issuer::start());
    let config = scene.config_dir().join("config.toml");
    scene.write(&config, "# mine\nmax_tool_rounds = 5 # few\n");
    let asked = ask(&scene, &issuer, &["openai", "--model", "gpt-x"]);
    for (name, value) in [
        ("client_id", "app_EMoamEEZ73f0CkXaXp7hrann"),
        ("code_challenge_method", "S256"),
        ("response_type", "code"),
    ] {
        assert_eq!(asked.parameter(name), value);
    }
    let (redirect, state) = (asked.parameter("redirect_uri"), asked.parameter("state"));
    assert!(visit(&format!("{redirect}?code=evil&state=forged")).starts_with("HTTP/1.1 400"));
    assert!(visit(&format!("{redirect}?code=good&state={state}")).starts_with("HTTP/1.1 200"));
    let output = asked.output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert!(
        output.out().contains("ada@example.org (plus)"),
        "{}",
        output.out()
    );
    let kept = kept(&scene);
    assert_eq!(kept["other"], json!({"key": 1}));
    let entry = &kept["openai-codex"];
    assert_eq!(
        (&entry["type"], &entry["refresh"]),
        (&json!("oauth"), &json!("refresh-1"))
    );
    assert_eq!(entry["accountId"], "acc-1");
    assert!(!output.all().contains("refresh-1"), "a token is shown");
    let text = std::fs::read_to_string(config).expect("the configuration");
    for part in [
        "# mine\n",
        "max_tool_rounds = 5 # few\n",
        "provider = \"openai-codex\"",
        "model = \"gpt-x\"",
        "[providers.openai-codex]\ntype = \"openai-codex\"\n",
    ] {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
    let (path, body) = issuer.seen().remove(0);
    assert_eq!(path, "/oauth/token");
    assert!(
        body.contains("grant_type=authorization_code") && body.contains("code_verifier="),
        "{body}"
    );
}

#[test]
fn a_pasted_address_or_code_will_do_and_another_one_is_named() {
    let (scene, issuer) = (scene(), Issuer::start());
    let mut asked = ask(&scene, &issuer, &["--auth-only"]);
    let state = asked.parameter("state");
    asked.say("what is this?");
    asked.say("http://localhost:1455/auth/callback?code=good&state=other");
    asked.say(&format!(
        "http://localhost:1455/auth/callback?code=good&state={state}"
    ));
    let output = asked.output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert!(
        output.err().contains("another login") && output.err().contains("no code"),
        "{}",
        output.err()
    );
    assert_eq!(kept(&scene)["openai-codex"]["accountId"], "acc-1");
    assert!(
        !scene.config_dir().join("config.toml").exists(),
        "--auth-only configures nothing"
    );
}

#[test]
fn a_wrong_code_and_a_refusal_leave_the_old_login() {
    let (scene, issuer) = (scene(), Issuer::start());
    for answer in ["code=bad", "error=access_denied&error_description=not%20you"] {
        let mut asked = ask(&scene, &issuer, &["--auth-only"]);
        let state = asked.parameter("state");
        asked.say(&format!(
            "http://localhost:1455/auth/callback?{answer}&state={state}"
        ));
        let output = asked.output();
        assert_eq!(output.status, Some(1), "{}", output.all());
        assert!(
            output.err().contains("unknown code") || output.err().contains("not you"),
            "{}",
            output.err()
        );
        assert_eq!(kept(&scene), json!({"other": {"key": 1}}));
    }
}

#[test]
fn a_device_code_is_polled_until_it_is_confirmed() {
    let (scene, issuer) = (scene(), Issuer::start());
    let output = scene
        .ferrum(["login", "openai-codex", "--auth-only", "--device"])
        .env("FERRUM_CODEX_ISSUER", issuer.address.clone())
        .output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert!(
        output.out().contains("ABCD-1234") && output.out().contains("/codex/device"),
        "{}",
        output.out()
    );
    let paths: Vec<String> = issuer.seen().into_iter().map(|(path, _)| path).collect();
    let poll = "/api/accounts/deviceauth/token";
    assert_eq!(
        paths,
        ["/api/accounts/deviceauth/usercode", poll, poll, "/oauth/token"]
    );
    assert!(
        issuer.seen()[3].1.contains("code_verifier=v"),
        "{:?}",
        issuer.seen()[3]
    );
    assert_eq!(kept(&scene)["openai-codex"]["refresh"], "refresh-1");
}

/// A whole answer of the backend.
pub fn answers() -> Answer {
    let item = json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
        "content": [{"type": "output_text", "text": "hello again", "annotations": []}]});
    let events = [
        json!({"type": "response.created", "response": {"id": "r1"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "r1", "status": "completed",
            "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}}),
    ];
    let mut bytes = stream_head();
    for event in events {
        bytes.extend(format!("data: {event}\n\n").into_bytes());
    }
    Answer::Bytes(bytes)
}

/// The session's front may write nothing in the config directory but what `login` has made there.
#[test]
fn a_session_refreshes_a_token_that_is_about_to_end() {
    let (scene, issuer) = (scene(), Issuer::start());
    let backend = Provider::start(vec![answers()]);
    let config = format!(
        "provider = \"openai-codex\"\nmodel = \"gpt-x\"\n[providers.openai-codex]\ntype = \"openai-codex\"\n\
         base_url = \"http://127.0.0.1:{}\"\n",
        backend.port
    );
    scene.write(&scene.config_dir().join("config.toml"), config);
    let old = json!({"other": {"key": 1}, "openai-codex": {"type": "oauth", "access": "old-access-token",
        "refresh": "refresh-0", "expires": 1, "accountId": "acc-1"}});
    scene.write(&scene.config_dir().join("auth.json"), old.to_string());
    for name in [".auth.json.lock", ".auth.json.new"] {
        scene.write(&scene.config_dir().join(name), "");
    }
    for _ in 0..2 {
        let output = scene
            .ferrum(["-p", "hello"])
            .env("FERRUM_CODEX_ISSUER", issuer.address.clone())
            .output();
        assert_eq!(output.status, Some(0), "{}", output.all());
        assert_eq!(output.out().trim(), "hello again");
    }
    let tokens = issuer
        .seen()
        .into_iter()
        .filter(|(path, _)| path == "/oauth/token");
    assert_eq!(tokens.count(), 1, "refreshed more than once: {:?}", issuer.seen());
    assert_eq!(kept(&scene)["openai-codex"]["refresh"], "refresh-1");
    assert_eq!(kept(&scene)["other"], json!({"key": 1}));
    for request in backend.requests() {
        assert!(
            request.head.starts_with("POST /codex/responses"),
            "{}",
            request.head
        );
        assert!(
            request.head.contains("chatgpt-account-id: acc-1"),
            "{}",
            request.head
        );
        assert!(
            request.head.contains("uthorization: Bearer e30."),
            "{}",
            request.head
        );
    }
    let ledger = std::fs::read_to_string(scene.data_dir().join("usage.jsonl")).expect("usage.jsonl");
    assert_eq!(ledger.lines().count(), 2, "{ledger}");
    assert!(
        ledger.contains("\"model\":\"gpt-x\"") && ledger.contains("\"total_tokens\":5"),
        "{ledger}"
    );
}

#[test]
fn without_a_model_of_choice_the_first_of_the_list_answers() {
    let (scene, issuer) = (scene(), Issuer::start());
    let list = json!({"models": [
        {"slug": "hidden", "visibility": "hide", "priority": 0},
        {"slug": "gpt-second", "visibility": "list", "priority": 2},
        {"slug": "gpt-first", "visibility": "list", "priority": 1},
    ]});
    let backend = Provider::start(vec![status("200 OK", &list.to_string())]);
    let file = scene.config_dir().join("config.toml");
    let address = format!("base_url = \"http://127.0.0.1:{}\"", backend.port);
    scene.write(
        &file,
        format!("[providers.openai-codex]\ntype = \"openai-codex\"\n{address} # near\n"),
    );
    let output = scene
        .ferrum(["login", "--device"])
        .env("FERRUM_CODEX_ISSUER", issuer.address.clone())
        .env("FERRUM_CODEX_CLIENT_VERSION", "9.8.7")
        .output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert!(
        output.out().contains("gpt-first answers from now on"),
        "{}",
        output.out()
    );
    let text = std::fs::read_to_string(file).expect("the configuration");
    for part in [
        "model = \"gpt-first\"\n",
        "provider = \"openai-codex\"\n",
        &format!("{address} # near\n"),
    ] {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
    let head = backend.requests().remove(0).head;
    assert!(
        head.starts_with("GET /codex/models?client_version=9.8.7 "),
        "{head}"
    );
}
