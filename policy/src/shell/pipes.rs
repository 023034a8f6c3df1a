//! What commands print and hand on, as far as the text shows it.

use super::payload::{self, Payload, SHELLS};
use super::script::{Command, Kind, Node, RedirectKind, Word};
use super::wrapper::{self, Manner, base_name};
use super::writes;

/// What the stages of a pipeline hand to the stage after them.
pub(super) enum Fed<'a> {
    /// A text that a shell runs: `echo 'ls' | sh`.
    Shell(Payload),
    /// Words that `xargs` adds to its command.
    Words(&'a [Word], Vec<Word>),
}

/// What each stage but the first is fed, where both ends are known.
pub(super) fn fed(stages: &[Node]) -> Vec<Fed<'_>> {
    let mut out = Vec::new();
    let mut passed: Option<Payload> = None;
    for (before, after) in stages.iter().zip(stages.iter().skip(1)) {
        if !(passed.is_some() && passes_on(before)) {
            passed = printed(std::slice::from_ref(before));
        }
        let (Some(text), Some(words)) = (&passed, reader(after)) else {
            continue;
        };
        if reads_shell_text(words) {
            out.push(Fed::Shell(text.clone()));
        }
        let name = words.first().and_then(Word::literal).unwrap_or_default();
        if let Some(unwrapped) = wrapper::unwrap(base_name(&name), words)
            && unwrapped.manner == Manner::Xargs
        {
            if let Some(marker) = marker(&words[..words.len() - unwrapped.inner.len()]) {
                out.push(Fed::Words(
                    &[],
                    put_in(unwrapped.inner, &marker, text.text.trim()),
                ));
                continue;
            }
            let added = text.text.split_whitespace();
            let added = added.map(|word| Word::from_literal(word, text.span.clone()));
            out.push(Fed::Words(unwrapped.inner, added.collect()));
        }
    }
    out
}

/// The text that `xargs -I MARKER` puts its input in place of.
fn marker(own: &[Word]) -> Option<String> {
    let at = own.iter().position(|word| word.prefix().0.starts_with("-I"))?;
    let glued = own[at].literal()?.split_off(2);
    if glued.is_empty() {
        own.get(at + 1)?.literal()
    } else {
        Some(glued)
    }
}

fn put_in(inner: &[Word], marker: &str, text: &str) -> Vec<Word> {
    let replaced = |word: &Word| match word.literal() {
        Some(literal) => Word::from_literal(&literal.replace(marker, text), word.span.clone()),
        None => word.clone(),
    };
    inner.iter().map(replaced).collect()
}

/// `cat` and `tee` hand on what they read.
fn passes_on(node: &Node) -> bool {
    let words = command(node).map_or(&[][..], |command| &command.words);
    let name = words.first().and_then(Word::literal).unwrap_or_default();
    match base_name(&name) {
        "cat" => words[1..].iter().all(|word| word.prefix().0.starts_with('-')),
        "tee" => true,
        _ => false,
    }
}

/// The command of a stage that reads what the stage is fed, wrappers taken off.
fn reader(node: &Node) -> Option<&[Word]> {
    match &node.kind {
        Kind::Command(command) => {
            let mut words = command.words.as_slice();
            loop {
                let name = words.first()?.literal()?;
                match wrapper::unwrap(base_name(&name), words) {
                    Some(unwrapped)
                        if matches!(unwrapped.manner, Manner::Plain | Manner::Detach | Manner::Exec) =>
                    {
                        words = unwrapped.inner;
                    }
                    _ => return Some(words),
                }
            }
        }
        Kind::Sequence(nodes) | Kind::Group(nodes) | Kind::Subshell(nodes) => nodes.first().and_then(reader),
        Kind::Background(inner) => reader(inner),
        Kind::Pipeline(_)
        | Kind::Control(_)
        | Kind::Function { .. }
        | Kind::Test(_)
        | Kind::Arithmetic(_) => None,
    }
}

/// True for a shell, or `source`, that takes its text from standard input.
pub(super) fn reads_shell_text(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::literal).unwrap_or_default();
    if matches!(name.as_str(), "source" | ".") {
        return words.get(1).is_some_and(is_input);
    }
    if !SHELLS.contains(&base_name(&name)) {
        return false;
    }
    let call = payload::shell_call(words);
    call.command.is_none() && (call.reads_input || call.script.is_some_and(is_input))
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

pub(super) fn is_input(script: &Word) -> bool {
    script.literal().is_some_and(|text| {
        matches!(
            text.as_str(),
            "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"
        )
    })
}

/// What statements print, for the few commands that print what the text says.
pub(super) fn printed(nodes: &[Node]) -> Option<Payload> {
    let mut parts = nodes.iter().filter_map(output);
    let mut out = parts.next()?;
    for part in parts {
        out.append(&part, "\n");
    }
    Some(out)
}

fn output(node: &Node) -> Option<Payload> {
    match &node.kind {
        Kind::Command(command) => output_of(&command.words, node),
        Kind::Sequence(nodes) | Kind::Group(nodes) | Kind::Subshell(nodes) => printed(nodes),
        Kind::Pipeline(stages) => {
            let (first, rest) = stages.split_first()?;
            rest.iter().all(passes_on).then(|| output(first)).flatten()
        }
        Kind::Background(_)
        | Kind::Control(_)
        | Kind::Function { .. }
        | Kind::Test(_)
        | Kind::Arithmetic(_) => None,
    }
}

fn output_of(words: &[Word], node: &Node) -> Option<Payload> {
    let name = words.first()?.literal()?;
    match base_name(&name) {
        "echo" => {
            let is_option = |word: &&Word| {
                word.literal().is_some_and(|text| {
                    text.strip_prefix('-').is_some_and(|letters| {
                        !letters.is_empty() && letters.chars().all(|c| "neE".contains(c))
                    })
                })
            };
            let decodes = words[1..]
                .iter()
                .take_while(is_option)
                .any(|word| word.prefix().0.contains('e'));
            let said: Vec<Word> = words[1..].iter().skip_while(is_option).cloned().collect();
            let mut out = payload::joined(&said)?;
            if decodes {
                out.decode();
            }
            Some(out)
        }
        "printf" => printf(&words[1..]),
        "cat" | "tee" => {
            let body = node.redirects.iter().find(|redirect| {
                matches!(
                    redirect.kind,
                    RedirectKind::Heredoc { .. } | RedirectKind::HereString
                )
            });
            body.and_then(|redirect| payload::joined(std::slice::from_ref(&redirect.target)))
        }
        _ => None,
    }
}

/// Each `%s` of the format takes the next word in turn.
fn printf(words: &[Word]) -> Option<Payload> {
    let (format, words) = words.split_first()?;
    let format = format.literal()?;
    let mut out = payload::payload(&Word::from_literal(
        "",
        words.first().map_or(0..0, |word| word.span.clone()),
    ));
    let mut rest = words.iter();
    loop {
        let before = rest.len();
        for (index, part) in format.split("%s").enumerate() {
            if index > 0
                && let Some(word) = rest.next()
            {
                out.append(&payload::payload(word), "");
            }
            out.append(&payload::payload(&Word::from_literal(part, 0..0)), "");
        }
        if rest.len() == 0 || rest.len() == before {
            break;
        }
    }
    // Words that the format has no place for are looked at all the same.
    for word in rest {
        out.append(&payload::payload(word), " ");
    }
    out.decode();
    Some(out)
}
