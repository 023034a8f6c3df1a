//! Syntax tree → decoded words: quote removal, escapes, expansions as pieces.

use super::heredoc::Heredoc;
use super::lower::children;
use super::quote;
use super::script::{Arithmetic, Param, Piece, Word};
use super::wrapper::is_identifier;
use tree_sitter::Node as Tree;

/// Lowers nodes of one text.
pub(super) struct Lower<'a> {
    pub(super) text: &'a str,
    /// What was taken out of the text.
    pub(super) heredocs: &'a [Heredoc],
}

impl Lower<'_> {
    pub(super) fn slice(&self, node: Tree<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    pub(super) fn word(&self, node: Tree<'_>) -> Word {
        let mut word = Word {
            pieces: Vec::new(),
            span: node.byte_range(),
        };
        self.pieces(node, &mut word);
        word.find_brackets();
        word
    }

    fn pieces(&self, node: Tree<'_>, out: &mut Word) {
        let text = self.slice(node);
        match node.kind() {
            "raw_string" => out.push_literal(text.trim_matches_once('\''), true),
            "ansi_c_string" => {
                let inside = text.strip_prefix('$').unwrap_or(text).trim_matches_once('\'');
                out.push_literal(&quote::decode_ansi_c(inside), true);
            }
            "string" => self.quoted(node, out),
            "translated_string" => {
                for part in children(node).into_iter().filter(|part| part.kind() == "string") {
                    self.quoted(part, out);
                }
            }
            "simple_expansion" => out.pieces.push(self.simple(node)),
            "expansion" => out.pieces.push(self.expansion(node)),
            "command_substitution" => out.pieces.push(Piece::Subst(self.statements(&children(node)))),
            "process_substitution" => {
                let inner = self.statements(&children(node));
                out.pieces.push(if text.starts_with('>') {
                    Piece::ProcessOut(inner)
                } else {
                    Piece::ProcessIn(inner)
                });
            }
            "arithmetic_expansion" => out.pieces.push(Piece::Arithmetic(self.arithmetic(node))),
            "brace_expression" => out.pieces.push(Piece::Glob(text.to_owned())),
            "array" => {
                for part in children(node).into_iter().filter(|part| part.is_named()) {
                    self.pieces(part, out);
                }
            }
            "comment" => {}
            _ if node.child_count() > 0 => {
                for part in children(node) {
                    self.pieces(part, out);
                }
            }
            _ => quote::decode_unquoted(text, out),
        }
    }

    /// The inside of double quotes. Text between expansions is taken from the source, so that no
    /// byte depends on how the grammar splits it.
    fn quoted(&self, node: Tree<'_>, out: &mut Word) {
        let start = node.start_byte() + 1;
        let end = node.end_byte().saturating_sub(1).max(start);
        out.push_literal("", true);
        self.between(node, start, end, quote::decode_double, out);
    }

    /// The body of an expandable here-document.
    pub(super) fn template(&self, node: Tree<'_>) -> Word {
        let mut out = Word {
            pieces: Vec::new(),
            span: node.byte_range(),
        };
        self.between(
            node,
            node.start_byte(),
            node.end_byte(),
            quote::decode_heredoc,
            &mut out,
        );
        out
    }

    fn between(&self, node: Tree<'_>, mut at: usize, end: usize, decode: fn(&str) -> String, out: &mut Word) {
        for part in children(node)
            .into_iter()
            .filter(|part| is_expansion(*part, self.text))
        {
            if let Some(text) = self.text.get(at..part.start_byte()) {
                out.push_literal(&decode(text), true);
            }
            self.pieces(part, out);
            at = part.end_byte();
        }
        if let Some(text) = self.text.get(at..end) {
            out.push_literal(&decode(text), true);
        }
    }

    fn simple(&self, node: Tree<'_>) -> Piece {
        let name = self.slice(node).trim_start_matches('$');
        plain_variable(name)
    }

    fn expansion(&self, node: Tree<'_>) -> Piece {
        let text = self.slice(node);
        let inside = text
            .strip_prefix("${")
            .and_then(|text| text.strip_suffix('}'))
            .unwrap_or(text);
        if inside == "TMPDIR:-/tmp" {
            return Piece::Tmp;
        }
        // A home directory with a default or a check is still the home directory.
        let checked = inside.strip_prefix("HOME").is_some_and(|rest| {
            rest == "%/" || [":-", "-", ":?", "?"].iter().any(|one| rest.starts_with(one))
        });
        if checked && node.named_child_count() <= 2 && !inside.contains(['$', '`']) {
            return Piece::Home;
        }
        if is_length(inside) {
            return Piece::Arithmetic(Arithmetic::default());
        }
        if inside.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return plain_variable(inside);
        }
        let mut param = Param {
            name: String::new(),
            indirect: is_indirect(inside),
            assigns: false,
            defaults: false,
            numbers: Arithmetic::default(),
            keyed: false,
            inner: Vec::new(),
        };
        let (mut in_offset, mut first) = (false, true);
        for part in children(node) {
            match part.kind() {
                "${" | "}" => {}
                "=" | ":=" => (param.assigns, param.defaults) = (true, true),
                "-" | ":-" | "+" | ":+" => param.defaults = true,
                ":" => (in_offset, param.keyed) = (true, false),
                "variable_name" | "special_variable_name" if param.name.is_empty() => {
                    param.name = self.slice(part).to_owned();
                }
                "subscript" => {
                    let name = children(part).first().map_or("", |name| self.slice(*name));
                    param.name = name.to_owned();
                    self.collect_subscript(part, &mut param.numbers);
                    param.keyed = true;
                }
                _ if in_offset => self.collect_numbers(part, &mut param.numbers),
                _ if part.is_named() && !first => {
                    let inner = self.word(part);
                    param.inner.extend(inner.pieces);
                }
                _ => {}
            }
            first = false;
        }
        Piece::Param(param)
    }

    /// A node whose text bash evaluates, as a word of one piece.
    pub(super) fn expression(&self, node: Tree<'_>) -> Word {
        let mut numbers = Arithmetic::default();
        self.collect_numbers(node, &mut numbers);
        Word {
            pieces: vec![Piece::Arithmetic(numbers)],
            span: node.byte_range(),
        }
    }

    /// The subscript of `name[…]=`, as a word of one piece.
    pub(super) fn subscript(&self, node: Tree<'_>, name: &str) -> Word {
        let mut numbers = Arithmetic::default();
        self.collect_subscript(node, &mut numbers);
        let piece = Piece::Param(Param {
            name: name.to_owned(),
            indirect: false,
            assigns: false,
            defaults: false,
            numbers,
            keyed: true,
            inner: Vec::new(),
        });
        Word {
            pieces: vec![piece],
            span: node.byte_range(),
        }
    }

    fn arithmetic(&self, node: Tree<'_>) -> Arithmetic {
        let mut numbers = Arithmetic::default();
        self.collect_numbers(node, &mut numbers);
        numbers
    }

    /// The index of `name[index]`; `@` and `*` are no expressions.
    fn collect_subscript(&self, node: Tree<'_>, numbers: &mut Arithmetic) {
        for part in children(node).into_iter().skip(1) {
            if !matches!(self.slice(part), "@" | "*" | "[" | "]") {
                self.collect_numbers(part, numbers);
            }
        }
    }

    fn collect_numbers(&self, node: Tree<'_>, numbers: &mut Arithmetic) {
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                numbers.inner.push(Piece::Subst(self.statements(&children(node))));
            }
            "simple_expansion" => numbers
                .names
                .push(self.slice(node).trim_start_matches('$').to_owned()),
            "expansion" => {
                let piece = self.expansion(node);
                if let Piece::Param(param) = &piece {
                    numbers.names.push(param.name.clone());
                } else if !self.slice(node).starts_with("${#") {
                    numbers
                        .names
                        .push(self.slice(node).trim_matches(['$', '{', '}']).to_owned());
                }
                numbers.inner.push(piece);
            }
            _ if node.child_count() > 0 => {
                let parts = children(node);
                if let [name, operator, ..] = parts.as_slice()
                    && operator.kind() == "="
                    && name.child_count() == 0
                {
                    numbers.sets.push(self.slice(*name).to_owned());
                }
                for part in parts {
                    self.collect_numbers(part, numbers);
                }
            }
            _ => {
                let text = self.slice(node);
                if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && !matches!(node.kind(), "for" | "do" | "done" | "string_content")
                {
                    numbers.names.push(text.to_owned());
                }
            }
        }
    }
}

