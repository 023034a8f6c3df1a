//! The session file: opened with care, appended under a lock by one writer thread, synced.
//!
//! A record counts as written when it is synced. Callers hand lines over and go on; they wait
//! with [`Log::durable`] where something must not happen before.

use super::record::{self, Record};
use nix::fcntl::OFlag;
use serde_json::Value;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// One line with its newline, in bytes.
pub const RECORD_BYTES_MAX: usize = 16 << 20;
/// Faulty lines that are told one by one when a file is read.
pub const DIAGNOSTICS_MAX: usize = 10;
/// Step in which the end of a file is searched for its last newline, in bytes.
const TAIL_STEP: u64 = 64 << 10;

/// What went wrong with a session file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    #[error("session directory {}: {what}", path.display())]
    Directory { path: PathBuf, what: String },
    #[error("session file {}: cannot {step}: {what}", path.display())]
    Io {
        path: PathBuf,
        step: &'static str,
        what: String,
    },
    #[error("session file {}: {what}", path.display())]
    Unfit { path: PathBuf, what: &'static str },
    #[error("session record of {bytes} bytes is above the limit of 16 MiB; it was not stored")]
    TooLarge { bytes: usize },
    #[error("the session writer has stopped; nothing more is stored")]
    Stopped,
}

/// Everything that was read from a file.
#[derive(Debug, Default)]
pub struct Loaded {
    /// With the 1-based line number of each.
    pub records: Vec<(usize, Record)>,
    /// What could not be read, for the operator.
    pub diagnostics: Vec<String>,
}

/// An open session file.
pub struct Log {
    path: PathBuf,
    to_writer: mpsc::Sender<Job>,
    writer: Option<std::thread::JoinHandle<()>>,
}

enum Job {
    Append(Vec<u8>),
    /// A line whose loss in a power cut does no harm: it goes to disk with the next one.
    Note(Vec<u8>),
    /// Comes before every [`Job::Append`].
    Begin(Beginning),
    /// Answered when everything before it is written.
    Written(oneshot::Sender<Result<(), LogError>>),
    /// Answered when everything before it is synced.
    Sync(oneshot::Sender<Result<(), LogError>>),
}

/// The first record of a process: which one it is shows only under the lock, since others may begin
/// the same session at the same time.
struct Beginning {
    /// Where the file is still empty.
    header: Vec<u8>,
    /// Where somebody else has begun it.
    metadata: Vec<u8>,
}

