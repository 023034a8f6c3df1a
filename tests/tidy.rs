//! Rules of the house that can be read off the sources: who links what, where `unsafe` is, what
//! the documents promise.

use ferrum_tests::place::sources;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates of other systems are not linked and need not be there.
fn platform() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(sources())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Names of the crates that a package links, by itself or through others.
fn links(package: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}",
    ]);
    let names = tree.lines().skip(1).filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != package).map(str::to_owned).collect()
}

fn list(value: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn nobody_links_what_it_must_not() {
    for (package, banned) in [
        (
            "ferrum-toolhost",
            &[
                "ferrum",
                "tokio",
                "reqwest",
                "hyper",
                "rustls",
                "ring",
                "clap",
                "rustyline",
                "serde_json",
            ][..],
        ),
        (
            "policy",
            &[
                "ferrum",
                "ferrum-proto",
                "ferrum-toolhost",
                "nix",
                "tokio",
                "reqwest",
                "landlock",
            ],
        ),
        (
            "ferrum-proto",
            &[
                "ferrum",
                "ferrum-toolhost",
                "policy",
                "nix",
                "tokio",
                "serde_json",
                "landlock",
            ],
        ),
        (
            "ferrum",
            &["ferrum-toolhost", "policy", "tree-sitter", "tree-sitter-bash"],
        ),
    ] {
        let linked = links(package);
        let wrong: Vec<&&str> = banned.iter().filter(|name| linked.contains(**name)).collect();
        assert!(wrong.is_empty(), "{package} links {wrong:?}");
    }
}

/// Every Rust source of the workspace, with its path below the root.
fn rust_sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for package in ["ferrum", "ferrum-toolhost", "ferrum-proto", "policy", "tests"] {
        walk(&sources().join(package), &mut found);
    }
    assert!(found.len() > 40, "only {} sources", found.len());
    found
}

fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(dir).expect("a directory of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .strip_prefix(sources())
                .expect("below the root")
                .to_path_buf();
            found.push((name, std::fs::read_to_string(&path).expect("UTF-8 sources")));
        }
    }
}

#[test]
fn unsafe_code_stays_in_its_fence() {
    let fence = [
        "ferrum-toolhost/src/sys",
        "ferrum/src/sys.rs",
        "tests/harness/sys.rs",
    ];
    for (path, text) in rust_sources() {
        let is_test = path.to_string_lossy().ends_with("tests.rs");
        if fence.iter().any(|inside| path.starts_with(inside)) || is_test || path.ends_with("tidy.rs") {
            continue;
        }
        let opened = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe {")
                || code.contains("unsafe fn")
                || code.contains("unsafe impl")
                || code.contains("unsafe extern")
        });
        assert!(!opened, "{} holds unsafe code", path.display());
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
    ];
    for (path, text) in rust_sources() {
        for line in text.lines() {
            // A text that searches for such words is none of them.
            let code = line.split('"').next().unwrap_or_default();
            let comment = line.split_once("//").map_or("", |(_, comment)| comment);
            for word in words {
                let found = code.contains(word) || comment.contains(word);
                assert!(!found, "{} holds {word}: {line}", path.display());
            }
        }
    }
}

fn document(name: &str) -> String {
    std::fs::read_to_string(sources().join("docs").join(name))
        .unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// Variants of the enums in a source text: names at the first level of `pub enum NAME {`.
fn variants(source: &str, name: &str) -> Vec<String> {
    let start = source
        .find(&format!("pub enum {name} {{"))
        .unwrap_or_else(|| panic!("enum {name} is gone"));
    let mut depth = 0;
    let mut found = Vec::new();
    for line in source[start..].lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        if depth == 1 && code.starts_with(|first: char| first.is_ascii_uppercase()) {
            found.push(code.chars().take_while(char::is_ascii_alphanumeric).collect());
        }
        depth += code.matches(['{', '(']).count();
        depth -= code.matches(['}', ')']).count();
        if depth == 0 && !found.is_empty() {
            break;
        }
    }
    found
}

