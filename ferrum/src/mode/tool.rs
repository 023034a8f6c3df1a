//! `ferrum tool NAME JSON`: one tool call through launcher, host and stage, under the effective
//! policy. Prints exactly what a model would get, or with `--json` all that is known of the call.

mod logged;
mod report;

pub(super) use report::walls;

use logged::Logged;

use super::{interrupted, notice, runtime, write_out};
use crate::agent::redact::Redactor;
use crate::audit::key::{self, KeyError};
use crate::cli::ToolArgs;
use crate::exit::{Failure, Kind};
use crate::host::{Fault, Hosts, ToolHost, ToolResult};
use crate::start::Start;
use crate::tools::args::{self, Call};
use ferrum_proto::reply::Outcome;
use ferrum_proto::request::ToolRequest;
use ferrum_proto::seal::Ready;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Instant;

/// # Errors
/// A [`Failure`] when no call was made or no answer came.
pub fn run(start: Start, asked: &ToolArgs) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    for text in start.config.notices.iter().chain(&start.confinement.notices()) {
        notice(text);
    }
    let (arguments, request) = match read(asked)? {
        Ok(read) => read,
        Err(message) => return bad_arguments(asked, &message),
    };
    let redactor = Redactor::new(start.config.secrets());
    let data = start.config.dirs.data.clone();
    let Some(keyed) = start.audit.clone() else {
        return Err(KeyError::Missing(key::path(&start.config.dirs.config)).into());
    };
    runtime()?.block_on(async {
        let hosts = start.hosts.open().await?;
        let ended = tokio::select! {
            answer = async {
                let ready = hosts.ready().await?;
                for text in hosts.granted().notices.iter().chain(&ready.notices) {
                    notice(text);
                }
                let what = (asked.name.as_str(), &arguments, request.is_read_only());
                let logged = Logged::call((&data, keyed), (hosts.granted(), &ready), what, &redactor).await?;
                call(&hosts, &ready, request, logged, asked, begun).await
            } => answer,
            kind = interrupted() => Err(Failure::new(kind, "cancelled; what the call started was ended")),
        };
        // A call that was cut was cancelled by being dropped: this waits for its end.
        hosts.close().await;
        ended
    })
}

/// The outer error is the user's, the inner one what a model would be told.
fn read(asked: &ToolArgs) -> Result<Result<(Value, ToolRequest), String>, Failure> {
    let piped = (asked.arguments == "-")
        .then(|| super::prompt::read(std::io::stdin().lock()))
        .transpose()?;
    let json = piped.as_deref().unwrap_or(&asked.arguments);
    Ok(match args::parse(&asked.name, json) {
        Ok(Call::Host(request)) => Ok((serde_json::from_str(json).unwrap_or_default(), request)),
        Ok(Call::HistorySearch { .. } | Call::HistoryRead { .. }) => {
            Err(format!("{}: there is no session to look into", asked.name))
        }
        Err(error) => Err(error.to_string()),
    })
}

fn bad_arguments(asked: &ToolArgs, message: &str) -> Result<ExitCode, Failure> {
    let text = if asked.json {
        report::failed(&asked.name, message)
    } else {
        message.to_owned()
    };
    write_out(&with_line_end(text))?;
    Ok(Kind::Error.into())
}

async fn call(
    hosts: &Hosts,
    ready: &Ready,
    request: ToolRequest,
    logged: Logged,
    asked: &ToolArgs,
    begun: Instant,
) -> Result<ExitCode, Failure> {
    let called = Instant::now();
    let result = hosts.call(request, &mut |progress| notice(progress)).await;
    logged.result(&result, called.elapsed()).await?;
    let text = match &result {
        Ok(result) if asked.json => {
            report::answered(&asked.name, result, hosts.granted(), ready, begun.elapsed())
        }
        Ok(result) => result.text.clone(),
        Err(fault) if asked.json => report::failed(&asked.name, &fault.to_string()),
        Err(_) => String::new(),
    };
    if !text.is_empty() {
        write_out(&with_line_end(text))?;
    }
    code(result)
}

fn code(result: Result<ToolResult, Fault>) -> Result<ExitCode, Failure> {
    Ok(match result?.reply.outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Failed => Kind::Error.into(),
        Outcome::Refused(_) => Kind::Denied.into(),
    })
}

fn with_line_end(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
