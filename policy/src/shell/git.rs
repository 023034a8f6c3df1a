//! git at medium: data passes, what makes git run another program does not.

use super::deny::{Check, Deny};
use super::script::Word;

/// `-c` keys that are data.
#[rustfmt::skip]
const DATA_KEYS: &[&str] = &[
    "user.", "author.", "committer.", "color.", "advice.", "commit.gpgsign=false", "tag.gpgsign=false",
    "init.defaultbranch", "protocol.version", "column.", "core.quotepath", "core.autocrlf", "core.abbrev",
    "core.safecrlf", "core.filemode", "diff.renames", "diff.renamelimit", "diff.algorithm", "diff.context",
    "diff.mnemonicprefix", "diff.noprefix", "log.", "merge.conflictstyle", "merge.renames", "pull.rebase",
    "pull.ff", "push.default", "rebase.autostash", "rebase.autosquash", "fetch.prune",
    "core.fsmonitor=false", "gc.auto", "core.pager=cat", "core.editor=true", "core.editor=false",
    "sequence.editor=true", "http.postbuffer", "grep.", "status.", "blame.", "versionsort.",
    "safe.directory", "core.commentchar", "core.eol", "core.ignorecase", "core.longpaths",
    "core.precomposeunicode", "core.compression", "pack.", "index.", "submodule.recurse",
    "submodule.fetchjobs", "push.autosetupremote", "push.followtags", "branch.", "checkout.", "clone.",
    "feature.", "fetch.", "receive.", "rerere.", "stash.", "transfer.fsckobjects", "apply.", "am.",
    "core.bare",
];

/// Starts and ends of keys whose value git runs or that redirect it. Compared in lower case.
#[rustfmt::skip]
const EXEC_KEYS: &[&str] = &[
    "core.hookspath", "core.pager", "core.editor", "core.sshcommand", "core.fsmonitor", "core.gitproxy",
    "core.askpass", "core.alternaterefscommand", "core.attributesfile", "core.worktree", "pager.",
    "sequence.editor", "filter.", "gpg.", "credential.", "include.path", "includeif.",
    "interactive.difffilter", "init.templatedir", "browser.", "man.", "difftool.", "mergetool.", "guitool.",
    "instaweb.", "sendemail.", "trailer.", "uploadpack.", "diff.external", "protocol.", "web.browser",
    "help.browser", "ssh.variant", "url.", "hook.", "http.proxy", "http.sslverify", "http.sslcainfo",
    "remote.pushdefaultcommand", "imap.", "extensions.", "maintenance.",
];

/// One git call, taken apart.
pub(super) struct Git<'a> {
    /// `-C DIR` operands.
    pub(super) directories: Vec<Word>,
    /// `--git-dir`, `--work-tree`: repositories with a configuration of their own.
    pub(super) repositories: Vec<Word>,
    pub(super) subcommand: String,
    /// After the subcommand.
    pub(super) rest: &'a [Word],
}

/// Files and directories that a call creates or writes by name.
pub(super) fn written<'a>(git: &Git<'a>) -> Vec<Word> {
    let operands: Vec<&Word> = plain_operands(git.rest);
    let mut out: Vec<Word> = git.directories.clone();
    let text = |index: usize| {
        operands
            .get(index)
            .and_then(|word| word.literal())
            .unwrap_or_default()
    };
    match git.subcommand.as_str() {
        "clone" => out.push(operands.get(1).map_or_else(|| here(git), |word| (*word).clone())),
        "init" => out.push(operands.first().map_or_else(|| here(git), |word| (*word).clone())),
        "worktree" if matches!(text(0).as_str(), "add") => {
            out.extend(operands.get(1).map(|word| (*word).clone()));
        }
        "worktree" if matches!(text(0).as_str(), "move") => {
            out.extend(operands.get(2).map(|word| (*word).clone()));
        }
        "bundle" if text(0) == "create" => out.extend(operands.get(1).map(|word| (*word).clone())),
        _ => {}
    }
    let option = match git.subcommand.as_str() {
        "format-patch" => Some(("-o", "--output-directory")),
        "archive" => Some(("-o", "--output")),
        "clone" | "init" => Some(("--separate-git-dir", "--separate-git-dir")),
        "config" => Some(("-f", "--file")),
        "diff" | "log" | "show" | "shortlog" | "format" => Some(("--output", "--output")),
        _ => None,
    };
    if let Some((short, long)) = option {
        out.extend(option_values(git.rest, short, long));
    }
    out
}

