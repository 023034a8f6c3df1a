//! `find`.

use super::*;

#[test]
fn ignore_files_hold_for_their_own_directory() {
    let bed = Bed::new();
    fs::create_dir(bed.at(".git")).unwrap();
    bed.file("a/.gitignore", "ignored.txt\n");
    for name in [
        "a/ignored.txt",
        "a/kept.txt",
        "b/ignored.txt",
        "b/kept.txt",
        "root.txt",
    ] {
        bed.file(name, "x\n");
    }
    let all = "a/kept.txt\nb/ignored.txt\nb/kept.txt\nroot.txt";
    assert_eq!(bed.ok(find(".", "**/*.txt", None)), all);
    assert_eq!(bed.ok(find(".", "*.txt", None)), all);
    assert_eq!(bed.ok(find("a", "*.txt", None)), "a/kept.txt");
    assert_eq!(bed.ok(find("./b/", "*.txt", None)), "b/ignored.txt\nb/kept.txt");
}

#[test]
fn rules_from_above_and_of_the_repository_count() {
    let bed = Bed::new();
    bed.file(".git/info/exclude", "*.tmp\n");
    bed.file(".gitignore", "*.log\n/sub/x\nbuild/\n!keep.log\n");
    for name in [
        "sub/a.log",
        "sub/keep.log",
        "sub/x",
        "sub/y",
        "sub/z.tmp",
        "build/out",
        "w.tmp",
    ] {
        bed.file(name, "x\n");
    }
    assert_eq!(bed.ok(find("sub", "*", None)), "sub/keep.log\nsub/y");
    assert_eq!(bed.ok(find(".", "*", None)), ".gitignore\nsub/keep.log\nsub/y");
    // Named outright, an ignored directory is looked into.
    assert_eq!(bed.ok(find("build", "*", None)), "build/out");
}

#[test]
fn hidden_files_are_found_and_noise_is_not() {
    let bed = Bed::new();
    bed.file(".github/workflows/ci.yml", "on: push\n");
    bed.file("node_modules/m/ci.yml", "");
    bed.file(".git/ci.yml", "");
    bed.file("target/CACHEDIR.TAG", "");
    bed.file("target/ci.yml", "");
    bed.file("other/target/ci.yml", "");
    assert_eq!(
        bed.ok(find(".", ".github/**/*.yml", None)),
        ".github/workflows/ci.yml"
    );
    assert_eq!(
        bed.ok(find(".", "ci.yml", None)),
        ".github/workflows/ci.yml\nother/target/ci.yml"
    );
    assert_eq!(
        bed.ok(find(".", "node_modules/*/ci.yml", None)),
        "node_modules/m/ci.yml"
    );
    assert_eq!(bed.ok(find("target", "ci.yml", None)), "target/ci.yml");
    let text = bed.ok(find(".", "absent", None));
    assert_eq!(
        text,
        "no matches\n[not looked at: .git, node_modules, target; name one as path to search it]"
    );
}

#[test]
fn links_are_listed_but_not_followed() {
    let bed = Bed::new();
    bed.file("d/x.txt", "x\n");
    symlink("..", bed.at("d/loop")).unwrap();
    assert_eq!(bed.ok(find(".", "**/*.txt", None)), "d/x.txt");
    assert_eq!(bed.ok(find(".", "loop", None)), "d/loop");
}

#[test]
fn both_sides_of_the_limit_and_all_conditions() {
    let bed = Bed::new();
    for number in 0..4 {
        bed.file(&format!("many/{number}.dat"), "");
    }
    assert!(!bed.ok(find(".", "*.dat", Some(4))).contains("limit"));
    let text = bed.ok(find(".", "*.dat", Some(3)));
    assert!(
        text.ends_with("many/2.dat\n[limit reached: 3 files; use limit=6 for more]"),
        "{text}"
    );
    let call = |name: &str, extension: &str| {
        wire::ToolRequest::Find(wire::Find {
            path: ".".into(),
            pattern: None,
            name: Some(name.into()),
            extension: Some(extension.into()),
            limit: None,
        })
    };
    assert_eq!(bed.ok(call("2*", "dat")), "many/2.dat");
    assert_eq!(bed.ok(call("2*", "da")), "no matches");
    assert!(bed.err(find(".", "a[", None)).contains("pattern is not a glob"));
    assert!(bed.err(find(".", "/abs/*", None)).contains("relative to path"));
}
