//! The probe role: what a hostile command would try, compiled in so that no interpreter is needed.
//!
//! A host that was opened for it runs this program as a command: same stage, same walls. Run by
//! hand it does what its user may do, and says that it got through everywhere. Every probe is
//! harmless where it gets through: it opens without writing, asks with signal 0, calls with
//! arguments that come to nothing, and changes only files of the directory that it was given.

mod files;
mod kernel;
mod network;
mod processes;

use std::path::PathBuf;

/// What came of one probe.
pub enum Outcome {
    /// It got what it must not get.
    Through,
    /// Something stood in its way, in the words of the system.
    Refused(String),
    /// There is nothing here to try it on.
    Absent(&'static str),
}

/// One attempt.
pub struct Probe {
    pub name: &'static str,
    /// The promise that it is about: a name from `policy::isolation`.
    pub promise: &'static str,
    /// Only uid 0 could get through anyway.
    pub needs_root: bool,
    pub act: fn(&Targets) -> Outcome,
}

/// What probes aim at, all of it outside the session.
#[derive(Debug, Default, Clone)]
pub struct Targets {
    /// A directory with the files `canary`, `victim` and `tool` (executable).
    pub dir: PathBuf,
    /// A process with the name `ferrum`.
    pub pid: i32,
    /// Ports of listeners on the loopback, 0 where there is none.
    pub tcp: u16,
    pub tcp6: u16,
    pub udp: u16,
    /// Name of an abstract socket.
    pub abstract_name: String,
    /// The word by which whatever is left over can be found.
    pub token: String,
    /// The writable root, where there is one.
    pub root: PathBuf,
}

impl Targets {
    /// From lines of `key=value`; an unknown key is nothing to aim at.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut targets = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let number = || value.parse().unwrap_or(0);
            match key {
                "dir" => targets.dir = value.into(),
                "root" => targets.root = value.into(),
                "pid" => targets.pid = value.parse().unwrap_or(0),
                "tcp" => targets.tcp = number(),
                "tcp6" => targets.tcp6 = number(),
                "udp" => targets.udp = number(),
                "abstract" => value.clone_into(&mut targets.abstract_name),
                "token" => value.clone_into(&mut targets.token),
                _ => {}
            }
        }
        targets
    }
}

/// All probes, by what they attack.
pub fn all() -> impl Iterator<Item = &'static Probe> {
    [files::TABLE, network::TABLE, processes::TABLE, kernel::TABLE]
        .into_iter()
        .flatten()
}

/// The probe role: one line for each probe on standard output.
#[expect(clippy::print_stdout, reason = "its report")]
pub fn run() {
    let targets = Targets::parse(&std::env::args().nth(2).unwrap_or_default());
    let is_root = nix::unistd::geteuid().is_root();
    for probe in all() {
        let outcome = if probe.needs_root && !is_root {
            Outcome::Absent("only uid 0 could")
        } else {
            (probe.act)(&targets)
        };
        let (word, detail) = match outcome {
            Outcome::Through => ("through", String::new()),
            Outcome::Refused(why) => ("refused", why),
            Outcome::Absent(why) => ("absent", why.to_owned()),
        };
        println!("probe\t{}\t{}\t{word}\t{detail}", probe.name, probe.promise);
    }
}

const fn probe(name: &'static str, promise: &'static str, act: fn(&Targets) -> Outcome) -> Probe {
    Probe {
        name,
        promise,
        needs_root: false,
        act,
    }
}

impl Probe {
    const fn by_root(mut self) -> Self {
        self.needs_root = true;
        self
    }
}

/// Success is what must not be.
fn outcome<T, E: std::fmt::Display>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Through,
        Err(error) => Outcome::Refused(error.to_string()),
    }
}
