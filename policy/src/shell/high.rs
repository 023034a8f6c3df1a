//! The table at high: a list of inspection commands on literal operands, and nothing else.

use super::authority::{has_authority, is_display};
use super::deny::{Check, Deny};
use super::inspection;
use super::interpreter::{self, Source};
use super::place::Place;
use super::script::{Command, Kind, Node, Piece, Redirect, RedirectKind, Word};
use super::walk::{self, Rules};
use super::wrapper::{self, Manner, base_name};
use crate::Ground;

/// Directories from which a command may be named by its path.
const SYSTEM_DIRECTORIES: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/"];

#[rustfmt::skip]
const NETWORK: &[&str] = &[
    "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "lftp",
    "ping", "dig", "nslookup", "host", "gh", "glab", "aria2c", "http", "https", "xh", "traceroute", "nmap",
    "whois",
];

/// The high rules.
pub(super) struct High<'a> {
    pub(super) ground: &'a Ground,
}

/// True (no refusal) when one command is on the list. Used for what `xargs` and `find -exec` run.
pub(super) fn inspects(words: &[Word], ground: &Ground) -> Check {
    let rules = High { ground };
    rules.words(words, 0)
}

/// True (no refusal) when every command of a script is on the list.
pub(super) fn script_inspects(nodes: &[Node], place: &Place, ground: &Ground) -> Check {
    walk::statements(&mut High { ground }, nodes, &mut place.clone())
}

impl Rules for High<'_> {
    fn ground(&self) -> &Ground {
        self.ground
    }

    fn statement(&mut self, node: &Node, place: &Place) -> Check {
        let refuse = |code, what: &str| {
            Err(
                Deny::new(code, &node.span, format!("{what} is not part of tier high"))
                    .hint("write plain commands, joined by pipes, && or newlines"),
            )
        };
        match &node.kind {
            Kind::Subshell(_) | Kind::Group(_) | Kind::Control(_) | Kind::Test(_) => {
                refuse("control-flow", "control flow")
            }
            Kind::Arithmetic(_) => refuse("control-flow", "an expression"),
            Kind::Background(_) => refuse("control-flow", "a background job"),
            Kind::Function { .. } => refuse("rebinds", "a function"),
            Kind::Command(command) => {
                // Before its words are looked at: a program's name is more than an argument.
                let mut words = command.words.as_slice();
                while let Some(first) = words.first() {
                    let name = program(first)?;
                    words = wrapper::unwrap(base_name(&name), words).map_or(&[], |unwrapped| unwrapped.inner);
                }
                self.interpreter(command, node, place)
            }
            Kind::Sequence(_) | Kind::Pipeline(_) => Ok(()),
        }
    }

    fn word(&mut self, word: &Word, _: &Place) -> Check {
        for piece in &word.pieces {
            match piece {
                Piece::Param(param) if param.indirect => {
                    return Err(Deny::new(
                        "indirect-expansion",
                        &word.span,
                        "the value would be read as a name or as code",
                    )
                    .hint("write the value out"));
                }
                Piece::Param(param) if param.name == "?" => {}
                Piece::Param(_) | Piece::Arithmetic(_) | Piece::Tmp | Piece::UserHome(_) => {
                    return Err(
                        Deny::new("expansion", &word.span, "an expansion is only known at run time")
                            .hint("write the value out; $HOME, $PWD and $? may stand"),
                    );
                }
                Piece::Subst(_) | Piece::ProcessIn(_) | Piece::ProcessOut(_) => {
                    return Err(
                        Deny::new("subst", &word.span, "a substitution is not part of tier high")
                            .hint("run the inner command first and write its output out"),
                    );
                }
                Piece::Literal { .. } | Piece::Glob(_) | Piece::Home | Piece::Pwd => {}
            }
        }
        Ok(())
    }

    fn redirect(&mut self, redirect: &Redirect, _: &Node, _: &Place) -> Check {
        let (text, _) = redirect.target.prefix();
        if text.starts_with("/dev/tcp") || text.starts_with("/dev/udp") {
            return Err(Deny::new(
                "net-redirect",
                &redirect.span,
                "opens a network connection from the shell itself",
            )
            .hint("tier high has no network"));
        }
        let quiet = redirect.target.literal().as_deref() == Some("/dev/null");
        if redirect.kind == RedirectKind::Output && !quiet {
            return Err(Deny::new("writes", &redirect.span, "writes a file")
                .hint("leave the redirect out: the output is returned"));
        }
        Ok(())
    }

    fn command(&mut self, command: &Command, _: &Node, _: &Place) -> Check {
        for assignment in &command.assignments {
            let literal = assignment.values.iter().all(|value| value.literal().is_some());
            if !is_display(&assignment.name) || !literal || assignment.subscript.is_some() {
                return Err(Deny::new(
                    "env-authority",
                    &assignment.span,
                    format!("{} is set", assignment.name),
                )
                .hint("only LC_*, LANG, TZ and NO_COLOR may be set"));
            }
        }
        self.words(&command.words, 0)
    }
}

fn is_pattern(piece: &Piece) -> bool {
    matches!(piece, Piece::Glob(_))
}

