//! Keeps the front's own secrets out of tool output: it is stored and sent to providers.

use super::event::{Event, Sink};
use super::message::{ContentBlock, Message};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::borrow::Cow;

/// Shorter values are too likely to be ordinary text, in bytes.
pub const SECRET_BYTES_MIN: usize = 16;
const MARK: &str = "[redacted]";
/// The beginning of a secret that tells something of it, in bytes.
const OPEN_BYTES_MIN: usize = 8;

/// The values that must not pass. No `Debug`.
#[derive(Default)]
pub struct Redactor {
    secrets: Vec<SecretString>,
}

impl Redactor {
    /// Values below 16 bytes and plain words are left out.
    #[must_use]
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let fit = |secret: &SecretString| {
            let text = secret.expose_secret();
            text.len() >= SECRET_BYTES_MIN && !text.bytes().all(|b| b.is_ascii_alphabetic())
        };
        Self {
            secrets: secrets.into_iter().filter(fit).collect(),
        }
    }

    /// The value with every text and key in it cleaned; borrowed where there is nothing to clean.
    #[must_use]
    pub fn value<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        if self.secrets.is_empty() {
            return Cow::Borrowed(value);
        }
        Cow::Owned(self.clean(value))
    }

    fn clean(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.replace(text)),
            Value::Array(items) => items.iter().map(|item| self.clean(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (self.replace(key), self.clean(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Cleans what a model says of itself: its text, not its calls (the text that is judged is the
    /// text that runs) and not its thinking (which a provider may have signed). True where a
    /// secret was in it.
    pub fn message(&self, message: &mut Message) -> bool {
        let mut found = false;
        for block in &mut message.content {
            if let ContentBlock::Text { text } = block {
                let clean = self.replace(text);
                found |= clean != *text;
                *text = clean;
            }
        }
        found
    }

    /// A text that was cut anywhere: the beginning of a secret at its end counts too.
    #[must_use]
    pub fn cut_text(&self, text: &str) -> String {
        let mut text = self.replace(text);
        let open = self.open(&text);
        if open >= OPEN_BYTES_MIN {
            text.truncate(text.len() - open);
            text.push_str(MARK);
        }
        text
    }

    /// Bytes at the end of a text that may become a secret.
    fn open(&self, text: &str) -> usize {
        let one = |secret: &SecretString| {
            let secret = secret.expose_secret();
            let lengths = (1..secret.len()).rev().filter(|at| secret.is_char_boundary(*at));
            lengths.into_iter().find(|at| text.ends_with(&secret[..*at]))
        };
        self.secrets.iter().filter_map(one).max().unwrap_or(0)
    }

    fn replace(&self, text: &str) -> String {
        let secrets = self.secrets.iter();
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret.expose_secret(), MARK)
        })
    }

    /// The text without the secrets; says so at its end where one was in it.
    #[must_use]
    pub fn apply(&self, mut text: String) -> String {
        let mut count = 0;
        for secret in &self.secrets {
            let found = text.matches(secret.expose_secret()).count();
            if found > 0 {
                text = text.replace(secret.expose_secret(), MARK);
                count += found;
            }
        }
        if count > 0 {
            text.push_str(&format!("\n[ferrum: {count} secret value(s) redacted]"));
        }
        text
    }
}

/// Cleans words on their way to a sink that shows them as they come. What may be the beginning of a
/// secret waits for the next words.
pub struct Redacted<'a, S> {
    inner: &'a mut S,
    redactor: &'a Redactor,
    answer: String,
    thinking: String,
}

impl<'a, S: Sink> Redacted<'a, S> {
    #[must_use]
    pub fn new(inner: &'a mut S, redactor: &'a Redactor) -> Self {
        Self {
            inner,
            redactor,
            answer: String::new(),
            thinking: String::new(),
        }
    }

    /// Lets go of what waits: no words follow.
    fn flush(&mut self) {
        let thinking = self.redactor.cut_text(&std::mem::take(&mut self.thinking));
        if !thinking.is_empty() {
            self.inner.record(Event::ThinkingDelta(&thinking));
        }
        let answer = self.redactor.cut_text(&std::mem::take(&mut self.answer));
        if !answer.is_empty() {
            self.inner.record(Event::AssistantDelta(&answer));
        }
    }
}

/// The words that can go, with what waited before them.
fn next(redactor: &Redactor, waiting: &mut String, words: &str) -> String {
    waiting.push_str(words);
    let mut clean = redactor.replace(waiting);
    let rest = clean.split_off(clean.len() - redactor.open(&clean));
    *waiting = rest;
    clean
}

