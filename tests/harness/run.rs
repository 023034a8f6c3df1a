//! Running a program to its end, within a deadline, with a clean environment.

use crate::who::Who;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Generous: the machine may be busy building. A test that reaches it has found a hang.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// `PATH` of every run. Nothing of the tester's home is in it.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a run left.
#[derive(Debug, Clone)]
pub struct Output {
    pub status: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub timed_out: bool,
}

impl Output {
    #[must_use]
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    #[must_use]
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Expects this exit status, and each of `words` in `told`, a part of the output.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn expect(&self, status: i32, told: &str, words: &[&str]) {
        assert!(!self.timed_out, "hangs: {}", self.all());
        assert_eq!(self.status, Some(status), "{}", self.all());
        for word in words {
            assert!(told.contains(word), "{word:?} is missing in: {told}");
        }
    }

    /// Both streams, for searching and for messages.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}\n{}", self.out(), self.err())
    }
}

/// One run to be.
#[derive(Debug, Clone)]
pub struct Run {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub who: Who,
    pub stdin: Option<Vec<u8>>,
    pub deadline: Duration,
    /// Deny new namespaces by a seccomp filter, as some containers do.
    pub without_namespaces: bool,
    /// The kernel seems to have no Landlock.
    pub without_landlock: bool,
}

impl Run {
    #[must_use]
    pub fn new(who: &Who, program: impl Into<PathBuf>, cwd: &Path) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: vec![
                ("PATH".into(), PATH.into()),
                ("LANG".into(), "C.UTF-8".into()),
                ("USER".into(), who.name.clone()),
                ("LOGNAME".into(), who.name.clone()),
                ("TERM".into(), "xterm".into()),
            ],
            cwd: cwd.to_path_buf(),
            who: who.clone(),
            stdin: None,
            deadline: DEADLINE,
            without_namespaces: false,
            without_landlock: false,
        }
    }

    #[must_use]
    pub fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable, replacing an earlier value.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.into()));
        self
    }

    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs `wrapper… program args…` instead.
    #[must_use]
    pub fn under<S: AsRef<str>>(mut self, wrapper: impl IntoIterator<Item = S>) -> Self {
        let mut words: Vec<String> = wrapper.into_iter().map(|word| word.as_ref().to_owned()).collect();
        words.push(self.program.display().to_string());
        words.append(&mut self.args);
        self.program = PathBuf::from(words.remove(0));
        self.args = words;
        self
    }

    /// The command, ready to start.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.cwd)
            .stdin(if self.stdin.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.without_landlock {
            crate::sys::deny_landlock(&mut command);
        }
        if self.without_namespaces {
            crate::sys::deny_namespaces(&mut command);
        }
        self.who.apply(&mut command);
        command
    }

    /// Runs it to its end or to the deadline, whichever comes first.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn output(&self) -> Output {
        let mut child = self
            .command()
            .spawn()
            .unwrap_or_else(|error| panic!("{} could not be started: {error}", self.program.display()));
        if let (Some(bytes), Some(mut pipe)) = (self.stdin.clone(), child.stdin.take()) {
            std::thread::spawn(move || {
                // A program that reads no standard input is no failure of the test.
                let _ = pipe.write_all(&bytes);
            });
        }
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        let (status, timed_out): (Option<ExitStatus>, bool) = loop {
            if let Some(status) = child.try_wait().expect("the state of a child") {
                break (Some(status), false);
            }
            if started.elapsed() > self.deadline {
                let _ = child.kill();
                let _ = child.wait();
                break (None, true);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        };
        Output {
            status: status.and_then(|status| status.code()),
            stdout: stdout(),
            stderr: stderr(),
            timed_out,
        }
    }
}

/// Reads a pipe in a thread; the returned function hands over what has come, at most a second
/// after it is asked: a survivor that holds the pipe must not hang the test.
fn collect<R: Read + Send + 'static>(pipe: Option<R>) -> impl FnOnce() -> Vec<u8> {
    let (sender, receiver) = std::sync::mpsc::channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    move || {
        let mut bytes = Vec::new();
        while let Ok(part) = receiver.recv_timeout(Duration::from_secs(1)) {
            bytes.extend(part);
        }
        bytes
    }
}
