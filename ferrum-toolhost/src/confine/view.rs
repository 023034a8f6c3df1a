//! The one list that both enforcers realise: which paths a session sees, and how.
//!
//! Plans only: looks at what exists, mounts nothing. `confine::mounts` builds the list as a mount
//! tree, `confine::landlock` as rules; a command may do what both allow.

use super::object::{self, Object};
use crate::seal::Decision;
use ferrum_proto::charter::Charter;
use ferrum_proto::seal::{Access, Seal};
use policy::Tier;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind::PermissionDenied};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where an entry's content comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The same path of the machine.
    Same,
    /// Another path of the machine: a session directory.
    Other(PathBuf),
    /// The same path of the machine, with writes going to a layer of the session.
    Layered,
    /// Nothing: directories on the way to other entries, read-only. Without mounts it is no entry.
    Empty,
}

/// One line of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is seen.
    pub path: PathBuf,
    pub source: Source,
    pub access: Access,
    pub why: &'static str,
    /// Where the machine has it: `path` without the user's own links before its end.
    pub real: PathBuf,
    /// What stood there when it was judged.
    pub object: Option<Object>,
}

impl Entry {
    /// True where a link at the end belongs to the machine and leads to another part of the view.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(
            self.why,
            "system" | "system configuration" | "processor and memory layout"
        )
    }

    /// Opens what was judged, below `base`, by names that are no links.
    ///
    /// # Errors
    /// The system's, and where another object stands there.
    pub fn open(&self, base: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let below = self.real.strip_prefix("/").unwrap_or(&self.real);
        let opened = object::open_plain(base, below);
        let Some(object) = self.object else {
            return opened;
        };
        match opened {
            Err(error) if object::is_link_on_the_way(&error) => Err(object::exchanged()),
            opened => opened.and_then(|opened| object.expect(opened.as_fd()).map(|()| opened)),
        }
    }

    /// The error is of something that is simply not to be had by this user.
    #[must_use]
    pub fn may_be_left_out(&self, error: &io::Error) -> bool {
        let is_link = object::is_link_on_the_way(error);
        self.object.is_none() && self.why == "toolchain" && (is_link || error.kind() == PermissionDenied)
    }
}

/// The session's view, and the places that the rest of the host needs to know.
#[derive(Debug, Clone)]
pub struct View {
    pub entries: Vec<Entry>,
    /// `HOME` as commands see it, when the mount view is in force.
    pub home: PathBuf,
    /// Unix sockets that are passed in.
    pub sockets: Vec<PathBuf>,
    pub devices: Vec<PathBuf>,
    /// Nothing outside [`SYSTEM`] may be mapped as a program (tier high).
    pub system_programs_only: bool,
}

impl View {
    /// Entries that are made as layers.
    pub fn layered(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.source == Source::Layered)
    }

    /// Whether something is mounted below `path`.
    #[must_use]
    pub fn mounts_below(&self, path: &Path) -> bool {
        let mut all = self.entries.iter().map(|entry| &entry.path).chain(&self.sockets);
        all.any(|other| other != path && other.starts_with(path))
    }
}

/// System directories: read and execute, as far as others may read.
pub const SYSTEM: [&str; 10] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu",
];

/// Toolchains of the home, relative to it. `true`: copy-on-write, since tools write beside what
/// they read; `false`: read-only.
const TOOLCHAINS: &[(&str, bool)] = &[
    (".cargo/bin", true),
    (".cargo/env", false),
    (".cargo/config.toml", false),
    (".cargo/config", false),
    (".cargo/registry", true),
    (".cargo/git", true),
    (".rustup", true),
    (".nvm", true),
    (".pyenv", true),
    (".local/bin", true),
    (".local/lib", true),
    (".local/share/uv", true),
    (".local/share/mise", true),
    (".local/share/pnpm", true),
    (".local/share/pipx", true),
    (".local/share/fnm", true),
    (".bun", true),
    (".deno", true),
    ("go", true),
    (".sdkman", true),
    (".asdf", true),
    (".volta", true),
    (".rbenv", true),
    (".rye", true),
    (".ghcup", true),
    (".cabal", true),
    (".opam", true),
    (".juliaup", true),
    (".julia", true),
    (".dotnet", true),
    (".m2/repository", true),
    ("miniconda3", true),
    ("anaconda3", true),
    ("miniforge3", true),
    (".nix-profile", false),
];

/// Environment variables that name a toolchain directory.
pub const TOOLCHAIN_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "BUN_INSTALL",
    "DENO_DIR",
    "VOLTA_HOME",
    "SDKMAN_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "RBENV_ROOT",
    "DOTNET_ROOT",
    "GRADLE_HOME",
    "MAVEN_HOME",
];

