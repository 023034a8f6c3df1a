//! `ferrum policy explain`: what policy would answer, from a host in role check. Nothing is run and
//! no model is asked.

mod answer;
mod question;
mod server;

use crate::cli::ExplainArgs;
use crate::config::Config;
use crate::exit::{Failure, Kind};
use crate::host::Checker;
use crate::mode::{interrupted, notice, runtime, write_out};
use crate::start::Start;
use ferrum_proto::reply::Explanation;
use ferrum_proto::request::Query;
use serde_json::Value;
use server::Server;
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Longest line of a batch, in bytes: a command of the judge's own limit, all of it escaped, fits.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Lines that are read ahead.
const LINES_AHEAD_MAX: usize = 256;

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
                (Some(tool), Some(act)) => one(&mut checker, &start.config, asked, tool, act).await,
                _ => batch(&mut checker, &start.config, asked).await,
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
    config: &Config,
    asked: &ExplainArgs,
    tool: &str,
    text: &str,
) -> Result<ExitCode, Failure> {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    let query = Query {
        tier: asked.safety,
        shell: asked.shell,
        isolation: None,
        tool: tool.to_owned(),
        act: question::act(tool, text.to_owned()).map_err(usage)?,
        detail: true,
    };
    let server = server::of(config, &query.act).map_err(usage)?;
    checker.ask(query).await?;
    let mut answer = checker.answer().await?;
    if let Some(server) = server {
        server.add_to(&mut answer);
    }
    let code = match &answer.0 {
        Explanation::Allowed => ExitCode::SUCCESS,
        Explanation::Refused(_) => Kind::Denied.into(),
        Explanation::Unanswerable { .. } => Kind::Usage.into(),
    };
    let text = if asked.json {
        line(&answer::object(Value::Null, &answer))
    } else {
        answer::words(&answer)
    };
    write_out(&text)?;
    Ok(code)
}

/// A question that waits for its answer, or an answer that waits for its turn.
enum Slot {
    Asked(Value, Option<Server>),
    Answered(Value),
}

/// Questions from stdin until it ends. Answers keep the order of the questions; what is there is
/// printed at once.
async fn batch(checker: &mut Checker, config: &Config, asked: &ExplainArgs) -> Result<ExitCode, Failure> {
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
                let mut answer = answer?;
                if let Some(slot) = slots.front_mut()
                    && let Slot::Asked(id, server) = slot
                {
                    if let Some(server) = server.take() {
                        server.add_to(&mut answer);
                    }
                    *slot = Slot::Answered(answer::object(id.take(), &answer));
                }
            }
            next = queue.recv(), if !at_end && checker.has_room() => match next {
                None => at_end = true,
                Some(text) => match with_server(config, question::read(&text, asked)) {
                    Err((id, message)) => slots.push_back(Slot::Answered(answer::error(id, &message, ""))),
                    Ok((id, query, server)) => {
                        checker.ask(query).await?;
                        slots.push_back(Slot::Asked(id, server));
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

type Question = Result<(Value, Query, Option<Server>), (Value, String)>;

fn with_server(config: &Config, question: Result<(Value, Query), (Value, String)>) -> Question {
    let (id, query) = question?;
    match server::of(config, &query.act) {
        Ok(server) => Ok((id, query, server)),
        Err(message) => Err((id, message)),
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

fn line(value: &Value) -> String {
    format!("{value}\n")
}
