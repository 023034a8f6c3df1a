//! judge(grant, ground, act) → verdict: the decision table.

use crate::{Action, Grant, Ground, Network, Refusal, Seen, Target, Tier, Tool, Verdict, protect};
use std::net::IpAddr;
use std::path::Path;

/// Says whether one act is part of the grant.
pub fn judge(grant: &Grant, ground: &Ground, action: &Action<'_>) -> Verdict {
    let outcome = match action {
        Action::Use { tool } => used(grant, *tool),
        Action::Read { path } => read(grant, ground, path),
        Action::Mutate { path, target } => mutate(grant, ground, path, *target),
        Action::Look { path, seen } => look(grant, path, *seen),
        Action::Execute { path, seen } => commands(grant).and_then(|()| execute(grant, path, *seen)),
        Action::Connect { host, network } => commands(grant).and_then(|()| connect(host, *network)),
        Action::Server { name } => server(grant, name),
        Action::Run { command } => match commands(grant) {
            Ok(()) => return crate::shell::judge(command, grant, ground),
            Err(refusal) => Err(refusal),
        },
    };
    outcome.map_or_else(Verdict::Refuse, |()| Verdict::Allow)
}

/// Tier high takes `write` and `edit` away from everybody; there the tier is the reason.
fn used(grant: &Grant, tool: Tool) -> Result<(), Refusal> {
    match (grant.tier, tool) {
        (Tier::High, Tool::Write | Tool::Edit) => Err(high_writes_nothing(tool.name())),
        _ => exposed(grant, &[tool], tool.name()),
    }
}

fn high_writes_nothing(what: &str) -> Refusal {
    Refusal::plain(
        "tier",
        format!("{what} is refused: tier high writes nothing"),
        "ask the operator for tier medium",
    )
}

/// Any of `tools` must be exposed. Which tool it is has been asked by [`Action::Use`]; here an act
/// that no tool of the session could do is refused whoever asks.
fn exposed(grant: &Grant, tools: &[Tool], name: &str) -> Result<(), Refusal> {
    if tools.iter().any(|tool| grant.tools.contains(tool)) {
        return Ok(());
    }
    let removed = grant.tools_removed.iter().find(|removed| removed.tool == name);
    let reason = removed.map_or("it was not asked for", |removed| removed.reason.as_str());
    Err(Refusal::plain(
        "tool",
        format!("{name} is not available under the current policy: {reason}"),
        "",
    ))
}

/// Of the built-in tools these alone start programs, and programs alone connect.
fn commands(grant: &Grant) -> Result<(), Refusal> {
    exposed(grant, &[Tool::Bash, Tool::Wait], "bash")
}

fn read(grant: &Grant, ground: &Ground, path: &Path) -> Result<(), Refusal> {
    exposed(
        grant,
        &[
            Tool::Read,
            Tool::Ls,
            Tool::Find,
            Tool::Grep,
            Tool::Edit,
            Tool::Write,
        ],
        "read",
    )?;
    if grant.tier == Tier::Low {
        return Ok(());
    }
    match protect::read_problem(path, &ground.home, &ground.protected) {
        None => Ok(()),
        Some(problem) => Err(Refusal::plain(
            "secret",
            format!(
                "{} is not read at tier {}: {problem}",
                path.display(),
                grant.tier.name()
            ),
            "ask the operator for what you need from it",
        )),
    }
}

fn look(grant: &Grant, path: &Path, seen: Seen) -> Result<(), Refusal> {
    match seen {
        Seen::Absent if grant.tier != Tier::Low => Err(Refusal::plain(
            "outside-view",
            format!(
                "{} is not there: it lies outside the session's view",
                path.display()
            ),
            "copy what you need into the checkout",
        )),
        Seen::Absent | Seen::View | Seen::System => Ok(()),
    }
}

