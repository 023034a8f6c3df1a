//! What a person copies out of a browser: the whole address, `code#state`, or the code alone. Pure.

use reqwest::Url;

/// Longest line that can be one, in bytes.
const PASTED_BYTES_MAX: usize = 16 << 10;

/// What was found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pasted {
    Code(String),
    /// It belongs to another attempt.
    OtherAttempt,
    /// The issuer's word for why there is no code.
    Refused(String),
    /// None of the forms.
    Nothing,
}

/// Reads one line.
#[must_use]
pub fn pasted(line: &str, state: &str) -> Pasted {
    let line = line.trim();
    if line.is_empty() || line.len() > PASTED_BYTES_MAX || line.chars().any(char::is_whitespace) {
        return Pasted::Nothing;
    }
    if let Ok(url) = Url::parse(line)
        && url.query().is_some()
    {
        return of_query(&url, state);
    }
    match line.split_once('#') {
        Some((_, its)) if its != state => Pasted::OtherAttempt,
        Some((code, _)) if !code.is_empty() => Pasted::Code(code.to_owned()),
        None if !line.contains(['/', '?', '=', '&']) => Pasted::Code(line.to_owned()),
        _ => Pasted::Nothing,
    }
}

/// Reads the query of a callback's address.
pub(super) fn of_query(url: &Url, state: &str) -> Pasted {
    let value = |name: &str| {
        let found = url.query_pairs().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.into_owned())
            .filter(|value| !value.is_empty())
    };
    if value("state").as_deref() != Some(state) {
        return Pasted::OtherAttempt;
    }
    match (value("code"), value("error")) {
        (Some(code), _) => Pasted::Code(code),
        (None, Some(error)) => Pasted::Refused(value("error_description").unwrap_or(error)),
        (None, None) => Pasted::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_a_pair_and_a_code_are_understood() {
        let code = || Pasted::Code("abc".into());
        for (line, found) in [
            ("abc\n", code()),
            ("abc#st", code()),
            ("http://localhost:1455/auth/callback?code=abc&state=st", code()),
            (
                "  http://localhost:1455/auth/callback?state=st&code=abc&scope=x ",
                code(),
            ),
            ("abc#other", Pasted::OtherAttempt),
            (
                "http://localhost:1455/auth/callback?code=abc&state=other",
                Pasted::OtherAttempt,
            ),
            (
                "http://localhost:1455/auth/callback?code=abc",
                Pasted::OtherAttempt,
            ),
            (
                "http://localhost:1455/auth/callback?error=access_denied&error_description=No%20way&state=st",
                Pasted::Refused("No way".into()),
            ),
            ("", Pasted::Nothing),
            ("not a code", Pasted::Nothing),
            ("https://example.org/", Pasted::Nothing),
            ("code=abc&state=st", Pasted::Nothing),
        ] {
            assert_eq!(pasted(line, "st"), found, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC{0,64}|http://[a-z?&=%#/ ]{0,48}") {
            let _ = pasted(&line, "st");
        }
    }
}
