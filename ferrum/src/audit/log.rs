//! Writing one part of a log. A record is in the file when [`AuditLog::append`] returns; it is on
//! the disk when [`AuditLog::durable`] does.

use super::chain::{self, Chain, Keyed, Link, hex};
use super::record::Fields;
use super::{PART_BYTES_MAX, place};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Parts that are tried for one that no other process writes.
const PARTS_MAX: u32 = 10_000;

/// What went wrong with a log. Nothing is done that cannot be logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    #[error("audit log {}: cannot {step}: {what}", path.display())]
    Io {
        path: PathBuf,
        step: &'static str,
        what: String,
    },
    #[error("audit log {}: {what}", path.display())]
    Unfit { path: PathBuf, what: String },
    #[error("the audit log's writer has stopped")]
    Stopped,
}

impl AuditError {
    pub(super) fn io(path: &Path, step: &'static str, error: &io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            step,
            what: error.to_string(),
        }
    }

    pub(super) fn unfit(path: &Path, what: impl Into<String>) -> Self {
        Self::Unfit {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// A point that a chain has passed: repeated elsewhere, it shows when the chain is cut before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    pub log: String,
    /// Records up to and with this point.
    pub count: u64,
    /// MAC of the last of them.
    pub head: Link,
}

impl Anchor {
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "log": self.log, "count": self.count, "head": hex(&self.head) })
    }

    /// The anchor that a record repeats; `None` where it is none.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            log: value.get("log")?.as_str()?.to_owned(),
            count: value.get("count")?.as_u64()?,
            head: chain::unhex(value.get("head")?.as_str()?.as_bytes())?,
        })
    }
}

/// One part of a session's log, which this process alone writes.
pub struct AuditLog {
    directory: PathBuf,
    session: String,
    part: u32,
    keyed: Keyed,
    file: File,
    path: PathBuf,
    size: u64,
    chain: Chain,
    failed: Option<AuditError>,
    /// Count of records that were on disk when somebody last waited.
    synced: Cell<u64>,
    to_syncer: mpsc::Sender<Job>,
    syncer: Option<JoinHandle<()>>,
}

impl Drop for AuditLog {
    /// The writer holds the file, and with it the lock, until it has ended.
    fn drop(&mut self) {
        let (closed, _) = mpsc::channel();
        self.to_syncer = closed;
        if let Some(syncer) = self.syncer.take() {
            // A panic of the writer has been reported by the panic hook.
            let _ = syncer.join();
        }
    }
}

enum Job {
    /// From now on this one, whose name is new.
    File(File, PathBuf),
    Sync(oneshot::Sender<Result<(), AuditError>>),
}

impl AuditLog {
    /// Opens the session's last part, or the next one where another process writes that, and
    /// writes its first record: `first` with anchors of the logs before it.
    ///
    /// # Errors
    /// [`AuditError`]; nothing that was there is changed, except that a torn record is taken off.
    pub fn open(directory: &Path, session: &str, keyed: Keyed, first: Fields) -> Result<Self, AuditError> {
        Self::begin(Outlook::of(directory, session)?, keyed, first)
    }

    /// The same where one has looked round already.
    ///
    /// # Errors
    /// As [`AuditLog::open`].
    pub fn begin(outlook: Outlook, keyed: Keyed, first: Fields) -> Result<Self, AuditError> {
        let Outlook {
            directory,
            session,
            last,
            latest,
        } = outlook;
        let (part, opened) = free_part(&directory, &session, last)?;
        let name = place::name(&session, part);
        let before = part.checked_sub(1).map(|part| place::name(&session, part));
        let before = before.and_then(|name| stands(&directory, &name));
        let latest = latest.into_iter().find(|anchor| anchor.log != name);
        let before = before.filter(|anchor| Some(anchor) != latest.as_ref());
        let anchors: Vec<Value> = latest.iter().chain(&before).map(Anchor::to_json).collect();
        let (to_syncer, jobs) = mpsc::channel();
        let mut log = Self {
            directory,
            session,
            part,
            chain: Chain::at(keyed.clone(), 0, keyed.genesis(&name)),
            keyed,
            size: opened.size,
            file: opened.file,
            path: opened.path,
            failed: None,
            synced: Cell::new(u64::MAX),
            to_syncer,
            syncer: None,
        };
        if let Some((count, head)) = opened.end {
            log.chain = Chain::at(log.keyed.clone(), count, head);
        }
        log.syncer = Some(log.start_syncer(jobs)?);
        let mut first = first;
        first.insert("key".into(), json!(log.keyed.name()));
        first.insert("after".into(), anchors.into());
        first.insert("torn_bytes".into(), json!(opened.torn));
        log.append(&first)?;
        Ok(log)
    }

