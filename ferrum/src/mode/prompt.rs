//! The prompt of print mode: what was written on the command line, a blank line, what was piped in.

use crate::exit::{Failure, Kind};
use std::io::{IsTerminal, Read};

/// Longest prompt, in bytes: it must fit a session record with room for its escapes.
pub const PROMPT_BYTES_MAX: u64 = 8 << 20;

/// Composes the prompt; stdin is read only where it is no terminal.
///
/// # Errors
/// An empty prompt, one that is too long, or stdin that is not UTF-8 or cannot be read.
pub fn compose(written: &str) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let piped = if stdin.is_terminal() {
        String::new()
    } else {
        read(stdin.lock())?
    };
    join(written, &piped)
}

fn join(written: &str, piped: &str) -> Result<String, Failure> {
    let parts = [written, piped].map(str::trim_end);
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() {
        return Err(usage("the prompt is empty")
            .with_hint("ferrum -p \"what to do\", or pipe the prompt into ferrum -p"));
    }
    let prompt = parts.join("\n\n");
    if prompt.len() as u64 > PROMPT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(prompt)
}

/// Text of at most [`PROMPT_BYTES_MAX`] bytes.
///
/// # Errors
/// As [`compose`].
pub fn read(input: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(PROMPT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Kind::Error, format!("stdin cannot be read: {error}")))?;
    if bytes.len() as u64 > PROMPT_BYTES_MAX {
        return Err(too_long());
    }
    String::from_utf8(bytes).map_err(|error| {
        usage(&format!(
            "stdin is not UTF-8 text at byte {}",
            error.utf8_error().valid_up_to()
        ))
    })
}

fn usage(message: &str) -> Failure {
    Failure::new(Kind::Usage, message)
}

fn too_long() -> Failure {
    usage(&format!(
        "the prompt is longer than {} MiB",
        PROMPT_BYTES_MAX >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_prompt_comes_first_and_a_blank_line_between() {
        for (written, piped, prompt) in [
            ("do", "", "do"),
            ("", "text\n", "text"),
            ("do", "a\nb\n", "do\n\na\nb"),
            ("do", " \n", "do"),
            ("  keep", "", "  keep"),
        ] {
            assert_eq!(join(written, piped).as_deref(), Ok(prompt));
        }
        assert_eq!(join(" ", "\n").map_err(|failure| failure.kind), Err(Kind::Usage));
    }

    #[test]
    fn stdin_is_bounded_and_must_be_text() {
        let most = usize::try_from(PROMPT_BYTES_MAX).expect("small");
        assert!(read(vec![b'a'; most].as_slice()).is_ok());
        assert!(read(vec![b'a'; most + 1].as_slice()).is_err());
        assert!(
            read(&b"a\xff"[..])
                .expect_err("not text")
                .message
                .contains("byte 1")
        );
    }
}
