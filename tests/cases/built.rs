//! Cargo builds the programs beside a test of the whole workspace, not beside this test alone:
//! where they are missing or older than their sources, they are built first.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// # Errors
/// A sentence, when they cannot be built.
pub fn ensure() -> Result<(), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = me
        .parent()
        .and_then(Path::parent)
        .ok_or("no target directory around this test")?;
    if ["ferrum", "ferrum-toolhost"]
        .iter()
        .all(|name| is_current(target, name))
    {
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--locked", "-p", "ferrum", "-p", "ferrum-toolhost"])
        .current_dir(ferrum_tests::place::sources());
    if let Some(directory) = target.parent() {
        command.env("CARGO_TARGET_DIR", directory);
    }
    if target.ends_with("release") {
        command.arg("--release");
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the programs cannot be built: cargo ended with {status}")),
        Err(e) => Err(format!("cargo cannot be started: {e}")),
    }
}

/// Cargo lists every source of a program in a file beside it.
fn is_current(target: &Path, name: &str) -> bool {
    let Some(built) = modified(&target.join(name)) else {
        return false;
    };
    let Ok(list) = std::fs::read_to_string(target.join(format!("{name}.d"))) else {
        return false;
    };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    sources
        .replace("\\ ", "\u{1}")
        .split_whitespace()
        .all(|source| modified(Path::new(&source.replace('\u{1}', " "))).is_some_and(|time| time <= built))
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}
