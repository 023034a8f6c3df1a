//! `ferrum policy verify`: hostile probes through launcher, host and stage, at every tier, on this
//! machine and for this project. What counts is what is seen from outside, where it can be seen.

mod report;
mod scene;

use crate::cli::VerifyArgs;
use crate::exit::{Failure, Kind};
use crate::host::{Cause, Prober};
use crate::mode::{interrupted, runtime, write_out, write_painted};
use crate::start::Start;
use crate::ui::paint::Paint;
use ferrum_proto::charter::{ToolsWish, Wish};
use ferrum_proto::seal::{Granted, Ready, SealFailure};
use ferrum_proto::terms::{Network, Tier};
use scene::Scene;
use std::process::ExitCode;

/// What became of one probe at one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The wall stood.
    Held,
    /// It got through what is promised.
    Broken,
    /// It got through, and nothing promises otherwise here.
    Open,
    /// There is nothing to try, or the tier does not take it away.
    NotApplicable,
}

/// One probe at one tier.
struct Row {
    name: String,
    promise: String,
    found: Found,
    detail: String,
    held_by: Vec<String>,
}

/// One tier.
struct Tried {
    tier: Tier,
    /// The walls and the probes, or why there was no such host.
    host: Result<(Ready, Vec<Row>), Cause>,
}

/// 0, or 4 where a promised wall is broken, a tier has no walls, or something was left behind.
///
/// # Errors
/// A [`Failure`] when nothing could be tried.
pub fn run(start: Start, asked: &VerifyArgs) -> Result<ExitCode, Failure> {
    let ceiling = start.config.settings.safety.ceiling;
    let scene = Scene::make(&start.config.dirs.data)?;
    let tried = runtime()?.block_on(async {
        let mut prober = start.hosts.probe()?;
        let work = async {
            let mut tried = Vec::new();
            for tier in [Tier::Low, Tier::Medium, Tier::High] {
                if tier >= ceiling {
                    tried.push(attack(&mut prober, &scene, tier).await?);
                }
            }
            Ok(tried)
        };
        let tried = tokio::select! {
            tried = work => tried,
            kind = interrupted() => Err(Failure::new(kind, "cancelled")),
        };
        prober.close().await;
        tried
    })?;
    let left = scene.end();
    let ok = is_well(&tried) && left.is_empty();
    if asked.json {
        write_out(&report::as_json(&tried, &left, ok))?;
    } else {
        let variable = start.config.variable("NO_COLOR");
        let paint = Paint::of_stdout(
            start.config.settings.color,
            variable.is_some_and(|value| !value.is_empty()),
        );
        write_painted(&report::as_text(&tried, &left, ok, paint))?;
    }
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        Kind::Isolation.into()
    })
}

async fn attack(prober: &mut Prober, scene: &Scene, tier: Tier) -> Result<Tried, Failure> {
    let wish = Wish {
        tier: Some(tier),
        tools: ToolsWish::Default,
        probes: true,
        ..Wish::default()
    };
    let aim = |granted: &Granted| scene.targets(granted);
    let host = match prober.probe(&wish, aim).await {
        Ok((granted, ready, result)) => {
            let lines = lines(&result.text);
            if lines.is_empty() {
                let message = format!(
                    "the prober did not run at tier {}: {}",
                    tier.name(),
                    result.text.trim()
                );
                return Err(Failure::new(Kind::Error, message));
            }
            let rows = lines.into_iter();
            let rows = rows.map(|line| judged(scene, &granted, &ready, line)).collect();
            scene.settle();
            Ok((ready, rows))
        }
        Err(cause @ Cause::NoLauncher(_)) => return Err(cause.into()),
        Err(cause) => Err(cause),
    };
    Ok(Tried { tier, host })
}

/// What the prober said of one probe.
struct Line<'a> {
    name: &'a str,
    promise: &'a str,
    word: &'a str,
    detail: &'a str,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("probe\t"));
    lines
        .filter_map(|line| {
            let mut parts = line.split('\t');
            Some(Line {
                name: parts.next()?,
                promise: parts.next()?,
                word: parts.next()?,
                detail: parts.next().unwrap_or_default(),
            })
        })
        .collect()
}

