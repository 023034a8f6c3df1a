//! Reading `config.toml` without trusting what lies there: a pipe does not hang, a directory or a
//! huge file is named as such, and only a file that is truly absent counts as absent.

use super::error::ConfigError;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Far above any real configuration.
pub(super) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The file's text; `None` when there is no file.
///
/// # Errors
/// Anything but a readable regular UTF-8 file of at most [`CONFIG_BYTES_MAX`] bytes.
pub(super) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let fail = |message: String, hint: &str| ConfigError::file(path, message, hint);
    // Non-blocking, so that a named pipe in its place cannot hold us up.
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        // A link that points nowhere is a mistake, not an absent file.
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Ok(None);
        }
        Err(error) => {
            return Err(fail(
                format!("cannot be opened: {error}"),
                "check the path and its permissions",
            ));
        }
    };
    let meta = file
        .metadata()
        .map_err(|error| fail(format!("cannot be examined: {error}"), ""))?;
    if !meta.is_file() {
        return Err(fail(
            "is not a regular file".to_owned(),
            "replace it by a file, or remove it",
        ));
    }
    let mut bytes = Vec::new();
    let read = file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| fail(format!("cannot be read: {error}"), ""))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(fail(format!("is larger than {} KiB", CONFIG_BYTES_MAX >> 10), ""));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|error| not_utf8(path, &error))
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> ConfigError {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
    let last = good.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let column = String::from_utf8_lossy(last).chars().count() + 1;
    ConfigError {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        ..ConfigError::file(path, "is not UTF-8 text here", "save the file as UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn put(dir: &Path, bytes: &[u8]) -> std::path::PathBuf {
        let path = dir.join("config.toml");
        File::create(&path)
            .and_then(|mut file| file.write_all(bytes))
            .expect("writable");
        path
    }

    #[test]
    fn absent_is_none_and_everything_odd_is_an_error() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("config.toml");
        assert_eq!(read(&path), Ok(None));
        std::os::unix::fs::symlink("nowhere", &path).expect("link");
        assert!(
            read(&path)
                .expect_err("dangling")
                .message
                .contains("cannot be opened")
        );
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("directory");
        assert!(
            read(&path)
                .expect_err("directory")
                .message
                .contains("regular file")
        );
        std::fs::remove_dir(&path).expect("removed");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
        assert!(read(&path).expect_err("pipe").message.contains("regular file"));
    }

    #[test]
    fn the_size_limit_holds_on_both_sides() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let most = usize::try_from(CONFIG_BYTES_MAX).expect("small");
        assert!(read(&put(dir.path(), &vec![b'#'; most])).is_ok());
        assert!(read(&put(dir.path(), &vec![b'#'; most + 1])).is_err());
    }

    #[test]
    fn bad_utf8_is_located() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let error = read(&put(dir.path(), b"a = 1\n\xc3\xa4 = \xff")).expect_err("not UTF-8");
        assert_eq!((error.line, error.column), (2, 5));
    }
}
