//! Opening a file that was put somewhere for Ferrum to obey: whatever else lies under its name
//! (a pipe, a device, a link to the user's keys) is told and not read.

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whose tree a file speaks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// The user's configuration directory: its links are the user's own.
    Own,
    /// Inside a checkout: the real file lies in it, and in no git directory.
    Inside(&'a Path),
    /// Outside any checkout: the real file lies in that directory; it and the directory that holds
    /// it belong to the user or root and nobody else can write them.
    Outside(&'a Path),
}

/// A regular file, open.
#[derive(Debug)]
pub(super) struct Regular {
    file: File,
    pub real: PathBuf,
    pub bytes: u64,
    /// Device and inode: two names may lead to one file.
    pub id: (u64, u64),
    /// When it was last changed; no command can set that.
    pub change_time: (i64, i64),
}

impl Regular {
    /// Opens `path`; `None` where nothing has that name.
    ///
    /// # Errors
    /// What lies there instead, as the end of a sentence that begins with the path.
    pub(super) fn open(path: &Path, place: Place<'_>) -> Result<Option<Self>, String> {
        match path.symlink_metadata() {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(format!("cannot be looked at: {error}")),
        }
        // Found before it is opened, so that no device or pipe is touched.
        let found = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|errno| format!("cannot be opened: {}", errno.desc()))?;
        let meta = found
            .metadata()
            .map_err(|error| format!("cannot be looked at: {error}"))?;
        if !meta.is_file() {
            return Err("is not a regular file".to_owned());
        }
        let descriptor = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let real = std::fs::read_link(&descriptor).map_err(|error| format!("cannot be located: {error}"))?;
        check(&real, &meta, place)?;
        let file = File::open(&descriptor).map_err(|error| format!("cannot be opened: {error}"))?;
        Ok(Some(Self {
            file,
            real,
            bytes: meta.len(),
            id: (meta.dev(), meta.ino()),
            change_time: (meta.ctime(), meta.ctime_nsec()),
        }))
    }

    /// At most `most` bytes of it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn read(&self, most: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = (&self.file).take(most).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        Ok(bytes)
    }
}

fn check(real: &Path, meta: &Metadata, place: Place<'_>) -> Result<(), String> {
    match place {
        Place::Own => Ok(()),
        Place::Inside(tree) => within(real, tree),
        Place::Outside(tree) => {
            within(real, tree)?;
            let directory = real.parent().unwrap_or(tree);
            let around = directory
                .metadata()
                .map_err(|error| format!("cannot be looked at: {error}"))?;
            belongs(meta, "")?;
            belongs(&around, "lies in a directory that ")
        }
    }
}

fn within(real: &Path, tree: &Path) -> Result<(), String> {
    let below = real
        .strip_prefix(tree)
        .map_err(|_| format!("leads out of {}", super::shown(tree)))?;
    if below.components().any(|part| part.as_os_str() == ".git") {
        return Err("leads into a git directory".to_owned());
    }
    Ok(())
}

fn belongs(meta: &Metadata, what: &str) -> Result<(), String> {
    if meta.uid() != 0 && meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(format!("{what}belongs to uid {}", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(format!("{what}can be written by others (chmod go-w)"));
    }
    Ok(())
}

/// Bytes as text: a byte order mark goes, line ends become LF, UTF-16 with its mark is understood. The
/// second value is where the first byte stands that is no text; such bytes become U+FFFD. Where the bytes are only the beginning
/// of a file, a character that their end cuts in two is dropped.
pub(super) fn text_of(bytes: &[u8], is_whole: bool) -> (String, Option<usize>) {
    if let Some(text) = utf16(bytes) {
        return (clean(&text), None);
    }
    let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (text, bad) = match std::str::from_utf8(body) {
        Ok(text) => (text.to_owned(), None),
        Err(error) if error.error_len().is_none() && !is_whole => {
            let whole = &body[..error.valid_up_to()];
            (String::from_utf8_lossy(whole).into_owned(), None)
        }
        Err(error) => {
            let at = bytes.len() - body.len() + error.valid_up_to();
            (String::from_utf8_lossy(body).into_owned(), Some(at))
        }
    };
    let nul = bytes.iter().position(|byte| *byte == 0);
    (clean(&text), bad.into_iter().chain(nul).min())
}

/// Some providers refuse a NUL.
fn clean(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\0', "\u{fffd}")
}

fn utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes.get(..2)? {
        [0xff, 0xfe] => u16::from_le_bytes,
        [0xfe, 0xff] => u16::from_be_bytes,
        _ => return None,
    };
    let units: Vec<u16> = bytes[2..].as_chunks().0.iter().map(|pair| unit(*pair)).collect();
    Some(String::from_utf16_lossy(&units))
}

