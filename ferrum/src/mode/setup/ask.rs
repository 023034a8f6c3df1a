//! Questions at the terminal. Each has a default, which an empty line takes.

use crate::exit::{Failure, Kind};
use crate::mode::write_out;
use std::io::BufRead;

/// Choices that are shown; further ones can be named.
const SHOWN_MAX: usize = 30;

/// Asks for one of `choices` by number, or for other words where they are allowed.
///
/// # Errors
/// When the terminal ends.
pub fn choose(question: &str, choices: &[String], other: bool) -> Result<String, Failure> {
    let mut list = String::new();
    for (at, choice) in choices.iter().take(SHOWN_MAX).enumerate() {
        list.push_str(&format!("  {:>2}  {choice}\n", at + 1));
    }
    if choices.len() > SHOWN_MAX {
        list.push_str(&format!(
            "      and {} more, to be named\n",
            choices.len() - SHOWN_MAX
        ));
    }
    write_out(&list)?;
    let default = if choices.is_empty() { "" } else { "[1] " };
    loop {
        write_out(&format!("{question} {default}"))?;
        if let Some(chosen) = pick(&line()?, choices, other) {
            return Ok(chosen);
        }
    }
}

fn pick(answer: &str, choices: &[String], other: bool) -> Option<String> {
    let answer = answer.trim();
    if answer.is_empty() {
        return choices.first().cloned();
    }
    let by_number = answer
        .parse::<usize>()
        .ok()
        .and_then(|n| choices.get(n.checked_sub(1)?));
    let by_name = choices.iter().find(|choice| *choice == answer);
    by_number
        .or(by_name)
        .cloned()
        .or_else(|| (other && answer.parse::<usize>().is_err()).then(|| answer.to_owned()))
}

/// Asks yes or no.
///
/// # Errors
/// When the terminal ends.
pub fn agree(question: &str, default: bool) -> Result<bool, Failure> {
    loop {
        write_out(&format!("{question} [{}] ", if default { "Y/n" } else { "y/N" }))?;
        match line()?.trim().to_ascii_lowercase().as_str() {
            "" => return Ok(default),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

fn line() -> Result<String, Failure> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(1..) => Ok(line),
        Ok(0) => Err(Failure::new(
            Kind::Cancelled,
            "setup was broken off; nothing was written",
        )),
        Err(error) => Err(Failure::new(
            Kind::Error,
            format!("stdin cannot be read: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_an_empty_line_choose() {
        let choices = ["a".to_owned(), "b".to_owned()];
        for (answer, other, chosen) in [
            ("\n", false, Some("a")),
            ("2", false, Some("b")),
            ("b", false, Some("b")),
            ("0", false, None),
            ("3", true, None),
            ("c", false, None),
            (" c ", true, Some("c")),
        ] {
            assert_eq!(pick(answer, &choices, other).as_deref(), chosen, "{answer:?}");
        }
        assert_eq!(pick("", &[], true), None);
    }
}
