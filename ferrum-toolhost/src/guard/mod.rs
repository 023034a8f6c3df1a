//! What git, a shell or Ferrum would run on their own for this checkout, and how it stays as it is.
//!
//! With the mount view the parts are covered: git directories are bound on themselves so that they
//! cannot be renamed, hooks and pointers are read-only, and `config` is redirected to a private
//! copy whose harmless changes are merged back after each call. What mounts cannot hold (absent
//! names, covers lost to somebody outside, forged or new repositories) and everything where there
//! is no mount view is looked at after each call and put back.

pub mod config;
mod first;
mod folder;
mod fresh;
mod guarded;
mod inventory;
mod moved;
mod named;
pub mod obeyed;
pub mod parts;
mod redirect;
mod remotes;
pub mod repos;
mod sockets;
mod sparse;
mod steering;
mod watch;

use crate::confine::cover::bind_here;
use crate::confine::step::Step;
use crate::fs::atomic;
use crate::fs::removal::open_to_owner;
use ferrum_proto::reply::Survey;
use folder::Folder;
use fresh::Fresh;
use guarded::Guarded;
pub use guarded::LEFTOVERS;
use named::{Bases, named};
use parts::Part;
use repos::{Found, Repository};
pub use sockets::close_sockets;
use sockets::cover_sockets;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use steering::Obeyed;
use watch::Watch;

/// Lines that one look tells at most; a command may plant any number of repositories.
const FINDINGS_MAX: usize = 20;

/// Watches over the protected parts of one session.
pub struct Guard {
    guarded: Vec<Guarded>,
    folders: Vec<Folder>,
    watch: Watch,
    obeyed: Obeyed,
    /// What the watch saw before the turn's first act, for the look after it.
    earlier: Found,
    /// New repositories, each with what was told of it.
    fresh: BTreeMap<PathBuf, Fresh>,
    /// Where private homes and session directories lie on the machine.
    private: Vec<PathBuf>,
    /// Directories that somebody had closed before the call.
    closed: Vec<Closed>,
    writable: Vec<PathBuf>,
    /// Where config copies of this host lie, in the mount view.
    copies: Option<PathBuf>,
    /// The known places are as they are to be.
    secured: Arc<AtomicBool>,
}

/// What a look after a call found, one line each, for the result and the operator.
pub type Findings = Vec<String>;

impl Guard {
    /// Takes stock of the writable roots, of git directories outside them and of single paths that
    /// are to stay as they are. With a place for config copies, covers what it finds by mounts.
    ///
    /// # Errors
    /// [`Step`] where a cover fails.
    pub fn new(
        writable: &[PathBuf],
        outside: Vec<Repository>,
        single: Vec<PathBuf>,
        copies: Option<PathBuf>,
    ) -> Result<Self, Step> {
        let mut found = Found::default();
        for root in writable {
            repos::walk(root, &mut found);
        }
        for directory in &found.unfinished {
            // What cannot be removed now goes with the next write in that directory.
            let _ = atomic::sweep_at(directory);
        }
        let watch = Watch::new(writable, &found.directories, found.truncated);
        let obeyed = Obeyed::new(writable, std::mem::take(&mut found.obeyed));
        let mut repositories = outside;
        repositories.append(&mut found.repositories);
        let mut seen = BTreeSet::new();
        repositories.retain(|r| seen.insert(r.entry.clone()));
        let shared = repos::shared(&repositories);
        let mut guarded: Vec<Guarded> = repositories.into_iter().map(Guarded::new).collect();
        for one in &mut guarded {
            one.is_pin = shared.contains(&one.repository.entry);
            one.is_nested = repos::is_nested(&one.repository.entry, writable);
        }
        let folders: Vec<Folder> = writable
            .iter()
            .map(|root| (root.join(".ferrum"), false))
            .chain(single.into_iter().map(|path| (path, true)))
            .map(|(path, in_home)| Folder {
                part: Part::of(&path),
                path,
                in_home,
            })
            .collect();
        if let Some(copies) = &copies {
            let held = guarded.iter_mut().filter(|g| !g.is_nested);
            for (number, one) in held.enumerate() {
                one.cover(&copies.join(number.to_string()))?;
            }
            for folder in folders.iter().filter(|f| f.part != Part::Absent) {
                bind_here(&folder.path, &folder.path, true)?;
            }
            cover_sockets(&found.sockets)?;
        }
        Ok(Self {
            guarded,
            folders,
            watch,
            obeyed,
            earlier: Found::default(),
            fresh: BTreeMap::new(),
            private: Vec::new(),
            closed: Vec::new(),
            writable: writable.to_vec(),
            copies,
            secured: Arc::default(),
        })
    }

