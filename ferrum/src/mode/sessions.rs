//! `ferrum sessions`: what there is, what is in it, whether it is whole. Reads only.

mod export;

use super::write_out;
use crate::cli::{SessionsCheckArgs, SessionsCommand, SessionsListArgs};
use crate::clock;
use crate::config::Dirs;
use crate::confine::{Configures, confine};
use crate::exit::{Failure, Kind};
use crate::session::check::{self, Report};
use crate::session::log::LogError;
use crate::session::select::{self, Which};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// # Errors
/// A [`Failure`] when there is no such session or it cannot be read.
pub fn run(asked: &SessionsCommand) -> Result<ExitCode, Failure> {
    let dirs = Dirs::of_process()?;
    // What is read was written by others too: this process gives up what it does not need.
    let _ = confine(&dirs, Configures::State);
    let directory = select::directory(&dirs.data);
    match asked {
        SessionsCommand::List(asked) => list(&directory, asked),
        SessionsCommand::Check(asked) => check(&directory, asked),
        SessionsCommand::Show(asked) => {
            let report = check::check(&find(&directory, &asked.reference)?)?;
            write_out(&if asked.json {
                export::lines(&report)
            } else {
                export::shown(&report)
            })?;
            Ok(ExitCode::SUCCESS)
        }
        SessionsCommand::Export(asked) => {
            let report = check::check(&find(&directory, &asked.reference)?)?;
            write_out(&if asked.json {
                export::json(&report)
            } else {
                export::markdown(&report)
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn find(directory: &Path, reference: &str) -> Result<PathBuf, Failure> {
    let which = Which::Resume(reference.to_owned());
    Ok(select::choose(directory, &which, Path::new("/"))?.path)
}

/// A session, or why it cannot be read.
struct Row {
    id: String,
    report: Result<Report, LogError>,
}

fn read(path: &Path) -> Row {
    Row {
        id: select::id(path),
        report: check::check(path),
    }
}

fn list(directory: &Path, asked: &SessionsListArgs) -> Result<ExitCode, Failure> {
    let here = std::env::current_dir().ok().filter(|_| asked.here);
    let is_here = |row: &Row| {
        here.as_ref().is_none_or(|here| match &row.report {
            Ok(report) => report.facts.get("cwd").and_then(Value::as_str).map(Path::new) == Some(here),
            Err(_) => false,
        })
    };
    let mut rows: Vec<Row> = select::all(directory)?.iter().map(|path| read(path)).collect();
    rows.retain(is_here);
    rows.sort_by_key(|row| Reverse(row.report.as_ref().map_or(0, |report| report.updated_ms)));
    let mut text = String::new();
    for row in &rows {
        // Writing to a string cannot fail.
        let _ = match (&row.report, asked.json) {
            (Ok(report), true) => writeln!(text, "{}", report.metadata()),
            (Err(error), true) => writeln!(text, "{}", unreadable(&row.id, error)),
            (Ok(report), false) => writeln!(text, "{}", line(report)),
            (Err(error), false) => writeln!(text, "{:52} cannot be read: {error}", row.id),
        };
    }
    if rows.is_empty() && !asked.json {
        text.push_str("no sessions\n");
    }
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn unreadable(id: &str, error: &LogError) -> Value {
    json!({ "type": "session_metadata", "session_id": id, "damaged": true, "error": error.to_string() })
}

fn line(report: &Report) -> String {
    let all = report.metadata();
    let text = |name: &str| all[name].as_str().unwrap_or_default().to_owned();
    let what = match text("title") {
        title if title.is_empty() => text("first_message"),
        title => title,
    };
    let mark = if report.is_damaged() { " DAMAGED" } else { "" };
    format!(
        "{:52} {} {:11} {:>4} {}{mark}  {}",
        report.id,
        clock::shown(report.updated_ms),
        text("mode"),
        all["messages"].as_u64().unwrap_or(0),
        check::summary(&text("cwd")),
        check::summary(&what)
    )
}

fn check(directory: &Path, asked: &SessionsCheckArgs) -> Result<ExitCode, Failure> {
    let paths = if asked.references.is_empty() {
        select::all(directory)?
    } else {
        let found = asked
            .references
            .iter()
            .map(|reference| find(directory, reference));
        found.collect::<Result<_, _>>()?
    };
    let rows: Vec<Row> = paths.iter().map(|path| read(path)).collect();
    let mut text = String::new();
    for row in &rows {
        if asked.json {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", as_json(row));
        } else {
            text.push_str(&in_words(row));
        }
    }
    write_out(&text)?;
    let damaged = rows
        .iter()
        .any(|row| row.report.as_ref().map_or(true, Report::is_damaged));
    Ok(if damaged {
        Kind::Error.into()
    } else {
        ExitCode::SUCCESS
    })
}

fn as_json(row: &Row) -> Value {
    match &row.report {
        Ok(report) => json!({
            "type": "session_check",
            "session_id": row.id,
            "records": report.records,
            "damage": report.damage,
            "resume": { "messages": report.messages.len(), "repairs": report.repairs },
        }),
        Err(error) => json!({
            "type": "session_check",
            "session_id": row.id,
            "records": 0,
            "damage": [error.to_string()],
            "resume": null,
        }),
    }
}

fn in_words(row: &Row) -> String {
    let report = match &row.report {
        Ok(report) => report,
        Err(error) => return format!("{}: DAMAGED: {error}\n", row.id),
    };
    let state = if report.is_damaged() { "DAMAGED" } else { "whole" };
    let mut text = format!("{}: {state}, {} records\n", row.id, report.records);
    for what in &report.damage {
        text.push_str(&format!("  damage: {what}\n"));
    }
    text.push_str(&format!(
        "  a resume goes on with {} messages",
        report.messages.len()
    ));
    for what in &report.repairs {
        text.push_str(&format!("\n  then: {what}"));
    }
    text.push('\n');
    text
}
