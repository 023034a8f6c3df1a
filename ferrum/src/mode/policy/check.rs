//! `ferrum policy check`: project files for their author and for CI. A host in role check reads
//! them; nothing is run and no wall is needed.

use crate::cli::CheckArgs;
use crate::exit::{Failure, Kind};
use crate::host::Prober;
use crate::mode::{interrupted, notice, runtime, write_out};
use crate::start::Start;
use crate::ui::terminal_text::one_line;
use ferrum_proto::reply::{Expectation, Explanation, Linted, Problem};
use ferrum_proto::terms::PathBytes;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Raised when a key goes or changes its meaning; a new key does not raise it.
const SCHEMA: &str = "ferrum.policy.check/1";

/// One PATH: where it is looked at, and the file that alone counts there.
struct Target {
    cwd: PathBytes,
    file: Option<PathBytes>,
}

/// 0 when all files can be used and policy answers as they expect, else 2.
///
/// # Errors
/// A [`Failure`] for a path that does not exist, or when there is no host to ask.
pub fn run(start: Start, asked: &CheckArgs) -> Result<ExitCode, Failure> {
    let targets = targets(&start.cwd, &asked.paths)?;
    // The user's own file is not what is checked.
    start.config.notices.iter().for_each(|text| notice(text));
    let all = runtime()?.block_on(async {
        let mut prober = start.hosts.probe()?;
        let all = tokio::select! {
            all = look(&mut prober, &targets) => all,
            kind = interrupted() => Err(Failure::new(kind, "cancelled")),
        };
        prober.close().await;
        all
    })?;
    let ok = is_fine(&all);
    write_out(&if asked.json {
        as_json(&all, ok)
    } else {
        as_text(&all, ok)
    })?;
    Ok(if ok { ExitCode::SUCCESS } else { Kind::Usage.into() })
}

/// Files that several targets share are told once.
async fn look(prober: &mut Prober, targets: &[Target]) -> Result<Linted, Failure> {
    let mut all = Linted {
        files: Vec::new(),
        problems: Vec::new(),
        expectations: Vec::new(),
    };
    for target in targets {
        let found = prober.lint(&target.cwd, target.file.clone()).await?;
        merge(&mut all.files, found.files);
        merge(&mut all.problems, found.problems);
        merge(&mut all.expectations, found.expectations);
    }
    Ok(all)
}

fn merge<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

fn targets(cwd: &Path, paths: &[PathBuf]) -> Result<Vec<Target>, Failure> {
    if paths.is_empty() {
        let cwd = PathBytes::from(cwd);
        return Ok(vec![Target { cwd, file: None }]);
    }
    paths.iter().map(|path| target(&cwd.join(path))).collect()
}

fn target(path: &Path) -> Result<Target, Failure> {
    // Not through a link: one in the file's place is for the host to refuse.
    path.symlink_metadata()
        .map_err(|error| Failure::new(Kind::Usage, format!("{}: {error}", path.display())))?;
    let in_place = path.ends_with(".ferrum/config.toml");
    if !in_place && path.is_dir() {
        let cwd = PathBytes::from(path);
        return Ok(Target { cwd, file: None });
    }
    let directory = path.ancestors().nth(if in_place { 2 } else { 1 });
    Ok(Target {
        cwd: PathBytes::from(directory.unwrap_or(Path::new("/"))),
        file: Some(PathBytes::from(path)),
    })
}

fn is_fine(all: &Linted) -> bool {
    !all.problems.iter().any(|problem| problem.is_error) && all.expectations.iter().all(is_met)
}

/// A question that cannot be put is no answer.
pub(super) fn is_met(expectation: &Expectation) -> bool {
    match &expectation.answer {
        Explanation::Allowed => expectation.allow,
        Explanation::Refused(_) => !expectation.allow,
        Explanation::Unanswerable { .. } => false,
    }
}

fn as_text(all: &Linted, ok: bool) -> String {
    let mut text = String::new();
    for problem in &all.problems {
        let kind = if problem.is_error { "error" } else { "warning" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}",
            one_line(&format!("{}: {kind}: {}", place(problem), problem.message))
        );
        if !problem.hint.is_empty() {
            let _ = writeln!(text, "  hint: {}", one_line(&problem.hint));
        }
    }
    for expectation in all.expectations.iter().filter(|one| !is_met(one)) {
        let _ = writeln!(text, "{}", one_line(&unmet(expectation)));
    }
    if ok {
        let _ = writeln!(
            text,
            "ok: {} project files, {} expectations met",
            all.files.len(),
            all.expectations.len()
        );
    }
    text
}

fn place(problem: &Problem) -> String {
    let file = problem.file.as_path().display();
    match problem.line {
        0 => file.to_string(),
        line => format!("{file}:{line}:{}", problem.column),
    }
}

/// One line for an expectation that is not met.
pub(super) fn unmet(expectation: &Expectation) -> String {
    let (found, why) = match &expectation.answer {
        Explanation::Allowed => ("allow", String::new()),
        Explanation::Refused(refusal) => ("deny", format!(" ({}: {})", refusal.code, refusal.message)),
        Explanation::Unanswerable { message, .. } => ("no answer", format!(" ({message})")),
    };
    format!(
        "{}:{}: expectation not met: {} {:?} at {} is to be {}, and is {found}{why}",
        expectation.file.as_path().display(),
        expectation.line,
        expectation.tool,
        expectation.input,
        expectation.tier.name(),
        verdict(expectation.allow),
    )
}

fn verdict(allow: bool) -> &'static str {
    if allow { "allow" } else { "deny" }
}

fn as_json(all: &Linted, ok: bool) -> String {
    let path = |path: &PathBytes| path.as_path().to_string_lossy().into_owned();
    let problems = all.problems.iter().map(|problem| {
        json!({
            "file": path(&problem.file),
            "line": problem.line,
            "column": problem.column,
            "severity": if problem.is_error { "error" } else { "warning" },
            "message": problem.message,
            "hint": problem.hint,
        })
    });
    let report = json!({
        "schema": SCHEMA,
        "ok": ok,
        "files": all.files.iter().map(path).collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
        "expectations": all.expectations.iter().map(expectation).collect::<Vec<_>>(),
    });
    format!("{report}\n")
}

pub(super) fn expectation(one: &Expectation) -> Value {
    let (verdict_found, code, message) = match &one.answer {
        Explanation::Allowed => ("allow", None, ""),
        Explanation::Refused(refusal) => ("deny", Some(refusal.code.as_str()), refusal.message.as_str()),
        Explanation::Unanswerable { message, .. } => ("error", None, message.as_str()),
    };
    json!({
        "file": one.file.as_path().to_string_lossy(),
        "line": one.line,
        "tool": one.tool,
        "input": one.input,
        "safety": one.tier.name(),
        "expected": verdict(one.allow),
        "verdict": verdict_found,
        "met": is_met(one),
        "code": code,
        "message": message,
    })
}
