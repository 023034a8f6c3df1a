//! A sacrificial machine: one user's home with secrets, a repository, and places outside.

use crate::outside::Tree;
use crate::place;
use crate::run::{Output, Run};
use crate::who::Who;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// One scene. Its directory is removed with it.
pub struct Scene {
    pub who: Who,
    /// A text that stands in every secret and nowhere else.
    pub secret: String,
    base: PathBuf,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// A fresh copy of the user's template (see `scene.sh`).
    ///
    /// # Panics
    /// When it cannot be built: git and bash are needed.
    #[must_use]
    pub fn new(who: &Who) -> Self {
        let template = template(who);
        let dir = place::scratch();
        let base = dir.path().canonicalize().expect("the scene's directory");
        std::os::unix::fs::chown(&base, Some(who.uid), Some(who.gid)).expect("the scene belongs to its user");
        let copy = "cp -a \"$1/.\" . && grep -rIlF --exclude-dir=objects \"$1\" home/work | xargs -d '\\n' sed -i \"s|$1|$PWD|g\"";
        let built = Run::new(who, "/bin/bash", &base)
            .args(["-c", copy, "copy", &template.1])
            .output();
        assert_eq!(
            built.status,
            Some(0),
            "scene could not be copied: {}",
            built.all()
        );
        Self {
            who: who.clone(),
            secret: template.0,
            base,
            _dir: dir,
        }
    }

    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// The repository: working directory and writable root of most runs.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.base.join("home/work/repo")
    }

    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.base.join("outside")
    }

    #[must_use]
    pub fn config_dir(&self) -> PathBuf {
        self.home().join(".config/ferrum")
    }

    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.home().join(".local/share/ferrum")
    }

    /// Writes a file as the scene's user.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &Path, text: impl AsRef<[u8]>) {
        if let Some(parent) = path.parent() {
            let mut missing: Vec<&Path> = parent.ancestors().take_while(|dir| !dir.exists()).collect();
            while let Some(dir) = missing.pop() {
                std::fs::create_dir(dir).expect("a directory of the scene");
                std::os::unix::fs::chown(dir, Some(self.who.uid), Some(self.who.gid)).expect("its owner");
            }
        }
        std::fs::write(path, text).expect("a file of the scene");
        std::os::unix::fs::chown(path, Some(self.who.uid), Some(self.who.gid)).expect("its owner");
    }

    /// Writes an executable file as the scene's user.
    pub fn write_program(&self, path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let text_of = path.with_extension("text");
        self.write(&text_of, text);
        place::copy_program(&text_of, path);
        std::fs::remove_file(&text_of).expect("the text goes");
        std::os::unix::fs::chown(path, Some(self.who.uid), Some(self.who.gid)).expect("its owner");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    /// A program run by this user on this machine, unconfined, with secrets in its environment.
    #[must_use]
    pub fn run(&self, program: impl Into<PathBuf>) -> Run {
        Run::new(&self.who, program, &self.root())
            .env("HOME", self.home().display().to_string())
            .env("FERRUM_CONFIG_DIR", self.config_dir().display().to_string())
            .env("FERRUM_DATA_DIR", self.data_dir().display().to_string())
            .env("OPENAI_API_KEY", self.secret.clone())
            .env("DATABASE_URL", format!("postgres://u:{}@h/d", self.secret))
            .env(
                "SSH_AUTH_SOCK",
                self.base.join("run/agent.sock").display().to_string(),
            )
            .env(
                "DBUS_SESSION_BUS_ADDRESS",
                format!("unix:path={}", self.base.join("run/bus").display()),
            )
    }

    /// `ferrum`, run by this user.
    #[must_use]
    pub fn ferrum<S: AsRef<str>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        self.run(place::ferrum()).args(args)
    }

    /// `bash -c` as this user, unconfined.
    #[must_use]
    pub fn bash(&self, script: &str) -> Output {
        self.run("/bin/bash").args(["-c", script]).output()
    }

    /// One tool call; its answer as data.
    #[must_use]
    pub fn tool(&self, tool: &str, arguments: &Value, options: &[&str]) -> ToolRun {
        ToolRun::of(&self.tool_run(tool, arguments, options))
    }

    /// One tool call that is still to be started.
    #[must_use]
    pub fn tool_run(&self, tool: &str, arguments: &Value, options: &[&str]) -> Run {
        self.ferrum(["tool", tool, &arguments.to_string()])
            .args(options)
            .args(["--json"])
    }

    /// One command at `--shell auto`.
    #[must_use]
    pub fn command(&self, script: &str, options: &[&str]) -> ToolRun {
        ToolRun::of(&self.command_run(script, options))
    }

    /// One command at `--shell auto` that is still to be started.
    #[must_use]
    pub fn command_run(&self, script: &str, options: &[&str]) -> Run {
        self.tool_run(
            "bash",
            &json!({ "command": script }),
            &[&["--shell", "auto"], options].concat(),
        )
    }

    /// Everything that no confined act may change: see [`Tree::protected`].
    #[must_use]
    pub fn protected(&self) -> Tree {
        Tree::protected(&self.base, &self.root())
    }
}

