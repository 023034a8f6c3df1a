//! Untrusted text made fit for a terminal: no control sequence of a model, a file or a program
//! reaches it, and nothing in it can change how other text looks.

use std::fmt::Write as _;
use vte::{Params, Parser, Perform};

/// The whole of `text`, cleaned.
#[must_use]
pub fn sanitise(text: &str) -> String {
    let mut cleaner = Sanitiser::default();
    let mut out = cleaner.push(text);
    out.push_str(&cleaner.finish());
    out
}

/// Cleans text that comes in pieces: a sequence cut between two of them is still one.
#[derive(Default)]
pub struct Sanitiser {
    parser: Parser,
    plain: Plain,
}

impl Sanitiser {
    /// What of `text` can be shown now.
    pub fn push(&mut self, text: &str) -> String {
        self.parser.advance(&mut self.plain, text.as_bytes());
        std::mem::take(&mut self.plain.out)
    }

    /// What was held back.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.plain.end_carriage();
        self.plain.out
    }
}

/// Collects what is left when control sequences are taken out.
#[derive(Default)]
struct Plain {
    out: String,
    /// A carriage return whose meaning the next character decides.
    carriage: bool,
}

impl Plain {
    /// A lone carriage return would let later text overwrite earlier text; it becomes a line end.
    fn end_carriage(&mut self) {
        if std::mem::take(&mut self.carriage) {
            self.out.push('\n');
        }
    }
}

impl Perform for Plain {
    fn print(&mut self, c: char) {
        self.end_carriage();
        if is_invisible_order(c) {
            // Writing to a string cannot fail.
            let _ = write!(self.out, "<U+{:04X}>", u32::from(c));
        } else if !c.is_control() {
            self.out.push(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.carriage = false;
                self.out.push('\n');
            }
            b'\r' => {
                self.end_carriage();
                self.carriage = true;
            }
            b'\t' => {
                self.end_carriage();
                self.out.push('\t');
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, _: &Params, _: &[u8], _: bool, _: char) {}
    fn osc_dispatch(&mut self, _: &[&[u8]], _: bool) {}
    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {}
}

/// Untrusted text within a line of ours, wherever it goes: what would begin another line, steer a
/// terminal or reorder text is written out.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible_order(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that reorder or hide text: bidirectional controls and the tag block.
fn is_invisible_order(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Hides `<think>…</think>` blocks in text that comes in pieces. A block that never closes is
/// hidden only where it begins the text; elsewhere the tag was meant as text.
#[derive(Default)]
pub struct ThinkFilter {
    held: String,
    inside: bool,
    shown: bool,
}

impl ThinkFilter {
    /// What of `text` can be shown now.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let mut out = String::new();
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            let Some(at) = self.held.find(tag) else { break };
            if self.inside {
                // White space after the block belongs to it.
                self.held = self.held[at + tag.len()..]
                    .trim_start_matches(['\n', '\r'])
                    .to_owned();
                self.inside = false;
            } else {
                out.push_str(&self.held[..at]);
                self.held.drain(..at);
                self.shown |= !out.trim().is_empty();
                self.inside = true;
            }
        }
        if !self.inside {
            let keep = partial_tag(&self.held);
            let end = self.held.len() - keep;
            out.push_str(&self.held[..end]);
            self.held.drain(..end);
            self.shown |= !out.trim().is_empty();
        }
        out
    }

    /// What was held back and turned out to be text.
    #[must_use]
    pub fn finish(self) -> String {
        if self.inside && !self.shown {
            String::new()
        } else {
            self.held
        }
    }
}

/// Length of the text's end that might be the beginning of an opening tag.
fn partial_tag(text: &str) -> usize {
    (1..OPEN.len())
        .rev()
        .find(|&n| text.ends_with(&OPEN[..n]))
        .unwrap_or(0)
}

/// The whole of an answer as a reader sees it, with thinking hidden.
#[must_use]
pub fn without_thinking(text: &str) -> String {
    let mut filter = ThinkFilter::default();
    let mut out = filter.push(text);
    out.push_str(&filter.finish());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_cannot_begin_a_line_of_its_own() {
        assert_eq!(
            one_line("a\nok: 1\u{1b}[1m\u{202e}ü"),
            "a\\nok: 1\\u{1b}[1m\\u{202e}ü"
        );
    }
    use proptest::prelude::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(sanitise(input), expected, "{input:?}");
        for cut in (0..=input.len()).filter(|at| input.is_char_boundary(*at)) {
            let mut cleaner = Sanitiser::default();
            let mut out = cleaner.push(&input[..cut]);
            out.push_str(&cleaner.push(&input[cut..]));
            out.push_str(&cleaner.finish());
            assert_eq!(out, expected, "{input:?} cut at {cut}");
        }
    }

    #[test]
    fn control_sequences_go_and_text_stays() {
        check("a\tb\nc ☃", "a\tb\nc ☃");
        check("\x1b[31mred\x1b[0m", "red");
        check("\x1b]0;title\x07x", "x");
        check("\x1b]52;c;aGk=\x1b\\x", "x");
        check("\x1bP1$r0m\x1b\\x", "x");
        check("\x1bcx\x1b7y", "xy");
        check("a\u{9b}31mb", "a31mb");
        check("a\x07\x08\x00b\x7f", "ab");
        check("one\r\ntwo\rthree", "one\ntwo\nthree");
        check("end\r", "end\n");
        check("a\u{202e}b\u{2066}c", "a<U+202E>b<U+2066>c");
    }

    #[test]
    fn thinking_is_hidden_wherever_it_is_cut() {
        let hide = |input: &str, expected: &str| {
            for cut in (0..=input.len()).filter(|at| input.is_char_boundary(*at)) {
                let mut filter = ThinkFilter::default();
                let mut out = filter.push(&input[..cut]);
                out.push_str(&filter.push(&input[cut..]));
                out.push_str(&filter.finish());
                assert_eq!(out.trim_start(), expected, "{input:?} cut at {cut}");
            }
        };
        hide("<think>secret</think>Visible", "Visible");
        hide("a<think>b</think>c<think>d</think>e", "ace");
        hide("<think>never closed", "");
        hide("write `<think>` first", "write `<think>` first");
        hide("a < b <th", "a < b <th");
        assert_eq!(without_thinking("<think>x</think>\n\nHi"), "Hi");
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left(text in any::<String>(), raw in proptest::collection::vec(any::<u8>(), 0..80)) {
            for text in [text, String::from_utf8_lossy(&raw).into_owned()] {
                let clean = sanitise(&text);
                let safe = clean.chars().all(|c| !c.is_control() || c == '\n' || c == '\t');
                prop_assert!(safe);
            }
        }
    }
}
