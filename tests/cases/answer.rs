//! What a model got for one call: the text, and what it says about a command.

/// Success, failure and refusal are three different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Done,
    Failed,
    Refused,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub kind: Kind,
    pub text: String,
    /// Known where the call went through a whole turn.
    pub is_error: Option<bool>,
}

impl Answer {
    /// Reads a result as it stands in a conversation.
    pub fn of_conversation(text: &str, is_error: bool) -> Self {
        let kind = if text.starts_with("refused by policy") {
            Kind::Refused
        } else if is_error && !text.starts_with("outcome: ") && !text.starts_with("wait_reason: ") {
            Kind::Failed
        } else {
            Kind::Done
        };
        Self {
            kind,
            text: text.to_owned(),
            is_error: Some(is_error),
        }
    }

    /// True where a case's word for an end means this one.
    pub fn is(&self, word: &str) -> bool {
        match word {
            "ok" => self.kind == Kind::Done,
            "error" => self.kind != Kind::Done,
            "rejected" => self.kind == Kind::Refused,
            // Of a command: it was not started.
            "refused" => self.kind != Kind::Done,
            "exited" | "timed-out" | "cancelled" => {
                self.kind == Kind::Done
                    && self.line("outcome").map(|end| end.replace('_', "-")).as_deref() == Some(word)
            }
            _ => false,
        }
    }

    /// The value of one of the fixed lines before the program's output.
    pub fn line(&self, name: &str) -> Option<&str> {
        let head = self
            .text
            .find("\nstdout (")
            .map_or(self.text.as_str(), |at| &self.text[..at]);
        head.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub fn status(&self) -> Option<i64> {
        self.line("status")?
            .strip_prefix("Some(")?
            .strip_suffix(')')?
            .parse()
            .ok()
    }

    pub fn signal(&self) -> Option<i64> {
        self.line("signal")?.split(' ').next()?.parse().ok()
    }

    pub fn stdout(&self) -> String {
        self.streams().0
    }

    pub fn stderr(&self) -> String {
        self.streams().1
    }

    /// Both streams as shown. The first heading is ours, whatever the program printed; where the
    /// second stands follows from the first's length, unless bytes are shown escaped or left out.
    fn streams(&self) -> (String, String) {
        let Some((count, body)) = heading(&self.text, "stdout") else {
            return (String::new(), String::new());
        };
        let exact = body
            .get(..count)
            .filter(|_| body[count..].trim_start_matches('\n').starts_with("stderr ("));
        let out = exact.unwrap_or_else(|| body.rfind("\nstderr (").map_or(body, |at| &body[..=at]));
        let rest = body[out.len()..].trim_start_matches('\n');
        let err = heading(&format!("\n{rest}"), "stderr")
            .map_or(String::new(), |(count, text)| padded(text, count));
        (out.to_owned(), err)
    }
}

fn heading<'a>(text: &'a str, name: &str) -> Option<(usize, &'a str)> {
    let at = text.find(&format!("\n{name} ("))?;
    let (line, body) = text[at + 1..].split_once('\n').unwrap_or((&text[at + 1..], ""));
    let count = line.split(['(', ' ']).nth(2)?.parse().ok()?;
    Some((count, body))
}

/// The end of a result is trimmed to one line end.
fn padded(text: &str, count: usize) -> String {
    let text = text.get(..count).unwrap_or(text);
    format!("{text}{}", "\n".repeat(count.saturating_sub(text.len()).min(3)))
}
