//! Quote removal and escapes, as bash does them.

use super::script::{Piece, Word};

/// Text outside quotes: backslashes quote, patterns become pieces of their own.
pub(super) fn decode_unquoted(text: &str, out: &mut Word) {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(next) => out.push_literal(next.encode_utf8(&mut [0; 4]), true),
                None => out.push_literal("\\", true),
            },
            '*' | '?' => out.pieces.push(Piece::Glob(c.to_string())),
            _ => out.push_literal(c.encode_utf8(&mut [0; 4]), false),
        }
    }
}

/// Text in double quotes.
pub(super) fn decode_double(text: &str) -> String {
    decode_selected(text, "$`\"\\")
}

/// Text of an expandable here-document, where `"` is an ordinary character.
pub(super) fn decode_heredoc(text: &str) -> String {
    decode_selected(text, "$`\\")
}

fn decode_selected(text: &str, special: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.peek() {
            Some('\n') => {
                chars.next();
            }
            Some(next) if special.contains(*next) => {
                out.push(*next);
                chars.next();
            }
            _ => out.push('\\'),
        }
    }
    out
}

/// The inside of `$'…'`. Bytes that are no UTF-8 come out as U+FFFD: such a word equals no name.
pub(super) fn decode_ansi_c(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let Some(kind) = chars.next() else { break };
        match kind {
            'a' => out.push(7),
            'b' => out.push(8),
            'e' | 'E' => out.push(27),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            '0'..='7' => {
                let value = number(&mut chars, 8, 2, kind.to_digit(8).unwrap_or(0));
                out.push(value.to_le_bytes()[0]);
            }
            'x' => {
                let value = number(&mut chars, 16, 2, 0);
                out.push(value.to_le_bytes()[0]);
            }
            'u' => push(
                &mut out,
                char::from_u32(number(&mut chars, 16, 4, 0)).unwrap_or('\u{fffd}'),
            ),
            'U' => push(
                &mut out,
                char::from_u32(number(&mut chars, 16, 8, 0)).unwrap_or('\u{fffd}'),
            ),
            'c' => {
                if let Some(control) = chars.next() {
                    out.push(u32::from(control).to_le_bytes()[0] & 0x1f);
                }
            }
            '\\' | '\'' | '"' | '?' => push(&mut out, kind),
            other => {
                out.push(b'\\');
                push(&mut out, other);
            }
        }
    }
    // bash ends the string at a NUL.
    let end = out.iter().position(|byte| *byte == 0).unwrap_or(out.len());
    String::from_utf8_lossy(&out[..end]).into_owned()
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn number(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    digits_max: u32,
    start: u32,
) -> u32 {
    let mut value = start;
    for _ in 0..digits_max {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else {
            break;
        };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        chars.next();
    }
    value
}
