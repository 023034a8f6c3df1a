//! `bash -n`: the second opinion on the syntax of a command, one process a question.

use crate::exec::syntax;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::pipe2;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time for one `bash -n`, in milliseconds, as in a session: texts are at most 64 KiB.
const SYNTAX_MS_MAX: u64 = 5_000;
/// What is kept of bash's complaint, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;

/// `None` when bash can read the text, else what it said.
pub fn read_by_bash(bash: &CString, text: &str) -> io::Result<Option<String>> {
    let mut memory = File::from(memfd_create("command", MFdFlags::MFD_CLOEXEC)?);
    memory.write_all(text.as_bytes())?;
    memory.rewind()?;
    let (said, say) = pipe2(OFlag::O_CLOEXEC)?;
    let mut child = Command::new(OsStr::from_bytes(bash.as_bytes()))
        .arg0("bash")
        .args(["--noprofile", "--norc", "-n"])
        .env_clear()
        .stdin(memory)
        .stdout(Stdio::null())
        .stderr(say)
        .spawn()?;
    let deadline = Instant::now() + Duration::from_millis(SYNTAX_MS_MAX);
    let (mut complaint, mut said) = (Vec::new(), File::from(said));
    // bash keeps its end of the pipe until it ends.
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(said.as_fd(), PollFlags::POLLIN)];
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        if poll(&mut polled, left)? == 0 {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut buffer = [0; 1024];
        match said.read(&mut buffer)? {
            0 => break,
            count if complaint.len() < COMPLAINT_BYTES_MAX => {
                complaint.extend_from_slice(&buffer[..count]);
            }
            _ => {}
        }
    }
    let succeeded = child.wait()?.success();
    let complaint = String::from_utf8_lossy(&complaint).into_owned();
    Ok((!syntax::is_readable(succeeded, &complaint)).then_some(complaint))
}
