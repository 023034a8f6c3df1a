//! Mounting over a path of the view: what is there stays as it is, or is seen no more.

use super::step::{At, Step};
use crate::sys::mount as sys;
use nix::mount::{MsFlags, mount};
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Binds a path of the view over another path of the view; links at the end are not followed.
///
/// # Errors
/// [`Step`].
pub fn bind_here(from: &Path, to: &Path, read_only: bool) -> Result<(), Step> {
    let name = || format!("cover {}", to.display());
    let here = nix::fcntl::AT_FDCWD;
    let tree = sys::clone_tree(here, &c_path(from)?, true, false).at(name())?;
    let mut attributes = sys::ATTR_NOSUID;
    if read_only {
        attributes |= sys::ATTR_RDONLY;
    }
    sys::set_attributes(tree.as_fd(), attributes, true).at(name())?;
    sys::attach(tree.as_fd(), &c_path(to)?).at(name())
}

/// Covers a path with nothing: an empty directory of mode 000, or `/dev/null`.
///
/// # Errors
/// [`Step`].
pub fn cover(path: &Path, is_directory: bool) -> Result<(), Step> {
    if !is_directory {
        return bind_here(Path::new("/dev/null"), path, true);
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mount(Some("none"), path, Some("tmpfs"), flags, Some("mode=000,size=4k"))
        .at(format!("cover {}", path.display()))
}

/// Mounts a filesystem in memory that no program is started from.
///
/// # Errors
/// [`Step`].
pub fn mount_memory(path: &Path, options: &str) -> Result<(), Step> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("ferrum"), path, Some("tmpfs"), flags, Some(options)).at(format!("mount {}", path.display()))
}

pub(super) fn c_path(path: &Path) -> Result<CString, Step> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|e| Step::new(path.display().to_string(), io::Error::from(e)))
}
