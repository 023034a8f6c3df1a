//! Files, always by descriptor: resolving, reading, replacing, walking.
//!
//! Nothing here decides whether an act is allowed; nothing here compares paths as text.

pub mod atomic;
pub mod beneath;
pub mod budget;
pub mod gaps;
pub mod ignored;
pub mod list;
pub mod name;
pub mod path;
pub mod place;
pub mod removal;
pub mod resolve;
pub mod text;
pub mod walk;

use crate::fs::name::shown;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// Why something about a file could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FsError {
    /// A system call failed. `wall` names the wall where nothing but a wall explains the failure.
    System {
        operation: &'static str,
        path: PathBuf,
        errno: Errno,
        wall: Option<Wall>,
    },
    /// The object is not of the kind that the act needs.
    Kind {
        path: PathBuf,
        found: &'static str,
        wanted: &'static str,
    },
    /// The file is not the one that was looked at before.
    Changed { path: PathBuf },
    /// Something else about this path.
    Other { path: PathBuf, what: String },
}

/// A wall that refused, and what was wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// The place is not part of the view.
    Hidden,
    /// Landlock said no to reading.
    Read,
    /// Landlock said no to writing.
    Write,
    /// The place is mounted read-only.
    ReadOnly,
}

impl FsError {
    /// A failed system call that no wall explains.
    #[must_use]
    pub fn system(operation: &'static str, path: &Path, errno: Errno) -> Self {
        Self::System {
            operation,
            path: path.to_path_buf(),
            errno,
            wall: None,
        }
    }

    /// The same, for a change in a directory. A wall is named only where the directory's own
    /// permissions would have let us.
    #[must_use]
    pub fn change_in(directory: BorrowedFd<'_>, operation: &'static str, path: &Path, errno: Errno) -> Self {
        let allowed = || {
            let mode = AccessFlags::W_OK | AccessFlags::X_OK;
            faccessat(directory, ".", mode, AtFlags::AT_EACCESS).is_ok()
        };
        let wall = match errno {
            Errno::EROFS => Some(Wall::ReadOnly),
            Errno::EACCES if allowed() => Some(Wall::Write),
            _ => None,
        };
        Self::System {
            operation,
            path: path.to_path_buf(),
            errno,
            wall,
        }
    }

    #[must_use]
    pub fn other(path: &Path, what: impl Into<String>) -> Self {
        Self::Other {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::System { path, .. }
            | Self::Kind { path, .. }
            | Self::Changed { path }
            | Self::Other { path, .. } => path,
        }
    }

    #[must_use]
    pub fn wall(&self) -> Option<Wall> {
        match self {
            Self::System { wall, .. } => *wall,
            Self::Kind { .. } | Self::Changed { .. } | Self::Other { .. } => None,
        }
    }
}

impl std::fmt::Display for FsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = shown(self.path());
        match self {
            Self::System { operation, errno, .. } => {
                write!(f, "cannot {operation} {path}: {} ({errno:?})", errno.desc())
            }
            Self::Kind { found, wanted, .. } => write!(f, "{path} is {found}, not {wanted}"),
            Self::Changed { .. } => write!(
                f,
                "{path} was changed by somebody else in the meantime; nothing was written, read it again"
            ),
            Self::Other { what, .. } => write!(f, "{path}: {what}"),
        }
    }
}

impl std::error::Error for FsError {}
