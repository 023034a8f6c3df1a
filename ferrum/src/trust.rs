//! What the operator has to accept before it counts again: instruction files that a tool changed,
//! and project policies that were in force and are gone or looser.
//!
//! One small file in the data directory, which no tool can reach. It is read at each start and
//! written only when something is to be remembered or was accepted.

use crate::exit::{Failure, Kind};
use ferrum_proto::charter::PolicyText;
use ferrum_proto::terms::PathBytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of the file: some thousand projects.
const FILE_BYTES_MAX: u64 = 16 << 20;
const VERSION: u32 = 1;

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    version: u32,
    /// Instruction files that a tool changed since they were last accepted.
    changed: BTreeSet<String>,
    /// Project policies that were in force, by file.
    policies: BTreeMap<String, String>,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            version: VERSION,
            changed: BTreeSet::new(),
            policies: BTreeMap::new(),
        }
    }
}

impl Trust {
    /// Reads what is remembered; nothing where there is no file.
    ///
    /// # Errors
    /// A file that cannot be used: what it says must not get lost silently.
    pub fn load(data: &Path) -> Result<Self, Failure> {
        let path = file_of(data);
        read(&path).map_err(|why| {
            Failure::new(Kind::Usage, format!("{}: {why}", path.display()))
                .with_hint("repair it, or move it away: then nothing is remembered any more")
        })
    }

    /// Changes what is remembered, under a lock, in one step.
    ///
    /// # Errors
    /// As [`Self::load`], or when it cannot be written.
    pub fn update(data: &Path, change: impl FnOnce(&mut Self)) -> Result<(), Failure> {
        let fail = |what: &str, error: std::io::Error| {
            let path = file_of(data);
            Failure::new(
                Kind::Error,
                format!("{}: cannot be {what}: {error}", path.display()),
            )
        };
        let lock = private(&data.join("trust.lock"), false).map_err(|error| fail("locked", error))?;
        lock.lock().map_err(|error| fail("locked", error))?;
        let before = Self::load(data)?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        write(data, &after).map_err(|error| fail("written", error))
    }

    /// Paths of files that are not believed.
    #[must_use]
    pub fn changed(&self) -> BTreeSet<PathBuf> {
        self.changed.iter().map(|name| path_of(name)).collect()
    }

    /// The policies that speak for a canonical working directory.
    #[must_use]
    pub fn remembered(&self, cwd: &Path) -> Vec<PolicyText> {
        let all = self.policies.iter().map(|(name, text)| (path_of(name), text));
        let speaks = |path: &Path| directory_of(path).is_some_and(|directory| cwd.starts_with(directory));
        all.filter(|(path, _)| speaks(path))
            .map(|(path, text)| PolicyText {
                file: PathBytes::from(path.as_path()),
                text: text.clone(),
            })
            .collect()
    }

    /// True where these policies are already remembered as they are.
    #[must_use]
    pub fn knows(&self, policies: &[PolicyText]) -> bool {
        policies
            .iter()
            .all(|policy| self.policies.get(&name_of(policy.file.as_path())) == Some(&policy.text))
    }

    /// A tool changed these.
    pub fn distrust<'p>(&mut self, paths: impl IntoIterator<Item = &'p Path>) {
        self.changed.extend(paths.into_iter().map(name_of));
    }

    /// The operator accepts a file as it is; false where there was nothing to accept.
    pub fn accept(&mut self, path: &Path) -> bool {
        self.changed.remove(&name_of(path))
    }

    /// These policies are in force now.
    pub fn remember(&mut self, policies: &[PolicyText]) {
        let named = policies
            .iter()
            .map(|policy| (name_of(policy.file.as_path()), policy.text.clone()));
        self.policies.extend(named);
    }

    /// What speaks for `cwd` is what is in force now, and nothing else; says what changed.
    pub fn accept_policies(&mut self, cwd: &Path, now: &[PolicyText]) -> Vec<String> {
        let mut told = Vec::new();
        for before in self.remembered(cwd) {
            let name = name_of(before.file.as_path());
            match now.iter().find(|policy| policy.file == before.file) {
                None => told.push(format!("{name} is gone")),
                Some(policy) if policy.text != before.text => told.push(format!("{name} as it is now")),
                Some(_) => continue,
            }
            self.policies.remove(&name);
        }
        self.remember(now);
        told
    }
}

