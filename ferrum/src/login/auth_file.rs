//! `auth.json`: the tokens, shared by every Ferrum process of the user.
//!
//! A confined front may write into this file but cannot replace it, so it is not renamed into
//! place. Instead the new text goes to a journal first and is synced, then over the old text, and
//! the journal is emptied: whatever moment a crash comes in, one of the two is whole, and a whole
//! journal is the newer one. All of it happens under a lock that other processes see
//! (docs/adr/0014-auth-json-has-a-journal.md).

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The entry of the file that is ours; others are kept as they are.
const ENTRY: &str = "openai-codex";
const LOCK: &str = ".auth.json.lock";
const JOURNAL: &str = ".auth.json.new";
/// Far above any set of tokens.
const AUTH_BYTES_MAX: u64 = 1 << 20;

/// The files that the front writes, beside `auth.json` itself.
pub(crate) const FILES: [&str; 3] = ["auth.json", JOURNAL, LOCK];

/// What is kept of a login. Has no `Debug`.
#[derive(Clone)]
pub struct Login {
    pub access: SecretString,
    pub refresh: SecretString,
    /// Unix time in milliseconds.
    pub expires_ms: u64,
    pub account: Option<String>,
}

/// Why the file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    #[error("{} cannot be {what}: {source}", path.display())]
    Io {
        path: PathBuf,
        what: &'static str,
        source: std::io::Error,
    },
    #[error("{}: {what}", path.display())]
    Content { path: PathBuf, what: &'static str },
    #[error("another process has held {} for {seconds} s", path.display())]
    Busy { path: PathBuf, seconds: u64 },
    /// Whoever wanted it has gone.
    #[error("given up")]
    GivenUp,
}

/// The file, wherever it is and whether it exists or not.
#[derive(Debug, Clone)]
pub struct AuthFile {
    directory: PathBuf,
}

/// The file with its lock held; the lock goes with it.
pub struct Locked {
    path: PathBuf,
    file: File,
    journal: File,
    _lock: File,
}

impl AuthFile {
    #[must_use]
    pub fn new(config: &Path) -> Self {
        Self {
            directory: config.to_owned(),
        }
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("auth.json")
    }

