//! Text of files: UTF-8 with the place of the first bad byte, byte order mark, line ends.

use std::borrow::Cow;
use std::ops::Range;

/// The UTF-8 byte order mark.
pub const BOM: &str = "\u{feff}";

/// Says where `bytes` stop being UTF-8, and what they may be instead.
///
/// # Errors
/// A sentence with line, byte and offset of the first bad byte.
pub fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        let kind = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "; it looks like UTF-16",
            _ => "",
        };
        format!(
            "not UTF-8: byte 0x{:02x} at offset {at}, line {line}{kind}",
            bytes[at]
        )
    })
}

/// Text in which every line ends with LF alone, and the way back to the original. A lone CR is
/// ordinary data.
#[derive(Debug)]
pub struct Unified<'a> {
    text: Cow<'a, str>,
    /// Places in `text` of each LF that was CRLF, ascending.
    crlf: Vec<usize>,
}

impl<'a> Unified<'a> {
    #[must_use]
    pub fn new(original: &'a str) -> Self {
        if !original.contains("\r\n") {
            return Self {
                text: Cow::Borrowed(original),
                crlf: Vec::new(),
            };
        }
        let mut text = String::with_capacity(original.len());
        let mut crlf = Vec::new();
        for piece in original.split_inclusive("\r\n") {
            match piece.strip_suffix("\r\n") {
                Some(line) => {
                    text.push_str(line);
                    crlf.push(text.len());
                    text.push('\n');
                }
                None => text.push_str(piece),
            }
        }
        Self {
            text: Cow::Owned(text),
            crlf,
        }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The range of the original that a range of the unified text stands for.
    #[must_use]
    pub fn original(&self, range: &Range<usize>) -> Range<usize> {
        let shift = |at: usize| at + self.crlf.partition_point(|place| *place < at);
        shift(range.start)..shift(range.end)
    }

    /// `new`, unified, with the line ends of the lines that it replaces: the first of its lines
    /// ends like the first replaced one and so on, further ones like the last. Where no line end
    /// is replaced, the nearest one of the file counts.
    #[must_use]
    pub fn with_ends_of(&self, range: &Range<usize>, new: &str) -> String {
        let ends = self.ends_in(range);
        let nearest = ends.last().copied().unwrap_or_else(|| self.nearest_end(range));
        let mut ends = ends.into_iter();
        let mut out = String::with_capacity(new.len());
        for piece in new.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(line) => {
                    out.push_str(line);
                    out.push_str(if ends.next().unwrap_or(nearest) {
                        "\r\n"
                    } else {
                        "\n"
                    });
                }
                None => out.push_str(piece),
            }
        }
        out
    }

    /// Whether each line end in `range` is CRLF.
    fn ends_in(&self, range: &Range<usize>) -> Vec<bool> {
        let places = self.text[range.clone()].match_indices('\n');
        places.map(|(at, _)| self.is_crlf(range.start + at)).collect()
    }

    fn nearest_end(&self, range: &Range<usize>) -> bool {
        let after = self.text[range.end..].find('\n').map(|at| range.end + at);
        let place = after.or_else(|| self.text[..range.start].rfind('\n'));
        place.is_some_and(|place| self.is_crlf(place))
    }

    fn is_crlf(&self, place: usize) -> bool {
        self.crlf.binary_search(&place).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_byte_is_named() {
        let error = utf8(b"a\nb\xe9c".to_vec()).unwrap_err();
        assert_eq!(error, "not UTF-8: byte 0xe9 at offset 3, line 2");
        assert!(utf8(vec![0xff, 0xfe, b'a', 0]).unwrap_err().contains("UTF-16"));
    }

    #[test]
    fn ranges_lead_back_to_the_original() {
        let original = "a\r\nb\nc\r\nd\re";
        let unified = Unified::new(original);
        assert_eq!(unified.text(), "a\nb\nc\nd\re");
        assert_eq!(&original[unified.original(&(0..2))], "a\r\n");
        assert_eq!(&original[unified.original(&(1..4))], "\r\nb\n");
        assert_eq!(&original[unified.original(&(4..6))], "c\r\n");
        assert_eq!(&original[unified.original(&(6..9))], "d\re");
    }

    #[test]
    fn new_lines_end_like_those_that_they_replace() {
        let unified = Unified::new("a\r\nb\nc");
        assert_eq!(unified.with_ends_of(&(0..4), "1\n2\n3\n"), "1\r\n2\n3\n");
        assert_eq!(unified.with_ends_of(&(0..1), "1\n2"), "1\r\n2");
        assert_eq!(unified.with_ends_of(&(4..5), "1\n2"), "1\n2");
        assert_eq!(Unified::new("x").with_ends_of(&(0..1), "1\n2"), "1\n2");
    }

    proptest::proptest! {
        #[test]
        fn every_range_of_whole_lines_is_found_again(original in "[ab\r\n]{0,40}") {
            let unified = Unified::new(&original);
            let whole = unified.original(&(0..unified.text().len()));
            proptest::prop_assert_eq!(whole, 0..original.len());
            for (at, _) in unified.text().match_indices('\n') {
                let range = unified.original(&(0..at + 1));
                proptest::prop_assert!(original[range].ends_with('\n'));
            }
        }
    }
}
