//! One answer, put together chunk by chunk. Pure.

use super::calls::Calls;
use super::chunk::{self, Chunk, Delta};
use super::reasoning::Reasoning;
use super::template::Template;
use crate::agent::message::{ContentBlock, Message, Role, Usage};
use crate::provider::error::from_object;
use crate::provider::exchange::{Assembly, Show, Step};
use crate::provider::{Completion, Event, Finish, ProviderError, grow, lenient};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The answer so far.
#[derive(Default)]
pub(super) struct Answer {
    text: String,
    template: Template,
    reasoning: Reasoning,
    calls: Calls,
    usage: Option<Usage>,
    finish: Option<Finish>,
    done: bool,
}

impl Assembly for Answer {
    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn take(&mut self, data: &[u8], show: Show<'_>) -> Result<Step, ProviderError> {
        match data.trim_ascii() {
            b"[DONE]" => {
                self.done = true;
                return Ok(Step::End);
            }
            b"" => return Ok(Step::Idle),
            _ => {}
        }
        if let Some(words) = self.template.words(data) {
            self.text(&words, show)?;
            return Ok(Step::More);
        }
        if let Some(words) = chunk::plain_text(data) {
            if let Cow::Borrowed(words) = words {
                self.template.learn(data, words);
            }
            self.text(&words, show)?;
            return Ok(Step::More);
        }
        let chunk = lenient::parse(data, "chunk")?;
        self.chunk(chunk, show)?;
        Ok(Step::More)
    }

    fn finish(self) -> Result<Completion, ProviderError> {
        let finish = match self.finish {
            Some(finish) => finish,
            None if self.done => Finish::Done,
            None => return Err(ProviderError::Incomplete("neither a finish reason nor [DONE]")),
        };
        let mut content = Vec::new();
        content.extend(self.reasoning.into_block());
        if !self.text.is_empty() {
            content.push(ContentBlock::Text { text: self.text });
        }
        content.extend(self.calls.into_blocks());
        if content.is_empty() && finish == Finish::Done && self.finish.is_none() {
            return Err(ProviderError::Incomplete("[DONE] came without an answer"));
        }
        let message = Message {
            role: Role::Assistant,
            content,
            usage: self.usage,
        };
        Ok(Completion { message, finish })
    }
}

