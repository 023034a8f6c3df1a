//! Small spellings that the grammar does not know, replaced by ones of the same length and meaning.
//!
//! Only texts that the grammar has failed on come here. Each rewrite names the kind of node that
//! must stand at its place in the new tree; where it does not, it is taken back. Some change only
//! what the grammar stumbles over: their words are read from the original.

use super::expansion::{self, is_name};
use std::ops::Range;
use tree_sitter::Node;

/// Rewrites of one text.
const REWRITES_MAX: usize = 64;

/// One replacement, and what the new tree must show at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// The construct: a node begins or lies here.
    at: Range<usize>,
    /// Bytes that were changed, within it or before it.
    changed: Range<usize>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `for x do` is `for x;do`: over the positional parameters.
    For,
    /// `10#$n` in an expression is judged as `10+$n`: the same variables are evaluated.
    Base,
    /// `${x:$i}` is `${x: i}`.
    Offset,
    /// `@(a|b)` in `[[ … ]]` is some pattern.
    Pattern,
    /// `time { … }` and `! { … }` are `{ … }`.
    Time,
    /// `${x//'/'/-}`: a pattern or default is some text.
    Expansion,
    /// `$x/$y.c`: the grammar takes `y.c` for a word of its own.
    Joint,
    /// `{ls,-l}` at the start of a command is one word.
    Brace,
    /// `[` is a command like others.
    Bracket,
}

impl Rewrite {
    fn new(kind: Kind, at: Range<usize>, changed: Range<usize>) -> Self {
        Self { at, changed, kind }
    }

    /// True where words are read from the original text.
    fn is_shape(&self) -> bool {
        matches!(
            self.kind,
            Kind::Expansion | Kind::Joint | Kind::Brace | Kind::Bracket
        )
    }

    /// True when the tree of the rewritten text has the construct at this place.
    pub(super) fn holds(&self, root: Node<'_>) -> bool {
        let wanted: &[&str] = match self.kind {
            Kind::For => return starts_node(root, self.at.start, &["for_statement"]),
            Kind::Time => return starts_node(root, self.at.start, COMPOUND),
            Kind::Brace | Kind::Bracket => return starts_node(root, self.at.start, &["command_name"]),
            Kind::Expansion => return is_node(root, &self.at, &["expansion"]),
            Kind::Joint => return is_node(root, &self.at, &["simple_expansion"]),
            Kind::Base => &[
                "arithmetic_expansion",
                "test_command",
                "compound_statement",
                "c_style_for_statement",
            ],
            Kind::Offset => &["expansion"],
            Kind::Pattern => &["test_command"],
        };
        let quoted = &["string", "raw_string", "ansi_c_string", "heredoc_body", "comment"];
        let mut node = root;
        let mut found = false;
        // Downwards: looking up from a node walks from the root each time.
        while let Some(child) = child_at(node, self.at.start) {
            node = child;
            if quoted.contains(&node.kind()) {
                found = false;
            } else if wanted.contains(&node.kind()) {
                found = true;
            }
        }
        found
    }
}

/// What `time` may stand before that is no simple command.
const COMPOUND: &[&str] = &[
    "compound_statement",
    "subshell",
    "for_statement",
    "c_style_for_statement",
    "while_statement",
    "if_statement",
    "case_statement",
    "test_command",
];

/// True when a redirect begins at `at`, perhaps after its descriptor's number.
pub(super) fn starts_redirect(root: Node<'_>, at: usize) -> bool {
    let mut node = root;
    while let Some(child) = child_at(node, at) {
        node = child;
        let quoted = matches!(node.kind(), "string" | "raw_string" | "comment" | "heredoc_body");
        if quoted {
            return false;
        }
        if node.kind() == "file_redirect" {
            let mut cursor = node.walk();
            return node
                .children(&mut cursor)
                .any(|part| part.kind() == "<" && part.start_byte() == at);
        }
    }
    false
}

fn starts_node(root: Node<'_>, at: usize, kinds: &[&str]) -> bool {
    any_at(root, at, |node| {
        kinds.contains(&node.kind()) && node.start_byte() == at
    })
}

fn is_node(root: Node<'_>, range: &Range<usize>, kinds: &[&str]) -> bool {
    any_at(root, range.start, |node| {
        kinds.contains(&node.kind()) && node.byte_range() == *range
    })
}

fn any_at(root: Node<'_>, at: usize, is: impl Fn(Node<'_>) -> bool) -> bool {
    let mut node = root;
    while let Some(child) = child_at(node, at) {
        node = child;
        if is(node) {
            return true;
        }
    }
    false
}

