//! The shell policy's tables: each row holds, and the tiers nest.

#![expect(clippy::disallowed_types, reason = "these tests measure that no text is slow")]

mod harness;

use harness::{Row, code, rows, verdict};
use policy::{ShellMode, Tier, Verdict, shell};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn tables() -> Vec<Row> {
    let mut all = rows(include_str!("shell-policy.tsv"));
    all.extend(rows(include_str!("shell-ordinary.tsv")));
    all.extend(rows(include_str!("shell-hostile.tsv")));
    all
}

#[test]
fn every_row_holds() {
    let mut wrong = Vec::new();
    for row in tables() {
        let verdict = verdict(row.tier, ShellMode::Static, &row.command);
        if (verdict == Verdict::Allow) != row.allow {
            let shown: String = row.command.chars().take(80).collect();
            wrong.push(format!(
                "{} {} {:?} ({}): {verdict:?}",
                row.id,
                row.tier.name(),
                shown,
                row.kind
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The project's own hostile rows carry the code that each is refused with.
#[test]
fn the_code_of_each_hostile_row_holds() {
    for row in rows(include_str!("shell-hostile.tsv")) {
        assert_eq!(
            code(row.tier, ShellMode::Static, &row.command),
            row.kind,
            "{}: {:?}",
            row.id,
            row.command
        );
    }
}

#[test]
fn what_high_allows_medium_allows_and_what_medium_allows_low_allows() {
    for row in tables() {
        let [low, medium, high] =
            [Tier::Low, Tier::Medium, Tier::High].map(|tier| code(tier, ShellMode::Static, &row.command));
        assert!(
            !high.is_empty() || medium.is_empty(),
            "{}: high allows, medium says {medium}",
            row.id
        );
        assert!(
            !medium.is_empty() || low.is_empty(),
            "{}: medium allows, low says {low}",
            row.id
        );
        let auto = code(Tier::Medium, ShellMode::Auto, &row.command);
        assert!(
            !medium.is_empty() || auto.is_empty(),
            "{}: static allows, auto says {auto}",
            row.id
        );
    }
}

#[test]
fn auto_lets_through_whatever_low_lets_through() {
    for row in tables().iter().filter(|row| row.tier != Tier::High) {
        if code(Tier::Low, ShellMode::Static, &row.command).is_empty() {
            assert_eq!(
                code(Tier::Medium, ShellMode::Auto, &row.command),
                "",
                "{}",
                row.id
            );
        }
    }
}

#[test]
fn each_code_has_an_admitted_and_a_refused_example() {
    for row in shell::CODES {
        assert_eq!(
            code(row.tier, ShellMode::Static, row.admitted),
            "",
            "{}: {}",
            row.code,
            row.admitted
        );
        assert_eq!(
            code(row.tier, ShellMode::Static, row.refused),
            row.code,
            "{}",
            row.refused
        );
    }
}

#[test]
fn every_code_in_use_is_listed() {
    for row in tables() {
        let code = code(row.tier, ShellMode::Static, &row.command);
        let listed =
            code.is_empty() || code.starts_with("limit-") || shell::CODES.iter().any(|one| one.code == code);
        assert!(listed, "{}: {code} is not in CODES", row.id);
    }
}

/// Commands whose refusal has the hint that the second form is: it passes.
#[test]
fn hints_that_name_a_form_work() {
    for (refused, part, form) in [
        ("ls &", "joined by pipes", "ls | wc -l"),
        ("cat *", "put ./ before it", "cat ./*"),
        ("git branch new", "git branch --list", "git branch --list"),
        ("ls $x", "$HOME, $PWD and $?", "ls $HOME $PWD"),
    ] {
        let Verdict::Refuse(refusal) = verdict(Tier::High, ShellMode::Static, refused) else {
            panic!("{refused} passes");
        };
        assert!(refusal.hint.contains(part), "{refused}: {}", refusal.hint);
        assert_eq!(code(Tier::High, ShellMode::Static, form), "", "{form}");
    }
    for (refused, part, form) in [
        ("ls !(a)", "script file", "bash list.sh"),
        ("echo x > ../f", "$TMPDIR", "echo x > \"$TMPDIR/f\""),
        ("[[ $n -eq 1 ]] && ls", "[ … ]", "[ $n -eq 1 ] && ls"),
        ("python3 -c 1", "write the code to a file", "python3 code.py"),
        ("nohup ./x", "&", "./x & sleep 1"),
        ("bash <<'E'\nls\nE\n", "run the file", "bash file.sh"),
        ("echo \"${x:-`ls`}\"", "$( … )", "echo \"$(ls)\""),
    ] {
        let Verdict::Refuse(refusal) = verdict(Tier::Medium, ShellMode::Static, refused) else {
            panic!("{refused} passes");
        };
        assert!(refusal.hint.contains(part), "{refused}: {}", refusal.hint);
        assert_eq!(code(Tier::Medium, ShellMode::Static, form), "", "{form}");
    }
}

#[test]
fn a_refusal_says_where() {
    let Verdict::Refuse(refusal) = verdict(Tier::Low, ShellMode::Static, "echo ä\n  ls && sudo id") else {
        panic!("sudo passes");
    };
    assert_eq!((refusal.line, refusal.column), (2, 9));
    assert_eq!(refusal.span, 16..20);
}

#[test]
fn both_sides_of_the_limits() {
    let long = |bytes: usize| format!("echo {}", "x".repeat(bytes - 5));
    assert_eq!(code(Tier::Low, ShellMode::Static, &long(65_536)), "");
    assert_eq!(code(Tier::Low, ShellMode::Static, &long(65_537)), "limit-bytes");
    let commands = |count: usize| "ls\n".repeat(count);
    assert_eq!(code(Tier::Medium, ShellMode::Static, &commands(512)), "");
    assert_eq!(
        code(Tier::Medium, ShellMode::Static, &commands(513)),
        "limit-commands"
    );
    assert_eq!(
        code(
            Tier::Low,
            ShellMode::Static,
            &format!("{}ls{}", "(".repeat(500), ")".repeat(500))
        ),
        "limit-depth"
    );
    assert_eq!(
        code(Tier::Low, ShellMode::Static, &"nice ".repeat(40)),
        "limit-wrappers"
    );
    // The deepest tree, inside the deepest nest of payloads: recursion fits a thread's stack.
    let mut nested = "ls\n".to_owned();
    for (level, depth) in [9, 11, 14, 18, 25, 35, 57, 118].into_iter().enumerate() {
        nested = format!(
            "{}bash <<'E{level}'\n{nested}E{level}\n{}",
            "{ ".repeat(depth),
            "}\n".repeat(depth)
        );
    }
    assert_eq!(code(Tier::Low, ShellMode::Static, &nested), "");
    for hostile in [
        "<<E0 ".repeat(2000),
        "a|".repeat(30_000),
        "${".repeat(30_000),
        "$(".repeat(30_000),
        "{a,".repeat(20_000),
    ] {
        let start = Instant::now();
        let _ = verdict(Tier::Medium, ShellMode::Auto, &hostile);
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "debug build; the parser's own deadline is 250 ms"
        );
    }
}

#[test]
fn a_comment_or_white_space_changes_no_verdict() {
    for row in tables() {
        if row.command.contains("<<") || row.command.ends_with('\\') {
            continue;
        }
        let before = code(row.tier, ShellMode::Static, &row.command);
        if matches!(before, "unreadable" | "malformed") {
            continue;
        }
        let variants = [
            format!("  {}", row.command),
            format!("{}  \n\n", row.command),
            format!("# note: sudo\n{}", row.command),
            format!("{} # rm -rf /", row.command),
        ];
        for variant in variants {
            assert_eq!(
                code(row.tier, ShellMode::Static, &variant),
                before,
                "{}: {variant:?}",
                row.id
            );
        }
    }
}

/// Whatever is quoted is data: it never becomes a command.
#[test]
fn quoting_turns_commands_into_data() {
    for row in tables() {
        if row.command.contains(['\'', '\0'])
            || row
                .command
                .chars()
                .any(|c| c.is_control() && c != '\n' && c != '\t')
        {
            continue;
        }
        if row.command.len() > 60_000 || !row.command.is_ascii() {
            continue;
        }
        let quoted = format!("echo '{}'", row.command);
        assert_eq!(code(Tier::Medium, ShellMode::Static, &quoted), "", "{}", row.id);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_or_is_slow(text in "[ -~\n]{0,120}|\\PC{0,60}") {
        let start = Instant::now();
        for tier in [Tier::Low, Tier::Medium, Tier::High] {
            let _ = verdict(tier, ShellMode::Static, &text);
        }
        let _ = verdict(Tier::Medium, ShellMode::Auto, &text);
        prop_assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn no_mutation_of_the_corpus_panics_and_the_tiers_still_nest(
        row in 0usize..1000,
        cut in 0usize..80,
        insert in "[$`(){}<>|&;'\"\\\\ \n*?~=!#\\[\\]a-c]{0,4}",
    ) {
        let tables = tables();
        let command = &tables[row % tables.len()].command;
        if command.len() < 2000 {
            let at = command.floor_char_boundary(cut.min(command.len()));
            let text = format!("{}{insert}{}", &command[..at], &command[at..]);
            let [low, medium, high] =
                [Tier::Low, Tier::Medium, Tier::High].map(|tier| code(tier, ShellMode::Static, &text));
            prop_assert!(!high.is_empty() || medium.is_empty(), "high allows {text:?}, medium says {medium}");
            prop_assert!(!medium.is_empty() || low.is_empty(), "medium allows {text:?}, low says {low}");
            let auto = code(Tier::Medium, ShellMode::Auto, &text);
            prop_assert!(!low.is_empty() || auto.is_empty(), "low allows {text:?}, auto says {auto}");
        }
    }
}
