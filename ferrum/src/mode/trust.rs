//! `ferrum trust`: the operator accepts what tools changed and what became of a project's policy.

use super::{interrupted, runtime, write_out};
use crate::cli::TrustArgs;
use crate::exit::{Failure, Kind};
use crate::start::Start;
use crate::trust::Trust;
use ferrum_proto::seal::Granted;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// # Errors
/// A [`Failure`] for a file that nobody asked to be accepted, or where nothing can be remembered.
pub fn run(start: Start, asked: &TrustArgs) -> Result<ExitCode, Failure> {
    let data = start.config.dirs.data.clone();
    let cwd = start.cwd.clone();
    if !asked.files.is_empty() {
        return accept(&data, &cwd, &asked.files);
    }
    let granted = runtime()?.block_on(async {
        tokio::select! {
            checked = start.hosts.check() => {
                let (checker, granted) = checked?;
                checker.close().await;
                Ok::<_, Failure>(granted)
            }
            kind = interrupted() => Err(Failure::new(kind, "cancelled")),
        }
    })?;
    if asked.policy {
        accept_policy(&data, &granted)
    } else {
        list(&data, &granted)
    }
}

fn accept(data: &Path, cwd: &Path, files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let mut told = String::new();
    let mut unknown = None;
    Trust::update(data, |trust| {
        for file in files {
            let path = cwd.join(file);
            let real = std::fs::canonicalize(&path).ok();
            // A link, its target and the name as it was written: a tool may have changed any.
            let names = [Some(path.clone()), real, in_real_directory(&path)];
            let accepted = names
                .into_iter()
                .flatten()
                .fold(false, |any, name| trust.accept(&name) | any);
            if accepted {
                // Writing to a string cannot fail.
                let _ = writeln!(told, "accepted {}", path.display());
            } else {
                unknown = Some(path);
            }
        }
    })?;
    write_out(&told)?;
    match unknown {
        None => Ok(ExitCode::SUCCESS),
        Some(path) => Err(Failure::new(
            Kind::Usage,
            format!("{} does not wait to be accepted", path.display()),
        )
        .with_hint("ferrum trust lists what does")),
    }
}

/// The name in its directory without links: as a host sees it.
fn in_real_directory(path: &Path) -> Option<PathBuf> {
    let directory = std::fs::canonicalize(path.parent()?).ok()?;
    Some(directory.join(path.file_name()?))
}

fn accept_policy(data: &Path, granted: &Granted) -> Result<ExitCode, Failure> {
    let mut told = Vec::new();
    Trust::update(data, |trust| {
        told = trust.accept_policies(granted.cwd.as_path(), &granted.policies);
    })?;
    let mut text = String::new();
    for line in &told {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "accepted: {line}");
    }
    if told.is_empty() {
        text.push_str("no policy here waits to be accepted\n");
    }
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn list(data: &Path, granted: &Granted) -> Result<ExitCode, Failure> {
    let trust = Trust::load(data)?;
    let mut text = String::new();
    for path in trust.changed() {
        let _ = writeln!(
            text,
            "{}: changed by a tool; ferrum trust {0} accepts it",
            path.display()
        );
    }
    let cwd = granted.cwd.as_path();
    // On a copy: what would be said if it were accepted.
    for line in trust.clone().accept_policies(cwd, &granted.policies) {
        let _ = writeln!(text, "policy {line}; ferrum trust --policy accepts that");
    }
    if text.is_empty() {
        text.push_str("nothing waits to be accepted\n");
    }
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}
