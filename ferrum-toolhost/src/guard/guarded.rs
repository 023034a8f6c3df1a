//! One git directory: how it is covered, and what is looked at of it before and after a call.

use super::moved::Identity;
use super::parts::{self, GIT_NAMES, GitParts, Part, outcome};
use super::redirect::Redirect;
use super::repos::{self, EntryKind, Repository};
use super::{Findings, sparse};
use crate::confine::cover::bind_here;
use crate::confine::step::Step;
use crate::fs::name::shown;
use crate::sys::mount::mount_id;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// States of an interrupted git operation: the next `git rebase --continue` outside obeys them.
pub const LEFTOVERS: [&str; 4] = ["rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"];
/// What of an interrupted rebase names programs to run.
const REBASE_LIST: &str = "rebase-merge/git-rebase-todo";
/// A git directory with its covers.
pub(super) struct Guarded {
    pub(super) repository: Repository,
    /// The entry itself where it is a file or a link.
    pub(super) entry: Part,
    /// Another one looks after the directory that the entry names.
    pub(super) is_pin: bool,
    /// A directory of the root around it can be moved, so that no mount holds it.
    pub(super) is_nested: bool,
    pub(super) identity: Option<Identity>,
    pub(super) parts: GitParts,
    /// The text of `config` when the session began.
    pub(super) first: String,
    /// Names that were not there then.
    pub(super) late: BTreeSet<PathBuf>,
    /// What [`Guarded::put_back`] said in this call, where the repository was in its place.
    pub(super) put_back_already: Option<bool>,
    /// Covered names with the id of the mount that covers them. Empty: held by looking only.
    pub(super) covers: Vec<(PathBuf, u64)>,
    pub(super) redirect: Option<Redirect>,
    pub(super) leftovers: BTreeMap<&'static str, Part>,
}

impl Guarded {
    pub(super) fn new(repository: Repository) -> Self {
        let entry = match repository.kind {
            EntryKind::File | EntryKind::Symlink => Part::of(&repository.entry),
            EntryKind::Directory | EntryKind::Bare => Part::Absent,
        };
        let identity = Identity::of(&repository.entry);
        let parts = GitParts::of(&repository.git_dir);
        let leftovers = leftovers(&repository.git_dir);
        Self {
            first: parts::text(&parts.config).unwrap_or_default(),
            late: parts.absent(),
            put_back_already: None,
            repository,
            entry,
            is_pin: false,
            is_nested: false,
            identity,
            parts,
            covers: Vec::new(),
            redirect: None,
            leftovers,
        }
    }

    /// Binds the directory on itself and covers its parts.
    pub(super) fn cover(&mut self, folder: &Path) -> Result<(), Step> {
        let (entry, git_dir) = (self.repository.entry.clone(), self.repository.git_dir.clone());
        match self.repository.kind {
            EntryKind::File | EntryKind::Symlink => {
                bind_here(&entry, &entry, true)?;
                self.remember(entry.clone());
                if self.is_pin || !git_dir.is_dir() || git_dir == entry || !is_writable_here(&git_dir) {
                    return Ok(());
                }
                bind_here(&git_dir, &git_dir, false)?;
            }
            EntryKind::Directory | EntryKind::Bare => bind_here(&entry, &entry, false)?,
        }
        self.remember(git_dir.clone());
        for path in GIT_NAMES.iter().map(|n| git_dir.join(n)) {
            if fs::symlink_metadata(&path).is_ok() {
                bind_here(&path, &path, true)?;
                self.remember(path);
            }
        }
        self.redirect(folder)
    }

    pub(super) fn redirect(&mut self, folder: &Path) -> Result<(), Step> {
        let path = self.repository.git_dir.join("config");
        if fs::symlink_metadata(&path).is_err() {
            return Ok(());
        }
        match self.try_redirect(folder, &path) {
            Some(redirect) => {
                let link = redirect.copy.with_file_name("link");
                bind_here(&link, &path, true)?;
                self.redirect = Some(redirect);
            }
            None => bind_here(&path, &path, true)?,
        }
        self.remember(path);
        Ok(())
    }

