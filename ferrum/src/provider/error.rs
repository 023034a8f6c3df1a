//! What can go wrong with a provider, and how its error bodies are read.

use super::sse::SseError;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Characters of a provider's own message that are kept.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The settings cannot work; nothing was sent.
    #[error("{0}")]
    Config(String),
    /// The login is of no use any more; the operator must sign in again.
    #[error("login refused (401): {0}; run `ferrum login`")]
    Login(String),
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
    #[error("provider answered {status}{}: {message}{}", hint(*.status), too_long(*.retry_after))]
    Status {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
        /// A quota is used up: waiting some seconds does not help.
        quota: bool,
    },
    /// The plan's allowance is used up; the text says until when.
    #[error("{0}")]
    UsageLimit(String),
    /// The provider sent an error object inside an answer.
    #[error("provider reported an error: {0}")]
    Reported(String),
    /// As [`ProviderError::Reported`], of a kind that passes. `wait` is the provider's own word.
    #[error("provider reported an error that may pass: {message}")]
    Passing { message: String, wait: Option<Duration> },
    /// The conversation is longer than the model's context. Typed signals only. The one error
    /// after which a shorter conversation may succeed.
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
        529 => " (overloaded)",
        _ => "",
    }
}

fn too_long(retry_after: Option<Duration>) -> String {
    match retry_after.filter(|wait| *wait > super::retry::WAIT_MAX) {
        Some(wait) => format!("; it asks to come back in {}", span(wait)),
        None => String::new(),
    }
}

/// Reads an HTTP error answer. `body` may be anything.
#[must_use]
pub fn from_status(status: u16, body: &[u8], retry_after: Option<Duration>) -> ProviderError {
    let Some(error) = serde_json::from_slice(body).ok().map(error_object) else {
        return ProviderError::Status {
            status,
            message: plain(body),
            retry_after,
            quota: false,
        };
    };
    known(&error).unwrap_or_else(|| ProviderError::Status {
        status,
        message: message_of(&error),
        retry_after,
        quota: is_quota(&error),
    })
}

/// Reads an error object that came inside an answer with status 200.
#[must_use]
pub fn from_object(error: &Value) -> ProviderError {
    if let Some(known) = known(error) {
        return known;
    }
    let status = error.get("code").and_then(|code| match code {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => s.parse().ok(),
        _ => None,
    });
    let status = status.and_then(|s| u16::try_from(s).ok());
    match status.filter(|s| (400..600).contains(s)) {
        Some(status) => ProviderError::Status {
            status,
            message: message_of(error),
            retry_after: None,
            quota: is_quota(error),
        },
        None => ProviderError::Reported(message_of(error)),
    }
}

/// The object with the message: the whole body, its `error`, or the first entry of a list.
fn error_object(body: Value) -> Value {
    let body = match body {
        Value::Array(items) => items.into_iter().next().unwrap_or(Value::Null),
        other => other,
    };
    match body.get("error") {
        Some(error) if !error.is_null() => error.clone(),
        _ => body,
    }
}

/// The kinds of error that mean the same wherever they come.
fn known(error: &Value) -> Option<ProviderError> {
    if word(error, "type") == "usage_limit_reached" || word(error, "code") == "usage_limit_reached" {
        return Some(usage_limit(error, SystemTime::now()));
    }
    let message = message_of(error);
    is_overflow(error, &message).then_some(ProviderError::Overflow(message))
}

