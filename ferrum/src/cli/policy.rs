//! `ferrum policy` and its questions.

use super::{WishArgs, words};
use crate::config::{SHELLS, TIERS};
use clap::{Args, Subcommand};
use ferrum_proto::terms::{Shell, Tier};
use std::path::PathBuf;

/// `ferrum policy`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub question: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show the policy and the walls of a session here: each value, who set it, and what holds it.
    Show(ShowArgs),
    /// Say what policy would answer to an act, without doing it and without a model.
    Explain(ExplainArgs),
    /// Read project files to their end, tell everything that is wrong, and put their expectations to
    /// the test. For CI: nothing is run, and no wall is needed.
    Check(CheckArgs),
    /// Print a project file to start from.
    Init,
    /// Attack the walls of a session here, at every tier, and say which held.
    Verify(VerifyArgs),
}

/// `ferrum policy show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub wish: WishArgs,

    /// The working directory of the session.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Print one JSON object: docs/schema/policy-show.json.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum policy verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The working directory of the session.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Print one JSON object: docs/schema/policy-verify.json.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum policy check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Project files, or directories whose files are meant [default: the working directory].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Print one JSON object: docs/schema/policy-check.json.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum policy explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A built-in tool (bash, wait, read, ls, find, grep, write, edit), or exec, connect, mcp.
    #[arg(required_unless_present = "stdin", conflicts_with = "stdin",
        value_parser = ["bash", "wait", "read", "ls", "find", "grep", "write", "edit", "exec", "connect", "mcp"])]
    pub tool: Option<String>,

    /// The command, the path, HOST:PORT, or the server's name.
    #[arg(
        required_unless_present = "stdin",
        conflicts_with = "stdin",
        allow_hyphen_values = true
    )]
    pub act: Option<String>,

    /// The working directory of the session that is asked about.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Answer one JSON question a line with one JSON answer a line, in their order.
    #[arg(long)]
    pub stdin: bool,

    /// Safety tier.
    #[arg(long, value_name = "TIER", value_parser = words(&TIERS))]
    pub safety: Option<Tier>,

    /// How much of bash the text policy lets through.
    #[arg(long, value_name = "MODE", value_parser = words(&SHELLS))]
    pub shell: Option<Shell>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}
