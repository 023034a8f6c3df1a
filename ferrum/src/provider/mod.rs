//! Providers: the normalised conversation in, one assistant message out. Adapters convert; they
//! run no tool and keep no session.

pub mod chat_completions;
pub mod error;
pub mod fake;
pub mod http;
pub mod retry;
pub mod roots;
pub mod sse;

pub use error::ProviderError;

use crate::agent::message::Message;
use crate::tools::catalog::Tool;
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::time::Duration;

/// Visible text of one answer, in bytes; reasoning has the same bound of its own.
pub const TEXT_BYTES_MAX: usize = 8 << 20;
/// Argument text of one tool call, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 2 << 20;
/// Tool calls of one answer.
pub const CALLS_MAX: usize = 128;

/// Which wire format a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    Fake,
    ChatCompletions,
}

/// How much a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Thinking {
    /// Every level, from none to most.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::Xhigh,
        Self::Max,
    ];

    /// The word of the configuration and the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The level that `word` names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == word)
    }
}

/// One provider as configured. The key has no `Debug`.
pub struct ProviderSettings {
    /// The name in the user's configuration.
    pub name: String,
    pub kind: ProviderKind,
    /// For example `http://127.0.0.1:8080/v1`; the adapter appends its own path.
    pub base_url: String,
    pub api_key: Option<SecretString>,
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
    pub headers: Vec<(String, String)>,
    pub thinking: Thinking,
    pub max_context_tokens: u64,
}

/// One request to a model.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Changes whenever messages that were already sent once have changed. Within one epoch a
    /// conversation only grows, and each message is converted once.
    pub epoch: u64,
    /// The whole conversation; the first message is the system prompt.
    pub messages: &'a [Message],
    pub tools: &'a [&'static Tool],
    /// False for the last answer of a turn: the tools are shown, but may not be called.
    pub may_call: bool,
    /// A remark of the loop for this request alone.
    pub nudge: Option<&'a str>,
    /// Nobody sees text before it is complete, so a failed attempt may be tried again.
    pub buffered: bool,
}

/// Something that happens while an answer is coming.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Text(&'a str),
    Thinking(&'a str),
    Retry { why: &'a ProviderError, wait: Duration },
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// By itself, with or without tool calls.
    Done,
    /// The output limit cut the answer; its tool calls are not whole.
    Length,
    /// The provider's content filter cut the answer.
    Filtered,
}

/// One whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub message: Message,
    pub finish: Finish,
}

/// A configured provider, ready for requests.
pub struct Provider {
    pub name: String,
    pub model: String,
    pub thinking: Thinking,
    adapter: Adapter,
}

enum Adapter {
    Fake(fake::Fake),
    ChatCompletions(Box<chat_completions::ChatCompletions>),
}

impl Provider {
    /// Sets the provider up without sending anything: this can run beside the host's start.
    ///
    /// # Errors
    /// [`ProviderError::Config`] when the settings cannot work.
    pub fn new(settings: ProviderSettings) -> Result<Self, ProviderError> {
        let (name, model, thinking) = (settings.name.clone(), settings.model.clone(), settings.thinking);
        let adapter = match settings.kind {
            ProviderKind::Fake => Adapter::Fake(fake::Fake::from_environment()?),
            ProviderKind::ChatCompletions => {
                Adapter::ChatCompletions(Box::new(chat_completions::ChatCompletions::new(settings)?))
            }
        };
        Ok(Self {
            name,
            model,
            thinking,
            adapter,
        })
    }

    /// A provider that plays a script.
    #[must_use]
    pub fn scripted(fake: fake::Fake) -> Self {
        let name = || "fake".to_owned();
        Self {
            name: name(),
            model: name(),
            thinking: Thinking::Off,
            adapter: Adapter::Fake(fake),
        }
    }

    /// Asks for the next assistant message. Dropping the future ends the request.
    ///
    /// # Errors
    /// Any [`ProviderError`], after the retries that are sound.
    pub async fn complete(
        &mut self,
        request: Request<'_>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Completion, ProviderError> {
        match &mut self.adapter {
            Adapter::Fake(fake) => fake.complete(request),
            Adapter::ChatCompletions(chat) => chat.complete(request, on_event).await,
        }
    }
}
