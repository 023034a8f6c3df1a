//! `ls`.

use super::*;

#[test]
fn names_come_sorted_marked_and_escaped() {
    let bed = Bed::new();
    bed.file("b.txt", "");
    bed.file("a\nb.txt", "");
    bed.file("c\u{1b}[31m.txt", "");
    bed.file(".hidden", "");
    bed.file("dir/x", "");
    symlink("b.txt", bed.at("link")).unwrap();
    fifo(&bed, "pipe");
    let text = bed.ok(ls(".", None));
    let lines = [
        ".hidden",
        r"$'a\nb.txt'",
        "b.txt",
        r"$'c\x1b[31m.txt'",
        "dir/",
        "link -> b.txt",
        "pipe (FIFO, socket or device)",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    assert!(
        bed.err(ls("b.txt", None))
            .contains("b.txt is a regular file, not a directory")
    );
    fs::create_dir(bed.at("empty")).unwrap();
    assert_eq!(bed.ok(ls("empty", None)), "(empty directory)");
}

#[test]
fn both_sides_of_the_limit() {
    let bed = Bed::new();
    for name in ["1", "2", "3"] {
        bed.file(name, "");
    }
    assert_eq!(bed.ok(ls(".", Some(3))), "1\n2\n3");
    assert_eq!(
        bed.ok(ls(".", Some(2))),
        "1\n2\n[limit reached: 2 of 3 entries; use limit=4 for more]"
    );
}
