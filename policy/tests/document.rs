//! docs/POLICY.md says what the code does.

use policy::shell::CODES;

const DOCUMENT: &str = include_str!("../../docs/POLICY.md");

/// An example as a cell of the table shows it.
fn cell(text: &str) -> String {
    let text = text
        .replace('\u{1b}', "␛")
        .replace('\u{200b}', "␣")
        .replace('|', "\\|");
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

#[test]
fn every_code_is_documented_with_its_examples() {
    for row in CODES {
        let line = format!(
            "| `{}` | {} | {} | {} | {} |",
            row.code,
            row.tier.name(),
            row.sentence,
            cell(row.admitted),
            cell(row.refused)
        );
        assert!(
            DOCUMENT.lines().any(|one| one == line),
            "docs/POLICY.md lacks this line:\n{line}"
        );
    }
}

#[test]
fn the_codes_of_file_verdicts_are_documented() {
    let source = include_str!("../src/judge.rs");
    let mut found = 0;
    for code in [
        "tool",
        "secret",
        "tier",
        "protected",
        "outside-root",
        "hard-link",
        "symlink",
        "not-a-file",
        "outside-view",
        "exec-path",
        "network",
        "mcp",
    ] {
        assert!(
            source.contains(&format!("\"{code}\"")),
            "{code} is not in judge.rs"
        );
        assert!(
            DOCUMENT.contains(&format!("| `{code}` | ")),
            "docs/POLICY.md lacks {code}"
        );
        found += 1;
    }
    let after = source.split("Refusal::plain(").skip(1);
    let coded = after.filter(|rest| rest.trim_start().starts_with('"')).count();
    assert!(coded <= found + 1, "judge.rs has more codes than docs/POLICY.md");
}

#[test]
fn every_limit_is_documented() {
    for limit in [
        "bytes", "nodes", "depth", "time", "commands", "payload", "wrappers",
    ] {
        assert!(DOCUMENT.contains(&format!("`limit-{limit}`")), "limit-{limit}");
    }
}

#[test]
fn the_table_of_the_steering_report_is_documented() {
    let line = |row: &policy::steering::Row| {
        let patterns: Vec<String> = row
            .patterns
            .iter()
            .map(|pattern| format!("`{pattern}`"))
            .collect();
        format!("| `{}` | {} | {} |", row.kind, row.who, patterns.join(" "))
    };
    let table: Vec<String> = policy::steering::TABLE.iter().map(line).collect();
    assert!(
        DOCUMENT.contains(&table.join("\n")),
        "docs/POLICY.md lacks this table:\n{}",
        table.join("\n")
    );
}
