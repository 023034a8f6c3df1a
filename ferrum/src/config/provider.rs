//! Which provider and model answer, and whether they may be talked to at all.

use super::Config;
use super::error::ConfigError;
use super::preset::{PRESETS, Preset};
use super::settings::ProviderEntry;
use crate::cli::ModelArgs;
use crate::provider::{ProviderKind, Thinking, address};
use secrecy::{ExposeSecret, SecretString};

/// The model that answers this session. Has no `Debug`: it holds the key.
pub struct ProviderChoice {
    /// Name in the configuration.
    pub name: String,
    pub entry: ProviderEntry,
    /// The model as the user named it.
    pub model: String,
    /// The model as the provider knows it.
    pub actual_model: String,
    /// In tokens.
    pub max_context_tokens: u64,
    pub supports_images: bool,
    pub thinking: Thinking,
    pub key: Option<SecretString>,
    /// What the user should be told about this choice.
    pub notice: Option<String>,
}

impl Config {
    /// The command line comes before the configuration; without either the built-in `fake`
    /// provider answers, with a notice that names the file to edit.
    ///
    /// # Errors
    /// An unknown provider, a missing model, address or key, or a key that would travel in clear.
    pub fn provider(&self, asked: &ModelArgs) -> Result<ProviderChoice, ConfigError> {
        let settings = &self.settings;
        let alias = asked.model.as_ref().and_then(|name| settings.models.get(name));
        let of_alias = alias.and_then(|alias| alias.provider.clone());
        let wanted = asked.provider.clone().or(of_alias).or(self.configured());
        let (name, notice) = match wanted {
            _ if self.offline => (FAKE.to_owned(), None),
            Some(name) => (name, None),
            None => (FAKE.to_owned(), Some(self.no_provider_notice())),
        };
        let entry = self.entry(&name)?;
        let choice = self.choose(asked, name, entry)?;
        Ok(ProviderChoice { notice, ..choice })
    }

    /// The model of a provider that is known already, whether the file has it or not.
    ///
    /// # Errors
    /// A missing model, address or key, or a key that would travel in clear.
    pub fn choose(
        &self,
        asked: &ModelArgs,
        name: String,
        entry: ProviderEntry,
    ) -> Result<ProviderChoice, ConfigError> {
        let settings = &self.settings;
        let configured = self.configured();
        let key = self.key(&name, &entry)?;
        self.check_address(&name, &entry, key.is_some())?;
        // A model of another provider's is of no use to this one.
        let settings_model = settings
            .model
            .clone()
            .filter(|_| configured.as_deref() == Some(name.as_str()));
        let fake_model = (entry.kind == ProviderKind::Fake).then(|| FAKE.to_owned());
        let model = asked
            .model
            .clone()
            .or(settings_model)
            .or(entry.default_model.clone())
            .or(fake_model);
        let model = model.ok_or_else(|| {
            let hint = format!("set `model` or `providers.{name}.default_model`, or pass --model");
            ConfigError::file(&self.file, format!("provider `{name}` has no model"), hint)
        })?;
        let alias = settings.models.get(&model);
        Ok(ProviderChoice {
            key,
            actual_model: alias
                .and_then(|alias| alias.actual_model.clone())
                .unwrap_or_else(|| model.clone()),
            max_context_tokens: alias
                .and_then(|alias| alias.max_context_tokens)
                .unwrap_or(settings.max_context_tokens),
            supports_images: alias.is_none_or(|alias| alias.supports_images),
            thinking: asked.thinking.unwrap_or(settings.thinking),
            model,
            name,
            entry,
            notice: None,
        })
    }

    /// What the file names, by itself or through the entry of its model.
    fn configured(&self) -> Option<String> {
        let settings = &self.settings;
        let alias = settings.model.as_ref().and_then(|name| settings.models.get(name));
        settings
            .provider
            .clone()
            .or_else(|| alias.and_then(|alias| alias.provider.clone()))
    }

    fn no_provider_notice(&self) -> String {
        format!(
            "no provider is configured, so the built-in `fake` one answers with a scripted tour; \
             `ferrum setup` connects a model, or add `provider = \"NAME\"` and a `[providers.NAME]` table to {}",
            self.file.display()
        )
    }

    fn entry(&self, name: &str) -> Result<ProviderEntry, ConfigError> {
        let entry = self.settings.providers.get(name).cloned();
        let known = || Preset::named(name).map(|preset| preset.entry(&self.environment));
        let fake = || (name == FAKE).then(|| ProviderEntry::plain(ProviderKind::Fake));
        entry.or_else(known).or_else(fake).ok_or_else(|| {
            let names: Vec<&str> = self
                .settings
                .providers
                .keys()
                .map(String::as_str)
                .chain(PRESETS.iter().map(|preset| preset.name))
                .chain([FAKE])
                .collect();
            let message = format!("there is no provider `{name}`; known are: {}", names.join(", "));
            ConfigError::file(&self.file, message, format!("add a `[providers.{name}]` table"))
        })
    }

    fn key(&self, name: &str, entry: &ProviderEntry) -> Result<Option<SecretString>, ConfigError> {
        let Some(variable) = &entry.api_key_env else {
            return Ok(None);
        };
        match self.environment.secret(variable) {
            Some(key) if key.expose_secret().contains(char::is_control) => Err(ConfigError::file(
                &self.file,
                format!("the key of provider `{name}` in the variable {variable} holds a control character"),
                "put the key alone into it, without a line end",
            )),
            Some(key) => Ok(Some(key)),
            None => Err(ConfigError::file(
                &self.file,
                format!("provider `{name}` takes its key from the variable {variable}, which is not set"),
                format!("export {variable}, or remove `providers.{name}.api_key_env`"),
            )),
        }
    }

