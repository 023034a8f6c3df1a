//! The way to one address. Plain `http://` on this machine goes over bare sockets: no certificate is
//! read, no TLS configuration exists, no proxy is asked. Everything else goes through the client that
//! knows all of these.

use super::http::causes;
use super::{ProviderError, address, roots};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use reqwest::header::{HeaderValue, USER_AGENT};
use reqwest::{Body, Request, Response, Url};
use std::sync::Arc;

const AGENT: &str = concat!("ferrum/", env!("CARGO_PKG_VERSION"));

/// A client for one address, which keeps its connections and follows no redirect: a credential stays
/// where it was sent.
pub enum Transport {
    Bare(Box<legacy::Client<HttpConnector, Body>>),
    Full(reqwest::Client),
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Bare(legacy::Error),
    #[error(transparent)]
    Full(#[from] reqwest::Error),
}

impl SendError {
    /// No connection was made, so nothing was sent.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        match self {
            Self::Bare(error) => error.is_connect(),
            Self::Full(error) => error.is_connect(),
        }
    }
}

impl Transport {
    /// Opens nothing yet.
    ///
    /// # Errors
    /// [`ProviderError::Config`] when TLS cannot be set up.
    pub fn to(base: &Url) -> Result<Self, ProviderError> {
        if base.scheme() == "http" && address::is_loopback(base) {
            return Ok(Self::Bare(Box::new(bare())));
        }
        full(base).map(Self::Full)
    }

    /// Sends a request and waits for the head of its answer, whatever its status.
    ///
    /// # Errors
    /// [`SendError`] when there is none.
    pub async fn send(&self, mut request: Request) -> Result<Response, SendError> {
        request
            .headers_mut()
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(AGENT));
        match self {
            Self::Bare(client) => {
                let answer = client.request(request.try_into()?).await;
                Ok(answer.map_err(SendError::Bare)?.map(Body::wrap).into())
            }
            Self::Full(client) => Ok(client.execute(request).await?),
        }
    }
}

fn bare() -> legacy::Client<HttpConnector, Body> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    legacy::Client::builder(TokioExecutor::new()).build(connector)
}

fn full(base: &Url) -> Result<reqwest::Client, ProviderError> {
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(tls()?);
    if address::is_loopback(base) {
        builder = builder.no_proxy();
    }
    if base.scheme() == "http" {
        builder = builder.http1_only();
    }
    builder
        .build()
        .map_err(|e| ProviderError::Config(format!("cannot set up HTTP: {}", causes(&e))))
}

fn tls() -> Result<rustls::ClientConfig, ProviderError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| ProviderError::Config(format!("cannot set up TLS: {e}")))?
        .with_root_certificates(roots::load())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_on_this_machine_does_without_tls() {
        let is_bare = |url: &str| {
            let url = Url::parse(url).unwrap();
            matches!(Transport::to(&url).unwrap(), Transport::Bare(_))
        };
        for url in ["http://127.0.0.1:8080/v1", "http://localhost", "http://[::1]:1/"] {
            assert!(is_bare(url), "{url}");
        }
        for url in ["https://127.0.0.1", "http://10.0.0.1", "https://example.org"] {
            assert!(!is_bare(url), "{url}");
        }
    }
}
