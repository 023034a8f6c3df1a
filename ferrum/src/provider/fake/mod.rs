//! A provider without a network: a scripted tour, and scripts for tests.
//!
//! `FERRUM_FAKE_SCRIPT` names a script or a JSON file: a list of messages, each either a text or
//! an assistant message in the session's own format. Played to its end it answers `done`.

mod script;
mod tour;

use super::{Completion, Finish, ProviderError, Request};
use crate::agent::message::{Message, Role};

/// What is played.
enum Script {
    Tour,
    Messages(Vec<Message>),
}

/// The scripted provider.
pub struct Fake {
    script: Script,
    next: usize,
}

impl Fake {
    /// The script that `FERRUM_FAKE_SCRIPT` names, or the tour.
    ///
    /// # Errors
    /// [`ProviderError::Config`] when it names no script, or a file that is none.
    pub fn from_environment() -> Result<Self, ProviderError> {
        let script = match std::env::var("FERRUM_FAKE_SCRIPT") {
            Ok(name) if !name.is_empty() => Script::Messages(script::load(&name)?),
            Ok(_) | Err(_) => Script::Tour,
        };
        Ok(Self { script, next: 0 })
    }

    /// A script given as it is.
    #[must_use]
    pub fn playing(messages: Vec<Message>) -> Self {
        Self {
            script: Script::Messages(messages),
            next: 0,
        }
    }

    /// The next message of the script.
    ///
    /// # Errors
    /// None today; the signature is that of every provider.
    pub fn complete(&mut self, request: Request<'_>) -> Result<Completion, ProviderError> {
        let message = match &self.script {
            Script::Tour => tour::next(&request),
            Script::Messages(messages) => {
                let message = messages.get(self.next).cloned();
                self.next += 1;
                message.unwrap_or_else(|| Message::text(Role::Assistant, "done"))
            }
        };
        let calls = message.tool_uses().next().is_some();
        let message = if calls && !request.may_call {
            Message::text(
                Role::Assistant,
                "Stopped before the script's end: no more tool calls are allowed.",
            )
        } else {
            message
        };
        Ok(Completion {
            message,
            finish: Finish::Done,
        })
    }
}
