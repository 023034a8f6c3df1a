//! What of a git directory git would run or follow, in words: for repositories that a call made.

use super::{config, repos};
use crate::fs::name::shown;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Obeyed parts that are looked at, and that one line tells, of one repository.
const OBEYED_MAX: usize = 1_000;
const TOLD_MAX: usize = 8;

/// What of a git directory git would run or follow, in words: settings first, since they take
/// effect with any command.
#[must_use]
pub fn obeyed_parts(git_dir: &Path) -> Vec<String> {
    let mut obeyed = Vec::new();
    for name in ["config", "config.worktree"] {
        match repos::read_small(&git_dir.join(name)) {
            Some(text) => obeyed.extend(
                config::Config::parse(&text)
                    .dangerous()
                    .into_iter()
                    .map(|k| format!("{name} {k}")),
            ),
            None if git_dir.join(name).exists() => {
                obeyed.push(format!("{name} (too large, or no plain file)"))
            }
            None => {}
        }
    }
    // A worktree's own directory has one, which leads to the repository that holds it.
    let usual = git_dir.parent().is_some_and(|p| p.ends_with("worktrees"))
        && repos::read_small(&git_dir.join("commondir")).is_some_and(|text| text.trim() == "../..");
    if !usual && fs::symlink_metadata(git_dir.join("commondir")).is_ok() {
        obeyed.push("commondir".into());
    }
    match fs::symlink_metadata(git_dir.join("hooks")) {
        Ok(meta) if meta.is_dir() => {
            let Ok(entries) = fs::read_dir(git_dir.join("hooks")) else {
                obeyed.push("hooks (cannot be looked into)".into());
                return obeyed;
            };
            let names = entries.flatten().map(|e| e.file_name());
            let mut hooks: Vec<_> = names
                .filter(|name| !name.as_bytes().ends_with(b".sample"))
                .take(OBEYED_MAX)
                .collect();
            hooks.sort();
            obeyed.extend(
                hooks
                    .iter()
                    .map(|name| format!("hooks/{}", shown(Path::new(name)))),
            );
        }
        Ok(meta) if meta.is_symlink() => obeyed.push("hooks (a link)".into()),
        _ => {}
    }
    obeyed
}

/// A few of them in a line, and how many more there are.
#[must_use]
pub fn told(obeyed: &[String]) -> String {
    let few = &obeyed[..obeyed.len().min(TOLD_MAX)];
    match obeyed.len() - few.len() {
        0 => few.join(", "),
        more => format!("{} and {more} more", few.join(", ")),
    }
}
