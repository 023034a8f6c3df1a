//! Removes what could steer a terminal from untrusted text.

/// The text without control characters but line ends and tabs.
#[must_use]
pub fn sanitise(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !c.is_control())
        .collect()
}