#[test]
fn every_frame_is_described() {
    let protocol = document("PROTOCOL.md");
    for (file, name) in [
        ("control.rs", "ToLauncher"),
        ("control.rs", "FromLauncher"),
        ("request.rs", "ToHost"),
        ("request.rs", "ToolRequest"),
        ("request.rs", "Act"),
        ("reply.rs", "FromHost"),
        ("reply.rs", "Outcome"),
        ("reply.rs", "Explanation"),
        ("seal.rs", "SealFailure"),
    ] {
        let source = std::fs::read_to_string(sources().join("ferrum-proto/src").join(file))
            .expect("the wire's source");
        let variants = variants(&source, name);
        assert!(variants.len() > 1, "{name}: {variants:?}");
        for variant in variants {
            assert!(
                protocol.contains(&format!("`{name}::{variant}`")),
                "PROTOCOL.md does not describe {name}::{variant}"
            );
        }
    }
    for number in [
        ferrum_proto::limits::PENDING_CALLS_MAX,
        ferrum_proto::limits::HOSTS_MAX,
        ferrum_proto::limits::DENIALS_MAX,
    ] {
        assert!(
            protocol.contains(&number.to_string()),
            "PROTOCOL.md does not state the limit {number}"
        );
    }
}

/// Each promise of the threat model names a test, and the test exists.
#[test]
fn every_promise_names_a_test_that_exists() {
    let model = document("THREAT-MODEL.md");
    let names: BTreeSet<String> = rust_sources()
        .iter()
        .flat_map(|(_, text)| {
            text.lines()
                .filter_map(|line| line.trim().strip_prefix("fn "))
                .map(|rest| {
                    rest.chars()
                        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                        .collect::<String>()
                })
                .collect::<Vec<_>>()
        })
        .collect();
    let promises: Vec<&str> = model.lines().filter(|line| line.starts_with("| P")).collect();
    assert!(promises.len() >= 10, "only {} promises", promises.len());
    for promise in promises {
        let last = promise
            .trim_end_matches('|')
            .rsplit('|')
            .next()
            .unwrap_or_default();
        let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test is named: {promise}");
        for test in tests {
            assert!(names.contains(test), "the test {test} does not exist: {promise}");
        }
    }
}

#[test]
fn documents_link_to_files_that_exist() {
    let mut pages = vec![sources().join("README.md")];
    let mut open = vec![sources().join("docs")];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).expect("documents").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                pages.push(path);
            }
        }
    }
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a document");
        for part in text.split("](").skip(1) {
            let target = part
                .split(')')
                .next()
                .unwrap_or_default()
                .split('#')
                .next()
                .unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = page.parent().expect("a directory").join(target);
            assert!(
                file.exists(),
                "{} links to {target}, which does not exist",
                page.display()
            );
        }
    }
}

/// What may be linked at all: the same list as `.cargo/deny.toml`, checked without a further tool.
#[test]
fn every_linked_licence_is_allowed() {
    let deny = std::fs::read_to_string(sources().join(".cargo/deny.toml")).expect(".cargo/deny.toml");
    let deny: toml::Table = deny.parse().expect("TOML");
    let allowed: BTreeSet<&str> = deny["licenses"]["allow"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(toml::Value::as_str)
        .collect();
    let data = cargo(&["metadata", "--format-version=1", "--filter-platform", &platform()]);
    let data: serde_json::Value = serde_json::from_str(&data).expect("cargo's metadata");
    for package in list(&data["packages"]) {
        let licence = text(&package["license"]);
        let fine = licence.replace('/', " OR ").split(" AND ").all(|part| {
            part.split(" OR ")
                .any(|choice| allowed.contains(choice.trim_matches(['(', ')', ' '])))
        });
        assert!(fine, "{} has the licence {licence:?}", text(&package["name"]));
        let source = text(&package["source"]);
        assert!(
            source.is_empty() || source.starts_with("registry+"),
            "{} comes from {source}",
            text(&package["name"])
        );
    }
}
