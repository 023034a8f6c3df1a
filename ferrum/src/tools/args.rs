//! The model's argument text turned into a typed call. Pure; the host checks it all again.

use ferrum_proto::request::{Bash, Ls, Read, ToolRequest};
use serde_json::Value;

/// One checked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Goes to the tool host.
    Host(ToolRequest),
    HistorySearch {
        query: String,
    },
    HistoryRead {
        offset: usize,
    },
}

/// Arguments that no call can be made of. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgsError(String);

/// Reads the arguments of the tool `name`.
///
/// # Errors
/// [`ArgsError`] naming what is wrong.
pub fn parse(name: &str, json: &str) -> Result<Call, ArgsError> {
    let value: Value = serde_json::from_str(json).map_err(|error| ArgsError(error.to_string()))?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let needed = |key: &str| text(key).ok_or_else(|| ArgsError(format!("{name}: `{key}` is missing")));
    Ok(match name {
        "read" => Call::Host(ToolRequest::Read(Read {
            path: needed("path")?,
            offset: None,
            limit: None,
        })),
        "ls" => Call::Host(ToolRequest::Ls(Ls {
            path: needed("path")?,
            limit: None,
        })),
        "bash" => Call::Host(ToolRequest::Bash(Bash {
            command: needed("command")?,
            timeout_seconds: None,
        })),
        "history_search" => Call::HistorySearch {
            query: needed("query")?,
        },
        "history_read" => Call::HistoryRead { offset: 1 },
        _ => return Err(ArgsError(format!("the tool `{name}` does not exist"))),
    })
}
