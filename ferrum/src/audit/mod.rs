//! The audit log: every tool request, verdict and outcome of a session, written before the act
//! and chained, so that a later change of it shows.
//!
//! Each record carries a MAC over itself and the record before it, keyed by a file of the config
//! directory that no tool can see. Who holds the user's own authority can make a new chain; nobody
//! else can edit, insert, reorder or cut without a trace. See docs/AUDIT.md.

pub mod chain;
pub mod key;
pub mod log;
pub mod place;
pub mod record;
pub mod verify;

pub use log::{Anchor, AuditError, AuditLog, Outlook};

/// One record with its line end, in bytes; longer arguments are cut before they get here.
pub const RECORD_BYTES_MAX: usize = 64 << 10;
/// A part is closed when it has grown to this, in bytes, and the next one begun.
pub const PART_BYTES_MAX: u64 = 64 << 20;
