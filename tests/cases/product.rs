//! Bringing the calls of a case to the product: one call by `ferrum tool`, anything that needs a
//! conversation or a terminal by a whole turn of `ferrum -p` with a scripted model.

use crate::answer::{Answer, Kind};
use crate::case::Case;
use crate::during::{self, Intruder};
use crate::ground::Ground;
use crate::observe::{self, Seen};
use crate::setup::Prepared;
use ferrum_tests::provider::{self, Provider};
use ferrum_tests::{place, run};
use serde_json::{Map, Value, json};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A run without a limit of its own that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A tool and its arguments.
pub type Call = (String, Value);

/// What is asked of the product.
#[derive(Debug, Clone)]
pub struct Task {
    /// Calls of one message: the tool, and arguments in the product's own names.
    pub calls: Vec<Call>,
    /// Done, then called, after the answer to the calls.
    pub then: Option<(String, Call)>,
    /// Done once the product is up, before the first call.
    pub late: Option<String>,
    /// Needed: a conversation, a terminal.
    pub turn: bool,
    pub terminal: bool,
    pub deadline: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Ran {
    pub answers: Vec<Answer>,
    pub then: Option<Answer>,
    pub seen: Seen,
    pub shown: Vec<u8>,
}

/// # Errors
/// A sentence, when the product could not be asked or gave no answer.
pub fn ask(
    case: &Case,
    task: &Task,
    ground: &Ground,
    prepared: &Prepared,
    intruder: Option<Intruder>,
) -> Result<Ran, String> {
    if task.turn {
        turn(case, task, ground, prepared, intruder)
    } else {
        single(case, task, ground, prepared, intruder)
    }
}

fn single(
    case: &Case,
    task: &Task,
    ground: &Ground,
    prepared: &Prepared,
    intruder: Option<Intruder>,
) -> Result<Ran, String> {
    configure(ground, &prepared.config)?;
    let (tool, arguments) = task.calls.first().ok_or("no call")?;
    let mut command = ferrum(ground, prepared);
    command.args(["tool", tool, "-", "--json", "--safety", &case.tier]);
    let seen = observe::run(
        command,
        arguments.to_string().into_bytes(),
        task.deadline,
        intruder,
    )?;
    let json: Value = serde_json::from_slice(&seen.stdout).unwrap_or(Value::Null);
    let kind = match json["outcome"].as_str() {
        Some("done") => Kind::Done,
        Some("failed") => Kind::Failed,
        Some("refused") => Kind::Refused,
        _ => return Err(format!("no answer{}", told(&seen))),
    };
    let text = json["text"].as_str().ok_or("an answer without text")?.to_owned();
    let answer = Answer {
        kind,
        text,
        is_error: None,
    };
    Ok(Ran {
        answers: vec![answer],
        seen,
        ..Ran::default()
    })
}

fn turn(
    case: &Case,
    task: &Task,
    ground: &Ground,
    prepared: &Prepared,
    intruder: Option<Intruder>,
) -> Result<Ran, String> {
    let problem = Arc::new(Mutex::new(None));
    let model = model(task, ground, &problem);
    configure(ground, &format!("{}{}", model.config(), prepared.config))?;
    let mut command = ferrum(ground, prepared);
    command.args(["-p", "go on", "--safety", &case.tier]);
    let terminal = task
        .terminal
        .then(|| observe::terminal(&mut command))
        .transpose()?;
    let seen = observe::run(command, Vec::new(), task.deadline, intruder)?;
    let shown = terminal
        .map(|receiver| observe::shown(&receiver))
        .unwrap_or_default();
    if let Some(problem) = problem.lock().ok().and_then(|mut problem| problem.take()) {
        return Err(problem);
    }
    let mut answers = results(ground);
    if task.late.is_some() && !answers.is_empty() {
        answers.remove(0);
    }
    let expected = task.calls.len() + usize::from(task.then.is_some());
    if answers.len() != expected {
        let shown = String::from_utf8_lossy(&shown);
        return Err(format!(
            "{} results in the session, not {expected}{}{shown}",
            answers.len(),
            told(&seen)
        ));
    }
    let then = task.then.is_some().then(|| answers.pop()).flatten();
    Ok(Ran {
        answers,
        then,
        seen,
        shown,
    })
}

/// One step of the scripted model: what happens first, and the calls that it then makes.
type Step = (Option<String>, Vec<Call>);

fn model(task: &Task, ground: &Ground, problem: &Arc<Mutex<Option<String>>>) -> Provider {
    let mut steps: Vec<Step> = vec![(task.late.clone(), task.calls.clone())];
    steps.extend(task.then.clone().map(|(script, call)| (Some(script), vec![call])));
    let mut warm = task.late.is_some();
    let mut steps = steps.into_iter();
    let problem = Arc::clone(problem);
    let place = ground.placeless();
    Provider::answering(move || {
        // The first call only brings the product up.
        if std::mem::take(&mut warm) {
            return Some(provider::calls(&[("ls", json!({ "path": "." }))]));
        }
        let Some((script, calls)) = steps.next() else {
            return Some(provider::says("done"));
        };
        if let Some(script) = script
            && let Err(found) = during::between(&script, &place)
            && let Ok(mut problem) = problem.lock()
        {
            *problem = Some(found);
        }
        let calls: Vec<(&str, Value)> = calls
            .iter()
            .map(|(tool, call)| (tool.as_str(), call.clone()))
            .collect();
        Some(provider::calls(&calls))
    })
}

pub fn ferrum(ground: &Ground, prepared: &Prepared) -> Command {
    let mut command = Command::new(place::ferrum());
    command
        .env_clear()
        .envs([
            ("PATH", run::PATH),
            ("LANG", "C.UTF-8"),
            ("TERM", "xterm"),
            ("USER", &ground.who.name),
            ("LOGNAME", &ground.who.name),
            ("OPENAI_API_KEY", &ground.secret),
        ])
        .envs([
            ("HOME", ground.home()),
            ("FERRUM_CONFIG_DIR", ground.config()),
            ("FERRUM_DATA_DIR", ground.data()),
        ])
        .current_dir(ground.cwd())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in &prepared.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    ground.who.apply(&mut command);
    command
}

fn configure(ground: &Ground, text: &str) -> Result<(), String> {
    std::fs::write(ground.config().join("config.toml"), text).map_err(|e| e.to_string())?;
    ground.hand_over().map_err(|e| e.to_string())
}

/// Every tool result of the one session, in order.
fn results(ground: &Ground) -> Vec<Answer> {
    ground.session_records().iter().flat_map(blocks).collect()
}

fn blocks(record: &Value) -> Vec<Answer> {
    let content = record["message"]["content"].as_array().into_iter().flatten();
    content
        .filter(|block| block["type"] == "tool_result")
        .map(|block| {
            let text = match &block["content"] {
                Value::String(text) => text.clone(),
                parts => parts
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|part| part["text"].as_str())
                    .collect(),
            };
            Answer::of_conversation(&text, block["is_error"] == true)
        })
        .collect()
}

