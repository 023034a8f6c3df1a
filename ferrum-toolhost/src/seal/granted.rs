//! A decision → the first answer to the seal.

use super::{Decision, to_wire};
use ferrum_proto::charter::Origin;
use ferrum_proto::seal::{Decided, Granted, RemovedTool, Seal, Selection};
use ferrum_proto::terms::PathBytes;
use policy::origin::Source;
use std::path::PathBuf;

/// The first answer to the seal.
#[must_use]
pub fn granted(seal: &Seal, decision: &Decision) -> Granted {
    let grant = &decision.grant;
    let paths = |all: &[PathBuf]| all.iter().map(|p| PathBytes::from(p.as_path())).collect();
    let selection = |s: &policy::Selection| Selection {
        inherit: s.inherit,
        allow: s.allow.clone(),
        deny: s.deny.clone(),
    };
    let removed = grant.tools_removed().iter().map(|removed| RemovedTool {
        tool: removed.tool.to_owned(),
        reason: removed.reason.clone(),
        origin: origin(seal, &removed.source),
    });
    let origins = grant.origins().iter().map(|decided| Decided {
        key: decided.key.to_owned(),
        origins: decided
            .sources
            .iter()
            .map(|source| origin(seal, source))
            .collect(),
    });
    Granted {
        tier: to_wire::tier(grant.tier()),
        floor: to_wire::tier(grant.floor()),
        network: to_wire::network(grant.network()),
        shell: to_wire::shell(grant.shell()),
        require: to_wire::require(grant.require()),
        tools: grant.tools().iter().map(|t| t.name().to_owned()).collect(),
        tools_removed: removed.collect(),
        cwd: PathBytes::from(decision.cwd.as_path()),
        work_tree: decision.work_tree.as_deref().map(PathBytes::from),
        writable_roots: paths(grant.writable_roots()),
        readable_roots: paths(grant.readable_roots()),
        max_tool_rounds: grant.max_tool_rounds(),
        skills: selection(grant.skills()),
        mcp_enabled: grant.mcp_enabled(),
        mcp: selection(grant.mcp()),
        project_files: paths(&decision.project_files),
        policies: decision.policies.clone(),
        origins: origins.collect(),
        notices: decision.notices.clone(),
        preflight: decision.preflight.clone(),
    }
}

/// Where a decision was made, with the user's file and line where it was the user's.
#[must_use]
pub fn origin(seal: &Seal, source: &Source) -> Origin {
    match source {
        Source::User(key) => of_user(&seal.charter.origins, key),
        Source::Wish => Origin::CommandLine,
        Source::Tier => Origin::Tier,
        Source::Project { file, line } => Origin::Project {
            file: PathBytes::from(file.as_path()),
            line: *line,
        },
    }
}

/// `safety = "medium"` says the same as `safety.tier`.
fn of_user(origins: &[(String, Origin)], key: &str) -> Origin {
    let find = |key: &str| origins.iter().find(|(name, _)| name == key);
    let word = || find("safety").filter(|_| key == "safety.tier" && find("safety.ceiling").is_none());
    let found = find(key).or_else(word);
    found.map_or(Origin::Default, |(_, origin)| origin.clone())
}
