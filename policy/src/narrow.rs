//! user ∩ project ∩ wish; never widens.

use crate::origin::{self, Removed, Source};
use crate::{Grant, Network, Place, ProjectPolicy, Require, Selection, ShellMode, Tier, Tool};
use std::path::{Path, PathBuf};

/// The user's policy as the charter gives it, with its roots resolved by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPolicy {
    pub ceiling: Tier,
    pub tier: Tier,
    /// `None` means the tier's own default.
    pub network: Option<Network>,
    pub shell: ShellMode,
    /// `None` means the tier's own default.
    pub require: Option<Require>,
    pub tools_allow: Option<Vec<String>>,
    pub tools_deny: Vec<String>,
    pub max_tool_rounds: u32,
    /// Canonical.
    pub writable_roots: Vec<PathBuf>,
    /// Canonical.
    pub readable_roots: Vec<PathBuf>,
}

/// One project file with its roots resolved by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// The file, for messages.
    pub path: PathBuf,
    /// What it speaks for: its roots are relative to this. Canonical.
    pub directory: PathBuf,
    pub policy: ProjectPolicy,
    /// Canonical twins of the policy's own lists, in the same order.
    pub writable_roots: Option<Vec<PathBuf>>,
    pub readable_roots: Option<Vec<PathBuf>>,
}

impl ProjectFile {
    /// The same file as if it did not hold `key`.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        let mut rest = Self {
            policy: self.policy.without(key),
            ..self.clone()
        };
        match key {
            "tools.writable_roots" => rest.writable_roots = None,
            "tools.readable_roots" => rest.readable_roots = None,
            _ => {}
        }
        rest
    }
}

/// What the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    pub tier: Option<Tier>,
    pub network: Option<Network>,
    pub shell: Option<ShellMode>,
    /// `None` means the default set; an empty list means no tools.
    pub tools: Option<Vec<String>>,
}

/// Why no grant came out: somebody asked for more than there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NarrowError {
    pub message: String,
    pub hint: String,
    /// The key of a project file that would widen; none where a wish asks for too much.
    pub at: Option<(PathBuf, Place)>,
}

/// Makes the grant.
///
/// Projects are given nearest first. Nothing here widens what the user's policy allows.
///
/// # Errors
/// [`NarrowError`] when a project file would widen, or a wish lies outside ceiling and floor.
pub fn narrow(user: &UserPolicy, projects: &[ProjectFile], wish: &Wish) -> Result<Grant, NarrowError> {
    let mut notices = Vec::new();
    if let Some(error) = foreign_roots(user, projects).into_iter().next() {
        return Err(error);
    }
    let floor = floor_of(user, projects);
    let tier = choose_tier(user, &floor, wish, &mut notices)?;
    let (skills, mcp, mcp_enabled) = selections(projects);
    let (tools, tools_removed) = choose_tools(user, projects, wish, tier, &mut notices)?;
    let mut grant = Grant {
        tier,
        floor: floor.tier,
        network: choose_network(user, projects, wish, tier, &mut notices)?,
        shell: choose_shell(user, projects, wish)?,
        require: projects
            .iter()
            .filter_map(|project| project.policy.require)
            .fold(origin::default_require(user, tier), Require::max),
        tools,
        tools_removed,
        writable_roots: roots(user, projects, &WRITABLE, &mut notices),
        readable_roots: roots(user, projects, &READABLE, &mut notices),
        max_tool_rounds: tool_rounds(user, projects),
        skills,
        mcp_enabled,
        mcp,
        origins: Vec::new(),
        notices,
    };
    grant.origins = origin::of(user, projects, wish, &grant);
    Ok(grant)
}

/// The lowest tier to be had, and who says so.
struct Floor {
    tier: Tier,
    set_by: String,
}

fn floor_of(user: &UserPolicy, projects: &[ProjectFile]) -> Floor {
    let mut floor = Floor {
        tier: user.ceiling,
        set_by: "[safety] ceiling of the user's config".to_owned(),
    };
    for project in projects {
        if let Some(tier) = project.policy.safety
            && tier > floor.tier
        {
            floor = Floor {
                tier,
                set_by: format!("safety in {}", project.path.display()),
            };
        }
    }
    floor
}

