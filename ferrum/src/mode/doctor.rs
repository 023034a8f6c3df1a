//! `ferrum doctor`: brings up a host at each tier and says what it came up with. Nothing is
//! guessed from version numbers: a wall is in force because a host has just built it.

use super::{runtime, tool, write_out};
use crate::cli::DoctorArgs;
use crate::confine::Confinement;
use crate::exit::{Failure, Kind};
use crate::host::{Cause, Prober};
use crate::start::Start;
use ferrum_proto::charter::{ToolsWish, Wish};
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::{Isolation, Tier};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// What was found at one tier.
struct Finding {
    tier: Tier,
    host: Result<(Granted, Ready), Cause>,
}

/// Ends with 0 when medium reaches at least `kernel`, else with 4.
///
/// # Errors
/// A [`Failure`] when there is no launcher to ask.
pub fn run(start: Start, asked: &DoctorArgs) -> Result<ExitCode, Failure> {
    let ceiling = start.config.settings.safety.ceiling;
    let findings = runtime()?.block_on(async {
        let mut prober = start.hosts.probe()?;
        let mut findings = Vec::new();
        for tier in [Tier::Low, Tier::Medium, Tier::High] {
            if tier >= ceiling {
                let finding = look(&mut prober, tier).await;
                if let Err(Cause::NoLauncher(_)) = finding.host {
                    return finding.host.map(|_| Vec::new()).map_err(Failure::from);
                }
                findings.push(finding);
            }
        }
        prober.close().await;
        Ok::<_, Failure>(findings)
    })?;
    let text = if asked.json {
        as_json(&findings, &start.confinement)
    } else {
        as_text(&findings, &start.confinement, &start.config.notices)
    };
    write_out(&text)?;
    Ok(if is_well(&findings) {
        ExitCode::SUCCESS
    } else {
        Kind::Isolation.into()
    })
}

async fn look(prober: &mut Prober, tier: Tier) -> Finding {
    let wish = Wish {
        tier: Some(tier),
        network: None,
        shell: None,
        tools: ToolsWish::Default,
        inspect: false,
        probes: false,
    };
    Finding {
        tier,
        host: prober.look(&wish).await,
    }
}

/// Judged at medium, or at the lowest tier that the ceiling leaves above it.
fn is_well(findings: &[Finding]) -> bool {
    let judged = findings.iter().find(|finding| finding.tier >= Tier::Medium);
    judged.is_some_and(|finding| {
        finding
            .host
            .as_ref()
            .is_ok_and(|(_, ready)| ready.isolation >= Isolation::Kernel)
    })
}

fn as_text(findings: &[Finding], front: &Confinement, notices: &[String]) -> String {
    let mut text = String::new();
    for finding in findings {
        // Writing to a String cannot fail.
        let _ = match &finding.host {
            Ok((granted, ready)) => tier_text(&mut text, finding.tier, granted, ready),
            Err(cause) => failed_text(&mut text, finding.tier, cause),
        };
    }
    text.push_str("the front itself\n");
    for layer in &front.layers {
        let _ = writeln!(
            text,
            "  {} {}: {}",
            mark(layer.in_force),
            layer.name,
            layer.detail
        );
    }
    for notice in notices {
        let _ = writeln!(text, "note: {notice}");
    }
    text
}

fn mark(in_force: bool) -> &'static str {
    if in_force { "[ok] " } else { "[off]" }
}

fn tier_text(text: &mut String, tier: Tier, granted: &Granted, ready: &Ready) -> std::fmt::Result {
    write!(text, "{}: isolation {}", tier.name(), ready.isolation.name())?;
    if granted.tier != tier {
        write!(text, " (this project raises it to {})", granted.tier.name())?;
    }
    writeln!(
        text,
        ", network {}, shell {}, containment {}, set up in {} us",
        ready.network.name(),
        ready.shell.name(),
        ready.containment.name(),
        ready.setup_us
    )?;
    for wall in &ready.walls {
        writeln!(text, "  {} {}: {}", mark(wall.in_force), wall.name, wall.detail)?;
    }
    for promise in &ready.promises {
        let held = !promise.held_by.is_empty();
        let by = if held {
            format!("held by {}", promise.held_by.join(", "))
        } else {
            "not held".to_owned()
        };
        writeln!(text, "  {} promise {}: {by}", mark(held), promise.name)?;
    }
    for notice in granted.notices.iter().chain(&ready.notices) {
        writeln!(text, "  note: {notice}")?;
    }
    Ok(())
}

fn failed_text(text: &mut String, tier: Tier, cause: &Cause) -> std::fmt::Result {
    writeln!(text, "{}: not available: {cause}", tier.name())?;
    if !cause.hint().is_empty() {
        writeln!(text, "  hint: {}", cause.hint())?;
    }
    Ok(())
}

fn as_json(findings: &[Finding], front: &Confinement) -> String {
    let layers = front.layers.iter();
    let layers = layers.map(|l| json!({ "name": l.name, "in_force": l.in_force, "detail": l.detail }));
    let report = json!({
        "ok": is_well(findings),
        "tiers": findings.iter().map(tier_json).collect::<Vec<_>>(),
        "front": layers.collect::<Vec<_>>(),
    });
    format!("{report}\n")
}

fn tier_json(finding: &Finding) -> Value {
    match &finding.host {
        Err(cause) => json!({
            "tier": finding.tier.name(),
            "available": false,
            "error": cause.to_string(),
            "hint": cause.hint(),
        }),
        Ok((granted, ready)) => json!({
            "tier": finding.tier.name(),
            "available": true,
            "effective_tier": granted.tier.name(),
            "isolation": ready.isolation.name(),
            "network": ready.network.name(),
            "shell": ready.shell.name(),
            "containment": ready.containment.name(),
            "walls": tool::walls(&ready.walls),
            "promises": ready.promises.iter()
                .map(|promise| json!({ "name": promise.name, "held_by": promise.held_by }))
                .collect::<Vec<_>>(),
            "notices": granted.notices.iter().chain(&ready.notices).collect::<Vec<_>>(),
            "setup_us": ready.setup_us,
        }),
    }
}
