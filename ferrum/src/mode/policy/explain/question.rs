//! A question in words → a question on the wire.

use super::LINE_BYTES_MAX;
use crate::cli::ExplainArgs;
use crate::config::{SHELLS, TIERS};
use ferrum_proto::request::{Act, Query};
use ferrum_proto::terms::Isolation;
use serde_json::{Map, Value};

const ISOLATIONS: [(&str, Isolation); 3] = [
    ("partial", Isolation::Partial),
    ("kernel", Isolation::Kernel),
    ("full", Isolation::Full),
];

/// What can be asked about, each with the key that says what exactly.
const SUBJECTS: [(&str, &str); 11] = [
    ("bash", "command"),
    ("wait", "command"),
    ("read", "path"),
    ("ls", "path"),
    ("find", "path"),
    ("grep", "path"),
    ("write", "path"),
    ("edit", "path"),
    ("exec", "path"),
    ("connect", "address"),
    ("mcp", "server"),
];

/// # Errors
/// A sentence, for a subject that there is not or an address that is none.
pub(super) fn act(subject: &str, text: String) -> Result<Act, String> {
    match subject {
        "bash" | "wait" => Ok(Act::Run(text)),
        "read" | "ls" | "find" | "grep" => Ok(Act::Read(text)),
        "write" | "edit" => Ok(Act::Change(text)),
        "exec" => Ok(Act::Execute(text)),
        "connect" => address(&text),
        "mcp" => Ok(Act::Server(text)),
        _ => Err(unknown(subject)),
    }
}

fn unknown(subject: &str) -> String {
    let known: Vec<&str> = SUBJECTS.iter().map(|(subject, _)| *subject).collect();
    format!("{subject:?} cannot be asked about, only {}", known.join(", "))
}

fn address(text: &str) -> Result<Act, String> {
    let wrong = || format!("{text:?} is no HOST:PORT, such as example.org:443 or [::1]:8080");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_fine = match bracketed {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/', '[', ']', ' ']),
    };
    if !is_fine {
        return Err(wrong());
    }
    Ok(Act::Connect {
        host: bracketed.unwrap_or(host).to_owned(),
        port,
    })
}

/// The id (or null), and the question or what is wrong with it.
pub(super) fn read(text: &[u8], asked: &ExplainArgs) -> Result<(Value, Query), (Value, String)> {
    let wrong = |message: String| (Value::Null, message);
    if text.is_empty() {
        return Err(wrong(format!("the line has more than {LINE_BYTES_MAX} bytes")));
    }
    let parsed: Value = serde_json::from_slice(text).map_err(|e| wrong(format!("not JSON: {e}")))?;
    let Value::Object(mut fields) = parsed else {
        return Err(wrong("not a JSON object".to_owned()));
    };
    let id = fields.remove("id").unwrap_or(Value::Null);
    match query(fields, asked) {
        Ok(query) => Ok((id, query)),
        Err(message) => Err((id, message)),
    }
}

fn query(mut fields: Map<String, Value>, asked: &ExplainArgs) -> Result<Query, String> {
    let mut text = |key: &str| match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{key:?} is not a string")),
    };
    let (tier, shell, isolation) = (text("safety")?, text("shell")?, text("isolation")?);
    let tool = text("tool")?.unwrap_or_else(|| "bash".to_owned());
    let Some((_, key)) = SUBJECTS.iter().find(|(subject, _)| *subject == tool) else {
        return Err(unknown(&tool));
    };
    let given = text(key)?.ok_or_else(|| format!("a question about {tool} has {key:?}"))?;
    let detail = match fields.remove("detail") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(detail)) => detail,
        Some(_) => return Err("\"detail\" is not true or false".to_owned()),
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(format!("unknown key {unknown:?}"));
    }
    Ok(Query {
        tier: word(tier.as_deref(), &TIERS, "safety")?.or(asked.safety),
        shell: word(shell.as_deref(), &SHELLS, "shell")?.or(asked.shell),
        isolation: word(isolation.as_deref(), &ISOLATIONS, "isolation")?,
        act: act(&tool, given)?,
        tool,
        detail,
    })
}

fn word<T: Copy>(text: Option<&str>, table: &[(&str, T)], key: &str) -> Result<Option<T>, String> {
    let Some(text) = text else { return Ok(None) };
    match table.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let words: Vec<&str> = table.iter().map(|(word, _)| *word).collect();
            Err(format!("{key:?} is {text:?}, not one of {}", words.join(", ")))
        }
    }
}
