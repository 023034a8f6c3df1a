//! The model's argument text turned into a typed call. Pure; the host checks it all again.

use ferrum_proto::request::{Bash, Edit, Find, Grep, Ls, Read, Replacement, ToolRequest, Until, Wait, Write};
use serde_json::{Map, Value};

/// Edits of one call.
const EDITS_MAX: usize = 1_000;
/// Characters of a pattern that `wait` looks for.
const UNTIL_CHARS_MAX: usize = 1_024;
const ENTRIES_MAX: u64 = 10_000;
const WAIT_MAX_SECONDS: u64 = 7 * 24 * 3_600;
/// Characters of a foreign name that a message repeats.
const NAME_CHARS_MAX: usize = 60;

/// One checked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Goes to the tool host.
    Host(ToolRequest),
    HistorySearch {
        query: String,
        literal: bool,
        ignore_case: bool,
        limit: usize,
    },
    HistoryRead {
        offset: usize,
        limit: usize,
    },
}

/// Arguments that no call can be made of. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tool}: {what}")]
pub struct ArgsError {
    tool: String,
    what: String,
}

/// Reads the arguments of the tool `name`. Empty text and `null` mean no arguments.
///
/// # Errors
/// [`ArgsError`] naming the argument that is missing, unknown or of the wrong type or range.
pub fn parse(name: &str, json: &str) -> Result<Call, ArgsError> {
    let value = if json.trim().is_empty() {
        Ok(Value::Null)
    } else {
        serde_json::from_str(json).map_err(|e| format!("arguments are not valid JSON: {e}"))
    };
    value
        .and_then(|value| call(name, value))
        .map_err(|what| ArgsError {
            tool: clip(name),
            what,
        })
}

/// As [`parse`], for arguments that are JSON already.
///
/// # Errors
/// As [`parse`].
pub fn from_value(name: &str, input: Value) -> Result<Call, ArgsError> {
    call(name, input).map_err(|what| ArgsError {
        tool: clip(name),
        what,
    })
}

fn call(name: &str, input: Value) -> Result<Call, String> {
    let mut fields = match input {
        Value::Object(fields) => Fields(fields),
        Value::Null => Fields(Map::new()),
        Value::Array(_) | Value::String(_) | Value::Bool(_) | Value::Number(_) => {
            return Err("arguments must be a JSON object".to_owned());
        }
    };
    let call = match name {
        "read" => Call::Host(ToolRequest::Read(read(&mut fields)?)),
        "write" => Call::Host(ToolRequest::Write(Write {
            path: fields.path()?,
            content: fields.string("content")?,
        })),
        "edit" => Call::Host(ToolRequest::Edit(Edit {
            path: fields.path()?,
            edits: fields.edits()?,
        })),
        "ls" => Call::Host(ToolRequest::Ls(Ls {
            path: fields.path()?,
            limit: fields.optional_integer("limit", 1, ENTRIES_MAX)?,
        })),
        "find" => Call::Host(ToolRequest::Find(find(&mut fields)?)),
        "grep" => Call::Host(ToolRequest::Grep(grep(&mut fields)?)),
        "bash" => Call::Host(ToolRequest::Bash(Bash {
            command: fields.filled("command")?,
            timeout_seconds: fields.small("timeout_seconds", 600)?,
        })),
        "wait" => Call::Host(ToolRequest::Wait(wait(&mut fields)?)),
        "history_search" => Call::HistorySearch {
            query: fields.filled("query")?,
            literal: fields.boolean("literal", true)?,
            ignore_case: fields.boolean("ignore_case", true)?,
            limit: fields.count("limit", 50)?.unwrap_or(10),
        },
        "history_read" => Call::HistoryRead {
            offset: fields
                .count("offset", u64::from(u32::MAX))?
                .ok_or_else(|| "argument \"offset\" is missing".to_owned())?,
            limit: fields.count("limit", 100)?.unwrap_or(20),
        },
        _ => return Err("no such tool".to_owned()),
    };
    fields.end()?;
    Ok(call)
}

fn read(fields: &mut Fields) -> Result<Read, String> {
    Ok(Read {
        path: fields.path()?,
        offset: fields.optional_integer("offset", 1, u64::MAX)?,
        limit: fields.optional_integer("limit", 1, u64::MAX)?,
    })
}

fn find(fields: &mut Fields) -> Result<Find, String> {
    Ok(Find {
        path: fields.path()?,
        pattern: fields.optional_string("pattern")?,
        name: fields.optional_string("name")?,
        extension: fields.optional_string("extension")?,
        limit: fields.optional_integer("limit", 1, ENTRIES_MAX)?,
    })
}

