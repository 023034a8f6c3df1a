//! `edit`: matching and what stays.

use super::*;

#[test]
fn mode_and_bytes_outside_the_match_stay() {
    let bed = Bed::new();
    let path = bed.file("run.sh", "#!/bin/sh\necho old\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let output = bed.run(edit("run.sh", &[("echo old", "echo new")])).unwrap();
    assert_eq!(output.text, "applied 1 edit(s) to run.sh");
    assert_eq!(output.changed, std::slice::from_ref(&path));
    assert_eq!(bed.text("run.sh"), "#!/bin/sh\necho new\n");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
    bed.holds(&["run.sh"]);
}

#[test]
fn a_failed_edit_leaves_the_file_alone() {
    let bed = Bed::new();
    let latin = b"const x = 1;\n// caf\xe9 na\xefve\n";
    let utf16 = b"\xff\xfek\0e\0y\0";
    bed.file("legacy.js", latin);
    bed.file("export.reg", utf16);
    let before = fs::metadata(bed.file("n.txt", "same\n")).unwrap();
    let error = bed.err(edit("legacy.js", &[("const x = 1;", "const x = 2;")]));
    assert!(
        error.contains("not UTF-8: byte 0xe9 at offset 19, line 2"),
        "{error}"
    );
    assert!(bed.err(edit("export.reg", &[("key", "x")])).contains("UTF-16"));
    let error = bed.err(edit("n.txt", &[("same", "same")]));
    assert!(
        error.contains("no change") && !error.contains("not found"),
        "{error}"
    );
    assert!(bed.err(edit("n.txt", &[("", "x")])).contains("empty"));
    assert!(
        bed.err(edit("n.txt", &[("same", "SAME"), ("missing", "X")]))
            .contains("edits[1]")
    );
    assert!(bed.err(edit("absent", &[("a", "b")])).contains("does not exist"));
    let after = fs::metadata(bed.at("n.txt")).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );
    assert_eq!(fs::read(bed.at("legacy.js")).unwrap(), latin);
    assert_eq!(fs::read(bed.at("export.reg")).unwrap(), utf16);
    bed.holds(&["export.reg", "legacy.js", "n.txt"]);
}

#[test]
fn edits_of_one_file_take_turns() {
    let bed = Bed::new();
    let lines: String = (1..=100).map(|number| format!("<{number}>\n")).collect();
    bed.file("n.txt", lines);
    std::thread::scope(|scope| {
        for number in [10, 20, 30, 40, 50, 60, 70, 80] {
            let bed = &bed;
            scope.spawn(move || bed.ok(edit("n.txt", &[(&format!("<{number}>"), &format!("[{number}]"))])));
        }
    });
    let text = bed.text("n.txt");
    assert_eq!(text.matches('[').count(), 8, "{text}");
    assert_eq!(text.lines().count(), 100);
}
