//! The HTTP side of a provider: one transport, deadlines, bounded bodies.

use super::error::from_status;
use super::transport::Transport;
use super::{ProviderError, ProviderSettings, address, retry};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use std::error::Error;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout_at};

/// From the request to the head of a streamed answer.
pub const FIRST_BYTE: Duration = Duration::from_secs(60);
/// Between two pieces of a stream.
pub const STREAM_IDLE: Duration = Duration::from_secs(90);
/// Between two events of a stream: comments keep a connection alive, but not for ever. Also the
/// deadline for an answer that is not streamed, where the head comes only with the whole text.
pub const NO_EVENT: Duration = Duration::from_secs(600);
/// Between two pieces of a body that is not a stream, and for the whole of it.
pub const BODY_IDLE: Duration = Duration::from_secs(30);
pub const BODY_TOTAL: Duration = Duration::from_secs(120);
const ERROR_IDLE: Duration = Duration::from_secs(10);
const ERROR_TOTAL: Duration = Duration::from_secs(30);

/// A body that is not a stream, in bytes.
pub const BODY_BYTES_MAX: usize = 32 << 20;
/// A list of models, in bytes.
pub const LIST_BYTES_MAX: usize = 8 << 20;
/// An error body, in bytes; more is cut.
pub const ERROR_BYTES_MAX: usize = 256 << 10;
/// A whole stream, in bytes.
pub const STREAM_BYTES_MAX: usize = 64 << 20;

/// One provider address.
pub struct Http {
    transport: Transport,
    base: Url,
    headers: HeaderMap,
}

impl Http {
    /// `own` are the headers of the wire format, the key among them. The user's come after and
    /// win.
    ///
    /// # Errors
    /// [`ProviderError::Config`] for an address, key or header that cannot be used, and for a key
    /// that would travel in clear text to another machine.
    pub fn new(settings: &ProviderSettings, own: HeaderMap) -> Result<Self, ProviderError> {
        let secret =
            settings.api_key.is_some() || settings.credentials.is_some() || !settings.headers.is_empty();
        let base = match settings.base_url.as_str() {
            "" => settings.kind.default_base_url().unwrap_or_default(),
            named => named,
        };
        let base = address::check(base, secret, settings.allow_insecure_http).map_err(|bad| {
            let hint = if bad.hint.is_empty() { "" } else { "; " };
            config(settings, &format!("{}{hint}{}", bad.what, bad.hint))
        })?;
        let transport = Transport::to(&base).map_err(|error| config(settings, &error.to_string()))?;
        let headers = headers(settings, own)?;
        Ok(Self {
            transport,
            base,
            headers,
        })
    }

    /// Sends one request and waits for the head of a successful answer.
    ///
    /// # Errors
    /// Whatever [`from_status`] makes of any status but 2xx; [`ProviderError::Connect`],
    /// [`ProviderError::Broken`] or [`ProviderError::Timeout`] where there is none.
    pub async fn post(
        &self,
        path: &str,
        more: HeaderMap,
        body: Vec<u8>,
        first_byte: Duration,
    ) -> Result<Response, ProviderError> {
        let mut request = Request::new(Method::POST, address::below(&self.base, path));
        *request.headers_mut() = with(self.headers.clone(), more);
        *request.body_mut() = Some(body.into());
        self.send(request, first_byte).await
    }

    /// The body of a small answer, such as a list of models. `query` is appended as it is.
    ///
    /// # Errors
    /// As [`Http::post`], and [`ProviderError::TooLarge`].
    pub async fn get(&self, path: &str, query: &str, more: HeaderMap) -> Result<Vec<u8>, ProviderError> {
        let mut url = address::below(&self.base, path);
        if !query.is_empty() {
            url.set_query(Some(query));
        }
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.remove(CONTENT_TYPE);
        let mut request = Request::new(Method::GET, url);
        *request.headers_mut() = with(headers, more);
        let response = self.send(request, BODY_IDLE).await?;
        match self
            .collect(response, LIST_BYTES_MAX, BODY_IDLE, BODY_TOTAL)
            .await
        {
            (body, None) => Ok(body),
            (_, Some(error)) => Err(error),
        }
    }