/// `resets_at` is in seconds since 1970, `resets_in_seconds` from now.
fn usage_limit(error: &Value, now: SystemTime) -> ProviderError {
    let plan = match word(error, "plan_type") {
        "" => String::new(),
        plan => format!(" of the plan {:?}", one_line(plan)),
    };
    let number = |key: &str| error.get(key).and_then(Value::as_f64);
    let seconds = |n: f64| Duration::try_from_secs_f64(n).ok();
    let at = number("resets_at")
        .and_then(seconds)
        .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    let at = at.or_else(|| now.checked_add(number("resets_in_seconds").and_then(seconds)?));
    // Beyond the year 9999 there is no way to write it.
    let at = at.filter(|at| *at < SystemTime::UNIX_EPOCH + Duration::from_secs(253_000_000_000));
    let when = match at {
        Some(at) => format!(
            "it resets at {} (in {})",
            httpdate::fmt_http_date(at),
            span(at.duration_since(now).unwrap_or_default())
        ),
        None => "the provider does not say when it resets".to_owned(),
    };
    ProviderError::UsageLimit(format!(
        "the usage limit{plan} is reached (usage_limit_reached); {when}"
    ))
}

/// A span in the two largest units that matter.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3_600),
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

/// The message of an error object, as one line. Never empty.
#[must_use]
pub fn message_of(error: &Value) -> String {
    let text = match error {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let text = ["message", "detail", "error", "type", "code"]
                .iter()
                .find_map(|key| fields.get(*key).and_then(Value::as_str).filter(|s| !s.is_empty()));
            // OpenRouter keeps the upstream provider's own words apart.
            let raw = fields
                .get("metadata")
                .and_then(|m| m.get("raw"))
                .and_then(Value::as_str);
            match (text, raw) {
                (Some(text), Some(raw)) => format!("{text}: {raw}"),
                (Some(text), None) => text.to_owned(),
                (None, _) if fields.is_empty() => String::new(),
                (None, _) => error.to_string(),
            }
        }
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match one_line(&text) {
        empty if empty.is_empty() => "no message".to_owned(),
        text => text,
    }
}

fn word<'a>(error: &'a Value, key: &str) -> &'a str {
    error.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_overflow(error: &Value, message: &str) -> bool {
    let (code, kind) = (word(error, "code"), word(error, "type"));
    code == "context_length_exceeded"
        || kind == "context_length_exceeded"
        || kind == "exceed_context_size_error"
        // LiteLLM states its exception class at the head of the text; its type is the generic one.
        || message.contains("ContextWindowExceededError")
        // Anthropic's kind is the generic one too, and its two texts are part of the contract.
        || kind == "request_too_large"
        || (kind == "invalid_request_error"
            && (message.starts_with("prompt is too long")
                || message.starts_with("input length and `max_tokens` exceed context limit")))
}

fn is_quota(error: &Value) -> bool {
    ["code", "type"].iter().any(|key| {
        matches!(
            word(error, key),
            "insufficient_quota" | "usage_not_included" | "billing_error"
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
        assert!(message(b"{}").contains("no message") && message(b"[]").contains("no message"));
        assert!(message(br#"[{"error":{"code":500,"message":"in a list"}}]"#).contains("in a list"));
        assert!(message(br#"{"detail":[{"msg":"no field"}]}"#).contains("no field"));
        assert!(message(b"\xff\x1b[2J").contains("[2J") && !message(b"\x1b[2J").contains('\x1b'));
        assert!(message(&vec![b'x'; 300_000]).len() < 1_200);
    }

    #[test]
    fn a_used_up_allowance_says_when_it_resets() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let error = serde_json::json!({"type": "usage_limit_reached", "plan_type": "plus", "resets_at": 1_000_009_000u64});
        let text = usage_limit(&error, now).to_string();
        for part in ["\"plus\"", "usage_limit_reached", "04:16:40 GMT", "in 2 h 30 min"] {
            assert!(text.contains(part), "{text}");
        }
        for odd in [-1.0, 1e18, 1e300] {
            let error = serde_json::json!({"resets_at": odd});
            assert!(usage_limit(&error, now).to_string().contains("does not say"));
        }
        let body = br#"{"error":{"type":"usage_limit_reached","message":"x","resets_at":4}}"#;
        assert!(matches!(
            from_status(429, body, None),
            ProviderError::UsageLimit(_)
        ));
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
