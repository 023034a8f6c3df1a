//! Help after a failed match: the lines of the file that come nearest, and what sets them apart.
//! Only ever shown, never applied.

use crate::fs::name::shown_content;

/// Lines of a file that are looked at; in a longer file the help covers its start.
const LINES_MAX: usize = 50_000;
/// Bytes of one line that are compared and shown.
const LINE_BYTES_MAX: usize = 200;
/// Candidates shown.
const CANDIDATES_MAX: usize = 3;
/// Lines of one candidate that are shown.
const CANDIDATE_LINES_MAX: usize = 8;
/// Least likeness of a candidate, in percent.
const LIKENESS_MIN: usize = 50;

/// One or more lines of help.
pub(super) fn help(text: &str, old: &str) -> String {
    let lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    let wanted: Vec<&str> = old.lines().collect();
    if let Some((start, cause)) = differing_only(&lines, &wanted) {
        let shown = excerpt(&lines, start, wanted.len());
        return format!("0 matches; these lines differ from it only in {cause}:\n{shown}");
    }
    let candidates = nearest(&lines, &wanted);
    if candidates.is_empty() {
        return "0 matches, and no line of the file is like it; read the file again".to_owned();
    }
    let shown: Vec<String> = candidates
        .into_iter()
        .map(|start| excerpt(&lines, start, wanted.len()))
        .collect();
    format!("0 matches; the nearest lines are:\n{}", shown.join("\n  …\n"))
}

/// Makes lines equal that differ only in one kind of thing.
type Fold = fn(&str) -> String;

/// What may be folded away before a comparison, weakest first, and its name.
const FOLDS: [(&str, Fold); 4] = [
    ("white space", fold_space),
    ("quotes or dashes", fold_marks),
    ("accents or their Unicode form", fold_accents),
    ("white space and quotes or dashes", fold_both),
];

/// Lines that are equal to the wanted ones once a kind of difference is folded away. The first
/// and last wanted line may be parts of a line.
fn differing_only(lines: &[&str], wanted: &[&str]) -> Option<(usize, &'static str)> {
    FOLDS.into_iter().find_map(|(cause, fold)| {
        let wanted: Vec<String> = wanted.iter().map(|line| fold(line)).collect();
        if wanted.iter().all(|line| line.trim().is_empty()) {
            return None;
        }
        let folded: Vec<String> = lines.iter().map(|line| fold(bounded(line))).collect();
        let fits = |window: &[String]| match (window, wanted.as_slice()) {
            ([line], [part]) => line.contains(part.as_str()),
            ([first, inner @ .., last], [head, middle @ .., tail]) => {
                first.ends_with(head.as_str()) && inner == middle && last.starts_with(tail.as_str())
            }
            _ => false,
        };
        folded
            .windows(wanted.len())
            .position(fits)
            .map(|start| (start, cause))
    })
}

fn fold_space(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fold_marks(line: &str) -> String {
    line.chars()
        .map(|c| match c {
            '‘' | '’' | '‚' | '‛' | '“' | '”' | '„' | '‟' | '"' | '\'' | '`' | '´' | '«' | '»' => {
                '"'
            }
            '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' => '-',
            other => other,
        })
        .collect()
}

/// A letter with an accent looks the same as one character or as two.
fn fold_accents(line: &str) -> String {
    let mut folded = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\u{300}'..='\u{36f}' if folded.ends_with('?') => {}
            '\u{300}'..='\u{36f}' => {
                folded.pop();
                folded.push('?');
            }
            _ if c.is_alphabetic() && !c.is_ascii() => folded.push('?'),
            _ => folded.push(c),
        }
    }
    folded
}

fn fold_both(line: &str) -> String {
    fold_marks(&fold_space(line))
}

/// First lines of the places most like the first telling line of `wanted`.
fn nearest(lines: &[&str], wanted: &[&str]) -> Vec<usize> {
    let telling = wanted
        .iter()
        .enumerate()
        .max_by_key(|(index, line)| (line.trim().len().min(LINE_BYTES_MAX), std::cmp::Reverse(*index)));
    let Some((offset, line)) = telling else {
        return Vec::new();
    };
    let pairs = pairs(bounded(line));
    let mut scored: Vec<(usize, usize)> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (likeness(&pairs, bounded(line)), index))
        .filter(|(score, _)| *score >= LIKENESS_MIN)
        .collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    scored
        .into_iter()
        .take(CANDIDATES_MAX)
        .map(|(_, index)| index.saturating_sub(offset))
        .collect()
}

/// Sorted pairs of neighbouring bytes, without the white space around.
fn pairs(line: &str) -> Vec<[u8; 2]> {
    let mut pairs: Vec<[u8; 2]> = line
        .trim()
        .as_bytes()
        .windows(2)
        .filter_map(|pair| <[u8; 2]>::try_from(pair).ok())
        .collect();
    pairs.sort_unstable();
    pairs
}

/// Share of common pairs (Dice's coefficient), in percent.
fn likeness(wanted: &[[u8; 2]], line: &str) -> usize {
    let length = line.trim().len().saturating_sub(1);
    let total = wanted.len() + length;
    // A line of another length by far cannot reach the bound.
    if total == 0 || 200 * wanted.len().min(length) < LIKENESS_MIN * total {
        return 0;
    }
    let other = pairs(line);
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < wanted.len() && j < other.len() {
        match wanted[i].cmp(&other[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                (i, j, common) = (i + 1, j + 1, common + 1);
            }
        }
    }
    200 * common / total
}

fn excerpt(lines: &[&str], start: usize, length: usize) -> String {
    let shown = length.clamp(1, CANDIDATE_LINES_MAX);
    let numbered = lines.iter().enumerate().skip(start).take(shown);
    let text: Vec<String> = numbered
        .map(|(index, line)| format!("{:>6}: {}", index + 1, shown_content(bounded(line).as_bytes())))
        .collect();
    text.join("\n")
}

fn bounded(line: &str) -> &str {
    let mut end = line.len().min(LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::help;

    #[test]
    fn the_cause_is_named_with_the_line() {
        let space = help("if x:\n\tgo()\n    stay()\n", "if x:\n    go()");
        assert!(
            space.contains("only in white space") && space.contains("     1: if x:\n     2: \tgo()"),
            "{space}"
        );
        let quotes = help("a\nmsg = “hello”\n", "msg = \"hello\"");
        assert!(
            quotes.contains("only in quotes or dashes") && quotes.contains("2: msg = “hello”"),
            "{quotes}"
        );
    }

    #[test]
    fn composed_and_decomposed_letters_are_told_apart() {
        let form = help("cafe\u{301} = 1\n", "café = 1");
        assert!(form.contains("only in accents or their Unicode form"), "{form}");
    }

    #[test]
    fn the_nearest_lines_are_numbered() {
        let text = "fn main() {\n    let total = sum(&values);\n    println!(\"{total}\");\n}\n";
        let near = help(text, "let total = sum(&value_list);");
        assert!(near.contains("2:     let total = sum(&values);"), "{near}");
        assert!(help("abc\n", "something else entirely").contains("no line of the file is like it"));
        assert!(help("", "x").contains("no line"));
    }

    #[test]
    fn long_lines_and_odd_text_are_bounded() {
        let long = "é".repeat(10_000);
        assert!(help(&long, &"é".repeat(9_999)).len() < 2000);
        help("\n\n\n", "\n \n");
    }
}
