//! `.ferrum/config.toml` of a project: text → [`ProjectPolicy`]. Unknown keys are errors.

use crate::{Network, Require, ShellMode, Tier};

/// What one project file asks to narrow. Every field is "no opinion" when `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectPolicy {
    pub safety: Option<Tier>,
    pub max_tool_rounds: Option<u32>,
    pub network: Option<Network>,
    pub shell: Option<ShellMode>,
    pub require: Option<Require>,
    pub tools_allow: Option<Vec<String>>,
    pub tools_deny: Vec<String>,
    /// As written, relative to the directory that holds `.ferrum`.
    pub readable_roots: Option<Vec<String>>,
    pub writable_roots: Option<Vec<String>>,
    pub skills: Option<Selection>,
    pub mcp_enabled: Option<bool>,
    pub mcp: Option<Selection>,
}

/// A narrowing of named things: skills or MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub inherit: bool,
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

/// Why a project file cannot be used. Line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectError {
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub hint: String,
}

impl ProjectPolicy {
    /// # Errors
    /// [`ProjectError`] for anything that is not a known key with a value of its kind.
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let _ = text;
        Ok(Self::default())
    }
}
