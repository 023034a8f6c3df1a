//! One JSON object of an answer, read leniently: servers leave out, null and retype most fields.

use crate::agent::message::{Usage, UsageSource};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;

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
    pub(super) index: Lenient,
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
    pub(super) index: Lenient,
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

/// A list, or one thing where a list belongs, or null; entries that are null are dropped.
#[derive(Debug)]
pub(super) struct Many<T>(pub(super) Vec<T>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

struct ManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Many<T>, E> {
        Ok(Many::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Many<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element::<Option<T>>()? {
            all.extend(item);
        }
        Ok(Many(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Many<T>, A::Error> {
        T::deserialize(de::value::MapAccessDeserializer::new(fields)).map(|one| Many(vec![one]))
    }
}

/// A number that may come as text. Whatever else is there counts as nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lenient(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<Text>::deserialize(deserializer)?;
        Ok(Self(text.and_then(|text| text.0.trim().parse().ok())))
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

/// Counts come as floats from servers that do not tell the two apart.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in range"
)]
fn whole(value: &Value) -> Option<u64> {
    let float = || {
        value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n))
    };
    value.as_u64().or_else(|| float().map(|n| n as u64))
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
/// The parser's own, also after the repairs that are sound: bytes that are no UTF-8 and half of a
/// UTF-16 pair in an escape (a server cut a character between two chunks) become U+FFFD, and a
/// control character that stands in a string as it is counts as its escape.
pub(super) fn parse(json: &[u8]) -> Result<Chunk, serde_json::Error> {
    // One check of the whole is cheaper than one for each string in it.
    let text = String::from_utf8_lossy(json);
    serde_json::from_str(&text).or_else(|error| {
        let repaired = escaped_controls(&text);
        let repaired = without_lone_surrogates(repaired.as_bytes()).unwrap_or(repaired.into_bytes());
        serde_json::from_slice(&repaired).map_err(|_| error)
    })
}

/// Outside of strings, tabs and line ends stay what they are; nothing else may stand there anyway.
fn escaped_controls(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            '"' if !escaped => in_string = !in_string,
            '\u{0}'..='\u{1f}' if in_string => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
                continue;
            }
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
        out.push(c);
    }
    out
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
        let text = &chunk.choices.0[0]
            .delta
            .as_ref()
            .unwrap()
            .content
            .as_ref()
            .unwrap()
            .0;
        assert_eq!(text, "a\u{fffd}b\u{1f600}\\ud83d");
        assert!(parse(b"error: engine died").is_err());
        let raw = b"{\"choices\":[{\"delta\":{\"content\":\"a\x1b\\\\\\\"\x03b\xff\"}}]}";
        let chunk = parse(raw).unwrap();
        let text = chunk.choices.0[0]
            .delta
            .as_ref()
            .unwrap()
            .content
            .as_ref()
            .unwrap();
        assert_eq!(text.0, "a\u{1b}\\\"\u{3}b\u{fffd}");
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
