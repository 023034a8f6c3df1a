//! Names, descriptions and schemas of the ten tools. Every word here is sent with each request
//! and paid for by the user: keep it short.

/// One tool as shown to the model.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema, as JSON text.
    pub parameters: &'static str,
}

/// Every tool there is.
pub const ALL: [Tool; 10] = [
    Tool {
        name: "read",
        description: "Read a text file: at most 50 KiB from line `offset` on.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer","minimum":1,"description":"first line, from 1"},"limit":{"type":"integer","minimum":1,"description":"number of lines"}},"required":["path"],"additionalProperties":false}"#,
    },
    Tool {
        name: "write",
        description: "Create a file or replace it whole. Parent directories are made.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}"#,
    },
    Tool {
        name: "edit",
        description: "Replace exact text in a file. Each old_text must occur exactly once in the file as it is now; edits must not overlap.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","minItems":1,"items":{"type":"object","properties":{"old_text":{"type":"string"},"new_text":{"type":"string"}},"required":["old_text","new_text"],"additionalProperties":false}}},"required":["path","edits"],"additionalProperties":false}"#,
    },
    Tool {
        name: "bash",
        description: "Run a bash command in the working directory, without a terminal or stdin. Everything it starts ends with the call. A policy judges the text first; kernel walls bound the rest.",
        parameters: r#"{"type":"object","properties":{"command":{"type":"string"},"timeout_seconds":{"type":"integer","minimum":1,"maximum":600,"description":"default 120"}},"required":["command"],"additionalProperties":false}"#,
    },
    Tool {
        name: "wait",
        description: "Sleep, then run a bash command as a check. With `until`, repeat until its output matches.",
        parameters: r#"{"type":"object","properties":{"seconds":{"type":"integer","minimum":1,"maximum":1800},"command":{"type":"string"},"timeout_seconds":{"type":"integer","minimum":1,"maximum":600},"until":{"type":"object","properties":{"output_matches":{"type":"string","maxLength":1024,"description":"Rust regex"}},"required":["output_matches"],"additionalProperties":false},"max_wait_seconds":{"type":"integer","minimum":1,"maximum":604800,"description":"needed with until"}},"required":["seconds","command"],"additionalProperties":false}"#,
    },
    Tool {
        name: "grep",
        description: "Search file contents by regex. Respects .gitignore.",
        parameters: r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"file or directory"},"glob":{"type":"string","description":"only files like this, e.g. *.rs"},"ignore_case":{"type":"boolean"},"literal":{"type":"boolean","description":"pattern is plain text"},"context":{"type":"integer","minimum":0,"maximum":20},"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"default 100"}},"required":["pattern","path"],"additionalProperties":false}"#,
    },
    Tool {
        name: "find",
        description: "Find files by name. Respects .gitignore.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"pattern":{"type":"string","description":"glob over the relative path"},"name":{"type":"string","description":"glob over the file name"},"extension":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"default 1000"}},"required":["path"],"additionalProperties":false}"#,
    },
    Tool {
        name: "ls",
        description: "List one directory.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"default 500"}},"required":["path"],"additionalProperties":false}"#,
    },
    Tool {
        name: "history_search",
        description: "Search this session's own records, also those that were compacted away.",
        parameters: r#"{"type":"object","properties":{"query":{"type":"string"},"literal":{"type":"boolean","description":"default true; false: regex"},"ignore_case":{"type":"boolean","description":"default true"},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"default 10"}},"required":["query"],"additionalProperties":false}"#,
    },
    Tool {
        name: "history_read",
        description: "Read this session's records from a line number that history_search gave.",
        parameters: r#"{"type":"object","properties":{"offset":{"type":"integer","minimum":1},"limit":{"type":"integer","minimum":1,"maximum":100,"description":"default 20"}},"required":["offset"],"additionalProperties":false}"#,
    },
];

/// The tool of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

/// The tools that `names` exposes, in this table's order.
#[must_use]
pub fn exposed(names: &[String]) -> Vec<&'static Tool> {
    ALL.iter()
        .filter(|tool| names.iter().any(|name| name == tool.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_json_and_closed() {
        for tool in &ALL {
            let schema: serde_json::Value = serde_json::from_str(tool.parameters).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    schema["properties"][name.as_str().unwrap()].is_object(),
                    "{}",
                    tool.name
                );
            }
        }
    }

    #[test]
    fn exposure_keeps_only_what_is_named() {
        let names = vec!["bash".to_owned(), "read".to_owned(), "unknown".to_owned()];
        let exposed: Vec<&str> = exposed(&names).iter().map(|tool| tool.name).collect();
        assert_eq!(exposed, ["read", "bash"]);
    }
}
