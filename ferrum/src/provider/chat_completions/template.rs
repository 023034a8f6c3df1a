//! A long answer is thousands of chunks that differ in their words alone. Once one of them was
//! read, the next is compared with it instead of being parsed. Pure.

use std::borrow::Cow;

/// The bytes around the words of the last chunk that held nothing else; quotes belong to them.
#[derive(Default)]
pub(super) struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Template {
    /// The words of `json`, if it is the same as the chunk before but for them. What is between
    /// equal bytes is one JSON string in both, so nothing else can be hidden in it.
    pub(super) fn words<'a>(&self, json: &'a [u8]) -> Option<Cow<'a, str>> {
        if self.before.is_empty() {
            return None;
        }
        let rest = json.strip_prefix(self.before.as_slice())?;
        let words = rest.strip_suffix(self.after.as_slice())?;
        let is_plain =
            memchr::memchr2(b'"', b'\\', words).is_none() && words.iter().all(|byte| *byte >= 0x20);
        if is_plain {
            return std::str::from_utf8(words).ok().map(Cow::Borrowed);
        }
        let quoted = &json[self.before.len() - 1..=json.len() - self.after.len()];
        serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned)
    }

    /// Takes the form of a chunk whose words are a part of it.
    pub(super) fn learn(&mut self, json: &[u8], words: &str) {
        let from = (words.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
        let to = from.saturating_add(words.len());
        let is_quoted = from > 0 && json.get(from - 1) == Some(&b'"') && json.get(to) == Some(&b'"');
        self.before.clear();
        self.after.clear();
        if is_quoted {
            self.before.extend_from_slice(&json[..from]);
            self.after.extend_from_slice(&json[to..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::plain_text;
    use super::*;
    use proptest::prelude::*;

    fn chunk(words: &str) -> String {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":{words}}},"finish_reason":null}}]}}"#
        )
    }

    fn learned() -> Template {
        let json = chunk(r#""a""#);
        let mut template = Template::default();
        let Some(Cow::Borrowed(words)) = plain_text(json.as_bytes()) else {
            panic!("words that are a part of their chunk")
        };
        template.learn(json.as_bytes(), words);
        template
    }

    #[test]
    fn only_the_words_may_differ() {
        let read = |json: &str| learned().words(json.as_bytes()).map(Cow::into_owned);
        assert_eq!(read(&chunk(r#""b ☃""#)), Some("b ☃".into()));
        assert_eq!(read(&chunk(r#""""#)), Some(String::new()));
        assert_eq!(read(&chunk(r#""a\n\"b\\""#)), Some("a\n\"b\\".into()));
        for other in [
            r#""b","tool_calls":[{}],"x":"y""#,
            r#""b\""#,
            "\"\u{1}\"",
            r#""\ud800""#,
            "null",
            r#""a"}},{"delta":{"content":"b""#,
        ] {
            assert_eq!(read(&chunk(other)), None, "{other}");
        }
        assert_eq!(read(&chunk(r#""b""#).replace("null", r#""stop""#)), None);
        assert_eq!(read(""), None);
        assert_eq!(Template::default().words(b""), None);
    }

    proptest! {
        /// Whatever it reads, the parser reads as well and the same.
        #[test]
        fn it_agrees_with_the_parser(words in r#"["\\a-c{}:,\[\]u0-9 ]{0,12}"#) {
            let json = chunk(&format!("\"{words}\""));
            if let Some(found) = learned().words(json.as_bytes()) {
                prop_assert_eq!(plain_text(json.as_bytes()), Some(found));
            }
        }
    }
}
