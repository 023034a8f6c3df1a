//! The environment of commands: what of the user's travels on, and what is set for all.

use crate::confine::view::TOOLCHAIN_VARIABLES;
use ferrum_proto::charter::Charter;
use policy::Tier;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names that pass at medium and high. A trailing `*` is a prefix.
const ALLOWED: &[&str] = &[
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
];

/// Sockets of agents, buses and container engines. At low only the ssh and gpg agents pass.
const SOCKET_NAMES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "PODMAN_HOST",
    "XDG_RUNTIME_DIR",
    "SESSION_MANAGER",
    "NOTIFY_SOCKET",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "STY",
];
const AGENTS: &[&str] = &["SSH_AUTH_SOCK", "GPG_AGENT_INFO"];

/// Set for every command: nothing waits for a terminal, nothing pages, package managers copy
/// rather than link (a hard link out of a cache would share its inode with the project).
const FIXED: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("UV_LINK_MODE", "copy"),
    ("npm_config_package_import_method", "copy"),
];

/// Git settings that switch off what a repository's own configuration would run, and signing,
/// for which no agent is there.
const GIT_SIGNING_OFF: &[(&str, &str)] = &[("commit.gpgsign", "false"), ("tag.gpgsign", "false")];
/// Not `diff.external`: git takes an empty one for a program without a name, and no diff works.
const GIT_INSPECTION: &[(&str, &str)] = &[("core.fsmonitor", "false")];

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Builds the environment, sorted by name.
#[must_use]
pub fn build(
    charter: &Charter,
    tier: Tier,
    home: &Path,
    temporary: &Path,
    cwd: &Path,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    for (name, value) in &charter.environment {
        let text = String::from_utf8_lossy(&name.0);
        if passes(charter, tier, &text) && !name.0.contains(&b'=') && !name.0.is_empty() {
            all.insert(name.0.clone(), value.0.clone());
        }
    }
    let mut set = |name: &str, value: &[u8]| all.insert(name.as_bytes().to_vec(), value.to_vec());
    for (name, value) in FIXED {
        set(name, value.as_bytes());
    }
    set("HOME", home.as_os_str().as_bytes());
    set("PWD", cwd.as_os_str().as_bytes());
    if tier != Tier::Low {
        set("TMPDIR", temporary.as_os_str().as_bytes());
        set("GIT_OPTIONAL_LOCKS", b"0");
    }
    let inspection = if tier == Tier::Low {
        &[][..]
    } else {
        GIT_INSPECTION
    };
    let settings: Vec<_> = GIT_SIGNING_OFF.iter().chain(inspection).collect();
    set("GIT_CONFIG_COUNT", settings.len().to_string().as_bytes());
    for (number, (key, value)) in settings.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{number}"), key.as_bytes());
        set(&format!("GIT_CONFIG_VALUE_{number}"), value.as_bytes());
    }
    all.entry(b"PATH".to_vec()).or_insert_with(|| DEFAULT_PATH.into());
    all.entry(b"LANG".to_vec()).or_insert_with(|| b"C.UTF-8".to_vec());
    all
}

fn passes(charter: &Charter, tier: Tier, name: &str) -> bool {
    let secret = name.starts_with("FERRUM_") || charter.secret_names.iter().any(|s| s == name);
    // bash reads functions and start-up files from these.
    let shell =
        name.starts_with("BASH_FUNC_") || matches!(name, "BASH_ENV" | "ENV" | "SHELLOPTS" | "BASHOPTS");
    if secret || shell {
        return false;
    }
    if tier == Tier::Low {
        return !SOCKET_NAMES.contains(&name) || AGENTS.contains(&name);
    }
    let listed = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    let named = charter.env_names.iter().any(|n| n == name) && !SOCKET_NAMES.contains(&name);
    ALLOWED.iter().any(|p| listed(p)) || TOOLCHAIN_VARIABLES.contains(&name) || named
}

/// `NAME=value` strings for exec.
#[must_use]
pub fn strings(environment: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<CString> {
    environment
        .iter()
        .filter_map(|(name, value)| CString::new([name.as_slice(), b"=", value.as_slice()].concat()).ok())
        .collect()
}