/// The working directory, into which a command without a destination writes.
fn here(git: &Git<'_>) -> Word {
    let span = git.rest.first().map_or(0..0, |word| word.span.clone());
    let directory = git.directories.last().cloned();
    directory.unwrap_or_else(|| Word::from_literal(".", span))
}

fn option_values(rest: &[Word], short: &str, long: &str) -> Vec<Word> {
    let mut out = Vec::new();
    for (index, word) in rest.iter().enumerate() {
        let (text, _) = word.prefix();
        if text == short || text == long {
            out.extend(rest.get(index + 1).cloned());
        } else if !short.starts_with("--") && !text.starts_with("--") && text.starts_with(short) {
            out.push(word.without_prefix(short.len()));
        } else if text
            .strip_prefix(long)
            .is_some_and(|value| value.starts_with('='))
        {
            out.push(word.without_prefix(long.len() + 1));
        }
    }
    out
}

/// Operands, with the values of the few value options that precede them removed.
fn plain_operands(rest: &[Word]) -> Vec<&Word> {
    #[rustfmt::skip]
    const VALUED: &[&str] = &[
        "-b", "-B", "-o", "-u", "-c", "--depth", "--branch", "--origin", "--reference", "-j", "--jobs",
        "--reason", "--filter",
    ];
    let mut out = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let (text, _) = word.prefix();
        if VALUED.contains(&text.as_str()) {
            words.next();
        } else if !text.starts_with('-') {
            out.push(word);
        }
    }
    out
}

fn refuse(word: &Word, message: impl Into<String>) -> Deny {
    Deny::new("git-exec", &word.span, message).hint("run git without it")
}

/// Reads the global options; refuses those that change what git runs or which repository it is in.
pub(super) fn read(words: &[Word]) -> Result<Git<'_>, Deny> {
    let mut git = Git {
        directories: Vec::new(),
        repositories: Vec::new(),
        subcommand: String::new(),
        rest: &[],
    };
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let (text, whole) = word.prefix();
        at += 1;
        match text.as_str() {
            "-C" => {
                git.directories.extend(words.get(at).cloned());
                at += 1;
            }
            "-c" => {
                let value = words.get(at);
                at += 1;
                if let Some(value) = value {
                    check_key_value(value)?;
                }
            }
            "--git-dir" | "--work-tree" => {
                git.repositories.extend(words.get(at).cloned());
                at += 1;
            }
            "--namespace" | "--super-prefix" => at += 1,
            "--exec-path" if whole => {}
            _ if text.starts_with("-c") && !text.starts_with("--") => {
                return Err(refuse(word, "the option is not known"));
            }
            _ if text.starts_with("--git-dir=") || text.starts_with("--work-tree=") => {
                let name = text.find('=').map_or(0, |equals| equals + 1);
                git.repositories.push(word.without_prefix(name));
            }
            _ if text.starts_with("--exec-path") || text.starts_with("--config-env") => {
                return Err(refuse(word, "the option changes what git runs"));
            }
            _ if text.starts_with('-') && whole => {}
            _ => {
                git.subcommand = if whole { text } else { String::new() };
                git.rest = &words[at..];
                if git.subcommand.is_empty() {
                    return Err(Deny::new(
                        "dynamic-command",
                        &word.span,
                        "the git subcommand is only known at run time",
                    )
                    .hint("write the subcommand out"));
                }
                break;
            }
        }
    }
    Ok(git)
}

fn check_key_value(value: &Word) -> Check {
    let (text, _) = value.prefix();
    let lower = text.to_ascii_lowercase();
    let known = DATA_KEYS.iter().any(|key| {
        let exact = key.contains('=') || !key.ends_with('.');
        if exact {
            lower == *key
                || lower
                    .strip_prefix(key)
                    .is_some_and(|rest| !key.contains('=') && rest.starts_with('='))
        } else {
            lower.starts_with(key)
        }
    });
    // `branch.x.merge` is data, a command is not; nothing in DATA_KEYS runs.
    if known {
        Ok(())
    } else {
        Err(refuse(
            value,
            format!("configuration given by -c can make git run programs: {text}"),
        ))
    }
}

