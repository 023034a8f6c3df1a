//! Reading logs back and proving them: each chain for itself, and all of them against the anchors
//! that sessions and later logs repeat.

use super::chain::{Chain, Keyed, Link};
use super::log::{Anchor, AuditError};
use super::place::{self, Lines, Next};
use crate::session::log::{Line, for_each_line};
use crate::session::select;
use memchr::memmem;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Number of the record, from 0; `None` where the file as a whole is meant.
    pub record: Option<u64>,
    pub what: String,
}

/// A session whose word on its log is lost or was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    pub session: String,
    pub what: String,
}

/// What all logs came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proof {
    pub logs: Vec<Checked>,
    pub sessions: Vec<Doubt>,
}

impl Proof {
    /// Logs and sessions that are not as they were written.
    #[must_use]
    pub fn damaged(&self) -> usize {
        let logs = self.logs.iter().filter(|row| row.damage.is_some());
        logs.count() + self.sessions.len()
    }
}

/// A log that was read: its row, and the links that its chain passed.
struct Read {
    checked: Checked,
    /// The beginning of each record's MAC: enough to recognise what is proven already.
    links: Vec<u64>,
    turns: Turns,
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
            record: Some(chain.count),
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
type Anchors = BTreeMap<String, Vec<(Anchor, Stand)>>;

/// Where an anchor stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stand {
    /// A session repeats the ends of turns, and nothing else.
    Session(String),
    Log(String),
}

impl std::fmt::Display for Stand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session(id) => write!(f, "the session {id}"),
            Self::Log(name) => write!(f, "the audit log {name}"),
        }
    }
}

fn add(anchors: &mut Anchors, anchor: Anchor, stand: Stand) {
    anchors
        .entry(anchor.log.clone())
        .or_default()
        .push((anchor, stand));
}

/// Every log of the data directory, or those of one session, against every anchor in it.
///
/// # Errors
/// [`AuditError`] when the directory cannot be read. What is wrong with a log is in its row.
pub fn all(data: &Path, keyed: &Keyed, only: Option<&str>) -> Result<Proof, AuditError> {
    let directory = place::directory(data);
    let names = place::all(&directory)?;
    let Told {
        mut anchors,
        mut doubts,
    } = of_sessions(data, only);
    let mut rows: Vec<Read> = Vec::new();
    for name in &names {
        rows.push(one(&directory, name, keyed, &mut anchors));
    }
    for row in &rows {
        doubts.extend(unrepeated(data, row, only));
    }
    for row in &mut rows {
        if let Some(expected) = anchors.remove(&row.checked.log)
            && row.checked.damage.is_none()
        {
            row.checked.damage = missed(row, expected);
        }
    }
    let gone = anchors.into_iter().map(|(name, expected)| {
        let stand = expected.into_iter().next().map(|(_, stand)| stand.to_string());
        unreadable(&name, format!("is gone; {} names it", stand.unwrap_or_default()))
    });
    let rows = rows.into_iter().map(|row| row.checked).chain(gone);
    let logs = rows.filter(|row| only.is_none_or(|session| place::session_of(&row.log).0 == session));
    Ok(Proof {
        logs: logs.collect(),
        sessions: doubts,
    })
}

/// Reads one log. Any log may hold an anchor of the one that is asked for.
fn one(directory: &Path, name: &str, keyed: &Keyed, anchors: &mut Anchors) -> Read {
    let (mut links, mut turns) = (Vec::new(), Turns::default());
    let checked = read(directory, name, keyed, |line, link| {
        turns.line(line, links.len() as u64);
        links.push(short(link));
        let found = of_line(line).into_iter();
        found.for_each(|anchor| add(anchors, anchor, Stand::Log(name.to_owned())));
    });
    Read {
        checked: checked.unwrap_or_else(|error| unreadable(name, error.to_string())),
        links,
        turns,
    }
}

/// The ends of turns, by their record's number. Found without parsing what is none.
#[derive(Default)]
struct Turns {
    ends: Vec<u64>,
    /// Those behind which the same process went on: its session repeats them.
    repeated: Vec<u64>,
    last: Option<u64>,
    /// The process that writes keeps its session outside of the sessions' directory.
    elsewhere: bool,
}

impl Turns {
    /// The longest line that ends a turn, in bytes, with room.
    const LINE_BYTES_MAX: usize = 4096;

    fn line(&mut self, line: &[u8], number: u64) {
        let before = self.last.take();
        let holds = |text: &str| memmem::find(line, text.as_bytes()).is_some();
        let may_be_turn = line.len() <= Self::LINE_BYTES_MAX && holds("\"type\":\"turn\"");
        let value: Value = match may_be_turn || holds("\"type\":\"open\"") {
            true => serde_json::from_slice(line).unwrap_or_default(),
            false => Value::Null,
        };
        match value.get("type").and_then(Value::as_str) {
            // The process before may have ended before it wrote the session's record.
            Some("open") => {
                self.elsewhere = value.get("session_file").is_some_and(Value::is_string);
                return;
            }
            Some("turn") => {
                self.ends.push(number);
                self.last = Some(number).filter(|_| !self.elsewhere);
            }
            _ => {}
        }
        self.repeated.extend(before);
    }
}

