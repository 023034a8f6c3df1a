//! The seal → a decision: reads the project's policy files, resolves roots and git directories by
//! opening them, and lets `policy` narrow.
//!
//! Runs in a thread that can neither write, execute nor reach a network (`confine::reader`): the
//! text that it parses is the project's. Nothing here enforces anything.

use crate::confine::home::{self, HomeFiles};
use crate::guard::repos;
use ferrum_proto::charter::{Ancestors, Charter, RootMode, ToolsWish};
use ferrum_proto::seal::{Granted, Seal, SealFailed, SealFailure, Selection};
use ferrum_proto::terms::{self, PathBytes};
use policy::{Grant, ProjectFile, ProjectPolicy, UserPolicy, Wish};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest project policy file, in bytes.
const PROJECT_BYTES_MAX: u64 = 1 << 20;

/// What a host will realise: the grant and the facts that it was made from.
#[derive(Debug, Clone)]
pub struct Decision {
    pub grant: Grant,
    /// What the grant was narrowed from: other wishes may be tried on it.
    pub inputs: Inputs,
    /// Canonical.
    pub cwd: PathBuf,
    /// The repository's top around the working directory.
    pub work_tree: Option<PathBuf>,
    /// Git directories outside the roots that belong to the checkout.
    pub linked: Option<repos::Linked>,
    pub project_files: Vec<PathBuf>,
    /// git's settings of the user, read while the home is still there.
    pub home_files: HomeFiles,
    pub notices: Vec<String>,
}

/// The user's policy and the project's files, roots resolved.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub user: UserPolicy,
    /// Nearest first.
    pub projects: Vec<ProjectFile>,
}

/// Makes the decision.
///
/// # Errors
/// [`SealFailed`] of kind `Policy` for a file, root or wish that cannot be used, `Setup` where the
/// working directory itself cannot be looked at.
pub fn decide(seal: &Seal) -> Result<Decision, SealFailed> {
    let charter = &seal.charter;
    let cwd = std::env::current_dir().map_err(|e| {
        failed(
            SealFailure::Setup,
            format!("cannot tell the working directory: {e}"),
            "",
        )
    })?;
    let home = canonical_or_same(charter.places.home.as_path());
    let uid = nix::unistd::geteuid().as_raw();
    let work_tree = repos::work_tree_around(&cwd, &home, uid);
    let mut notices = Vec::new();
    let projects = project_files(charter, &cwd, work_tree.as_deref(), uid)?;
    let user = user_policy(charter, &cwd, work_tree.as_deref(), &home, &mut notices)?;
    let grant = policy::narrow(&user, &projects, &wish(&seal.wish))
        .map_err(|e| failed(SealFailure::Policy, e.message, &e.hint))?;
    let linked = work_tree
        .as_deref()
        .and_then(|top| repos::linked(&top.join(".git"), uid));
    if let Some(top) = &work_tree
        && !grant.writable_roots().iter().any(|root| top.starts_with(root))
    {
        let root = grant
            .writable_roots()
            .first()
            .map_or("nothing".into(), |r| r.display().to_string());
        notices.push(format!(
                "{root} is writable; the rest of the repository {} is read-only (`[tools] root = \"repository\"` makes it the root)",
                top.display()
            ));
    }
    notices.extend(grant.notices().iter().cloned());
    let project_files = projects.iter().map(|p| p.path.clone()).collect();
    let home_files = home::collect(&home);
    Ok(Decision {
        grant,
        inputs: Inputs { user, projects },
        cwd,
        work_tree,
        linked,
        project_files,
        home_files,
        notices,
    })
}

fn failed(kind: SealFailure, message: String, hint: &str) -> SealFailed {
    SealFailed {
        kind,
        message,
        hint: hint.to_owned(),
    }
}

