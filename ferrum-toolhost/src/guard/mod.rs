//! What git, a shell or Ferrum would run on their own for this checkout, and how it stays as it is.
//!
//! With the mount view the parts are covered: git directories are bound on themselves so that they
//! cannot be renamed, hooks and pointers are read-only, and `config` is redirected to a private
//! copy whose harmless changes are merged back after each call. What mounts cannot hold (absent
//! names, covers lost to somebody outside, forged or new repositories) and everything where there
//! is no mount view is looked at after each call and put back.

pub mod config;
mod inventory;
mod moved;
pub mod obeyed;
pub mod parts;
mod redirect;
mod remotes;
pub mod repos;
mod sparse;
mod steering;
mod watch;

use crate::confine::mounts::{Step, bind_here, cover};
use crate::fs::atomic;
use crate::fs::name::shown;
use crate::fs::removal::{open_to_owner, remove};
use crate::sys::mount::mount_id;
use ferrum_proto::reply::Survey;
use moved::Identity;
use obeyed::obeyed_parts;
use parts::{GIT_NAMES, GitParts, Part, outcome};
use redirect::Redirect;
use repos::{EntryKind, Found, Repository};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use steering::Obeyed;
use watch::Watch;

/// States of an interrupted git operation: the next `git rebase --continue` outside obeys them.
pub const LEFTOVERS: [&str; 4] = ["rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"];
/// What of an interrupted rebase names programs to run.
const REBASE_LIST: &str = "rebase-merge/git-rebase-todo";
/// Lines that one look tells at most; a command may plant any number of repositories.
const FINDINGS_MAX: usize = 20;
/// New repositories that are looked into after each call.
const FRESH_MAX: usize = 64;

/// A git directory with its covers.
struct Guarded {
    repository: Repository,
    /// The entry itself where it is a file or a link.
    entry: Part,
    /// Another one looks after the directory that the entry names.
    is_pin: bool,
    /// A directory of the root around it can be moved, so that no mount holds it.
    is_nested: bool,
    identity: Option<Identity>,
    parts: GitParts,
    /// The text of `config` when the session began.
    first: String,
    /// Covered names with the id of the mount that covers them. Empty: held by looking only.
    covers: Vec<(PathBuf, u64)>,
    redirect: Option<Redirect>,
    leftovers: BTreeMap<&'static str, Part>,
}

/// A repository that appeared in this session.
struct Fresh {
    repository: Repository,
    told: Vec<String>,
}

/// A root's `.ferrum`, or a start-up file of the home at low.
struct Folder {
    path: PathBuf,
    part: Part,
    /// In the home: what appears is put aside rather than removed, since it may be the user's own.
    in_home: bool,
}

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
    writable: Vec<PathBuf>,
    /// Where config copies of this host lie, in the mount view.
    copies: Option<PathBuf>,
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
            writable: writable.to_vec(),
            copies,
        })
    }

    /// Tells where directories of the session lie that commands write under another name.
    #[must_use]
    pub fn with_private(mut self, places: Vec<PathBuf>) -> Self {
        self.private = places;
        self
    }

    /// Before a call: whatever changed since the last look was done by somebody outside, who may.
    pub fn before(&mut self) {
        self.begin();
        for one in &mut self.guarded {
            one.before();
        }
        for folder in &mut self.folders {
            folder.part = Part::of(&folder.path);
        }
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
        let mut findings = Findings::new();
        for one in &self.guarded {
            open_way(&one.repository.git_dir, &self.writable);
        }
        for root in &self.writable {
            open_way(root, &self.writable);
        }
        let mut found = self.watch.look();
        self.obeyed.see(&found.obeyed);
        found.absorb(std::mem::take(&mut self.earlier));
        self.follow(&found.repositories);
        for index in 0..self.guarded.len() {
            let moved = self.guarded[index].moved_back(&self.writable);
            findings.extend(moved);
            self.guarded[index].after(&mut findings);
        }
        for folder in &self.folders {
            if Part::of(&folder.path) != folder.part {
                findings.push(folder.put_back());
            }
        }
        self.new_ones(found, &mut findings);
        self.disarm(&mut findings);
        let more = findings.len().saturating_sub(FINDINGS_MAX);
        if more > 0 {
            findings.truncate(FINDINGS_MAX);
            findings.push(format!("and {more} more"));
        }
        self.obeyed.found(&findings);
        findings
    }

    fn new_ones(&mut self, mut found: Found, findings: &mut Findings) {
        for one in &self.guarded {
            found
                .repositories
                .extend(repos::modules_of(&one.repository.git_dir));
        }
        for repository in found.repositories {
            let is_guarded = |g: &Guarded| g.repository.entry == repository.entry;
            if self.guarded.iter().any(is_guarded) {
                continue;
            }
            if let Some(copies) = &self.copies {
                heal_copied_config(&repository.git_dir, copies);
            }
            let told = Vec::new();
            let fresh = Fresh { repository, told };
            self.fresh.entry(fresh.repository.entry.clone()).or_insert(fresh);
        }
        self.tell_fresh(findings);
        for folder in found.directories.iter().filter(|d| d.ends_with(".ferrum")) {
            if !self.folders.iter().any(|f| f.path == **folder) && folder.join("config.toml").exists() {
                findings.push(format!(
                    "new project policy {}",
                    shown(&folder.join("config.toml"))
                ));
            }
        }
    }

    /// Those of the session's own making may be armed by a later call.
    fn tell_fresh(&mut self, findings: &mut Findings) {
        let mut fresh = std::mem::take(&mut self.fresh);
        for Fresh { repository, told } in fresh.values_mut().take(FRESH_MAX) {
            let mut obeyed = obeyed_parts(&repository.git_dir);
            if self.leads_out(repository) {
                obeyed.push("a git directory outside the writable roots".into());
            }
            if !obeyed.is_empty() && obeyed != *told {
                findings.push(format!(
                    "new repository {}: git would obey {}",
                    shown(&repository.entry),
                    obeyed::told(&obeyed)
                ));
            }
            *told = obeyed;
        }
        self.fresh = fresh;
    }

    /// A gitfile or link to a place that may hold something else for whoever comes from outside.
    fn leads_out(&self, repository: &Repository) -> bool {
        let target = match repository.kind {
            EntryKind::Directory | EntryKind::Bare => return false,
            EntryKind::File if repository.git_dir == repository.entry => {
                // Without a target that is there: git refuses a file that names none at all.
                return repos::read_small(&repository.entry).is_some_and(|text| text.starts_with("gitdir:"));
            }
            EntryKind::Symlink if repository.git_dir == repository.entry => return true,
            EntryKind::File | EntryKind::Symlink => &repository.git_dir,
        };
        let in_root = self.writable.iter().any(|root| target.starts_with(root));
        let in_guarded = self
            .guarded
            .iter()
            .any(|g| target.starts_with(&g.repository.git_dir));
        !in_root && !in_guarded
    }
}

