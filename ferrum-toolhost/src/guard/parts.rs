//! The parts of a git directory, and of `.ferrum`, that programs obey: taking a picture of them,
//! comparing, and putting them back.
//!
//! Sample hooks are inert (git never runs a name that ends in `.sample`) and are left out. A
//! directory that cannot be read is not an empty one: whoever may pass through it runs what it holds.

use super::{config, repos};
use crate::fs::name::shown;
use crate::fs::removal::{in_open_parent, remove};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Bytes of one protected file, and of one whole picture, that are kept for putting them back.
const FILE_BYTES_MAX: u64 = 4 << 20;
const PICTURE_BYTES_MAX: u64 = 16 << 20;
/// Entries of one picture: far above any hooks directory.
const ENTRIES_MAX: usize = 10_000;
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
    /// A FIFO, socket or device, or something too large to keep: only that it is still the same
    /// can be told, by inode and time of change.
    Other {
        inode: u64,
        changed: (i64, i64),
    },
}

/// Bytes and entries that one picture may still take.
struct Room {
    bytes: u64,
    entries: usize,
}

impl Part {
    /// The object at `path` as it is now, without following links.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mut room = Room {
            bytes: PICTURE_BYTES_MAX,
            entries: ENTRIES_MAX,
        };
        Self::read(path, 0, &mut room)
    }

    fn read(path: &Path, depth: usize, room: &mut Room) -> Self {
        let Ok(meta) = fs::symlink_metadata(path) else {
            return Self::Absent;
        };
        let other = Self::Other {
            inode: meta.ino(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        };
        let kind = meta.file_type();
        if kind.is_symlink() {
            return fs::read_link(path).map_or(other, Self::Symlink);
        }
        if kind.is_file() {
            if meta.len() > FILE_BYTES_MAX.min(room.bytes) {
                return other;
            }
            room.bytes -= meta.len();
            return read_file(path).map_or(other, |bytes| Self::File {
                bytes,
                mode: meta.mode() & 0o7777,
            });
        }
        if !kind.is_dir() || depth >= DEPTH_MAX {
            return other;
        }
        let Ok(listed) = fs::read_dir(path) else {
            return other;
        };
        let mut entries = BTreeMap::new();
        for entry in listed.flatten() {
            if is_sample(path, &entry.file_name()) {
                continue;
            }
            if room.entries == 0 {
                return other;
            }
            room.entries -= 1;
            entries.insert(entry.file_name(), Self::read(&entry.path(), depth + 1, room));
        }
        Self::Directory {
            entries,
            mode: meta.mode() & 0o7777,
        }
    }

    /// Brings `path` into this state.
    ///
    /// # Errors
    /// The first system error; what could not be kept cannot be put back.
    pub fn restore(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Absent => remove(path),
            Self::Other { .. } => Err(io::Error::other(
                "it was too large or no plain file, so no copy was kept",
            )),
            Self::Symlink(target) => {
                remove(path)?;
                in_open_parent(path, || symlink(target, path))
            }
            Self::File { bytes, mode } => restore_file(path, bytes, *mode),
            Self::Directory { entries, mode } => restore_directory(path, entries, *mode),
        }
    }
}

/// In place where that is possible: other programs may hold the file open.
fn restore_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let open = || {
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
    };
    let is_ours = fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.nlink() == 1);
    let mut file = match is_ours.then(open) {
        Some(Ok(file)) => file,
        _ => {
            remove(path)?;
            in_open_parent(path, open)?
        }
    };
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_data()
}

