//! The tools behind a real Landlock wall.

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
