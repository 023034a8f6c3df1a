//! Ordinary commands: hardly any is refused that should not be, and none for not being read.
//!
//! The verdicts expected in `one-liners.txt` were written down before the commands were judged.

mod harness;

use harness::{code, rows};
use policy::{ShellMode, Tier};

/// Commands with the code that medium must refuse them with; `""` for allowed.
fn one_liners() -> Vec<(String, String)> {
    let own = include_str!("one-liners.txt").lines();
    let own = own.filter(|line| !line.starts_with('#') && !line.is_empty());
    let own = own.map(
        |line| match line.strip_prefix('!').and_then(|line| line.split_once(' ')) {
            Some((code, command)) if code.chars().all(|c| c.is_ascii_lowercase() || c == '-') => {
                (command.replace('⏎', "\n"), code.to_owned())
            }
            _ => (line.replace('⏎', "\n"), String::new()),
        },
    );
    let table = rows(include_str!("shell-ordinary.tsv")).into_iter();
    let table = table.filter(|row| row.tier == Tier::Medium && row.allow);
    own.chain(table.map(|row| (row.command, String::new()))).collect()
}

#[test]
fn at_most_one_ordinary_command_in_200_is_not_read() {
    let all = one_liners();
    assert!(all.len() >= 1000, "only {} one-liners", all.len());
    let unread: Vec<&String> = all
        .iter()
        .map(|(command, _)| command)
        .filter(|command| {
            let code = code(Tier::Medium, ShellMode::Static, command);
            matches!(code, "unreadable" | "malformed") || code.starts_with("limit-")
        })
        .collect();
    assert!(
        unread.len() * 200 <= all.len(),
        "{} of {}: {unread:#?}",
        unread.len(),
        all.len()
    );
}

#[test]
fn at_most_one_in_fifty_is_refused_wrongly_and_none_is_allowed_wrongly() {
    let all = one_liners();
    let judged = |command: &str| code(Tier::Medium, ShellMode::Static, command);
    let wrong: Vec<String> = all
        .iter()
        .filter(|(command, expected)| judged(command) != expected)
        .map(|(command, expected)| format!("{expected:?} but {:?}: {command}", judged(command)))
        .collect();
    let list = wrong.join("\n");
    let (ordinary, refused): (Vec<_>, Vec<_>) = all.iter().partition(|(_, expected)| expected.is_empty());
    let wrongly = ordinary
        .iter()
        .filter(|(command, _)| !judged(command).is_empty())
        .count();
    assert!(
        wrongly * 50 <= ordinary.len(),
        "{wrongly} of {}:\n{list}",
        ordinary.len()
    );
    let allowed = refused
        .iter()
        .filter(|(command, _)| judged(command).is_empty())
        .count();
    assert_eq!(allowed, 0, "{list}");
    // Codes are compared too: at most one in fifty differs from the table's.
    assert!(
        wrong.len() * 50 <= all.len(),
        "{} of {}:\n{list}",
        wrong.len(),
        all.len()
    );
}
