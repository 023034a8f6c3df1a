//! What a host gives up, in order, before it serves its first call.
//!
//! Each step has its place for a reason; the order was measured and is pinned by tests:
//! id maps before anything that makes the process not dumpable; the view before Landlock, because
//! no mount is possible after it; capabilities after the last mount; the filter last.

pub mod home;
pub mod landlock;
pub mod low;
pub mod mounts;
pub mod namespace;
pub mod rules;
pub mod seccomp;
pub mod view;

use crate::sys::process::{drop_capabilities, prctl, set_limit};
use std::io;

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

/// Gives up what no later step needs: new privileges, core dumps, capabilities, being looked into.
///
/// # Errors
/// The failing call.
pub fn give_up_privileges() -> Result<(), mounts::Step> {
    let step = |what: &str| {
        let what = what.to_owned();
        move |source: io::Error| mounts::Step { what, source }
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
