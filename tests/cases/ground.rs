//! The place of one case: a home, a working directory that is the one writable root, and a copy
//! of the case's folder. Placeholders of a case mean these.

use ferrum_tests::place;
use ferrum_tests::who::Who;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub struct Ground {
    pub who: Who,
    /// Stands in a key of the environment and in the operator's own files, and nowhere else.
    pub secret: String,
    /// Where the scripted model listens; 0 where there is none.
    pub port: u16,
    base: PathBuf,
    /// Removes it at the end; `None` in a [`Ground::placeless`] copy.
    _dir: Option<tempfile::TempDir>,
}

impl Ground {
    /// # Errors
    /// A sentence, when it cannot be laid out.
    pub fn new(who: &Who, folder: &Path) -> Result<Self, String> {
        let dir = place::scratch();
        let base = dir.path().canonicalize().map_err(|e| e.to_string())?;
        let ground = Self {
            who: who.clone(),
            secret: format!("leak-{}", ferrum_tests::scene::unique()),
            port: 0,
            base,
            _dir: Some(dir),
        };
        for dir in [ground.cwd(), ground.config(), ground.data(), ground.copies()] {
            std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        copy_tree(folder, &ground.copies()).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(ground)
    }

    /// The same ground for another thread, which does not own its directory.
    pub fn placeless(&self) -> Self {
        Self {
            who: self.who.clone(),
            secret: self.secret.clone(),
            port: self.port,
            base: self.base.clone(),
            _dir: None,
        }
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub fn cwd(&self) -> PathBuf {
        self.home().join("work/project")
    }

    pub fn config(&self) -> PathBuf {
        self.home().join(".config/ferrum")
    }

    /// Every record of the sessions, in order.
    pub fn session_records(&self) -> Vec<serde_json::Value> {
        let files = std::fs::read_dir(self.data().join("sessions"))
            .into_iter()
            .flatten()
            .flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let parsed = |text: String| -> Vec<serde_json::Value> {
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect()
        };
        texts.flat_map(parsed).collect()
    }

    pub fn data(&self) -> PathBuf {
        self.home().join(".local/share/ferrum")
    }

    /// The copy of the case's folder, which its generators may write.
    pub fn copies(&self) -> PathBuf {
        self.base.join("cases")
    }

    /// Puts this ground's places into a text of the case.
    pub fn fill(&self, text: &str) -> String {
        let places = [
            ("{CWD}", self.cwd()),
            ("{HOME}", self.home()),
            ("{CONFIG}", self.config()),
            ("{DATA}", self.data()),
            ("{CASES}", self.copies()),
        ];
        let filled = places.iter().fold(text.to_owned(), |text, (name, path)| {
            text.replace(name, &path.display().to_string())
        });
        repeated(&filled.replace("{PORT}", &self.port.to_string()))
    }

    /// A path of the case: absolute, or from the working directory.
    pub fn path(&self, text: &str) -> PathBuf {
        self.cwd().join(self.fill(text))
    }

    /// Gives everything to the case's user.
    ///
    /// # Errors
    /// The system's.
    pub fn hand_over(&self) -> std::io::Result<()> {
        own(&self.base, &self.who)?;
        std::fs::set_permissions(self.config(), std::fs::Permissions::from_mode(0o700))
    }
}

fn own(path: &Path, who: &Who) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(who.uid), Some(who.gid))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            own(&entry?.path(), who)?;
        }
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// `{REPEAT:s:n}` → the text s n times.
fn repeated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{REPEAT:") {
        out.push_str(before);
        let parts = after
            .split_once('}')
            .and_then(|(inner, tail)| inner.rsplit_once(':').map(|(what, count)| (what, count, tail)));
        match parts.and_then(|(what, count, tail)| Some((what, count.parse().ok()?, tail))) {
            Some((what, count, tail)) => {
                out.push_str(&what.repeat(count));
                rest = tail;
            }
            None => {
                out.push_str("{REPEAT:");
                rest = after;
            }
        }
    }
    out + rest
}
