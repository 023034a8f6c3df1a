//! The leaf audit: a tree without ERROR is not yet a tree of what bash will run.
//!
//! The grammar accepts texts in which bash sees a command that is in no node: backticks in
//! here-documents and expansion defaults, words glued by `\⏎`, separators swallowed by a
//! `regex` leaf. The audit looks at the bytes that no node explains and at leaves that hold more
//! than their kind allows. A hit means "cannot be read", not "is bad".

use super::deny::{Check, Deny};
use super::expansion;
use super::lower::{children, gap_arguments, is_word};
use super::word::is_expansion;
use std::ops::Range;
use tree_sitter::Node;

#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
    "in", "function", "{", "}", "!", "[[", "]]",
];

/// Where the audit is: carried downwards, because looking up from a node walks from the root.
#[derive(Clone, Copy, Default)]
struct Inside {
    expansion: bool,
    test: bool,
    /// Text that bash treats as if it stood in double quotes: there `'` does not quote.
    quoted: bool,
    /// `[ … ]`, in which operators are the shell's.
    bracket: bool,
    /// `(( … ))` and `$(( … ))`, where `#` begins no comment.
    arithmetic: bool,
}

struct Audit<'a> {
    text: &'a str,
    last_end: usize,
    last_text: &'a str,
    has_coproc: bool,
}

/// Audits a whole tree.
pub(super) fn audit(root: Node<'_>, text: &str) -> Check {
    let mut audit = Audit {
        text,
        last_end: 0,
        last_text: "",
        has_coproc: false,
    };
    audit.visit(root, Inside::default())?;
    audit.gap(text.len(), "\n", &(text.len()..text.len()))
}

/// Refuses a carriage return that stands outside quotes, in comments too.
pub(super) fn check_carriage_returns(root: Node<'_>, text: &str) -> Check {
    if !text.contains('\r') {
        return Ok(());
    }
    let mut quoted = Vec::new();
    quoted_ranges(root, &mut quoted);
    for (at, _) in text.match_indices('\r') {
        if !quoted.iter().any(|range: &Range<usize>| range.contains(&at)) {
            return Err(Deny::new(
                "control",
                &(at..at + 1),
                "contains control character U+000D outside quotes",
            )
            .hint("use plain newlines"));
        }
    }
    Ok(())
}

fn quoted_ranges(node: Node<'_>, out: &mut Vec<Range<usize>>) {
    if matches!(
        node.kind(),
        "string" | "raw_string" | "ansi_c_string" | "heredoc_body"
    ) {
        out.push(node.byte_range());
        return;
    }
    for part in children(node) {
        quoted_ranges(part, out);
    }
}

