//! One tool host: its handshake, its calls, its end.
//!
//! One task reads, one writes; callers meet them in a small shared state. Dropping a call's
//! future cancels the call. A message that the table does not admit, a broken frame, silence or
//! a closed socket is a [`Fault`] for every open call, and the host is given up.

use super::control::{News, Opened};
use super::fault::Cause;
pub use super::fault::Fault;
use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::limits::{
    FROM_HOST_FRAME_BYTES_MAX, HELLO_MS_MAX, PENDING_CALLS_MAX, PROGRESS_BYTES_MAX, SEAL_MS_MAX,
    TO_HOST_FRAME_BYTES_MAX,
};
use ferrum_proto::order::FromHostOrder;
use ferrum_proto::reply::{FromHost, Reply, Survey};
use ferrum_proto::request::{ToHost, ToolRequest};
use ferrum_proto::seal::{Granted, Ready};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// A finished call: how it ended, and the text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub reply: Reply,
    pub text: String,
}

/// What the agent needs of tool hosts.
#[allow(async_fn_in_trait, reason = "used on a current-thread runtime only")]
pub trait ToolHost {
    /// The policy in force.
    fn granted(&self) -> &Granted;

    /// The walls in force; waits until they are up.
    ///
    /// # Errors
    /// [`Fault`] when they do not come up.
    async fn ready(&self) -> Result<Ready, Fault>;

    /// Runs one tool. `progress` gets the latest word of a long call. Dropping the future cancels
    /// the call.
    ///
    /// # Errors
    /// [`Fault`] when no answer that counts came; the next call gets a fresh host.
    async fn call(&self, request: ToolRequest, progress: &mut dyn FnMut(&str)) -> Result<ToolResult, Fault>;

    /// What calls since the last survey left that programs or agents obey without being asked.
    ///
    /// # Errors
    /// [`Fault`] when the host that knows it is gone.
    async fn survey(&self) -> Result<Survey, Fault>;
}

/// A cancelled call must be answered within this time, in milliseconds: killing everything that
/// it started takes some tens.
const CANCEL_MS_MAX: u64 = 10_000;

/// One read from the socket, in bytes: a chunk and its frame fit.
const READ_BYTES: usize = 64 << 10;

/// The front's end of one tool socket. Needs a current-thread runtime.
#[derive(Debug)]
pub struct HostClient {
    shared: Arc<Shared>,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    tasks: [tokio::task::AbortHandle; 2],
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    order: FromHostOrder,
    last_id: u64,
    granted: Option<Granted>,
    ready: Option<Ready>,
    /// Calls that are not answered yet, cancelled ones too.
    open: BTreeMap<u64, Call>,
    /// Surveys that were asked for, with their answers.
    surveys: BTreeMap<u64, Option<Survey>>,
    fault: Option<Cause>,
}

#[derive(Debug, Default)]
struct Call {
    text: Vec<u8>,
    /// Only the latest: a host that floods takes no memory.
    progress: Option<String>,
    reply: Option<Reply>,
    cancelled: bool,
}

impl HostClient {
    /// Starts reading; the greeting went out when the host was asked for.
    ///
    /// # Errors
    /// When the socket cannot be registered with the runtime.
    pub(super) fn start(opened: Opened, news: Arc<News>) -> Result<Self, Cause> {
        let failed = |error: std::io::Error| Cause::Socket(error.to_string());
        opened.socket.set_nonblocking(true).map_err(failed)?;
        let (reader, writer) = UnixStream::from_std(opened.socket).map_err(failed)?.into_split();
        let (frames, queue) = mpsc::unbounded_channel();
        let shared = Arc::<Shared>::default();
        let write = tokio::spawn(write(writer, queue));
        let read = tokio::spawn(watch(reader, Arc::clone(&shared), news, opened.host));
        Ok(Self {
            shared,
            frames,
            tasks: [write.abort_handle(), read.abort_handle()],
        })
    }

    /// Waits for the policy.
    pub(super) async fn granted(&self) -> Result<Granted, Cause> {
        self.shared.wait(|state| state.granted.clone()).await
    }

    /// Waits for the walls.
    pub(super) async fn ready(&self) -> Result<Ready, Cause> {
        self.shared.wait(|state| state.ready.clone()).await
    }

    /// True once it must be given up.
    pub(super) fn is_lost(&self) -> bool {
        self.shared.lock().fault.is_some()
    }

    pub(super) async fn call(
        &self,
        request: ToolRequest,
        progress: &mut dyn FnMut(&str),
    ) -> Result<ToolResult, Fault> {
        self.ready().await.map_err(Fault::NotStarted)?;
        let open = self.send(request).map_err(Fault::NotStarted)?;
        loop {
            let changed = self.shared.changed.notified();
            // Not in the match's head: the lock would be held while waiting.
            let look = self.shared.lock().look(open.id);
            match look {
                Look::Progress(text) => progress(&text),
                Look::Done(result) => return result.map_err(Fault::EffectUnknown),
                Look::Nothing => changed.await,
            }
        }
    }

