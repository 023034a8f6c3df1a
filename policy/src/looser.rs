//! Whether a project file lets through more than it did before.
//!
//! A project's policy that was in force must not go away unseen, whoever took it away. The two
//! texts are compared, not two grants: roots as they are written, since both files lie in one place.

use crate::{ProjectPolicy, Selection, Tool};
use std::path::{Component, Path};

/// The first key by which `new` lets through more than `old`; `None` where it is as narrow or
/// narrower.
#[must_use]
pub fn looser(old: &ProjectPolicy, new: &ProjectPolicy) -> Option<&'static str> {
    let rounds = |policy: &ProjectPolicy| policy.max_tool_rounds.unwrap_or(u32::MAX);
    // No opinion is below every opinion, and terms are ordered from the widest to the narrowest.
    let checks = [
        ("safety", new.safety < old.safety),
        ("max_tool_rounds", rounds(new) > rounds(old)),
        ("tools.network", new.network < old.network),
        ("tools.shell", new.shell < old.shell),
        ("isolation.require", new.require < old.require),
        (
            "tools",
            Tool::ALL
                .iter()
                .any(|tool| exposes(new, *tool) && !exposes(old, *tool)),
        ),
        (
            "tools.writable_roots",
            wider(&old.writable_roots, &new.writable_roots),
        ),
        (
            "tools.readable_roots",
            wider(&old.readable_roots, &new.readable_roots),
        ),
        ("skills", selects_more(&old.skills, &new.skills)),
        (
            "mcp.enabled",
            old.mcp_enabled == Some(false) && new.mcp_enabled != Some(false),
        ),
        ("mcp", selects_more(&old.mcp, &new.mcp)),
    ];
    checks
        .into_iter()
        .find_map(|(key, is_looser)| is_looser.then_some(key))
}

fn exposes(policy: &ProjectPolicy, tool: Tool) -> bool {
    let named = |list: &[String]| list.iter().any(|name| name == tool.name());
    policy.tools_allow.as_deref().is_none_or(named) && !named(&policy.tools_deny)
}

fn wider(old: &Option<Vec<String>>, new: &Option<Vec<String>>) -> bool {
    let Some(old) = old else { return false };
    let Some(new) = new else { return true };
    new.iter()
        .any(|root| !old.iter().any(|outer| lies_in(root, outer)))
}

/// A path with `..` lies only in itself: what it leads through is not known here.
fn lies_in(root: &str, outer: &str) -> bool {
    let plain = |text: &str| -> Vec<String> {
        let parts = Path::new(text)
            .components()
            .filter(|part| *part != Component::CurDir);
        parts
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let (root, outer) = (plain(root), plain(outer));
    root == outer || (root.starts_with(&outer) && !root.iter().chain(&outer).any(|part| part == ".."))
}

fn selects_more(old: &Option<Selection>, new: &Option<Selection>) -> bool {
    let all = Selection {
        inherit: true,
        allow: None,
        deny: Vec::new(),
    };
    let (old, new) = (old.as_ref().unwrap_or(&all), new.as_ref().unwrap_or(&all));
    let may = |selection: &Selection, name: &String| {
        selection.allow.as_ref().is_none_or(|list| list.contains(name)) && !selection.deny.contains(name)
    };
    if new.inherit && !old.inherit {
        return true;
    }
    match (&old.allow, &new.allow) {
        (Some(_), None) => true,
        // Whatever else `new` lets through, `old` did too.
        (None, None) => old.deny.iter().any(|name| may(new, name)),
        (_, Some(named)) => named.iter().any(|name| may(new, name) && !may(old, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(old: &str, new: &str) -> Option<&'static str> {
        let parse = |text: &str| ProjectPolicy::parse(text).expect("valid");
        looser(&parse(old), &parse(new))
    }

    #[test]
    fn each_key_is_told_where_it_lets_through_more_and_not_the_other_way_round() {
        for (narrow, wide, expected) in [
            ("safety = \"high\"", "safety = \"medium\"", "safety"),
            ("safety = \"high\"", "", "safety"),
            ("max_tool_rounds = 3", "max_tool_rounds = 4", "max_tool_rounds"),
            ("max_tool_rounds = 3", "", "max_tool_rounds"),
            (
                "[tools]\nnetwork = \"none\"",
                "[tools]\nnetwork = \"private\"",
                "tools.network",
            ),
            ("[tools]\nshell = \"static\"", "", "tools.shell"),
            (
                "[isolation]\nrequire = \"full\"",
                "[isolation]\nrequire = \"kernel\"",
                "isolation.require",
            ),
            (
                "[tools]\ndeny = [\"bash\"]",
                "[tools]\ndeny = [\"write\"]\nallow = [\"bash\"]",
                "tools",
            ),
            (
                "[tools]\nallow = [\"read\"]",
                "[tools]\nallow = [\"read\", \"ls\"]",
                "tools",
            ),
            (
                "[tools]\nwritable_roots = [\"src\"]",
                "[tools]\nwritable_roots = [\".\"]",
                "tools.writable_roots",
            ),
            (
                "[tools]\nwritable_roots = [\"src\"]",
                "[tools]\nwritable_roots = [\"src/../x\"]",
                "tools.writable_roots",
            ),
            ("[tools]\nreadable_roots = []", "", "tools.readable_roots"),
            ("[skills]\ninherit_global = false", "", "skills"),
            (
                "[skills]\ndeny = [\"a\"]",
                "[skills]\ndeny = [\"b\"]\nallow = [\"a\"]",
                "skills",
            ),
            (
                "[skills]\nallow = [\"a\"]",
                "[skills]\nallow = [\"a\", \"b\"]",
                "skills",
            ),
            ("[mcp]\nenabled = false", "[mcp]\nenabled = true", "mcp.enabled"),
            ("[mcp]\nallow = []", "", "mcp"),
        ] {
            assert_eq!(key(narrow, wide), Some(expected), "{narrow} -> {wide}");
            assert_eq!(key(narrow, narrow), None, "{narrow}");
            assert_eq!(key("", narrow), None, "{narrow}");
        }
        for (wide, narrow) in [
            (
                "[tools]\nwritable_roots = [\".\"]",
                "[tools]\nwritable_roots = [\"./src\"]",
            ),
            ("[tools]\ndeny = [\"bash\"]", "[tools]\nallow = [\"read\"]"),
            ("[skills]\ndeny = [\"a\"]", "[skills]\nallow = [\"b\"]"),
            ("safety = \"medium\"", "safety = \"high\"\nmax_tool_rounds = 1"),
        ] {
            assert_eq!(key(wide, narrow), None, "{wide} -> {narrow}");
        }
    }
}