impl Log {
    /// Opens the file, making it and its directory where they do not exist. New files have mode
    /// 0600. A torn last record is repaired by the writer, before anything is appended; nothing
    /// here waits for the disk, because the first request to the model is being sent meanwhile.
    ///
    /// # Errors
    /// [`LogError`] for links, devices, pipes, directories, files with a second name, and what
    /// the system refuses.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        make_directory(path.parent().unwrap_or(Path::new(".")))?;
        let existed = path.symlink_metadata().is_ok();
        let file = open_checked(path, true)?;
        let (to_writer, jobs) = mpsc::channel();
        let writer = Writer {
            path: path.to_owned(),
            file,
            is_new: !existed,
            unsynced: false,
        };
        let thread = std::thread::Builder::new()
            .name("session".into())
            .spawn(move || writer.serve(&jobs))
            .map_err(|e| io_error(path, "start the writer", &e))?;
        Ok(Self {
            path: path.to_owned(),
            to_writer,
            writer: Some(thread),
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a new session with `header`; where another process was quicker, goes on with it and
    /// states `metadata`. The first line that is handed over.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn begin(&self, header: Vec<u8>, metadata: Vec<u8>) -> Result<(), LogError> {
        let bytes = header.len().max(metadata.len());
        if bytes > RECORD_BYTES_MAX {
            return Err(LogError::TooLarge { bytes });
        }
        let beginning = Beginning { header, metadata };
        self.to_writer
            .send(Job::Begin(beginning))
            .map_err(|_| LogError::Stopped)
    }

    /// Hands one line over. Its failure is reported by the next [`Log::durable`].
    ///
    /// # Errors
    /// [`LogError::TooLarge`]; then nothing was written.
    pub fn append(&self, line: Vec<u8>) -> Result<(), LogError> {
        self.hand_over(line, Job::Append)
    }

    /// Hands over a line whose loss in a power cut does no harm, and waits until it is written.
    ///
    /// # Errors
    /// The first failure of any record before, and [`LogError::TooLarge`].
    pub async fn note(&self, line: Vec<u8>) -> Result<(), LogError> {
        self.hand_over(line, Job::Note)?;
        self.wait(Job::Written).await
    }

    /// Waits until everything handed over is on disk.
    ///
    /// # Errors
    /// The first failure of any record before; the file then ends with its last whole record.
    pub async fn durable(&self) -> Result<(), LogError> {
        self.wait(Job::Sync).await
    }

    fn hand_over(&self, line: Vec<u8>, job: fn(Vec<u8>) -> Job) -> Result<(), LogError> {
        if line.len() > RECORD_BYTES_MAX {
            return Err(LogError::TooLarge { bytes: line.len() });
        }
        self.to_writer.send(job(line)).map_err(|_| LogError::Stopped)
    }

    async fn wait(&self, job: fn(oneshot::Sender<Result<(), LogError>>) -> Job) -> Result<(), LogError> {
        let (done, wait) = oneshot::channel();
        self.to_writer.send(job(done)).map_err(|_| LogError::Stopped)?;
        wait.await.map_err(|_| LogError::Stopped)?
    }
}

impl Drop for Log {
    /// Whatever was handed over is written before the program can end.
    fn drop(&mut self) {
        let (closed, _) = mpsc::channel();
        self.to_writer = closed;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has been reported by the panic hook.
            let _ = writer.join();
        }
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    /// Its name is not on disk yet.
    is_new: bool,
    /// Something was written and not synced.
    unsynced: bool,
}

/// What is written at once.
#[derive(Default)]
struct Lines {
    beginning: Option<Beginning>,
    rest: Vec<u8>,
}

impl Lines {
    fn are_none(&self) -> bool {
        self.beginning.is_none() && self.rest.is_empty()
    }

    fn after(self, bytes_before: u64) -> Vec<u8> {
        let first = self.beginning.map(|beginning| match bytes_before {
            0 => beginning.header,
            _ => beginning.metadata,
        });
        [first.unwrap_or_default(), self.rest].concat()
    }
}

impl Writer {
    fn serve(mut self, jobs: &mpsc::Receiver<Job>) {
        // A file that was there may have been left by a writer that died.
        let repaired = if self.is_new {
            Ok(())
        } else {
            self.locked(Self::repair)
        };
        let mut failed = repaired.err();
        while let Ok(first) = jobs.recv() {
            let mut lines = Lines::default();
            let mut waiting = Vec::new();
            let mut sync = false;
            for job in std::iter::once(first).chain(std::iter::from_fn(|| jobs.try_recv().ok())) {
                match job {
                    Job::Append(line) => {
                        lines.rest.extend_from_slice(&line);
                        sync = true;
                    }
                    Job::Note(line) => lines.rest.extend_from_slice(&line),
                    Job::Begin(beginning) => {
                        lines.beginning = Some(beginning);
                        sync = true;
                    }
                    Job::Written(done) => waiting.push(done),
                    Job::Sync(done) => {
                        waiting.push(done);
                        sync = true;
                    }
                }
            }
            if failed.is_none() {
                failed = self.take(lines, sync).err();
            }
            for done in waiting {
                // Someone who no longer waits has been cancelled.
                let _ = done.send(failed.clone().map_or(Ok(()), Err));
            }
        }
    }

    fn take(&mut self, lines: Lines, sync: bool) -> Result<(), LogError> {
        if !lines.are_none() {
            return self.locked(|writer| writer.append(lines, sync));
        }
        if sync && self.unsynced {
            self.sync().map_err(|e| io_error(&self.path, "write", &e))?;
        }
        Ok(())
    }

    fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, LogError>) -> Result<T, LogError> {
        self.file.lock().map_err(|e| io_error(&self.path, "lock", &e))?;
        // Whoever could not begin it has taken it away again.
        while self.facts()?.nlink() == 0 {
            self.file = open_checked(&self.path, true)?;
            self.file.lock().map_err(|e| io_error(&self.path, "lock", &e))?;
        }
        let result = work(self);
        let unlocked = self.file.unlock().map_err(|e| io_error(&self.path, "unlock", &e));
        result.and_then(|value| unlocked.map(|()| value))
    }

    fn append(&mut self, lines: Lines, sync: bool) -> Result<(), LogError> {
        // Another writer may have died since.
        self.repair()?;
        let before = self.length()?;
        let lines = lines.after(before);
        self.unsynced = true;
        let written = self.file.write_all(&lines);
        let written = written.and_then(|()| if sync { self.sync() } else { Ok(()) });
        written.map_err(|error| {
            // No half record stays behind; should this fail too, the next opening repairs it.
            let _ = self.file.set_len(before);
            if before == 0 && self.facts().is_ok_and(|facts| facts.is_file()) {
                let _ = std::fs::remove_file(&self.path);
            }
            io_error(&self.path, "write", &error)
        })
    }

    /// The content, and of a new file the name.
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.is_new {
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        }
        (self.is_new, self.unsynced) = (false, false);
        Ok(())
    }

    /// Ends the file with a newline: a last record that is whole gets one, a torn one goes.
    fn repair(&mut self) -> Result<(), LogError> {
        let mended = match end(&self.file, &self.path)? {
            End::Line => return Ok(()),
            End::Whole(_) => self.file.write_all(b"\n"),
            End::Torn(bytes) => self.file.set_len(self.length()?.saturating_sub(bytes)),
        };
        mended
            .and_then(|()| self.file.sync_data())
            .map_err(|e| io_error(&self.path, "repair the last record of", &e))
    }

    fn length(&self) -> Result<u64, LogError> {
        self.facts().map(|facts| facts.len())
    }

    fn facts(&self) -> Result<std::fs::Metadata, LogError> {
        self.file
            .metadata()
            .map_err(|e| io_error(&self.path, "look at", &e))
    }
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a line end, or it is empty.
    Line,
    /// With a record of so many bytes that lacks its line end.
    Whole(u64),
    /// With so many bytes of a record that a crash cut.
    Torn(u64),
}

/// Looks at the end of a session file, and at no more of it than a record could take.
///
/// # Errors
/// [`LogError`] for an end that no session writer leaves: it is not ours to mend.
pub(super) fn end(file: &File, path: &Path) -> Result<End, LogError> {
    let failed = |error: io::Error| io_error(path, "read", &error);
    let unfit = |what| {
        Err(LogError::Unfit {
            path: path.to_owned(),
            what,
        })
    };
    let length = file.metadata().map_err(failed)?.len();
    let Some(start) = start_of_last_line(file, length).map_err(failed)? else {
        return unfit("ends in more than 16 MiB without a line end");
    };
    if start == length {
        return Ok(End::Line);
    }
    let bytes = length - start;
    let mut tail = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut tail, start).map_err(failed)?;
    if matches!(serde_json::from_slice::<Value>(&tail), Ok(Value::Object(_))) {
        return Ok(End::Whole(bytes));
    }
    if start == 0 && tail.iter().any(|&b| b != 0) && tail[0] != b'{' {
        // Never the work of a session writer: not ours to cut.
        return unfit("is not a session file");
    }
    Ok(End::Torn(bytes))
}

/// Where the bytes after the last newline begin; `None` where they are more than a record.
fn start_of_last_line(file: &File, length: u64) -> io::Result<Option<u64>> {
    let mut end = length;
    let mut block = Vec::new();
    while end > 0 {
        if length - end > RECORD_BYTES_MAX as u64 {
            return Ok(None);
        }
        // The usual end needs one byte.
        let step = if end == length { 1 } else { TAIL_STEP.min(end) };
        block.resize(usize::try_from(step).unwrap_or(1), 0);
        file.read_exact_at(&mut block, end - step)?;
        if let Some(at) = block.iter().rposition(|&b| b == b'\n') {
            return Ok(Some(end - step + at as u64 + 1));
        }
        end -= step;
    }
    Ok(Some(0))
}