fn canonical_or_same(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The `.ferrum/config.toml` of the working directory and of its ancestors, nearest first.
fn project_files(
    charter: &Charter,
    cwd: &Path,
    work_tree: Option<&Path>,
    uid: u32,
) -> Result<Vec<ProjectFile>, SealFailed> {
    let own = canonical_or_same(charter.places.config.as_path());
    let mut files = Vec::new();
    for directory in cwd.ancestors() {
        if directory.join(".ferrum") == own {
            continue;
        }
        let outside = work_tree.is_some_and(|top| !directory.starts_with(top));
        if let Some(file) = project_file(directory, outside, uid)? {
            files.push(file);
            if charter.ancestors == Ancestors::Nearest {
                break;
            }
        }
    }
    Ok(files)
}

fn project_file(directory: &Path, outside: bool, uid: u32) -> Result<Option<ProjectFile>, SealFailed> {
    let folder = directory.join(".ferrum");
    let path = folder.join("config.toml");
    let refuse =
        |what: &str, hint: &str| failed(SealFailure::Policy, format!("{}: {what}", path.display()), hint);
    match fs::symlink_metadata(&folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refuse(&format!("cannot be looked at: {e}"), "")),
        Ok(meta) if !meta.is_dir() => {
            return Err(refuse(
                "`.ferrum` is not a directory",
                "remove it or make it a plain directory",
            ));
        }
        Ok(_) => {}
    }
    let meta = match fs::symlink_metadata(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refuse(&format!("cannot be looked at: {e}"), "")),
        Ok(meta) => meta,
    };
    if !meta.is_file() {
        return Err(refuse(
            "is not a regular file",
            "project policy must be a plain file, not a link, directory or device",
        ));
    }
    if meta.uid() != uid && meta.uid() != 0 {
        return Err(refuse(
            &format!("belongs to uid {}", meta.uid()),
            "project policy must belong to you or to root",
        ));
    }
    if outside && meta.mode() & 0o022 != 0 {
        return Err(refuse(
            "lies above the repository and others can write it",
            "chmod go-w it, or remove it",
        ));
    }
    if meta.len() > PROJECT_BYTES_MAX {
        return Err(refuse("is larger than 1 MiB", ""));
    }
    let text = read_text(&path).map_err(|e| refuse(&e, ""))?;
    let policy = ProjectPolicy::parse(&text).map_err(|e| {
        failed(
            SealFailure::Policy,
            format!("{}:{}:{}: {}", path.display(), e.line, e.column, e.message),
            &e.hint,
        )
    })?;
    let resolve = |roots: &Option<Vec<String>>, key: &str| {
        let Some(roots) = roots else { return Ok(None) };
        roots
            .iter()
            .map(|root| {
                fs::canonicalize(directory.join(root)).map_err(|e| {
                    refuse(
                        &format!("[tools] {key}: {root}: {e}"),
                        "name an existing directory",
                    )
                })
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Some)
    };
    let writable_roots = resolve(&policy.writable_roots, "writable_roots")?;
    let readable_roots = resolve(&policy.readable_roots, "readable_roots")?;
    Ok(Some(ProjectFile {
        path,
        policy,
        writable_roots,
        readable_roots,
    }))
}

fn read_text(path: &Path) -> Result<String, String> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|e| format!("cannot be opened: {e}"))?;
    let mut bytes = Vec::new();
    file.take(PROJECT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot be read: {e}"))?;
    String::from_utf8(bytes).map_err(|e| {
        format!(
            "is not UTF-8 (first bad byte at {})",
            e.utf8_error().valid_up_to()
        )
    })
}

fn user_policy(
    charter: &Charter,
    cwd: &Path,
    work_tree: Option<&Path>,
    home: &Path,
    notices: &mut Vec<String>,
) -> Result<UserPolicy, SealFailed> {
    let own: Vec<PathBuf> = [
        &charter.places.config,
        &charter.places.data,
        &charter.places.cache,
    ]
    .map(|p| canonical_or_same(p.as_path()))
    .into();
    let mut resolve = |roots: &[ferrum_proto::charter::Root], key: &str| {
        let mut all: Vec<PathBuf> = Vec::new();
        for root in roots {
            let is_default = root.path.0 == b".";
            let base = match (is_default, charter.root, work_tree) {
                (true, RootMode::Repository, Some(top)) => top,
                _ => cwd,
            };
            let path = fs::canonicalize(base.join(root.path.as_path())).map_err(|e| {
                failed(
                    SealFailure::Policy,
                    format!("[tools] {key}: {}: {e}", root.path.as_path().display()),
                    "name an existing directory in config.toml",
                )
            })?;
            let problem = policy::protect::root_problem(&path, home, &own);
            match problem {
                Some(problem) if !root.literal || is_default => notices.push(format!(
                    "{} is not a {} root: {problem}; start Ferrum in a project directory, or name the directory in `[tools] {key}` of config.toml",
                    path.display(),
                    key.trim_end_matches("_roots"),
                )),
                _ if all.contains(&path) => {}
                _ => all.push(path),
            }
        }
        Ok(all)
    };
    Ok(UserPolicy {
        ceiling: from_wire::tier(charter.ceiling),
        tier: from_wire::tier(charter.tier),
        network: charter.network.map(from_wire::network),
        shell: from_wire::shell(charter.shell),
        require: from_wire::require(charter.require),
        tools_allow: charter.tools_allow.clone(),
        tools_deny: charter.tools_deny.clone(),
        max_tool_rounds: charter.max_tool_rounds,
        writable_roots: resolve(&charter.writable_roots, "writable_roots")?,
        readable_roots: resolve(&charter.readable_roots, "readable_roots")?,
    })
}

