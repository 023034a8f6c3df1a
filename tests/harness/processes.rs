//! Processes as seen from outside: by a marker in their arguments, and one victim.

use crate::scene::Scene;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Ids of running processes (no zombies) whose arguments hold `marker`.
#[must_use]
pub fn with_marker(marker: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(marker) && is_running(*pid)
        })
        .collect()
}

/// True while `pid` exists and is no zombie.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until no process holds `marker`; what is left after `deadline`.
#[must_use]
pub fn left_after(marker: &str, deadline: Duration) -> Vec<u32> {
    let started = Instant::now();
    loop {
        let left = with_marker(marker);
        if left.is_empty() || started.elapsed() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until at least `count` processes hold `marker`.
#[must_use]
pub fn appeared(marker: &str, count: usize, deadline: Duration) -> bool {
    let started = Instant::now();
    while with_marker(marker).len() < count {
        if started.elapsed() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Ids of the children of `pid`.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|child| parent(*child) == Some(pid))
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Processor time that `pid` has used, in ticks of a hundredth of a second.
///
/// # Panics
/// When there is no such process.
#[must_use]
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a live process");
    let fields = stat.rsplit_once(") ").expect("a name").1;
    let times = fields.split(' ').skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// A process of the scene's user that escapes try to harm.
pub struct Victim {
    child: Child,
}

impl Victim {
    /// # Panics
    /// When `sleep` cannot be started.
    #[must_use]
    pub fn start(scene: &Scene) -> Self {
        let mut command = scene.run("/bin/sleep").args(["1000"]).command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("sleep starts");
        let victim = Self { child };
        // Between fork and exec it still looks like this test.
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(5) && !victim.is_sleep() {
            std::thread::sleep(Duration::from_millis(1));
        }
        victim
    }

    fn is_sleep(&self) -> bool {
        std::fs::read_link(format!("/proc/{}/exe", self.pid())).is_ok_and(|exe| exe.ends_with("sleep"))
            || std::fs::read(format!("/proc/{}/cmdline", self.pid()))
                .is_ok_and(|line| line.starts_with(b"/bin/sleep"))
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything about it that another process may have changed.
    #[must_use]
    pub fn condition(&self) -> String {
        let pid = self.pid();
        let read = |name: &str| {
            std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/{name}"))).unwrap_or_default()
        };
        let stat = read("stat");
        let fields: Vec<&str> = stat
            .rsplit_once(") ")
            .map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
        let pick = |index: usize| fields.get(index).copied().unwrap_or_default();
        let status = read("status");
        let allowed = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed:"))
            .unwrap_or_default();
        let stopped = matches!(pick(0), "T" | "t");
        let alive = is_running(pid);
        let nice = pick(16);
        let policy = pick(38);
        format!(
            "alive {alive} stopped {stopped} nice {nice} policy {policy} oom {} cpus {allowed} limits {}",
            read("oom_score_adj").trim(),
            read("limits")
        )
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
