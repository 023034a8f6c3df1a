//! Reasoning beside the text: the field it came in, and what the provider wants back of it. Pure.

use crate::agent::message::{Carry, ContentBlock};
use crate::provider::{ProviderError, TEXT_BYTES_MAX, grow};
use serde_json::Value;

/// Pieces of OpenRouter's details; each is a whole block or a part of one.
const DETAILS_MAX: usize = 10_000;

/// The reasoning of one answer so far.
#[derive(Default)]
pub(super) struct Reasoning {
    text: String,
    field: Option<&'static str>,
    details: Vec<Value>,
    /// Bytes in `details`.
    size: usize,
}

impl Reasoning {
    /// Takes text that came in `field`.
    ///
    /// # Errors
    /// [`ProviderError::TooLarge`] above 8 MiB.
    pub(super) fn text(&mut self, field: &'static str, text: &str) -> Result<(), ProviderError> {
        self.field = Some(field);
        grow(&mut self.text, text, "reasoning")
    }

    /// Takes pieces of `reasoning_details`. Pieces of one text are joined, others are whole.
    ///
    /// # Errors
    /// [`ProviderError::TooLarge`] above 8 MiB or 10,000 pieces.
    pub(super) fn details(&mut self, pieces: Vec<Value>) -> Result<(), ProviderError> {
        for piece in pieces {
            self.size += piece.to_string().len();
            if self.size > TEXT_BYTES_MAX || self.details.len() >= DETAILS_MAX {
                return Err(ProviderError::TooLarge(
                    "more than 8 MiB of reasoning details".to_owned(),
                ));
            }
            if !self.details.last_mut().is_some_and(|last| joined(last, &piece)) {
                self.details.push(piece);
            }
        }
        Ok(())
    }

    pub(super) fn into_block(self) -> Option<ContentBlock> {
        if self.text.is_empty() && self.details.is_empty() {
            return None;
        }
        Some(ContentBlock::Thinking {
            text: self.text,
            carry: Some(Carry::ChatCompletions {
                field: self.field.map(str::to_owned),
                details: self.details,
            }),
        })
    }
}

/// Adds a piece to the one before it where both are of the same text.
fn joined(last: &mut Value, piece: &Value) -> bool {
    let same = |key: &str| last.get(key) == piece.get(key);
    let key = match piece.get("type").and_then(Value::as_str) {
        Some("reasoning.text") => "text",
        Some("reasoning.summary") => "summary",
        _ => return false,
    };
    if !same("type") || !same("index") || !same("format") {
        return false;
    }
    let (Some(before), Some(more)) = (last[key].as_str(), piece[key].as_str()) else {
        return false;
    };
    let text = format!("{before}{more}");
    // The signature comes with the last piece.
    if let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) {
        for (name, value) in piece.iter().filter(|(_, value)| !value.is_null()) {
            last.insert(name.clone(), value.clone());
        }
        last.insert(key.to_owned(), text.into());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_of_one_text_are_joined_and_sealed_ones_kept() {
        let mut reasoning = Reasoning::default();
        let piece = |text: &str| json!({"type": "reasoning.text", "text": text, "index": 0, "format": "x"});
        reasoning.details(vec![piece("a"), piece("b")]).unwrap();
        let mut last = piece("");
        last["signature"] = json!("s");
        reasoning.details(vec![last]).unwrap();
        let sealed = json!({"type": "reasoning.encrypted", "id": "call_1", "data": "d"});
        reasoning.details(vec![sealed.clone()]).unwrap();
        let Some(ContentBlock::Thinking {
            carry: Some(Carry::ChatCompletions { details, .. }),
            ..
        }) = reasoning.into_block()
        else {
            panic!("a block")
        };
        let mut whole = piece("ab");
        whole["signature"] = json!("s");
        assert_eq!(details, [whole, sealed]);
    }
}
