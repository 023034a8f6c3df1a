//! Ending everything that a call started, and saying how that is known.

use crate::sys::process::{Waited, exit_now, kill, wait_any};
use ferrum_proto::reply::Residual;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long ending a call may take before the state counts as unknown.
const KILL_MS_MAX: u64 = 2_000;
/// Names of ended processes that are reported.
const NAMES_MAX: usize = 5;

/// What was left when a command's own process had ended.
#[derive(Debug, Default)]
pub struct Swept {
    pub count: u32,
    pub names: Vec<String>,
    pub residual: Option<Residual>,
    pub error: Option<String>,
}

/// From pid 1 of the session's own namespace: one signal reaches all, and none can fork past it. What
/// ends by it is counted first, so nothing may have been killed before.
#[must_use]
pub fn sweep_namespace() -> Swept {
    let mut swept = Swept {
        residual: Some(Residual::None),
        ..Swept::default()
    };
    match reap() {
        Waited::Childless => return swept,
        Waited::Running | Waited::Ended(_) => {}
    }
    count(&mut swept, namespace_pids());
    if let Err(e) = kill(-1, libc::SIGKILL)
        && e.raw_os_error() != Some(libc::ESRCH)
    {
        swept.error = Some(format!("kill: {e}"));
    }
    if !reap_until(Instant::now() + Duration::from_millis(KILL_MS_MAX)) {
        swept.residual = Some(Residual::Unknown);
    }
    swept
}

/// True where the kernel refuses signals to processes outside this one's Landlock domain, shown by
/// asking for its parent, the launcher. Only then may everything be killed at once.
#[must_use]
pub fn is_scoped() -> bool {
    let parent = nix::unistd::getppid().as_raw();
    parent > 1 && kill(parent, 0).is_err_and(|e| e.raw_os_error() == Some(libc::EPERM))
}

/// Without a pid namespace the kernel does not end the rest when this process goes. Waits for the
/// launcher's end of the pipe to close, ends everything of the domain, and this process.
///
/// # Errors
/// The system's, where no thread can be made.
pub fn end_with_launcher(life: OwnedFd) -> std::io::Result<()> {
    let watch = move || {
        let mut polled = [PollFd::new(life.as_fd(), PollFlags::empty())];
        while !polled[0]
            .revents()
            .is_some_and(|r| r.contains(PollFlags::POLLERR))
        {
            // An interrupted poll is a short one.
            let _ = poll(&mut polled, PollTimeout::NONE);
        }
        let _ = kill(-1, libc::SIGKILL);
        exit_now(1)
    };
    std::thread::Builder::new()
        .name("life".into())
        .spawn(watch)
        .map(drop)
}

/// Without an own pid namespace: all of the domain where that is `scoped`, the group, the cgroup,
/// and as a subreaper whatever was adopted.
#[must_use]
pub fn sweep_children(
    group: i32,
    scoped: bool,
    kill_cgroup: impl Fn(),
    is_populated: impl Fn() -> bool,
) -> Swept {
    let mut swept = Swept {
        residual: Some(Residual::None),
        ..Swept::default()
    };
    let deadline = Instant::now() + Duration::from_millis(KILL_MS_MAX);
    let mut seen = BTreeSet::new();
    loop {
        // Counted while they still run: who was killed is a zombie that nobody counts.
        let left = descendants(&children());
        count(
            &mut swept,
            left.iter().copied().filter(|pid| seen.insert(*pid)).collect(),
        );
        // The group's leader is reaped; members may remain.
        let _ = kill(-group, libc::SIGKILL);
        kill_cgroup();
        if scoped {
            // One signal reaches all, and none can fork past it.
            let _ = kill(-1, libc::SIGKILL);
        }
        for pid in left {
            let _ = kill(pid, libc::SIGKILL);
        }
        if matches!(reap(), Waited::Childless) && !is_populated() {
            return swept;
        }
        if Instant::now() >= deadline {
            swept.residual = Some(if is_populated() {
                Residual::Some
            } else {
                Residual::Unknown
            });
            return swept;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn count(swept: &mut Swept, pids: Vec<i32>) {
    for pid in pids {
        // Zombies have ended already; only who still ran is worth telling.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let Some((head, tail)) = stat.rsplit_once(')') else {
            continue;
        };
        if tail.trim_start().starts_with(['Z', 'X']) {
            continue;
        }
        swept.count += 1;
        if swept.names.len() < NAMES_MAX {
            let name = head.split_once('(').map_or("", |(_, name)| name);
            swept
                .names
                .push(name.chars().filter(|c| !c.is_control()).collect());
        }
    }
}

fn namespace_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != 1)
        .collect()
}

/// Children of every thread of this process.
fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads
        .filter_map(|t| fs::read_to_string(t.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|p| p.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

fn descendants(children: &[i32]) -> Vec<i32> {
    let mut all = children.to_vec();
    let mut at = 0;
    while at < all.len() && all.len() < 10_000 {
        let pid = all[at];
        at += 1;
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
            all.extend(text.split_whitespace().filter_map(|p| p.parse::<i32>().ok()));
        }
    }
    all
}

/// Reaps everything that has ended. Returns what is left.
fn reap() -> Waited {
    loop {
        match wait_any() {
            Waited::Ended(_) => {}
            other => return other,
        }
    }
}

fn reap_until(deadline: Instant) -> bool {
    let mut pause = Duration::from_micros(20);
    loop {
        if matches!(reap(), Waited::Childless) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}
