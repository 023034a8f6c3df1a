//! What a project file says that is in vain or would widen, for whoever writes one.

use crate::{
    Grant, NarrowError, Network, Place, ProjectFile, Require, ShellMode, Tier, Tool, UserPolicy, Wish,
    narrow, narrow::foreign_roots,
};
use std::path::PathBuf;

/// One remark about a file that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub file: PathBuf,
    pub place: Place,
    /// A warning does not keep the file from being used.
    pub is_error: bool,
    pub message: String,
    pub hint: String,
}

/// Everything that is to be said of these files under this user's policy. What is in vain shows
/// only where there is a grant to compare: `is_whole` says that the files hold no other error.
#[must_use]
pub fn remarks(user: &UserPolicy, projects: &[ProjectFile], is_whole: bool) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = foreign_roots(user, projects).into_iter().map(error).collect();
    for project in projects {
        unknown_tools(project, &mut remarks);
        widening(project, &mut remarks);
    }
    match narrow(user, projects, &Wish::default()) {
        Err(failed) if remarks.is_empty() => remarks.push(error(failed)),
        Err(_) => {}
        Ok(_) if is_whole => in_vain(user, projects, &mut remarks),
        Ok(_) => {}
    }
    let order = |file: &PathBuf| projects.iter().position(|project| project.path == *file);
    remarks.sort_by_key(|remark| (order(&remark.file), remark.place));
    remarks
}

fn error(error: NarrowError) -> Remark {
    let (file, place) = error.at.unwrap_or_default();
    Remark {
        file,
        place,
        is_error: true,
        message: error.message,
        hint: error.hint,
    }
}

fn widening(project: &ProjectFile, remarks: &mut Vec<Remark>) {
    for (key, place) in &project.policy.places {
        if let Some(word) = widest(project, key) {
            remarks.push(Remark {
                file: project.path.clone(),
                place: *place,
                is_error: true,
                message: format!("{key} = {word} would widen what others say, and a project only narrows"),
                hint: "remove it".to_owned(),
            });
        }
    }
}

fn in_vain(user: &UserPolicy, projects: &[ProjectFile], remarks: &mut Vec<Remark>) {
    for (index, project) in projects.iter().enumerate() {
        for (key, place) in &project.policy.places {
            if widest(project, key).is_none() && !narrows(user, projects, index, key) {
                remarks.push(Remark {
                    file: project.path.clone(),
                    place: *place,
                    is_error: false,
                    message: format!("{key} narrows nothing here"),
                    hint: String::new(),
                });
            }
        }
    }
}

/// A value that can narrow for nobody.
fn widest(project: &ProjectFile, key: &str) -> Option<&'static str> {
    let policy = &project.policy;
    match key {
        "safety" if policy.safety == Some(Tier::Low) => Some("\"low\""),
        "tools.network" if policy.network == Some(Network::Full) => Some("\"full\""),
        "tools.shell" if policy.shell == Some(ShellMode::Auto) => Some("\"auto\""),
        "isolation.require" if policy.require == Some(Require::Any) => Some("\"any\""),
        _ => None,
    }
}

/// A name that no tool has denies nothing, and leaves what was meant as it is.
fn unknown_tools(project: &ProjectFile, remarks: &mut Vec<Remark>) {
    let policy = &project.policy;
    let lists = [
        ("tools.allow", policy.tools_allow.as_deref().unwrap_or_default()),
        ("tools.deny", policy.tools_deny.as_slice()),
    ];
    for (key, names) in lists {
        for name in names.iter().filter(|name| Tool::from_name(name).is_none()) {
            let known = Tool::ALL.map(Tool::name);
            remarks.push(Remark {
                file: project.path.clone(),
                place: policy.places.get(key).copied().unwrap_or_default(),
                is_error: true,
                message: format!("{key} names {name}, which is no built-in tool"),
                hint: format!("the tools are {}", known.join(", ")),
            });
        }
    }
}

/// Whether any wish is answered otherwise because of this key.
fn narrows(user: &UserPolicy, projects: &[ProjectFile], index: usize, key: &str) -> bool {
    let mut rest = projects.to_vec();
    rest[index] = rest[index].without(key);
    wishes().iter().any(|wish| {
        let with = narrow(user, projects, wish);
        let without = narrow(user, &rest, wish);
        !same(&with, &without)
    })
}