impl Folder {
    fn put_back(&self) -> String {
        if !self.in_home || self.part != Part::Absent {
            return outcome(&self.path, self.part.restore(&self.path));
        }
        let here = nix::fcntl::AT_FDCWD;
        let flags = nix::fcntl::RenameFlags::RENAME_NOREPLACE;
        for number in 1..100 {
            let mut aside = self.path.clone().into_os_string();
            aside.push(format!(".put-aside-{number}"));
            match nix::fcntl::renameat2(here, &self.path, here, aside.as_os_str(), flags) {
                Ok(()) => {
                    return format!("put {} aside as {}", shown(&self.path), shown(Path::new(&aside)));
                }
                Err(nix::errno::Errno::EEXIST) => {}
                Err(errno) => return format!("could not put {} aside: {errno}", shown(&self.path)),
            }
        }
        format!("could not put {} aside: too many like it", shown(&self.path))
    }
}

impl Guarded {
    fn new(repository: Repository) -> Self {
        let entry = match repository.kind {
            EntryKind::File | EntryKind::Symlink => Part::of(&repository.entry),
            EntryKind::Directory | EntryKind::Bare => Part::Absent,
        };
        let identity = Identity::of(&repository.entry);
        let parts = GitParts::of(&repository.git_dir);
        let leftovers = leftovers(&repository.git_dir);
        Self {
            first: parts::text(&parts.config).unwrap_or_default(),
            repository,
            entry,
            is_pin: false,
            is_nested: false,
            identity,
            parts,
            covers: Vec::new(),
            redirect: None,
            leftovers,
        }
    }

    /// Binds the directory on itself and covers its parts.
    fn cover(&mut self, folder: &Path) -> Result<(), Step> {
        let (entry, git_dir) = (self.repository.entry.clone(), self.repository.git_dir.clone());
        match self.repository.kind {
            EntryKind::File | EntryKind::Symlink => {
                bind_here(&entry, &entry, true)?;
                self.remember(entry.clone());
                if self.is_pin || !git_dir.is_dir() || git_dir == entry || !is_writable_here(&git_dir) {
                    return Ok(());
                }
                bind_here(&git_dir, &git_dir, false)?;
            }
            EntryKind::Directory | EntryKind::Bare => bind_here(&entry, &entry, false)?,
        }
        self.remember(git_dir.clone());
        for path in GIT_NAMES.iter().map(|n| git_dir.join(n)) {
            if fs::symlink_metadata(&path).is_ok() {
                bind_here(&path, &path, true)?;
                self.remember(path);
            }
        }
        self.redirect(folder)
    }

