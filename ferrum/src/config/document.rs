//! A parsed TOML file that is read key by key.
//!
//! Each read checks the type, remembers that the key is known and where it stands; what nobody
//! asked for is left over and becomes a notice. It decides nothing about what values mean.

use super::error::ConfigError;
use ferrum_proto::charter::Origin;
use ferrum_proto::terms::PathBytes;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file's text with what reading it brought up.
pub(super) struct Document<'a> {
    pub file: &'a Path,
    pub text: &'a str,
    notices: RefCell<Vec<String>>,
    origins: RefCell<Vec<(String, Origin)>>,
}

/// One table of the document.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// Dotted name with a final dot; empty for the top.
    prefix: String,
    table: &'a DeTable<'a>,
    known: RefCell<BTreeSet<&'static str>>,
}

type Found<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Document<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            text,
            notices: RefCell::default(),
            origins: RefCell::default(),
        }
    }

    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'a>>, ConfigError> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(self.text.len(), |span| span.start);
            self.error(at..at, error.message().replace('\n', ": "), "")
        })
    }

    pub(super) fn top(&'a self, table: &'a DeTable<'a>) -> Section<'a> {
        Section {
            document: self,
            prefix: String::new(),
            table,
            known: RefCell::default(),
        }
    }

    /// Line and column of a byte, both from 1; the column counts characters.
    fn position(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().count() + 1;
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (narrow(line), narrow(column))
    }

    pub(super) fn error(&self, span: Range<usize>, message: String, hint: &str) -> ConfigError {
        let (line, column) = self.position(span.start);
        ConfigError {
            file: PathBuf::from(self.file),
            line,
            column,
            message,
            hint: hint.to_owned(),
        }
    }

    pub(super) fn into_findings(self) -> (Vec<String>, Vec<(String, Origin)>) {
        (self.notices.into_inner(), self.origins.into_inner())
    }
}

impl<'a> Section<'a> {
    fn find(&self, key: &'static str) -> Option<Found<'a>> {
        self.known.borrow_mut().insert(key);
        let (_, value) = self
            .table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)?;
        let (line, _) = self.document.position(value.span().start);
        let origin = Origin::User {
            file: PathBytes::from(self.document.file),
            line,
        };
        self.document.origins.borrow_mut().push((self.name(key), origin));
        Some(value)
    }

    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// An error that points at the value of `key`, or at the start of the file without one.
    pub(super) fn error(&self, key: &str, message: &str, hint: &str) -> ConfigError {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        let span = found.map_or(0..0, |(_, value)| value.span());
        self.document
            .error(span, format!("`{}` {message}", self.name(key)), hint)
    }

    fn wrong(&self, key: &str, wanted: &str, value: Found<'_>) -> ConfigError {
        let message = format!("must be {wanted}, not {}", describe(value.get_ref()));
        self.error(key, &message, "")
    }

