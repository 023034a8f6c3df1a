//! Tool calls as every wire format has them: an id, a name, and arguments as JSON text. Pure.

use crate::agent::message::ContentBlock;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Characters of an id that are kept: ids of several hundred characters exist (Gemini).
const ID_CHARS_MAX: usize = 1_024;
/// Bytes of a function name that every format allows.
const NAME_BYTES_MAX: usize = 64;

/// A call as it came in, finished.
#[derive(Default)]
pub struct Raw {
    pub id: String,
    pub name: String,
    /// JSON text, or what the model took for it.
    pub arguments: String,
    /// See [`ContentBlock::ToolUse`].
    pub extra_content: Option<Value>,
}

impl Raw {
    /// The block of the conversation. Its id is non-empty and differs from those in `used`, which
    /// it joins; unusable arguments are dropped and the reason kept.
    #[must_use]
    pub fn into_block(self, used: &mut BTreeSet<String>) -> ContentBlock {
        let mut id: String = self.id.chars().take(ID_CHARS_MAX).collect();
        while id.trim().is_empty() || !used.insert(id.clone()) {
            id = format!("call_{}", uuid::Uuid::new_v4().simple());
        }
        let (input, invalid) = match arguments(&self.arguments) {
            Ok(input) => (input, None),
            Err(why) => (Map::new(), Some(why)),
        };
        ContentBlock::ToolUse {
            id,
            name: self.name,
            input: Value::Object(input),
            invalid,
            extra_content: self.extra_content,
        }
    }
}

/// Reads finished argument text. Nothing and `null` mean no arguments; an object that was encoded
/// twice is unwrapped.
fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let value = match serde_json::from_str(text) {
        Ok(Value::String(inner)) => serde_json::from_str(&inner).unwrap_or(Value::String(inner)),
        Ok(value) => value,
        Err(error) => return Err(format!("arguments are not valid JSON: {error}")),
    };
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        Value::Array(_) => Err("arguments must be a JSON object, not an array".to_owned()),
        Value::String(_) => Err("arguments must be a JSON object, not a string".to_owned()),
        Value::Bool(_) | Value::Number(_) => Err("arguments must be a JSON object".to_owned()),
    }
}

/// A name fit for a request: one that the model made up may hold characters for which every later
/// request is refused.
#[must_use]
pub fn wire_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    if clean.is_empty() {
        "unnamed".to_owned()
    } else {
        clean
    }
}

/// An id fit for a format that allows letters, digits, `_` and `-`, at most `chars_max` of them.
/// The same id always becomes the same one, so that a call and its result still belong together.
#[must_use]
pub fn wire_id(id: &str, chars_max: usize) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= chars_max && id.chars().all(is_plain) {
        return Cow::Borrowed(id);
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    Cow::Owned(format!("call_{:016x}", hasher.finish()))
}

/// The ids of a conversation for a format that wants each of them once: providers begin anew with
/// `call_0` in every answer, and a session may change its provider.
pub struct Ids {
    uses: BTreeMap<String, u32>,
    chars_max: usize,
}

impl Ids {
    #[must_use]
    pub fn new(chars_max: usize) -> Self {
        Self {
            uses: BTreeMap::new(),
            chars_max,
        }
    }

    /// The id of a call that comes now.
    pub fn call(&mut self, id: &str) -> String {
        *self.uses.entry(id.to_owned()).or_default() += 1;
        self.result(id)
    }

    /// The id for the result of the last call with this id.
    #[must_use]
    pub fn result(&self, id: &str) -> String {
        match self.uses.get(id) {
            None | Some(0 | 1) => wire_id(id, self.chars_max).into_owned(),
            Some(nth) => wire_id(&format!("{id}_{nth}"), self.chars_max).into_owned(),
        }
    }

    /// Starts over.
    pub fn clear(&mut self) {
        self.uses.clear();
    }
}

/// What of an answer can go back: formats refuse thinking that nothing follows.
#[must_use]
pub fn said(content: &[ContentBlock]) -> &[ContentBlock] {
    let last = content.iter().rposition(|block| match block {
        ContentBlock::Text { text } => !text.trim().is_empty(),
        ContentBlock::ToolUse { .. } | ContentBlock::ToolResult { .. } => true,
        ContentBlock::Thinking { .. } | ContentBlock::Image { .. } | ContentBlock::Other(_) => false,
    });
    &content[..last.map_or(0, |last| last + 1)]
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_name_cannot_spoil_later_requests() {
        assert_eq!(wire_name("functions.read\n"), "functions_read_");
        assert_eq!(wire_name(""), "unnamed");
        assert_eq!(wire_name(&"x".repeat(65)).len(), 64);
    }

    #[test]
    fn ids_of_other_providers_are_made_fit_and_stay_apart() {
        assert_eq!(wire_id("call_1", 40), "call_1");
        let long = "x".repeat(41);
        let long = ["call|+/=1", "call|+/=2", &long, ""].map(|id| wire_id(id, 40));
        for (at, id) in long.iter().enumerate() {
            assert!(id.len() <= 40 && id.chars().all(is_plain), "{id}");
            assert!(!long[..at].contains(id));
        }
        assert_eq!(wire_id("a|b", 64), wire_id("a|b", 64));
    }
}
