//! The process environment, split into what commands may be told of and what stays here.

use super::preset::PRESETS;
use ferrum_proto::terms::PathBytes;
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// A copy of the environment, taken once at the start.
#[derive(Clone)]
pub struct Environment {
    vars: Vec<(OsString, OsString)>,
}

impl Environment {
    #[must_use]
    pub fn of_process() -> Self {
        Self::from_vars(std::env::vars_os().collect())
    }

    #[must_use]
    pub fn from_vars(vars: Vec<(OsString, OsString)>) -> Self {
        Self { vars }
    }

    /// The value of `name`; an empty one is no value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<OsString> {
        let found = self.vars.iter().find(|(n, _)| n == name);
        found
            .map(|(_, value)| value.clone())
            .filter(|value| !value.is_empty())
    }

    /// True for `1`, `true`, `yes` and `on`.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        let value = self.get(name).and_then(|value| value.into_string().ok());
        value.is_some_and(|value| ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str()))
    }

    /// A key; `None` when it is absent or no text.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        let value = self.get(name)?.into_string().ok()?;
        let value = value.trim();
        (!value.is_empty()).then(|| SecretString::from(value))
    }

    /// The names that no command may see: those that hold a provider's key, whether the
    /// configuration names them or not.
    #[must_use]
    pub fn secret_names<'a>(configured: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let known = PRESETS.iter().filter_map(|preset| preset.key);
        let names: BTreeSet<&str> = configured.into_iter().chain(known).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Everything else, as the charter carries it. `FERRUM_*` is ours alone.
    #[must_use]
    pub fn for_commands(&self, secret_names: &[String]) -> Vec<(PathBytes, PathBytes)> {
        let kept = self.vars.iter().filter(|(name, _)| {
            !name.as_bytes().starts_with(b"FERRUM_")
                && !secret_names.iter().any(|secret| name == secret.as_str())
        });
        let bytes = |text: &OsString| PathBytes(text.as_bytes().to_vec());
        kept.map(|(name, value)| (bytes(name), bytes(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        Environment::from_vars(vars.iter().map(|(n, v)| (n.into(), v.into())).collect())
    }

    #[test]
    fn keys_and_our_own_variables_are_not_for_commands() {
        let environment = environment(&[
            ("PATH", "/bin"),
            ("MY_KEY", "secret-value"),
            ("OPENAI_API_KEY", "sk"),
            ("FERRUM_CONFIG_DIR", "/c"),
        ]);
        let names = Environment::secret_names(["MY_KEY"]);
        assert_eq!(
            environment.for_commands(&names),
            [(PathBytes(b"PATH".to_vec()), PathBytes(b"/bin".to_vec()))]
        );
        assert!(environment.secret("MY_KEY").is_some());
        assert!(environment.secret("OTHER").is_none());
    }

    #[test]
    fn flags_have_four_spellings() {
        let environment = environment(&[("A", "1"), ("B", "TRUE"), ("C", "0"), ("D", "")]);
        assert_eq!(
            ["A", "B", "C", "D", "E"].map(|name| environment.flag(name)),
            [true, true, false, false, false]
        );
    }
}
