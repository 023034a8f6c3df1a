//! A session that turns are played in: its two files, open, and the walls that they name.

use super::call::{CallOutcome, CallResult};
use super::event::{Event, Sink};
use super::message::{Message, Role};
use super::turn::TurnError;
use crate::audit::{self, AuditError, AuditLog};
use crate::host::client::ToolHost;
use crate::session::log::Log;
use crate::session::record;
use ferrum_proto::seal::{Granted, Ready};

/// A session's files, open, and the walls that they name.
pub struct Session {
    pub log: Log,
    pub audit: AuditLog,
    pub ready: Ready,
    /// Turns of this process, for the audit log.
    pub(super) turns: u64,
    /// A host was lost, and none has answered since.
    lost_host: Option<String>,
}

impl Session {
    #[must_use]
    pub fn new(log: Log, audit: AuditLog, ready: Ready) -> Self {
        Self {
            log,
            audit,
            ready,
            turns: 0,
            lost_host: None,
        }
    }

    /// Waits until both files are on disk. They are synced side by side.
    ///
    /// # Errors
    /// The first that could not be written.
    pub async fn durable(&self) -> Result<(), TurnError> {
        let (log, audit) = futures_util::future::join(self.log.durable(), self.audit.durable()).await;
        log?;
        Ok(audit?)
    }

    /// Tells it with the policy and the walls in force, and what they have to remark.
    pub fn tell(&self, granted: &Granted, sink: &mut impl Sink) {
        let ready = &self.ready;
        sink.record(Event::Session { granted, ready });
        for notice in granted.notices.iter().chain(&ready.notices) {
            sink.record(Event::Notice(notice));
        }
    }

    /// Logs how a call ended, and before it that the host is another one.
    pub(super) fn log_result(&mut self, id: &str, name: &str, result: &CallResult) -> Result<(), AuditError> {
        match result.outcome {
            CallOutcome::Fault | CallOutcome::NotStarted => self.lost_host = Some(result.text.clone()),
            CallOutcome::Done | CallOutcome::Failed | CallOutcome::Refused(_)
                if result.isolation.is_some() =>
            {
                if let Some(why) = self.lost_host.take() {
                    self.audit.append(&audit::record::host(&why))?;
                }
            }
            _ => {}
        }
        self.audit
            .append(&audit::record::result(self.turns, id, name, result))
    }
}

/// Opens the session's files once the walls are known: they name them.
pub type Open<'a> = &'a dyn Fn(Ready) -> Result<Session, TurnError>;

/// Waits for the walls and opens the session for its first turn.
pub(super) async fn open(
    host: &impl ToolHost,
    open: Open<'_>,
    user: Option<&Message>,
) -> Result<Session, TurnError> {
    let ready = host.ready().await?;
    let mut session = open(ready)?;
    session.turns = 1;
    if let Some(user) = user.filter(|message| message.role == Role::User) {
        for line in record::messages(user) {
            session.log.append(line)?;
        }
    }
    Ok(session)
}
