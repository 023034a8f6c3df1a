//! `ferrum audit show`: one line a call, as far as the chain proves it.

use super::no_log;
use crate::audit::chain::{Keyed, Link};
use crate::audit::{place, verify};
use crate::cli::AuditShowArgs;
use crate::clock;
use crate::config::Dirs;
use crate::exit::{Failure, Kind};
use crate::mode::{notice, write_out};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Characters of a call's main argument.
const ARGUMENT_CHARS_MAX: usize = 100;

pub(super) fn run(dirs: &Dirs, keyed: &Keyed, asked: &AuditShowArgs) -> Result<ExitCode, Failure> {
    let directory = place::directory(&dirs.data);
    let wanted = |name: &String| {
        asked
            .session
            .as_ref()
            .is_none_or(|s| place::session_of(name).0 == s)
    };
    let names: Vec<String> = place::all(&directory)?.into_iter().filter(wanted).collect();
    if let Some(session) = asked.session.as_ref().filter(|_| names.is_empty()) {
        return Err(no_log(session));
    }
    let mut code = ExitCode::SUCCESS;
    for name in &names {
        let mut page = Page::new(name, asked);
        let read = verify::read(&directory, name, keyed, |line, _: &Link| page.line(line));
        page.end();
        write_out(&page.text)?;
        let damage = match read {
            Ok(checked) => checked.damage.map(|damage| match damage.record {
                Some(record) => format!("record {record} {}", damage.what),
                None => damage.what,
            }),
            Err(error) => Some(error.to_string()),
        };
        if let Some(what) = damage {
            notice(&format!(
                "audit log {name} is damaged: {what}; nothing behind it is shown"
            ));
            code = Kind::Error.into();
        }
    }
    Ok(code)
}

/// What is shown of one log.
struct Page<'a> {
    asked: &'a AuditShowArgs,
    log: &'a str,
    text: String,
    /// Where and under what the calls that follow were made; shown before the first of them.
    heading: Option<String>,
    /// Calls that have no result yet, by turn and id.
    open: Vec<((u64, String), Value)>,
}

impl<'a> Page<'a> {
    fn new(log: &'a str, asked: &'a AuditShowArgs) -> Self {
        Self {
            asked,
            log,
            text: String::new(),
            heading: None,
            open: Vec::new(),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let young = self
            .asked
            .since
            .is_none_or(|since| record["t"].as_u64() >= Some(since));
        match record["type"].as_str().unwrap_or_default() {
            "open" if !self.asked.json => self.heading = Some(heading(self.log, &record)),
            "call" => {
                self.open.push((key(&record), record));
            }
            "result" => {
                let key = key(&record);
                // A model may give one id to several calls: their results come in the same order.
                let at = self.open.iter().position(|(open, _)| *open == key);
                let call = at.map(|at| self.open.remove(at).1).unwrap_or_default();
                if young && (!self.asked.denied || is_denied(&record)) {
                    self.show(&call, &record);
                }
            }
            "host_restarted" if young && !self.asked.denied => {
                let why = text(&record["why"]);
                self.say(&record, &format!("the tool host was replaced: {why}"));
            }
            _ if young && self.asked.json && !self.asked.denied => self.raw(&record),
            _ => {}
        }
    }

    /// Calls that the log's end left open.
    fn end(&mut self) {
        for (_, call) in std::mem::take(&mut self.open) {
            let young = self
                .asked
                .since
                .is_none_or(|since| call["t"].as_u64() >= Some(since));
            if young && !self.asked.denied {
                let none =
                    serde_json::json!({ "t": call["t"], "tool": call["tool"], "outcome": "no result" });
                self.show(&call, &none);
            }
        }
    }

    fn show(&mut self, call: &Value, result: &Value) {
        if self.asked.json {
            self.raw(call);
            if result.get("mac").is_some() {
                self.raw(result);
            }
            return;
        }
        let rule = text(&result["rule"]);
        let verdict = match text(&result["verdict"]) {
            "refused" => format!("refused ({rule})"),
            other => other.to_owned(),
        };
        let took = result["took_us"]
            .as_u64()
            .map_or(String::new(), |us| format!("{} ms", us / 1000));
        let line = format!(
            "{:8} {:24} {:12} {:>8}  {}",
            text(&result["tool"]),
            verdict,
            text(&result["outcome"]),
            took,
            argument(call)
        );
        self.say(result, &line);
        for denial in result["denials"].as_array().into_iter().flatten() {
            let line = format!(
                "         denied by {}: {}",
                text(&denial["wall"]),
                text(&denial["what"])
            );
            self.say(result, &line);
        }
    }

    fn say(&mut self, record: &Value, line: &str) {
        if let Some(heading) = self.heading.take() {
            self.text.push_str(&heading);
        }
        let time = clock::shown(record["t"].as_u64().unwrap_or(0));
        let line: String = line
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {time}  {}", line.trim_end());
    }

    fn raw(&mut self, record: &Value) {
        let mut record = record.clone();
        if record.is_object() {
            record["log"] = self.log.into();
            let _ = writeln!(self.text, "{record}");
        }
    }
}

fn key(record: &Value) -> (u64, String) {
    (
        record["turn"].as_u64().unwrap_or(0),
        text(&record["id"]).to_owned(),
    )
}

fn is_denied(result: &Value) -> bool {
    result["verdict"] == "refused" || result["denials"].as_array().is_some_and(|rows| !rows.is_empty())
}

fn heading(log: &str, open: &Value) -> String {
    format!(
        "{log}: {} at {}, tier {}, isolation {}, network {}, {} {}\n",
        clock::shown(open["t"].as_u64().unwrap_or(0)),
        text(&open["cwd"]),
        text(&open["tier"]),
        text(&open["isolation"]["effective"]),
        text(&open["isolation"]["network"]),
        text(&open["provider"]),
        text(&open["model"]),
    )
}

/// What a call is about, in one line.
fn argument(call: &Value) -> String {
    let arguments = &call["arguments"];
    let main = ["command", "path", "pattern", "query"]
        .iter()
        .find_map(|name| arguments[*name].as_str());
    let shown = match (main, call["arguments_cut"].as_str()) {
        (Some(main), _) => main.to_owned(),
        (None, Some(cut)) => cut.to_owned(),
        (None, None) if arguments.is_null() => String::new(),
        (None, None) => arguments.to_string(),
    };
    match shown.char_indices().nth(ARGUMENT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &shown[..at]),
        None => shown,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
