//! Linked worktrees that lie outside the view.
//!
//! git takes a worktree whose `.git` file it cannot see for a deleted one: `git worktree prune`,
//! and `git gc` after some months, then remove its registration, with what is staged there. So the
//! name of that file exists in the view, empty, where the view has nothing of the user's.

use crate::fs::beneath;
use crate::guard::repos::read_small;
use std::fs;
use std::path::{Path, PathBuf};

/// Worktrees of one repository that are looked at.
const WORKTREES_MAX: usize = 256;

/// Makes the `.git` names of the worktrees of `git_dir` exist. `bases` are the view's own places:
/// no other mount is ever entered. A name that cannot be made stays absent.
pub fn keep(git_dir: &Path, bases: &[PathBuf]) {
    let worktrees = fs::read_dir(git_dir.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten();
    for worktree in worktrees.take(WORKTREES_MAX) {
        if let Some(text) = read_small(&worktree.path().join("gitdir")) {
            keep_one(Path::new(text.trim_end_matches('\n')), bases);
        }
    }
}

fn keep_one(place: &Path, bases: &[PathBuf]) {
    // The text may be anybody's: nothing that is there is replaced or gone through but directories.
    let is_taken = fs::symlink_metadata(place).is_ok()
        || place
            .ancestors()
            .any(|a| fs::symlink_metadata(a).is_ok_and(|m| !m.is_dir()));
    let base = bases
        .iter()
        .filter(|base| place.starts_with(base))
        .max_by_key(|base| base.components().count());
    let Some((base, relative)) = base.and_then(|b| Some((b, place.strip_prefix(b).ok()?))) else {
        return;
    };
    if !is_taken && place.ends_with(".git") {
        // A place on another mount, or a text that is no plain path.
        let _ = beneath::file(base, relative, b"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unseen_worktree_gets_its_name_and_nothing_else_is_touched() {
        let view = tempfile::tempdir().unwrap();
        let view = view.path();
        let other = tempfile::tempdir().unwrap();
        let git_dir = view.join("main/.git");
        for (name, place) in [
            ("seen", view.join("seen/.git")),
            ("unseen", view.join("a/b/.git")),
            ("linked", view.join("link/b/.git")),
            ("odd", view.join("odd")),
            ("up", view.join("x/../y/.git")),
            ("outside", other.path().join(".git")),
        ] {
            fs::create_dir_all(git_dir.join("worktrees").join(name)).unwrap();
            let text = format!("{}\n", place.display());
            fs::write(git_dir.join("worktrees").join(name).join("gitdir"), text).unwrap();
        }
        fs::create_dir(view.join("seen")).unwrap();
        fs::write(view.join("seen/.git"), "gitdir: x").unwrap();
        std::os::unix::fs::symlink(other.path(), view.join("link")).unwrap();
        keep(&git_dir, &[view.to_path_buf()]);
        assert_eq!(fs::read(view.join("a/b/.git")).unwrap(), b"");
        assert_eq!(fs::read(view.join("seen/.git")).unwrap(), b"gitdir: x");
        assert!(!view.join("odd").exists() && !view.join("y").exists());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }
}
