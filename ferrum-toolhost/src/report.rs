//! What is in force, in words: the second answer to the seal.

use crate::confine::low;
use crate::confine::view::{Entry, Source, View};
use crate::seal::to_wire;
use ferrum_proto::charter;
use ferrum_proto::seal::{Limit, Promise, Seal, ViewEntry, Wall};
use ferrum_proto::terms::{self, PathBytes};
use policy::isolation::Walls;
use policy::{Isolation, Network, ShellMode, Tier};

/// Private needs a namespace; without one it is none, by the filter.
#[must_use]
pub fn network(granted: Network, own_namespace: bool) -> Network {
    match granted {
        Network::Private if !own_namespace => Network::None,
        other => other,
    }
}

/// `auto` rests on the walls: anything less than full isolation makes it `static`.
#[must_use]
pub fn shell(granted: ShellMode, isolation: Isolation) -> ShellMode {
    match granted {
        ShellMode::Auto if isolation == Isolation::Full => ShellMode::Auto,
        _ => ShellMode::Static,
    }
}

/// Every wall, in force or not, with what failed and what to do.
#[must_use]
pub fn walls(walls: &Walls, missing: &[(&'static str, String)]) -> Vec<Wall> {
    let reason = |name: &str| {
        missing
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, why)| why.as_str())
    };
    let row = |name: &str, in_force: bool, present: String, absent: &str| Wall {
        name: name.into(),
        in_force,
        detail: if in_force {
            present
        } else {
            match reason(name) {
                Some(why) => format!("{why}; {absent}"),
                None => absent.to_owned(),
            }
        },
    };
    vec![
        row(
            "landlock",
            walls.landlock_abi > 0,
            format!("ABI {}", walls.landlock_abi),
            "needs a kernel with Landlock switched on (CONFIG_SECURITY_LANDLOCK, lsm=landlock)",
        ),
        row(
            "seccomp",
            walls.seccomp,
            "deny list".into(),
            "needs a kernel with CONFIG_SECCOMP_FILTER",
        ),
        row(
            "capabilities",
            walls.no_capabilities,
            "none, in every set".into(),
            "",
        ),
        row(
            "mount view",
            walls.mount_view,
            "built from nothing".into(),
            "needs unprivileged user namespaces (user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
        ),
        row(
            "pid namespace",
            walls.pid_namespace,
            "the host is pid 1".into(),
            "needs user namespaces and a /proc that is not partly covered",
        ),
        row(
            "network namespace",
            walls.network_namespace,
            "its own".into(),
            "not asked for (network = \"full\"), or needs user namespaces",
        ),
        row(
            "socket filter",
            walls.socket_filter,
            "internet families denied".into(),
            "not needed with a network namespace",
        ),
        row(
            "cgroup",
            walls.cgroup,
            "one for each command".into(),
            "needs a delegated cgroup v2 directory (systemd: Delegate=yes)",
        ),
        row(
            "process limit",
            walls.process_limit,
            "pid_max of the namespace".into(),
            "needs a pid namespace on kernel 6.14 or later",
        ),
    ]
}

#[must_use]
pub fn promises(promises: Vec<policy::isolation::Promise>) -> Vec<Promise> {
    promises
        .into_iter()
        .map(|p| Promise {
            name: p.name.into(),
            held_by: p.held_by.into_iter().map(str::to_owned).collect(),
        })
        .collect()
}

/// The view line by line, and what holds each line.
#[must_use]
pub fn view(view: &View, seal: &Seal, tier: Tier, walls: &Walls) -> Vec<ViewEntry> {
    if tier == Tier::Low {
        return low::entries(seal, walls.mount_view);
    }
    let holders = |entry: &Entry| {
        // A layer takes writes, so Landlock allows them: only the mount keeps them from the disk.
        let landlock = match entry.source {
            Source::Layered => !walls.mount_view || tier == Tier::High,
            Source::Same | Source::Other(_) | Source::Empty => true,
        };
        [
            ("mount view", walls.mount_view),
            ("landlock", landlock && walls.landlock_abi > 0),
        ]
    };
    view.entries
        .iter()
        .map(|entry| ViewEntry {
            path: PathBytes::from(entry.path.as_path()),
            access: entry.access,
            why: entry.why.into(),
            held_by: names(&holders(entry)),
        })
        .collect()
}

/// The names of the holders that hold.
#[must_use]
pub fn names(holders: &[(&str, bool)]) -> Vec<String> {
    let held = holders.iter().filter(|(_, holds)| *holds);
    held.map(|(name, _)| (*name).to_owned()).collect()
}

/// The limits of each command, and what holds them here.
#[must_use]
pub fn limits(limits: &charter::Limits, tier: Tier, walls: &Walls, controllers: &[&str]) -> Vec<Limit> {
    let controller = |name: &str| controllers.contains(&name).then_some("cgroup");
    let pids = controller("pids").or(walls.process_limit.then_some("pid_max of the namespace"));
    let row = |name: &str, value: u64, held_by: Option<&str>| Limit {
        name: name.into(),
        value,
        held_by: held_by.filter(|_| value > 0).unwrap_or_default().into(),
    };
    vec![
        row("pids", limits.pids.into(), pids),
        row("memory", limits.memory, controller("memory")),
        row("file", limits.file, Some("rlimit")),
        row(
            "shm",
            limits.shm,
            (walls.mount_view && tier != Tier::Low).then_some("mount view"),
        ),
    ]
}

/// The name of how the end of a call is known. `scoped`: a signal out of the session's domain
/// was tried and refused.
#[must_use]
pub fn containment(walls: &Walls, scoped: bool) -> terms::Containment {
    match (walls.cgroup, walls.pid_namespace) {
        (true, true) => terms::Containment::CgroupAndPidNamespace,
        (false, true) => terms::Containment::PidNamespace,
        (true, false) => terms::Containment::Cgroup,
        (false, false) if scoped => terms::Containment::ScopeAndSubreaper,
        (false, false) => terms::Containment::Subreaper,
    }
}

/// The sentence for an operator whose machine cannot hold what is required.
#[must_use]
pub fn too_weak(
    tier: policy::Tier,
    isolation: Isolation,
    require: policy::Require,
    walls: &[Wall],
) -> (String, String) {
    let missing: Vec<&Wall> = walls
        .iter()
        .filter(|w| !w.in_force && w.name != "socket filter")
        .collect();
    let names: Vec<&str> = missing.iter().map(|w| w.name.as_str()).collect();
    let message = format!(
        "isolation {} is required at tier {}, this machine gives {}; missing: {}",
        to_wire::require(require).name(),
        to_wire::tier(tier).name(),
        to_wire::isolation(isolation).name(),
        names.join(", ")
    );
    let hint = missing
        .iter()
        .map(|w| format!("{}: {}", w.name, w.detail))
        .collect::<Vec<_>>()
        .join("\n");
    (message, hint)
}
