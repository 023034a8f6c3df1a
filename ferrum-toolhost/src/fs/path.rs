//! Paths as text, whatever they name.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Without `.` and `..`, as far as text goes.
#[must_use]
pub fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// The names on the way, last first: a stack for whoever follows links by hand.
#[must_use]
pub fn names_backwards(path: &Path) -> Vec<OsString> {
    let named = path
        .components()
        .rev()
        .filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    named.map(|part| part.as_os_str().to_owned()).collect()
}
