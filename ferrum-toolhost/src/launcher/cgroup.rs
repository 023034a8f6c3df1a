//! A directory of our own in the cgroup v2 tree, where the machine lets us have one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Controllers that hold limits of commands.
const CONTROLLERS: [&str; 3] = ["pids", "memory", "cpu"];

/// The session's directory, with a leaf for hosts; commands get leaves beside it.
pub struct Cgroup {
    path: PathBuf,
    directory: OwnedFd,
    leaf: OwnedFd,
}

impl Cgroup {
    /// Makes `name` below the caller's own cgroup. That it can be joined is known only when a host
    /// has tried: the first thing that a host does.
    ///
    /// # Errors
    /// A reason in words: no v2 tree, or no right to make a directory in it.
    pub fn make(name: &str) -> Result<Self, String> {
        let parent = own_directory()?;
        let path = parent.join(name);
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", parent.display()))?;
        Self::set_up(&path).map_err(|e| {
            remove(&path);
            format!("{}: {e}", path.display())
        })
    }

    fn set_up(path: &Path) -> io::Result<Self> {
        if let Ok(available) = fs::read_to_string(path.join("cgroup.controllers")) {
            for name in CONTROLLERS
                .iter()
                .filter(|c| available.split_whitespace().any(|a| a == **c))
            {
                // Not delegated: the limit is then reported as not in force.
                let _ = fs::write(path.join("cgroup.subtree_control"), format!("+{name}"));
            }
        }
        let leaf = path.join("host");
        fs::create_dir(&leaf)?;
        let open = |directory: &Path| {
            OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
                .open(directory)
        };
        Ok(Self {
            path: path.to_path_buf(),
            directory: open(path)?.into(),
            leaf: open(&leaf)?.into(),
        })
    }

    #[must_use]
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    #[must_use]
    pub fn leaf(&self) -> &OwnedFd {
        &self.leaf
    }

    /// Kills what is in it.
    pub fn kill(&self) {
        // Without cgroup.kill (before 5.14) the caller's other means do the work.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Kills what is in it and removes it.
    pub fn end(&self) {
        remove(&self.path);
    }
}

/// Removes a session's directory below the caller's cgroup by name, with everything that runs in it.
pub fn sweep(name: &str) {
    if let Ok(parent) = own_directory() {
        remove(&parent.join(name));
    }
}

fn remove(path: &Path) {
    if !path.exists() {
        return;
    }
    let _ = fs::write(path.join("cgroup.kill"), "1");
    // The kernel removes a leaf only when its last process has been reaped.
    for _ in 0..50 {
        for leaf in fs::read_dir(path).into_iter().flatten().flatten() {
            if leaf.file_type().is_ok_and(|t| t.is_dir()) {
                let _ = fs::remove_dir(leaf.path());
            }
        }
        if fs::remove_dir(path).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// The cgroup v2 directory that this process is in.
fn own_directory() -> Result<PathBuf, String> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| format!("/proc/self/cgroup: {e}"))?;
    let inside = own
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .ok_or("no cgroup v2 on this machine")?;
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").map_err(|e| format!("/proc/self/mountinfo: {e}"))?;
    let (root, mount) = mounts
        .lines()
        .find_map(v2_mount)
        .ok_or("cgroup v2 is not mounted")?;
    // In a cgroup namespace the mount's root may lie above what the process sees.
    if root.starts_with("/..") {
        return Err("the cgroup v2 mount does not show this process's own directory".into());
    }
    let relative = Path::new(inside.trim_end())
        .strip_prefix(&root)
        .map_err(|_| "cgroup outside the mount")?;
    let directory = Path::new(&mount).join(relative);
    let procs = File::open(directory.join("cgroup.procs")).and_then(io::read_to_string);
    let me = std::process::id().to_string();
    match procs {
        Ok(text) if text.lines().any(|l| l == me) => Ok(directory),
        Ok(_) => Err(format!("{} is not this process's cgroup", directory.display())),
        Err(e) => Err(format!("{}: {e}", directory.display())),
    }
}

/// Root and mount point of a `cgroup2` line of mountinfo.
fn v2_mount(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once(" - ")?;
    if right.split_whitespace().next()? != "cgroup2" {
        return None;
    }
    let mut fields = left.split_whitespace().skip(3);
    Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
}
