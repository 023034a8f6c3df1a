//! `find`: files by name. Lists what is not a directory, in a stable order; links are listed and
//! not followed.

use crate::admit::Permit;
use crate::from_wire::Find;
use crate::fs::budget::{Budget, WALK_TIME_MAX};
use crate::fs::name::shown_bytes;
use crate::fs::resolve::Found;
use crate::fs::walk::{Start, Walk};
use crate::tool::{Bench, LIST_BYTES_MAX, ToolError, ToolOutput, cancelled, joined, limit_note};
use globset::{GlobBuilder, GlobMatcher};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// # Errors
/// No directory, or a glob that cannot be read.
pub fn run(call: &Find, permit: &Permit<Found>, bench: &Bench<'_>) -> Result<ToolOutput, ToolError> {
    let filter = Filter::new(call).map_err(ToolError::failed)?;
    let start = Start::new(permit).map_err(|error| bench.failure(&error))?;
    let wanted: Vec<&str> = call
        .pattern
        .iter()
        .chain(&call.name)
        .map(String::as_str)
        .collect();
    let budget = Budget::new(WALK_TIME_MAX, bench.cancel);
    let mut walk = Walk::new(&start, bench.judge, budget, &wanted);
    let mut text = String::new();
    let mut found = 0;
    let mut note = None;
    for entry in walk.by_ref().filter(|entry| filter.admits(&entry.relative)) {
        if found == call.limit {
            note = Some(limit_note(call.limit, "files"));
            break;
        }
        let path = joined(permit.subject().asked(), &entry.relative);
        let path = shown_bytes(&path);
        if text.len() + path.len() >= LIST_BYTES_MAX {
            note = Some(format!(
                "[output limit reached: {found} files shown; use a narrower path or pattern]"
            ));
            break;
        }
        text.push_str(&path);
        text.push('\n');
        found += 1;
    }
    cancelled(walk.gaps.stop)?;
    if found == 0 {
        text.push_str("no matches\n");
    }
    for line in note.into_iter().chain(walk.gaps.notes(found == 0)) {
        text.push_str(&line);
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len());
    Ok(bench.walked(text, &walk.gaps))
}

/// Every condition of the call; a file must meet all.
struct Filter {
    path: Option<Glob>,
    name: Option<Glob>,
    extension: Option<Vec<u8>>,
}

impl Filter {
    fn new(call: &Find) -> Result<Self, String> {
        Ok(Self {
            path: call
                .pattern
                .as_deref()
                .map(|text| Glob::new("pattern", text))
                .transpose()?,
            name: call
                .name
                .as_deref()
                .map(|text| Glob::new("name", text))
                .transpose()?,
            extension: call
                .extension
                .as_ref()
                .map(|text| format!(".{text}").into_bytes()),
        })
    }

    fn admits(&self, relative: &[u8]) -> bool {
        self.path.as_ref().is_none_or(|glob| glob.admits(relative))
            && self
                .name
                .as_ref()
                .is_none_or(|glob| glob.admits(name_of(relative)))
            && self.extension.as_ref().is_none_or(|extension| {
                let name = name_of(relative);
                name.ends_with(extension) && name.len() > extension.len()
            })
    }
}

/// A glob over relative paths: with a `/` over the whole path, without one over the name, as in
/// `.gitignore`. `*` does not cross a `/`, `**` does.
pub(crate) struct Glob {
    matcher: GlobMatcher,
    whole: bool,
}

impl Glob {
    pub(crate) fn new(argument: &str, text: &str) -> Result<Self, String> {
        let glob = text.strip_prefix("./").unwrap_or(text);
        if glob.starts_with('/') {
            return Err(format!(
                "{argument} {text:?} starts with '/', but it is relative to path"
            ));
        }
        let built = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build();
        let matcher = built
            .map_err(|error| format!("{argument} is not a glob: {error}"))?
            .compile_matcher();
        Ok(Self {
            matcher,
            whole: glob.contains('/'),
        })
    }

    pub(crate) fn admits(&self, relative: &[u8]) -> bool {
        let subject = if self.whole { relative } else { name_of(relative) };
        self.matcher.is_match(OsStr::from_bytes(subject))
    }
}

fn name_of(relative: &[u8]) -> &[u8] {
    relative.rsplit(|byte| *byte == b'/').next().unwrap_or(relative)
}
