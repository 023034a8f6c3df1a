//! The two Landlock layers of a session, made from the view.

use super::landlock::{Ability, DEVICE, Rules, rights_of};
use super::object::open_plain;
use super::unreadable::{self, Wanted};
use super::view::{Entry, SYSTEM, Source, View};
use crate::sys::landlock as bits;
use ferrum_proto::seal::Access;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::sys::stat::Mode;
use policy::Tier;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The host's own layer, and the narrower one that each command adds.
pub struct Layers {
    pub host: OwnedFd,
    pub command: OwnedFd,
}

/// What the layers are made from.
pub struct Plan<'a> {
    pub ability: Ability,
    pub tier: Tier,
    pub view: &'a View,
    /// The mount view is in force, so paths are those of the view and nothing else is there.
    pub mounted: bool,
    /// Where spools and config copies lie, the host's alone to write.
    pub corner: &'a Path,
    /// Config copies: commands write them too.
    pub copies: PathBuf,
    pub cgroup: Option<BorrowedFd<'a>>,
    /// One program that may run although it lies in no view.
    pub image: Option<BorrowedFd<'a>>,
}

impl Plan<'_> {
    /// # Errors
    /// The kernel's.
    pub fn build(&self) -> io::Result<Layers> {
        let (host, command) = (Rules::new(self.ability)?, Rules::new(self.ability)?);
        for rules in [&host, &command] {
            if self.tier == Tier::Low {
                self.low(rules)?;
            } else {
                self.view(rules)?;
            }
            rules.path(&self.copies, rights_of(Access::Write, false))?;
            if let Some(image) = self.image {
                rules.descriptor(image, rights_of(Access::ReadExec, true))?;
            }
        }
        host.path(self.corner, rights_of(Access::Write, false))?;
        command.path(self.corner, rights_of(Access::Read, false))?;
        if let Some(cgroup) = self.cgroup {
            host.descriptor(cgroup, rights_of(Access::Write, false))?;
        }
        Ok(Layers {
            host: host.into_descriptor(),
            command: command.into_descriptor(),
        })
    }

    /// Low may do what the user may; what is taken from it is taken by mounts and scopes.
    fn low(&self, rules: &Rules) -> io::Result<()> {
        let all = rights_of(Access::Write, true) | bits::MAKE_CHAR | bits::MAKE_BLOCK | bits::IOCTL_DEV;
        rules.path(Path::new("/"), all)
    }

    fn view(&self, rules: &Rules) -> io::Result<()> {
        for entry in &self.view.entries {
            self.entry(rules, entry)?;
        }
        for path in self.view.sockets.iter().chain(&self.view.devices) {
            rules.path(path, DEVICE)?;
        }
        rules.path(Path::new("/proc"), rights_of(Access::Read, false))?;
        if self.mounted {
            // Everything that is not in the view is not there; this lets the rest be listed, and
            // what the view adds by following links be read.
            rules.path(Path::new("/"), rights_of(Access::Read, false))?;
            rules.path(Path::new("/dev"), DEVICE)?;
            rules.path(
                Path::new("/dev/shm"),
                rights_of(Access::Write, self.tier != Tier::High),
            )?;
            return Ok(());
        }
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            rules.path(&Path::new("/dev").join(name), DEVICE)?;
        }
        for link in ["/etc/resolv.conf", "/etc/localtime"] {
            rules.path(Path::new(link), rights_of(Access::Read, false))?;
        }
        Ok(())
    }

    fn entry(&self, rules: &Rules, entry: &Entry) -> io::Result<()> {
        if entry.source == Source::Empty {
            return Ok(());
        }
        let exec = self.tier != Tier::High || SYSTEM.iter().any(|s| Path::new(s) == entry.path);
        // A layered toolchain takes writes into the session's layer; without mounts it is the
        // user's own and stays read-only.
        let layered = self.mounted && entry.source == Source::Layered && self.tier != Tier::High;
        let access = if layered { Access::Write } else { entry.access };
        let (path, rights) = (self.place(entry), rights_of(access, exec));
        if self.mounted || matches!(entry.source, Source::Other(_)) {
            return rules.path(path, rights);
        }
        // uid 0 reads as the owner, and nothing can be covered.
        let is_root = nix::unistd::geteuid().is_root();
        if is_root && path == Path::new("/etc") {
            return readable_entries(rules, path, 0);
        }
        if is_root && path == Path::new("/opt") {
            let roots = self.view.entries.iter().filter(|entry| entry.object.is_some());
            let roots: Vec<PathBuf> = roots.map(|entry| entry.path.clone()).collect();
            return readable_parts(rules, path, &unreadable::of(path, &roots, Wanted::All), rights);
        }
        if entry.is_system() {
            return rules.path(path, rights);
        }
        judged(rules, entry, rights)
    }

    fn place<'a>(&self, entry: &'a Entry) -> &'a Path {
        match &entry.source {
            Source::Other(path) if !self.mounted => path,
            Source::Other(_) | Source::Same | Source::Layered | Source::Empty => &entry.path,
        }
    }
}

/// Allows what was judged: opened by names that are no links, since commands may have written there.
fn judged(rules: &Rules, entry: &Entry, rights: u64) -> io::Result<()> {
    let root = open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    match entry.open(root.as_fd()) {
        Ok(opened) => rules.descriptor(opened.as_fd(), rights),
        // What is no root and not there, or is a link, is nothing to allow.
        Err(_) if entry.object.is_none() => Ok(()),
        Err(error) => Err(error),
    }
}

/// uid 0 without mounts: `/etc` file by file, as far as others may read.
fn readable_entries(rules: &Rules, directory: &Path, depth: usize) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    const DEPTH_MAX: usize = 6;
    for entry in std::fs::read_dir(directory)?.flatten() {
        let path = entry.path();
        let Ok(meta) = std::fs::metadata(&path) else {
            continue;
        };
        let mode = meta.permissions().mode();
        if meta.is_file() && mode & 0o004 != 0 {
            rules.path(&path, rights_of(Access::Read, false))?;
        } else if meta.is_dir()
            && mode & 0o005 == 0o005
            && depth < DEPTH_MAX
            && entry.file_type().is_ok_and(|t| t.is_dir())
        {
            readable_entries(rules, &path, depth + 1)?;
        }
    }
    rules.path(directory, bits::READ_DIR)
}

/// uid 0 without mounts: programs lie in `/opt`, with more files than rules should be made for, so
/// a directory is allowed whole where nothing in it is for some users only.
fn readable_parts(rules: &Rules, top: &Path, closed: &[(PathBuf, bool)], rights: u64) -> io::Result<()> {
    if closed.iter().any(|(path, _)| path == top) {
        return Ok(());
    }
    if closed.iter().all(|(path, _)| !path.starts_with(top)) {
        return match open_plain(AT_FDCWD, top) {
            Ok(opened) => rules.descriptor(opened.as_fd(), rights),
            Err(_) => Ok(()),
        };
    }
    for entry in std::fs::read_dir(top)?.flatten() {
        readable_parts(rules, &entry.path(), closed, rights)?;
    }
    rules.path(top, bits::READ_DIR)
}

/// The corner's config copies.
#[must_use]
pub fn copies_of(corner: &Path) -> PathBuf {
    corner.join("git")
}
