//! One case from its ground to its verdict.

use crate::case::Case;
use crate::during::Intruder;
use crate::expect::Scene;
use crate::files::{self, Before};
use crate::ground::Ground;
use crate::keys::Keys;
use crate::observe::survivors;
use crate::product::{self, PATIENCE, Ran, Task};
use crate::setup::{self, Prepared};
use ferrum_tests::who;
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a run is repeated whose intrusion came too late to matter.
const ATTEMPTS: usize = 60;

/// # Errors
/// Everything that is not as the case expects.
pub fn of(case: Case) -> Result<(), Vec<String>> {
    if case.expect.has("broken") {
        return Err(vec![case.title]);
    }
    if case.answers.is_some() {
        return crate::stream::of(&case).map_err(|problem| vec![problem])?;
    }
    if crate::start::FEATURES.contains(&case.tool.as_str()) {
        return crate::start::of(&case);
    }
    if case.tool == crate::image::FEATURE {
        return crate::image::of(&case);
    }
    let engines: &[bool] = if case.both_engines {
        &[false, true]
    } else {
        &[false]
    };
    let mut problems = Vec::new();
    for with_program in engines {
        let found = attempts(&case, *with_program).unwrap_or_else(|problem| vec![problem]);
        let note = if *with_program { "with rg on PATH: " } else { "" };
        problems.extend(found.into_iter().map(|problem| format!("{note}{problem}")));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

fn attempts(case: &Case, with_program: bool) -> Result<Vec<String>, String> {
    for _ in 0..ATTEMPTS {
        if let Some(problems) = attempt(case, with_program)? {
            return Ok(problems);
        }
    }
    Err("what should happen during the call never came in time".to_owned())
}

/// `None`: the intrusion missed its moment, so nothing is proven either way.
fn attempt(case: &Case, with_program: bool) -> Result<Option<Vec<String>>, String> {
    let ground = Ground::new(&who::ordinary(), &case.folder)?;
    let mut prepared = setup::all(&case.setup, &ground)?;
    let late = late(case, &ground)?;
    if with_program {
        decoy(&ground, &mut prepared)?;
    }
    ground.hand_over().map_err(|e| e.to_string())?;
    let task = task(case, &ground, late)?;
    let target = task.calls.first().and_then(|(_, call)| call["path"].as_str());
    let before = Before::of(&ground, &spoken_of(&case.expect, &ground)?);
    let intruder = case
        .during
        .clone()
        .map(|keys| Intruder::new(keys, &ground, target))
        .transpose()?;
    let ran = product::ask(case, &task, &ground, &prepared, intruder)?;
    if !ran.seen.intruded {
        return Ok(None);
    }
    let scene = Scene {
        ran: &ran,
        before: &before,
        ground: &ground,
    };
    let mut problems = scene.problems(&case.expect);
    let calls_panic = task
        .calls
        .iter()
        .any(|(_, call)| call.to_string().contains("panicked"));
    problems.extend(always(&case.tool, calls_panic, &ran, &prepared, &ground));
    problems.extend(leftovers(case, &task, &before, &ground));
    Ok(Some(problems))
}

/// A setup that takes the working directory away is meant for a product that is up already.
fn late(case: &Case, ground: &Ground) -> Result<Option<String>, String> {
    if ground.cwd().exists() {
        return Ok(None);
    }
    std::fs::create_dir_all(ground.cwd()).map_err(|e| e.to_string())?;
    let scripts: Vec<String> = case
        .setup
        .iter()
        .filter_map(|step| step.clone().text("sh").ok().flatten())
        .collect();
    Ok(Some(scripts.join("\n")))
}

/// A program `rg` that must never be used.
fn decoy(ground: &Ground, prepared: &mut Prepared) -> Result<(), String> {
    let script = "#!/bin/sh\necho 'decoy:1:rg was run'\nexit 2\n";
    let directory = ground.base().join("bin");
    std::fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
    let program = directory.join("rg");
    std::fs::write(&program, script).map_err(|e| e.to_string())?;
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&program, mode).map_err(|e| e.to_string())?;
    let path = format!("{}:{}", directory.display(), ferrum_tests::run::PATH);
    prepared.environment.push(("PATH".to_owned(), Some(path)));
    Ok(())
}

fn task(case: &Case, ground: &Ground, late: Option<String>) -> Result<Task, String> {
    let mut input = case.input.clone();
    let read = |text: &str| -> Result<Value, String> {
        serde_json::from_str(text).map_err(|e| format!("{text}: {e}"))
    };
    let call = |value: Value| product::call(&case.tool, value, ground);
    let calls = match (input.text("args")?, input.text("calls")?) {
        (Some(args), None) => vec![call(read(&args)?)],
        (None, Some(calls)) => match read(&calls)? {
            Value::Array(calls) => calls.into_iter().map(call).collect(),
            other => return Err(format!("calls must be a list, not {other}")),
        },
        _ => return Err("input holds neither args nor calls".to_owned()),
    };
    input.nothing_left("input")?;
    let mut expect = case.expect.clone();
    let then = match expect.part("then")? {
        None => None,
        Some(mut then) => Some((
            then.text("sh")?.unwrap_or_else(|| ":".to_owned()),
            call(read(&then.text("args")?.ok_or("then has no args")?)?),
        )),
    };
    let speaks_of_terminal = case
        .expect
        .clone()
        .rest()
        .any(|(key, _)| key.starts_with("terminal_"));
    let terminal = case.under_terminal || speaks_of_terminal;
    let deadline = expect
        .number("within_s")?
        .map_or(PATIENCE, |s| Duration::from_secs_f64(s + 20.0));
    Ok(Task {
        turn: terminal || then.is_some() || late.is_some() || calls.len() != 1 || case.expect.has("is_error"),
        calls,
        then,
        late,
        terminal,
        deadline,
    })
}

/// Every path of which the case will ask whether it changed.
fn spoken_of(expect: &Keys, ground: &Ground) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for key in ["files", "files_if_ok", "files_if_error", "or_files"] {
        let list = expect.clone().tables(key)?.unwrap_or_default();
        all.extend(files::paths(&list, ground));
    }
    Ok(all)
}

