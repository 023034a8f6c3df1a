//! Does a pattern in a command's place mean one of these programs? `/usr/bin/sud?`

use super::script::{Piece, Word};
use super::wrapper::base_name;

/// Letters of a name that a pattern must spell out: `*` alone means nothing in particular.
const LETTERS_MIN: usize = 2;

/// The first of `names` that the word's last component matches. A path below the working directory
/// is the project's own.
pub(super) fn matched(word: &Word, names: &[&'static str]) -> Option<&'static str> {
    let pattern = read(word)?;
    if pattern.contains('/') && !pattern.starts_with('/') {
        return None;
    }
    let pattern: Vec<char> = base_name(&pattern).chars().collect();
    if pattern.iter().filter(|c| !is_wild(**c)).count() < LETTERS_MIN {
        return None;
    }
    names
        .iter()
        .copied()
        .find(|name| matches(&pattern, &name.chars().collect::<Vec<_>>()))
}

fn is_wild(c: char) -> bool {
    c == '*' || c == '?'
}

/// The word with `?` for a bracket expression; `None` without a pattern, or with an expansion.
fn read(word: &Word) -> Option<String> {
    let mut text = String::new();
    let (mut in_bracket, mut found) = (false, false);
    for piece in &word.pieces {
        match piece {
            Piece::Literal { text: part, .. } if in_bracket => {
                let (_, rest) = part.split_once(']')?;
                in_bracket = false;
                text.push_str(rest);
            }
            Piece::Literal { text: part, .. } => text.push_str(part),
            Piece::Glob(glob) => {
                found = true;
                in_bracket = glob == "[";
                text.push(if in_bracket { '?' } else { glob.chars().next()? });
            }
            _ => return None,
        }
    }
    found.then_some(text)
}

fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, rest) => rest.is_none(),
        (Some(('*', rest)), _) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        (Some((p, pattern)), Some((n, name))) => (*p == '?' || p == n) && matches(pattern, name),
        (Some(_), None) => false,
    }
}
