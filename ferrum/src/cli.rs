//! The command line: definitions only.

mod models;
mod policy;
mod records;

pub use models::{LoginArgs, SetupArgs};
pub use policy::{CheckArgs, ExplainArgs, PolicyArgs, PolicyCommand, ShowArgs, VerifyArgs};
pub use records::{
    AuditArgs, AuditCommand, AuditShowArgs, AuditVerifyArgs, SessionArgs, SessionsArgs, SessionsCheckArgs,
    SessionsCommand, SessionsListArgs,
};

use crate::config::{NETWORKS, SHELLS, THINKING, TIERS};
use crate::provider::Thinking;
use crate::session::select::Which;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ferrum_proto::charter::{ToolsWish, Wish};
use ferrum_proto::terms::{Network, Shell, Tier};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A coding agent for Linux whose every act happens in a kernel-confined helper.
#[derive(Debug, Parser)]
#[command(name = "ferrum", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub print: PrintArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one tool call through the real path and print what a model would get.
    Tool(ToolArgs),
    /// See, question and check the policy in force.
    Policy(PolicyArgs),
    /// Show which walls this machine offers, tier by tier.
    Doctor(DoctorArgs),
    /// Connect a model: find keys and local servers, write config.toml, try it.
    Setup(SetupArgs),
    /// Log in with a ChatGPT account.
    Login(LoginArgs),
    /// Accept what tools changed in instruction files, or what became of a project's policy.
    Trust(TrustArgs),
    /// List what in a checkout tries to run or to steer something; nothing of it is run.
    Inspect(InspectArgs),
    /// Read and prove what tools were asked for and what came of it.
    Audit(AuditArgs),
    /// List, show, check and export sessions.
    Sessions(SessionsArgs),
}

/// One prompt, answered on stdout.
#[derive(Debug, Args)]
pub struct PrintArgs {
    /// Answer one prompt and exit. Without a value the prompt is read from stdin; with one, piped
    /// stdin is added below it.
    #[arg(short = 'p', long = "print", value_name = "PROMPT", num_args = 0..=1, default_missing_value = "")]
    pub print: Option<String>,

    /// The prompt of -p, behind other options.
    #[arg(value_name = "PROMPT", requires = "print")]
    pub prompt: Option<String>,

    /// Attach a picture (PNG, JPEG or WebP) to the prompt; can be repeated.
    #[arg(long = "image", value_name = "PATH", conflicts_with = "jsonl")]
    pub images: Vec<String>,

    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub wish: WishArgs,

    /// Make exactly these tools available.
    #[arg(long, value_name = "TOOL", num_args = 1.., value_delimiter = ',', conflicts_with = "no_tools")]
    pub tools: Vec<String>,

    /// Make no tool available.
    #[arg(long)]
    pub no_tools: bool,

    /// Take messages as JSON lines on stdin and give the events of each turn as JSON lines.
    #[arg(long, conflicts_with_all = ["print", "output"])]
    pub jsonl: bool,

    /// Append to this session: a name (made when new), a path, or the beginning of an id.
    #[arg(long, value_name = "REF")]
    pub session: Option<String>,

    /// Go on with the session of this name, path or beginning of an id; without one, as --continue.
    #[arg(long, value_name = "REF", num_args = 0..=1, default_missing_value = "", conflicts_with = "session")]
    pub resume: Option<String>,

    /// Go on with the latest session of this directory.
    #[arg(long = "continue", conflicts_with_all = ["session", "resume"])]
    pub latest: bool,

    /// Title of the session.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// The checkout is a stranger's: tier high, full isolation or exit code 4, no MCP, a fresh private
    /// home; its context files and skills are information, not instructions; what in it tries to run
    /// or to steer something is listed first.
    #[arg(long, conflicts_with = "safety")]
    pub untrusted: bool,

    /// Exit with 5 when a tool call was refused.
    #[arg(long)]
    pub fail_on_denial: bool,

    /// End a turn after this many rounds of tool calls, with a last answer and exit code 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_rounds: Option<u32>,

    /// End a turn after this many seconds, with exit code 3.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,

    /// Form of the answer: text, one JSON object at the end, or one JSON object for each event.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// What stdout gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    Text,
    Json,
    StreamJson,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=604_800) => Ok(Duration::from_secs(seconds)),
        _ => Err("a whole number from 1 to 604800 is needed".to_owned()),
    }
}

