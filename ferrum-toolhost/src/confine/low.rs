//! The view of tier low: the machine as the user sees it, with single places covered.

use super::mounts::{Step, bind_here, cover as cover_with_nothing, cover_proc};
use ferrum_proto::seal::Seal;
use nix::mount::{MsFlags, mount};
use std::fs;
use std::os::unix::fs::FileTypeExt;
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
    for path in [&places.config, &places.data] {
        absent(path.as_path())?;
    }
    for relative in policy::protect::CREDENTIALS_HOME {
        absent(&home.join(relative))?;
    }
    for relative in policy::protect::START_UP_HOME {
        let path = home.join(relative);
        if fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() || m.is_dir()) {
            bind_here(&path, &path, true)?;
        }
    }
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
    cover_proc()
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
