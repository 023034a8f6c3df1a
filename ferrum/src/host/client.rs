//! One session's tool host as the model loop sees it.

use ferrum_proto::reply::Reply;
use ferrum_proto::request::ToolRequest;
use ferrum_proto::seal::{Granted, Ready};

/// How one call ended, with its whole text.
pub struct ToolResult {
    pub reply: Reply,
    pub text: String,
}

/// The channel to the host broke; what the call did is not known.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("the tool host is gone: {0}")]
    Gone(String),
}

/// What the model loop needs of a host.
#[expect(
    async_fn_in_trait,
    reason = "the front runs on one thread; no Send bound is wanted"
)]
pub trait ToolHost {
    /// The policy in force; known before the first model request.
    fn granted(&self) -> &Granted;

    /// Waits until the walls are in force.
    ///
    /// # Errors
    /// A [`Fault`] when they cannot be.
    async fn ready(&self) -> Result<Ready, Fault>;

    /// One tool call. Dropping the future cancels it.
    ///
    /// # Errors
    /// A [`Fault`] when the channel broke; a tool's own failure is a result.
    async fn call(&self, request: ToolRequest, progress: &mut dyn FnMut(&str)) -> Result<ToolResult, Fault>;
}