fn grep(fields: &mut Fields) -> Result<Grep, String> {
    let context = fields.optional_integer("context", 0, 20)?.unwrap_or(0);
    Ok(Grep {
        pattern: fields.filled("pattern")?,
        path: fields.path()?,
        glob: fields.optional_string("glob")?,
        ignore_case: fields.boolean("ignore_case", false)?,
        literal: fields.boolean("literal", false)?,
        context: u32::try_from(context).map_err(|_| "argument \"context\" is too large".to_owned())?,
        limit: fields.optional_integer("limit", 1, ENTRIES_MAX)?,
    })
}

fn wait(fields: &mut Fields) -> Result<Wait, String> {
    let wait = Wait {
        seconds: fields
            .small("seconds", 1_800)?
            .ok_or_else(|| missing("seconds"))?,
        command: fields.filled("command")?,
        timeout_seconds: fields.small("timeout_seconds", 600)?,
        until: fields.until()?,
        max_wait_seconds: fields.small("max_wait_seconds", WAIT_MAX_SECONDS)?,
    };
    if wait.until.is_some() != wait.max_wait_seconds.is_some() {
        return Err("arguments \"until\" and \"max_wait_seconds\" need each other".to_owned());
    }
    Ok(wait)
}

/// The fields that are still unread.
struct Fields(Map<String, Value>);

impl Fields {
    /// A null counts as left out: models write it for optional arguments.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn optional_string(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, "a string", &other)),
        }
    }

    fn string(&mut self, name: &str) -> Result<String, String> {
        self.optional_string(name)?.ok_or_else(|| missing(name))
    }

    fn filled(&mut self, name: &str) -> Result<String, String> {
        match self.string(name)? {
            text if text.is_empty() => Err(format!("argument \"{name}\" is empty")),
            text => Ok(text),
        }
    }

    fn path(&mut self) -> Result<String, String> {
        let path = self.filled("path")?;
        if path.contains('\0') {
            return Err("argument \"path\" holds a NUL byte".to_owned());
        }
        Ok(path)
    }

    fn boolean(&mut self, name: &str, default: bool) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    fn optional_integer(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let whole = value.as_u64().or_else(|| whole_float(&value));
        match whole {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ if most == u64::MAX => Err(wrong(name, &format!("a whole number, at least {least}"), &value)),
            _ => Err(wrong(
                name,
                &format!("a whole number from {least} to {most}"),
                &value,
            )),
        }
    }

    fn small(&mut self, name: &str, most: u64) -> Result<Option<u32>, String> {
        let number = self.optional_integer(name, 1, most)?;
        number
            .map(|n| u32::try_from(n).map_err(|_| format!("argument \"{name}\" is too large")))
            .transpose()
    }

    fn count(&mut self, name: &str, most: u64) -> Result<Option<usize>, String> {
        let number = self.optional_integer(name, 1, most)?;
        number
            .map(|n| usize::try_from(n).map_err(|_| format!("argument \"{name}\" is too large")))
            .transpose()
    }

    fn edits(&mut self) -> Result<Vec<Replacement>, String> {
        let items = match self.take("edits") {
            None => return Err(missing("edits")),
            Some(Value::Array(items)) if items.is_empty() => {
                return Err("argument \"edits\" is empty".to_owned());
            }
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong("edits", "an array", &other)),
        };
        if items.len() > EDITS_MAX {
            return Err(format!("argument \"edits\" has more than {EDITS_MAX} entries"));
        }
        let edit = |(at, item): (usize, Value)| {
            let place = |what: String| format!("edits[{at}]: {what}");
            let Value::Object(fields) = item else {
                return Err(place("must be an object with old_text and new_text".to_owned()));
            };
            let mut fields = Fields(fields);
            let edit = Replacement {
                old_text: fields.filled("old_text").map_err(place)?,
                new_text: fields.string("new_text").map_err(place)?,
            };
            fields.end().map_err(place)?;
            Ok(edit)
        };
        items.into_iter().enumerate().map(edit).collect()
    }

    fn until(&mut self) -> Result<Option<Until>, String> {
        let fields = match self.take("until") {
            None => return Ok(None),
            Some(Value::Object(fields)) => fields,
            Some(other) => return Err(wrong("until", "an object with output_matches", &other)),
        };
        let mut fields = Fields(fields);
        let until = Until {
            output_matches: fields.filled("output_matches")?,
        };
        fields.end()?;
        if until.output_matches.chars().count() > UNTIL_CHARS_MAX {
            return Err(format!(
                "argument \"output_matches\" is longer than {UNTIL_CHARS_MAX} characters"
            ));
        }
        Ok(Some(until))
    }

    fn end(&self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("unknown argument {:?}", clip(name))),
        }
    }
}

