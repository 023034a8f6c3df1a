//! What is asked, with the facts already looked up by the host.

use crate::Isolation;
use std::path::{Path, PathBuf};

/// Facts about the session's file system. All paths are canonical, as they stand in the view.
#[derive(Debug, Clone)]
pub struct Ground {
    pub cwd: PathBuf,
    /// `HOME` as commands see it.
    pub home: PathBuf,
    /// Writable roots.
    pub writable: Vec<PathBuf>,
    /// Roots that may be read besides the view's own system and toolchain directories.
    pub readable: Vec<PathBuf>,
    /// Places that are private to the session and gone with it: `/tmp`, `/dev/shm`, `HOME`,
    /// `$TMPDIR`. Empty where the mount view is missing, except for the session's own `TMPDIR`.
    pub private: Vec<PathBuf>,
    /// Ferrum's own directories and whatever else no tier may change.
    pub protected: Vec<PathBuf>,
    /// What the walls in force amount to; `shell = "auto"` needs `Full`.
    pub isolation: Isolation,
}

/// One act.
#[derive(Debug, Clone)]
pub enum Action<'a> {
    /// `read`, `ls`, `find`, `grep` of a path that the host has resolved.
    Read { path: &'a Path },
    /// `write`, `edit` of a path that the host has resolved.
    Mutate { path: &'a Path, target: Target },
    /// `bash`, `wait`.
    Run { command: &'a str },
}

/// What stands at the path of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Absent,
    File {
        links: u64,
    },
    Symlink,
    Directory,
    /// FIFO, socket, device.
    Special,
}
