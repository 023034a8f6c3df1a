//! The answer to an act.

/// Allowed, or refused with a reason. There is no third answer.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Refuse(Refusal),
}

/// Why policy said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable; listed in docs/POLICY.md with an admitted and a refused example.
    pub code: &'static str,
    /// Byte range in the command; empty where there is no command.
    pub span: std::ops::Range<usize>,
    /// From 1; 0 where there is no command.
    pub line: u32,
    /// In characters, from 1; 0 where there is no command.
    pub column: u32,
    /// One sentence for the model, lower case, no full stop.
    pub message: String,
    /// A rewrite that passes; empty where there is none.
    pub hint: String,
}

impl Refusal {
    /// A refusal that has no position in a text.
    #[must_use]
    pub fn plain(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code,
            span: 0..0,
            line: 0,
            column: 0,
            message: message.into(),
            hint: hint.into(),
        }
    }
}
