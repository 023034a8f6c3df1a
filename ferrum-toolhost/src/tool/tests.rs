//! Behaviour of the native tools from the wire's request to the text, in a directory of its own.

use super::*;
use crate::from_wire::from_wire;
use ferrum_proto::request as wire;
use nix::sys::stat::Mode;
use policy::{Ground, Isolation, UserPolicy, Wish, narrow};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::Ordering;

/// A working directory that is the one writable root, with a home and a foreign place beside it.
pub(crate) struct Bed {
    all: tempfile::TempDir,
    pub(crate) judge: Judge,
    pub(crate) cancel: AtomicBool,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        let base = all.path().canonicalize().unwrap();
        for name in ["cwd", "home", "outside"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let user = UserPolicy {
            ceiling: policy::Tier::Low,
            tier: policy::Tier::Medium,
            network: None,
            shell: policy::ShellMode::Static,
            require: policy::Require::Kernel,
            tools_allow: None,
            tools_deny: vec![],
            max_tool_rounds: 0,
            writable_roots: vec![base.join("cwd")],
            readable_roots: vec![],
        };
        let ground = Ground {
            cwd: base.join("cwd"),
            home: base.join("home"),
            writable: vec![base.join("cwd")],
            readable: vec![],
            private: vec![],
            protected: vec![],
            isolation: Isolation::Kernel,
        };
        let grant = narrow(&user, &[], &Wish::default()).unwrap();
        Self {
            all,
            judge: Judge { grant, ground },
            cancel: AtomicBool::new(false),
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.judge.ground.cwd.join(name)
    }

    /// A file in the working directory, with its directories.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    pub(crate) fn cwd(&self) -> fs::File {
        use std::os::unix::fs::OpenOptionsExt as _;
        // As a place to start from only: a wall may keep it from being listed.
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        options.open(&self.judge.ground.cwd).unwrap()
    }

    pub(crate) fn run(&self, request: wire::ToolRequest) -> Result<ToolOutput, ToolError> {
        use std::os::fd::AsFd as _;
        let request = from_wire(request).map_err(ToolError::failed)?;
        let call = native(request).expect("no command");
        run_native(&call, &self.judge, self.cwd().as_fd(), &self.cancel)
    }

    #[track_caller]
    fn ok(&self, request: wire::ToolRequest) -> String {
        self.run(request).expect("ok").text
    }

    /// The text of a failure or refusal.
    #[track_caller]
    fn err(&self, request: wire::ToolRequest) -> String {
        match self.run(request).expect_err("error") {
            ToolError::Failed { text, .. } => text,
            ToolError::Refused(refusal) => format!("{}; {}", refusal.message, refusal.hint),
        }
    }

    /// Nothing but the named entries is in the working directory.
    #[track_caller]
    fn holds(&self, names: &[&str]) {
        let mut found: Vec<String> = fs::read_dir(&self.judge.ground.cwd)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, names);
    }
}

fn write(path: &str, content: &str) -> wire::ToolRequest {
    wire::ToolRequest::Write(wire::Write {
        path: path.into(),
        content: content.into(),
    })
}

fn edit(path: &str, edits: &[(&str, &str)]) -> wire::ToolRequest {
    let edits = edits.iter().map(|(old, new)| wire::Replacement {
        old_text: (*old).into(),
        new_text: (*new).into(),
    });
    wire::ToolRequest::Edit(wire::Edit {
        path: path.into(),
        edits: edits.collect(),
    })
}

fn read(path: &str, offset: Option<u64>, limit: Option<u64>) -> wire::ToolRequest {
    wire::ToolRequest::Read(wire::Read {
        path: path.into(),
        offset,
        limit,
    })
}

fn ls(path: &str, limit: Option<u64>) -> wire::ToolRequest {
    wire::ToolRequest::Ls(wire::Ls {
        path: path.into(),
        limit,
    })
}

fn find(path: &str, pattern: &str, limit: Option<u64>) -> wire::ToolRequest {
    let pattern = Some(pattern.to_owned());
    wire::ToolRequest::Find(wire::Find {
        path: path.into(),
        pattern,
        name: None,
        extension: None,
        limit,
    })
}

fn grep(pattern: &str, path: &str) -> wire::Grep {
    wire::Grep {
        pattern: pattern.into(),
        path: path.into(),
        glob: None,
        ignore_case: false,
        literal: false,
        context: 0,
        limit: None,
    }
}

fn grep_in(pattern: &str, path: &str) -> wire::ToolRequest {
    wire::ToolRequest::Grep(grep(pattern, path))
}

