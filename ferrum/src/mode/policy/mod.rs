//! `ferrum policy`: seeing, questioning and checking the policy in force. Nothing here calls a tool
//! for a model, and no provider is asked.

mod check;
mod explain;
mod show;
mod verify;

use crate::cli::{Cli, PolicyArgs, PolicyCommand};
use crate::exit::Failure;
use crate::mode::write_out;
use crate::start::Start;
use std::process::ExitCode;

/// A project file to start from: every key, explained.
const INIT: &str = include_str!("init.toml");

/// # Errors
/// Any [`Failure`].
pub fn run(cli: &Cli, asked: &PolicyArgs) -> Result<ExitCode, Failure> {
    match &asked.question {
        PolicyCommand::Show(asked) => show::run(Start::new(cli)?, asked),
        PolicyCommand::Explain(asked) => explain::run(Start::new(cli)?, asked),
        PolicyCommand::Check(asked) => check::run(Start::new(cli)?, asked),
        PolicyCommand::Verify(asked) => verify::run(Start::new(cli)?, asked),
        PolicyCommand::Init => write_out(INIT).map(|()| ExitCode::SUCCESS),
    }
}
