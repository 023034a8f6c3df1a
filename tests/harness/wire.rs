//! The wire, spoken raw: a launcher started exactly as the front starts it, and its sockets.

use crate::place;
use crate::scene::Scene;
use ferrum_proto::charter::{Ancestors, Charter, HomeMode, Limits, Places, RootMode, Wish};
use ferrum_proto::control::{FromLauncher, ToLauncher};
use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::limits::{CONTROL_FRAME_BYTES_MAX, FROM_HOST_FRAME_BYTES_MAX, TO_HOST_FRAME_BYTES_MAX};
use ferrum_proto::reply::FromHost;
use ferrum_proto::request::{Bash, ToHost, ToolRequest};
use ferrum_proto::terms::{PathBytes, Shell, Tier};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A hang is found after this time.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One end of a socket with its reader.
pub struct Line {
    socket: UnixStream,
    reader: FrameReader,
}

impl Line {
    fn new(socket: UnixStream, cap: usize) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a read timeout");
        socket
            .set_write_timeout(Some(Duration::from_secs(2)))
            .expect("a write timeout");
        Self {
            socket,
            reader: FrameReader::new(cap),
        }
    }

    /// Sends bytes as they are. False when the peer does not take them.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Sends bytes with descriptors. False when the peer does not take them.
    pub fn send_with(&mut self, bytes: &[u8], descriptors: &[RawFd]) -> bool {
        let parts = [IoSlice::new(bytes)];
        let control = [ControlMessage::ScmRights(descriptors)];
        sendmsg::<()>(
            self.socket.as_raw_fd(),
            &parts,
            &control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        )
        .is_ok()
    }

    /// Ends this side's half and the peer's.
    pub fn close(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// The next message; `None` when the peer is gone or silent for [`PATIENCE`].
    pub fn receive<T: bincode::Decode<()>>(&mut self) -> Option<T> {
        let started = Instant::now();
        let mut buffer = [0; 65_536];
        loop {
            if let Some(message) = self.reader.next().ok()? {
                return Some(message);
            }
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.reader.push(&buffer[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if started.elapsed() > PATIENCE {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// True when the peer closes within [`PATIENCE`], whatever it says before.
    pub fn is_closed(&mut self) -> bool {
        let started = Instant::now();
        let mut buffer = [0; 65_536];
        while started.elapsed() < PATIENCE {
            match self.socket.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return true,
            }
        }
        false
    }
}

/// A launcher with its control socket.
pub struct Launcher {
    pub line: Line,
    child: Child,
}

impl Launcher {
    /// Starts it as the scene's user: empty environment, the socket as descriptor 3.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(scene: &Scene) -> Self {
        Self::start_program(scene, &place::toolhost())
    }

    /// Starts another copy of the program.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_program(scene: &Scene, program: &Path) -> Self {
        let (mine, theirs) = UnixStream::pair().expect("a socket pair");
        let mut command = Command::new("/bin/bash");
        command
            .args(["-c", "exec 3<&0 < /dev/null; exec env -i \"$0\" launcher"])
            .arg(program)
            .env_clear()
            .current_dir(scene.root())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        scene.who.apply(&mut command);
        let child = command.spawn().expect("the launcher starts");
        Self {
            line: Line::new(mine, CONTROL_FRAME_BYTES_MAX),
            child,
        }
    }

    /// Greets and sends a charter.
    ///
    /// # Panics
    /// When the launcher does not greet back.
    pub fn introduce(&mut self, charter: &Charter) {
        assert!(self.line.send_bytes(&control(&hello_launcher())));
        let greeting = self.line.receive::<FromLauncher>();
        assert!(
            matches!(greeting, Some(FromLauncher::Hello { .. })),
            "{greeting:?}"
        );
        assert!(
            self.line
                .send_bytes(&control(&ToLauncher::Charter(Box::new(charter.clone()))))
        );
    }

    /// Asks for a host; the tool socket where one was started, else the launcher's words.
    ///
    /// # Errors
    /// The message of a refusal.
    pub fn open_host(&mut self, host: u32, scene: &Scene, wish: Wish) -> Result<Line, String> {
        let cwd = PathBytes::from(scene.root().as_path());
        self.open_with(&ToLauncher::OpenHost { host, cwd, wish })
    }

    /// Asks for a host in the role that the request names.
    ///
    /// # Errors
    /// The message of a refusal.
    pub fn open_with(&mut self, request: &ToLauncher) -> Result<Line, String> {
        let (mine, theirs) = UnixStream::pair().expect("a socket pair");
        if !self.line.send_with(&control(request), &[theirs.as_raw_fd()]) {
            return Err("the launcher takes nothing".into());
        }
        drop(theirs);
        loop {
            match self.line.receive::<FromLauncher>() {
                Some(FromLauncher::HostStarted { .. }) => {
                    return Ok(Line::new(mine, FROM_HOST_FRAME_BYTES_MAX));
                }
                // An earlier host may have ended meanwhile.
                Some(FromLauncher::HostExited { .. }) => {}
                other => return Err(format!("{other:?}")),
            }
        }
    }

    /// True when the launcher ends within [`PATIENCE`].
    pub fn ends(&mut self) -> bool {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host that is ready for calls.
///
/// # Panics
/// When it does not come up: the message holds its last words.
#[must_use]
pub fn ready_host(launcher: &mut Launcher, scene: &Scene) -> Line {
    let mut line = launcher.open_host(1, scene, Wish::default()).expect("a host");
    assert!(line.send_bytes(&tool(&hello_host())));
    loop {
        match line.receive::<FromHost>() {
            Some(FromHost::Ready(_)) => return line,
            Some(FromHost::Hello { .. } | FromHost::Granted(_)) => {}
            other => panic!("the host does not come up: {other:?}"),
        }
    }
}

#[must_use]
pub fn hello_launcher() -> ToLauncher {
    ToLauncher::Hello {
        protocol: ferrum_proto::PROTOCOL,
        build: ferrum_proto::BUILD.to_owned(),
    }
}

#[must_use]
pub fn hello_host() -> ToHost {
    ToHost::Hello {
        protocol: ferrum_proto::PROTOCOL,
        build: ferrum_proto::BUILD.to_owned(),
    }
}

/// A call of `bash`.
#[must_use]
pub fn call(id: u64, command: &str) -> ToHost {
    let request = ToolRequest::Bash(Bash {
        command: command.to_owned(),
        timeout_seconds: None,
    });
    ToHost::Call { id, request }
}

/// A control frame.
///
/// # Panics
/// When the message is above the cap.
#[must_use]
pub fn control(message: &ToLauncher) -> Vec<u8> {
    encode(message, CONTROL_FRAME_BYTES_MAX).expect("a frame within its cap")
}

/// A tool frame.
///
/// # Panics
/// When the message is above the cap.
#[must_use]
pub fn tool(message: &ToHost) -> Vec<u8> {
    encode(message, TO_HOST_FRAME_BYTES_MAX).expect("a frame within its cap")
}

/// The charter of an operator who configured nothing.
#[must_use]
pub fn charter(scene: &Scene) -> Charter {
    let path = |path: std::path::PathBuf| PathBytes::from(path.as_path());
    let word = |text: &str| PathBytes(text.as_bytes().to_vec());
    Charter {
        ceiling: Tier::Low,
        tier: Tier::Medium,
        network: None,
        shell: Shell::Auto,
        require: None,
        tools_allow: None,
        tools_deny: Vec::new(),
        readable_roots: Vec::new(),
        writable_roots: vec![ferrum_proto::charter::Root {
            path: word("."),
            literal: false,
        }],
        root: RootMode::Cwd,
        home: HomeMode::Project,
        sockets: Vec::new(),
        devices: Vec::new(),
        env_names: Vec::new(),
        ancestors: Ancestors::All,
        max_tool_rounds: 0,
        limits: Limits {
            pids: 1024,
            memory: 0,
            file: 1 << 30,
            shm: 64 << 20,
        },
        environment: vec![
            (word("PATH"), word(crate::run::PATH)),
            (word("HOME"), path(scene.home())),
        ],
        secret_names: Vec::new(),
        places: Places {
            home: path(scene.home()),
            config: path(scene.config_dir()),
            data: path(scene.data_dir()),
            cache: path(scene.home().join(".cache/ferrum")),
        },
        remembered: Vec::new(),
        origins: Vec::new(),
    }
}
