//! Isolation is judged by promises, not by mechanisms: the table promise × wall.
//!
//! For each promise of the tier at least one mechanism in force must hold it.
//!
//! | promise | held by | note |
//! |---|---|---|
//! | reading | mount view; Landlock ≥ 1 (not low) | the view is a list of what may be read |
//! | writing | mount view; Landlock ≥ 3 (not low) | below ABI 3 Landlock does not cover truncation |
//! | attributes | mount view; the filter (high) | modes, owners and times outside the roots: Landlock does not cover them |
//! | network | network namespace; socket filter | not asked for when the network is `full` |
//! | front | pid namespace; Landlock ≥ 3 with the filter | signals, ptrace and `/proc` of the front |
//! | protected | mount view; read-only roots (high) | Landlock cannot except a path from a writable root |
//! | exec | mount view; Landlock ≥ 1 | at high: system directories only |
//! | processes | pid namespace; Landlock ≥ 3 with the filter (high) | others of the user are out of reach |
//! | lifetime | pid namespace; cgroup; the filter with no writable root (high) | nothing outlives its call |
//! | resources | cgroup; process limit; the tier's own limits (high) | fork bombs end |
//! | system | no capabilities with read-only `/proc` | system settings, even as uid 0 |
//!
//! At high the roots are read-only and only system programs run, so Landlock ≥ 3 with the filter
//! holds what at medium needs namespaces: there is no writable root in which a protected path
//! could lie, and no program of the checkout that could stay or reach out. That is why Landlock
//! without namespaces is `full` at high and `kernel` at medium.

use crate::{Isolation, Network, Tier};

/// The kernel mechanisms that a host has in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walls {
    /// ABI number, 0 where Landlock is missing.
    pub landlock_abi: u32,
    pub seccomp: bool,
    pub no_capabilities: bool,
    pub mount_view: bool,
    pub pid_namespace: bool,
    pub network_namespace: bool,
    /// Socket families are denied by the filter.
    pub socket_filter: bool,
    pub cgroup: bool,
    /// `/proc/sys` and its like cannot be written even by uid 0.
    pub proc_read_only: bool,
    /// A bound on processes is in force.
    pub process_limit: bool,
}

/// One promise and what holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub name: &'static str,
    /// Names of the walls that hold it; empty when it is not held.
    pub held_by: Vec<&'static str>,
}

/// First Landlock ABI that covers truncation, so that "may not write" holds.
const LANDLOCK_WRITES: u32 = 3;

/// Without these four, medium and high do not run at all.
const KERNEL: [&str; 4] = ["reading", "writing", "network", "front"];

/// The promises of a tier under the walls in force, and what they amount to.
///
/// `network` is the one in force: without namespaces the host lowers `private` to `none` first.
#[must_use]
pub fn judge(tier: Tier, network: Network, walls: &Walls) -> (Isolation, Vec<Promise>) {
    let promises: Vec<Promise> = rows(tier, network, walls)
        .into_iter()
        .map(|(name, holders)| Promise {
            name,
            held_by: holders
                .into_iter()
                .filter(|(_, holds)| *holds)
                .map(|(wall, _)| wall)
                .collect(),
        })
        .collect();
    let held = |name: &str| {
        promises
            .iter()
            .any(|promise| promise.name == name && !promise.held_by.is_empty())
    };
    let isolation = if promises.iter().all(|promise| !promise.held_by.is_empty()) {
        Isolation::Full
    } else if KERNEL.into_iter().all(held) {
        Isolation::Kernel
    } else {
        Isolation::Partial
    };
    (isolation, promises)
}

type Row = (&'static str, Vec<(&'static str, bool)>);

