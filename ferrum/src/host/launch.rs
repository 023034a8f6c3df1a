//! Starts the launcher: the only program that the front ever starts, and before anything else.
//!
//! It gets an empty environment and one socket, as descriptor 3. It is found beside the front's
//! own executable, else at a path fixed at build, never through `PATH`.

use super::control::Control;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags};
use nix::sys::signal::SigSet;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = "ferrum-toolhost";

/// Where the launcher expects its control socket.
const CONTROL_FD: i32 = 3;

/// A launcher that reads nothing for so long is broken.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchError {
    /// No program where it must be.
    Missing { looked: Vec<PathBuf> },
    /// The system refused.
    System { what: &'static str, error: nix::Error },
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { looked } => {
                let places: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
                write!(
                    f,
                    "the program {PROGRAM} is missing; looked for {}",
                    places.join(" and ")
                )
            }
            Self::System { what, error } => write!(f, "cannot {what}: {}", error.desc()),
        }
    }
}

impl std::error::Error for LaunchError {}

/// The launcher's process. Dropping it closes nothing and kills nothing: the launcher ends when
/// its control socket does.
#[derive(Debug)]
pub struct Launcher {
    pid: Pid,
}

impl Launcher {
    /// Starts the program in role launcher and returns it with its control socket.
    ///
    /// # Errors
    /// [`LaunchError`]; nothing is running then.
    pub fn spawn() -> Result<(Self, Control), LaunchError> {
        Self::spawn_program(&find()?)
    }

    fn spawn_program(program: &Path) -> Result<(Self, Control), LaunchError> {
        let system = |what| move |error| LaunchError::System { what, error };
        let pair = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        );
        let (ours, theirs) = pair.map_err(system("make a socket"))?;
        let pid = start(program, &theirs).map_err(system("start ferrum-toolhost"))?;
        let socket = UnixStream::from(ours);
        // Cannot fail: the duration is not zero and the descriptor is a socket.
        let _ = socket.set_write_timeout(Some(WRITE_TIMEOUT));
        Ok((Self { pid }, Control::new(socket)))
    }

    /// How it ended, when it has ended.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, status)) => Some(format!("it ended with status {status}")),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(format!("it was ended by {}", signal.as_str())),
            _ => None,
        }
    }
}

/// Beside our own executable, else where the build says.
fn find() -> Result<PathBuf, LaunchError> {
    let own = std::fs::read_link("/proc/self/exe").or_else(|_| std::env::current_exe());
    let beside = own.ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let fixed = option_env!("FERRUM_TOOLHOST")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let looked: Vec<PathBuf> = beside.into_iter().chain(fixed).collect();
    match looked.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(LaunchError::Missing { looked }),
    }
}

#[expect(clippy::disallowed_methods, reason = "the only program that the front starts")]
fn start(program: &Path, socket: &OwnedFd) -> nix::Result<Pid> {
    let null = c"/dev/null";
    let mut files = PosixSpawnFileActions::init()?;
    let (read, write) = (nix::fcntl::OFlag::O_RDONLY, nix::fcntl::OFlag::O_WRONLY);
    let mode = nix::sys::stat::Mode::empty();
    files.add_open(0, null, read, mode)?;
    files.add_open(1, null, write, mode)?;
    // A copy onto itself clears close-on-exec too (posix_spawn_file_actions_adddup2).
    files.add_dup2(socket.as_raw_fd(), CONTROL_FD)?;
    let mut attributes = PosixSpawnAttr::init()?;
    // A session of its own: Ctrl-C at the prompt is the front's to handle, and the launcher has
    // no controlling terminal. Rust ignores SIGPIPE; the launcher starts with clean signals.
    let session = PosixSpawnFlags::from_bits_retain(i32::from(libc::POSIX_SPAWN_SETSID));
    attributes.set_flags(
        session | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
    )?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let program = std::ffi::CString::new(program.as_os_str().as_bytes()).map_err(|_| nix::Error::EINVAL)?;
    let arguments: [&CStr; 2] = [c"ferrum-toolhost", c"launcher"];
    let environment: [&CStr; 0] = [];
    nix::spawn::posix_spawn(program.as_c_str(), &files, &attributes, &arguments, &environment)
}

#[cfg(test)]
impl Launcher {
    /// A launcher that a test plays itself.
    pub(super) fn played() -> Self {
        Self {
            pid: Pid::from_raw(i32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_places() {
        // The test program lies in target/…/deps, where no ferrum-toolhost is ever put.
        let error = find().expect_err("no such program beside the test");
        assert!(error.to_string().contains("/deps/ferrum-toolhost"), "{error}");
    }

    #[test]
    fn a_program_that_is_no_launcher_ends_and_says_how() {
        let (launcher, control) = Launcher::spawn_program(Path::new("/bin/false")).expect("started");
        let how = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            launcher.ended()
        });
        assert_eq!(how.as_deref(), Some("it ended with status 1"));
        drop(control);
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_an_error() {
        let error = Launcher::spawn_program(Path::new("/dev/null")).expect_err("not executable");
        assert!(
            error.to_string().contains("cannot start ferrum-toolhost"),
            "{error}"
        );
    }
}
