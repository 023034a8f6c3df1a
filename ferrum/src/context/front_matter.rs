//! The head of a SKILL.md: YAML between two lines of three dashes.

use super::regular::text_of;
use serde::Deserialize;

/// Bytes from the start of the file within which the head must end.
pub(super) const HEAD_BYTES_MAX: u64 = 32 << 10;

/// What a head says; other keys are other programs'.
#[derive(Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct FrontMatter {
    pub name: Option<String>,
    pub description: Option<String>,
    /// Only the operator calls it up; the model is not told of it.
    pub disable_model_invocation: bool,
}

/// Reads the head off the beginning of a file.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that begins with the path.
pub(super) fn parse(bytes: &[u8]) -> Result<FrontMatter, String> {
    let (text, bad) = text_of(bytes, false);
    if let Some(at) = bad {
        return Err(format!("byte {at} is not UTF-8"));
    }
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some("---") {
        return Err("does not begin with front matter (a line ---)".to_owned());
    }
    let mut head = String::new();
    for line in lines {
        if line.trim_end() == "---" {
            let parsed = serde_saphyr::from_str::<FrontMatter>(&head);
            return parsed.map_err(|error| {
                let text = error.to_string();
                format!(
                    "has front matter that is no YAML: {}",
                    text.lines().next().unwrap_or_default()
                )
            });
        }
        head.push_str(line);
    }
    Err(format!(
        "has front matter that is not closed by a line --- within {} KiB",
        HEAD_BYTES_MAX >> 10
    ))
}

/// One line of text: folded and literal blocks may hold more.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<(String, String)> {
        let found = parse(text.as_bytes()).expect("valid");
        found.name.zip(found.description.map(|text| one_line(&text)))
    }

    #[test]
    fn the_forms_of_yaml_are_read() {
        for (text, name, description) in [
            ("---\nname: a\ndescription: does a\n---\nBody", "a", "does a"),
            (
                "\u{feff}---\r\nname: a\r\ndescription: does a\r\n---\r\nBody\r\n",
                "a",
                "does a",
            ),
            ("--- \nname: c\ndescription: d\n---\t\nBody\n", "c", "d"),
            (
                "---\nname: b\ndescription: >-\n  first line\n  second: line\n---\n",
                "b",
                "first line second: line",
            ),
            (
                "---\nname: b\ndescription: |\n  one\n  two\n---\n",
                "b",
                "one two",
            ),
            ("---\nname: 123\ndescription: yes\n---\n", "123", "yes"),
            (
                "---\n# a remark\nname: !!str b\n\ndescription: c # d\n---\n",
                "b",
                "c",
            ),
            (
                "---\nname: b\ndescription: a\n  folded plain\n  scalar\n---\n",
                "b",
                "a folded plain scalar",
            ),
            ("---\n{name: b, description: \"c, d\"}\n---\n", "b", "c, d"),
            (
                "---\nname: 'it-s' # why\ndescription: \"a: \\\"b\\\"\"\n---",
                "it-s",
                "a: \"b\"",
            ),
            (
                "---\nname: x\nmetadata:\n  author: me\n  tags: [a, b]\ndescription: y\nlicense: MIT\n---\n",
                "x",
                "y",
            ),
        ] {
            assert_eq!(
                read(text),
                Some((name.to_owned(), description.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_broken_is_said() {
        for (text, part) in [
            ("Body", "does not begin"),
            ("", "does not begin"),
            ("---\nname: e\nBody without end\n", "not closed"),
            ("---\nname: [\n---\n", "no YAML"),
            ("---\nname: [a]\n---\n", "no YAML"),
            ("---\nname: a\nname: b\n---\n", "no YAML"),
            ("---\ndescription: >\n\tx\n---\n", "no YAML"),
        ] {
            let why = parse(text.as_bytes()).expect_err(text);
            assert!(why.contains(part) && !why.contains('\n'), "{text}: {why}");
        }
        assert!(
            parse(b"---\nname: \xff\n---\n")
                .expect_err("no text")
                .contains("byte 10")
        );
    }

    proptest! {
        #[test]
        fn no_head_panics_the_reader(head in "[\\[\\]{}a-z:>|&*!%@`'\"#,\\-\\n\\t 0-9.?]{0,200}") {
            let _ = parse(format!("---\n{head}\n---\n").as_bytes());
        }
    }
}
