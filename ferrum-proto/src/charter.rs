//! The charter: everything that the operator's side says about tools, sent to the launcher once,
//! before the front is exposed to anything. Nothing in it comes from the model or a project.

use crate::terms::{Network, PathBytes, Require, Shell, Tier};
use bincode::{Decode, Encode};

/// The user's policy and the facts of the user's session that commands need.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Charter {
    /// No host may be opened below this tier.
    pub ceiling: Tier,
    /// The tier where no wish names one.
    pub tier: Tier,
    /// The network where no wish names one; `None` means the tier's own default.
    pub network: Option<Network>,
    pub shell: Shell,
    /// The least isolation accepted; `None` means the tier's own default.
    pub require: Option<Require>,
    /// Upper bound of the tool set; `None` means all.
    pub tools_allow: Option<Vec<String>>,
    pub tools_deny: Vec<String>,
    pub readable_roots: Vec<Root>,
    pub writable_roots: Vec<Root>,
    pub root: RootMode,
    pub home: HomeMode,
    /// Unix sockets of the machine that are passed into the view.
    pub sockets: Vec<PathBytes>,
    /// Device nodes beyond the minimal `/dev`.
    pub devices: Vec<PathBytes>,
    /// Names of environment variables that commands get besides the built-in list.
    pub env_names: Vec<String>,
    pub ancestors: Ancestors,
    /// 0 means adaptive.
    pub max_tool_rounds: u32,
    pub limits: Limits,
    /// The user's environment without the variables that `secret_names` lists.
    pub environment: Vec<(PathBytes, PathBytes)>,
    /// Names that no command may ever see, whatever `env_names` says.
    pub secret_names: Vec<String>,
    pub places: Places,
    /// Project policies that were in force at earlier starts here.
    pub remembered: Vec<PolicyText>,
    /// Which of the values above were set, and where. Keys are the config file's.
    pub origins: Vec<(String, Origin)>,
}

/// The text of one project file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PolicyText {
    pub file: PathBytes,
    /// At most 64 KiB; a longer one is not remembered.
    pub text: String,
}

/// One configured root.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Root {
    /// Absolute, or relative to the working directory; `~` already expanded.
    pub path: PathBytes,
    /// The user's own config names it in so many words, so the home directory and system
    /// directories are accepted too.
    pub literal: bool,
}

/// Which directory the default root `.` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum RootMode {
    Cwd,
    Repository,
}

/// Whether the private home survives the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum HomeMode {
    Project,
    Fresh,
}

/// Which project files above the nearest one narrow too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Ancestors {
    All,
    Nearest,
}

/// Limits of one command. 0 means "no limit of ours".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Limits {
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of memory, where a controller can hold it.
    pub memory: u64,
    /// Largest file that a command may write, in bytes.
    pub file: u64,
    /// Bytes of the private `/dev/shm`.
    pub shm: u64,
}

/// Where things of the user and of Ferrum lie. All absolute.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Places {
    pub home: PathBytes,
    pub config: PathBytes,
    pub data: PathBytes,
    pub cache: PathBytes,
}

/// Where a value of the effective policy came from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Origin {
    Default,
    User {
        file: PathBytes,
        line: u32,
    },
    /// A variable of the operator's environment.
    Environment {
        name: String,
    },
    CommandLine,
    /// It follows from the tier.
    Tier,
    Project {
        file: PathBytes,
        line: u32,
    },
}

/// What the operator asks of one host, between the ceiling and the project's floor. Only this
/// process's command line, a key typed at the prompt or an ACP client's mode call makes one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Wish {
    pub tier: Option<Tier>,
    pub network: Option<Network>,
    pub shell: Option<Shell>,
    pub tools: ToolsWish,
    /// Look through the checkout first, for `Granted::preflight`.
    pub inspect: bool,
    /// The host runs the compiled-in prober in place of every command, and nothing else.
    pub probes: bool,
}

/// Which tools the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub enum ToolsWish {
    #[default]
    Default,
    None,
    Only(Vec<String>),
}
