//! Changes of the configuration that might turn a refusal into a permission, the smallest first.
//! They are proposals: the host judges the act again under each and tells the first that works.

use crate::{Grant, Network, ProjectFile, ProjectPolicy, ShellMode, Tier, Tool, UserPolicy, Wish, basis};
use std::path::{Path, PathBuf};

/// A policy with one thing changed.
#[derive(Debug, Clone)]
pub struct Change {
    pub user: UserPolicy,
    pub projects: Vec<ProjectFile>,
    pub wish: Wish,
    steps: Vec<String>,
}

/// What was refused.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    pub subject: basis::Subject,
    pub code: &'a str,
    /// The tool or server that the act needs; no tool is called as a server's act is.
    pub name: &'a str,
    /// Existing directories whose addition to the roots would cover the act; only such as may be
    /// granted.
    pub places: &'a [PathBuf],
}

impl Change {
    /// The change as an operator would make it.
    #[must_use]
    pub fn words(&self) -> String {
        self.steps.join(", and ")
    }

    fn set(&mut self, key: &str, value: &str) {
        self.steps
            .push(format!("set {} = {value} in config.toml", bracketed(key)));
    }

    /// Takes `key` out of each project file in which it forbids.
    fn lift(&mut self, key: &str, forbids: impl Fn(&ProjectPolicy) -> bool) {
        for project in &mut self.projects {
            if !forbids(&project.policy) {
                continue;
            }
            let line = project.policy.places.get(key).map_or(0, |place| place.line);
            self.steps
                .push(format!("remove {key} from {}:{line}", project.path.display()));
            *project = project.without(key);
        }
    }

    fn tier(mut self, tier: Tier) -> Self {
        if self.user.ceiling > tier {
            self.set("safety.ceiling", &quoted(tier.name()));
            self.user.ceiling = tier;
        }
        if self.wish.tier.unwrap_or(self.user.tier) > tier {
            self.set("safety.tier", &quoted(tier.name()));
            self.user.tier = tier;
            self.wish.tier = None;
        }
        self.lift("safety", |policy| policy.safety.is_some_and(|floor| floor > tier));
        self
    }

    fn shell(mut self) -> Self {
        if self.wish.shell.unwrap_or(self.user.shell) == ShellMode::Static {
            self.set("tools.shell", "\"auto\"");
            self.user.shell = ShellMode::Auto;
            self.wish.shell = None;
        }
        self.lift("tools.shell", |policy| policy.shell == Some(ShellMode::Static));
        self
    }

    /// High takes its network from a wish alone.
    fn network(mut self, tier: Tier, network: Network) -> Self {
        if tier == Tier::High {
            self.steps.push(format!("ask for --network {}", network.name()));
            self.wish.network = Some(network);
        } else {
            self.set("tools.network", &quoted(network.name()));
            self.user.network = Some(network);
            self.wish.network = None;
        }
        self.lift("tools.network", |policy| {
            policy.network.is_some_and(|cap| cap > network)
        });
        self
    }

    fn root(mut self, key: &'static str, place: &Path) -> Self {
        let writable = key == "tools.writable_roots";
        let roots = if writable {
            &mut self.user.writable_roots
        } else {
            &mut self.user.readable_roots
        };
        if !roots.iter().any(|root| place.starts_with(root)) {
            roots.push(place.to_path_buf());
            self.steps.push(format!(
                "add \"{}\" to {} in config.toml",
                place.display(),
                bracketed(key)
            ));
        }
        self.lift(key, |policy| {
            let roots = if writable {
                &policy.writable_roots
            } else {
                &policy.readable_roots
            };
            roots.is_some()
        });
        self
    }

