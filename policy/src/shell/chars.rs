//! What a command text may be made of, before anything reads it as bash.

use super::deny::{Check, Deny};
use super::limits::TEXT_BYTES_MAX;

/// Refuses texts above the limit and control characters, at every tier.
///
/// A carriage return before a newline or as data inside quotes is still refused: bash takes it as
/// part of the word, a terminal and a reader do not.
pub(super) fn check_control(text: &str) -> Check {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "the command has {} bytes, at most {TEXT_BYTES_MAX} are judged",
            text.len()
        );
        return Err(Deny::new("limit-bytes", &(0..0), message)
            .hint("write the long part to a file with the write tool and run that"));
    }
    for (at, c) in text.char_indices() {
        if (c < ' ' && c != '\n' && c != '\t') || c == '\u{7f}' {
            let message = format!("contains control character U+{:04X}", u32::from(c));
            return Err(Deny::new("control", &(at..at + 1), message)
                .hint("spell it with an escape, as in printf '\\033[0m'"));
        }
    }
    Ok(())
}

/// Refuses characters that make a text look like another one: medium and high.
pub(super) fn check_invisible(text: &str) -> Check {
    for (at, c) in text.char_indices() {
        if is_deceptive(c) {
            let message = format!(
                "contains the invisible or look-alike character U+{:04X}",
                u32::from(c)
            );
            return Err(Deny::new("unicode", &(at..at + c.len_utf8()), message)
                .hint("use plain spaces and visible characters"));
        }
    }
    Ok(())
}

fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