impl Answer {
    fn chunk(&mut self, chunk: Chunk, show: Show<'_>) -> Result<(), ProviderError> {
        check_error(&chunk)?;
        if let Some(usage) = chunk.usage.as_ref().and_then(chunk::usage) {
            self.usage = Some(usage);
        }
        for choice in chunk.choices.0 {
            if choice.index.0.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(usage) = choice.usage.as_ref().and_then(chunk::usage) {
                self.usage = Some(usage);
            }
            for delta in [choice.delta, choice.message].into_iter().flatten() {
                self.delta(delta, show)?;
            }
            if let Some(error) = choice.error.as_ref().filter(|error| says_something(error)) {
                return Err(from_object(error));
            }
            if let Some(reason) = choice.finish_reason {
                self.reason(&reason.0)?;
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, show: Show<'_>) -> Result<(), ProviderError> {
        if let Some((field, text)) = delta.thinking() {
            self.reasoning.text(field, text)?;
            show(Event::Thinking(text));
        }
        self.reasoning.details(delta.reasoning_details.0)?;
        for text in [&delta.content, &delta.refusal].into_iter().flatten() {
            self.text(&text.0, show)?;
        }
        for call in delta.tool_calls.0 {
            self.calls.push(call)?;
        }
        if let Some(function) = delta.function_call {
            self.calls.push_function(function)?;
        }
        Ok(())
    }

    fn text(&mut self, text: &str, show: Show<'_>) -> Result<(), ProviderError> {
        if !text.is_empty() {
            grow(&mut self.text, text, "text")?;
            show(Event::Text(text));
        }
        Ok(())
    }

    fn reason(&mut self, reason: &str) -> Result<(), ProviderError> {
        match reason {
            "" => return Ok(()),
            "length" | "max_tokens" => self.finish = Some(Finish::Length),
            "content_filter" => self.finish = Some(Finish::Filtered),
            "model_context_window_exceeded" => {
                return Err(ProviderError::Overflow(
                    "the provider stopped at the context limit".to_owned(),
                ));
            }
            "error" => return Err(ProviderError::Reported("finish reason \"error\"".to_owned())),
            "network_error" => {
                return Err(ProviderError::Passing {
                    message: "finish reason \"network_error\"".to_owned(),
                    wait: None,
                });
            }
            // Whether there are calls is seen from the calls: servers say "stop" with them, and
            // "tool_calls" without.
            _ => self.finish = Some(self.finish.unwrap_or(Finish::Done)),
        }
        Ok(())
    }
}

fn check_error(chunk: &Chunk) -> Result<(), ProviderError> {
    if let Some(error) = chunk.error.as_ref().filter(|error| says_something(error)) {
        return Err(from_object(error));
    }
    if chunk.object.0 {
        return Err(from_object(
            &json!({"message": chunk.message, "code": chunk.code}),
        ));
    }
    Ok(())
}

/// Some servers put an empty `error` into every chunk.
fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(chunks: &[&str]) -> Result<Completion, ProviderError> {
        let mut answer = Answer::default();
        for chunk in chunks {
            if answer.take(chunk.as_bytes(), &mut |_| {})? == Step::End {
                break;
            }
        }
        answer.finish()
    }

    fn text(chunks: &[&str]) -> String {
        answer(chunks).unwrap().message.visible_text()
    }

    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

    #[test]
    fn text_survives_every_shape_of_chunk() {
        let content = |c: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{c}}}}}]}}"#);
        assert_eq!(
            text(&[&content(r#""a""#), &content("null"), &content(r#""b""#), STOP]),
            "ab"
        );
        assert_eq!(
            text(&[r#"{"choices":[]}"#, &content(r#""a""#), r#"{"id":"x"}"#, STOP]),
            "a"
        );
        assert_eq!(
            text(&[
                &content(r#""a""#),
                r#"{"choices":null,"usage":null}"#,
                "[DONE]",
                "junk"
            ]),
            "a"
        );
        let nulls =
            r#"{"choices":[{"delta":{"role":null,"content":"a","tool_calls":null},"finish_reason":""}]}"#;
        assert_eq!(text(&[nulls, STOP]), "a");
        assert_eq!(
            text(&[
                r#"{"choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}"#
            ]),
            "whole"
        );
    }

    #[test]
    fn reasoning_is_kept_apart_and_counted_once() {
        let both = r#"{"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}"#;
        let done = answer(&[
            both,
            r#"{"choices":[{"delta":{"content":"42"},"finish_reason":"stop"}]}"#,
        ])
        .unwrap();
        assert_eq!(done.message.visible_text(), "42");
        assert!(matches!(&done.message.content[0], ContentBlock::Thinking { text, .. } if text == "hm"));
    }

    #[test]
    fn the_finish_reason_is_taken_for_what_it_is_worth() {
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"ls","arguments":"{}"}}]}}]}"#;
        assert_eq!(answer(&[call, STOP]).unwrap().finish, Finish::Done);
        let cut = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
        assert_eq!(answer(&[call, cut]).unwrap().finish, Finish::Length);
        let window = r#"{"choices":[{"finish_reason":"model_context_window_exceeded"}]}"#;
        assert!(matches!(answer(&[window]), Err(ProviderError::Overflow(_))));
        let network = r#"{"choices":[{"finish_reason":"network_error"}]}"#;
        assert!(matches!(answer(&[network]), Err(ProviderError::Passing { .. })));
    }

    #[test]
    fn a_stream_without_an_end_is_incomplete() {
        let text = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
        assert!(matches!(answer(&[text]), Err(ProviderError::Incomplete(_))));
        assert!(matches!(answer(&["[DONE]"]), Err(ProviderError::Incomplete(_))));
        assert!(answer(&[text, "[DONE]"]).is_ok());
    }

    #[test]
    fn errors_inside_an_answer_end_it() {
        for error in [
            r#"{"error":{"code":500,"message":"boom","type":"server_error"}}"#,
            r#"{"error":{"message":"boom"}}"#,
            r#"{"object":"error","message":"boom"}"#,
            r#"{"choices":[{"delta":{"content":"x"}}],"error":{"code":502,"message":"boom"}}"#,
        ] {
            let error = answer(&[error]).unwrap_err();
            assert!(error.to_string().contains("boom"), "{error}");
        }
        assert!(
            matches!(answer(&["error: engine died"]), Err(ProviderError::Malformed(m)) if m.contains("engine died"))
        );
    }

    #[test]
    fn token_counts_are_found_wherever_they_are() {
        let last =
            r#"{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
        assert_eq!(
            answer(&[STOP, last]).unwrap().message.usage.unwrap().input_tokens,
            Some(5)
        );
        let inside =
            r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop","usage":{"prompt_tokens":7}}]}"#;
        assert_eq!(
            answer(&[inside]).unwrap().message.usage.unwrap().input_tokens,
            Some(7)
        );
    }
}
