//! Runs a collection of cases: inputs made from real faults, each with its expected result.
//!
//! `cargo test -p ferrum-tests --test cases` runs the project's own collection, which lies beside
//! this file; `FERRUM_CASES=DIR` names another one of the same format (README.md). Each case is
//! one line of the report. A case that this runner cannot express fails; none is skipped.

mod answer;
mod built;
mod case;
mod during;
mod expect;
mod files;
mod ground;
mod image;
mod keys;
mod lists;
mod observe;
mod product;
mod server;
mod setup;
mod start;
mod stream;
mod verdict;

use case::Case;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Status of a test program that found a failure, as libtest has it.
const FAILED: u8 = 101;

fn main() -> ExitCode {
    let mut filters = Vec::new();
    let mut list = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--list" => list = true,
            flag if flag.starts_with('-') => {}
            filter => filters.push(filter.to_owned()),
        }
    }
    let wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let cases = match case::collection(&directory()) {
        Ok(cases) => cases,
        Err(problem) => return say_last(&format!("the collection cannot be read: {problem}"), false),
    };
    let all = cases.len();
    let cases: Vec<Case> = cases.into_iter().filter(|case| wanted(&case.name())).collect();
    if list {
        for case in &cases {
            say(&format!("{}: test", case.name()));
        }
        return ExitCode::SUCCESS;
    }
    if let Err(problem) = built::ensure() {
        return say_last(&problem, false);
    }
    run(cases, all)
}

fn directory() -> PathBuf {
    match std::env::var_os("FERRUM_CASES") {
        // Cargo starts tests in the package's directory; a relative path is meant from the root
        // of the source tree.
        Some(dir) if Path::new(&dir).is_relative() && !Path::new(&dir).is_dir() => {
            ferrum_tests::place::sources().join(dir)
        }
        Some(dir) => dir.into(),
        None => ferrum_tests::place::sources().join("tests/cases"),
    }
}

fn run(cases: Vec<Case>, all: usize) -> ExitCode {
    let began = Instant::now();
    let left_out = all - cases.len();
    say(&format!("\nrunning {} cases", cases.len()));
    let mut failures = Vec::new();
    let total = cases.len();
    for case in cases {
        let name = case.name();
        let title = case.title.clone();
        match verdict::of(case) {
            Ok(()) => say(&format!("test {name} ... ok ({title})")),
            Err(problems) => {
                say(&format!("test {name} ... FAILED ({title})"));
                failures.push((name, problems));
            }
        }
    }
    if !failures.is_empty() {
        say("\nfailures:\n");
        for (name, problems) in &failures {
            say(&format!("---- {name} ----\n{}\n", problems.join("\n")));
        }
    }
    let passed = total - failures.len();
    let word = if failures.is_empty() { "ok" } else { "FAILED" };
    say_last(
        &format!(
            "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; {left_out} filtered out; \
             finished in {:.2}s\n",
            failures.len(),
            began.elapsed().as_secs_f64()
        ),
        failures.is_empty(),
    )
}

#[expect(clippy::print_stdout, reason = "the report of this test program")]
fn say(line: &str) {
    println!("{line}");
}

fn say_last(line: &str, good: bool) -> ExitCode {
    say(line);
    if good { ExitCode::SUCCESS } else { FAILED.into() }
}
