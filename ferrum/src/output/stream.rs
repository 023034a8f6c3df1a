//! The stream: one JSON object a line on stdout, as things happen.

use super::SessionFacts;
use super::outlet::{Outlet, Stream};
use super::wire;
use crate::agent::event::{Event, Sink};
use crate::ui::terminal_text::ThinkFilter;

/// `--output stream-json` and `--jsonl`.
pub struct StreamJson {
    outlet: Outlet,
    facts: SessionFacts,
    /// Lines from before the session was named; `None` afterwards. An answer can be quicker than
    /// the walls, and a reader wants to know first what it reads.
    early: Option<Vec<u8>>,
    /// Some servers put reasoning into the answer itself, between tags.
    thinking: ThinkFilter,
}

impl StreamJson {
    #[must_use]
    pub fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            facts: SessionFacts::default(),
            early: Some(Vec::new()),
            thinking: ThinkFilter::default(),
        }
    }

    pub(super) fn begin(&mut self, facts: SessionFacts) {
        self.facts = facts;
    }

    fn write(&mut self, event: Event<'_>) {
        let Some(line) = wire::line(event, &self.facts) else {
            return;
        };
        match &mut self.early {
            Some(early) => early.extend_from_slice(&line),
            None => self.outlet.write(Stream::Out, &line),
        }
    }

    /// Writes what was held back of an answer that is over.
    fn end_answer(&mut self) {
        let rest = std::mem::take(&mut self.thinking).finish();
        self.words(&rest);
    }

    fn words(&mut self, text: &str) {
        if !text.is_empty() {
            self.write(Event::AssistantDelta(text));
        }
    }

    /// From here on lines go out at once.
    fn open(&mut self) {
        if let Some(early) = self.early.take() {
            self.outlet.write(Stream::Out, &early);
        }
    }
}

impl Sink for StreamJson {
    fn streams(&self) -> bool {
        true
    }

    fn record(&mut self, event: Event<'_>) {
        match event {
            Event::AssistantDelta(text) => {
                let shown = self.thinking.push(text);
                self.words(&shown);
            }
            Event::Session { .. } => {
                let early = self.early.take();
                self.write(event);
                self.early = early;
                self.open();
            }
            Event::Assistant(_) | Event::ToolCall(_) => {
                self.end_answer();
                self.write(event);
            }
            Event::TurnEnd(_) | Event::Interrupted(_) | Event::Error(_) => {
                self.end_answer();
                self.open();
                self.write(event);
            }
            Event::ThinkingDelta(_)
            | Event::Progress(_)
            | Event::ToolResult { .. }
            | Event::Usage(_)
            | Event::Steering { .. }
            | Event::Notice(_) => self.write(event),
        }
    }

    async fn room(&mut self) {
        self.outlet.room().await;
    }
}
