//! git's config file as git reads it: its entries, and where they stand.

mod harmless;
mod merge;

use harmless::is_harmless;
pub use merge::{Merged, fold_worktree, merge, without_addresses};
use std::collections::BTreeMap;

/// One assignment, with the lines that it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// `section`, lower case.
    section: String,
    subsection: Option<String>,
    /// Lower case.
    name: String,
    value: String,
    /// Half-open range of bytes in the text, whole lines.
    lines: std::ops::Range<usize>,
}

/// A parsed config file. Reading is lenient in what it skips and strict in what it takes: a line
/// that is not understood makes the whole file count as changed in a dangerous way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    entries: Vec<Entry>,
    /// A line that this reader does not understand.
    odd: Option<usize>,
}

/// A full key: section, subsection, name.
type Key = (String, Option<String>, String);

impl Config {
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut config = Self {
            entries: Vec::new(),
            odd: None,
        };
        let (mut section, mut subsection) = (String::new(), None);
        let mut at = 0;
        while at < text.len() {
            let start = at;
            let line = logical_line(text, &mut at);
            let mut rest = line.trim_start();
            if let Some(after) = rest.strip_prefix('[') {
                let Some((head, tail)) = header(after) else {
                    config.odd.get_or_insert(start);
                    continue;
                };
                (section, subsection) = head;
                rest = tail.trim_start();
            }
            if rest.is_empty() || rest.starts_with(['#', ';']) {
                continue;
            }
            match assignment(rest) {
                Some((name, value)) if !section.is_empty() => config.entries.push(Entry {
                    section: section.clone(),
                    subsection: subsection.clone(),
                    name,
                    value,
                    lines: start..at,
                }),
                _ => {
                    config.odd.get_or_insert(start);
                }
            }
        }
        config
    }

    /// The last value of a key, as git takes it.
    #[must_use]
    pub fn value(&self, section: &str, subsection: Option<&str>, name: &str) -> Option<String> {
        self.entries
            .iter()
            .rev()
            .find(|e| e.section == section && e.subsection.as_deref() == subsection && e.name == name)
            .map(|e| e.value.clone())
    }

    /// Keys that can make git run something or look elsewhere, as `section.sub.name`.
    #[must_use]
    pub fn dangerous(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .entries
            .iter()
            .filter(|e| !is_harmless(e))
            .map(|e| shown(&key(e)))
            .collect();
        if self.odd.is_some() {
            names.push("a line that cannot be read".into());
        }
        names.dedup();
        names
    }

    /// Section, name and value of what is not harmless.
    pub fn leading(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let leading = self.entries.iter().filter(|entry| !is_harmless(entry));
        leading.map(|entry| (entry.section.as_str(), entry.name.as_str(), entry.value.as_str()))
    }

    /// Keys of entries that are not harmless, with all their values.
    fn but(&self, is_harmless: &dyn Fn(&Entry) -> bool) -> BTreeMap<Key, Vec<&str>> {
        let mut map: BTreeMap<Key, Vec<&str>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|e| !is_harmless(e)) {
            map.entry(key(entry)).or_default().push(&entry.value);
        }
        map
    }

    fn values(&self) -> BTreeMap<Key, Vec<&str>> {
        let mut map: BTreeMap<Key, Vec<&str>> = BTreeMap::new();
        for entry in &self.entries {
            map.entry(key(entry)).or_default().push(&entry.value);
        }
        map
    }
}

fn key(entry: &Entry) -> Key {
    (
        entry.section.clone(),
        entry.subsection.clone(),
        entry.name.clone(),
    )
}

fn shown((section, subsection, name): &Key) -> String {
    match subsection {
        Some(sub) => format!("{section}.{sub}.{name}"),
        None => format!("{section}.{name}"),
    }
}

/// One line with its continuations; moves `at` past its end. As in git, only a value goes on after
/// a backslash: in a comment or a header it is a character like others.
fn logical_line<'a>(text: &'a str, at: &mut usize) -> &'a str {
    let bytes = text.as_bytes();
    let start = *at;
    let (mut header, mut quoted, mut value, mut comment) = (false, false, false, false);
    while let Some(byte) = bytes.get(*at) {
        *at += 1;
        match byte {
            b'\n' => return &text[start..*at - 1],
            _ if comment => {}
            b'\\' if value => {
                let rest = &bytes[*at..];
                *at += match rest {
                    [b'\r', b'\n', ..] => 2,
                    [] => 0,
                    _ => 1,
                };
            }
            b'\\' if header && quoted && bytes.get(*at).is_some_and(|b| *b != b'\n') => *at += 1,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'#' | b';' => comment = !header,
            b'[' if !value => header = true,
            b']' if header => header = false,
            b'=' if !header => value = true,
            _ => {}
        }
    }
    &text[start..]
}

/// `section]…` or `section "sub"]…` → names and what follows the bracket.
fn header(after: &str) -> Option<((String, Option<String>), &str)> {
    let name_end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))?;
    let name = after[..name_end].to_ascii_lowercase();
    let rest = after[name_end..].trim_start_matches([' ', '\t']);
    if let Some(tail) = rest.strip_prefix(']') {
        // `[branch.main]` is the old spelling of `[branch "main"]`.
        let parts = name
            .split_once('.')
            .map(|(a, b)| (a.to_owned(), Some(b.to_owned())));
        return Some((parts.unwrap_or((name, None)), tail));
    }
    let mut sub = String::new();
    let mut chars = rest.strip_prefix('"')?.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => sub.push(chars.next()?.1),
            '"' => {
                let tail = rest[1 + index + 1..]
                    .trim_start_matches([' ', '\t'])
                    .strip_prefix(']')?;
                return Some(((name, Some(sub)), tail));
            }
            '\n' => return None,
            c => sub.push(c),
        }
    }
    None
}

/// `name`, `name = value` with git's quoting and comments.
fn assignment(line: &str) -> Option<(String, String)> {
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .unwrap_or(line.len());
    let name = line[..end].to_ascii_lowercase();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let rest = line[end..].trim_start_matches([' ', '\t']);
    if rest.trim().is_empty() || rest.starts_with(['#', ';']) {
        return Some((name, "true".into()));
    }
    let mut value = String::new();
    let mut solid = 0;
    let mut quoted = false;
    let mut chars = rest.strip_prefix('=')?.trim_start().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                solid = value.len();
                continue;
            }
            '\\' => match chars.next()? {
                '\n' => continue,
                '\r' if chars.next() == Some('\n') => continue,
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'b' => value.push('\u{8}'),
                c @ ('"' | '\\') => value.push(c),
                _ => return None,
            },
            '#' | ';' if !quoted => break,
            c => value.push(c),
        }
        if quoted || !c.is_whitespace() {
            solid = value.len();
        }
    }
    if quoted {
        return None;
    }
    value.truncate(solid);
    Some((name, value))
}
