//! Front ↔ launcher.

use crate::charter::{Charter, Wish};
use crate::terms::PathBytes;
use bincode::{Decode, Encode};

/// Frames from the front to the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToLauncher {
    /// First frame, once.
    Hello { protocol: u16, build: String },
    /// Second frame, once.
    Charter(Box<Charter>),
    /// A host for a working directory and a wish. One descriptor travels with it: the host's end
    /// of the tool socket. No other descriptor is ever passed.
    OpenHost { host: u32, cwd: PathBytes, wish: Wish },
    /// A host in role check: it answers what policy says, runs nothing and needs no wall. Numbers
    /// and descriptor as with `OpenHost`.
    OpenCheck { host: u32, cwd: PathBytes, wish: Wish },
    /// A host in role check that only looks at project files, says what it found and ends. With
    /// `file` that file is taken for the project file of `cwd`, and no other counts.
    OpenLint {
        host: u32,
        cwd: PathBytes,
        file: Option<PathBytes>,
    },
    /// Ends a host and everything in it.
    CloseHost { host: u32 },
}

/// Frames from the launcher to the front.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FromLauncher {
    /// First frame, once.
    Hello {
        protocol: u16,
        build: String,
    },
    HostStarted {
        host: u32,
    },
    /// No host was started.
    HostRefused {
        host: u32,
        message: String,
    },
    /// A started host is gone and reaped, with everything that ran in it.
    HostExited {
        host: u32,
        how: String,
    },
}
