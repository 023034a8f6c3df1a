//! What in a checkout tries to run or to steer something: looked for before anything of it is
//! believed.
//!
//! Runs in the thread that decides, which can only read. Names, kinds and sizes are looked at, and
//! the text of git's own files; nothing else is opened.

use crate::fs::name::shown;
use crate::guard::LEFTOVERS;
use crate::guard::obeyed::obeyed_parts;
use crate::guard::repos::{EntryKind, Repository, repositories_at};
use ferrum_proto::limits::PREFLIGHT_MAX;
use ferrum_proto::seal::{Preflight, Remark};
use ferrum_proto::terms::PathBytes;
use policy::steering::{Row, row_of};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Entries that are looked at.
const ENTRIES_MAX: usize = 200_000;
/// A file of instructions or rules above this is no ordinary one.
const STEERING_BYTES_MAX: u64 = 128 << 10;
/// Any file above this.
const FILE_BYTES_MAX: u64 = 100 << 20;

/// Kinds of the steering table of which every file is named: opening the checkout is enough for
/// them. Of the others the number is told.
const NAMED: [&str; 4] = ["agent", "git", "editor", "shell"];

/// Looks through the checkout.
#[must_use]
pub fn of(top: &Path) -> Preflight {
    let mut look = Look {
        top,
        remarks: Vec::new(),
        counts: BTreeMap::new(),
        seen: 0,
    };
    let mut open = vec![top.to_path_buf()];
    while let Some(directory) = open.pop() {
        if look.seen < ENTRIES_MAX {
            look.directory(&directory, &mut open);
        }
    }
    look.finish()
}

struct Look<'a> {
    top: &'a Path,
    remarks: Vec<Remark>,
    /// Kind → who obeys, how many, and one of them.
    counts: BTreeMap<&'static str, (&'static Row, u32, PathBuf)>,
    seen: usize,
}

