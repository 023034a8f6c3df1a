//! What is put back before anything is searched: the parts whose places are known.
//!
//! A command may leave a tree that takes longer to walk than anybody waits before this host is
//! killed. What git and Ferrum obey is back in its place by then, at a cost that no tree changes.

use super::parts::{Part, outcome};
use super::repos::EntryKind;
use super::{Findings, Guard, Guarded, moved::Identity};
use crate::fs::name::shown;
use crate::fs::removal::{in_open_parent, remove};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Names beside a path under which what stands there is put until it is removed.
const ASIDES_MAX: u32 = 100;

impl Guard {
    /// Puts back what stands in known places. A repository that is not in its place may have been
    /// moved, which only the look tells, so what was kept of it stays as it is.
    pub(super) fn put_back_first(&mut self) -> Findings {
        let mut findings = Findings::new();
        let aside = self.put_aside(&mut findings);
        for one in &mut self.guarded {
            if one.repository.entry.symlink_metadata().is_err() {
                continue;
            }
            let is_in_place = one.identity == Identity::of(&one.repository.entry);
            let kept = (!is_in_place).then(|| one.parts.clone());
            let goes_on = one.put_back(&mut findings);
            match kept {
                Some(parts) => one.parts = parts,
                None => one.put_back_already = Some(goes_on),
            }
        }
        for folder in &self.folders {
            if Part::of(&folder.path) != folder.part {
                findings.push(folder.put_back());
            }
        }
        self.secured.store(true, Ordering::SeqCst);
        for path in aside {
            // Nothing obeys it under this name.
            let _ = remove(&path);
        }
        findings
    }

    /// Renames directories where nothing was, and those that have grown beyond any picture: to
    /// remove or empty one may take as long as to fill it did.
    fn put_aside(&self, findings: &mut Findings) -> Vec<PathBuf> {
        let held = self.guarded.iter().filter(|one| !one.is_pin);
        let parts = held.flat_map(|one| one.parts.others.iter().map(|(path, part)| (path, part)));
        let folders = self.folders.iter().filter(|folder| !folder.in_home);
        let all = parts.chain(folders.map(|folder| (&folder.path, &folder.part)));
        let full = all.filter(|(path, part)| match part {
            Part::Absent => is_full(path),
            Part::Directory { .. } => matches!(Part::of(path), Part::Other { .. }),
            Part::File { .. } | Part::Symlink(_) | Part::Other { .. } => false,
        });
        let mut asides = Vec::new();
        for (path, _) in full {
            if let Some(aside) = aside(path) {
                findings.push(outcome(path, Ok(())));
                asides.push(aside);
            }
        }
        asides
    }
}

impl Guarded {
    /// The directory is gone, and a link or file leads git to another one.
    pub(super) fn remove_stand_in(&self, findings: &mut Findings) {
        let entry = &self.repository.entry;
        let is_stand_in = fs::symlink_metadata(entry).is_ok_and(|meta| !meta.is_dir());
        if self.repository.kind != EntryKind::Directory || !is_stand_in {
            return;
        }
        findings.push(match remove(entry) {
            Ok(()) => format!(
                "removed {}, which took the place of a git directory",
                shown(entry)
            ),
            Err(e) => format!("could not remove {}: {e}", shown(entry)),
        });
    }
}

/// A directory that holds more than git's samples.
fn is_full(path: &Path) -> bool {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
    is_directory && entries.any(|entry| !entry.file_name().as_bytes().ends_with(b".sample"))
}

/// Renames `path`, in its directory; returns the new name.
fn aside(path: &Path) -> Option<PathBuf> {
    (1..=ASIDES_MAX).find_map(|number| {
        let mut to = path.to_path_buf().into_os_string();
        to.push(format!(".ferrum-removed-{number}"));
        let rename = || {
            renameat2(
                AT_FDCWD,
                path,
                AT_FDCWD,
                to.as_os_str(),
                RenameFlags::RENAME_NOREPLACE,
            )
            .map_err(std::io::Error::from)
        };
        in_open_parent(path, rename).ok().map(|()| PathBuf::from(&to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(top: &Path) {
        for part in ["objects", "refs", "hooks"] {
            fs::create_dir_all(top.join(".git").join(part)).unwrap();
        }
        fs::write(top.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(top.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
    }

    #[test]
    fn known_places_are_put_back_without_a_look() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        repository(&root);
        repository(&root.join("nested"));
        fs::write(root.join("nested/.git/hooks/mine"), "mine").unwrap();
        let mut guard = Guard::new(std::slice::from_ref(&root), Vec::new(), Vec::new(), None).unwrap();
        let secured = guard.secured();
        guard.before();
        for top in [root.clone(), root.join("nested")] {
            fs::write(top.join(".git/commondir"), "/evil").unwrap();
            fs::write(top.join(".git/hooks/pre-commit"), "evil").unwrap();
            fs::create_dir_all(top.join(".git/config.worktree/large")).unwrap();
        }
        fs::create_dir_all(root.join(".ferrum/skills/evil")).unwrap();
        let hooks = root.join("nested/.git/hooks");
        (0..10_000).for_each(|n| fs::write(hooks.join(n.to_string()), "").unwrap());
        assert!(!secured.load(Ordering::SeqCst));
        assert_eq!(guard.put_back_first().len(), 8);
        assert!(secured.load(Ordering::SeqCst));
        for top in [root.clone(), root.join("nested")] {
            let names = fs::read_dir(top.join(".git")).unwrap().flatten();
            let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            names.sort();
            assert_eq!(names, ["HEAD", "config", "hooks", "objects", "refs"]);
            assert!(!top.join(".git/hooks/pre-commit").exists());
        }
        assert_eq!(fs::read_to_string(hooks.join("mine")).unwrap(), "mine");
        assert_eq!(fs::read_dir(hooks).unwrap().count(), 1);
        assert!(!root.join(".ferrum").exists());
        assert_eq!(guard.after(), Findings::new());
    }

    #[test]
    fn what_took_the_place_of_a_repository_is_put_back_and_what_was_kept_stays() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        repository(&root.join("a"));
        let mut guard = Guard::new(std::slice::from_ref(&root), Vec::new(), Vec::new(), None).unwrap();
        guard.before();
        fs::rename(root.join("a/.git"), root.join("kept")).unwrap();
        repository(&root.join("a"));
        let config = "[core]\n\tbare = false\n\tfsmonitor = ./x\n[user]\n\tname = Other\n";
        fs::write(root.join("a/.git/config"), config).unwrap();
        guard.put_back_first();
        let config = fs::read_to_string(root.join("a/.git/config")).unwrap();
        assert!(!config.contains("fsmonitor"), "{config}");
        guard.after();
        let config = fs::read_to_string(root.join("a/.git/config")).unwrap();
        assert_eq!(config, "[core]\n\tbare = false\n");
    }
}
