//! Names as they are shown to the model: as they are where that is safe, else escaped without
//! loss in the form that bash reads back, `$'…'`.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as text on one line. Two different paths never look the same.
#[must_use]
pub fn shown(path: &Path) -> Cow<'_, str> {
    shown_bytes(path.as_os_str().as_bytes())
}

/// The same for bytes.
#[must_use]
pub fn shown_bytes(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.starts_with("$'") && !text.chars().any(is_hidden) => Cow::Borrowed(text),
        _ => {
            let mut out = String::from("$'");
            escape_into(&mut out, name, |c| matches!(c, '\'' | '\\') || is_hidden(c));
            out.push('\'');
            Cow::Owned(out)
        }
    }
}

/// Text of a file as it is shown: tabs stay, other controls and invalid bytes are escaped.
#[must_use]
pub fn shown_content(bytes: &[u8]) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control() && c != '\t';
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_odd) => Cow::Borrowed(text),
        _ => {
            let mut out = String::with_capacity(bytes.len() + 16);
            escape_into(&mut out, bytes, is_odd);
            Cow::Owned(out)
        }
    }
}

/// Longest value of one line of a result, in characters.
const LINE_CHARS_MAX: usize = 1_000;

/// A value that fills one line of a result: controls and what reorders text are escaped, the end
/// of an overlong one is left out.
#[must_use]
pub fn shown_line(value: &str) -> Cow<'_, str> {
    let end = value.char_indices().nth(LINE_CHARS_MAX).map(|(at, _)| at);
    if end.is_none() && !value.chars().any(is_hidden) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len().min(2 * LINE_CHARS_MAX));
    escape_into(
        &mut out,
        &value.as_bytes()[..end.unwrap_or(value.len())],
        is_hidden,
    );
    if end.is_some() {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Controls, and the characters that reorder or hide the text around them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Appends `bytes`; what is not UTF-8 and the characters chosen come as escapes.
pub(crate) fn escape_into(out: &mut String, bytes: &[u8], chosen: impl Fn(char) -> bool) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                _ if !chosen(c) => out.push(c),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\'' | '\\' => out.extend(['\\', c]),
                _ if c.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
                _ if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_loss() {
        for (name, text) in [
            (&b"plain name.txt"[..], "plain name.txt"),
            ("naïve ☃".as_bytes(), "naïve ☃"),
            (b"a\nb.txt", r"$'a\nb.txt'"),
            (b"c\x1b[31m.txt", r"$'c\x1b[31m.txt'"),
            (b"caf\xe9", r"$'caf\xe9'"),
            (b"$'x'", r"$'$\'x\''"),
            (b"back\\slash", "back\\slash"),
            ("a\u{202e}b".as_bytes(), r"$'a\u202eb'"),
        ] {
            assert_eq!(shown_bytes(name), text);
        }
    }

    #[test]
    fn a_value_stays_on_its_line_and_is_bounded() {
        assert_eq!(shown_line("a 'b' \\ c"), "a 'b' \\ c");
        assert_eq!(
            shown_line("a\nstdout (1 bytes):\n\x1b[2J"),
            r"a\nstdout (1 bytes):\n\x1b[2J"
        );
        let long = "x".repeat(5_000);
        assert_eq!(shown_line(&long).chars().count(), LINE_CHARS_MAX + 1);
    }

    #[test]
    fn content_keeps_tabs_and_escapes_controls() {
        assert_eq!(shown_content(b"a\tb\\"), "a\tb\\");
        assert_eq!(shown_content(b"caf\xe9 \x1b[0m"), r"caf\xe9 \x1b[0m");
    }
}
