//! `ferrum audit`: reads logs and proves them. Needs no configuration and starts nothing.

mod show;

use super::write_out;
use crate::audit::key::{self, KeyError};
use crate::audit::verify::{self, Checked, Proof};
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
    let keyed = match key::read_known(&dirs.config, &dirs.data) {
        Err(KeyError::Missing(_)) => None,
        other => Some(other?),
    };
    match (asked, keyed) {
        (AuditCommand::Verify(asked), keyed) => check(&dirs, keyed.as_ref(), asked),
        (AuditCommand::Show(asked), Some(keyed)) => show::run(&dirs, &keyed, asked),
        (AuditCommand::Show(asked), None) => match &asked.session {
            Some(session) => Err(no_log(session)),
            None => Ok(ExitCode::SUCCESS),
        },
    }
}

/// Without a key there are no logs.
fn check(dirs: &Dirs, keyed: Option<&Keyed>, asked: &AuditVerifyArgs) -> Result<ExitCode, Failure> {
    let session = asked.session.as_deref();
    let proof = match keyed {
        Some(keyed) => verify::all(&dirs.data, keyed, session)?,
        None => Proof::default(),
    };
    if let Some(session) = session
        && proof.logs.is_empty()
        && proof.sessions.is_empty()
    {
        return Err(no_log(session));
    }
    let damaged = proof.damaged();
    if asked.json {
        write_out(&format!("{}\n", as_json(&proof)))?;
    } else {
        write_out(&in_words(&proof))?;
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

fn in_words(proof: &Proof) -> String {
    let mut text: String = proof.logs.iter().map(log_in_words).collect();
    for doubt in &proof.sessions {
        text.push_str(&format!(
            "session {}: DAMAGED: it {}\n",
            doubt.session, doubt.what
        ));
    }
    let records: u64 = proof.logs.iter().map(|row| row.records).sum();
    let logs = proof.logs.len();
    text.push_str(&match (logs, proof.damaged()) {
        (0, 0) => "there are no audit logs\n".to_owned(),
        (_, 0) => format!(
            "{} with {} as written\n",
            counted(logs as u64, "log"),
            counted(records, "record")
        ),
        (_, damaged) => format!("{damaged} of {logs} logs and their sessions are damaged\n"),
    });
    text
}

fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

fn log_in_words(row: &Checked) -> String {
    let torn = match row.torn {
        0 => String::new(),
        bytes => format!("; {bytes} bytes behind them were being written when the process ended"),
    };
    let records = counted(row.records, "record");
    match &row.damage {
        None => format!("{}: {records}{torn}\n", row.log),
        Some(damage) => {
            let Some(record) = damage.record else {
                return format!("{}: DAMAGED: {}\n", row.log, damage.what);
            };
            let proven = match row.records.min(record) {
                0 => "nothing is proven".to_owned(),
                1 => "the one before it is as it was written".to_owned(),
                proven => format!("the {proven} before it are as they were written"),
            };
            format!(
                "{}: DAMAGED: record {record} {}; {proven}\n",
                row.log, damage.what
            )
        }
    }
}

fn as_json(proof: &Proof) -> Value {
    let logs: Vec<Value> = proof.logs.iter().map(log_as_json).collect();
    let sessions = proof.sessions.iter();
    let sessions: Vec<Value> = sessions
        .map(|doubt| json!({ "session": doubt.session, "what": doubt.what }))
        .collect();
    json!({ "version": 1, "damaged": proof.damaged(), "logs": logs, "sessions": sessions })
}

fn log_as_json(row: &Checked) -> Value {
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
