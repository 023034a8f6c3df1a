//! `ferrum -p`: one prompt, answered on stdout.

use super::{notice, prompt, runtime};
use crate::cli::PrintArgs;
use crate::exit::{Failure, Kind};
use crate::start::Start;
use std::process::ExitCode;

/// # Errors
/// Any [`Failure`].
pub fn run(start: Start, asked: &PrintArgs) -> Result<ExitCode, Failure> {
    let prompt = prompt::compose(asked.print.as_deref().unwrap_or_default())?;
    let provider = start.config.provider(&asked.model)?;
    provider.notice.iter().for_each(|text| notice(text));
    runtime()?.block_on(async {
        let hosts = start.hosts.open().await?;
        hosts.close().await;
        Err(Failure::new(
            Kind::Error,
            format!("no model loop for a prompt of {} bytes", prompt.len()),
        ))
    })
}
