//! What no tier runs: gaining authority, destroying the machine, writing protected paths.
//!
//! Searched first, and in everything literal: bodies, functions, substitutions, wrappers, and
//! shell texts handed to `bash -c`, `eval`, `trap`, `xargs`, `find -exec`.

use super::argv::{self, Valued};
use super::deny::{Check, Deny};
use super::limits::{COMMANDS_MAX, PAYLOAD_DEPTH_MAX};
use super::pattern;
use super::payload::{self, Payload};
use super::pipes::{self, Fed};
use super::place::{Place, Target, normal};
use super::script::{Command, Kind, Node, Piece, Redirect, RedirectKind, Word};
use super::values::Values;
use super::walk::{self, Rules};
use super::wrapper::{self, Manner, base_name};
use super::writes::{self, Write};
use super::{catastrophe, crude, git, privilege};
use crate::{Ground, protect};
use std::ops::Range;
use std::path::Path;

/// Top-level directories that a recursive change would ruin.
#[rustfmt::skip]
const BROAD: &[&str] = &[
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt",
    "/nix", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib",
    "/usr/local", "/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/log",
];

/// Times that the texts inside one text are read again with values put in.
const READINGS_MAX: usize = 64;

/// Words in which a command is looked for behind an unknown option.
const STRANGE_WORDS_MAX: usize = 8;

/// The hard rules, and the count of commands seen.
pub(super) struct Hard<'a> {
    pub(super) ground: &'a Ground,
    /// Refuse inner texts that cannot be read.
    pub(super) strict: bool,
    pub(super) commands: usize,
    pub(super) values: Values,
    /// Times that a text was read again with values put in.
    pub(super) read_again: usize,
}

impl Rules for Hard<'_> {
    fn ground(&self) -> &Ground {
        self.ground
    }

    fn statement(&mut self, node: &Node, place: &Place) -> Check {
        if let Kind::Pipeline(stages) = &node.kind {
            self.pipeline(stages, place)?;
        }
        if let Kind::Test(words) = &node.kind {
            for word in words {
                self.subscripted(word, place)?;
            }
        }
        if let Kind::Function { name, body } = &node.kind
            && multiplies(body, name)
        {
            return Err(Deny::new(
                "catastrophic",
                &node.span,
                format!("the function {name} starts itself without end"),
            )
            .hint("let it call itself without | and &"));
        }
        Ok(())
    }

    fn word(&mut self, word: &Word, place: &Place) -> Check {
        for piece in &word.pieces {
            // `${x@P}` runs the substitutions in the value.
            if let Piece::Param(param) = piece
                && param.indirect
            {
                for value in self.values.given(&param.name) {
                    let text = payload::payload(&value).text;
                    self.payload(&payload::expanded(&text, &value), place)?;
                }
            }
        }
        Ok(())
    }

    fn redirect(&mut self, redirect: &Redirect, _: &Node, place: &Place) -> Check {
        if redirect.kind != RedirectKind::Output {
            return Ok(());
        }
        // bash expands the target of `>&` twice.
        let text = payload::payload(&redirect.target).text;
        if text.contains("$(") || text.contains('`') {
            self.payload(&payload::expanded(&text, &redirect.target), place)?;
        }
        self.write(&Write::of(redirect.target.clone()), place)
    }

    fn command(&mut self, command: &Command, node: &Node, place: &Place) -> Check {
        self.commands += 1;
        if self.commands > COMMANDS_MAX {
            let message = format!("has more than {COMMANDS_MAX} commands");
            return Err(Deny::new("limit-commands", &node.span, message)
                .hint("write it to a script file and run that"));
        }
        self.assignments(command, place)?;
        self.words(&command.words, node, place, 0)
    }
}