    fn tool(mut self, name: &str) -> Self {
        if name == Tool::Wait.name() {
            // It goes with bash.
            self = self.tool(Tool::Bash.name());
        }
        if self.user.tools_deny.iter().any(|denied| denied == name) {
            self.user.tools_deny.retain(|denied| denied != name);
            self.steps
                .push(format!("remove \"{name}\" from [tools] deny in config.toml"));
        }
        if let Some(allow) = &mut self.user.tools_allow
            && !allow.iter().any(|allowed| allowed == name)
        {
            allow.push(name.to_owned());
            self.steps
                .push(format!("add \"{name}\" to [tools] allow in config.toml"));
        }
        let named = |list: &[String]| list.iter().any(|known| known == name);
        self.lift("tools.deny", |policy| named(&policy.tools_deny));
        self.lift("tools.allow", |policy| {
            policy.tools_allow.as_ref().is_some_and(|allow| !named(allow))
        });
        if let Some(wished) = &mut self.wish.tools
            && !named(wished)
        {
            wished.push(name.to_owned());
            self.steps.push(format!("ask for {name} with --tools too"));
        }
        self
    }

    fn server(mut self, name: &str) -> Self {
        let named = |list: &[String]| list.iter().any(|known| known == name);
        self.lift("mcp.enabled", |policy| policy.mcp_enabled == Some(false));
        self.lift("mcp.deny", |policy| {
            policy.mcp.as_ref().is_some_and(|mcp| named(&mcp.deny))
        });
        self.lift("mcp.allow", |policy| {
            let allow = policy.mcp.as_ref().and_then(|mcp| mcp.allow.as_ref());
            allow.is_some_and(|allow| !named(allow))
        });
        self
    }
}

/// `tools.shell` → `[tools] shell`.
fn bracketed(key: &str) -> String {
    match key.split_once('.') {
        Some((table, key)) => format!("[{table}] {key}"),
        None => key.to_owned(),
    }
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// Proposals for one refusal; none for what may never be granted.
#[must_use]
pub fn proposals(
    user: &UserPolicy,
    projects: &[ProjectFile],
    wish: &Wish,
    grant: &Grant,
    refused: Refused<'_>,
) -> Vec<Change> {
    if !basis::of(refused.subject, refused.code).may_be_granted {
        return Vec::new();
    }
    let now = Change {
        user: user.clone(),
        projects: projects.to_vec(),
        wish: wish.clone(),
        steps: Vec::new(),
    };
    // What stands behind the first refusal shows only when that is gone.
    let with_tool = (Tool::from_name(refused.name).is_some()).then(|| now.clone().tool(refused.name));
    let mut all = of_tiers(&now, grant.tier, refused);
    if let Some(with_tool) = with_tool.filter(|change| !change.steps.is_empty()) {
        let more = of_tiers(&with_tool, grant.tier, refused);
        all.push(with_tool);
        all.extend(more);
    }
    all.retain(|change| !change.steps.is_empty());
    all
}

/// Those that leave the tools as they are.
fn of_tiers(now: &Change, granted: Tier, refused: Refused<'_>) -> Vec<Change> {
    let mut all = small(now, granted, refused);
    for tier in [Tier::Medium, Tier::Low] {
        if tier < granted && refused.subject != basis::Subject::Connect {
            let lowered = now.clone().tier(tier);
            let more = small(&lowered, tier, refused);
            all.push(lowered);
            all.extend(more);
        }
    }
    all
}

/// Those that leave the tier as it is.
fn small(now: &Change, tier: Tier, refused: Refused<'_>) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    let root = |key: &'static str| {
        let places = refused.places.iter();
        places.map(move |place| now.clone().root(key, place))
    };
    match refused.subject {
        basis::Subject::Connect => {
            all.extend([Network::Private, Network::Full].map(|network| now.clone().network(tier, network)));
        }
        basis::Subject::Server => all.push(now.clone().server(refused.name)),
        basis::Subject::Change => all.extend(root("tools.writable_roots")),
        basis::Subject::Read | basis::Subject::Execute => all.extend(root("tools.readable_roots")),
        basis::Subject::Run => {
            // In auto the text may name any file, but the walls still refuse it.
            let is_of_roots = matches!(refused.code, "outside-root" | "arg-write");
            if tier == Tier::Medium && !is_of_roots {
                all.push(now.clone().shell());
            }
            all.extend(root("tools.writable_roots"));
        }
    }
    all
}
