//! `ferrum --jsonl`: one message a line on stdin, the events of its turn on stdout, one turn at a
//! time. A line that is no message is answered by an error and changes nothing.

use super::dialogue::Dialogue;
use super::prompt::PROMPT_BYTES_MAX;
use super::signals::Signals;
use crate::agent::message::{Message, Role};
use crate::exit::{Failure, Kind};
use crate::host::client::ToolHost;
use serde_json::Value;
use std::io::{self, BufRead, Read};
use tokio::sync::mpsc;

/// One line of stdin, in bytes: the longest prompt with room for its escapes.
const LINE_BYTES_MAX: u64 = 32 << 20;

/// What stdin held next.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Message(String),
    /// What is wrong with the line.
    Wrong(String),
    /// stdin cannot be read any further.
    Broken(String),
}

/// Answers message after message until stdin ends.
///
/// # Errors
/// Once stdin is over, the end of the last message that was not answered; where all were, the last
/// line that was no message. At once, a signal and whatever keeps every turn from being played. All
/// have been told as events.
pub async fn run<H: ToolHost>(dialogue: &mut Dialogue<'_, H>, signals: &mut Signals) -> Result<(), Failure> {
    if let Err(failure) = dialogue.open().await {
        return Err(dialogue.told(failure));
    }
    let mut inputs = listen().map_err(|failure| dialogue.told(failure))?;
    let (mut last, mut wrong) = (Ok(()), Ok(()));
    loop {
        let input = tokio::select! {
            biased;
            kind = signals.next() => return Err(dialogue.told(stopped(kind))),
            () = dialogue.reader_gone() => {
                return Err(Failure::new(Kind::OutputClosed, "nobody reads stdout any more"));
            }
            input = inputs.recv() => input,
        };
        match input {
            None => return last.and(wrong),
            Some(Input::Message(text)) => match dialogue.turn(Message::text(Role::User, text), signals).await
            {
                Err(failure) if is_final(failure.kind) => return Err(failure),
                Err(failure) => last = Err(failure),
                Ok(()) => {}
            },
            Some(Input::Wrong(what)) => wrong = Err(dialogue.told(Failure::new(Kind::Usage, what))),
            Some(Input::Broken(what)) => return Err(dialogue.told(Failure::new(Kind::Error, what))),
        }
    }
}

pub(super) fn stopped(kind: Kind) -> Failure {
    let word = match kind {
        Kind::Cancelled => "cancelled",
        _ => "terminated",
    };
    Failure::new(kind, word)
}

fn is_final(kind: Kind) -> bool {
    match kind {
        Kind::Cancelled | Kind::Terminated | Kind::OutputClosed | Kind::Isolation => true,
        Kind::Error | Kind::Usage | Kind::Budget | Kind::Denied => false,
    }
}

/// Reads stdin in a thread of its own, one line ahead at most.
fn listen() -> Result<mpsc::Receiver<Input>, Failure> {
    let (sender, inputs) = mpsc::channel(1);
    // Never joined: it may wait for a line for ever, and ends with the process.
    let started = std::thread::Builder::new().name("input".into()).spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Some(input) = next(&mut stdin) {
            let over = matches!(input, Input::Broken(_));
            if sender.blocking_send(input).is_err() || over {
                return;
            }
        }
    });
    started.map_err(|error| Failure::new(Kind::Error, format!("stdin cannot be read: {error}")))?;
    Ok(inputs)
}

/// The next line that is not blank; `None` at the end.
fn next(input: &mut impl BufRead) -> Option<Input> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut *input)
            .take(LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut line);
        match read {
            Err(error) => return Some(Input::Broken(format!("stdin cannot be read: {error}"))),
            Ok(0) => return None,
            Ok(_) if line.len() as u64 > LINE_BYTES_MAX => {
                if let Err(error) = input.skip_until(b'\n') {
                    return Some(Input::Broken(format!("stdin cannot be read: {error}")));
                }
                let what = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                return Some(Input::Wrong(what));
            }
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => return Some(message(&line).unwrap_or_else(Input::Wrong)),
        }
    }
}

fn message(line: &[u8]) -> Result<Input, String> {
    let wanted = "; a line is {\"type\":\"message\",\"text\":\"…\"}";
    let value: Value =
        serde_json::from_slice(line).map_err(|error| format!("the line is not JSON: {error}{wanted}"))?;
    let kind = value.get("type").and_then(Value::as_str);
    if kind != Some("message") {
        return Err(format!("the line is not of type \"message\"{wanted}"));
    }
    match value.get("text") {
        Some(Value::String(text)) if text.trim().is_empty() => Err("\"text\" is empty".to_owned()),
        Some(Value::String(text)) if text.len() as u64 > PROMPT_BYTES_MAX => {
            Err(format!("\"text\" is longer than {} MiB", PROMPT_BYTES_MAX >> 20))
        }
        Some(Value::String(text)) => Ok(Input::Message(text.clone())),
        Some(_) => Err(format!("\"text\" is not a text{wanted}")),
        None => Err(format!("\"text\" is missing{wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Vec<Input> {
        let mut reader = io::BufReader::new(bytes);
        std::iter::from_fn(|| next(&mut reader)).collect()
    }

    #[test]
    fn lines_are_messages_or_named_mistakes() {
        let check = |line: &str, expected: Result<&str, &str>| match (&all(line.as_bytes())[..], expected) {
            ([Input::Message(text)], Ok(expected)) => assert_eq!(text, expected),
            ([Input::Wrong(what)], Err(expected)) => assert!(what.contains(expected), "{what}"),
            (got, _) => panic!("{line:?}: {got:?}"),
        };
        check("{\"type\":\"message\",\"text\":\"hi\"}\n", Ok("hi"));
        check(
            "{\"type\":\"message\",\"text\":\"no line end\"}",
            Ok("no line end"),
        );
        check(
            "\r\n  \n{\"type\":\"message\",\"text\":\" a\\u2028b\",\"more\":1}\r\n",
            Ok(" a\u{2028}b"),
        );
        check("{\"type\":\"message\",\"text\":\"/quit\"}\n", Ok("/quit"));
        check("not json\n", Err("not JSON"));
        check("{\"type\":\"message\",\"text\":\"cut", Err("not JSON"));
        check("[]\n", Err("not of type"));
        check("{\"type\":\"cancel\"}\n", Err("not of type"));
        check("{\"type\":\"message\"}\n", Err("missing"));
        check("{\"type\":\"message\",\"text\":7}\n", Err("not a text"));
        check("{\"type\":\"message\",\"text\":\" \"}\n", Err("empty"));
    }

    #[test]
    fn a_long_line_is_passed_over_and_the_next_is_read() {
        let most = usize::try_from(LINE_BYTES_MAX).expect("small");
        let mut bytes = vec![b'x'; most + 10];
        bytes.extend_from_slice(b"\n{\"type\":\"message\",\"text\":\"next\"}\n");
        let got = all(&bytes);
        assert!(matches!(&got[0], Input::Wrong(what) if what.contains("32 MiB")));
        assert_eq!(got[1..], [Input::Message("next".into())]);
    }

    proptest! {
        #[test]
        fn no_bytes_stop_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
            prop_assert_eq!(all(&bytes).len(), lines);
        }
    }
}
