//! The start order of the front, and the one place that prints errors and picks exit codes.

use clap::Parser;
use ferrum::cli::{Cli, Command};
use ferrum::exit::{Failure, Kind};
use ferrum::mode;
use ferrum::start::Start;
use std::process::ExitCode;

fn main() -> ExitCode {
    if asks_for_version() {
        return print_version();
    }
    // Prints usage errors and help itself, with 2 and 0.
    let cli = Cli::parse();
    has_stdout().and_then(|()| run(&cli)).unwrap_or_else(|failure| {
        failure.report();
        failure.kind.into()
    })
}

/// Before this returns from `Start::new`, the process is single-threaded and ends confined; each
/// mode then makes its runtime.
fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    match &cli.command {
        Some(Command::Tool(asked)) => mode::tool::run(Start::new(cli)?, asked),
        Some(Command::Policy(asked)) => mode::policy::run(cli, asked),
        Some(Command::Setup(asked)) => mode::setup::run(Start::new(cli)?, asked),
        Some(Command::Login(asked)) => mode::login::run(Start::new(cli)?, asked),
        Some(Command::Inspect(asked)) => mode::inspect::run(Start::new(cli)?, asked),
        Some(Command::Audit(asked)) => mode::audit::run(&asked.question),
        Some(Command::Sessions(asked)) => mode::sessions::run(&asked.question),
        Some(Command::Trust(asked)) => mode::trust::run(Start::new(cli)?, asked),
        Some(Command::Doctor(asked)) => mode::doctor::run(Start::new(cli)?, asked),
        None if cli.print.print.is_some() || cli.print.jsonl => {
            mode::answer::run(Start::new(cli), &cli.print)
        }
        None => Err(
            Failure::new(Kind::Usage, "the interactive mode does not exist yet")
                .with_hint("ferrum -p \"what to do\" answers one prompt; see ferrum --help"),
        ),
    }
}

/// Without one everything that is said would be lost, and the exit code would hide it.
fn has_stdout() -> Result<(), Failure> {
    match ferrum::sys::stdout_was_closed() {
        false => Ok(()),
        true => Err(Failure::new(Kind::Usage, "stdout is closed")
            .with_hint("send it to /dev/null where nobody reads it")),
    }
}

/// The quickest way out: no parser is built for it.
fn asks_for_version() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    first.is_some_and(|word| word == "--version" || word == "-V") && arguments.next().is_none()
}

fn print_version() -> ExitCode {
    use std::io::Write;
    match writeln!(std::io::stdout(), "ferrum {}", env!("CARGO_PKG_VERSION")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => Kind::Error.into(),
    }
}
