//! `.ferrum/config.toml` of a project: text → [`ProjectPolicy`]. Unknown keys are errors.

mod reader;

use crate::{Network, Require, ShellMode, Tier};
use std::collections::BTreeMap;

/// Largest project file, in bytes: it is read before anything is known about who wrote it.
pub const PROJECT_BYTES_MAX: usize = 1 << 20;

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
    /// `[[expect]]`: what the project wants policy to answer. It narrows nothing.
    pub expect: Vec<Expectation>,
    /// Where each key stands, by its dotted name.
    pub places: BTreeMap<String, Place>,
}

/// A place in a file, counted from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The place right after `text`.
    #[must_use]
    pub fn after(text: &str) -> Self {
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            line: narrow(line),
            column: narrow(column),
        }
    }
}

/// A narrowing of named things: skills or MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub inherit: bool,
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

/// One row of `[[expect]]`: a check of the policy that a project carries for its CI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    pub tool: String,
    pub input: String,
    /// The file's own tier when it is not named.
    pub safety: Option<Tier>,
    /// True for `allow`, false for `deny`.
    pub allow: bool,
    pub place: Place,
}

/// Why a project file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectError {
    pub place: Place,
    pub message: String,
    pub hint: String,
}

impl ProjectPolicy {
    /// Reads a project file. An empty one has no opinion.
    ///
    /// # Errors
    /// [`ProjectError`] for anything that is not a known key with a value of its kind, and for a text
    /// above [`PROJECT_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let (policy, mut problems) = Self::examine(text);
        if problems.is_empty() {
            Ok(policy)
        } else {
            Err(problems.swap_remove(0))
        }
    }

    /// Reads a project file to its end and tells everything that is wrong with it, in the order of
    /// the text. What could be read counts only when nothing is wrong.
    #[must_use]
    pub fn examine(text: &str) -> (Self, Vec<ProjectError>) {
        // A byte order mark says nothing; places are counted after it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        reader::read(text)
    }

    /// The same policy as if the file did not hold `key` (a dotted name from [`Self::places`]).
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        let mut rest = self.clone();
        match key {
            "safety" => rest.safety = None,
            "max_tool_rounds" => rest.max_tool_rounds = None,
            "isolation.require" => rest.require = None,
            "tools.allow" => rest.tools_allow = None,
            "tools.deny" => rest.tools_deny.clear(),
            "tools.readable_roots" => rest.readable_roots = None,
            "tools.writable_roots" => rest.writable_roots = None,
            "tools.network" => rest.network = None,
            "tools.shell" => rest.shell = None,
            "mcp.enabled" => rest.mcp_enabled = None,
            "mcp.allow" => change(&mut rest.mcp, |mcp| mcp.allow = None),
            "mcp.deny" => change(&mut rest.mcp, |mcp| mcp.deny.clear()),
            "skills.inherit_global" => change(&mut rest.skills, |skills| skills.inherit = true),
            "skills.allow" => change(&mut rest.skills, |skills| skills.allow = None),
            "skills.deny" => change(&mut rest.skills, |skills| skills.deny.clear()),
            _ => {}
        }
        rest
    }
}

fn change(selection: &mut Option<Selection>, change: impl FnOnce(&mut Selection)) {
    if let Some(selection) = selection {
        change(selection);
    }
}

impl Selection {
    /// No narrowing.
    #[must_use]
    pub fn all() -> Self {
        Self {
            inherit: true,
            allow: None,
            deny: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
