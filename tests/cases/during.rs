//! Something that happens while the call runs.
//!
//! The product has no hook for it. For "after the target was read" the kernel tells when the file
//! is read; the product's processes are stopped there and then, the change is made while they
//! stand still, and they go on. Where they had replaced the file already, the run does not count
//! and is repeated (see `verdict.rs`).

use crate::ground::Ground;
use crate::keys::Keys;
use crate::observe::family;
use crate::setup;
use ferrum_tests::who::Who;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// When a running command counts as under way.
const UNDER_WAY: Duration = Duration::from_millis(400);

enum Moment {
    /// The file was read and still is the one that was read.
    Read {
        inotify: Inotify,
        path: PathBuf,
        inode: u64,
    },
    /// The call has been running for a while.
    Running,
}

/// Waits for its moment, acts once.
pub struct Intruder {
    moment: Moment,
    script: String,
    cwd: PathBuf,
    who: Who,
    family: Vec<u32>,
    scanned: Instant,
    acted: bool,
    in_time: bool,
}

impl Intruder {
    /// # Errors
    /// A sentence, where the moment cannot be expressed.
    pub fn new(mut keys: Keys, ground: &Ground, target: Option<&str>) -> Result<Self, String> {
        let when = keys.text("when")?.ok_or("during has no when")?;
        let script = ground.fill(&keys.text("sh")?.ok_or("during has no sh")?);
        keys.nothing_left("during")?;
        let moment = match target {
            Some(target) if when.contains("read") => reading(&ground.path(target))?,
            _ if when.contains("run") || when.contains("command") => Moment::Running,
            _ => return Err(format!("the runner cannot express the moment {when:?}")),
        };
        Ok(Self {
            moment,
            script,
            cwd: ground.cwd(),
            who: ground.who.clone(),
            family: Vec::new(),
            scanned: Instant::now(),
            acted: false,
            in_time: false,
        })
    }

    /// Called again and again while the product runs.
    pub fn look(&mut self, pid: u32, elapsed: Duration) {
        if self.acted {
            return;
        }
        let now = match &self.moment {
            Moment::Running => elapsed >= UNDER_WAY,
            Moment::Read { inotify, .. } => inotify.read_events().is_ok_and(|events| !events.is_empty()),
        };
        if now {
            self.acted = true;
            self.act(pid);
        } else if self.family.is_empty() || self.scanned.elapsed() > Duration::from_millis(1) {
            // Known beforehand, so that nothing has to be looked up when every moment counts.
            self.family = family(pid);
            self.scanned = Instant::now();
        }
    }

    fn act(&mut self, pid: u32) {
        let Moment::Read { path, inode, .. } = &self.moment else {
            self.in_time = self.shell();
            return;
        };
        let signal = |pid: &u32, signal| {
            if let Ok(pid) = i32::try_from(*pid) {
                // One that is gone needs no signal.
                let _ = kill(Pid::from_raw(pid), signal);
            }
        };
        self.family
            .iter()
            .filter(|member| **member != pid)
            .for_each(|pid| signal(pid, Signal::SIGSTOP));
        // A stop reaches a thread at its next return from the kernel.
        std::thread::sleep(Duration::from_millis(20));
        if inode_of(path) == Some(*inode) {
            self.in_time = self.shell();
        }
        self.family
            .iter()
            .filter(|member| **member != pid)
            .for_each(|pid| signal(pid, Signal::SIGCONT));
    }

    fn shell(&self) -> bool {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", &self.script]).current_dir(&self.cwd);
        self.who.apply(&mut command);
        command.status().is_ok_and(|status| status.success())
    }

    pub fn was_in_time(&self) -> bool {
        self.in_time
    }
}

fn reading(path: &Path) -> Result<Moment, String> {
    let inotify =
        Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(|e| format!("inotify: {e}"))?;
    inotify
        .add_watch(path, AddWatchFlags::IN_ACCESS)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    let inode = inode_of(path).ok_or("the target is gone")?;
    Ok(Moment::Read {
        inotify,
        path: path.to_path_buf(),
        inode,
    })
}

fn inode_of(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|meta| meta.ino())
}

/// Between two calls of one session.
///
/// # Errors
/// What the shell printed.
pub fn between(script: &str, ground: &Ground) -> Result<(), String> {
    setup::shell(script, ground)?;
    ground.hand_over().map_err(|e| e.to_string())
}
