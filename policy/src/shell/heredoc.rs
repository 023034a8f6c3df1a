//! Here-documents that the grammar cannot read, taken out of the text before it is parsed again.
//!
//! The grammar loses the rest of a line after a here-document's operator: `cat <<E; ls`,
//! `cat <<E 2>&1 | tail`, two of them on one line. Here each operator becomes an input redirect of
//! the same length from a name that no text can hold, and its body blanks. Positions stay.
//!
//! Safe first: whatever this reader is not sure of is left alone, and then stays unreadable. It
//! looks only at texts that the grammar has failed on.

use super::deny::Deny;
use super::limits::HEREDOCS_MAX;
use super::script::Word;
use super::{audit, lower, parse};
use std::ops::Range;

/// What stands in for an operator and its delimiter. Texts with it are refused before.
const MARK: char = '\u{1}';

/// One here-document.
#[derive(Debug, Clone)]
pub(super) struct Heredoc {
    /// The operator and the delimiter.
    pub(super) operator: Range<usize>,
    pub(super) quoted: bool,
    /// Leading tabs are taken off.
    strips: bool,
    delimiter: String,
    body: Range<usize>,
    /// The body as a word, once it was read.
    pub(super) word: Option<Word>,
}

/// The text for the parser, and what was taken out of it.
pub(super) struct Extracted {
    pub(super) text: String,
    pub(super) heredocs: Vec<Heredoc>,
}

/// True for the stand-in's name.
pub(super) fn is_mark(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c == MARK)
}

/// Takes all here-documents out of `text`; `None` where that cannot be done with certainty, or
/// there are none.
pub(super) fn extract(text: &str) -> Option<Extracted> {
    let mut out = text.as_bytes().to_vec();
    let mut heredocs: Vec<Heredoc> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let line = Line::read(text, at)?;
        at = line.end;
        for mut heredoc in line.heredocs {
            heredoc.body = body(text, at, &heredoc)?;
            at = line_end(text, heredoc.body.end);
            blank(&mut out, &heredoc, at);
            heredocs.push(heredoc);
        }
        if heredocs.len() > HEREDOCS_MAX {
            return None;
        }
    }
    let text = String::from_utf8(out).ok()?;
    (!heredocs.is_empty()).then_some(Extracted { text, heredocs })
}

impl Heredoc {
    /// Reads the body: data when it is quoted, else what bash expands in it, with the positions of
    /// the whole text.
    pub(super) fn read(&mut self, text: &str, depth_max: usize) -> Result<(), Deny> {
        let body = text.get(self.body.clone()).unwrap_or_default();
        if self.quoted || !body.contains(['$', '`', '\\']) {
            self.word = Some(Word::from_literal(body, self.body.clone()));
            return Ok(());
        }
        // The body alone behind a command, at the place where it stands.
        let head = format!(": <<{}\n", self.delimiter);
        let pad = " ".repeat(self.body.start.saturating_sub(head.len()));
        let alone = format!("{pad}{head}{body}{}\n", self.delimiter);
        let parsed = parse::parse(&alone, depth_max)?;
        if let Some(gap) = &parsed.gap {
            return Err(super::describe_gap(gap, text));
        }
        audit::audit(parsed.tree.root_node(), &alone)?;
        let script = lower::lower(parsed.tree.root_node(), &alone, &[]);
        let word = script
            .into_iter()
            .next()
            .and_then(|node| node.redirects.into_iter().next());
        self.word = word.map(|redirect| redirect.target);
        Ok(())
    }
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..]
        .find('\n')
        .map_or(text.len(), |newline| at + newline + 1)
}

/// The body that starts at `start`, up to its end line.
fn body(text: &str, start: usize, heredoc: &Heredoc) -> Option<Range<usize>> {
    let mut at = start;
    while at < text.len() {
        let end = line_end(text, at);
        let line = text[at..end].strip_suffix('\n').unwrap_or(&text[at..end]);
        let bare = if heredoc.strips {
            line.trim_start_matches('\t')
        } else {
            line
        };
        if bare == heredoc.delimiter {
            return Some(start..at);
        }
        // bash joins such lines before it compares them with the delimiter.
        if !heredoc.quoted && line.ends_with('\\') {
            return None;
        }
        at = end;
    }
    None
}

