//! Anthropic's Messages.

mod answer;
pub(super) mod encode;

use super::http::{self, FIRST_BYTE, Http, NO_EVENT};
use super::model_list::{self, Model};
use super::{Completion, Event, ProviderError, ProviderSettings, Request, exchange, retry};
use answer::Answer;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// The version of the format, in a header of each request.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");
/// The first pause between attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// The adapter for one provider.
pub struct Messages {
    http: Http,
    body: encode::Body,
    streaming: bool,
    model: String,
    /// What stands before `/messages`: nothing where the base address has it.
    version_path: &'static str,
}

impl Messages {
    /// # Errors
    /// [`ProviderError::Config`] when the settings cannot work.
    pub fn new(settings: &ProviderSettings) -> Result<Self, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("anthropic-version"), VERSION);
        let key = http::key(settings, "")?;
        headers.extend(key.map(|key| (HeaderName::from_static("x-api-key"), key)));
        let has_version = settings.base_url.trim_end_matches('/').ends_with("/v1");
        Ok(Self {
            http: Http::new(settings, headers)?,
            body: encode::Body::new(settings),
            streaming: settings.streaming,
            model: settings.model.clone(),
            version_path: if has_version { "" } else { "/v1" },
        })
    }

    /// Asks for the next assistant message.
    ///
    /// # Errors
    /// Any [`ProviderError`], after the retries that are sound.
    pub async fn complete(
        &mut self,
        request: Request<'_>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Completion, ProviderError> {
        let first_byte = if self.streaming { FIRST_BYTE } else { NO_EVENT };
        let path = format!("{}/messages", self.version_path);
        let Self {
            http, body, model, ..
        } = self;
        retry::run(PAUSE, request.buffered, on_event, async |show| {
            let body = body.render(&request);
            let response = http.post(&path, HeaderMap::new(), body, first_byte).await?;
            exchange::read(http, response, Answer::new(model), show).await
        })
        .await
    }

    /// The models that the provider lists.
    ///
    /// # Errors
    /// Any [`ProviderError`]; nothing is retried.
    pub async fn models(&self) -> Result<Vec<Model>, ProviderError> {
        let path = format!("{}/models", self.version_path);
        model_list::parse(&self.http.get(&path, "limit=1000", HeaderMap::new()).await?)
    }
}

#[cfg(test)]
mod tests;
