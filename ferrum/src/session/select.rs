//! Which file a session is.

use super::log::LogError;
use super::peek::{self, Peek};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Characters of a session's name.
const NAME_CHARS_MAX: usize = 80;
/// Least characters of an id that `--session` takes for one: a shorter word is a new name.
const ID_CHARS_MIN: usize = 8;
/// Matches that an ambiguous reference names.
const SHOWN_MAX: usize = 5;

/// The session that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    New,
    /// `--session REF`: taken up again; a name that is new makes one.
    Session(String),
    /// `--resume REF`: taken up again; it must exist.
    Resume(String),
    /// `--continue`, `--resume`: the latest of this directory.
    Latest,
}

/// The file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub path: PathBuf,
    /// Something that the operator should know about the choice; empty when there is nothing.
    pub notice: String,
}

/// Why there is no such session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error(
        "{0:?} cannot be a session's name: use 1 to 80 of the characters A-Z a-z 0-9 . _ -, not beginning with a dot"
    )]
    Name(String),
    #[error("there is no session {0:?}")]
    None(String),
    #[error("{reference:?} is ambiguous: it matches {}", matches.join(", "))]
    Ambiguous { reference: String, matches: Vec<String> },
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The directory of all sessions below the data directory.
#[must_use]
pub fn directory(data: &Path) -> PathBuf {
    data.join("sessions")
}

/// The file of a new session without a name: `<ms>-<uuid>.jsonl`.
#[must_use]
pub fn fresh(directory: &Path) -> PathBuf {
    directory.join(format!(
        "{}-{}.jsonl",
        super::record::now_ms(),
        uuid::Uuid::new_v4()
    ))
}

/// What a session is called: its file's name without the ending.
#[must_use]
pub fn id(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Finds the file. The latest is the one whose file was written last, among those that were begun
/// in `cwd` and hold a message; editors' and other agents' sessions (`acp`) do not count.
///
/// # Errors
/// [`SelectError`]; nothing is made.
pub fn choose(directory: &Path, which: &Which, cwd: &Path) -> Result<Chosen, SelectError> {
    let plain = |path| Chosen {
        path,
        notice: String::new(),
    };
    match which {
        Which::New => Ok(plain(fresh(directory))),
        Which::Session(reference) => session(directory, reference).map(plain),
        Which::Resume(reference) => resume(directory, reference).map(plain),
        Which::Latest => Ok(match latest(directory, cwd)? {
            Some(path) => plain(path),
            None => Chosen {
                path: fresh(directory),
                notice: format!(
                    "{} has no session to go on with; this is a new one",
                    cwd.display()
                ),
            },
        }),
    }
}

fn session(directory: &Path, reference: &str) -> Result<PathBuf, SelectError> {
    if reference.contains('/') {
        return existing(Path::new(reference));
    }
    let path = named(directory, reference)?;
    if path.symlink_metadata().is_ok() || reference.len() < ID_CHARS_MIN {
        return Ok(path);
    }
    let anonymous = |path: &PathBuf| is_anonymous(&id(path)) && matches(path, reference);
    let found: Vec<PathBuf> = all(directory)?.into_iter().filter(anonymous).collect();
    Ok(one(reference, found)?.unwrap_or(path))
}

fn resume(directory: &Path, reference: &str) -> Result<PathBuf, SelectError> {
    if reference.contains('/') {
        return existing(Path::new(reference));
    }
    let exact = named(directory, reference.trim_end_matches(".jsonl"))?;
    if exact.symlink_metadata().is_ok() {
        return Ok(exact);
    }
    let found = all(directory)?
        .into_iter()
        .filter(|path| matches(path, reference))
        .collect();
    one(reference, found)?.ok_or_else(|| SelectError::None(reference.to_owned()))
}

fn existing(path: &Path) -> Result<PathBuf, SelectError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(path.to_owned()),
        Err(_) => Err(SelectError::None(path.display().to_string())),
    }
}

/// The beginning of the file's name, of the UUID in it, or of the header's id.
fn matches(path: &Path, reference: &str) -> bool {
    let id = id(path);
    let uuid = is_anonymous(&id).then(|| id.split_once('-')).flatten();
    id.starts_with(reference)
        || uuid.is_some_and(|(_, uuid)| uuid.starts_with(reference))
        || peek::peek(path).is_ok_and(|peek| peek.id.starts_with(reference))
}

fn is_anonymous(id: &str) -> bool {
    id.split_once('-').is_some_and(|(ms, uuid)| {
        ms.len() >= 10 && ms.bytes().all(|b| b.is_ascii_digit()) && uuid::Uuid::try_parse(uuid).is_ok()
    })
}

fn one(reference: &str, found: Vec<PathBuf>) -> Result<Option<PathBuf>, SelectError> {
    if found.len() > 1 {
        let mut matches: Vec<String> = found.iter().take(SHOWN_MAX).map(|path| id(path)).collect();
        if found.len() > SHOWN_MAX {
            matches.push(format!("{} more", found.len() - SHOWN_MAX));
        }
        return Err(SelectError::Ambiguous {
            reference: reference.to_owned(),
            matches,
        });
    }
    Ok(found.into_iter().next())
}

fn latest(directory: &Path, cwd: &Path) -> Result<Option<PathBuf>, SelectError> {
    let cwd = canonical(cwd);
    let wanted = |peek: &Peek| {
        peek.has_message
            && peek.mode.as_deref() != Some("acp")
            && peek.cwd.as_deref().map(canonical).as_deref() == Some(&cwd)
    };
    let mut files: Vec<(SystemTime, PathBuf)> = all(directory)?
        .into_iter()
        .filter_map(|path| Some((path.symlink_metadata().ok()?.modified().ok()?, path)))
        .collect();
    files.sort();
    let newest_first = files.into_iter().rev().map(|(_, path)| path);
    // A file that cannot be read is not what anybody wants to go on with.
    Ok(newest_first
        .into_iter()
        .find(|path| peek::peek(path).is_ok_and(|peek| wanted(&peek))))
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Every session file, sorted by name.
///
/// # Errors
/// When the directory cannot be read; one that does not exist is empty.
pub fn all(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let failed = |error: std::io::Error| LogError::Directory {
        path: directory.to_owned(),
        what: error.to_string(),
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The file of the session `name`.
///
/// # Errors
/// [`SelectError::Name`] for a name that could leave the directory or hide in it.
pub fn named(directory: &Path, name: &str) -> Result<PathBuf, SelectError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let right = !name.is_empty()
        && name.len() <= NAME_CHARS_MAX
        && !name.starts_with('.')
        && name.chars().all(allowed);
    if right {
        Ok(directory.join(format!("{name}.jsonl")))
    } else {
        Err(SelectError::Name(name.chars().take(NAME_CHARS_MAX + 1).collect()))
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