fn file_of(data: &Path) -> PathBuf {
    data.join("trust.json")
}

/// `<directory>/.ferrum/config.toml` → the directory.
fn directory_of(policy: &Path) -> Option<&Path> {
    policy.parent()?.parent()
}

/// A path as text, whatever its bytes.
fn name_of(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => {
            let digits = path
                .as_os_str()
                .as_bytes()
                .iter()
                .map(|byte| format!("{byte:02x}"));
            format!("hex:{}", digits.collect::<String>())
        }
    }
}

fn path_of(name: &str) -> PathBuf {
    let bytes = name.strip_prefix("hex:").and_then(|digits| {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        pairs.map(byte).collect::<Option<Vec<u8>>>()
    });
    bytes.map_or_else(
        || PathBuf::from(name),
        |bytes| PathBuf::from(OsString::from_vec(bytes)),
    )
}

fn read(path: &Path) -> Result<Trust, String> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Trust::default()),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let taken = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    taken.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    let trust: Trust = serde_json::from_slice(&bytes).map_err(|error| format!("is damaged: {error}"))?;
    if trust.version != VERSION {
        return Err(format!("is of version {}, not {VERSION}", trust.version));
    }
    Ok(trust)
}

fn private(path: &Path, new: bool) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(new)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

fn write(data: &Path, trust: &Trust) -> std::io::Result<()> {
    let temporary = data.join("trust.json.new");
    let mut file = private(&temporary, true)?;
    file.write_all(&serde_json::to_vec(trust)?)?;
    file.sync_all()?;
    std::fs::rename(&temporary, file_of(data))?;
    File::open(data)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(file: &str, text: &str) -> PolicyText {
        PolicyText {
            file: PathBytes(file.as_bytes().to_vec()),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_is_remembered_is_found_again_and_accepted_once() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let data = directory.path();
        assert_eq!(Trust::load(data), Ok(Trust::default()));
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/w/\xff/AGENTS.md"));
        let plain = Path::new("/w/AGENTS.md");
        Trust::update(data, |trust| {
            trust.distrust([odd, plain]);
            trust.remember(&[
                policy("/w/.ferrum/config.toml", "a"),
                policy("/v/.ferrum/config.toml", "b"),
            ]);
        })
        .expect("written");
        let trust = Trust::load(data).expect("there");
        assert_eq!(trust.changed(), [odd.to_path_buf(), plain.to_path_buf()].into());
        assert_eq!(
            trust.remembered(Path::new("/w/sub")),
            [policy("/w/.ferrum/config.toml", "a")]
        );
        assert_eq!(trust.remembered(Path::new("/wide")), []);
        assert!(trust.knows(&[policy("/w/.ferrum/config.toml", "a")]));
        assert!(!trust.knows(&[policy("/w/.ferrum/config.toml", "c")]));
        let mut told = Vec::new();
        Trust::update(data, |trust| {
            assert!(trust.accept(odd) && !trust.accept(odd));
            told = trust.accept_policies(Path::new("/w"), &[]);
        })
        .expect("written");
        assert_eq!(told, ["/w/.ferrum/config.toml is gone"]);
        let trust = Trust::load(data).expect("there");
        assert_eq!(trust.remembered(Path::new("/w")), []);
        assert_eq!(trust.remembered(Path::new("/v")).len(), 1);
        assert_eq!(trust.changed().len(), 1);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "scenery")]
    fn a_file_that_cannot_be_used_is_an_error_and_stays() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("trust.json");
        for (text, part) in [
            ("{", "damaged"),
            (
                "{\"version\":1,\"changed\":[],\"policies\":{},\"more\":1}",
                "damaged",
            ),
            ("{\"version\":2,\"changed\":[],\"policies\":{}}", "version 2"),
        ] {
            std::fs::write(&path, text).expect("file");
            let failure = Trust::load(directory.path()).expect_err(text);
            assert!(
                failure.message.contains(part) && failure.kind == Kind::Usage,
                "{failure:?}"
            );
            assert!(Trust::update(directory.path(), |_| ()).is_err());
            assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
        }
        std::fs::remove_file(&path).expect("removed");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
        assert!(
            Trust::load(directory.path())
                .expect_err("pipe")
                .message
                .contains("regular file")
        );
    }
}