fn execute(grant: &Grant, path: &Path, seen: Seen) -> Result<(), Refusal> {
    look(grant, path, seen)?;
    match (grant.tier, seen) {
        (Tier::High, Seen::View | Seen::Absent) => Err(Refusal::plain(
            "exec-path",
            format!(
                "{} is not run: tier high runs programs of system directories only",
                path.display()
            ),
            "",
        )),
        (Tier::High, Seen::System) | (Tier::Low | Tier::Medium, _) => Ok(()),
    }
}

/// A private network has its own loopback, on which what the session itself started listens.
fn connect(host: &str, network: Network) -> Result<(), Refusal> {
    let refused = |why: &str| {
        let message = format!("{host} is not reached: {why}");
        Err(Refusal::plain("network", message, ""))
    };
    match network {
        Network::Full => Ok(()),
        Network::Private if is_loopback(host) => Ok(()),
        Network::Private => refused("the network is private: only what the session itself started answers"),
        Network::None => refused("there is no network"),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn server(grant: &Grant, name: &str) -> Result<(), Refusal> {
    let named = |list: &[String]| list.iter().any(|known| known == name);
    let why = if !grant.mcp_enabled {
        "a project file switches servers off"
    } else if named(&grant.mcp.deny) {
        "a project file denies it"
    } else if grant.mcp.allow.as_ref().is_some_and(|allow| !named(allow)) {
        "a project file allows others only"
    } else {
        return Ok(());
    };
    Err(Refusal::plain("mcp", format!("{name} is not started: {why}"), ""))
}

fn mutate(grant: &Grant, ground: &Ground, path: &Path, target: Target) -> Result<(), Refusal> {
    if grant.tier == Tier::High {
        return Err(high_writes_nothing(&format!("a change of {}", path.display())));
    }
    exposed(grant, &[Tool::Write, Tool::Edit], "write")?;
    let problem = protect::write_problem(path, ground).or_else(|| protect::git_entry_problem(path));
    if let Some(problem) = problem {
        let message = format!("{} is not changed: {problem}", path.display());
        return Err(Refusal::plain(
            "protected",
            message,
            "ask the operator to change it",
        ));
    }
    // A private home is there for the caches of programs. A file that the model writes into it
    // would be said to be written, and the operator would never find it.
    let scratch = ground.private.iter().filter(|place| **place != ground.home);
    let inside = ground
        .writable
        .iter()
        .chain(scratch)
        .any(|root| path.starts_with(root));
    if grant.tier == Tier::Medium && !inside {
        return Err(outside(ground, path));
    }
    is_plain_file(path, target)
}

fn outside(ground: &Ground, path: &Path) -> Refusal {
    let roots: Vec<String> = ground
        .writable
        .iter()
        .map(|root| root.display().to_string())
        .collect();
    let roots = if roots.is_empty() {
        "there is no writable root".to_owned()
    } else {
        format!("writable is {}", roots.join(", "))
    };
    Refusal::plain(
        "outside-root",
        format!(
            "{} is outside: {roots} (and $TMPDIR for scratch files)",
            path.display()
        ),
        "use a path below the writable root, or below $TMPDIR",
    )
}

fn is_plain_file(path: &Path, target: Target) -> Result<(), Refusal> {
    let path = path.display();
    match target {
        Target::Absent | Target::File { links: 0 | 1 } => Ok(()),
        Target::File { links } => Err(Refusal::plain(
            "hard-link",
            format!("{path} has {links} names, and a change would show under all of them"),
            "copy it and move the copy over it",
        )),
        Target::Symlink => Err(Refusal::plain(
            "symlink",
            format!("{path} is a symbolic link"),
            "name the file that it points at",
        )),
        Target::Directory => Err(Refusal::plain(
            "not-a-file",
            format!("{path} is a directory, not a regular file"),
            "name a file in it",
        )),
        Target::Special => Err(Refusal::plain(
            "not-a-file",
            format!("{path} is a FIFO, socket or device, not a regular file"),
            "name a regular file",
        )),
    }
}
