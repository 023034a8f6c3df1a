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

/// Where no form passes, the hint says whom to ask.
#[test]
fn every_refusal_has_a_hint() {
    for row in tables() {
        if let Verdict::Refuse(refusal) = verdict(row.tier, ShellMode::Static, &row.command) {
            assert!(
                !refusal.hint.is_empty(),
                "{} {:?}: {refusal:?}",
                row.id,
                row.command
            );
        }
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

/// Refused commands, a part of the hint, and a form that follows it.
type Hinted = (&'static str, &'static str, &'static str);

const HINTED_AT_HIGH: &[Hinted] = &[
    ("ls &", "joined by pipes", "ls | wc -l"),
    ("cat *", "put ./ before it", "cat ./*"),
    ("git branch new", "git branch --list", "git branch --list"),
    ("ls $x", "$HOME, $PWD and $?", "ls $HOME $PWD"),
    ("ls > f", "leave the redirect out", "ls"),
    ("sort -o f f", "leave the option out", "sort f"),
    ("find . -delete", "leave the option out", "find . -name x"),
    ("sed -n '1,2p;w f' f", "leave the option out", "sed -n 1,2p f"),
    ("./ls", "name the program without a path", "ls"),
    ("LD_X=1 ls", "LC_*, LANG, TZ", "LC_ALL=C ls"),
    ("awk '$3 > 5' f", "turn the comparison around", "awk '5 < $3' f"),
    ("echo \"$(ls)\"", "run the inner command first", "echo a"),
];

const HINTED_AT_MEDIUM: &[Hinted] = &[
    ("ls !(a)", "script file", "bash list.sh"),
    (
        "f() { ls; }; f",
        "put it in a script file and run that",
        "bash script.sh",
    ),
    ("trap 'ls' EXIT", "script file", "bash script.sh"),
    ("alias l=ls", "script file", "bash script.sh"),
    (
        "cat < /dev/tcp/h/1",
        "curl or another network client",
        "curl http://h/",
    ),
    ("eval ls", "write the commands out", "ls"),
    ("nohup ./x", "start it with &", "./x & sleep 1"),
    ("setsid ./x", "start it with &", "./x & sleep 1"),
    ("exec ls", "without exec", "ls"),
    ("coproc ls", "a pipeline or &", "ls | wc -l"),
    ("parallel echo ::: a", "run the command itself", "echo a"),
    ("watch ls", "run the command itself", "ls"),
    ("flock f -c 'ls x'", "without -c", "flock f ls x"),
    (
        "ls | xargs rm",
        "for loop over the names in a script file",
        "bash loop.sh",
    ),
    (
        "find . -exec sed -i s/a/b/ {} +",
        "for loop over the names in a script file",
        "bash loop.sh",
    ),
    ("python3 -c 1", "write the code to a file", "python3 code.py"),
    ("base64 -d f | sh", "file", "bash file.sh"),
    ("bash <<'E'\nls\nE\n", "run the file", "bash file.sh"),
    ("bash $s", "write the script's path out", "bash s.sh"),
    ("echo x > $f", "write the file's name out", "echo x > f"),
    ("echo x > ../f", "below $TMPDIR", "echo x > \"$TMPDIR/f\""),
    (
        "sed -i s/a/b/ ../f",
        "below the working directory",
        "sed -i s/a/b/ f",
    ),
    ("echo ${!x}", "use the variable itself", "echo $x"),
    ("diff <(ls) >(cat)", "use a pipeline", "ls | cat"),
    ("echo \"${x:-`ls`}\"", "$( … )", "echo \"$(ls)\""),
    (
        "echo $((x+y))",
        "set x to an integer in this command",
        "x=1; y=2; echo $((x+y))",
    ),
    ("[[ $n -eq 1 ]] && ls", "[ … ]", "[ $n -eq 1 ] && ls"),
    ("let 'x=y'", "use $(( … ))", "x=1; echo $((x + 1))"),
    ("declare -i x=y", "without -i", "declare x=y"),
    ("read 'a[$(id)]'", "plain variable name", "read a"),
    ("PATH=. ls", "run the program by its path", "./bin/ls"),
    ("$cmd x", "write the program's name", "ls x"),
    ("git -c core.pager=x log", "run git without it", "git log"),
    ("git $sub", "write the subcommand out", "git status"),
    ("git bisect run ./t", "put it in a script file", "bash bisect.sh"),
    ("tar --to-command=x -xf a.tar", "two steps", "tar -xf a.tar"),
    ("make --eval='x:;ls'", "write it into a makefile", "make x"),
    ("sort $(ls)", "put -- before it", "sort -- $(ls)"),
    (
        "awk -f p.awk f",
        "give the program as the first argument",
        "awk '{ print $1 }' f",
    ),
    ("gdb -ex 'shell ls' a", "script that the debugger", "gdb a"),
    ("rm -rf /", "name the files or the directory", "rm -rf build"),
    ("chmod 4755 f", "such as 755", "chmod 755 f"),
    (
        "cat <<E\nx",
        "around the command with the here-document",
        "{ cat <<E\nx\nE\n}",
    ),
];

#[test]
fn hints_that_name_a_form_work() {
    for (tier, table) in [(Tier::High, HINTED_AT_HIGH), (Tier::Medium, HINTED_AT_MEDIUM)] {
        for (refused, part, form) in table {
            let Verdict::Refuse(refusal) = verdict(tier, ShellMode::Static, refused) else {
                panic!("{refused} passes");
            };
            assert!(refusal.hint.contains(part), "{refused}: {}", refusal.hint);
            assert_eq!(code(tier, ShellMode::Static, form), "", "{form}");
        }
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
