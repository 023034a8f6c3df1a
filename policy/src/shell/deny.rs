//! A refusal on its way out of a rule, before its position is counted.

use crate::Refusal;
use std::ops::Range;

/// Why one construct does not pass.
#[derive(Debug, Clone)]
pub(super) struct Deny {
    pub(super) code: &'static str,
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) hint: String,
}

/// What a rule answers.
pub(super) type Check = Result<(), Deny>;

impl Deny {
    pub(super) fn new(code: &'static str, span: &Range<usize>, message: impl Into<String>) -> Self {
        Self {
            code,
            span: span.clone(),
            message: message.into(),
            hint: String::new(),
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Counts line and column, both from 1, the column in characters.
    pub(super) fn at(self, text: &str) -> Refusal {
        let start = text.floor_char_boundary(self.span.start.min(text.len()));
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Refusal {
            code: self.code,
            span: start..self.span.end.clamp(start, text.len()),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            message: self.message,
            hint: self.hint,
        }
    }
}
