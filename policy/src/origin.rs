//! Who decided what: for each value of a grant, the user, the wish, the tier, or the project files
//! that narrowed it. Explains [`crate::narrow`] and decides nothing.

use crate::{Grant, Network, ProjectFile, Require, ShellMode, Tier, UserPolicy, Wish};
use std::path::PathBuf;

/// Who decided a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The user's configuration, or its built-in default: the key there, empty where it has none.
    User(&'static str),
    /// The operator's wish.
    Wish,
    /// It follows from the tier.
    Tier,
    /// A project file. The line is 0 where the file does not hold the key.
    Project { file: PathBuf, line: u32 },
}

impl Source {
    /// The place of `key` in a project file.
    #[must_use]
    pub fn project(project: &ProjectFile, key: &str) -> Self {
        Self::Project {
            file: project.path.clone(),
            line: project.policy.places.get(key).map_or(0, |place| place.line),
        }
    }
}

/// One value of the grant, by the name of its key, and who decided it. Several project files may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    pub key: &'static str,
    pub sources: Vec<Source>,
}

/// A tool that is not exposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub tool: &'static str,
    pub reason: String,
    pub source: Source,
}

/// The user's key of the same name.
pub(crate) fn user_key(key: &str) -> &'static str {
    USER_KEYS.into_iter().find(|known| *known == key).unwrap_or("")
}

const USER_KEYS: [&str; 2] = ["tools.allow", "tools.deny"];

/// The origins of everything that [`crate::narrow`] decides.
pub(crate) fn of(user: &UserPolicy, projects: &[ProjectFile], wish: &Wish, grant: &Grant) -> Vec<Decided> {
    let asked = Asked {
        user,
        projects,
        wish,
        grant,
    };
    vec![
        asked.tier(),
        asked.floor(),
        asked.network(),
        asked.shell(),
        asked.require(),
        asked.tools(),
        asked.roots("tools.writable_roots"),
        asked.roots("tools.readable_roots"),
        asked.rounds(),
        asked.names("skills.inherit_global", ""),
        asked.names("skills.allow", ""),
        asked.names("skills.deny", ""),
        asked.names("mcp.enabled", "mcp_enabled"),
        asked.names("mcp.allow", ""),
        asked.names("mcp.deny", ""),
    ]
}

struct Asked<'a> {
    user: &'a UserPolicy,
    projects: &'a [ProjectFile],
    wish: &'a Wish,
    grant: &'a Grant,
}

impl Asked<'_> {
    /// The project files of which `holds` is true; without one, who stands behind them.
    fn decided(
        &self,
        key: &'static str,
        holds: impl Fn(&ProjectFile) -> bool,
        otherwise: impl FnOnce() -> Source,
    ) -> Decided {
        let files = self.projects.iter().filter(|project| holds(project));
        let mut sources: Vec<Source> = files.map(|project| Source::project(project, key)).collect();
        if sources.is_empty() {
            sources.push(otherwise());
        }
        Decided { key, sources }
    }

    fn tier(&self) -> Decided {
        let grant = self.grant;
        if self.wish.tier.is_some() {
            return Decided {
                key: "safety",
                sources: vec![Source::Wish],
            };
        }
        let raised = self.user.tier < grant.tier;
        self.decided(
            "safety",
            |project| raised && project.policy.safety == Some(grant.tier),
            || Source::User(if raised { "safety.ceiling" } else { "safety.tier" }),
        )
    }

    fn floor(&self) -> Decided {
        let floor = self.grant.floor;
        let raises =
            |project: &ProjectFile| floor > self.user.ceiling && project.policy.safety == Some(floor);
        let decided = self.decided("safety", raises, || Source::User("safety.ceiling"));
        Decided {
            key: "safety.floor",
            ..decided
        }
    }

    fn network(&self) -> Decided {
        let key = "tools.network";
        if self.wish.network.is_some() {
            return Decided {
                key,
                sources: vec![Source::Wish],
            };
        }
        let default = default_network(self.user, self.grant.tier);
        let network = self.grant.network;
        let caps = |project: &ProjectFile| network > default && project.policy.network == Some(network);
        self.decided(key, caps, || match (self.grant.tier, self.user.network) {
            (Tier::Low | Tier::Medium, Some(_)) => Source::User(key),
            (Tier::Low | Tier::Medium, None) | (Tier::High, _) => Source::Tier,
        })
    }

    fn shell(&self) -> Decided {
        let forces = |project: &ProjectFile| project.policy.shell == Some(ShellMode::Static);
        self.decided("tools.shell", forces, || {
            self.wish
                .shell
                .map_or(Source::User("tools.shell"), |_| Source::Wish)
        })
    }

    fn require(&self) -> Decided {
        let require = self.grant.require;
        let default = default_require(self.user, self.grant.tier);
        let raises = |project: &ProjectFile| require > default && project.policy.require == Some(require);
        self.decided("isolation.require", raises, || match self.user.require {
            Some(_) => Source::User("isolation.require"),
            None => Source::Tier,
        })
    }

    /// Everybody who took one away; without any, the default.
    fn tools(&self) -> Decided {
        let mut sources: Vec<Source> = Vec::new();
        for removed in &self.grant.tools_removed {
            if !sources.contains(&removed.source) {
                sources.push(removed.source.clone());
            }
        }
        if sources.is_empty() {
            sources.push(Source::User("tools.allow"));
        }
        Decided {
            key: "tools",
            sources,
        }
    }

    fn roots(&self, key: &'static str) -> Decided {
        self.decided(
            key,
            |project| project.policy.places.contains_key(key),
            || Source::User(key),
        )
    }

    fn rounds(&self) -> Decided {
        let (key, rounds) = ("max_tool_rounds", self.grant.max_tool_rounds);
        let lowers = |project: &ProjectFile| {
            rounds != self.user.max_tool_rounds && project.policy.max_tool_rounds == Some(rounds)
        };
        self.decided(key, lowers, || Source::User(key))
    }

    fn names(&self, key: &'static str, user: &'static str) -> Decided {
        self.decided(
            key,
            |project| project.policy.places.contains_key(key),
            || Source::User(user),
        )
    }
}

/// The least isolation where no project says anything. Low promises what the mount view holds, and
/// runs without it unless somebody asks for more; the others do not run below `kernel`.
pub(crate) fn default_require(user: &UserPolicy, tier: Tier) -> Require {
    user.require.unwrap_or(match tier {
        Tier::Low => Require::Any,
        Tier::Medium | Tier::High => Require::Kernel,
    })
}

/// The network where neither a wish nor a project says anything.
pub(crate) fn default_network(user: &UserPolicy, tier: Tier) -> Network {
    match tier {
        Tier::Low => user.network.unwrap_or(Network::Full),
        Tier::Medium => user.network.unwrap_or(Network::Private),
        Tier::High => Network::None,
    }
}
