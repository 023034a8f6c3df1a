//! What of the user's home appears in the private one: git's settings, without secrets.

use super::view::View;
use crate::fs::beneath;
use crate::guard::repos::read_small;
use crate::seal::Decision;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// git's own files, relative to the home.
const GIT_FILES: [&str; 4] = [
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
];

/// Sections whose values are secrets or fetch them.
const SECRET_SECTIONS: [&str; 6] = ["credential", "github", "gitlab", "sendemail", "imap", "http"];

/// Included files are followed this deep.
const INCLUDE_DEPTH_MAX: usize = 5;

/// Texts that were read from the user's home before the view was built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HomeFiles(Vec<(PathBuf, String)>);

impl HomeFiles {
    /// The texts of git's settings.
    pub fn git_settings(&self) -> impl Iterator<Item = &str> + Clone {
        let settings = self
            .0
            .iter()
            .filter(|(name, _)| name.to_string_lossy().ends_with("config"));
        settings.map(|(_, text)| text.as_str())
    }
}

/// Reads the files while the real home is still there. Called by the reader thread.
#[must_use]
pub fn collect(home: &Path) -> HomeFiles {
    let mut files = Vec::new();
    for name in GIT_FILES {
        let Some(text) = fs::canonicalize(home.join(name))
            .ok()
            .as_deref()
            .and_then(read_small)
        else {
            continue;
        };
        let text = if name.ends_with("config") {
            cleaned(&text, home, 0)
        } else {
            text
        };
        files.push((PathBuf::from(name), text));
    }
    HomeFiles(files)
}

/// Writes them into the private home. What stands there was made by earlier commands and is
/// replaced, never followed.
///
/// # Errors
/// The system's.
pub fn fill(decision: &Decision, home: &Path) -> io::Result<()> {
    for (name, text) in &decision.home_files.0 {
        beneath::file(home, name, text.as_bytes())?;
    }
    Ok(())
}

/// Without mounts the private home lies elsewhere; links lead to the toolchains.
pub fn link_toolchains(view: &View, home: &Path) {
    for entry in view.entries.iter().filter(|e| e.why == "toolchain") {
        let Ok(relative) = entry.path.strip_prefix(&view.home) else {
            continue;
        };
        let place = home.join(relative);
        if fs::read_link(&place).is_ok_and(|target| target == entry.path) {
            continue;
        }
        // A toolchain that commands installed for themselves stays.
        let is_directory = fs::symlink_metadata(&place).is_ok_and(|m| m.is_dir());
        if is_directory && fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_some()) {
            continue;
        }
        // A toolchain that cannot be linked is found by its absolute path alone.
        let _ = beneath::link(home, relative, &entry.path);
    }
}

/// A git config without secret sections and without addresses that hold a password; includes are
/// put in place, since the files that they name are not in the view.
fn cleaned(text: &str, home: &Path, depth: usize) -> String {
    let mut result = String::with_capacity(text.len());
    let (mut keep, mut include) = (true, false);
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(head) = trimmed.strip_prefix('[') {
            let section: String = head
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
                .collect::<String>()
                .to_ascii_lowercase();
            include = section == "include";
            keep = !include
                && section != "includeif"
                && !SECRET_SECTIONS.contains(&section.as_str())
                && !holds_password(head);
        }
        if include
            && depth < INCLUDE_DEPTH_MAX
            && let Some((_, path)) = trimmed
                .split_once('=')
                .filter(|(name, _)| name.trim().eq_ignore_ascii_case("path"))
        {
            let path = path.trim().trim_matches('"');
            let path = path
                .strip_prefix("~/")
                .map_or_else(|| home.join(path), |rest| home.join(rest));
            if let Some(text) = fs::canonicalize(path).ok().as_deref().and_then(read_small) {
                result.push_str(&cleaned(&text, home, depth + 1));
            }
        }
        if keep && !holds_password(line) {
            result.push_str(line);
            result.push('\n');
        }
    }
    result
}

/// `scheme://user:password@host`
fn holds_password(line: &str) -> bool {
    line.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '"', ' ']).next().unwrap_or_default();
        authority
            .split_once('@')
            .is_some_and(|(user, _)| user.contains(':') || user.len() > 20)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_and_the_rest_stays() {
        let text = "[user]\n\tname = A\n[credential]\n\thelper = store\n[url \"https://u:tok@h/\"]\n\tinsteadOf = x\n[core]\n\tpager = less\n[http]\n\textraHeader = secret\n[alias]\n\tst = status\n";
        let clean = cleaned(text, Path::new("/nowhere"), 0);
        assert_eq!(
            clean,
            "[user]\n\tname = A\n[core]\n\tpager = less\n[alias]\n\tst = status\n"
        );
    }
}
