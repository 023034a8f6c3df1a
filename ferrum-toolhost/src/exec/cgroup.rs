//! One cgroup per command, below the session's directory, by descriptor.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The session's cgroup directory: the parent of the commands' own.
pub struct SessionCgroup {
    directory: OwnedFd,
    made: u32,
}

/// The cgroup of one command.
pub struct CommandCgroup<'a> {
    session: &'a SessionCgroup,
    name: String,
    directory: OwnedFd,
    procs: OwnedFd,
}

impl SessionCgroup {
    #[must_use]
    pub fn new(directory: OwnedFd) -> Self {
        Self { directory, made: 0 }
    }

    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The limits that a command's cgroup can hold.
    #[must_use]
    pub fn controllers(&self) -> Vec<&'static str> {
        let there = read_at(self.directory.as_fd(), "cgroup.subtree_control").unwrap_or_default();
        let is_there = |name: &&str| there.split_whitespace().any(|word| word == *name);
        ["pids", "memory"].into_iter().filter(is_there).collect()
    }

    /// Makes a cgroup and sets what limits its controllers can hold. Returns it with the names of
    /// the limits that are in force.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&mut self, pids: u32, memory: u64) -> nix::Result<(CommandCgroup<'_>, Vec<&'static str>)> {
        self.made += 1;
        let name = format!("c{}", self.made);
        mkdirat(&self.directory, name.as_str(), Mode::from_bits_truncate(0o700))?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let directory = openat(&self.directory, name.as_str(), flags, Mode::empty())?;
        let procs = openat(
            &directory,
            "cgroup.procs",
            OFlag::O_RDWR | OFlag::O_CLOEXEC,
            Mode::empty(),
        )?;
        let mut held = Vec::new();
        for (limit, file, value) in [
            ("pids", "pids.max", u64::from(pids)),
            ("memory", "memory.max", memory),
        ] {
            if value > 0 && write_at(directory.as_fd(), file, &value.to_string()).is_ok() {
                held.push(limit);
            }
        }
        Ok((
            CommandCgroup {
                session: self,
                name,
                directory,
                procs,
            },
            held,
        ))
    }
}

impl CommandCgroup<'_> {
    /// The directory, and its `cgroup.procs`: the two ways in.
    #[must_use]
    pub fn ways(&self) -> (BorrowedFd<'_>, RawFd) {
        (self.directory.as_fd(), self.procs.as_raw_fd())
    }

    /// Kills everything in it.
    pub fn kill(&self) {
        // Without cgroup.kill (before 5.14) the caller's other means do the work.
        let _ = write_at(self.directory.as_fd(), "cgroup.kill", "1");
    }

    /// True while a live process is in it.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        read_at(self.directory.as_fd(), "cgroup.events").is_some_and(|text| text.contains("populated 1"))
    }

    /// Peak memory in bytes, where the controller knows it.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        read_at(self.directory.as_fd(), "memory.peak")?
            .trim()
            .parse()
            .ok()
    }

    /// Removes the directory; a populated one stays and is swept by the launcher.
    pub fn close(self) {
        let _ = unlinkat(
            &self.session.directory,
            self.name.as_str(),
            UnlinkatFlags::RemoveDir,
        );
    }
}

fn write_at(directory: BorrowedFd<'_>, name: &str, text: &str) -> std::io::Result<()> {
    let file = openat(directory, name, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}

fn read_at(directory: BorrowedFd<'_>, name: &str) -> Option<String> {
    let file = openat(directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(file).take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}
