//! Stdout and stderr behind a thread of their own: a reader who is slow or gone never keeps the
//! front from hearing a signal or from noticing.

use crate::exit::{Failure, Kind};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// Bytes that may wait for a reader before the turn waits too.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// The front's end: hands bytes over and goes on. Clones write to the same place.
#[derive(Clone)]
pub struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    changed: Notify,
}

#[derive(Default)]
struct State {
    queue: Vec<(Stream, Vec<u8>)>,
    /// Handed over and not written yet, in bytes.
    waiting: usize,
    /// The first failure of stdout. Nothing more is written to it.
    failed: Option<Failure>,
}

impl Outlet {
    /// Over the process's own streams.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn standard() -> io::Result<Self> {
        Self::new(io::stdout(), io::stderr())
    }

    /// # Errors
    /// When the system gives no thread.
    pub fn new(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        // Never joined: it may wait for a reader for ever, and ends with the process.
        std::thread::Builder::new()
            .name("output".into())
            .spawn(move || theirs.serve(out, err))?;
        Ok(Self { shared })
    }

    /// Hands bytes over, in order over both streams.
    pub fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.shared.lock();
        state.waiting += bytes.len();
        match state.queue.last_mut() {
            Some((last, pending)) if *last == stream => pending.extend_from_slice(bytes),
            _ => state.queue.push((stream, bytes.to_vec())),
        }
        self.shared.work.notify_one();
    }

    /// Waits until little is waiting.
    pub async fn room(&self) {
        self.until(|state| state.waiting <= WAITING_BYTES_MAX).await;
    }

    /// Waits until everything is written, or stdout has failed.
    ///
    /// # Errors
    /// Why stdout could not be written.
    pub async fn drained(&self) -> Result<(), Failure> {
        self.until(|state| state.waiting == 0).await;
        self.failure().map_or(Ok(()), Err)
    }

    /// Why stdout can no longer be written, where a write has failed.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.shared.lock().failed.clone()
    }

    /// Waits until stdout has failed, or nobody is left who could read it.
    pub async fn broken(&self) {
        tokio::select! {
            () = self.until(|_| false) => {}
            () = reader_gone() => {}
        }
    }

    async fn until(&self, done: impl Fn(&State) -> bool) {
        loop {
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                if state.failed.is_some() || done(&state) {
                    return;
                }
            }
            changed.await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No holder can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut out: impl Write, mut err: impl Write) {
        loop {
            let mut state = self.lock();
            while state.queue.is_empty() {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let pieces = std::mem::take(&mut state.queue);
            let mut failed = state.failed.clone();
            drop(state);
            let mut written = 0;
            for (stream, bytes) in pieces {
                written += bytes.len();
                match stream {
                    Stream::Out if failed.is_none() => {
                        let result = out.write_all(&bytes).and_then(|()| out.flush());
                        failed = result.err().map(|error| unwritten(&error));
                    }
                    Stream::Out => {}
                    // Nobody reading stderr is no reason to stop.
                    Stream::Err => drop(err.write_all(&bytes)),
                }
            }
            let mut state = self.lock();
            state.waiting -= written;
            state.failed = failed;
            drop(state);
            self.changed.notify_waiters();
        }
    }
}

/// A reader who left is told nothing; a disk that is full is an error.
pub(crate) fn unwritten(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Kind::OutputClosed, "nobody reads stdout any more"),
        _ => Failure::new(Kind::Error, format!("stdout cannot be written: {error}")),
    }
}

/// Resolves when the other end of a piped stdout is closed; never for a file or a terminal.
async fn reader_gone() {
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    match stdout.and_then(pipe::Sender::from_owned_fd_unchecked) {
        Ok(stdout) if stdout.ready(Interest::ERROR).await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    /// Each piece goes to the channel under the stream's name.
    struct To(&'static str, mpsc::Sender<String>);

    impl Write for To {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = format!("{}:{}", self.0, String::from_utf8_lossy(bytes));
            self.1
                .send(text)
                .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_streams_keep_their_common_order() {
        let (to, from) = mpsc::channel();
        let outlet = Outlet::new(To("out", to.clone()), To("err", to)).unwrap();
        for (stream, text) in [(Stream::Out, "a"), (Stream::Err, "b"), (Stream::Out, "c")] {
            outlet.write(stream, text.as_bytes());
        }
        runtime().block_on(outlet.drained()).unwrap();
        let got: Vec<String> = from.try_iter().collect();
        assert_eq!(got, ["out:a", "err:b", "out:c"]);
    }

    #[test]
    fn a_closed_stdout_is_noticed_and_ends_all_waiting() {
        let (to, from) = mpsc::channel();
        drop(from);
        let outlet = Outlet::new(To("out", to), io::sink()).unwrap();
        outlet.write(Stream::Out, &vec![b'x'; 2 * WAITING_BYTES_MAX]);
        runtime().block_on(async {
            outlet.broken().await;
            outlet.room().await;
            assert_eq!(outlet.drained().await.unwrap_err().kind, Kind::OutputClosed);
        });
    }
}