impl<'a> Audit<'a> {
    fn slice(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    fn visit(&mut self, node: Node<'_>, mut inside: Inside) -> Check {
        match node.kind() {
            "string" | "heredoc_body" => return self.template(node, inside),
            // To bash this `'` quotes nothing, and a `"` ends or begins a string.
            "raw_string" | "ansi_c_string" if inside.quoted && self.slice(node).contains('"') => {
                return Err(unreadable(
                    &node.byte_range(),
                    "quotes inside quoted text",
                    "put the text into a variable first",
                ));
            }
            "raw_string" | "ansi_c_string" if inside.quoted => {
                self.template_text(node.byte_range())?;
                return self.leaf(node, inside);
            }
            "raw_string" | "ansi_c_string" | "heredoc_content" => return self.leaf(node, inside),
            "comment" if !self.may_comment(node) => {
                return Err(unreadable(
                    &node.byte_range(),
                    "# inside a word",
                    "put a blank before it, or quote it",
                ));
            }
            "subshell" if self.slice(node).starts_with("((") => {
                return Err(unreadable(
                    &node.byte_range(),
                    "two parentheses that could begin an expression",
                    "put a blank between them",
                ));
            }
            "comment" if inside.arithmetic => {
                return Err(unreadable(
                    &node.byte_range(),
                    "# inside an expression",
                    "write the expression without it",
                ));
            }
            "command_substitution" => {
                self.backticks(node, inside)?;
                inside = Inside::default();
            }
            "process_substitution" => inside = Inside::default(),
            "expansion" => {
                self.extent(node)?;
                inside.expansion = true;
            }
            "arithmetic_expansion" | "subscript" => {
                (inside.expansion, inside.quoted) = (true, true);
                inside.arithmetic = node.kind() == "arithmetic_expansion";
            }
            "simple_expansion" if !is_expansion(node, self.text) => {
                return Err(unreadable(&node.byte_range(), "a lone dollar sign", "quote it"));
            }
            "concatenation" => self.cut_variable(node)?,
            "test_command" => {
                self.brackets(node)?;
                inside.test = true;
                inside.bracket = node.child(0).is_some_and(|first| first.kind() == "[");
            }
            "command" | "declaration_command" => {
                self.apart(node)?;
                self.command(node)?;
            }
            "unset_command" => self.command(node)?,
            "file_redirect" => {
                self.apart(node)?;
                self.expanded_twice(node)?;
            }
            "array" | "for_statement" => self.apart(node)?,
            "heredoc_redirect" => self.heredoc(node)?,
            _ => {}
        }
        if self.slice(node).starts_with("((") && node.child(0).is_some_and(|first| first.kind() == "((") {
            (inside.arithmetic, inside.quoted, inside.expansion) = (true, true, true);
        }
        if node.child_count() == 0 {
            return self.leaf(node, inside);
        }
        let mut quoted_body = false;
        for part in children(node) {
            quoted_body |= part.kind() == "heredoc_start" && self.slice(part).contains(['\'', '"', '\\']);
            if quoted_body && part.kind() == "heredoc_body" {
                self.gap(part.start_byte(), self.slice(part), &part.byte_range())?;
                self.pass(part);
            } else {
                self.visit(part, inside)?;
            }
        }
        Ok(())
    }

    /// The grammar ends `${x#$'\\'}'}` at the first brace.
    fn extent(&self, node: Node<'_>) -> Check {
        let close = expansion::close(self.text.as_bytes(), node.start_byte());
        if close.is_none_or(|close| close + 1 == node.end_byte()) {
            return Ok(());
        }
        Err(unreadable(
            &node.byte_range(),
            "an expansion that ends elsewhere to bash",
            "put the pattern into a variable first",
        ))
    }

    /// bash expands the target of `>&` a second time, after it has taken the quotes off.
    fn expanded_twice(&self, node: Node<'_>) -> Check {
        let text = self.slice(node);
        let Some((_, target)) = text.split_once(">&") else {
            return Ok(());
        };
        if !target.contains(['\'', '\\']) || !target.contains(['$', '`']) {
            return Ok(());
        }
        Err(unreadable(
            &node.byte_range(),
            "a target of >& that bash expands twice",
            "use &> for a file",
        ))
    }

    /// In `$x/$y.c` the grammar takes `$` for the end of a word and `y.c` for the next one.
    fn cut_variable(&self, node: Node<'_>) -> Check {
        let ends = children(node).last().is_some_and(|last| last.kind() == "$");
        let next = self.text.as_bytes().get(node.end_byte());
        if !ends || next.is_none_or(|byte| b" \t\n;&|()<>".contains(byte)) {
            return Ok(());
        }
        Err(unreadable(
            &node.byte_range(),
            "a variable that the parser takes apart",
            "quote it",
        ))
    }

    /// Words without a blank between them are one word to bash.
    fn apart(&self, node: Node<'_>) -> Check {
        for pair in children(node).windows(2) {
            let words = pair.iter().all(|part| {
                is_word(part.kind()) || matches!(part.kind(), "command_name" | "variable_assignment")
            });
            if words && pair[0].end_byte() == pair[1].start_byte() {
                return Err(unreadable(
                    &pair[1].byte_range(),
                    "a word that the parser takes for two",
                    "quote it",
                ));
            }
        }
        Ok(())
    }

    /// In backticks bash takes a backslash off before it reads the command.
    fn backticks(&self, node: Node<'_>, inside: Inside) -> Check {
        let text = self.slice(node);
        let mut unescaped = vec!["\\`", "\\\\", "\\$"];
        if inside.quoted {
            unescaped.push("\\\"");
        }
        if !text.starts_with('`') || !unescaped.iter().any(|escape| text.contains(escape)) {
            return Ok(());
        }
        Err(unreadable(
            &node.byte_range(),
            "a backslash inside backticks",
            "use $( … ) instead of backticks",
        ))
    }

    /// To bash a comment begins where a word could.
    fn may_comment(&self, node: Node<'_>) -> bool {
        let before = self.text.get(..node.start_byte()).unwrap_or("");
        let escaped = ends_in_escape(before.get(..before.len().saturating_sub(1)).unwrap_or(""));
        let separated = before.ends_with([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>']);
        before.is_empty() || before.ends_with('\n') || separated && !escaped
    }

    /// `[` and `[[` are words of their own.
    fn brackets(&self, node: Node<'_>) -> Check {
        let text = self.slice(node);
        let inner = match text.strip_prefix("[[") {
            Some(rest) => rest.strip_suffix("]]"),
            None => text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')),
        };
        let Some(inner) = inner else { return Ok(()) };
        let blank = |c: char| c.is_ascii_whitespace() || c == '(' || c == ')' || c == '\\';
        if inner.starts_with(blank) && inner.ends_with(|c: char| blank(c) && c != '\\') {
            return Ok(());
        }
        Err(unreadable(
            &node.byte_range(),
            "a bracket that is part of a word",
            "put blanks around it, or quote it",
        ))
    }

    fn command(&mut self, node: Node<'_>) -> Check {
        let mut end = node.start_byte();
        for part in children(node) {
            let gap = self.text.get(end..part.start_byte()).unwrap_or("");
            if gap.replace("\\\n", "").contains('\n') {
                return Err(unreadable(
                    &part.byte_range(),
                    "a command that goes on after a newline",
                    "quote the operand before it",
                ));
            }
            end = part.end_byte();
            if part.kind() == "regex" {
                return Err(unreadable(
                    &part.byte_range(),
                    "an operand after == or =~ outside [[ ]]",
                    "quote it",
                ));
            }
            if part.kind() != "command_name" {
                continue;
            }
            let name = self.slice(part);
            self.has_coproc |= name == "coproc";
            if RESERVED.contains(&name) && !(name == "}" && self.has_coproc) {
                let what = format!("the reserved word {name} where a command is expected");
                return Err(unreadable(
                    &part.byte_range(),
                    &what,
                    "write it on lines of its own or quote it",
                ));
            }
        }
        Ok(())
    }

    /// The grammar takes a delimiter in the middle of a line for the end; bash does not.
    fn heredoc(&self, node: Node<'_>) -> Check {
        let text_of = |kind: &str| {
            children(node)
                .into_iter()
                .find(|part| part.kind() == kind)
                .map_or("", |part| self.slice(part))
        };
        let delimiter = text_of("heredoc_start").replace(['\'', '"', '\\'], "");
        let end = text_of("heredoc_end");
        let end = if text_of("<<-").is_empty() {
            end
        } else {
            end.trim_start_matches('\t')
        };
        let start = children(node)
            .into_iter()
            .find(|part| part.kind() == "heredoc_start");
        let next = start.and_then(|start| self.text.as_bytes().get(start.end_byte()));
        if next.is_some_and(|byte| !b" \t\n;&|()<>".contains(byte)) {
            return Err(unreadable(
                &node.byte_range(),
                "a delimiter of several parts",
                "quote it as a whole",
            ));
        }
        let end_line = children(node)
            .into_iter()
            .find(|part| part.kind() == "heredoc_end");
        let alone = end_line.is_none_or(|part| {
            let after = self.text.get(part.end_byte()..).unwrap_or("");
            after.is_empty() || after.starts_with('\n') || self.slice(part).ends_with('\n')
        });
        if alone && end.trim_end_matches('\n') == delimiter {
            return Ok(());
        }
        Err(Deny::new(
            "malformed",
            &node.byte_range(),
            format!("the here-document has no end line {delimiter:?}"),
        )
        .hint("put the delimiter alone on the last line"))
    }

    /// Quoted text: whatever bash would expand in it must be a node.
    fn template(&mut self, node: Node<'_>, mut inside: Inside) -> Check {
        inside.quoted = true;
        self.gap(node.start_byte(), self.slice(node), &node.byte_range())?;
        let mut at = node.start_byte();
        for part in children(node) {
            if !is_expansion(part, self.text) {
                continue;
            }
            self.template_text(at..part.start_byte())?;
            self.last_end = part.start_byte();
            self.last_text = "";
            self.visit(part, inside)?;
            at = part.end_byte();
        }
        self.template_text(at..node.end_byte())?;
        self.pass(node);
        Ok(())
    }

    fn template_text(&self, range: Range<usize>) -> Check {
        match hidden_expansion(self.text.get(range.clone()).unwrap_or(""), false) {
            None => Ok(()),
            Some(at) => {
                let at = range.start + at;
                Err(unreadable(
                    &(at..at + 1),
                    "an expansion in quoted text that the parser does not see",
                    "use $( … ) instead of backticks, or quote the delimiter of the here-document",
                ))
            }
        }
    }

    fn leaf(&mut self, node: Node<'_>, inside: Inside) -> Check {
        let text = self.slice(node);
        let range = node.byte_range();
        self.gap(range.start, text, &range)?;
        self.pass(node);
        let kind = node.kind();
        if inside.bracket && is_shell_operator(kind) {
            return Err(unreadable(
                &range,
                "an operator of the shell inside [ ]",
                "quote it, or write [ … ] && [ … ]",
            ));
        }
        let next = self.text.as_bytes().get(range.end);
        if ends_in_escape(text) && next.is_some_and(|byte| *byte != b'\n') {
            return Err(unreadable(&range, "an escape that the parser cuts", "quote it"));
        }
        if kind.starts_with('`') && kind.len() > 1 {
            return Err(unreadable(
                &range,
                "backticks next to each other",
                "use $( … ) instead of backticks",
            ));
        }
        if !matches!(
            kind,
            "word" | "variable_name" | "regex" | "extglob_pattern" | "number"
        ) {
            return Ok(());
        }
        if text.contains("\\\n") {
            return Err(unreadable(
                &range,
                "a word that goes on after a backslash and a newline",
                "write it in one piece",
            ));
        }
        if let Some(at) = hidden_expansion(text, true) {
            let at = range.start + at;
            return Err(unreadable(
                &(at..at + 1),
                "an expansion inside a word that the parser does not see",
                "use $( … ) on its own",
            ));
        }
        if kind == "word" && hides_variable(text) {
            return Err(unreadable(
                &range,
                "a variable inside a word that the parser does not see",
                "quote the words around it",
            ));
        }
        let may_separate = inside.expansion || inside.test || matches!(kind, "regex" | "extglob_pattern");
        if !may_separate && has_separator(text) {
            return Err(unreadable(
                &range,
                "a separator inside a word",
                "put blanks around the operator",
            ));
        }
        Ok(())
    }

    fn pass(&mut self, node: Node<'_>) {
        self.last_end = node.end_byte();
        self.last_text = self.slice(node);
    }

    /// Bytes between two leaves: blanks, newlines, `\⏎`, and the two arguments that the grammar
    /// drops.
    fn gap(&self, to: usize, next: &str, span: &Range<usize>) -> Check {
        let Some(gap) = self.text.get(self.last_end..to) else {
            return Ok(());
        };
        if gap.is_empty() {
            return Ok(());
        }
        let at = self.last_end..to;
        let dropped = gap_arguments(gap);
        let mut rest = gap.replace("\\\n", "\n");
        for word in &dropped {
            rest = rest.replacen(if *word == " " { "\\ " } else { "-" }, "", 1);
        }
        if !rest.chars().all(|c| " \t\n".contains(c)) {
            return Err(unreadable(&at, "text that belongs to no construct", "quote it"));
        }
        let glued = gap.contains("\\\n") && gap.replace("\\\n", "").is_empty();
        let operator_before = matches!(
            self.last_text,
            "&&" | "||" | "|" | ";" | "(" | ";;" | "then" | "do"
        );
        let word_after = !next.starts_with(['&', '|', ';', '<', '>', '(', ')']);
        let at_line_end = self.last_text.ends_with('\n') || next.starts_with('\n');
        let harmless = operator_before && word_after || at_line_end;
        if glued && !harmless {
            return Err(unreadable(
                span,
                "words joined by a backslash and a newline",
                "put a blank before the backslash",
            ));
        }
        Ok(())
    }
}

fn unreadable(span: &Range<usize>, what: &str, hint: &str) -> Deny {
    Deny::new(
        "unreadable",
        span,
        format!("cannot be read with certainty: {what}"),
    )
    .hint(hint)
}

/// Position of an unescaped opening that bash expands; process substitutions only outside quotes.
fn hidden_expansion(text: &str, outside_quotes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let next = bytes.get(at + 1).copied();
        match bytes[at] {
            b'\\' => at += 1,
            b'`' => return Some(at),
            b'$' if matches!(next, Some(b'(' | b'{' | b'[')) => return Some(at),
            b'$' if next == Some(b'\\') && bytes.get(at + 2) == Some(&b'\n') => return Some(at),
            b'<' | b'>' if outside_quotes && next == Some(b'(') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// True for an unescaped `$` that begins a variable.
fn hides_variable(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == '$'
            && chars
                .peek()
                .is_some_and(|next| next.is_ascii_alphanumeric() || "_@*#?!-".contains(*next))
        {
            return true;
        }
    }
    false
}

fn is_shell_operator(token: &str) -> bool {
    matches!(
        token,
        "&&" | "||" | "|" | "|&" | "&" | ";" | "<" | ">" | ">>" | "<<" | "(" | ")"
    )
}

/// True for a backslash at the end that no other one quotes.
fn ends_in_escape(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

fn has_separator(text: &str) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            ';' | '&' | '|' | '\n' | ' ' | '\t' | '(' | ')' | '<' | '>' => return true,
            _ => {}
        }
    }
    false
}
