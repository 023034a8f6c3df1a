//! Cases of one turn whose answers are given byte for byte, as a server sends them.
//!
//! The turn runs where its words are shown as they come (`--output stream-json`), or, with
//! `mode = "print"`, where only whole answers are. What a reader sees is judged in a run of its
//! own, in a terminal.

use crate::case::Case;
use crate::ground::Ground;
use crate::keys::Keys;
use crate::observe::{self, Seen};
use crate::product::{self, PATIENCE, Ran};
use crate::server::{Script, Server};
use crate::setup::{self, Prepared, bytes_of_hex};
use crate::verdict;
use ferrum_tests::who;
use serde_json::{Value, json};
use std::time::Duration;

/// The feature that these cases are about.
pub const FEATURE: &str = "provider-stream";

/// Keys of a case that stand beside its input and belong to the answers.
const KEYS: [&str; 5] = ["answers", "repeat_first", "generate", "mode", "history"];
/// Keys of an expectation that only a reader's eye can judge.
const FOR_THE_EYE: [&str; 3] = ["displayed", "terminal_not_contains", "terminal_not_contains_hex"];

/// Takes the keys that describe the answers.
pub fn answers(keys: &mut Keys) -> Keys {
    let taken = KEYS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), keys.take(key)?)));
    taken.collect::<toml::Table>().into()
}

/// What one run left to look at.
struct Turn {
    seen: Seen,
    shown: Vec<u8>,
    messages: Vec<Value>,
    server: Server,
}

impl Turn {
    fn said(&self) -> String {
        let bytes = [&self.seen.stdout, &self.seen.stderr, &self.shown];
        bytes
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .concat()
    }

    fn results(&self) -> impl Iterator<Item = &Value> {
        let blocks = self
            .messages
            .iter()
            .filter_map(|message| message["content"].as_array());
        blocks.flatten().filter(|block| block["type"] == "tool_result")
    }

    fn answer(&self) -> Option<&Value> {
        self.messages
            .iter()
            .find(|message| message["role"] == "assistant")
    }
}

/// # Errors
/// A sentence, when the case cannot be run.
pub fn of(case: &Case) -> Result<Result<(), Vec<String>>, String> {
    let mut first = case.expect.clone();
    let or_outcome = first.text("or_outcome")?;
    let mut problems = run(case, first.clone())?;
    if let Some(outcome) = or_outcome.filter(|_| !problems.is_empty()) {
        let mut second = toml::Table::new();
        second.insert("outcome".to_owned(), outcome.into());
        if run(case, second.into())?.is_empty() {
            problems.clear();
        }
    }
    Ok(if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    })
}

fn run(case: &Case, expect: Keys) -> Result<Vec<String>, String> {
    let (mut rest, mut eye) = (toml::Table::new(), toml::Table::new());
    for (key, value) in expect.rest() {
        let into = if FOR_THE_EYE.contains(&key.as_str()) {
            &mut eye
        } else {
            &mut rest
        };
        into.insert(key, value);
    }
    let mut problems = Vec::new();
    let mut judge = |terminal: bool, mut expect: Keys| -> Result<(), String> {
        let ground = Ground::new(&who::ordinary(), &case.folder)?;
        let prepared = setup::all(&case.setup, &ground)?;
        let turn = play(case, &ground, &prepared, terminal)?;
        let mut judge = Judge {
            turn: &turn,
            ground: &ground,
            problems: Vec::new(),
        };
        judge.all(&mut expect)?;
        expect.nothing_left("expect")?;
        problems.append(&mut judge.problems);
        let ran = Ran {
            seen: turn.seen,
            shown: turn.shown,
            ..Ran::default()
        };
        problems.extend(verdict::always(FEATURE, false, &ran, &prepared, &ground));
        Ok(())
    };
    judge(false, rest.into())?;
    if !eye.is_empty() {
        judge(true, eye.into())?;
    }
    Ok(problems)
}

