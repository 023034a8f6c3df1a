//! Opening a session: what its file holds already, and the record that states the policy and the
//! walls in force from now on.

use crate::agent::message::{Message, close_pairs};
use crate::agent::session::Session;
use crate::agent::turn::TurnError;
use crate::audit::chain::Keyed;
use crate::audit::{self, AuditError, AuditLog, Outlook};
use crate::provider::Provider;
use crate::session::log::{self, Log, LogError};
use crate::session::{check, record, select};
use ferrum_proto::seal::{Granted, Ready};
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// What a session that broke off left open when it is taken up again.
const LOST_RESULT: &str = "no result: the session was interrupted; whether the call had an effect is unknown";

/// A session's files before they are opened for writing.
pub struct Opening {
    pub path: PathBuf,
    audit: Audit,
    has_header: bool,
    /// It held nothing at all.
    is_new: bool,
    header: Map<String, Value>,
    /// Looks round among the logs while the walls come up.
    outlook: Cell<Option<JoinHandle<Result<Outlook, AuditError>>>>,
}

/// Where and under which key the session's acts are logged.
pub struct Audit {
    pub directory: PathBuf,
    pub keyed: Keyed,
}

/// What was in the file.
#[derive(Default)]
pub struct TakenUp {
    pub messages: Vec<Message>,
    /// Lines that could not be read.
    pub diagnostics: Vec<String>,
}

impl Opening {
    /// Reads what the file holds; one that does not exist holds nothing.
    ///
    /// # Errors
    /// [`LogError`] when it cannot be read at all.
    pub fn new(path: PathBuf, header: Map<String, Value>, audit: Audit) -> Result<(Self, TakenUp), LogError> {
        let (directory, id) = (audit.directory.clone(), select::id(&path));
        let look = std::thread::Builder::new().spawn(move || Outlook::of(&directory, &id));
        let mut opening = Self {
            path,
            audit,
            has_header: false,
            is_new: true,
            header,
            outlook: Cell::new(look.ok()),
        };
        if opening.path.symlink_metadata().is_err() {
            return Ok((opening, TakenUp::default()));
        }
        // Before anything is asked: no writer would go on with an end that none has left.
        let is_torn = check::is_torn(&opening.path)?;
        let loaded = log::load(&opening.path)?;
        if loaded.records.is_empty() && loaded.diagnostics.len() > usize::from(is_torn) {
            // Never the work of a session writer, nor of a crash, which cuts one record at most:
            // not ours to append to.
            let what = "is not a session file";
            return Err(LogError::Unfit {
                path: opening.path,
                what,
            });
        }
        opening.is_new = loaded.records.is_empty() && loaded.diagnostics.is_empty();
        let mut records = loaded.records.iter();
        opening.has_header = records.any(|(_, record)| matches!(record.body, record::Body::Header(_)));
        let messages = record::conversation(loaded.records.into_iter().map(|(_, record)| record));
        let taken = TakenUp {
            messages: close_pairs(messages, LOST_RESULT),
            diagnostics: loaded.diagnostics,
        };
        Ok((opening, taken))
    }

    /// True when the file was a session before.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.has_header
    }

    /// Opens session and audit log and states policy and walls in both: in the header of a new
    /// session, in a metadata record of one that is taken up again.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn open(&self, granted: &Granted, ready: Ready) -> Result<Session, TurnError> {
        let log = Log::open(&self.path)?;
        let mut fields = self.header.clone();
        fields.insert("network".into(), json!(ready.network.name()));
        fields.insert("shell".into(), json!(ready.shell.name()));
        fields.insert(
            "isolation".into(),
            json!({
                "requested": granted.require.name(),
                "effective": ready.isolation.name(),
                "containment": ready.containment.name(),
            }),
        );
        let header = record::header(fields.clone());
        fields.remove("mode");
        fields.remove("cwd");
        let metadata = record::metadata(&fields);
        if self.has_header {
            log.append(metadata)?;
        } else if self.is_new {
            log.begin(header, metadata)?;
        } else {
            log.append(header)?;
        }
        let facts = json!({
            "session": select::id(&self.path),
            "provider": self.header.get("provider"),
            "model": self.header.get("model"),
            "resumed": self.has_header,
            "session_file": self.elsewhere(),
        });
        let first = audit::record::open(facts, granted, &ready);
        let outlook = match self.outlook.take().map(JoinHandle::join) {
            Some(Ok(outlook)) => outlook?,
            // No thread, or a session that is opened again.
            _ => Outlook::of(&self.audit.directory, &select::id(&self.path))?,
        };
        let audit = AuditLog::begin(outlook, self.audit.keyed.clone(), first)?;
        Ok(Session::new(log, audit, ready))
    }

    /// The session's file where it is none of the data directory's.
    fn elsewhere(&self) -> Option<String> {
        let sessions = self.audit.directory.with_file_name("sessions");
        let is_ours = self.path.parent() == Some(sessions.as_path());
        (!is_ours).then(|| self.path.display().to_string())
    }
}

/// The fields of a print session's header that are known before the walls are.
#[must_use]
pub fn header(provider: &Provider, granted: &Granted, title: Option<String>) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    set("mode", json!("print"));
    set("provider", json!(provider.name));
    set("model", json!(provider.model));
    set("thinking", json!(provider.thinking.name()));
    set("color_mode", json!("auto"));
    set("diff_mode", json!("unified"));
    set("safety", json!(granted.tier.name()));
    set("tools", json!(granted.tools));
    set("cwd", json!(granted.cwd.as_path().to_string_lossy()));
    if let Some(title) = title {
        set("title", json!(title));
    }
    fields
}

#[cfg(test)]
#[path = "crash_tests.rs"]
mod crash_tests;
