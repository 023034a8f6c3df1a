//! `ferrum -p`: configuration → plan, report → exit code. The turn itself is [`super::print`]'s.

use super::print::{self, Exit, Output, Plan, PrintError, Report};
use super::{notice, prompt, runtime};
use crate::agent::message::Message;
use crate::agent::turn::TurnError;
use crate::cli::PrintArgs;
use crate::config::{Config, ProviderChoice};
use crate::context::{self, Runtime, Sources};
use crate::exit::{Failure, Kind};
use crate::host::ToolHost;
use crate::provider::{Provider, ProviderError, ProviderSettings};
use crate::start::Start;
use ferrum_proto::seal::Granted;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::process::ExitCode;

/// # Errors
/// Any [`Failure`]; what was reached is in the session.
pub fn run(start: Start, asked: &PrintArgs) -> Result<ExitCode, Failure> {
    let choice = start.config.provider(&asked.model)?;
    let prompt = prompt::compose(asked.print.as_deref().unwrap_or_default())?;
    let notices = start.config.notices.iter().chain(&choice.notice);
    notices.for_each(|text| notice(text));
    start.confinement.notices().iter().for_each(|text| notice(text));
    let report = runtime()?.block_on(async {
        // The host is another process and sets itself up meanwhile.
        let (model, max_context_tokens) = (choice.model.clone(), choice.max_context_tokens);
        let provider = Provider::new(settings(&start.config, choice)).map_err(provider_failed)?;
        let hosts = start.hosts.open().await?;
        let named = Named {
            model: &model,
            max_context_tokens,
        };
        let preface = preface(&start.config, named, &provider, hosts.granted())?;
        let plan = Plan {
            preface,
            provider,
            prompt,
            session: asked.session.clone(),
            title: asked.title.clone(),
            data: start.config.dirs.data.clone(),
            secrets: start.config.secrets(),
        };
        let (mut answers, mut rest) = (std::io::stdout(), std::io::stderr());
        let output = Output {
            answers_terminal: answers.is_terminal(),
            answers: &mut answers,
            rest: &mut rest,
        };
        let report = print::run(&hosts, plan, output).await;
        hosts.close().await;
        Ok::<_, Failure>(report)
    })?;
    end(report, asked.fail_on_denial)
}

/// What the provider itself does not know of its model.
struct Named<'a> {
    model: &'a str,
    max_context_tokens: u64,
}

/// What stands before the conversation.
fn preface(
    config: &Config,
    named: Named<'_>,
    provider: &Provider,
    granted: &Granted,
) -> Result<Vec<Message>, Failure> {
    let settings = &config.settings;
    let runtime = Runtime {
        version: env!("CARGO_PKG_VERSION"),
        provider: &provider.name,
        model: named.model,
        provider_model: &provider.model,
        thinking: provider.thinking.name(),
        max_context_tokens: named.max_context_tokens,
        mcp_enabled: settings.mcp_enabled,
        diff_mode: settings.diff_mode.name(),
        config_dir: &config.dirs.config,
        granted,
    };
    let sources = Sources {
        dirs: &config.dirs,
        granted,
        external_links: settings.skills_external_symlinks,
        untrusted: false,
        changed: &BTreeSet::new(),
    };
    let context = context::load(&sources, &runtime).map_err(|why| Failure::new(Kind::Usage, why))?;
    context.notices.iter().for_each(|text| notice(text));
    Ok(context.messages)
}

fn settings(config: &Config, choice: ProviderChoice) -> ProviderSettings {
    let entry = choice.entry;
    ProviderSettings {
        name: choice.name,
        kind: entry.kind,
        base_url: entry.base_url.unwrap_or_default(),
        api_key: choice.key,
        credentials: None,
        model: choice.actual_model,
        streaming: entry.streaming,
        stream_usage: entry.stream_usage,
        allow_insecure_http: entry.allow_insecure_http,
        extra_body: entry.extra_body,
        headers: entry.headers,
        thinking: choice.thinking,
        max_context_tokens: choice.max_context_tokens,
        client_version: config.variable("FERRUM_CODEX_CLIENT_VERSION"),
    }
}

fn provider_failed(error: ProviderError) -> Failure {
    let kind = match error {
        ProviderError::Config(_) | ProviderError::Login(_) => Kind::Usage,
        _ => Kind::Error,
    };
    Failure::new(kind, error.to_string())
}

fn end(report: Report, fail_on_denial: bool) -> Result<ExitCode, Failure> {
    match report.exit {
        Exit::Answered if fail_on_denial && report.refused > 0 => Err(Failure::new(
            Kind::Denied,
            format!("{} tool calls were refused", report.refused),
        )),
        Exit::Answered => Ok(ExitCode::SUCCESS),
        Exit::Stopped(why) => Err(Failure::new(Kind::Budget, why)),
        Exit::Cancelled => Err(Failure::new(Kind::Cancelled, "cancelled")),
        Exit::Terminated => Err(Failure::new(Kind::Terminated, "terminated")),
        Exit::Failed(error) => Err(failed(error)),
    }
}

fn failed(error: PrintError) -> Failure {
    match error {
        PrintError::Turn(TurnError::Host(fault)) => fault.into(),
        PrintError::Turn(TurnError::Provider(ProviderError::Overflow(why))) => {
            Failure::new(Kind::Budget, ProviderError::Overflow(why).to_string())
        }
        PrintError::Turn(TurnError::Provider(error)) => provider_failed(error),
        PrintError::Name(error) => Failure::new(Kind::Usage, error.to_string()),
        other => Failure::new(Kind::Error, other.to_string()),
    }
}
