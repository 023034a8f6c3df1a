//! bash's own opinion on a command's syntax: `bash -n`, empty environment, behind the same walls.
//!
//! Starting bash takes longer than letting it read a line, so one that waits for its text is kept
//! between calls. It is used up before the command starts and the next is started after the end.

use super::run::{Runner, Stage, limits};
use super::syntax;
use crate::sys::process::{Waited, kill, wait_any};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{pipe2, read, write};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long bash may take to read a text, in milliseconds; it needs about one.
const READ_MS_MAX: u64 = 2_000;
/// Longest text for a waiting bash, in bytes: from a pipe it reads one byte at a time.
const PIPED_BYTES_MAX: usize = 4 << 10;
/// Bytes of its complaint that are kept.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;

/// A bash that waits for a text to read, if there is one.
#[derive(Default)]
pub struct Checker(Option<Waiting>);

struct Waiting {
    pid: i32,
    input: OwnedFd,
    complaints: OwnedFd,
}

impl Runner {
    /// Has a bash waiting for the next text.
    pub fn prepare_check(&mut self) {
        if self.checker.0.is_none() {
            self.checker.0 = self.start_waiting().ok();
        }
    }

    /// Lets bash read a text without running it. Returns the refusal where it cannot read it, where
    /// it warns of an open here-document, or where it could not be asked.
    pub fn syntax(&mut self, text: &str) -> Option<policy::Refusal> {
        let complaint = self
            .read_by_bash(text)
            .unwrap_or_else(|e| Some(format!("bash -n: {e}")))?;
        Some(syntax::refusal(&complaint))
    }

    /// `None`: readable.
    fn read_by_bash(&mut self, text: &str) -> io::Result<Option<String>> {
        let waiting = if text.len() <= PIPED_BYTES_MAX {
            let waiting = self.checker.0.take().map_or_else(|| self.start_waiting(), Ok)?;
            // A pipe takes this much without a reader.
            write(&waiting.input, text.as_bytes())?;
            waiting
        } else {
            self.start_with(text)?
        };
        let Waiting {
            pid,
            input,
            complaints,
        } = waiting;
        drop(input);
        let deadline = Instant::now() + Duration::from_millis(READ_MS_MAX);
        let complaint = read_all(&complaints, deadline)?;
        let status = reap(pid, deadline);
        let readable = syntax::is_readable(status == Some(0), &complaint);
        Ok((!readable).then_some(complaint))
    }

    fn start_waiting(&self) -> io::Result<Waiting> {
        let (output, input) = pipe2(OFlag::O_CLOEXEC)?;
        self.start_check(output.as_fd(), input)
    }

    fn start_with(&self, text: &str) -> io::Result<Waiting> {
        let mut file = File::from(memfd_create("command", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        let unused = self.null.try_clone()?;
        self.start_check(file.as_fd(), unused)
    }

    fn start_check(&self, text: BorrowedFd<'_>, input: OwnedFd) -> io::Result<Waiting> {
        let limits = limits(1);
        let stage = Stage {
            bash: &self.bash,
            environment: &[],
            cwd: self.cwd.as_raw_fd(),
            landlock: self.landlock.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            filter: &self.filter,
            input: text.as_raw_fd(),
            limits: &limits,
            reach: self.reach,
        };
        let started = stage
            .start(&[c"bash", c"--noprofile", c"--norc", c"-n"], None)
            .map_err(io::Error::other)?;
        Ok(Waiting {
            pid: started.pid,
            input,
            complaints: started.stderr,
        })
    }
}

fn read_all(complaints: &OwnedFd, deadline: Instant) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 1024];
    loop {
        match read(complaints, &mut buffer) {
            Ok(0) => break,
            Ok(count) if bytes.len() < COMPLAINT_BYTES_MAX => bytes.extend_from_slice(&buffer[..count]),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(nix::Error::EAGAIN) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let mut polled = [PollFd::new(complaints.as_fd(), PollFlags::POLLIN)];
                poll(
                    &mut polled,
                    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
                )?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The exit status; `None` where the process had to be killed.
fn reap(pid: i32, deadline: Instant) -> Option<i32> {
    loop {
        match wait_any() {
            Waited::Ended(ended) if ended.pid == pid => return Some(ended.status),
            Waited::Ended(_) => {}
            Waited::Childless => return None,
            Waited::Running if Instant::now() >= deadline => {
                let _ = kill(-pid, libc::SIGKILL);
                return None;
            }
            // It has closed its output and is about to be gone.
            Waited::Running => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}
