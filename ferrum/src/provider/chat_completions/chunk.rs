//! One JSON object of an answer.

use crate::agent::message::{Usage, UsageSource};
use crate::provider::lenient::{Many, Number, Text, whole};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::Value;
use std::borrow::Cow;

/// A stream chunk, or a whole answer that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    pub(super) choices: Many<Choice>,
    pub(super) usage: Option<Value>,
    /// An error after status 200.
    pub(super) error: Option<Value>,
    /// `"error"` on vLLM's errors.
    pub(super) object: IsError,
    /// The text of such an error.
    pub(super) message: Option<Value>,
    pub(super) code: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    pub(super) index: Number,
    pub(super) delta: Option<Delta>,
    /// What `delta` is called when the answer is not streamed.
    pub(super) message: Option<Delta>,
    pub(super) finish_reason: Option<Text>,
    /// Moonshot puts the counts here.
    pub(super) usage: Option<Value>,
    /// OpenRouter's, beside a finish reason `error`.
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Option<Text>,
    pub(super) refusal: Option<Text>,
    pub(super) reasoning_content: Option<Text>,
    pub(super) reasoning: Option<Text>,
    pub(super) reasoning_text: Option<Text>,
    /// OpenRouter's reasoning in a form that its upstream wants back.
    pub(super) reasoning_details: Many<Value>,
    pub(super) tool_calls: Many<CallDelta>,
    /// The form before tool calls existed.
    pub(super) function_call: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    pub(super) index: Number,
    pub(super) id: Option<Text>,
    pub(super) function: Option<FunctionDelta>,
    /// Gemini's thought signature, wanted back with the call.
    pub(super) extra_content: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<Text>,
    /// A string by the format; an object on some servers.
    pub(super) arguments: Option<Value>,
}

/// The names that servers have for reasoning text.
pub(super) const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

impl Delta {
    /// Reasoning text and the name of the field it came in. Servers that send two fields send the
    /// same text in both.
    pub(super) fn thinking(&self) -> Option<(&'static str, &str)> {
        let texts = [&self.reasoning_content, &self.reasoning, &self.reasoning_text];
        REASONING_FIELDS.into_iter().zip(texts).find_map(|(name, text)| {
            text.as_ref()
                .filter(|t| !t.0.is_empty())
                .map(|t| (name, t.0.as_str()))
        })
    }
}

/// Whether a field says `"error"`. It is in every chunk, so its text is not kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct IsError(pub(super) bool);

impl<'de> Deserialize<'de> for IsError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Option::<Text>::deserialize(deserializer)?;
        Ok(Self(word.is_some_and(|word| word.0 == "error")))
    }
}

/// Reads token counts in any of the known spellings.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let number = |path: &[&str]| {
        let found = path.iter().try_fold(value, |at, key| at.get(*key));
        found.and_then(whole)
    };
    let input_tokens = number(&["prompt_tokens"]).or_else(|| number(&["input_tokens"]));
    let output_tokens = number(&["completion_tokens"]).or_else(|| number(&["output_tokens"]));
    if input_tokens.is_none() && output_tokens.is_none() {
        return None;
    }
    let sum = input_tokens
        .unwrap_or(0)
        .saturating_add(output_tokens.unwrap_or(0));
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: number(&["total_tokens"]).or(Some(sum)),
        cache_read_tokens: number(&["prompt_tokens_details", "cached_tokens"])
            .or_else(|| number(&["prompt_cache_hit_tokens"]))
            .or_else(|| number(&["cached_tokens"]))
            .unwrap_or(0),
        cache_write_tokens: number(&["prompt_tokens_details", "cache_write_tokens"]).unwrap_or(0),
        source: UsageSource::Provider,
    })
}

/// The text of a chunk that holds nothing else: nineteen of twenty chunks of a long answer. It is
/// read without building anything; whatever is unusual is left to [`Chunk`].
pub(super) fn plain_text(json: &[u8]) -> Option<Cow<'_, str>> {
    let chunk: Plain<'_> = serde_json::from_str(std::str::from_utf8(json).ok()?).ok()?;
    let [choice] = chunk.choices;
    let (delta, index) = (choice.delta, choice.index.unwrap_or(0));
    let other = chunk
        .usage
        .or(chunk.error)
        .or(choice.finish_reason)
        .or(choice.message)
        .or(choice.error)
        .or(choice.usage);
    let other = other
        .or(delta.tool_calls)
        .or(delta.function_call)
        .or(delta.refusal);
    let other = other
        .or(delta.reasoning_content)
        .or(delta.reasoning)
        .or(delta.reasoning_text)
        .or(delta.reasoning_details);
    (other.is_none() && index == 0 && chunk.object != "error").then_some(delta.content)
}

/// Fields that are only looked at for being there hold nothing: `null` counts as absent.
#[derive(Deserialize)]
struct Plain<'a> {
    #[serde(borrow)]
    choices: [PlainChoice<'a>; 1],
    #[serde(borrow, default)]
    object: Cow<'a, str>,
    usage: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainChoice<'a> {
    #[serde(borrow)]
    delta: PlainDelta<'a>,
    index: Option<u64>,
    finish_reason: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainDelta<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    tool_calls: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    reasoning_content: Option<IgnoredAny>,
    reasoning: Option<IgnoredAny>,
    reasoning_text: Option<IgnoredAny>,
    reasoning_details: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_of_text_alone_are_plain() {
        let plain = |delta: &str, more: &str| {
            let json =
                format!(r#"{{"object":"x","choices":[{{"index":0,"delta":{delta}{more}}}],"usage":null}}"#);
            plain_text(json.as_bytes()).map(Cow::into_owned)
        };
        assert_eq!(
            plain(r#"{"content":"a\n☃","tool_calls":null}"#, ""),
            Some("a\n☃".into())
        );
        assert_eq!(
            plain(r#"{"content":"a"}"#, r#","finish_reason":null"#),
            Some("a".into())
        );
        assert_eq!(plain(r#"{"content":"a"}"#, r#","finish_reason":"stop""#), None);
        assert_eq!(plain(r#"{"content":null}"#, ""), None);
        assert_eq!(plain(r#"{"content":"a","reasoning":"b"}"#, ""), None);
        assert_eq!(plain(r#"{"content":"a","tool_calls":[]}"#, ""), None);
        assert_eq!(
            plain_text(br#"{"choices":[{"delta":{"content":"a"}}],"error":{}}"#),
            None
        );
        assert_eq!(plain_text(br#"{"choices":[],"usage":{}}"#), None);
    }

    #[test]
    fn usage_in_every_spelling() {
        let read = |json: &str| usage(&serde_json::from_str(json).unwrap());
        let full = read(
            r#"{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2}}"#,
        )
        .unwrap();
        assert_eq!(
            (full.input_tokens, full.output_tokens, full.total_tokens),
            (Some(9), Some(3), Some(12))
        );
        assert_eq!((full.cache_read_tokens, full.cache_write_tokens), (4, 2));
        assert_eq!(
            read(r#"{"prompt_tokens":9,"prompt_cache_hit_tokens":5}"#)
                .unwrap()
                .cache_read_tokens,
            5
        );
        assert_eq!(read("{}"), None);
    }
}