/// True for what bash expands. The grammar also takes `$ name` and `$\ name` for a variable, where
/// bash sees a plain dollar sign.
pub(super) fn is_expansion(node: Tree<'_>, text: &str) -> bool {
    match node.kind() {
        "expansion" | "command_substitution" | "arithmetic_expansion" | "process_substitution" => true,
        "simple_expansion" => {
            let name = text
                .get(node.byte_range())
                .and_then(|text| text.strip_prefix('$'));
            name.is_some_and(|name| {
                name.starts_with(|c: char| c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c))
            })
        }
        _ => false,
    }
}

/// `#name`, `#name[@]`.
fn is_length(inside: &str) -> bool {
    inside.strip_prefix('#').is_some_and(|name| {
        let name = name
            .strip_suffix("[@]")
            .or(name.strip_suffix("[*]"))
            .unwrap_or(name);
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// `!name` other than the key list `!name[@]`, and the transformation `@P`.
fn is_indirect(inside: &str) -> bool {
    if let Some(name) = inside.strip_prefix('!') {
        let lists_keys = name.ends_with("[@]") || name.ends_with("[*]");
        return !lists_keys && !name.ends_with('*') && !name.ends_with('@') && !name.is_empty();
    }
    inside.ends_with("@P")
}

fn plain_variable(name: &str) -> Piece {
    match name {
        "HOME" => Piece::Home,
        "PWD" => Piece::Pwd,
        "TMPDIR" => Piece::Tmp,
        _ => Piece::Param(Param {
            name: name.to_owned(),
            indirect: false,
            assigns: false,
            defaults: false,
            numbers: Arithmetic::default(),
            keyed: false,
            inner: Vec::new(),
        }),
    }
}

trait TrimOnce {
    fn trim_matches_once(&self, quote: char) -> &str;
}

impl TrimOnce for str {
    fn trim_matches_once(&self, quote: char) -> &str {
        let inner = self.strip_prefix(quote).unwrap_or(self);
        inner.strip_suffix(quote).unwrap_or(inner)
    }
}

fn push_unquoted(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Literal {
            text: text.to_owned(),
            quoted: false,
        });
    }
}

impl Word {
    pub(super) fn push_literal(&mut self, text: &str, quoted: bool) {
        if let Some(Piece::Literal {
            text: last,
            quoted: same,
        }) = self.pieces.last_mut()
            && *same == quoted
        {
            last.push_str(text);
            return;
        }
        if !text.is_empty() || quoted {
            self.pieces.push(Piece::Literal {
                text: text.to_owned(),
                quoted,
            });
        }
    }

    /// Turns each unquoted `[` that a later unquoted `]` closes into a pattern piece. The grammar
    /// and quotes split a bracket expression, so it is looked for in the whole word.
    fn find_brackets(&mut self) {
        let unquoted = |piece: &Piece, c: char| matches!(piece, Piece::Literal { text, quoted: false } if text.contains(c));
        let Some(first) = self.pieces.iter().position(|piece| unquoted(piece, '[')) else {
            return;
        };
        let Some(last) = self.pieces.iter().rposition(|piece| unquoted(piece, ']')) else {
            return;
        };
        let mut out = Vec::new();
        for (index, piece) in std::mem::take(&mut self.pieces).into_iter().enumerate() {
            let Piece::Literal { text, quoted: false } = &piece else {
                out.push(piece);
                continue;
            };
            let close = if index < last {
                text.len()
            } else {
                text.rfind(']').unwrap_or(0)
            };
            if index < first || index > last {
                out.push(piece);
                continue;
            }
            let mut rest = text.as_str();
            while let Some(at) = rest.find('[').filter(|at| text.len() - rest.len() + at < close) {
                push_unquoted(&mut out, &rest[..at]);
                out.push(Piece::Glob("[".to_owned()));
                rest = &rest[at + 1..];
            }
            push_unquoted(&mut out, rest);
        }
        self.pieces = out;
    }

    /// Turns a leading unquoted `~` or `~name` into its piece; in an argument like `of=~/x` the one
    /// after the `=` too, as bash does.
    pub(super) fn expand_tilde(&mut self) {
        let Some(Piece::Literal { text, quoted: false }) = self.pieces.first() else {
            return;
        };
        if let Some((name, value)) = text.split_once('=')
            && is_identifier(name)
            && value.starts_with('~')
        {
            let name = format!("{name}=");
            let mut value = self.without_prefix(name.len());
            value.expand_tilde();
            value.pieces.insert(
                0,
                Piece::Literal {
                    text: name,
                    quoted: false,
                },
            );
            self.pieces = value.pieces;
            return;
        }
        if !text.starts_with('~') {
            return;
        }
        let name_end = text.find('/').unwrap_or(text.len());
        let ends_here = name_end < text.len() || self.pieces.len() == 1;
        let name = text[1..name_end].to_owned();
        let rest = text[name_end..].to_owned();
        if !ends_here {
            return;
        }
        let home = match name.as_str() {
            "" => Piece::Home,
            "+" => Piece::Pwd,
            _ => Piece::UserHome(name),
        };
        self.pieces[0] = home;
        if !rest.is_empty() {
            let literal = Piece::Literal {
                text: rest,
                quoted: false,
            };
            self.pieces.insert(1, literal);
        }
    }
}