    /// The login, without waiting for anyone; `None` where there is none.
    ///
    /// # Errors
    /// A file that cannot be read or is not what it should be.
    pub fn read(&self) -> Result<Option<Login>, AuthFileError> {
        let path = self.path();
        // A writer in its middle is done in a moment, and its journal is whole by then.
        for attempt in 0.. {
            if let Some(entries) = read(&self.directory.join(JOURNAL))
                .ok()
                .flatten()
                .and_then(|t| parse(&t))
            {
                return login(&path, &entries);
            }
            let Some(text) = read(&path)? else { return Ok(None) };
            match parse(&text) {
                Some(entries) => return login(&path, &entries),
                None if text.trim_ascii().is_empty() => return Ok(None),
                None if attempt == 4 => return Err(not_ours(&path)),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Ok(None)
    }

    /// Takes the lock, and opens everything that a later [`Locked::store`] needs: a token that
    /// could not be stored must not be asked for.
    ///
    /// # Errors
    /// When it is not free within `wait`, `gone` says that nobody waits any more, or a file cannot
    /// be opened for writing.
    pub fn lock(&self, wait: Duration, gone: &dyn Fn() -> bool) -> Result<Locked, AuthFileError> {
        let path = self.directory.join(LOCK);
        let lock = open(&path, true)?;
        let until = Instant::now() + wait;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(io(&path, "locked", source)),
                Err(TryLockError::WouldBlock) if gone() => return Err(AuthFileError::GivenUp),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    let seconds = wait.as_secs();
                    return Err(AuthFileError::Busy { path, seconds });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        let path = self.path();
        let mut locked = Locked {
            file: open(&path, true)?,
            journal: open(&self.directory.join(JOURNAL), true)?,
            path,
            _lock: lock,
        };
        locked.recover()?;
        Ok(locked)
    }
}

impl Locked {
    /// The login as it is now.
    ///
    /// # Errors
    /// As [`AuthFile::read`].
    pub fn read(&mut self) -> Result<Option<Login>, AuthFileError> {
        let text = self.text()?;
        if text.trim_ascii().is_empty() {
            return Ok(None);
        }
        login(&self.path, &parse(&text).ok_or_else(|| not_ours(&self.path))?)
    }

    /// Stores the login, and keeps the entries of others.
    ///
    /// # Errors
    /// When it cannot be written; the file then holds the old login or the new one, whole.
    pub fn store(&mut self, login: &Login) -> Result<(), AuthFileError> {
        let text = self.text()?;
        let mut entries = match parse(&text) {
            Some(entries) => entries,
            None if text.trim_ascii().is_empty() => Map::new(),
            None => return Err(not_ours(&self.path)),
        };
        entries.insert(
            ENTRY.to_owned(),
            json!({
                "type": "oauth",
                "access": login.access.expose_secret(),
                "refresh": login.refresh.expose_secret(),
                "expires": login.expires_ms,
                "accountId": login.account,
            }),
        );
        let text = format!("{:#}\n", Value::Object(entries));
        replace(&mut self.journal, text.as_bytes()).map_err(|e| io(&self.path, "prepared", e))?;
        self.take_over(text.as_bytes())
    }

    /// Finishes what a crashed writer has left.
    fn recover(&mut self) -> Result<(), AuthFileError> {
        let mut text = Vec::new();
        let read = (&self.journal).take(AUTH_BYTES_MAX).read_to_end(&mut text);
        read.map_err(|e| io(&self.path, "read", e))?;
        if text.is_empty() {
            return Ok(());
        }
        if parse(&text).is_some() {
            return self.take_over(&text);
        }
        replace(&mut self.journal, b"").map_err(|e| io(&self.path, "written", e))
    }

    fn take_over(&mut self, text: &[u8]) -> Result<(), AuthFileError> {
        let written = replace(&mut self.file, text).and_then(|()| replace(&mut self.journal, b""));
        written.map_err(|e| io(&self.path, "written", e))
    }

    fn text(&mut self) -> Result<Vec<u8>, AuthFileError> {
        let mut text = Vec::new();
        let read = self
            .file
            .rewind()
            .and_then(|()| (&self.file).take(AUTH_BYTES_MAX + 1).read_to_end(&mut text));
        read.map_err(|e| io(&self.path, "read", e))?;
        bounded(&self.path, text)
    }
}

/// New text over the old one, on the disk when it returns.
fn replace(file: &mut File, text: &[u8]) -> std::io::Result<()> {
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.rewind()?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, AuthFileError> {
    let file = match open(path, false) {
        Ok(file) => file,
        Err(AuthFileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    let read = file.take(AUTH_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|e| io(path, "read", e))?;
    bounded(path, text).map(Some)
}

/// A regular file, with mode 0600 where it is made. Non-blocking, for what is no file at all.
fn open(path: &Path, writable: bool) -> Result<File, AuthFileError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(writable)
        .create(writable)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let what = if writable { "opened for writing" } else { "opened" };
    let file = opened.map_err(|e| io(path, what, e))?;
    match file.metadata() {
        Ok(meta) if meta.is_file() => Ok(file),
        Ok(_) => Err(AuthFileError::Content {
            path: path.to_owned(),
            what: "is not a regular file",
        }),
        Err(error) => Err(io(path, "examined", error)),
    }
}

fn bounded(path: &Path, text: Vec<u8>) -> Result<Vec<u8>, AuthFileError> {
    if text.len() as u64 > AUTH_BYTES_MAX {
        let what = "is larger than 1 MiB";
        return Err(AuthFileError::Content {
            path: path.to_owned(),
            what,
        });
    }
    Ok(text)
}

fn parse(text: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(text).ok()
}

fn login(path: &Path, entries: &Map<String, Value>) -> Result<Option<Login>, AuthFileError> {
    let Some(entry) = entries.get(ENTRY) else {
        return Ok(None);
    };
    let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty());
    let (Some(access), Some(refresh)) = (text("access"), text("refresh")) else {
        let what = "its entry \"openai-codex\" holds no tokens";
        return Err(AuthFileError::Content {
            path: path.to_owned(),
            what,
        });
    };
    Ok(Some(Login {
        access: access.into(),
        refresh: refresh.into(),
        expires_ms: entry["expires"].as_u64().unwrap_or(0),
        account: text("accountId").map(str::to_owned),
    }))
}

fn not_ours(path: &Path) -> AuthFileError {
    AuthFileError::Content {
        path: path.to_owned(),
        what: "is not a JSON object",
    }
}

fn io(path: &Path, what: &'static str, source: std::io::Error) -> AuthFileError {
    AuthFileError::Io {
        path: path.to_owned(),
        what,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(access: &str) -> Login {
        Login {
            access: access.into(),
            refresh: "r".into(),
            expires_ms: 7,
            account: Some("acc".into()),
        }
    }

    fn put(dir: &Path, name: &str, text: &str) {
        File::create(dir.join(name))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("writable");
    }

    fn access(file: &AuthFile) -> Option<String> {
        let login = file.read().expect("readable");
        login.map(|login| login.access.expose_secret().to_owned())
    }

    fn locked(file: &AuthFile) -> Locked {
        file.lock(Duration::from_secs(5), &|| false).expect("free")
    }

    #[test]
    fn a_login_is_kept_beside_the_entries_of_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = AuthFile::new(dir.path());
        assert_eq!(access(&file), None);
        put(
            dir.path(),
            "auth.json",
            r#"{"other":{"key":"k","n":[1,{"a":null}]}}"#,
        );
        assert_eq!(access(&file), None);
        locked(&file)
            .store(&sample("first, and a good deal longer"))
            .expect("stored");
        locked(&file).store(&sample("second")).expect("stored");
        assert_eq!(access(&file).as_deref(), Some("second"));
        let text = std::fs::read_to_string(file.path()).expect("text");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["other"], json!({"key": "k", "n": [1, {"a": null}]}));
        assert_eq!(
            value["openai-codex"],
            json!({"type": "oauth", "access": "second", "refresh": "r", "expires": 7, "accountId": "acc"})
        );
        let mode = std::fs::metadata(file.path())
            .expect("its mode")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// Every prefix of every step of a write, as a crash would leave it.
    #[test]
    fn a_crash_at_any_byte_leaves_the_old_login_or_the_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = AuthFile::new(dir.path());
        locked(&file).store(&sample("old")).expect("stored");
        let old = std::fs::read_to_string(file.path()).expect("text");
        locked(&file).store(&sample("newer-and-longer")).expect("stored");
        let new = std::fs::read_to_string(file.path()).expect("text");
        let mut states: Vec<(String, String)> = (0..=new.len())
            .map(|n| (old.clone(), new[..n].to_owned()))
            .collect();
        let over = |n: usize| format!("{}{}", &new[..n], old.get(n..).unwrap_or_default());
        states.extend((0..=new.len()).map(|n| (over(n), new.clone())));
        states.extend((0..=new.len()).rev().map(|n| (new.clone(), new[..n].to_owned())));
        for (main, journal) in states {
            put(dir.path(), "auth.json", &main);
            put(dir.path(), JOURNAL, &journal);
            let found = access(&file).expect("a login");
            assert!(found == "old" || found == "newer-and-longer", "{found}");
            let recovered = locked(&file).read().expect("readable").expect("a login");
            assert_eq!(recovered.access.expose_secret(), found, "{main:?} {journal:?}");
            assert_eq!(std::fs::read(dir.path().join(JOURNAL)).expect("the journal"), b"");
        }
    }

    #[test]
    fn what_is_no_file_of_ours_is_an_error_and_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = AuthFile::new(dir.path());
        for text in [
            "[1]",
            "{\"openai-codex\":",
            "x",
            "{\"openai-codex\":{\"access\":1}}",
        ] {
            put(dir.path(), "auth.json", text);
            assert!(file.read().is_err(), "{text}");
        }
        put(dir.path(), "auth.json", "{\"a\":");
        assert!(locked(&file).store(&sample("x")).is_err());
        assert_eq!(std::fs::read_to_string(file.path()).expect("text"), "{\"a\":");
        std::fs::remove_file(file.path()).expect("removed");
        nix::unistd::mkfifo(&file.path(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert!(file.read().is_err());
    }

    #[test]
    fn the_lock_is_waited_for_and_given_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = AuthFile::new(dir.path());
        let held = locked(&file);
        let busy = file
            .lock(Duration::from_millis(50), &|| false)
            .err()
            .expect("held");
        assert!(busy.to_string().contains(".auth.json.lock"), "{busy}");
        let gone = file.lock(Duration::from_secs(60), &|| true).err();
        assert!(matches!(gone, Some(AuthFileError::GivenUp)));
        drop(held);
        locked(&file);
    }
}
