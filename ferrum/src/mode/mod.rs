//! The ways to run, one file each. Each gets a [`crate::start::Start`] and makes its own runtime.

pub mod answer;
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
pub mod setup;
pub mod signals;
pub mod tool;
pub mod trust;

use crate::exit::{Failure, Kind};
use crate::ui::terminal_text::sanitise;
use signals::Signals;
use std::io::{IsTerminal, Write};

/// One thread: the front waits far more than it computes.
///
/// # Errors
/// When the system gives no event queue.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::new(Kind::Error, format!("the runtime cannot be started: {error}")))
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
    written.map_err(|error| Failure::new(Kind::Error, format!("stdout cannot be written: {error}")))
}

/// Writes a text whose parts have been cleaned already, so that its colours stay.
///
/// # Errors
/// When stdout is closed or full.
pub fn write_painted(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(Kind::Error, format!("stdout cannot be written: {error}")))
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