fn told(seen: &Seen) -> String {
    format!(
        " (status {:?}{})\n{}\n{}",
        seen.status,
        if seen.hung { ", it hung" } else { "" },
        String::from_utf8_lossy(&seen.stdout),
        String::from_utf8_lossy(&seen.stderr)
    )
}

/// A call of the case: its arguments, or `{"tool": …, "args": …}` where it is of another tool.
pub fn call(tool: &str, value: Value, ground: &Ground) -> Call {
    match (value["tool"].as_str(), value.get("args")) {
        (Some(other), Some(args)) => (other.to_owned(), arguments(other, args.clone(), ground)),
        _ => (tool.to_owned(), arguments(tool, value, ground)),
    }
}

/// The arguments of a case in the product's own names.
fn arguments(tool: &str, value: Value, ground: &Ground) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (own_name(tool, &name).to_owned(), arguments(tool, value, ground)))
                .collect::<Map<String, Value>>(),
        ),
        Value::Array(items) => items
            .into_iter()
            .map(|item| arguments(tool, item, ground))
            .collect(),
        Value::String(text) => Value::String(from_file(&ground.fill(&text), ground)),
        other => other,
    }
}

fn own_name<'a>(tool: &str, name: &'a str) -> &'a str {
    match (tool, name) {
        ("edit", "old") => "old_text",
        ("edit", "new") => "new_text",
        ("bash" | "wait", "timeout_s") => "timeout_seconds",
        ("wait", "max_wait_s") => "max_wait_seconds",
        ("wait", "seconds_s") => "seconds",
        _ => name,
    }
}

/// `@name`: the text of that file of the case's folder.
fn from_file(text: &str, ground: &Ground) -> String {
    let named = text.strip_prefix('@').map(|name| ground.copies().join(name));
    named
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_else(|| text.to_owned())
}
