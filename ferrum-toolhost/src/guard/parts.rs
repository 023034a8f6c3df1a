//! The parts of a git directory, and of `.ferrum`, that programs obey: taking a picture of them,
//! comparing, and putting them back.
//!
//! Sample hooks are inert (git never runs a name that ends in `.sample`) and are left out.

use super::config;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Bytes of one protected file that are kept for putting it back.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Depth of a protected directory, such as `hooks` or `.ferrum/skills`.
const DEPTH_MAX: usize = 8;

/// One file system object as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Absent,
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Directory {
        entries: BTreeMap<std::ffi::OsString, Part>,
        mode: u32,
    },
    Symlink(PathBuf),
    /// A FIFO, socket or device, or something too large to keep.
    Other,
}

impl Part {
    /// The object at `path` as it is now, without following links.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self::read(path, 0)
    }

    fn read(path: &Path, depth: usize) -> Self {
        let Ok(meta) = fs::symlink_metadata(path) else {
            return Self::Absent;
        };
        let kind = meta.file_type();
        if kind.is_symlink() {
            return fs::read_link(path).map_or(Self::Other, Self::Symlink);
        }
        if kind.is_file() {
            return read_file(path).map_or(Self::Other, |bytes| Self::File {
                bytes,
                mode: meta.mode() & 0o7777,
            });
        }
        if !kind.is_dir() || depth >= DEPTH_MAX {
            return Self::Other;
        }
        let entries = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| !e.file_name().as_bytes().ends_with(b".sample"))
            .map(|e| (e.file_name(), Self::read(&e.path(), depth + 1)))
            .collect();
        Self::Directory {
            entries,
            mode: meta.mode() & 0o7777,
        }
    }

    /// Brings `path` into this state.
    ///
    /// # Errors
    /// The first system error; the rest is still tried where it is independent.
    pub fn restore(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Absent => remove(path),
            // What could not be kept cannot be put back; the caller reports it.
            Self::Other => Ok(()),
            Self::Symlink(target) => {
                remove(path)?;
                symlink(target, path)
            }
            Self::File { bytes, mode } => {
                if fs::symlink_metadata(path).is_ok_and(|m| !m.is_file() || m.nlink() > 1) {
                    remove(path)?;
                }
                let mut file = fs::OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                    .open(path)?;
                file.set_permissions(fs::Permissions::from_mode(*mode))?;
                file.write_all(bytes)?;
                file.sync_data()
            }
            Self::Directory { entries, mode } => {
                if fs::symlink_metadata(path).is_ok_and(|m| !m.is_dir()) {
                    remove(path)?;
                }
                if !path.exists() {
                    fs::create_dir(path)?;
                }
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
                for entry in fs::read_dir(path)?.flatten() {
                    let name = entry.file_name();
                    if !entries.contains_key(&name) && !name.as_bytes().ends_with(b".sample") {
                        remove(&entry.path())?;
                    }
                }
                entries.iter().try_for_each(|(name, part)| {
                    let child = path.join(name);
                    if Self::of(&child) == *part {
                        Ok(())
                    } else {
                        part.restore(&child)
                    }
                })
            }
        }
    }
}

fn read_file(path: &Path) -> Option<Vec<u8>> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Removes whatever is at `path`, however it is; nothing there is success.
///
/// # Errors
/// The system's.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(meta) if meta.is_dir() => {
            // A directory that its maker closed to us is still ours to open.
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
    }
}

/// Names in a git directory that make git run or read something from elsewhere.
pub const GIT_NAMES: [&str; 3] = ["hooks", "config.worktree", "commondir"];
/// Names in `worktrees/<name>` that do.
pub const WORKTREE_NAMES: [&str; 3] = ["gitdir", "commondir", "config.worktree"];

/// Picture of one git directory.
#[derive(Debug, Clone)]
pub struct GitParts {
    pub git_dir: PathBuf,
    pub config: Part,
    pub others: Vec<(PathBuf, Part)>,
}

