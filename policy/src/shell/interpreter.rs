//! Interpreters: does this call run code that stands in the command itself?

use super::payload::{SHELLS, shell_call};
use super::script::{Node, Piece, RedirectKind, Word};

struct Row {
    names: &'static [&'static str],
    /// Letters whose presence means code in an argument.
    code: &'static str,
    /// Letters that take a value and do not mean code.
    valued: &'static str,
    /// Letters whose value, if there is one, is the rest of the word.
    glued: &'static str,
    /// Letters whose value is a module to run: what follows are its arguments.
    module: &'static str,
    long_code: &'static [&'static str],
    /// First operands that mean code follows.
    code_words: &'static [&'static str],
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { names: &["python", "pypy", "ipython", "micropython"], code: "c", valued: "WX", glued: "", module: "m", long_code: &[], code_words: &[] },
    Row { names: &["perl"], code: "eE", valued: "I", glued: "MmxFDC", module: "", long_code: &[], code_words: &[] },
    Row { names: &["ruby", "irb", "jruby"], code: "e", valued: "ICE", glued: "KTWx", module: "", long_code: &[], code_words: &[] },
    Row { names: &["node", "nodejs"], code: "epr", valued: "C", glued: "", module: "", long_code: &["eval", "print", "require", "import", "loader", "experimental-loader"], code_words: &[] },
    Row { names: &["deno"], code: "", valued: "", glued: "", module: "", long_code: &["eval"], code_words: &["eval", "repl"] },
    Row { names: &["bun"], code: "ep", valued: "", glued: "", module: "", long_code: &["eval", "print"], code_words: &[] },
    Row { names: &["tsx", "ts-node"], code: "ep", valued: "", glued: "", module: "", long_code: &["eval", "print"], code_words: &[] },
    Row { names: &["php"], code: "rBRE", valued: "dczS", glued: "", module: "", long_code: &["run", "process-begin", "process-code", "process-end"], code_words: &[] },
    Row { names: &["lua", "luajit"], code: "el", valued: "", glued: "", module: "", long_code: &[], code_words: &[] },
    Row { names: &["rscript", "r", "julia", "elixir", "groovy", "scala", "kotlin", "ghc", "runghc", "ocaml", "guile", "osascript", "nu", "janet", "raku"], code: "eEcr", valued: "", glued: "", module: "", long_code: &["eval", "print", "command"], code_words: &[] },
    Row { names: &["erl", "iex"], code: "e", valued: "", glued: "", module: "", long_code: &["eval"], code_words: &[] },
    Row { names: &["tclsh", "wish", "expect"], code: "c", valued: "", glued: "", module: "", long_code: &[], code_words: &[] },
    Row { names: &["sbcl", "clisp", "ecl", "racket", "emacs-lisp"], code: "ex", valued: "", glued: "", module: "", long_code: &["eval", "non-interactive"], code_words: &[] },
    Row { names: &["pwsh", "powershell"], code: "cC", valued: "", glued: "", module: "", long_code: &[], code_words: &[] },
];

/// How a call gets its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// No interpreter, or a file or module with a static name.
    Static,
    /// Code in an argument, standard input or a substitution.
    Inline,
    /// A file whose name is only known at run time.
    Dynamic,
}

/// Python 3.11 is `python`, Lua 5.4 is `lua`.
fn family(name: &str) -> String {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
        .to_lowercase()
}

fn row(name: &str) -> Option<&'static Row> {
    let family = family(name);
    ROWS.iter().find(|row| row.names.contains(&family.as_str()))
}

/// Where the program of this call comes from.
pub(super) fn source(name: &str, words: &[Word], node: &Node, piped: bool) -> Source {
    let feeds = piped || node.redirects.iter().any(feeds_code);
    if SHELLS.contains(&name) {
        let call = shell_call(words);
        if call.command.is_some() || call.start_file || words.iter().any(is_minus_c) {
            return Source::Inline;
        }
        return match call.script {
            Some(script) => script_source(script, feeds),
            None if words.len() > 1 => only_asks(words),
            None if feeds => Source::Inline,
            None => Source::Static,
        };
    }
    match row(name) {
        Some(row) => by_row(row, words, feeds),
        None => Source::Static,
    }
}

fn is_minus_c(word: &Word) -> bool {
    word.literal().as_deref() == Some("-c")
}

fn feeds_code(redirect: &super::script::Redirect) -> bool {
    match redirect.kind {
        RedirectKind::HereString | RedirectKind::Heredoc { .. } => true,
        RedirectKind::Input => !is_no_code(&redirect.target),
        RedirectKind::Output | RedirectKind::Duplicate => false,
    }
}

/// Nothing, or a connection that is refused as such.
fn is_no_code(input: &Word) -> bool {
    let (text, whole) = input.prefix();
    whole && text == "/dev/null" || text.starts_with("/dev/tcp") || text.starts_with("/dev/udp")
}

fn by_row(row: &Row, words: &[Word], feeds: bool) -> Source {
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        let (text, whole) = word.prefix();
        if text == "-" && whole {
            return Source::Inline;
        }
        if text == "--" && whole {
            return rest
                .next()
                .map_or(Source::Static, |script| script_source(script, feeds));
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or(long);
            if row.long_code.contains(&name) {
                return Source::Inline;
            }
            continue;
        }
        if !text.starts_with('-') {
            if row.code_words.contains(&text.as_str()) {
                return Source::Inline;
            }
            return script_source(word, feeds);
        }
        for (at, letter) in text.char_indices().skip(1) {
            if row.code.contains(letter) {
                return Source::Inline;
            }
            let last = at + letter.len_utf8() == text.len() && whole;
            if row.module.contains(letter) {
                let module = if last { rest.next() } else { None };
                let dynamic = module.is_some_and(Word::is_dynamic) || !whole;
                return if dynamic { Source::Dynamic } else { Source::Static };
            }
            if row.glued.contains(letter) {
                break;
            }
            if row.valued.contains(letter) {
                if last {
                    rest.next();
                }
                break;
            }
        }
    }
    // Without a script the interpreter reads standard input; `--version` does not mind.
    let asks = words.len() > 1;
    if feeds && !asks {
        Source::Inline
    } else if feeds {
        only_asks(words)
    } else {
        Source::Static
    }
}

fn only_asks(words: &[Word]) -> Source {
    let version = |word: &Word| {
        word.literal()
            .is_some_and(|text| matches!(text.as_str(), "--version" | "-V" | "-v" | "--help" | "-h"))
    };
    if words[1..].iter().all(version) {
        Source::Static
    } else {
        Source::Inline
    }
}

fn script_source(script: &Word, feeds: bool) -> Source {
    if script
        .pieces
        .iter()
        .any(|piece| matches!(piece, Piece::ProcessIn(_)))
    {
        return Source::Inline;
    }
    if script.is_dynamic() || script.pieces.iter().any(|piece| matches!(piece, Piece::Glob(_))) {
        return Source::Dynamic;
    }
    let text = script.literal().unwrap_or_default();
    let from_input = matches!(text.as_str(), "-" | "/dev/stdin")
        || text.starts_with("/dev/fd/")
        || text.starts_with("/proc/");
    if from_input && (feeds || text != "-") {
        Source::Inline
    } else {
        Source::Static
    }
}