impl Look<'_> {
    fn directory(&mut self, directory: &Path, open: &mut Vec<PathBuf>) {
        // What cannot be read by us cannot be read by the session either.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            self.seen += 1;
            if self.seen > ENTRIES_MAX {
                return;
            }
            let path = entry.path();
            let Ok(meta) = entry.metadata() else { continue };
            if entry.file_name() == ".git" {
                for repository in repositories_at(&path) {
                    self.repository(&repository);
                }
            } else if meta.is_dir() {
                open.push(path);
            } else if entry.file_name() == "HEAD"
                && ["objects", "refs"].iter().all(|n| directory.join(n).is_dir())
            {
                self.bare(directory);
            } else {
                self.file(&path, &meta);
            }
        }
    }

    fn say(&mut self, path: &Path, kind: &str, what: impl Into<String>) {
        self.remarks.push(Remark {
            path: PathBytes::from(path),
            kind: kind.to_owned(),
            what: what.into(),
        });
    }

    fn repository(&mut self, repository: &Repository) {
        let entry = &repository.entry;
        match repository.kind {
            EntryKind::Directory | EntryKind::Bare => {}
            EntryKind::File => self.say(
                entry,
                "git",
                format!("a file that leads to {}", shown(&repository.git_dir)),
            ),
            EntryKind::Symlink => self.say(entry, "git", format!("a link to {}", shown(&repository.git_dir))),
        }
        for part in obeyed_parts(&repository.git_dir) {
            self.say(entry, "git", format!("git would obey {part}"));
        }
        for name in LEFTOVERS {
            if repository.git_dir.join(name).exists() {
                self.say(
                    entry,
                    "git",
                    format!("an operation was interrupted ({name}); going on with it runs what it lists"),
                );
            }
        }
    }

    /// Git takes it for a repository that needs no work tree.
    fn bare(&mut self, directory: &Path) {
        self.say(directory, "git", "git takes this directory for a repository");
        for part in obeyed_parts(directory) {
            self.say(directory, "git", format!("git would obey {part}"));
        }
    }

    fn file(&mut self, path: &Path, meta: &Metadata) {
        let kind = meta.file_type();
        let relative = path.strip_prefix(self.top).unwrap_or(path);
        let row = row_of(relative);
        if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() || kind.is_socket() {
            self.say(
                path,
                "special",
                "neither a file nor a directory: reading it may hang or act",
            );
        } else if let Some(row) = row {
            self.obeyed(path, relative, meta, row);
        } else if meta.len() > FILE_BYTES_MAX {
            self.say(path, "large", format!("{} MiB", meta.len() >> 20));
        }
        if meta.is_file() && meta.mode() & 0o6000 != 0 {
            self.say(
                path,
                "special",
                "runs with the rights of its owner (setuid or setgid)",
            );
        }
    }

    fn obeyed(&mut self, path: &Path, relative: &Path, meta: &Metadata, row: &'static Row) {
        if relative.ends_with(".ferrum/config.toml") {
            self.say(path, "policy", "narrows what a session may do here");
        } else if NAMED.contains(&row.kind) {
            self.say(path, row.kind, format!("obeyed by {}", row.who));
        } else {
            let count = self
                .counts
                .entry(row.kind)
                .or_insert_with(|| (row, 0, path.to_path_buf()));
            count.1 += 1;
        }
        if meta.is_symlink() {
            let what = match fs::canonicalize(path) {
                Ok(target) if target.starts_with(self.top) => format!("a link to {}", shown(&target)),
                Ok(target) => format!("a link out of the checkout, to {}", shown(&target)),
                Err(_) => "a link that leads nowhere".to_owned(),
            };
            self.say(path, "link", what);
        } else if meta.len() > STEERING_BYTES_MAX && NAMED.contains(&row.kind) {
            self.say(path, "large", format!("{} KiB", meta.len() >> 10));
        }
    }

    fn finish(mut self) -> Preflight {
        for (kind, (row, count, example)) in std::mem::take(&mut self.counts) {
            let files = if count == 1 { "file" } else { "files" };
            self.say(&example, kind, format!("{count} {files} obeyed by {}", row.who));
        }
        // What speaks to agents and what runs by itself comes first, should there be too much.
        let rank = |remark: &Remark| match remark.kind.as_str() {
            "link" | "policy" | "special" => 0,
            "git" => 1,
            "agent" => 2,
            _ => 3,
        };
        self.remarks
            .sort_by_cached_key(|remark| (rank(remark), remark.path.clone()));
        let more = self.remarks.len().saturating_sub(PREFLIGHT_MAX);
        self.remarks.truncate(PREFLIGHT_MAX);
        self.remarks.sort_by(|a, b| a.path.cmp(&b.path));
        Preflight {
            remarks: self.remarks,
            more: u32::try_from(more).unwrap_or(u32::MAX),
            complete: self.seen <= ENTRIES_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_runs_or_steers_is_named_and_ordinary_files_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap().join("tree");
        let put = |name: &str, text: &str| {
            let path = top.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        };
        put(".git/HEAD", "ref: refs/heads/main\n");
        put(".git/config", "[core]\n\tfsmonitor = ./evil\n");
        put(".git/hooks/post-checkout", "#!/bin/sh\n");
        put(".git/hooks/pre-push.sample", "");
        put(".git/rebase-merge/git-rebase-todo", "exec ./evil\n");
        put(".envrc", "evil\n");
        put(".ferrum/config.toml", "safety = \"high\"\n");
        put("a/package.json", "{}");
        put("b/package.json", "{}");
        put("agents.md", &"x".repeat(200_000));
        put("odd/HEAD", "ref: refs/heads/main\n");
        put("odd/config", "[core]\n\tpager = ./evil\n");
        for name in ["objects", "refs"] {
            fs::create_dir_all(top.join("odd").join(name)).unwrap();
        }
        put("src/main.rs", "fn main() {}");
        fs::write(directory.path().join("key"), "secret").unwrap();
        symlink(directory.path().join("key"), top.join("AGENTS.md")).unwrap();
        nix::unistd::mkfifo(&top.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = of(&top);
        let told: Vec<String> = found
            .remarks
            .iter()
            .map(|r| {
                format!(
                    "{} {} {}",
                    r.path.as_path().strip_prefix(&top).unwrap().display(),
                    r.kind,
                    r.what
                )
            })
            .collect();
        for part in [
            ".git git git would obey hooks/post-checkout",
            ".git git git would obey config core.fsmonitor",
            ".git git an operation was interrupted (rebase-merge)",
            "odd git git takes this directory",
            "odd git git would obey config core.pager",
            ".envrc shell obeyed by",
            ".ferrum/config.toml policy",
            "AGENTS.md agent",
            "AGENTS.md link a link out of the checkout",
            "agents.md large 195 KiB",
            "package.json package 2 files",
            "pipe special",
        ] {
            assert!(told.iter().any(|line| line.contains(part)), "{part}: {told:#?}");
        }
        assert!(
            !told
                .iter()
                .any(|line| line.contains("main.rs") || line.contains("sample")),
            "{told:#?}"
        );
        assert!(found.complete && found.more == 0);
    }

    #[test]
    fn the_number_of_remarks_is_bounded_and_the_rest_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..PREFLIGHT_MAX {
            fs::create_dir(directory.path().join(number.to_string())).unwrap();
            fs::write(directory.path().join(number.to_string()).join(".envrc"), "").unwrap();
        }
        assert_eq!(of(directory.path()).more, 0);
        fs::write(directory.path().join("AGENTS.md"), "").unwrap();
        let found = of(directory.path());
        assert_eq!((found.remarks.len(), found.more), (PREFLIGHT_MAX, 1));
        assert!(found.remarks.iter().any(|remark| remark.kind == "agent"));
    }
}
