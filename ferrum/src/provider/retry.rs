//! May a failed request be sent again, and when?

use super::{Event, ProviderError};
use reqwest::header::HeaderMap;
use std::time::{Duration, SystemTime};

/// Retries after the first attempt.
pub const RETRIES_MAX: u32 = 3;
/// Longest `Retry-After` that is waited for; a longer one fails at once and is told.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The pause before the next attempt, or `None` when the failure is final. `first` is the pause
/// after the first failure where the provider states none; it doubles.
#[must_use]
pub fn pause(error: &ProviderError, retries_done: u32, first: Duration) -> Option<Duration> {
    if retries_done >= RETRIES_MAX {
        return None;
    }
    let growth = 1 << retries_done;
    match error {
        // Nothing was sent. A local server that is not there yet is the usual case: short pauses.
        ProviderError::Connect { .. } => Some(Duration::from_millis(250) * growth),
        ProviderError::Status { quota: true, .. } => None,
        ProviderError::Status {
            status: 408 | 429 | 500..=599,
            retry_after,
            ..
        }
        | ProviderError::Passing {
            wait: retry_after, ..
        } => match retry_after {
            Some(wait) => Some(*wait).filter(|wait| *wait <= WAIT_MAX),
            None => Some(first * growth),
        },
        // A broken connection or a timeout leaves open whether the model has already answered.
        ProviderError::Status { .. }
        | ProviderError::Config(_)
        | ProviderError::Login(_)
        | ProviderError::UsageLimit(_)
        | ProviderError::Broken { .. }
        | ProviderError::Timeout { .. }
        | ProviderError::Reported(_)
        | ProviderError::Overflow(_)
        | ProviderError::Incomplete(_)
        | ProviderError::Malformed(_)
        | ProviderError::TooLarge(_) => None,
    }
}

/// Runs attempts until one succeeds or a failure is final. Text of an attempt that somebody has
/// seen makes its failure final; where `buffered`, nobody sees any, and a failed attempt leaves no
/// trace.
///
/// # Errors
/// That of the last attempt.
pub async fn run<T>(
    first: Duration,
    buffered: bool,
    on_event: &mut dyn FnMut(Event<'_>),
    mut attempt: impl AsyncFnMut(&mut dyn FnMut(Event<'_>)) -> Result<T, ProviderError>,
) -> Result<T, ProviderError> {
    let mut retries = 0;
    loop {
        let mut exposed = false;
        let mut show = |event: Event<'_>| {
            if !buffered {
                exposed |= matches!(event, Event::Text(_));
                on_event(event);
            }
        };
        let why = match attempt(&mut show).await {
            Ok(done) => return Ok(done),
            Err(why) => why,
        };
        let Some(wait) = pause(&why, retries, first).filter(|_| !exposed) else {
            return Err(why);
        };
        on_event(Event::Retry { why: &why, wait });
        tokio::time::sleep(wait).await;
        retries += 1;
    }
}

/// Reads the headers by which an answer says when to come back.
#[must_use]
pub fn wanted_pause(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let milliseconds = text("retry-after-ms").and_then(|ms| ms.trim().parse::<f64>().ok());
    milliseconds
        .and_then(|ms| Duration::try_from_secs_f64(ms / 1_000.0).ok())
        .or_else(|| retry_after(text("retry-after")?, now))
}

/// Reads a `Retry-After` header (RFC 9110 §10.2.3): seconds, or an HTTP date. A date in the past
/// means "now".
#[must_use]
pub fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(1);

    fn status(status: u16, retry_after: Option<u64>) -> ProviderError {
        ProviderError::Status {
            status,
            message: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
            quota: false,
        }
    }

    #[test]
    fn only_passing_failures_are_retried() {
        for code in [408, 429, 500, 502, 503, 529] {
            assert!(pause(&status(code, None), 0, FIRST).is_some(), "{code}");
        }
        for code in [400, 401, 403, 404, 413, 422] {
            assert!(pause(&status(code, None), 0, FIRST).is_none(), "{code}");
        }
        assert!(pause(&ProviderError::Incomplete("cut"), 0, FIRST).is_none());
        assert!(
            pause(
                &ProviderError::Timeout {
                    what: "answer",
                    seconds: 60
                },
                0,
                FIRST
            )
            .is_none()
        );
    }

    #[test]
    fn nothing_is_retried_more_than_three_times() {
        assert!(pause(&status(503, None), RETRIES_MAX - 1, FIRST).is_some());
        assert!(pause(&status(503, None), RETRIES_MAX, FIRST).is_none());
    }

    #[test]
    fn a_retry_after_above_the_bound_is_final() {
        assert_eq!(pause(&status(429, Some(60)), 0, FIRST), Some(WAIT_MAX));
        assert_eq!(pause(&status(429, Some(61)), 0, FIRST), None);
    }

    #[test]
    fn milliseconds_come_before_seconds() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        assert_eq!(
            wanted_pause(&headers, SystemTime::UNIX_EPOCH),
            Some(Duration::from_secs(7))
        );
        headers.insert("retry-after-ms", "1500".parse().unwrap());
        assert_eq!(
            wanted_pause(&headers, SystemTime::UNIX_EPOCH),
            Some(Duration::from_millis(1_500))
        );
        headers.insert("retry-after-ms", "soon".parse().unwrap());
        assert_eq!(
            wanted_pause(&headers, SystemTime::UNIX_EPOCH),
            Some(Duration::from_secs(7))
        );
    }

    #[test]
    fn both_forms_of_retry_after() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
        let date = httpdate::fmt_http_date(now + Duration::from_secs(9));
        assert_eq!(retry_after(&date, now), Some(Duration::from_secs(9)));
        assert_eq!(
            retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now),
            Some(Duration::ZERO)
        );
        assert_eq!(retry_after("soon", now), None);
        assert_eq!(retry_after("-5", now), None);
        assert_eq!(retry_after("1e300", now), None);
    }
}
