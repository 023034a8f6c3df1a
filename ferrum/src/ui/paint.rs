//! Colours, where the operator's terminal takes them.

use super::terminal_text::one_line;
use crate::config::Color;
use std::io::IsTerminal;

/// Makes words stand out, or leaves them as they are.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    /// Colours are written.
    on: bool,
}

impl Paint {
    /// For standard output.
    #[must_use]
    pub fn of_stdout(color: Color, no_color: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let on = match color {
            Color::On => true,
            Color::Off => false,
            Color::Auto => terminal && !no_color,
        };
        Self { on }
    }

    /// No colours, as into a file.
    #[must_use]
    pub fn plain() -> Self {
        Self { on: false }
    }

    /// Text of whatever origin, within a line.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        one_line(text)
    }

    #[must_use]
    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    #[must_use]
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    #[must_use]
    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        let text = self.text(text);
        if self.on && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_ours_alone() {
        let terminal = Paint { on: true };
        assert_eq!(
            terminal.bad("a\u{1b}[2Jb\n"),
            "\u{1b}[31ma\\u{1b}[2Jb\\n\u{1b}[0m"
        );
        let file = Paint::plain();
        assert_eq!((file.bad("a"), terminal.bad("")), ("a".to_owned(), String::new()));
    }
}
