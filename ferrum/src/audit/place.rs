//! Names and files of the logs: `<data>/audit/<session>.jsonl`, and `<session>~N.jsonl` for the
//! parts after the first. No session's name can hold a `~`.

use super::{AuditError, RECORD_BYTES_MAX};
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of all logs below the data directory.
#[must_use]
pub fn directory(data: &Path) -> PathBuf {
    data.join("audit")
}

/// The name of one part of a session's log.
#[must_use]
pub fn name(session: &str, part: u32) -> String {
    match part {
        0 => session.to_owned(),
        part => format!("{session}~{part}"),
    }
}

/// Session and part of a log's name.
#[must_use]
pub fn session_of(name: &str) -> (&str, u32) {
    match name.rsplit_once('~') {
        Some((session, part)) => part.parse().map_or((name, 0), |part| (session, part)),
        None => (name, 0),
    }
}

/// The file of a log.
#[must_use]
pub fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.jsonl"))
}

/// Names of all logs, sorted; none where there is no directory.
///
/// # Errors
/// When the directory cannot be read.
pub fn all(directory: &Path) -> Result<Vec<String>, AuditError> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| AuditError::io(directory, "list", &error))?,
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".jsonl")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    Ok(names)
}

/// Opens a log and looks at what was opened, not at the name. `O_NONBLOCK` keeps a pipe from
/// stalling the opening; on a regular file it means nothing.
///
/// # Errors
/// [`AuditError`] for links, devices, pipes, directories and files with a second name.
pub fn open(path: &Path, write: bool) -> Result<File, AuditError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .append(write)
        .create(write)
        .mode(0o600)
        .custom_flags(flags.bits())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => AuditError::unfit(path, "is a symbolic link; refused"),
        _ => AuditError::io(path, "open", &error),
    })?;
    let facts = file
        .metadata()
        .map_err(|error| AuditError::io(path, "look at", &error))?;
    if !facts.is_file() {
        return Err(AuditError::unfit(path, "is not a regular file; refused"));
    }
    if facts.nlink() > 1 {
        return Err(AuditError::unfit(path, "has a second name (hard link); refused"));
    }
    Ok(file)
}

/// The last whole line of a log, and the bytes of a torn record behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Without its line end; `None` where there is no whole line.
    pub line: Option<Vec<u8>>,
    pub torn: u64,
}

/// Looks at the end of a log, and at no more of it than two records could take.
///
/// # Errors
/// [`AuditError`] when the end is none of a log.
pub fn tail(path: &Path, file: &File) -> Result<Tail, AuditError> {
    let failed = |error: io::Error| AuditError::io(path, "read", &error);
    let length = file.metadata().map_err(failed)?.len();
    let window = length.min(2 * RECORD_BYTES_MAX as u64);
    let mut bytes = vec![0; usize::try_from(window).unwrap_or(0)];
    file.read_exact_at(&mut bytes, length - window).map_err(failed)?;
    let end = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let torn = (bytes.len() - end) as u64;
    if torn > RECORD_BYTES_MAX as u64 {
        return Err(AuditError::unfit(
            path,
            "ends in more than 64 KiB that are no record; move it away",
        ));
    }
    let before = bytes[..end.saturating_sub(1)].iter().rposition(|&b| b == b'\n');
    let line = match (end, before) {
        (0, _) => None,
        (end, Some(at)) => Some(bytes[at + 1..end - 1].to_vec()),
        (end, None) if window == length => Some(bytes[..end - 1].to_vec()),
        _ => {
            return Err(AuditError::unfit(
                path,
                "its last record is longer than 64 KiB; move it away",
            ));
        }
    };
    Ok(Tail { line, torn })
}

/// Reads lines of bounded length.
pub struct Lines<R> {
    reader: R,
    line: Vec<u8>,
}

/// What comes next in a log.
pub enum Next<'a> {
    /// A line without its line end.
    Line(&'a [u8]),
    /// The end; so many bytes of a record that has no line end.
    End { torn: u64 },
    /// More bytes than a record may have.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
        }
    }

    /// # Errors
    /// When the file cannot be read.
    pub fn read(&mut self) -> io::Result<Next<'_>> {
        self.line.clear();
        let most = RECORD_BYTES_MAX as u64 + 1;
        (&mut self.reader).take(most).read_until(b'\n', &mut self.line)?;
        Ok(match self.line.strip_suffix(b"\n") {
            Some(line) => Next::Line(line),
            None if self.line.len() as u64 == most => Next::TooLong,
            None => Next::End {
                torn: self.line.len() as u64,
            },
        })
    }
}
