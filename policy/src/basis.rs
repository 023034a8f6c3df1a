//! What a verdict rests on: the rule, the keys that brought it about, and the promises of the
//! kernel that would still hold if the rule were wrong. Explains [`crate::judge`]; decides nothing.

/// The kind of act that was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Run,
    Read,
    Change,
    Connect,
    Execute,
    Server,
}

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    /// Where the rule stands, in words.
    pub rule: &'static str,
    /// Keys whose values led to it; empty where the rule is built in for every tier.
    pub keys: &'static [&'static str],
    /// Names of promises from [`crate::isolation`].
    pub promises: &'static [&'static str],
    /// False for what no configuration may grant.
    pub may_be_granted: bool,
}

const SHELL: &str = "shell table";
const BUILT_IN: &[&str] = &[];
const TABLE: &[&str] = &["safety", "tools.shell"];
const TIER: &[&str] = &["safety"];
const ALL: &[&str] = &["reading", "writing", "network", "front", "protected", "lifetime"];

/// The row of a refusal, or of an act that is allowed (an empty code).
#[must_use]
pub fn of(subject: Subject, code: &str) -> Basis {
    let row = |rule, keys, promises, may_be_granted| Basis {
        rule,
        keys,
        promises,
        may_be_granted,
    };
    match code {
        "" => allowed(subject),
        "tool" => row("exposed tools", &["tools"], allowed(subject).promises, true),
        "secret" => row("credential paths", BUILT_IN, &["reading"], false),
        "protected" => row("protected paths", BUILT_IN, &["protected", "writing"], false),
        "tier" => row("what tier high writes", TIER, &["writing"], true),
        "outside-root" => row("writable roots", &["tools.writable_roots"], &["writing"], true),
        "outside-view" => row(
            "the view",
            &["safety", "tools.readable_roots"],
            &["reading", "exec"],
            true,
        ),
        "hard-link" | "symlink" | "not-a-file" => {
            row("what write and edit replace", BUILT_IN, &["writing"], false)
        }
        "mcp" => row(
            "selected servers",
            &["mcp.enabled", "mcp.allow", "mcp.deny"],
            &[],
            true,
        ),
        "network" if subject == Subject::Connect => row("network", &["tools.network"], &["network"], true),
        "network" => row(SHELL, TABLE, &["network"], true),
        "net-redirect" => row(SHELL, TABLE, &["network"], true),
        "privilege" => row(SHELL, BUILT_IN, &["system"], false),
        "catastrophic" => row(SHELL, BUILT_IN, &["writing", "front"], false),
        "control" | "malformed" | "unreadable" => row(SHELL, BUILT_IN, ALL, false),
        "arg-write" => row(SHELL, &["tools.writable_roots"], &["writing"], true),
        "dynamic-target" | "subst" | "writes" => row(SHELL, TABLE, &["writing", "protected"], true),
        "detach" | "coproc" => row(SHELL, TABLE, &["lifetime"], true),
        "exec-path" => row("system programs", TIER, &["exec"], true),
        "unicode" | "dynamic-command" | "rebinds" | "indirect-expansion" | "eval" | "inline-code"
        | "wrapper" | "indirect" | "git-exec" | "arg-exec" | "env-authority" | "arith-injection"
        | "not-inspection" | "control-flow" | "expansion" => row(SHELL, TABLE, ALL, true),
        limit if limit.starts_with("limit-") => row(SHELL, BUILT_IN, &["resources"], false),
        // A code without a row claims nothing: see the test.
        _ => row("built in", BUILT_IN, &[], false),
    }
}

fn allowed(subject: Subject) -> Basis {
    let (rule, keys, promises): (_, &[&str], &[&str]) = match subject {
        Subject::Run => (SHELL, TABLE, ALL),
        Subject::Read => ("the view", &["safety", "tools.readable_roots"], &["reading"]),
        Subject::Change => (
            "writable roots",
            &["tools.writable_roots"],
            &["writing", "protected"],
        ),
        Subject::Connect => ("network", &["tools.network"], &["network"]),
        Subject::Execute => ("the view", TIER, &["exec"]),
        Subject::Server => ("selected servers", &["mcp.enabled", "mcp.allow", "mcp.deny"], &[]),
    };
    Basis {
        rule,
        keys,
        promises,
        may_be_granted: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::{Walls, judge};
    use crate::{Network, Tier};

    #[test]
    fn every_code_of_the_shell_has_a_row_of_its_own() {
        for code in crate::shell::CODES {
            let basis = of(Subject::Run, code.code);
            assert!(!basis.promises.is_empty(), "{}", code.code);
        }
    }

    #[test]
    fn every_promise_exists() {
        let walls = Walls {
            landlock_abi: 7,
            seccomp: true,
            no_capabilities: true,
            mount_view: true,
            pid_namespace: true,
            network_namespace: true,
            socket_filter: true,
            cgroup: true,
            proc_read_only: true,
            process_limit: true,
        };
        let (_, promises) = judge(Tier::Medium, Network::Private, &walls);
        let subjects = [
            Subject::Run,
            Subject::Read,
            Subject::Change,
            Subject::Connect,
            Subject::Execute,
        ];
        let codes = crate::shell::CODES.iter().map(|code| code.code);
        let files = [
            "",
            "tool",
            "secret",
            "tier",
            "outside-root",
            "outside-view",
            "symlink",
            "network",
        ];
        for code in codes.chain(files) {
            for subject in subjects {
                for name in of(subject, code).promises {
                    assert!(
                        promises.iter().any(|promise| promise.name == *name),
                        "{code}: {name}"
                    );
                }
            }
        }
    }
}