/// True for parts of the view in which no program of the user's is likely to listen: the system's,
/// and toolchains, which are too large to be walked at every start.
#[must_use]
pub fn is_of_the_machine(why: &str) -> bool {
    matches!(
        why,
        "system" | "system configuration" | "processor and memory layout" | "toolchain"
    )
}

/// Plans the view of medium and high.
#[must_use]
pub fn plan(seal: &Seal, decision: &Decision) -> View {
    let charter = &seal.charter;
    let home = charter.places.home.to_path_buf();
    let mut list = List {
        entries: Vec::new(),
        seen: BTreeSet::new(),
    };
    let session = seal.session_dir.as_path();
    list.add(
        "/tmp".into(),
        Source::Other(session.join("tmp")),
        Access::Write,
        "private temporary directory",
    );
    list.add(
        "/var/tmp".into(),
        Source::Other(session.join("vartmp")),
        Access::Write,
        "private temporary directory",
    );
    list.add(
        home.clone(),
        Source::Other(seal.home_dir.to_path_buf()),
        Access::Write,
        "private home",
    );
    for path in SYSTEM {
        list.add_existing(path.into(), Source::Same, Access::ReadExec, "system");
    }
    list.add_existing("/etc".into(), Source::Same, Access::Read, "system configuration");
    list.add_existing(
        "/sys/devices/system".into(),
        Source::Same,
        Access::Read,
        "processor and memory layout",
    );
    toolchains(charter, decision, &home, &mut list);
    skills(charter, decision, &home, &mut list);
    roots(decision, &mut list);
    ways(decision, &home, &mut list);
    for (path, object) in &decision.objects {
        let judged = list.entries.iter_mut().filter(|entry| entry.path == *path);
        judged.for_each(|entry| entry.object = Some(*object));
    }
    list.entries.sort_by_key(|e| e.path.components().count());
    let paths = |all: &[ferrum_proto::terms::PathBytes]| all.iter().map(|p| p.to_path_buf()).collect();
    View {
        entries: list.entries,
        home,
        sockets: paths(&charter.sockets),
        devices: paths(&charter.devices),
        system_programs_only: decision.grant.tier() == Tier::High,
    }
}

struct List {
    entries: Vec<Entry>,
    seen: BTreeSet<PathBuf>,
}

impl List {
    /// Later entries of a path replace earlier ones: the writable root is named last.
    fn add(&mut self, path: PathBuf, source: Source, access: Access, why: &'static str) {
        self.put(Entry {
            real: path.clone(),
            path,
            source,
            access,
            why,
            object: None,
        });
    }

    fn put(&mut self, entry: Entry) {
        if !self.seen.insert(entry.path.clone()) {
            self.entries.retain(|e| e.path != entry.path);
        }
        self.entries.push(entry);
    }

    /// A toolchain, unless whoever writes in a root could lead it anywhere.
    fn add_toolchain(&mut self, path: PathBuf, real: Option<PathBuf>, layered: bool) {
        let there = real.filter(|real| fs::symlink_metadata(real).is_ok());
        let Some(real) = there else { return };
        self.put(Entry {
            path,
            source: if layered { Source::Layered } else { Source::Same },
            access: Access::ReadExec,
            why: "toolchain",
            real,
            object: None,
        });
    }

    fn add_existing(&mut self, path: PathBuf, source: Source, access: Access, why: &'static str) {
        if fs::symlink_metadata(&path).is_ok() {
            self.add(path, source, access, why);
        }
    }
}

/// Where commands of this session, or of an earlier one, may have made links.
fn written(decision: &Decision) -> Vec<PathBuf> {
    let linked = decision.linked.iter().map(|linked| &linked.directory);
    let roots = decision.grant.writable_roots().iter();
    roots.chain(linked).cloned().collect()
}

