//! Which wall a failing command probably ran into, told from what it printed.
//!
//! A program may print anything, so every line here is marked inferred, is worded by us, and names
//! a remedy only for what may be granted at all.

use ferrum_proto::limits::DENIALS_MAX;
use ferrum_proto::reply::Denial;
use std::path::{Component, Path, PathBuf};

/// What inference needs to know about the session.
pub struct Ground<'a> {
    pub home: &'a Path,
    /// The home of the machine, which `home` may stand in for.
    pub writable: &'a [PathBuf],
    pub network: policy::Network,
    pub own_dirs: &'a [PathBuf],
}

/// Reads the end of a failed command's error output.
#[must_use]
pub fn infer(stderr: &str, ground: &Ground<'_>) -> Vec<Denial> {
    let mut denials: Vec<Denial> = Vec::new();
    for line in stderr.lines().rev().take(200) {
        let Some(denial) = of_line(line, ground) else {
            continue;
        };
        if !denials.iter().any(|d| d.what == denial.what) {
            denials.push(denial);
        }
        if denials.len() == DENIALS_MAX {
            break;
        }
    }
    denials.reverse();
    denials
}

const NETWORK: &[&str] = &[
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Couldn't connect to server",
    "getaddrinfo EAI_AGAIN",
    "Failed to connect",
    "Connection refused",
];

/// Covers hold a git directory and what points to it in their place, for the host's life.
const HELD: &str =
    "removing or moving a repository, worktree or submodule that was there before this session";

fn of_line(line: &str, ground: &Ground<'_>) -> Option<Denial> {
    if ground.network != policy::Network::Full && NETWORK.iter().any(|n| line.contains(n)) {
        return Some(Denial {
            what: "network".into(),
            wall: "network namespace".into(),
            remedy: "network = \"full\" in [tools], or --network full".into(),
            certain: false,
        });
    }
    let read_only = line.contains("Read-only file system");
    if line.contains("Device or resource busy") || read_only && names_relative_git(line) {
        return Some(Denial {
            what: HELD.into(),
            wall: "mount view".into(),
            remedy: String::new(),
            certain: false,
        });
    }
    let wall = if read_only {
        "mount view"
    } else if line.contains("Permission denied") || line.contains("EACCES") {
        "landlock"
    } else if line.contains("Operation not permitted") || line.contains("EPERM") {
        "seccomp"
    } else if line.contains("No such file or directory") && names_home(line, ground.home) {
        "mount view"
    } else {
        return None;
    };
    let path = absolute_path(line);
    if wall == "landlock" && path.is_none() {
        return None;
    }
    let inside = path
        .as_ref()
        .is_some_and(|p| ground.writable.iter().any(|root| p.starts_with(root)));
    let is_protected = path.as_ref().is_some_and(|p| {
        p.components()
            .any(|c| matches!(c, Component::Normal(n) if n == ".git" || n == ".ferrum"))
    });
    // Ordinary file permissions inside a root look the same; only our own covers are told.
    if inside && !is_protected {
        return None;
    }
    let what = path
        .as_ref()
        .map_or_else(|| "a system call".to_owned(), |p| p.display().to_string());
    let remedy = match &path {
        Some(path) if wall != "seccomp" && !is_protected => remedy(path, line, ground),
        _ => String::new(),
    };
    Some(Denial {
        what,
        wall: wall.into(),
        remedy,
        certain: false,
    })
}

fn remedy(path: &Path, line: &str, ground: &Ground<'_>) -> String {
    let directory = path.parent().unwrap_or(path);
    if policy::protect::root_problem(directory, ground.home, ground.own_dirs).is_some() {
        return String::new();
    }
    let key = if line.contains("No such file") {
        "readable_roots"
    } else {
        "writable_roots"
    };
    format!("{key} in [tools] of config.toml")
}

fn names_home(line: &str, home: &Path) -> bool {
    home.to_str()
        .is_some_and(|home| home.len() > 1 && line.contains(&format!("{home}/")))
}

/// A relative path in a line goes through a `.git`.
fn names_relative_git(line: &str) -> bool {
    line.split(is_edge)
        .any(|word| !word.starts_with('/') && word.split('/').any(|name| name == ".git"))
}

/// What stands around a path in a message.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '(' | ')' | ':' | ',' | '‘' | '’')
}

/// The first thing in a line that looks like an absolute path.
fn absolute_path(line: &str) -> Option<PathBuf> {
    line.split(is_edge)
        .find(|word| {
            word.len() > 1 && word.starts_with('/') && word.len() < 512 && !word.chars().any(char::is_control)
        })
        .filter(|word| !matches!(*word, "/bin/bash" | "/usr/bin/bash"))
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_covers_hold_in_place_is_told_once_and_has_no_remedy() {
        let root = PathBuf::from("/w");
        let ground = Ground {
            home: Path::new("/home/u"),
            writable: std::slice::from_ref(&root),
            network: policy::Network::Private,
            own_dirs: &[],
        };
        let stderr = "error: failed to delete '/w/tree': Device or resource busy\n\
                      rm: cannot remove 'n/.git/hooks': Read-only file system\n\
                      fatal: could not open 'sub/.git' for writing: Read-only file system\n";
        let denials = infer(stderr, &ground);
        assert_eq!(denials.len(), 1);
        assert_eq!(denials[0].what, HELD);
        assert!(denials[0].remedy.is_empty());
        let elsewhere = infer("touch: cannot touch '/x/y': Read-only file system\n", &ground);
        assert_eq!(elsewhere[0].what, "/x/y");
    }
}
