//! The key of the chain: `audit.key` in the config directory, 64 hexadecimal digits, readable by
//! its owner alone. Made before the front confines itself; afterwards it can only be read.

use super::chain::{self, Keyed};
use super::verify;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, renameat2};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("audit key {}: cannot {step}: {what}", path.display())]
    Io {
        path: PathBuf,
        step: &'static str,
        what: String,
    },
    #[error("audit key {}: {what}", path.display())]
    Unfit { path: PathBuf, what: &'static str },
    #[error("audit key {}: there is none", .0.display())]
    Missing(PathBuf),
    #[error("audit key {}: it is gone, and {witness} was written under it", path.display())]
    Lost { path: PathBuf, witness: String },
}

/// Where the key lies.
#[must_use]
pub fn path(config: &Path) -> PathBuf {
    config.join("audit.key")
}

/// Reads the key; makes it where there is none and nothing below `data` was written under one. A
/// new key in its place would make every log look changed, or a made-up log look whole.
///
/// # Errors
/// [`KeyError`]; a key that somebody else could read or write is not used.
pub fn read_or_make(config: &Path, data: &Path) -> Result<Keyed, KeyError> {
    match read_known(config, data) {
        Err(KeyError::Missing(_)) => {
            make(config)?;
            read(config)
        }
        other => other,
    }
}

/// Reads the key, and tells one that was lost from one that was never made.
///
/// # Errors
/// [`KeyError`].
pub fn read_known(config: &Path, data: &Path) -> Result<Keyed, KeyError> {
    let path = match read(config) {
        Err(KeyError::Missing(path)) => path,
        known => return known,
    };
    let witness = verify::witness(data);
    // Somebody else's first start may have made it meanwhile, and a log under it.
    match (read(config), witness) {
        (Err(KeyError::Missing(_)), Some(witness)) => Err(KeyError::Lost { path, witness }),
        (other, _) => other,
    }
}

/// Reads the key.
///
/// # Errors
/// [`KeyError`].
pub fn read(config: &Path) -> Result<Keyed, KeyError> {
    let path = path(config);
    let failed = |step| io_error(&path, step);
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(&path)
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(KeyError::Missing(path)),
        other => other.map_err(failed("open"))?,
    };
    let facts = file.metadata().map_err(failed("look at"))?;
    let owner = facts.uid();
    let unfit = |what| {
        Err(KeyError::Unfit {
            path: path.clone(),
            what,
        })
    };
    if !facts.is_file() || facts.nlink() != 1 {
        return unfit("is not a regular file with one name");
    }
    if facts.mode() & 0o077 != 0 {
        return unfit("others may read or write it; chmod 600 it, or remove it for a new one");
    }
    if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        return unfit("it belongs to somebody else");
    }
    let mut digits = Vec::new();
    file.take(66).read_to_end(&mut digits).map_err(failed("read"))?;
    match chain::unhex(digits.trim_ascii_end()) {
        Some(key) => Ok(Keyed::new(&key)),
        None => unfit("is not 64 hexadecimal digits"),
    }
}

/// Puts a new key in place, whole or not at all; one that came meanwhile stays.
fn make(config: &Path) -> Result<(), KeyError> {
    let path = path(config);
    let failed = |step| io_error(&path, step);
    if !config.is_dir() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(config);
        made.map_err(failed("make the directory of"))?;
    }
    let mut key = [0; 32];
    let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key));
    random.map_err(failed("draw"))?;
    let new = config.join(format!(".audit.key.{}", uuid::Uuid::new_v4().simple()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(format!("{}\n", chain::hex(&key)).as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| place(&new, &path));
    let _ = std::fs::remove_file(&new);
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed("make")(error)),
        _ => File::open(config)
            .and_then(|dir| dir.sync_all())
            .map_err(failed("make")),
    }
}

/// Gives a file its name, unless the name is taken. In one step, so that nobody who starts at the
/// same time sees a file with two names; file systems that cannot do that take the two.
fn place(new: &Path, path: &Path) -> io::Result<()> {
    match renameat2(AT_FDCWD, new, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
        Err(Errno::EINVAL | Errno::ENOSYS) => std::fs::hard_link(new, path),
        other => other.map_err(io::Error::from),
    }
}

fn io_error(path: &Path, step: &'static str) -> impl Fn(io::Error) -> KeyError {
    let path = path.to_owned();
    move |error| KeyError::Io {
        path: path.clone(),
        step,
        what: error.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files in place")]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn those_who_start_at_once_find_the_same_key() {
        for _ in 0..50 {
            let directory = tempfile::tempdir().unwrap();
            let (config, data) = (directory.path().join("config"), directory.path().join("data"));
            let keys: Vec<_> = std::thread::scope(|scope| {
                let started =
                    [(); 4].map(|()| scope.spawn(|| read_or_make(&config, &data).map(|key| key.name())));
                started.map(|one| one.join().unwrap()).into()
            });
            assert!(
                keys[0].is_ok() && keys.iter().all(|key| *key == keys[0]),
                "{keys:?}"
            );
        }
    }

    #[test]
    fn a_key_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config/ferrum");
        assert!(matches!(read(&config), Err(KeyError::Missing(_))));
        let name = read_or_make(&config, dir.path()).ok().unwrap().name();
        assert_eq!(read_or_make(&config, dir.path()).ok().unwrap().name(), name);
        let mode = fs::metadata(path(&config)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&config).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_is_gone_is_not_replaced_while_something_was_written_under_it() {
        let dir = tempfile::tempdir().unwrap();
        let (config, data) = (dir.path().join("config"), dir.path().join("data"));
        read_or_make(&config, &data).ok().unwrap();
        fs::remove_file(path(&config)).unwrap();
        read_or_make(&config, &data).ok().unwrap();
        for (file, text, witness) in [
            ("audit/a.jsonl", "", "the audit log a"),
            (
                "sessions/b.jsonl",
                "{\"type\":\"metadata\",\"audit\":{\"log\":\"b\",\"count\":1,\"head\":\"HEAD\"}}\n",
                "the session b",
            ),
        ] {
            fs::remove_file(path(&config)).unwrap();
            let file = data.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text.replace("HEAD", &"0".repeat(64))).unwrap();
            let error = read_or_make(&config, &data).err().unwrap();
            assert!(
                matches!(&error, KeyError::Lost { witness: by, .. } if by == witness),
                "{error}"
            );
            assert!(!path(&config).exists());
            fs::remove_file(&file).unwrap();
            read_or_make(&config, &data).ok().unwrap();
        }
    }

    #[test]
    fn an_odd_key_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(dir.path());
        let said = || read_or_make(dir.path(), dir.path()).err().unwrap().to_string();
        fs::write(&path, "short\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(said().contains("64 hexadecimal"), "{}", said());
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(said().contains("chmod 600"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(said().contains("regular file"));
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(said().contains("cannot open"));
    }
}
