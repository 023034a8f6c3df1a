//! What the operator has configured: file and environment → [`Config`].
//!
//! Nothing of a project and nothing of a model enters here. Key values live in `Config` alone,
//! as secrets without a `Debug`; they are in none of the things that leave the front.

mod charter;
mod dirs;
mod document;
mod edit;
mod environment;
mod error;
mod file;
mod preset;
mod provider;
mod settings;
mod user;

pub use charter::working_directory;
pub use dirs::Dirs;
pub use edit::{Change, ConfigFile};
pub use environment::Environment;
pub use error::ConfigError;
pub use preset::{PRESETS, Preset};
pub use provider::ProviderChoice;
pub use settings::{
    Color, DiffMode, McpIsolation, McpServer, ModelEntry, ProviderEntry, Safety, Settings, THINKING, Tools,
};
pub use user::{NETWORKS, SHELLS, TIERS};

use crate::login::AuthFile;
use ferrum_proto::charter::{HomeMode, Origin};
use ferrum_proto::terms::Require;
use secrecy::SecretString;
use std::path::PathBuf;

/// The configuration of this process. Has no `Debug`: it holds keys.
pub struct Config {
    pub dirs: Dirs,
    /// `config.toml`, whether it exists or not.
    pub file: PathBuf,
    pub settings: Settings,
    /// `FERRUM_OFFLINE`: only the `fake` provider answers.
    pub offline: bool,
    /// `FERRUM_METRICS`: numbers of each request on stderr.
    pub metrics: bool,
    /// `FERRUM_FAKE_SCRIPT`: what the `fake` provider plays.
    pub fake_script: Option<String>,
    /// What the user should be told.
    pub notices: Vec<String>,
    pub(crate) environment: Environment,
    origins: Vec<(String, Origin)>,
}

impl Config {
    /// Reads the environment and the file that it names.
    ///
    /// # Errors
    /// [`ConfigError`] when the file or a `FERRUM_*` variable cannot be used.
    pub fn load(environment: Environment) -> Result<Self, ConfigError> {
        let dirs = Dirs::find(|name| environment.get(name), dirs::account_home)?;
        let text = file::read(&dirs.config.join("config.toml"))?;
        Self::new(environment, dirs, text.as_deref().unwrap_or_default())
    }

    #[cfg(test)]
    fn from_text(environment: Environment, text: &str) -> Result<Self, ConfigError> {
        let dirs = Dirs::find(|name| environment.get(name), || None)?;
        Self::new(environment, dirs, text)
    }

    fn new(environment: Environment, dirs: Dirs, text: &str) -> Result<Self, ConfigError> {
        let file = dirs.config.join("config.toml");
        let user::UserFile {
            mut settings,
            mut origins,
            notices,
        } = user::parse(&file, text)?;
        if let Some(rounds) = tool_rounds(&environment)? {
            settings.max_tool_rounds = rounds;
            origins.retain(|(key, _)| key != "max_tool_rounds");
            let name = TOOL_ROUNDS.to_owned();
            origins.push(("max_tool_rounds".to_owned(), Origin::Environment { name }));
        }
        let text_of = |name: &str| environment.get(name).and_then(|value| value.into_string().ok());
        Ok(Self {
            offline: environment.flag("FERRUM_OFFLINE"),
            metrics: environment.flag("FERRUM_METRICS"),
            fake_script: text_of("FERRUM_FAKE_SCRIPT"),
            dirs,
            file,
            settings,
            notices,
            environment,
            origins,
        })
    }

    /// For a checkout of a stranger's: full isolation or nothing, a home that nobody used before,
    /// no MCP server. The tier is a wish of its own.
    pub fn distrust(&mut self) {
        self.settings.require = Some(Require::Full);
        self.settings.tools.home = HomeMode::Fresh;
        self.settings.mcp_enabled = false;
        for key in ["isolation.require", "tools.home", "mcp_enabled"] {
            self.origins.retain(|(known, _)| known != key);
            self.origins.push((key.to_owned(), Origin::CommandLine));
        }
    }

    /// Every credential that this process knows, for keeping them out of what is stored or sent.
    #[must_use]
    pub fn secrets(&self) -> Vec<SecretString> {
        let entries = self.settings.providers.values();
        let names =
            Environment::secret_names(entries.clone().filter_map(|entry| entry.api_key_env.as_deref()));
        let keys = names.iter().filter_map(|name| self.environment.secret(name));
        let headers = entries.flat_map(|entry| entry.headers.iter().map(|(_, value)| value.clone()));
        keys.chain(headers).chain(self.tokens()).collect()
    }

    /// The tokens of a login as they are now, where anything uses one.
    fn tokens(&self) -> Vec<SecretString> {
        let file = AuthFile::new(&self.dirs.config);
        // A file that cannot be read is told of where it is needed.
        let login = file.read().ok().flatten();
        login.map_or_else(Vec::new, |login| vec![login.access, login.refresh])
    }

    /// True when the file or a variable states `key`, for instance `tools.shell`.
    #[must_use]
    pub fn states(&self, key: &str) -> bool {
        self.origins.iter().any(|(known, _)| known == key)
    }

    /// The value of an environment variable of the front.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name)?.into_string().ok()
    }
}

const TOOL_ROUNDS: &str = "FERRUM_MAX_TOOL_ROUNDS";

fn tool_rounds(environment: &Environment) -> Result<Option<u32>, ConfigError> {
    let Some(value) = environment.get(TOOL_ROUNDS) else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|text| text.trim().parse::<u32>().ok());
    match number.filter(|n| u64::from(*n) <= user::TOOL_ROUNDS_MAX) {
        Some(rounds) => Ok(Some(rounds)),
        None => Err(ConfigError::file(
            TOOL_ROUNDS,
            format!("must be a whole number from 0 to {}", user::TOOL_ROUNDS_MAX),
            format!("unset {TOOL_ROUNDS}, or give it a number (0 means adaptive)"),
        )),
    }
}

/// The charter of an empty configuration.
#[cfg(test)]
pub(crate) fn tests_charter() -> ferrum_proto::charter::Charter {
    let environment = Environment::from_vars(vec![("HOME".into(), "/home/ada".into())]);
    Config::from_text(environment, "").expect("valid").charter()
}
