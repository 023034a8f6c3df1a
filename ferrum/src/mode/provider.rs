//! The model of the configuration → a provider that is ready for requests.

use crate::config::{Config, ProviderChoice};
use crate::provider::{Provider, ProviderError, ProviderSettings};

/// Sets the provider up without sending anything.
///
/// # Errors
/// [`ProviderError::Config`] when it cannot work as configured.
pub fn open(config: &Config, choice: ProviderChoice) -> Result<Provider, ProviderError> {
    let entry = choice.entry;
    Provider::new(ProviderSettings {
        name: choice.name,
        kind: entry.kind,
        base_url: entry.base_url.unwrap_or_default(),
        api_key: choice.key,
        credentials: None,
        model: choice.actual_model,
        streaming: entry.streaming,
        stream_usage: entry.stream_usage,
        allow_insecure_http: entry.allow_insecure_http,
        extra_body: entry.extra_body,
        headers: entry.headers,
        thinking: choice.thinking,
        max_context_tokens: choice.max_context_tokens,
        client_version: config.variable("FERRUM_CODEX_CLIENT_VERSION"),
    })
}
