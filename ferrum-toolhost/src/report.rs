//! What is in force, in words: the second answer to the seal.

use crate::confine::view::View;
use crate::seal::to_wire;
use ferrum_proto::seal::{Promise, ViewEntry, Wall};
use ferrum_proto::terms::{self, PathBytes};
use policy::isolation::Walls;
use policy::{Isolation, Network, ShellMode};

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

#[must_use]
pub fn view(view: &View) -> Vec<ViewEntry> {
    view.entries
        .iter()
        .map(|e| ViewEntry {
            path: PathBytes::from(e.path.as_path()),
            access: e.access,
            why: e.why.into(),
        })
        .collect()
}

/// The name of how the end of a call is known. `scope_held`: a signal out of the session's domain
/// was tried and refused.
#[must_use]
pub fn containment(walls: &Walls, scope_held: bool) -> terms::Containment {
    match (walls.cgroup, walls.pid_namespace) {
        (true, true) => terms::Containment::CgroupAndPidNamespace,
        (false, true) => terms::Containment::PidNamespace,
        (true, false) => terms::Containment::Cgroup,
        (false, false) if scope_held => terms::Containment::ScopeAndSubreaper,
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
