//! `ls`: the names in one directory, sorted by bytes. Directories end in `/`, links show where
//! they point.

use crate::admit::Permit;
use crate::from_wire::Ls;
use crate::fs::atomic::SIBLING;
use crate::fs::list::{EntryKind, Listed, list};
use crate::fs::name::shown_bytes;
use crate::fs::resolve::Found;
use crate::tool::{Bench, LIST_BYTES_MAX, ToolError, ToolOutput, limit_note};
use nix::fcntl::readlinkat;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

/// # Errors
/// No directory, or one that may not be listed.
pub fn run(call: &Ls, permit: &Permit<Found>, bench: &Bench<'_>) -> Result<ToolOutput, ToolError> {
    let found = permit.subject();
    let directory = found.open_directory().map_err(|error| bench.failure(&error))?;
    let mut entries = list(directory.as_fd(), found.asked()).map_err(|error| bench.failure(&error))?;
    entries.retain(|entry| entry.name != SIBLING.as_bytes());
    if entries.is_empty() {
        return Ok(ToolOutput::text("(empty directory)"));
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut text = String::new();
    for (index, entry) in entries.iter().enumerate() {
        if index == call.limit {
            text.push_str(&limit_note(call.limit, &format!("of {} entries", entries.len())));
            break;
        }
        let line = line(directory.as_fd(), entry);
        if text.len() + line.len() >= LIST_BYTES_MAX {
            text.push_str(&format!(
                "[output limit reached: {index} of {} entries shown]",
                entries.len()
            ));
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len());
    Ok(ToolOutput::text(text))
}

fn line(directory: BorrowedFd<'_>, entry: &Listed) -> String {
    let name = shown_bytes(&entry.name);
    match entry.kind {
        EntryKind::File => name.into_owned(),
        EntryKind::Directory => format!("{name}/"),
        EntryKind::Symlink => match readlinkat(directory, entry.name.as_slice()) {
            Ok(target) => format!("{name} -> {}", shown_bytes(target.as_bytes())),
            Err(_) => format!("{name} -> ?"),
        },
        EntryKind::Special => format!("{name} (FIFO, socket or device)"),
    }
}
