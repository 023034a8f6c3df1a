//! The table at medium: every command is known from the text, and none takes authority that the
//! text does not show.

use super::authority::has_authority;
use super::deny::{Check, Deny};
use super::interpreter::{self, Source};
use super::limits::PAYLOAD_DEPTH_MAX;
use super::numbers::Integers;
use super::place::{Place, Target, is_inside};
use super::script::{Arithmetic, Assignment, Command, Kind, Node, Piece, Redirect, RedirectKind, Word};
use super::walk::Rules;
use super::wrapper::{self, Manner, base_name};
use super::writes;
use super::{builtin, git, high, options};
use crate::{Ground, protect};

/// The medium rules with what they know of the whole text.
pub(super) struct Medium<'a> {
    pub(super) ground: &'a Ground,
    pub(super) integers: Integers,
}

impl Rules for Medium<'_> {
    fn ground(&self) -> &Ground {
        self.ground
    }

    fn statement(&mut self, node: &Node, place: &Place) -> Check {
        match &node.kind {
            Kind::Function { name, .. } => Err(Deny::new(
                "rebinds",
                &node.span,
                format!("{name} would be defined as a function"),
            )
            .hint("put it in a script file and run that")),
            Kind::Test(words) => self.test(words),
            Kind::Control(control) => match &control.variable {
                Some(name) if has_authority(name) => Err(authority(name, &node.span)),
                _ => Ok(()),
            },
            // An interpreter that is fed a substitution is refused as such, before what is in it.
            Kind::Command(command) => {
                let name = command.words.first().and_then(Word::literal).unwrap_or_default();
                self.interpreter(base_name(&name), &command.words, node, place)
            }
            _ => Ok(()),
        }
    }

    fn word(&mut self, word: &Word, place: &Place) -> Check {
        self.pieces(&word.pieces, word, place)
    }

    fn redirect(&mut self, redirect: &Redirect, _: &Node, place: &Place) -> Check {
        let (text, _) = redirect.target.prefix();
        if text.starts_with("/dev/tcp") || text.starts_with("/dev/udp") {
            return Err(Deny::new(
                "net-redirect",
                &redirect.span,
                "opens a network connection from the shell itself",
            )
            .hint("use curl or another network client"));
        }
        match redirect.kind {
            RedirectKind::Output => self.writes_to(&redirect.target, place, "outside-root"),
            RedirectKind::Input => self.reads(&redirect.target, place),
            RedirectKind::Duplicate | RedirectKind::HereString | RedirectKind::Heredoc { .. } => Ok(()),
        }
    }

    fn command(&mut self, command: &Command, node: &Node, place: &Place) -> Check {
        for assignment in &command.assignments {
            self.assignment(assignment, command)?;
        }
        self.words(&command.words, node, place, 0)
    }
}

