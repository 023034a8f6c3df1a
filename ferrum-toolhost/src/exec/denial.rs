//! Which wall a failing command probably ran into, told from what it printed.
//!
//! A program may print anything, so every line here is marked inferred and worded by us; of the
//! program's text only a path or an address is taken, bounded and escaped, and a remedy is named
//! only for what may be granted at all.

use crate::fs::name::shown;
use crate::remedy;
use ferrum_proto::limits::DENIALS_MAX;
use ferrum_proto::reply::Denial;
use nix::unistd::AccessFlags;
use std::path::{Path, PathBuf};

/// Lines that are looked at, from the end of a stream.
const LINES_MAX: usize = 200;
/// Longer words are no paths that anybody could act on.
const PATH_BYTES_MAX: usize = 512;

/// What inference needs to know about the session.
pub struct Ground<'a> {
    pub policy: &'a policy::Ground,
    /// Every path that the view holds.
    pub view: &'a [PathBuf],
    pub network: policy::Network,
    /// Programs run from system directories only.
    pub system_programs_only: bool,
    /// Do ordinary permissions allow this? Walls are not asked.
    pub permits: &'a dyn Fn(&Path, AccessFlags) -> bool,
}

/// Reads the end of a failed command's output. At most [`DENIALS_MAX`] come out, one of them at
/// most about the network.
#[must_use]
pub fn infer(output: &str, ground: &Ground<'_>) -> Vec<Denial> {
    let lines: Vec<&str> = output.lines().collect();
    let mut denials: Vec<Denial> = Vec::new();
    for line in &lines[lines.len().saturating_sub(LINES_MAX)..] {
        let Some(denial) = network(line, ground)
            .or_else(|| held(line))
            .or_else(|| file(line, ground))
        else {
            continue;
        };
        let is_network = denial.wall == NETWORK_WALL;
        let known =
            |other: &&mut Denial| other.what == denial.what || (is_network && other.wall == NETWORK_WALL);
        match denials.iter_mut().find(known) {
            None => denials.push(denial),
            // A later line may name the address.
            Some(other) if other.what == SOME_NETWORK => other.what = denial.what,
            Some(_) => {}
        }
        if denials.len() == DENIALS_MAX {
            break;
        }
    }
    denials
}

fn inferred(what: impl Into<String>, wall: &str, remedy: &str) -> Denial {
    Denial {
        what: what.into(),
        wall: wall.to_owned(),
        remedy: remedy.to_owned(),
        certain: false,
    }
}

const NETWORK_WALL: &str = "network namespace";
const SOME_NETWORK: &str = "network";
const NETWORK: [&str; 11] = [
    "Could not resolve host",
    "Could not resolve hostname",
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Name or service not known",
    "Network is unreachable",
    "Couldn't connect to server",
    "getaddrinfo EAI_AGAIN",
    "Failed to connect",
    "failed to lookup address",
    "Connection refused",
];

fn network(line: &str, ground: &Ground<'_>) -> Option<Denial> {
    if ground.network == policy::Network::Full || !NETWORK.iter().any(|text| line.contains(text)) {
        return None;
    }
    let what = address(line).map_or(SOME_NETWORK.to_owned(), |address| format!("network: {address}"));
    Some(inferred(
        what,
        NETWORK_WALL,
        "network = \"full\" in [tools], or --network full",
    ))
}

/// The first word that can be a host: a dotted name or an address.
fn address(line: &str) -> Option<&str> {
    let is_edge = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'));
    line.split(is_edge)
        .map(|word| word.trim_matches(['.', ':', '-']))
        .find(|word| {
            let labels: Vec<&str> = word.split('.').collect();
            word.len() <= 255 && labels.len() > 1 && labels.iter().all(|label| !label.is_empty())
        })
}

/// Covers hold a git directory and what points to it in their place, for the host's life.
const HELD: &str =
    "removing or moving a repository, worktree or submodule that was there before this session";

fn held(line: &str) -> Option<Denial> {
    let is_held = line.contains("Device or resource busy")
        || line.contains("Read-only file system")
            && ["remove", "delete", "unlink"]
                .iter()
                .any(|word| line.contains(word))
            && names_relative_git(line);
    is_held.then(|| inferred(HELD, "mount view", ""))
}

/// A relative path in a line goes through a `.git`.
fn names_relative_git(line: &str) -> bool {
    let is_edge =
        |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '(' | ')' | ':' | ',' | '‘' | '’');
    line.split(is_edge)
        .any(|word| !word.starts_with('/') && word.split('/').any(|name| name == ".git"))
}

