//! Files that programs and agents obey without being asked: editing one does nothing by itself, and
//! something the next time that somebody builds, opens or commits.
//!
//! A table for people: at the end of a turn the ones that it touched are named. Nothing is refused
//! by it.

use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::LazyLock;

/// One kind of such files.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// One word.
    pub kind: &'static str,
    /// Who obeys them, and when.
    pub who: &'static str,
    /// `NAME`; `*END` and `BEGIN*` of a name; `DIR/`, `DIR/DIR/`: everything below such a directory.
    pub patterns: &'static [&'static str],
}

/// The table, in the order in which it is asked: the first row that matches is the answer.
#[rustfmt::skip]
pub const TABLE: [Row; 9] = [
    Row {
        kind: "agent",
        who: "coding agents, when they start here",
        patterns: &[
            "AGENTS.md", "agents.md", "SKILL.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".ferrum/", ".agents/",
            ".claude/", ".codex/", ".gemini/", ".cursor/", ".cursorrules", ".windsurf/", ".windsurfrules",
            ".clinerules", ".clinerules/", ".roo/", ".continue/", ".opencode/", "opencode.json", ".mcp.json",
            ".aider.conf.yml", ".github/instructions/", ".github/prompts/", "copilot-instructions.md",
        ],
    },
    Row {
        kind: "git",
        who: "git, on checkout, commit, diff or merge",
        patterns: &[".gitattributes", ".gitmodules", ".lfsconfig", ".husky/", ".githooks/", "hooks/", ".mailmap"],
    },
    Row {
        kind: "ci",
        who: "continuous integration, on the next push",
        patterns: &[
            ".github/workflows/", ".github/actions/", "action.yml", "action.yaml", ".gitlab-ci.yml", ".gitlab/",
            ".circleci/", ".forgejo/", ".gitea/", ".woodpecker/", ".woodpecker.yml", ".buildkite/", "Jenkinsfile",
            "azure-pipelines.yml", "bitbucket-pipelines.yml", ".travis.yml", ".drone.yml", ".cirrus.yml",
            "appveyor.yml", ".appveyor.yml", "cloudbuild.yaml", "buildspec.yml", "renovate.json", "dependabot.yml",
        ],
    },
    Row {
        kind: "editor",
        who: "editors and debuggers, when the project is opened",
        patterns: &[
            ".vscode/", ".idea/", ".zed/", ".fleet/", ".nvim/", ".devcontainer/", ".devcontainer.json", "*.code-workspace",
            "*.sublime-project", ".exrc", ".nvimrc", ".vimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".gdbinit",
            ".lldbinit", ".projectile",
        ],
    },
    Row {
        kind: "shell",
        who: "shells and version managers, on entering the directory",
        patterns: &[
            ".envrc", ".env", ".env.*", ".autoenv.zsh", ".tool-versions", "mise.toml", ".mise.toml", ".nvmrc",
            ".node-version", ".python-version", ".ruby-version", ".java-version", ".terraform-version", ".sdkmanrc",
        ],
    },
    Row {
        kind: "task",
        who: "task runners, when somebody runs a task",
        patterns: &[
            "justfile", "Justfile", ".justfile", "*.just", "Taskfile.yml", "Taskfile.yaml", "tasks.py", "noxfile.py", "tox.ini",
            "Procfile", "Vagrantfile", "Tiltfile", "skaffold.yaml", "turbo.json", "nx.json", "lerna.json",
            ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".lintstagedrc*", "lint-staged.config.*",
            "docker-compose*", "compose.yml", "compose.yaml", "Dockerfile*", "Containerfile*", ".dockerignore",
            "gulpfile.*", "Gruntfile.*", "Rakefile", "ansible.cfg", "fabfile.py",
        ],
    },
    Row {
        kind: "package",
        who: "package managers, on install, build or test",
        patterns: &[
            "package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs", ".pnpmfile.cjs", "pnpm-workspace.yaml",
            "bunfig.toml", "deno.json", "deno.jsonc", "composer.json", "Pipfile", "pip.conf", "pyproject.toml", "setup.py",
            "setup.cfg", "*.pth", "sitecustomize.py", "usercustomize.py", "Gemfile", "*.gemspec", ".bundle/", "Cargo.toml",
            ".cargo/", "rust-toolchain", "rust-toolchain.toml", "go.mod", "go.work", "mix.exs", "rebar.config", "pubspec.yaml",
            "Package.swift", "Podfile", "*.podspec", "*.csproj", "*.fsproj", "*.vcxproj", "*.props", "*.targets",
            "nuget.config", "NuGet.Config", "global.json", "conanfile.py", "vcpkg.json", "flake.nix", "default.nix", "shell.nix",
        ],
    },
    Row {
        kind: "build",
        who: "builds",
        patterns: &[
            "Makefile", "makefile", "GNUmakefile", "*.mk", "*.mak", "CMakeLists.txt", "CMakePresets.json",
            "CMakeUserPresets.json", "*.cmake", "build.rs", "build.zig", "build.sbt", "*.sbt", "build.xml", "pom.xml", ".mvn/",
            "mvnw", "*.gradle", "*.gradle.kts", "gradle.properties", "gradlew", "gradle-wrapper.properties",
            "gradle-wrapper.jar", "BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel", ".bazelrc",
            "*.bzl", "meson.build", "SConstruct", "SConscript", "configure", "configure.ac", "*.am", "*.m4", "dune-project", "dune",
            "*.cabal", "stack.yaml", "*.pro", "BUCK", ".buckconfig", "xmake.lua", "premake5.lua", "wscript",
        ],
    },
    Row {
        kind: "tool",
        who: "compilers, linters, test runners and bundlers, which load code or options from them",
        patterns: &[
            "conftest.py", "pytest.ini", ".flake8", ".pylintrc", "pylintrc", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml",
            ".coveragerc", "tsconfig*.json", "jsconfig.json", ".eslintrc*", "eslint.config.*", ".prettierrc*",
            "prettier.config.*", ".stylelintrc*", "stylelint.config.*", "babel.config.*", ".babelrc*", ".swcrc",
            "webpack.config.*", "vite.config.*", "vitest.config.*", "vitest.workspace.*", "rollup.config.*", "esbuild.config.*",
            "rspack.config.*", "jest.config.*", ".mocharc*", "karma.conf.*", "playwright.config.*", "cypress.config.*",
            "next.config.*", "nuxt.config.*", "astro.config.*", "svelte.config.*", "remix.config.*", "angular.json",
            "postcss.config.*", "tailwind.config.*", "metro.config.*", "commitlint.config.*", ".releaserc*", "release.config.*",
            "clippy.toml", ".clippy.toml", "rustfmt.toml", ".rustfmt.toml", "deny.toml", ".clang-tidy", ".clangd",
            ".golangci.yml", ".golangci.yaml", ".goreleaser.yml", ".goreleaser.yaml", ".rubocop.yml", ".rspec", ".irbrc", ".pryrc",
            ".psqlrc", ".Rprofile", ".shellcheckrc", "phpunit.xml", "phpstan.neon", ".php-cs-fixer.php", ".credo.exs",
            ".formatter.exs", ".iex.exs", ".bandit", ".yamllint", ".terraformrc", ".tflint.hcl",
        ],
    },
];

