//! Finding git directories: those below a writable root, and the one around the working directory.
//!
//! Reads directory entries and small pointer files, follows no link on the way down, and never
//! descends into a git directory as if it were a work tree.

use super::steering::is_noisy_name;
use crate::fs::atomic::SIBLING;
use policy::steering::{is_obeyed_directory, is_obeyed_name};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Directories that one walk visits at most; a tree above it is reported as not fully looked at.
pub const WALK_DIRECTORIES_MAX: usize = 400_000;

/// Bytes of a config or pointer file that are read.
pub const SMALL_BYTES_MAX: u64 = 1 << 20;

/// A git directory and how the work tree names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The `.git` entry of the work tree, or the directory itself for a bare repository.
    pub entry: PathBuf,
    pub kind: EntryKind,
    /// The real git directory, canonical.
    pub git_dir: PathBuf,
}

/// What the `.git` entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Directory,
    File,
    Symlink,
    Bare,
}

/// What a walk found below a root.
#[derive(Debug, Default)]
pub struct Found {
    pub repositories: Vec<Repository>,
    /// Every directory outside git directories, for the watch.
    pub directories: Vec<PathBuf>,
    /// Files that programs or agents obey without being asked.
    pub obeyed: Vec<PathBuf>,
    /// Unix sockets that somebody outside may listen on.
    pub sockets: Vec<PathBuf>,
    /// Directories in which a killed host may have left a file that it was writing.
    pub unfinished: Vec<PathBuf>,
    /// The walk stopped at [`WALK_DIRECTORIES_MAX`].
    pub truncated: bool,
}

impl Found {
    /// Adds what an earlier look found.
    pub fn absorb(&mut self, mut earlier: Self) {
        self.repositories.append(&mut earlier.repositories);
        self.directories.append(&mut earlier.directories);
        self.obeyed.append(&mut earlier.obeyed);
        self.sockets.append(&mut earlier.sockets);
        self.unfinished.append(&mut earlier.unfinished);
        self.truncated |= earlier.truncated;
    }
}

/// Walks `root` and adds what it finds.
pub fn walk(root: &Path, found: &mut Found) {
    walk_below(root, root, found);
}

/// Walks a directory of `root`.
pub fn walk_below(root: &Path, directory: &Path, found: &mut Found) {
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        if found.directories.len() >= WALK_DIRECTORIES_MAX {
            found.truncated = true;
            return;
        }
        visit(root, &directory, &mut open, found);
        found.directories.push(directory);
    }
}

fn visit(root: &Path, directory: &Path, open: &mut Vec<PathBuf>, found: &mut Found) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let first_child = open.len();
    let relative = directory.strip_prefix(root).unwrap_or(Path::new(""));
    let is_obeyed = is_obeyed_directory(relative);
    let is_noise = relative.iter().any(is_noisy_name);
    let mut names = BareNames::default();
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if name == ".git" {
            found.repositories.extend(repositories_at(&entry.path()));
            sockets_of(&entry.path(), &mut found.sockets);
            continue;
        }
        names.see(&name);
        if kind.is_dir() {
            open.push(entry.path());
            continue;
        }
        if !is_noise && (is_obeyed || name.to_str().is_some_and(is_obeyed_name)) {
            found.obeyed.push(entry.path());
        }
        if kind.is_socket() {
            found.sockets.push(entry.path());
        } else if name == SIBLING {
            found.unfinished.push(directory.to_path_buf());
        }
    }
    if names.make_a_repository() {
        // Git takes this directory for a bare repository; it has no work tree to walk.
        open.truncate(first_child);
        let bare = Repository {
            entry: directory.into(),
            kind: EntryKind::Bare,
            git_dir: directory.into(),
        };
        found.repositories.push(bare);
        found.repositories.extend(modules_of(directory));
    }
}

/// Sockets in a git directory, such as that of `git fsmonitor--daemon`.
pub fn sockets_of(git_dir: &Path, sockets: &mut Vec<PathBuf>) {
    let worktrees = fs::read_dir(git_dir.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten();
    let directories = worktrees.map(|w| w.path()).chain([git_dir.to_path_buf()]);
    for entry in directories
        .filter_map(|d| fs::read_dir(d).ok())
        .flatten()
        .flatten()
    {
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            sockets.push(entry.path());
        }
    }
}

/// The names by which git takes a directory for a bare repository, whatever kind of object each
/// is: git follows links, and `commondir` stands in for the other two.
#[derive(Debug, Default)]
pub(super) struct BareNames {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl BareNames {
    pub(super) const ALL: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

    pub(super) fn see(&mut self, name: &std::ffi::OsStr) {
        self.head |= name == "HEAD";
        self.objects |= name == "objects";
        self.refs |= name == "refs";
        self.common |= name == "commondir";
    }

