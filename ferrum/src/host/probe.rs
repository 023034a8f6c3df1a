//! Opens hosts only to see what they come up with.

use super::client::{HostClient, ToolResult};
use super::control::{Control, News, Opened};
use super::fault::Cause;
use super::hosts::finish;
use super::launch::Launcher;
use ferrum_proto::charter::Wish;
use ferrum_proto::frame::FrameReader;
use ferrum_proto::limits::{FROM_HOST_FRAME_BYTES_MAX, SEAL_MS_MAX};
use ferrum_proto::order::FromHostOrder;
use ferrum_proto::reply::{FromHost, Linted};
use ferrum_proto::request::{Bash, ToolRequest};
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::PathBytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// All probes of one host; each waits for nothing longer than a fraction of a second.
const PROBES_SECONDS_MAX: u32 = 30;

/// Looks at one host after another.
#[derive(Debug)]
pub struct Prober {
    launcher: Launcher,
    control: Control,
    news: Arc<News>,
    cwd: PathBytes,
}

impl Prober {
    pub(crate) fn new(launcher: Launcher, control: Control, cwd: PathBytes) -> Result<Self, Cause> {
        let news = control
            .listen()
            .map_err(|error| Cause::Socket(error.to_string()))?;
        Ok(Self {
            launcher,
            control,
            news,
            cwd,
        })
    }

    /// The policy and the walls that a host with this wish comes up with; it ends right after.
    ///
    /// # Errors
    /// Why it did not come up.
    pub async fn look(&mut self, wish: &Wish) -> Result<(Granted, Ready), Cause> {
        let (granted, ready) = self.inspect(wish).await?;
        Ok((granted, ready?))
    }

    /// As [`Prober::look`], but the policy is told also where the walls did not come up.
    ///
    /// # Errors
    /// Why there is no policy.
    pub async fn inspect(&mut self, wish: &Wish) -> Result<(Granted, Result<Ready, Cause>), Cause> {
        let (granted, ready) = self.open(wish).await;
        let told = |cause: Cause| cause.with_end_of(&self.launcher);
        Ok((granted.map_err(told)?, ready.map_err(told)))
    }

    async fn open(&mut self, wish: &Wish) -> (Result<Granted, Cause>, Result<Ready, Cause>) {
        let started = self.control.open_host(&self.cwd, wish).and_then(|opened| {
            let host = opened.host;
            Ok((host, HostClient::start(opened, Arc::clone(&self.news))?))
        });
        let (host, client) = match started {
            Ok(started) => started,
            Err(cause) => return (Err(cause.clone()), Err(cause)),
        };
        let granted = client.granted().await;
        let ready = client.ready().await;
        self.control.close_host(host);
        (granted, ready)
    }

    /// Lets the compiled-in prober try the walls of a host with this wish, which ends right after.
    /// What was tried is told as the text of a command.
    ///
    /// # Errors
    /// Why there was no such host, or no answer.
    pub async fn probe(
        &mut self,
        wish: &Wish,
        targets: impl FnOnce(&Granted) -> String,
    ) -> Result<(Granted, Ready, ToolResult), Cause> {
        let opened = self.control.open_host(&self.cwd, wish)?;
        let host = opened.host;
        let client = HostClient::start(opened, Arc::clone(&self.news))?;
        let told = async {
            let granted = client.granted().await?;
            let ready = client.ready().await?;
            let request = ToolRequest::Bash(Bash {
                command: targets(&granted),
                timeout_seconds: Some(PROBES_SECONDS_MAX),
            });
            let answer = client.call(request, &mut |_| {}).await;
            let result = answer.map_err(|fault| fault.cause().clone())?;
            Ok((granted, ready, result))
        };
        let told = told.await;
        self.control.close_host(host);
        told.map_err(|cause: Cause| cause.with_end_of(&self.launcher))
    }

    /// What is to be said of the project files that count in `cwd`, or of `file` as if it were the
    /// only one.
    ///
    /// # Errors
    /// Why nothing came.
    pub async fn lint(&mut self, cwd: &PathBytes, file: Option<PathBytes>) -> Result<Linted, Cause> {
        let opened = self.control.open_lint(cwd, file)?;
        let host = opened.host;
        let limit = Duration::from_millis(SEAL_MS_MAX);
        let linted = match tokio::time::timeout(limit, self.linted(opened)).await {
            Ok(linted) => linted,
            Err(_) => Err(Cause::Silent {
                awaited: "report",
                seconds: limit.as_secs(),
            }),
        };
        self.control.close_host(host);
        linted.map_err(|cause| cause.with_end_of(&self.launcher))
    }

    async fn linted(&self, opened: Opened) -> Result<Linted, Cause> {
        let failed = |error: std::io::Error| Cause::Socket(error.to_string());
        opened.socket.set_nonblocking(true).map_err(failed)?;
        let mut socket = UnixStream::from_std(opened.socket).map_err(failed)?;
        let mut frames = FrameReader::new(FROM_HOST_FRAME_BYTES_MAX);
        let mut order = FromHostOrder::check();
        let mut buffer = vec![0; 64 << 10];
        loop {
            while let Some(message) = frames.next::<FromHost>().map_err(Cause::Frame)? {
                order.admit(&message).map_err(Cause::Order)?;
                match message {
                    FromHost::Linted(linted) => return Ok(*linted),
                    FromHost::SealFailed(failed) => return Err(Cause::Seal(failed)),
                    FromHost::Hello { build, .. } if build != ferrum_proto::BUILD => {
                        return Err(Cause::Build { theirs: build });
                    }
                    _ => {}
                }
            }
            match socket.read(&mut buffer).await {
                Ok(0) => return Err(self.news.why_gone(opened.host, frames.is_partial()).await),
                Ok(count) => frames.push(&buffer[..count]),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Waits a short while for the launcher to clean up.
    pub async fn close(self) {
        finish(self.control, &self.news, &self.launcher).await;
    }
}
