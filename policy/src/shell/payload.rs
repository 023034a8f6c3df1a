//! Shell text inside a shell command: `bash -c`, `eval`, `trap`, a here-document for `sh`.

use super::argv::{self, Arg, Valued};
use super::options::with_holes;
use super::pipes;
use super::quote;
use super::script::{Node, Piece, RedirectKind, Word};
use super::wrapper::{base_name, is_assignment};

/// Shells of the Bourne family.
#[rustfmt::skip]
pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "yash", "posh",
];

/// One inner text that a shell would run. Parts that are only known when it runs are replaced by a plain word.
#[derive(Debug, Clone)]
pub(super) struct Payload {
    pub(super) text: String,
    /// Nothing was replaced: the text is what will be run.
    pub(super) exact: bool,
    /// The text with the replaced parts left out, as if they were empty.
    pub(super) bare: String,
    pub(super) span: std::ops::Range<usize>,
}

/// Options of a shell, and where its script or command string stands.
pub(super) struct ShellCall<'a> {
    pub(super) command: Option<&'a Word>,
    pub(super) script: Option<&'a Word>,
    /// `-s`, or no operand at all: commands come from standard input.
    pub(super) reads_input: bool,
    /// `--rcfile`, `--init-file`.
    pub(super) start_file: bool,
}

/// Reads the arguments of a shell.
pub(super) fn shell_call(words: &[Word]) -> ShellCall<'_> {
    let mut call = ShellCall {
        command: None,
        script: None,
        reads_input: false,
        start_file: false,
    };
    let (mut wants_command, mut at) = (false, 1);
    while let Some(word) = words.get(at) {
        let (text, whole) = word.prefix();
        at += 1;
        if whole && matches!(text.as_str(), "--" | "-") {
            break;
        }
        if matches!(text.as_str(), "--rcfile" | "--init-file") {
            call.start_file = true;
            at += 1;
        } else if text.starts_with("--") {
            call.start_file |= text.starts_with("--rcfile") || text.starts_with("--init");
        } else if text.len() > 1 && (text.starts_with('-') || text.starts_with('+')) {
            wants_command |= text.starts_with('-') && text.contains('c');
            call.reads_input |= text.starts_with('-') && text.contains('s');
            let takes_value = text.ends_with('o') || text.ends_with('O');
            at += usize::from(takes_value);
        } else {
            at -= 1;
            break;
        }
    }
    let operand = words.get(at);
    if wants_command {
        call.command = operand;
    } else if !call.reads_input {
        // With -s the operands are the script's arguments.
        call.script = operand;
        call.reads_input = operand.is_none();
    }
    call
}

/// The texts that a command hands to a shell.
pub(super) fn of(name: &str, words: &[Word], node: &Node) -> Vec<Payload> {
    if SHELLS.contains(&base_name(name)) || matches!(name, "source" | ".") {
        return of_shell(words, node);
    }
    match name {
        "eval" => joined(words.get(1..).unwrap_or(&[])).into_iter().collect(),
        "alias" => words.iter().skip(1).filter_map(alias_text).collect(),
        "trap" => trap_action(words).map(payload).into_iter().collect(),
        // `watch` joins its words into one shell text.
        "watch" => {
            let operands = words
                .iter()
                .skip(1)
                .skip_while(|word| word.prefix().0.starts_with('-'));
            joined(&operands.cloned().collect::<Vec<_>>())
                .into_iter()
                .collect()
        }
        "mapfile" | "readarray" => option_text(words, 'C', "uCcOsnd").into_iter().collect(),
        "complete" | "compgen" => option_text(words, 'C', "ACFGPSWXo").into_iter().collect(),
        "env" => split_string(words),
        "su" | "script" | "flock" => {
            let valued = Valued {
                short: "c",
                long: &["command"],
            };
            let args = argv::read(words.get(1..).unwrap_or(&[]), &valued);
            let mut out = Vec::new();
            for arg in args {
                match arg {
                    Arg::Short('c', Some(word), _) => out.push(payload(&word)),
                    Arg::Long(given, Some(word), _) if given == "command" => out.push(payload(&word)),
                    _ => {}
                }
            }
            out
        }
        _ => Vec::new(),
    }
}

/// The command text of a shell, what it reads from its input, and a script that is printed for it.
fn of_shell(words: &[Word], node: &Node) -> Vec<Payload> {
    let call = shell_call(words);
    let mut out: Vec<Payload> = call.command.map(payload).into_iter().collect();
    if let Some(script) = call.script.filter(|script| is_printed(script)) {
        out.push(payload(script));
    }
    if pipes::reads_shell_text(words) {
        let inputs = node.redirects.iter().filter(|redirect| match redirect.kind {
            RedirectKind::HereString | RedirectKind::Heredoc { .. } => true,
            RedirectKind::Input => is_printed(&redirect.target),
            RedirectKind::Output | RedirectKind::Duplicate => false,
        });
        out.extend(inputs.map(|redirect| payload(&redirect.target)));
    }
    out
}

fn is_printed(word: &Word) -> bool {
    matches!(word.pieces.as_slice(), [Piece::ProcessIn(_)])
}

/// The words that become `$0`, `$1` and so on of `bash -c TEXT`, where the text runs them.
pub(super) fn positional<'a>(name: &str, words: &'a [Word]) -> Vec<&'a [Word]> {
    let mut out = Vec::new();
    if !SHELLS.contains(&base_name(name)) {
        return out;
    }
    let Some(command) = shell_call(words).command else {
        return out;
    };
    let text = payload(command).text;
    let at = words.iter().position(|word| word.span == command.span);
    let after = words.get(at.unwrap_or(0) + 1..).unwrap_or(&[]);
    if text.contains("$0") {
        out.push(after);
    }
    // Expansions that are not known stand as `__`.
    let runs = ["$@", "$*", "$1", "${1", "${@", "__"];
    if let [_, rest @ ..] = after
        && runs.iter().any(|name| text.contains(name))
    {
        out.push(rest);
    }
    out
}

