//! What goes back to the front: frames, results, refusals.

use crate::sys::process::exit_now;
use ferrum_proto::frame;
use ferrum_proto::limits::{CHUNK_BYTES_MAX, FROM_HOST_FRAME_BYTES_MAX, RESULT_BYTES_MAX};
use ferrum_proto::reply::{CommandReport, Denial, FromHost, Outcome, Refusal, Reply, Timings};
use ferrum_proto::terms::PathBytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The tool socket's sending side, shared by all threads. A frame is written whole or the host ends.
#[derive(Clone)]
pub struct Outbox {
    socket: Arc<OwnedFd>,
    writing: Arc<Mutex<()>>,
}

impl Outbox {
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket: Arc::new(socket),
            writing: Arc::new(Mutex::new(())),
        }
    }

    pub fn hello(&self) {
        let build = ferrum_proto::BUILD.to_owned();
        self.send(&FromHost::Hello {
            protocol: ferrum_proto::PROTOCOL,
            build,
        });
    }

    /// Sends one frame. A front that is gone, or a frame that is too large for the wire, ends the host.
    pub fn send(&self, message: &FromHost) {
        let Ok(bytes) = frame::encode(message, FROM_HOST_FRAME_BYTES_MAX) else {
            exit_now(3)
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match write(&*self.socket, rest) {
                Ok(count) => rest = &rest[count..],
                Err(nix::Error::EINTR) => {}
                Err(_) => exit_now(0),
            }
        }
    }

    /// Reads from the front; 0 when it is gone.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&self, buffer: &mut [u8]) -> nix::Result<usize> {
        loop {
            match read(&*self.socket, buffer) {
                Err(nix::Error::EINTR) => {}
                other => return other,
            }
        }
    }

    /// True while the front has said nothing that was not read.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let mut waiting = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut waiting, PollTimeout::ZERO) == Ok(0)
    }

    /// Tells the front at once that nothing more will come.
    pub fn hang_up(&self) {
        // The process ends next, which has the same effect a little later.
        let _ = nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
    }

    /// Sends a result: its text in chunks, then the reply.
    pub fn reply(&self, id: u64, done: Finished) {
        let mut text = done.text;
        if text.len() > RESULT_BYTES_MAX {
            let mut end = RESULT_BYTES_MAX - 64;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("\n[the result was cut here]");
        }
        for chunk in text.as_bytes().chunks(CHUNK_BYTES_MAX) {
            self.send(&FromHost::Chunk {
                id,
                bytes: chunk.to_vec(),
            });
        }
        let reply = Reply {
            outcome: done.outcome,
            text_bytes: text.len() as u64,
            denials: done.denials,
            command: done.command,
            changed: done
                .changed
                .iter()
                .map(|p| PathBytes::from(p.as_path()))
                .collect(),
            timings: done.timings,
        };
        self.send(&FromHost::Reply { id, reply });
    }
}

/// How a call ended, before it is put into frames.
pub struct Finished {
    pub outcome: Outcome,
    pub text: String,
    pub denials: Vec<Denial>,
    pub command: Option<CommandReport>,
    pub changed: Vec<PathBuf>,
    pub timings: Timings,
}

impl Finished {
    #[must_use]
    pub fn failed(text: String, denials: Vec<Denial>, timings: Timings) -> Self {
        Self {
            outcome: Outcome::Failed,
            text,
            denials,
            command: None,
            changed: Vec::new(),
            timings,
        }
    }

    /// A policy refusal as the model reads it.
    #[must_use]
    pub fn refused(refusal: &policy::Refusal, timings: Timings) -> Self {
        let place = if refusal.line > 0 {
            format!(" at {}:{}", refusal.line, refusal.column)
        } else {
            String::new()
        };
        let mut text = format!("refused by policy ({}){place}: {}", refusal.code, refusal.message);
        if !refusal.hint.is_empty() {
            text.push_str("\nhint: ");
            text.push_str(&refusal.hint);
        }
        let refusal = Refusal {
            code: refusal.code.into(),
            line: refusal.line,
            column: refusal.column,
            message: refusal.message.clone(),
            hint: refusal.hint.clone(),
        };
        Self {
            outcome: Outcome::Refused(refusal),
            text,
            denials: Vec::new(),
            command: None,
            changed: Vec::new(),
            timings,
        }
    }
}

/// Microseconds since `from`.
#[must_use]
pub fn micros(from: Instant) -> u64 {
    u64::try_from(from.elapsed().as_micros()).unwrap_or(u64::MAX)
}
