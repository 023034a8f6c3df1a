//! What can go wrong with a provider, and how its error bodies are read.

use super::sse::SseError;
use serde_json::Value;
use std::time::Duration;

/// Characters of a provider's own message that are kept.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The settings cannot work; nothing was sent.
    #[error("{0}")]
    Config(String),
    /// No connection was made; nothing was sent.
    #[error("cannot connect to {url}: {cause}")]
    Connect { url: String, cause: String },
    /// The connection broke; it is not known what the provider did.
    #[error("connection to {url} broke: {cause}")]
    Broken { url: String, cause: String },
    /// A deadline passed.
    #[error("no {what} within {seconds} s")]
    Timeout { what: &'static str, seconds: u64 },
    /// The provider refused by HTTP status, or by an error object that states one.
    #[error("provider answered {status}{}: {message}", hint(*.status))]
    Status {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
        /// A quota is used up: waiting some seconds does not help.
        quota: bool,
    },
    /// The provider sent an error object inside an answer.
    #[error("provider reported an error: {0}")]
    Reported(String),
    /// The conversation is longer than the model's context. Typed signals only.
    #[error("the conversation does not fit the model's context: {0}")]
    Overflow(String),
    /// The answer ended before its terminal event.
    #[error("the answer is incomplete: the stream ended without a terminal event ({0})")]
    Incomplete(&'static str),
    /// The answer is not what the wire format says.
    #[error("unexpected answer: {0}")]
    Malformed(String),
    /// The answer is above one of our bounds.
    #[error("the answer is too large: {0}")]
    TooLarge(String),
}

impl From<SseError> for ProviderError {
    fn from(error: SseError) -> Self {
        Self::TooLarge(error.to_string())
    }
}

fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => " (check the key named by api_key_env, or log in again)",
        404 => " (check base_url and model)",
        429 => " (rate limit)",
        _ => "",
    }
}

/// Reads an HTTP error answer. `body` may be anything.
#[must_use]
pub fn from_status(status: u16, body: &[u8], retry_after: Option<Duration>) -> ProviderError {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(value) = &value {
        let error = value.get("error").filter(|e| !e.is_null()).unwrap_or(value);
        let message = message_of(error).unwrap_or_else(|| "no message".to_owned());
        if is_overflow(error, &message) {
            return ProviderError::Overflow(message);
        }
        let quota = is_quota(error);
        return ProviderError::Status {
            status,
            message,
            retry_after,
            quota,
        };
    }
    ProviderError::Status {
        status,
        message: plain(body),
        retry_after,
        quota: false,
    }
}

/// Reads an error object that came inside an answer with status 200.
#[must_use]
pub fn from_object(error: &Value) -> ProviderError {
    let message = message_of(error).unwrap_or_else(|| "no message".to_owned());
    if is_overflow(error, &message) {
        return ProviderError::Overflow(message);
    }
    let status = error.get("code").and_then(|code| match code {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => s.parse().ok(),
        _ => None,
    });
    match status
        .and_then(|s| u16::try_from(s).ok())
        .filter(|s| (400..600).contains(s))
    {
        Some(status) => ProviderError::Status {
            status,
            message,
            retry_after: None,
            quota: is_quota(error),
        },
        None => ProviderError::Reported(message),
    }
}

/// Provider text made fit for one line of ours.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut out: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MESSAGE_CHARS_MAX)
        .collect();
    if text.chars().nth(MESSAGE_CHARS_MAX).is_some() {
        out.push('…');
    }
    out.trim().to_owned()
}

fn message_of(error: &Value) -> Option<String> {
    let text = match error {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let text = ["message", "detail", "error", "type"]
                .iter()
                .find_map(|key| fields.get(*key).and_then(Value::as_str).filter(|s| !s.is_empty()))?;
            // OpenRouter keeps the upstream provider's own words apart.
            match fields
                .get("metadata")
                .and_then(|m| m.get("raw"))
                .and_then(Value::as_str)
            {
                Some(raw) => format!("{text}: {raw}"),
                None => text.to_owned(),
            }
        }
        _ => return None,
    };
    Some(one_line(&text))
}

fn is_overflow(error: &Value, message: &str) -> bool {
    let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("");
    field("code") == "context_length_exceeded"
        || field("type") == "context_length_exceeded"
        || field("type") == "exceed_context_size_error"
        // LiteLLM states its exception class at the head of the text; its type is the generic one.
        || message.contains("ContextWindowExceededError")
}

fn is_quota(error: &Value) -> bool {
    ["code", "type"].iter().any(|key| {
        matches!(
            error.get(*key).and_then(Value::as_str),
            Some("insufficient_quota" | "usage_limit_reached" | "usage_not_included" | "billing_error")
        )
    })
}

fn plain(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * MESSAGE_CHARS_MAX)]);
    let text = text.trim();
    if text.is_empty() {
        "no message".to_owned()
    } else if text.starts_with('<') {
        "an HTML page, so this is probably not the API's address".to_owned()
    } else {
        one_line(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_overflow_is_recognised_and_prose_is_not() {
        for body in [
            r#"{"error":{"message":"max 8192","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            r#"{"error":{"code":400,"message":"request (12031 tokens) exceeds","type":"exceed_context_size_error"}}"#,
            r#"{"error":{"message":"litellm.ContextWindowExceededError: x","type":"invalid_request_error","code":"400"}}"#,
        ] {
            assert!(
                matches!(
                    from_status(400, body.as_bytes(), None),
                    ProviderError::Overflow(_)
                ),
                "{body}"
            );
        }
        let prose = br#"{"error":{"message":"Too many tokens, please wait","code":"429"}}"#;
        assert!(matches!(
            from_status(429, prose, None),
            ProviderError::Status { status: 429, .. }
        ));
    }

    #[test]
    fn bodies_of_every_kind_give_a_short_message() {
        let message = |body: &[u8]| from_status(500, body, None).to_string();
        assert!(message(br#"{"object":"error","message":"engine died","code":500}"#).contains("engine died"));
        assert!(message(br#"{"error":"plain text"}"#).contains("plain text"));
        assert!(message(b"<html><b>x</b>").contains("HTML page"));
        assert!(message(b"").contains("no message"));
        assert!(message(b"\xff\x1b[2J").contains("[2J") && !message(b"\x1b[2J").contains('\x1b'));
        assert!(message(&vec![b'x'; 300_000]).len() < 1_200);
    }

    #[test]
    fn a_number_inside_an_error_object_is_its_status() {
        let error = serde_json::json!({"code": 502, "message": "upstream"});
        assert!(matches!(
            from_object(&error),
            ProviderError::Status { status: 502, .. }
        ));
        let error = serde_json::json!({"message": "quota exceeded for demo", "code": null});
        assert!(matches!(from_object(&error), ProviderError::Reported(m) if m == "quota exceeded for demo"));
    }
}
