//! Building what a session will see: by mounts from nothing, by covers at low, or without mounts.

use super::{DENIED, DENIED_PROC, Start};
use crate::confine::cover::mount_memory;
use crate::confine::mounts::{self, Tree};
use crate::confine::namespace::Namespaces;
use crate::confine::proc;
use crate::confine::rules;
use crate::confine::step::Step;
use crate::confine::view::{self, View};
use crate::confine::{Mode, home, low, unreadable};
use crate::guard::{Guard, repos};
use policy::Tier;
use std::fs;
use std::path::{Path, PathBuf};

/// What building the view came to.
pub struct Built {
    pub view: View,
    pub guard: Guard,
    pub home: PathBuf,
    pub temporary: PathBuf,
    pub corner: PathBuf,
    pub notices: Vec<String>,
}

const COPIES_OPTIONS: &str = "mode=700,size=64m";

/// Why the view does not stand.
pub(super) enum Trouble {
    /// Namespaces are denied here: the next mode is tried.
    Denied(u8, Step),
    Fault(Step),
}

impl Trouble {
    fn denied(step: Step) -> Self {
        if step.is_denial() {
            Self::Denied(DENIED, step)
        } else {
            Self::Fault(step)
        }
    }
}

impl From<Step> for Trouble {
    fn from(step: Step) -> Self {
        Self::Fault(step)
    }
}

impl Start {
    /// Everything that needs the namespaces' capabilities.
    pub(super) fn with_mounts(
        &mut self,
        mode: Mode,
        namespaces: Namespaces,
        unreadable: unreadable::Search,
    ) -> Result<Built, Trouble> {
        self.innermost = namespaces.settle(self.ids).map_err(Trouble::denied)?;
        if self.tier() == Tier::Low {
            return self.low_mounts();
        }
        let view = view::plan(&self.seal, &self.decision);
        let mut tree = Tree::pivot().map_err(Trouble::denied)?;
        let layers = tree.begin(&view, &self.seal.session_dir.as_path().join("layers"))?;
        tree.devices(&view.devices, self.seal.charter.limits.shm)?;
        self.proc(mode, &tree)?;
        tree.corner(&self.corners())?;
        tree.keep_links(self.seal.cwd.as_path());
        tree.keep_links(self.seal.charter.places.home.as_path());
        tree.keep_worktrees(&self.git_directories());
        let corner = own_corner(Path::new(mounts::SESSION))?;
        mounts::own_passwd_line(&view.home, &corner)?;
        let guard = self.guard(Some(copies(&corner)?))?;
        self.close_sockets(&view)?;
        tree.complete(layers)?;
        unreadable.cover()?;
        let mut notices = tree.finish()?;
        let home = view.home.clone();
        self.home_files(&home, &mut notices);
        Ok(Built {
            view,
            guard,
            home,
            temporary: "/tmp".into(),
            corner,
            notices,
        })
    }

    /// A `/proc` of the session's own processes, or the machine's where that is not to be had.
    fn proc(&mut self, mode: Mode, tree: &Tree) -> Result<(), Trouble> {
        if mode == Mode::Full {
            proc::own_proc().map_err(|step| Trouble::Denied(DENIED_PROC, step))?;
            let pids = self.seal.charter.limits.pids;
            if pids > 0
                && let Err(e) = proc::set_pid_max(pids)
            {
                self.missing.push(("process limit", e.to_string()));
            }
        } else {
            tree.outer_proc()?;
        }
        Ok(proc::cover_proc()?)
    }

    /// Low keeps the machine's own tree; single places are covered.
    fn low_mounts(&mut self) -> Result<Built, Trouble> {
        let view = view::plan(&self.seal, &self.decision);
        low::cover(&self.seal).map_err(Trouble::denied)?;
        let corner = own_corner(&self.corners())?;
        let guard = self.guard(Some(copies(&corner)?))?;
        let home = view.home.clone();
        Ok(Built {
            view,
            guard,
            home,
            temporary: "/tmp".into(),
            corner,
            notices: Vec::new(),
        })
    }