    async fn send(&self, request: Request, first_byte: Duration) -> Result<Response, ProviderError> {
        let response = match tokio::time::timeout(first_byte, self.transport.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.failed(error.is_connect(), &error)),
            Err(_) => return Err(timed_out("answer", first_byte)),
        };
        // 204 and 205 hold no answer by definition.
        if response.status().is_success() && !matches!(response.status().as_u16(), 204 | 205) {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let after = retry::wanted_pause(response.headers(), SystemTime::now());
        // A body that does not come must not hide the status.
        let (body, _) = self
            .collect(response, ERROR_BYTES_MAX, ERROR_IDLE, ERROR_TOTAL)
            .await;
        Err(from_status(status, &body, after))
    }

    async fn collect(
        &self,
        mut response: Response,
        bytes_max: usize,
        idle: Duration,
        total: Duration,
    ) -> (Vec<u8>, Option<ProviderError>) {
        let end = Instant::now() + total;
        let mut body = Vec::new();
        loop {
            let deadline = end.min(Instant::now() + idle);
            match timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    let room = bytes_max - body.len();
                    body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if bytes.len() > room {
                        let what = format!("the body is larger than {bytes_max} bytes");
                        return (body, Some(ProviderError::TooLarge(what)));
                    }
                }
                Ok(Ok(None)) => return (body, None),
                Ok(Err(error)) => return (body, Some(self.broken(&error))),
                Err(_) => return (body, Some(timed_out("complete answer body", total))),
            }
        }
    }

    /// What a failure of the client means for a retry.
    #[must_use]
    pub fn broken(&self, error: &reqwest::Error) -> ProviderError {
        self.failed(error.is_connect(), error)
    }

    fn failed(&self, is_connect: bool, error: &dyn Error) -> ProviderError {
        let (url, cause) = (self.base.to_string(), causes(error));
        if is_connect {
            ProviderError::Connect { url, cause }
        } else {
            ProviderError::Broken { url, cause }
        }
    }
}

/// The headers of every request, and those of this one, which win.
fn with(mut headers: HeaderMap, more: HeaderMap) -> HeaderMap {
    headers.extend(more);
    headers
}

/// A passed deadline as an error.
#[must_use]
pub fn timed_out(what: &'static str, after: Duration) -> ProviderError {
    ProviderError::Timeout {
        what,
        seconds: after.as_secs(),
    }
}

fn config(settings: &ProviderSettings, what: &str) -> ProviderError {
    ProviderError::Config(format!("providers.{}: {what}", settings.name))
}

fn headers(settings: &ProviderSettings, own: HeaderMap) -> Result<HeaderMap, ProviderError> {
    let mut headers = own;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = if settings.streaming {
        "text/event-stream"
    } else {
        "application/json"
    };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    for (name, value) in &settings.headers {
        let bad = || config(settings, &format!("headers: {name:?} is not a usable header"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        headers.insert(name, secret(value, "").ok_or_else(bad)?);
    }
    Ok(headers)
}

/// The configured key as a header's value, after `before`; `None` where there is no key.
///
/// # Errors
/// [`ProviderError::Config`] when no header can carry it.
pub fn key(settings: &ProviderSettings, before: &str) -> Result<Option<HeaderValue>, ProviderError> {
    let Some(key) = &settings.api_key else {
        return Ok(None);
    };
    let unusable = "the key named by api_key_env holds characters that no header can carry";
    secret(key, before)
        .map(Some)
        .ok_or_else(|| config(settings, unusable))
}

/// A header's value that no debug output shows; `None` when it holds a character that no header
/// can carry.
#[must_use]
pub fn secret(value: &SecretString, before: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("{before}{}", value.expose_secret())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The innermost cause says most ("connection refused"); the outer ones repeat the address.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    super::error::one_line(&cause.to_string())
}
