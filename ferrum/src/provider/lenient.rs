//! JSON read leniently: servers leave out, null and retype most fields.

use super::ProviderError;
use super::error::one_line;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;

/// A list, or one thing where a list belongs, or null; entries that are null are dropped.
#[derive(Debug)]
pub struct Many<T>(pub Vec<T>);

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
pub struct Number(pub Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<Text>::deserialize(deserializer)?;
        Ok(Self(text.and_then(|text| text.0.trim().parse().ok())))
    }
}

/// Text that may come as a string, as null, or as an array of parts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Text(pub String);

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

/// Counts come as floats from servers that do not tell the two apart.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in range"
)]
pub fn whole(value: &Value) -> Option<u64> {
    let float = || {
        value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n))
    };
    value.as_u64().or_else(|| float().map(|n| n as u64))
}

/// Parses one JSON text of a provider; `what` names it in the error. Where it is none, the repairs
/// that are sound are made: bytes that are no UTF-8 and half of a UTF-16 pair in an escape (a
/// server cut a character between two events) become U+FFFD, and a control character that stands
/// in a string as it is counts as its escape.
///
/// # Errors
/// [`ProviderError::Malformed`] with the beginning of the text.
pub fn parse<T: DeserializeOwned>(json: &[u8], what: &str) -> Result<T, ProviderError> {
    // One check of the whole is cheaper than one for each string in it.
    let text = String::from_utf8_lossy(json);
    let parsed = serde_json::from_str(&text).or_else(|error| {
        let repaired = escaped_controls(&text);
        let repaired = without_lone_surrogates(repaired.as_bytes()).unwrap_or(repaired.into_bytes());
        serde_json::from_slice(&repaired).map_err(|_| error)
    });
    parsed.map_err(|error| {
        let head = one_line(&String::from_utf8_lossy(&json[..json.len().min(200)]));
        ProviderError::Malformed(format!("{head:?} is not a JSON {what} ({error})"))
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
    fn what_a_server_broke_is_repaired() {
        let read = |json: &[u8]| parse::<Text>(json, "text").map(|text| text.0);
        assert_eq!(
            read(br#""a\ud83db\ud83d\ude00\\ud83d""#),
            Ok("a\u{fffd}b\u{1f600}\\ud83d".to_owned())
        );
        assert_eq!(
            read(b"\"a\x1b\\\\\\\"\x03b\xff\""),
            Ok("a\u{1b}\\\"\u{3}b\u{fffd}".to_owned())
        );
        assert!(read(b"error: engine died").is_err());
    }
}
