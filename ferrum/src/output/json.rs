//! One JSON object on stdout, at the end.

use super::SessionFacts;
use super::outlet::{Outlet, Stream};
use super::wire;
use crate::agent::event::{Event, Sink, Totals};
use crate::agent::turn::End;
use crate::exit::Failure;
use crate::session::record;
use crate::ui::terminal_text::without_thinking;
use ferrum_proto::terms::PathBytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `--output json`: collects what is asked for afterwards.
pub struct Json {
    outlet: Outlet,
    facts: SessionFacts,
    session: Value,
    answer: String,
    refusals: Vec<Value>,
    denials: Vec<Value>,
    changed: BTreeSet<PathBytes>,
    /// One for each turn that left something.
    steering: Vec<Value>,
    notices: Vec<String>,
}

/// How it all ended.
struct Outcome<'a> {
    word: &'a str,
    why: Value,
    totals: Option<&'a Totals>,
    error: Value,
    exit_code: u8,
}

impl Json {
    #[must_use]
    pub fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            facts: SessionFacts::default(),
            session: Value::Null,
            answer: String::new(),
            refusals: Vec::new(),
            denials: Vec::new(),
            changed: BTreeSet::new(),
            steering: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, facts: SessionFacts) {
        self.facts = facts;
    }

    fn end(&self, outcome: &Outcome<'_>) {
        let changed: Vec<PathBytes> = self.changed.iter().cloned().collect();
        let object = json!({
            "type": "result",
            "version": wire::VERSION,
            "outcome": outcome.word,
            "why": outcome.why,
            "exit_code": outcome.exit_code,
            "answer": self.answer,
            "session": self.session,
            "refusals": self.refusals,
            "denials": self.denials,
            "changed": wire::paths(&changed),
            "steering": self.steering,
            "notices": self.notices,
            "totals": outcome.totals.map(wire::totals),
            "error": outcome.error,
        });
        self.outlet.write(Stream::Out, &wire::as_line(&object));
    }

    fn failed(&self, failure: &Failure) {
        self.end(&Outcome {
            word: "error",
            why: json!(failure.message),
            totals: None,
            error: wire::failure(failure),
            exit_code: failure.kind.code(),
        });
    }
}

impl Sink for Json {
    fn streams(&self) -> bool {
        false
    }

    fn record(&mut self, event: Event<'_>) {
        match event {
            Event::Session { granted, ready } => {
                self.session = wire::session_facts(&self.facts, granted, ready);
            }
            Event::Assistant(message) => {
                self.answer = without_thinking(&message.visible_text()).trim_end().to_owned();
            }
            Event::ToolResult { id, name, result } => {
                let of_call = |mut row: Value| {
                    row["id"] = json!(id);
                    row["tool"] = json!(name);
                    row
                };
                let refusal = result.outcome.refusal().map(wire::refusal);
                self.refusals.extend(refusal.map(of_call));
                if let Value::Array(rows) = wire::denials(&result.denials) {
                    self.denials.extend(rows.into_iter().map(of_call));
                }
                self.changed.extend(result.changed.iter().cloned());
            }
            Event::Steering { survey, .. } => self.steering.push(record::steering(survey)),
            Event::Notice(text) => self.notices.push(text.to_owned()),
            Event::TurnEnd(end) => {
                let (word, why) = match end.end {
                    End::Answered => ("answered", Value::Null),
                    End::Stopped(why) => ("stopped", json!(why)),
                };
                self.end(&Outcome {
                    word,
                    why,
                    totals: Some(end.totals),
                    error: Value::Null,
                    exit_code: end.exit_code,
                });
            }
            Event::Interrupted(cut) => {
                if !cut.partial.trim().is_empty() {
                    self.answer = without_thinking(cut.partial).trim_end().to_owned();
                }
                self.end(&Outcome {
                    word: "interrupted",
                    why: json!(format!("{} in phase {}", cut.reason.word(), cut.phase)),
                    totals: Some(cut.totals),
                    error: Value::Null,
                    exit_code: cut.exit_code,
                });
            }
            Event::Error(failure) => self.failed(failure),
            Event::AssistantDelta(_)
            | Event::ThinkingDelta(_)
            | Event::ToolCall(_)
            | Event::Progress(_)
            | Event::Usage(_) => {}
        }
    }

    async fn room(&mut self) {
        self.outlet.room().await;
    }
}
