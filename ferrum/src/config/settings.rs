//! The values of the user's `config.toml`, with their built-in defaults.

use crate::provider::{ProviderKind, Thinking};
use ferrum_proto::charter::{Ancestors, HomeMode, Limits, RootMode};
use ferrum_proto::terms::{Network, Require, Shell, Tier};
use secrecy::SecretString;
use std::collections::BTreeMap;

/// Everything that `config.toml` can say.
#[derive(Debug)]
pub struct Settings {
    pub provider: Option<String>,
    pub model: Option<String>,
    /// In tokens.
    pub max_context_tokens: u64,
    /// 0 means adaptive.
    pub max_tool_rounds: u32,
    pub thinking: Thinking,
    pub color: Color,
    pub diff_mode: DiffMode,
    pub safety: Safety,
    pub tools: Tools,
    /// `None` means the tier's own default.
    pub require: Option<Require>,
    pub ancestors: Ancestors,
    pub limits: Limits,
    pub skills_external_symlinks: bool,
    pub providers: BTreeMap<String, ProviderEntry>,
    pub models: BTreeMap<String, ModelEntry>,
    pub mcp_enabled: bool,
    pub mcp_servers: Vec<McpServer>,
}

/// The words of `thinking`.
pub const THINKING: [(&str, Thinking); 7] = [
    ("off", Thinking::Off),
    ("minimal", Thinking::Minimal),
    ("low", Thinking::Low),
    ("medium", Thinking::Medium),
    ("high", Thinking::High),
    ("xhigh", Thinking::Xhigh),
    ("max", Thinking::Max),
];

/// When the terminal gets colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    Auto,
    On,
    Off,
}

impl Color {
    /// `always` and `never` are accepted too.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("on", Self::On),
        ("off", Self::Off),
        ("always", Self::On),
        ("never", Self::Off),
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// How a changed file is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffMode {
    Unified,
    Compact,
    Full,
    Words,
    SideBySide,
}

impl DiffMode {
    pub const WORDS: [(&'static str, Self); 5] = [
        ("unified", Self::Unified),
        ("compact", Self::Compact),
        ("full", Self::Full),
        ("words", Self::Words),
        ("side_by_side", Self::SideBySide),
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Compact => "compact",
            Self::Full => "full",
            Self::Words => "words",
            Self::SideBySide => "side_by_side",
        }
    }
}

/// The tier to start with and the widest one that may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Safety {
    pub tier: Tier,
    pub ceiling: Tier,
}

/// `[tools]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// `None` means all.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
    pub readable_roots: Vec<String>,
    /// `None` means the working directory.
    pub writable_roots: Option<Vec<String>>,
    pub root: RootMode,
    /// `None` means the tier's own.
    pub network: Option<Network>,
    pub shell: Shell,
    pub home: HomeMode,
    pub env: Vec<String>,
    pub sockets: Vec<String>,
    pub devices: Vec<String>,
}

/// `[providers.NAME]`.
#[derive(Debug, Clone)]
pub struct ProviderEntry {
    pub kind: ProviderKind,
    pub base_url: Option<String>,
    /// Name of the variable that holds the key.
    pub api_key_env: Option<String>,
    pub default_model: Option<String>,
    pub streaming: bool,
    pub stream_usage: bool,
    pub allow_insecure_http: bool,
    /// Merged into the body of each request.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Sent with each request. Values may be credentials.
    pub headers: Vec<(String, SecretString)>,
}

impl ProviderEntry {
    /// An entry that states its kind alone.
    #[must_use]
    pub fn plain(kind: ProviderKind) -> Self {
        Self {
            kind,
            base_url: None,
            api_key_env: None,
            default_model: None,
            streaming: true,
            stream_usage: true,
            allow_insecure_http: false,
            extra_body: serde_json::Map::new(),
            headers: Vec::new(),
        }
    }
}

/// `[models.NAME]`: another name for a model, with its own facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    pub provider: Option<String>,
    pub actual_model: Option<String>,
    pub max_context_tokens: Option<u64>,
    pub supports_images: bool,
}

/// `[[mcp.servers]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    /// Names of variables that the server gets.
    pub env: Vec<String>,
    pub enabled: bool,
    pub isolation: McpIsolation,
}

/// Whose authority an MCP server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpIsolation {
    User,
    Workspace,
}

impl McpIsolation {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            provider: None,
            model: None,
            max_context_tokens: 256_000,
            max_tool_rounds: 0,
            thinking: Thinking::Off,
            color: Color::Auto,
            diff_mode: DiffMode::Unified,
            safety: Safety {
                tier: Tier::Medium,
                ceiling: Tier::Low,
            },
            tools: Tools::default(),
            require: None,
            ancestors: Ancestors::All,
            limits: LIMITS,
            skills_external_symlinks: false,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            mcp_enabled: true,
            mcp_servers: Vec::new(),
        }
    }
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            allow: None,
            deny: Vec::new(),
            readable_roots: Vec::new(),
            writable_roots: None,
            root: RootMode::Cwd,
            network: None,
            shell: Shell::Static,
            home: HomeMode::Project,
            env: Vec::new(),
            sockets: Vec::new(),
            devices: Vec::new(),
        }
    }
}

/// Limits of one command. Processes: far above a parallel build, far below a fork bomb that
/// stalls the machine. Memory: none, since a controller is not everywhere and a wrong guess kills
/// linkers. File: an image or a debug build fits. Shared memory: enough for worker pools.
const LIMITS: Limits = Limits {
    pids: 2048,
    memory: 0,
    file: 4 << 30,
    shm: 256 << 20,
};
