//! The control socket: what the front tells the launcher, and what it learns from it.
//!
//! Everything up to the first host goes out before the front has a runtime, without waiting for
//! answers. Later the answers are read by one task.

use super::fault::Cause;
use ferrum_proto::charter::{Charter, Wish};
use ferrum_proto::control::{FromLauncher, ToLauncher};
use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::limits::{CONTROL_FRAME_BYTES_MAX, TO_HOST_FRAME_BYTES_MAX};
use ferrum_proto::order::FromLauncherOrder;
use ferrum_proto::request::ToHost;
use ferrum_proto::terms::PathBytes;
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use std::collections::BTreeMap;
use std::io::{IoSlice, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;

/// A host that was asked for: its number and our end of its tool socket.
#[derive(Debug)]
pub struct Opened {
    pub host: u32,
    pub socket: UnixStream,
}

/// Our end of the control socket.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    last_host: u32,
    news: Arc<News>,
}

/// What the launcher has told so far.
#[derive(Debug, Default)]
pub(super) struct News {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    order: FromLauncherOrder,
    greeted: bool,
    refused: BTreeMap<u32, String>,
    exited: BTreeMap<u32, String>,
    /// The connection is over, with the reason.
    ended: Option<String>,
}

impl Control {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            last_host: 0,
            news: Arc::default(),
        }
    }

    /// Greets and hands over the charter. Blocking: call it once, before anything is opened.
    ///
    /// # Errors
    /// [`Cause::Request`] when the charter does not fit a frame, [`Cause::NoLauncher`] when nobody
    /// reads it.
    pub fn send_charter(&mut self, charter: Charter) -> Result<(), Cause> {
        let hello = ToLauncher::Hello {
            protocol: ferrum_proto::PROTOCOL,
            build: ferrum_proto::BUILD.to_owned(),
        };
        let charter = ToLauncher::Charter(Box::new(charter));
        let mut bytes = encode(&hello, CONTROL_FRAME_BYTES_MAX).map_err(Cause::Request)?;
        bytes.extend(encode(&charter, CONTROL_FRAME_BYTES_MAX).map_err(Cause::Request)?);
        self.socket
            .write_all(&bytes)
            .map_err(|error| self.news.lock().gone(error.to_string()))
    }

    /// Asks for a host. The answer comes later, on the host's own socket or as news.
    ///
    /// # Errors
    /// [`Cause::Launcher`] or [`Cause::NoLauncher`] when nobody takes the request.
    pub fn open_host(&mut self, cwd: &PathBytes, wish: &Wish) -> Result<Opened, Cause> {
        let (cwd, wish) = (cwd.clone(), wish.clone());
        self.open(|host| ToLauncher::OpenHost { host, cwd, wish })
    }

    /// Asks for a host in role check, which runs nothing.
    ///
    /// # Errors
    /// As [`Control::open_host`].
    pub fn open_check(&mut self, cwd: &PathBytes, wish: &Wish) -> Result<Opened, Cause> {
        let (cwd, wish) = (cwd.clone(), wish.clone());
        self.open(|host| ToLauncher::OpenCheck { host, cwd, wish })
    }

    /// Asks for a host that only looks at project files.
    ///
    /// # Errors
    /// As [`Control::open_host`].
    pub fn open_lint(&mut self, cwd: &PathBytes, file: Option<PathBytes>) -> Result<Opened, Cause> {
        let cwd = cwd.clone();
        self.open(|host| ToLauncher::OpenLint { host, cwd, file })
    }

    fn open(&mut self, request: impl FnOnce(u32) -> ToLauncher) -> Result<Opened, Cause> {
        let host = self.last_host + 1;
        let request = request(host);
        let frame = encode(&request, CONTROL_FRAME_BYTES_MAX).map_err(Cause::Request)?;
        let pair = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        );
        let (ours, theirs) = pair.map_err(|error| Cause::Socket(error.desc().to_owned()))?;
        let mut socket = UnixStream::from(ours);
        greet(&mut socket)?;
        self.news.lock().order.asked(host);
        self.last_host = host;
        let sent = self.send_with(&frame, &theirs);
        sent.map_err(|error| self.news.lock().gone(error.desc().to_owned()))?;
        Ok(Opened { host, socket })
    }

    /// The descriptor goes with the first byte. The frame is far smaller than the socket's
    /// buffer, so a short write means that the launcher has stopped reading.
    fn send_with(&self, frame: &[u8], descriptor: &OwnedFd) -> nix::Result<()> {
        let passed = [descriptor.as_raw_fd()];
        let message = [ControlMessage::ScmRights(&passed)];
        let fd = self.socket.as_raw_fd();
        let sent = sendmsg::<()>(fd, &[IoSlice::new(frame)], &message, MsgFlags::MSG_NOSIGNAL, None)?;
        if sent == frame.len() {
            Ok(())
        } else {
            Err(nix::Error::EAGAIN)
        }
    }

    /// Ends a host and everything in it. A launcher that does not listen any more has ended it
    /// already.
    pub(super) fn close_host(&mut self, host: u32) {
        if let Ok(frame) = encode(&ToLauncher::CloseHost { host }, CONTROL_FRAME_BYTES_MAX) {
            let _ = self.socket.write_all(&frame);
        }
    }

    /// Starts reading the launcher's answers. Needs a runtime.
    ///
    /// # Errors
    /// When the socket cannot be registered.
    pub(super) fn listen(&self) -> std::io::Result<Arc<News>> {
        self.socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(self.socket.try_clone()?)?;
        tokio::spawn(read(socket, Arc::clone(&self.news)));
        Ok(Arc::clone(&self.news))
    }

    /// Says that nothing more will be asked; the launcher cleans up and ends.
    pub(super) fn hang_up(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// The host waits only so long for a greeting, while the front may still be reading its prompt.
fn greet(socket: &mut UnixStream) -> Result<(), Cause> {
    let hello = ToHost::Hello {
        protocol: ferrum_proto::PROTOCOL,
        build: ferrum_proto::BUILD.to_owned(),
    };
    let frame = encode(&hello, TO_HOST_FRAME_BYTES_MAX).map_err(Cause::Request)?;
    socket
        .write_all(&frame)
        .map_err(|error| Cause::Socket(error.to_string()))
}

async fn read(mut socket: tokio::net::UnixStream, news: Arc<News>) {
    /// Answers are small.
    const READ_BYTES: usize = 4 << 10;
    let mut frames = FrameReader::new(CONTROL_FRAME_BYTES_MAX);
    let mut buffer = vec![0; READ_BYTES];
    let ended = loop {
        match socket.read(&mut buffer).await {
            Ok(0) => break "it closed the connection".to_owned(),
            Ok(count) => frames.push(&buffer[..count]),
            Err(error) => break error.to_string(),
        }
        if let Err(why) = news.take(&mut frames) {
            break why;
        }
    };
    news.lock().ended = Some(ended);
    news.changed.notify_waiters();
}

impl News {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, frames: &mut FrameReader) -> Result<(), String> {
        while let Some(message) = frames.next::<FromLauncher>().map_err(|error| error.to_string())? {
            let mut state = self.lock();
            state.order.admit(&message).map_err(|error| error.to_string())?;
            match message {
                FromLauncher::Hello { build, .. } if build != ferrum_proto::BUILD => {
                    return Err(Cause::Build { theirs: build }.to_string());
                }
                FromLauncher::Hello { .. } => state.greeted = true,
                FromLauncher::HostStarted { .. } => {}
                FromLauncher::HostRefused { host, message } => {
                    state.refused.insert(host, message);
                }
                FromLauncher::HostExited { host, how } => {
                    state.exited.insert(host, how);
                }
            }
            drop(state);
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// Why the host is gone, as far as the launcher says so within a short while.
    pub(super) async fn why_gone(&self, host: u32, cut: bool) -> Cause {
        /// The launcher reaps within a millisecond; on a busy machine within some more.
        const NEWS_MS_MAX: u64 = 500;
        let known = self.wait(|state| state.about(host));
        let known = tokio::time::timeout(Duration::from_millis(NEWS_MS_MAX), known).await;
        known.unwrap_or(Cause::Closed { cut, how: None }).with_cut(cut)
    }

    /// Resolves when the launcher is gone.
    pub(super) async fn ended(&self) -> String {
        self.wait(|state| state.ended.clone()).await
    }

    async fn wait<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = look(&self.lock()) {
                return found;
            }
            changed.await;
        }
    }
}

impl State {
    fn gone(&self, why: String) -> Cause {
        if self.greeted {
            Cause::Launcher(why)
        } else {
            Cause::NoLauncher(why)
        }
    }

    fn about(&self, host: u32) -> Option<Cause> {
        let refused = self
            .refused
            .get(&host)
            .map(|message| Cause::Refused(message.clone()));
        let exited = self.exited.get(&host).map(|how| Cause::Closed {
            cut: false,
            how: Some(how.clone()),
        });
        let ended = self.ended.clone().map(|why| self.gone(why));
        refused.or(exited).or(ended)
    }
}

impl Cause {
    fn with_cut(self, cut: bool) -> Self {
        match self {
            Self::Closed { how, .. } => Self::Closed { cut, how },
            other => other,
        }
    }
}