    pub(super) fn string(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.wrong(key, "a string", value)),
        }
    }

    pub(super) fn boolean(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        match value.get_ref().as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.wrong(key, "true or false", value)),
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        let number = integer(value.get_ref()).and_then(|n| u64::try_from(n).ok());
        match number {
            Some(n) if (least..=most).contains(&n) => Ok(Some(n)),
            _ => Err(self.wrong(key, &format!("a whole number from {least} to {most}"), value)),
        }
    }

    /// Bytes: a whole number, or a string such as `"512M"` or `"4G"`.
    pub(super) fn size(&self, key: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        let bytes = match value.get_ref() {
            DeValue::String(text) => parse_size(text),
            other => integer(other).and_then(|n| u64::try_from(n).ok()),
        };
        match bytes {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(self.wrong(
                key,
                "a number of bytes, or a text such as \"512M\" or \"4G\"",
                value,
            )),
        }
    }

    pub(super) fn strings(&self, key: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        let items = value.get_ref().as_array().map(|items| items.iter());
        let texts = items.map(|items| {
            items
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        match texts.flatten() {
            Some(texts) => Ok(Some(texts)),
            None => Err(self.wrong(key, "a list of strings", value)),
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        let text = value.get_ref().as_str();
        match words.iter().find(|(word, _)| Some(*word) == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let list: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Err(self.wrong(key, &format!("one of {}", list.join(", ")), value))
            }
        }
    }

    /// True when `key` holds a table: some keys may be a word or a table.
    pub(super) fn is_table(&self, key: &str) -> bool {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        found.is_some_and(|(_, value)| value.get_ref().is_table())
    }

    pub(super) fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(None);
        };
        match value.get_ref().as_table() {
            Some(table) => Ok(Some(self.below(key, table))),
            None => Err(self.wrong(key, "a table", value)),
        }
    }

    /// A table whose keys are names of the user's choice, each with a table.
    pub(super) fn named_sections(
        &self,
        key: &'static str,
    ) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let Some(outer) = self.section(key)? else {
            return Ok(Vec::new());
        };
        let mut sections = Vec::new();
        for (name, value) in outer.table {
            let name = name.get_ref().as_ref();
            match value.get_ref().as_table() {
                Some(table) => sections.push((name.to_owned(), outer.below(name, table))),
                None => return Err(outer.wrong(name, "a table", value)),
            }
        }
        Ok(sections)
    }

    /// An array of tables.
    pub(super) fn listed_sections(&self, key: &'static str) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some(value) = self.find(key) else {
            return Ok(Vec::new());
        };
        let wrong = || self.wrong(key, "a list of tables", value);
        let items = value.get_ref().as_array().ok_or_else(wrong)?;
        let tables = items.iter().map(|item| item.get_ref().as_table());
        tables
            .map(|table| Ok(self.below(key, table.ok_or_else(wrong)?)))
            .collect()
    }

    /// A table whose keys are names of the user's choice, each with a string.
    pub(super) fn named_strings(&self, key: &'static str) -> Result<Vec<(String, String)>, ConfigError> {
        let Some(outer) = self.section(key)? else {
            return Ok(Vec::new());
        };
        let mut pairs = Vec::new();
        for (name, value) in outer.table {
            let name = name.get_ref().as_ref();
            match value.get_ref().as_str() {
                Some(text) => pairs.push((name.to_owned(), text.to_owned())),
                None => return Err(outer.wrong(name, "a string", value)),
            }
        }
        Ok(pairs)
    }

    /// A table that is passed on as it stands.
    pub(super) fn json(
        &self,
        key: &'static str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, ConfigError> {
        let Some(outer) = self.section(key)? else {
            return Ok(serde_json::Map::new());
        };
        let pairs = outer.table.iter();
        let wrong = |name: &str| {
            self.error(
                key,
                &format!("holds `{name}`, a value that JSON cannot express"),
                "",
            )
        };
        pairs
            .map(|(name, value)| {
                let name = name.get_ref().as_ref();
                let value = to_json(value.get_ref()).ok_or_else(|| wrong(name))?;
                Ok((name.to_owned(), value))
            })
            .collect()
    }

    fn below(&self, key: &str, table: &'a DeTable<'a>) -> Section<'a> {
        Section {
            document: self.document,
            prefix: format!("{}{key}.", self.prefix),
            table,
            known: RefCell::default(),
        }
    }

    /// Notes every key that nobody asked for, each with the nearest one that exists. Unknown keys
    /// are no error here: the file is shared with other versions.
    pub(super) fn finish(self) {
        let known = self.known.borrow();
        for (name, _) in self.table {
            let key = name.get_ref().as_ref();
            if known.contains(key) {
                continue;
            }
            let (line, _) = self.document.position(name.span().start);
            let near =
                nearest(key, &known).map_or(String::new(), |near| format!(" (did you mean `{near}`?)"));
            let file = self.document.file.display();
            let notice = format!("{file}:{line}: unknown key `{}` is ignored{near}", self.name(key));
            self.document.notices.borrow_mut().push(notice);
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        // A short word is worth repeating; anything else might be a misplaced secret.
        DeValue::String(text) if text.len() <= 16 => format!("\"{}\"", text.escape_debug()),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        other => format!("a value of type {}", other.type_str()),
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim() {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Depth is bounded by the TOML parser.
fn to_json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    Some(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(_) => integer(value)?.into(),
        DeValue::Float(number) => serde_json::Number::from_f64(number.as_str().parse().ok()?)?.into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(when) => when.to_string().into(),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| to_json(item.get_ref()));
            serde_json::Value::Array(items.collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let pairs = table.iter();
            let pairs =
                pairs.map(|(name, value)| Some((name.get_ref().to_string(), to_json(value.get_ref())?)));
            serde_json::Value::Object(pairs.collect::<Option<_>>()?)
        }
    })
}

/// The known key that a typing error most likely meant.
fn nearest<'k>(key: &str, known: &BTreeSet<&'k str>) -> Option<&'k str> {
    /// Longer names are no typing error of ours; it also bounds the work.
    const KEY_CHARS_MAX: usize = 64;
    if key.chars().count() > KEY_CHARS_MAX {
        return None;
    }
    let scored = known.iter().map(|name| (distance(key, name), *name));
    let (score, name) = scored.min()?;
    (score <= 1 + name.len() / 4).then_some(name)
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_binary_unit() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512M", Some(512 << 20)),
            ("4 GiB", Some(4 << 30)),
            ("7K", Some(7 << 10)),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "1T",
            "1.5G",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn a_typing_error_finds_its_key_and_a_strange_word_none() {
        let known = BTreeSet::from(["provider", "model", "safety", "max_tool_rounds"]);
        assert_eq!(nearest("providr", &known), Some("provider"));
        assert_eq!(nearest("safty", &known), Some("safety"));
        assert_eq!(nearest("max_tools_rounds", &known), Some("max_tool_rounds"));
        assert_eq!(nearest("colour_of_money", &known), None);
    }
}