/// The row that a file belongs to. `path` is relative to the root that it lies in, so that names
/// of directories above it say nothing.
#[must_use]
pub fn row_of(path: &Path) -> Option<&'static Row> {
    let parts: Vec<&str> = path.components().map(text).collect();
    let (name, directories) = parts.split_last()?;
    let rows = [INDEX.of_name(name), INDEX.of_directories(directories)];
    rows.into_iter().flatten().min().map(|row| &TABLE[row])
}

/// The row of what git obeys, for files that its settings name.
#[must_use]
pub fn obeyed_by_git() -> Option<&'static Row> {
    TABLE.iter().find(|row| row.kind == "git")
}

/// True for a name that belongs to a row wherever it lies.
#[must_use]
pub fn is_obeyed_name(name: &str) -> bool {
    INDEX.of_name(name).is_some()
}

/// True for a directory whose files all belong to a row.
#[must_use]
pub fn is_obeyed_directory(path: &Path) -> bool {
    let parts: Vec<&str> = path.components().map(text).collect();
    INDEX.of_directories(&parts).is_some()
}

/// The table by form of pattern: it is asked for every name of a tree.
struct Index {
    names: HashMap<&'static str, usize>,
    /// By the first byte of the beginning, or the last of the end where there is no beginning.
    begins: HashMap<u8, Vec<Part>>,
    ends: HashMap<u8, Vec<Part>>,
    directories: Vec<(Vec<&'static str>, usize)>,
}

/// Beginning, end, row.
type Part = (&'static str, &'static str, usize);

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index {
        names: HashMap::new(),
        begins: HashMap::new(),
        ends: HashMap::new(),
        directories: Vec::new(),
    };
    for (row, pattern) in TABLE
        .iter()
        .enumerate()
        .flat_map(|(row, r)| r.patterns.iter().map(move |pattern| (row, *pattern)))
    {
        if let Some(directory) = pattern.strip_suffix('/') {
            index.directories.push((directory.split('/').collect(), row));
        } else if let Some((begin, end)) = pattern.split_once('*') {
            let (map, byte) = match (begin.as_bytes().first(), end.as_bytes().last()) {
                (Some(first), _) => (&mut index.begins, *first),
                (None, Some(last)) => (&mut index.ends, *last),
                (None, None) => continue,
            };
            map.entry(byte).or_default().push((begin, end, row));
        } else {
            index.names.entry(pattern).or_insert(row);
        }
    }
    index
});

