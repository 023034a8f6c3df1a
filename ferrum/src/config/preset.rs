//! Providers that are known without an entry of the configuration: their address, and the
//! variables that hold key, other address and model.

use super::environment::Environment;
use super::settings::ProviderEntry;
use crate::provider::ProviderKind;

/// One known provider.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    pub kind: ProviderKind,
    /// `None` is the kind's own.
    pub base_url: Option<&'static str>,
    /// The variable of the key; `None` where the login is the key.
    pub key: Option<&'static str>,
    /// What its other variables begin with: `_BASE_URL` and `_MODEL` follow.
    pub variables: &'static str,
}

const fn compatible(
    name: &'static str,
    base_url: &'static str,
    key: &'static str,
    variables: &'static str,
) -> Preset {
    Preset {
        name,
        kind: ProviderKind::OpenAiCompatible,
        base_url: Some(base_url),
        key: Some(key),
        variables,
    }
}

/// In the order in which `ferrum setup` offers them.
pub const PRESETS: [Preset; 11] = [
    compatible("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI"),
    Preset {
        name: "anthropic",
        kind: ProviderKind::Anthropic,
        base_url: None,
        key: Some("ANTHROPIC_API_KEY"),
        variables: "ANTHROPIC",
    },
    compatible(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "OPENROUTER",
    ),
    compatible(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "GEMINI",
    ),
    compatible(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "MISTRAL",
    ),
    compatible(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "DEEPSEEK",
    ),
    compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "GROQ"),
    compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY", "XAI"),
    compatible(
        "minimax",
        "https://api.minimax.io/v1",
        "MINIMAX_API_KEY",
        "MINIMAX",
    ),
    compatible(
        "opencode",
        "https://opencode.ai/zen/v1",
        "OPENCODE_API_KEY",
        "OPENCODE",
    ),
    Preset {
        name: "openai-codex",
        kind: ProviderKind::OpenAiCodex,
        base_url: None,
        key: None,
        variables: "OPENAI_CODEX",
    },
];

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// As an entry that the configuration could hold.
    #[must_use]
    pub fn entry(&self, environment: &Environment) -> ProviderEntry {
        let variable = |suffix: &str| {
            let value = environment.get(&format!("{}_{suffix}", self.variables))?;
            value.into_string().ok()
        };
        let mut entry = ProviderEntry::plain(self.kind);
        entry.base_url = variable("BASE_URL").or_else(|| self.base_url.map(str::to_owned));
        entry.api_key_env = self.key.map(str::to_owned);
        entry.default_model = variable("MODEL");
        entry
    }
}
