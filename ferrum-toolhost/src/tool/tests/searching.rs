//! `grep`.

use super::*;
use std::os::unix::ffi::OsStrExt as _;

#[test]
fn patterns_are_ripgreps_own() {
    let bed = Bed::new();
    bed.file("y.txt", "call(1)\n");
    bed.file("d.txt", "run with --files\r\n");
    assert!(bed.err(grep_in("foo(?=bar)", ".")).contains("look-around"));
    assert!(bed.err(grep_in("call(", ".")).contains("unclosed group"));
    let literal = wire::Grep {
        literal: true,
        ..grep("call(", ".")
    };
    assert_eq!(bed.ok(wire::ToolRequest::Grep(literal)), "y.txt:1:call(1)");
    assert_eq!(bed.ok(grep_in("--files$", ".")), "d.txt:1:run with --files");
    assert_eq!(bed.ok(grep_in("absent-word", ".")), "no matches");
    let folded = wire::Grep {
        ignore_case: true,
        ..grep("CALL", "y.txt")
    };
    assert_eq!(bed.ok(wire::ToolRequest::Grep(folded)), "y.txt:1:call(1)");
}

#[test]
fn a_giant_line_shows_its_match() {
    let bed = Bed::new();
    bed.file(
        "app.min.js",
        format!("{}needle_here{}\n", "a".repeat(300_000), "b".repeat(300_000)),
    );
    let text = bed.ok(grep_in("needle_here", "."));
    assert!(
        text.contains("needle_here") && text.len() < 700 && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn odd_files_do_not_disturb_the_others() {
    let bed = Bed::new();
    bed.file("ok.txt", "needle\n");
    bed.file("latin.txt", b"caf\xe9 needle\n");
    bed.file("bin", b"needle\0needle\n");
    let odd = bed
        .judge
        .ground
        .cwd
        .join(std::ffi::OsStr::from_bytes(b"n\xff.txt"));
    fs::write(odd, "needle\n").unwrap();
    fifo(&bed, "sub/p");
    symlink("ok.txt", bed.at("link.txt")).unwrap();
    let text = bed.ok(grep_in("needle", "."));
    let expected =
        "latin.txt:1:caf\\xe9 needle\n$'n\\xff.txt':1:needle\nok.txt:1:needle\n[1 binary file skipped]";
    assert_eq!(text, expected);
}

#[test]
fn an_unreadable_file_is_reported_beside_the_hits() {
    let bed = Bed::new();
    bed.file("ok.txt", "needle\n");
    fs::set_permissions(
        bed.file("locked.txt", "needle\n"),
        fs::Permissions::from_mode(0o000),
    )
    .unwrap();
    if !is_root() {
        let text = bed.ok(grep_in("needle", "."));
        assert_eq!(
            text,
            "ok.txt:1:needle\n[incomplete: could not read locked.txt (Permission denied)]"
        );
    }
}

#[test]
fn context_groups_and_globs() {
    let bed = Bed::new();
    bed.file("a.rs", "1\n2\nhit\n4\n5\n6\n7\nhit\n9\n");
    bed.file("b.py", "hit\n");
    let with = wire::Grep {
        context: 1,
        glob: Some("*.rs".into()),
        ..grep("hit", ".")
    };
    let text = bed.ok(wire::ToolRequest::Grep(with));
    assert_eq!(
        text,
        "a.rs-2-2\na.rs:3:hit\na.rs-4-4\n--\na.rs-7-7\na.rs:8:hit\na.rs-9-9"
    );
}

#[test]
fn both_sides_of_the_limit_in_a_stable_order() {
    let bed = Bed::new();
    for number in 0..40 {
        bed.file(&format!("f{number:02}.txt"), "hit\nhit\n");
    }
    let with = |limit| {
        wire::ToolRequest::Grep(wire::Grep {
            limit: Some(limit),
            ..grep("hit", ".")
        })
    };
    let all = bed.ok(with(80));
    assert_eq!(all.lines().count(), 80);
    assert!(all.lines().is_sorted() && !all.contains("limit"));
    let cut = bed.ok(with(79));
    assert!(cut.starts_with(&all[..all.rfind('\n').unwrap()]));
    assert!(
        cut.ends_with("[limit reached: 79 matching lines; use limit=158 for more]"),
        "{cut}"
    );
}

#[test]
fn output_stays_within_50_kib() {
    let bed = Bed::new();
    bed.file("many", "hit and some more text on this line\n".repeat(9_000));
    let with = wire::Grep {
        limit: Some(10_000),
        ..grep("hit", ".")
    };
    let text = bed.ok(wire::ToolRequest::Grep(with));
    assert!(
        text.len() < TEXT_BYTES_MAX + 200 && text.contains("50 KiB"),
        "{}",
        text.len()
    );
}