impl GitParts {
    #[must_use]
    pub fn of(git_dir: &Path) -> Self {
        let mut others: Vec<_> = GIT_NAMES
            .iter()
            .map(|n| git_dir.join(n))
            .map(|p| (p.clone(), Part::of(&p)))
            .collect();
        for worktree in fs::read_dir(git_dir.join("worktrees"))
            .into_iter()
            .flatten()
            .flatten()
        {
            others.extend(
                WORKTREE_NAMES
                    .iter()
                    .map(|n| worktree.path().join(n))
                    .map(|p| (p.clone(), Part::of(&p))),
            );
        }
        Self {
            git_dir: git_dir.to_path_buf(),
            config: Part::of(&git_dir.join("config")),
            others,
        }
    }

    /// Puts back what differs, the config file key by key. Returns what was done, one line each.
    #[must_use]
    pub fn put_back(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        for (path, part) in &self.others {
            // The registration of a worktree that is gone as a whole was removed by git itself.
            let gone = path.parent().is_some_and(|p| p != self.git_dir && !p.exists());
            let now = Part::of(path);
            if gone || same_in_effect(&now, part) {
                continue;
            }
            done.push(outcome(path, part.restore(path)));
        }
        let path = self.git_dir.join("config");
        let now = Part::of(&path);
        if now == self.config {
            return done;
        }
        match (text(&self.config), text(&now)) {
            (Some(old), Some(new)) => {
                let merged = config::merge(&old, &new);
                if let Part::File { mode, .. } = &self.config {
                    self.config = Part::File {
                        bytes: merged.text.into_bytes(),
                        mode: *mode,
                    };
                }
                if !merged.dropped.is_empty() {
                    let result = self.config.restore(&path);
                    done.push(format!(
                        "{} ({})",
                        outcome(&path, result),
                        merged.dropped.join(", ")
                    ));
                }
            }
            _ => done.push(outcome(&path, self.config.restore(&path))),
        }
        done
    }
}

/// An absent hooks directory and one without hooks mean the same to git.
fn same_in_effect(now: &Part, before: &Part) -> bool {
    let is_empty = |p: &Part| match p {
        Part::Absent => true,
        Part::Directory { entries, .. } => entries.is_empty(),
        Part::File { .. } | Part::Symlink(_) | Part::Other => false,
    };
    now == before || is_empty(now) && is_empty(before)
}

fn text(part: &Part) -> Option<String> {
    match part {
        Part::File { bytes, .. } => String::from_utf8(bytes.clone()).ok(),
        Part::Absent | Part::Directory { .. } | Part::Symlink(_) | Part::Other => None,
    }
}

/// One line about a part that was put back.
#[must_use]
pub fn outcome(path: &Path, result: io::Result<()>) -> String {
    match result {
        Ok(()) => format!("put back {}", path.display()),
        Err(e) => format!("could not put back {}: {e}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("hooks")).unwrap();
        fs::write(dir.path().join("hooks/a.sample"), "x").unwrap();
        fs::write(dir.path().join("config"), "[core]\n\tbare = false\n").unwrap();
        dir
    }

    #[test]
    fn a_planted_hook_pointer_and_dangerous_key_are_put_back_and_a_harmless_key_stays() {
        let dir = git_dir();
        let mut parts = GitParts::of(dir.path());
        fs::write(dir.path().join("hooks/pre-commit"), "evil").unwrap();
        fs::write(dir.path().join("commondir"), "/evil").unwrap();
        fs::write(
            dir.path().join("config"),
            "[core]\n\tbare = false\n\tfsmonitor = e\n[user]\n\tname = A\n",
        )
        .unwrap();
        assert_eq!(parts.put_back().len(), 3);
        assert!(!dir.path().join("hooks/pre-commit").exists());
        assert!(dir.path().join("hooks/a.sample").exists());
        assert!(!dir.path().join("commondir").exists());
        let config = fs::read_to_string(dir.path().join("config")).unwrap();
        assert_eq!(config, "[core]\n\tbare = false\n[user]\n\tname = A\n");
        assert_eq!(parts.put_back(), Vec::<String>::new());
    }

    #[test]
    fn a_hooks_directory_replaced_by_a_link_is_put_back() {
        let dir = git_dir();
        fs::write(dir.path().join("hooks/mine"), "ok").unwrap();
        let mut parts = GitParts::of(dir.path());
        fs::remove_dir_all(dir.path().join("hooks")).unwrap();
        symlink("/evil", dir.path().join("hooks")).unwrap();
        assert_eq!(parts.put_back().len(), 1);
        assert_eq!(fs::read_to_string(dir.path().join("hooks/mine")).unwrap(), "ok");
    }
}
