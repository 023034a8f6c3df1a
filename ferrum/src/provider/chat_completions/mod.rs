//! OpenAI's Chat Completions and the many servers that speak something like it.

mod answer;
mod calls;
mod chunk;
mod encode;

use super::http::{FIRST_BYTE, Http, NO_EVENT, STREAM_BYTES_MAX, STREAM_IDLE, timed_out};
use super::sse::Decoder;
use super::{Completion, Event, ProviderError, ProviderSettings, Request, retry};
use answer::{Answer, Step};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a stream may stay open after the model has finished: the token counts and the end
/// marker come at once or never.
const AFTER_FINISH: Duration = Duration::from_secs(2);

/// The adapter for one provider.
pub struct ChatCompletions {
    http: Http,
    body: encode::Body,
    streaming: bool,
}

impl ChatCompletions {
    /// # Errors
    /// [`ProviderError::Config`] when the settings cannot work.
    pub fn new(settings: ProviderSettings) -> Result<Self, ProviderError> {
        Ok(Self {
            http: Http::new(&settings, "/chat/completions")?,
            body: encode::Body::new(&settings),
            streaming: settings.streaming,
        })
    }

    /// Asks for the next assistant message.
    ///
    /// # Errors
    /// Any [`ProviderError`], after the retries that are sound.
    pub async fn complete(
        &mut self,
        request: Request<'_>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Completion, ProviderError> {
        let body = self.body.render(&request);
        let mut retries = 0;
        loop {
            let mut exposed = false;
            let mut show = |event: Event<'_>| {
                exposed |= matches!(event, Event::Text(_));
                on_event(event);
            };
            let shown: Option<&mut dyn FnMut(Event<'_>)> =
                if request.buffered { None } else { Some(&mut show) };
            let why = match self.attempt(body.clone(), shown).await {
                Ok(completion) => return Ok(completion),
                Err(why) => why,
            };
            let Some(wait) = retry::pause(&why, retries, exposed) else {
                return Err(why);
            };
            on_event(Event::Retry { why: &why, wait });
            tokio::time::sleep(wait).await;
            retries += 1;
        }
    }

    async fn attempt(
        &self,
        body: Vec<u8>,
        show: Option<&mut dyn FnMut(Event<'_>)>,
    ) -> Result<Completion, ProviderError> {
        let first_byte = if self.streaming { FIRST_BYTE } else { NO_EVENT };
        let response = self.http.post(body, first_byte).await?;
        match media_type(&response).as_str() {
            "text/event-stream" => self.stream(response, show).await,
            // The server does not stream, whatever it was asked.
            "application/json" => self.whole(response).await,
            "" if self.streaming => self.stream(response, show).await,
            "" => self.whole(response).await,
            other => Err(ProviderError::Malformed(format!(
                "content type {:?}, not an event stream; check base_url",
                super::error::one_line(other)
            ))),
        }
    }

    async fn whole(&self, response: Response) -> Result<Completion, ProviderError> {
        let body = self.http.body(response).await?;
        let mut answer = Answer::default();
        answer.take(&body, None)?;
        answer.finish()
    }

    async fn stream(
        &self,
        mut response: Response,
        mut show: Option<&mut dyn FnMut(Event<'_>)>,
    ) -> Result<Completion, ProviderError> {
        let mut decoder = Decoder::default();
        let mut answer = Answer::default();
        let mut total = 0usize;
        let mut last_event = Instant::now();
        loop {
            let now = Instant::now();
            let idle = if answer.is_finished() {
                AFTER_FINISH
            } else {
                STREAM_IDLE
            };
            let deadline = (now + idle).min(last_event + NO_EVENT);
            let bytes = match timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => break,
                Ok(Err(_)) | Err(_) if answer.is_finished() => return answer.finish(),
                Ok(Err(error)) => return Err(self.http.broken(&error)),
                Err(_) if deadline < now + idle => return Err(timed_out("event of the stream", NO_EVENT)),
                Err(_) => return Err(timed_out("data of the stream", STREAM_IDLE)),
            };
            total += bytes.len();
            if total > STREAM_BYTES_MAX {
                return Err(ProviderError::TooLarge(
                    "the stream is larger than 64 MiB".to_owned(),
                ));
            }
            decoder.push(&bytes);
            let mut seen = false;
            while let Some(data) = decoder.next_event()? {
                seen = true;
                // The borrow of the callback must end with each event.
                let shown: Option<&mut dyn FnMut(Event<'_>)> = match &mut show {
                    Some(show) => Some(&mut **show),
                    None => None,
                };
                if answer.take(data, shown)? == Step::End {
                    return answer.finish();
                }
            }
            if seen {
                last_event = Instant::now();
            }
        }
        if let Some(rest) = decoder.finish() {
            // Half an event is no news: the answer then simply has no end.
            match answer.take(&rest, None) {
                Ok(_) | Err(ProviderError::Malformed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        answer.finish()
    }
}

fn media_type(response: &Response) -> String {
    let header = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("");
    let (media, _) = header.split_once(';').unwrap_or((header, ""));
    media.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
