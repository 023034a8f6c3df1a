//! Sparse checkouts without a `config.worktree`: their settings move into `config`.

use super::parts::Part;
use super::{config, repos};
use crate::fs::removal::remove;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Before the config is looked at: a `config.worktree` that a command made, and that says only
/// what a sparse checkout says, goes into `config` (here the file that commands wrote, `old` being
/// the text before). Anything else in it is left for the look to find and remove.
pub fn fold(git_dir: &Path, config: &Path, old: &str) {
    let own = git_dir.join("config.worktree");
    let (Some(worktree), Some(new)) = (repos::read_small(&own), repos::read_small(config)) else {
        return;
    };
    let (text, whole) = config::fold_worktree(old, &new, &worktree);
    let mode = fs::metadata(config).map_or(0o644, |m| m.permissions().mode() & 0o777);
    let bytes = text.into_bytes();
    // Where the write fails the settings are lost, and the removal of the file is reported.
    if (bytes == new.as_bytes() || Part::File { bytes, mode }.restore(config).is_ok()) && whole {
        let _ = remove(&own);
    }
}
