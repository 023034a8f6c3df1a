//! The form for people: each whole answer on stdout, everything else on stderr.

use super::outlet::{Outlet, Stream};
use crate::agent::event::{Event, Reason, Sink};
use crate::ui::render;
use crate::ui::terminal_text::{sanitise, without_thinking};
use std::time::{Duration, Instant};

/// Least time between two progress lines: stderr may be a log file.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Print mode's usual output.
pub struct Text {
    outlet: Outlet,
    /// Answers go to a terminal, so they are cleaned.
    to_terminal: bool,
    last_progress: Option<Instant>,
}

impl Text {
    #[must_use]
    pub fn new(outlet: Outlet, to_terminal: bool) -> Self {
        Self {
            outlet,
            to_terminal,
            last_progress: None,
        }
    }

    fn tell(&self, text: &str) {
        self.outlet.write(Stream::Err, text.as_bytes());
    }

    fn answer(&self, text: &str) {
        let mut text = without_thinking(text);
        if self.to_terminal {
            text = sanitise(&text);
        }
        let text = text.trim_end();
        if !text.trim().is_empty() {
            self.outlet.write(Stream::Out, format!("{text}\n").as_bytes());
        }
    }

    fn progress(&mut self, text: &str) {
        let early = self
            .last_progress
            .is_some_and(|last| last.elapsed() < PROGRESS_EVERY);
        if !early {
            self.last_progress = Some(Instant::now());
            self.tell(&format!("  … {}\n", sanitise(text).trim()));
        }
    }
}

impl Sink for Text {
    fn streams(&self) -> bool {
        false
    }

    fn record(&mut self, event: Event<'_>) {
        match event {
            Event::Session { granted, ready } => self.tell(&render::ready(granted, ready)),
            Event::Assistant(message) => self.answer(&message.visible_text()),
            Event::ToolCall(call) => {
                self.last_progress = Some(Instant::now());
                self.tell(&render::tool_call(call.name, call.input));
            }
            Event::ToolResult { name, result, .. } => self.tell(&render::tool_result(name, result)),
            Event::Progress(text) => self.progress(text),
            Event::Steering { granted, survey } => self.tell(&render::survey(granted, survey)),
            Event::Notice(text) => self.tell(&format!("ferrum: {}\n", sanitise(text))),
            // Out of time is a partial answer; whoever cancels wants none.
            Event::Interrupted(cut) if cut.reason == Reason::Timeout => self.answer(cut.partial),
            // The program's end is told by `main`.
            Event::AssistantDelta(_)
            | Event::ThinkingDelta(_)
            | Event::Usage(_)
            | Event::TurnEnd(_)
            | Event::Interrupted(_)
            | Event::Error(_) => {}
        }
    }

    async fn room(&mut self) {
        self.outlet.room().await;
    }
}