/// Which model answers.
#[derive(Debug, Default, Clone, Args)]
pub struct ModelArgs {
    /// Name of a provider in config.toml, or "fake".
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// Name of a model or of a `[models]` entry.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// How much the model thinks.
    #[arg(long, value_name = "LEVEL", value_parser = words(&THINKING))]
    pub thinking: Option<Thinking>,
}

/// What the operator asks of the tool host, between the ceiling and the project's floor.
#[derive(Debug, Default, Clone, Args)]
pub struct WishArgs {
    /// Safety tier.
    #[arg(long, value_name = "TIER", value_parser = words(&TIERS))]
    pub safety: Option<Tier>,

    /// What commands may reach over the network.
    #[arg(long, value_name = "EXTENT", value_parser = words(&NETWORKS))]
    pub network: Option<Network>,

    /// How much of bash the text policy lets through.
    #[arg(long, value_name = "MODE", value_parser = words(&SHELLS))]
    pub shell: Option<Shell>,
}

/// `ferrum inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Look here instead of in the working directory.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Accept these files as they are; without any, list what waits to be accepted.
    #[arg(value_name = "FILE", conflicts_with = "policy")]
    pub files: Vec<PathBuf>,

    /// Accept the project's policy as it is now, gone or looser.
    #[arg(long)]
    pub policy: bool,
}

/// `ferrum tool`.
#[derive(Debug, Args)]
pub struct ToolArgs {
    /// read, write, edit, bash, wait, grep, find or ls.
    pub name: String,

    /// The arguments as one JSON object; "-" reads it from stdin.
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,

    #[command(flatten)]
    pub wish: WishArgs,

    /// Print outcome, isolation, denials and timings as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `ferrum doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl WishArgs {
    /// The wish for a host, with the tool set `tools`.
    #[must_use]
    pub fn wish(&self, tools: ToolsWish) -> Wish {
        Wish {
            tier: self.safety,
            network: self.network,
            shell: self.shell,
            tools,
            inspect: false,
            probes: false,
        }
    }
}

impl PrintArgs {
    /// The prompt as it was written; `None` where there is none to answer. An error says why it is
    /// not one prompt.
    ///
    /// # Errors
    /// Two of them.
    pub fn written(&self) -> Result<Option<&str>, &'static str> {
        match (self.print.as_deref(), self.prompt.as_deref()) {
            (Some(""), Some(prompt)) => Ok(Some(prompt)),
            (Some(_), Some(_)) => Err("there are two prompts; put one of them into quotes with the other"),
            (print, _) => Ok(print),
        }
    }

    /// The session that was asked for.
    #[must_use]
    pub fn which(&self) -> Which {
        match (&self.session, &self.resume) {
            (Some(reference), _) => Which::Session(reference.clone()),
            (None, Some(reference)) if reference.is_empty() => Which::Latest,
            (None, Some(reference)) => Which::Resume(reference.clone()),
            (None, None) if self.latest => Which::Latest,
            (None, None) => Which::New,
        }
    }

    #[must_use]
    pub fn tools_wish(&self) -> ToolsWish {
        if self.no_tools {
            ToolsWish::None
        } else if self.tools.is_empty() {
            ToolsWish::Default
        } else {
            ToolsWish::Only(self.tools.clone())
        }
    }
}

impl Cli {
    /// What this call asks of its first host.
    #[must_use]
    pub fn wish(&self) -> Wish {
        match &self.command {
            None if self.print.untrusted => Wish {
                tier: Some(Tier::High),
                inspect: true,
                ..self.print.wish.wish(self.print.tools_wish())
            },
            None => self.print.wish.wish(self.print.tools_wish()),
            Some(Command::Inspect(_)) => Wish {
                inspect: true,
                ..Wish::default()
            },
            Some(Command::Tool(tool)) => tool.wish.wish(ToolsWish::Default),
            Some(Command::Policy(policy)) => match &policy.question {
                PolicyCommand::Show(show) => show.wish.wish(ToolsWish::Default),
                // The tier of a question is its own, not the host's.
                PolicyCommand::Explain(_)
                | PolicyCommand::Check(_)
                | PolicyCommand::Init
                | PolicyCommand::Verify(_) => Wish::default(),
            },
            Some(
                Command::Doctor(_)
                | Command::Setup(_)
                | Command::Login(_)
                | Command::Trust(_)
                | Command::Audit(_)
                | Command::Sessions(_),
            ) => Wish::default(),
        }
    }

