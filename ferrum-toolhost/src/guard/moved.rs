//! Repositories that a command moved together with the directory around them.
//!
//! Covers move along with their directory, so the guard only has to learn the new names. The old
//! ones stay guarded as places where nothing was: what appears there is not what was moved away.

use super::parts::{GitParts, outcome};
use super::repos::{self, EntryKind, Repository};
use super::{Findings, Guard, Guarded};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells one object of a file system from others: device, inode, and the time of its birth,
/// since the inode of a removed one is given away again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl Identity {
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::new(&meta))
    }

    fn new(meta: &fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            born: meta.created().ok(),
        }
    }
}

impl Guard {
    /// Recognises guarded directories among the repositories that appeared.
    pub(super) fn follow(&mut self, appeared: &[Repository]) {
        for repository in appeared {
            let Some(identity) = Identity::of(&repository.entry) else {
                continue;
            };
            let moved = (self.guarded.iter()).find(|g| g.identity == Some(identity) && g.went_away());
            let Some((from, to)) = moved.map(|g| (top_of(&g.repository), top_of(repository))) else {
                continue;
            };
            self.rename(&from, &to);
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let mut old = Vec::new();
        for one in &mut self.guarded {
            if let Some(place) = one.renamed(from, to) {
                old.push(std::mem::replace(&mut one.repository.entry, place));
            }
        }
        // Back where it came from: the place is its own again.
        let own: Vec<PathBuf> = self
            .guarded
            .iter()
            .filter(|g| g.identity.is_some())
            .map(|g| g.repository.entry.clone())
            .collect();
        self.guarded
            .retain(|g| g.identity.is_some() || !own.contains(&g.repository.entry));
        self.guarded.extend(old.into_iter().map(|entry| {
            Guarded::new(Repository {
                git_dir: entry.clone(),
                kind: EntryKind::Directory,
                entry,
            })
        }));
    }
}

impl Guarded {
    /// Nothing stands at the old name. Without covers a git directory can be moved alone: it is
    /// then moved back, not followed.
    fn went_away(&self) -> bool {
        let entry = &self.repository.entry;
        is_absent(entry) && (!self.covers.is_empty() || entry.parent().is_some_and(is_absent))
    }

    /// Without mounts a git directory can be moved away and another put in its place: finds the
    /// old one by its inode and exchanges the two.
    pub(super) fn moved_back(&mut self, roots: &[PathBuf]) -> Findings {
        let Some(identity) = self.identity.filter(|_| self.covers.is_empty()) else {
            return Findings::new();
        };
        let entry = &self.repository.entry;
        let now = Identity::of(entry);
        let went_with_its_directory = now.is_none() && entry.parent().is_none_or(is_absent);
        if now == Some(identity) || went_with_its_directory || self.repository.kind == EntryKind::File {
            return Findings::new();
        }
        let Some(place) = roots.iter().find_map(|root| find(root, identity)) else {
            return Findings::new();
        };
        let flags = if now.is_some() {
            nix::fcntl::RenameFlags::RENAME_EXCHANGE
        } else {
            nix::fcntl::RenameFlags::RENAME_NOREPLACE
        };
        let here = nix::fcntl::AT_FDCWD;
        let result = nix::fcntl::renameat2(here, &place, here, entry, flags).map_err(std::io::Error::from);
        vec![outcome(entry, result)]
    }

    /// Takes over the names below `to`; returns the new entry if this one was moved.
    fn renamed(&mut self, from: &Path, to: &Path) -> Option<PathBuf> {
        let moved = |path: &Path| match path.strip_prefix(from).ok()? {
            // Joining nothing would add a slash, which makes a file a bad directory.
            rest if rest.as_os_str().is_empty() => Some(to.to_path_buf()),
            rest => Some(to.join(rest)),
        };
        let entry = moved(&self.repository.entry)?;
        if self.identity.is_none() || fs::symlink_metadata(&entry).is_err() {
            return None;
        }
        let rename = |path: &mut PathBuf| {
            if let Some(new) = moved(path) {
                *path = new;
            }
        };
        rename(&mut self.repository.git_dir);
        self.covers.iter_mut().for_each(|(path, _)| rename(path));
        let late = std::mem::take(&mut self.late).into_iter();
        self.late = late.map(|path| moved(&path).unwrap_or(path)).collect();
        let GitParts { git_dir, others, .. } = &mut self.parts;
        rename(git_dir);
        others.iter_mut().for_each(|(path, _)| rename(path));
        Some(entry)
    }
}

/// What was moved, at the least: the directory around a `.git`, or the bare repository itself.
fn top_of(repository: &Repository) -> PathBuf {
    match (repository.kind, repository.entry.parent()) {
        (EntryKind::Directory, Some(top)) => top.to_path_buf(),
        _ => repository.entry.clone(),
    }
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err()
}

/// Looks for a directory, breadth first, within the bounds of a walk.
fn find(root: &Path, wanted: Identity) -> Option<PathBuf> {
    let mut open = vec![root.to_path_buf()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            seen += 1;
            let Ok(meta) = entry.metadata() else { continue };
            if Identity::new(&meta) == wanted {
                return Some(entry.path());
            }
            if meta.is_dir() && seen < repos::WALK_DIRECTORIES_MAX {
                open.push(entry.path());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(path: &Path) {
        for part in ["objects", "refs"] {
            fs::create_dir_all(path.join(".git").join(part)).unwrap();
        }
        fs::write(path.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(path.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
    }

    #[test]
    fn a_moved_repository_is_guarded_under_its_new_name_and_back() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        repository(&root.join("a"));
        let mut guard = Guard::new(std::slice::from_ref(&root), Vec::new(), Vec::new(), None).unwrap();
        let call = |guard: &mut Guard, act: &dyn Fn()| {
            guard.before();
            act();
            guard.after()
        };
        let rename = |from: &str, to: &str| fs::rename(root.join(from), root.join(to)).unwrap();
        assert_eq!(call(&mut guard, &|| rename("a", "b")), Vec::<String>::new());
        let plant = || fs::write(root.join("b/.git/commondir"), "/evil").unwrap();
        assert_eq!(call(&mut guard, &plant).len(), 1);
        assert!(!root.join("b/.git/commondir").exists());

        // Something else at the old name is not taken for what was there.
        let forge = || {
            repository(&root.join("a"));
            fs::write(root.join("a/.git/config"), "[core]\n\tfsmonitor = ./x\n").unwrap();
        };
        assert_eq!(call(&mut guard, &forge).len(), 1);
        let config = fs::read_to_string(root.join("a/.git/config")).unwrap();
        assert!(!config.contains("fsmonitor"));
        fs::remove_dir_all(root.join("a")).unwrap();

        assert_eq!(call(&mut guard, &|| rename("b", "a")), Vec::<String>::new());
        let plant = || fs::write(root.join("a/.git/commondir"), "/evil").unwrap();
        assert_eq!(call(&mut guard, &plant).len(), 1);
        assert!(!root.join("a/.git/commondir").exists());
    }
}
