//! Responses as the ChatGPT backend speaks them: always streamed, nothing stored there, with the
//! operator's login.

mod answer;
pub(super) mod encode;
mod fault;

use super::credentials::{Credentials, Fixed, Token};
use super::http::{self, FIRST_BYTE, Http};
use super::model_list::{self, Model};
use super::{Completion, Event, ProviderError, ProviderSettings, Request, exchange, retry};
use answer::Answer;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use std::time::Duration;

/// The first pause between attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// The version that is told where `FERRUM_CODEX_CLIENT_VERSION` names none. Models that want a
/// later one are not listed.
const CLIENT_VERSION: &str = "0.169.0";

/// The adapter for one provider.
pub struct Responses {
    http: Http,
    body: encode::Body,
    credentials: Box<dyn Credentials>,
    model: String,
    client_version: String,
    /// One for the process: the backend keeps what it has read of a conversation under it.
    conversation: HeaderValue,
    /// What stands before `/responses`: nothing where the base address has it.
    product_path: &'static str,
}

impl Responses {
    /// # Errors
    /// [`ProviderError::Config`] when the settings cannot work, and without a login.
    pub fn new(mut settings: ProviderSettings) -> Result<Self, ProviderError> {
        settings.streaming = true;
        let key = settings.api_key.clone();
        let fixed = key.map(|bearer| -> Box<dyn Credentials> {
            Box::new(Fixed(Token {
                bearer,
                account: None,
                fedramp: false,
            }))
        });
        let login = || {
            let message = format!("providers.{}: not logged in; run `ferrum login`", settings.name);
            ProviderError::Config(message)
        };
        let mut headers = HeaderMap::new();
        headers.insert("originator", HeaderValue::from_static("ferrum"));
        headers.insert("openai-beta", HeaderValue::from_static("responses=experimental"));
        let conversation = uuid::Uuid::new_v4().to_string();
        let has_product = settings.base_url.trim_end_matches('/').ends_with("/codex");
        let http = Http::new(&settings, headers)?;
        let body = encode::Body::new(&settings, &conversation);
        let credentials = settings.credentials.take().or(fixed).ok_or_else(login)?;
        Ok(Self {
            http,
            body,
            credentials,
            model: settings.model,
            client_version: settings
                .client_version
                .unwrap_or_else(|| CLIENT_VERSION.to_owned()),
            conversation: HeaderValue::try_from(conversation)
                .map_err(|error| ProviderError::Config(error.to_string()))?,
            product_path: if has_product { "" } else { "/codex" },
        })
    }

    /// Asks for the next assistant message.
    ///
    /// # Errors
    /// Any [`ProviderError`], after the retries that are sound. A token that is refused is
    /// replaced once.
    pub async fn complete(
        &mut self,
        request: Request<'_>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Completion, ProviderError> {
        let body = self.body.render(&request);
        let this = &*self;
        let mut replaced = false;
        retry::run(PAUSE, request.buffered, on_event, async |show| {
            let token = this.credentials.token().await?;
            match this.attempt(&token, body.clone(), show).await {
                Err(ProviderError::Status { status: 401, .. }) if !replaced => {
                    replaced = true;
                    let token = this.credentials.refreshed_after_401(&token).await?;
                    this.attempt(&token, body.clone(), show).await
                }
                done => done,
            }
        })
        .await
    }

    async fn attempt(
        &self,
        token: &Token,
        body: Vec<u8>,
        show: exchange::Show<'_>,
    ) -> Result<Completion, ProviderError> {
        let path = format!("{}/responses", self.product_path);
        let mut headers = authority(token)?;
        for name in ["session_id", "x-client-request-id"] {
            headers.insert(HeaderName::from_static(name), self.conversation.clone());
        }
        let response = self.http.post(&path, headers, body, FIRST_BYTE).await?;
        exchange::read(&self.http, response, Answer::new(&self.model), show).await
    }

    /// The models that the backend lists for this login and client version.
    ///
    /// # Errors
    /// Any [`ProviderError`]; only a refused token is tried again, once.
    pub async fn models(&self) -> Result<Vec<Model>, ProviderError> {
        let path = format!("{}/models", self.product_path);
        let query = format!("client_version={}", version(&self.client_version));
        let token = self.credentials.token().await?;
        let body = match self.http.get(&path, &query, authority(&token)?).await {
            Err(ProviderError::Status { status: 401, .. }) => {
                let token = self.credentials.refreshed_after_401(&token).await?;
                self.http.get(&path, &query, authority(&token)?).await
            }
            done => done,
        };
        model_list::parse(&body?)
    }
}

/// Only what a version is made of goes into an address.
fn version(text: &str) -> String {
    let fit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.chars().filter(fit).take(40).collect()
}

fn authority(token: &Token) -> Result<HeaderMap, ProviderError> {
    let unusable =
        || ProviderError::Login("the stored token holds characters that no header can carry".to_owned());
    let mut headers = HeaderMap::new();
    let bearer = http::secret(&token.bearer, "Bearer ").ok_or_else(unusable)?;
    headers.insert(AUTHORIZATION, bearer);
    if let Some(account) = &token.account {
        let account = http::secret(&SecretString::from(account.as_str()), "").ok_or_else(unusable)?;
        headers.insert(HeaderName::from_static("chatgpt-account-id"), account);
    }
    if token.fedramp {
        headers.insert(
            HeaderName::from_static("x-openai-fedramp"),
            HeaderValue::from_static("true"),
        );
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