    fn redirect(&mut self, folder: &Path) -> Result<(), Step> {
        let path = self.repository.git_dir.join("config");
        if fs::symlink_metadata(&path).is_err() {
            return Ok(());
        }
        match self.try_redirect(folder, &path) {
            Some(redirect) => {
                let link = redirect.copy.with_file_name("link");
                bind_here(&link, &path, true)?;
                self.redirect = Some(redirect);
            }
            None => bind_here(&path, &path, true)?,
        }
        self.remember(path);
        Ok(())
    }

    /// `None` where the real file cannot be written: a read-only cover is then the right one.
    fn try_redirect(&self, folder: &Path, path: &Path) -> Option<Redirect> {
        let real = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .ok()?;
        let meta = real.metadata().ok()?;
        let text = repos::read_small(path).filter(|_| meta.is_file() && meta.nlink() == 1)?;
        let copy = folder.join("config");
        fs::create_dir_all(folder).ok()?;
        fs::write(&copy, &text).ok()?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(meta.mode() & 0o777)).ok()?;
        symlink(&copy, folder.join("link")).ok()?;
        Some(Redirect { copy, real, text })
    }

    fn remember(&mut self, path: PathBuf) {
        if let Some(id) = id_of(&path) {
            self.covers.push((path, id));
        }
    }

    /// Every cover is still in place.
    fn is_covered(&self) -> bool {
        !self.covers.is_empty() && self.covers.iter().all(|(path, id)| id_of(path) == Some(*id))
    }

    /// Somebody outside may have made a hook or edited the config between two calls.
    fn before(&mut self) {
        let is_covered = self.is_covered();
        if !is_covered {
            self.covers.clear();
            self.redirect = None;
            self.identity = Identity::of(&self.repository.entry);
            if matches!(self.repository.kind, EntryKind::File | EntryKind::Symlink) {
                self.entry = Part::of(&self.repository.entry);
            }
        }
        if self.is_pin {
            return;
        }
        if is_covered {
            self.know();
        } else {
            self.parts = GitParts::of(&self.repository.git_dir);
        }
        self.leftovers = leftovers(&self.repository.git_dir);
    }

    /// What the covers leave to be looked at.
    fn know(&mut self) {
        if let Some(redirect) = &mut self.redirect {
            redirect.refresh();
        }
        self.parts.know_worktrees();
        for (path, part) in &mut self.parts.others {
            if !self.covers.iter().any(|(covered, _)| covered == path) {
                *part = Part::of(path);
            }
        }
    }

    fn after(&mut self, findings: &mut Findings) {
        let entry = &self.repository.entry;
        let stands_in = |meta: fs::Metadata| !meta.is_dir();
        if self.repository.kind == EntryKind::Directory && fs::symlink_metadata(entry).is_ok_and(stands_in) {
            // The directory is gone, and a link or file leads git to another one.
            findings.push(match remove(entry) {
                Ok(()) => format!(
                    "removed {}, which took the place of a git directory",
                    shown(entry)
                ),
                Err(e) => format!("could not remove {}: {e}", shown(entry)),
            });
        }
        if self.is_pin {
            findings.extend(self.put_back_entry());
            return;
        }
        if !self.repository.git_dir.exists() {
            return;
        }
        self.fold_sparse();
        if self.is_covered() {
            for (path, part) in self.parts.others.iter().filter(|(_, part)| *part == Part::Absent) {
                if Part::of(path) != Part::Absent && !is_empty_directory(path) {
                    findings.push(outcome(path, part.restore(path)));
                }
            }
            findings.extend(self.parts.put_back_pointers());
            match &mut self.redirect {
                Some(redirect) => redirect.merge(&self.repository.git_dir.join("config"), findings),
                // Not there when the covers were made, or not ours to write.
                None => findings.extend(self.parts.put_back_config()),
            }
        } else {
            findings.extend(self.put_back_entry());
            findings.extend(self.parts.put_back());
        }
        for (name, part) in leftovers(&self.repository.git_dir) {
            if self.leftovers.get(name) != Some(&part) {
                findings.push(format!(
                    "an unfinished git operation was left in {}: {name}",
                    shown(&self.repository.git_dir)
                ));
            }
        }
    }

    /// Where it is a file or a link that mounts do not hold. A nested one may be removed: git then
    /// looks further up, where the root's own repository is.
    fn put_back_entry(&self) -> Option<String> {
        let entry = &self.repository.entry;
        let is_text = matches!(self.repository.kind, EntryKind::File | EntryKind::Symlink);
        if !is_text || self.is_covered() {
            return None;
        }
        let now = Part::of(entry);
        let is_removed = self.is_nested && now == Part::Absent;
        (now != self.entry && !is_removed).then(|| outcome(entry, self.entry.restore(entry)))
    }

    fn fold_sparse(&self) {
        let git_dir = &self.repository.git_dir;
        let own = git_dir.join("config.worktree");
        let is_new = self
            .parts
            .others
            .iter()
            .any(|(path, part)| *path == own && *part == Part::Absent);
        match &self.redirect {
            _ if !is_new => {}
            Some(redirect) => sparse::fold(git_dir, &redirect.copy, &redirect.text),
            None => {
                if let Some(old) = parts::text(&self.parts.config) {
                    sparse::fold(git_dir, &git_dir.join("config"), &old);
                }
            }
        }
    }
}

