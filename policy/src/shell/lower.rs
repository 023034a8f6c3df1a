//! Syntax tree → the small tree of [`super::script`]: statements.
//!
//! Recursion is bounded by the tree's depth limit. Nodes that the grammar could not read are
//! lowered as far as they go; whether that is good enough is the caller's decision.

use super::assemble::{push_assignment, push_leading, push_name, push_words};
use super::brace;
use super::heredoc::{Heredoc, is_mark};
use super::script::{Assignment, Command, Control, Kind, Node, Redirect, RedirectKind, Word};
use super::word::Lower;
use tree_sitter::Node as Tree;

/// Lowers the whole tree of `text`, from which `heredocs` were taken out.
pub(super) fn lower(root: Tree<'_>, text: &str, heredocs: &[Heredoc]) -> Vec<Node> {
    Lower { text, heredocs }.statements(&children(root))
}

pub(super) fn children(node: Tree<'_>) -> Vec<Tree<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

impl Lower<'_> {
    /// A run of statements with their separators.
    pub(super) fn statements(&self, nodes: &[Tree<'_>]) -> Vec<Node> {
        let mut out: Vec<Node> = Vec::new();
        for node in nodes {
            if node.kind() == "&" {
                if let Some(last) = out.pop() {
                    let span = last.span.start..node.end_byte();
                    out.push(Node::new(Kind::Background(Box::new(last)), span));
                }
            } else if let Some(statement) = self.statement(*node) {
                out.push(statement);
            }
        }
        out
    }

    fn statement(&self, node: Tree<'_>) -> Option<Node> {
        let parts = children(node);
        let span = node.byte_range();
        let kind = match node.kind() {
            "command"
            | "declaration_command"
            | "unset_command"
            | "variable_assignment"
            | "variable_assignments" => return Some(self.command(node)),
            "pipeline" => Kind::Pipeline(self.statements(&parts)),
            "list" | "negated_command" | "do_group" | "program" => Kind::Sequence(self.statements(&parts)),
            "subshell" => Kind::Subshell(self.statements(&parts)),
            "compound_statement" if self.starts_with(&parts, "((") => Kind::Arithmetic(self.expression(node)),
            "compound_statement" => Kind::Group(self.statements(&parts)),
            "test_command" => return Some(self.test(node)),
            "redirected_statement" => return Some(self.redirected(node)),
            "if_statement" | "elif_clause" => Kind::Control(self.conditional(&parts)),
            "while_statement" => Kind::Control(self.repeat(&parts)),
            "for_statement" => Kind::Control(self.each(&parts)),
            "c_style_for_statement" => Kind::Control(self.counted(&parts)),
            "case_statement" => Kind::Control(self.case(&parts)),
            "function_definition" => self.function(&parts)?,
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                let mut bare = Node::new(Kind::Command(Command::default()), span);
                self.redirect_onto(&mut bare, node);
                return Some(bare);
            }
            "comment" | "heredoc_body" | "heredoc_start" | "heredoc_end" => return None,
            "ERROR" => Kind::Sequence(self.wreck(node, &parts)),
            _ if node.is_named() && !parts.is_empty() => Kind::Sequence(self.statements(&parts)),
            _ => return None,
        };
        Some(Node::new(kind, span))
    }

    fn starts_with(&self, parts: &[Tree<'_>], token: &str) -> bool {
        parts.first().is_some_and(|first| first.kind() == token)
    }

    /// What can be told of a part that the grammar could not read: its statements, and its loose
    /// words taken as one command.
    fn wreck(&self, node: Tree<'_>, parts: &[Tree<'_>]) -> Vec<Node> {
        let mut command = Command::default();
        let mut out = Vec::new();
        for part in parts {
            let kind = part.kind();
            if kind == "command_name" {
                command
                    .words
                    .extend(children(*part).iter().map(|name| self.word(*name)));
            } else if is_word(kind) {
                command.words.push(self.word(*part));
            } else if let Some(statement) = self.statement(*part) {
                out.push(statement);
            }
        }
        if !command.words.is_empty() {
            out.push(Node::new(Kind::Command(command), node.byte_range()));
        }
        out
    }

    fn command(&self, node: Tree<'_>) -> Node {
        let mut out = Node::new(Kind::Command(Command::default()), node.byte_range());
        if node.kind() == "variable_assignment" {
            let assignment = self.assignment(node);
            push_assignment(&mut out, assignment);
            return out;
        }
        let declares = node.kind() == "declaration_command";
        let mut end = node.start_byte();
        for part in children(node) {
            self.gap_words(&mut out, end, part.start_byte());
            end = part.end_byte();
            match part.kind() {
                "variable_assignment" if declares => {
                    // The values of an array are words of their own.
                    if children(part).iter().any(|value| value.kind() == "array") {
                        let assignment = self.assignment(part);
                        push_assignment(&mut out, assignment);
                    }
                    push_words(&mut out, self.word(part));
                }
                "variable_assignment" => {
                    let assignment = self.assignment(part);
                    push_assignment(&mut out, assignment);
                }
                "command_name" => {
                    for name in children(part) {
                        push_name(&mut out, self.word(name));
                    }
                }
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.redirect_onto(&mut out, part)
                }
                "comment" => {}
                "subshell" => {
                    let inner = Node::new(
                        Kind::Subshell(self.statements(&children(part))),
                        part.byte_range(),
                    );
                    let span = node.byte_range();
                    out = Node::new(Kind::Sequence(vec![out, inner]), span);
                }
                _ => push_words(&mut out, self.word(part)),
            }
        }
        out
    }

    /// Arguments that the grammar leaves out of its tree: a lone `-` and a lone `\ `.
    fn gap_words(&self, out: &mut Node, from: usize, to: usize) {
        let Some(gap) = self.text.get(from..to) else {
            return;
        };
        for word in gap_arguments(gap) {
            push_words(out, Word::from_literal(word, from..to));
        }
    }

    fn assignment(&self, node: Tree<'_>) -> Assignment {
        let mut out = Assignment {
            name: String::new(),
            appends: false,
            subscript: None,
            values: Vec::new(),
            span: node.byte_range(),
        };
        for part in children(node) {
            match part.kind() {
                "variable_name" if out.name.is_empty() => out.name = self.slice(part).to_owned(),
                "subscript" if out.name.is_empty() => {
                    let inner = children(part);
                    out.name = inner
                        .first()
                        .map_or(String::new(), |name| self.slice(*name).to_owned());
                    out.subscript = Some(self.subscript(part, &out.name));
                }
                "=" => {}
                "+=" => out.appends = true,
                "array" => out.values.extend(self.array(part)),
                _ => {
                    let mut value = self.word(part);
                    value.expand_tilde();
                    out.values.push(value);
                }
            }
        }
        out
    }

    fn array(&self, node: Tree<'_>) -> Vec<Word> {
        let parts = children(node);
        let inside = parts
            .iter()
            .filter(|part| part.is_named() && part.kind() != "comment");
        inside.map(|part| self.word(*part)).collect()
    }

    fn redirected(&self, node: Tree<'_>) -> Node {
        let parts = children(node);
        let mut out: Option<Node> = None;
        let mut end = node.start_byte();
        for part in parts {
            if part.kind().ends_with("_redirect") {
                let bare = || Node::new(Kind::Command(Command::default()), node.byte_range());
                let base = out.get_or_insert_with(bare);
                self.gap_words(base, end, part.start_byte());
                self.redirect_onto(base, part);
            } else if let Some(statement) = self.statement(part) {
                out = Some(match out {
                    None => statement,
                    Some(before) => Node::new(Kind::Sequence(vec![before, statement]), node.byte_range()),
                });
            }
            end = part.end_byte();
        }
        out.unwrap_or_else(|| Node::new(Kind::Sequence(Vec::new()), node.byte_range()))
    }

    /// Adds a redirect to `base`. Words after the target are arguments, and a here-document's
    /// node also holds what follows it on its line.
    fn redirect_onto(&self, base: &mut Node, node: Tree<'_>) {
        match node.kind() {
            "file_redirect" => self.file_redirect(base, node),
            "herestring_redirect" => {
                for part in children(node).iter().filter(|part| is_word(part.kind())) {
                    let target = self.word(*part);
                    base.redirects
                        .push(redirect(RedirectKind::HereString, target, node));
                }
            }
            _ => self.heredoc(base, node),
        }
    }

    fn file_redirect(&self, base: &mut Node, node: Tree<'_>) {
        let mut operator = "";
        let mut has_target = false;
        for part in children(node) {
            match part.kind() {
                "file_descriptor" => {}
                ">&-" | "<&-" => {
                    operator = ">&-";
                    let target = Word::from_literal("-", part.byte_range());
                    base.redirects
                        .push(redirect(RedirectKind::Duplicate, target, node));
                }
                kind if !part.is_named() && kind.contains(['<', '>']) => operator = self.slice(part),
                "ERROR" => operator = ">",
                _ if operator == ">&-" || has_target => push_leading(base, self.word(part)),
                _ => {
                    has_target = true;
                    if let Some(heredoc) = self.taken_out(part) {
                        base.redirects.push(heredoc);
                        continue;
                    }
                    let target = self.word(part);
                    let kind = redirect_kind(operator, &target);
                    base.redirects.push(redirect(kind, target, node));
                }
            }
        }
    }

    /// The here-document that this redirect's target stands in for.
    fn taken_out(&self, target: Tree<'_>) -> Option<Redirect> {
        if !is_mark(self.slice(target)) {
            return None;
        }
        let starts = |heredoc: &&Heredoc| heredoc.operator.start + 1 == target.start_byte();
        let heredoc = self.heredocs.iter().find(starts)?;
        Some(Redirect {
            kind: RedirectKind::Heredoc {
                quoted: heredoc.quoted,
            },
            target: heredoc.word.clone()?,
            span: heredoc.operator.clone(),
        })
    }

    fn heredoc(&self, base: &mut Node, node: Tree<'_>) {
        let mut quoted = false;
        let mut after: Vec<Node> = Vec::new();
        let mut stages: Vec<Node> = Vec::new();
        for part in children(node) {
            match part.kind() {
                "heredoc_start" => quoted = self.slice(part).contains(['\'', '"', '\\', '$']),
                "heredoc_body" => {
                    let body = if quoted {
                        Word::from_literal(self.slice(part), part.byte_range())
                    } else {
                        self.template(part)
                    };
                    base.redirects
                        .push(redirect(RedirectKind::Heredoc { quoted }, body, part));
                }
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.redirect_onto(base, part)
                }
                "pipeline" => stages.extend(self.statements(&children(part))),
                kind if is_word(kind) => push_words(base, self.word(part)),
                _ => after.extend(self.statement(part)),
            }
        }
        let span = base.span.clone();
        let empty = Node::new(Kind::Sequence(Vec::new()), span.clone());
        if !stages.is_empty() {
            let first = std::mem::replace(base, empty.clone());
            stages.insert(0, first);
            *base = Node::new(Kind::Pipeline(stages), span.clone());
        }
        if !after.is_empty() {
            let first = std::mem::replace(base, empty);
            after.insert(0, first);
            *base = Node::new(Kind::Sequence(after), span);
        }
    }

    fn test(&self, node: Tree<'_>) -> Node {
        let parts = children(node);
        let mut words = Vec::new();
        match parts.first().map_or("", |first| first.kind()) {
            "((" => Node::new(Kind::Arithmetic(self.expression(node)), node.byte_range()),
            "[[" => {
                self.flatten(node, &mut words);
                Node::new(Kind::Test(words), node.byte_range())
            }
            _ => {
                self.flatten(node, &mut words);
                let command = Command {
                    assignments: Vec::new(),
                    words,
                };
                Node::new(Kind::Command(command), node.byte_range())
            }
        }
    }

    /// Operators and operands in order.
    fn flatten(&self, node: Tree<'_>, words: &mut Vec<Word>) {
        for part in children(node) {
            match part.kind() {
                "binary_expression"
                | "unary_expression"
                | "parenthesized_expression"
                | "negation_expression"
                | "ternary_expression"
                | "postfix_expression"
                | "ERROR" => self.flatten(part, words),
                "command" => {
                    for inner in children(part) {
                        words.push(self.word(inner));
                    }
                }
                _ => words.push(self.word(part)),
            }
        }
    }

    fn sequence(&self, nodes: &[Tree<'_>]) -> Node {
        let span = match (nodes.first(), nodes.last()) {
            (Some(first), Some(last)) => first.start_byte()..last.end_byte(),
            _ => 0..0,
        };
        Node::new(Kind::Sequence(self.statements(nodes)), span)
    }

    fn conditional(&self, parts: &[Tree<'_>]) -> Control {
        let then = parts
            .iter()
            .position(|part| part.kind() == "then")
            .unwrap_or(parts.len());
        let (head, body) = parts.split_at(then);
        let is_other = |part: &Tree<'_>| matches!(part.kind(), "elif_clause" | "else_clause");
        let other = body.iter().position(is_other).unwrap_or(body.len());
        let (body, others) = body.split_at(other);
        Control {
            keyword: "if",
            variable: None,
            words: Vec::new(),
            parts: vec![self.sequence(head), self.sequence(body), self.sequence(others)],
        }
    }

    fn repeat(&self, parts: &[Tree<'_>]) -> Control {
        let body = parts
            .iter()
            .position(|part| part.kind() == "do_group")
            .unwrap_or(parts.len());
        let (head, body) = parts.split_at(body);
        Control {
            keyword: if self.starts_with(parts, "until") {
                "until"
            } else {
                "while"
            },
            variable: None,
            words: Vec::new(),
            parts: vec![self.sequence(head), self.sequence(body)],
        }
    }

    fn each(&self, parts: &[Tree<'_>]) -> Control {
        let is_body = |part: &Tree<'_>| matches!(part.kind(), "do_group" | "compound_statement");
        let body = parts.iter().position(is_body).unwrap_or(parts.len());
        let (head, body) = parts.split_at(body);
        let mut control = Control {
            keyword: if self.starts_with(parts, "select") {
                "select"
            } else {
                "for"
            },
            variable: None,
            words: Vec::new(),
            parts: vec![self.sequence(&[]), self.sequence(body)],
        };
        for part in head {
            if part.kind() == "variable_name" && control.variable.is_none() {
                control.variable = Some(self.slice(*part).to_owned());
            } else if is_word(part.kind()) && part.is_named() {
                let words = brace::expand(self.word(*part)).into_iter();
                control.words.extend(words.map(|mut word| {
                    word.expand_tilde();
                    word
                }));
            }
        }
        control
    }

    fn counted(&self, parts: &[Tree<'_>]) -> Control {
        let is_body = |part: &Tree<'_>| matches!(part.kind(), "do_group" | "compound_statement");
        let body = parts.iter().position(is_body).unwrap_or(parts.len());
        let (head, body) = parts.split_at(body);
        Control {
            keyword: "for",
            variable: None,
            words: head
                .iter()
                .filter(|part| part.is_named())
                .map(|part| self.expression(*part))
                .collect(),
            parts: vec![self.sequence(&[]), self.sequence(body)],
        }
    }

    fn case(&self, parts: &[Tree<'_>]) -> Control {
        let mut control = Control {
            keyword: "case",
            variable: None,
            words: Vec::new(),
            parts: vec![self.sequence(&[])],
        };
        for part in parts {
            if part.kind() == "case_item" {
                let inner = children(*part);
                let close = inner.iter().position(|token| token.kind() == ")").unwrap_or(0);
                let (patterns, body) = inner.split_at(close);
                control.words.extend(
                    patterns
                        .iter()
                        .filter(|part| part.is_named())
                        .map(|part| self.word(*part)),
                );
                control.parts.push(self.sequence(body));
            } else if is_word(part.kind()) && part.is_named() {
                control.words.push(self.word(*part));
            }
        }
        control
    }

    fn function(&self, parts: &[Tree<'_>]) -> Option<Kind> {
        let name = parts
            .iter()
            .find(|part| part.kind() == "word" || part.kind() == "variable_name")?;
        let after = parts.iter().filter(|part| part.start_byte() >= name.end_byte());
        let body: Vec<Tree<'_>> = after.copied().collect();
        Some(Kind::Function {
            name: self.word(*name).literal().unwrap_or_default(),
            body: Box::new(self.sequence(&body)),
        })
    }
}

pub(super) fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "number"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "simple_expansion"
            | "expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "extglob_pattern"
            | "regex"
            | "variable_name"
    )
}

/// The words in a gap between two leaves, if the gap consists of nothing else.
pub(super) fn gap_arguments(gap: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut rest = gap;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\ ") {
            found.push(" ");
            rest = after;
        } else if rest.starts_with('-') && rest[1..].chars().next().is_none_or(|c| " \t\n\\".contains(c)) {
            found.push("-");
            rest = &rest[1..];
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    found
}

fn redirect(kind: RedirectKind, mut target: Word, node: Tree<'_>) -> Redirect {
    if !matches!(kind, RedirectKind::Heredoc { .. }) {
        target.expand_tilde();
    }
    Redirect {
        kind,
        target,
        span: node.byte_range(),
    }
}

fn redirect_kind(operator: &str, target: &Word) -> RedirectKind {
    let is_descriptor = target.literal().is_some_and(|text| {
        let digits = text.strip_suffix('-').unwrap_or(&text);
        digits.chars().all(|c| c.is_ascii_digit())
    });
    match operator {
        "<" => RedirectKind::Input,
        "<&" | ">&" if is_descriptor => RedirectKind::Duplicate,
        "<&" => RedirectKind::Input,
        _ => RedirectKind::Output,
    }
}