    pub(super) fn make_a_repository(&self) -> bool {
        self.head && (self.common || self.objects && self.refs)
    }
}

/// The repository that a `.git` entry stands for, with the submodules inside its git directory.
/// An odd entry gives nothing: git itself will not take it for a repository.
#[must_use]
pub fn repositories_at(entry: &Path) -> Vec<Repository> {
    let Ok(meta) = fs::symlink_metadata(entry) else {
        return Vec::new();
    };
    let kind = meta.file_type();
    let (kind, git_dir) = if kind.is_dir() {
        (EntryKind::Directory, Some(entry.to_path_buf()))
    } else if kind.is_symlink() {
        (
            EntryKind::Symlink,
            fs::canonicalize(entry).ok().filter(|p| p.is_dir()),
        )
    } else if kind.is_file() {
        (EntryKind::File, git_file_target(entry))
    } else {
        return Vec::new();
    };
    // A link or file whose target does not resolve still has to be pinned: it could be made to
    // resolve later. Its git directory is then nothing to cover.
    let git_dir = git_dir.unwrap_or_else(|| entry.to_path_buf());
    let mut all = vec![Repository {
        entry: entry.to_path_buf(),
        kind,
        git_dir: git_dir.clone(),
    }];
    if kind == EntryKind::Directory {
        all.extend(modules_of(&git_dir));
    }
    all
}

/// Where a git directory keeps those of its submodules: its own, and those of each linked worktree.
fn module_places(git_dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let worktrees = fs::read_dir(git_dir.join("worktrees")).into_iter();
    let linked = worktrees.flatten().flatten().map(|w| w.path().join("modules"));
    linked.chain([git_dir.join("modules")])
}

/// The git directories of submodules that `git_dir` holds, each shown as a bare one.
pub(super) fn modules_of(git_dir: &Path) -> Vec<Repository> {
    let mut all = Vec::new();
    let mut open: Vec<_> = module_places(git_dir).map(|place| (place, 0)).collect();
    while let Some((directory, depth)) = open.pop() {
        if depth > 16 || all.len() > 4096 {
            break;
        }
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        {
            let path = entry.path();
            if path.join("HEAD").exists() {
                all.push(Repository {
                    entry: path.clone(),
                    kind: EntryKind::Bare,
                    git_dir: path.clone(),
                });
                open.extend(module_places(&path).map(|place| (place, depth + 1)));
            } else {
                open.push((path, depth + 1));
            }
        }
    }
    all
}

/// True where a directory between the root and the entry can be moved: mounts then hold nothing,
/// and would only be in the way of whoever removes the tree around it.
#[must_use]
pub fn is_nested(entry: &Path, roots: &[PathBuf]) -> bool {
    let inside = roots.iter().filter_map(|root| entry.strip_prefix(root).ok());
    let innermost = inside.min_by_key(|rest| rest.iter().count());
    innermost.is_some_and(|rest| match rest.iter().position(|name| name == ".git") {
        Some(at) => at > 0,
        None => rest.iter().count() > 1,
    })
}

/// Entries whose git directory another one looks after: the one that is the directory itself, or
/// the first that names it. A submodule's gitfile is such an entry.
#[must_use]
pub fn shared(repositories: &[Repository]) -> BTreeSet<PathBuf> {
    let is_itself = |r: &&Repository| matches!(r.kind, EntryKind::Directory | EntryKind::Bare);
    let mut held: BTreeSet<&Path> = repositories
        .iter()
        .filter(is_itself)
        .map(|r| r.git_dir.as_path())
        .collect();
    repositories
        .iter()
        .filter(|r| !is_itself(r) && !held.insert(&r.git_dir))
        .map(|r| r.entry.clone())
        .collect()
}

/// The canonical directory that a gitfile names.
#[must_use]
pub fn git_file_target(entry: &Path) -> Option<PathBuf> {
    let text = read_small(entry)?;
    let target = text.strip_prefix("gitdir:")?.trim();
    if target.is_empty() {
        return None;
    }
    let base = entry.parent()?;
    fs::canonicalize(base.join(target)).ok().filter(|p| p.is_dir())
}

/// Where a linked checkout's git directories lie, when they really belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// Directories to add to the view, writable: the common directory, which holds the worktree's
    /// own, or the submodule's directory.
    pub directory: PathBuf,
    pub repositories: Vec<Repository>,
}

