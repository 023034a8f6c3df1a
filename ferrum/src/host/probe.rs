//! Opens hosts only to see what they come up with.

use super::client::HostClient;
use super::control::{Control, News};
use super::fault::Cause;
use super::hosts::finish;
use super::launch::Launcher;
use ferrum_proto::charter::Wish;
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::PathBytes;
use std::sync::Arc;

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

    /// Waits a short while for the launcher to clean up.
    pub async fn close(self) {
        finish(self.control, &self.news, &self.launcher).await;
    }
}
