//! The text of a pattern or default inside `${…}`, found without the grammar.
//!
//! `${x//'/'/-}`, `${x#${y}}`, `"${x:-a;b}"`: the grammar fails on what quotes or separates there,
//! bash takes it as text up to the `}`. Only what can hold no command is found: no substitution,
//! no expansion but a variable, no newline.

use std::ops::Range;

/// Operators before a pattern; in a pattern quotes quote, inside double quotes too.
const PATTERN: &[&str] = &["##", "#", "%%", "%", "//", "/#", "/%", "/", "^^", "^", ",,", ","];
/// Operators before a default, in which quotes depend on what is around.
const DEFAULT: &[&str] = &[":-", "-", ":=", "=", ":?", "?", ":+", "+"];
/// What the grammar may stumble over.
const UNUSUAL: &[u8] = b"'\"\\;&|()<>{$ ";
/// What it may stumble over in a default.
const SEPARATORS: &[u8] = b";&|()<>{";

/// A pattern or default.
struct Part {
    is_pattern: bool,
    /// Without the operator of a pattern, with that of a default.
    text: Range<usize>,
}

/// The places inside `${…` at `at` to be made plain, and the position of its `}`.
pub(super) fn unusual(bytes: &[u8], at: usize) -> Option<(Vec<usize>, usize)> {
    let part = part(bytes, at)?;
    let end = part.text.end;
    let is = |all: &[u8], at: &usize| all.contains(&bytes[*at]);
    let places: Vec<usize> = if part.is_pattern {
        part.text
            .clone()
            .any(|at| is(UNUSUAL, &at))
            .then(|| part.text.collect())?
    } else {
        part.text.filter(|at| is(SEPARATORS, at)).collect()
    };
    (!places.is_empty()).then_some((places, end))
}

/// The position of the `}` of `${…` at `at`, where that is certain.
pub(super) fn close(bytes: &[u8], at: usize) -> Option<usize> {
    part(bytes, at).map(|part| part.text.end)
}

fn part(bytes: &[u8], at: usize) -> Option<Part> {
    let mut start = at + 2;
    start += name(bytes.get(start..)?)?;
    let rest = bytes.get(start..)?;
    let operator = |all: &[&str]| {
        all.iter()
            .find(|one| rest.starts_with(one.as_bytes()))
            .map(|one| one.len())
    };
    let pattern = operator(PATTERN);
    let length = pattern.or_else(|| operator(DEFAULT))?;
    let end = end(bytes, start + length, pattern.is_some())?;
    Some(Part {
        is_pattern: pattern.is_some(),
        text: start + pattern.unwrap_or(0)..end,
    })
}

/// Bytes of a parameter's name with a plain subscript.
fn name(rest: &[u8]) -> Option<usize> {
    let word = rest.iter().take_while(|byte| is_name(**byte)).count();
    let length = if word == 0 {
        usize::from(matches!(rest.first(), Some(b'@' | b'*')))
    } else {
        word
    };
    if rest.get(length) != Some(&b'[') {
        return (length > 0).then_some(length);
    }
    let inside = rest[length + 1..].iter().position(|byte| *byte == b']')?;
    let subscript = &rest[length + 1..length + 1 + inside];
    let plain = matches!(subscript, b"@" | b"*") || subscript.iter().all(|byte| is_name(*byte));
    (plain && inside > 0).then_some(length + inside + 2)
}

/// The `}` that ends a pattern or default beginning at `at`.
fn end(bytes: &[u8], mut at: usize, quotes: bool) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            b'}' => return Some(at),
            b'\n' | b'`' => return None,
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => return None,
            b'\\' => at += 1,
            b'<' | b'>' if bytes.get(at + 1) == Some(&b'(') => return None,
            b'\'' | b'"' if !quotes => return None,
            b'\'' => at += 1 + line(&bytes[at + 1..]).iter().position(|byte| *byte == b'\'')?,
            b'"' => at = double_quoted(bytes, at)?,
            b'$' if quotes && bytes.get(at + 1) == Some(&b'\'') => at = ansi_c(bytes, at)?,
            b'$' => at = variable(bytes, at)?,
            _ => {}
        }
        at += 1;
    }
}

fn line(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    &bytes[..end]
}

/// The closing quote of a string that expands nothing but variables.
fn double_quoted(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match *bytes.get(at)? {
            b'"' => return Some(at),
            b'\n' | b'`' => return None,
            b'\\' => at += 1,
            b'$' => at = variable(bytes, at)?,
            _ => {}
        }
        at += 1;
    }
}

/// The closing quote of `$'…'`.
fn ansi_c(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 2;
    loop {
        match *bytes.get(at)? {
            b'\'' => return Some(at),
            b'\n' => return None,
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
    }
}

/// The last byte of `$name` or `${name}`.
fn variable(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at + 1..)?;
    let braced = rest.first() == Some(&b'{');
    let start = usize::from(braced);
    let length = rest[start..].iter().take_while(|byte| is_name(**byte)).count();
    let closed = !braced || rest.get(start + length) == Some(&b'}');
    (length > 0 && closed).then_some(at + start + length + usize::from(braced))
}

pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with `_` at the places that were found.
    fn plain(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        if let Some((places, end)) = unusual(text.as_bytes(), 0) {
            assert_eq!(bytes[end], b'}', "{text}");
            places.into_iter().for_each(|at| bytes[at] = b'_');
        }
        String::from_utf8(bytes).expect("ASCII")
    }

    #[test]
    fn patterns_and_defaults_become_plain() {
        for (text, expected) in [
            ("${x//'/'/-}", "${x//_____}"),
            ("${x//'}'/a}", "${x//_____}"),
            ("${x//\\}/a}b", "${x//____}b"),
            ("${x#${y}}z", "${x#____}z"),
            ("${x%.\"$y\"}", "${x%_____}"),
            ("${a[@]/(/ }", "${a[@]/___}"),
            ("${x//$'\\''/a}", "${x//_______}"),
            ("${x:-a;(b)}", "${x:-a__b_}"),
            ("${1:?<$0>}", "${1:?_$0_}"),
            ("${x#a}", "${x#a}"),
            ("${x:-a}", "${x:-a}"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn what_may_run_something_is_left_alone() {
        for text in [
            "${x#$(ls)}",
            "${x#`ls`}",
            "${x#\"$(ls)\"}",
            "${x#<(ls)}",
            "${x#${y:-z}}",
            "${x#\n'}",
            "${x#'a\nb'}",
            "${x:-'a;b'}",
            "${x:-\"a;b\"}",
            "${x:-;$(ls)}",
            "${x#$[1]'}",
            "${x#'",
            "${x[$(ls)]#'a'}",
            "${!x#'a'}",
            "${#x}",
            "${x:1:'2'}",
            "${x#\\\n'}",
        ] {
            assert_eq!(unusual(text.as_bytes(), 0), None, "{text}");
        }
    }
}
