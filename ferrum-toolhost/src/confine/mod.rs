//! What a host gives up, in order, before it serves its first call.
//!
//! Each step has its place for a reason; the order was measured and is pinned by tests:
//! id maps before anything that makes the process not dumpable; the view before Landlock, because
//! no mount is possible after it; capabilities after the last mount; the filter last.

pub mod cover;
pub mod home;
pub mod landlock;
pub mod layers;
pub mod low;
pub mod mounts;
pub mod namespace;
pub mod object;
pub mod proc;
pub mod rules;
pub mod seccomp;
pub mod step;
pub mod unreadable;
pub mod view;
pub mod worktrees;

use crate::report;
use crate::sys::process::{drop_capabilities, prctl, set_limit};
use landlock::Ability;
use namespace::Namespaces;
use policy::isolation::Walls;
use policy::{Network, Tier};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use step::Step;
use view::View;

/// How much of the mount view the machine lets us have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Mount view with a pid namespace of its own.
    Full,
    /// Mount view over the machine's `/proc`: where that is partly covered, as in containers.
    SharedPids,
    /// No namespaces: Landlock, the filter and the second look.
    LandlockOnly,
}

/// What the last walls are made from.
pub struct Restriction<'a> {
    pub mode: Mode,
    pub namespaces: Namespaces,
    /// No user namespace can be made inside: the host may then use clone3, whose flags no filter
    /// can read. Commands never may.
    pub innermost: bool,
    pub tier: Tier,
    /// As granted; what is in force follows from the namespaces.
    pub network: Network,
    pub view: &'a View,
    pub corner: &'a Path,
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The prober's program, which lies in no view.
    pub image: Option<BorrowedFd<'a>>,
    pub process_limit: bool,
}

/// Proof that this process has given everything up, with the walls that hold it. Only [`restrict`]
/// makes one, and a session cannot be made without.
pub struct Confined {
    walls: Walls,
    network: Network,
    layer: Option<OwnedFd>,
    innermost: bool,
}

impl Confined {
    #[must_use]
    pub fn walls(&self) -> &Walls {
        &self.walls
    }

    /// The network in force.
    #[must_use]
    pub fn network(&self) -> Network {
        self.network
    }

    /// The Landlock layer that each command adds; none where the kernel has no Landlock.
    ///
    /// # Errors
    /// The system's, when descriptors run out.
    pub fn layer(&self) -> io::Result<Option<OwnedFd>> {
        self.layer.as_ref().map(OwnedFd::try_clone).transpose()
    }

    /// The filter that each command adds to the host's.
    #[must_use]
    pub fn command_filter(&self) -> Vec<libc::sock_filter> {
        if self.innermost {
            seccomp::command()
        } else {
            Vec::new()
        }
    }
}

/// Closes the last walls on the calling process: privileges, Landlock, the filter.
///
/// # Errors
/// The failing step. A kernel without Landlock or seccomp is no failure here: the walls say so.
pub fn restrict(plan: &Restriction<'_>) -> Result<Confined, Step> {
    let ability = Ability::probe();
    let mounted = plan.mode != Mode::LandlockOnly;
    give_up_privileges()?;
    let layer = if ability.abi > 0 {
        Some(landlock_layers(plan, ability, mounted)?)
    } else {
        None
    };
    let network = report::network(plan.network, plan.namespaces.network);
    let profile = seccomp::Profile {
        deny_inet: network == Network::None,
        deny_unix: !mounted && plan.tier != Tier::Low,
        shared_pids: plan.mode != Mode::Full,
        deny_exec: false,
        deny_clone3: !plan.innermost,
        deny_ipc: !plan.namespaces.ipc && plan.tier != Tier::Low,
        deny_attributes: !mounted && plan.tier == Tier::High,
    };
    let filtered = seccomp::apply(profile).is_ok();
    let walls = Walls {
        landlock_abi: ability.abi,
        seccomp: filtered,
        no_capabilities: true,
        mount_view: mounted,
        pid_namespace: plan.mode == Mode::Full,
        network_namespace: plan.namespaces.network,
        socket_filter: profile.deny_inet && filtered,
        cgroup: plan.cgroup.is_some(),
        // At low the rules allow everything, and uid 0 is the owner of these files.
        proc_read_only: mounted || (ability.abi > 0 && plan.tier != Tier::Low),
        process_limit: plan.process_limit,
    };
    Ok(Confined {
        walls,
        network,
        layer,
        innermost: plan.innermost,
    })
}

/// Applies the host's own layer and returns the commands'.
fn landlock_layers(plan: &Restriction<'_>, ability: Ability, mounted: bool) -> Result<OwnedFd, Step> {
    let layers = rules::Plan {
        ability,
        tier: plan.tier,
        view: plan.view,
        mounted,
        corner: plan.corner,
        copies: rules::copies_of(plan.corner),
        cgroup: plan.cgroup,
        image: plan.image,
    }
    .build()
    .map_err(|source| Step {
        what: "landlock rules".into(),
        source,
    })?;
    landlock::apply(&layers.host).map_err(|source| Step {
        what: "landlock".into(),
        source,
    })?;
    Ok(layers.command)
}

/// Gives up what no later step needs: new privileges, core dumps, capabilities, being looked into.
///
/// # Errors
/// The failing call.
pub fn give_up_privileges() -> Result<(), Step> {
    let step = |what: &str| {
        let what = what.to_owned();
        move |source: io::Error| Step { what, source }
    };
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map_err(step("no_new_privs"))?;
    set_limit(libc::RLIMIT_CORE, 0).map_err(step("core limit"))?;
    drop_capabilities().map_err(step("drop capabilities"))?;
    prctl(libc::PR_SET_DUMPABLE, 0, 0).map_err(step("not dumpable"))?;
    Ok(())
}

/// Runs `work` in a thread that can neither write, execute nor open a socket, and returns what it
/// returned. The caller stays as it is: the restrictions are the thread's own.
///
/// # Errors
/// The restriction that failed. Where the kernel has no Landlock the filter alone stands.
pub fn reader<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
            let ability = landlock::Ability::probe();
            if ability.abi > 0 {
                landlock::read_only(ability)?;
            }
            seccomp::apply(seccomp::Profile {
                deny_inet: true,
                deny_unix: true,
                shared_pids: true,
                deny_exec: true,
                deny_clone3: true,
                deny_ipc: true,
                deny_attributes: true,
            })?;
            Ok(work())
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the reader ended by a panic")))
    })
}