/// How many characters nobody sees: they can carry instructions that only a model reads.
pub(super) fn invisible(text: &str) -> usize {
    let hides = |c: &char| {
        matches!(*c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
    };
    text.chars().filter(hides).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn refused(path: &Path, place: Place<'_>, part: &str) {
        let why = Regular::open(path, place).expect_err("refused");
        assert!(why.contains(part), "{why}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "scenery")]
    fn only_regular_files_inside_the_tree_are_opened() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let base = directory.path().canonicalize().expect("exists");
        let (tree, own) = (base.join("tree"), base.join("own"));
        for path in [tree.join("sub"), tree.join(".git"), own.clone()] {
            std::fs::create_dir_all(path).expect("directory");
        }
        std::fs::write(own.join("key"), "secret").expect("file");
        std::fs::write(tree.join("real.md"), "rules").expect("file");
        std::fs::write(tree.join(".git/config"), "url").expect("file");
        let file = tree.join("sub/AGENTS.md");
        assert!(
            Regular::open(&file, Place::Inside(&tree))
                .expect("fine")
                .is_none()
        );
        for (target, part) in [
            (own.join("key"), "leads out of"),
            ("../../own/key".into(), "leads out of"),
            ("../.git/config".into(), "git directory"),
            ("nowhere".into(), "cannot be opened"),
            (own.clone(), "not a regular file"),
            ("/dev/zero".into(), "not a regular file"),
        ] {
            symlink(target, &file).expect("link");
            refused(&file, Place::Inside(&tree), part);
            std::fs::remove_file(&file).expect("removed");
        }
        symlink(tree.join("real.md"), &file).expect("link");
        let found = Regular::open(&file, Place::Inside(&tree))
            .expect("inside")
            .expect("there");
        assert_eq!((found.real, found.bytes), (tree.join("real.md"), 5));
        // A link is fine where the user put it for the user alone.
        symlink(own.join("key"), own.join("AGENTS.md")).expect("link");
        let found = Regular::open(&own.join("AGENTS.md"), Place::Own)
            .expect("own")
            .expect("there");
        assert_eq!(found.read(3).expect("readable"), b"sec");
        nix::unistd::mkfifo(&own.join("pipe"), Mode::S_IRWXU).expect("pipe");
        refused(&own.join("pipe"), Place::Own, "not a regular file");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "scenery")]
    fn outside_a_checkout_nobody_else_may_be_able_to_write_it() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let tree = directory.path().canonicalize().expect("exists");
        let file = tree.join("AGENTS.md");
        let mode = |path: &Path, bits| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(bits)).expect("own file");
        };
        std::fs::write(&file, "rules").expect("file");
        mode(&file, 0o644);
        assert!(Regular::open(&file, Place::Outside(&tree)).is_ok());
        mode(&file, 0o664);
        refused(&file, Place::Outside(&tree), "can be written by others");
        assert!(Regular::open(&file, Place::Inside(&tree)).is_ok());
        mode(&file, 0o644);
        mode(&tree, 0o777);
        refused(
            &file,
            Place::Outside(&tree),
            "lies in a directory that can be written",
        );
        mode(&tree, 0o700);
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(54321), None).expect("root may");
            refused(&file, Place::Outside(&tree), "belongs to uid 54321");
        }
    }

    #[test]
    fn text_loses_marks_and_names_the_first_bad_byte() {
        assert_eq!(
            text_of(b"\xef\xbb\xbf# R\r\n- a\r\n", true),
            ("# R\n- a\n".to_owned(), None)
        );
        assert_eq!(text_of(b"caf\xe9 x", true), ("caf\u{fffd} x".to_owned(), Some(3)));
        assert_eq!(
            text_of(b"\xef\xbb\xbfa\xff", false),
            ("a\u{fffd}".to_owned(), Some(4))
        );
        // Cut in the middle of a snowman.
        assert_eq!(text_of(b"a\xe2\x98", false), ("a".to_owned(), None));
        assert_eq!(text_of(b"\xff\xfea\0\r\0\n\0", true), ("a\n".to_owned(), None));
        assert_eq!(text_of(b"\xfe\xff\0a", true), ("a".to_owned(), None));
        assert_eq!(text_of(b"a\0b", true), ("a\u{fffd}b".to_owned(), Some(1)));
        assert_eq!(invisible("a\u{e0041}\u{e0042}\u{200b}b é"), 3);
        assert_eq!(text_of(b"a\xe2\x98", true), ("a\u{fffd}".to_owned(), Some(1)));
    }
}