impl Hard<'_> {
    /// Judges a whole text as it stands, and with the values that it gives to its variables.
    pub(super) fn script(&mut self, nodes: &[Node], place: &Place) -> Check {
        let outer = std::mem::replace(&mut self.values, Values::of(nodes));
        let mut answer = walk::statements(self, nodes, &mut place.clone());
        if answer.is_ok() {
            answer = self.readings(nodes, place);
        }
        self.values = outer;
        answer
    }

    // Out of line like `payload`.
    #[inline(never)]
    fn readings(&mut self, nodes: &[Node], place: &Place) -> Check {
        let before = self.commands;
        for reading in self.values.readings(nodes) {
            // Texts inside each other multiply.
            self.read_again += 1;
            if self.read_again > READINGS_MAX {
                break;
            }
            self.commands = before;
            walk::statements(self, &reading, &mut place.clone())?;
        }
        self.commands = before;
        Ok(())
    }

    fn words(&mut self, words: &[Word], node: &Node, place: &Place, depth: usize) -> Check {
        let Some(first) = words.first() else { return Ok(()) };
        // Expansions may be empty: `$x sudo` and `sudo$x` are judged as `sudo`.
        let text = literal_part(first);
        if text.is_empty() && first.is_dynamic() && depth <= PAYLOAD_DEPTH_MAX {
            return self.words(&words[1..], node, place, depth + 1);
        }
        let name = base_name(&text);
        if let Some(meant) = pattern::matched(first, privilege::PROGRAMS) {
            return Err(privilege::denied(meant, &first.span));
        }
        if depth > PAYLOAD_DEPTH_MAX {
            let message = format!("has more than {PAYLOAD_DEPTH_MAX} wrappers around one command");
            return Err(
                Deny::new("limit-wrappers", &first.span, message).hint("run the inner command itself")
            );
        }
        self.own(name, &text, words, place)?;
        self.payloads(name, words, node, place)?;
        for inner in self.inner(name, words, place)? {
            self.words(inner, node, place, depth + 1)?;
        }
        Ok(())
    }

    /// What the command itself does, apart from what it runs.
    #[inline(never)]
    fn own(&self, name: &str, text: &str, words: &[Word], place: &Place) -> Check {
        if self.is_system_command(text, place) {
            privilege::check(name, words)?;
            catastrophe::check(name, words)?;
            let gains = wrapper::unwrap(name, words).is_some_and(|it| it.manner == Manner::Privilege);
            if gains {
                return Err(privilege::denied(name, &words[0].span));
            }
        }
        for write in writes::of(name, words) {
            self.write(&write, place)?;
        }
        if name == "git"
            && let Ok(call) = git::read(words)
        {
            for word in git::written(&call) {
                self.write(&Write::of(word), place)?;
            }
        }
        Ok(())
    }

    /// The commands that a command runs out of its own words.
    #[inline(never)]
    fn inner<'a>(&mut self, name: &str, words: &'a [Word], place: &Place) -> Result<Vec<&'a [Word]>, Deny> {
        let mut out = payload::positional(name, words);
        if name == "hash" && argv::has(&argv::read(&words[1..], &Valued::default()), "p", &[]) {
            out.push(&words[words.len().min(2)..]);
        }
        if name == "find" {
            for inner in wrapper::find_commands(words) {
                self.removal_in_find(inner, words, place)?;
                out.push(inner);
            }
        }
        if let Some(begin) = begins_inner(name) {
            let at = words
                .iter()
                .position(|word| word.literal().is_some_and(|text| begin.contains(&text.as_str())));
            out.extend(at.map(|at| &words[at + 1..]));
        }
        if let Some(unwrapped) = wrapper::unwrap(name, words) {
            out.push(unwrapped.inner);
            // An option that the table does not know may take a value: the command may begin later.
            if unwrapped.strange.is_some() {
                let later = 1..unwrapped.inner.len().min(STRANGE_WORDS_MAX);
                self.commands += later.len();
                out.extend(later.map(|at| &unwrapped.inner[at..]));
            }
        }
        Ok(out)
    }

    /// A name without a path, or a path into a system directory: `./init` is the project's own.
    fn is_system_command(&self, text: &str, place: &Place) -> bool {
        const ELSEWHERE: &[&str] = &["/bin", "/sbin", "/usr", "/opt", "/snap", "/nix", "/run", "/gnu"];
        if !text.contains('/') {
            return true;
        }
        let Some(path) = place.absolute(text) else {
            return true;
        };
        ELSEWHERE.iter().any(|system| path.starts_with(system))
    }

    fn payloads(&mut self, name: &str, words: &[Word], node: &Node, place: &Place) -> Check {
        let evaluated = payload::evaluated(name, words).into_iter();
        let mut inner = payload::of(name, words, node);
        inner.extend(evaluated.filter_map(payload::subscripted));
        for inner in inner {
            self.payload(&inner, place)?;
        }
        Ok(())
    }

    // Out of line: the walks recurse through their callers, and this frame is large.
    #[inline(never)]
    fn payload(&mut self, inner: &Payload, place: &Place) -> Check {
        if place.depth >= PAYLOAD_DEPTH_MAX {
            let message = format!("has more than {PAYLOAD_DEPTH_MAX} shell texts inside each other");
            return Err(Deny::new("limit-payload", &inner.span, message).hint("write it to a script file"));
        }
        self.inner_text(&inner.text, inner, place)?;
        if inner.exact || inner.bare == inner.text {
            return Ok(());
        }
        self.inner_text(&inner.bare, inner, place)
    }

    // Out of line like `payload`.
    #[inline(never)]
    fn inner_text(&mut self, text: &str, inner: &Payload, place: &Place) -> Check {
        let at = |mut deny: Deny| {
            deny.span = inner.span.clone();
            deny
        };
        let mut own = place.clone();
        own.depth += 1;
        match super::read(text, place.depth + 1) {
            Ok(script) => self.script(&script, &own).map_err(at),
            Err(deny) if self.strict && inner.exact => Err(at(deny)),
            Err(_) => self.crude(text, &inner.span, &own).map_err(at),
        }
    }

    /// A text that cannot be read but is not refused for that: what could be a command in it.
    #[inline(never)]
    pub(super) fn crude(&mut self, text: &str, span: &Range<usize>, place: &Place) -> Check {
        let crude = crude::read(text, span);
        let node = Node::new(Kind::Command(Command::default()), span.clone());
        for words in &crude.runs {
            self.words(words, &node, place, 0)?;
        }
        for word in crude.outputs {
            self.write(&Write::of(word), place)?;
        }
        Ok(())
    }

    /// Runs the substitutions of a subscript that bash evaluates.
    fn subscripted(&mut self, word: &Word, place: &Place) -> Check {
        match payload::subscripted(word) {
            Some(inner) => self.payload(&inner, place),
            None => Ok(()),
        }
    }

    /// Values that bash runs or expands on its own.
    fn assignments(&mut self, command: &Command, place: &Place) -> Check {
        for assignment in &command.assignments {
            for value in &assignment.values {
                match assignment.name.as_str() {
                    "PROMPT_COMMAND" | "BASH_ALIASES" => self.payload(&payload::payload(value), place)?,
                    "PS4" | "PS1" | "PS0" => {
                        let text = payload::payload(value).text;
                        self.payload(&payload::expanded(&text, value), place)?;
                    }
                    _ => self.subscripted(value, place)?,
                }
            }
        }
        Ok(())
    }

    // Out of line like `payload`.
    /// A text piped into a shell, and names piped into a removal.
    #[inline(never)]
    fn pipeline(&mut self, stages: &[Node], place: &Place) -> Check {
        for fed in pipes::fed(stages) {
            match fed {
                Fed::Shell(inner) => self.payload(&inner, place)?,
                Fed::Words(inner, added) => {
                    let words: Vec<Word> = inner.iter().cloned().chain(added).collect();
                    let node = Node::new(Kind::Command(Command::default()), 0..0);
                    self.words(&words, &node, place, 0)?;
                }
            }
        }
        for at in 0..stages.len() {
            for start in pipes::removed(stages, at) {
                self.broad(start, place)?;
            }
        }
        Ok(())
    }

    /// `find / -exec rm -rf {} +`.
    fn removal_in_find(&self, inner: &[Word], words: &[Word], place: &Place) -> Check {
        let name = inner.first().and_then(Word::literal).unwrap_or_default();
        if !matches!(
            base_name(&name),
            "rm" | "shred" | "chmod" | "chown" | "mv" | "unlink"
        ) {
            return Ok(());
        }
        for start in writes::find_starts(&words[1..]) {
            self.broad(start, place)?;
        }
        Ok(())
    }

    fn write(&self, write: &Write, place: &Place) -> Check {
        let span = &write.word.span;
        if write.recursive {
            self.broad(&write.word, place)?;
        }
        let (path, below) = match place.target(&write.word, self.ground) {
            Target::Path(path) => (path, false),
            Target::Below(path) => (path, true),
            Target::Dynamic => return Ok(()),
        };
        if catastrophe::is_disk(&path) {
            return Err(Deny::new(
                "catastrophic",
                span,
                format!("writes to the device {}", path.display()),
            )
            .hint("write to an image file below the working directory"));
        }
        if path == Path::new("/proc/sysrq-trigger") {
            return Err(
                Deny::new("catastrophic", span, "writes to the kernel's emergency switch")
                    .hint(catastrophe::NO_FORM),
            );
        }
        let problem = protect::write_problem(&path, self.ground).or_else(|| {
            let whole = write.recursive && write.destroys && !below;
            let held = if whole {
                protect::holds_protected(&path, self.ground)
            } else {
                None
            };
            held.map(|held| format!("{} in it is protected", held.display()))
        });
        match problem {
            None => Ok(()),
            Some(problem) => Err(Deny::new(
                "protected",
                span,
                format!("changes {}: {problem}", path.display()),
            )
            .hint("ask the operator to change it")),
        }
    }

    /// Refuses a recursive change of `/`, the home directory or a top-level system directory.
    fn broad(&self, word: &Word, place: &Place) -> Check {
        let path = match place.target(word, self.ground) {
            Target::Path(path) | Target::Below(path) => path,
            Target::Dynamic => return Ok(()),
        };
        let path = normal(&path);
        let root = Path::new("/");
        let holds_home = self.ground.home.starts_with(&path) && path != root;
        let own = self.ground.writable.contains(&path) && path != self.ground.home;
        let is_home = path.parent() == Some(Path::new("/home"));
        let broad = BROAD.iter().any(|broad| path == Path::new(broad)) || holds_home || is_home;
        if path == root || broad && !own {
            return Err(Deny::new(
                "catastrophic",
                &word.span,
                format!("changes everything below {}", path.display()),
            )
            .hint("name the files or the directory that you mean"));
        }
        Ok(())
    }
}