    /// Asks what was touched since the last time, once nothing runs any more.
    pub(super) async fn survey(&self) -> Result<Survey, Cause> {
        let id = {
            let mut state = self.shared.lock();
            let id = state.last_id + 1;
            state.last_id = id;
            state.order.called(id);
            state.surveys.insert(id, None);
            id
        };
        let frame = encode(&ToHost::Survey { id }, TO_HOST_FRAME_BYTES_MAX).map_err(Cause::Request)?;
        // A closed queue means that the writer failed; the reader then sees the end too.
        let _ = self.frames.send(frame);
        let survey = self
            .shared
            .wait(|state| state.surveys.get(&id).cloned().flatten())
            .await;
        self.shared.lock().surveys.remove(&id);
        survey
    }

    /// Waits until every call is answered, cancelled ones too, or never will be: only then has the
    /// host put back what a command left.
    pub(super) async fn settled(&self) {
        // A fault settles it as well.
        let _ = self.shared.wait(|state| state.is_answered().then_some(())).await;
    }

    fn send(&self, request: ToolRequest) -> Result<OpenCall<'_>, Cause> {
        let mut state = self.shared.lock();
        if let Some(cause) = &state.fault {
            return Err(cause.clone());
        }
        if state.open.len() >= PENDING_CALLS_MAX {
            return Err(Cause::Pending);
        }
        let id = state.last_id + 1;
        let frame = encode(&ToHost::Call { id, request }, TO_HOST_FRAME_BYTES_MAX).map_err(Cause::Request)?;
        state.last_id = id;
        state.order.called(id);
        state.open.insert(id, Call::default());
        drop(state);
        // A closed queue means that the writer failed; the reader then sees the end too.
        let _ = self.frames.send(frame);
        Ok(OpenCall { client: self, id })
    }
}

impl Drop for HostClient {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Cancels its call when dropped before the answer.
struct OpenCall<'a> {
    client: &'a HostClient,
    id: u64,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        let id = self.id;
        let shared = &self.client.shared;
        match shared.lock().open.get_mut(&id) {
            Some(call) => {
                call.cancelled = true;
                call.text = Vec::new();
            }
            None => return,
        }
        if let Ok(frame) = encode(&ToHost::Cancel { id }, TO_HOST_FRAME_BYTES_MAX) {
            let _ = self.client.frames.send(frame);
        }
        // Without a runtime everything ends anyway.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let weak = Arc::downgrade(shared);
        runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(CANCEL_MS_MAX)).await;
            let Some(shared) = weak.upgrade() else { return };
            if shared.lock().open.contains_key(&id) {
                shared.fail(silent("answer to a cancel", CANCEL_MS_MAX));
            }
        });
    }
}

enum Look {
    Nothing,
    Progress(String),
    Done(Box<Result<ToolResult, Cause>>),
}

impl State {
    /// The host is up and every call is answered.
    fn is_idle(&self) -> bool {
        self.ready.is_some() && self.is_answered()
    }

    fn is_answered(&self) -> bool {
        self.open.values().all(|call| call.reply.is_some())
    }

    fn look(&mut self, id: u64) -> Look {
        let Some(call) = self.open.get_mut(&id) else {
            // Only its own caller takes a call out, and only once.
            return Look::Nothing;
        };
        if let Some(text) = call.progress.take() {
            return Look::Progress(text);
        }
        if let Some(reply) = call.reply.take() {
            // Judged when the reply came.
            let text = String::from_utf8_lossy(&call.text).into_owned();
            self.open.remove(&id);
            return Look::Done(Box::new(Ok(ToolResult { reply, text })));
        }
        if let Some(cause) = self.fault.clone() {
            self.open.remove(&id);
            return Look::Done(Box::new(Err(cause)));
        }
        Look::Nothing
    }

    fn take(&mut self, message: FromHost) -> Result<(), Cause> {
        self.order.admit(&message).map_err(Cause::Order)?;
        match message {
            FromHost::Hello { build, .. } if build != ferrum_proto::BUILD => {
                return Err(Cause::Build { theirs: build });
            }
            FromHost::Hello { .. } => {}
            FromHost::Granted(granted) => self.granted = Some(*granted),
            FromHost::Ready(ready) => self.ready = Some(*ready),
            FromHost::SealFailed(failed) => return Err(Cause::Seal(failed)),
            FromHost::Progress { text, .. } if text.len() > PROGRESS_BYTES_MAX => {
                return Err(Cause::Text("a progress line above the limit"));
            }
            FromHost::Progress { id, text } => self.with(id, |call| call.progress = Some(text)),
            FromHost::Chunk { id, bytes } => self.with(id, |call| {
                if !call.cancelled {
                    call.text.extend_from_slice(&bytes);
                }
            }),
            FromHost::Reply { id, reply } => return self.answer(id, reply),
            FromHost::Surveyed { id, survey } => {
                if let Some(place) = self.surveys.get_mut(&id) {
                    *place = Some(survey);
                }
            }
            // The table admits none from a session.
            FromHost::Explained { .. } | FromHost::Linted(_) => {}
        }
        Ok(())
    }

