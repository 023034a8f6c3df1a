//! Each value of the effective policy with its key and where it came from.

use super::Shown;
use ferrum_proto::charter::{Ancestors, HomeMode, Origin, RootMode};
use ferrum_proto::terms::PathBytes;
use serde_json::{Value, json};

/// One key.
pub(super) struct Setting {
    pub key: &'static str,
    pub value: Value,
    pub origins: Vec<Origin>,
}

/// All of them, in the order in which they are shown.
pub(super) fn settings(shown: &Shown) -> Vec<Setting> {
    let (granted, charter) = (&shown.granted, &shown.charter);
    let row = |key, value| Setting {
        key,
        value,
        origins: origins(shown, key),
    };
    let paths = |all: &[PathBytes]| all.iter().map(path).collect::<Vec<_>>();
    let root = match charter.root {
        RootMode::Cwd => "cwd",
        RootMode::Repository => "repository",
    };
    let home = match charter.home {
        HomeMode::Project => "project",
        HomeMode::Fresh => "fresh",
    };
    let ancestors = match charter.ancestors {
        Ancestors::All => "all",
        Ancestors::Nearest => "nearest",
    };
    vec![
        row("safety", json!(granted.tier.name())),
        row("safety.floor", json!(granted.floor.name())),
        row("safety.ceiling", json!(charter.ceiling.name())),
        row("isolation.require", json!(granted.require.name())),
        row("tools", json!(granted.tools)),
        row("tools.network", json!(granted.network.name())),
        row("tools.shell", json!(granted.shell.name())),
        row("tools.writable_roots", json!(paths(&granted.writable_roots))),
        row("tools.readable_roots", json!(paths(&granted.readable_roots))),
        row("tools.root", json!(root)),
        row("tools.home", json!(home)),
        row("tools.env", json!(charter.env_names)),
        row("tools.sockets", json!(paths(&charter.sockets))),
        row("tools.devices", json!(paths(&charter.devices))),
        row("project.ancestors", json!(ancestors)),
        row("max_tool_rounds", json!(granted.max_tool_rounds)),
        row("limits.pids", json!(charter.limits.pids)),
        row("limits.memory", json!(charter.limits.memory)),
        row("limits.file", json!(charter.limits.file)),
        row("limits.shm", json!(charter.limits.shm)),
        row("skills.inherit_global", json!(granted.skills.inherit)),
        row("skills.allow", json!(granted.skills.allow)),
        row("skills.deny", json!(granted.skills.deny)),
        row(
            "mcp.enabled",
            json!(granted.mcp_enabled && shown.config.settings.mcp_enabled),
        ),
        row("mcp.allow", json!(granted.mcp.allow)),
        row("mcp.deny", json!(granted.mcp.deny)),
    ]
}

/// The host's word where it decided, else the user's file.
fn origins(shown: &Shown, key: &str) -> Vec<Origin> {
    if let Some(decided) = shown.granted.origins.iter().find(|decided| decided.key == key) {
        return decided.origins.clone();
    }
    let users = shown.charter.origins.iter();
    let mut found = users
        .filter(|(name, _)| name == key)
        .map(|(_, origin)| origin.clone());
    vec![found.next_back().unwrap_or(Origin::Default)]
}

pub(super) fn path(path: &PathBytes) -> String {
    path.as_path().to_string_lossy().into_owned()
}

/// As a person reads it.
pub(in crate::mode::policy) fn words(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::User { file, line } => format!("{}:{line}", path(file)),
        Origin::Environment { name } => name.clone(),
        Origin::CommandLine => "command line".to_owned(),
        Origin::Tier => "by the tier".to_owned(),
        Origin::Project { file, line } => format!("{}:{line}", path(file)),
    }
}

pub(in crate::mode::policy) fn as_json(origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "kind": "default" }),
        Origin::User { file, line } => json!({ "kind": "user", "file": path(file), "line": line }),
        Origin::Environment { name } => json!({ "kind": "environment", "name": name }),
        Origin::CommandLine => json!({ "kind": "command_line" }),
        Origin::Tier => json!({ "kind": "tier" }),
        Origin::Project { file, line } => json!({ "kind": "project", "file": path(file), "line": line }),
    }
}
