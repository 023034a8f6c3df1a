//! The commands of the inspection list and the options that each may have.

use super::argv::{self, Arg, Valued};
use super::deny::{Check, Deny};
use super::options::{awk_program, sed_scripts};
use super::programs::{self, Effect};
use super::script::Word;
use super::writes;

/// Neither writes nor runs anything, whatever its options.
#[rustfmt::skip]
const ANY_OPTION: &[&str] = &[
    "pwd", "ls", "cat", "head", "tail", "wc", "nl", "tac", "rev", "cut", "paste", "join", "comm", "cmp",
    "fold", "fmt", "expand", "unexpand", "tr", "basename", "dirname", "readlink", "realpath", "stat", "du",
    "df", "nproc", "uname", "id", "whoami", "groups", "arch", "tty", "true", "false", "seq", "expr",
    "numfmt", "cksum", "sum", "b2sum", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum",
    "sha512sum", "od", "hexdump", "strings", "readelf", "size", "column", "look", "test", "[", "type",
    "which", "whereis", "echo", "grep", "egrep", "fgrep", "diff",
];

/// Commands with a few options that write or run: what is refused.
struct Row {
    name: &'static str,
    valued: Valued,
    letters: &'static str,
    long: &'static [&'static str],
    /// Reported as `arg-write` rather than `arg-exec`.
    writes: &'static str,
    operands_max: usize,
}

const fn row(
    name: &'static str,
    short: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    writes: &'static str,
    operands_max: usize,
) -> Row {
    Row {
        name,
        valued: Valued { short, long: &[] },
        letters,
        long,
        writes,
        operands_max,
    }
}

const ANY: usize = usize::MAX;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("rg", "eABCgtTmMjEf", "z", &["pre", "pre-glob", "hostname-bin", "search-zip"], "", ANY),
    row("tree", "LPIoTH", "oR", &["output"], "oR", ANY),
    row("file", "mfFPe", "CzZ", &["compile", "uncompress", "uncompress-noreport"], "C", ANY),
    row("nm", "", "", &["plugin"], "", ANY),
    row("sort", "koStT", "oT", &["output", "temporary-directory", "compress-program", "files0-from"], "oT", ANY),
    row("uniq", "fsw", "", &[], "", 1),
    row("base64", "w", "", &[], "", ANY),
];

/// Git subcommands that only read, with what their arguments may be.
#[rustfmt::skip]
const GIT_ANY: &[&str] = &[
    "status", "log", "show", "diff", "blame", "shortlog", "describe", "rev-parse", "rev-list", "ls-files",
    "ls-tree", "cat-file", "merge-base", "name-rev", "for-each-ref", "count-objects", "check-ignore",
];

const GIT_REFUSED: &[&str] = &[
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--upload-pack",
    "--exec",
    // gpg, or the program that a configuration names.
    "--show-signature",
];

/// Judges one command (name first, a base name).
pub(super) fn check(name: &str, words: &[Word]) -> Check {
    let rest = &words[1..];
    if ANY_OPTION.contains(&name) {
        return Ok(());
    }
    if let Some(row) = ROWS.iter().find(|row| row.name == name) {
        return by_row(row, words);
    }
    match name {
        "printf" => printf(words),
        "sleep" => sleep(words),
        "date" => date(words),
        "find" => find(rest),
        "sed" => sed(words),
        "awk" | "gawk" => awk(rest),
        "xxd" => xxd(rest),
        "jq" => jq(words),
        "git" => git(words),
        "command" => command(words),
        "cd" => cd(words),
        "cargo" | "rustc" | "node" | "python3" | "go" | "make" | "gcc" => version(words),
        _ => Err(unlisted(words)),
    }
}

fn unlisted(words: &[Word]) -> Deny {
    let name = words.first().and_then(Word::literal).unwrap_or_default();
    let span = words.first().map_or(0..0, |word| word.span.clone());
    Deny::new(
        "not-inspection",
        &span,
        format!("{name} is not on the inspection list of tier high"),
    )
    .hint("use read, grep, find, ls or an inspection command, or ask the operator for tier medium")
}

fn refuse(code: &'static str, word: &Word, message: impl Into<String>) -> Deny {
    Deny::new(code, &word.span, message).hint("leave the option out")
}