    /// Tells where directories of the session lie that commands write under another name.
    #[must_use]
    pub fn with_private(mut self, places: Vec<PathBuf>) -> Self {
        self.private = places;
        self
    }

    /// Keeps in mind what git's settings lead to in the roots: those of the repositories and
    /// `own`, the user's.
    #[must_use]
    pub fn with_settings<'a>(mut self, own: impl Iterator<Item = &'a str> + Clone, home: &Path) -> Self {
        for one in &self.guarded {
            let Some(top) = one.repository.entry.parent() else {
                continue;
            };
            let file = one.repository.git_dir.as_path();
            let bases = Bases { file, top, home };
            self.obeyed.name(named(&one.first, &bases));
            for text in own.clone() {
                self.obeyed.name(named(text, &bases));
            }
        }
        self
    }

    /// Set while a call's look goes on, once what stands in known places is put back.
    #[must_use]
    pub fn secured(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.secured)
    }

    /// Before a call: whatever changed since the last look was done by somebody outside, who may.
    pub fn before(&mut self) {
        self.secured.store(false, Ordering::SeqCst);
        self.begin();
        for one in &mut self.guarded {
            one.before();
        }
        for folder in &mut self.folders {
            folder.part = Part::of(&folder.path);
        }
        self.closed = self.ways(false);
    }

    /// Before the first act of a turn: names that appeared until now are somebody else's.
    pub fn begin(&mut self) {
        if self.obeyed.begin() {
            let found = self.watch.look();
            self.obeyed.know(&found.obeyed);
            self.earlier.absorb(found);
        }
    }

    /// A file tool wrote these.
    pub fn wrote(&mut self, paths: &[PathBuf]) {
        self.obeyed.wrote(paths);
    }

    /// What was touched since the last survey.
    pub fn survey(&mut self) -> Survey {
        self.obeyed.survey()
    }

    /// After a call: merges, puts back, and tells what it found.
    pub fn after(&mut self) -> Findings {
        let opened = self.ways(true);
        let mut findings = self.put_back_first();
        let mut found = self.watch.look();
        self.obeyed.see(&found.obeyed);
        found.absorb(std::mem::take(&mut self.earlier));
        // What was moved alone comes back first: what lies in it has not gone anywhere then.
        for one in &mut self.guarded {
            findings.extend(one.moved_back(&self.writable));
        }
        self.follow(&found.repositories);
        for one in &mut self.guarded {
            one.after(&mut findings);
        }
        self.new_ones(found, &mut findings);
        self.disarm(&mut findings);
        // What could not be put back was tried twice.
        let mut told = BTreeSet::new();
        findings.retain(|line| told.insert(line.clone()));
        let more = findings.len().saturating_sub(FINDINGS_MAX);
        if more > 0 {
            findings.truncate(FINDINGS_MAX);
            findings.push(format!("and {more} more"));
        }
        self.obeyed.found(&findings);
        // What a command closed stays open: a later session must find what lies in it.
        for (directory, mode) in opened.iter().filter(|way| self.closed.contains(way)) {
            let _ = fs::set_permissions(directory, fs::Permissions::from_mode(*mode));
        }
        findings
    }
}

/// A directory that its owner cannot look into, with its mode.
type Closed = (PathBuf, u32);

impl Guard {
    /// Directories on the way to something protected in which a look would find nothing. They are
    /// opened where that is asked for.
    fn ways(&self, open: bool) -> Vec<Closed> {
        let places = self.guarded.iter().map(|one| one.repository.git_dir.as_path());
        let places = places.chain(self.writable.iter().map(PathBuf::as_path));
        places
            .flat_map(|place| way(place, &self.writable, open))
            .collect()
    }
}

fn way(path: &Path, roots: &[PathBuf], open: bool) -> Vec<Closed> {
    let Some(root) = roots.iter().find(|root| path.starts_with(root)) else {
        return Vec::new();
    };
    let mut way: Vec<&Path> = path.ancestors().take_while(|p| p.starts_with(root)).collect();
    way.reverse();
    let mut closed = Vec::new();
    for directory in way {
        let Ok(meta) = fs::symlink_metadata(directory) else {
            break;
        };
        if meta.is_dir() && meta.mode() & 0o500 != 0o500 {
            if open {
                // Where that fails the look goes on as far as it can.
                let _ = open_to_owner(directory);
            }
            closed.push((directory.to_path_buf(), meta.mode() & 0o7777));
        }
    }
    closed
}