/// Judges one call.
pub(super) fn check(git: &Git<'_>) -> Check {
    for word in git.rest {
        let (text, _) = word.prefix();
        let address = text.rsplit(['=', ' ']).next().unwrap_or(&text);
        let connects = matches!(
            git.subcommand.as_str(),
            "clone"
                | "fetch"
                | "pull"
                | "push"
                | "ls-remote"
                | "fetch-pack"
                | "remote"
                | "submodule"
                | "archive"
                | "config"
        );
        let runs = ["ext::", "fd::"]
            .iter()
            .any(|transport| text.starts_with(transport) || address.starts_with(transport));
        if connects && runs {
            return Err(refuse(word, "the ext:: transport runs a program"));
        }
        exec_option(git.subcommand.as_str(), word, &text)?;
    }
    if git.subcommand == "clone" {
        for value in option_values(git.rest, "-c", "--config") {
            check_key_value(&value)?;
        }
    }
    let here = plain_operands(git.rest).into_iter().next();
    let first = here.and_then(Word::literal).unwrap_or_default();
    match (git.subcommand.as_str(), first.as_str()) {
        ("filter-branch", _) => Err(refuse_at(here, git, "filter-branch runs code on each commit")),
        ("bisect", "run") | ("submodule", "foreach") => Err(refuse_at(
            here,
            git,
            "it runs a command text in other directories or states",
        )),
        ("config", _) => check_config(git.rest),
        ("daemon" | "instaweb" | "web--browse" | "send-email" | "shell" | "credential", _) => {
            Err(refuse_at(here, git, "it runs configured programs or serves"))
        }
        _ => Ok(()),
    }
}

fn refuse_at(here: Option<&Word>, git: &Git<'_>, message: &str) -> Deny {
    let span = here.map_or(0..0, |word| word.span.clone());
    Deny::new("git-exec", &span, format!("git {}: {message}", git.subcommand)).hint("put it in a script file")
}

fn exec_option(subcommand: &str, word: &Word, text: &str) -> Check {
    let name = text.split('=').next().unwrap_or(text);
    let is = |long: &str| name.len() >= 6 && name.starts_with("--") && long.starts_with(name);
    let runs = match subcommand {
        "fetch" | "pull" => is("--upload-pack"),
        "ls-remote" | "fetch-pack" => is("--upload-pack") || is("--exec"),
        "clone" => is("--upload-pack") || name == "-u" || is("--template"),
        "push" | "send-pack" => is("--receive-pack") || is("--exec"),
        "rebase" => text.starts_with("-x") || is("--exec") || cluster_has(text, 'x'),
        "difftool" | "mergetool" => text.starts_with("-x") || is("--extcmd"),
        "grep" => text.starts_with("-O") || is("--open-files-in-pager") || cluster_has(text, 'O'),
        "archive" => is("--exec") || is("--remote"),
        "init" => is("--template"),
        "help" => matches!(name, "-w" | "--web" | "-m" | "--man"),
        _ => false,
    };
    if runs {
        Err(refuse(
            word,
            format!("option {name} of git {subcommand} runs a program"),
        ))
    } else {
        Ok(())
    }
}

fn cluster_has(text: &str, letter: char) -> bool {
    text.starts_with('-') && !text.starts_with("--") && text.len() <= 5 && text[1..].contains(letter)
}

/// `git config`: reading is free; writing a key that runs something is not.
fn check_config(rest: &[Word]) -> Check {
    let mut operands = Vec::new();
    let mut reads = false;
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let (text, _) = word.prefix();
        match text.as_str() {
            "-f" | "--file" | "--blob" | "--type" | "--default" => {
                words.next();
            }
            "--get" | "--get-all" | "--get-regexp" | "--get-urlmatch" | "--list" | "-l" | "get" | "list"
            | "--unset" | "unset" | "--unset-all" => reads = true,
            "set" | "--add" | "--replace-all" => {}
            _ if text.starts_with('-') => {}
            _ => operands.push(word),
        }
    }
    if reads {
        return Ok(());
    }
    let [key, value, ..] = operands.as_slice() else {
        return Ok(());
    };
    let (name, whole) = key.prefix();
    let lower = name.to_ascii_lowercase();
    let (value_text, _) = value.prefix();
    let alias_runs = lower.starts_with("alias.") && (value_text.starts_with('!') || value.is_dynamic());
    let ends = [
        ".command",
        ".textconv",
        ".driver",
        ".update",
        ".uploadpack",
        ".receivepack",
        ".proxy",
        ".program",
        ".vcs",
    ];
    let runs =
        EXEC_KEYS.iter().any(|start| lower.starts_with(start)) || ends.iter().any(|end| lower.ends_with(end));
    if alias_runs || runs || !whole {
        return Err(refuse(key, format!("the key {name} can make git run programs"))
            .hint("ask the operator to set it"));
    }
    Ok(())
}