/// Covers the sockets of a place that commands see but do not write: somebody outside may listen.
///
/// # Errors
/// [`Step`].
pub fn close_sockets(top: &Path) -> Result<(), Step> {
    let mut found = Found::default();
    repos::walk(top, &mut found);
    repos::sockets_of(top, &mut found.sockets);
    cover_sockets(&found.sockets)
}

fn cover_sockets(sockets: &[PathBuf]) -> Result<(), Step> {
    let mut seen = BTreeSet::new();
    for socket in sockets.iter().filter(|s| seen.insert(*s)) {
        match cover(socket, false) {
            // Its owner has just removed it.
            Err(step) if step.source.kind() == std::io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

fn id_of(path: &Path) -> Option<u64> {
    mount_id(&CString::new(path.as_os_str().as_bytes()).ok()?).ok()
}

fn is_writable_here(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok()
}

fn is_empty_directory(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// What is there of an interrupted operation; of its programs also the text.
fn leftovers(git_dir: &Path) -> BTreeMap<&'static str, Part> {
    let mut left: BTreeMap<_, _> = LEFTOVERS
        .into_iter()
        .filter(|name| git_dir.join(name).exists())
        .map(|name| (name, Part::Absent))
        .collect();
    if left.contains_key("rebase-merge") {
        left.insert(REBASE_LIST, Part::of(&git_dir.join(REBASE_LIST)));
    }
    left
}

/// A command may have closed a directory on the way to something protected, so that a look would
/// find nothing: its owner's rights to look are given back.
fn open_way(path: &Path, roots: &[PathBuf]) {
    let Some(root) = roots.iter().find(|root| path.starts_with(root)) else {
        return;
    };
    let mut way: Vec<&Path> = path.ancestors().take_while(|p| p.starts_with(root)).collect();
    way.reverse();
    for directory in way {
        let Ok(meta) = fs::symlink_metadata(directory) else {
            return;
        };
        if meta.is_dir() && meta.mode() & 0o500 != 0o500 {
            // Where that fails the look goes on as far as it can.
            let _ = open_to_owner(directory);
        }
    }
}

/// A copy of a repository made with its links holds our redirect as its config: outside the
/// session that link leads nowhere, so it becomes the file that it stood for.
fn heal_copied_config(git_dir: &Path, copies: &Path) {
    let path = git_dir.join("config");
    let Ok(target) = fs::read_link(&path) else { return };
    if !target.starts_with(copies) {
        return;
    }
    if let Some(text) = repos::read_small(&target) {
        let harmless = config::merge("", &text).text;
        let part = Part::File {
            bytes: harmless.into_bytes(),
            mode: 0o644,
        };
        // Left as it was where this fails: git then says so itself.
        let _ = part.restore(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_into_the_config_in_place_is_never_lost() {
        let directory = tempfile::tempdir().unwrap();
        let (path, copy) = (directory.path().join("config"), directory.path().join("copy"));
        let text = "[user]\n\tname = A\n".to_owned();
        fs::write(&path, &text).unwrap();
        fs::write(&copy, &text).unwrap();
        let real = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut redirect = Redirect {
            copy: copy.clone(),
            real,
            text,
        };
        let mut findings = Findings::new();
        // Between two calls: commands see it, and add to it.
        fs::write(&path, "[user]\n\tname = OTHERS\n").unwrap();
        assert!(redirect.refresh());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "[user]\n\tname = OTHERS\n");
        fs::write(&copy, "[user]\n\tname = OTHERS\n\temail = a@b\n").unwrap();
        redirect.merge(&path, &mut findings);
        assert!(fs::read_to_string(&path).unwrap().contains("a@b"));
        assert_eq!(findings, Findings::new());
        // During a call that changes it too: theirs stays, and that is told.
        fs::write(&path, "[user]\n\tname = THEIRS\n").unwrap();
        fs::write(&copy, "[user]\n\tname = OURS\n").unwrap();
        redirect.merge(&path, &mut findings);
        assert_eq!(fs::read_to_string(&path).unwrap(), "[user]\n\tname = THEIRS\n");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "[user]\n\tname = THEIRS\n");
        assert_eq!(findings.len(), 1);
    }
}