fn fifo(bed: &Bed, name: &str) {
    fs::create_dir_all(bed.at(name).parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&bed.at(name), Mode::from_bits_truncate(0o600)).unwrap();
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

mod writing {
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
}

mod editing {
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
                scope.spawn(move || {
                    bed.ok(edit("n.txt", &[(&format!("<{number}>"), &format!("[{number}]"))]))
                });
            }
        });
        let text = bed.text("n.txt");
        assert_eq!(text.matches('[').count(), 8, "{text}");
        assert_eq!(text.lines().count(), 100);
    }
}

mod reading {
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
        assert!(text.ends_with(
            "[line 2 of 3 is longer than 50 KiB: 1 bytes of it left out; continue with offset=3]"
        ));
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
}

mod listing {
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
}

mod finding {
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
}

mod searching {
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
}

mod behind_landlock {
    use super::*;
    use crate::sys::landlock;
    use std::os::fd::AsFd as _;

    const ALL: u64 = (landlock::TRUNCATE << 1) - 1;
    const READ: u64 = landlock::READ_FILE | landlock::READ_DIR;

    /// Runs `act` on a thread that may write `write`, read `/proc` and touch nothing else; false
    /// where this kernel cannot hold it.
    fn confined(write: &Path, act: impl FnOnce() + Send) -> bool {
        if landlock::abi() < 3 {
            return false;
        }
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let ruleset = landlock::create(ALL, 0).unwrap();
                for (path, access) in [(write, ALL), (Path::new("/proc"), READ)] {
                    let parent = fs::File::open(path).unwrap();
                    landlock::allow(ruleset.as_fd(), parent.as_fd(), access).unwrap();
                }
                nix::sys::prctl::set_no_new_privs().unwrap();
                landlock::restrict_self(ruleset.as_fd()).unwrap();
                act();
            });
            thread.join().unwrap();
        });
        true
    }

    #[expect(clippy::print_stderr, reason = "a test that tested nothing says so")]
    fn confined_or_named(write: &Path, act: impl FnOnce() + Send) {
        if !confined(write, act) {
            let required = std::env::var_os("FERRUM_REQUIRE_WALLS").is_some_and(|value| value == "1");
            assert!(
                !required,
                "landlock ABI 3 is missing and FERRUM_REQUIRE_WALLS is set"
            );
            eprintln!("landlock ABI 3 is missing: behaviour behind it was not tested");
        }
    }

    #[track_caller]
    fn denial(result: Result<ToolOutput, ToolError>) -> Denial {
        match result.expect_err("denied") {
            ToolError::Failed { text, mut denials } => {
                assert!(text.contains("refused by the session's walls"), "{text}");
                denials.pop().expect("a denial")
            }
            ToolError::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    #[test]
    fn files_are_created_and_replaced_within_the_grant() {
        let bed = Bed::new();
        bed.file("a", "old\n");
        confined_or_named(&bed.judge.ground.cwd, || {
            bed.ok(write("new/er/b", "b\n"));
            bed.ok(write("a", "new\n"));
            bed.ok(edit("a", &[("new", "newer")]));
            assert_eq!(bed.ok(read("a", None, None)), "newer\n");
            assert_eq!(bed.ok(grep_in("newer", ".")), "a:1:newer");
        });
        bed.holds(&["a", "new"]);
    }

    #[test]
    fn what_the_wall_refuses_is_a_certain_denial() {
        let bed = Bed::new();
        bed.file("closed/a", "old\n");
        bed.file("open/b", "hit\n");
        fs::set_permissions(bed.at("closed/a"), fs::Permissions::from_mode(0o644)).unwrap();
        confined_or_named(&bed.at("open"), || {
            let refused = denial(bed.run(read("closed/a", None, None)));
            assert_eq!(refused.what, bed.at("closed/a").to_str().unwrap());
            assert_eq!(refused.wall, "landlock");
            assert!(refused.certain);
            denial(bed.run(ls("closed", None)));
            let refused = denial(bed.run(write(bed.at("closed/new").to_str().unwrap(), "x")));
            assert_eq!(refused.wall, "landlock");
            assert_eq!(
                fs::metadata(bed.at("closed/new")).unwrap_err().kind(),
                std::io::ErrorKind::NotFound
            );
            // A directory above the grant cannot be listed; the grant below is named outright.
            assert_eq!(bed.ok(grep_in("hit", "open")), "open/b:1:hit");
        });
        assert_eq!(bed.text("closed/a"), "old\n");
    }
}
