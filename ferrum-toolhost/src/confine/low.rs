//! The view of tier low: the machine as the user sees it, with single places covered.

use super::cover::{bind_here, cover as cover_with_nothing};
use super::proc::cover_proc;
use super::step::Step;
use crate::report;
use crate::sys::mount as sys;
use ferrum_proto::seal::{Access, Seal, ViewEntry};
use ferrum_proto::terms::PathBytes;
use nix::mount::{MsFlags, mount};
use nix::unistd::{AccessFlags, access};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Sockets through which somebody else acts with the user's authority, or more.
const SOCKETS: &[&str] = &[
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/systemd/private",
    "/run/systemd/journal/socket",
    "/run/dbus/system_bus_socket",
    "/run/snapd.socket",
];

/// The same below the user's runtime directory.
const USER_SOCKETS: &[&str] = &[
    "bus",
    "systemd/private",
    "podman/podman.sock",
    "docker.sock",
    "pipewire-0",
    "wayland-0",
];

/// Covers what low takes away from the user's own authority.
///
/// # Errors
/// [`Step`].
pub fn cover(seal: &Seal) -> Result<(), Step> {
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .map_err(|e| Step {
        what: "make mounts private".into(),
        source: e.into(),
    })?;
    let places = &seal.charter.places;
    let home = places.home.as_path();
    pin_ways(&own_and_known(seal))?;
    for path in [&places.config, &places.data] {
        absent(path.as_path())?;
    }
    for relative in policy::protect::CREDENTIALS_HOME {
        absent(&home.join(relative))?;
    }
    let start_up = policy::protect::START_UP_HOME.iter().map(|name| home.join(name));
    let system = policy::protect::SYSTEM_UNWRITABLE.iter().map(PathBuf::from);
    for path in start_up.chain(system.filter(|path| !is_kernel_tree(path))) {
        read_only(&path)?;
    }
    // Private homes and session directories: what a later session is built from. The session's own
    // corner stays open.
    let corners = seal.session_dir.as_path().join("corner");
    keep_writable(&corners, || read_only(places.cache.as_path()))?;
    let runtime = PathBuf::from(format!("/run/user/{}", nix::unistd::geteuid()));
    let sockets = SOCKETS
        .iter()
        .map(PathBuf::from)
        .chain(USER_SOCKETS.iter().map(|s| runtime.join(s)));
    for socket in sockets {
        if fs::symlink_metadata(&socket).is_ok_and(|m| m.file_type().is_socket()) {
            cover_with_nothing(&socket, false)?;
        }
    }
    terminals()?;
    consoles()?;
    cover_proc()
}

/// Ferrum's own places, and all names of the home that low takes away or makes read-only.
fn own_and_known(seal: &Seal) -> Vec<PathBuf> {
    let places = &seal.charter.places;
    let home = places.home.as_path();
    let known = policy::protect::CREDENTIALS_HOME
        .iter()
        .chain(policy::protect::START_UP_HOME)
        .map(|name| home.join(name));
    let own = [&places.config, &places.data, &places.cache].map(|place| place.to_path_buf());
    own.into_iter().chain(known).collect()
}

/// Binds on itself whatever leads to one of `paths` and could be renamed or replaced: a cover moves
/// along with the directory around it, and the old name would then be free.
fn pin_ways(paths: &[PathBuf]) -> Result<(), Step> {
    let mut ways = BTreeSet::new();
    for path in paths {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        for way in path.ancestors().chain(real.ancestors()) {
            let is_end = way == path || way == real;
            let Ok(meta) = fs::symlink_metadata(way) else {
                continue;
            };
            let is_open = way
                .parent()
                .is_some_and(|parent| access(parent, AccessFlags::W_OK).is_ok());
            if is_open && (meta.is_symlink() || meta.is_dir() && !is_end) {
                ways.insert((way.components().count(), way.to_path_buf()));
            }
        }
    }
    // From the top down: what lies below is bound in what was bound before.
    ways.iter().try_for_each(|(_, way)| bind_here(way, way, false))
}