/// The wish of the seal in policy's terms.
#[must_use]
pub fn wish(wish: &ferrum_proto::charter::Wish) -> Wish {
    Wish {
        tier: wish.tier.map(from_wire::tier),
        network: wish.network.map(from_wire::network),
        shell: wish.shell.map(from_wire::shell),
        tools: match &wish.tools {
            ToolsWish::Default => None,
            ToolsWish::None => Some(Vec::new()),
            ToolsWish::Only(names) => Some(names.clone()),
        },
    }
}

/// Wire terms → inner terms.
pub mod from_wire {
    use super::terms;

    #[must_use]
    pub fn tier(value: terms::Tier) -> policy::Tier {
        match value {
            terms::Tier::Low => policy::Tier::Low,
            terms::Tier::Medium => policy::Tier::Medium,
            terms::Tier::High => policy::Tier::High,
        }
    }

    #[must_use]
    pub fn network(value: terms::Network) -> policy::Network {
        match value {
            terms::Network::None => policy::Network::None,
            terms::Network::Private => policy::Network::Private,
            terms::Network::Full => policy::Network::Full,
        }
    }

    #[must_use]
    pub fn shell(value: terms::Shell) -> policy::ShellMode {
        match value {
            terms::Shell::Static => policy::ShellMode::Static,
            terms::Shell::Auto => policy::ShellMode::Auto,
        }
    }

    #[must_use]
    pub fn require(value: terms::Require) -> policy::Require {
        match value {
            terms::Require::Any => policy::Require::Any,
            terms::Require::Kernel => policy::Require::Kernel,
            terms::Require::Full => policy::Require::Full,
        }
    }

    #[must_use]
    pub fn isolation(value: terms::Isolation) -> policy::Isolation {
        match value {
            terms::Isolation::Partial => policy::Isolation::Partial,
            terms::Isolation::Kernel => policy::Isolation::Kernel,
            terms::Isolation::Full => policy::Isolation::Full,
        }
    }
}

/// Inner terms → wire terms, for the two answers to the seal.
pub mod to_wire {
    use super::terms;

    #[must_use]
    pub fn tier(value: policy::Tier) -> terms::Tier {
        match value {
            policy::Tier::Low => terms::Tier::Low,
            policy::Tier::Medium => terms::Tier::Medium,
            policy::Tier::High => terms::Tier::High,
        }
    }

    #[must_use]
    pub fn network(value: policy::Network) -> terms::Network {
        match value {
            policy::Network::None => terms::Network::None,
            policy::Network::Private => terms::Network::Private,
            policy::Network::Full => terms::Network::Full,
        }
    }

    #[must_use]
    pub fn shell(value: policy::ShellMode) -> terms::Shell {
        match value {
            policy::ShellMode::Static => terms::Shell::Static,
            policy::ShellMode::Auto => terms::Shell::Auto,
        }
    }

    #[must_use]
    pub fn require(value: policy::Require) -> terms::Require {
        match value {
            policy::Require::Any => terms::Require::Any,
            policy::Require::Kernel => terms::Require::Kernel,
            policy::Require::Full => terms::Require::Full,
        }
    }

    #[must_use]
    pub fn isolation(value: policy::Isolation) -> terms::Isolation {
        match value {
            policy::Isolation::Partial => terms::Isolation::Partial,
            policy::Isolation::Kernel => terms::Isolation::Kernel,
            policy::Isolation::Full => terms::Isolation::Full,
        }
    }
}

/// The first answer to the seal.
#[must_use]
pub fn granted(seal: &Seal, decision: &Decision) -> Granted {
    let grant = &decision.grant;
    let paths = |all: &[PathBuf]| all.iter().map(|p| PathBytes::from(p.as_path())).collect();
    let selection = |s: &policy::Selection| Selection {
        inherit: s.inherit,
        allow: s.allow.clone(),
        deny: s.deny.clone(),
    };
    Granted {
        tier: to_wire::tier(grant.tier()),
        floor: to_wire::tier(grant.floor()),
        network: to_wire::network(grant.network()),
        shell: to_wire::shell(grant.shell()),
        require: to_wire::require(grant.require()),
        tools: grant.tools().iter().map(|t| t.name().to_owned()).collect(),
        tools_removed: grant.tools_removed().to_vec(),
        cwd: PathBytes::from(decision.cwd.as_path()),
        work_tree: decision.work_tree.as_deref().map(PathBytes::from),
        writable_roots: paths(grant.writable_roots()),
        readable_roots: paths(grant.readable_roots()),
        max_tool_rounds: grant.max_tool_rounds(),
        skills: selection(grant.skills()),
        mcp_enabled: grant.mcp_enabled(),
        mcp: selection(grant.mcp()),
        project_files: paths(&decision.project_files),
        origins: seal
            .charter
            .origins
            .iter()
            .map(|(key, origin)| (key.clone(), String::new(), origin.clone()))
            .collect(),
        notices: decision.notices.clone(),
    }
}
