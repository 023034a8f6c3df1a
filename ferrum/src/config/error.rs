//! What is wrong with the configuration, and where.

use std::path::PathBuf;

/// A configuration that cannot be used. The text names the file and, where there is one, line,
/// column and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// From 1; 0 when the error is about the file as a whole.
    pub line: u32,
    /// In characters, from 1; 0 when the error is about the file as a whole.
    pub column: u32,
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
}

impl ConfigError {
    /// An error about the file as a whole.
    pub fn file(file: impl Into<PathBuf>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}
