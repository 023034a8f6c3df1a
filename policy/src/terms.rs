//! The words of a policy.

/// Safety tier, from the widest to the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Low,
    Medium,
    High,
}

/// What commands may reach over the network, from the widest to the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    Full,
    Private,
    None,
}

/// How much of bash the text policy lets through at medium, from the widest to the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShellMode {
    Auto,
    Static,
}

/// The least isolation that is accepted, from the loosest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Require {
    Any,
    Kernel,
    Full,
}

/// How much of the tier's promises is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    Partial,
    Kernel,
    Full,
}

/// The built-in tools, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    Read,
    Write,
    Edit,
    Bash,
    Wait,
    Grep,
    Find,
    Ls,
    HistorySearch,
    HistoryRead,
}

impl Tool {
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Bash,
        Self::Wait,
        Self::Grep,
        Self::Find,
        Self::Ls,
        Self::HistorySearch,
        Self::HistoryRead,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Bash => "bash",
            Self::Wait => "wait",
            Self::Grep => "grep",
            Self::Find => "find",
            Self::Ls => "ls",
            Self::HistorySearch => "history_search",
            Self::HistoryRead => "history_read",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

impl Tier {
    /// The word of the config file.
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
    /// The word of the config file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Private => "private",
            Self::None => "none",
        }
    }
}

impl ShellMode {
    /// The word of the config file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Static => "static",
        }
    }
}

impl Require {
    /// The word of the config file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Kernel => "kernel",
            Self::Full => "full",
        }
    }
}