/// The name of the program, when the text shows it.
fn program(first: &Word) -> Result<String, Deny> {
    if let [Piece::Home | Piece::Pwd, Piece::Literal { text, .. }] = first.pieces.as_slice() {
        return Ok(format!("~{text}"));
    }
    let Some(text) = first.literal() else {
        return Err(Deny::new(
            "dynamic-command",
            &first.span,
            "which program runs is only known at run time",
        )
        .hint("write the program's name"));
    };
    if !text.is_ascii() {
        return Err(Deny::new(
            "unicode",
            &first.span,
            "the command's name has letters beyond ASCII",
        )
        .hint("write the program's name in ASCII"));
    }
    Ok(text)
}

impl High<'_> {
    fn interpreter(&self, command: &Command, node: &Node, place: &Place) -> Check {
        let name = command.words.first().and_then(Word::literal).unwrap_or_default();
        match interpreter::source(base_name(&name), &command.words, node, place.piped) {
            Source::Inline => Err(
                Deny::new("inline-code", &node.span, format!("{name} would run code"))
                    .hint("ask the operator for tier medium"),
            ),
            Source::Static | Source::Dynamic => Ok(()),
        }
    }

    fn words(&self, words: &[Word], depth: usize) -> Check {
        let Some(first) = words.first() else { return Ok(()) };
        let text = program(first)?;
        let name = base_name(&text);
        if text.contains('/')
            && !SYSTEM_DIRECTORIES
                .iter()
                .any(|place| text.strip_prefix(place) == Some(name))
        {
            return Err(Deny::new(
                "exec-path",
                &first.span,
                format!("{text} is not in a system directory"),
            )
            .hint("name the program without a path"));
        }
        self.globs(&words[1..])?;
        self.known_refusals(name, words)?;
        if let Some(unwrapped) = wrapper::unwrap(name, words) {
            let passes =
                matches!(name, "time" | "timeout" | "nice") && unwrapped.strange.is_none() && depth < 4;
            let code = match unwrapped.manner {
                Manner::Plain => "wrapper",
                Manner::Runner => "not-inspection",
                Manner::Detach => "detach",
                Manner::Exec => "eval",
                Manner::Indirect | Manner::Xargs => "indirect",
                Manner::Privilege => "privilege",
            };
            if !passes {
                return Err(
                    Deny::new(code, &first.span, format!("{name} is not part of tier high"))
                        .hint("run the inner command itself"),
                );
            }
            if name == "time" && words.get(1).is_some_and(|word| word.prefix().0.starts_with("-o")) {
                return Err(Deny::new("arg-write", &first.span, "time -o writes a file").hint("leave -o out"));
            }
            return self.words(unwrapped.inner, depth + 1);
        }
        inspection::check(name, words)
    }

    /// A pattern that can match a name beginning with `-` can turn into an option.
    fn globs(&self, words: &[Word]) -> Check {
        let mut options_over = false;
        for word in words {
            options_over |= word.literal().as_deref() == Some("--");
            let first = word
                .pieces
                .iter()
                .find(|piece| !matches!(piece, Piece::Literal { text, .. } if text.is_empty()));
            // In `--name=…` only the value can change.
            let (text, _) = word.prefix();
            let in_value = text.starts_with("--") && text.contains('=');
            let is_option = text.starts_with('-') && !in_value && word.pieces.iter().any(is_pattern);
            if !options_over && (is_option || first.is_some_and(is_pattern)) {
                return Err(Deny::new(
                    "expansion",
                    &word.span,
                    "the pattern could match a name that is taken for an option",
                )
                .hint("put ./ before it"));
            }
        }
        Ok(())
    }

    /// Commands that are refused for a better reason than not being listed.
    fn known_refusals(&self, name: &str, words: &[Word]) -> Check {
        let span = &words[0].span;
        if matches!(name, "env" | "printenv") && words.len() == 1 || name == "printenv" {
            return Err(Deny::new("secret", span, format!("{name} shows the environment"))
                .hint("ask the operator for the value that you need; $HOME and $PWD may stand"));
        }
        if NETWORK.contains(&name) {
            return Err(Deny::new("network", span, format!("{name} uses the network"))
                .hint("tier high has no network"));
        }
        match name {
            "eval" | "source" | "." | "trap" => {
                Err(Deny::new("eval", span, format!("{name} runs text as code"))
                    .hint("write the commands out"))
            }
            "mapfile" | "readarray" | "complete" => {
                Err(Deny::new("eval", span, format!("{name} may call code back"))
                    .hint("leave it out: the output is returned"))
            }
            "alias" | "hash" | "enable" => Err(Deny::new(
                "rebinds",
                span,
                format!("{name} changes what a command's name means"),
            )
            .hint("run the command itself")),
            "disown" | "at" | "batch" | "crontab" => {
                Err(Deny::new("detach", span, format!("{name} lets something run on"))
                    .hint("run the command itself"))
            }
            "coproc" => Err(
                Deny::new("coproc", span, "coproc runs a command beside the shell").hint("use a pipeline"),
            ),
            "export" | "declare" | "typeset" | "readonly" | "local" => {
                let named = words.iter().skip(1).map(|word| word.prefix().0);
                let mut authority = named.map(|text| text.split('=').next().unwrap_or_default().to_owned());
                let code = if authority.any(|name| has_authority(&name)) {
                    "env-authority"
                } else {
                    "not-inspection"
                };
                Err(Deny::new(code, span, format!("{name} sets variables"))
                    .hint("write LC_ALL=C, LANG, TZ or NO_COLOR before the command that needs it"))
            }
            _ => Ok(()),
        }
    }
}