impl Index {
    fn of_name(&self, name: &str) -> Option<usize> {
        let has = |(begin, end, _): &&(&str, &str, usize)| {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        };
        let bytes = name.as_bytes();
        let begins = bytes.first().and_then(|byte| self.begins.get(byte));
        let ends = bytes.last().and_then(|byte| self.ends.get(byte));
        let parts = begins.into_iter().chain(ends).flatten();
        let by_part = parts.filter(has).map(|(_, _, row)| *row).min();
        self.names.get(name).copied().into_iter().chain(by_part).min()
    }

    fn of_directories(&self, directories: &[&str]) -> Option<usize> {
        let below = |(wanted, _): &&(Vec<&str>, usize)| {
            directories
                .windows(wanted.len())
                .any(|window| window == wanted.as_slice())
        };
        self.directories.iter().filter(below).map(|(_, row)| *row).min()
    }
}

/// A name that is no text is in no pattern.
fn text(part: Component<'_>) -> &str {
    match part {
        Component::Normal(name) => name.to_str().unwrap_or("\u{fffd}"),
        Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &str) -> Option<&'static str> {
        row_of(Path::new(path)).map(|row| row.kind)
    }

    #[test]
    fn files_are_known_by_name_end_beginning_and_directory() {
        for (path, expected) in [
            ("AGENTS.md", "agent"),
            ("a/b/.ferrum/skills/x.md", "agent"),
            (".github/workflows/deep/ci.yml", "ci"),
            (".github/copilot-instructions.md", "agent"),
            ("crates/a/build.rs", "build"),
            ("x/rules.mk", "build"),
            ("package.json", "package"),
            (".cargo/config.toml", "package"),
            ("web/tsconfig.base.json", "tool"),
            ("eslint.config.mjs", "tool"),
            (".vscode/tasks.json", "editor"),
            (".envrc", "shell"),
            (".env.local", "shell"),
            ("sub/.gitattributes", "git"),
            (".husky/pre-commit", "git"),
            ("Dockerfile.dev", "task"),
        ] {
            assert_eq!(kind(path), Some(expected), "{path}");
        }
        for path in [
            "src/main.rs",
            "README.md",
            "agents/x.rs",
            "notes.json",
            "workflows/a.yml",
            "vscode/x",
            "env",
            "",
        ] {
            assert_eq!(kind(path), None, "{path}");
        }
    }

    #[test]
    fn a_directory_is_obeyed_where_its_files_are() {
        assert!(is_obeyed_directory(Path::new("a/.vscode")));
        assert!(is_obeyed_directory(Path::new(".github/workflows")));
        assert!(!is_obeyed_directory(Path::new(".github")));
        assert!(!is_obeyed_directory(Path::new("src")));
    }

    #[test]
    fn kinds_are_words_and_patterns_are_of_the_known_forms() {
        for row in &TABLE {
            assert!(row.kind.chars().all(|c| c.is_ascii_lowercase()));
            for pattern in row.patterns {
                assert!(
                    !pattern.is_empty() && pattern.matches('*').count() <= 1 && !pattern.starts_with('/'),
                    "{pattern}"
                );
            }
        }
    }
}
