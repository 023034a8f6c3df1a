//! Keys that cannot make git run a program or look in another place.

use super::Entry;

/// Two-part keys whose every value is data. `*` ends a prefix.
const PLAIN: &[(&str, &[&str])] = &[
    ("user", &["name", "email", "usefconfigonly"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "quotepath",
            "abbrev",
            "sparsecheckout",
            "sparsecheckoutcone",
            "compression",
            "bigfilethreshold",
            "preloadindex",
            "untrackedcache",
            "commentchar",
            "whitespace",
            "checkstat",
            "trustctime",
        ],
    ),
    (
        "extensions",
        &["objectformat", "refstorage", "partialclone", "relativeworktrees"],
    ),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("fetch", &["prune", "prunetags", "all", "parallel"]),
    (
        "merge",
        &["ff", "conflictstyle", "renames", "renamelimit", "stat", "log"],
    ),
    ("rebase", &["autosquash", "autostash", "updaterefs", "stat"]),
    ("rerere", &["enabled", "autoupdate"]),
    (
        "diff",
        &[
            "algorithm",
            "renames",
            "renamelimit",
            "mnemonicprefix",
            "noprefix",
            "context",
            "colormoved",
            "submodule",
        ],
    ),
    ("log", &["date", "decorate", "follow", "abbrevcommit"]),
    (
        "status",
        &[
            "short",
            "branch",
            "showuntrackedfiles",
            "showstash",
            "submodulesummary",
        ],
    ),
    ("color", &["*"]),
    ("column", &["*"]),
    ("advice", &["*"]),
    (
        "gc",
        &[
            "auto",
            "autodetach",
            "autopacklimit",
            "pruneexpire",
            "reflogexpire",
            "worktreepruneexpire",
        ],
    ),
    ("maintenance", &["auto", "strategy"]),
    ("commit", &["verbose", "status", "cleanup"]),
    ("tag", &["sort"]),
    ("branch", &["autosetupmerge", "autosetuprebase", "sort"]),
    ("checkout", &["defaultremote", "guess", "workers"]),
    ("stash", &["showpatch", "showstat", "showincludeuntracked"]),
    ("index", &["version", "threads", "sparse"]),
    ("feature", &["manyfiles", "experimental"]),
    ("pack", &["threads", "depth", "window"]),
    ("protocol", &["version"]),
    ("submodule", &["active", "recurse", "fetchjobs"]),
    ("versionsort", &["suffix"]),
    ("worktree", &["guessremote"]),
    ("i18n", &["commitencoding", "logoutputencoding"]),
    ("apply", &["whitespace"]),
    ("blame", &["date", "showemail", "coloring"]),
];

/// Three-part keys whose values are data or addresses.
const NAMED: &[(&str, &[&str])] = &[
    (
        "branch",
        &["remote", "merge", "rebase", "pushremote", "description"],
    ),
    (
        "remote",
        &[
            "url",
            "pushurl",
            "fetch",
            "push",
            "tagopt",
            "prune",
            "prunetags",
            "mirror",
            "skipdefaultupdate",
            "promisor",
            "partialclonefilter",
        ],
    ),
    (
        "submodule",
        &[
            "url",
            "active",
            "branch",
            "ignore",
            "fetchrecursesubmodules",
            "update",
            "shallow",
        ],
    ),
    ("color", &["*"]),
    ("maintenance", &["enabled", "schedule"]),
];

/// True for a key and value that cannot make git run a program or look in another place.
pub(super) fn is_harmless(entry: &Entry) -> bool {
    let table = if entry.subsection.is_some() { NAMED } else { PLAIN };
    let signing_off = matches!(entry.section.as_str(), "commit" | "tag") && entry.name == "gpgsign";
    if signing_off && entry.subsection.is_none() {
        return matches!(entry.value.as_str(), "false" | "no" | "off" | "0");
    }
    let listed = table.iter().any(|(section, names)| {
        *section == entry.section && names.iter().any(|n| *n == "*" || *n == entry.name)
    });
    listed && is_plain_value(&entry.value)
}

/// No program (`!cmd`), no option (`-x`), no remote helper (`ext::`), no control character.
fn is_plain_value(value: &str) -> bool {
    !value.starts_with(['!', '-']) && !value.contains("::") && !value.chars().any(char::is_control)
}
