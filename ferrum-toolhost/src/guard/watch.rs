//! One inotify instance for the life of a host: which names appeared in the writable roots.
//!
//! Walking the tree after every command would cost more than the command. The instance is never
//! closed while the host lives: closing waits for a grace period of the kernel.

use super::repos::{self, BareNames, Found};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use policy::steering::{is_obeyed_directory, is_obeyed_name};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The watch over all directories of the roots.
pub struct Watch {
    inotify: Option<Inotify>,
    paths: HashMap<WatchDescriptor, PathBuf>,
    roots: Vec<PathBuf>,
    /// Every directory is watched.
    complete: bool,
    /// Events were lost: the next look walks everything, once.
    overflowed: bool,
}

impl Watch {
    /// Watches the directories that a walk found. Where the kernel's limit is reached the watch
    /// says so by walking everything each time.
    #[must_use]
    pub fn new(roots: &[PathBuf], directories: &[PathBuf], truncated: bool) -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        let complete = inotify.is_some() && !truncated;
        let mut watch = Self {
            inotify,
            paths: HashMap::new(),
            roots: roots.to_vec(),
            complete,
            overflowed: false,
        };
        for directory in directories {
            watch.add(directory);
        }
        watch
    }

    fn add(&mut self, directory: &Path) {
        let Some(inotify) = &self.inotify else { return };
        let mask = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        match inotify.add_watch(directory, mask) {
            Ok(descriptor) => {
                self.paths.insert(descriptor, directory.to_path_buf());
            }
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => {}
            Err(_) => self.complete = false,
        }
    }

    /// Names that appeared since the last look: repositories, `.ferrum` folders, directories that
    /// git would take for bare repositories. New directories are watched from now on.
    pub fn look(&mut self) -> Found {
        let mut found = Found::default();
        let (directories, mut touched) = self.drain(&mut found.obeyed);
        if self.complete && !std::mem::take(&mut self.overflowed) {
            for directory in &directories {
                let root = self.root_of(directory);
                repos::walk_below(&root, directory, &mut found);
            }
        } else {
            for root in self.roots.clone() {
                repos::walk(&root, &mut found);
            }
        }
        for directory in found.directories.clone() {
            self.add(&directory);
        }
        // A `.git` entry or a bare repository's names in a directory that was there before.
        touched.retain(|path| {
            let is_part = path
                .file_name()
                .is_some_and(|n| BareNames::ALL.iter().any(|name| n == *name));
            if let (true, Some(parent)) = (is_part, path.parent()) {
                let mut names = BareNames::default();
                for name in BareNames::ALL {
                    if std::fs::symlink_metadata(parent.join(name)).is_ok() {
                        names.see(name.as_ref());
                    }
                }
                if names.make_a_repository() && parent.file_name().is_none_or(|n| n != ".git") {
                    found.repositories.push(repos::Repository {
                        entry: parent.into(),
                        kind: repos::EntryKind::Bare,
                        git_dir: parent.into(),
                    });
                }
            }
            !is_part
        });
        for path in touched
            .iter()
            .filter(|p| p.file_name().is_some_and(|n| n == ".git"))
        {
            found.repositories.extend(repos::repositories_at(path));
        }
        found.directories.extend(
            touched
                .into_iter()
                .filter(|p| p.file_name().is_some_and(|n| n == ".ferrum")),
        );
        found
    }

    /// The root that a directory lies in.
    fn root_of(&self, directory: &Path) -> PathBuf {
        let root = self.roots.iter().filter(|root| directory.starts_with(root));
        let root = root.max_by_key(|root| root.as_os_str().len());
        root.cloned().unwrap_or_else(|| directory.to_path_buf())
    }

    fn is_obeyed(&self, directory: &Path, name: &OsStr) -> bool {
        let below = |root: &PathBuf| directory.strip_prefix(root).is_ok_and(is_obeyed_directory);
        name.to_str().is_some_and(is_obeyed_name) || self.roots.iter().any(below)
    }

    /// New directories, and the other interesting names.
    fn drain(&mut self, obeyed: &mut Vec<PathBuf>) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
        let (mut directories, mut touched) = (BTreeSet::new(), BTreeSet::new());
        let Some(inotify) = &self.inotify else {
            return (directories, touched);
        };
        loop {
            let events = match inotify.read_events() {
                Ok(events) if !events.is_empty() => events,
                Err(Errno::EINTR) => continue,
                _ => break,
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    self.overflowed = true;
                    continue;
                }
                let (Some(parent), Some(name)) = (self.paths.get(&event.wd), event.name) else {
                    continue;
                };
                let path = parent.join(&name);
                if name == ".git" || name == ".ferrum" {
                    touched.insert(path);
                    continue;
                }
                if BareNames::ALL.iter().any(|n| name == *n) {
                    touched.insert(path.clone());
                }
                if event.mask.contains(AddWatchFlags::IN_ISDIR) {
                    directories.insert(path);
                } else if self.is_obeyed(parent, &name) {
                    obeyed.push(path);
                }
            }
        }
        (directories, touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_flood_of_names_costs_one_walk_and_hides_nothing() {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let mut watch = Watch::new(std::slice::from_ref(&root), std::slice::from_ref(&root), false);
        // Two names take turns: the queue counts events, not files.
        let (a, b) = (root.join("a"), root.join("b"));
        fs::write(&a, "").unwrap();
        for _ in 0..limit / 2 + 1 {
            fs::rename(&a, &b).unwrap();
            fs::rename(&b, &a).unwrap();
        }
        fs::create_dir_all(root.join("late/.git")).unwrap();
        let found = watch.look();
        assert_eq!(found.repositories.len(), 1);
        assert!(watch.complete && !watch.overflowed);
        fs::create_dir_all(root.join("late/deeper/.git")).unwrap();
        assert_eq!(watch.look().repositories.len(), 1);
    }
}
