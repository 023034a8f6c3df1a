//! What the guard looks after, for the answer to the seal.

use super::Guard;
use crate::report::names;
use ferrum_proto::seal::{PROTECTED_MAX, Protected};
use ferrum_proto::terms::PathBytes;

/// By another name than the walls': the host itself looks again after each call.
const SECOND_LOOK: &str = "second look";

impl Guard {
    /// The protected places of the roots, at most [`PROTECTED_MAX`].
    #[must_use]
    pub fn protected(&self) -> Vec<Protected> {
        let mounted = self.copies.is_some();
        let line = |path: &std::path::Path, why: &str, covered: bool| Protected {
            path: PathBytes::from(path),
            why: why.into(),
            held_by: names(&[("mount view", covered), (SECOND_LOOK, true)]),
        };
        let folders = self.folders.iter().map(|folder| {
            let why = if folder.in_home {
                "run on its own"
            } else {
                "Ferrum's policy and skills"
            };
            line(&folder.path, why, mounted && folder.part != super::Part::Absent)
        });
        let git = self.guarded.iter().map(|one| {
            let why = "git runs or obeys its hooks, config and pointers";
            line(&one.repository.git_dir, why, !one.covers.is_empty())
        });
        folders.chain(git).take(PROTECTED_MAX).collect()
    }
}
