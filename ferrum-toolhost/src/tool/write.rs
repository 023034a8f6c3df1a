//! `write`: one whole file, created or replaced.

use crate::admit::Permit;
use crate::from_wire::Write;
use crate::fs::atomic::{self, Old};
use crate::fs::name::shown;
use crate::fs::place::Place;
use crate::tool::{Bench, ToolError, ToolOutput, edit};

/// # Errors
/// The step that failed; the place is then what it was before.
pub fn run(call: &Write, permit: Permit<Place>, bench: &Bench<'_>) -> Result<ToolOutput, ToolError> {
    let _turn = edit::turn();
    let place = permit.into_subject();
    let (judged, canonical) = (place.target(), place.canonical().to_path_buf());
    let parent = place.into_parent().map_err(|error| bench.failure(&error))?;
    let written = Old::open(&parent, judged)
        .and_then(|old| atomic::commit(&parent, old.as_ref(), &[call.content.as_bytes()]));
    if let Err(error) = written {
        parent.undo();
        return Err(bench.failure(&error));
    }
    let text = format!("wrote {} bytes to {}", call.content.len(), shown(parent.asked()));
    Ok(ToolOutput {
        text,
        changed: vec![canonical],
        denials: Vec::new(),
    })
}
