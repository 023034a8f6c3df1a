//! The seal: what the launcher hands a host in a sealed memory file, and the host's two answers.

use crate::charter::{Charter, Origin, PolicyText, Wish};
use crate::terms::{Containment, Isolation, Network, PathBytes, Require, Shell, Tier};
use bincode::{Decode, Encode};

/// Charter ∩ wish, with the places that the launcher made for the session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Seal {
    pub charter: Charter,
    pub wish: Wish,
    /// The working directory as the user wrote it (`$PWD` where it names the same directory).
    pub cwd: PathBytes,
    /// Mode 0700, owned by the user, on disk: `tmp`, `home`, `layers`, `spool` live in it.
    pub session_dir: PathBytes,
    /// The private home for this project, on disk.
    pub home_dir: PathBytes,
    /// Only for a host in role check: look at project files and end.
    pub lint: Option<Lint>,
}

/// What a look at project files is about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Lint {
    /// Taken for the project file of the working directory; without it, those that count there.
    pub file: Option<PathBytes>,
}

/// The policy in force: first answer to the seal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Granted {
    pub tier: Tier,
    /// The lowest tier that a wish could still reach here.
    pub floor: Tier,
    pub network: Network,
    pub shell: Shell,
    pub require: Require,
    pub tools: Vec<String>,
    pub tools_removed: Vec<RemovedTool>,
    /// The canonical working directory.
    pub cwd: PathBytes,
    /// The top of the repository around it.
    pub work_tree: Option<PathBytes>,
    pub writable_roots: Vec<PathBytes>,
    pub readable_roots: Vec<PathBytes>,
    /// 0 means adaptive.
    pub max_tool_rounds: u32,
    pub skills: Selection,
    pub mcp_enabled: bool,
    pub mcp: Selection,
    /// The project files that narrowed, nearest first.
    pub project_files: Vec<PathBytes>,
    /// Their texts, for the next start's charter.
    pub policies: Vec<PolicyText>,
    /// Who decided each value.
    pub origins: Vec<Decided>,
    pub notices: Vec<String>,
    /// Where the wish asked for it.
    pub preflight: Option<Preflight>,
}

/// What in a checkout tries to run or to steer something.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Preflight {
    /// At most [`PREFLIGHT_MAX`](crate::limits::PREFLIGHT_MAX), by path.
    pub remarks: Vec<Remark>,
    /// How many more there are.
    pub more: u32,
    /// False where the checkout is too large to be looked through.
    pub complete: bool,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Remark {
    pub path: PathBytes,
    /// One word, listed in docs/POLICY.md.
    pub kind: String,
    /// What it would do, in words.
    pub what: String,
}

/// A tool that is not exposed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RemovedTool {
    pub tool: String,
    pub reason: String,
    pub origin: Origin,
}

/// One value of the effective policy, by the name of its key, and where it came from. Several
/// project files may narrow the same one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Decided {
    pub key: String,
    pub origins: Vec<Origin>,
}

/// A narrowing of named things: skills or MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Selection {
    /// Whether the user's own (global) ones are taken at all.
    pub inherit: bool,
    /// Upper bound; `None` means all.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

/// The walls in force: second answer to the seal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Ready {
    pub isolation: Isolation,
    /// The network that is really in force (private degrades to none without namespaces).
    pub network: Network,
    /// The shell mode that is really in force (auto needs full isolation).
    pub shell: Shell,
    pub containment: Containment,
    pub walls: Vec<Wall>,
    pub promises: Vec<Promise>,
    /// The session's view, outermost path first.
    pub view: Vec<ViewEntry>,
    /// What no call may change although it lies in the view, at most [`PROTECTED_MAX`] lines.
    pub protected: Vec<Protected>,
    pub limits: Vec<Limit>,
    /// Names of the environment variables that commands get.
    pub environment: Vec<String>,
    pub notices: Vec<String>,
    /// Time from the host's first instruction to this answer, in microseconds.
    pub setup_us: u64,
}

/// One kernel mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Wall {
    pub name: String,
    pub in_force: bool,
    /// Version or extent where in force, else what failed and how to get it.
    pub detail: String,
}

/// One promise of the tier and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Promise {
    pub name: String,
    /// Names of the walls in force that hold it; empty when it is not held.
    pub held_by: Vec<String>,
}

/// One line of the view.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ViewEntry {
    pub path: PathBytes,
    pub access: Access,
    pub why: String,
    /// The mechanisms that hold this line, each of them alone; empty where nothing does.
    pub held_by: Vec<String>,
}

/// Lines of [`Ready::protected`]: a tree may hold any number of repositories.
pub const PROTECTED_MAX: usize = 500;

/// A place in the view that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Protected {
    pub path: PathBytes,
    pub why: String,
    pub held_by: Vec<String>,
}

/// One limit of each command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Limit {
    /// The key below `[limits]`.
    pub name: String,
    /// 0 is no limit of ours.
    pub value: u64,
    /// What holds it; empty where nothing does, or nothing is to be held.
    pub held_by: String,
}

/// What may be done below a path of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Access {
    None,
    Read,
    ReadExec,
    Write,
}

/// Why no session came up.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SealFailed {
    pub kind: SealFailure,
    /// What happened, with file, key or wall.
    pub message: String,
    /// What to do about it; empty when there is nothing to say.
    pub hint: String,
}

/// The kinds of failure that the front tells apart by exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SealFailure {
    /// The project's or the user's policy cannot be applied.
    Policy,
    /// The isolation that is required is not to be had on this machine.
    Isolation,
    /// A step failed that was expected to work.
    Setup,
}