/// What the system said, and what may be behind it.
fn file(line: &str, ground: &Ground<'_>) -> Option<Denial> {
    let path = |reason: &str| path_before(line, reason).map(|path| ground.policy.cwd.join(path));
    if line.contains("Read-only file system") {
        return Some(written(&path("Read-only file system")?, "mount view", ground));
    }
    if line.contains("No such file or directory") {
        return hidden(&path("No such file or directory")?, ground);
    }
    if line.contains("Permission denied") {
        return denied(&path("Permission denied")?, ground);
    }
    line.contains("Operation not permitted")
        .then(|| call(line))
        .flatten()
}

/// Refused although ordinary permissions allow it.
fn denied(path: &Path, ground: &Ground<'_>) -> Option<Denial> {
    let allowed = |mode| (ground.permits)(path, mode);
    if ground.system_programs_only && path.is_file() && allowed(AccessFlags::X_OK) {
        let name = shown(path).into_owned();
        return Some(inferred(format!("{name} as a program"), "landlock", ""));
    }
    if allowed(AccessFlags::W_OK) {
        return Some(written(path, "landlock", ground));
    }
    // A directory that would take the new file.
    let parent = path.parent().filter(|_| !path.exists())?;
    let modes = AccessFlags::W_OK | AccessFlags::X_OK;
    (ground.permits)(parent, modes).then(|| written(path, "landlock", ground))
}

fn written(path: &Path, wall: &str, ground: &Ground<'_>) -> Denial {
    inferred(
        shown(path),
        wall,
        remedy::of(path, "writable_roots in [tools]", ground.policy),
    )
}

/// Absent, and at a place that the view does not hold: it may well be there outside.
fn hidden(path: &Path, ground: &Ground<'_>) -> Option<Denial> {
    let policy = ground.policy;
    let own_home = path.starts_with(&policy.home)
        && !ground
            .view
            .iter()
            .any(|entry| path.starts_with(entry) && entry.starts_with(&policy.home) && *entry != policy.home);
    let held = ground
        .view
        .iter()
        .chain(&policy.private)
        .any(|entry| path.starts_with(entry));
    // Directly below the root nothing is told from a mistyped name.
    let deep = path.components().count() > 2;
    if !own_home && (held || !deep) {
        return None;
    }
    let is_socket = path.extension().is_some_and(|extension| extension == "sock");
    let key = if is_socket {
        "sockets in [tools]"
    } else {
        "readable_roots in [tools]"
    };
    Some(inferred(shown(path), "mount view", remedy::of(path, key, policy)))
}

/// Calls that no session makes, by the words that programs use for them.
const CALLS: [(&str, &str, &str); 9] = [
    ("ptrace", "ptrace of another process", "seccomp and pid namespace"),
    ("PTRACE", "ptrace of another process", "seccomp and pid namespace"),
    ("unshare", "a new namespace", "seccomp"),
    ("setns", "another namespace", "seccomp"),
    ("mount", "mount", "seccomp"),
    ("changing ownership", "a change of owner", "capabilities"),
    ("changing group", "a change of group", "capabilities"),
    ("kill", "a signal to another process", "landlock"),
    ("socket", "a socket", "seccomp"),
];

fn call(line: &str) -> Option<Denial> {
    CALLS
        .iter()
        .find(|(word, ..)| line.contains(word))
        .map(|(_, what, wall)| inferred(*what, wall, ""))
}

/// The path in front of the system's words: `tool: cannot touch '/a/b': Permission denied`,
/// `bash: line 1: ./x: Permission denied`.
fn path_before<'a>(line: &'a str, reason: &str) -> Option<&'a str> {
    let before = line[..line.find(reason)?]
        .trim_end()
        .trim_end_matches(['(', '['])
        .trim_end();
    let before = before.trim_end_matches(':').trim_end();
    let quoted = ['\'', '"', '`', '’'].iter().any(|quote| before.ends_with(*quote));
    let word = if quoted {
        let inner = &before[..before.char_indices().last()?.0];
        &inner[inner
            .rfind(['\'', '"', '`', '‘'])
            .map_or(0, |at| at + inner[at..].chars().next().map_or(1, char::len_utf8))..]
    } else {
        let field = before.rsplit(": ").next()?;
        field.rsplit(' ').next()?
    };
    let plain = !word.is_empty() && word.len() < PATH_BYTES_MAX && !word.chars().any(char::is_control);
    (plain && word.contains('/')).then_some(word)
}

#[cfg(test)]
#[path = "denial_tests.rs"]
mod tests;
