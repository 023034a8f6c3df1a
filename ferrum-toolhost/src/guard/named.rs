//! Files of a checkout that git's settings name: an included config, a directory of hooks, the
//! script of a filter or an alias. The settings stay as they are; what they lead to is a file like
//! any other, and a turn that touches it says so.

use super::config::Config;
use crate::fs::path::lexical;
use std::fs;
use std::path::{Path, PathBuf};

/// Paths that are kept of one settings file.
const NAMED_MAX: usize = 64;

/// Where relative paths of a settings file begin.
pub(super) struct Bases<'a> {
    /// Of includes: the directory of the file itself.
    pub(super) file: &'a Path,
    /// Of everything else: the top of the work tree.
    pub(super) top: &'a Path,
    pub(super) home: &'a Path,
}

/// What a settings file leads to below the top of a work tree.
pub(super) fn named(text: &str, bases: &Bases<'_>) -> Vec<PathBuf> {
    let config = Config::parse(text);
    let mut paths = Vec::new();
    for (section, name, value) in config.leading() {
        if section.starts_with("include") {
            paths.extend(bases.below(bases.file, value));
        } else if name == "hookspath" {
            paths.extend(bases.below(bases.top, value));
        } else {
            let words = value.split(|c: char| c.is_whitespace() || "\"';|&()!=".contains(c));
            let scripts = words.filter_map(|word| bases.below(bases.top, word));
            paths.extend(scripts.filter(|path| fs::symlink_metadata(path).is_ok_and(|m| !m.is_dir())));
        }
    }
    paths.truncate(NAMED_MAX);
    paths
}

impl Bases<'_> {
    fn below(&self, base: &Path, name: &str) -> Option<PathBuf> {
        if name.is_empty() {
            return None;
        }
        let path = match name.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => base.join(name),
        };
        let path = lexical(&path);
        (path != self.top && path.starts_with(self.top)).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settings_lead_to_is_found_below_the_top_alone() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for name in ["tools/clean.py", "run.sh", "log"] {
            let path = top.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let text = "[include]\n\tpath = ../team.gitconfig\n[includeIf \"onbranch:x\"]\n\tpath = /etc/gitconfig\n\
                    [core]\n\thooksPath = ci/hooks\n\tbare = false\n[filter \"x\"]\n\tclean = python3 tools/clean.py %f\n\
                    [alias]\n\tgo = \"!./run.sh\"\n\tl = log tools\n\tup = !../out.sh\n[core]\n\tfsmonitor = ~/w/run.sh\n";
        let git = top.join(".git");
        let home = top.join("nowhere");
        let bases = Bases {
            file: &git,
            top: &top,
            home: &home,
        };
        let found = named(text, &bases);
        let wanted =
            ["team.gitconfig", "ci/hooks", "tools/clean.py", "run.sh", "log"].map(|name| top.join(name));
        assert_eq!(found, wanted);
    }
}
