//! The tour: what Ferrum does, shown through the real tools and walls, without a key.
//!
//! Everything that it says at the end is read from the results that it got.

use crate::agent::message::{ContentBlock, Message, Role};
use crate::provider::Request;
use serde_json::{Value, json};

/// One result of the tour so far, with its call.
struct Shown<'a> {
    name: &'a str,
    input: &'a Value,
    text: &'a str,
    is_error: bool,
}

const SUDO: &str = "sudo id";

/// What the tour's own program tries: text policy cannot see into it, so only a wall can hold it.
/// Where none does, it cleans up after itself and says so.
const INTRUDER: &str = "\
# Made by the Ferrum tour; removed at its end.
cat \"$HOME/.ssh/id_ed25519\" > /dev/null
echo planted > /usr/local/ferrum-tour && rm /usr/local/ferrum-tour && echo \"no wall held\"
exit 1
";

/// The tour's next message.
pub(super) fn next(request: &Request<'_>) -> Message {
    let begin = request
        .messages
        .iter()
        .rposition(|m| m.role == Role::User)
        .map_or(0, |at| at + 1);
    let said = &request.messages[begin..];
    if request.tools.is_empty() {
        return Message::text(
            Role::Assistant,
            "This is the built-in fake provider. Its tour needs tools, and they are off.",
        );
    }
    let shown = results(said);
    let (text, program) = names(&shown);
    let step = said.iter().filter(|m| m.role == Role::Assistant).count();
    match step {
        0 => say(
            "This is Ferrum's tour: no model, but the real tools, policy and \
             walls, in this directory. First a look around.",
            &[
                ("ls", json!({"path": "."})),
                ("find", json!({"path": ".", "limit": 20})),
            ],
        ),
        1 => say("Reading and searching run side by side.", &look(&shown)),
        2 => say(
            "Now a file of the tour's own: written, then edited.",
            &[
                (
                    "write",
                    json!({"path": text, "content": "The tour was here.\nThis line will change.\n"}),
                ),
                (
                    "edit",
                    json!({"path": text, "edits": [{"old_text": "will change", "new_text": "has changed"}]}),
                ),
            ],
        ),
        3 => say(
            "A command, in its own cgroup and namespaces:",
            &[("bash", json!({"command": format!("cat {text} && wc -l {text}")}))],
        ),
        4 => say(
            "A command that the text policy refuses before anything starts:",
            &[("bash", json!({"command": SUDO}))],
        ),
        5 => say(
            "And a program whose inside no text policy sees. It tries to read an SSH key and to write to \
             /usr/local; only the kernel's walls can stop it.",
            &[
                ("write", json!({"path": program, "content": INTRUDER})),
                ("bash", json!({"command": format!("sh ./{program}")})),
            ],
        ),
        6 => say(
            "Cleaning up.",
            &[("bash", json!({"command": format!("rm -f {text} {program}")}))],
        ),
        _ => Message::text(Role::Assistant, summary(&shown, &program)),
    }
}

fn say(text: &str, calls: &[(&str, Value)]) -> Message {
    let mut content = vec![ContentBlock::Text {
        text: text.to_owned(),
    }];
    content.extend(calls.iter().map(|(name, input)| ContentBlock::ToolUse {
        id: format!("tour_{}", uuid::Uuid::new_v4().simple()),
        name: (*name).to_owned(),
        input: input.clone(),
        invalid: None,
        extra_content: None,
    }));
    Message {
        role: Role::Assistant,
        content,
        usage: None,
    }
}

fn results(said: &[Message]) -> Vec<Shown<'_>> {
    let mut shown = Vec::new();
    for message in said {
        for block in &message.content {
            let ContentBlock::ToolResult {
                tool_use_id,
                content,
                is_error,
            } = block
            else {
                continue;
            };
            let call = said
                .iter()
                .flat_map(Message::tool_uses)
                .find(|call| call.id == tool_use_id);
            if let Some(call) = call {
                shown.push(Shown {
                    name: call.name,
                    input: call.input,
                    text: content,
                    is_error: *is_error,
                });
            }
        }
    }
    shown
}

