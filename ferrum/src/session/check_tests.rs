//! Damage is told apart from what a crash leaves.
#![expect(clippy::disallowed_methods, reason = "tests put files in place")]

use super::*;
use crate::agent::message::ContentBlock;
use std::fs;

fn said(role: Role, text: &str) -> Vec<u8> {
    record::message(&Message::text(role, text))
}

fn call(id: &str) -> Vec<u8> {
    record::message(&Message {
        role: Role::Assistant,
        content: vec![ContentBlock::ToolUse {
            id: id.into(),
            name: "read".into(),
            input: json!({"path": "x"}),
            invalid: None,
            extra_content: None,
        }],
        usage: None,
    })
}

fn header() -> Vec<u8> {
    record::header(Map::from_iter([
        ("cwd".to_owned(), json!("/w")),
        ("mode".to_owned(), json!("print")),
    ]))
}

#[track_caller]
fn of(lines: &[&[u8]]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    fs::write(&path, lines.concat()).unwrap();
    check(&path).unwrap()
}

#[test]
fn a_whole_session_is_described() {
    let text = "one\n\u{1b}[31mtwo  three ".repeat(20);
    let report = of(&[
        &header(),
        &said(Role::User, &text),
        &said(Role::Assistant, "answer"),
    ]);
    assert!(!report.is_damaged() && report.repairs.is_empty(), "{report:?}");
    let metadata = report.metadata();
    assert_eq!(
        (&metadata["messages"], &metadata["cwd"]),
        (&json!(2), &json!("/w"))
    );
    assert_eq!(metadata["last_message"], "answer");
    let first = metadata["first_message"].as_str().unwrap();
    assert!(
        first.starts_with("one [31mtwo three one") && first.chars().count() == 81,
        "{first}"
    );
}

#[test]
fn what_a_crash_leaves_is_no_damage() {
    let torn = said(Role::Assistant, "half");
    let report = of(&[&header(), &said(Role::User, "go"), &call("a"), &torn[..20]]);
    assert!(!report.is_damaged(), "{:?}", report.damage);
    assert_eq!(report.repairs.len(), 2, "{:?}", report.repairs);
    assert!(report.repairs[0].contains("20 bytes") && report.repairs[1].contains("1 calls"));
    let whole = said(Role::User, "go");
    let report = of(&[&header(), whole.trim_ascii_end()]);
    assert!(!report.is_damaged() && report.repairs[0].contains("no line end"));
    assert_eq!(report.messages.len(), 1);
}

#[test]
fn damage_names_its_line() {
    for (lines, word) in [
        (
            &[&header()[..], b"\0\0\0\n", &said(Role::User, "go")][..],
            "line 2",
        ),
        (&[&said(Role::User, "go")], "no header"),
        (&[&header(), &header()], "line 2 is a second header"),
        (&[&header(), b"not json\n", &said(Role::User, "go")], "line 2"),
        (&[&header(), b"{\"type\":\"message\",\"message\":{}}\n"], "line 2"),
        (&[b""], "no header"),
    ] {
        let report = of(lines);
        assert!(
            report.damage.iter().any(|what| what.contains(word)),
            "{:?}",
            report.damage
        );
    }
}