fn rows(tier: Tier, network: Network, walls: &Walls) -> Vec<Row> {
    let high = tier == Tier::High;
    let low = tier == Tier::Low;
    let landlock = walls.landlock_abi >= 1;
    let landlock_writes = walls.landlock_abi >= LANDLOCK_WRITES;
    let fenced = landlock_writes && walls.seccomp;
    let system = walls.no_capabilities && walls.proc_read_only;
    vec![
        (
            "reading",
            vec![("mount view", walls.mount_view), ("landlock", landlock && !low)],
        ),
        (
            "writing",
            vec![
                ("mount view", walls.mount_view),
                // At low the rules allow everything.
                ("landlock", landlock_writes && !low),
            ],
        ),
        (
            "attributes",
            vec![
                ("mount view", walls.mount_view),
                ("seccomp", high && walls.seccomp),
            ],
        ),
        (
            "network",
            vec![
                ("as granted", network == Network::Full),
                (
                    "network namespace",
                    walls.network_namespace && network != Network::Full,
                ),
                ("socket filter", walls.socket_filter && network == Network::None),
            ],
        ),
        (
            "front",
            vec![
                ("pid namespace", walls.pid_namespace),
                ("landlock+seccomp", fenced),
            ],
        ),
        (
            "protected",
            vec![
                ("mount view", walls.mount_view),
                ("landlock, no writable root", high && landlock_writes),
            ],
        ),
        (
            "exec",
            vec![
                ("any program", low),
                ("mount view", walls.mount_view),
                ("landlock", landlock),
            ],
        ),
        (
            "processes",
            vec![
                ("all of the user's", low),
                ("pid namespace", walls.pid_namespace),
                ("landlock+seccomp, system programs only", high && fenced),
            ],
        ),
        (
            "lifetime",
            vec![
                ("pid namespace", walls.pid_namespace),
                ("cgroup", walls.cgroup),
                ("landlock+seccomp, system programs only", high && fenced),
            ],
        ),
        (
            "resources",
            vec![
                ("cgroup", walls.cgroup),
                ("process limit", walls.process_limit),
                ("landlock+seccomp, system programs only", high && fenced),
            ],
        ),
        ("system", vec![("no capabilities", system)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Walls = Walls {
        landlock_abi: 6,
        seccomp: true,
        no_capabilities: true,
        mount_view: true,
        pid_namespace: true,
        network_namespace: true,
        socket_filter: true,
        cgroup: true,
        proc_read_only: true,
        process_limit: true,
    };

    const LANDLOCK_ONLY: Walls = Walls {
        mount_view: false,
        pid_namespace: false,
        network_namespace: false,
        cgroup: false,
        process_limit: false,
        ..ALL
    };

    fn isolation(tier: Tier, network: Network, walls: Walls) -> Isolation {
        judge(tier, network, &walls).0
    }

    #[test]
    fn every_wall_is_full_at_every_tier() {
        for (tier, network) in [
            (Tier::Low, Network::Full),
            (Tier::Medium, Network::Private),
            (Tier::High, Network::None),
        ] {
            assert_eq!(isolation(tier, network, ALL), Isolation::Full);
        }
    }

    #[test]
    fn an_early_landlock_with_the_mount_view_is_full_at_medium() {
        for landlock_abi in [1, 2] {
            let walls = Walls { landlock_abi, ..ALL };
            assert_eq!(isolation(Tier::Medium, Network::Private, walls), Isolation::Full);
        }
    }

    #[test]
    fn landlock_with_seccomp_and_no_namespaces_is_full_at_high_and_kernel_at_medium() {
        for landlock_abi in [3, 6] {
            let walls = Walls {
                landlock_abi,
                ..LANDLOCK_ONLY
            };
            assert_eq!(isolation(Tier::High, Network::None, walls), Isolation::Full);
            // Private degrades to none without namespaces.
            assert_eq!(isolation(Tier::Medium, Network::None, walls), Isolation::Kernel);
        }
        let (_, promises) = judge(Tier::Medium, Network::None, &LANDLOCK_ONLY);
        let open: Vec<&str> = promises
            .iter()
            .filter(|one| one.held_by.is_empty())
            .map(|one| one.name)
            .collect();
        assert_eq!(
            open,
            ["attributes", "protected", "processes", "lifetime", "resources"]
        );
    }

    #[test]
    fn below_that_it_is_partial() {
        let early = Walls {
            landlock_abi: 2,
            ..LANDLOCK_ONLY
        };
        assert_eq!(isolation(Tier::Medium, Network::None, early), Isolation::Partial);
        let none = Walls {
            landlock_abi: 0,
            ..LANDLOCK_ONLY
        };
        assert_eq!(isolation(Tier::High, Network::None, none), Isolation::Partial);
        assert_eq!(
            isolation(Tier::Medium, Network::Private, LANDLOCK_ONLY),
            Isolation::Partial
        );
    }

    #[test]
    fn a_full_network_is_held_as_granted() {
        let (isolation, promises) = judge(Tier::Medium, Network::Full, &ALL);
        assert_eq!(isolation, Isolation::Full);
        assert!(
            promises
                .iter()
                .any(|one| one.name == "network" && one.held_by == ["as granted"])
        );
    }

    #[test]
    fn a_missing_wall_costs_full_only_where_nothing_else_holds_its_promise() {
        let no_pids = Walls {
            pid_namespace: false,
            ..ALL
        };
        assert_eq!(
            isolation(Tier::Medium, Network::Private, no_pids),
            Isolation::Kernel
        );
        let no_cgroup = Walls { cgroup: false, ..ALL };
        assert_eq!(
            isolation(Tier::Medium, Network::Private, no_cgroup),
            Isolation::Full
        );
        let capable = Walls {
            no_capabilities: false,
            ..ALL
        };
        assert_eq!(isolation(Tier::High, Network::None, capable), Isolation::Kernel);
    }
}
