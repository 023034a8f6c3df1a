//! Small spellings that the grammar does not know, replaced by ones of the same length and meaning.
//!
//! Only texts that the grammar has failed on come here. Each rewrite names the kind of node that
//! must stand at its place in the new tree; where it does not, the text stays unreadable.

use tree_sitter::Node;

/// Rewrites of one text.
const REWRITES_MAX: usize = 32;

/// One replacement, and what the new tree must show at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rewrite {
    at: usize,
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
}

impl Rewrite {
    /// True when the tree of the rewritten text has the construct at this place.
    pub(super) fn holds(self, root: Node<'_>) -> bool {
        let wanted: &[&str] = match self.kind {
            Kind::For => return starts_node(root, self.at, "for_statement"),
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
        while let Some(child) = child_at(node, self.at) {
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

fn starts_node(root: Node<'_>, at: usize, kind: &str) -> bool {
    let mut node = root;
    while let Some(child) = child_at(node, at) {
        node = child;
        if node.kind() == kind && node.start_byte() == at {
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
    let mut out = Vec::new();
    for at in 0..bytes.len() {
        if out.len() == REWRITES_MAX {
            break;
        }
        let kind = match bytes[at] {
            b'f' => loop_over_parameters(&mut bytes, at),
            b'#' => base(&mut bytes, at),
            b':' => offset(&mut bytes, at),
            b'@' | b'+' | b'?' | b'!' | b'*' => pattern(&mut bytes, at),
            _ => None,
        };
        out.extend(kind.map(|kind| Rewrite { at, kind }));
    }
    // Only ASCII was put in the place of ASCII.
    *text = String::from_utf8(bytes).unwrap_or_default();
    out
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn loop_over_parameters(bytes: &mut [u8], at: usize) -> Option<Kind> {
    let rest = bytes[at..].strip_prefix(b"for ")?;
    if at > 0 && !b" \t\n;&|({".contains(&bytes[at - 1]) {
        return None;
    }
    let name = rest.iter().take_while(|byte| is_name(**byte)).count();
    let after = rest.get(name..)?.strip_prefix(b" do")?;
    if name == 0 || !after.first().is_some_and(|byte| b" \t\n".contains(byte)) {
        return None;
    }
    bytes[at + 4 + name] = b';';
    Some(Kind::For)
}

fn base(bytes: &mut [u8], at: usize) -> Option<Kind> {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before))?;
    let after = bytes.get(at + 1)?;
    if !before.is_ascii_digit() || !(is_name(*after) || *after == b'$') {
        return None;
    }
    bytes[at] = b'+';
    Some(Kind::Base)
}

/// `${name:$other`.
fn offset(bytes: &mut [u8], at: usize) -> Option<Kind> {
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
    bytes[at + 1] = b' ';
    Some(Kind::Offset)
}

/// An extended pattern of plain alternatives.
fn pattern(bytes: &mut [u8], at: usize) -> Option<Kind> {
    let rest = bytes[at + 1..].strip_prefix(b"(")?;
    let close = rest.iter().position(|byte| *byte == b')')?;
    let plain = |byte: &u8| is_name(*byte) || b".-|*?/".contains(byte);
    if close == 0 || !rest[..close].iter().all(plain) {
        return None;
    }
    bytes[at..at + close + 3].fill(b'*');
    Some(Kind::Pattern)
}
