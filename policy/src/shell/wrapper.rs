//! Commands that run another command given in their arguments: where does the inner one begin?

use super::argv::{Valued, means};
use super::options::with_holes;
use super::script::Word;

/// How a wrapper treats what it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Runs exactly the words it was given: `nice make`.
    Plain,
    /// Runs them detached from the call.
    Detach,
    /// Replaces the shell.
    Exec,
    /// Adds words, repeats, observes or changes what runs: `xargs`, `watch`, `strace`.
    Indirect,
    /// `xargs`, judged against the inspection list at medium.
    Xargs,
    /// Gains authority.
    Privilege,
    /// Runs a program of a project's own environment: `uv run pytest`.
    Runner,
}

/// Programs whose subcommand runs another program, and their options that take a value.
#[rustfmt::skip]
const RUNNERS: &[(&str, &[&str], Valued)] = &[
    ("uv", &["run"], Valued { short: "p", long: &["with", "with-editable", "with-requirements", "python", "extra", "group", "package", "project", "directory", "env-file", "index-url"] }),
    ("poetry", &["run"], Valued { short: "CP", long: &["directory", "project"] }),
    ("pipenv", &["run"], Valued { short: "", long: &[] }),
    ("pdm", &["run"], Valued { short: "p", long: &["project"] }),
    ("rye", &["run"], Valued { short: "", long: &["pyproject"] }),
    ("hatch", &["run"], Valued { short: "e", long: &["env"] }),
    ("bundle", &["exec"], Valued { short: "", long: &["gemfile"] }),
    ("conda", &["run"], Valued { short: "np", long: &["name", "prefix", "cwd"] }),
    ("mamba", &["run"], Valued { short: "np", long: &["name", "prefix", "cwd"] }),
    ("mise", &["exec", "x"], Valued { short: "Cj", long: &["cd", "jobs"] }),
];

struct Row {
    name: &'static str,
    manner: Manner,
    valued: Valued,
    /// Options without a value that are known to be harmless.
    flags: &'static str,
    long_flags: &'static [&'static str],
    /// Operands before the inner command.
    skip: usize,
}

const fn row(
    name: &'static str,
    manner: Manner,
    short: &'static str,
    long: &'static [&'static str],
    flags: &'static str,
    long_flags: &'static [&'static str],
    skip: usize,
) -> Row {
    Row {
        name,
        manner,
        valued: Valued { short, long },
        flags,
        long_flags,
        skip,
    }
}

use Manner::{Detach, Exec, Indirect, Plain, Privilege, Xargs};

