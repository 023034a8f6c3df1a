//! OpenAI's Chat Completions and the many servers that speak something like it.

mod answer;
mod calls;
mod chunk;
pub(super) mod encode;
mod reasoning;
mod template;

use super::http::{self, FIRST_BYTE, Http, NO_EVENT};
use super::model_list::{self, Model};
use super::{Completion, Event, ProviderError, ProviderSettings, Request, exchange, retry};
use answer::Answer;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use std::time::Duration;

/// The first pause between attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// The adapter for one provider.
pub struct ChatCompletions {
    http: Http,
    body: encode::Body,
    streaming: bool,
}

impl ChatCompletions {
    /// # Errors
    /// [`ProviderError::Config`] when the settings cannot work.
    pub fn new(settings: &ProviderSettings) -> Result<Self, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.extend(http::key(settings, "Bearer ")?.map(|key| (AUTHORIZATION, key)));
        Ok(Self {
            http: Http::new(settings, headers)?,
            body: encode::Body::new(settings),
            streaming: settings.streaming,
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
        let Self {
            http,
            body,
            streaming,
        } = self;
        let first_byte = if *streaming { FIRST_BYTE } else { NO_EVENT };
        retry::run(PAUSE, request.buffered, on_event, async |show| {
            let body = body.render(&request);
            let response = http
                .post("/chat/completions", HeaderMap::new(), body, first_byte)
                .await?;
            exchange::read(http, response, Answer::default(), show).await
        })
        .await
    }

    /// The models that the server lists.
    ///
    /// # Errors
    /// Any [`ProviderError`]; nothing is retried.
    pub async fn models(&self) -> Result<Vec<Model>, ProviderError> {
        model_list::parse(&self.http.get("/models", "", HeaderMap::new()).await?)
    }
}

#[cfg(test)]
mod tests;
