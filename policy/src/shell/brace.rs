//! Brace expansion: `src/{a,b}` is two words.

use super::limits::BRACE_WORDS_MAX;
use super::script::{Arithmetic, Param, Piece, Word};

/// Expands the unquoted comma lists of a word. A range (`{1..3}`) becomes a pattern piece. A word
/// that would become too many is returned as one dynamic word.
pub(super) fn expand(word: Word) -> Vec<Word> {
    let mut pending = vec![word];
    let mut out = Vec::new();
    while let Some(word) = pending.pop() {
        if pending.len() + out.len() > BRACE_WORDS_MAX {
            return vec![dynamic(word)];
        }
        match split(&word) {
            None => out.push(word),
            Some(words) => pending.extend(words.into_iter().rev()),
        }
    }
    out
}

fn dynamic(word: Word) -> Word {
    let piece = Piece::Param(Param {
        name: String::new(),
        indirect: false,
        assigns: false,
        defaults: true,
        numbers: Arithmetic::default(),
        keyed: false,
        inner: word.pieces,
    });
    Word {
        pieces: vec![piece],
        span: word.span,
    }
}

/// A position in a word: piece and byte in its literal.
type At = (usize, usize);

/// The words that the first brace expression makes.
fn split(word: &Word) -> Option<Vec<Word>> {
    let marks = marks(word);
    for (index, (open, c)) in marks.iter().enumerate() {
        if *c != '{' {
            continue;
        }
        let (mut depth, mut cuts) = (0_usize, vec![*open]);
        for (at, c) in &marks[index..] {
            match c {
                '{' => depth += 1,
                ',' if depth == 1 => cuts.push(*at),
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        cuts.push(*at);
                        break;
                    }
                }
                _ => {}
            }
        }
        if depth == 0 && cuts.len() > 2 {
            return Some(alternatives(word, &cuts));
        }
        if depth == 0
            && let [open, close] = cuts[..]
            && let Some(word) = range(word, open, close)
        {
            return Some(vec![word]);
        }
    }
    None
}

fn marks(word: &Word) -> Vec<(At, char)> {
    let mut out = Vec::new();
    for (index, piece) in word.pieces.iter().enumerate() {
        if let Piece::Literal { text, quoted: false } = piece {
            let found = text.char_indices().filter(|(_, c)| "{,}".contains(*c));
            out.extend(found.map(|(at, c)| ((index, at), c)));
        }
    }
    out
}

fn alternatives(word: &Word, cuts: &[At]) -> Vec<Word> {
    let (first, last) = (cuts[0], cuts[cuts.len() - 1]);
    let parts = cuts.windows(2).map(|pair| {
        let mut pieces = slice(word, (0, 0), first);
        pieces.extend(slice(word, after(pair[0]), pair[1]));
        pieces.extend(slice(word, after(last), (word.pieces.len(), 0)));
        rejoin(pieces, word)
    });
    parts.collect()
}

/// `{a..b}` as a pattern; its members hold no slash.
fn range(word: &Word, open: At, close: At) -> Option<Word> {
    let inside = slice(word, after(open), close);
    let [Piece::Literal { text, .. }] = inside.as_slice() else {
        return None;
    };
    if !text.contains("..") || text.contains('/') {
        return None;
    }
    let mut pieces = slice(word, (0, 0), open);
    pieces.push(Piece::Glob(format!("{{{text}}}")));
    pieces.extend(slice(word, after(close), (word.pieces.len(), 0)));
    Some(rejoin(pieces, word))
}

fn after(at: At) -> At {
    (at.0, at.1 + 1)
}

/// The pieces from `from` up to `to`.
fn slice(word: &Word, from: At, to: At) -> Vec<Piece> {
    let mut out = Vec::new();
    for (index, piece) in word.pieces.iter().enumerate() {
        if index < from.0 || index > to.0 {
            continue;
        }
        match piece {
            Piece::Literal { text, quoted } => {
                let start = if index == from.0 { from.1 } else { 0 };
                let end = if index == to.0 { to.1 } else { text.len() };
                if start < end && end <= text.len() {
                    out.push(Piece::Literal {
                        text: text[start..end].to_owned(),
                        quoted: *quoted,
                    });
                }
            }
            other if index < to.0 => out.push(other.clone()),
            _ => {}
        }
    }
    out
}

fn rejoin(pieces: Vec<Piece>, word: &Word) -> Word {
    let mut out = Word {
        pieces: Vec::new(),
        span: word.span.clone(),
    };
    for piece in pieces {
        match piece {
            Piece::Literal { text, quoted } => out.push_literal(&text, quoted),
            other => out.pieces.push(other),
        }
    }
    out
}
