//! The session's `/proc`, and what of it acts on the whole machine.

use super::cover::bind_here;
use super::mounts::make_directories;
use super::step::{At, Step};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::io;
use std::path::Path;

/// A fresh `/proc` of the session's own pid namespace. Must come before the old root is detached:
/// the kernel wants an already visible one.
///
/// # Errors
/// [`Step`]; `EPERM` where the outer `/proc` is partly covered, as in containers.
pub fn own_proc() -> Result<(), Step> {
    make_directories(Path::new("/proc"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).at("mount /proc")
}

/// Takes the parts of `/proc` that act on or tell about the whole machine: read-only or empty.
/// Without this, uid 0 writes `/proc/sys` as its owner, with no capability at all.
///
/// # Errors
/// [`Step`].
pub fn cover_proc() -> Result<(), Step> {
    for name in [
        "sys",
        "sysrq-trigger",
        "irq",
        "bus",
        "fs",
        "mtrr",
        "acpi",
        "scsi",
        "driver",
        "tty",
        "dynamic_debug",
    ] {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            bind_here(&path, &path, true)?;
        }
    }
    for name in [
        "kcore",
        "keys",
        "key-users",
        "timer_list",
        "kmsg",
        "kallsyms",
        "kpagecount",
        "kpageflags",
        "kpagecgroup",
        "vmallocinfo",
        "slabinfo",
        "sched_debug",
    ] {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            bind_here(Path::new("/dev/null"), &path, true)?;
        }
    }
    Ok(())
}

/// Bounds processes and threads of the namespace, for uid 0 too.
///
/// # Errors
/// The system's.
pub fn set_pid_max(pids: u32) -> io::Result<()> {
    // The kernel refuses values below 301.
    fs::write("/proc/sys/kernel/pid_max", pids.max(301).to_string())
}
