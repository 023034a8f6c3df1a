//! The JSON form: docs/schema/policy-show.json.

use super::Shown;
use super::values::{as_json, path, settings};
use crate::context::Offered;
use crate::exit::Failure;
use crate::mode::policy::check::expectation;
use crate::mode::tool::walls;
use ferrum_proto::charter::Origin;
use ferrum_proto::seal::{Access, Granted, Ready};
use serde_json::{Value, json};

/// Raised when a key goes or changes its meaning; a new key does not raise it.
const SCHEMA: &str = "ferrum.policy.show/1";

pub(super) fn object(shown: &Shown) -> Value {
    let granted = &shown.granted;
    let ready = shown.ready.as_ref();
    let rows = settings(shown).into_iter().map(
        |setting| json!({ "key": setting.key, "value": setting.value, "origins": origins(&setting.origins) }),
    );
    let notices = ready.map(|ready| ready.notices.as_slice()).unwrap_or_default();
    let notices = shown.config.notices.iter().chain(&granted.notices).chain(notices);
    json!({
        "schema": SCHEMA,
        "directory": path(&granted.cwd),
        "config_file": shown.config.file.to_string_lossy(),
        "project_files": granted.project_files.iter().map(path).collect::<Vec<_>>(),
        "settings": rows.collect::<Vec<_>>(),
        "tools": tools(granted),
        "walls": ready.map_or(Value::Null, |ready| in_force(granted, ready)),
        "mcp": mcp(shown),
        "skills": {
            "inherit_global": granted.skills.inherit,
            "allow": granted.skills.allow,
            "deny": granted.skills.deny,
            "offered": shown.skills.iter().map(skill).collect::<Vec<_>>(),
        },
        "expectations": shown.expectations.iter().map(expectation).collect::<Vec<_>>(),
        "notices": notices.collect::<Vec<_>>(),
        "failure": shown.ready.as_ref().err().map(|cause| {
            let failure = Failure::from(cause.clone());
            json!({ "exit": failure.kind.code(), "message": failure.message, "hint": failure.hint })
        }),
    })
}

fn skill(skill: &Offered) -> Value {
    json!({
        "name": skill.name,
        "file": skill.file.to_string_lossy(),
        "of": if skill.of_user { "user" } else { "project" },
        "trusted": skill.trusted,
    })
}

fn origins(all: &[Origin]) -> Vec<Value> {
    all.iter().map(as_json).collect()
}

fn tools(granted: &Granted) -> Value {
    let removed = granted.tools_removed.iter().map(|removed| {
        json!({ "tool": removed.tool, "reason": removed.reason, "origin": as_json(&removed.origin) })
    });
    json!({ "exposed": granted.tools, "removed": removed.collect::<Vec<_>>() })
}

/// What a host came up with.
fn in_force(granted: &Granted, ready: &Ready) -> Value {
    let view = ready.view.iter().map(|entry| {
        json!({
            "path": path(&entry.path),
            "access": access(entry.access),
            "why": entry.why,
            "held_by": entry.held_by,
        })
    });
    let protected = ready.protected.iter().map(|protected| {
        json!({ "path": path(&protected.path), "why": protected.why, "held_by": protected.held_by })
    });
    let limits = ready.limits.iter().map(|limit| {
        let held = (!limit.held_by.is_empty()).then_some(&limit.held_by);
        json!({ "name": limit.name, "value": limit.value, "held_by": held })
    });
    let promises = ready
        .promises
        .iter()
        .map(|promise| json!({ "name": promise.name, "held_by": promise.held_by }));
    json!({
        "required": granted.require.name(),
        "isolation": ready.isolation.name(),
        "network": ready.network.name(),
        "shell": ready.shell.name(),
        "containment": ready.containment.name(),
        "mechanisms": walls(&ready.walls),
        "promises": promises.collect::<Vec<_>>(),
        "view": view.collect::<Vec<_>>(),
        "protected": protected.collect::<Vec<_>>(),
        "limits": limits.collect::<Vec<_>>(),
        "environment": ready.environment,
    })
}

pub(super) fn access(access: Access) -> &'static str {
    match access {
        Access::None => "none",
        Access::Read => "read",
        Access::ReadExec => "read_exec",
        Access::Write => "write",
    }
}

fn mcp(shown: &Shown) -> Value {
    let servers = shown.servers().into_iter().map(|(name, isolation, why_not)| {
        json!({ "name": name, "isolation": isolation, "selected": why_not.is_none(), "reason": why_not })
    });
    json!({ "started": false, "servers": servers.collect::<Vec<_>>() })
}
