//! The effective policy of one session.

use crate::origin::{Decided, Removed};
use crate::{Network, Require, Selection, ShellMode, Tier, Tool};
use std::path::PathBuf;

/// User ∩ project ∩ wish. Made only by [`crate::narrow`]; there is no default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub(crate) tier: Tier,
    pub(crate) floor: Tier,
    pub(crate) network: Network,
    pub(crate) shell: ShellMode,
    pub(crate) require: Require,
    pub(crate) tools: Vec<Tool>,
    pub(crate) tools_removed: Vec<Removed>,
    pub(crate) writable_roots: Vec<PathBuf>,
    pub(crate) readable_roots: Vec<PathBuf>,
    pub(crate) max_tool_rounds: u32,
    pub(crate) skills: Selection,
    pub(crate) mcp_enabled: bool,
    pub(crate) mcp: Selection,
    pub(crate) origins: Vec<Decided>,
    pub(crate) notices: Vec<String>,
}

impl Grant {
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The lowest tier that a wish could still reach in this project.
    #[must_use]
    pub fn floor(&self) -> Tier {
        self.floor
    }

    #[must_use]
    pub fn network(&self) -> Network {
        self.network
    }

    #[must_use]
    pub fn shell(&self) -> ShellMode {
        self.shell
    }

    #[must_use]
    pub fn require(&self) -> Require {
        self.require
    }

    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Tools that are not exposed, each with the reason.
    #[must_use]
    pub fn tools_removed(&self) -> &[Removed] {
        &self.tools_removed
    }

    #[must_use]
    pub fn writable_roots(&self) -> &[PathBuf] {
        &self.writable_roots
    }

    #[must_use]
    pub fn readable_roots(&self) -> &[PathBuf] {
        &self.readable_roots
    }

    /// 0 means adaptive.
    #[must_use]
    pub fn max_tool_rounds(&self) -> u32 {
        self.max_tool_rounds
    }

    #[must_use]
    pub fn skills(&self) -> &Selection {
        &self.skills
    }

    #[must_use]
    pub fn mcp_enabled(&self) -> bool {
        self.mcp_enabled
    }

    #[must_use]
    pub fn mcp(&self) -> &Selection {
        &self.mcp
    }

    /// Who decided each value.
    #[must_use]
    pub fn origins(&self) -> &[Decided] {
        &self.origins
    }

    /// What the operator should be told about how the grant came out.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}
