//! One answer from its head to its end, in whatever form it comes: a stream of events, or one
//! JSON text. What the events mean is the wire format's.

use super::http::{
    BODY_BYTES_MAX, BODY_IDLE, BODY_TOTAL, Http, NO_EVENT, STREAM_BYTES_MAX, STREAM_IDLE, timed_out,
};
use super::sse::Decoder;
use super::{Completion, Event, ProviderError};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a stream may stay open after the model has finished: the token counts and the end
/// marker come at once or never.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// How long the last bytes of an answer are waited for, so that its connection serves again.
const DRAIN: Duration = Duration::from_secs(1);

/// What is expected after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    More,
    /// As a comment: the peer lives, but nothing has happened.
    Idle,
    /// The answer is whole; whatever follows is not ours.
    End,
}

/// How the event callback is handed down.
pub type Show<'a> = &'a mut dyn FnMut(Event<'_>);

/// An answer put together from its events. Pure.
pub trait Assembly {
    /// Takes the data of one event, or the whole of an answer that was not streamed.
    ///
    /// # Errors
    /// [`ProviderError`] for an error object, for what is no event, and above the bounds.
    fn take(&mut self, data: &[u8], show: Show<'_>) -> Result<Step, ProviderError>;

    /// The model has said that it stopped; only token counts can follow.
    fn is_finished(&self) -> bool;

    /// The whole message.
    ///
    /// # Errors
    /// [`ProviderError::Incomplete`] when no terminal event came.
    fn finish(self) -> Result<Completion, ProviderError>;
}

/// Reads the answer.
///
/// # Errors
/// Those of the assembly; [`ProviderError::Timeout`], [`ProviderError::Broken`] and
/// [`ProviderError::TooLarge`] of the way here.
pub async fn read(
    http: &Http,
    mut response: Response,
    mut answer: impl Assembly,
    show: Show<'_>,
) -> Result<Completion, ProviderError> {
    let media = media_type(&response);
    if media == "text/html" {
        return Err(not_an_answer(&media));
    }
    let mut body = Body::Unknown;
    let mut clock = Clock::start();
    let (mut total, mut any) = (0usize, false);
    loop {
        let limit = clock.limit(&body, answer.is_finished());
        let bytes = match timeout_at(limit.at, response.chunk()).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => break,
            Ok(Err(_)) | Err(_) if answer.is_finished() => return answer.finish(),
            Ok(Err(error)) => return Err(http.broken(&error)),
            Err(_) => return Err(limit.passed()),
        };
        total += bytes.len();
        if total > STREAM_BYTES_MAX {
            return Err(ProviderError::TooLarge(
                "the stream is larger than 64 MiB".to_owned(),
            ));
        }
        match body.push(&bytes, &media, &mut answer, show)? {
            Step::End => {
                drain(response);
                return answer.finish();
            }
            Step::More => {
                any = true;
                clock.event();
            }
            Step::Idle => {}
        }
    }
    body.end(&mut answer, show)?;
    match answer.finish() {
        Err(ProviderError::Incomplete(_)) if !any && !matches!(media.as_str(), "" | "text/event-stream") => {
            Err(not_an_answer(&media))
        }
        finished => finished,
    }
}

/// The form of a body, told by its first byte: servers send JSON where a stream was asked for,
/// and label either as the other.
enum Body {
    /// Nothing but blanks so far.
    Unknown,
    Events(Decoder),
    Json(Vec<u8>),
}

impl Body {
    fn push(
        &mut self,
        bytes: &[u8],
        media: &str,
        answer: &mut impl Assembly,
        show: Show<'_>,
    ) -> Result<Step, ProviderError> {
        if let Self::Unknown = self {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            *self = match first {
                None => return Ok(Step::Idle),
                Some(b'{' | b'[') => Self::Json(Vec::new()),
                Some(b'<') => return Err(not_an_answer(media)),
                Some(_) => Self::Events(Decoder::default()),
            };
        }
        match self {
            Self::Unknown => Ok(Step::Idle),
            Self::Events(decoder) => events(decoder, bytes, answer, show),
            Self::Json(whole) if whole.len() + bytes.len() > BODY_BYTES_MAX => Err(ProviderError::TooLarge(
                "the answer is larger than 32 MiB".to_owned(),
            )),
            Self::Json(whole) => {
                whole.extend_from_slice(bytes);
                Ok(Step::More)
            }
        }
    }

    fn end(self, answer: &mut impl Assembly, show: Show<'_>) -> Result<(), ProviderError> {
        match self {
            Self::Unknown => Ok(()),
            Self::Json(whole) => answer.take(&whole, show).map(|_| ()),
            Self::Events(decoder) => match decoder.finish() {
                None => Ok(()),
                // Half an event is no news: the answer then simply has no end.
                Some(rest) => match answer.take(&rest, show) {
                    Ok(_) | Err(ProviderError::Malformed(_)) => Ok(()),
                    Err(error) => Err(error),
                },
            },
        }
    }
}

fn events(
    decoder: &mut Decoder,
    bytes: &[u8],
    answer: &mut impl Assembly,
    show: Show<'_>,
) -> Result<Step, ProviderError> {
    decoder.push(bytes);
    let mut seen = Step::Idle;
    while let Some(data) = decoder.next_event()? {
        match answer.take(data, show)? {
            Step::End => return Ok(Step::End),
            Step::More => seen = Step::More,
            Step::Idle => {}
        }
    }
    Ok(seen)
}

/// The deadlines of one answer.
struct Clock {
    began: Instant,
    last_event: Instant,
}

struct Limit {
    at: Instant,
    what: &'static str,
    after: Duration,
}

impl Limit {
    fn new(what: &'static str, since: Instant, after: Duration) -> Self {
        Self {
            at: since + after,
            what,
            after,
        }
    }

    fn earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    fn passed(&self) -> ProviderError {
        timed_out(self.what, self.after)
    }
}

impl Clock {
    fn start() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            last_event: now,
        }
    }

    fn event(&mut self) {
        self.last_event = Instant::now();
    }

    /// Blank lines before a body and comments in a stream both say "still working".
    fn limit(&mut self, body: &Body, finished: bool) -> Limit {
        let now = Instant::now();
        let no_event = Limit::new("event of the answer", self.last_event, NO_EVENT);
        match body {
            _ if finished => Limit::new("end of the answer", now, AFTER_FINISH),
            Body::Json(_) => Limit::new("more of the answer", now, BODY_IDLE).earlier(Limit::new(
                "complete answer body",
                self.began,
                BODY_TOTAL,
            )),
            Body::Unknown => {
                self.began = now;
                Limit::new("data of the answer", now, STREAM_IDLE).earlier(no_event)
            }
            Body::Events(_) => Limit::new("data of the answer", now, STREAM_IDLE).earlier(no_event),
        }
    }
}

