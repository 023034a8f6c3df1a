//! uid 0 reads system files as their owner, with no capability at all. Finds what others may not
//! read, so that it can be covered.
//!
//! The search runs beside the building of the view and touches only descriptors, so it does not
//! care that the root changes under it.

use super::mounts::{Step, cover};
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, fstatat};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Entries that one search looks at. What lies deeper is covered whole.
const ENTRIES_MAX: usize = 20_000;

/// A search under way.
pub struct Search(JoinHandle<Vec<Unreadable>>);

struct Unreadable {
    path: PathBuf,
    is_directory: bool,
}

/// Starts looking below each of `tops`.
///
/// # Errors
/// No thread is to be had.
pub fn search(tops: &'static [&'static str]) -> Result<Search, Step> {
    std::thread::Builder::new()
        .spawn(move || tops.iter().flat_map(|top| below(Path::new(top))).collect())
        .map(Search)
        .map_err(|source| step("look for unreadable system files", source))
}

impl Search {
    /// Waits for the end of the search and covers what it found.
    ///
    /// # Errors
    /// [`Step`].
    pub fn cover(self) -> Result<(), Step> {
        let found = self
            .0
            .join()
            .map_err(|_| step("look for unreadable system files", io::Error::other("a panic")))?;
        found
            .iter()
            .try_for_each(|one| cover(&one.path, one.is_directory))
    }
}

fn step(what: &str, source: io::Error) -> Step {
    Step {
        what: what.into(),
        source,
    }
}

fn below(top: &Path) -> Vec<Unreadable> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let mut found = Vec::new();
    let Ok(start) = Dir::open(top, flags, Mode::empty()) else {
        return found;
    };
    let mut seen = 0;
    let mut open = vec![(top.to_path_buf(), start)];
    while let Some((path, mut directory)) = open.pop() {
        let mut names = Vec::new();
        for entry in directory.iter().flatten() {
            let is_itself = matches!(entry.file_name().to_bytes(), b"." | b"..");
            if !is_itself && entry.file_type() != Some(Type::Symlink) {
                names.push(entry.file_name().to_owned());
            }
        }
        seen += names.len();
        for name in names {
            let Ok(stat) = fstatat(directory.as_fd(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            let (kind, mode) = (stat.st_mode & libc::S_IFMT, stat.st_mode);
            let is_directory = kind == libc::S_IFDIR;
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            let readable = if is_directory {
                mode & 0o005 == 0o005
            } else {
                mode & 0o004 != 0
            };
            let inside = (is_directory && readable && seen < ENTRIES_MAX)
                .then(|| Dir::openat(directory.as_fd(), name.as_c_str(), flags, Mode::empty()).ok())
                .flatten();
            match inside {
                Some(inside) => open.push((path, inside)),
                None if is_directory || (kind == libc::S_IFREG && !readable) => {
                    found.push(Unreadable { path, is_directory });
                }
                None => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn closed_files_and_directories_are_found_and_open_ones_are_not() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = root.path().join(name);
            if name.ends_with('/') {
                fs::create_dir(&path).unwrap();
            } else {
                fs::write(&path, "x").unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make("open/", 0o755);
        make("open/key", 0o640);
        make("open/text", 0o644);
        make("closed/", 0o750);
        let mut names: Vec<PathBuf> = below(root.path()).into_iter().map(|u| u.path).collect();
        names.sort();
        assert_eq!(names, [root.path().join("closed"), root.path().join("open/key")]);
    }
}
