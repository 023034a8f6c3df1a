//! Putting a command together: which of its words are assignments, name and arguments.

use super::brace;
use super::script::{Assignment, Command, Kind, Node, Piece, Word};
use super::wrapper::is_identifier;

pub(super) fn push_assignment(node: &mut Node, assignment: Assignment) {
    if let Some(command) = command_of(node) {
        command.assignments.push(assignment);
    }
}

/// Adds a word to the command of `node`, brace expansion done.
pub(super) fn push_words(node: &mut Node, word: Word) {
    for mut word in brace::expand(word) {
        // `{,x}`: bash drops an empty word that is not quoted.
        if word.pieces.is_empty() {
            continue;
        }
        word.expand_tilde();
        push_argument(node, &word);
    }
}

/// Adds what the grammar takes for more of a redirect or for a name: before the command's name it
/// may be an assignment.
pub(super) fn push_leading(node: &mut Node, word: Word) {
    let nameless = command_of(node).is_some_and(|command| command.words.is_empty());
    if let Some(Piece::Literal { text, quoted: false }) = word.pieces.first()
        && let Some((name, _)) = text.split_once('=')
        && is_identifier(name.trim_end_matches('+'))
        && nameless
    {
        let mut value = word.without_prefix(name.len() + 1);
        value.expand_tilde();
        let assignment = Assignment {
            appends: name.ends_with('+'),
            name: name.trim_end_matches('+').to_owned(),
            subscript: None,
            values: vec![value],
            span: word.span.clone(),
        };
        push_assignment(node, assignment);
        return;
    }
    push_words(node, word);
}

/// Adds a command's name. One that braces make keeps an empty pattern: only its expansion is known.
pub(super) fn push_name(node: &mut Node, word: Word) {
    let mut words = brace::expand(word);
    if words.len() > 1
        && let Some(name) = words.iter_mut().find(|word| !word.pieces.is_empty())
    {
        name.pieces.push(Piece::Glob(String::new()));
    }
    if let [_] = words.as_slice() {
        words.into_iter().for_each(|word| push_leading(node, word));
    } else {
        words.into_iter().for_each(|word| push_words(node, word));
    }
}

/// The command that an assignment belongs to.
pub(super) fn command_of(node: &mut Node) -> Option<&mut Command> {
    match &mut node.kind {
        Kind::Command(command) => Some(command),
        _ => None,
    }
}

/// Adds an argument found after a redirect. The grammar hangs the redirect on a whole list or
/// pipeline, and does not say on which command of it: the first and the last get the argument.
pub(super) fn push_argument(node: &mut Node, word: &Word) {
    match &mut node.kind {
        Kind::Command(command) => command.words.push(word.clone()),
        Kind::Sequence(nodes) | Kind::Pipeline(nodes) if !nodes.is_empty() => {
            let last = nodes.len() - 1;
            push_argument(&mut nodes[last], word);
            if last > 0 {
                push_argument(&mut nodes[0], word);
            }
        }
        _ => {
            let command = Command {
                assignments: Vec::new(),
                words: vec![word.clone()],
            };
            let span = node.span.clone();
            let own = Node::new(Kind::Command(command), word.span.clone());
            let before = std::mem::replace(node, Node::new(Kind::Sequence(Vec::new()), span));
            node.kind = Kind::Sequence(vec![before, own]);
        }
    }
}