    fn with(&mut self, id: u64, act: impl FnOnce(&mut Call)) {
        if let Some(call) = self.open.get_mut(&id) {
            act(call);
        }
    }

    fn answer(&mut self, id: u64, reply: Reply) -> Result<(), Cause> {
        let Some(call) = self.open.get_mut(&id) else {
            return Ok(());
        };
        if call.cancelled {
            self.open.remove(&id);
        } else if std::str::from_utf8(&call.text).is_err() {
            return Err(Cause::Text("a result that is not UTF-8"));
        } else {
            call.reply = Some(reply);
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first fault counts; what comes after it is its consequence.
    fn fail(&self, cause: Cause) {
        self.lock().fault.get_or_insert(cause);
        self.changed.notify_waiters();
    }

    async fn wait<T>(&self, look: impl Fn(&State) -> Option<T>) -> Result<T, Cause> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lock();
                if let Some(cause) = &state.fault {
                    return Err(cause.clone());
                }
                if let Some(found) = look(&state) {
                    return Ok(found);
                }
            }
            changed.await;
        }
    }
}

async fn write(mut socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = queue.recv().await {
        // The reader sees the broken connection as well and knows more about it.
        if socket.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn watch(socket: OwnedReadHalf, shared: Arc<Shared>, news: Arc<News>, host: u32) {
    let cause = match read(socket, &shared).await {
        // Nobody waits for an explanation, and the next call must not be sent to it.
        closed @ Cause::Closed { .. } if shared.lock().is_idle() => closed,
        Cause::Closed { cut, .. } => news.why_gone(host, cut).await,
        other => other,
    };
    shared.fail(cause);
}

/// Reads until the connection must be given up, and says why.
async fn read(mut socket: OwnedReadHalf, shared: &Shared) -> Cause {
    let mut frames = FrameReader::new(FROM_HOST_FRAME_BYTES_MAX);
    let mut buffer = vec![0; READ_BYTES];
    let mut patience = Patience::new();
    loop {
        let count = match patience.wait(socket.read(&mut buffer)).await {
            Err(cause) => return cause,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Ok(Err(error)) => return Cause::Socket(error.to_string()),
            Ok(Ok(count)) => count,
        };
        if count == 0 {
            return Cause::Closed {
                cut: frames.is_partial(),
                how: None,
            };
        }
        frames.push(&buffer[..count]);
        loop {
            let message = match frames.next::<FromHost>() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Cause::Frame(error),
            };
            patience.saw(&message);
            if let Err(cause) = shared.lock().take(message) {
                return cause;
            }
            shared.changed.notify_waiters();
        }
    }
}

/// How long the host may still take for the step that it is in.
struct Patience {
    awaited: &'static str,
    milliseconds: u64,
    until: Option<Instant>,
}

impl Patience {
    fn new() -> Self {
        let mut patience = Self {
            awaited: "",
            milliseconds: 0,
            until: None,
        };
        patience.expect("greeting", HELLO_MS_MAX);
        patience
    }

    fn expect(&mut self, awaited: &'static str, milliseconds: u64) {
        self.awaited = awaited;
        self.milliseconds = milliseconds;
        self.until = Some(Instant::now() + Duration::from_millis(milliseconds));
    }

    fn saw(&mut self, message: &FromHost) {
        match message {
            FromHost::Hello { .. } => self.expect("policy", SEAL_MS_MAX),
            FromHost::Granted(_) => self.expect("walls", SEAL_MS_MAX),
            FromHost::Ready(_) | FromHost::SealFailed(_) => self.until = None,
            // A call's own deadline is the host's to keep: it may be days.
            FromHost::Progress { .. }
            | FromHost::Chunk { .. }
            | FromHost::Reply { .. }
            | FromHost::Surveyed { .. }
            | FromHost::Explained { .. }
            | FromHost::Linted(_) => {}
        }
    }

    async fn wait<T>(&self, step: impl Future<Output = T>) -> Result<T, Cause> {
        match self.until {
            None => Ok(step.await),
            Some(until) => {
                let timed = tokio::time::timeout_at(until, step).await;
                timed.map_err(|_| silent(self.awaited, self.milliseconds))
            }
        }
    }
}

fn silent(awaited: &'static str, milliseconds: u64) -> Cause {
    Cause::Silent {
        awaited,
        seconds: milliseconds / 1_000,
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
