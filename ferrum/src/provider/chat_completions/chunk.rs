//! One JSON object of an answer, read leniently: servers leave out, null and retype most fields.

use crate::agent::message::{Usage, UsageSource};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// A stream chunk, or a whole answer that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    pub(super) choices: Option<Vec<Choice>>,
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
    pub(super) index: Option<u64>,
    pub(super) delta: Option<Delta>,
    /// What `delta` is called when the answer is not streamed.
    pub(super) message: Option<Delta>,
    pub(super) finish_reason: Option<Text>,
    /// Moonshot puts the counts here.
    pub(super) usage: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Option<Text>,
    pub(super) refusal: Option<Text>,
    pub(super) reasoning_content: Option<Text>,
    pub(super) reasoning: Option<Text>,
    pub(super) reasoning_text: Option<Text>,
    pub(super) tool_calls: Option<Vec<CallDelta>>,
    /// The form before tool calls existed.
    pub(super) function_call: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    pub(super) index: Option<u64>,
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

impl Delta {
    /// Reasoning text and the name of the field it came in. Servers that send two fields send the
    /// same text in both.
    pub(super) fn thinking(&self) -> Option<(&'static str, &str)> {
        [
            ("reasoning_content", &self.reasoning_content),
            ("reasoning", &self.reasoning),
            ("reasoning_text", &self.reasoning_text),
        ]
        .into_iter()
        .find_map(|(name, text)| {
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
        let word = Option::<Cow<'de, str>>::deserialize(deserializer)?;
        Ok(Self(word.is_some_and(|word| word == "error")))
    }
}

/// Text that may come as a string, as null, or as an array of parts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, null, or an array of text parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_unit<E: de::Error>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<String, A::Error> {
        let mut text = String::new();
        while let Some(part) = parts.next_element::<Text>()? {
            text.push_str(&part.0);
        }
        Ok(text)
    }

    /// One part, `{"type":"text","text":…}`.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<String, A::Error> {
        let mut text = String::new();
        while let Some(key) = fields.next_key::<String>()? {
            if key == "text" {
                text = fields.next_value::<Text>()?.0;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

/// Reads token counts in any of the known spellings.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let number = |path: &[&str]| {
        let found = path.iter().try_fold(value, |at, key| at.get(*key));
        found.and_then(Value::as_u64)
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
/// read without building anything; whatever is unusual is left to [`parse`].
pub(super) fn plain_text(json: &[u8]) -> Option<Cow<'_, str>> {
    let chunk: Plain<'_> = serde_json::from_str(std::str::from_utf8(json).ok()?).ok()?;
    let [choice] = chunk.choices;
    let (delta, index) = (choice.delta, choice.index.unwrap_or(0));
    let other = chunk
        .usage
        .or(chunk.error)
        .or(choice.finish_reason)
        .or(choice.message)
        .or(choice.usage);
    let other = other
        .or(delta.tool_calls)
        .or(delta.function_call)
        .or(delta.refusal);
    let other = other
        .or(delta.reasoning_content)
        .or(delta.reasoning)
        .or(delta.reasoning_text);
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
}

/// Parses one chunk.
///
/// # Errors
/// The parser's own, also after the one repair that is sound: half of a UTF-16 pair in an escape
/// (a server cut a character between two chunks) becomes U+FFFD.
pub(super) fn parse(json: &[u8]) -> Result<Chunk, serde_json::Error> {
    // One check of the whole is cheaper than one for each string in it.
    let parsed = match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    };
    parsed.or_else(|error| match without_lone_surrogates(json) {
        Some(repaired) => serde_json::from_slice(&repaired),
        None => Err(error),
    })
}

fn without_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let unit = |at: usize| -> Option<u32> {
        let escape = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
    };
    let mut out = Vec::with_capacity(json.len());
    let (mut at, mut changed) = (0, false);
    while at < json.len() {
        let step = match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                out.extend_from_slice(b"\\ufffd");
                at += 6;
                changed = true;
                continue;
            }
            // Any other escape is two bytes at least; stepping over both keeps `\\u` apart from `\u`.
            _ if json[at] == b'\\' => 2,
            _ => 1,
        };
        out.extend_from_slice(&json[at..json.len().min(at + step)]);
        at += step;
    }
    changed.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_in_many_shapes() {
        let text = |json: &str| serde_json::from_str::<Text>(json).unwrap().0;
        assert_eq!(text(r#""a""#), "a");
        assert_eq!(text("null"), "");
        assert_eq!(
            text(r#"[{"type":"text","text":"Hi "},"there",{"type":"image"}]"#),
            "Hi there"
        );
    }

    #[test]
    fn half_of_a_surrogate_pair_is_replaced() {
        let chunk = parse(br#"{"choices":[{"delta":{"content":"a\ud83db\ud83d\ude00\\ud83d"}}]}"#).unwrap();
        let choices = chunk.choices.unwrap();
        let text = &choices[0].delta.as_ref().unwrap().content.as_ref().unwrap().0;
        assert_eq!(text, "a\u{fffd}b\u{1f600}\\ud83d");
        assert!(parse(b"error: engine died").is_err());
    }

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
