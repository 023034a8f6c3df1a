//! The session's tool host, replaced by a fresh one after a fault.

use super::client::{HostClient, ToolHost, ToolResult};
use super::control::{Control, News, Opened};
use super::fault::{Cause, Fault};
use super::launch::Launcher;
use ferrum_proto::charter::Wish;
use ferrum_proto::reply::Survey;
use ferrum_proto::request::ToolRequest;
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::PathBytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long the front waits for the launcher to clean up at the end, in milliseconds.
const EXIT_MS_MAX: u64 = 2_000;
/// How long the end waits for the answers of cancelled calls, in milliseconds. What a command
/// planted is put back before its call is answered, and by nobody once the host is gone.
const SETTLE_MS_MAX: u64 = 5_000;

/// What every host of a session is opened for.
#[derive(Debug, Clone)]
pub struct Place {
    /// The working directory as the user wrote it.
    pub cwd: PathBytes,
    pub wish: Wish,
}

/// The tool hosts of one session, one at a time.
#[derive(Debug)]
pub struct Hosts {
    launcher: Launcher,
    news: Arc<News>,
    place: Place,
    granted: Granted,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    control: Control,
    host: u32,
    client: Arc<HostClient>,
}

impl Hosts {
    /// Takes over the launcher and its first host, and waits for the policy in force. Needs a
    /// current-thread runtime.
    ///
    /// # Errors
    /// [`Fault::NotStarted`] with the seal's failure or a broken connection.
    pub async fn start(
        launcher: Launcher,
        control: Control,
        first: Opened,
        place: Place,
    ) -> Result<Self, Fault> {
        let listening = control.listen();
        let news = listening.map_err(|error| Fault::NotStarted(Cause::Socket(error.to_string())))?;
        let host = first.host;
        let client = HostClient::start(first, Arc::clone(&news)).map_err(Fault::NotStarted)?;
        let granted = match client.granted().await {
            Ok(granted) => granted,
            Err(cause) => {
                let cause = cause.with_end_of(&launcher);
                drop(client);
                finish(control, &news, &launcher).await;
                return Err(Fault::NotStarted(cause));
            }
        };
        let current = Mutex::new(Current {
            control,
            host,
            client: Arc::new(client),
        });
        Ok(Self {
            launcher,
            news,
            place,
            granted,
            current,
        })
    }

    /// The host of now; a fresh one when the last was given up.
    async fn client(&self) -> Result<Arc<HostClient>, Cause> {
        let mut current = self.current.lock().await;
        if !current.client.is_lost() {
            return Ok(Arc::clone(&current.client));
        }
        let lost = current.host;
        current.control.close_host(lost);
        let opened = current.control.open_host(&self.place.cwd, &self.place.wish)?;
        let host = opened.host;
        let client = HostClient::start(opened, Arc::clone(&self.news))?;
        match client.granted().await {
            Ok(granted) if same_policy(&granted, &self.granted) => {}
            refused => {
                current.control.close_host(host);
                return Err(refused.err().unwrap_or(Cause::PolicyChanged));
            }
        }
        current.host = host;
        current.client = Arc::new(client);
        Ok(Arc::clone(&current.client))
    }

    /// Ends the host and everything in it, once cancelled calls are answered, and waits a short
    /// while for the launcher to clean up.
    pub async fn close(self) {
        let current = self.current.into_inner();
        let limit = Duration::from_millis(SETTLE_MS_MAX);
        // A host that does not answer is ended all the same.
        let _ = tokio::time::timeout(limit, current.client.settled()).await;
        drop(current.client);
        finish(current.control, &self.news, &self.launcher).await;
    }
}

impl ToolHost for Hosts {
    fn granted(&self) -> &Granted {
        &self.granted
    }

    async fn ready(&self) -> Result<Ready, Fault> {
        let client = self
            .client()
            .await
            .map_err(|cause| Fault::NotStarted(cause.with_end_of(&self.launcher)))?;
        client
            .ready()
            .await
            .map_err(|cause| Fault::NotStarted(cause.with_end_of(&self.launcher)))
    }

    async fn call(&self, request: ToolRequest, progress: &mut dyn FnMut(&str)) -> Result<ToolResult, Fault> {
        let client = self
            .client()
            .await
            .map_err(|cause| Fault::NotStarted(cause.with_end_of(&self.launcher)))?;
        client.call(request, progress).await.map_err(|fault| match fault {
            Fault::NotStarted(cause) => Fault::NotStarted(cause.with_end_of(&self.launcher)),
            Fault::EffectUnknown(cause) => Fault::EffectUnknown(cause.with_end_of(&self.launcher)),
        })
    }

    /// A fresh host would know nothing, so none is started for it.
    async fn survey(&self) -> Result<Survey, Fault> {
        let client = Arc::clone(&self.current.lock().await.client);
        let survey = client.survey().await;
        survey.map_err(|cause| Fault::EffectUnknown(cause.with_end_of(&self.launcher)))
    }
}

/// The same rules: a host started later may have other things to remark about them.
fn same_policy(a: &Granted, b: &Granted) -> bool {
    let rules = |granted: &Granted| Granted {
        notices: Vec::new(),
        preflight: None,
        // Their rules stand in the rest.
        policies: Vec::new(),
        ..granted.clone()
    };
    rules(a) == rules(b)
}

/// Hangs up and waits until the launcher has cleaned up, but not for long.
pub(super) async fn finish(control: Control, news: &News, launcher: &Launcher) {
    control.hang_up();
    let ended = tokio::time::timeout(Duration::from_millis(EXIT_MS_MAX), news.ended()).await;
    if ended.is_ok() {
        // Reaps it, where it was quick.
        let _ = launcher.ended();
    }
}

impl Cause {
    /// Adds how the launcher's process ended, where it did.
    pub(crate) fn with_end_of(self, launcher: &Launcher) -> Self {
        match (self, launcher.ended()) {
            (Self::Launcher(why), Some(how)) => Self::Launcher(format!("{why} ({how})")),
            (Self::NoLauncher(why), Some(how)) => Self::NoLauncher(format!("{why} ({how})")),
            (cause, _) => cause,
        }
    }
}

#[cfg(test)]
#[path = "hosts_tests.rs"]
mod tests;
