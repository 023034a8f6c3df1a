//! The model of the configuration → a provider that is ready for requests.

use crate::config::{Config, ProviderChoice};
use crate::login::{Account, AuthFile, ISSUER};
use crate::provider::credentials::Credentials;
use crate::provider::{Provider, ProviderError, ProviderKind, ProviderSettings};

/// Sets the provider up without sending anything.
///
/// # Errors
/// [`ProviderError::Config`] when it cannot work as configured.
pub fn open(config: &Config, choice: ProviderChoice) -> Result<Provider, ProviderError> {
    let entry = choice.entry;
    let credentials: Option<Box<dyn Credentials>> = match entry.kind {
        ProviderKind::OpenAiCodex if choice.key.is_none() => Some(Box::new(account(config))),
        ProviderKind::OpenAiCodex
        | ProviderKind::OpenAiCompatible
        | ProviderKind::Anthropic
        | ProviderKind::Fake => None,
    };
    Provider::new(ProviderSettings {
        name: choice.name,
        kind: entry.kind,
        base_url: entry.base_url.unwrap_or_default(),
        api_key: choice.key,
        credentials,
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

/// The login of the configuration's `auth.json`.
#[must_use]
pub fn account(config: &Config) -> Account {
    Account::new(AuthFile::new(&config.dirs.config), &issuer(config))
}

/// Who gives tokens: `FERRUM_CODEX_ISSUER`, else the one that accounts are at.
#[must_use]
pub fn issuer(config: &Config) -> String {
    config
        .variable("FERRUM_CODEX_ISSUER")
        .unwrap_or_else(|| ISSUER.to_owned())
}