fn restore_directory(path: &Path, entries: &BTreeMap<std::ffi::OsString, Part>, mode: u32) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|m| m.is_dir()) {
        remove(path)?;
        in_open_parent(path, || fs::create_dir(path))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    let mut trouble = Ok(());
    for entry in fs::read_dir(path)?.flatten() {
        let name = entry.file_name();
        if !entries.contains_key(&name) && !is_sample(path, &name) {
            trouble = trouble.and(remove(&entry.path()));
        }
    }
    for (name, part) in entries {
        let child = path.join(name);
        if Part::of(&child) != *part {
            trouble = trouble.and(part.restore(&child));
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    trouble
}

/// A hook that git never runs.
fn is_sample(directory: &Path, name: &OsStr) -> bool {
    directory.file_name() == Some(OsStr::new(HOOKS)) && name.as_bytes().ends_with(b".sample")
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
    repos::whole(&file, FILE_BYTES_MAX).ok()
}

/// Names in a git directory that make git run or read something from elsewhere.
pub const GIT_NAMES: [&str; 5] = [HOOKS, "config.worktree", "commondir", "remotes", "branches"];
const HOOKS: &str = "hooks";
/// Those of them that mean the same to git when they are empty as when they are not there.
const EMPTY_IS_NOTHING: [&str; 3] = [HOOKS, "remotes", "branches"];
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

    /// Worktrees that were added since become known, and those that are gone are forgotten: one of the
    /// same name may be added again.
    pub fn know_worktrees(&mut self) {
        let (others, own) = (&mut self.others, &self.git_dir);
        others.retain(|(path, _)| {
            path.parent()
                .is_some_and(|parent| parent == own || parent.is_dir())
        });
        let worktrees = fs::read_dir(self.git_dir.join("worktrees"));
        for worktree in worktrees.into_iter().flatten().flatten() {
            for path in WORKTREE_NAMES.map(|name| worktree.path().join(name)) {
                if !self.others.iter().any(|(known, _)| *known == path) {
                    let part = Part::of(&path);
                    self.others.push((path, part));
                }
            }
        }
    }

    /// Puts back what differs, the config file key by key. Returns what was done, one line each.
    #[must_use]
    pub fn put_back(&mut self, late: &BTreeSet<PathBuf>) -> Vec<String> {
        let mut done = self.put_back_names(late, &|_| false);
        done.extend(self.put_back_pointers());
        done.extend(self.put_back_config());
        done
    }

    /// The names of the directory itself that are not `held`. One of the `late` ones is never made
    /// again: it was not there when the session began, so it may be what another session planted
    /// and took away.
    #[must_use]
    pub fn put_back_names(&self, late: &BTreeSet<PathBuf>, held: &dyn Fn(&Path) -> bool) -> Vec<String> {
        let own = |path: &Path| path.parent() == Some(&self.git_dir) && !held(path);
        let mut done = Vec::new();
        for (path, part) in self.others.iter().filter(|(path, _)| own(path)) {
            let now = Part::of(path);
            let is_gone = late.contains(path) && same_in_effect(path, &now, &Part::Absent);
            if !is_gone && !same_in_effect(path, &now, part) {
                done.push(outcome(path, part.restore(path)));
            }
        }
        done
    }

    /// The names of the directory itself that are not there.
    #[must_use]
    pub fn absent(&self) -> BTreeSet<PathBuf> {
        let absent = |(path, part): &&(PathBuf, Part)| same_in_effect(path, part, &Part::Absent);
        self.others
            .iter()
            .filter(absent)
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// The pointers of worktrees alone. Git may remove a registration as a whole, and change where
    /// a worktree is when that was moved.
    #[must_use]
    pub fn put_back_pointers(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        for (path, part) in &mut self.others {
            let registration = path.parent().unwrap_or(&self.git_dir);
            if registration == self.git_dir || !registration.exists() {
                continue;
            }
            let now = Part::of(path);
            if now == *part {
                continue;
            }
            if path.ends_with("gitdir") && is_pointed_back(&now, registration) {
                *part = now;
            } else {
                done.push(outcome(path, part.restore(path)));
            }
        }
        done
    }

    /// The config file alone, key by key; one that was not there counts as empty.
    #[must_use]
    pub fn put_back_config(&mut self) -> Option<String> {
        let path = self.git_dir.join("config");
        let now = Part::of(&path);
        if now == self.config {
            return None;
        }
        let old = match &self.config {
            Part::Absent => Some(String::new()),
            part => text(part),
        };
        let (Some(old), Some(new)) = (old, text(&now)) else {
            return Some(outcome(&path, self.config.restore(&path)));
        };
        let merged = config::merge(&old, &new);
        let mode = match &self.config {
            Part::File { mode, .. } => *mode,
            _ => 0o644,
        };
        self.config = Part::File {
            bytes: merged.text.into_bytes(),
            mode,
        };
        if merged.dropped.is_empty() {
            return None;
        }
        let result = self.config.restore(&path);
        Some(format!(
            "{} ({})",
            outcome(&path, result),
            merged.dropped.join(", ")
        ))
    }
}

/// The place that `gitdir` names is a worktree whose own file names the registration.
fn is_pointed_back(gitdir: &Part, registration: &Path) -> bool {
    let Some(place) = text(gitdir) else { return false };
    let place = registration.join(place.trim_end_matches('\n'));
    place.ends_with(".git")
        && fs::symlink_metadata(&place).is_ok_and(|m| m.is_file())
        && repos::git_file_target(&place)
            .is_some_and(|target| Ok(target) == fs::canonicalize(registration).map_err(drop))
}

/// True where git would see the same in both.
pub(super) fn same_in_effect(path: &Path, now: &Part, before: &Part) -> bool {
    let is_empty = |p: &Part| match p {
        Part::Absent => true,
        Part::Directory { entries, .. } => entries.is_empty(),
        Part::File { .. } | Part::Symlink(_) | Part::Other { .. } => false,
    };
    let may_be_empty = EMPTY_IS_NOTHING.iter().any(|name| path.ends_with(name));
    now == before || may_be_empty && is_empty(now) && is_empty(before)
}

/// A file's text.
pub(super) fn text(part: &Part) -> Option<String> {
    match part {
        Part::File { bytes, .. } => String::from_utf8(bytes.clone()).ok(),
        Part::Absent | Part::Directory { .. } | Part::Symlink(_) | Part::Other { .. } => None,
    }
}

/// One line about a part that was put back.
#[must_use]
pub fn outcome(path: &Path, result: io::Result<()>) -> String {
    match result {
        Ok(()) => format!("put back {}", shown(path)),
        Err(e) => format!("could not put back {}: {e}", shown(path)),
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
        assert_eq!(parts.put_back(&BTreeSet::new()).len(), 3);
        assert!(!dir.path().join("hooks/pre-commit").exists());
        assert!(dir.path().join("hooks/a.sample").exists());
        assert!(!dir.path().join("commondir").exists());
        let config = fs::read_to_string(dir.path().join("config")).unwrap();
        assert_eq!(config, "[core]\n\tbare = false\n[user]\n\tname = A\n");
        assert_eq!(parts.put_back(&BTreeSet::new()), Vec::<String>::new());
    }

    #[test]
    fn a_directory_that_cannot_be_read_or_stands_where_nothing_was_is_put_back() {
        let dir = git_dir();
        let mut parts = GitParts::of(dir.path());
        for name in ["commondir", "config.worktree", "remotes"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("remotes/x"), "URL: /evil").unwrap();
        let hooks = dir.path().join("hooks");
        fs::write(hooks.join("pre-commit"), "evil").unwrap();
        fs::set_permissions(&hooks, fs::Permissions::from_mode(0o111)).unwrap();
        // Whoever has the capability reads it all the same, and finds the hook.
        assert_eq!(parts.put_back(&BTreeSet::new()).len(), 4);
        assert!(!hooks.join("pre-commit").exists() && hooks.join("a.sample").exists());
        assert!(!dir.path().join("commondir").exists());
        assert_eq!(parts.put_back(&BTreeSet::new()), Vec::<String>::new());
    }

    #[test]
    fn what_was_not_there_at_the_start_is_not_made_again() {
        let dir = git_dir();
        let late = GitParts::of(dir.path()).absent();
        let planted = dir.path().join("commondir");
        fs::write(&planted, "/evil").unwrap();
        // Another session's, taken for somebody's outside.
        let mut parts = GitParts::of(dir.path());
        fs::remove_file(&planted).unwrap();
        assert_eq!(parts.put_back(&late), Vec::<String>::new());
        assert!(!planted.exists());
        fs::write(&planted, "/worse").unwrap();
        assert_eq!(parts.put_back(&late).len(), 1);
    }

    #[test]
    fn a_hooks_directory_replaced_by_a_link_is_put_back() {
        let dir = git_dir();
        fs::write(dir.path().join("hooks/mine"), "ok").unwrap();
        let mut parts = GitParts::of(dir.path());
        fs::remove_dir_all(dir.path().join("hooks")).unwrap();
        symlink("/evil", dir.path().join("hooks")).unwrap();
        assert_eq!(parts.put_back(&BTreeSet::new()).len(), 1);
        assert_eq!(fs::read_to_string(dir.path().join("hooks/mine")).unwrap(), "ok");
    }

    #[test]
    fn what_was_closed_or_made_read_only_is_put_back_all_the_same() {
        let dir = git_dir();
        fs::write(dir.path().join("hooks/mine"), "ok").unwrap();
        let mut parts = GitParts::of(dir.path());
        let mode = |name: &str, mode| {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir_all(dir.path().join("hooks/closed/deeper")).unwrap();
        fs::write(dir.path().join("hooks/mine"), "evil").unwrap();
        fs::write(
            dir.path().join("config"),
            "[core]\n\tbare = false\n\tfsmonitor = e\n",
        )
        .unwrap();
        fs::write(dir.path().join("commondir"), "/evil").unwrap();
        for (name, bits) in [
            ("hooks/closed", 0),
            ("hooks/mine", 0o444),
            ("config", 0o444),
            ("hooks", 0o555),
            ("", 0o555),
        ] {
            mode(name, bits);
        }
        assert_eq!(parts.put_back(&BTreeSet::new()).len(), 3);
        mode("", 0o755);
        assert_eq!(fs::read_to_string(dir.path().join("hooks/mine")).unwrap(), "ok");
        assert!(!dir.path().join("hooks/closed").exists());
        assert!(!dir.path().join("commondir").exists());
        assert_eq!(
            fs::read_to_string(dir.path().join("config")).unwrap(),
            "[core]\n\tbare = false\n"
        );
    }

    #[test]
    fn a_config_that_was_not_there_gets_harmless_keys_only() {
        let dir = git_dir();
        fs::remove_file(dir.path().join("config")).unwrap();
        let mut parts = GitParts::of(dir.path());
        fs::write(
            dir.path().join("config"),
            "[user]\n\tname = A\n[core]\n\tfsmonitor = e\n",
        )
        .unwrap();
        assert_eq!(parts.put_back(&BTreeSet::new()).len(), 1);
        assert_eq!(
            fs::read_to_string(dir.path().join("config")).unwrap(),
            "[user]\n\tname = A\n[core]\n"
        );
    }

    #[test]
    fn a_link_to_a_file_is_removed_and_its_target_stays() {
        let dir = git_dir();
        let other = dir.path().join("other");
        fs::write(&other, "theirs").unwrap();
        let mut parts = GitParts::of(dir.path());
        fs::remove_file(dir.path().join("config")).unwrap();
        fs::hard_link(&other, dir.path().join("config")).unwrap();
        assert_eq!(parts.put_back(&BTreeSet::new()).len(), 1);
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
    }
}
