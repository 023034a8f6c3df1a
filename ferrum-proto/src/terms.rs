//! The small words that several messages share.

use bincode::{Decode, Encode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Safety tier, from the widest to the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Tier {
    Low,
    Medium,
    High,
}

/// What a session's commands may reach over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Network {
    None,
    Private,
    Full,
}

/// How much of bash the text policy lets through at medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Shell {
    Static,
    Auto,
}

/// The least isolation that the operator accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Require {
    Any,
    Kernel,
    Full,
}

/// How much of the tier's promises the walls in force hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Isolation {
    /// Some of reading, writing, network and the front are not held.
    Partial,
    /// Reading, writing, network and the front are held; something else is not.
    Kernel,
    /// Every promise of the tier is held.
    Full,
}

/// How it is known that nothing of a call is left running, from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Containment {
    CgroupAndPidNamespace,
    PidNamespace,
    Cgroup,
    ScopeAndSubreaper,
    Subreaper,
    ProcessGroup,
}

impl Tier {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl Network {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Private => "private",
            Self::Full => "full",
        }
    }
}

impl Shell {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Auto => "auto",
        }
    }
}

impl Require {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Kernel => "kernel",
            Self::Full => "full",
        }
    }
}

impl Isolation {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::Kernel => "kernel",
            Self::Full => "full",
        }
    }
}

impl Containment {
    /// The word of the bash result's `containment:` line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupAndPidNamespace => "cgroup_v2+pidns",
            Self::PidNamespace => "pidns",
            Self::Cgroup => "cgroup_v2",
            Self::ScopeAndSubreaper => "landlock_scope+subreaper",
            Self::Subreaper => "subreaper",
            Self::ProcessGroup => "process_group",
        }
    }
}

/// A path as bytes: Linux paths need not be UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct PathBytes(pub Vec<u8>);

impl PathBytes {
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    #[must_use]
    pub fn to_path_buf(&self) -> PathBuf {
        self.as_path().to_path_buf()
    }
}

impl From<&Path> for PathBytes {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }
}

impl std::fmt::Debug for PathBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_path().fmt(f)
    }
}
