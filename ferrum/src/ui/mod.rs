//! What the operator sees.

pub mod paint;
pub mod render;
pub mod terminal_text;

use crate::agent::call::CallResult;
use crate::agent::message::Message;
use crate::provider::Event;
use ferrum_proto::seal::{Granted, Ready};
use serde_json::Value;

/// Where a turn's happenings go. Nothing here can change the turn.
pub trait View {
    /// True when text is wanted as it comes; then a failed attempt cannot be hidden.
    fn streams(&self) -> bool;
    /// Something about the answer that is coming.
    fn event(&mut self, event: Event<'_>);
    /// Policy and walls in force, once.
    fn ready(&mut self, granted: &Granted, ready: &Ready);
    /// A whole answer with text in it; its record is durable.
    fn assistant(&mut self, message: &Message);
    /// A call that is about to run.
    fn tool_call(&mut self, name: &str, input: &Value);
    fn tool_result(&mut self, name: &str, result: &CallResult);
    fn progress(&mut self, text: &str);
    fn notice(&mut self, text: &str);
}
