//! `read`: windows, odd files, bounds.

use super::*;

fn ten(bed: &Bed) {
    let lines: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    bed.file("ten.txt", lines);
}

#[test]
fn a_window_says_how_to_go_on() {
    let bed = Bed::new();
    ten(&bed);
    let text = bed.ok(read("ten.txt", Some(4), Some(3)));
    assert_eq!(
        text,
        "line 4\nline 5\nline 6\n[lines 4-6 of 10; continue with offset=7]"
    );
    assert_eq!(bed.ok(read("ten.txt", Some(10), None)), "line 10\n");
    assert_eq!(
        bed.ok(read("ten.txt", Some(8), Some(3))),
        "line 8\nline 9\nline 10\n"
    );
    assert_eq!(bed.ok(read("ten.txt", Some(10), Some(u64::MAX))), "line 10\n");
    let error = bed.err(read("ten.txt", Some(11), None));
    assert_eq!(error, "offset 11 is past the end: the file has 10 lines");
    assert!(
        bed.err(read("ten.txt", Some(u64::MAX), None))
            .contains("10 lines")
    );
}

#[test]
fn blank_and_unfinished_lines_are_lines() {
    let bed = Bed::new();
    bed.file("blank.txt", "\n\n\nfirst\nsecond\n");
    assert_eq!(
        bed.ok(read("blank.txt", Some(3), Some(2))),
        "\nfirst\n[lines 3-4 of 5; continue with offset=5]"
    );
    bed.file("tail", "a\nb");
    assert_eq!(bed.ok(read("tail", Some(2), None)), "b");
    assert_eq!(bed.ok(read("tail", None, None)), "a\nb");
    bed.file("empty", "");
    assert_eq!(bed.ok(read("empty", None, None)), "(empty file)");
    assert!(bed.err(read("empty", Some(2), None)).contains("0 lines"));
    bed.file("mark", "\u{feff}text\r\n");
    assert_eq!(bed.ok(read("mark", None, None)), "text\r\n");
}

#[test]
fn both_sides_of_50_kib() {
    let bed = Bed::new();
    bed.file("fits", "x".repeat(TEXT_BYTES_MAX));
    assert_eq!(bed.ok(read("fits", None, None)), "x".repeat(TEXT_BYTES_MAX));
    bed.file("over", "x".repeat(TEXT_BYTES_MAX + 1));
    let text = bed.ok(read("over", None, None));
    assert!(
        text.ends_with("\n[line 1 of 1 is longer than 50 KiB: 1 bytes of it left out]"),
        "{}",
        &text[51_000..]
    );
    bed.file("two", format!("first\n{}\nlast\n", "y".repeat(TEXT_BYTES_MAX)));
    assert_eq!(
        bed.ok(read("two", None, None)),
        "first\n[lines 1-1 of 3; continue with offset=2]"
    );
    let text = bed.ok(read("two", Some(2), None));
    assert!(
        text.ends_with("[line 2 of 3 is longer than 50 KiB: 1 bytes of it left out; continue with offset=3]")
    );
    bed.file("one.txt", "é".repeat(524_288));
    let text = bed.ok(read("one.txt", None, None));
    assert!(text.len() < 53_000 && !text.contains('\u{fffd}') && text.contains("left out"));
    bed.file("odd", "xé".repeat(20_000));
    assert!(!bed.ok(read("odd", None, None)).contains("\\x"));
}

#[test]
fn what_is_no_text_file_is_an_error_at_once() {
    let bed = Bed::new();
    fifo(&bed, "p");
    let _socket = std::os::unix::net::UnixListener::bind(bed.at("s")).unwrap();
    bed.file("img.bin", (0..=255).collect::<Vec<u8>>());
    bed.file("wide", b"\xff\xfea\0b\0");
    for (path, mention) in [
        ("p", "p is a FIFO, not a regular file"),
        ("s", "s is a socket, not a regular file"),
        (".", "is a directory; use ls"),
        ("img.bin", "binary"),
        ("wide", "UTF-16"),
        ("none", "cannot open none: No such file or directory (ENOENT)"),
        ("img.bin/x", "ENOTDIR"),
    ] {
        let error = bed.err(read(path, None, None));
        assert!(error.contains(mention), "{path}: {error}");
    }
    bed.err(read("/dev/zero", None, None));
    bed.err(read("/proc/self/exe/x", None, None));
}

#[test]
fn size_zero_does_not_mean_empty() {
    let bed = Bed::new();
    if let Ok(output) = bed.run(read("/proc/self/status", None, None)) {
        assert!(output.text.contains("Name:"), "{}", output.text);
    }
}

#[test]
fn bytes_that_are_no_utf8_are_shown_as_such() {
    let bed = Bed::new();
    bed.file("latin", b"caf\xe9\n");
    let text = bed.ok(read("latin", None, None));
    assert_eq!(text, "caf\\xe9\n[not plain UTF-8 text: 1 byte shown as \\xNN]");
    bed.file("all", vec![0xff; TEXT_BYTES_MAX]);
    assert!(bed.ok(read("all", None, None)).len() < 53_000);
}

#[test]
fn a_cancelled_read_ends() {
    let bed = Bed::new();
    ten(&bed);
    bed.cancel.store(true, Ordering::Relaxed);
    assert_eq!(bed.err(read("ten.txt", None, None)), "cancelled");
    assert_eq!(bed.err(grep_in("line", ".")), "cancelled");
    assert_eq!(bed.err(find(".", "*", None)), "cancelled");
}

#[test]
fn an_unreadable_file_is_named_with_the_cause() {
    let bed = Bed::new();
    fs::set_permissions(bed.file("locked", "x"), fs::Permissions::from_mode(0o000)).unwrap();
    if !is_root() {
        let error = bed.run(read("locked", None, None)).unwrap_err();
        let text = "cannot open locked: Permission denied (EACCES)".to_owned();
        // The file's own mode explains it, so no wall is blamed.
        assert_eq!(
            error,
            ToolError::Failed {
                text,
                denials: vec![]
            }
        );
    }
}
