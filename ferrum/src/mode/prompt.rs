//! The prompt of print mode: what was written on the command line, a blank line, what was piped in.

use super::notice;
use super::signals::Signals;
use crate::exit::{Failure, Kind};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest prompt, in bytes: it must fit a session record with room for its escapes.
pub const PROMPT_BYTES_MAX: u64 = 8 << 20;
/// How long an open stdin may say nothing before the operator is told what is waited for.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Composes the prompt; stdin is read only where it is no terminal.
///
/// # Errors
/// An empty prompt, one that is too long, or stdin that is not UTF-8 or cannot be read; a signal.
pub async fn compose(written: &str, signals: &mut Signals) -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        return join(written, "");
    }
    let (sender, piped) = oneshot::channel();
    let what = if written.trim().is_empty() {
        "the prompt"
    } else {
        "what belongs to the prompt"
    };
    // Never joined: stdin may stay open for ever, and the thread ends with the process.
    let started = std::thread::Builder::new().name("input".into()).spawn(move || {
        say_what_is_waited_for(what);
        // Whoever waited may have been told to go.
        let _ = sender.send(read(std::io::stdin().lock()));
    });
    started.map_err(|error| Failure::new(Kind::Error, format!("stdin cannot be read: {error}")))?;
    let piped = tokio::select! {
        piped = piped => piped.unwrap_or_else(|_| Err(Failure::new(Kind::Error, "stdin cannot be read"))),
        kind = signals.next() => Err(Failure::new(kind, "ended while waiting for stdin")),
    };
    join(written, &piped?)
}

/// An open pipe that nobody writes to looks like a hang.
fn say_what_is_waited_for(what: &str) {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let most = PollTimeout::try_from(SILENCE_MAX).unwrap_or(PollTimeout::NONE);
    if poll(&mut fds, most) == Ok(0) {
        notice(&format!(
            "waiting for the end of stdin, {what} is read from it (close it, or start with </dev/null)"
        ));
    }
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