/// The first end of a turn that a session of this data directory does not repeat.
fn unrepeated(data: &Path, row: &Read, only: Option<&str>) -> Option<Doubt> {
    let (session, _) = place::session_of(&row.checked.log);
    let path = select::directory(data).join(format!("{session}.jsonl"));
    if row.checked.damage.is_some() || only.is_some_and(|only| only != session) || !path.is_file() {
        return None;
    }
    // It may have been written since all sessions were read.
    let mut told = Told::default();
    told.session(&path);
    if !told.doubts.is_empty() {
        return None;
    }
    let anchors = told.anchors.get(&row.checked.log).into_iter().flatten();
    let counts: BTreeSet<u64> = anchors.map(|(anchor, _)| anchor.count).collect();
    let end = row
        .turns
        .repeated
        .iter()
        .find(|end| !counts.contains(&(**end + 1)))?;
    Some(Doubt {
        session: session.to_owned(),
        what: format!(
            "does not repeat that a turn ended with record {end} of the audit log {}: it was changed or cut",
            row.checked.log
        ),
    })
}

fn short(link: &Link) -> u64 {
    link.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The first anchor that a chain did not pass.
fn missed(row: &Read, mut expected: Vec<(Anchor, Stand)>) -> Option<Damage> {
    expected.sort_by_key(|(anchor, _)| anchor.count);
    let records = row.links.len() as u64;
    expected.into_iter().find_map(|(anchor, stand)| {
        let at = anchor.count.saturating_sub(1);
        let damage = |record, what| {
            let record = Some(record);
            Some(Damage { record, what })
        };
        match usize::try_from(at).ok().and_then(|at| row.links.get(at)) {
            Some(link) if *link != short(&anchor.head) => {
                let how = "either the log was cut before it and went on, or that was changed";
                damage(at, format!("is not the one that {stand} repeats: {how}"))
            }
            Some(_) if matches!(stand, Stand::Session(_)) && !row.turns.ends.contains(&at) => {
                let what = format!("ends no turn, and {stand} repeats it as one: that was changed");
                damage(at, what)
            }
            Some(_) => None,
            None => damage(
                records,
                format!("and those after it are gone: {stand} repeats {}", anchor.count),
            ),
        }
    })
}

fn unreadable(log: &str, what: String) -> Checked {
    Checked {
        log: log.to_owned(),
        records: 0,
        torn: 0,
        damage: Some(Damage { record: None, what }),
    }
}

/// The anchors of one record; most have none, and are not parsed.
fn of_line(line: &[u8]) -> Vec<Anchor> {
    if memmem::find(line, b"\"after\":[{").is_none() {
        return Vec::new();
    }
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    let rows = value.get("after").and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(Anchor::from_json).collect()
}

/// What sessions say of logs.
#[derive(Default)]
struct Told {
    anchors: Anchors,
    doubts: Vec<Doubt>,
}

/// Something that was written under a key: a log, or a session that names one.
#[must_use]
pub fn witness(data: &Path) -> Option<String> {
    let logs = place::all(&place::directory(data)).unwrap_or_default();
    let log = logs.first().map(|name| Stand::Log(name.clone()).to_string());
    log.or_else(|| {
        let anchors = of_sessions(data, None).anchors.into_values().flatten();
        anchors.map(|(_, stand)| stand.to_string()).next()
    })
}

fn of_sessions(data: &Path, only: Option<&str>) -> Told {
    let mut told = Told::default();
    let directory = select::directory(data);
    let paths = select::all(&directory).unwrap_or_else(|error| {
        told.doubt("*".to_owned(), format!("cannot be listed: {error}"));
        Vec::new()
    });
    for path in paths {
        if only.is_none_or(|only| only == select::id(&path)) {
            told.session(&path);
        }
    }
    told
}

impl Told {
    fn doubt(&mut self, session: String, what: String) {
        self.doubts.push(Doubt { session, what });
    }

    /// The anchors of a session file; one doubt where it cannot be read to its end.
    fn session(&mut self, path: &Path) {
        let id = select::id(path);
        let mut wrong = None;
        let read = for_each_line(path, |number, line| match line {
            Line::Bytes(line) if line.starts_with(MESSAGE) => {}
            Line::Bytes(line) => match anchor_of(line) {
                Ok(Some(anchor)) => add(&mut self.anchors, anchor, Stand::Session(id.clone())),
                Ok(None) => {}
                Err(()) => wrong = wrong.or(Some(number)),
            },
            Line::TooLong => {}
        });
        match (read, wrong) {
            (Err(error), _) => self.doubt(
                id,
                format!("cannot be read, and with it what it repeats: {error}"),
            ),
            (Ok(()), Some(number)) => {
                let what = format!("line {number} repeats where its audit log stood, and that was changed");
                self.doubt(id, what);
            }
            (Ok(()), None) => {}
        }
    }
}

/// How every line of our own writer begins that holds a message, and so no anchor.
const MESSAGE: &[u8] = b"{\"type\":\"message\",";

/// The anchor of a line. What is no JSON is for `sessions check` to tell.
fn anchor_of(line: &[u8]) -> Result<Option<Anchor>, ()> {
    if memmem::find(line, b"\"audit\"").is_none() {
        return Ok(None);
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Ok(None);
    };
    match value.get("audit") {
        None | Some(Value::Null) => Ok(None),
        Some(anchor) if value["type"] == "metadata" => Anchor::from_json(anchor).map(Some).ok_or(()),
        Some(_) => Ok(None),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