fn wishes() -> Vec<Wish> {
    let tiers = [None, Some(Tier::Low), Some(Tier::Medium), Some(Tier::High)];
    let networks = [
        None,
        Some(Network::Full),
        Some(Network::Private),
        Some(Network::None),
    ];
    let shells = [None, Some(ShellMode::Auto)];
    let mut wishes = Vec::new();
    for tier in tiers {
        for network in networks {
            wishes.extend(shells.map(|shell| Wish {
                tier,
                network,
                shell,
                tools: None,
            }));
        }
    }
    wishes
}

fn same(left: &Result<Grant, NarrowError>, right: &Result<Grant, NarrowError>) -> bool {
    let rules = |grant: &Grant| Grant {
        tools_removed: Vec::new(),
        origins: Vec::new(),
        notices: Vec::new(),
        ..grant.clone()
    };
    match (left, right) {
        (Ok(left), Ok(right)) => rules(left) == rules(right),
        (Err(_), Err(_)) => true,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProjectPolicy;

    fn user() -> UserPolicy {
        UserPolicy {
            ceiling: Tier::Low,
            tier: Tier::Medium,
            network: None,
            shell: ShellMode::Static,
            require: Some(Require::Kernel),
            tools_allow: None,
            tools_deny: vec!["grep".to_owned()],
            max_tool_rounds: 10,
            writable_roots: vec!["/project".into()],
            readable_roots: Vec::new(),
        }
    }

    fn found(text: &str) -> Vec<(u32, bool, String)> {
        let policy = ProjectPolicy::parse(text).expect("valid");
        let roots = policy.writable_roots.clone();
        let file = ProjectFile {
            path: "/project/.ferrum/config.toml".into(),
            directory: "/project".into(),
            writable_roots: roots.map(|roots| {
                roots
                    .iter()
                    .map(|root| std::path::Path::new("/project").join(root))
                    .collect()
            }),
            readable_roots: None,
            policy,
        };
        let remarks = remarks(&user(), &[file], true).into_iter();
        remarks
            .map(|remark| (remark.place.line, remark.is_error, remark.message))
            .collect()
    }

    #[test]
    fn what_narrows_is_not_remarked() {
        for text in [
            "safety = \"medium\"",
            "safety = \"high\"",
            "max_tool_rounds = 9",
            "tools.network = \"private\"",
            "tools.network = \"none\"",
            "tools.shell = \"static\"",
            "tools.deny = [\"bash\"]",
            "tools.allow = [\"read\"]",
            "tools.writable_roots = [\"src\"]",
            "isolation.require = \"full\"",
            "mcp.enabled = false",
            "skills.deny = [\"x\"]",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn what_widens_is_an_error_and_what_is_in_vain_a_warning() {
        for (text, is_error, word) in [
            ("safety = \"low\"", true, "widen"),
            ("tools.network = \"full\"", true, "widen"),
            ("tools.shell = \"auto\"", true, "widen"),
            ("isolation.require = \"any\"", true, "widen"),
            ("tools.writable_roots = [\"/\"]", true, "outside"),
            (
                "tools.writable_roots = [\"/etc\"]\ntools.shell = \"auto\"",
                true,
                "outside",
            ),
            ("tools.deny = [\"bsh\"]", true, "no built-in tool"),
            ("isolation.require = \"kernel\"", false, "narrows nothing"),
            ("max_tool_rounds = 10", false, "narrows nothing"),
            ("max_tool_rounds = 99", false, "narrows nothing"),
            ("tools.deny = [\"grep\"]", false, "narrows nothing"),
            ("tools.deny = []", false, "narrows nothing"),
            ("tools.writable_roots = [\".\"]", false, "narrows nothing"),
            ("mcp.enabled = true", false, "narrows nothing"),
            ("skills.inherit_global = true", false, "narrows nothing"),
        ] {
            let found = found(text);
            let hit = found
                .iter()
                .any(|(line, error, message)| *line == 1 && *error == is_error && message.contains(word));
            assert!(hit, "{text}: {found:?}");
        }
    }
}