fn play(case: &Case, ground: &Ground, prepared: &Prepared, terminal: bool) -> Result<Turn, String> {
    let mut input = case.input.clone();
    let wire = input.text("provider")?.ok_or("no provider")?;
    let prompt = input.text("prompt")?.ok_or("no prompt")?;
    input.nothing_left("input")?;
    let mut answers = case.answers.clone().unwrap_or_default();
    let mode = answers.text("mode")?.unwrap_or_else(|| "interactive".to_owned());
    let history = answers.text("history")?;
    let script = Script::read(&mut answers, &wire, ground)?;
    answers.nothing_left("the answers")?;
    let server = Server::start(script);
    configure(&wire, server.port, &prepared.config, ground)?;
    let mut command = product::ferrum(ground, prepared);
    // Nobody gives new tokens.
    command.env("FERRUM_CODEX_ISSUER", "http://127.0.0.1:9");
    match mode.as_str() {
        _ if terminal => {}
        "print" => {}
        "interactive" => {
            command.args(["--output", "stream-json"]);
        }
        other => return Err(format!("the runner cannot express mode {other}")),
    }
    match history.as_deref() {
        None => {}
        Some("long") => {
            long_session(ground)?;
            command.args(["--session", "long"]);
        }
        Some(other) => return Err(format!("the runner cannot express history {other}")),
    }
    command.args(["-p", &prompt]);
    let terminal = terminal.then(|| observe::terminal(&mut command)).transpose()?;
    let limit = case.expect.clone().number("within_s")?;
    let deadline = limit.map_or(PATIENCE, |s| Duration::from_secs_f64(s + 20.0));
    let seen = observe::run(command, Vec::new(), deadline, None)?;
    Ok(Turn {
        seen,
        shown: terminal
            .map(|receiver| observe::shown(&receiver))
            .unwrap_or_default(),
        messages: messages(ground),
        server,
    })
}

/// A configuration with the one provider, and its login where it has one.
fn configure(wire: &str, port: u16, more: &str, ground: &Ground) -> Result<(), String> {
    const KEY: &str = "api_key_env = \"OPENAI_API_KEY\"\n";
    let (kind, path, key) = match wire {
        "chat" => ("openai-compatible", "/v1", KEY),
        "anthropic" => ("anthropic", "", KEY),
        "codex" => ("openai-codex", "/backend-api", ""),
        other => return Err(format!("the runner cannot express provider {other}")),
    };
    let text = format!(
        "provider = \"mock\"\nmodel = \"m\"\n[providers.mock]\ntype = \"{kind}\"\n\
         base_url = \"http://127.0.0.1:{port}{path}\"\n{key}{more}"
    );
    let file = |name: &str, text: &str| {
        std::fs::write(ground.config().join(name), text).map_err(|e| format!("{name}: {e}"))
    };
    file("config.toml", &text)?;
    let login = json!({ "openai-codex": {
        "type": "oauth", "access": ground.secret, "refresh": format!("{}-r", ground.secret),
        "expires": 4_000_000_000_000_u64, "accountId": "account",
    }});
    file("auth.json", &login.to_string())?;
    let private = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(ground.config().join("auth.json"), private).map_err(|e| e.to_string())?;
    ground.hand_over().map_err(|e| e.to_string())
}

/// A session that already holds a long conversation.
fn long_session(ground: &Ground) -> Result<(), String> {
    let directory = ground.data().join("sessions");
    std::fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
    let mut text = json!({"type": "header", "version": 1, "id": "h", "timestamp_ms": 1,
        "mode": "print", "cwd": ground.cwd()})
    .to_string();
    for turn in 0..40 {
        for role in ["user", "assistant"] {
            let words = format!("{role} turn {turn} {}", "words ".repeat(200));
            let message = json!({"role": role, "content": [{"type": "text", "text": words}]});
            let record = json!({"type": "message", "id": format!("{role}{turn}"), "timestamp_ms": 1, "message": message});
            text.push('\n');
            text.push_str(&record.to_string());
        }
    }
    text.push('\n');
    std::fs::write(directory.join("long.jsonl"), text).map_err(|e| e.to_string())?;
    ground.hand_over().map_err(|e| e.to_string())
}

/// The messages that the turn added to its session.
fn messages(ground: &Ground) -> Vec<Value> {
    let records = ground.session_records().into_iter();
    records
        // The made-up history is older than everything.
        .filter(|record| record["type"] == "message" && record["timestamp_ms"].as_u64() > Some(1))
        .map(|record| record["message"].clone())
        .collect()
}

struct Judge<'a> {
    turn: &'a Turn,
    ground: &'a Ground,
    problems: Vec<String>,
}

