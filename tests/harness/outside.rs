//! What is to be seen from outside: the state of a tree, so that "nothing changed" is a fact.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Paths with a fingerprint of each: kind, mode, owner, content, and for files outside the
/// writable root the time of change as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree(BTreeMap<PathBuf, String>);

impl Tree {
    /// Everything below `base` that no confined act may change: all but the working files of
    /// `root`, git's own data, and Ferrum's cache and data directories.
    #[must_use]
    pub fn protected(base: &Path, root: &Path) -> Self {
        let mut tree = Self::default();
        tree.walk(base, base, &|path| is_protected(path, base, root), root);
        tree
    }

    /// Everything below `base`.
    #[must_use]
    pub fn of(base: &Path) -> Self {
        let mut tree = Self::default();
        tree.walk(base, base, &|_| true, Path::new("/nonexistent"));
        tree
    }

    fn walk(&mut self, base: &Path, dir: &Path, wanted: &dyn Fn(&Path) -> bool, root: &Path) {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(meta) = path.symlink_metadata() else {
                continue;
            };
            if wanted(&path) {
                let name = path.strip_prefix(base).unwrap_or(&path).to_path_buf();
                self.0
                    .insert(name, fingerprint(&path, &meta, !path.starts_with(root)));
            }
            if meta.is_dir() {
                self.walk(base, &path, wanted, root);
            }
        }
    }

    /// What `later` has that this has not, one line each; empty when nothing changed.
    #[must_use]
    pub fn changes(&self, later: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, print) in &self.0 {
            match later.0.get(path) {
                None => lines.push(format!("gone: {}", path.display())),
                Some(now) if now != print => {
                    lines.push(format!("changed: {} ({print} -> {now})", path.display()))
                }
                Some(_) => {}
            }
        }
        for path in later.0.keys().filter(|path| !self.0.contains_key(*path)) {
            lines.push(format!("new: {}", path.display()));
        }
        lines
    }
}

fn fingerprint(path: &Path, meta: &std::fs::Metadata, with_time: bool) -> String {
    let mut hash = DefaultHasher::new();
    if meta.is_symlink() {
        std::fs::read_link(path).ok().hash(&mut hash);
    } else if meta.is_file() {
        std::fs::read(path).ok().hash(&mut hash);
        if with_time {
            (meta.mtime(), meta.mtime_nsec()).hash(&mut hash);
        }
    }
    format!("{:o}/{}/{:x}", meta.mode(), meta.uid(), hash.finish())
}

/// Ferrum's own state and the caches of the session.
const OWN: [&str; 2] = ["home/.cache", "home/.local/share/ferrum"];

fn is_protected(path: &Path, base: &Path, root: &Path) -> bool {
    if let Ok(inside) = path.strip_prefix(root) {
        return is_protected_in_root(inside);
    }
    let Ok(name) = path.strip_prefix(base) else {
        return false;
    };
    if OWN.iter().any(|own| name.starts_with(own)) {
        return name == Path::new("home/.local/share/ferrum/sessions/old.jsonl");
    }
    // The linked worktree's and the library's git data change by ordinary work.
    !name.components().any(|part| part.as_os_str() == ".git") || is_protected_in_root(name)
}

/// Inside the root: `.ferrum`, and of every git directory what makes git run something.
fn is_protected_in_root(name: &Path) -> bool {
    let text = name.as_os_str().as_bytes();
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'/').collect();
    // Working files of the escapes themselves: a copy of a git directory arms nothing by lying there.
    // git never runs a sample.
    let is_sample = text.ends_with(b".sample") && parts.contains(&b"hooks".as_slice());
    if is_sample || parts.iter().any(|part| part.starts_with(b"probe")) {
        return false;
    }
    if parts.contains(&b".ferrum".as_slice()) {
        return true;
    }
    let Some(git) = parts.iter().position(|part| *part == b".git") else {
        return false;
    };
    let inside = &parts[git + 1..];
    match inside.last() {
        None => false,
        Some(&b"config" | &b"config.worktree" | &b"commondir" | &b"gitdir") => true,
        // The directories themselves may be made: an empty one runs nothing.
        Some(_) => inside.iter().rev().skip(1).any(|part| *part == b"hooks"),
    }
}
