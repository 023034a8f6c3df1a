//! Tests only: a peer that speaks from a script, and plain values for it to say.

use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::limits::{FROM_HOST_FRAME_BYTES_MAX, TO_HOST_FRAME_BYTES_MAX};
use ferrum_proto::reply::{FromHost, Outcome, Reply, Timings};
use ferrum_proto::request::{Bash, ToHost, ToolRequest};
use ferrum_proto::seal::{Granted, Ready, Selection};
use ferrum_proto::terms::{Containment, Isolation, Network, PathBytes, Require, Shell, Tier};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The host's end of a tool socket, in a thread of its own.
pub(super) struct HostPeer {
    pub(super) socket: UnixStream,
    frames: FrameReader,
}

impl HostPeer {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            frames: FrameReader::new(TO_HOST_FRAME_BYTES_MAX),
        }
    }

    pub(super) fn say(&mut self, message: &FromHost) {
        let frame = encode(message, FROM_HOST_FRAME_BYTES_MAX * 16).expect("fits");
        self.raw(&frame);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        // The front may have hung up already.
        let _ = self.socket.write_all(bytes);
    }

    /// The next message; `None` when the front hung up.
    pub(super) fn hear(&mut self) -> Option<ToHost> {
        loop {
            if let Some(message) = self.frames.next().expect("the front speaks the protocol") {
                return Some(message);
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.frames.push(&buffer[..count]),
            }
        }
    }

    pub(super) fn greet(&mut self) {
        self.say(&hello());
        self.say(&FromHost::Granted(Box::new(granted())));
        self.say(&FromHost::Ready(Box::new(ready())));
    }

    /// Answers a call in two chunks.
    pub(super) fn answer(&mut self, id: u64, text: &str) {
        let (one, two) = text.split_at(text.len() / 2);
        for part in [one, two] {
            let bytes = part.as_bytes().to_vec();
            self.say(&FromHost::Chunk { id, bytes });
        }
        self.say(&FromHost::Reply {
            id,
            reply: reply(text.len()),
        });
    }

    /// Until the front hangs up.
    pub(super) fn drain(&mut self) {
        while self.hear().is_some() {}
    }
}

pub(super) fn hello() -> FromHost {
    FromHost::Hello {
        protocol: ferrum_proto::PROTOCOL,
        build: ferrum_proto::BUILD.to_owned(),
    }
}

pub(super) fn bash(command: &str) -> ToolRequest {
    ToolRequest::Bash(Bash {
        command: command.to_owned(),
        timeout_seconds: None,
    })
}

pub(super) fn reply(text_bytes: usize) -> Reply {
    Reply {
        outcome: Outcome::Done,
        text_bytes: text_bytes as u64,
        denials: Vec::new(),
        command: None,
        changed: Vec::new(),
        timings: Timings::default(),
    }
}

pub(crate) fn granted() -> Granted {
    Granted {
        tier: Tier::Medium,
        floor: Tier::Low,
        network: Network::Private,
        shell: Shell::Static,
        require: Require::Kernel,
        tools: vec!["bash".to_owned()],
        tools_removed: Vec::new(),
        cwd: PathBytes(b"/w".to_vec()),
        work_tree: None,
        writable_roots: Vec::new(),
        readable_roots: Vec::new(),
        max_tool_rounds: 0,
        skills: Selection::default(),
        mcp_enabled: true,
        mcp: Selection::default(),
        project_files: Vec::new(),
        policies: Vec::new(),
        origins: Vec::new(),
        notices: Vec::new(),
        preflight: None,
    }
}

pub(crate) fn ready() -> Ready {
    Ready {
        isolation: Isolation::Full,
        network: Network::Private,
        shell: Shell::Static,
        containment: Containment::PidNamespace,
        walls: Vec::new(),
        promises: Vec::new(),
        view: Vec::new(),
        protected: Vec::new(),
        limits: Vec::new(),
        environment: Vec::new(),
        notices: Vec::new(),
        setup_us: 1,
    }
}
