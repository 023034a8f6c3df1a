//! Unix sockets that lie in what commands see: somebody outside may listen.

use super::repos::{self, Found};
use crate::confine::cover::cover;
use crate::confine::step::Step;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Covers the sockets of a place that commands see but do not write: somebody outside may listen.
///
/// # Errors
/// [`Step`].
pub fn close_sockets(top: &Path) -> Result<(), Step> {
    let mut found = Found::default();
    repos::walk(top, &mut found);
    repos::sockets_of(top, &mut found.sockets);
    cover_sockets(&found.sockets)
}

pub(super) fn cover_sockets(sockets: &[PathBuf]) -> Result<(), Step> {
    let mut seen = BTreeSet::new();
    for socket in sockets.iter().filter(|s| seen.insert(*s)) {
        match cover(socket, false) {
            // Its owner has just removed it.
            Err(step) if step.source.kind() == std::io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}
