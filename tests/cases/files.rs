//! What became of files: before and after, byte for byte.

use crate::ground::Ground;
use crate::keys::Keys;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One name in the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Absent,
    Link(PathBuf),
    Other {
        mode: u32,
        content: Option<Vec<u8>>,
        modified: Option<SystemTime>,
    },
}

/// The files of the ground at one time.
#[derive(Debug, Clone, Default)]
pub struct Before {
    named: Vec<(PathBuf, State)>,
    names: BTreeSet<PathBuf>,
}

impl Before {
    /// `paths`: those whose content may be asked for later.
    pub fn of(ground: &Ground, paths: &[PathBuf]) -> Self {
        let named = paths.iter().map(|path| (path.clone(), state(path))).collect();
        Self {
            named,
            names: names(&ground.home().join("work")),
        }
    }

    fn state(&self, path: &Path) -> Option<&State> {
        self.named
            .iter()
            .find(|(known, _)| known == path)
            .map(|(_, state)| state)
    }

    /// Names that are there now and were not before.
    pub fn new_names(&self, ground: &Ground) -> Vec<PathBuf> {
        names(&ground.home().join("work"))
            .difference(&self.names)
            .cloned()
            .collect()
    }
}

fn state(path: &Path) -> State {
    let Ok(meta) = path.symlink_metadata() else {
        return State::Absent;
    };
    if meta.is_symlink() {
        return State::Link(std::fs::read_link(path).unwrap_or_default());
    }
    State::Other {
        mode: meta.mode() & 0o7777,
        content: meta.is_file().then(|| std::fs::read(path).ok()).flatten(),
        modified: meta.modified().ok(),
    }
}

fn names(directory: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            all.insert(entry.path());
        }
    }
    all
}

/// The paths that a list of expectations speaks of.
pub fn paths(list: &[Keys], ground: &Ground) -> Vec<PathBuf> {
    let one = |keys: &Keys| keys.clone().text("path").ok().flatten();
    list.iter()
        .filter_map(one)
        .map(|path| ground.path(&path))
        .collect()
}

/// # Errors
/// Everything that is not as expected, one line each.
pub fn check(list: Vec<Keys>, before: &Before, ground: &Ground) -> Vec<String> {
    list.into_iter()
        .filter_map(|keys| one(keys, before, ground).err())
        .collect()
}

fn one(mut keys: Keys, before: &Before, ground: &Ground) -> Result<(), String> {
    let name = keys.text("path")?.ok_or("a file without path")?;
    let path = ground.path(&name);
    let now = state(&path);
    let content = match &now {
        State::Other { content, .. } => content.as_deref(),
        State::Absent | State::Link(_) => None,
    };
    if let Some(from) = keys.text("same_as")? {
        let wanted = std::fs::read(ground.copies().join(&from)).map_err(|e| format!("{from}: {e}"))?;
        same(&name, content, &wanted)?;
    }
    if let Some(text) = keys.text("text")? {
        same(&name, content, ground.fill(&text).as_bytes())?;
    }
    if keys.flag("absent")? == Some(true) && now != State::Absent {
        return Err(format!("{name} is there"));
    }
    if let Some(target) = keys.text("symlink_to")? {
        match &now {
            State::Link(link) if link.as_os_str().as_bytes() == target.as_bytes() => {}
            _ => return Err(format!("{name} is no link to {target}")),
        }
    }
    if let Some(mode) = keys.text("mode")? {
        match &now {
            State::Other { mode: now, .. } if format!("{now:04o}") == format!("{mode:0>4}") => {}
            _ => return Err(format!("{name} has not mode {mode}: {now:?}")),
        }
    }
    let with_time = keys.flag("mtime")? == Some(true);
    if keys.flag("unchanged")? == Some(true) {
        unchanged(&name, before.state(&path), &now, with_time)?;
    }
    keys.nothing_left(&format!("file {name}"))
}

fn same(name: &str, content: Option<&[u8]>, wanted: &[u8]) -> Result<(), String> {
    match content {
        Some(content) if content == wanted => Ok(()),
        Some(content) => Err(format!("{name} is {}, not {}", shown(content), shown(wanted))),
        None => Err(format!("{name} is no readable file")),
    }
}

fn unchanged(name: &str, before: Option<&State>, now: &State, with_time: bool) -> Result<(), String> {
    let without_time = |state: &State| match state {
        State::Other { mode, content, .. } => State::Other {
            mode: *mode,
            content: content.clone(),
            modified: None,
        },
        other => other.clone(),
    };
    let before = before.ok_or_else(|| format!("{name} was not looked at before"))?;
    let is_same = if with_time {
        before == now
    } else {
        without_time(before) == without_time(now)
    };
    if is_same && *before != State::Absent {
        return Ok(());
    }
    Err(format!("{name} changed"))
}

fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(300)].escape_ascii().to_string();
    format!("\"{text}\"")
}
