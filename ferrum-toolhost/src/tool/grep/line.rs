//! One line of a file as a result shows it: bounded, with the match in sight, escaped.

use crate::fs::name::shown_content;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use std::ops::Range;

/// Bytes of a line that are shown.
const SHOWN_BYTES_MAX: usize = 500;
/// Bytes shown before the match where the line is cut.
const BEFORE_BYTES: usize = 100;

/// A matching line, cut around its first match.
pub(super) fn around_match(line: &[u8], matcher: &RegexMatcher) -> String {
    let line = without_end(line);
    let at = match matcher.find(line) {
        Ok(Some(found)) => found.start(),
        Ok(None) | Err(_) => 0,
    };
    cut(line, at)
}

/// A line of context, cut at its end.
pub(super) fn from_start(line: &[u8]) -> String {
    cut(without_end(line), 0)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn cut(line: &[u8], at: usize) -> String {
    if line.len() <= SHOWN_BYTES_MAX {
        return shown_content(line).into_owned();
    }
    let Range { start, end } = window(line, at);
    let mut text = String::new();
    if start > 0 {
        text.push_str(&format!("[{start} bytes] … "));
    }
    text.push_str(&shown_content(&line[start..end]));
    if end < line.len() {
        text.push_str(&format!(" … [{} bytes]", line.len() - end));
    }
    text
}

/// The part that is shown; its ends do not split a character.
fn window(line: &[u8], at: usize) -> Range<usize> {
    let last_start = line.len() - SHOWN_BYTES_MAX;
    let start = at.saturating_sub(BEFORE_BYTES).min(last_start);
    let is_inside = |place: &usize| line.get(*place).is_some_and(|byte| byte & 0xc0 == 0x80);
    let start = (start..start + 3)
        .find(|place| !is_inside(place))
        .unwrap_or(start);
    let end = (start + SHOWN_BYTES_MAX).min(line.len());
    let end = (end - 3..=end)
        .rev()
        .find(|place| !is_inside(place))
        .unwrap_or(end);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_keeps_the_match_and_whole_characters() {
        let matcher = RegexMatcher::new("needle").unwrap();
        for pad in ["é", "a", "☃", "🦀"] {
            for shift in ["", "x", "xx", "xxx"] {
                let line = format!("{shift}{}needle{}\r\n", pad.repeat(1000), pad.repeat(1000));
                let text = around_match(line.as_bytes(), &matcher);
                assert!(text.contains("needle") && !text.contains("\\x"), "{text}");
                assert!(text.len() < 560, "{}", text.len());
            }
        }
    }

    #[test]
    fn both_sides_of_the_bound() {
        let matcher = RegexMatcher::new("a").unwrap();
        assert_eq!(around_match(&[b'a'; 500], &matcher), "a".repeat(500));
        assert_eq!(
            around_match(&[b'a'; 501], &matcher),
            format!("{} … [1 bytes]", "a".repeat(500))
        );
    }
}