/// Options after which the rest is a command.
fn begins_inner(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "fd" | "fdfind" => Some(&["-x", "-X", "--exec", "--exec-batch"]),
        "gdb" => Some(&["--args", "-args"]),
        "lldb" => Some(&["--"]),
        _ => None,
    }
}

/// The literal text of a word, expansions left out.
fn literal_part(word: &Word) -> String {
    let literal = word.pieces.iter().filter_map(|piece| match piece {
        Piece::Literal { text, .. } => Some(text.as_str()),
        Piece::Home => Some("~"),
        _ => None,
    });
    literal.collect()
}

/// True for a body that runs `name` in a pipeline or in the background.
fn multiplies(node: &Node, name: &str) -> bool {
    fn calls(node: &Node, name: &str) -> bool {
        match &node.kind {
            Kind::Command(command) => command.words.first().and_then(Word::literal).as_deref() == Some(name),
            Kind::Sequence(nodes) | Kind::Group(nodes) | Kind::Subshell(nodes) | Kind::Pipeline(nodes) => {
                nodes.iter().any(|node| calls(node, name))
            }
            Kind::Background(inner) => calls(inner, name),
            Kind::Control(_) | Kind::Function { .. } | Kind::Test(_) | Kind::Arithmetic(_) => false,
        }
    }
    match &node.kind {
        Kind::Pipeline(stages) => stages.iter().filter(|stage| calls(stage, name)).count() > 0,
        Kind::Background(inner) => calls(inner, name),
        Kind::Sequence(nodes) | Kind::Group(nodes) | Kind::Subshell(nodes) => {
            nodes.iter().any(|node| multiplies(node, name))
        }
        Kind::Control(control) => control.parts.iter().any(|node| multiplies(node, name)),
        Kind::Command(_) | Kind::Function { .. } | Kind::Test(_) | Kind::Arithmetic(_) => false,
    }
}
