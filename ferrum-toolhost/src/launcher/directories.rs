//! Session directories on disk: made at the start, found again by each new host, removed at the
//! end. A lock that lives as long as the launcher tells a live one from one that was left behind.

use super::cgroup;
use crate::fs::removal::remove;
use ferrum_proto::charter::{Charter, HomeMode};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Where sessions of root over somebody else's directory lie: root's own cache is closed to that user.
const PASSABLE: &str = "/var/cache/ferrum";

/// The session's directories.
pub struct Directories {
    /// `<cache>/sessions/<name>`.
    pub session: PathBuf,
    pub name: String,
    homes: PathBuf,
    /// Another uid can reach them.
    pub passable: bool,
    _lock: File,
}

impl Directories {
    /// Makes the session's directory, where `passable` in a place that another uid can reach, and sweeps those that dead launchers left.
    ///
    /// # Errors
    /// A reason in words, naming the directory.
    pub fn make(charter: &Charter, passable: bool) -> Result<Self, String> {
        let base = base(charter, passable)?;
        let sessions = base.join("sessions");
        let homes = base.join("homes");
        for directory in [&sessions, &homes] {
            private(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        }
        if passable {
            open_way(&[&base, &sessions, &homes])?;
        }
        sweep(&sessions);
        let name = format!(
            "ferrum-{}-{}",
            std::process::id(),
            random().map_err(|e| format!("/dev/urandom: {e}"))?
        );
        let session = sessions.join(&name);
        let at = |e: io::Error| format!("{}: {e}", session.display());
        private(&session).map_err(at)?;
        if passable {
            open_way(&[&session])?;
        }
        let lock = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(session.join("lock"))
            .and_then(|file| file.lock().map(|()| file))
            .map_err(at)?;
        Ok(Self {
            session,
            name,
            homes,
            passable,
            _lock: lock,
        })
    }

    /// Where hosts for one working directory find theirs.
    pub fn for_cwd(&self, cwd: &Path, mode: HomeMode) -> Places {
        let key = key_of(cwd);
        let session = self.session.join(&key);
        let home = match mode {
            HomeMode::Project => self.homes.join(&key),
            HomeMode::Fresh => session.join("home"),
        };
        Places { session, home }
    }

    /// Removes the session's directory with everything in it.
    pub fn remove(&self) {
        // What cannot be removed now is swept at the next start.
        let _ = remove(&self.session);
    }
}

/// The directories of hosts for one working directory.
pub struct Places {
    pub session: PathBuf,
    pub home: PathBuf,
}

impl Places {
    /// Makes them, owned by who will use them.
    ///
    /// # Errors
    /// A reason in words.
    pub fn make(&self, owner: Option<(u32, u32)>) -> Result<(), String> {
        let parts = ["tmp", "vartmp", "layers", "corner"].map(|p| self.session.join(p));
        for directory in [&self.session].into_iter().chain(&parts).chain([&self.home]) {
            // As in any /tmp: several programs of the session may share it.
            let is_shared = parts[..2].contains(directory);
            private(directory)
                .and_then(|()| settle(directory, is_shared, owner))
                .map_err(|e| format!("{}: {e}", directory.display()))?;
        }
        Ok(())
    }
}

/// The cache directory; where the user has none that can be written, a private one in `/tmp`.
fn base(charter: &Charter, passable: bool) -> Result<PathBuf, String> {
    if passable {
        return Ok(PathBuf::from(PASSABLE));
    }
    let cache = charter.places.cache.to_path_buf();
    let Err(problem) = private(&cache.join("sessions")) else {
        return Ok(cache);
    };
    let uid = nix::unistd::geteuid();
    let spare = PathBuf::from(format!("/tmp/ferrum-{uid}"));
    let is_ours = private(&spare).and_then(|()| fs::symlink_metadata(&spare));
    match is_ours {
        Ok(meta) if meta.uid() == uid.as_raw() && meta.mode() & 0o077 == 0 => Ok(spare),
        _ => Err(format!(
            "{}: {problem}; set XDG_CACHE_HOME to a directory that can be written",
            cache.display()
        )),
    }
}

/// A directory of mode 0700 that is ours; one that is somebody else's is refused.
fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    Ok(())
}

/// Opens a directory to all, and gives it to another uid. It may lie in one that is that uid's already,
/// so all is done to what was opened, and no link is followed that was put in its place meanwhile.
fn settle(directory: &Path, is_shared: bool, owner: Option<(u32, u32)>) -> io::Result<()> {
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(directory)?;
    if is_shared {
        opened.set_permissions(fs::Permissions::from_mode(0o1777))?;
    }
    owner.map_or(Ok(()), |(uid, gid)| fchown(&opened, Some(uid), Some(gid)))
}

/// Another uid has to pass through our directories to reach its own, but not to list them. Only
/// directories below [`PASSABLE`] are ever opened so: none of the user's own.
fn open_way(directories: &[&Path]) -> Result<(), String> {
    directories.iter().try_for_each(|directory| {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o711))
            .map_err(|e| format!("{}: {e}", directory.display()))
    })
}

/// A short stable name for a directory: the end of its path, and a hash of the whole.
fn key_of(path: &Path) -> String {
    // FNV-1a: names, not secrets.
    let hash = path
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        });
    let name: String = path
        .file_name()
        .map(|n| {
            n.to_string_lossy()
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
                .take(24)
                .collect()
        })
        .unwrap_or_default();
    format!("{name}-{hash:016x}")
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Removes what launchers left that are dead: their lock is free.
fn sweep(sessions: &Path) {
    for entry in fs::read_dir(sessions).into_iter().flatten().flatten() {
        let lock = fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(entry.path().join("lock"));
        match lock {
            Ok(lock) if lock.try_lock().is_ok() => {}
            // Made this instant, or left without a lock: an hour tells the two apart.
            Err(_) if is_older_than_an_hour(&entry.path()) => {}
            _ => continue,
        }
        if let Some(name) = entry.file_name().to_str() {
            cgroup::sweep(name);
        }
        let _ = remove(&entry.path());
    }
}

fn is_older_than_an_hour(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|m| m.modified()).ok();
    modified
        .and_then(|m| m.elapsed().ok())
        .is_some_and(|age| age.as_secs() > 3600)
}
