//! What one stage of a pipeline hands to the next, as far as the text shows it.

use super::payload::{self, Payload, SHELLS};
use super::script::{Command, Kind, Node, RedirectKind, Word};
use super::wrapper::{self, Manner, base_name};
use super::writes;

/// The shell text that `before` feeds to `after`, where both are known: `echo 'ls' | sh`.
pub(super) fn fed_shell(before: &Node, after: &Node) -> Option<Payload> {
    let words = &command(after)?.words;
    let name = words.first()?.literal()?;
    if !SHELLS.contains(&base_name(&name)) {
        return None;
    }
    let call = payload::shell_call(words);
    let reads = call.command.is_none() && (call.reads_input || call.script.is_some_and(is_input));
    if reads {
        payload::joined(&output(before)?)
    } else {
        None
    }
}

/// The paths that a stage lists for an `xargs` that removes or changes them: the places below
/// which everything is meant.
pub(super) fn removed(stages: &[Node], at: usize) -> Vec<&Word> {
    let Some(words) = stages.get(at).and_then(command).map(|command| &command.words) else {
        return Vec::new();
    };
    let name = words.first().and_then(Word::literal).unwrap_or_default();
    let listed: Vec<&Word> = match base_name(&name) {
        "find" => writes::find_starts(&words[1..]),
        "ls" | "echo" | "printf" => words[1..].iter().collect(),
        _ => return Vec::new(),
    };
    let destroys = stages[at + 1..].iter().filter_map(command).any(feeds_removal);
    if destroys { listed } else { Vec::new() }
}

fn feeds_removal(command: &Command) -> bool {
    let words = &command.words;
    let name = words.first().and_then(Word::literal).unwrap_or_default();
    let Some(unwrapped) = wrapper::unwrap(base_name(&name), words) else {
        return false;
    };
    let inner = unwrapped
        .inner
        .first()
        .and_then(Word::literal)
        .unwrap_or_default();
    unwrapped.manner == Manner::Xargs
        && matches!(
            base_name(&inner),
            "rm" | "shred" | "chmod" | "chown" | "mv" | "unlink"
        )
}

fn command(node: &Node) -> Option<&Command> {
    match &node.kind {
        Kind::Command(command) => Some(command),
        _ => None,
    }
}

fn is_input(script: &Word) -> bool {
    script
        .literal()
        .is_some_and(|text| matches!(text.as_str(), "-" | "/dev/stdin" | "/dev/fd/0"))
}

/// What a stage prints, for the few commands that print what the text says.
fn output(node: &Node) -> Option<Vec<Word>> {
    let words = &command(node)?.words;
    let name = words.first()?.literal()?;
    match base_name(&name) {
        "echo" => {
            let is_option = |word: &&Word| {
                word.literal()
                    .is_some_and(|text| matches!(text.as_str(), "-n" | "-e" | "-E" | "-ne" | "-en"))
            };
            Some(words[1..].iter().skip_while(is_option).cloned().collect())
        }
        // The format is part of the text, or says how the rest is put together.
        "printf" => {
            let mut printed: Vec<Word> = words[1..].to_vec();
            let format = printed.first()?.literal()?;
            if format.trim_end_matches("\\n") == "%s" {
                printed.remove(0);
            }
            Some(printed)
        }
        "cat" | "tee" => {
            let body = node.redirects.iter().find(|redirect| {
                matches!(
                    redirect.kind,
                    RedirectKind::Heredoc { .. } | RedirectKind::HereString
                )
            });
            body.map(|redirect| vec![redirect.target.clone()])
        }
        _ => None,
    }
}
