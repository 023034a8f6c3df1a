//! Where a command stands: working directory, input, and what its paths mean.

use super::script::{Piece, Word};
use crate::Ground;
use std::path::{Component, Path, PathBuf};

/// The state that a walk carries from statement to statement of one shell.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// `None` after a `cd` that cannot be followed.
    pub(super) cwd: Option<PathBuf>,
    /// Where `cd -` leads.
    pub(super) before: Option<PathBuf>,
    /// Where `popd` leads, the last one first.
    pub(super) pushed: Vec<Option<PathBuf>>,
    /// Standard input comes from another command of the text.
    pub(super) piped: bool,
    /// Shell texts and wrappers around this command.
    pub(super) depth: usize,
    /// Inside a function, whose caller's directory is unknown.
    pub(super) in_function: bool,
}

/// What a word means as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Absolute, `.` and `..` removed as text. Symbolic links are the kernel walls' business.
    Path(PathBuf),
    /// A pattern whose matches all lie directly or deeper in this directory.
    Below(PathBuf),
    Dynamic,
}

impl Place {
    pub(super) fn start(ground: &Ground) -> Self {
        Self {
            cwd: Some(ground.cwd.clone()),
            before: None,
            pushed: Vec::new(),
            piped: false,
            depth: 0,
            in_function: false,
        }
    }

    /// Follows `cd WORD`.
    pub(super) fn enter(&mut self, word: Option<&Word>, ground: &Ground) {
        let next = match word {
            None => Some(ground.home.clone()),
            Some(word) if word.literal().as_deref() == Some("-") => self.before.clone(),
            Some(word) => match self.target(word, ground) {
                Target::Path(path) => Some(path),
                Target::Below(_) | Target::Dynamic => None,
            },
        };
        self.go(next);
    }

    /// Changes to a directory that may be unknown.
    pub(super) fn go(&mut self, next: Option<PathBuf>) {
        self.before = std::mem::replace(&mut self.cwd, next);
    }

    /// Resolves a word as a path, by text.
    pub(super) fn target(&self, word: &Word, ground: &Ground) -> Target {
        let mut text = String::new();
        let mut fixed: Option<usize> = None;
        for piece in &word.pieces {
            match piece {
                Piece::Literal { text: part, .. } => text.push_str(part),
                Piece::Home if text.is_empty() => text.push_str(&ground.home.to_string_lossy()),
                Piece::Tmp if text.is_empty() => text.push_str(&temporary(ground).to_string_lossy()),
                Piece::Pwd if text.is_empty() => match &self.cwd {
                    Some(cwd) => text.push_str(&cwd.to_string_lossy()),
                    None => return Target::Dynamic,
                },
                Piece::Glob(_) | Piece::Arithmetic(_) => {
                    fixed.get_or_insert(text.len());
                    text.push('x');
                }
                Piece::UserHome(name) if text.is_empty() => {
                    text.push_str(if name == "root" { "/" } else { "/home/" });
                    text.push_str(name);
                }
                _ => return Target::Dynamic,
            }
        }
        if text.is_empty() {
            return Target::Dynamic;
        }
        match fixed {
            None => self.absolute(&text).map_or(Target::Dynamic, Target::Path),
            Some(end) => {
                let rest = &text[end..];
                if Path::new(rest)
                    .components()
                    .any(|part| part == Component::ParentDir)
                {
                    return Target::Dynamic;
                }
                let directory = text[..end].rfind('/').map_or("", |slash| &text[..=slash]);
                self.absolute(directory).map_or(Target::Dynamic, Target::Below)
            }
        }
    }

    /// Makes a path absolute and removes `.` and `..`.
    pub(super) fn absolute(&self, text: &str) -> Option<PathBuf> {
        let joined = if text.starts_with('/') {
            PathBuf::from(text)
        } else {
            self.cwd.as_ref()?.join(text)
        };
        Some(normal(&joined))
    }
}

/// Removes `.` and `..` by text.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(name) => out.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// What `$TMPDIR` stands for.
fn temporary(ground: &Ground) -> PathBuf {
    let is_tmp = |path: &&PathBuf| path.ends_with("tmp");
    let known = ground
        .private
        .iter()
        .find(is_tmp)
        .or_else(|| ground.private.first());
    known.cloned().unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// True when `path` lies in a writable root or a place private to the session.
pub(super) fn is_inside(path: &Path, ground: &Ground) -> bool {
    let roots = ground.writable.iter().chain(&ground.private);
    roots.into_iter().any(|root| path.starts_with(root))
}
