//! Entering namespaces: the clone, and the id maps inside.

use super::step::Step;
use crate::sys::process::{Fork, clone};
use crate::sys::socket::loopback_up;
use std::fs;
use std::io;

/// Which namespaces a host enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces {
    pub pid: bool,
    pub network: bool,
    /// `lo` of the own network namespace is up: test servers work.
    pub loopback: bool,
    pub ipc: bool,
}

/// Ids as they were before the clone: until they are mapped the kernel shows 65534.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    pub uid: u32,
    pub gid: u32,
}

impl Ids {
    #[must_use]
    pub fn now() -> Self {
        Self {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        }
    }
}

impl Namespaces {
    /// Makes a sibling process in the namespaces: a child of the launcher, so that the launcher's
    /// death reaches it and no process is left in between.
    ///
    /// # Errors
    /// [`Step`].
    pub fn enter(self) -> Result<Fork, Step> {
        let mut flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWUTS;
        for (wanted, flag) in [
            (self.pid, libc::CLONE_NEWPID),
            (self.network, libc::CLONE_NEWNET),
            (self.ipc, libc::CLONE_NEWIPC),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        clone(flags | libc::CLONE_PARENT | libc::SIGCHLD).map_err(|source| Step {
            what: "enter namespaces".into(),
            source,
        })
    }

    /// First acts inside: the id maps, and the loopback interface. Returns whether no user
    /// namespace can be made from here on, by anybody inside.
    ///
    /// # Errors
    /// [`Step`].
    pub fn settle(self, ids: Ids) -> Result<bool, Step> {
        let step = |what: &str, result: io::Result<()>| {
            result.map_err(|source| Step {
                what: what.into(),
                source,
            })
        };
        step("deny setgroups", fs::write("/proc/self/setgroups", "deny"))?;
        step(
            "map the user id",
            fs::write("/proc/self/uid_map", format!("{0} {0} 1", ids.uid)),
        )?;
        step(
            "map the group id",
            fs::write("/proc/self/gid_map", format!("{0} {0} 1", ids.gid)),
        )?;
        if self.loopback {
            step("bring up the loopback interface", loopback_up())?;
        }
        // The limit of the namespace itself, so it is ours to set. Nobody can raise it again: that
        // takes a capability that is given up.
        Ok(fs::write("/proc/sys/user/max_user_namespaces", "0").is_ok())
    }
}
