//! A host in role check, as the front sees it: questions go out, answers come back in their order.

use super::control::{Control, News, Opened};
use super::fault::Cause;
use super::hosts::finish;
use super::launch::Launcher;
use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::limits::{
    FROM_HOST_FRAME_BYTES_MAX, PENDING_CALLS_MAX, SEAL_MS_MAX, TO_HOST_FRAME_BYTES_MAX,
};
use ferrum_proto::order::FromHostOrder;
use ferrum_proto::reply::{Basis, Explanation, FromHost};
use ferrum_proto::request::{Query, ToHost};
use ferrum_proto::seal::Granted;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// One read from the socket, in bytes.
const READ_BYTES: usize = 64 << 10;

/// The front's end of the tool socket of one host in role check.
pub struct Checker {
    launcher: Launcher,
    control: Control,
    news: Arc<News>,
    host: u32,
    socket: UnixStream,
    frames: FrameReader,
    order: FromHostOrder,
    last_id: u64,
    open: usize,
}

impl Checker {
    /// Takes over the launcher and its host, and waits for the policy in force. Needs a runtime.
    ///
    /// # Errors
    /// Why none came up.
    pub async fn start(
        launcher: Launcher,
        control: Control,
        opened: Opened,
    ) -> Result<(Self, Granted), Cause> {
        let failed = |error: std::io::Error| Cause::Socket(error.to_string());
        let news = control.listen().map_err(failed)?;
        opened.socket.set_nonblocking(true).map_err(failed)?;
        let mut checker = Self {
            launcher,
            control,
            news,
            host: opened.host,
            socket: UnixStream::from_std(opened.socket).map_err(failed)?,
            frames: FrameReader::new(FROM_HOST_FRAME_BYTES_MAX),
            order: FromHostOrder::check(),
            last_id: 0,
            open: 0,
        };
        let limit = Duration::from_millis(SEAL_MS_MAX);
        let granted = match tokio::time::timeout(limit, checker.granted()).await {
            Ok(granted) => granted,
            Err(_) => Err(Cause::Silent {
                awaited: "policy",
                seconds: limit.as_secs(),
            }),
        };
        match granted {
            Ok(granted) => Ok((checker, granted)),
            Err(cause) => Err(cause.with_end_of(&checker.launcher)),
        }
    }

    async fn granted(&mut self) -> Result<Granted, Cause> {
        loop {
            match self.receive().await? {
                FromHost::Granted(granted) => return Ok(*granted),
                FromHost::Hello { build, .. } if build != ferrum_proto::BUILD => {
                    return Err(Cause::Build { theirs: build });
                }
                FromHost::SealFailed(failed) => return Err(Cause::Seal(failed)),
                _ => {}
            }
        }
    }

    /// True while one more question may be asked before an answer is taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open < PENDING_CALLS_MAX
    }

    /// Sends a question.
    ///
    /// # Errors
    /// [`Cause::Request`] for one that fits no frame, else the connection is over.
    pub async fn ask(&mut self, query: Query) -> Result<(), Cause> {
        let id = self.last_id + 1;
        let message = ToHost::Explain { id, query };
        let frame = encode(&message, TO_HOST_FRAME_BYTES_MAX).map_err(Cause::Request)?;
        self.last_id = id;
        self.order.called(id);
        self.open += 1;
        // The host answers one question after the other and at most a window of small frames
        // waits, so writing never waits for reading for long.
        let sent = self.socket.write_all(&frame).await;
        sent.map_err(|error| Cause::Socket(error.to_string()))
    }

    /// The next answer. Safe to drop while it waits.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn answer(&mut self) -> Result<(Explanation, Option<Box<Basis>>), Cause> {
        loop {
            if let FromHost::Explained { answer, basis, .. } = self.receive().await? {
                self.open -= 1;
                return Ok((answer, basis));
            }
        }
    }

    async fn receive(&mut self) -> Result<FromHost, Cause> {
        loop {
            if let Some(message) = self.frames.next::<FromHost>().map_err(Cause::Frame)? {
                self.order.admit(&message).map_err(Cause::Order)?;
                return Ok(message);
            }
            let mut buffer = vec![0; READ_BYTES];
            match self.socket.read(&mut buffer).await {
                Ok(0) => return Err(self.news.why_gone(self.host, self.frames.is_partial()).await),
                Ok(count) => self.frames.push(&buffer[..count]),
                Err(error) => return Err(Cause::Socket(error.to_string())),
            }
        }
    }

    /// Waits a short while for the launcher to clean up.
    pub async fn close(self) {
        drop(self.socket);
        finish(self.control, &self.news, &self.launcher).await;
    }
}
