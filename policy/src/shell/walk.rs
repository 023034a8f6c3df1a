//! Visits every command that a script may run, in source order, following the working directory.
//!
//! The recursion is as deep as the syntax tree, which the parser's limits bound.

use super::deny::Check;
use super::place::Place;
use super::script::{Command, Control, Kind, Node, Piece, Redirect, Word};
use super::wrapper::base_name;
use crate::Ground;

/// What is asked of each construct. The first refusal ends the walk.
pub(super) trait Rules {
    /// Before a statement's parts.
    fn statement(&mut self, node: &Node, place: &Place) -> Check;
    /// A word anywhere, before the commands in it.
    fn word(&mut self, word: &Word, place: &Place) -> Check;
    fn redirect(&mut self, redirect: &Redirect, node: &Node, place: &Place) -> Check;
    fn command(&mut self, command: &Command, node: &Node, place: &Place) -> Check;
    fn ground(&self) -> &Ground;
}

/// Walks statements that one shell runs one after the other.
pub(super) fn statements<R: Rules>(rules: &mut R, nodes: &[Node], place: &mut Place) -> Check {
    for node in nodes {
        statement(rules, node, place)?;
    }
    Ok(())
}

fn statement<R: Rules>(rules: &mut R, node: &Node, place: &mut Place) -> Check {
    rules.statement(node, place)?;
    match &node.kind {
        Kind::Command(command) => {
            for assignment in &command.assignments {
                words(rules, assignment.subscript.as_slice(), place)?;
                words(rules, &assignment.values, place)?;
            }
            words(rules, &command.words, place)?;
            redirects(rules, node, place)?;
            rules.command(command, node, place)?;
            follow(command, place, rules.ground());
            return Ok(());
        }
        Kind::Control(control) => {
            words(rules, &control.words, place)?;
            redirects(rules, node, place)?;
            return branches(rules, control, place);
        }
        Kind::Sequence(nodes) | Kind::Group(nodes) => statements(rules, nodes, place)?,
        Kind::Pipeline(stages) => pipeline(rules, stages, place)?,
        Kind::Background(inner) => statement(rules, inner, &mut place.clone())?,
        Kind::Subshell(nodes) => statements(rules, nodes, &mut place.clone())?,
        Kind::Function { body, .. } => {
            let mut own = place.clone();
            own.in_function = true;
            statement(rules, body, &mut own)?;
        }
        Kind::Test(operands) => words(rules, operands, place)?,
        Kind::Arithmetic(expression) => inside(rules, expression, place)?,
    }
    redirects(rules, node, place)
}

fn pipeline<R: Rules>(rules: &mut R, stages: &[Node], place: &Place) -> Check {
    for (index, stage) in stages.iter().enumerate() {
        let mut own = place.clone();
        own.piped |= index > 0;
        statement(rules, stage, &mut own)?;
    }
    Ok(())
}

/// The head runs here; each body may run, and may run again from where it ended.
fn branches<R: Rules>(rules: &mut R, control: &Control, place: &mut Place) -> Check {
    let Some((head, bodies)) = control.parts.split_first() else {
        return Ok(());
    };
    statement(rules, head, place)?;
    let before = place.cwd.clone();
    let mut after = before.clone();
    let repeats = matches!(control.keyword, "for" | "while" | "until" | "select");
    for body in bodies {
        let mut own = place.clone();
        statement(rules, body, &mut own)?;
        if own.cwd != before {
            after = None;
            if repeats {
                own.cwd = None;
                statement(rules, body, &mut own)?;
            }
        }
    }
    if after.is_none() {
        (place.before, place.pushed) = (None, Vec::new());
    }
    place.cwd = after;
    Ok(())
}

fn redirects<R: Rules>(rules: &mut R, node: &Node, place: &Place) -> Check {
    for redirect in &node.redirects {
        inside(rules, &redirect.target, place)?;
        rules.redirect(redirect, node, place)?;
    }
    Ok(())
}

fn words<R: Rules>(rules: &mut R, words: &[Word], place: &Place) -> Check {
    for word in words {
        inside(rules, word, place)?;
    }
    Ok(())
}

/// A word, then the commands in its substitutions, each in a shell of its own.
fn inside<R: Rules>(rules: &mut R, word: &Word, place: &Place) -> Check {
    rules.word(word, place)?;
    pieces(rules, &word.pieces, place)
}

fn pieces<R: Rules>(rules: &mut R, all: &[Piece], place: &Place) -> Check {
    for piece in all {
        match piece {
            Piece::Subst(nodes) | Piece::ProcessIn(nodes) | Piece::ProcessOut(nodes) => {
                let mut own = place.clone();
                own.piped |= matches!(piece, Piece::ProcessOut(_));
                statements(rules, nodes, &mut own)?;
            }
            Piece::Param(param) => {
                pieces(rules, &param.numbers.inner, place)?;
                pieces(rules, &param.inner, place)?;
            }
            Piece::Arithmetic(numbers) => pieces(rules, &numbers.inner, place)?,
            Piece::Literal { .. }
            | Piece::Glob(_)
            | Piece::Home
            | Piece::Pwd
            | Piece::Tmp
            | Piece::UserHome(_) => {}
        }
    }
    Ok(())
}

/// Changes the directory as `cd`, `pushd`, `popd` would.
/// `pushd +1` turns the stack around.
fn turns_stack(word: &Word) -> bool {
    word.prefix().0.starts_with('+')
}

fn follow(command: &Command, place: &mut Place, ground: &Ground) {
    let Some(name) = command.words.first().and_then(Word::literal) else {
        return;
    };
    let mut rest = &command.words[1..];
    let mut name = base_name(&name).to_owned();
    while matches!(name.as_str(), "command" | "builtin") {
        let Some(next) = rest.first().and_then(Word::literal) else {
            return;
        };
        rest = &rest[1..];
        name = next;
    }
    match name.as_str() {
        "cd" | "pushd" => {
            let is_option = |word: &&Word| {
                word.literal()
                    .is_some_and(|text| text.len() > 1 && text.starts_with('-'))
            };
            let target = rest.iter().find(|word| !is_option(word));
            let strange = target.is_none() || rest.len() > 1 || target.is_some_and(turns_stack);
            if name == "pushd" && strange {
                place.pushed.clear();
                place.go(None);
                return;
            }
            if name == "pushd" {
                place.pushed.push(place.cwd.clone());
            }
            place.enter(target, ground);
        }
        "popd" => {
            let back = place.pushed.pop().flatten();
            place.go(back.filter(|_| rest.is_empty()));
        }
        // A body read elsewhere may change the directory.
        "eval" | "source" | "." => place.cwd = None,
        _ => {}
    }
}
