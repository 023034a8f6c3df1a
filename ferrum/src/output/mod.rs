//! The forms in which a turn's events reach the operator: text, one JSON object, a JSON stream.

mod json;
mod outlet;
mod stream;
mod text;
pub mod wire;

pub(crate) use outlet::unwritten;

pub use json::Json;
pub use outlet::{Outlet, Stream};
pub use stream::StreamJson;
pub use text::Text;

use crate::agent::event::{Event, Sink};

/// What a form says of the session beside the grant.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    /// The session's file without its directory and ending.
    pub id: String,
    pub path: String,
    /// It held records before.
    pub resumed: bool,
    pub provider: String,
    pub model: String,
}

/// The form that was asked for.
pub enum Output {
    Text(Text),
    Json(Json),
    Stream(StreamJson),
}

impl Output {
    /// Names the session; before its event.
    pub fn begin(&mut self, facts: SessionFacts) {
        match self {
            Self::Text(_) => {}
            Self::Json(json) => json.begin(facts),
            Self::Stream(stream) => stream.begin(facts),
        }
    }
}

impl Sink for Output {
    fn streams(&self) -> bool {
        match self {
            Self::Text(text) => text.streams(),
            Self::Json(json) => json.streams(),
            Self::Stream(stream) => stream.streams(),
        }
    }

    fn record(&mut self, event: Event<'_>) {
        match self {
            Self::Text(text) => text.record(event),
            Self::Json(json) => json.record(event),
            Self::Stream(stream) => stream.record(event),
        }
    }

    async fn room(&mut self) {
        match self {
            Self::Text(text) => text.room().await,
            Self::Json(json) => json.room().await,
            Self::Stream(stream) => stream.room().await,
        }
    }
}