fn child_at(node: Node<'_>, at: usize) -> Option<Node<'_>> {
    let mut cursor = node.walk();
    let holds = |child: &Node<'_>| child.start_byte() <= at && at < child.end_byte();
    node.children(&mut cursor).find(holds)
}

/// Applies every rewrite that fits. The bytes replaced are ASCII, so the text stays UTF-8.
pub(super) fn all(text: &mut String) -> Vec<Rewrite> {
    let mut bytes = std::mem::take(text).into_bytes();
    let mut out: Vec<Rewrite> = Vec::new();
    for at in 0..bytes.len() {
        if out.len() == REWRITES_MAX {
            break;
        }
        let rewrite = match bytes[at] {
            b'f' => loop_over_parameters(&mut bytes, at),
            b't' | b'!' => time(&mut bytes, at).or_else(|| pattern(&mut bytes, at)),
            b'#' => base(&mut bytes, at),
            b':' => offset(&mut bytes, at),
            b'$' => expansion(&mut bytes, at).or_else(|| joint(&mut bytes, at)),
            b'{' => brace(&mut bytes, at),
            b'[' => bracket(&mut bytes, at),
            b'@' | b'+' | b'?' | b'*' => pattern(&mut bytes, at),
            _ => None,
        };
        out.extend(rewrite);
    }
    // Only ASCII was put in the place of ASCII.
    *text = String::from_utf8(bytes).unwrap_or_default();
    out
}

/// Puts the original back where it was changed.
pub(super) fn take_back<'a>(
    text: &str,
    original: &str,
    rewrites: impl IntoIterator<Item = &'a Rewrite>,
) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for rewrite in rewrites {
        let changed = rewrite.changed.clone();
        bytes[changed.clone()].copy_from_slice(&original.as_bytes()[changed]);
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The text that words are read from.
pub(super) fn for_words(text: &str, original: &str, rewrites: &[Rewrite]) -> String {
    take_back(
        text,
        original,
        rewrites.iter().filter(|rewrite| rewrite.is_shape()),
    )
}

fn starts_command(bytes: &[u8], at: usize) -> bool {
    at == 0 || b" \t\n;&|({".contains(&bytes[at - 1])
}

fn loop_over_parameters(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    let rest = bytes[at..].strip_prefix(b"for ")?;
    if !starts_command(bytes, at) {
        return None;
    }
    let name = rest.iter().take_while(|byte| is_name(**byte)).count();
    let after = rest.get(name..)?.strip_prefix(b" do")?;
    if name == 0 || !after.first().is_some_and(|byte| b" \t\n".contains(byte)) {
        return None;
    }
    let blank = at + 4 + name;
    bytes[blank] = b';';
    Some(Rewrite::new(Kind::For, at..at + 1, blank..blank + 1))
}

/// `time` or `!` before a compound command.
fn time(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    const BEGINNINGS: &[&[u8]] = &[
        b"{ ", b"{\n", b"(", b"[", b"for ", b"while ", b"until ", b"if ", b"case ",
    ];
    let from = &bytes[at..];
    let rest = from.strip_prefix(b"time ").or(from.strip_prefix(b"! "))?;
    let before = at..at + from.len() - rest.len() - 1;
    let begins = BEGINNINGS.iter().any(|one| rest.starts_with(one));
    if !begins || !starts_command(bytes, at) {
        return None;
    }
    let body = before.end + 1;
    bytes[before.clone()].fill(b' ');
    Some(Rewrite::new(Kind::Time, body..body + 1, before))
}

fn base(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before))?;
    let after = bytes.get(at + 1)?;
    if !before.is_ascii_digit() || !(is_name(*after) || *after == b'$') {
        return None;
    }
    bytes[at] = b'+';
    Some(Rewrite::new(Kind::Base, at..at + 1, at..at + 1))
}

/// `${name:$other`.
fn offset(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    let name = bytes[..at]
        .iter()
        .rev()
        .take_while(|byte| is_name(**byte))
        .count();
    let opens = bytes[..at - name].ends_with(b"${");
    let follows = bytes.get(at + 1) == Some(&b'$') && bytes.get(at + 2).is_some_and(|byte| is_name(*byte));
    if name == 0 || !opens || !follows {
        return None;
    }
    // What follows stays a name.
    bytes[at + 1] = if bytes[at + 2].is_ascii_digit() {
        b'_'
    } else {
        b' '
    };
    Some(Rewrite::new(Kind::Offset, at..at + 1, at + 1..at + 2))
}

/// A pattern or default with something in it that the grammar may not know there.
fn expansion(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    if bytes.get(at + 1) != Some(&b'{') {
        return None;
    }
    let (places, end) = expansion::unusual(bytes, at)?;
    let changed = *places.first()?..places.last()? + 1;
    places.into_iter().for_each(|place| bytes[place] = b'_');
    Some(Rewrite::new(Kind::Expansion, at..end + 1, changed))
}

/// `$name` before more of the same word.
fn joint(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    let name = bytes[at + 1..].iter().take_while(|byte| is_name(**byte)).count();
    let end = at + 1 + name;
    let joins = bytes.get(end).is_some_and(|byte| b".-/:+,=@%^~".contains(byte));
    if name == 0 || bytes[at + 1].is_ascii_digit() || !joins {
        return None;
    }
    bytes[end] = b']';
    Some(Rewrite::new(Kind::Joint, at..end, end..end + 1))
}

/// A word that begins with a brace expression.
fn brace(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    let ends = |byte: &u8| b" \t\n;&|()<>'\"`$\\".contains(byte);
    let word: Vec<u8> = bytes[at..]
        .iter()
        .copied()
        .take_while(|byte| !ends(byte))
        .collect();
    let expands = word.contains(&b'}') && (word.contains(&b',') || word.windows(2).any(|pair| pair == b".."));
    if !expands || !starts_command(bytes, at) {
        return None;
    }
    bytes[at] = b'_';
    Some(Rewrite::new(Kind::Brace, at..at + 1, at..at + 1))
}

/// `[` as a word of its own at the start of a command.
fn bracket(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    if bytes.get(at + 1) != Some(&b' ') || !starts_command(bytes, at) {
        return None;
    }
    bytes[at] = b'_';
    Some(Rewrite::new(Kind::Bracket, at..at + 1, at..at + 1))
}

/// An extended pattern of plain alternatives.
fn pattern(bytes: &mut [u8], at: usize) -> Option<Rewrite> {
    let rest = bytes[at + 1..].strip_prefix(b"(")?;
    let close = rest.iter().position(|byte| *byte == b')')?;
    let plain = |byte: &u8| is_name(*byte) || b".-|*?/".contains(byte);
    if close == 0 || !rest[..close].iter().all(plain) {
        return None;
    }
    let changed = at..at + close + 3;
    bytes[changed.clone()].fill(b'*');
    Some(Rewrite::new(Kind::Pattern, at..at + 1, changed))
}
