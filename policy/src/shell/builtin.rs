//! Shell builtins that run text, rename commands or evaluate names, at medium.

use super::argv::{self, Arg, Valued};
use super::authority::has_authority;
use super::deny::{Check, Deny};
use super::numbers::Integers;
use super::payload;
use super::script::Word;
use super::wrapper::is_identifier;

/// Judges `words` (name first) if `name` is one of these builtins.
pub(super) fn check(name: &str, words: &[Word], integers: &Integers) -> Check {
    let rest = &words[1..];
    let first = &words[0];
    match name {
        "eval" | "source" | "." | "fc" => {
            Err(
                Deny::new("eval", &first.span, format!("{name} runs text as code"))
                    .hint("write the commands out, or run the script as a file with bash"),
            )
        }
        "trap" => match payload::trap_action(words) {
            None => Ok(()),
            Some(code) => {
                Err(Deny::new("eval", &code.span, "trap runs text as code").hint("put it in a script file"))
            }
        },
        "alias" if !rest.is_empty() => Err(rebinds(first, "alias")),
        "hash" if has_letter(rest, "p") => Err(rebinds(first, "hash -p")),
        "enable" if has_letter(rest, "fn") => Err(rebinds(first, "enable")),
        "shopt"
            if rest
                .iter()
                .any(|word| word.literal().as_deref() == Some("expand_aliases")) =>
        {
            Err(rebinds(first, "expand_aliases"))
        }
        "mapfile" | "readarray" => {
            callback(name, first, rest)?;
            names_after(rest, "uCcOsnd")
        }
        "complete" | "compgen" | "bind" => callback(name, first, rest),
        "disown" | "at" | "batch" | "crontab" | "daemon" => Err(Deny::new(
            "detach",
            &first.span,
            format!("{name} lets something run apart from this call"),
        )
        .hint("start it with & and use it in the same call: everything ends with the call")),
        "read" => names_after(rest, "adinNptu"),
        "unset" => names_after(rest, ""),
        "getopts" => rest.get(1).map_or(Ok(()), assigns),
        "printf" => match option_value(rest, 'v') {
            Some(name) => assigns(&name),
            None => Ok(()),
        },
        "test" | "[" => test(rest),
        "export" | "declare" | "typeset" | "local" | "readonly" => declares(name, rest, integers),
        "let" => lets(rest, integers),
        _ => Ok(()),
    }
}

fn rebinds(word: &Word, what: &str) -> Deny {
    Deny::new(
        "rebinds",
        &word.span,
        format!("{what} changes what a command's name means"),
    )
    .hint("put it in a script file and run that")
}

fn has_letter(rest: &[Word], letters: &str) -> bool {
    argv::has(&argv::read(rest, &Valued::default()), letters, &[])
}

fn option_value(rest: &[Word], letter: char) -> Option<Word> {
    let valued = Valued {
        short: "vCcuOsntd",
        long: &[],
    };
    argv::read(rest, &valued).into_iter().find_map(|arg| match arg {
        Arg::Short(given, value, _) if given == letter => value,
        _ => None,
    })
}

fn callback(name: &str, first: &Word, rest: &[Word]) -> Check {
    let letters = match name {
        "bind" => "x",
        "complete" | "compgen" => "CF",
        _ => "C",
    };
    if has_letter(rest, letters) {
        return Err(
            Deny::new("eval", &first.span, format!("{name} would call code back"))
                .hint("put it in a script file"),
        );
    }
    Ok(())
}

/// A plain variable name: a subscript would be evaluated.
pub(super) fn names_variable(word: &Word) -> Check {
    match word.literal() {
        Some(text) if is_identifier(&text) => Ok(()),
        Some(text) if text.ends_with("[@]") || text.chars().all(|c| c.is_ascii_digit()) => Ok(()),
        _ => Err(Deny::new(
            "arith-injection",
            &word.span,
            "a name with a subscript, or one known only at run time, is evaluated",
        )
        .hint("use a plain variable name")),
    }
}

/// A name that is given a value.
fn assigns(word: &Word) -> Check {
    names_variable(word)?;
    let name = word.literal().unwrap_or_default();
    if has_authority(&name) {
        return Err(env_authority(&name, word));
    }
    Ok(())
}

fn names_after(rest: &[Word], valued: &'static str) -> Check {
    let valued = Valued {
        short: valued,
        long: &[],
    };
    for arg in argv::read(rest, &valued) {
        match arg {
            Arg::Short('a', Some(name), _) => assigns(&name)?,
            Arg::Operand(word) => assigns(word)?,
            Arg::Short(..) | Arg::Long(..) => {}
        }
    }
    Ok(())
}

fn test(rest: &[Word]) -> Check {
    for (index, word) in rest.iter().enumerate() {
        if word.literal().as_deref() == Some("-v")
            && let Some(name) = rest.get(index + 1)
            && name.literal().as_deref() != Some("]")
        {
            names_variable(name)?;
        }
    }
    Ok(())
}

fn declares(name: &str, rest: &[Word], integers: &Integers) -> Check {
    let evaluates = name != "export" && has_letter(rest, "ni");
    for word in rest {
        let (text, whole) = word.prefix();
        if text.starts_with('-') || text.starts_with('+') {
            continue;
        }
        let (variable, value) = match text.split_once('=') {
            Some((variable, _)) => (
                variable.trim_end_matches('+'),
                Some(word.without_prefix(text.find('=').unwrap_or(0) + 1)),
            ),
            None => (text.as_str(), None),
        };
        if value.is_none() && !whole && word.has_subscript() {
            return Err(evaluated(word));
        }
        if value.is_none() && !whole {
            return Err(Deny::new(
                "env-authority",
                &word.span,
                "which variable is set is only known at run time",
            )
            .hint("write the variable's name"));
        }
        let plain = variable.split('[').next().unwrap_or(variable);
        if value.is_some() && has_authority(plain) {
            return Err(Deny::new(
                "env-authority",
                &word.span,
                format!("{plain} decides what later commands run"),
            )
            .hint("run the program by its path, or set the variable in a script file"));
        }
        if variable.contains('[') || evaluates && value.is_some_and(|_| !integers.holds(plain)) {
            return Err(evaluated(word));
        }
    }
    Ok(())
}

fn evaluated(word: &Word) -> Deny {
    let message = "the value or subscript would be evaluated";
    Deny::new("arith-injection", &word.span, message).hint("declare it without -i, -n and subscripts")
}

/// `let` evaluates its operands. `name=…` sets a variable first.
fn lets(rest: &[Word], integers: &Integers) -> Check {
    for word in rest {
        let text = word.literal().unwrap_or_else(|| "?".to_owned());
        let (set, value) = let_parts(&text);
        if set.is_some_and(has_authority) {
            return Err(env_authority(set.unwrap_or_default(), word));
        }
        let names = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let unknown = names.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
        let mut unknown = unknown.filter(|name| !integers.holds(name));
        if word.literal().is_none() || text.contains('[') || unknown.next().is_some() {
            return Err(Deny::new(
                "arith-injection",
                &word.span,
                "let evaluates values that may hold code",
            )
            .hint("set the variable to an integer in this command and use $(( … ))"));
        }
    }
    Ok(())
}

/// The variable that an operand of `let` sets from scratch, and what is evaluated.
pub(super) fn let_parts(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, value)) if is_identifier(name) && !value.starts_with('=') => (Some(name), value),
        _ => (None, text),
    }
}

fn env_authority(name: &str, word: &Word) -> Deny {
    Deny::new(
        "env-authority",
        &word.span,
        format!("{name} decides what later commands run"),
    )
    .hint("use another variable name")
}