impl Judge<'_> {
    fn need(&mut self, good: bool, what: impl Into<String>) {
        if !good {
            let said = self.turn.said();
            let end = said.floor_char_boundary(1_500);
            self.problems.push(format!("{}:\n{}", what.into(), &said[..end]));
        }
    }

    fn all(&mut self, expect: &mut Keys) -> Result<(), String> {
        self.outcome(expect)?;
        self.message(expect)?;
        self.words(expect)?;
        self.requests(expect)?;
        self.next_request(expect)?;
        self.limits(expect)?;
        self.eye(expect)
    }

    fn outcome(&mut self, expect: &mut Keys) -> Result<(), String> {
        let status = self.turn.seen.status;
        match expect.text("outcome")?.as_deref() {
            None => {}
            Some("message") => self.need(status == Some(0), format!("ended with {status:?}")),
            // Calls that cannot be run are told to the model, and the turn goes on.
            Some("turn-error") => {
                let told = self.turn.results().next().is_some() && self.ran() == 0;
                // A configuration that cannot work is no answer to anything.
                let failed = matches!(status, Some(1 | 3)) && !self.turn.server.times().is_empty();
                self.need(failed || told, format!("no error, but {status:?}"));
            }
            Some(other) => return Err(format!("the runner cannot express outcome {other}")),
        }
        if let Some(wanted) = expect.whole("status")? {
            self.need(
                status.map(i64::from) == Some(wanted),
                format!("status {status:?}"),
            );
        }
        Ok(())
    }

    /// Calls that were really run: the others say in their result that they were not.
    fn ran(&self) -> usize {
        let not_run = |text: &str| text.starts_with("not run") || text.ends_with("Nothing was run.");
        let texts = self
            .turn
            .results()
            .map(|block| block["content"].as_str().unwrap_or_default());
        texts.filter(|text| !not_run(text)).count()
    }

    fn message(&mut self, expect: &mut Keys) -> Result<(), String> {
        let answer = self.turn.answer().cloned().unwrap_or(Value::Null);
        if let Some(text) = expect.text("message")? {
            let wanted: Value = serde_json::from_str(&text).map_err(|e| format!("message: {e}"))?;
            self.need(same(&wanted, &answer), format!("expected {wanted}, got {answer}"));
        }
        if let Some(mut counts) = expect.part("usage")? {
            for (key, field) in [("input", "input_tokens"), ("output", "output_tokens")] {
                let wanted = counts.whole(key)?;
                let got = answer["usage"][field].as_i64();
                self.need(wanted.is_none() || wanted == got, format!("{field}: {got:?}"));
            }
            counts.nothing_left("usage")?;
        }
        match expect.text("ids")?.as_deref() {
            None => {}
            Some("made up, non-empty, different") => {
                let blocks = answer["content"].as_array().cloned().unwrap_or_default();
                let ids: Vec<&str> = blocks.iter().filter_map(|block| block["id"].as_str()).collect();
                let good = ids
                    .iter()
                    .enumerate()
                    .all(|(at, id)| !id.is_empty() && !ids[..at].contains(id));
                self.need(good, format!("ids {ids:?}"));
            }
            Some(other) => return Err(format!("the runner cannot express ids {other}")),
        }
        Ok(())
    }

    fn words(&mut self, expect: &mut Keys) -> Result<(), String> {
        if let Some(words) = expect.texts("error_mentions")? {
            let results: String = self.turn.results().map(Value::to_string).collect();
            let said = format!("{}{results}", self.turn.said()).to_lowercase();
            let good = words.iter().any(|word| said.contains(&word.to_lowercase()));
            self.need(good, format!("none of {words:?} is said"));
        }
        if let Some(wanted) = expect.whole("tools_run")? {
            let ran = self.ran();
            self.need(
                i64::try_from(ran).ok() == Some(wanted),
                format!("{ran} tools ran"),
            );
        }
        for name in expect.texts("files_absent")?.unwrap_or_default() {
            let there = self.ground.path(&name).symlink_metadata().is_ok();
            self.need(!there, format!("{name} is there"));
        }
        Ok(())
    }

    fn requests(&mut self, expect: &mut Keys) -> Result<(), String> {
        let times = self.turn.server.times();
        let count = i64::try_from(times.len()).unwrap_or(i64::MAX);
        if let Some(wanted) = expect.whole("requests")? {
            self.need(count == wanted, format!("{count} requests"));
        }
        if let Some(most) = expect.whole("requests_max")? {
            self.need(count <= most, format!("{count} requests"));
        }
        if let Some(least) = expect.number("min_wait_s")? {
            let waited = times
                .get(1)
                .zip(times.first())
                .map(|(b, a)| b.duration_since(*a).as_secs_f64());
            self.need(
                waited.is_some_and(|waited| waited >= least),
                format!("waited {waited:?} s"),
            );
        }
        Ok(())
    }

    /// The result of a call as the model gets it.
    fn next_request(&mut self, expect: &mut Keys) -> Result<(), String> {
        let Some(mut next) = expect.part("next_request")? else {
            return Ok(());
        };
        let request = self.turn.server.body(1);
        let sent = request.to_string();
        for part in next.texts("holds")?.unwrap_or_default() {
            self.need(sent.contains(&part), format!("{part} is not in {sent}"));
        }
        if let Some(wanted) = next.whole("messages")? {
            let list = request["messages"].as_array().into_iter().flatten();
            let count = list.filter(|message| message["role"] != "system").count();
            self.need(
                i64::try_from(count).ok() == Some(wanted),
                format!("{count} messages in {sent}"),
            );
        }
        if let Some(id) = next.text("tool_result_for")? {
            self.result(&id, &sent, &mut next)?;
        }
        next.nothing_left("next_request")
    }

    fn result(&mut self, id: &str, sent: &str, next: &mut Keys) -> Result<(), String> {
        let result = self.turn.results().find(|block| block["tool_use_id"] == id);
        let result = result.cloned().unwrap_or(Value::Null);
        if let Some(wanted) = next.flag("is_error")? {
            self.need(result["is_error"] == wanted, format!("is_error of {result}"));
        }
        let text = result["content"].as_str().unwrap_or_default().to_lowercase();
        let sent = sent.to_lowercase();
        let holds =
            |word: &String| text.contains(&word.to_lowercase()) && sent.contains(&word.to_lowercase());
        if let Some(words) = next.texts("text_contains_any")? {
            self.need(words.iter().any(holds), format!("none of {words:?} in {text:?}"));
        }
        for word in next.texts("text_contains")?.unwrap_or_default() {
            self.need(holds(&word), format!("{word:?} is not in {text:?}"));
        }
        Ok(())
    }

    fn limits(&mut self, expect: &mut Keys) -> Result<(), String> {
        let took = self.turn.seen.elapsed.as_secs_f64();
        if let Some(most) = expect.number("within_s")? {
            self.need(took <= most, format!("took {took:.1} s"));
        }
        if let Some(most) = expect.number("rss_mb_below")? {
            let megabytes = u32::try_from(self.turn.seen.memory >> 20).unwrap_or(u32::MAX);
            self.need(f64::from(megabytes) < most, format!("{megabytes} MiB resident"));
        }
        Ok(())
    }

    fn eye(&mut self, expect: &mut Keys) -> Result<(), String> {
        let shown = &self.turn.shown;
        let holds = |bytes: &[u8]| shown.windows(bytes.len().max(1)).any(|window| window == bytes);
        let mut wrong = Vec::new();
        if let Some(text) = expect.text("displayed")?
            && !String::from_utf8_lossy(shown)
                .lines()
                .any(|line| line.trim() == text)
        {
            wrong.push(format!("{text:?} is not shown by itself"));
        }
        for text in expect.texts("terminal_not_contains")?.unwrap_or_default() {
            if holds(text.as_bytes()) {
                wrong.push(format!("{text:?} is shown"));
            }
        }
        for hex in expect.texts("terminal_not_contains_hex")?.unwrap_or_default() {
            if holds(&bytes_of_hex(&hex)?) {
                wrong.push(format!("the bytes {hex} are shown"));
            }
        }
        wrong.into_iter().for_each(|what| self.need(false, what));
        Ok(())
    }
}

/// The same text and the same calls, in the same order. Reasoning stands beside the answer.
fn same(wanted: &Value, got: &Value) -> bool {
    let blocks = |message: &Value| -> Vec<Value> {
        let content = message["content"].as_array().into_iter().flatten();
        content
            .filter(|block| block["type"] != "thinking")
            .cloned()
            .collect()
    };
    let (a, b) = (blocks(wanted), blocks(got));
    let equal = |a: &Value, b: &Value, key: &str| a[key] == b[key] || (key == "id" && a[key] == "*");
    wanted["role"] == got["role"]
        && a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            ["type", "text", "id", "name", "input"]
                .iter()
                .all(|key| equal(a, b, key))
        })
}