impl<S: Sink> Sink for Redacted<'_, S> {
    fn streams(&self) -> bool {
        self.inner.streams()
    }

    fn record(&mut self, event: Event<'_>) {
        match event {
            Event::AssistantDelta(words) => {
                let words = next(self.redactor, &mut self.answer, words);
                if !words.is_empty() {
                    self.inner.record(Event::AssistantDelta(&words));
                }
            }
            Event::ThinkingDelta(words) => {
                let words = next(self.redactor, &mut self.thinking, words);
                if !words.is_empty() {
                    self.inner.record(Event::ThinkingDelta(&words));
                }
            }
            // They may come between two words.
            Event::Session { .. } | Event::Notice(_) | Event::Progress(_) => self.inner.record(event),
            Event::Assistant(_)
            | Event::ToolCall(_)
            | Event::ToolResult { .. }
            | Event::Usage(_)
            | Event::Steering { .. }
            | Event::TurnEnd(_)
            | Event::Interrupted(_)
            | Event::Error(_) => {
                self.flush();
                self.inner.record(event);
            }
        }
    }

    async fn room(&mut self) {
        self.inner.room().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::message::Role;
    use proptest::prelude::*;

    const KEY: &str = "sk-0123456789abcdef-é";

    fn redactor() -> Redactor {
        Redactor::new(vec![KEY.into(), "sk-01230123456789ab".into()])
    }

    #[derive(Default)]
    struct Heard(String);

    impl Sink for Heard {
        fn streams(&self) -> bool {
            true
        }
        fn record(&mut self, event: Event<'_>) {
            if let Event::AssistantDelta(words) = event {
                self.0.push_str(words);
            }
        }
    }

    fn streamed(pieces: &[&str]) -> String {
        let mut heard = Heard::default();
        let redactor = redactor();
        let mut sink = Redacted::new(&mut heard, &redactor);
        for piece in pieces {
            sink.record(Event::AssistantDelta(piece));
            sink.record(Event::Notice("between"));
        }
        sink.record(Event::Assistant(&Message::text(Role::Assistant, "")));
        heard.0
    }

    #[test]
    fn a_key_that_is_cut_over_events_does_not_pass() {
        let text = format!("the key is {KEY}, and sk-0 is none");
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let shown = streamed(&[&text[..at], &text[at..]]);
            assert_eq!(shown, "the key is [redacted], and sk-0 is none", "{at}");
        }
        let each: Vec<String> = text.chars().map(String::from).collect();
        let each: Vec<&str> = each.iter().map(String::as_str).collect();
        assert_eq!(streamed(&each), "the key is [redacted], and sk-0 is none");
        // An answer that breaks off in the middle of one.
        assert_eq!(streamed(&["it is ", &KEY[..12]]), "it is [redacted]");
        assert_eq!(redactor().cut_text(&KEY[..9]), "[redacted]");
        assert_eq!(redactor().cut_text("ask-"), "ask-");
    }

    #[test]
    fn a_message_is_cleaned_of_what_it_says_and_not_of_what_it_does() {
        let mut message = Message::text(Role::Assistant, format!("{KEY}!"));
        assert!(redactor().message(&mut message));
        assert_eq!(message.visible_text(), "[redacted]!");
        assert!(!redactor().message(&mut message));
    }

    proptest! {
        #[test]
        fn words_without_a_key_come_through_whole(pieces in proptest::collection::vec("[sk0-3é\\-]{0,6}", 0..30)) {
            let whole = pieces.concat();
            prop_assume!(!whole.contains(KEY) && !whole.contains("sk-01230123456789ab"));
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(streamed(&pieces), redactor().cut_text(&whole));
        }
    }

    #[test]
    fn only_long_unlikely_values_are_redacted() {
        let secrets = ["sk-0123456789abcdef", "short-1", "internationalization"];
        let redactor = Redactor::new(secrets.iter().map(|s| SecretString::from(*s)).collect());
        let text = redactor.apply("a sk-0123456789abcdef b sk-0123456789abcdef".into());
        assert_eq!(
            text,
            "a [redacted] b [redacted]\n[ferrum: 2 secret value(s) redacted]"
        );
        let plain = "short-1 internationalization";
        assert_eq!(redactor.apply(plain.into()), plain);
    }

    #[test]
    fn values_are_cleaned_at_any_depth() {
        let redactor = Redactor::new(vec![SecretString::from("sk-0123456789abcdef")]);
        let value = serde_json::json!({"a": ["x sk-0123456789abcdef"], "sk-0123456789abcdef": 1, "n": null});
        let clean = serde_json::json!({"a": ["x [redacted]"], "[redacted]": 1, "n": null});
        assert_eq!(*redactor.value(&value), clean);
    }
}
