//! Behaviour of the native tools from the wire's request to the text, in a directory of its own.

use super::*;
use crate::from_wire::from_wire;
use ferrum_proto::request as wire;
use nix::sys::stat::Mode;
use policy::{Ground, Isolation, UserPolicy, Wish, narrow};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::Ordering;

/// A working directory that is the one writable root, with a home and a foreign place beside it.
pub(crate) struct Bed {
    all: tempfile::TempDir,
    pub(crate) judge: Judge,
    pub(crate) cancel: AtomicBool,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        let base = all.path().canonicalize().unwrap();
        for name in ["cwd", "home", "outside"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let user = UserPolicy {
            ceiling: policy::Tier::Low,
            tier: policy::Tier::Medium,
            network: None,
            shell: policy::ShellMode::Static,
            require: None,
            tools_allow: None,
            tools_deny: vec![],
            max_tool_rounds: 0,
            writable_roots: vec![base.join("cwd")],
            readable_roots: vec![],
        };
        let ground = Ground {
            cwd: base.join("cwd"),
            home: base.join("home"),
            writable: vec![base.join("cwd")],
            readable: vec![],
            private: vec![],
            protected: vec![],
            isolation: Isolation::Kernel,
        };
        let grant = narrow(&user, &[], &Wish::default()).unwrap();
        Self {
            all,
            judge: Judge { grant, ground },
            cancel: AtomicBool::new(false),
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.judge.ground.cwd.join(name)
    }

    /// A file in the working directory, with its directories.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    pub(crate) fn cwd(&self) -> fs::File {
        use std::os::unix::fs::OpenOptionsExt as _;
        // As a place to start from only: a wall may keep it from being listed.
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        options.open(&self.judge.ground.cwd).unwrap()
    }

    pub(crate) fn run(&self, request: wire::ToolRequest) -> Result<ToolOutput, ToolError> {
        use std::os::fd::AsFd as _;
        let request = from_wire(request).map_err(ToolError::failed)?;
        let call = native(request).expect("no command");
        run_native(&call, &self.judge, self.cwd().as_fd(), &self.cancel)
    }

    #[track_caller]
    fn ok(&self, request: wire::ToolRequest) -> String {
        self.run(request).expect("ok").text
    }

    /// The text of a failure or refusal.
    #[track_caller]
    fn err(&self, request: wire::ToolRequest) -> String {
        match self.run(request).expect_err("error") {
            ToolError::Failed { text, .. } => text,
            ToolError::Refused(refusal) => format!("{}; {}", refusal.message, refusal.hint),
        }
    }

    /// Nothing but the named entries is in the working directory.
    #[track_caller]
    fn holds(&self, names: &[&str]) {
        let mut found: Vec<String> = fs::read_dir(&self.judge.ground.cwd)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, names);
    }
}

fn write(path: &str, content: &str) -> wire::ToolRequest {
    wire::ToolRequest::Write(wire::Write {
        path: path.into(),
        content: content.into(),
    })
}

fn edit(path: &str, edits: &[(&str, &str)]) -> wire::ToolRequest {
    let edits = edits.iter().map(|(old, new)| wire::Replacement {
        old_text: (*old).into(),
        new_text: (*new).into(),
    });
    wire::ToolRequest::Edit(wire::Edit {
        path: path.into(),
        edits: edits.collect(),
    })
}

fn read(path: &str, offset: Option<u64>, limit: Option<u64>) -> wire::ToolRequest {
    wire::ToolRequest::Read(wire::Read {
        path: path.into(),
        offset,
        limit,
    })
}

fn ls(path: &str, limit: Option<u64>) -> wire::ToolRequest {
    wire::ToolRequest::Ls(wire::Ls {
        path: path.into(),
        limit,
    })
}

fn find(path: &str, pattern: &str, limit: Option<u64>) -> wire::ToolRequest {
    let pattern = Some(pattern.to_owned());
    wire::ToolRequest::Find(wire::Find {
        path: path.into(),
        pattern,
        name: None,
        extension: None,
        limit,
    })
}

fn grep(pattern: &str, path: &str) -> wire::Grep {
    wire::Grep {
        pattern: pattern.into(),
        path: path.into(),
        glob: None,
        ignore_case: false,
        literal: false,
        context: 0,
        limit: None,
    }
}

fn grep_in(pattern: &str, path: &str) -> wire::ToolRequest {
    wire::ToolRequest::Grep(grep(pattern, path))
}

fn fifo(bed: &Bed, name: &str) {
    fs::create_dir_all(bed.at(name).parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&bed.at(name), Mode::from_bits_truncate(0o600)).unwrap();
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

mod writing;

mod editing;

mod reading;

mod listing;

mod finding;

mod searching;

mod behind_landlock;
