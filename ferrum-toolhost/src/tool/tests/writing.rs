//! `write`: what it makes, keeps and refuses.

use super::*;

#[test]
fn a_new_file_gets_its_directories_and_says_what_was_written() {
    let bed = Bed::new();
    let output = bed.run(write("od d/naïve ☃/li\nne.txt", "ok\n")).unwrap();
    assert_eq!(output.text, r"wrote 3 bytes to $'od d/naïve ☃/li\nne.txt'");
    assert_eq!(output.changed, [bed.at("od d/naïve ☃/li\nne.txt")]);
    assert_eq!(bed.text("od d/naïve ☃/li\nne.txt"), "ok\n");
    bed.holds(&["od d"]);
}

#[test]
fn permissions_of_a_replaced_file_stay() {
    for mode in [0o600, 0o755, 0o640, 0o1666] {
        let bed = Bed::new();
        let path = bed.file("private.txt", "old\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        bed.ok(write("private.txt", "new\n"));
        assert_eq!(bed.text("private.txt"), "new\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        bed.holds(&["private.txt"]);
    }
}

#[test]
fn links_are_refused_and_neither_end_changes() {
    let bed = Bed::new();
    bed.file("real.txt", "real\n");
    symlink("real.txt", bed.at("link.txt")).unwrap();
    let error = bed.err(write("link.txt", "x\n"));
    assert!(error.contains("symlink") || error.contains("symbolic"), "{error}");
    symlink(bed.all.path().join("outside/made.txt"), bed.at("dangling")).unwrap();
    bed.err(write("dangling", "x"));
    symlink(bed.all.path().join("outside/none"), bed.at("gone")).unwrap();
    let error = bed.err(write("gone/x.txt", "x"));
    assert!(error.contains("symbolic link to nowhere"), "{error}");
    assert_eq!(bed.text("real.txt"), "real\n");
    assert_eq!(fs::read_link(bed.at("link.txt")).unwrap(), Path::new("real.txt"));
    assert_eq!(fs::read_dir(bed.all.path().join("outside")).unwrap().count(), 0);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let bed = Bed::new();
    fs::create_dir(bed.at("dir")).unwrap();
    fifo(&bed, "pipe");
    for (path, mentions) in [
        ("dir", &["directory", "regular file"][..]),
        ("pipe", &["regular"]),
        ("newfile/", &["directory"]),
        ("..", &["directory", "outside"]),
        ("dir/.", &["directory"]),
        ("none/../x", &["does not exist"]),
    ] {
        let error = bed.err(write(path, "x"));
        assert!(
            mentions.iter().any(|mention| error.contains(mention)),
            "{path}: {error}"
        );
    }
    let error = bed.err(edit("pipe", &[("a", "b")]));
    assert!(error.contains("regular"), "{error}");
    bed.err(write("/proc/self/comm", "x"));
    bed.holds(&["dir", "pipe"]);
}

#[test]
fn a_tilde_is_the_home_that_commands_see() {
    let bed = Bed::new();
    let home = bed.judge.ground.home.join("case.txt");
    // Allowed or not, it is never a directory of that name.
    match bed.run(write("~/case.txt", "x\n")) {
        Ok(output) => assert_eq!(output.changed, [home]),
        Err(_) => assert!(!home.exists()),
    }
    bed.ok(write("~name", "x"));
    bed.holds(&["~name"]);
}

#[test]
fn what_lies_outside_the_roots_is_refused_by_policy() {
    let bed = Bed::new();
    fs::create_dir(bed.at("sub")).unwrap();
    symlink("../outside", bed.at("out")).unwrap();
    fs::write(bed.all.path().join("outside/a"), "theirs").unwrap();
    fs::hard_link(bed.all.path().join("outside/a"), bed.at("a")).unwrap();
    // The last two lead to nothing, and policy still has a word about their text.
    for path in [
        "out/new.txt",
        "sub/../../outside/x",
        "a",
        "/proc/self/comm",
        "../outside/no/../x",
        "../outside/l/x",
    ] {
        let refused = bed.run(write(path, "mine")).expect_err("refused");
        assert!(matches!(refused, ToolError::Refused(_)), "{path}: {refused:?}");
    }
    let outside: Vec<_> = fs::read_dir(bed.all.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(bed.text("a"), "theirs");
}

#[test]
fn a_file_that_may_not_be_written_stays() {
    let bed = Bed::new();
    let path = bed.file("a", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if is_root() {
        bed.ok(write("a", "new"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o444);
    } else {
        let error = bed.err(write("a", "new"));
        assert_eq!(error, "cannot change a: Permission denied (EACCES)");
        assert_eq!(bed.text("a"), "old");
    }
}

#[test]
fn directories_made_for_a_failed_write_are_removed() {
    let bed = Bed::new();
    let name = "n".repeat(255);
    bed.err(write(&format!("a/b/{name}x"), "x"));
    bed.holds(&[]);
    bed.ok(write(&format!("a/b/{name}"), "x"));
}

#[test]
fn many_writers_of_one_directory_all_land() {
    let bed = Bed::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let bed = &bed;
            scope.spawn(move || bed.ok(write(&format!("deep/er/{number}"), "x")));
        }
    });
    assert_eq!(fs::read_dir(bed.at("deep/er")).unwrap().count(), 8);
}
