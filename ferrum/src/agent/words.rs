//! The words of an answer, told as they come.

use super::event::{Event, Sink};
use super::message::{ContentBlock, Message};
use crate::provider;
use std::cell::RefCell;

/// Hears an answer as it comes.
pub(super) struct Words<'a, 'b, S> {
    sink: &'a RefCell<&'b mut S>,
    partial: &'a mut String,
    thought: bool,
}

impl<'a, 'b, S: Sink> Words<'a, 'b, S> {
    pub(super) fn new(sink: &'a RefCell<&'b mut S>, partial: &'a mut String) -> Self {
        let thought = false;
        Self {
            sink,
            partial,
            thought,
        }
    }
}

impl<S: Sink> Words<'_, '_, S> {
    fn tell(&self, event: Event<'_>) {
        self.sink.borrow_mut().record(event);
    }

    pub(super) fn hear(&mut self, event: provider::Event<'_>) {
        match event {
            provider::Event::Text(text) => {
                self.partial.push_str(text);
                self.tell(Event::AssistantDelta(text));
            }
            provider::Event::Thinking(text) => {
                self.thought = true;
                self.tell(Event::ThinkingDelta(text));
            }
            provider::Event::Retry { why, wait } => {
                self.partial.clear();
                let text = format!("{why}; trying again in {:.1} s", wait.as_secs_f64());
                self.tell(Event::Notice(&text));
            }
        }
    }

    /// An answer that did not come in pieces is one piece.
    pub(super) fn complete(&mut self, message: &Message) {
        for block in &message.content {
            match block {
                ContentBlock::Text { text } if self.partial.is_empty() => {
                    self.tell(Event::AssistantDelta(text));
                }
                ContentBlock::Thinking { text, .. } if !self.thought && !text.is_empty() => {
                    self.tell(Event::ThinkingDelta(text));
                }
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::ToolUse { .. }
                | ContentBlock::ToolResult { .. }
                | ContentBlock::Image { .. }
                | ContentBlock::Other(_) => {}
            }
        }
    }
}
