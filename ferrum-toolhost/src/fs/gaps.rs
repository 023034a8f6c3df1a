//! What a walk could not or did not look at, so that "no matches" is never a half truth.

use crate::fs::FsError;
use crate::fs::budget::{Stop, WALK_TIME_MAX};
use crate::fs::name::shown_bytes;
use ferrum_proto::limits::DENIALS_MAX;
use std::collections::BTreeSet;

/// Unreadable places that a result names; the rest is counted.
const UNREADABLE_NAMED_MAX: usize = 5;
/// Left-out directories that a result names.
const SKIPPED_NAMED_MAX: usize = 5;

/// Collected along the way.
#[derive(Debug, Default)]
pub struct Gaps {
    named: Vec<String>,
    walled: Vec<FsError>,
    unreadable: usize,
    refused: usize,
    skipped: BTreeSet<String>,
    pub binary: usize,
    pub stop: Option<Stop>,
}

impl Gaps {
    /// A place that could not be read, by its path relative to the start.
    pub fn unreadable(&mut self, relative: &[u8], error: FsError) {
        self.unreadable += 1;
        if self.named.len() < UNREADABLE_NAMED_MAX {
            let why = match &error {
                FsError::System { errno, .. } => errno.desc().to_owned(),
                FsError::Kind { .. } | FsError::Changed { .. } | FsError::Other { .. } => error.to_string(),
            };
            self.named.push(format!("{} ({why})", shown_bytes(relative)));
        }
        if error.wall().is_some() && self.walled.len() < DENIALS_MAX {
            self.walled.push(error);
        }
    }

    /// The errors that a wall explains.
    #[must_use]
    pub fn walled(&self) -> &[FsError] {
        &self.walled
    }

    /// A directory that was left out as noise.
    pub fn skipped(&mut self, relative: &[u8]) {
        if self.skipped.len() < SKIPPED_NAMED_MAX {
            self.skipped.insert(shown_bytes(relative).into_owned());
        }
    }

    pub fn refused(&mut self) {
        self.refused += 1;
    }

    /// Lines for the end of a result. Left-out directories matter only where nothing was found.
    #[must_use]
    pub fn notes(&self, found_nothing: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.stop == Some(Stop::Deadline) {
            let seconds = WALK_TIME_MAX.as_secs();
            notes.push(format!(
                "[incomplete: stopped after {seconds} seconds; use a narrower path]"
            ));
        }
        if self.unreadable > 0 {
            let more = self.unreadable - self.named.len();
            let rest = if more == 0 {
                String::new()
            } else {
                format!(" and {more} more")
            };
            notes.push(format!(
                "[incomplete: could not read {}{rest}]",
                self.named.join(", ")
            ));
        }
        if self.refused > 0 {
            notes.push(format!(
                "[{} left out: policy does not let them be read]",
                count(self.refused, "place")
            ));
        }
        if self.binary > 0 {
            notes.push(format!("[{} skipped]", count(self.binary, "binary file")));
        }
        if found_nothing && !self.skipped.is_empty() {
            let names: Vec<&str> = self.skipped.iter().map(String::as_str).collect();
            notes.push(format!(
                "[not looked at: {}; name one as path to search it]",
                names.join(", ")
            ));
        }
        notes
    }
}

/// `1 file`, `2 files`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