/// The view of low, as it is reported: everything, less what is covered.
#[must_use]
pub fn entries(seal: &Seal, covered: bool) -> Vec<ViewEntry> {
    let places = &seal.charter.places;
    let home = places.home.as_path();
    let below_home = |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<Vec<_>>();
    let own = [&places.config, &places.data].map(|place| place.to_path_buf());
    let system = policy::protect::SYSTEM_UNWRITABLE.iter().map(PathBuf::from);
    let system: Vec<PathBuf> = system.filter(|path| !is_kernel_tree(path)).collect();
    let groups = [
        (own.to_vec(), Access::None, "Ferrum's own"),
        (
            below_home(policy::protect::CREDENTIALS_HOME),
            Access::None,
            "credentials",
        ),
        (
            below_home(policy::protect::START_UP_HOME),
            Access::Read,
            "run on their own",
        ),
        (system, Access::Read, "system"),
        (vec![places.cache.to_path_buf()], Access::Read, "Ferrum's own"),
    ];
    let entry = |path: &Path, access, why: &str, held_by: &[(&str, bool)]| ViewEntry {
        path: PathBytes::from(path),
        access,
        why: why.into(),
        held_by: report::names(held_by),
    };
    let mut entries = vec![entry(Path::new("/"), Access::Write, "all that you may", &[])];
    for (paths, access, why) in groups {
        let there = paths.iter().filter(|path| fs::symlink_metadata(path).is_ok());
        entries.extend(there.map(|path| entry(path, access, why, &[("mount view", covered)])));
    }
    entries
}

/// Covered in part, by `cover_proc`, or full of what ordinary programs write.
fn is_kernel_tree(path: &Path) -> bool {
    path == Path::new("/proc") || path == Path::new("/dev")
}

/// Where a link leads counts: that is what programs read.
fn read_only(path: &Path) -> Result<(), Step> {
    match fs::canonicalize(path) {
        Ok(real) => bind_here(&real, &real, true),
        Err(_) => Ok(()),
    }
}

/// Takes `path` as it is, makes what is around it narrower by `narrow`, and puts it in again.
fn keep_writable(path: &Path, narrow: impl Fn() -> Result<(), Step>) -> Result<(), Step> {
    let step = |source| Step {
        what: format!("keep {} writable", path.display()),
        source,
    };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| step(e.into()))?;
    let tree = sys::clone_tree(nix::fcntl::AT_FDCWD, &name, true, false).map_err(step)?;
    narrow()?;
    sys::attach(tree.as_fd(), &name).map_err(step)
}

/// Names of the home that are held by looking again after each call: start-up files, which may be
/// absent or links, and places of credentials that are not there.
#[must_use]
pub fn watched(seal: &Seal) -> Vec<PathBuf> {
    let home = seal.charter.places.home.as_path();
    let start_up = policy::protect::START_UP_HOME.iter().map(|name| home.join(name));
    let own = [&seal.charter.places.config, &seal.charter.places.data].map(|place| place.to_path_buf());
    let absent = policy::protect::CREDENTIALS_HOME
        .iter()
        .map(|name| home.join(name))
        .chain(own)
        .filter(|path| fs::symlink_metadata(path).is_err());
    start_up.chain(absent).collect()
}

/// Nothing at all, whatever it is.
fn absent(path: &Path) -> Result<(), Step> {
    let Ok(real) = fs::canonicalize(path) else {
        return Ok(());
    };
    match fs::metadata(&real) {
        Ok(meta) if meta.is_dir() => cover_with_nothing(&real, true),
        Ok(_) => cover_with_nothing(&real, false),
        Err(_) => Ok(()),
    }
}

/// Terminals of this session only: the operator's is a device that its uid may open.
fn terminals() -> Result<(), Step> {
    if !Path::new("/dev/pts").is_dir() {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(
        Some("devpts"),
        "/dev/pts",
        Some("devpts"),
        flags,
        Some("newinstance,ptmxmode=0666,mode=620"),
    )
    .map_err(|e| Step {
        what: "mount /dev/pts".into(),
        source: e.into(),
    })?;
    let ptmx = Path::new("/dev/ptmx");
    if fs::symlink_metadata(ptmx).is_ok_and(|m| m.file_type().is_char_device()) {
        bind_here(Path::new("/dev/pts/ptmx"), ptmx, false)?;
    }
    Ok(())
}

/// Terminals that are no pseudo-terminals: text and serial consoles, screens, and `/dev/console`, which
/// in a container is the operator's own. A converter at a bus (`ttyUSB`, `ttyACM`) is a tool of the work.
fn consoles() -> Result<(), Step> {
    let is_console = |device: u64| {
        matches!(
            (libc::major(device), libc::minor(device)),
            (4 | 7 | 136..=143 | 204 | 229, _) | (5, 1)
        )
    };
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let path = entry.path();
        let found =
            fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_char_device() && is_console(m.rdev()));
        let is_open = || {
            [AccessFlags::R_OK, AccessFlags::W_OK]
                .iter()
                .any(|way| access(&path, *way).is_ok())
        };
        if found && is_open() {
            cover_with_nothing(&path, false)?;
        }
    }
    Ok(())
}
