//! The program from outside, as far as it goes without a tool host.
//! That this file exists also makes cargo build the program for the whole-program tests in `tests/`.
#![expect(clippy::disallowed_methods, reason = "tests start the program")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A copy of the program in a directory of its own, with `toolhost` beside it where one is given.
struct Installed {
    dir: tempfile::TempDir,
}

impl Installed {
    fn new(toolhost: Option<&str>) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        // By another process: a descriptor open for writing might be in a child of another test when
        // the copy is started.
        let copied = Command::new("cp")
            .args([env!("CARGO_BIN_EXE_ferrum"), "ferrum"])
            .current_dir(dir.path())
            .status();
        assert!(copied.expect("cp").success());
        if let Some(program) = toolhost {
            std::os::unix::fs::symlink(program, dir.path().join("ferrum-toolhost")).expect("linked");
        }
        Self { dir }
    }

    fn config(&self, text: &[u8]) -> PathBuf {
        let dir = self.dir.path().join("config");
        std::fs::create_dir_all(&dir).expect("directory");
        let path = dir.join("config.toml");
        use std::io::Write;
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(text))
            .expect("written");
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.dir.path().join("ferrum"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .stdin(Stdio::null());
        command.env("FERRUM_CONFIG_DIR", self.dir.path().join("config"));
        command.current_dir(self.dir.path());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("started")
    }
}

fn ends(output: &Output, code: i32, parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn the_version_needs_nothing() {
    for word in ["--version", "-V"] {
        let output = Installed::new(None)
            .command(&[word])
            .env_clear()
            .output()
            .expect("started");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("ferrum {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
}

#[test]
fn usage_errors_end_with_2() {
    let here = Installed::new(None);
    ends(&here.run(&["--nonsense"]), 2, &["--nonsense"]);
    ends(
        &here.run(&["-p", "x", "--safety", "top"]),
        2,
        &["low, medium, high"],
    );
    ends(&here.run(&[]), 2, &["interactive", "ferrum -p"]);
}

#[test]
fn a_missing_tool_host_names_the_command_that_builds_both() {
    for args in [&["-p", "hi"][..], &["tool", "ls", "{}"], &["doctor"]] {
        let here = Installed::new(None);
        let place = here.dir.path().join("ferrum-toolhost");
        ends(
            &here.run(args),
            1,
            &[&place.display().to_string(), "cargo build --release"],
        );
    }
}

#[test]
fn a_tool_host_on_the_path_is_not_taken() {
    let here = Installed::new(None);
    let bin = here.dir.path().join("bin");
    std::fs::create_dir(&bin).expect("directory");
    std::os::unix::fs::symlink("/bin/true", bin.join("ferrum-toolhost")).expect("linked");
    let output = here
        .command(&["-p", "hi"])
        .env("PATH", &bin)
        .output()
        .expect("started");
    ends(&output, 1, &["is missing"]);
}

#[test]
fn a_program_that_is_no_tool_host_is_a_clear_error() {
    let here = Installed::new(Some("/bin/false"));
    ends(&here.run(&["-p", "hi"]), 1, &["cargo build --release"]);
    ends(&here.run(&["doctor"]), 1, &["cargo build --release"]);
}

#[test]
fn a_configuration_that_cannot_be_used_names_file_and_place() {
    let here = Installed::new(Some("/bin/cat"));
    let path = here.config(b"\nmodel = 3\n");
    let place = format!("{}:2:9", path.display());
    ends(&here.run(&["-p", "hi"]), 2, &[&place, "`model`"]);
    here.config(b"a = \xff");
    ends(&here.run(&["-p", "hi"]), 2, &["config.toml:1:5", "UTF-8"]);
    here.config(b"safety = { ceiling = \"high\" }");
    ends(
        &here.run(&["-p", "hi", "--safety", "low"]),
        2,
        &["safety.ceiling"],
    );
    here.config(b"");
    let rounds = here
        .command(&["-p", "hi"])
        .env("FERRUM_MAX_TOOL_ROUNDS", "many")
        .output();
    ends(&rounds.expect("started"), 2, &["FERRUM_MAX_TOOL_ROUNDS"]);
    let data = here
        .command(&["-p", "hi"])
        .env("FERRUM_DATA_DIR", "relative")
        .output();
    ends(&data.expect("started"), 2, &["FERRUM_DATA_DIR"]);
    assert!(!Path::new("relative").exists());
}
