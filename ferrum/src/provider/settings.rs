//! One provider as the operator configured it.

use super::credentials::Credentials;
use super::{ProviderKind, Thinking};
use secrecy::SecretString;
use serde_json::{Map, Value};

/// What an adapter is made of. Has no `Debug`: it holds keys.
pub struct ProviderSettings {
    /// The name in the user's configuration.
    pub name: String,
    pub kind: ProviderKind,
    /// For example `http://127.0.0.1:8080/v1`; the adapter appends its own path. Empty means the
    /// kind's own.
    pub base_url: String,
    pub api_key: Option<SecretString>,
    /// Where tokens come from for the kinds that log in.
    pub credentials: Option<Box<dyn Credentials>>,
    /// The model's name as the provider knows it.
    pub model: String,
    pub streaming: bool,
    /// Whether token counts are asked for in streams.
    pub stream_usage: bool,
    /// Allows a key to travel over `http://` to another machine.
    pub allow_insecure_http: bool,
    /// Keys put into each request as they are; they win over Ferrum's own, except for the
    /// conversation and the tools.
    pub extra_body: Map<String, Value>,
    pub headers: Vec<(String, SecretString)>,
    pub thinking: Thinking,
    pub max_context_tokens: u64,
    /// The version that the backend of a login is told; it decides which models are listed.
    pub client_version: Option<String>,
}

impl ProviderSettings {
    /// Settings with every default: streaming, no key, no thinking.
    #[must_use]
    pub fn new(name: &str, kind: ProviderKind, base_url: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            base_url: base_url.to_owned(),
            api_key: None,
            credentials: None,
            model: model.to_owned(),
            streaming: true,
            stream_usage: true,
            allow_insecure_http: false,
            extra_body: Map::new(),
            headers: Vec::new(),
            thinking: Thinking::Off,
            max_context_tokens: 256_000,
            client_version: None,
        }
    }

    /// The members of a request body without its braces: the adapter's own fields and the user's,
    /// which win except for `reserved`, what the adapter writes itself.
    pub(super) fn members(&self, mut fields: Map<String, Value>, reserved: &[&str]) -> String {
        let extra = self.extra_body.iter();
        let extra = extra.filter(|(key, _)| !reserved.contains(&key.as_str()));
        fields.extend(extra.map(|(key, value)| (key.clone(), value.clone())));
        let object = Value::Object(fields).to_string();
        object[1..object.len() - 1].to_owned()
    }
}