    /// What can be known of the address before anything is sent.
    fn check_address(&self, name: &str, entry: &ProviderEntry, has_key: bool) -> Result<(), ConfigError> {
        let own = entry.kind.default_base_url();
        let Some(address) = entry.base_url.as_deref().or(own) else {
            return match entry.kind {
                ProviderKind::Fake => Ok(()),
                _ => Err(ConfigError::file(
                    &self.file,
                    format!("`providers.{name}.base_url` is missing"),
                    "for instance http://127.0.0.1:8080/v1",
                )),
            };
        };
        let secret = has_key || !entry.headers.is_empty() || entry.kind == ProviderKind::OpenAiCodex;
        address::check(address, secret, entry.allow_insecure_http)
            .map(|_| ())
            .map_err(|bad| {
                ConfigError::file(&self.file, format!("`providers.{name}`: {}", bad.what), bad.hint)
            })
    }
}

const FAKE: &str = "fake";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;

    fn config(text: &str, vars: &[(&str, &str)]) -> Config {
        let vars = [("HOME", "/home/ada")].iter().chain(vars);
        let environment = Environment::from_vars(vars.map(|(n, v)| (n.into(), v.into())).collect());
        Config::from_text(environment, text).expect("valid")
    }

    fn choose(text: &str, vars: &[(&str, &str)], asked: &ModelArgs) -> Result<ProviderChoice, String> {
        config(text, vars)
            .provider(asked)
            .map_err(|error| format!("{error}; {}", error.hint))
    }

    fn chosen(text: &str, vars: &[(&str, &str)], asked: &ModelArgs) -> ProviderChoice {
        choose(text, vars, asked).unwrap_or_else(|error| panic!("{error}"))
    }

    type Vars<'a> = &'a [(&'a str, &'a str)];

    const TWO: &str = "provider = \"a\"\nmodel = \"m\"\n\
        [providers.a]\ntype = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"A_KEY\"\n\
        [providers.b]\ntype = \"openai-compatible\"\nbase_url = \"https://example.org\"\ndefault_model = \"n\"\n\
        [models.short]\nprovider = \"b\"\nactual_model = \"long\"\nmax_context_tokens = 9\nsupports_images = false\n";

    #[test]
    fn nothing_configured_is_fake_with_a_notice_that_names_the_file() {
        let choice = chosen("", &[], &ModelArgs::default());
        assert_eq!((choice.name.as_str(), choice.model.as_str()), ("fake", "fake"));
        assert!(
            choice
                .notice
                .expect("a notice")
                .contains("/home/ada/.config/ferrum/config.toml")
        );
    }

    #[test]
    fn the_command_line_comes_first_and_aliases_bring_their_provider() {
        let key = [("A_KEY", " k1 ")];
        let choice = chosen(TWO, &key, &ModelArgs::default());
        assert_eq!((choice.name.as_str(), choice.model.as_str()), ("a", "m"));
        assert_eq!(choice.key.expect("a key").expose_secret(), "k1");
        let other = ModelArgs {
            provider: Some("b".into()),
            ..ModelArgs::default()
        };
        let choice = chosen(TWO, &key, &other);
        assert_eq!((choice.name.as_str(), choice.model.as_str()), ("b", "n"));
        let alias = ModelArgs {
            model: Some("short".into()),
            ..ModelArgs::default()
        };
        let choice = chosen(TWO, &key, &alias);
        assert_eq!(
            (choice.name.as_str(), choice.actual_model.as_str()),
            ("b", "long")
        );
        assert_eq!((choice.max_context_tokens, choice.supports_images), (9, false));
    }

    #[test]
    fn offline_forces_fake() {
        let choice = chosen(TWO, &[("FERRUM_OFFLINE", "1")], &ModelArgs::default());
        assert_eq!((choice.name.as_str(), choice.model.as_str()), ("fake", "fake"));
        assert!(choice.notice.is_none());
    }

    #[test]
    fn faults_name_the_key_or_variable() {
        let plain = |url: &str| {
            format!(
                "provider = \"p\"\nmodel = \"m\"\n[providers.p]\ntype = \"openai-compatible\"\nbase_url = \"{url}\"\napi_key_env = \"K\""
            )
        };
        let key: &[(&str, &str)] = &[("K", "sk-1")];
        let cases: [(String, Vars<'_>, &str); 8] = [
            ("provider = \"x\"".to_owned(), &[], "no provider `x`"),
            (plain("http://127.0.0.1:1"), &[], "variable K"),
            (plain("http://127.0.0.1:1"), &[("K", "")], "variable K"),
            (
                plain("http://127.0.0.1.example.invalid/v1"),
                key,
                "allow_insecure_http",
            ),
            (
                plain("http://localhost.example.invalid/v1"),
                key,
                "allow_insecure_http",
            ),
            (plain("ftp://a/b"), key, "http(s) address"),
            (plain("https://u:p@a/b"), key, "password"),
            (
                "provider = \"p\"\nmodel = \"m\"\n[providers.p]\ntype = \"openai-compatible\"".to_owned(),
                &[],
                "base_url",
            ),
        ];
        for (text, vars, part) in cases {
            let error = choose(&text, vars, &ModelArgs::default()).err().expect("refused");
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("sk-1"));
        }
        for address in [
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost:1",
            "https://example.org",
        ] {
            assert!(
                choose(&plain(address), key, &ModelArgs::default()).is_ok(),
                "{address}"
            );
        }
    }
}