fn choose_tier(
    user: &UserPolicy,
    floor: &Floor,
    wish: &Wish,
    notices: &mut Vec<String>,
) -> Result<Tier, NarrowError> {
    match wish.tier {
        Some(tier) if tier < floor.tier => Err(NarrowError {
            message: format!(
                "tier {} is below the floor {}, set by {}",
                tier.name(),
                floor.tier.name(),
                floor.set_by
            ),
            hint: format!("ask for {} or higher", floor.tier.name()),
            at: None,
        }),
        Some(tier) => Ok(tier),
        None if user.tier < floor.tier => {
            notices.push(format!(
                "tier raised from {} to {} by {}",
                user.tier.name(),
                floor.tier.name(),
                floor.set_by
            ));
            Ok(floor.tier)
        }
        None => Ok(user.tier),
    }
}

/// The user's network is a default for low and medium; high has none unless wished. A project's
/// is a cap.
fn choose_network(
    user: &UserPolicy,
    projects: &[ProjectFile],
    wish: &Wish,
    tier: Tier,
    notices: &mut Vec<String>,
) -> Result<Network, NarrowError> {
    let capped = projects
        .iter()
        .filter_map(|project| project.policy.network.map(|network| (network, project)));
    let cap = capped.max_by_key(|(network, _)| *network);
    if let Some(wished) = wish.network {
        return match cap {
            Some((network, project)) if wished < network => Err(NarrowError {
                message: format!(
                    "network {} is wider than {}, set by [tools] network in {}",
                    wished.name(),
                    network.name(),
                    project.path.display()
                ),
                hint: format!("ask for {} or less", network.name()),
                at: None,
            }),
            _ => Ok(wished),
        };
    }
    let default = origin::default_network(user, tier);
    match cap {
        Some((network, project)) if network > default => {
            let file = project.path.display();
            notices.push(format!(
                "network lowered from {} to {} by {file}",
                default.name(),
                network.name()
            ));
            Ok(network)
        }
        _ => Ok(default),
    }
}

fn choose_shell(user: &UserPolicy, projects: &[ProjectFile], wish: &Wish) -> Result<ShellMode, NarrowError> {
    let forces = projects
        .iter()
        .find(|project| project.policy.shell == Some(ShellMode::Static));
    match (wish.shell, forces) {
        (Some(ShellMode::Auto), Some(project)) => Err(NarrowError {
            message: format!(
                "shell mode auto is ruled out by [tools] shell in {}",
                project.path.display()
            ),
            hint: "leave --shell out".to_owned(),
            at: None,
        }),
        (_, Some(_)) => Ok(ShellMode::Static),
        (wished, None) => Ok(wished.unwrap_or(user.shell)),
    }
}

type Tools = (Vec<Tool>, Vec<Removed>);

/// The tools that somebody took away, each once: the first reason counts.
#[derive(Default)]
struct Removals(Vec<(Tool, Removed)>);

impl Removals {
    fn add(&mut self, tool: Tool, reason: impl Into<String>, source: Source) {
        if self.of(tool).is_none() {
            let removed = Removed {
                tool: tool.name(),
                reason: reason.into(),
                source,
            };
            self.0.push((tool, removed));
        }
    }

    fn of(&self, tool: Tool) -> Option<&Removed> {
        let (_, removed) = self.0.iter().find(|(known, _)| *known == tool)?;
        Some(removed)
    }

    /// What one pair of lists takes away.
    fn by_lists(&mut self, lists: &Lists<'_>) {
        for tool in Tool::ALL {
            let named = |list: &[String]| list.iter().any(|name| name == tool.name());
            if named(lists.deny) {
                let reason = format!("denied by [tools] deny in {}", lists.file);
                self.add(tool, reason, (lists.source)("tools.deny"));
            } else if lists.allow.is_some_and(|allow| !named(allow)) {
                let reason = format!("not in [tools] allow of {}", lists.file);
                self.add(tool, reason, (lists.source)("tools.allow"));
            }
        }
    }
}

