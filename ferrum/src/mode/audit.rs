//! `ferrum audit`: reads logs and proves them. Needs no configuration and starts nothing.

mod show;

use super::write_out;
use crate::audit::key::{self, KeyError};
use crate::audit::verify::{self, Checked};
use crate::audit::{chain::Keyed, place};
use crate::cli::{AuditCommand, AuditVerifyArgs};
use crate::config::Dirs;
use crate::confine::{Configures, confine};
use crate::exit::{Failure, Kind};
use serde_json::{Value, json};
use std::process::ExitCode;

/// # Errors
/// A [`Failure`] when the logs or the key cannot be read.
pub fn run(asked: &AuditCommand) -> Result<ExitCode, Failure> {
    let dirs = Dirs::of_process()?;
    // What is read was written by others too: this process gives up what it does not need.
    let _ = confine(&dirs, Configures::State);
    let keyed = match key::read(&dirs.config) {
        Err(KeyError::Missing(path)) => {
            if place::all(&place::directory(&dirs.data))?.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            return Err(KeyError::Missing(path).into());
        }
        other => other?,
    };
    match asked {
        AuditCommand::Verify(asked) => check(&dirs, &keyed, asked),
        AuditCommand::Show(asked) => show::run(&dirs, &keyed, asked),
    }
}

fn check(dirs: &Dirs, keyed: &Keyed, asked: &AuditVerifyArgs) -> Result<ExitCode, Failure> {
    let rows = verify::all(&dirs.data, keyed, asked.session.as_deref())?;
    if let Some(session) = asked.session.as_ref().filter(|_| rows.is_empty()) {
        return Err(no_log(session));
    }
    let damaged = rows.iter().filter(|row| row.damage.is_some()).count();
    if asked.json {
        let logs: Vec<Value> = rows.iter().map(as_json).collect();
        write_out(&format!(
            "{}\n",
            json!({ "version": 1, "damaged": damaged, "logs": logs })
        ))?;
    } else {
        let mut text: String = rows.iter().map(in_words).collect();
        let records: u64 = rows.iter().map(|row| row.records).sum();
        text.push_str(&match damaged {
            0 => format!(
                "{} logs with {records} records are as they were written\n",
                rows.len()
            ),
            damaged => format!("{damaged} of {} logs are damaged\n", rows.len()),
        });
        write_out(&text)?;
    }
    Ok(if damaged == 0 {
        ExitCode::SUCCESS
    } else {
        Kind::Error.into()
    })
}

fn no_log(session: &str) -> Failure {
    Failure::new(
        Kind::Usage,
        format!("there is no audit log of a session {session:?}"),
    )
    .with_hint("ferrum sessions list names the sessions")
}

fn in_words(row: &Checked) -> String {
    let torn = match row.torn {
        0 => String::new(),
        bytes => format!("; {bytes} bytes behind them were being written when the process ended"),
    };
    match &row.damage {
        None => format!("{}: {} records{torn}\n", row.log, row.records),
        Some(damage) => format!(
            "{}: DAMAGED: record {} {}; the {} before it are as they were written\n",
            row.log,
            damage.record,
            damage.what,
            row.records.min(damage.record)
        ),
    }
}

fn as_json(row: &Checked) -> Value {
    let (session, part) = place::session_of(&row.log);
    let damage = row.damage.as_ref();
    json!({
        "log": row.log,
        "session": session,
        "part": part,
        "records": row.records,
        "torn_bytes": row.torn,
        "damage": damage.map(|damage| json!({ "record": damage.record, "what": damage.what })),
    })
}
