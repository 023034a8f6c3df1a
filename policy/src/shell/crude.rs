//! A second, crude reading of a text that cannot be read: every run of words could be a command.
//!
//! Used only to find what no tier runs where an unreadable text is not refused as such. Quotes,
//! operators and parentheses are all taken for blanks or ends, so it sees too much rather than
//! too little.

use super::script::{Piece, Word};
use std::ops::Range;

/// Runs that are looked at, and words of each.
const RUNS_MAX: usize = 256;
const WORDS_MAX: usize = 64;

/// The runs of words of a text, and the files that its redirects would write.
pub(super) struct Crude {
    pub(super) runs: Vec<Vec<Word>>,
    pub(super) outputs: Vec<Word>,
}

/// Takes `text` apart at everything that could end a command.
pub(super) fn read(text: &str, span: &Range<usize>) -> Crude {
    let plain: String = text.replace("\\\n", "").replace(['\'', '"', '\\'], "");
    let mut out = Crude {
        runs: Vec::new(),
        outputs: Vec::new(),
    };
    for run in plain
        .split([';', '|', '&', '\n', '(', ')', '{', '}', '`'])
        .take(RUNS_MAX)
    {
        let mut words = Vec::new();
        let mut written = false;
        let spaced = run.replace('>', " > ").replace('<', " < ");
        for part in spaced.split_whitespace().take(WORDS_MAX) {
            if matches!(part, ">" | "<") {
                written = part == ">";
            } else if std::mem::take(&mut written) {
                out.outputs.push(word(part, span));
            } else {
                words.push(word(part, span));
            }
        }
        // What stands before a command in one run: keywords, assignments, numbers of descriptors.
        let start = words.iter().position(|word| !is_before(&word.prefix().0));
        if let Some(start) = start {
            out.runs.push(words.split_off(start));
        }
    }
    out
}

fn is_before(text: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "if", "then", "elif", "else", "while", "until", "do", "!", "time", "coproc", "$",
    ];
    KEYWORDS.contains(&text)
        || text.chars().all(|c| c.is_ascii_digit())
        || super::wrapper::is_assignment(text)
}

fn word(text: &str, span: &Range<usize>) -> Word {
    let mut out = Word {
        pieces: Vec::new(),
        span: span.clone(),
    };
    let rest = match text.strip_prefix("$HOME").or(text.strip_prefix('~')) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            out.pieces.push(Piece::Home);
            rest
        }
        _ => text,
    };
    for (index, part) in rest.split('*').enumerate() {
        if index > 0 {
            out.pieces.push(Piece::Glob("*".to_owned()));
        }
        out.push_literal(part.trim_start_matches('$'), false);
    }
    out
}
