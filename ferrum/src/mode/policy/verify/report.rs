//! What was found, as a table for a person and as JSON: docs/schema/policy-verify.json.

use super::{Found, Row, Tried};
use crate::host::Cause;
use crate::mode::tool::walls;
use crate::ui::paint::Paint;
use ferrum_proto::terms::Tier;
use serde_json::{Value, json};
use std::fmt::Write;

/// Raised when a key goes or changes its meaning; a new key does not raise it.
const SCHEMA: &str = "ferrum.policy.verify/1";

/// Width of a probe's name.
const NAME: usize = 42;

impl Found {
    fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Open => "open",
            Self::NotApplicable => "not_applicable",
        }
    }

    fn cell(self, paint: Paint) -> String {
        match self {
            Self::Held => paint.good("held    "),
            Self::Broken => paint.bad("BROKEN  "),
            Self::Open => paint.warning("open    "),
            Self::NotApplicable => paint.faint("n/a     "),
        }
    }
}

pub(super) fn as_text(tried: &[Tried], left: &[String], ok: bool, paint: Paint) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = tiers(&mut text, tried, paint);
    let _ = table(&mut text, tried, paint);
    for path in left {
        let _ = writeln!(text, "{} {}", paint.bad("left behind:"), paint.text(path));
    }
    let _ = totals(&mut text, tried, ok, paint);
    text
}

fn tiers(text: &mut String, tried: &[Tried], paint: Paint) -> std::fmt::Result {
    for one in tried {
        let tier = one.tier.name();
        match &one.host {
            Ok((ready, _)) => {
                write!(
                    text,
                    "{} isolation {}",
                    paint.strong(tier),
                    ready.isolation.name()
                )?;
                writeln!(text, ", network {}", ready.network.name())?;
                for wall in ready.walls.iter().filter(|wall| !wall.in_force) {
                    let name = paint.warning(&wall.name);
                    writeln!(text, "  not there: {name} ({})", paint.text(&wall.detail))?;
                }
            }
            Err(cause) => writeln!(
                text,
                "{} {}",
                paint.strong(tier),
                paint.warning(&cause.to_string())
            )?,
        }
    }
    Ok(())
}

/// One line for each probe, one column for each tier, grouped by promise.
fn table(text: &mut String, tried: &[Tried], paint: Paint) -> std::fmt::Result {
    let hosts: Vec<(Tier, &[Row])> = tried
        .iter()
        .filter_map(|one| Some((one.tier, one.host.as_ref().ok()?.1.as_slice())))
        .collect();
    let Some((_, widest)) = hosts.last() else {
        return Ok(());
    };
    let heads: Vec<String> = hosts
        .iter()
        .map(|(tier, _)| format!("{:8}", tier.name()))
        .collect();
    writeln!(text, "\n{:NAME$} {}", "", heads.concat().trim_end())?;
    let mut group = "";
    for (index, row) in widest.iter().enumerate() {
        if row.promise != group {
            group = &row.promise;
            let held = format!("{} (here: {})", row.promise, row.held_by.join(", "));
            writeln!(text, "{}", paint.strong(&held))?;
        }
        let cells: Vec<String> = hosts
            .iter()
            .filter_map(|(_, rows)| rows.get(index))
            .map(|row| row.found.cell(paint))
            .collect();
        writeln!(
            text,
            "  {:width$} {}",
            row.name,
            cells.concat().trim_end(),
            width = NAME - 2
        )?;
    }
    Ok(())
}

fn totals(text: &mut String, tried: &[Tried], ok: bool, paint: Paint) -> std::fmt::Result {
    let count = |found: Found| -> usize {
        let hosts = tried.iter().filter_map(|one| one.host.as_ref().ok());
        hosts
            .map(|(_, rows)| rows.iter().filter(|row| row.found == found).count())
            .sum()
    };
    let word = if ok { paint.good("ok") } else { paint.bad("not ok") };
    writeln!(
        text,
        "\n{word}: {} held, {} broken, {} open (not promised here), {} not applicable",
        count(Found::Held),
        count(Found::Broken),
        count(Found::Open),
        count(Found::NotApplicable)
    )
}

pub(super) fn as_json(tried: &[Tried], left: &[String], ok: bool) -> String {
    let report = json!({
        "schema": SCHEMA,
        "ok": ok,
        "tiers": tried.iter().map(tier).collect::<Vec<_>>(),
        "left_behind": left,
    });
    format!("{report}\n")
}

fn tier(one: &Tried) -> Value {
    match &one.host {
        Ok((ready, rows)) => json!({
            "tier": one.tier.name(),
            "isolation": ready.isolation.name(),
            "network": ready.network.name(),
            "walls": walls(&ready.walls),
            "probes": rows.iter().map(row).collect::<Vec<_>>(),
            "failure": null,
        }),
        Err(cause) => json!({
            "tier": one.tier.name(),
            "isolation": null,
            "network": null,
            "walls": [],
            "probes": [],
            "failure": failure(cause),
        }),
    }
}

fn failure(cause: &Cause) -> String {
    cause.to_string()
}

fn row(row: &Row) -> Value {
    json!({
        "name": row.name,
        "promise": row.promise,
        "result": row.found.name(),
        "detail": row.detail,
        "held_by": row.held_by,
    })
}
