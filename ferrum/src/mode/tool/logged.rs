//! The one call of `ferrum tool` in the audit log: it has no session, so all of them share a log.

use crate::agent::call::{CallOutcome, CallResult};
use crate::agent::redact::Redactor;
use crate::audit::chain::Keyed;
use crate::audit::{self, AuditError, AuditLog};
use crate::host::{Fault, ToolResult};
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::Isolation;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The log of all such calls. No session can have this name.
const LOG: &str = "@tool";
/// What stands where a model's call has its id.
const ID: &str = "call";

/// The log, open, with the call in it.
pub(super) struct Logged {
    log: AuditLog,
    tool: String,
    isolation: Isolation,
}

impl Logged {
    /// Logs the request. On disk before this returns, where the call could change something.
    ///
    /// # Errors
    /// [`AuditError`]; then nothing may be run.
    pub async fn call(
        (data, keyed): (&Path, Keyed),
        (granted, ready): (&Granted, &Ready),
        (tool, arguments, read_only): (&str, &Value, bool),
        redactor: &Redactor,
    ) -> Result<Self, AuditError> {
        let first = audit::record::open(json!({ "session": LOG }), granted, ready);
        let mut log = AuditLog::open(&audit::place::directory(data), LOG, keyed, first)?;
        log.append(&audit::record::call(0, ID, tool, &redactor.value(arguments)))?;
        if !read_only {
            log.durable().await?;
        }
        Ok(Self {
            log,
            tool: tool.to_owned(),
            isolation: ready.isolation,
        })
    }

    /// Logs what came of it.
    ///
    /// # Errors
    /// [`AuditError`].
    pub async fn result(
        mut self,
        result: &Result<ToolResult, Fault>,
        took: Duration,
    ) -> Result<(), AuditError> {
        let mut result = match result {
            Ok(result) => CallResult::of_host(result.clone(), Some(self.isolation)),
            Err(Fault::NotStarted(cause)) => CallResult::error(CallOutcome::NotStarted, cause.to_string()),
            Err(fault) => CallResult::error(CallOutcome::Fault, fault.to_string()),
        };
        result.took = took;
        self.log
            .append(&audit::record::result(0, ID, &self.tool, &result))?;
        self.log.durable().await
    }
}