    /// `None` where the real file cannot be written: a read-only cover is then the right one.
    pub(super) fn try_redirect(&self, folder: &Path, path: &Path) -> Option<Redirect> {
        let real = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .ok()?;
        let meta = real.metadata().ok()?;
        let text = repos::read_small(path).filter(|_| meta.is_file() && meta.nlink() == 1)?;
        let copy = folder.join("config");
        fs::create_dir_all(folder).ok()?;
        fs::write(&copy, &text).ok()?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(meta.mode() & 0o777)).ok()?;
        symlink(&copy, folder.join("link")).ok()?;
        Some(Redirect { copy, real, text })
    }

    pub(super) fn remember(&mut self, path: PathBuf) {
        if let Some(id) = id_of(&path) {
            self.covers.push((path, id));
        }
    }

    /// Every cover is still in place.
    pub(super) fn is_covered(&self) -> bool {
        !self.covers.is_empty() && self.covers.iter().all(|(path, id)| id_of(path) == Some(*id))
    }

    /// Somebody outside may have made a hook or edited the config between two calls.
    pub(super) fn before(&mut self) {
        let is_covered = self.is_covered();
        if !is_covered {
            self.covers.clear();
            self.redirect = None;
            self.identity = Identity::of(&self.repository.entry);
            if matches!(self.repository.kind, EntryKind::File | EntryKind::Symlink) {
                self.entry = Part::of(&self.repository.entry);
            }
        }
        if self.is_pin {
            return;
        }
        if is_covered {
            self.know();
        } else {
            self.parts = GitParts::of(&self.repository.git_dir);
        }
        self.leftovers = leftovers(&self.repository.git_dir);
    }

    /// What the covers leave to be looked at.
    pub(super) fn know(&mut self) {
        if let Some(redirect) = &mut self.redirect {
            redirect.refresh();
        }
        self.parts.know_worktrees();
        for (path, part) in &mut self.parts.others {
            if !self.covers.iter().any(|(covered, _)| covered == path) {
                *part = Part::of(path);
            }
        }
    }

    /// Puts back what stands in known places; false where there is nothing more to look at.
    pub(super) fn put_back(&mut self, findings: &mut Findings) -> bool {
        self.remove_stand_in(findings);
        if self.is_pin {
            findings.extend(self.put_back_entry());
            return false;
        }
        if !self.repository.git_dir.exists() {
            return false;
        }
        self.fold_sparse();
        if self.is_covered() {
            self.put_back_beside_covers(findings);
        } else {
            findings.extend(self.put_back_entry());
            self.forget_what_went();
            findings.extend(self.parts.put_back(&self.late));
        }
        true
    }

    pub(super) fn after(&mut self, findings: &mut Findings) {
        let goes_on = match self.put_back_already.take() {
            Some(goes_on) => goes_on,
            None => self.put_back(findings),
        };
        if !goes_on {
            return;
        }
        if self.is_covered() {
            match &mut self.redirect {
                Some(redirect) => redirect.merge(&self.repository.git_dir.join("config"), findings),
                // Not there when the covers were made, or not ours to write.
                None => findings.extend(self.parts.put_back_config()),
            }
        }
        for (name, part) in leftovers(&self.repository.git_dir) {
            if self.leftovers.get(name) != Some(&part) {
                findings.push(format!(
                    "an unfinished git operation was left in {}: {name}",
                    shown(&self.repository.git_dir)
                ));
            }
        }
    }

    /// Settings that are again as they were when the session began: what came and went between was
    /// another session's.
    pub(super) fn forget_what_went(&mut self) {
        let now = Part::of(&self.repository.git_dir.join("config"));
        if parts::text(&now).is_some_and(|text| text == self.first) {
            self.parts.config = now;
        }
    }

    /// Names that no mount holds, and pointers.
    pub(super) fn put_back_beside_covers(&mut self, findings: &mut Findings) {
        let held = |path: &Path| self.covers.iter().any(|(covered, _)| covered == path);
        findings.extend(self.parts.put_back_names(&self.late, &held));
        findings.extend(self.parts.put_back_pointers());
    }

    /// Where it is a file or a link that mounts do not hold. A nested one may be removed: git then
    /// looks further up, where the root's own repository is.
    pub(super) fn put_back_entry(&self) -> Option<String> {
        let entry = &self.repository.entry;
        let is_text = matches!(self.repository.kind, EntryKind::File | EntryKind::Symlink);
        if !is_text || self.is_covered() {
            return None;
        }
        let now = Part::of(entry);
        let is_removed = self.is_nested && now == Part::Absent;
        (now != self.entry && !is_removed).then(|| outcome(entry, self.entry.restore(entry)))
    }

    pub(super) fn fold_sparse(&self) {
        let git_dir = &self.repository.git_dir;
        let own = git_dir.join("config.worktree");
        let is_new = self
            .parts
            .others
            .iter()
            .any(|(path, part)| *path == own && *part == Part::Absent);
        match &self.redirect {
            _ if !is_new => {}
            Some(redirect) => sparse::fold(git_dir, &redirect.copy, &redirect.text),
            None => {
                if let Some(old) = parts::text(&self.parts.config) {
                    sparse::fold(git_dir, &git_dir.join("config"), &old);
                }
            }
        }
    }
}

fn id_of(path: &Path) -> Option<u64> {
    mount_id(&CString::new(path.as_os_str().as_bytes()).ok()?).ok()
}

fn is_writable_here(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// What is there of an interrupted operation; of its programs also the text.
fn leftovers(git_dir: &Path) -> BTreeMap<&'static str, Part> {
    let mut left: BTreeMap<_, _> = LEFTOVERS
        .into_iter()
        .filter(|name| git_dir.join(name).exists())
        .map(|name| (name, Part::Absent))
        .collect();
    if left.contains_key("rebase-merge") {
        left.insert(REBASE_LIST, Part::of(&git_dir.join(REBASE_LIST)));
    }
    left
}
