//! Reading logs back and proving them: each chain for itself, and all of them against the anchors
//! that sessions and later logs repeat.

use super::chain::{Chain, Keyed, Link};
use super::log::{Anchor, AuditError};
use super::place::{self, Lines, Next};
use crate::session::log::{Line, for_each_line};
use crate::session::select;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// What one log came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub log: String,
    /// Records that are proven.
    pub records: u64,
    /// Bytes of a last record that a crash left unfinished; no damage.
    pub torn: u64,
    pub damage: Option<Damage>,
}

/// The first thing that is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Number of the record, from 0.
    pub record: u64,
    pub what: String,
}

/// A log that was read: its row, and the links that its chain passed.
struct Read {
    checked: Checked,
    /// The beginning of each record's MAC: enough to recognise what is proven already.
    links: Vec<u64>,
}

/// Reads one log and follows its chain; `each` gets every proven line.
///
/// # Errors
/// [`AuditError`] when the file cannot be opened or read.
pub fn read(
    directory: &Path,
    log: &str,
    keyed: &Keyed,
    mut each: impl FnMut(&[u8], &Link),
) -> Result<Checked, AuditError> {
    let path = place::file(directory, log);
    let file = place::open(&path, false)?;
    let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, file));
    let mut chain = Chain::at(keyed.clone(), 0, keyed.genesis(log));
    let (torn, what) = loop {
        match lines
            .read()
            .map_err(|error| AuditError::io(&path, "read", &error))?
        {
            Next::Line(line) => match chain.follow(line) {
                Ok(()) => each(line, &chain.head),
                Err(what) => break (0, Some(format!("{what}{}", other_key(line, keyed)))),
            },
            Next::End { torn } => break (torn, None),
            Next::TooLong => break (0, Some("holds more than 64 KiB without a line end".to_owned())),
        }
    };
    Ok(Checked {
        log: log.to_owned(),
        records: chain.count,
        torn,
        damage: what.map(|what| Damage {
            record: chain.count,
            what,
        }),
    })
}

/// The commonest reason why a whole log does not fit.
fn other_key(line: &[u8], keyed: &Keyed) -> String {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    match value.get("key").and_then(Value::as_str) {
        Some(key) if key != keyed.name() => {
            format!("; it names another key ({key}, ours is {})", keyed.name())
        }
        _ => String::new(),
    }
}

/// Points that chains must have passed, by log, each with where it is repeated.
type Anchors = BTreeMap<String, Vec<(Anchor, String)>>;

fn add(anchors: &mut Anchors, anchor: Anchor, stands_in: &str) {
    let of_log = anchors.entry(anchor.log.clone()).or_default();
    of_log.push((anchor, stands_in.to_owned()));
}

/// Every log of the data directory, or those of one session, against every anchor in it.
///
/// # Errors
/// [`AuditError`] when the directory cannot be read. What is wrong with a log is in its row.
pub fn all(data: &Path, keyed: &Keyed, only: Option<&str>) -> Result<Vec<Checked>, AuditError> {
    let directory = place::directory(data);
    let names = place::all(&directory)?;
    let mut anchors = of_sessions(data, only);
    let mut rows: Vec<Read> = Vec::new();
    for name in &names {
        // Any log may hold an anchor of the one that is asked for.
        let mut links = Vec::new();
        let checked = read(&directory, name, keyed, |line, link| {
            links.push(short(link));
            let found = of_line(line).into_iter();
            found.for_each(|anchor| add(&mut anchors, anchor, &format!("the audit log {name}")));
        });
        let checked = checked.unwrap_or_else(|error| unreadable(name, error.to_string()));
        rows.push(Read { checked, links });
    }
    for row in &mut rows {
        if let Some(expected) = anchors.remove(&row.checked.log)
            && row.checked.damage.is_none()
        {
            row.checked.damage = missed(&row.links, expected);
        }
    }
    let gone = anchors.into_iter().map(|(name, expected)| {
        let stands_in = expected.into_iter().next().map(|(_, stands_in)| stands_in);
        unreadable(
            &name,
            format!("is gone; {} names it", stands_in.unwrap_or_default()),
        )
    });
    let rows = rows.into_iter().map(|row| row.checked).chain(gone);
    Ok(rows
        .filter(|row| only.is_none_or(|session| place::session_of(&row.log).0 == session))
        .collect())
}

fn short(link: &Link) -> u64 {
    link.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The first anchor that a chain did not pass.
fn missed(links: &[u64], mut expected: Vec<(Anchor, String)>) -> Option<Damage> {
    expected.sort_by_key(|(anchor, _)| anchor.count);
    let records = links.len() as u64;
    expected.into_iter().find_map(|(anchor, stands_in)| {
        let at = anchor.count.saturating_sub(1);
        match usize::try_from(at).ok().and_then(|at| links.get(at)) {
            Some(link) if *link == short(&anchor.head) => None,
            Some(_) => Some(Damage {
                record: at,
                what: format!(
                    "is not the one that {stands_in} repeats: the log was cut before it and went on"
                ),
            }),
            None => Some(Damage {
                record: records,
                what: format!(
                    "and those after it are gone: {stands_in} repeats {}",
                    anchor.count
                ),
            }),
        }
    })
}

fn unreadable(log: &str, what: String) -> Checked {
    Checked {
        log: log.to_owned(),
        records: 0,
        torn: 0,
        damage: Some(Damage { record: 0, what }),
    }
}

/// The anchors of one record; most have none, and are not parsed.
fn of_line(line: &[u8]) -> Vec<Anchor> {
    const FIELD: &[u8] = b"\"after\":[{";
    if !line.windows(FIELD.len()).any(|window| window == FIELD) {
        return Vec::new();
    }
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    let rows = value.get("after").and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(Anchor::from_json).collect()
}

/// The anchors that session files repeat at the ends of turns. A session that cannot be read is
/// for `sessions check` to tell.
fn of_sessions(data: &Path, only: Option<&str>) -> Anchors {
    let mut anchors = Anchors::new();
    for path in select::all(&select::directory(data)).unwrap_or_default() {
        let id = select::id(&path);
        if only.is_some_and(|only| only != id) {
            continue;
        }
        let _ = for_each_line(&path, |_, line| {
            let Line::Bytes(line) = line else { return };
            if !line.starts_with(b"{\"type\":\"metadata\"") {
                return;
            }
            let value: Value = serde_json::from_slice(line).unwrap_or_default();
            if let Some(anchor) = value.get("audit").and_then(Anchor::from_json) {
                add(&mut anchors, anchor, &format!("the session {id}"));
            }
        });
    }
    anchors
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
