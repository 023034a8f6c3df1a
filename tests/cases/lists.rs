//! Results that are lists: matches of `grep`, paths of `find`, entries of `ls`.

use std::collections::BTreeSet;

/// `path:line` of each matching line.
pub fn matches(text: &str) -> BTreeSet<(String, i64)> {
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (path, number) = (parts.next()?, parts.next()?);
            parts.next()?;
            Some((plain(path), number.parse().ok()?))
        })
        .collect()
}

/// One path a line, without the notes in brackets.
pub fn entries(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['[', '(']) && *line != "no matches")
        .map(plain)
        .collect()
}

fn plain(path: &str) -> String {
    path.strip_prefix("./").unwrap_or(path).to_owned()
}
