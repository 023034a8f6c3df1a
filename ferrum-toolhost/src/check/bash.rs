//! A bash that reads one text after another and runs none: `bash -n` without a start for each.
//!
//! Starting bash takes longer than letting it read a line. This one stays, and gives each text a
//! copy of itself in which `set -n` comes first: from there on bash reads and executes nothing, and
//! no text can take that back. The check role uses it, which may be asked thousands of questions.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Reads texts that end with NUL, and answers each with its complaints and NUL. On one line: the
/// numbers of bash's complaints are then one more than those of the text.
const SCRIPT: &str = "while IFS= read -r -d '' text; do \
    (eval \"set -n\"$'\\n'\"$text\") 2>&1 </dev/null; printf '\\0'; done";
/// Lines before the first of a text.
const LINES_BEFORE: u32 = 1;

/// Time for one text, in milliseconds, as in a session: texts are at most 64 KiB.
const READ_MS_MAX: u64 = 5_000;
/// What is kept of a complaint, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;

/// The bash, started with the first text.
pub(super) struct Reader {
    bash: CString,
    running: Option<Running>,
}

struct Running {
    child: Child,
    texts: ChildStdin,
    answers: ChildStdout,
}

impl Reader {
    /// For the bash at this path. Nothing is started yet.
    #[must_use]
    pub(super) fn new(bash: CString) -> Self {
        Self { bash, running: None }
    }

    /// What bash complains of in a text that holds no NUL; empty where it can read it. An error
    /// where bash could not be asked or did not answer in time; the next text gets a new one.
    pub(super) fn complaint(&mut self, text: &str) -> io::Result<String> {
        let answer = self.ask(text);
        if answer.is_err() {
            self.running = None;
        }
        answer.map(|complaint| shifted(&complaint))
    }

    fn ask(&mut self, text: &str) -> io::Result<String> {
        if self.running.is_none() {
            self.running = Some(start(&self.bash)?);
        }
        let running = self.running.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // bash reads the whole text before it does anything, so this waits for no answer.
        running.texts.write_all(text.as_bytes())?;
        running.texts.write_all(&[0])?;
        running.answer(Instant::now() + Duration::from_millis(READ_MS_MAX))
    }
}

fn start(bash: &CString) -> io::Result<Running> {
    let mut child = Command::new(std::ffi::OsStr::from_bytes(bash.as_bytes()))
        .arg0("bash")
        .args(["--noprofile", "--norc", "-c", SCRIPT])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let (Some(texts), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    Ok(Running {
        child,
        texts,
        answers,
    })
}

impl Running {
    fn answer(&mut self, deadline: Instant) -> io::Result<String> {
        let mut complaint = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(self.answers.as_fd(), PollFlags::POLLIN)];
            if poll(
                &mut polled,
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO),
            )? == 0
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut buffer = [0; 1024];
            let count = self.answers.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = buffer[..count].iter().position(|byte| *byte == 0);
            if complaint.len() < COMPLAINT_BYTES_MAX {
                complaint.extend_from_slice(&buffer[..end.unwrap_or(count)]);
            }
            if end.is_some() {
                return Ok(String::from_utf8_lossy(&complaint).into_owned());
            }
        }
    }
}

impl Drop for Running {
    /// With it goes the copy that may still be reading.
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// The complaint as `bash -n` would make it: no `eval:`, and lines counted from the text's first.
fn shifted(complaint: &str) -> String {
    let lines = complaint.lines().map(|line| {
        let rest = line.strip_prefix("bash: ").unwrap_or(line);
        let rest = rest.strip_prefix("eval: ").unwrap_or(rest);
        let numbered = rest.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        match numbered.and_then(|(line, what)| Some((line.parse::<u32>().ok()?, what))) {
            Some((line, what)) => {
                format!("bash: line {}: {what}", line.saturating_sub(LINES_BEFORE).max(1))
            }
            None => format!("bash: {rest}"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Reader {
        Reader::new(CString::new("/bin/bash").expect("no NUL"))
    }

    /// What `bash -n` says about a text on its input.
    fn alone(text: &str) -> bool {
        let mut child = Command::new("/bin/bash")
            .args(["--noprofile", "--norc", "-n"])
            .env_clear()
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(text.as_bytes()).expect("bash reads");
        drop(input);
        let output = child.wait_with_output().expect("bash ends");
        let complaint = String::from_utf8_lossy(&output.stderr);
        crate::exec::syntax::is_readable(output.status.success(), &complaint)
    }

    #[test]
    fn it_says_what_bash_says_text_after_text() {
        let mut reader = reader();
        for text in [
            "ls",
            "if ls",
            "ls\nls\n)",
            "echo \"x",
            "cat <<E\nx\nE",
            "cat <<E\nx",
            "ls !(a)",
            "a | esac b",
            "ls \\",
            "",
            "# c",
            "$(ls",
            "echo 'a\nb'",
            "f() {",
            "}",
            "set +n; ls",
            "exit 3",
            "shopt -s extglob\nls !(a)",
            "alias x='if'\nx",
            "ls ;; pwd",
            "[[ a",
            "x=(",
            "((",
            "case x in",
            "ls &",
            "\u{e9}\u{1f600}",
        ] {
            let complaint = reader.complaint(text).expect("an answer");
            assert_eq!(complaint.is_empty(), alone(text), "{text:?}: {complaint}");
        }
        let complaint = reader.complaint("ls\nls\n)").expect("an answer");
        assert!(complaint.starts_with("bash: line 3: syntax error"), "{complaint}");
    }

    #[test]
    fn it_runs_nothing() {
        let mark = std::env::temp_dir().join(format!("ferrum-reader-{}", std::process::id()));
        let mut reader = reader();
        for template in [
            "> MARK",
            "set +n\n> MARK",
            "set +o noexec; > MARK",
            "echo $(> MARK)",
            "\n> MARK\n)",
            "cat <<E\n$(> MARK)\nE",
            "trap '> MARK' EXIT; exit",
            "\"\n> MARK",
        ] {
            let text = template.replace("MARK", &mark.display().to_string());
            let _ = reader.complaint(&text).expect("an answer");
        }
        assert!(!mark.exists());
    }

    #[test]
    fn after_a_bash_that_went_away_the_next_text_gets_an_answer() {
        let mut reader = reader();
        assert_eq!(reader.complaint("ls").expect("an answer"), "");
        let pid = reader.running.as_ref().map_or(0, |running| running.child.id());
        killpg(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("it runs");
        assert!(reader.complaint("ls").is_err() || reader.running.is_some());
        assert_eq!(reader.complaint("ls").expect("an answer"), "");
    }
}