/// `5.0` is 5: some models write numbers so.
fn whole_float(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    // The text form is exact where the number is whole and small, and needs no cast.
    (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then(|| format!("{number:.0}").parse().ok())?
}

fn missing(name: &str) -> String {
    format!("argument \"{name}\" is missing")
}

fn wrong(name: &str, wanted: &str, got: &Value) -> String {
    let got = match got {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => clip(&number.to_string()),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("argument \"{name}\" must be {wanted}, not {got}")
}

fn clip(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(NAME_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(name: &str, json: &str, expected: &str) {
        let got = match parse(name, json) {
            Ok(call) => format!("{call:?}"),
            Err(error) => error.to_string(),
        };
        assert!(got.contains(expected), "{name} {json}: {got}");
    }

    #[test]
    fn calls_are_read_and_faults_named() {
        check(
            "read",
            r#"{"path":"a"}"#,
            r#"Read { path: "a", offset: None, limit: None }"#,
        );
        check(
            "read",
            r#"{"path":"a","offset":2.0,"limit":null}"#,
            "offset: Some(2), limit: None",
        );
        check("read", "", r#"read: argument "path" is missing"#);
        check("read", "null", r#"argument "path" is missing"#);
        check(
            "read",
            r#"{"path":"a","offset":0}"#,
            r#""offset" must be a whole number, at least 1, not 0"#,
        );
        check("read", r#"{"path":"a","lines":1}"#, r#"unknown argument "lines""#);
        check("read", r#"{"path":7}"#, r#""path" must be a string, not 7"#);
        check("read", r#"{"path":"a\u0000"}"#, "NUL");
        check("read", "{", "not valid JSON");
        check("read", "[]", "must be a JSON object");
        check(
            "write",
            r#"{"path":"a","content":""}"#,
            r#"Write { path: "a", content: "" }"#,
        );
        check("edit", r#"{"path":"a","edits":[]}"#, r#""edits" is empty"#);
        check(
            "edit",
            r#"{"path":"a","edits":[{"old_text":"x"}]}"#,
            r#"edits[0]: argument "new_text" is missing"#,
        );
        check(
            "edit",
            r#"{"path":"a","edits":[{"old_text":"x","new_text":"","all":1}]}"#,
            r#"edits[0]: unknown argument "all""#,
        );
        check("ls", r#"{"path":".","limit":10000}"#, "limit: Some(10000)");
        check("ls", r#"{"path":".","limit":10001}"#, "from 1 to 10000");
        check(
            "grep",
            r#"{"pattern":"x","path":".","context":21}"#,
            "from 0 to 20",
        );
        check("bash", r#"{"command":"ls","timeout_seconds":600}"#, "Some(600)");
        check(
            "bash",
            r#"{"command":"ls","timeout_seconds":601}"#,
            "from 1 to 600",
        );
        check("bash", r#"{"command":""}"#, r#""command" is empty"#);
        check("wait", r#"{"seconds":1,"command":"ls"}"#, "until: None");
        check(
            "wait",
            r#"{"seconds":1,"command":"ls","max_wait_seconds":5}"#,
            "need each other",
        );
        check(
            "wait",
            r#"{"seconds":1,"command":"ls","until":{"output_matches":"x"},"max_wait_seconds":5}"#,
            "Until",
        );
        check(
            "history_search",
            r#"{"query":"x"}"#,
            "literal: true, ignore_case: true, limit: 10",
        );
        check("history_read", r#"{"offset":3}"#, "offset: 3, limit: 20");
        check("history_read", "", r#""offset" is missing"#);
        check("teleport", "{}", "no such tool");
    }

    #[test]
    fn messages_stay_short() {
        let json = format!(r#"{{"path":"a","{}":1}}"#, "x".repeat(100_000));
        assert!(parse("read", &json).unwrap_err().to_string().len() < 200);
    }

    proptest! {
        #[test]
        fn no_text_panics(name in "[a-z_]{0,12}", json in ".{0,200}") {
            let _ = parse(&name, &json);
        }
    }
}
