//! What the codes of a failed response mean for another attempt. Pure.

use crate::provider::ProviderError;
use crate::provider::error::{from_object, message_of};
use serde_json::Value;
use std::time::Duration;

/// Reads the error object of `response.failed` or of an `error` event. Kinds that another attempt
/// cannot help are final; whatever is not known may pass.
pub(super) fn of(error: &Value) -> ProviderError {
    let code = error["code"].as_str().unwrap_or_default();
    let message = message_of(error);
    let named = match code {
        "" => message.clone(),
        code => format!("{message} ({})", crate::provider::error::one_line(code)),
    };
    match code {
        "insufficient_quota"
        | "usage_not_included"
        | "invalid_prompt"
        | "server_is_overloaded"
        | "slow_down"
        | "cyber_policy"
        | "invalid_request_error" => ProviderError::Reported(named),
        "rate_limit_exceeded" => ProviderError::Passing {
            wait: said_pause(&message),
            message: named,
        },
        _ => match from_object(error) {
            ProviderError::Reported(_) => ProviderError::Passing {
                message: named,
                wait: None,
            },
            known => known,
        },
    }
}

/// "try again in 1.5s", "in 28ms", "in 2 minutes".
fn said_pause(message: &str) -> Option<Duration> {
    let lower = message.to_lowercase();
    let (_, rest) = lower.split_once("try again in ")?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let number: f64 = rest[..end].trim_end_matches('.').parse().ok()?;
    let unit = rest[end..].trim_start();
    let scale = if unit.starts_with("ms") || unit.starts_with("milli") {
        0.001
    } else if unit.starts_with('s') {
        1.0
    } else if unit.starts_with('m') {
        60.0
    } else if unit.starts_with('h') {
        3_600.0
    } else {
        return None;
    };
    Duration::try_from_secs_f64(number * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pause_in_words_is_read() {
        let read = |text: &str| said_pause(text).map(|pause| pause.as_millis());
        assert_eq!(
            read("Rate limit reached. Please try again in 1.5s. Visit"),
            Some(1_500)
        );
        assert_eq!(read("Please try again in 28ms."), Some(28));
        assert_eq!(read("Try again in 2 minutes"), Some(120_000));
        for none in [
            "try again later",
            "try again in",
            "try again in x s",
            "try again in 5",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn codes_have_their_meaning() {
        let of = |code: &str| of(&json!({"code": code, "message": "m"}));
        assert!(matches!(
            of("context_length_exceeded"),
            ProviderError::Overflow(_)
        ));
        assert!(matches!(of("usage_limit_reached"), ProviderError::UsageLimit(_)));
        for code in [
            "insufficient_quota",
            "usage_not_included",
            "invalid_prompt",
            "slow_down",
            "cyber_policy",
        ] {
            assert!(matches!(of(code), ProviderError::Reported(_)), "{code}");
        }
        for code in ["server_error", "brand_new", ""] {
            assert!(matches!(of(code), ProviderError::Passing { .. }), "{code}");
        }
    }
}
