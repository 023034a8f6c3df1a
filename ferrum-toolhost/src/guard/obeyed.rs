//! What of a git directory git would run or follow, in words: for repositories that a call made.

use super::{config, repos};
use crate::fs::name::shown;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names of obeyed parts that are told of one repository.
const OBEYED_MAX: usize = 8;

/// What of a git directory git would run or follow, in words.
#[must_use]
pub fn obeyed_parts(git_dir: &Path) -> Vec<String> {
    let mut obeyed = Vec::new();
    match fs::symlink_metadata(git_dir.join("hooks")) {
        Ok(meta) if meta.is_dir() => {
            let hooks = fs::read_dir(git_dir.join("hooks"))
                .into_iter()
                .flatten()
                .flatten();
            obeyed.extend(
                hooks
                    .map(|e| e.file_name())
                    .filter(|name| !name.as_bytes().ends_with(b".sample"))
                    .take(OBEYED_MAX)
                    .map(|name| format!("hooks/{}", shown(Path::new(&name)))),
            );
        }
        Ok(meta) if meta.is_symlink() => obeyed.push("hooks (a link)".into()),
        _ => {}
    }
    // A worktree's own directory has one, which leads to the repository that holds it.
    let usual = git_dir.parent().is_some_and(|p| p.ends_with("worktrees"))
        && repos::read_small(&git_dir.join("commondir")).is_some_and(|text| text.trim() == "../..");
    if !usual && fs::symlink_metadata(git_dir.join("commondir")).is_ok() {
        obeyed.push("commondir".into());
    }
    for name in ["config", "config.worktree"] {
        match repos::read_small(&git_dir.join(name)) {
            Some(text) => obeyed.extend(
                config::Config::parse(&text)
                    .dangerous()
                    .into_iter()
                    .map(|k| format!("{name} {k}")),
            ),
            None if git_dir.join(name).exists() => obeyed.push(format!("{name} (not a plain file)")),
            None => {}
        }
    }
    obeyed.truncate(OBEYED_MAX);
    obeyed
}
