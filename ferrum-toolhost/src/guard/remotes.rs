//! Remotes that lead to a repository of the session's own making.
//!
//! A push to a repository of the same machine runs that one's hooks. An address is data, and a new
//! repository may hold hooks, but both together would arm the user's next push.

use super::fresh::{FRESH_MAX, Fresh};
use super::parts::{self, Part, outcome};
use super::{Findings, Guard, Guarded, config, repos};
use crate::fs::name::shown;
use crate::fs::path::names_backwards;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Links on the way to a remote that are followed.
const LINKS_MAX: usize = 40;
/// What git appends, in turn, to the path of a remote.
const SUFFIXES: [&str; 4] = ["/.git", "", ".git/.git", ".git"];

impl Guard {
    /// Takes back addresses that were set in this session and lead to a new repository which holds
    /// programs, or to where commands have their private directories.
    pub(super) fn disarm(&mut self, findings: &mut Findings) {
        // Those that are too many to be looked into count as armed.
        let is_armed = |(at, fresh): &(usize, &Fresh)| *at >= FRESH_MAX || !fresh.told.is_empty();
        let armed: BTreeSet<PathBuf> = self
            .fresh
            .values()
            .enumerate()
            .filter(is_armed)
            .map(|(_, fresh)| &fresh.repository.git_dir)
            .map(|git_dir| fs::canonicalize(git_dir).unwrap_or_else(|_| git_dir.clone()))
            .collect();
        for one in self.guarded.iter_mut().filter(|one| !one.is_pin) {
            one.disarm(&armed, &self.private, findings);
        }
    }
}

impl Guarded {
    fn disarm(&mut self, armed: &BTreeSet<PathBuf>, private: &[PathBuf], findings: &mut Findings) {
        let text = match &self.redirect {
            Some(redirect) => Some(redirect.text.clone()),
            None => parts::text(&self.parts.config),
        };
        let Some(text) = text.filter(|text| *text != self.first) else {
            return;
        };
        let tops = self.tops();
        let is_bad = |address: &str| {
            tops.iter().any(|top| match destination(top, address) {
                Some(place) => private.iter().any(|p| place.starts_with(p)) || leads_to(&place, armed),
                None => false,
            })
        };
        let Some(merged) = config::without_addresses(&self.first, &text, &is_bad) else {
            return;
        };
        let path = self.repository.git_dir.join("config");
        findings.push(match self.set_config(&path, merged.text) {
            Ok(()) => format!(
                "{}: kept out {}, which leads to a repository of this session's own making",
                shown(&path),
                merged.dropped.join(", ")
            ),
            Err(e) => outcome(&path, Err(e)),
        });
    }

    fn set_config(&mut self, path: &Path, text: String) -> std::io::Result<()> {
        if let Some(redirect) = &mut self.redirect {
            return redirect.set(text);
        }
        if let Part::File { bytes, .. } = &mut self.parts.config {
            *bytes = text.into_bytes();
        }
        self.parts.config.restore(path)
    }

    /// Where git stands when it reads a relative address: in the work trees, or in a bare repository.
    fn tops(&self) -> Vec<PathBuf> {
        let git_dir = &self.repository.git_dir;
        let mut tops = vec![git_dir.clone()];
        tops.extend(self.repository.entry.parent().map(Path::to_path_buf));
        let work_tree = config::Config::parse(&self.first).value("core", None, "worktree");
        tops.extend(work_tree.map(|path| git_dir.join(path)));
        let worktrees = fs::read_dir(git_dir.join("worktrees"));
        for worktree in worktrees.into_iter().flatten().flatten() {
            let back = repos::read_small(&worktree.path().join("gitdir"));
            let back = back.map(|text| worktree.path().join(text.trim()));
            tops.extend(back.as_deref().and_then(Path::parent).map(Path::to_path_buf));
        }
        tops
    }
}

/// True where git, given this path as a remote, would use one of the directories.
fn leads_to(place: &Path, git_dirs: &BTreeSet<PathBuf>) -> bool {
    !git_dirs.is_empty()
        && SUFFIXES.iter().any(|suffix| {
            let mut path = OsString::from(place);
            path.push(suffix);
            let path = PathBuf::from(path);
            let real = repos::git_file_target(&path).or_else(|| fs::canonicalize(&path).ok());
            real.is_some_and(|real| git_dirs.contains(&real))
        })
}

/// The place on this machine that an address means to git; `None` for other machines. Its links are
/// followed as far as they can be seen, since what they lead to may be there for git alone.
fn destination(top: &Path, address: &str) -> Option<PathBuf> {
    let address = match address.strip_prefix("file://") {
        Some(path) => format!("/{}", decoded(path)),
        None if address.contains("://") => return None,
        None => address.to_owned(),
    };
    // `host:path` is a machine's name unless a slash comes first.
    if address.split('/').next().is_some_and(|first| first.contains(':')) {
        return None;
    }
    let mut rest: Vec<OsString> = names_backwards(&top.join(address));
    let (mut place, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            place.pop();
            continue;
        }
        place.push(name);
        if let Ok(target) = fs::read_link(&place)
            && links < LINKS_MAX
        {
            links += 1;
            place.pop();
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            rest.extend(names_backwards(&target));
        }
    }
    Some(place)
}

/// Without percent signs, as git reads addresses with a scheme.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let code = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_means_the_place_that_git_would_use() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("sub/r.git")).unwrap();
        std::os::unix::fs::symlink("sub", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/nowhere/home", root.join("away")).unwrap();
        let armed = BTreeSet::from([root.join("sub/r.git")]);
        let file = format!("file://{}/sub/%72.git", root.display());
        for address in [
            "sub/r.git",
            "./sub/r",
            "link/../sub/r",
            "link/r.git",
            file.as_str(),
        ] {
            let place = destination(&root, address).unwrap();
            assert!(leads_to(&place, &armed), "{address}: {}", place.display());
        }
        for address in ["origin", ".", "sub"] {
            assert!(
                !leads_to(&destination(&root, address).unwrap(), &armed),
                "{address}"
            );
        }
        assert_eq!(
            destination(&root, "away/x").unwrap(),
            Path::new("/nowhere/home/x")
        );
        for address in ["https://h/x", "git@h:x", "h:/x"] {
            assert_eq!(destination(&root, address), None);
        }
    }
}
