//! The signals that end a run, as events.

use crate::exit::{Failure, Kind};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its making on; nothing is lost between two waits.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// # Errors
    /// When the system refuses to listen.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Kind::Error, format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one: Ctrl-C cancels, SIGTERM and a lost terminal terminate.
    pub async fn next(&mut self) -> Kind {
        tokio::select! {
            _ = self.interrupt.recv() => Kind::Cancelled,
            _ = self.terminate.recv() => Kind::Terminated,
            _ = self.hangup.recv() => Kind::Terminated,
        }
    }
}