fn io_error(path: &Path, step: &'static str, error: &io::Error) -> LogError {
    LogError::Io {
        path: path.to_owned(),
        step,
        what: error.to_string(),
    }
}

fn make_directory(path: &Path) -> Result<(), LogError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| LogError::Directory {
            path: path.to_owned(),
            what: e.to_string(),
        })
}

/// Opens a session file and looks at what was opened, not at the name. `O_NONBLOCK` keeps a pipe
/// from stalling the opening; on a regular file it means nothing.
fn open_checked(path: &Path, write: bool) -> Result<File, LogError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .append(write)
        .create(write)
        .mode(0o600)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(|e| match e.raw_os_error() {
            Some(libc::ELOOP) => LogError::Unfit {
                path: path.to_owned(),
                what: "is a symbolic link; refused",
            },
            _ => io_error(path, "open", &e),
        })?;
    let facts = file.metadata().map_err(|e| io_error(path, "look at", &e))?;
    let unfit = |what| {
        Err(LogError::Unfit {
            path: path.to_owned(),
            what,
        })
    };
    if !facts.is_file() {
        return unfit("is not a regular file; refused");
    }
    if facts.nlink() > 1 {
        return unfit("has a second name (hard link); refused");
    }
    Ok(file)
}

/// Opens a session file to look at it.
pub(super) fn open_to_read(path: &Path) -> Result<File, LogError> {
    open_checked(path, false)
}

/// Reads a whole session under a shared lock. Lines that cannot be read are skipped and told.
///
/// # Errors
/// [`LogError`] when the file cannot be opened or read at all.
pub fn load(path: &Path) -> Result<Loaded, LogError> {
    let mut loaded = Loaded::default();
    let mut skipped = 0usize;
    for_each_line(path, |number, line| {
        let told = match line {
            Line::Bytes(bytes) => take_line(&mut loaded.records, number, bytes),
            Line::TooLong => Err("longer than 16 MiB".to_owned()),
        };
        if let Err(what) = told {
            skipped += 1;
            if skipped <= DIAGNOSTICS_MAX {
                loaded
                    .diagnostics
                    .push(format!("{}: line {number} skipped: {what}", path.display()));
            }
        }
    })?;
    if skipped > DIAGNOSTICS_MAX {
        let more = skipped - DIAGNOSTICS_MAX;
        loaded
            .diagnostics
            .push(format!("{}: {more} more lines skipped", path.display()));
    }
    Ok(loaded)
}

/// One line may hold several records: an older writer's torn tail was glued to the next one.
fn take_line(records: &mut Vec<(usize, Record)>, number: usize, line: &[u8]) -> Result<(), String> {
    for value in serde_json::Deserializer::from_slice(line).into_iter::<Value>() {
        let value = value.map_err(|e| format!("not valid JSON: {e}"))?;
        records.push((number, record::parse(value)?));
    }
    Ok(())
}

/// One line of a file as [`for_each_line`] hands it out.
pub enum Line<'a> {
    Bytes(&'a [u8]),
    /// Above [`RECORD_BYTES_MAX`]; its bytes were not kept.
    TooLong,
}

/// Calls `each` with every line's number, from 1, and its bytes without the line end. Memory is
/// bounded by one record.
///
/// # Errors
/// [`LogError`] when the file cannot be opened or read.
pub fn for_each_line(path: &Path, mut each: impl FnMut(usize, Line<'_>)) -> Result<(), LogError> {
    let file = open_checked(path, false)?;
    file.lock_shared().map_err(|e| io_error(path, "lock", &e))?;
    let mut reader = BufReader::with_capacity(64 << 10, &file);
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let most = RECORD_BYTES_MAX as u64 + 1;
        let read = (&mut reader).take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|e| io_error(path, "read", &e))?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        if read as u64 == most && line.last() != Some(&b'\n') {
            reader.skip_until(b'\n').map_err(|e| io_error(path, "read", &e))?;
            each(number, Line::TooLong);
            continue;
        }
        let mut bytes = line.as_slice();
        if number == 1 {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        each(number, Line::Bytes(bytes.trim_ascii_end()));
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