fn toolchains(charter: &Charter, decision: &Decision, home: &Path, list: &mut List) {
    let written = written(decision);
    for (relative, layered) in TOOLCHAINS {
        let path = home.join(relative);
        let real = object::real(&path, &written);
        list.add_toolchain(path, real, *layered);
    }
    let own = [
        &charter.places.config,
        &charter.places.data,
        &charter.places.cache,
    ]
    .map(|p| p.to_path_buf());
    let mut inside = written;
    inside.extend(decision.grant.readable_roots().iter().cloned());
    for (name, value) in &charter.environment {
        let is_toolchain = TOOLCHAIN_VARIABLES.iter().any(|t| t.as_bytes() == name.0);
        let path = value.to_path_buf();
        if !is_toolchain || !path.is_absolute() || policy::protect::root_problem(&path, home, &own).is_some()
        {
            continue;
        }
        let is_there = list
            .entries
            .iter()
            .any(|e| path.starts_with(&e.path) && e.path != *home && e.why != "private temporary directory");
        if is_there || path == home.join(".cargo") {
            continue;
        }
        if name.0 == b"CARGO_HOME" {
            for (part, layered) in TOOLCHAINS
                .iter()
                .filter_map(|(p, l)| Some((p.strip_prefix(".cargo/")?, *l)))
            {
                let part = path.join(part);
                let real = named(&part, home, &inside);
                list.add_toolchain(part, real, layered);
            }
        } else {
            let real = named(&path, home, &inside);
            list.add_toolchain(path, real, true);
        }
    }
}

/// Where a path that the environment names is found. What lies in a root is seen there anyway.
/// Elsewhere another session may write, so but for the way to the home no link is followed: with
/// one the path cannot be opened.
fn named(path: &Path, home: &Path, inside: &[PathBuf]) -> Option<PathBuf> {
    let real = match path.strip_prefix(home) {
        Ok(below) => fs::canonicalize(home).ok()?.join(below),
        Err(_) => path.to_path_buf(),
    };
    let is_inside = |place: &Path| inside.iter().any(|root| place.starts_with(root));
    (!is_inside(path) && !is_inside(&real)).then_some(real)
}

/// The user's own skills, for the model to read. Where a place is a link, what it leads to is seen.
fn skills(charter: &Charter, decision: &Decision, home: &Path, list: &mut List) {
    if !decision.grant.skills().inherit {
        return;
    }
    let config = charter.places.config.as_path();
    let config = fs::canonicalize(config).unwrap_or_else(|_| config.to_path_buf());
    let own = config.join("skills");
    let written = written(decision);
    for place in [home.join(".agents/skills"), own.clone()] {
        // With a name below it, a link at its end is followed too.
        let below = object::real(&place.join("any"), &written);
        let Some(real) = below.as_deref().and_then(Path::parent).map(Path::to_path_buf) else {
            continue;
        };
        let is_fine = real == own || policy::protect::root_problem(&real, home, &[]).is_none();
        if is_fine && real.is_dir() {
            list.add(real, Source::Same, Access::ReadExec, "the user's skills");
        }
    }
}

fn roots(decision: &Decision, list: &mut List) {
    let writable = if decision.grant.tier() == Tier::High {
        Access::ReadExec
    } else {
        Access::Write
    };
    if let Some(top) = &decision.work_tree {
        list.add(
            top.clone(),
            Source::Same,
            Access::ReadExec,
            "work tree around the working directory",
        );
    }
    for root in decision.grant.readable_roots() {
        list.add(root.clone(), Source::Same, Access::ReadExec, "readable root");
    }
    if let Some(top) = &decision.work_tree {
        let git = top.join(".git");
        let inside_root = decision.grant.writable_roots().iter().any(|r| git.starts_with(r));
        let has_root = decision.grant.writable_roots().iter().any(|r| r.starts_with(top));
        if !inside_root && has_root && git.is_dir() {
            list.add(git, Source::Same, writable, "git directory of the work tree");
        }
    }
    if let Some(linked) = &decision.linked {
        list.add(
            linked.directory.clone(),
            Source::Same,
            writable,
            "git directory of a linked checkout",
        );
    }
    let why = match decision.grant.tier() {
        Tier::High => "root, read-only at tier high",
        Tier::Low | Tier::Medium => "writable root",
    };
    for root in decision.grant.writable_roots() {
        list.add(root.clone(), Source::Same, writable, why);
    }
}

/// The directories of the home that lead to roots. In the private home they would be writable, and
/// a file written beside a root would seem to be there for the user, and is not.
fn ways(decision: &Decision, home: &Path, list: &mut List) {
    let grant = &decision.grant;
    let linked = decision.linked.as_ref().map(|l| &l.directory);
    let roots = grant.writable_roots().iter().chain(grant.readable_roots());
    for root in roots.chain(&decision.work_tree).chain(linked) {
        let mut names = root.strip_prefix(home).into_iter().flatten();
        let (Some(first), Some(_)) = (names.next(), names.next()) else {
            continue;
        };
        let way = home.join(first);
        // Tools write their own files in directories that begin with a dot.
        let is_tools = first.as_encoded_bytes().starts_with(b".");
        if !is_tools && !list.seen.contains(&way) {
            list.add(way, Source::Empty, Access::None, "on the way to a root");
        }
    }
}