/// One file's word on tools.
struct Lists<'a> {
    allow: Option<&'a Vec<String>>,
    deny: &'a [String],
    file: String,
    source: Box<dyn Fn(&str) -> Source + 'a>,
}

fn lists<'a>(user: &'a UserPolicy, projects: &'a [ProjectFile]) -> Vec<Lists<'a>> {
    let users = Lists {
        allow: user.tools_allow.as_ref(),
        deny: &user.tools_deny,
        file: "the user's config".to_owned(),
        source: Box::new(|key| Source::User(origin::user_key(key))),
    };
    let projects = projects.iter().map(|project| Lists {
        allow: project.policy.tools_allow.as_ref(),
        deny: &project.policy.tools_deny,
        file: project.path.display().to_string(),
        source: Box::new(|key| Source::project(project, key)),
    });
    std::iter::once(users).chain(projects).collect()
}

fn choose_tools(
    user: &UserPolicy,
    projects: &[ProjectFile],
    wish: &Wish,
    tier: Tier,
    notices: &mut Vec<String>,
) -> Result<Tools, NarrowError> {
    let mut removals = Removals::default();
    for lists in lists(user, projects) {
        for name in lists.allow.into_iter().flatten().chain(lists.deny) {
            if Tool::from_name(name).is_none() {
                let file = &lists.file;
                notices.push(format!(
                    "[tools] in {file} names {name}, which is no built-in tool"
                ));
            }
        }
        removals.by_lists(&lists);
    }
    if tier == Tier::High {
        for tool in [Tool::Write, Tool::Edit] {
            removals.add(tool, "tier high writes nothing", Source::Tier);
        }
    }
    let wished = wished_tools(wish, &removals)?;
    let is_left = |tool: &Tool| wished.contains(tool) && removals.of(*tool).is_none();
    let mut tools: Vec<Tool> = Tool::ALL.into_iter().filter(is_left).collect();
    if !tools.contains(&Tool::Bash) && tools.contains(&Tool::Wait) {
        tools.retain(|tool| *tool != Tool::Wait);
        let source = removals
            .of(Tool::Bash)
            .map_or(Source::Wish, |bash| bash.source.clone());
        removals.add(Tool::Wait, "it runs commands, and bash is not exposed", source);
    }
    for tool in Tool::ALL {
        if !wished.contains(&tool) {
            removals.add(tool, "it was not asked for", Source::Wish);
        }
    }
    let removed = removals.0.into_iter().map(|(_, removed)| removed);
    Ok((tools, removed.collect()))
}

