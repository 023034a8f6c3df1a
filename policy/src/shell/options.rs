//! Options through which an ordinary command runs another program.

use super::argv::{self, Arg, Valued};
use super::deny::{Check, Deny};
use super::programs::{self, Effect};
use super::script::Word;
use super::writes::TAR_VALUED;

struct Row {
    names: &'static [&'static str],
    valued: Valued,
    letters: &'static str,
    long: &'static [&'static str],
    /// Exact names that begin like one of `long` and are harmless.
    plain: &'static [&'static str],
}

impl Row {
    /// What fd runs is not in the text at all; the others run what an option names.
    fn refuse(&self, word: &Word, message: &str) -> Deny {
        if self.names.contains(&"fd") {
            Deny::new("indirect", &word.span, message).hint("list the files first and name them")
        } else {
            executes(word, message)
        }
    }
}

const fn row(
    names: &'static [&'static str],
    short: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    plain: &'static [&'static str],
) -> Row {
    Row {
        names,
        valued: Valued { short, long: &[] },
        letters,
        long,
        plain,
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(&["tar", "gtar", "bsdtar"], TAR_VALUED.short, "IF", &["to-command", "use-compress-program", "checkpoint-action", "info-script", "new-volume-script", "rsh-command", "rmt-command"], &["checkpoint"]),
    row(&["rsync"], "efBTMp", "e", &["rsh", "rsync-path"], &["rs"]),
    row(&["sort"], "koStT", "", &["compress-program"], &[]),
    row(&["rg"], "eABCgtTmMjEf", "z", &["pre", "hostname-bin", "search-zip"], &["pretty", "pre-glob"]),
    row(&["man"], "PHLmMrRSeEp", "PH", &["pager", "html", "browser"], &[]),
    row(&["zip"], "xinbtT", "", &["unzip-command"], &[]),
    row(&["split"], "abCln", "", &["filter"], &[]),
    row(&["cargo"], "pFjZ", "", &["config"], &[]),
    row(&["npm", "pnpm", "yarn", "npx"], "", "", &["script-shell", "shell"], &[]),
    row(&["fd", "fdfind"], "etEdSc", "xX", &["exec", "exec-batch"], &["exec-time"]),
    row(&["tcpdump"], "iwrcCGFsTyz", "z", &["postrotate-command"], &[]),
    row(&["gdb", "lldb"], "xdcpso", "xo", &["ex", "eval-command", "command", "iex", "ix", "one-line", "source"], &["batch"]),
    row(&["ctags", "etags"], "fo", "", &["options"], &[]),
    row(&["ocamlfind", "gcc", "g++", "clang", "cc"], "oIDLlxUTfBW", "", &["wrapper"], &[]),
    row(&["wget"], "OPoatTeUQ", "", &["use-askpass"], &[]),
];

#[rustfmt::skip]
const EDITORS: &[&str] = &[
    "vi", "vim", "nvim", "view", "vimdiff", "rvim", "ex", "ed", "red", "emacs", "emacsclient", "nano",
    "pico", "joe", "jed", "micro", "kak", "hx", "helix", "mg", "mcedit",
];

/// Commands whose options run or write something and whose operands are not computed in ordinary
/// use: what a substitution puts in an operand's place could be such an option.
#[rustfmt::skip]
const NO_COMPUTED_OPERANDS: &[&str] = &[
    "tar", "gtar", "bsdtar", "rsync", "sort", "rg", "man", "zip", "split", "fd", "fdfind", "ssh", "scp", "sftp",
    "find", "xargs",
];

fn computed_operand(name: &str, rest: &[Word]) -> Check {
    if !NO_COMPUTED_OPERANDS.contains(&name) {
        return Ok(());
    }
    let is_end = |word: &&Word| word.literal().as_deref() != Some("--");
    for word in rest.iter().take_while(is_end) {
        let (before, _) = word.prefix();
        if before.is_empty() && word.has_substitution() {
            let message = format!("what this substitution prints could be an option of {name}");
            return Err(
                Deny::new("subst", &word.span, message).hint("put -- before it, or write the words out")
            );
        }
    }
    Ok(())
}

/// Refuses options that run programs. `name` is the command's base name.
pub(super) fn check(name: &str, words: &[Word]) -> Check {
    let rest = words.get(1..).unwrap_or(&[]);
    computed_operand(name, rest)?;
    if EDITORS.contains(&name) {
        return Err(
            executes(&words[0], "editors run commands from their input and options")
                .hint("use the edit tool"),
        );
    }
    match name {
        "ssh" | "scp" | "sftp" | "slogin" => check_ssh(rest)?,
        "sed" | "gsed" => check_sed(rest)?,
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => check_awk(rest)?,
        "make" | "gmake" | "ninja" => check_make(rest)?,
        "go" => check_go(rest)?,
        "gdb" | "lldb" => check_debugger(rest)?,
        "npm" | "npx" | "pnpm" => check_npm(name, rest)?,
        "zip" => check_zip(rest)?,
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "gfortran" => check_compiler(rest)?,
        _ => {}
    }
    let Some(row) = ROWS.iter().find(|row| row.names.contains(&name)) else {
        return Ok(());
    };
    let dashed: Vec<Word>;
    let rest = if row.names.contains(&"tar") {
        dashed = argv::dashed(rest, row.valued.short);
        dashed.as_slice()
    } else {
        rest
    };
    for arg in argv::read(rest, &row.valued) {
        check_arg(row, &arg)?;
    }
    Ok(())
}

fn check_arg(row: &Row, arg: &Arg<'_>) -> Check {
    match arg {
        Arg::Short(letter, _, word) if row.letters.contains(*letter) => {
            Err(row.refuse(word, &format!("option -{letter} runs a program")))
        }
        Arg::Long(given, value, word) if !row.plain.contains(&given.as_str()) => {
            if let Some(name) = row.long.iter().find(|name| argv::means(given, name)) {
                return Err(row.refuse(word, &format!("option --{name} runs a program")));
            }
            // A name that is put together at run time could be any of them.
            if value.is_none() && word.is_dynamic() && word.literal().is_none() {
                return Err(
                    Deny::new("subst", &word.span, "the option's name is only known at run time")
                        .hint("write the option out"),
                );
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn executes(word: &Word, message: &str) -> Deny {
    Deny::new("arg-exec", &word.span, message).hint("do it in two steps, or put it in a script file")
}

fn check_ssh(rest: &[Word]) -> Check {
    let valued = Valued {
        short: "BbcDEeFIiJLlmOoPpQRSWw",
        long: &[],
    };
    for arg in argv::read(rest, &valued) {
        let Arg::Short(letter, value, word) = arg else {
            continue;
        };
        let text = value
            .map(|value| value.prefix().0.to_ascii_lowercase())
            .unwrap_or_default();
        let runs = letter == 'F'
            || letter == 'S'
            || letter == 'o' && (text.contains("command") || text.contains("include"));
        if runs {
            return Err(executes(word, "the option can run a local program"));
        }
    }
    Ok(())
}

/// The sed scripts of a call: `-e` values, or the first operand. Dynamic parts become `x`.
pub(super) fn sed_scripts(rest: &[Word]) -> Result<Vec<String>, Deny> {
    let valued = Valued {
        short: "efl",
        long: &["expression", "file", "line-length"],
    };
    let args = argv::read(rest, &valued);
    let mut scripts = Vec::new();
    let mut given = false;
    for arg in &args {
        match arg {
            Arg::Short('e', Some(value), _) => scripts.push(with_holes(value)),
            Arg::Short('f', _, word) => return Err(executes(word, "sed -f runs a script file unseen")),
            Arg::Long(name, value, word) if argv::means(name, "expression") || argv::means(name, "file") => {
                match value {
                    Some(value) if argv::means(name, "expression") => scripts.push(with_holes(value)),
                    _ => return Err(executes(word, "sed --file runs a script file unseen")),
                }
            }
            _ => {}
        }
        given |= !scripts.is_empty();
    }
    if !given && let Some(first) = argv::operands(&args).first() {
        scripts.push(with_holes(first));
    }
    Ok(scripts)
}

/// The literal text of a word, with `x` for what is expanded.
pub(super) fn with_holes(word: &Word) -> String {
    use super::script::Piece;
    let mut text = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Literal { text: part, .. } | Piece::Glob(part) => text.push_str(part),
            _ => text.push('x'),
        }
    }
    text
}

fn check_sed(rest: &[Word]) -> Check {
    let Some(first) = rest.first() else { return Ok(()) };
    for script in sed_scripts(rest)? {
        match programs::sed(&script) {
            Effect::None | Effect::Reads(_) => {}
            Effect::Executes => return Err(executes(first, "the sed script runs a command (e)")),
            Effect::Writes(file) if is_plain_name(&file) => {}
            Effect::Writes(file) => {
                return Err(Deny::new(
                    "arg-write",
                    &first.span,
                    format!("the sed script writes {file:?}"),
                )
                .hint("redirect the output to a file in the working directory"));
            }
            Effect::Unknown => return Err(executes(first, "the sed script cannot be read")),
        }
    }
    Ok(())
}

/// A file below the working directory.
fn is_plain_name(file: &str) -> bool {
    !file.is_empty() && !file.starts_with(['/', '~']) && !file.split('/').any(|part| part == "..")
}

/// The awk program of a call, with `x` for expanded parts.
pub(super) fn awk_program(rest: &[Word]) -> Result<Option<(String, &Word)>, Deny> {
    let valued = Valued {
        short: "FvfileW",
        long: &[
            "assign",
            "field-separator",
            "file",
            "include",
            "load",
            "exec",
            "source",
        ],
    };
    let args = argv::read(rest, &valued);
    for arg in &args {
        match arg {
            Arg::Short('f' | 'i' | 'l' | 'E' | 'e' | 'W' | 'D', _, word) => {
                return Err(executes(word, "awk runs a program or library file unseen")
                    .hint("give the program as the first argument"));
            }
            Arg::Long(name, _, word)
                if ["file", "include", "load", "exec", "source", "debug"]
                    .iter()
                    .any(|long| argv::means(name, long)) =>
            {
                return Err(executes(word, "awk runs a program or library file unseen")
                    .hint("give the program as the first argument"));
            }
            _ => {}
        }
    }
    let program = argv::operands(&args).into_iter().next();
    Ok(program.map(|word| (with_holes(word), word)))
}

fn check_awk(rest: &[Word]) -> Check {
    let Some((program, word)) = awk_program(rest)? else {
        return Ok(());
    };
    match programs::awk(&program) {
        Effect::None | Effect::Reads(_) => Ok(()),
        Effect::Executes => Err(executes(word, "the awk program runs a command")),
        Effect::Writes(file) if is_plain_name(&file) => Ok(()),
        Effect::Writes(file) => Err(Deny::new(
            "arg-write",
            &word.span,
            format!("the awk program writes {file:?}"),
        )
        .hint("print to standard output and redirect it to a file in the working directory")),
        Effect::Unknown => Err(executes(word, "the awk program cannot be read")),
    }
}

fn check_make(rest: &[Word]) -> Check {
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let (text, _) = word.prefix();
        let from_input = matches!(text.as_str(), "-f-" | "--file=-" | "--makefile=-")
            || matches!(text.as_str(), "-f" | "--file" | "--makefile")
                && rest
                    .clone()
                    .next()
                    .and_then(Word::literal)
                    .is_some_and(|file| file == "-" || file == "/dev/stdin");
        let sets = ["SHELL=", ".SHELLFLAGS=", "MAKEFLAGS=", "--eval", "-E"];
        if from_input || sets.iter().any(|set| text.starts_with(set)) {
            return Err(executes(word, "it gives make code to run").hint("write it into a makefile"));
        }
        if matches!(text.as_str(), "-f" | "--file" | "-C" | "-j" | "-I" | "-o" | "-W") {
            // `-j` takes its number glued or not at all; a following target is looked at too.
            if text != "-j" {
                rest.next();
            }
        }
    }
    Ok(())
}

fn check_go(rest: &[Word]) -> Check {
    for word in rest {
        let (text, _) = word.prefix();
        let name = text.trim_start_matches('-').split('=').next().unwrap_or("");
        if text.starts_with('-') && matches!(name, "exec" | "toolexec" | "vettool") {
            return Err(executes(word, "the option runs a program"));
        }
    }
    Ok(())
}

/// gdb spells its long options with one dash too.
fn check_debugger(rest: &[Word]) -> Check {
    for word in rest {
        let (text, _) = word.prefix();
        let name = text.trim_start_matches('-').split('=').next().unwrap_or("");
        if matches!(text.as_str(), "-args" | "--args" | "--") {
            return Ok(());
        }
        if text.starts_with('-')
            && matches!(
                name,
                "ex" | "iex" | "x" | "ix" | "eval-command" | "command" | "init-command" | "o" | "s"
            )
        {
            return Err(
                Deny::new("indirect", &word.span, "the debugger runs commands given to it")
                    .hint("put them in a script that the debugger's own program reads"),
            );
        }
    }
    Ok(())
}

fn check_npm(name: &str, rest: &[Word]) -> Check {
    let literal = |word: &Word| word.literal().unwrap_or_default();
    let subcommand = rest
        .iter()
        .map(literal)
        .find(|text| !text.starts_with('-'))
        .unwrap_or_default();
    let executes_text = name == "npx" || matches!(subcommand.as_str(), "exec" | "x");
    let before = rest.iter().take_while(|word| literal(word) != "--");
    for word in before {
        let (text, _) = word.prefix();
        if executes_text
            && (text == "-c" || text == "--call" || text.starts_with("--call=") || text.starts_with("-c="))
        {
            return Err(executes(word, "it runs a command text"));
        }
    }
    Ok(())
}

/// Compilers spell these with one dash.
fn check_compiler(rest: &[Word]) -> Check {
    for word in rest {
        let (text, _) = word.prefix();
        if text == "-wrapper" || text.starts_with("-fplugin=") {
            return Err(executes(word, "the option runs a program"));
        }
    }
    Ok(())
}

fn check_zip(rest: &[Word]) -> Check {
    for word in rest {
        let (text, _) = word.prefix();
        if text.starts_with('-') && !text.starts_with("--") && text.contains("TT") {
            return Err(executes(word, "option -TT runs a program"));
        }
    }
    Ok(())
}
