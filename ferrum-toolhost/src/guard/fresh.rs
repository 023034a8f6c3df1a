//! Repositories and policies that appeared in the session: what git would obey there is told.

use super::obeyed::{self, obeyed_parts};
use super::parts::Part;
use super::repos::{self, EntryKind, Found, Repository};
use super::{Findings, Guard, Guarded, config};
use crate::fs::name::shown;
use std::fs;
use std::path::Path;

/// New repositories that are looked into after each call.
pub(super) const FRESH_MAX: usize = 64;

/// A repository that appeared in this session.
pub(super) struct Fresh {
    pub(super) repository: Repository,
    pub(super) told: Vec<String>,
}

impl Guard {
    pub(super) fn new_ones(&mut self, mut found: Found, findings: &mut Findings) {
        for one in &self.guarded {
            found
                .repositories
                .extend(repos::modules_of(&one.repository.git_dir));
        }
        for repository in found.repositories {
            let is_guarded = |g: &Guarded| g.repository.entry == repository.entry;
            if self.guarded.iter().any(is_guarded) {
                continue;
            }
            if let Some(copies) = &self.copies {
                heal_copied_config(&repository.git_dir, copies);
            }
            let told = Vec::new();
            let fresh = Fresh { repository, told };
            self.fresh.entry(fresh.repository.entry.clone()).or_insert(fresh);
        }
        self.tell_fresh(findings);
        for folder in found.directories.iter().filter(|d| d.ends_with(".ferrum")) {
            if !self.folders.iter().any(|f| f.path == **folder) && folder.join("config.toml").exists() {
                findings.push(format!(
                    "new project policy {}",
                    shown(&folder.join("config.toml"))
                ));
            }
        }
    }

    /// Those of the session's own making may be armed by a later call.
    fn tell_fresh(&mut self, findings: &mut Findings) {
        let mut fresh = std::mem::take(&mut self.fresh);
        for Fresh { repository, told } in fresh.values_mut().take(FRESH_MAX) {
            let mut obeyed = obeyed_parts(&repository.git_dir);
            if self.leads_out(repository) {
                obeyed.push("a git directory outside the writable roots".into());
            }
            if !obeyed.is_empty() && obeyed != *told {
                findings.push(format!(
                    "new repository {}: git would obey {}",
                    shown(&repository.entry),
                    obeyed::told(&obeyed)
                ));
            }
            *told = obeyed;
        }
        self.fresh = fresh;
    }

    /// A gitfile or link to a place that may hold something else for whoever comes from outside.
    fn leads_out(&self, repository: &Repository) -> bool {
        let target = match repository.kind {
            EntryKind::Directory | EntryKind::Bare => return false,
            EntryKind::File if repository.git_dir == repository.entry => {
                // Without a target that is there: git refuses a file that names none at all.
                return repos::read_small(&repository.entry).is_some_and(|text| text.starts_with("gitdir:"));
            }
            EntryKind::Symlink if repository.git_dir == repository.entry => return true,
            EntryKind::File | EntryKind::Symlink => &repository.git_dir,
        };
        let in_root = self.writable.iter().any(|root| target.starts_with(root));
        let in_guarded = self
            .guarded
            .iter()
            .any(|g| target.starts_with(&g.repository.git_dir));
        !in_root && !in_guarded
    }
}

/// A copy of a repository made with its links holds our redirect as its config: outside the
/// session that link leads nowhere, so it becomes the file that it stood for.
fn heal_copied_config(git_dir: &Path, copies: &Path) {
    let path = git_dir.join("config");
    let Ok(target) = fs::read_link(&path) else { return };
    if !target.starts_with(copies) {
        return;
    }
    if let Some(text) = repos::read_small(&target) {
        let harmless = config::merge("", &text).text;
        let part = Part::File {
            bytes: harmless.into_bytes(),
            mode: 0o644,
        };
        // Left as it was where this fails: git then says so itself.
        let _ = part.restore(&path);
    }
}
