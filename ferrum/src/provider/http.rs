//! The HTTP side of a provider: one client, deadlines, bounded bodies, the cleartext rule.
//!
//! For `http://` addresses no certificate file is read and no TLS session is ever set up: the
//! client gets a TLS configuration with an empty root store, so that none is built by default.

use super::error::from_status;
use super::{ProviderError, ProviderSettings, retry, roots};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use secrecy::ExposeSecret;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
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
/// An error body, in bytes; more is cut.
pub const ERROR_BYTES_MAX: usize = 256 << 10;
/// A whole stream, in bytes.
pub const STREAM_BYTES_MAX: usize = 64 << 20;

/// A client for one provider address.
pub struct Http {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Http {
    /// `path` is appended to the provider's base address.
    ///
    /// # Errors
    /// [`ProviderError::Config`] for an address, key or header that cannot be used, and for a key
    /// that would travel in clear text to another machine.
    pub fn new(settings: &ProviderSettings, path: &str) -> Result<Self, ProviderError> {
        let url = address(settings, path)?;
        let headers = headers(settings)?;
        check_cleartext(settings, &url, headers.contains_key(AUTHORIZATION))?;
        let secure = url.scheme() == "https";
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("ferrum/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls(secure)?);
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        if !secure {
            builder = builder.http1_only();
        }
        let client = builder
            .build()
            .map_err(|e| config(settings, &format!("cannot set up HTTP: {}", causes(&e))))?;
        Ok(Self { client, url, headers })
    }

    /// Sends one request and waits for the head of a successful answer.
    ///
    /// # Errors
    /// [`ProviderError::Status`] or [`ProviderError::Overflow`] for any status but 2xx.
    pub async fn post(&self, body: Vec<u8>, first_byte: Duration) -> Result<Response, ProviderError> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body);
        let response = match tokio::time::timeout(first_byte, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.broken(&error)),
            Err(_) => return Err(timed_out("answer", first_byte)),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok());
        let after = after.and_then(|text| retry::retry_after(text, SystemTime::now()));
        // A body that does not come must not hide the status.
        let (body, _) = self
            .collect(response, ERROR_BYTES_MAX, ERROR_IDLE, ERROR_TOTAL)
            .await;
        Err(from_status(status, &body, after))
    }

    /// The whole body of an answer that is not a stream.
    ///
    /// # Errors
    /// [`ProviderError::TooLarge`], [`ProviderError::Timeout`] or [`ProviderError::Broken`].
    pub async fn body(&self, response: Response) -> Result<Vec<u8>, ProviderError> {
        match self
            .collect(response, BODY_BYTES_MAX, BODY_IDLE, BODY_TOTAL)
            .await
        {
            (body, None) => Ok(body),
            (_, Some(error)) => Err(error),
        }
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
        let (url, cause) = (self.url.to_string(), causes(error));
        if error.is_connect() {
            ProviderError::Connect { url, cause }
        } else {
            ProviderError::Broken { url, cause }
        }
    }
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

fn address(settings: &ProviderSettings, path: &str) -> Result<Url, ProviderError> {
    let base = settings.base_url.trim_end_matches('/');
    let url = Url::parse(&format!("{base}{path}"))
        .map_err(|e| config(settings, &format!("base_url {base:?} is not an address: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(config(
            settings,
            "base_url must begin with http:// or https:// and name a host",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(config(
            settings,
            "base_url must not hold a password; use api_key_env or headers",
        ));
    }
    Ok(url)
}

fn headers(settings: &ProviderSettings) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = if settings.streaming {
        "text/event-stream"
    } else {
        "application/json"
    };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    if let Some(key) = &settings.api_key {
        let text = format!("Bearer {}", key.expose_secret());
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            config(
                settings,
                "the key named by api_key_env holds characters that no header can carry",
            )
        })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in &settings.headers {
        let bad = || config(settings, &format!("headers: {name:?} is not a usable header"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A key over `http://` to another machine can be read by everyone between.
fn check_cleartext(settings: &ProviderSettings, url: &Url, authenticated: bool) -> Result<(), ProviderError> {
    let secret = authenticated || !settings.headers.is_empty();
    if url.scheme() == "http" && secret && !is_loopback(url) && !settings.allow_insecure_http {
        return Err(config(
            settings,
            "base_url is http:// on another machine, so the key would travel in clear text; \
             use https:// or set allow_insecure_http = true",
        ));
    }
    Ok(())
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn tls(secure: bool) -> Result<rustls::ClientConfig, ProviderError> {
    let roots = if secure {
        roots::load()
    } else {
        rustls::RootCertStore::empty()
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| ProviderError::Config(format!("cannot set up TLS: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The innermost cause says most ("connection refused"); the outer ones repeat the address.
fn causes(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    super::error::one_line(&cause.to_string())
}
