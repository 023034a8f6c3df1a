//! What of the machine a verdict depends on, looked up without a session.

use crate::confine::view::{Entry, SYSTEM, Source};
use crate::fs::path::lexical;
use policy::{Seen, Target};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The object that a path leads to; for one that leads nowhere, its text made absolute.
pub fn resolved(cwd: &Path, text: &str) -> PathBuf {
    let asked = cwd.join(text);
    fs::canonicalize(&asked).unwrap_or_else(|_| lexical(&asked))
}

/// The place that a path names, and what stands there.
pub fn place(cwd: &Path, text: &str) -> (PathBuf, Target) {
    let asked = lexical(&cwd.join(text));
    let (Some(parent), Some(name)) = (asked.parent(), asked.file_name()) else {
        return (asked, Target::Directory);
    };
    let path = fs::canonicalize(parent).map_or_else(|_| asked.clone(), |parent| parent.join(name));
    let target = match fs::symlink_metadata(&path) {
        Err(_) => Target::Absent,
        Ok(meta) if meta.is_dir() => Target::Directory,
        Ok(meta) if meta.is_symlink() => Target::Symlink,
        Ok(meta) if !meta.is_file() => Target::Special,
        Ok(meta) => Target::File { links: meta.nlink() },
    };
    (path, target)
}

/// Where `path` lies in a session's view. A private place hides what the machine has there; what
/// the machine does not have may be the session's own.
pub fn seen(view: &[Entry], path: &Path) -> Seen {
    /// Made anew for each session, with these names only.
    const DEVICES: [&str; 8] = ["null", "zero", "full", "random", "urandom", "tty", "shm", "pts"];
    if SYSTEM.iter().any(|system| path.starts_with(system)) {
        return Seen::System;
    }
    let is_device = DEVICES
        .iter()
        .any(|name| path.starts_with(Path::new("/dev").join(name)));
    if is_device || path.starts_with("/proc") || path == Path::new("/") {
        return Seen::View;
    }
    let around = view.iter().filter(|entry| path.starts_with(&entry.path));
    let Some(nearest) = around.max_by_key(|entry| entry.path.components().count()) else {
        return Seen::Absent;
    };
    match nearest.source {
        Source::Same | Source::Layered => Seen::View,
        Source::Other(_) | Source::Empty if path == nearest.path => Seen::View,
        Source::Other(_) if fs::symlink_metadata(path).is_err() => Seen::View,
        Source::Other(_) | Source::Empty => Seen::Absent,
    }
}

/// The directories that exist and hold what `words` name, nearest first; only such as may be made
/// a root.
pub fn places<'a>(words: impl Iterator<Item = &'a str>, ground: &policy::Ground) -> Vec<PathBuf> {
    const PLACES_MAX: usize = 8;
    let mut places = Vec::new();
    for word in words {
        let expanded = match word.strip_prefix("~/") {
            Some(rest) => ground.home.join(rest),
            None => lexical(&ground.cwd.join(word)),
        };
        // The directory itself counts: what is written may lie in it.
        let Some(there) = expanded.ancestors().find(|path| path.is_dir()) else {
            continue;
        };
        let Ok(real) = fs::canonicalize(there) else {
            continue;
        };
        let grantable = !crate::remedy::of(&real, "root", ground).is_empty();
        if grantable && !places.contains(&real) && places.len() < PLACES_MAX {
            places.push(real);
        }
    }
    places
}

/// Words of a command that could name files outside.
pub fn words(command: &str) -> impl Iterator<Item = &str> {
    let breaks = |c: char| c.is_whitespace() || "<>|&;()='\"`{},".contains(c);
    let words = command.split(breaks);
    words.filter(|word| word.starts_with(['/', '~']) || word.starts_with(".."))
}