    fn start_syncer(&self, jobs: mpsc::Receiver<Job>) -> Result<JoinHandle<()>, AuditError> {
        let failed = |error: io::Error| AuditError::io(&self.path, "start the writer of", &error);
        let file = self.file.try_clone().map_err(failed)?;
        let path = self.path.clone();
        let thread = std::thread::Builder::new().name("audit".into());
        thread.spawn(move || sync(file, path, &jobs)).map_err(failed)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`AuditError`]; the log then ends with its last whole record, and every later call fails
    /// in the same way.
    pub fn append(&mut self, fields: &Fields) -> Result<(), AuditError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let added = self.rotate().and_then(|()| self.write(fields));
        self.failed = added.clone().err();
        added
    }

    fn write(&mut self, fields: &Fields) -> Result<(), AuditError> {
        let mut chain = self.chain.clone();
        let line = chain.seal(fields);
        if line.len() > super::RECORD_BYTES_MAX {
            return Err(AuditError::unfit(
                &self.path,
                "a record would be longer than 64 KiB",
            ));
        }
        if let Err(error) = self.file.write_all(&line) {
            // No half record stays; should this fail too, the next opening takes it off.
            let _ = self.file.set_len(self.size);
            if self.size == 0 && self.file.metadata().is_ok_and(|facts| facts.is_file()) {
                let _ = std::fs::remove_file(&self.path);
            }
            return Err(AuditError::io(&self.path, "write", &error));
        }
        self.size += line.len() as u64;
        self.chain = chain;
        Ok(())
    }

    /// Begins the next part where this one is full.
    fn rotate(&mut self) -> Result<(), AuditError> {
        if self.size < PART_BYTES_MAX {
            return Ok(());
        }
        let before = self.anchor();
        self.file
            .sync_data()
            .map_err(|e| AuditError::io(&self.path, "write", &e))?;
        let (part, opened) = free_part(&self.directory, &self.session, self.part + 1)?;
        self.part = part;
        let name = place::name(&self.session, part);
        self.chain = match opened.end {
            Some((count, head)) => Chain::at(self.keyed.clone(), count, head),
            None => Chain::at(self.keyed.clone(), 0, self.keyed.genesis(&name)),
        };
        self.synced.set(u64::MAX);
        (self.file, self.path, self.size) = (opened.file, opened.path, opened.size);
        let clone = self
            .file
            .try_clone()
            .map_err(|e| AuditError::io(&self.path, "open", &e))?;
        let told = self.to_syncer.send(Job::File(clone, self.path.clone()));
        told.map_err(|_| AuditError::Stopped)?;
        let mut first = Fields::new();
        first.insert("t".into(), json!(crate::session::record::now_ms()));
        first.insert("type".into(), json!("continued"));
        first.insert("after".into(), json!([before.to_json()]));
        self.write(&first)
    }

    /// Where the chain stands.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        Anchor {
            log: place::name(&self.session, self.part),
            count: self.chain.count,
            head: self.chain.head,
        }
    }

    /// Waits until everything so far is on disk.
    ///
    /// # Errors
    /// [`AuditError`].
    pub async fn durable(&self) -> Result<(), AuditError> {
        let count = self.chain.count;
        if self.synced.get() == count {
            return Ok(());
        }
        let (done, wait) = oneshot::channel();
        self.to_syncer
            .send(Job::Sync(done))
            .map_err(|_| AuditError::Stopped)?;
        wait.await.map_err(|_| AuditError::Stopped)??;
        self.synced.set(count);
        Ok(())
    }
}

fn sync(mut file: File, mut path: PathBuf, jobs: &mpsc::Receiver<Job>) {
    // The name of a new file has to be on disk too.
    let mut new_name = true;
    while let Ok(job) = jobs.recv() {
        match job {
            Job::File(next, its_path) => (file, path, new_name) = (next, its_path, true),
            Job::Sync(done) => {
                let directory = path.parent().filter(|_| std::mem::take(&mut new_name));
                let synced = file.sync_data().and_then(|()| match directory {
                    Some(directory) => File::open(directory)?.sync_all(),
                    None => Ok(()),
                });
                // Someone who no longer waits has been cancelled.
                let _ = done.send(synced.map_err(|e| AuditError::io(&path, "write", &e)));
            }
        }
    }
}