/// The secret and the directory of the user's template, built once and left to the machine's
/// scratch place: tests end without a last word.
fn template(who: &Who) -> (String, String) {
    static TEMPLATES: Mutex<BTreeMap<u32, (String, String)>> = Mutex::new(BTreeMap::new());
    let mut templates = TEMPLATES
        .lock()
        .expect("no test panics while it builds a template");
    if let Some(known) = templates.get(&who.uid) {
        return known.clone();
    }
    let base = place::scratch()
        .keep()
        .canonicalize()
        .expect("the template's directory");
    std::os::unix::fs::chown(&base, Some(who.uid), Some(who.gid)).expect("the template belongs to its user");
    let secret = format!("leak-{}", unique());
    let built = Run::new(who, "/bin/bash", &base)
        .args(["-c", include_str!("scene.sh"), "scene", &secret])
        .output();
    assert_eq!(built.status, Some(0), "scene could not be built: {}", built.all());
    let template = (secret, base.display().to_string());
    templates.insert(who.uid, template.clone());
    template
}

/// The answer of `ferrum tool --json`.
#[derive(Debug, Clone)]
pub struct ToolRun {
    pub output: Output,
    /// Null where standard output held no JSON object.
    pub json: Value,
}

impl ToolRun {
    /// Runs it.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let output = run.output();
        let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Self { output, json }
    }

    #[must_use]
    pub fn outcome(&self) -> &str {
        self.json["outcome"].as_str().unwrap_or("none")
    }

    #[must_use]
    pub fn text(&self) -> &str {
        self.json["text"].as_str().unwrap_or_default()
    }

    #[must_use]
    pub fn effective(&self) -> &str {
        self.json["isolation"]["effective"].as_str().unwrap_or("none")
    }

    /// The command's own status.
    #[must_use]
    pub fn status(&self) -> Option<i64> {
        self.json["command"]["status"].as_i64()
    }

    /// The program's standard output as it stands in the result.
    #[must_use]
    pub fn stdout(&self) -> &str {
        let text = self.text();
        let start = text
            .find("\nstdout (")
            .and_then(|at| text[at + 1..].find('\n').map(|end| at + 1 + end + 1));
        let end = text.rfind("\nstderr (").unwrap_or(text.len());
        start
            .filter(|start| *start <= end)
            .map_or("", |start| &text[start..end])
    }

    /// The tool ran and its command ended with 0.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn expect_success(&self, what: &str) -> &Self {
        assert_eq!(self.outcome(), "done", "{what}: {}", self.output.all());
        assert_eq!(self.status(), Some(0), "{what}: {}", self.text());
        self
    }
}

/// A text that occurs nowhere else on the machine.
#[must_use]
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |t| t.as_nanos());
    format!(
        "{:x}x{:x}x{now:x}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}