#[rustfmt::skip]
const WRAPPERS: &[Row] = &[
    row("env", Plain, "uCS", &["unset", "chdir", "split-string"], "i0v", &["ignore-environment", "null"], 0),
    row("nice", Plain, "n", &["adjustment"], "0123456789", &[], 0),
    row("time", Plain, "of", &["output", "format"], "pvaq", &["portability", "verbose"], 0),
    row("timeout", Plain, "ks", &["kill-after", "signal"], "vfp", &["foreground", "preserve-status", "verbose"], 1),
    row("stdbuf", Plain, "ioe", &["input", "output", "error"], "", &[], 0),
    row("ionice", Plain, "cnp", &["class", "classdata"], "t", &["ignore"], 0),
    row("chrt", Plain, "TPD", &[], "bfimorv", &[], 1),
    row("taskset", Plain, "", &[], "ac", &["cpu-list"], 1),
    row("command", Plain, "", &[], "p", &[], 0),
    row("builtin", Plain, "", &[], "", &[], 0),
    row("busybox", Plain, "", &[], "", &[], 0),
    row("toybox", Plain, "", &[], "", &[], 0),
    row("coproc", Plain, "", &[], "", &[], 0),
    row("eatmydata", Plain, "", &[], "", &[], 0),
    row("ccache", Plain, "", &[], "", &[], 0),
    row("unbuffer", Plain, "", &[], "p", &[], 0),
    row("flock", Plain, "wEc", &["timeout", "conflict-exit-code", "command"], "sxneuoFv", &["shared", "exclusive", "nonblock", "nb", "unlock", "close", "no-fork", "verbose"], 1),
    row("setarch", Plain, "", &[], "vRBFILSTXZ3", &["addr-no-randomize"], 0),
    row("linux32", Plain, "", &[], "vRBFILSTXZ3", &["addr-no-randomize"], 0),
    row("linux64", Plain, "", &[], "vRBFILSTXZ3", &["addr-no-randomize"], 0),
    row("i386", Plain, "", &[], "vRBFILSTXZ3", &["addr-no-randomize"], 0),
    row("x86_64", Plain, "", &[], "vRBFILSTXZ3", &["addr-no-randomize"], 0),
    row("systemd-inhibit", Plain, "", &["what", "who", "why", "mode"], "", &[], 0),
    row("prlimit", Plain, "", &[], "cdefilmnqrstuvxy", &["cpu", "nofile", "nproc", "as", "core", "data", "fsize", "stack"], 0),
    row("xvfb-run", Plain, "efnpsw", &["error-file", "auth-file", "server-num", "server-args", "wait"], "al", &["auto-servernum", "listen-tcp"], 0),
    row("exec", Exec, "a", &[], "cl", &[], 0),
    row("nohup", Detach, "", &[], "", &[], 0),
    row("setsid", Detach, "", &[], "cfw", &["ctty", "fork", "wait"], 0),
    row("start-stop-daemon", Detach, "aunpsxRkNIPcgrd", &["exec", "pidfile", "name", "startas"], "SKTHbmCvqto", &["start", "stop", "background"], 0),
    row("daemonize", Detach, "acdeEluop", &[], "v", &[], 0),
    row("systemd-run", Detach, "puMHEGt", &["unit", "property", "setenv", "slice"], "dPqSt", &["user", "scope", "wait", "pty", "pipe", "quiet", "collect"], 0),
    row("xargs", Xargs, "adEILnPs", &["arg-file", "delimiter", "max-args", "max-procs", "max-lines", "replace", "max-chars"], "0rtxop", &["null", "no-run-if-empty", "verbose", "exit"], 0),
    row("watch", Indirect, "nd", &["interval"], "tbegcx", &["exec"], 0),
    row("parallel", Indirect, "jINa", &["jobs", "arg-file"], "k0vmX", &["keep-order"], 0),
    row("entr", Indirect, "", &[], "acdnprsz", &[], 0),
    row("strace", Indirect, "eopsuEPOSIaX", &[], "fFcCdhiqrtTvxyDnwzZ", &[], 0),
    row("ltrace", Indirect, "eopsuanlADF", &[], "fcCiLrStTVh", &[], 0),
    row("script", Indirect, "ceoOITBEm", &["command"], "afqQ", &[], 0),
    row("unshare", Indirect, "SGRw", &[], "mUipnrfcCtT", &["user", "mount", "pid", "net", "fork", "map-root-user", "map-current-user"], 0),
    row("bwrap", Indirect, "", &["bind", "ro-bind", "dev", "proc", "tmpfs", "chdir"], "", &["unshare-all", "unshare-net"], 0),
    row("firejail", Indirect, "", &[], "", &[], 0),
    row("proot", Indirect, "rbwqv", &[], "", &[], 0),
    row("fakeroot", Indirect, "lsifub", &[], "", &[], 0),
    row("hyperfine", Indirect, "wrmMpcsLPD", &[], "iN", &[], 0),
    row("dbus-run-session", Indirect, "", &[], "", &[], 0),
    row("sudo", Privilege, "ugCDRTUhprt", &["user", "group"], "AbEeHiKklnPSsv", &[], 0),
    row("doas", Privilege, "uCa", &[], "Lns", &[], 0),
];

/// A command taken apart.
pub(super) struct Unwrapped<'a> {
    pub(super) manner: Manner,
    /// `FOO=bar` operands of `env`.
    pub(super) assignments: Vec<&'a Word>,
    /// The inner command; empty when there is none.
    pub(super) inner: &'a [Word],
    /// An option that is not in the table, or one whose meaning hides words.
    pub(super) strange: Option<&'a Word>,
}

/// Takes `words` (name first) apart if `name` is a wrapper's.
pub(super) fn unwrap<'a>(name: &str, words: &'a [Word]) -> Option<Unwrapped<'a>> {
    if let Some(runner) = RUNNERS.iter().find(|(runner, ..)| *runner == name) {
        return run_by(runner.1, &runner.2, words);
    }
    let row = WRAPPERS.iter().find(|row| row.name == name)?;
    let mut out = Unwrapped {
        manner: row.manner,
        assignments: Vec::new(),
        inner: &[],
        strange: None,
    };
    if name == "command" && words.get(1).is_some_and(asks_only) {
        return None;
    }
    let mut at = 1;
    let mut skip = row.skip;
    while let Some(word) = words.get(at) {
        let (text, whole) = word.prefix();
        if text == "--" && whole {
            at += 1 + skip;
            break;
        }
        if name == "env" && text == "-" && whole || name == "time" && text == "!" {
            at += 1;
            continue;
        }
        if text.len() > 1 && text.starts_with('-') {
            at += option_width(row, word, &text, whole, &mut out);
            continue;
        }
        if takes_assignments(name) && is_assignment(&with_holes(word)) {
            out.assignments.push(word);
            at += 1;
            continue;
        }
        if name == "coproc" && is_coproc_name(&text, words.get(at + 1)) {
            at += 1;
            continue;
        }
        if skip == 0 {
            break;
        }
        skip -= 1;
        at += 1;
    }
    out.inner = words.get(at..).unwrap_or(&[]);
    let first = out.inner.first().and_then(Word::literal);
    if name == "setarch" && first.is_some_and(|first| first.contains(['3', '6'])) {
        out.inner = &out.inner[1..];
    }
    if takes_assignments(name) {
        while let Some(first) = out.inner.first().filter(|word| is_assignment(&with_holes(word))) {
            out.assignments.push(first);
            out.inner = &out.inner[1..];
        }
    }
    Some(out)
}

