//! What is asked, with the facts already looked up by the host.

use crate::{Isolation, Network, Tool};
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
    /// A call of this tool, whatever it is about.
    Use { tool: Tool },
    /// `read`, `ls`, `find`, `grep` of a path that the host has resolved.
    Read { path: &'a Path },
    /// `write`, `edit` of a path that the host has resolved.
    Mutate { path: &'a Path, target: Target },
    /// `bash`, `wait`.
    Run { command: &'a str },
    /// Whether a path is part of the view at all. Asked only by the check role: a session has its
    /// view and finds out.
    Look { path: &'a Path, seen: Seen },
    /// A program that a command would run, by its path.
    Execute { path: &'a Path, seen: Seen },
    /// A connection of a command. `network` is the one in force.
    Connect { host: &'a str, network: Network },
    /// An MCP server by its name.
    Server { name: &'a str },
}

/// Where a path lies, as seen from a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// In a system directory.
    System,
    /// In another part of the view.
    View,
    /// Nowhere: the session has nothing of that name.
    Absent,
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