    pub(super) fn without_mounts(&mut self) -> Result<Built, Trouble> {
        let view = view::plan(&self.seal, &self.decision);
        let corner = own_corner(&self.corners())?;
        let guard = self.guard(None)?;
        let (home, temporary) = if self.tier() == Tier::Low {
            (view.home.clone(), PathBuf::from("/tmp"))
        } else {
            (
                self.seal.home_dir.to_path_buf(),
                self.seal.session_dir.as_path().join("tmp"),
            )
        };
        let mut notices = Vec::new();
        if self.tier() != Tier::Low {
            home::link_toolchains(&view, &home);
            self.home_files(&home, &mut notices);
        }
        Ok(Built {
            view,
            guard,
            home,
            temporary,
            corner,
            notices,
        })
    }

    /// The git directories of the checkouts that the session is about.
    fn git_directories(&self) -> Vec<PathBuf> {
        let decision = &self.decision;
        let tops = decision.grant.writable_roots().iter().chain(&decision.work_tree);
        let mut all: Vec<PathBuf> = tops.map(|top| top.join(".git")).collect();
        all.extend(decision.linked.iter().map(|linked| linked.directory.clone()));
        all.dedup();
        all
    }

    /// The session's corners on disk, one for each of its hosts.
    fn corners(&self) -> PathBuf {
        self.seal.session_dir.as_path().join("corner")
    }

    /// At high nothing in the roots can be written, so there is nothing to guard.
    fn guard(&self, copies: Option<PathBuf>) -> Result<Guard, Step> {
        if self.tier() == Tier::High {
            return Guard::new(&[], Vec::new(), Vec::new(), None);
        }
        let mut outside: Vec<repos::Repository> = Vec::new();
        if let Some(linked) = &self.decision.linked {
            outside.extend(linked.repositories.iter().cloned());
        }
        if let Some(top) = &self.decision.work_tree {
            outside.extend(repos::repositories_at(&top.join(".git")));
        }
        let single = if self.tier() == Tier::Low {
            low::watched(&self.seal)
        } else {
            Vec::new()
        };
        let private = [
            &self.seal.charter.places.cache,
            &self.seal.session_dir,
            &self.seal.home_dir,
        ];
        let home = self.seal.charter.places.home.as_path();
        Guard::new(self.decision.grant.writable_roots(), outside, single, copies)
            .map(|guard| guard.with_private(private.map(|p| p.to_path_buf()).into()))
            .map(|guard| guard.with_settings(self.decision.home_files.git_settings(), home))
    }

    /// Sockets in what the view shows of the user's own without being a root that the guard walks.
    fn close_sockets(&self, view: &View) -> Result<(), Step> {
        let guarded = |path: &Path| {
            let roots = self.decision.grant.writable_roots();
            self.tier() != Tier::High && roots.iter().any(|root| path.starts_with(root))
        };
        let own = |entry: &&view::Entry| {
            entry.source == view::Source::Same && !view::is_of_the_machine(entry.why) && !guarded(&entry.path)
        };
        for entry in view.entries.iter().filter(own) {
            crate::guard::close_sockets(&entry.path)?;
        }
        Ok(())
    }

    /// The user's git settings, without what is secret, in the private home.
    fn home_files(&self, home: &Path, notices: &mut Vec<String>) {
        if let Err(e) = home::fill(&self.decision, home) {
            notices.push(format!("{}: {e}", home.display()));
        }
    }
}

/// Where config copies lie. They are small and written before every call, so they are kept in
/// memory.
fn copies(corner: &Path) -> Result<PathBuf, Step> {
    let copies = rules::copies_of(corner);
    fs::create_dir(&copies).map_err(|source| Step {
        what: copies.display().to_string(),
        source,
    })?;
    mount_memory(&copies, COPIES_OPTIONS)?;
    Ok(copies)
}

/// The first free corner: earlier hosts of the session keep theirs, so that their spools can
/// still be read.
fn own_corner(corners: &Path) -> Result<PathBuf, Step> {
    const HOSTS_MAX: u32 = 10_000;
    for number in 1..HOSTS_MAX {
        let corner = corners.join(number.to_string());
        match fs::create_dir(&corner) {
            Ok(()) => return Ok(corner),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(Step {
                    what: corner.display().to_string(),
                    source,
                });
            }
        }
    }
    Err(Step {
        what: corners.display().to_string(),
        source: std::io::ErrorKind::AlreadyExists.into(),
    })
}
