//! What could answer: keys in the environment, a login, and servers of this machine, which are
//! asked for their models.

use crate::cli::ModelArgs;
use crate::config::{Config, PRESETS, Preset, ProviderChoice, ProviderEntry};
use crate::login::AuthFile;
use crate::mode::provider;
use crate::provider::model_list::Model;
use crate::provider::{ProviderError, ProviderKind};
use futures_util::future::join_all;
use std::time::Duration;

/// Where the servers listen that people run at home, and what their entries are called.
const LOCAL: [(&str, &str, u16); 4] = [
    ("llama", "llama.cpp", 8080),
    ("ollama", "Ollama", 11434),
    ("lmstudio", "LM Studio", 1234),
    ("vllm", "vLLM", 8000),
];
/// A server of this machine that says nothing for so long is none.
const LOCAL_WAIT: Duration = Duration::from_secs(3);
const LIST_WAIT: Duration = Duration::from_secs(20);

/// Something that could answer.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The name of its entry.
    pub name: String,
    /// How it is shown.
    pub what: String,
    pub entry: ProviderEntry,
    /// On this machine: any model of it will do.
    pub local: bool,
    /// Its models, where they are known already.
    pub models: Vec<Model>,
}

impl Candidate {
    /// A provider of the operator's own.
    #[must_use]
    pub fn own(name: &str, entry: ProviderEntry) -> Self {
        let local = entry
            .base_url
            .as_deref()
            .and_then(|url| reqwest::Url::parse(url).ok());
        Self {
            name: name.to_owned(),
            what: entry.base_url.clone().unwrap_or_default(),
            local: local.is_some_and(|url| crate::provider::address::is_loopback(&url)),
            entry,
            models: Vec::new(),
        }
    }

    /// Asks for its models.
    ///
    /// # Errors
    /// Why there is no list.
    pub async fn list(&self, config: &Config) -> Result<Vec<Model>, ProviderError> {
        let choice = self.choice(config, "any")?;
        let listed = tokio::time::timeout(LIST_WAIT, async {
            provider::open(config, choice)?.models().await
        });
        match listed.await {
            Ok(models) => models,
            Err(_) => Err(crate::provider::http::timed_out("list of models", LIST_WAIT)),
        }
    }

    /// As if the configuration named it.
    ///
    /// # Errors
    /// [`ProviderError::Config`] when it cannot work.
    pub fn choice(&self, config: &Config, model: &str) -> Result<ProviderChoice, ProviderError> {
        let asked = ModelArgs {
            model: Some(model.to_owned()),
            ..ModelArgs::default()
        };
        let choice = config.choose(&asked, self.name.clone(), self.entry.clone());
        choice.map_err(|error| ProviderError::Config(format!("{} ({})", error.message, error.hint)))
    }
}

/// Everything that is to be had, servers of this machine first.
pub async fn candidates(config: &Config) -> Vec<Candidate> {
    let asked = LOCAL
        .iter()
        .map(|(name, what, port)| local(config, name, what, *port));
    let mut found: Vec<Candidate> = join_all(asked).await.into_iter().flatten().collect();
    found.extend(PRESETS.iter().filter_map(|preset| keyed(config, preset)));
    found
}

async fn local(config: &Config, name: &str, what: &str, port: u16) -> Option<Candidate> {
    let mut entry = ProviderEntry::plain(ProviderKind::OpenAiCompatible);
    entry.base_url = Some(format!("http://127.0.0.1:{port}/v1"));
    let mut candidate = Candidate::own(name, entry);
    candidate.what = format!("a server on port {port}, as {what} has it");
    candidate.models = tokio::time::timeout(LOCAL_WAIT, candidate.list(config))
        .await
        .ok()?
        .ok()?;
    Some(candidate)
}

fn keyed(config: &Config, preset: &Preset) -> Option<Candidate> {
    let what = match preset.key {
        Some(key) => {
            config.variable(key)?;
            format!("the key in {key}")
        }
        None => {
            AuthFile::new(&config.dirs.config).read().ok()??;
            "the login of ferrum login".to_owned()
        }
    };
    let entry = preset.entry(&config.environment);
    Some(Candidate {
        what,
        local: false,
        ..Candidate::own(preset.name, entry)
    })
}
