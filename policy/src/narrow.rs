//! user ∩ project ∩ wish; never widens.

use crate::{Grant, Network, ProjectPolicy, Require, Selection, ShellMode, Tier, Tool};
use std::path::PathBuf;

/// The user's policy as the charter gives it, with its roots resolved by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPolicy {
    pub ceiling: Tier,
    pub tier: Tier,
    /// `None` means the tier's own default.
    pub network: Option<Network>,
    pub shell: ShellMode,
    pub require: Require,
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
    pub policy: ProjectPolicy,
    /// Canonical twins of the policy's own lists, in the same order.
    pub writable_roots: Option<Vec<PathBuf>>,
    pub readable_roots: Option<Vec<PathBuf>>,
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
}

/// Makes the grant.
///
/// Projects are given nearest first. Nothing here widens what the user's policy allows.
///
/// # Errors
/// [`NarrowError`] when a project file would widen, or a wish lies outside ceiling and floor.
pub fn narrow(user: &UserPolicy, projects: &[ProjectFile], wish: &Wish) -> Result<Grant, NarrowError> {
    let mut notices = Vec::new();
    let floor = floor_of(user, projects);
    let tier = choose_tier(user, &floor, wish, &mut notices)?;
    let (skills, mcp, mcp_enabled) = selections(projects);
    let (tools, tools_removed) = choose_tools(user, projects, wish, tier, &mut notices)?;
    Ok(Grant {
        tier,
        floor: floor.tier,
        network: choose_network(user, projects, wish, tier, &mut notices)?,
        shell: choose_shell(user, projects, wish)?,
        require: projects
            .iter()
            .filter_map(|project| project.policy.require)
            .fold(user.require, Require::max),
        tools,
        tools_removed,
        writable_roots: writable_roots(user, projects)?,
        readable_roots: readable_roots(user, projects)?,
        max_tool_rounds: tool_rounds(user, projects),
        skills,
        mcp_enabled,
        mcp,
        notices,
    })
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
            }),
            _ => Ok(wished),
        };
    }
    let default = match tier {
        Tier::Low => user.network.unwrap_or(Network::Full),
        Tier::Medium => user.network.unwrap_or(Network::Private),
        Tier::High => Network::None,
    };
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
        }),
        (_, Some(_)) => Ok(ShellMode::Static),
        (wished, None) => Ok(wished.unwrap_or(user.shell)),
    }
}

type Tools = (Vec<Tool>, Vec<(String, String)>);

fn choose_tools(
    user: &UserPolicy,
    projects: &[ProjectFile],
    wish: &Wish,
    tier: Tier,
    notices: &mut Vec<String>,
) -> Result<Tools, NarrowError> {
    let mut removed: Vec<(Tool, String)> = Vec::new();
    let mut remove = |tool: Tool, why: String| {
        if !removed.iter().any(|(known, _)| *known == tool) {
            removed.push((tool, why));
        }
    };
    let user_lists = (
        user.tools_allow.as_ref(),
        &user.tools_deny,
        "the user's config".to_owned(),
    );
    let project_lists = projects.iter().map(|project| {
        let policy = &project.policy;
        (
            policy.tools_allow.as_ref(),
            &policy.tools_deny,
            project.path.display().to_string(),
        )
    });
    for (allow, deny, source) in std::iter::once(user_lists).chain(project_lists) {
        for name in allow.into_iter().flatten().chain(deny) {
            if Tool::from_name(name).is_none() {
                notices.push(format!(
                    "[tools] in {source} names {name}, which is no built-in tool"
                ));
            }
        }
        for tool in Tool::ALL {
            let name = tool.name();
            if deny.iter().any(|denied| denied == name) {
                remove(tool, format!("denied by [tools] deny in {source}"));
            } else if allow.is_some_and(|allow| !allow.iter().any(|allowed| allowed == name)) {
                remove(tool, format!("not in [tools] allow of {source}"));
            }
        }
    }
    if tier == Tier::High {
        remove(Tool::Write, "tier high writes nothing".to_owned());
        remove(Tool::Edit, "tier high writes nothing".to_owned());
    }
    let wished = wished_tools(wish, &removed)?;
    let mut tools: Vec<Tool> = Tool::ALL
        .into_iter()
        .filter(|tool| wished.contains(tool))
        .collect();
    tools.retain(|tool| !removed.iter().any(|(known, _)| known == tool));
    if !tools.contains(&Tool::Bash) && tools.contains(&Tool::Wait) {
        tools.retain(|tool| *tool != Tool::Wait);
        removed.push((Tool::Wait, "it runs commands, and bash is not exposed".to_owned()));
    }
    let removed = removed
        .into_iter()
        .map(|(tool, why)| (tool.name().to_owned(), why))
        .collect();
    Ok((tools, removed))
}

fn wished_tools(wish: &Wish, removed: &[(Tool, String)]) -> Result<Vec<Tool>, NarrowError> {
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
            });
        };
        if let Some((_, why)) = removed.iter().find(|(known, _)| *known == tool) {
            return Err(NarrowError {
                message: format!("the tool {name} is not to be had: {why}"),
                hint: "leave it out of the list".to_owned(),
            });
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn writable_roots(user: &UserPolicy, projects: &[ProjectFile]) -> Result<Vec<PathBuf>, NarrowError> {
    let mut roots = user.writable_roots.clone();
    for project in projects {
        if let Some(asked) = &project.writable_roots {
            inside(asked, &[&user.writable_roots], project, "writable_roots")?;
            roots = intersection(&roots, asked);
        }
    }
    Ok(roots)
}

/// A readable root may also lie in a writable one: it is readable there already.
fn readable_roots(user: &UserPolicy, projects: &[ProjectFile]) -> Result<Vec<PathBuf>, NarrowError> {
    let mut roots = user.readable_roots.clone();
    for project in projects {
        if let Some(asked) = &project.readable_roots {
            inside(
                asked,
                &[&user.readable_roots, &user.writable_roots],
                project,
                "readable_roots",
            )?;
            roots = intersection(&roots, asked);
        }
    }
    Ok(roots)
}

fn inside(
    asked: &[PathBuf],
    bounds: &[&Vec<PathBuf>],
    project: &ProjectFile,
    key: &str,
) -> Result<(), NarrowError> {
    for root in asked {
        let mut bounds = bounds.iter().flat_map(|bounds| bounds.iter());
        if !bounds.any(|bound| root.starts_with(bound)) {
            return Err(NarrowError {
                message: format!(
                    "[tools] {key} in {} names {}, which is outside the user's roots",
                    project.path.display(),
                    root.display()
                ),
                hint: format!("remove it there, or add it to [tools] {key} of the user's config"),
            });
        }
    }
    Ok(())
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