/// A connection can serve again only when its answer was read to the end. What is still to come
/// is the end of the encoding, as a rule; a peer that goes on is left alone.
fn drain(mut response: Response) {
    tokio::spawn(timeout(DRAIN, async move {
        let mut left = 64 << 10;
        while let Ok(Some(bytes)) = response.chunk().await {
            left = usize::saturating_sub(left, bytes.len());
            if left == 0 {
                break;
            }
        }
    }));
}

fn not_an_answer(media: &str) -> ProviderError {
    ProviderError::Malformed(format!(
        "content type {:?}, not an event stream; check base_url",
        super::error::one_line(media)
    ))
}

fn media_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE);
    let header = header.and_then(|value| value.to_str().ok()).unwrap_or("");
    let (media, _) = header.split_once(';').unwrap_or((header, ""));
    media.trim().to_ascii_lowercase()
}

/// Reads a body from its pieces, as [`read`] does from the network.
#[cfg(test)]
pub(super) fn pieces(
    mut answer: impl Assembly,
    pieces: &[&[u8]],
    show: Show<'_>,
) -> Result<Completion, ProviderError> {
    let mut body = Body::Unknown;
    for piece in pieces {
        if body.push(piece, "", &mut answer, show)? == Step::End {
            return answer.finish();
        }
    }
    body.end(&mut answer, show)?;
    answer.finish()
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
