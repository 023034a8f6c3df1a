//! Providers: the normalised conversation in, one assistant message out. Adapters convert; they
//! run no tool and keep no session.

pub mod address;
mod call;
pub mod chat_completions;
pub mod credentials;
pub mod error;
mod exchange;
pub mod fake;
pub mod http;
mod kind;
mod lenient;
pub mod messages;
pub mod model_list;
#[cfg(test)]
mod played;
mod progress;
pub mod responses;
pub mod retry;
pub mod roots;
mod settings;
pub mod sse;
pub mod transport;

pub use error::ProviderError;
pub use kind::{ProviderKind, Thinking};
pub use settings::ProviderSettings;

use crate::agent::message::Message;
use crate::tools::catalog::Tool;
use model_list::Model;
use std::time::Duration;

/// Visible text of one answer, in bytes; reasoning has the same bound of its own.
pub const TEXT_BYTES_MAX: usize = 8 << 20;
/// Argument text of one tool call, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 2 << 20;
/// Tool calls of one answer.
pub const CALLS_MAX: usize = 128;

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

impl Request<'_> {
    /// The loop's remark as it is sent, in the user's role: no format takes another one there.
    fn remark(&self) -> Option<String> {
        self.nudge
            .map(|nudge| format!("Remark by Ferrum, not by the user: {nudge}"))
    }
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

/// Adds to text that is bounded by [`TEXT_BYTES_MAX`]; `what` is named in the error.
///
/// # Errors
/// [`ProviderError::TooLarge`].
fn grow(into: &mut String, text: &str, what: &str) -> Result<(), ProviderError> {
    if into.len() + text.len() > TEXT_BYTES_MAX {
        return Err(ProviderError::TooLarge(format!("more than 8 MiB of {what}")));
    }
    into.push_str(text);
    Ok(())
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
    Messages(Box<messages::Messages>),
    Responses(Box<responses::Responses>),
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
            ProviderKind::OpenAiCompatible => {
                Adapter::ChatCompletions(Box::new(chat_completions::ChatCompletions::new(&settings)?))
            }
            ProviderKind::Anthropic => Adapter::Messages(Box::new(messages::Messages::new(&settings)?)),
            ProviderKind::OpenAiCodex => Adapter::Responses(Box::new(responses::Responses::new(settings)?)),
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
            Adapter::Messages(messages) => messages.complete(request, on_event).await,
            Adapter::Responses(responses) => responses.complete(request, on_event).await,
        }
    }

    /// The models that the provider lists now.
    ///
    /// # Errors
    /// Any [`ProviderError`]; nothing is retried.
    pub async fn models(&self) -> Result<Vec<Model>, ProviderError> {
        match &self.adapter {
            Adapter::Fake(_) => Ok(vec![Model {
                id: self.model.clone(),
                name: None,
                context_tokens: None,
            }]),
            Adapter::ChatCompletions(chat) => chat.models().await,
            Adapter::Messages(messages) => messages.models().await,
            Adapter::Responses(responses) => responses.models().await,
        }
    }
}

#[cfg(test)]
pub(crate) mod histories;
