//! The view as Landlock rules: one layer for the host, a narrower one for each command.

use crate::sys::landlock as sys;
use ferrum_proto::seal::Access;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const READ: u64 = sys::READ_FILE | sys::READ_DIR;
const FILE_RIGHTS: u64 = sys::EXECUTE | sys::WRITE_FILE | sys::READ_FILE | sys::TRUNCATE | sys::IOCTL_DEV;

/// What the kernel's Landlock can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ability {
    pub abi: u32,
}

impl Ability {
    #[must_use]
    pub fn probe() -> Self {
        Self { abi: sys::abi() }
    }

    /// Every file right that this kernel can hold.
    #[must_use]
    pub fn rights(self) -> u64 {
        let mut rights = sys::REFER - 1;
        if self.abi >= 2 {
            rights |= sys::REFER;
        }
        if self.abi >= 3 {
            rights |= sys::TRUNCATE;
        }
        if self.abi >= 5 {
            rights |= sys::IOCTL_DEV;
        }
        rights
    }

    fn scopes(self) -> u64 {
        if self.abi >= 6 {
            sys::SCOPE_ABSTRACT_UNIX | sys::SCOPE_SIGNAL
        } else {
            0
        }
    }
}

/// A rule set under construction.
pub struct Rules {
    set: OwnedFd,
    rights: u64,
}

impl Rules {
    /// # Errors
    /// The kernel's.
    pub fn new(ability: Ability) -> io::Result<Self> {
        let rights = ability.rights();
        Ok(Self {
            set: sys::create(rights, ability.scopes())?,
            rights,
        })
    }

    /// Rules that leave out the scopes: for a session that may speak to abstract sockets outside.
    ///
    /// # Errors
    /// The kernel's.
    pub fn without_socket_scope(ability: Ability) -> io::Result<Self> {
        let rights = ability.rights();
        let scopes = ability.scopes() & !sys::SCOPE_ABSTRACT_UNIX;
        Ok(Self {
            set: sys::create(rights, scopes)?,
            rights,
        })
    }

    /// Allows `rights` at a path; a path that is not there is nothing to allow.
    ///
    /// # Errors
    /// The kernel's.
    pub fn path(&self, path: &Path, rights: u64) -> io::Result<()> {
        let opened = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        match opened {
            Ok(fd) => self.descriptor(fd.as_fd(), rights),
            Err(nix::Error::ENOENT | nix::Error::EACCES | nix::Error::ENOTDIR | nix::Error::ELOOP) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Allows `rights` at an open object.
    ///
    /// # Errors
    /// The kernel's.
    pub fn descriptor(&self, fd: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
        let is_directory = nix::sys::stat::fstat(fd)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let mut rights = rights & self.rights;
        if !is_directory {
            rights &= FILE_RIGHTS;
        }
        if rights == 0 {
            return Ok(());
        }
        sys::allow(self.set.as_fd(), fd, rights)
    }

    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.set
    }
}

/// The rights of one access of the view. `exec` is false at high outside system directories.
#[must_use]
pub fn rights_of(access: Access, exec: bool) -> u64 {
    let exec = if exec { sys::EXECUTE } else { 0 };
    match access {
        Access::None => 0,
        Access::Read => READ,
        Access::ReadExec => READ | exec,
        Access::Write => {
            READ | exec
                | sys::WRITE_FILE
                | sys::TRUNCATE
                | sys::REMOVE_DIR
                | sys::REMOVE_FILE
                | sys::MAKE_DIR
                | sys::MAKE_REG
                | sys::MAKE_SOCK
                | sys::MAKE_FIFO
                | sys::MAKE_SYM
                | sys::REFER
        }
    }
}

/// Rights on a device or terminal node.
pub const DEVICE: u64 = sys::READ_FILE | sys::WRITE_FILE | sys::TRUNCATE | sys::IOCTL_DEV | sys::READ_DIR;

/// Restricts the calling thread.
///
/// # Errors
/// The kernel's.
pub fn apply(rules: &OwnedFd) -> io::Result<()> {
    sys::restrict_self(rules.as_fd())
}

/// For the reader thread: everything may be read, nothing written or executed.
///
/// # Errors
/// The kernel's.
pub fn read_only(ability: Ability) -> io::Result<()> {
    let rules = Rules::new(ability)?;
    rules.path(Path::new("/"), READ)?;
    apply(&rules.into_descriptor())
}

/// As [`read_only`], and `program` may be started: with it the loader and the libraries, which lie
/// in the system's library directories.
///
/// # Errors
/// The kernel's.
pub fn read_only_but(ability: Ability, program: &Path) -> io::Result<()> {
    let rules = Rules::new(ability)?;
    rules.path(Path::new("/"), READ)?;
    for place in [
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/usr/lib",
        "/usr/lib32",
        "/usr/lib64",
        "/nix",
        "/gnu",
    ] {
        rules.path(Path::new(place), READ | sys::EXECUTE)?;
    }
    rules.path(program, READ | sys::EXECUTE)?;
    // Where bash's own output goes.
    rules.path(Path::new("/dev/null"), READ | sys::WRITE_FILE)?;
    apply(&rules.into_descriptor())
}
