//! Which file a session is.

use std::path::{Path, PathBuf};

/// Characters of a session's name.
const NAME_CHARS_MAX: usize = 80;

/// A name that no session can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be a session's name: use 1 to 80 of the characters A-Z a-z 0-9 . _ -, not beginning with a dot"
)]
pub struct NameError(String);

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

/// The file of the session `name`.
///
/// # Errors
/// [`NameError`] for a name that could leave the directory or hide in it.
pub fn named(directory: &Path, name: &str) -> Result<PathBuf, NameError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let right = !name.is_empty()
        && name.len() <= NAME_CHARS_MAX
        && !name.starts_with('.')
        && name.chars().all(allowed);
    if right {
        Ok(directory.join(format!("{name}.jsonl")))
    } else {
        Err(NameError(name.chars().take(NAME_CHARS_MAX + 1).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_directory() {
        let dir = Path::new("/d");
        assert_eq!(named(dir, "a.b-c_1").unwrap(), Path::new("/d/a.b-c_1.jsonl"));
        assert!(named(dir, &"x".repeat(80)).is_ok());
        for bad in [
            "",
            ".hidden",
            "../escape",
            "a/b",
            "a b",
            "ü",
            "a\0",
            &"x".repeat(81),
        ] {
            assert!(named(dir, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn fresh_files_differ() {
        assert_ne!(fresh(Path::new("/d")), fresh(Path::new("/d")));
    }
}