impl Medium<'_> {
    fn words(&self, words: &[Word], node: &Node, place: &Place, depth: usize) -> Check {
        let Some(first) = words.first() else { return Ok(()) };
        let name = command_name(first)?;
        let name = base_name(&name);
        if depth > PAYLOAD_DEPTH_MAX {
            return Err(Deny::new(
                "limit-wrappers",
                &first.span,
                "too many wrappers around one command",
            )
            .hint("run the inner command itself"));
        }
        if let Some(unwrapped) = wrapper::unwrap(name, words) {
            return self.wrapped(name, words, &unwrapped, node, place, depth);
        }
        builtin::check(name, words, &self.integers)?;
        self.interpreter(name, words, node, place)?;
        options::check(name, words)?;
        if name == "git" {
            self.git(words, place)?;
        }
        if name == "find" {
            for inner in wrapper::find_commands(words) {
                self.inspects(inner, "find -exec")?;
            }
        }
        for write in writes::of(name, words) {
            let code = if write.by_option {
                "arg-write"
            } else {
                "outside-root"
            };
            self.writes_to(&write.word, place, code)?;
        }
        if !matches!(name, "echo" | "printf" | "test" | "[" | ":" | "true") {
            for word in &words[1..] {
                self.reads(word, place)?;
            }
        }
        Ok(())
    }

    fn wrapped(
        &self,
        name: &str,
        words: &[Word],
        unwrapped: &wrapper::Unwrapped<'_>,
        node: &Node,
        place: &Place,
        depth: usize,
    ) -> Check {
        let first = &words[0];
        match unwrapped.manner {
            Manner::Detach => {
                return Err(Deny::new(
                    "detach",
                    &first.span,
                    format!("{name} runs a process apart from this call"),
                )
                .hint("start it with & and use it in the same call: everything ends with the call"));
            }
            Manner::Indirect if !only_asks(words) => {
                return Err(Deny::new(
                    "indirect",
                    &first.span,
                    format!("{name} runs commands that the text does not show"),
                )
                .hint("run the command itself"));
            }
            Manner::Privilege => {
                // The real one was refused by the hard rules: this is the project's own program.
                return Ok(());
            }
            Manner::Exec if !unwrapped.inner.is_empty() => {
                return Err(Deny::new("eval", &first.span, "exec replaces the shell")
                    .hint("run the command without exec"));
            }
            Manner::Plain | Manner::Runner | Manner::Xargs | Manner::Exec | Manner::Indirect => {}
        }
        let own = &words[..words.len() - unwrapped.inner.len()];
        if name == "flock" {
            self.lock(own, place)?;
        }
        for write in writes::of(name, own) {
            self.writes_to(&write.word, place, "arg-write")?;
        }
        if name == "coproc" {
            return Err(
                Deny::new("coproc", &first.span, "coproc runs a command beside the shell")
                    .hint("use a pipeline or &"),
            );
        }
        if let Some(strange) = unwrapped.strange
            && (!unwrapped.inner.is_empty() || name == "env")
        {
            return Err(Deny::new(
                "wrapper",
                &strange.span,
                format!("{name} with this option may run something else"),
            )
            .hint("run the inner command without it"));
        }
        for assignment in &unwrapped.assignments {
            let (text, _) = assignment.prefix();
            let variable = text.split(['=', '+', '[']).next().unwrap_or_default();
            if has_authority(variable) {
                return Err(authority(variable, &assignment.span));
            }
        }
        if unwrapped.manner == Manner::Xargs {
            return self.inspects(unwrapped.inner, "xargs");
        }
        self.words(unwrapped.inner, node, place, depth + 1)
    }

    /// `flock FILE COMMAND` makes the file; `flock FILE -c TEXT` runs a text.
    fn lock(&self, own: &[Word], place: &Place) -> Check {
        let mut words = own[1..].iter();
        while let Some(word) = words.next() {
            let (text, _) = word.prefix();
            if text.starts_with("-c") || text.starts_with("--command") {
                return Err(
                    Deny::new("inline-code", &word.span, "flock would run a command text")
                        .hint("write the command after the file's name, without -c"),
                );
            } else if matches!(text.as_str(), "-w" | "--timeout" | "-E" | "--conflict-exit-code") {
                words.next();
            } else if !text.starts_with('-') && !text.chars().all(|c| c.is_ascii_digit()) {
                self.writes_to(word, place, "outside-root")?;
            }
        }
        Ok(())
    }

    /// The inner command of `xargs` and `find -exec` gets words that are not in the text.
    fn inspects(&self, inner: &[Word], by: &str) -> Check {
        let Some(first) = inner.first() else { return Ok(()) };
        let static_inner = inner.iter().all(|word| !word.is_dynamic());
        if static_inner && high::inspects(inner, self.ground).is_ok() {
            return Ok(());
        }
        Err(Deny::new(
            "indirect",
            &first.span,
            format!("{by} may only run inspection commands here"),
        )
        .hint("use a for loop over the names in a script file"))
    }

    fn interpreter(&self, name: &str, words: &[Word], node: &Node, place: &Place) -> Check {
        let Some(first) = words.first() else { return Ok(()) };
        match interpreter::source(name, words, node, place.piped) {
            Source::Static => Ok(()),
            Source::Inline => Err(Deny::new(
                "inline-code",
                &first.span,
                format!("{name} would run code that stands in the command"),
            )
            .hint("write the code to a file and run the file")),
            Source::Dynamic => Err(Deny::new(
                "dynamic-command",
                &first.span,
                format!("{name} would run a file known only at run time"),
            )
            .hint("write the script's path out")),
        }
    }

    fn git(&self, words: &[Word], place: &Place) -> Check {
        let call = git::read(words)?;
        git::check(&call)?;
        for word in &call.repositories {
            self.writes_to(word, place, "git-exec")?;
        }
        for word in git::written(&call) {
            self.writes_to(&word, place, "outside-root")?;
        }
        Ok(())
    }

    fn assignment(&self, assignment: &Assignment, command: &Command) -> Check {
        let name = assignment.name.as_str();
        let reads = command.words.first().and_then(Word::literal).as_deref() == Some("read");
        if has_authority(name) && !(name == "IFS" && reads) {
            return Err(authority(name, &assignment.span));
        }
        Ok(())
    }

    /// Checks a file that would be written.
    fn writes_to(&self, word: &Word, place: &Place, code: &'static str) -> Check {
        if word.literal().is_some_and(|text| text == "-") {
            return Ok(());
        }
        let path = match place.target(word, self.ground) {
            Target::Path(path) | Target::Below(path) => path,
            Target::Dynamic if word.has_substitution() => {
                return Err(Deny::new(
                    "subst",
                    &word.span,
                    "the file to be written comes from a substitution",
                )
                .hint("write the file's name out"));
            }
            Target::Dynamic => {
                return Err(Deny::new(
                    "dynamic-target",
                    &word.span,
                    "the file to be written is only known at run time",
                )
                .hint("write the file's name out"));
            }
        };
        if is_inside(&path, self.ground) || is_device(&path) {
            return Ok(());
        }
        let roots: Vec<String> = self
            .ground
            .writable
            .iter()
            .map(|root| root.display().to_string())
            .collect();
        let roots = if roots.is_empty() {
            "there is no writable root".to_owned()
        } else {
            format!("the writable root is {}", roots.join(", "))
        };
        let message = format!(
            "writes {}, but {roots} (and $TMPDIR for scratch files)",
            path.display()
        );
        Err(Deny::new(code, &word.span, message)
            .hint("use a path below the working directory, or below $TMPDIR"))
    }

    /// Checks a file that may be read.
    fn reads(&self, word: &Word, place: &Place) -> Check {
        // `--option=PATH`, `@PATH`, `name=@PATH`, `host:PATH`, `file://PATH`, `-oPATH`.
        let mut candidates = vec![word.clone()];
        let (text, _) = word.prefix();
        let starts = text.char_indices().filter(|(_, c)| "=@:".contains(*c));
        candidates.extend(starts.take(8).map(|(at, _)| word.without_prefix(at + 1)));
        if text.starts_with('-') && text.len() >= 2 {
            candidates.push(word.without_prefix(2));
        }
        let pattern = options::with_holes(word);
        if pattern.contains("/proc/") && pattern.ends_with("/environ") {
            return Err(
                Deny::new("secret", &word.span, "reads the environment of processes")
                    .hint("ask the operator for what you need from it"),
            );
        }
        for candidate in candidates {
            let path = match place.target(&candidate, self.ground) {
                Target::Path(path) | Target::Below(path) => path,
                Target::Dynamic => continue,
            };
            if let Some(problem) = protect::read_problem(&path, &self.ground.home, &self.ground.protected) {
                return Err(Deny::new(
                    "secret",
                    &word.span,
                    format!("reads {}: {problem}", path.display()),
                )
                .hint("ask the operator for what you need from it"));
            }
        }
        Ok(())
    }

    fn pieces(&self, pieces: &[Piece], word: &Word, place: &Place) -> Check {
        for piece in pieces {
            match piece {
                Piece::Param(param) => {
                    if param.indirect {
                        return Err(Deny::new(
                            "indirect-expansion",
                            &word.span,
                            "the value would be read as a name or as code",
                        )
                        .hint("use the variable itself"));
                    }
                    if param.assigns && has_authority(&param.name) {
                        return Err(authority(&param.name, &word.span));
                    }
                    // A key is data: what is expanded in it is judged like any other expansion.
                    if param.keyed && self.integers.is_keyed(&param.name, word.span.start) {
                        self.pieces(&param.numbers.inner, word, place)?;
                    } else {
                        self.numbers(&param.numbers, word)?;
                    }
                    self.pieces(&param.inner, word, place)?;
                }
                Piece::Arithmetic(numbers) => self.numbers(numbers, word)?,
                Piece::ProcessIn(nodes) => self.process_in(nodes, word, place)?,
                Piece::ProcessOut(_) => {
                    return Err(
                        Deny::new("subst", &word.span, ">( … ) runs a command on what is written")
                            .hint("use a pipeline"),
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `<( … )` passes when everything in it only inspects.
    fn process_in(&self, nodes: &[Node], word: &Word, place: &Place) -> Check {
        if high::script_inspects(nodes, place, self.ground).is_ok() {
            return Ok(());
        }
        Err(Deny::new(
            "subst",
            &word.span,
            "<( … ) may only hold inspection commands here",
        )
        .hint("write the output to a file first"))
    }

    fn numbers(&self, numbers: &Arithmetic, word: &Word) -> Check {
        if let Some(name) = numbers.sets.iter().find(|name| has_authority(name)) {
            return Err(authority(name, &word.span));
        }
        for name in &numbers.names {
            if !self.integers.holds(name) {
                return Err(arithmetic(name, word));
            }
        }
        self.inner_numbers(&numbers.inner, word)
    }

    fn inner_numbers(&self, inner: &[Piece], word: &Word) -> Check {
        for piece in inner {
            match piece {
                Piece::Subst(_) => {
                    return Err(Deny::new(
                        "arith-injection",
                        &word.span,
                        "the output of a command would be evaluated",
                    )
                    .hint("use expr, or compute in a script file"));
                }
                Piece::Arithmetic(numbers) => self.numbers(numbers, word)?,
                Piece::Param(param) => self.numbers(&param.numbers, word)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// `[[ … ]]` evaluates the operands of `-eq` and its like, and the subscript after `-v`.
    fn test(&self, words: &[Word]) -> Check {
        const COMPARE: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        for (index, word) in words.iter().enumerate() {
            let operator = word.literal().unwrap_or_default();
            if COMPARE.contains(&operator.as_str()) {
                let sides = [
                    index.checked_sub(1).and_then(|before| words.get(before)),
                    words.get(index + 1),
                ];
                for side in sides.into_iter().flatten() {
                    self.operand(side)?;
                }
            }
            if operator == "-v"
                && let Some(name) = words.get(index + 1)
            {
                builtin::names_variable(name)?;
            }
        }
        Ok(())
    }

    fn operand(&self, word: &Word) -> Check {
        for piece in &word.pieces {
            match piece {
                Piece::Literal { text, .. } => {
                    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                    if starts && !self.integers.holds(text) {
                        return Err(arithmetic(text, word));
                    }
                }
                Piece::Param(param) if !self.integers.holds(&param.name) => {
                    return Err(arithmetic(&param.name, word));
                }
                Piece::Subst(_) => {
                    return Err(Deny::new(
                        "arith-injection",
                        &word.span,
                        "the output of a command would be evaluated",
                    )
                    .hint("compare with [ … ] instead of [[ … ]]"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn arithmetic(name: &str, word: &Word) -> Deny {
    let message = format!("the value of {name} would be evaluated, and it may hold code");
    Deny::new("arith-injection", &word.span, message).hint(format!(
        "set {name} to an integer in this command, or compare with [ … ]"
    ))
}

fn authority(name: &str, span: &std::ops::Range<usize>) -> Deny {
    Deny::new(
        "env-authority",
        span,
        format!("{name} decides what later commands run"),
    )
    .hint("run the program by its path, or set the variable in a script file")
}

/// The static name of a command.
fn command_name(word: &Word) -> Result<String, Deny> {
    let mut text = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Literal { text: part, .. } => text.push_str(part),
            Piece::Home if text.is_empty() => text.push('~'),
            Piece::Pwd if text.is_empty() => text.push('.'),
            _ => {
                return Err(Deny::new(
                    "dynamic-command",
                    &word.span,
                    "which program runs is only known at run time",
                )
                .hint("write the program's name"));
            }
        }
    }
    if !text.is_ascii() {
        return Err(Deny::new(
            "unicode",
            &word.span,
            "the command's name has letters beyond ASCII",
        )
        .hint("write the program's name in ASCII"));
    }
    Ok(text)
}

/// `X --version`, `X --help`.
fn only_asks(words: &[Word]) -> bool {
    let asks = |word: &Word| {
        word.literal()
            .is_some_and(|text| matches!(text.as_str(), "--version" | "--help"))
    };
    words.len() > 1 && words[1..].iter().all(asks)
}

fn is_device(path: &std::path::Path) -> bool {
    const DEVICES: &[&str] = &[
        "/dev/null",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/tty",
        "/dev/full",
        "/dev/zero",
    ];
    DEVICES.iter().any(|device| path == std::path::Path::new(device)) || path.starts_with("/dev/fd")
}
