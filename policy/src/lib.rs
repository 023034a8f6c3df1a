//! Ferrum's decisions, as pure functions over values: no files, no processes, no clock.
//!
//! Two entry points: [`narrow`] makes the [`Grant`] of a session out of the user's policy, the
//! project's files and a wish; [`judge`] says whether one act is part of that grant. Only the
//! tool host calls them. Neither ever widens anything: see the properties in their tests.

#![forbid(unsafe_code)]

mod action;
pub mod basis;
pub mod change;
mod grant;
pub mod isolation;
mod judge;
pub mod lint;
mod looser;
mod narrow;
pub mod origin;
mod project;
pub mod protect;
pub mod shell;
pub mod steering;
mod terms;
mod verdict;

pub use action::{Action, Ground, Seen, Target};
pub use grant::Grant;
pub use judge::judge;
pub use looser::looser;
pub use narrow::{NarrowError, ProjectFile, UserPolicy, Wish, narrow};
pub use project::{Expectation, PROJECT_BYTES_MAX, Place, ProjectError, ProjectPolicy, Selection};
pub use terms::{Isolation, Network, Require, ShellMode, Tier, Tool};
pub use verdict::{Refusal, Verdict};