fn judged(scene: &Scene, granted: &Granted, ready: &Ready, line: Line<'_>) -> Row {
    let promise = promise_of(line.promise, granted.tier, ready);
    let held_by = promise.map(|name| holders(name, ready)).unwrap_or_default();
    let through = match (line.word, scene.seen(line.name, granted)) {
        // What the prober did is not what came of it.
        ("through", Some(seen)) => seen,
        (word, _) => word == "through",
    };
    let found = match (promise, line.word) {
        (None, _) | (_, "absent") => Found::NotApplicable,
        (Some(_), _) if !through => Found::Held,
        (Some(_), _) if held_by.is_empty() => Found::Open,
        (Some(_), _) => Found::Broken,
    };
    let detail = match (promise, through, line.word) {
        (None, _, _) => "not taken away at this tier".to_owned(),
        (_, false, "through") => "nothing of it was to be seen outside".to_owned(),
        _ => line.detail.to_owned(),
    };
    Row {
        name: line.name.to_owned(),
        promise: promise.unwrap_or(line.promise).to_owned(),
        found,
        detail,
        held_by,
    }
}

/// What holds a promise here. That names cannot be learnt is a matter of namespaces alone.
fn holders(promise: &str, ready: &Ready) -> Vec<String> {
    let wall = match promise {
        "names" => "mount view",
        "names of processes" => "pid namespace",
        _ => {
            let found = ready.promises.iter().find(|one| one.name == promise);
            return found.map(|one| one.held_by.clone()).unwrap_or_default();
        }
    };
    let there = ready.walls.iter().any(|one| one.name == wall && one.in_force);
    there.then(|| wall.to_owned()).into_iter().collect()
}

/// The promise that the probe is about at this tier; none where the tier takes nothing away.
fn promise_of<'a>(promise: &'a str, tier: Tier, ready: &Ready) -> Option<&'a str> {
    let has_network = ready.network == Network::Full;
    let own_network = ready
        .walls
        .iter()
        .any(|wall| wall.name == "network namespace" && wall.in_force);
    match promise {
        "writing at high" => (tier == Tier::High).then_some("writing"),
        "writing above low" => (tier > Tier::Low).then_some("writing"),
        "exec at high" => (tier == Tier::High).then_some("exec"),
        "network" | "network by arrival" => (!has_network).then_some("network"),
        "sockets" => (tier > Tier::Low).then_some("network"),
        // Only a namespace hides them.
        "listeners" => (!has_network && own_network).then_some("network"),
        "processes" | "names of processes" | "exec" => (tier > Tier::Low).then_some(promise),
        other => Some(other),
    }
}

/// Broken walls, and tiers above low whose walls did not come up. A tier below the project's floor
/// is none of a session here.
fn is_well(tried: &[Tried]) -> bool {
    tried.iter().all(|tried| match &tried.host {
        Ok((_, rows)) => rows.iter().all(|row| row.found != Found::Broken),
        Err(Cause::Seal(failed)) => failed.kind == SealFailure::Policy,
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(found: Found) -> Tried {
        let row = Row {
            name: "x".into(),
            promise: "reading".into(),
            found,
            detail: String::new(),
            held_by: Vec::new(),
        };
        Tried {
            tier: Tier::Medium,
            host: Ok((crate::host::script::ready(), vec![row])),
        }
    }

    #[test]
    fn one_broken_wall_is_enough() {
        assert!(is_well(&[
            tried(Found::Held),
            tried(Found::Open),
            tried(Found::NotApplicable)
        ]));
        assert!(!is_well(&[tried(Found::Held), tried(Found::Broken)]));
    }

    #[test]
    fn what_got_through_is_broken_where_it_is_promised_and_open_where_it_is_not() {
        let mut ready = crate::host::script::ready();
        let promise = |held_by: &[&str]| ferrum_proto::seal::Promise {
            name: "reading".into(),
            held_by: held_by.iter().map(|name| (*name).to_owned()).collect(),
        };
        let scene = Scene::empty();
        let granted = crate::host::script::granted();
        let mut found = |word: &'static str, held_by: &[&str]| {
            ready.promises = vec![promise(held_by)];
            let line = Line {
                name: "read a file outside",
                promise: "reading",
                word,
                detail: "",
            };
            judged(&scene, &granted, &ready, line).found
        };
        assert_eq!(found("through", &["landlock"]), Found::Broken);
        assert_eq!(found("through", &[]), Found::Open);
        assert_eq!(found("refused", &["landlock"]), Found::Held);
        assert_eq!(found("absent", &["landlock"]), Found::NotApplicable);
    }
}
