//! `ferrum inspect`: what in a checkout tries to run or to steer something. A host in role check
//! looks; nothing is run and no model is asked.

use super::{interrupted, runtime, write_out};
use crate::cli::InspectArgs;
use crate::exit::Failure;
use crate::start::Start;
use ferrum_proto::seal::{Granted, Preflight};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Version of the JSON object.
const VERSION: u64 = 1;

/// 0, whatever was found.
///
/// # Errors
/// A [`Failure`] where nobody could look.
pub fn run(start: Start, asked: &InspectArgs) -> Result<ExitCode, Failure> {
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
    let preflight = granted.preflight.clone().unwrap_or_default();
    let text = if asked.json {
        format!("{}\n", object(&granted, &preflight))
    } else {
        text(&preflight, granted.cwd.as_path())
    };
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The remarks as notices, the first of them a heading.
pub(super) fn lines(preflight: &Preflight) -> Vec<String> {
    let count = preflight.remarks.len() + preflight.more as usize;
    let mut lines = match count {
        0 => vec!["preflight: nothing in this checkout runs or steers by itself".to_owned()],
        1 => vec!["preflight: 1 thing in this checkout runs or steers by itself".to_owned()],
        _ => vec![format!(
            "preflight: {count} things in this checkout run or steer by themselves"
        )],
    };
    for remark in &preflight.remarks {
        let path = remark.path.as_path().to_string_lossy();
        lines.push(format!("preflight: {path}: {} ({})", remark.what, remark.kind));
    }
    if preflight.more > 0 {
        lines.push(format!("preflight: and {} more", preflight.more));
    }
    if !preflight.complete {
        lines.push("preflight: the checkout is too large; not all of it was looked at".to_owned());
    }
    lines
}

fn text(preflight: &Preflight, cwd: &Path) -> String {
    let mut out = String::new();
    for line in lines(preflight) {
        let line = line.strip_prefix("preflight: ").unwrap_or(&line);
        let line = line.strip_prefix(&format!("{}/", cwd.display())).unwrap_or(line);
        // Writing to a string cannot fail. A name may hold a line end.
        let _ = writeln!(out, "{}", line.replace('\n', "\u{fffd}"));
    }
    out
}

fn object(granted: &Granted, preflight: &Preflight) -> Value {
    let remarks = preflight.remarks.iter().map(|remark| {
        json!({
            "path": remark.path.as_path().to_string_lossy(),
            "kind": remark.kind,
            "what": remark.what,
        })
    });
    json!({
        "version": VERSION,
        "cwd": granted.cwd.as_path().to_string_lossy(),
        "top": granted.work_tree.as_ref().unwrap_or(&granted.cwd).as_path().to_string_lossy(),
        "remarks": remarks.collect::<Vec<_>>(),
        "more": preflight.more,
        "complete": preflight.complete,
    })
}
