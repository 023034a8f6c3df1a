//! The native tools. Each takes a permit and gives text for the model.
//!
//! A refusal (policy said no), a failure (the tool tried) and a success are three things here
//! and stay so on the wire.

pub mod edit;
pub mod find;
pub mod grep;
pub mod ls;
pub mod read;
pub mod write;

mod denial;

use crate::admit::{self, Judge};
use crate::from_wire::{PathText, Request};
use crate::fs::FsError;
use crate::fs::budget::Stop;
use crate::fs::gaps::Gaps;
use crate::fs::place::{self, Place};
use crate::fs::resolve::{self, Base, Found};
use ferrum_proto::reply::Denial;
use policy::Refusal;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Text of a file or of matches in one result, in bytes.
pub const TEXT_BYTES_MAX: usize = 50 << 10;
/// Names in one result, in bytes: ten thousand ordinary ones.
pub const LIST_BYTES_MAX: usize = 200 << 10;
/// The largest limit that a hint proposes; the argument's own bound.
const LIMIT_MAX: usize = 10_000;

/// What a tool did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// For the model; UTF-8 without control characters in names.
    pub text: String,
    /// Canonical paths of the files that were created or changed.
    pub changed: Vec<PathBuf>,
    /// What walls kept from a `find` or `grep` that else succeeded.
    pub denials: Vec<Denial>,
}

impl ToolOutput {
    fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Why a tool did nothing, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolError {
    /// The tool tried. The text says why for the model; the denials say which walls refused.
    Failed { text: String, denials: Vec<Denial> },
    /// Policy said no before anything happened.
    Refused(Refusal),
}

impl ToolError {
    fn failed(text: impl Into<String>) -> Self {
        Self::Failed {
            text: text.into(),
            denials: Vec::new(),
        }
    }
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A call that `run_native` hands back because it is a command.
#[derive(Debug, Clone)]
pub enum CommandCall {
    Bash(crate::from_wire::Bash),
    Wait(crate::from_wire::Wait),
}

/// The two kinds of calls: those of this module and commands, which the caller routes elsewhere.
#[derive(Debug, Clone)]
pub enum Native {
    Read(crate::from_wire::Read),
    Write(crate::from_wire::Write),
    Edit(crate::from_wire::Edit),
    Ls(crate::from_wire::Ls),
    Find(crate::from_wire::Find),
    Grep(crate::from_wire::Grep),
}

/// Splits the checked requests by who runs them.
///
/// # Errors
/// Never fails in the usual sense: `Err` holds the command.
pub fn native(request: Request) -> Result<Native, CommandCall> {
    match request {
        Request::Read(call) => Ok(Native::Read(call)),
        Request::Write(call) => Ok(Native::Write(call)),
        Request::Edit(call) => Ok(Native::Edit(call)),
        Request::Ls(call) => Ok(Native::Ls(call)),
        Request::Find(call) => Ok(Native::Find(call)),
        Request::Grep(call) => Ok(Native::Grep(call)),
        Request::Bash(call) => Err(CommandCall::Bash(call)),
        Request::Wait(call) => Err(CommandCall::Wait(call)),
    }
}

/// Resolves, judges and runs one native call. May be called from several threads at once.
///
/// # Errors
/// [`ToolError`]; after a failed `write` or `edit` the file is what it was before.
pub fn run_native(
    call: &Native,
    judge: &Judge,
    cwd: BorrowedFd<'_>,
    cancel: &AtomicBool,
) -> Result<ToolOutput, ToolError> {
    let bench = Bench {
        judge,
        base: Base {
            cwd,
            ground: &judge.ground,
        },
        cancel,
    };
    match call {
        Native::Read(call) => read::run(call, &bench.readable(&call.path)?, &bench),
        Native::Ls(call) => ls::run(call, &bench.readable(&call.path)?, &bench),
        Native::Find(call) => find::run(call, &bench.readable(&call.path)?, &bench),
        Native::Grep(call) => grep::run(call, &bench.readable(&call.path)?, &bench),
        Native::Write(call) => write::run(call, bench.place(&call.path)?, &bench),
        Native::Edit(call) => edit::run(call, bench.place(&call.path)?, &bench),
    }
}

/// What every tool has at hand.
#[derive(Debug, Clone, Copy)]
pub struct Bench<'a> {
    judge: &'a Judge,
    base: Base<'a>,
    cancel: &'a AtomicBool,
}

impl Bench<'_> {
    fn readable(&self, path: &PathText) -> Result<admit::Permit<Found>, ToolError> {
        let found = resolve::existing(&self.base, path).map_err(|error| self.unresolved(&error, false))?;
        Ok(admit::read(self.judge, found)?)
    }

    fn place(&self, path: &PathText) -> Result<admit::Permit<Place>, ToolError> {
        let place = place::place(&self.base, path).map_err(|error| self.unresolved(&error, true))?;
        Ok(admit::mutate(self.judge, place)?)
    }

    /// A path that did not resolve: policy's own word where it has one, else the error.
    fn unresolved(&self, error: &FsError, mutation: bool) -> ToolError {
        match admit::unresolved(self.judge, error.path(), mutation) {
            Err(refusal) => ToolError::Refused(refusal),
            Ok(()) => self.failure(error),
        }
    }

    /// An error of the file system as the model gets it, with the wall behind it.
    fn failure(&self, error: &FsError) -> ToolError {
        let denial = denial::of(error, &self.judge.ground);
        let wall = denial.as_ref().map(denial::sentence).unwrap_or_default();
        ToolError::Failed {
            text: format!("{error}{wall}"),
            denials: denial.into_iter().collect(),
        }
    }

    /// The result of a walk, with what walls kept from it.
    fn walked(&self, text: String, gaps: &Gaps) -> ToolOutput {
        let walled = gaps.walled().iter();
        let denials = walled
            .filter_map(|error| denial::of(error, &self.judge.ground))
            .collect();
        ToolOutput {
            text,
            changed: Vec::new(),
            denials,
        }
    }
}

/// The end of a call that was cancelled.
fn cancelled(stop: Option<Stop>) -> Result<(), ToolError> {
    match stop {
        Some(Stop::Cancelled) => Err(ToolError::failed("cancelled")),
        Some(Stop::Deadline) | None => Ok(()),
    }
}

/// The hint at the end of a result that a limit cut.
fn limit_note(limit: usize, what: &str) -> String {
    if limit >= LIMIT_MAX {
        return format!("[limit reached: {limit} {what}; use a narrower path or pattern]");
    }
    let next = (limit * 2).min(LIMIT_MAX);
    format!("[limit reached: {limit} {what}; use limit={next} for more]")
}

/// A path as a result names it: usable as an argument of the next call.
fn joined(asked: &Path, relative: &[u8]) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let start = asked.as_os_str().as_bytes();
    let start = start.strip_suffix(b"/").unwrap_or(start);
    if start == b"." {
        return relative.to_vec();
    }
    let mut path = start.strip_prefix(b"./").unwrap_or(start).to_vec();
    path.push(b'/');
    path.extend_from_slice(relative);
    path
}

#[cfg(test)]
pub(crate) mod tests;
