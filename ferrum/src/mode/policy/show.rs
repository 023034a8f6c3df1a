//! `ferrum policy show`: what a real host was sealed with here, who decided it, and what holds it.

mod json;
mod text;
pub(super) mod values;

use super::check::is_met;
use crate::cli::ShowArgs;
use crate::config::Config;
use crate::context::{self, Offered, Sources};
use crate::exit::{Failure, Kind};
use crate::host::{Cause, Prober};
use crate::mode::{interrupted, runtime, write_out, write_painted};
use crate::start::Start;
use crate::ui::paint::Paint;
use ferrum_proto::charter::{Charter, ToolsWish, Wish};
use ferrum_proto::reply::Expectation;
use ferrum_proto::seal::{Granted, Ready};
use ferrum_proto::terms::PathBytes;
use std::path::Path;
use std::process::ExitCode;

/// Everything that is shown.
pub(super) struct Shown {
    pub charter: Charter,
    pub config: Config,
    pub granted: Granted,
    /// The walls, or why they did not come up.
    pub ready: Result<Ready, Cause>,
    /// Those that the model is told of.
    pub skills: Vec<Offered>,
    /// What the project files want policy to answer.
    pub expectations: Vec<Expectation>,
}

/// 0, or the code of what keeps a session from coming up.
///
/// # Errors
/// A [`Failure`] when the policy itself cannot be had.
pub fn run(start: Start, asked: &ShowArgs) -> Result<ExitCode, Failure> {
    let wish = asked.wish.wish(ToolsWish::Default);
    let charter = start.config.charter();
    let (granted, ready, expectations) = runtime()?.block_on(async {
        let mut prober = start.hosts.probe()?;
        let found = tokio::select! {
            found = look(&mut prober, &wish, &start.cwd) => found,
            kind = interrupted() => Err(Failure::new(kind, "cancelled")),
        };
        prober.close().await;
        found
    })?;
    let skills = context::offered(&Sources {
        dirs: &start.config.dirs,
        granted: &granted,
        external_links: start.config.settings.skills_external_symlinks,
        untrusted: false,
        changed: &start.trust.changed(),
    });
    let shown = Shown {
        charter,
        skills,
        config: start.config,
        granted,
        ready,
        expectations,
    };
    if asked.json {
        write_out(&format!("{}\n", json::object(&shown)))?;
    } else {
        let variable = shown.config.variable("NO_COLOR");
        let no_color = variable.is_some_and(|value| !value.is_empty());
        let paint = Paint::of_stdout(shown.config.settings.color, no_color);
        write_painted(&text::screen(&shown, paint))?;
    }
    match shown.ready {
        Ok(_) if !shown.expectations.iter().all(is_met) => Ok(Kind::Usage.into()),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(cause) => Err(cause.into()),
    }
}

async fn look(
    prober: &mut Prober,
    wish: &Wish,
    cwd: &Path,
) -> Result<(Granted, Result<Ready, Cause>, Vec<Expectation>), Failure> {
    let (granted, ready) = prober.inspect(wish).await?;
    let linted = prober.lint(&PathBytes::from(cwd), None).await?;
    Ok((granted, ready, linted.expectations))
}

impl Shown {
    /// The servers of the user's file, each with whether this session would have it and why not.
    fn servers(&self) -> Vec<(&str, &'static str, Option<String>)> {
        let (settings, granted) = (&self.config.settings, &self.granted);
        let named = |list: &[String], name: &str| list.iter().any(|known| known == name);
        let why_not = |server: &crate::config::McpServer| {
            let name = server.name.as_str();
            if !settings.mcp_enabled {
                Some("mcp_enabled is false")
            } else if !server.enabled {
                Some("its own enabled is false")
            } else if !granted.mcp_enabled {
                Some("a project file says [mcp] enabled = false")
            } else if named(&granted.mcp.deny, name) {
                Some("a project file denies it")
            } else if granted
                .mcp
                .allow
                .as_ref()
                .is_some_and(|allow| !named(allow, name))
            {
                Some("a project file allows others only")
            } else {
                None
            }
        };
        let rows = settings.mcp_servers.iter();
        rows.map(|server| {
            (
                server.name.as_str(),
                server.isolation.name(),
                why_not(server).map(str::to_owned),
            )
        })
        .collect()
    }
}
