//! What variables hold, where the text says it.
//!
//! A word that is only known at run time may still be known from the text: `d=/; rm -rf "$d"`. The
//! hard rules look at such readings too. They refuse, and never allow, so a reading that cannot
//! come about costs nothing but a strange refusal.

use super::pipes;
use super::script::{self, Command, Kind, Node, Param, Piece, RedirectKind, Word};
use super::wrapper;
use std::collections::HashMap;

/// Readings of one text that are looked at.
const READINGS_MAX: usize = 8;
/// The reading in which no variable has a value, so that defaults count.
const DEFAULTS_ALONE: usize = usize::MAX;
/// Values that are put in for variables in values.
const ROUNDS_MAX: usize = 4;
/// Pieces of one word after that.
const PIECES_MAX: usize = 64;

/// All values that the text gives to each variable.
#[derive(Debug, Default)]
pub(super) struct Values(HashMap<String, Vec<Word>>);

impl Values {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let mut out = Self::default();
        out.nodes(nodes);
        for node in nodes {
            script::each_piece(node, &mut |piece| {
                if let Piece::Subst(inner) | Piece::ProcessIn(inner) | Piece::ProcessOut(inner) = piece {
                    out.nodes(inner);
                }
            });
        }
        out
    }

    /// What the text gives to a variable.
    pub(super) fn given(&self, name: &str) -> Vec<Word> {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Other readings of the text they were taken from, with values in the place of variables.
    pub(super) fn readings(&self, nodes: &[Node]) -> Vec<Vec<Node>> {
        let count = nodes.iter().map(|node| self.uses(node)).max().unwrap_or(0);
        let reading = |at: usize| self.read_nodes(nodes, at);
        let defaults = (count > 0).then_some(DEFAULTS_ALONE);
        (0..count.min(READINGS_MAX))
            .chain(defaults)
            .map(reading)
            .collect()
    }

    /// How many values a variable or substitution in the statement has at most.
    fn uses(&self, node: &Node) -> usize {
        let mut most = 0;
        script::each_piece(node, &mut |piece| most = most.max(self.count(piece)));
        most
    }

    fn read_nodes(&self, nodes: &[Node], at: usize) -> Vec<Node> {
        nodes.iter().map(|node| self.read_node(node, at)).collect()
    }

    fn read_node(&self, node: &Node, at: usize) -> Node {
        let mut out = node.clone();
        for redirect in &mut out.redirects {
            redirect.target = self.put_in(&redirect.target, at);
        }
        match &mut out.kind {
            Kind::Command(command) => {
                command.words = command
                    .words
                    .iter()
                    .flat_map(|word| self.words(word, at))
                    .collect();
                for assignment in &mut command.assignments {
                    self.put_in_all(&mut assignment.values, at);
                }
            }
            Kind::Sequence(nodes) | Kind::Pipeline(nodes) | Kind::Subshell(nodes) | Kind::Group(nodes) => {
                *nodes = self.read_nodes(nodes, at);
            }
            Kind::Background(inner) => **inner = self.read_node(inner, at),
            Kind::Function { body, .. } => **body = self.read_node(body, at),
            Kind::Control(control) => {
                self.put_in_all(&mut control.words, at);
                control.parts = self.read_nodes(&control.parts, at);
            }
            Kind::Test(words) => self.put_in_all(words, at),
            Kind::Arithmetic(_) => {}
        }
        out
    }

    fn put_in_all(&self, words: &mut [Word], at: usize) {
        for word in words {
            *word = self.put_in(word, at);
        }
    }

    fn count(&self, piece: &Piece) -> usize {
        match piece {
            Piece::Param(param) => {
                self.0.get(&param.name).map_or(0, Vec::len)
                    + usize::from(param.defaults && !param.inner.is_empty())
            }
            // Once as the commands that it is, then as what they print.
            Piece::Subst(nodes) if pipes::printed(nodes).is_some() => 2,
            _ => 0,
        }
    }

    /// The word with each variable's value number `at`.
    fn put_in(&self, word: &Word, at: usize) -> Word {
        let mut pieces = word.pieces.clone();
        // Before values are put in: a value may hold a substitution that holds its own variable.
        for piece in &mut pieces {
            if let Piece::Subst(nodes) | Piece::ProcessIn(nodes) | Piece::ProcessOut(nodes) = piece {
                *nodes = self.read_nodes(nodes, at);
            }
        }
        for _ in 0..ROUNDS_MAX {
            if pieces.len() > PIECES_MAX || !pieces.iter().any(|piece| self.count(piece) > 0) {
                break;
            }
            pieces = pieces
                .into_iter()
                .flat_map(|piece| self.value(piece, at))
                .collect();
        }
        Word {
            pieces,
            span: word.span.clone(),
        }
    }

    /// As words of a command: a variable whose value has blanks makes several.
    fn words(&self, word: &Word, at: usize) -> Vec<Word> {
        let is_variable = word.pieces.iter().all(|piece| match piece {
            Piece::Literal { text, .. } => text.is_empty(),
            Piece::Param(_) | Piece::Subst(_) => true,
            _ => false,
        });
        let quoted = matches!(word.pieces.first(), Some(Piece::Literal { quoted: true, .. }));
        let several = |piece: &Piece| matches!(piece, Piece::Param(Param { name, .. }) if name == "@");
        let is_one = quoted && !word.pieces.iter().any(several);
        let whole = self.put_in(word, at);
        let text: Option<String> = whole.pieces.iter().map(known_text).collect();
        match text {
            Some(text) if is_variable && !is_one && text.contains(char::is_whitespace) => text
                .split_whitespace()
                .map(|part| Word::from_literal(part, word.span.clone()))
                .collect(),
            _ => vec![whole],
        }
    }

    fn value(&self, piece: Piece, at: usize) -> Vec<Piece> {
        let param = match &piece {
            Piece::Param(param) => param,
            Piece::Subst(nodes) if at > 0 => {
                return pipes::printed(nodes).map_or(vec![piece], |out| said(&out.text));
            }
            _ => return vec![piece],
        };
        if at == DEFAULTS_ALONE && !param.defaults {
            return vec![piece];
        }
        let known = self.0.get(&param.name).filter(|_| at != DEFAULTS_ALONE);
        let values = known.map_or(&[][..], Vec::as_slice);
        match values.get(at.min(values.len().saturating_sub(1))) {
            // The word of `${x:-word}` comes after the values.
            Some(value) if at < values.len() || !param.defaults || param.inner.is_empty() => {
                value.pieces.clone()
            }
            _ if param.defaults && !param.inner.is_empty() => param.inner.clone(),
            _ => vec![piece],
        }
    }

    fn note(&mut self, name: &str, value: &Word) {
        let values = self.0.entry(name.to_owned()).or_default();
        if values.len() < READINGS_MAX && !value.pieces.is_empty() {
            values.push(value.clone());
        }
    }

    /// `name+=value`: what it held last, and more.
    fn append(&mut self, name: &str, value: &Word) {
        let Some(mut whole) = self.0.get(name).and_then(|values| values.last()).cloned() else {
            return;
        };
        whole.pieces.extend(value.pieces.iter().cloned());
        self.note(name, &whole);
    }

    /// `read a b <<< 'x y'`, `printf -v a x`.
    fn filled(&mut self, command: &Command, node: &Node) {
        let name = command.words.first().and_then(Word::literal).unwrap_or_default();
        let rest = command.words.get(1..).unwrap_or(&[]);
        let names: Vec<String> = rest.iter().filter_map(Word::literal).collect();
        if name == "printf" && names.first().is_some_and(|option| option == "-v") {
            if let (Some(name), Some(value)) = (names.get(1), rest.get(2..).and_then(<[Word]>::last)) {
                self.note(name, value);
            }
            return;
        }
        let given = node
            .redirects
            .iter()
            .find(|redirect| redirect.kind == RedirectKind::HereString);
        let Some(given) = given.filter(|_| name == "read") else {
            return;
        };
        let text = given.target.literal().unwrap_or_default();
        let mut parts = text.split_whitespace();
        for name in names.iter().filter(|name| !name.starts_with('-')) {
            self.note(name, &given.target);
            if let Some(part) = parts.next() {
                self.note(name, &Word::from_literal(part, given.span.clone()));
            }
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &Node) {
        match &node.kind {
            Kind::Command(command) => {
                self.command(command);
                self.filled(command, node);
            }
            Kind::Sequence(nodes) | Kind::Pipeline(nodes) | Kind::Subshell(nodes) | Kind::Group(nodes) => {
                self.nodes(nodes);
            }
            Kind::Background(inner) => self.node(inner),
            Kind::Control(control) => {
                if let Some(variable) = &control.variable {
                    control.words.iter().for_each(|word| self.note(variable, word));
                }
                self.nodes(&control.parts);
            }
            Kind::Function { body, .. } => self.node(body),
            Kind::Test(_) | Kind::Arithmetic(_) => {}
        }
    }

    fn command(&mut self, command: &Command) {
        for assignment in &command.assignments {
            let values = assignment
                .values
                .iter()
                .filter(|value| !holds(value, &assignment.name));
            for value in values {
                if assignment.appends {
                    self.append(&assignment.name, value);
                }
                self.note(&assignment.name, element(value).as_ref().unwrap_or(value));
            }
        }
        // `$x set -- …`: an expansion before the name may be empty.
        let unknown = |word: &&Word| word.is_dynamic() && word.prefix().0.is_empty();
        let start = command.words.iter().take_while(unknown).count();
        let words = command.words.get(start..).unwrap_or(&[]);
        let name = words.first().and_then(Word::literal).unwrap_or_default();
        let rest = words.get(1..).unwrap_or(&[]);
        match name.as_str() {
            "time" => {
                let is_assignment = |word: &&Word| wrapper::is_assignment(&word.prefix().0);
                for word in rest.iter().take_while(is_assignment) {
                    let (text, _) = word.prefix();
                    if let Some((name, _)) = text.split_once('=') {
                        self.note(name, &word.without_prefix(name.len() + 1));
                    }
                }
            }
            "export" | "declare" | "local" | "readonly" | "typeset" => {
                for word in rest {
                    let (text, _) = word.prefix();
                    if let Some((name, _)) = text.split_once('=') {
                        self.note(name, &word.without_prefix(name.len() + 1));
                    }
                }
            }
            "set" => {
                let operands = rest.iter().skip_while(|word| word.prefix().0.starts_with('-'));
                let operands: Vec<&Word> = operands.collect();
                for (index, word) in operands.iter().enumerate().take(READINGS_MAX) {
                    self.note(&(index + 1).to_string(), word);
                }
                if let Some(all) = together(&operands) {
                    self.note("@", &all);
                    self.note("*", &all);
                }
            }
            _ => {}
        }
    }
}

/// The text of a piece; what is not known may be empty.
fn known_text(piece: &Piece) -> Option<&str> {
    match piece {
        Piece::Literal { text, .. } => Some(text),
        Piece::Param(_) | Piece::Subst(_) => Some(""),
        _ => None,
    }
}

/// A printed text as pieces; the home directory is spelled out as a variable in it.
fn said(text: &str) -> Vec<Piece> {
    let literal = |text: &str| Piece::Literal {
        text: text.to_owned(),
        quoted: true,
    };
    match text.strip_prefix("$HOME") {
        Some(rest) => vec![Piece::Home, literal(rest)],
        None => vec![literal(text)],
    }
}

/// The value in `([key]=value)`.
fn element(word: &Word) -> Option<Word> {
    let [Piece::Glob(open), Piece::Literal { text, .. }, rest @ ..] = word.pieces.as_slice() else {
        return None;
    };
    let (_, value) = text.split_once("]=").filter(|_| open == "[")?;
    let mut out = Word::from_literal(value, word.span.clone());
    out.pieces.extend(rest.iter().cloned());
    Some(out)
}

/// `x=$x:more` would be put in for ever.
fn holds(value: &Word, name: &str) -> bool {
    let is = |piece: &Piece| matches!(piece, Piece::Param(Param { name: own, .. }) if own == name);
    value.pieces.iter().any(is)
}

/// Literal words as one, blanks between them.
fn together(words: &[&Word]) -> Option<Word> {
    let texts: Option<Vec<String>> = words.iter().map(|word| word.literal()).collect();
    let span = words.first()?.span.clone();
    Some(Word::from_literal(&texts?.join(" "), span))
}
