//! The shell policy's tables: each row holds, and the tiers nest.

mod harness;

use harness::{Row, code, rows, verdict};
use policy::{ShellMode, Tier, Verdict};

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
            wrong.push(format!("{} {} {:?} ({}): {verdict:?}", row.id, row.tier.name(), shown, row.kind));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_high_allows_medium_allows_and_what_medium_allows_low_allows() {
    for row in tables() {
        let [low, medium, high] =
            [Tier::Low, Tier::Medium, Tier::High].map(|tier| code(tier, ShellMode::Static, &row.command));
        assert!(!high.is_empty() || medium.is_empty(), "{}: high allows, medium says {medium}", row.id);
        assert!(!medium.is_empty() || low.is_empty(), "{}: medium allows, low says {low}", row.id);
        let auto = code(Tier::Medium, ShellMode::Auto, &row.command);
        assert!(!medium.is_empty() || auto.is_empty(), "{}: static allows, auto says {auto}", row.id);
    }
}

#[test]
fn auto_lets_through_whatever_low_lets_through() {
    for row in tables().iter().filter(|row| row.tier != Tier::High) {
        if code(Tier::Low, ShellMode::Static, &row.command).is_empty() {
            assert_eq!(code(Tier::Medium, ShellMode::Auto, &row.command), "", "{}", row.id);
        }
    }
}
