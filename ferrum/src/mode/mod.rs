//! The ways to run, one file each. Each gets a [`crate::start::Start`] and makes its own runtime.

pub mod answer;
pub mod audit;
pub mod dialogue;
pub mod doctor;
pub mod inspect;
pub mod jsonl;
pub mod login;
pub mod opening;
pub mod policy;
pub mod preface;
pub mod prompt;
pub mod provider;
pub mod sessions;
pub mod setup;
pub mod signals;
pub mod tool;
pub mod trust;

use crate::exit::{Failure, Kind};
use crate::ui::terminal_text::sanitise;
use signals::Signals;
use std::io::{IsTerminal, Write};

/// The event loop of a run. One thread: the front waits far more than it computes.
pub struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    /// Runs `work` to its end; see [`tokio::runtime::Runtime::block_on`].
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("only the drop takes it");
        runtime.block_on(work)
    }
}

impl Drop for Runtime {
    /// The resolver's look-ups block a thread for as long as no name server answers; who cancels
    /// does not wait for them. Nothing else runs there.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// # Errors
/// When the system gives no event queue.
pub fn runtime() -> Result<Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built
        .map(|runtime| Runtime(Some(runtime)))
        .map_err(|error| Failure::new(Kind::Error, format!("the runtime cannot be started: {error}")))
}

/// Waits for Ctrl-C or SIGTERM and says which. Never resolves where signals cannot be heard.
pub async fn interrupted() -> Kind {
    match Signals::listen() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}

/// Writes to stdout; what goes to a terminal passes the sanitiser.
///
/// # Errors
/// When stdout is closed or full.
pub fn write_out(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let clean = if stdout.is_terminal() {
        Some(sanitise(text))
    } else {
        None
    };
    let text = clean.as_deref().unwrap_or(text);
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| crate::output::unwritten(&error))
}

/// Writes a text whose parts have been cleaned already, so that its colours stay.
///
/// # Errors
/// When stdout is closed or full.
pub fn write_painted(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| crate::output::unwritten(&error))
}

/// Tells the user something beside the result.
pub fn notice(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let line = format!("ferrum: {text}\n");
    let line = if stderr.is_terminal() {
        sanitise(&line)
    } else {
        line
    };
    // A closed stderr takes no notices.
    let _ = stderr.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_look_up_that_hangs_is_not_waited_for() {
        let (release, held) = channel::<()>();
        let (done, ended) = channel();
        let runtime = runtime().unwrap();
        runtime.block_on(async {
            // Nobody waits for the look-up of a request that was dropped.
            drop(tokio::task::spawn_blocking(move || {
                let _ = held.recv();
                let _ = done.send(());
            }));
        });
        drop(runtime);
        // It still hangs here, and would for ever had the drop waited.
        assert!(ended.try_recv().is_err());
        drop(release);
        ended.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