fn by_row(row: &Row, words: &[Word]) -> Check {
    let args = argv::read(&words[1..], &row.valued);
    for arg in &args {
        let (hit, word, writes) = match arg {
            Arg::Short(letter, _, word) => {
                (row.letters.contains(*letter), word, row.writes.contains(*letter))
            }
            Arg::Long(given, _, word) => {
                let name = row.long.iter().find(|name| argv::means(given, name));
                (
                    name.is_some(),
                    word,
                    name.is_some_and(|name| name.starts_with("out") || name.starts_with("temp")),
                )
            }
            Arg::Operand(_) => continue,
        };
        if hit {
            let code = if writes { "arg-write" } else { "arg-exec" };
            return Err(refuse(
                code,
                word,
                format!("this option of {} writes or runs something", row.name),
            ));
        }
    }
    let operands = argv::operands(&args);
    match operands.get(row.operands_max.min(operands.len())) {
        Some(extra) if operands.len() > row.operands_max => Err(refuse(
            "arg-write",
            extra,
            format!("the second operand of {} is written", row.name),
        )),
        _ => Ok(()),
    }
}

fn printf(words: &[Word]) -> Check {
    match words.get(1) {
        Some(format) if format.literal().is_none() => {
            Err(refuse("expansion", format, "the format must be literal"))
        }
        Some(format) if format.prefix().0.starts_with("-v") => {
            Err(refuse("arith-injection", format, "printf -v sets a variable"))
        }
        _ => Ok(()),
    }
}

/// At most ten seconds, units of seconds only.
fn sleep(words: &[Word]) -> Check {
    let mut total = 0.0;
    for word in &words[1..] {
        let text = word.literal().unwrap_or_default();
        let seconds: Option<f64> = text.strip_suffix('s').unwrap_or(&text).parse().ok();
        total += seconds.filter(|seconds| *seconds >= 0.0).unwrap_or(f64::INFINITY);
        if total > 10.0 {
            return Err(
                Deny::new("not-inspection", &word.span, "sleeps longer than 10 seconds")
                    .hint("use the wait tool"),
            );
        }
    }
    Ok(())
}

/// `xxd` spells long options with one dash. `-r` and a second operand write.
fn xxd(rest: &[Word]) -> Check {
    const VALUED: &[&str] = &[
        "-c",
        "-cols",
        "-g",
        "-groupsize",
        "-l",
        "-len",
        "-o",
        "-s",
        "-seek",
    ];
    const PLAIN: &[&str] = &[
        "-a",
        "-autoskip",
        "-b",
        "-bits",
        "-C",
        "-capitalize",
        "-d",
        "-e",
        "-E",
        "-h",
        "-i",
        "-include",
        "-p",
        "-plain",
        "-ps",
        "-postscript",
        "-u",
        "-v",
        "-version",
    ];
    let mut operands = 0;
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let text = word.literal().unwrap_or_default();
        let glued = |name: &&&str| name.len() == 2 && text.strip_prefix(**name).is_some_and(is_number);
        if VALUED.contains(&text.as_str()) {
            words.next();
        } else if text.starts_with('-') && text.len() > 1 {
            if !PLAIN.contains(&text.as_str()) && !VALUED.iter().any(|name| glued(&name)) {
                return Err(refuse(
                    "arg-write",
                    word,
                    "this option of xxd writes, or is not known",
                ));
            }
        } else {
            operands += 1;
            if operands > 1 {
                return Err(refuse("arg-write", word, "the second operand of xxd is written"));
            }
        }
    }
    Ok(())
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit() || c == 'x')
}