/// The command after the subcommand, its options skipped.
fn run_by<'a>(subcommands: &[&str], valued: &Valued, words: &'a [Word]) -> Option<Unwrapped<'a>> {
    let mut at = 1;
    let mut seen = false;
    while let Some(word) = words.get(at) {
        let (text, whole) = word.prefix();
        let takes_value = match text.strip_prefix("--") {
            Some(long) => valued.long.contains(&long),
            None => {
                text.starts_with('-')
                    && text.len() == 2
                    && text[1..].chars().all(|c| valued.short.contains(c))
            }
        };
        if text.starts_with('-') {
            at += if takes_value { 2 } else { 1 };
        } else if !seen && whole && subcommands.contains(&text.as_str()) {
            seen = true;
            at += 1;
        } else {
            break;
        }
    }
    seen.then(|| Unwrapped {
        manner: Manner::Runner,
        assignments: Vec::new(),
        inner: words.get(at..).unwrap_or(&[]),
        strange: None,
    })
}

/// `env`, and the reserved words that the grammar shows as commands.
fn takes_assignments(name: &str) -> bool {
    matches!(name, "env" | "time" | "coproc")
}

fn asks_only(word: &Word) -> bool {
    word.literal()
        .is_some_and(|text| text.starts_with('-') && text.contains(['v', 'V']))
}

fn is_coproc_name(text: &str, next: Option<&Word>) -> bool {
    text == "{" || next.and_then(Word::literal).is_some_and(|next| next == "{")
}

/// Words that an option takes; notes what the table does not know.
fn option_width<'a>(row: &Row, word: &'a Word, text: &str, whole: bool, out: &mut Unwrapped<'a>) -> usize {
    let hides = row.name == "env"
        && (["--s", "--c"].iter().any(|long| text.starts_with(long))
            || !text.starts_with("--") && text.contains(['S', 'C']));
    if hides || !whole && !text.contains('=') && !starts_valued(row, text) {
        out.strange = out.strange.or(Some(word));
    }
    if let Some(long) = text.strip_prefix("--") {
        let (given, glued) = long
            .split_once('=')
            .map_or((long, false), |(name, _)| (name, true));
        let name = row
            .valued
            .long
            .iter()
            .find(|name| !row.long_flags.contains(&given) && means(given, name))
            .map_or(given, |name| *name);
        if row.valued.long.contains(&name) {
            return if glued || row.name == "env" && name == "split-string" {
                1
            } else {
                2
            };
        }
        if !row.long_flags.contains(&name) {
            out.strange = out.strange.or(Some(word));
        }
        return 1;
    }
    for (at, letter) in text.char_indices().skip(1) {
        if row.valued.short.contains(letter) {
            let glued = at + letter.len_utf8() < text.len() || !whole;
            return if glued { 1 } else { 2 };
        }
        if !row.flags.contains(letter) {
            out.strange = out.strange.or(Some(word));
        }
    }
    1
}

fn starts_valued(row: &Row, text: &str) -> bool {
    text.chars()
        .nth(1)
        .is_some_and(|letter| row.valued.short.contains(letter))
}

/// `NAME=`, `NAME+=` or `NAME[i]=` at the start of a word.
pub(super) fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        is_identifier(name.split('[').next().unwrap_or(name))
    })
}

pub(super) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The last path component of a command's name.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The commands in `find`'s `-exec`, `-execdir`, `-ok`, `-okdir`.
pub(super) fn find_commands(words: &[Word]) -> Vec<&[Word]> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let text = words[at].literal().unwrap_or_default();
        at += 1;
        if !matches!(text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let ends = |word: &Word| word.literal().is_some_and(|text| text == ";" || text == "+");
        let length = words[at..].iter().position(ends).unwrap_or(words.len() - at);
        out.push(&words[at..at + length]);
        at += length;
    }
    out
}
