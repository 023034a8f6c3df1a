//! `ferrum policy explain`: what policy would answer, from a host in role check. Nothing is run and
//! no model is asked.

use crate::cli::ExplainArgs;
use crate::config::{SHELLS, TIERS};
use crate::exit::{Failure, Kind};
use crate::host::Checker;
use crate::mode::{interrupted, notice, runtime, write_out};
use crate::start::Start;
use ferrum_proto::reply::Explanation;
use ferrum_proto::request::{Act, Query};
use ferrum_proto::terms::Isolation;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Longest line of a batch, in bytes: a command of the judge's own limit, all of it escaped, fits.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Lines that are read ahead.
const LINES_AHEAD_MAX: usize = 256;

const ISOLATIONS: [(&str, Isolation); 3] = [
    ("partial", Isolation::Partial),
    ("kernel", Isolation::Kernel),
    ("full", Isolation::Full),
];

/// One act: 0 allowed, 5 refused, 2 the question cannot be put. A batch: 0 once all is answered.
///
/// # Errors
/// A [`Failure`] when there is no host to ask, or it went away.
pub fn run(start: Start, asked: &ExplainArgs) -> Result<ExitCode, Failure> {
    for text in &start.config.notices {
        notice(text);
    }
    runtime()?.block_on(async {
        let (mut checker, _) = start.hosts.check().await?;
        let work = async {
            match (&asked.tool, &asked.act) {
                (Some(tool), Some(act)) => one(&mut checker, asked, tool, act).await,
                _ => batch(&mut checker, asked).await,
            }
        };
        let ended = tokio::select! {
            ended = work => ended,
            kind = interrupted() => Err(Failure::new(kind, "cancelled")),
        };
        checker.close().await;
        ended
    })
}

async fn one(
    checker: &mut Checker,
    asked: &ExplainArgs,
    tool: &str,
    text: &str,
) -> Result<ExitCode, Failure> {
    let query = Query {
        tier: asked.safety,
        shell: asked.shell,
        isolation: None,
        act: act(tool, text.to_owned()).map_err(|e| Failure::new(Kind::Usage, e))?,
    };
    checker.ask(query).await?;
    let answer = checker.answer().await?;
    let code = match &answer {
        Explanation::Allowed => ExitCode::SUCCESS,
        Explanation::Refused(_) => Kind::Denied.into(),
        Explanation::Unanswerable { .. } => Kind::Usage.into(),
    };
    let text = if asked.json {
        line(&object(Value::Null, &answer))
    } else {
        words(&answer)
    };
    write_out(&text)?;
    Ok(code)
}

fn act(tool: &str, text: String) -> Result<Act, String> {
    match tool {
        "bash" | "wait" => Ok(Act::Run(text)),
        "read" | "ls" | "find" | "grep" => Ok(Act::Read(text)),
        "write" | "edit" => Ok(Act::Change(text)),
        _ => Err(format!(
            "tool {tool:?} cannot be asked about: bash, read, write or edit"
        )),
    }
}

/// A question that waits for its answer, or an answer that waits for its turn.
enum Slot {
    Asked(Value),
    Answered(Value),
}

/// Questions from stdin until it ends. Answers keep the order of the questions; what is there is
/// printed at once.
async fn batch(checker: &mut Checker, asked: &ExplainArgs) -> Result<ExitCode, Failure> {
    let (lines, mut queue) = mpsc::channel(LINES_AHEAD_MAX);
    // The thread may still wait in a read when everything else is done: it is not joined.
    std::thread::spawn(move || read_lines(std::io::stdin().lock(), &lines));
    let mut slots: VecDeque<Slot> = VecDeque::new();
    let mut at_end = false;
    let mut out = String::new();
    loop {
        while let Some(Slot::Answered(value)) = slots.front() {
            out.push_str(&line(value));
            slots.pop_front();
        }
        if at_end && slots.is_empty() {
            write_out(&out)?;
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            biased;
            answer = checker.answer(), if !slots.is_empty() => {
                let answer = answer?;
                if let Some(slot) = slots.front_mut()
                    && let Slot::Asked(id) = slot
                {
                    *slot = Slot::Answered(object(id.take(), &answer));
                }
            }
            next = queue.recv(), if !at_end && checker.has_room() => match next {
                None => at_end = true,
                Some(text) => match question(&text, asked) {
                    Err((id, message)) => slots.push_back(Slot::Answered(error(id, &message, ""))),
                    Ok((id, query)) => {
                        checker.ask(query).await?;
                        slots.push_back(Slot::Asked(id));
                    }
                },
            },
            // Nothing else can go on now: whoever waits for these answers gets them.
            () = std::future::ready(()), if !out.is_empty() => {
                write_out(&out)?;
                out.clear();
            }
        }
    }
}