/// What holds for every case: no panic, no hang, nobody left, no secret shown.
pub fn always(
    feature: &str,
    calls_panic: bool,
    ran: &Ran,
    prepared: &Prepared,
    ground: &Ground,
) -> Vec<String> {
    let mut problems = Vec::new();
    let answers = ran.answers.iter().chain(&ran.then);
    let texts: String = answers.map(|answer| answer.text.as_str()).collect();
    let all = [
        String::from_utf8_lossy(&ran.seen.stdout).as_ref(),
        String::from_utf8_lossy(&ran.seen.stderr).as_ref(),
        String::from_utf8_lossy(&ran.shown).as_ref(),
        &texts,
    ]
    .concat();
    if ran.seen.hung {
        problems.push("it hung".to_owned());
    }
    if (all.contains("panicked at") && !calls_panic) || (ran.seen.status.is_none() && !ran.seen.hung) {
        problems.push(format!("it panicked or was killed: {all}"));
    }
    for left in survivors(ground) {
        problems.push(format!("a process is left: {left}"));
    }
    let is_secret = |name: &str| {
        ["KEY", "TOKEN", "SECRET", "PASSWORD"]
            .iter()
            .any(|word| name.contains(word))
    };
    let named = prepared
        .environment
        .iter()
        .filter(|(name, _)| is_secret(name))
        .filter_map(|(_, value)| value.clone());
    for secret in named.chain([ground.secret.clone()]) {
        if all.contains(&secret) {
            problems.push(format!("a secret is shown by {feature}"));
        }
    }
    problems
}

/// Names that nobody asked for. What a command makes is its own; the product's temporary names
/// are not.
fn leftovers(case: &Case, task: &Task, before: &Before, ground: &Ground) -> Vec<String> {
    if task.then.is_some() {
        // What happens between two calls makes names of its own.
        return Vec::new();
    }
    let targets: Vec<PathBuf> = task
        .calls
        .iter()
        .filter_map(|(_, call)| Some(ground.cwd().join(call["path"].as_str()?)))
        .collect();
    let is_temporary = |path: &Path| {
        path.file_name().is_some_and(|name| {
            let name = name.as_bytes();
            name.starts_with(b".ferrum") || name.ends_with(b".tmp")
        })
    };
    let asked_for = |path: &PathBuf| match case.tool.as_str() {
        "bash" | "wait" => !is_temporary(path),
        "write" | "edit" => targets.iter().any(|target| target.starts_with(path)),
        _ => false,
    };
    let new = before.new_names(ground).into_iter();
    new.filter(|path| !asked_for(path))
        .map(|path| format!("left behind: {}", path.display()))
        .collect()
}