struct Opened {
    file: File,
    path: PathBuf,
    size: u64,
    /// Count and head of the chain; `None` for an empty file.
    end: Option<(u64, Link)>,
    torn: u64,
}

/// The first part from `from` on that has room and that nobody else writes, locked.
fn free_part(directory: &Path, session: &str, from: u32) -> Result<(u32, Opened), AuditError> {
    for part in from..from.saturating_add(PARTS_MAX) {
        let path = place::file(directory, &place::name(session, part));
        let Some(file) = locked(&path)? else {
            continue;
        };
        let opened = take_over(path, file)?;
        if opened.size < PART_BYTES_MAX {
            return Ok((part, opened));
        }
    }
    let path = place::file(directory, session);
    Err(AuditError::unfit(&path, "has too many parts"))
}

/// The file of a part, locked; `None` where another process writes it.
fn locked(path: &Path) -> Result<Option<File>, AuditError> {
    loop {
        let file = place::open(path, true)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(AuditError::io(path, "lock", &error)),
        }
        let facts = file.metadata().map_err(|e| AuditError::io(path, "look at", &e))?;
        // Whoever could not begin it has taken it away again.
        if facts.nlink() > 0 {
            return Ok(Some(file));
        }
    }
}

/// Finds the end of a log's chain and takes a torn record off it.
fn take_over(path: PathBuf, file: File) -> Result<Opened, AuditError> {
    let tail = place::tail(&path, &file)?;
    let failed = |step| {
        let path = path.clone();
        move |error: io::Error| AuditError::io(&path, step, &error)
    };
    let length = file.metadata().map_err(failed("look at"))?.len();
    let end = match &tail.line {
        Some(line) => {
            let (number, _, mac) = chain::split(line)
                .ok_or_else(|| AuditError::unfit(&path, "its last line is no record; move it away"))?;
            Some((number + 1, mac))
        }
        None => None,
    };
    if tail.torn > 0 {
        file.set_len(length - tail.torn).map_err(failed("repair"))?;
    }
    Ok(Opened {
        file,
        size: length - tail.torn,
        path,
        end,
        torn: tail.torn,
    })
}

/// What is in a directory of logs before one of them is opened.
pub struct Outlook {
    directory: PathBuf,
    session: String,
    /// The last part of the session's log, or the first that there will be.
    last: u32,
    /// Where the two logs that were written last stand: one of them may be the session's own.
    latest: Vec<Anchor>,
}

impl Outlook {
    /// Looks round. It takes the longer the more logs there are, and nothing depends on the
    /// walls, so it is done before they stand.
    ///
    /// # Errors
    /// [`AuditError`] when the directory can neither be made nor read.
    pub fn of(directory: &Path, session: &str) -> Result<Self, AuditError> {
        make_directory(directory)?;
        let mut names = place::all(directory)?;
        let parts = names.iter().map(|name| place::session_of(name));
        let last = parts.filter(|(of, _)| *of == session).map(|(_, part)| part).max();
        let written = |name: &String| {
            let meta = place::file(directory, name).symlink_metadata();
            meta.and_then(|meta| meta.modified()).ok()
        };
        names.sort_by_cached_key(|name| std::cmp::Reverse(written(name)));
        let latest = names.iter().filter_map(|name| stands(directory, name));
        Ok(Self {
            latest: latest.take(2).collect(),
            directory: directory.to_owned(),
            session: session.to_owned(),
            last: last.unwrap_or(0),
        })
    }
}

fn stands(directory: &Path, name: &str) -> Option<Anchor> {
    let path = place::file(directory, name);
    let line = place::tail(&path, &place::open(&path, false).ok()?).ok()?.line?;
    let (number, _, head) = chain::split(&line)?;
    Some(Anchor {
        log: name.to_owned(),
        count: number + 1,
        head,
    })
}

fn make_directory(path: &Path) -> Result<(), AuditError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| AuditError::io(path, "make the directory", &error))
}

#[cfg(test)]
#[path = "log_tests.rs"]
pub(crate) mod tests;
