//! Which variables certainly hold a plain integer.
//!
//! bash evaluates a variable's *value* in an arithmetic place, so `a[$(cmd)]` in a variable runs
//! `cmd`. A variable is safe when every assignment in the text is an integer or an expression.

use super::builtin::let_parts;
use super::script::{Arithmetic, Command, Kind, Node, Piece, Word};
use std::collections::{HashMap, HashSet};

/// Names with whether all their assignments are integers.
#[derive(Debug, Default)]
pub(super) struct Integers {
    seen: HashMap<String, bool>,
    /// Names that an assignment sets from something else than themselves: `n=$((n+1))` alone
    /// evaluates whatever `n` held before.
    founded: HashSet<String>,
    /// Associative arrays, and where each was certainly declared.
    keyed: HashMap<String, usize>,
}

impl Integers {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let mut out = Self::default();
        for node in nodes {
            out.node(node);
            out.declared(node);
        }
        out
    }

    /// True for an associative array at `at`: its subscripts are keys, and no key is evaluated.
    pub(super) fn is_keyed(&self, name: &str, at: usize) -> bool {
        self.keyed.get(name).is_some_and(|declared| *declared <= at)
    }

    /// `declare -A` as a statement of its own, which runs whatever else happens. Inside `&&`, a
    /// branch, a function or a subshell it may not, and then a subscript is an expression.
    fn declared(&mut self, node: &Node) {
        let Kind::Command(command) = &node.kind else {
            return;
        };
        let literal: Vec<String> = command.words.iter().map(|word| word.prefix().0).collect();
        let [name, option, rest @ ..] = literal.as_slice() else {
            return;
        };
        if matches!(name.as_str(), "declare" | "typeset") && option == "-A" {
            for word in rest {
                let array = word.split('=').next().unwrap_or(word);
                self.keyed.entry(array.to_owned()).or_insert(node.span.start);
            }
        } else if name == "unset" {
            self.keyed.clear();
        }
    }

    /// True for a variable that only holds integers, and for bash's own numeric ones.
    pub(super) fn holds(&self, name: &str) -> bool {
        match self.seen.get(name) {
            Some(safe) => *safe && self.founded.contains(name),
            None => matches!(
                name,
                "?" | "#"
                    | "$"
                    | "!"
                    | "RANDOM"
                    | "SRANDOM"
                    | "SECONDS"
                    | "LINENO"
                    | "BASHPID"
                    | "PPID"
                    | "UID"
                    | "EUID"
                    | "SHLVL"
                    | "BASH_SUBSHELL"
                    | "EPOCHSECONDS"
            ),
        }
    }

    fn note(&mut self, name: &str, safe: bool, uses_itself: bool) {
        let entry = self.seen.entry(name.to_owned()).or_insert(true);
        *entry &= safe;
        if !uses_itself {
            self.founded.insert(name.to_owned());
        }
    }

    fn node(&mut self, node: &Node) {
        for redirect in &node.redirects {
            self.word(&redirect.target);
        }
        match &node.kind {
            Kind::Command(command) => self.command(command),
            Kind::Sequence(nodes) | Kind::Pipeline(nodes) | Kind::Subshell(nodes) | Kind::Group(nodes) => {
                nodes.iter().for_each(|node| self.node(node));
            }
            Kind::Background(inner) => self.node(inner),
            Kind::Control(control) => {
                if let Some(variable) = &control.variable {
                    let safe = !control.words.is_empty() && control.words.iter().all(counts);
                    self.note(variable, safe, false);
                }
                control.words.iter().for_each(|word| self.word(word));
                control.parts.iter().for_each(|node| self.node(node));
            }
            Kind::Function { body, .. } => self.node(body),
            Kind::Test(words) => words.iter().for_each(|word| self.word(word)),
            Kind::Arithmetic(word) => self.word(word),
        }
    }

    fn command(&mut self, command: &Command) {
        for assignment in &command.assignments {
            let safe = assignment.values.len() == 1 && assignment.values.iter().all(is_integer);
            let uses = assignment
                .values
                .iter()
                .any(|value| evaluates(value, &assignment.name));
            self.note(&assignment.name, safe, uses);
            assignment.values.iter().for_each(|word| self.word(word));
        }
        let name = command.words.first().and_then(Word::literal).unwrap_or_default();
        for word in &command.words {
            self.word(word);
            let (text, _) = word.prefix();
            match name.as_str() {
                "read" | "mapfile" | "readarray" | "printf" | "getopts" | "wait" => {
                    self.note(&text, false, false)
                }
                "let" => {
                    if let (Some(name), value) = let_parts(&text) {
                        let uses = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                        self.note(name, true, uses.into_iter().any(|used| used == name));
                    }
                }
                "export" | "declare" | "local" | "readonly" | "typeset" => {
                    if let Some((name, _)) = text.split_once('=') {
                        let value = word.without_prefix(name.len() + 1);
                        self.note(name, is_integer(&value), evaluates(&value, name));
                    }
                }
                _ => {}
            }
        }
    }

    fn word(&mut self, word: &Word) {
        word.pieces.iter().for_each(|piece| self.piece(piece));
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Subst(nodes) | Piece::ProcessIn(nodes) | Piece::ProcessOut(nodes) => {
                nodes.iter().for_each(|node| self.node(node));
            }
            Piece::Param(param) => {
                self.arithmetic(&param.numbers);
                // `${x:=word}` assigns.
                if param.assigns {
                    self.note(&param.name, false, false);
                }
                param.inner.iter().for_each(|piece| self.piece(piece));
            }
            Piece::Arithmetic(numbers) => self.arithmetic(numbers),
            _ => {}
        }
    }

    fn arithmetic(&mut self, numbers: &Arithmetic) {
        let count = |all: &[String], name: &String| all.iter().filter(|one| *one == name).count();
        for name in &numbers.sets {
            let uses = count(&numbers.names, name) > count(&numbers.sets, name);
            self.note(name, true, uses);
        }
        numbers.inner.iter().for_each(|piece| self.piece(piece));
    }
}

/// True for a value whose expression uses `name`.
fn evaluates(value: &Word, name: &str) -> bool {
    value.pieces.iter().any(|piece| match piece {
        Piece::Arithmetic(numbers) => numbers.names.iter().any(|one| one == name),
        _ => false,
    })
}

fn is_integer(word: &Word) -> bool {
    !word.pieces.is_empty()
        && word.pieces.iter().all(|piece| match piece {
            Piece::Literal { text, .. } => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                digits.chars().all(|c| c.is_ascii_digit())
            }
            Piece::Arithmetic(_) => true,
            _ => false,
        })
}

/// Integers, ranges, and `$(seq …)`.
fn counts(word: &Word) -> bool {
    if is_integer(word) {
        return true;
    }
    match word.pieces.as_slice() {
        [Piece::Glob(range)] => {
            range.starts_with('{') && range.chars().all(|c| c.is_ascii_digit() || "{}.-".contains(c))
        }
        [Piece::Subst(nodes)] => match nodes.as_slice() {
            [
                Node {
                    kind: Kind::Command(command),
                    ..
                },
            ] => command.words.first().and_then(Word::literal).as_deref() == Some("seq"),
            _ => false,
        },
        _ => false,
    }
}
