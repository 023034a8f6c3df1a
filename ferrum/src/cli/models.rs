//! Connecting a model: `ferrum setup` and `ferrum login`.

use super::words;
use crate::config::SHELLS;
use clap::Args;
use ferrum_proto::terms::Shell;

/// `ferrum setup`.
#[derive(Debug, Default, Args)]
pub struct SetupArgs {
    /// Ask nothing: take what the other options say, and for the rest what was found first.
    #[arg(long)]
    pub yes: bool,

    /// What was found, by its name, or the name of a provider of your own.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// Wire format of a provider of your own.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["openai-compatible", "anthropic"],
        requires = "base_url")]
    pub kind: Option<String>,

    /// Address of a provider of your own.
    #[arg(long, value_name = "URL", requires = "provider")]
    pub base_url: Option<String>,

    /// Name of the variable that holds its key; the key itself is never written down.
    #[arg(long, value_name = "VARIABLE", requires = "provider")]
    pub api_key_env: Option<String>,

    /// Model to use.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// How much of bash the text policy lets through; "auto" counts where isolation is full.
    #[arg(long, value_name = "MODE", value_parser = words(&SHELLS))]
    pub shell: Option<Shell>,

    /// Send no request to try the model.
    #[arg(long)]
    pub no_test: bool,

    /// Print what config.toml would hold, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `ferrum login`.
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// Both name the same account.
    #[arg(value_parser = ["openai", "openai-codex"], default_value = "openai")]
    pub account: String,

    /// Keep the login alone and leave config.toml as it is.
    #[arg(long, conflicts_with = "model")]
    pub auth_only: bool,

    /// Model to use from now on.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Confirm a short code in a browser on any machine.
    #[arg(long)]
    pub device: bool,
}
