//! What is read of past sessions: `ferrum audit` and `ferrum sessions`.

use clap::{Args, Subcommand};

/// `ferrum audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub question: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show requests, verdicts and outcomes, as far as they are proven.
    Show(AuditShowArgs),
    /// Prove that no log was changed since it was written; exit code 1 where one was.
    Verify(AuditVerifyArgs),
}

/// `ferrum audit show`.
#[derive(Debug, Args)]
pub struct AuditShowArgs {
    /// Only this session.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Only what is younger: a span such as 30m, 12h or 7d, or a date such as 2026-11-30 (UTC).
    #[arg(long, value_name = "WHEN", value_parser = crate::clock::since)]
    pub since: Option<u64>,

    /// Only what policy refused or a wall denied.
    #[arg(long)]
    pub denied: bool,

    /// Print the records as JSON lines.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum audit verify`.
#[derive(Debug, Args)]
pub struct AuditVerifyArgs {
    /// Only this session.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum sessions`.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub question: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, the latest first.
    List(SessionsListArgs),
    /// Show what was said in a session.
    Show(SessionArgs),
    /// Check every record and say what a resume would do; exit code 1 where something is damaged.
    Check(SessionsCheckArgs),
    /// Print a session as Markdown, or its messages as one JSON array.
    Export(SessionArgs),
}

/// `ferrum sessions list`.
#[derive(Debug, Args)]
pub struct SessionsListArgs {
    /// Only sessions of this directory.
    #[arg(long)]
    pub here: bool,

    /// Print JSON lines.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum sessions show`, `export`.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// A name, a path, or the beginning of an id.
    #[arg(value_name = "REF")]
    pub reference: String,

    /// Print JSON: lines for show, one array for export.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum sessions check`.
#[derive(Debug, Args)]
pub struct SessionsCheckArgs {
    /// Names, paths, or beginnings of ids; all sessions where none is given.
    #[arg(value_name = "REF")]
    pub references: Vec<String>,

    /// Print JSON lines.
    #[arg(long)]
    pub json: bool,
}