/// The command in `name=command`.
fn alias_text(word: &Word) -> Option<Payload> {
    let (text, _) = word.prefix();
    let (name, _) = text.split_once('=')?;
    Some(payload(&word.without_prefix(name.len() + 1)))
}

/// Names with a subscript, and values that look like one: where bash takes them for a variable or
/// a number it runs the substitutions in them.
pub(super) fn evaluated<'a>(name: &str, words: &'a [Word]) -> Vec<&'a Word> {
    let rest = words.get(1..).unwrap_or(&[]);
    match name {
        "let" | "read" | "unset" | "mapfile" | "readarray" | "getopts" | "declare" | "typeset" | "local"
        | "readonly" | "export" => rest.iter().collect(),
        "test" | "[" | "[[" => rest
            .iter()
            .zip(rest.iter().skip(1))
            .filter(|(option, _)| option.prefix().0 == "-v")
            .map(|(_, name)| name)
            .collect(),
        // Words of their own before the command: assignments.
        "time" | "coproc" => rest
            .iter()
            .take_while(|word| is_assignment(&with_holes(word)) || word.prefix().0.starts_with('-'))
            .collect(),
        "printf" if rest.first().is_some_and(|word| word.prefix().0.starts_with("-v")) => {
            rest.iter().take(2).collect()
        }
        _ => Vec::new(),
    }
}

/// The text of a word that bash may evaluate, as one in which the substitutions are run.
pub(super) fn subscripted(word: &Word) -> Option<Payload> {
    let text = payload(word).text;
    let open = text.find('[')?;
    let runs = text[open..].contains("$(") || text[open..].contains('`');
    runs.then(|| expanded(&text, word))
}

/// A text that is only expanded, such as the value of PS4.
pub(super) fn expanded(text: &str, word: &Word) -> Payload {
    let text = format!(": <<__EXPANDED\n{text}\n__EXPANDED\n");
    Payload {
        bare: text.clone(),
        text,
        exact: false,
        span: word.span.clone(),
    }
}

/// The text that an option gives to be run.
fn option_text(words: &[Word], letter: char, short: &'static str) -> Option<Payload> {
    let valued = Valued { short, long: &[] };
    let args = argv::read(words.get(1..).unwrap_or(&[]), &valued);
    args.into_iter().find_map(|arg| match arg {
        Arg::Short(given, Some(word), _) if given == letter => Some(payload(&word)),
        _ => None,
    })
}

/// `env -S TEXT`: not a shell's text, but split like one.
fn split_string(words: &[Word]) -> Vec<Payload> {
    let mut out = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (text, _) = word.prefix();
        let clustered = text.starts_with('-') && !text.starts_with("--") && text.ends_with('S');
        if clustered || text == "--split-string" {
            out.extend(words.get(index + 1).map(payload));
        } else if text.starts_with("-S") {
            out.push(payload(&word.without_prefix(2)));
        } else if text.starts_with("--split-string=") {
            out.push(payload(&word.without_prefix("--split-string=".len())));
        }
    }
    out
}

/// The code of `trap CODE SIGNAL…`; `None` for listing, ignoring (`''`) and resetting (`-`).
pub(super) fn trap_action(words: &[Word]) -> Option<&Word> {
    let is_option = |word: &&Word| {
        word.literal()
            .is_some_and(|text| matches!(text.as_str(), "--" | "-l" | "-p"))
    };
    let mut rest = words.iter().skip(1).skip_while(is_option);
    let action = rest.next()?;
    rest.next()?;
    let text = action.literal();
    let harmless =
        text.is_some_and(|text| text.is_empty() || text == "-" || text.chars().all(|c| c.is_ascii_digit()));
    (!harmless).then_some(action)
}

/// Words that a shell reads as one text.
pub(super) fn joined(words: &[Word]) -> Option<Payload> {
    let (first, rest) = words.split_first()?;
    let mut out = payload(first);
    for word in rest {
        out.append(&payload(word), " ");
    }
    Some(out)
}

pub(super) fn payload(word: &Word) -> Payload {
    let mut out = Payload {
        text: String::new(),
        exact: true,
        bare: String::new(),
        span: word.span.clone(),
    };
    for piece in &word.pieces {
        match piece {
            Piece::Literal { text, .. } | Piece::Glob(text) => out.push(text),
            Piece::Home => out.push("$HOME"),
            Piece::Pwd => out.push("$PWD"),
            Piece::Tmp => out.push("$TMPDIR"),
            Piece::Subst(nodes) | Piece::ProcessIn(nodes) => match pipes::printed(nodes) {
                Some(inner) => out.append(&inner, ""),
                None => out.hole(),
            },
            _ => out.hole(),
        }
    }
    out
}

impl Payload {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.bare.push_str(text);
    }

    fn hole(&mut self) {
        self.text.push_str("__");
        self.exact = false;
    }

    /// Adds another text after `separator`.
    pub(super) fn append(&mut self, other: &Self, separator: &str) {
        self.push(separator);
        self.text.push_str(&other.text);
        self.bare.push_str(&other.bare);
        self.exact &= other.exact;
    }

    /// Decodes the escapes of `echo -e` and `printf`.
    pub(super) fn decode(&mut self) {
        self.text = quote::decode_ansi_c(&self.text);
        self.bare = quote::decode_ansi_c(&self.bare);
    }
}
