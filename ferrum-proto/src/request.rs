//! What the front says to a host: one variant per tool, and cancel.

use crate::terms::{Isolation, Shell, Tier};
use bincode::{Decode, Encode};

/// Frames from the front to a host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToHost {
    /// First frame, once.
    Hello { protocol: u16, build: String },
    /// One tool call. Ids grow strictly over the life of the connection.
    Call { id: u64, request: ToolRequest },
    /// Ends a call that is not answered yet; one that is already answered is ignored.
    Cancel { id: u64 },
    /// What did the turn leave that programs or agents obey? Answered once nothing runs any more.
    Survey { id: u64 },
    /// What would policy say? Only to a host in role check, which takes nothing else.
    Explain { id: u64, query: Query },
}

/// An act that is judged and not done. What is `None` is as in a session of this place.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Query {
    pub tier: Option<Tier>,
    pub shell: Option<Shell>,
    pub isolation: Option<Isolation>,
    /// The tool that would do it; any other word for what commands and servers do.
    pub tool: String,
    pub act: Act,
    /// Also what the verdict rests on. It takes longer: changes of the configuration are tried.
    pub detail: bool,
}

/// The acts that can be asked about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Act {
    /// `bash`, `wait`: a command text.
    Run(String),
    /// `read`, `ls`, `find`, `grep` of a path.
    Read(String),
    /// `write`, `edit` of a path.
    Change(String),
    /// A connection of a command to a host (a name or an address) and port.
    Connect { host: String, port: u16 },
    /// A program that a command would run, by its path.
    Execute(String),
    /// An MCP server by its name.
    Server(String),
}

/// One tool call, typed. Shapes and defaults are those of docs/TOOLS.md; the front has checked
/// them once, the host checks them again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ToolRequest {
    Read(Read),
    Write(Write),
    Edit(Edit),
    Ls(Ls),
    Find(Find),
    Grep(Grep),
    Bash(Bash),
    Wait(Wait),
}

impl ToolRequest {
    #[must_use]
    pub fn tool(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Edit(_) => "edit",
            Self::Ls(_) => "ls",
            Self::Find(_) => "find",
            Self::Grep(_) => "grep",
            Self::Bash(_) => "bash",
            Self::Wait(_) => "wait",
        }
    }

    /// True when the call can run beside others.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Read(_) | Self::Ls(_) | Self::Find(_) | Self::Grep(_) => true,
            Self::Write(_) | Self::Edit(_) | Self::Bash(_) | Self::Wait(_) => false,
        }
    }
}

/// Lines of one text file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Read {
    pub path: String,
    /// First line, from 1.
    pub offset: Option<u64>,
    /// Number of lines, at least 1.
    pub limit: Option<u64>,
}

/// A whole file, created or atomically replaced.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Write {
    pub path: String,
    pub content: String,
}

/// Exact replacements in one file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Edit {
    pub path: String,
    pub edits: Vec<Replacement>,
}

/// One exact replacement.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Replacement {
    pub old_text: String,
    pub new_text: String,
}

/// Entries of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Ls {
    pub path: String,
    pub limit: Option<u64>,
}

/// Files by name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Find {
    pub path: String,
    /// A glob over the path relative to `path`.
    pub pattern: Option<String>,
    /// A glob over the file name.
    pub name: Option<String>,
    /// The extension without its dot.
    pub extension: Option<String>,
    pub limit: Option<u64>,
}

/// Lines by content.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Grep {
    pub pattern: String,
    pub path: String,
    pub glob: Option<String>,
    pub ignore_case: bool,
    pub literal: bool,
    /// Lines before and after a match, 0 to 20.
    pub context: u32,
    pub limit: Option<u64>,
}

/// One shell command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Bash {
    pub command: String,
    /// 1 to 600; the default is 120.
    pub timeout_seconds: Option<u32>,
}

/// A pause, then a shell command; with `until`, the command again and again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Wait {
    /// 1 to 1800.
    pub seconds: u32,
    pub command: String,
    pub timeout_seconds: Option<u32>,
    /// Goes on until the command's output matches; needs `max_wait_seconds`.
    pub until: Option<Until>,
    /// At most seven days.
    pub max_wait_seconds: Option<u32>,
}

/// What `wait` waits for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Until {
    /// A regular expression of at most 1,024 characters.
    pub output_matches: String,
}