/// The git directory of a worktree or submodule checkout, if the user owns it and it names this
/// checkout back. Anything else adds nothing: a gitfile is text that anybody may have written.
#[must_use]
pub fn linked(entry: &Path, uid: u32) -> Option<Linked> {
    let git_dir = git_file_target(entry)?;
    let owner = fs::metadata(&git_dir).ok()?.uid();
    if owner != uid && owner != 0 {
        return None;
    }
    let own_name = fs::canonicalize(entry.parent()?).ok()?.join(entry.file_name()?);
    let common = if let Some(back) = read_small(&git_dir.join("gitdir")) {
        let common_dir =
            fs::canonicalize(git_dir.join(read_small(&git_dir.join("commondir"))?.trim())).ok()?;
        let back = git_dir.join(back.trim());
        let back = fs::canonicalize(back.parent()?).ok()?.join(back.file_name()?);
        let grandparent = git_dir.parent()?.parent()?;
        if back != own_name || grandparent != common_dir {
            return None;
        }
        common_dir
    } else {
        let config = read_small(&git_dir.join("config"))?;
        let work_tree = super::config::Config::parse(&config).value("core", None, "worktree")?;
        let work_tree = fs::canonicalize(git_dir.join(work_tree)).ok()?;
        if work_tree != own_name.parent()? {
            return None;
        }
        git_dir
    };
    let mut repositories = vec![Repository {
        entry: common.clone(),
        kind: EntryKind::Bare,
        git_dir: common.clone(),
    }];
    repositories.extend(modules_of(&common));
    Some(Linked {
        directory: common,
        repositories,
    })
}

/// The top of the work tree around `directory`: the nearest ancestor that has a `.git` which the
/// user owns, not beyond `home`.
#[must_use]
pub fn work_tree_around(directory: &Path, home: &Path, uid: u32) -> Option<PathBuf> {
    for ancestor in directory.ancestors() {
        if ancestor == home && directory != home {
            return None;
        }
        if let Ok(meta) = fs::symlink_metadata(ancestor.join(".git")) {
            return (meta.uid() == uid || meta.uid() == 0).then(|| ancestor.to_path_buf());
        }
    }
    None
}

/// The text of a small regular file, opened so that a FIFO or device cannot block or act.
#[must_use]
pub fn read_small(path: &Path) -> Option<String> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .ok()?;
    let meta = file.metadata().ok()?;
    // Half of a text would hide what stands in the other half.
    if !meta.is_file() || meta.len() > SMALL_BYTES_MAX {
        return None;
    }
    String::from_utf8(whole(&file, SMALL_BYTES_MAX).ok()?).ok()
}

/// The rest of a file up to `max` bytes, in two calls: without its size each would read 32 bytes.
///
/// # Errors
/// The system's.
pub(super) fn whole(file: &fs::File, max: u64) -> std::io::Result<Vec<u8>> {
    let size = file.metadata()?.len().min(max);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git_dir(path: &Path) {
        for part in ["objects", "refs", "hooks"] {
            fs::create_dir_all(path.join(part)).unwrap();
        }
        fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(path.join("config"), "[core]\n\tbare = false\n").unwrap();
    }

    #[test]
    fn a_walk_finds_nested_bare_and_submodule_repositories_and_no_work_tree_inside_them() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        git_dir(&root.join(".git"));
        git_dir(&root.join(".git/modules/a/b"));
        git_dir(&root.join(".git/worktrees/w/modules/m"));
        git_dir(&root.join("vendor/n/.git"));
        git_dir(&root.join("remote.git"));
        let mut found = Found::default();
        walk(&root, &mut found);
        let mut entries: Vec<_> = found.repositories.iter().map(|r| r.entry.clone()).collect();
        entries.sort();
        let wanted = [
            ".git",
            ".git/modules/a/b",
            ".git/worktrees/w/modules/m",
            "remote.git",
            "vendor/n/.git",
        ]
        .map(|p| root.join(p));
        assert_eq!(entries, wanted);
        assert!(!found.directories.iter().any(|d| d.starts_with(root.join(".git"))));
        assert!(!found.directories.contains(&root.join("remote.git/objects")));
    }

    #[test]
    fn a_submodule_and_its_gitfile_share_one_guarded_directory() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        git_dir(&root.join(".git"));
        git_dir(&root.join(".git/modules/s"));
        fs::create_dir(root.join("s")).unwrap();
        fs::write(root.join("s/.git"), "gitdir: ../.git/modules/s\n").unwrap();
        let mut found = Found::default();
        fs::create_dir(root.join("o")).unwrap();
        std::os::unix::fs::symlink("../.git/modules/s", root.join("o/.git")).unwrap();
        walk(&root, &mut found);
        let shared = shared(&found.repositories);
        assert_eq!(
            shared.into_iter().collect::<Vec<_>>(),
            [root.join("o/.git"), root.join("s/.git")]
        );
    }

    #[test]
    fn a_gitfile_adds_its_directory_only_if_that_names_it_back() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let uid = fs::metadata(&base).unwrap().uid();
        let main = base.join("main/.git");
        git_dir(&main);
        let own = main.join("worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(base.join("w")).unwrap();
        fs::write(base.join("w/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", base.join("w/.git").display())).unwrap();
        assert_eq!(linked(&base.join("w/.git"), uid).unwrap().directory, main);

        fs::create_dir_all(base.join("thief")).unwrap();
        fs::write(base.join("thief/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(linked(&base.join("thief/.git"), uid), None);
        fs::write(base.join("thief/.git"), format!("gitdir: {}\n", main.display())).unwrap();
        assert_eq!(linked(&base.join("thief/.git"), uid), None);
    }
}
