//! What the beginning of a session file says, without reading the rest.

use super::log::{self, LogError};
use super::record::{self, Body};
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes that are looked at: a header, and then the first message.
const HEAD_BYTES_MAX: u64 = 256 << 10;

/// The header, and whether anything was said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peek {
    /// The header's own id; empty where there is no header.
    pub id: String,
    pub mode: Option<String>,
    pub cwd: Option<PathBuf>,
    pub has_message: bool,
}

/// Looks at the beginning of a file. What cannot be read in it counts as absent.
///
/// # Errors
/// [`LogError`] when it cannot be opened as a session file at all.
pub fn peek(path: &Path) -> Result<Peek, LogError> {
    let mut reader = BufReader::new(log::open_to_read(path)?.take(HEAD_BYTES_MAX));
    let mut peek = Peek::default();
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line) {
        let text = line.trim_ascii();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        match serde_json::from_slice::<Value>(text).map(record::parse) {
            Ok(Ok(record)) => match record.body {
                Body::Header(fields) => take(&mut peek, record.id, &fields),
                Body::Message(_) => peek.has_message = true,
                Body::Metadata(_) | Body::Compaction(_) | Body::Unknown(_) => {}
            },
            // A first message that is longer than what is looked at.
            Err(_) if text.starts_with(b"{\"type\":\"message\"") => peek.has_message = true,
            _ => {}
        }
        if peek.has_message {
            break;
        }
        line.clear();
    }
    Ok(peek)
}

fn take(peek: &mut Peek, id: String, fields: &Map<String, Value>) {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    peek.id = id;
    peek.mode = text("mode");
    peek.cwd = text("cwd").map(PathBuf::from);
}