/// The operator becomes a redirect, the body and its end line blanks.
fn blank(out: &mut [u8], heredoc: &Heredoc, end: usize) {
    let operator = &mut out[heredoc.operator.clone()];
    operator.fill(MARK as u8);
    operator[0] = b'<';
    for byte in &mut out[heredoc.body.start..end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// One line of commands, up to the newline at which bash reads the bodies.
struct Line {
    /// After the newline.
    end: usize,
    heredocs: Vec<Heredoc>,
}

impl Line {
    fn read(text: &str, start: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut out = Self {
            end: text.len(),
            heredocs: Vec::new(),
        };
        let (mut at, mut parentheses) = (start, 0_usize);
        while at < bytes.len() {
            match bytes[at] {
                b'\n' if parentheses > 0 => return None,
                b'\n' => {
                    out.end = at + 1;
                    return Some(out);
                }
                // Continuations and backticks are not followed.
                b'\\' if matches!(bytes.get(at + 1), None | Some(b'\n')) => return None,
                b'`' => return None,
                // `\ #` begins no comment.
                b'\\' if bytes.get(at + 2) == Some(&b'#') => return None,
                b'\\' => at += 1,
                b'\'' if at > 0 && bytes[at - 1] == b'$' => return None,
                b'\'' => at = quoted_end(text, at, '\'', out.heredocs.is_empty())?,
                b'"' => at = quoted_end(text, at, '"', out.heredocs.is_empty())?,
                b'$' if bytes.get(at + 1) == Some(&b'{') => at = expansion_end(text, at)?,
                b'(' if bytes.get(at + 1) == Some(&b'(') => return None,
                b'$' | b'<' | b'>' if bytes.get(at + 1) == Some(&b'(') => {
                    parentheses += 1;
                    at += 1;
                    if bytes.get(at + 1) == Some(&b'(') {
                        return None;
                    }
                }
                b'(' if parentheses > 0 => parentheses += 1,
                b')' => parentheses = parentheses.saturating_sub(1),
                b'#' if at == start || b" \t;&|()".contains(&bytes[at - 1]) => {
                    at = line_end(text, at).saturating_sub(usize::from(text[at..].contains('\n')));
                    continue;
                }
                b'<' if text[at..].starts_with("<<<") => at += 2,
                b'<' if text[at..].starts_with("<<") && parentheses > 0 => return None,
                b'<' if text[at..].starts_with("<<") => {
                    let heredoc = operator(text, at)?;
                    at = heredoc.operator.end - 1;
                    out.heredocs.push(heredoc);
                }
                _ => {}
            }
            at += 1;
        }
        // A here-document without a line after it has no body.
        out.heredocs.is_empty().then_some(out)
    }
}

/// Position of the closing quote. Substitutions in it are not followed; it may go over lines only
/// where no here-document waits for the end of this one.
fn quoted_end(text: &str, at: usize, quote: char, may_go_on: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut end = at + 1;
    loop {
        match *bytes.get(end)? {
            b'\n' if !may_go_on => return None,
            b'\\' if quote == '"' => end += 1,
            b'`' if quote == '"' => return None,
            b'$' if quote == '"' && matches!(bytes.get(end + 1), Some(b'(' | b'{' | b'[')) => {
                // `${name}` is plain enough.
                end = if bytes[end + 1] == b'{' {
                    expansion_end(text, end)?
                } else {
                    return None;
                };
            }
            byte if byte == quote as u8 => return Some(end),
            _ => {}
        }
        end += 1;
    }
}

/// The end of `${…}` with nothing in it that could quote or nest.
fn expansion_end(text: &str, at: usize) -> Option<usize> {
    let length = text[at..].find('}')?;
    let inside = &text[at + 2..at + length];
    let plain = |c: char| c.is_ascii_alphanumeric() || "_#%:-+=?/.@*!,^[]".contains(c);
    inside.chars().all(plain).then_some(at + length)
}

/// `<<WORD`, `<<-WORD`, with a delimiter that is plain or quoted as a whole.
fn operator(text: &str, at: usize) -> Option<Heredoc> {
    let mut end = at + 2;
    let strips = text[end..].starts_with('-');
    end += usize::from(strips);
    end += text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
    let rest = &text[end..];
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let (delimiter, length) = match quote {
        Some(quote) => {
            let inside = &rest[1..1 + rest[1..].find(quote)?];
            (inside, inside.len() + 2)
        }
        None => {
            let length = rest.find(|c| !plain(c)).unwrap_or(rest.len());
            (&rest[..length], length)
        }
    };
    let after = rest[length..].chars().next();
    let ends = after.is_none_or(|c| " \t\n;&|<>)".contains(c));
    if delimiter.is_empty() || !ends || !delimiter.chars().all(|c| plain(c) || c == ' ') {
        return None;
    }
    Some(Heredoc {
        operator: at..end + length,
        quoted: quote.is_some(),
        strips,
        delimiter: delimiter.to_owned(),
        body: 0..0,
        word: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> Option<String> {
        extract(text).map(|extracted| extracted.text.replace(MARK, "_"))
    }

    #[test]
    fn operators_become_redirects_and_bodies_blanks() {
        assert_eq!(
            taken("cat <<'E' 2>&1 | tail\na b\nE\nls\n").as_deref(),
            Some("cat <____ 2>&1 | tail\n   \n \nls\n")
        );
        assert_eq!(
            taken("cat <<A <<-B; ls\n1\nA\n\t2\n\tB\n").as_deref(),
            Some("cat <__ <___; ls\n \n \n  \n  \n")
        );
        assert_eq!(taken("echo \"a << b\" # <<E\nls"), None);
    }

    #[test]
    fn what_is_not_certain_is_left_alone() {
        for text in [
            "cat <<E\nx",
            "cat <<E\nx\\\nE\nE\n",
            "cat <<E \"a\nb\"\nx\nE\n",
            "cat <<E \\\n| tail\nx\nE\n",
            "echo `cat <<E\nx\nE\n`",
            "echo $(cat <<E\nx\nE\n)",
            "echo \"$(cat <<E\nx\nE\n)\"",
            "cat <<$x\nx\n$x\n",
            "cat <<E'F'\nx\nEF\n",
            "echo $((1<<2)); cat <<E; ls\nx\nE\n",
            "cat <<E $'\\''\nx\nE\n",
        ] {
            assert_eq!(taken(text), None, "{text:?}");
        }
    }
}
