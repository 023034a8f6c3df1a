//! The seal → a decision: reads the project's policy files, resolves roots and git directories by
//! opening them, and lets `policy` narrow.
//!
//! Runs in a thread that can neither write, execute nor reach a network (`confine::reader`): the
//! text that it parses is the project's. Nothing here enforces anything.

mod granted;
pub mod project;
mod remembered;
mod terms;

pub use granted::{granted, origin};
pub use terms::{from_wire, to_wire};

use crate::confine::home::{self, HomeFiles};
use crate::confine::object::Object;
use crate::guard::repos;
use ferrum_proto::charter::{Charter, PolicyText, RootMode, ToolsWish};
use ferrum_proto::seal::{Preflight, Seal, SealFailed, SealFailure};
use policy::{Grant, ProjectFile, UserPolicy, Wish};
use std::fs;
use std::path::{Path, PathBuf};

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
    /// What stood at the roots, the work tree and the linked git directory when they were judged.
    pub objects: Vec<(PathBuf, Object)>,
    /// Git directories outside the roots that belong to the checkout.
    pub linked: Option<repos::Linked>,
    pub project_files: Vec<PathBuf>,
    /// Their texts.
    pub policies: Vec<PolicyText>,
    /// git's settings of the user, read while the home is still there.
    pub home_files: HomeFiles,
    pub notices: Vec<String>,
    /// Where the wish asked for it.
    pub preflight: Option<Preflight>,
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
    let around = project::Around {
        charter,
        work_tree: work_tree.as_deref(),
        uid,
    };
    let files = around.files(&cwd).map_err(SealFailed::from)?;
    let mut notices = Vec::new();
    let policies = remembered::texts(&files, &mut notices);
    let projects: Vec<ProjectFile> = files.into_iter().map(|(file, _)| file).collect();
    remembered::check(&charter.remembered, &projects, &cwd)?;
    let mut decision = decide_with(seal, Place { cwd, home, work_tree }, projects)?;
    hold_to_working_directory(&decision)?;
    decision.policies = policies;
    decision.notices.splice(0..0, notices);
    Ok(decision)
}

/// Where a session would stand.
pub struct Place {
    /// Canonical.
    pub cwd: PathBuf,
    /// Canonical.
    pub home: PathBuf,
    /// The repository's top around the working directory.
    pub work_tree: Option<PathBuf>,
}

/// The user's policy and these project files, as far as the roots can be resolved.
///
/// # Errors
/// [`SealFailed`] for a root of the user's that cannot be used.
pub fn inputs(
    seal: &Seal,
    place: &Place,
    projects: Vec<ProjectFile>,
    notices: &mut Vec<String>,
) -> Result<Inputs, SealFailed> {
    let work_tree = place.work_tree.as_deref();
    let user = user_policy(&seal.charter, &place.cwd, work_tree, &place.home, notices)?;
    Ok(Inputs { user, projects })
}

/// Makes the decision from project files that have been read; their texts are not in it.
///
/// # Errors
/// As [`decide`].
pub fn decide_with(seal: &Seal, place: Place, projects: Vec<ProjectFile>) -> Result<Decision, SealFailed> {
    let uid = nix::unistd::geteuid().as_raw();
    let mut notices = Vec::new();
    let Inputs { user, projects } = inputs(seal, &place, projects, &mut notices)?;
    let Place { cwd, home, work_tree } = place;
    let grant = policy::narrow(&user, &projects, &wish(&seal.wish))
        .map_err(|e| failed(SealFailure::Policy, e.message, &e.hint))?;
    let linked = work_tree
        .as_deref()
        .and_then(|top| repos::linked(&top.join(".git"), uid));
    if let (Some(top), Some(root)) = (&work_tree, grant.writable_roots().first())
        && grant.tier() != policy::Tier::High
        && !grant.writable_roots().iter().any(|root| top.starts_with(root))
    {
        let root = root.display();
        notices.push(format!(
                "{root} is writable; the rest of the repository {} is read-only (`[tools] root = \"repository\"` makes it the root)",
                top.display()
            ));
    }
    notices.extend(grant.notices().iter().cloned());
    let objects = objects(&grant, work_tree.as_deref(), linked.as_ref())?;
    let project_files = projects.iter().map(|p| p.path.clone()).collect();
    let home_files = home::collect(&home);
    let preflight = seal
        .wish
        .inspect
        .then(|| crate::preflight::of(work_tree.as_deref().unwrap_or(&cwd)));
    Ok(Decision {
        grant,
        inputs: Inputs { user, projects },
        cwd,
        work_tree,
        objects,
        linked,
        project_files,
        policies: Vec::new(),
        home_files,
        notices,
        preflight,
    })
}

/// What stands now at each place that will be mounted, or allowed, by its name.
fn objects(
    grant: &Grant,
    work_tree: Option<&Path>,
    linked: Option<&repos::Linked>,
) -> Result<Vec<(PathBuf, Object)>, SealFailed> {
    let roots = grant.writable_roots().iter().chain(grant.readable_roots());
    let mut places: Vec<&Path> = roots.map(PathBuf::as_path).collect();
    places.extend(work_tree);
    places.extend(linked.map(|linked| linked.directory.as_path()));
    let object = |place: &Path| {
        let found = Object::at(place).map_err(|e| exchanged(place, &e.to_string()))?;
        Ok((place.to_path_buf(), found))
    };
    places.into_iter().map(object).collect()
}

/// The host stands in the directory that the launcher opened. Its name may lead elsewhere by now.
fn hold_to_working_directory(decision: &Decision) -> Result<(), SealFailed> {
    let cwd = &decision.cwd;
    let named = decision.objects.iter().find(|(path, _)| path == cwd);
    let own = Object::working_directory().map_err(|e| exchanged(cwd, &e.to_string()))?;
    match named {
        Some((_, object)) if *object != own => Err(exchanged(cwd, "another directory has its name now")),
        _ => Ok(()),
    }
}

fn exchanged(place: &Path, what: &str) -> SealFailed {
    let message = format!("{}: {what}", place.display());
    let hint = "something moved this directory while the session began; start again";
    failed(SealFailure::Setup, message, hint)
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
            // The working directory is canonical, and a link that was put in its place meanwhile
            // is not what the user named.
            let found = if is_default {
                Ok(base.to_path_buf())
            } else {
                fs::canonicalize(base.join(root.path.as_path()))
            };
            let path = found.map_err(|e| {
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
        Ok::<_, SealFailed>(all)
    };
    Ok(UserPolicy {
        ceiling: from_wire::tier(charter.ceiling),
        tier: from_wire::tier(charter.tier),
        network: charter.network.map(from_wire::network),
        shell: from_wire::shell(charter.shell),
        require: charter.require.map(from_wire::require),
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
