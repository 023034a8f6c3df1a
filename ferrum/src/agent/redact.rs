//! Keeps the front's own secrets out of tool output: it is stored and sent to providers.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::borrow::Cow;

/// Shorter values are too likely to be ordinary text, in bytes.
pub const SECRET_BYTES_MIN: usize = 16;
const MARK: &str = "[redacted]";

/// The values that must not pass. No `Debug`.
#[derive(Default)]
pub struct Redactor {
    secrets: Vec<SecretString>,
}

impl Redactor {
    /// Values below 16 bytes and plain words are left out.
    #[must_use]
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let fit = |secret: &SecretString| {
            let text = secret.expose_secret();
            text.len() >= SECRET_BYTES_MIN && !text.bytes().all(|b| b.is_ascii_alphabetic())
        };
        Self {
            secrets: secrets.into_iter().filter(fit).collect(),
        }
    }

    /// The value with every text and key in it cleaned; borrowed where there is nothing to clean.
    #[must_use]
    pub fn value<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        if self.secrets.is_empty() {
            return Cow::Borrowed(value);
        }
        Cow::Owned(self.clean(value))
    }

    fn clean(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.replace(text)),
            Value::Array(items) => items.iter().map(|item| self.clean(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (self.replace(key), self.clean(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn replace(&self, text: &str) -> String {
        let secrets = self.secrets.iter();
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret.expose_secret(), MARK)
        })
    }

    /// The text without the secrets; says so at its end where one was in it.
    #[must_use]
    pub fn apply(&self, mut text: String) -> String {
        let mut count = 0;
        for secret in &self.secrets {
            let found = text.matches(secret.expose_secret()).count();
            if found > 0 {
                text = text.replace(secret.expose_secret(), MARK);
                count += found;
            }
        }
        if count > 0 {
            text.push_str(&format!("\n[ferrum: {count} secret value(s) redacted]"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_unlikely_values_are_redacted() {
        let secrets = ["sk-0123456789abcdef", "short-1", "internationalization"];
        let redactor = Redactor::new(secrets.iter().map(|s| SecretString::from(*s)).collect());
        let text = redactor.apply("a sk-0123456789abcdef b sk-0123456789abcdef".into());
        assert_eq!(
            text,
            "a [redacted] b [redacted]\n[ferrum: 2 secret value(s) redacted]"
        );
        let plain = "short-1 internationalization";
        assert_eq!(redactor.apply(plain.into()), plain);
    }

    #[test]
    fn values_are_cleaned_at_any_depth() {
        let redactor = Redactor::new(vec![SecretString::from("sk-0123456789abcdef")]);
        let value = serde_json::json!({"a": ["x sk-0123456789abcdef"], "sk-0123456789abcdef": 1, "n": null});
        let clean = serde_json::json!({"a": ["x [redacted]"], "[redacted]": 1, "n": null});
        assert_eq!(*redactor.value(&value), clean);
    }
}