/// Whole lines, LF-delimited, each bounded; a longer one comes as an empty text, which is no JSON.
fn read_lines(mut input: impl BufRead, lines: &mpsc::Sender<Vec<u8>>) {
    loop {
        let mut text = Vec::new();
        let limit = LINE_BYTES_MAX as u64 + 1;
        match input.by_ref().take(limit).read_until(b'\n', &mut text) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if text.len() > LINE_BYTES_MAX {
            text.clear();
            if input.skip_until(b'\n').is_err() {
                return;
            }
        } else if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if lines.blocking_send(text).is_err() {
            return;
        }
    }
}

/// The id (or null), and the question or what is wrong with it.
fn question(text: &[u8], asked: &ExplainArgs) -> Result<(Value, Query), (Value, String)> {
    let wrong = |message: String| (Value::Null, message);
    if text.is_empty() {
        return Err(wrong(format!("the line has more than {LINE_BYTES_MAX} bytes")));
    }
    let parsed: Value = serde_json::from_slice(text).map_err(|e| wrong(format!("not JSON: {e}")))?;
    let Value::Object(mut fields) = parsed else {
        return Err(wrong("not a JSON object".to_owned()));
    };
    let id = fields.remove("id").unwrap_or(Value::Null);
    match query(fields, asked) {
        Ok(query) => Ok((id, query)),
        Err(message) => Err((id, message)),
    }
}

fn query(mut fields: Map<String, Value>, asked: &ExplainArgs) -> Result<Query, String> {
    let mut text = |key: &str| match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{key:?} is not a string")),
    };
    let (tier, shell, isolation) = (text("safety")?, text("shell")?, text("isolation")?);
    let tool = text("tool")?.unwrap_or_else(|| "bash".to_owned());
    let (command, path) = (text("command")?, text("path")?);
    let key = if matches!(tool.as_str(), "bash" | "wait") {
        "command"
    } else {
        "path"
    };
    let given = match (key, command, path) {
        ("command", Some(given), None) | ("path", None, Some(given)) => given,
        _ => return Err(format!("a question about {tool} has {key:?}, and only that")),
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(format!("unknown key {unknown:?}"));
    }
    Ok(Query {
        tier: word(tier.as_deref(), &TIERS, "safety")?.or(asked.safety),
        shell: word(shell.as_deref(), &SHELLS, "shell")?.or(asked.shell),
        isolation: word(isolation.as_deref(), &ISOLATIONS, "isolation")?,
        act: act(&tool, given)?,
    })
}

fn word<T: Copy>(text: Option<&str>, table: &[(&str, T)], key: &str) -> Result<Option<T>, String> {
    let Some(text) = text else { return Ok(None) };
    match table.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let words: Vec<&str> = table.iter().map(|(word, _)| *word).collect();
            Err(format!("{key:?} is {text:?}, not one of {}", words.join(", ")))
        }
    }
}

fn object(id: Value, answer: &Explanation) -> Value {
    match answer {
        Explanation::Allowed => json!({
            "id": id,
            "verdict": "allow",
            "code": null,
            "line": 0,
            "column": 0,
            "message": "",
            "hint": "",
        }),
        Explanation::Refused(refusal) => json!({
            "id": id,
            "verdict": "deny",
            "code": refusal.code,
            "line": refusal.line,
            "column": refusal.column,
            "message": refusal.message,
            "hint": refusal.hint,
        }),
        Explanation::Unanswerable { message, hint } => error(id, message, hint),
    }
}

fn error(id: Value, message: &str, hint: &str) -> Value {
    json!({ "id": id, "verdict": "error", "message": message, "hint": hint })
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn words(answer: &Explanation) -> String {
    let (mut text, hint) = match answer {
        Explanation::Allowed => return "allow\n".to_owned(),
        Explanation::Refused(refusal) => {
            let place = if refusal.line > 0 {
                format!(" at {}:{}", refusal.line, refusal.column)
            } else {
                String::new()
            };
            let text = format!("deny ({}){place}: {}\n", refusal.code, refusal.message);
            (text, &refusal.hint)
        }
        Explanation::Unanswerable { message, hint } => (format!("no answer: {message}\n"), hint),
    };
    if !hint.is_empty() {
        text.push_str(&format!("hint: {hint}\n"));
    }
    text
}
