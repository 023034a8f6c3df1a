//! The wire formats, and how much a model is asked to think.

/// The wire format that a provider speaks: the `type` of its entry in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// Chat Completions.
    OpenAiCompatible,
    /// Responses as the ChatGPT backend speaks them, with the operator's login.
    OpenAiCodex,
    /// Messages.
    Anthropic,
    /// No network at all.
    Fake,
}

impl ProviderKind {
    /// Every kind with its word in the configuration.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("openai-compatible", Self::OpenAiCompatible),
        ("openai-codex", Self::OpenAiCodex),
        ("anthropic", Self::Anthropic),
        ("fake", Self::Fake),
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiCompatible => "openai-compatible",
            Self::OpenAiCodex => "openai-codex",
            Self::Anthropic => "anthropic",
            Self::Fake => "fake",
        }
    }

    /// Where requests go when the configuration names no `base_url`.
    #[must_use]
    pub fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAiCodex => Some("https://chatgpt.com/backend-api"),
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::OpenAiCompatible | Self::Fake => None,
        }
    }
}

/// How much a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Thinking {
    /// Every level, from none to most.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::Xhigh,
        Self::Max,
    ];

    /// The word of the configuration and the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The level that `word` names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == word)
    }
}