    /// The working directory, where it is not the process's own.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        match &self.command {
            Some(Command::Policy(policy)) => match &policy.question {
                PolicyCommand::Show(show) => show.dir.as_deref(),
                PolicyCommand::Explain(explain) => explain.dir.as_deref(),
                PolicyCommand::Verify(verify) => verify.dir.as_deref(),
                PolicyCommand::Check(_) | PolicyCommand::Init => None,
            },
            Some(Command::Inspect(inspect)) => inspect.dir.as_deref(),
            Some(
                Command::Tool(_)
                | Command::Trust(_)
                | Command::Doctor(_)
                | Command::Setup(_)
                | Command::Login(_)
                | Command::Audit(_)
                | Command::Sessions(_),
            )
            | None => None,
        }
    }
}

/// One of a few words, each with its meaning.
fn words<T>(table: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(table.iter().map(|(word, _)| *word)).try_map(|text| {
        let found = table.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or("not one of the words")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["ferrum"], args].concat())
    }

    #[test]
    fn definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn print_takes_a_prompt_or_none() {
        let prompt = |args: &[&str]| parse(args).expect("valid").print.print;
        assert_eq!(prompt(&[]), None);
        assert_eq!(prompt(&["-p"]).as_deref(), Some(""));
        assert_eq!(prompt(&["-p", "hi"]).as_deref(), Some("hi"));
        assert_eq!(prompt(&["-p", "--safety", "high"]).as_deref(), Some(""));
        assert_eq!(
            prompt(&["--safety", "high", "--print=- a"]).as_deref(),
            Some("- a")
        );
    }

    #[test]
    fn a_prompt_may_stand_behind_other_options() {
        let written = |args: &[&str]| {
            let cli = parse(args).map_err(|error| error.to_string())?;
            cli.print
                .written()
                .map(|text| text.map(str::to_owned))
                .map_err(str::to_owned)
        };
        assert_eq!(
            written(&["-p", "--safety", "high", "look"]),
            Ok(Some("look".into()))
        );
        assert_eq!(written(&["-p", "look", "--no-tools"]), Ok(Some("look".into())));
        assert_eq!(written(&["-p"]), Ok(Some(String::new())));
        assert!(written(&["-p", "look", "--no-tools", "again"]).is_err());
        assert!(written(&["look"]).is_err());
    }

    #[test]
    fn tools_are_separated_by_spaces_or_commas() {
        let tools = |args: &[&str]| parse(args).expect("valid").print.tools_wish();
        let both = ToolsWish::Only(vec!["read".into(), "ls".into()]);
        assert_eq!(tools(&["-p", "x", "--tools", "read", "ls"]), both);
        assert_eq!(tools(&["-p", "x", "--tools", "read,ls"]), both);
        assert_eq!(tools(&["-p", "x", "--no-tools"]), ToolsWish::None);
        assert_eq!(tools(&["-p", "x"]), ToolsWish::Default);
        assert!(parse(&["--no-tools", "--tools", "read"]).is_err());
    }

    #[test]
    fn tool_and_doctor_have_their_own_arguments() {
        let cli = parse(&[
            "tool",
            "bash",
            "{}",
            "--safety",
            "high",
            "--network",
            "none",
            "--json",
        ])
        .expect("valid");
        assert_eq!(cli.wish().tier, Some(Tier::High));
        assert_eq!(cli.wish().network, Some(Network::None));
        assert!(parse(&["tool", "bash", "{}", "--safety", "top"]).is_err());
        assert!(parse(&["doctor", "--json"]).is_ok());
    }

    #[test]
    fn explain_takes_an_act_or_stdin() {
        let explain = |rest: &[&str]| parse(&[&["policy", "explain"], rest].concat());
        assert!(explain(&["bash", "ls -l"]).is_ok());
        assert!(explain(&["--json", "--safety", "high", "bash", "-x"]).is_ok());
        assert!(explain(&["--stdin", "--safety", "low"]).is_ok());
        assert!(explain(&["bash"]).is_err());
        assert!(explain(&["--stdin", "bash", "ls"]).is_err());
        assert!(explain(&["rm", "x"]).is_err());
    }
}
