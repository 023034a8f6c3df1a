//! Text → syntax tree, within limits.

use super::deny::Deny;
use super::limits::{BARS_MAX, NODES_MAX, PARSE_MS_MAX};
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::time::Duration;
use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// A tree and the first place in it that the grammar could not read.
pub(super) struct Parsed {
    pub(super) tree: Tree,
    pub(super) gap: Option<Gap>,
}

/// Where the grammar failed.
pub(super) struct Gap {
    pub(super) span: Range<usize>,
    /// Something is missing that bash would demand too, rather than unknown to the grammar.
    pub(super) missing: bool,
}

/// Parses one text whose tree may be `depth_max` deep.
pub(super) fn parse(text: &str, depth_max: usize) -> Result<Parsed, Deny> {
    let bars = text.bytes().filter(|byte| *byte == b'|').count();
    if bars > BARS_MAX {
        let deny = Deny::new(
            "limit-commands",
            &(0..0),
            format!("has more than {BARS_MAX} bars"),
        );
        return Err(deny.hint("write it to a script file and run that"));
    }
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .map_err(|_| Deny::new("unreadable", &(0..0), "the bash grammar does not fit the parser"))?;
    let tree = parse_within_deadline(&mut parser, text).ok_or_else(|| {
        Deny::new(
            "limit-time",
            &(0..0),
            format!("reading it takes more than {PARSE_MS_MAX} ms"),
        )
        .hint("write it to a script file and run that")
    })?;
    let gap = measure(&tree, text, depth_max)?;
    Ok(Parsed { tree, gap })
}

#[expect(
    clippy::disallowed_types,
    reason = "a hostile text must not occupy the host; the deadline is a refusal"
)]
fn parse_within_deadline(parser: &mut Parser, text: &str) -> Option<Tree> {
    let neutral = neutral(text);
    let bytes = neutral.as_bytes();
    let start = std::time::Instant::now();
    let mut progress = |_: &tree_sitter::ParseState| {
        if start.elapsed() > Duration::from_millis(PARSE_MS_MAX) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| &bytes[at.min(bytes.len())..], None, Some(options))
}

/// The grammar's scanner asks the C library's character tables about code points that they do not
/// hold, and a large one ends the process. To bash a character beyond ASCII is a plain part of a
/// word and never of a name, as `~` inside a word is: positions stay, and words are read from the
/// text itself.
fn neutral(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut neutral = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            neutral.push(c);
        } else {
            neutral.extend(std::iter::repeat_n('~', c.len_utf8()));
        }
    }
    Cow::Owned(neutral)
}

/// Counts nodes and depth without recursion, and finds the first ERROR or MISSING node.
fn measure(tree: &Tree, text: &str, depth_max: usize) -> Result<Option<Gap>, Deny> {
    let mut cursor = tree.walk();
    let (mut nodes, mut depth) = (0_usize, 0_usize);
    let mut gap = None;
    loop {
        let node = cursor.node();
        nodes += 1;
        check_boundaries(&node, text)?;
        check_limit("limit-nodes", "syntax nodes", nodes, NODES_MAX, &node)?;
        check_limit("limit-depth", "levels of nesting", depth, depth_max, &node)?;
        // An error at the root says nothing about the place: a later, smaller one does.
        let vague = gap
            .as_ref()
            .is_none_or(|gap: &Gap| gap.span.len() == tree.root_node().byte_range().len());
        if vague && (node.is_error() && !is_read_write(&node, text) || node.is_missing()) {
            gap = Some(Gap {
                span: node.start_byte().min(text.len())..node.end_byte().min(text.len()),
                missing: node.is_missing(),
            });
        }
        if cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Ok(gap);
            }
            depth -= 1;
        }
    }
}

/// A node that begins or ends inside a character comes from what stands in for it.
fn check_boundaries(node: &Node<'_>, text: &str) -> Result<(), Deny> {
    let range = node.byte_range();
    if text.is_char_boundary(range.start.min(text.len())) && text.is_char_boundary(range.end.min(text.len()))
    {
        return Ok(());
    }
    Err(Deny::new(
        "unreadable",
        &(0..0),
        "a character beyond ASCII stands where only an operator can",
    ))
}

/// The grammar does not know `<>`, but its tree says all there is to know: an ERROR `>` right after
/// the `<` of a redirect.
fn is_read_write(node: &Node<'_>, text: &str) -> bool {
    let range = node.byte_range();
    text.get(range.clone()) == Some(">") && range.start > 0 && text.as_bytes()[range.start - 1] == b'<'
}

fn check_limit(
    code: &'static str,
    what: &str,
    count: usize,
    max: usize,
    node: &Node<'_>,
) -> Result<(), Deny> {
    if count <= max {
        return Ok(());
    }
    Err(
        Deny::new(code, &node.byte_range(), format!("has more than {max} {what}"))
            .hint("write it to a script file and run that"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_beyond_the_c_librarys_tables_end_nothing() {
        for c in ['é', '\u{ffff}', '\u{10ffff}', '\u{20000}'] {
            for form in [
                "echo X",
                "X",
                "$X",
                "${x%X}",
                "cat <<X\nX\nX\n",
                "[[ a =X b ]]",
                "echo {1X3}",
                "echo \"X\"",
            ] {
                let text = form.replace('X', &c.to_string());
                // Readable or not: the process is still there, and no node cuts a character.
                let _ = parse(&text, 128);
            }
        }
    }
}
