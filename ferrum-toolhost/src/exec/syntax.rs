//! The second opinion on syntax: what `bash -n` said, as a refusal.

use policy::Refusal;

/// Characters of a complaint that are shown: bash quotes the text that it does not understand.
const COMPLAINT_CHARS_MAX: usize = 200;

/// The refusal for what bash wrote on its error stream.
#[must_use]
pub fn refusal(complaint: &str) -> Refusal {
    let first = complaint.lines().next().unwrap_or_default();
    // `bash: line 3: what`
    let rest = first.strip_prefix("bash: ").unwrap_or(first);
    let (line, what) = match rest.strip_prefix("line ").and_then(|r| r.split_once(": ")) {
        Some((line, what)) => (line.parse().unwrap_or(1), what),
        None => (1, rest),
    };
    let what: String = what
        .chars()
        .filter(|c| !c.is_control())
        .take(COMPLAINT_CHARS_MAX)
        .collect();
    let hint = hint(&what);
    let mut refusal = Refusal::plain("malformed", format!("bash cannot read this: {what}"), hint);
    (refusal.line, refusal.column) = (line, 1);
    refusal
}

/// What to correct, as far as bash tells.
fn hint(complaint: &str) -> &'static str {
    if complaint.contains("here-document") {
        "put the delimiter alone on the last line"
    } else if complaint.contains("unexpected EOF") || complaint.contains("unexpected end of file") {
        "close what is open: a quote, a bracket, or a keyword such as if … fi"
    } else {
        "correct the syntax; quote characters that are meant as text"
    }
}

/// True where bash is asked: it must read what passes, and it says best what is wrong with a text
/// that cannot be read.
#[must_use]
pub fn is_asked(refusal: Option<&Refusal>) -> bool {
    refusal.is_none_or(|refusal| refusal.code == "unreadable")
}

/// True when bash read the whole text. An open here-document is only a warning to it.
#[must_use]
pub fn is_readable(succeeded: bool, complaint: &str) -> bool {
    succeeded && !complaint.contains("here-document")
}