fn date(words: &[Word]) -> Check {
    let valued = Valued {
        short: "dfrs",
        long: &["date", "file", "reference", "set"],
    };
    for arg in argv::read(&words[1..], &valued) {
        match arg {
            Arg::Short('s', _, word) => return Err(refuse("not-inspection", word, "date -s sets the clock")),
            Arg::Long(name, _, word) if argv::means(&name, "set") => {
                return Err(refuse("not-inspection", word, "date --set sets the clock"));
            }
            Arg::Operand(word) if !word.prefix().0.starts_with('+') => {
                return Err(refuse(
                    "not-inspection",
                    word,
                    "an operand of date that is no format sets the clock",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn find(rest: &[Word]) -> Check {
    for start in writes::find_starts(rest) {
        if start.literal().is_none() && start.is_dynamic() {
            return Err(refuse("expansion", start, "the start folder must be literal"));
        }
    }
    for word in rest {
        let text = word.literal().unwrap_or_default();
        if word.prefix().0.starts_with('-') && word.literal().is_none() {
            return Err(refuse(
                "expansion",
                word,
                "which test this is is only known at run time",
            ));
        }
        if text.starts_with("-exec") || text.starts_with("-ok") {
            return Err(refuse("indirect", word, "find would run a command"));
        }
        if text == "-delete" {
            return Err(refuse("not-inspection", word, "find would delete files"));
        }
        if text.starts_with("-fprint") || text == "-fls" || text.starts_with("-files0-from") {
            return Err(refuse("arg-write", word, "find would write a file"));
        }
    }
    Ok(())
}

/// Printing addresses, and plain substitutions.
fn sed(words: &[Word]) -> Check {
    let valued = Valued {
        short: "efl",
        long: &["expression", "file", "line-length"],
    };
    for arg in argv::read(&words[1..], &valued) {
        match arg {
            Arg::Short(letter, _, word) if !"nErz".contains(letter) => {
                let code = if letter == 'i' { "arg-write" } else { "arg-exec" };
                return Err(refuse(code, word, format!("sed -{letter} is not an inspection")));
            }
            Arg::Long(name, _, word)
                if !matches!(
                    name.as_str(),
                    "quiet" | "silent" | "regexp-extended" | "posix" | "sandbox" | "null-data"
                ) =>
            {
                let code = if argv::means(&name, "in-place") {
                    "arg-write"
                } else {
                    "arg-exec"
                };
                return Err(refuse(code, word, format!("sed --{name} is not an inspection")));
            }
            _ => {}
        }
    }
    for script in sed_scripts(&words[1..])? {
        match programs::sed(&script) {
            Effect::None if programs::sed_shows(&script) => {}
            Effect::None => {
                return Err(refuse(
                    "arg-exec",
                    &words[0],
                    "the sed script does more than print and substitute",
                )
                .hint("use p with addresses, or one s command"));
            }
            Effect::Writes(_) => return Err(refuse("arg-write", &words[0], "the sed script writes a file")),
            Effect::Executes | Effect::Reads(_) | Effect::Unknown => {
                return Err(refuse(
                    "arg-exec",
                    &words[0],
                    "the sed script does more than print and substitute",
                ));
            }
        }
    }
    Ok(())
}

fn awk(rest: &[Word]) -> Check {
    let Some((program, word)) = awk_program(rest)? else {
        return Ok(());
    };
    if word.is_dynamic() {
        return Err(refuse("expansion", word, "the awk program must be literal"));
    }
    let touches = ["getline", "close", "fflush", "ENVIRON"];
    let valued = Valued {
        short: "Fv",
        long: &["field-separator", "assign"],
    };
    for arg in argv::read(rest, &valued) {
        let (known, option) = match &arg {
            Arg::Short(letter, _, option) => ("Fv".contains(*letter), option),
            Arg::Long(name, _, option) => (
                matches!(
                    name.as_str(),
                    "field-separator" | "assign" | "sandbox" | "posix" | "version"
                ),
                option,
            ),
            Arg::Operand(_) => break,
        };
        if !known {
            return Err(refuse(
                "arg-exec",
                option,
                "this option of awk runs or writes something",
            ));
        }
    }
    if touches.iter().any(|name| program.contains(name)) {
        return Err(refuse(
            "arg-exec",
            word,
            "the awk program reads files, commands or the environment",
        ));
    }
    match programs::awk(&program) {
        Effect::None if programs::awk_compares(&program) => Err(refuse(
            "arg-write",
            word,
            "> writes a file in some places of an awk program",
        )
        .hint("turn the comparison around and use <")),
        Effect::None => Ok(()),
        Effect::Writes(_) => Err(refuse("arg-write", word, "the awk program writes a file")),
        Effect::Executes | Effect::Reads(_) | Effect::Unknown => {
            Err(refuse("arg-exec", word, "the awk program runs a command"))
        }
    }
}

fn jq(words: &[Word]) -> Check {
    let valued = Valued {
        short: "fL",
        long: &["from-file", "rawfile", "slurpfile", "arg", "argjson", "indent"],
    };
    let args = argv::read(&words[1..], &valued);
    for arg in &args {
        match arg {
            Arg::Short('f' | 'L', _, word) => {
                return Err(refuse("arg-exec", word, "jq would read its filter from a file"));
            }
            Arg::Long(name, _, word) if argv::means(name, "from-file") => {
                return Err(refuse("arg-exec", word, "jq would read its filter from a file"));
            }
            _ => {}
        }
    }
    let Some(filter) = argv::operands(&args).into_iter().next() else {
        return Ok(());
    };
    let text = filter.literal().unwrap_or_else(|| "env".to_owned());
    let mut names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    if names.any(|name| matches!(name, "env" | "ENV" | "input_filename" | "import" | "include")) {
        return Err(refuse(
            "secret",
            filter,
            "the filter reads the environment or other files",
        ));
    }
    Ok(())
}

fn command(words: &[Word]) -> Check {
    let asks = words
        .get(1)
        .and_then(Word::literal)
        .is_some_and(|text| text == "-v");
    if asks {
        Ok(())
    } else {
        Err(Deny::new("wrapper", &words[0].span, "only command -v is an inspection").hint("use command -v"))
    }
}

fn cd(words: &[Word]) -> Check {
    match words {
        [_] | [_, _] => Ok(()),
        _ => Err(unlisted(words)),
    }
}

/// `X --version`, alone.
fn version(words: &[Word]) -> Check {
    match words {
        [_, argument] if argument.literal().as_deref() == Some("--version") => Ok(()),
        _ => Err(unlisted(words)),
    }
}

fn git(words: &[Word]) -> Check {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.literal().unwrap_or_default();
        match text.as_str() {
            "--no-pager" | "--no-optional-locks" => at += 1,
            "-C" => at += 2,
            "--version" if words.len() == 2 => return Ok(()),
            _ if text.starts_with('-') => {
                return Err(refuse(
                    "git-exec",
                    word,
                    format!("the option {text} can change what git runs"),
                ));
            }
            _ => break,
        }
    }
    let Some(subcommand) = words.get(at) else {
        return Err(unlisted(words));
    };
    let rest = &words[at + 1..];
    for word in rest {
        let (text, _) = word.prefix();
        let name = text.split('=').next().unwrap_or(&text);
        let hit = text.starts_with("-O")
            || text.contains("%G")
            || name.len() > 2
                && GIT_REFUSED
                    .iter()
                    .any(|refused| refused.starts_with(name) || name.starts_with("--output"));
        if hit
            && !matches!(
                name,
                "--text"
                    | "--filter"
                    | "--output-indicator-new"
                    | "--output-indicator-old"
                    | "--output-indicator-context"
            )
        {
            let writes =
                name.starts_with("--output") || name.starts_with("--o") && "--output".starts_with(name);
            let code = if writes { "arg-write" } else { "git-exec" };
            return Err(refuse(code, word, format!("{name} writes or runs something")));
        }
    }
    let name = subcommand.literal().unwrap_or_default();
    let literal: Vec<String> = rest.iter().map(|word| word.prefix().0).collect();
    if GIT_ANY.contains(&name.as_str()) || git_lists(&name, &literal) {
        return Ok(());
    }
    if GIT_NETWORK.contains(&name.as_str()) {
        return Err(Deny::new(
            "network",
            &subcommand.span,
            format!("git {name} uses the network"),
        )
        .hint("tier high has no network"));
    }
    Err(Deny::new(
        "not-inspection",
        &subcommand.span,
        format!("git {name} with these arguments does more than list"),
    )
    .hint("use its listing form, such as git branch --list"))
}

const GIT_NETWORK: &[&str] = &["fetch", "pull", "push", "clone", "ls-remote"];

/// Options of `git branch` and `git tag` that only say what is listed and how. A pattern may follow
/// the ones that ask for a list.
#[rustfmt::skip]
const GIT_LISTING: &[&str] = &[
    "-a", "-r", "-v", "-vv", "-av", "-avv", "-l", "-i", "-n", "--list", "--all", "--remotes", "--verbose",
    "--show-current", "--no-color", "--color", "--sort", "--format", "--merged", "--no-merged", "--contains",
    "--no-contains", "--points-at", "--column", "--no-column", "--ignore-case", "--no-abbrev", "--abbrev",
];
const GIT_ASKING: &[&str] = &[
    "-l",
    "--list",
    "--merged",
    "--no-merged",
    "--contains",
    "--no-contains",
    "--points-at",
];

/// Subcommands that both list and change: only the listing forms.
fn git_lists(name: &str, rest: &[String]) -> bool {
    let first = rest.first().map_or("", String::as_str);
    let option = |word: &str| word.split('=').next().unwrap_or(word).to_owned();
    let lists = || {
        let asks = rest
            .iter()
            .any(|word| GIT_ASKING.contains(&option(word).as_str()));
        rest.iter().all(|word| {
            let counts = word
                .strip_prefix("-n")
                .is_some_and(|count| count.parse::<u32>().is_ok());
            GIT_LISTING.contains(&option(word).as_str()) || counts || asks && !word.starts_with('-')
        })
    };
    let only = |options: &[&str]| rest[1..].iter().all(|word| options.contains(&word.as_str()));
    match name {
        "branch" | "tag" => lists(),
        "remote" => rest.is_empty() || rest == ["-v"] || rest == ["--verbose"],
        "stash" | "worktree" => first == "list",
        "reflog" => !matches!(first, "expire" | "delete" | "exists" | "drop" | "write" | "list"),
        "config" => match first {
            "--list" | "-l" => only(&["--global", "--local", "--system", "--name-only", "-z"]),
            "--get" => rest[1..].iter().all(|word| !word.starts_with('-')),
            _ => false,
        },
        _ => false,
    }
}