fn wished_tools(wish: &Wish, removals: &Removals) -> Result<Vec<Tool>, NarrowError> {
    let Some(names) = &wish.tools else {
        return Ok(Tool::ALL.to_vec());
    };
    let mut tools = Vec::new();
    for name in names {
        let Some(tool) = Tool::from_name(name) else {
            let known: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
            return Err(NarrowError {
                message: format!("the tool {name} does not exist"),
                hint: format!("the tools are {}", known.join(", ")),
                at: None,
            });
        };
        if let Some(removed) = removals.of(tool) {
            return Err(NarrowError {
                message: format!("the tool {name} is not to be had: {}", removed.reason),
                hint: "leave it out of the list".to_owned(),
                at: None,
            });
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// A key of roots, and the lists of the user's that its roots may lie in.
struct RootKey {
    name: &'static str,
    ours: fn(&UserPolicy) -> &[PathBuf],
    theirs: fn(&ProjectFile) -> Option<&Vec<PathBuf>>,
}

const WRITABLE: RootKey = RootKey {
    name: "tools.writable_roots",
    ours: |user| &user.writable_roots,
    theirs: |project| project.writable_roots.as_ref(),
};
const READABLE: RootKey = RootKey {
    name: "tools.readable_roots",
    ours: |user| &user.readable_roots,
    theirs: |project| project.readable_roots.as_ref(),
};

/// What is left of the user's roots: for each file, what lies in one of its roots too. A session
/// may stand anywhere in a project, so a root of the project's own may have nothing in common with
/// it; then nothing is left.
fn roots(
    user: &UserPolicy,
    projects: &[ProjectFile],
    key: &RootKey,
    notices: &mut Vec<String>,
) -> Vec<PathBuf> {
    let mut roots = (key.ours)(user).to_vec();
    for project in projects {
        let Some(asked) = (key.theirs)(project) else {
            continue;
        };
        let left = intersection(&roots, asked);
        if left.is_empty() && !roots.is_empty() {
            notices.push(nothing_left(project, key, asked, &roots));
        }
        roots = left;
    }
    roots
}

fn nothing_left(project: &ProjectFile, key: &RootKey, asked: &[PathBuf], roots: &[PathBuf]) -> String {
    let what = match key.name {
        "tools.writable_roots" => "nothing is writable",
        _ => "no readable root is left",
    };
    let file = project.path.display();
    if asked.is_empty() {
        return format!("{what}: {} is empty in {file}", key.name);
    }
    format!(
        "{what}: {} in {file} allows {}, and this session has {}",
        key.name,
        shown(asked),
        shown(roots)
    )
}

fn shown(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

/// Roots of project files that are neither the project's own nor the user's: whoever wrote them
/// wanted more than there is.
#[must_use]
pub fn foreign_roots(user: &UserPolicy, projects: &[ProjectFile]) -> Vec<NarrowError> {
    let mut errors = Vec::new();
    for project in projects {
        for key in [WRITABLE, READABLE] {
            // A readable root may also lie in a writable one: it is readable there already.
            let bounds = [user.writable_roots.as_slice(), (key.ours)(user)].concat();
            for root in (key.theirs)(project).into_iter().flatten() {
                let is_ours = bounds.iter().any(|bound| root.starts_with(bound));
                if !is_ours && !root.starts_with(&project.directory) {
                    errors.push(foreign_root(project, &key, root));
                }
            }
        }
    }
    errors
}

fn foreign_root(project: &ProjectFile, key: &RootKey, root: &Path) -> NarrowError {
    let place = project.policy.places.get(key.name).copied().unwrap_or_default();
    NarrowError {
        message: format!(
            "{} in {} names {}, which is outside the project and the user's roots",
            key.name,
            project.path.display(),
            root.display()
        ),
        hint: format!("remove it there, or add it to {} of the user's config", key.name),
        at: Some((project.path.clone(), place)),
    }
}

/// What lies in a root of both lists, by path components.
fn intersection(ours: &[PathBuf], theirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for our in ours {
        for their in theirs {
            let common = if their.starts_with(our) {
                their
            } else if our.starts_with(their) {
                our
            } else {
                continue;
            };
            if !out.contains(common) {
                out.push(common.clone());
            }
        }
    }
    out
}

/// 0 is adaptive and the widest.
fn tool_rounds(user: &UserPolicy, projects: &[ProjectFile]) -> u32 {
    let asked = projects
        .iter()
        .filter_map(|project| project.policy.max_tool_rounds);
    let bounds = asked
        .chain(std::iter::once(user.max_tool_rounds))
        .filter(|rounds| *rounds > 0);
    bounds.min().unwrap_or(0)
}

fn selections(projects: &[ProjectFile]) -> (Selection, Selection, bool) {
    let skills = projects
        .iter()
        .filter_map(|project| project.policy.skills.as_ref());
    let mcp = projects.iter().filter_map(|project| project.policy.mcp.as_ref());
    let enabled = projects
        .iter()
        .all(|project| project.policy.mcp_enabled != Some(false));
    (select(skills), select(mcp), enabled)
}

fn select<'a>(all: impl Iterator<Item = &'a Selection>) -> Selection {
    let mut out = Selection {
        inherit: true,
        allow: None,
        deny: Vec::new(),
    };
    for one in all {
        out.inherit &= one.inherit;
        if let Some(allow) = &one.allow {
            out.allow = Some(match out.allow {
                None => allow.clone(),
                Some(before) => before.into_iter().filter(|name| allow.contains(name)).collect(),
            });
        }
        let new = one.deny.iter().filter(|name| !out.deny.contains(name)).cloned();
        let new: Vec<String> = new.collect();
        out.deny.extend(new);
    }
    out
}