/// Names for the tour's two files that are not taken in this directory.
fn names(shown: &[Shown<'_>]) -> (String, String) {
    let taken = shown.first().map_or("", |first| first.text);
    let stem = (1..100)
        .map(|n| {
            if n == 1 {
                "ferrum-tour".to_owned()
            } else {
                format!("ferrum-tour-{n}")
            }
        })
        .find(|stem| !taken.contains(&format!("{stem}.")))
        .unwrap_or_else(|| format!("ferrum-tour-{}", std::process::id()));
    (format!("{stem}.txt"), format!("{stem}.sh"))
}

/// Reads the first likely text file that the listings name, and searches beside it.
fn look(shown: &[Shown<'_>]) -> Vec<(&'static str, Value)> {
    let listed = shown
        .iter()
        .filter(|result| !result.is_error)
        .flat_map(|result| result.text.lines());
    let files: Vec<&str> = listed
        .map(|line| line.trim().trim_start_matches("./"))
        .filter(|line| is_text(line))
        .collect();
    let wanted = ["README.md", "Cargo.toml", "package.json", "pyproject.toml"];
    let file = wanted
        .iter()
        .find(|name| files.contains(*name))
        .copied()
        .or_else(|| files.first().copied());
    let search = (
        "grep",
        json!({"pattern": "^(fn|def|class|function) ", "path": ".", "limit": 5}),
    );
    match file {
        Some(file) => vec![("read", json!({"path": file, "limit": 5})), search],
        None => vec![search],
    }
}

fn is_text(name: &str) -> bool {
    let endings = [
        ".md", ".toml", ".txt", ".rs", ".py", ".js", ".ts", ".json", ".go", ".c", ".h", ".java", ".sh",
    ];
    !name.contains(' ') && endings.iter().any(|ending| name.ends_with(ending))
}

fn summary(shown: &[Shown<'_>], program: &str) -> String {
    let mut out = String::from("What happened, as the tools reported it:\n");
    for result in shown {
        let argument = ["command", "path"]
            .iter()
            .find_map(|key| result.input.get(*key).and_then(Value::as_str));
        out.push_str(&format!(
            "- {} {}: {}\n",
            result.name,
            argument.unwrap_or(""),
            verdict(result)
        ));
    }
    out.push('\n');
    out.push_str(&refusal(shown));
    out.push_str(&wall(shown, program));
    let isolation = shown
        .iter()
        .rev()
        .find_map(|result| field(result.text, "isolation: "));
    match isolation {
        Some(isolation) => out.push_str(&format!("Isolation in force: {isolation}.\n")),
        None => out.push_str("No command ran, so no result names the isolation in force.\n"),
    }
    out.push_str("To work with a model: `ferrum setup` finds one, or asks for it.");
    out
}

fn verdict(result: &Shown<'_>) -> String {
    if result.is_error {
        return format!("not done: {}", first_line(result.text));
    }
    match field(result.text, "status: ") {
        Some(status) => format!(
            "ran, status {}",
            status.trim_start_matches("Some(").trim_end_matches(')')
        ),
        None => "done".to_owned(),
    }
}

fn refusal(shown: &[Shown<'_>]) -> String {
    match shown
        .iter()
        .find(|result| result.input.get("command").and_then(Value::as_str) == Some(SUDO))
    {
        Some(result) if result.is_error => {
            format!("Text policy refused `{SUDO}`: {}\n", first_line(result.text))
        }
        Some(_) => format!("Text policy did NOT refuse `{SUDO}`.\n"),
        None => format!("`{SUDO}` was not tried.\n"),
    }
}

fn wall(shown: &[Shown<'_>], program: &str) -> String {
    let runs = |result: &&Shown<'_>| {
        let command = result.input.get("command").and_then(Value::as_str);
        command.is_some_and(|command| command == format!("sh ./{program}"))
    };
    let Some(result) = shown.iter().find(runs) else {
        return "The walls were not tried.\n".to_owned();
    };
    if result.is_error {
        return format!(
            "The program did not start, so the walls were not tried: {}\n",
            first_line(result.text)
        );
    }
    if result.text.contains("no wall held") {
        return "NO wall held: the program could write to /usr/local.\n".to_owned();
    }
    let denied = |line: &&str| {
        let line = line.to_ascii_lowercase();
        [
            "read-only file system",
            "permission denied",
            "operation not permitted",
            "no such file",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    let told: Vec<&str> = result.text.lines().map(str::trim).filter(denied).collect();
    if told.is_empty() {
        return "The program failed, but its output does not say at which wall.\n".to_owned();
    }
    format!("The kernel stopped the program: {}\n", told.join("; "))
}

/// The rest of the line that begins with `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("").chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::catalog;

    /// Plays the tour against answers made by `answer`.
    fn play(answer: impl Fn(&str, &Value) -> (String, bool)) -> Vec<Message> {
        let tools: Vec<_> = catalog::ALL.iter().collect();
        let mut messages = vec![Message::text(Role::User, "hello")];
        for _ in 0..20 {
            let request = Request {
                epoch: 0,
                messages: &messages,
                tools: &tools,
                may_call: true,
                nudge: None,
                buffered: true,
            };
            let message = next(&request);
            let calls: Vec<(String, String, Value)> = message
                .tool_uses()
                .map(|c| (c.id.to_owned(), c.name.to_owned(), c.input.clone()))
                .collect();
            messages.push(message);
            if calls.is_empty() {
                return messages;
            }
            for (id, name, input) in calls {
                let (text, is_error) = answer(&name, &input);
                messages.push(Message::tool_result(&id, text, is_error));
            }
        }
        panic!("the tour does not end");
    }

    #[test]
    fn the_summary_says_what_the_results_said() {
        let messages = play(|name, input| {
            match (name, input["command"].as_str()) {
            (_, Some(SUDO)) => ("privilege: sudo is refused".into(), true),
            (_, Some(c)) if c.starts_with("sh ") => (
                "outcome: exited\nstatus: Some(1)\nisolation: full\nstderr (9 bytes):\nsh: /usr/local/ferrum-tour: Read-only file system".into(),
                false,
            ),
            ("find", _) => ("src/main.rs\nREADME.md".into(), false),
            _ => ("ok".into(), false),
        }
        });
        let summary = messages.last().unwrap().visible_text();
        assert!(summary.contains("refused `sudo id`: privilege"), "{summary}");
        assert!(summary.contains("Read-only file system"), "{summary}");
        assert!(summary.contains("Isolation in force: full."), "{summary}");
        assert!(
            messages
                .iter()
                .flat_map(Message::tool_uses)
                .any(|c| c.input["path"] == "README.md")
        );
    }

    #[test]
    fn a_missing_wall_is_not_praised() {
        let messages = play(|_, input| match input["command"].as_str() {
            Some(c) if c.starts_with("sh ") => ("no wall held".into(), false),
            _ => ("ok".into(), false),
        });
        let summary = messages.last().unwrap().visible_text();
        assert!(
            summary.contains("NO wall held") && summary.contains("did NOT refuse"),
            "{summary}"
        );
    }

    #[test]
    fn files_of_the_user_are_not_taken_for_the_tours_own() {
        let messages = play(|name, _| {
            (
                if name == "ls" {
                    "ferrum-tour.txt\nferrum-tour-2.sh"
                } else {
                    ""
                }
                .into(),
                false,
            )
        });
        let written: Vec<&str> = messages
            .iter()
            .flat_map(Message::tool_uses)
            .filter(|c| c.name == "write")
            .filter_map(|c| c.input["path"].as_str())
            .collect();
        assert_eq!(written, ["ferrum-tour-3.txt", "ferrum-tour-3.sh"]);
    }
}
