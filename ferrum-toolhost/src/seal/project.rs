//! The project's policy files, read without trusting what lies there.
//!
//! A file that cannot be used is an error, never "no file": a link, directory, pipe, unreadable or
//! foreign file would otherwise lift what it says.

use ferrum_proto::charter::{Ancestors, Charter};
use ferrum_proto::seal::{SealFailed, SealFailure};
use policy::{PROJECT_BYTES_MAX, Place, ProjectFile, ProjectPolicy};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is wrong with a project file. The place is (0, 0) where it is about the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    pub place: Place,
    pub message: String,
    pub hint: String,
}

impl From<Problem> for SealFailed {
    fn from(problem: Problem) -> Self {
        let Place { line, column } = problem.place;
        let place = if line > 0 {
            format!(":{line}:{column}")
        } else {
            String::new()
        };
        Self {
            kind: SealFailure::Policy,
            message: format!("{}{place}: {}", problem.file.display(), problem.message),
            hint: problem.hint,
        }
    }
}

/// Where project files are looked for.
pub struct Around<'a> {
    pub charter: &'a Charter,
    /// The repository's top; above it a file that others can write does not count.
    pub work_tree: Option<&'a Path>,
    pub uid: u32,
}

/// One file's text, not yet understood.
pub struct Text {
    pub path: PathBuf,
    pub text: String,
    /// Its roots are relative to this.
    pub directory: PathBuf,
}

impl Around<'_> {
    /// The `.ferrum/config.toml` of `cwd` and of its ancestors, nearest first, with their texts.
    ///
    /// # Errors
    /// The first [`Problem`].
    pub fn files(&self, cwd: &Path) -> Result<Vec<(ProjectFile, String)>, Problem> {
        let texts = self.texts(cwd).filter_map(Result::transpose);
        let understood = texts.map(|text| {
            let text = text?;
            let written = text.text.clone();
            Ok((text.understood()?, written))
        });
        understood.collect()
    }

    /// What stands in `cwd` and in its ancestors, nearest first, as far as it counts.
    pub fn texts(&self, cwd: &Path) -> impl Iterator<Item = Result<Option<Text>, Problem>> {
        let own = self.charter.places.config.as_path();
        let own = fs::canonicalize(own).unwrap_or_else(|_| own.to_path_buf());
        let all = cwd.ancestors().filter(move |dir| dir.join(".ferrum") != own);
        let mut is_over = false;
        all.map_while(move |directory| {
            let text = (!is_over).then(|| self.read(directory))?;
            is_over = self.charter.ancestors == Ancestors::Nearest && !matches!(text, Ok(None));
            Some(text)
        })
    }

    /// The text of a directory's project file, if it has one.
    ///
    /// # Errors
    /// A [`Problem`] for anything that is no plain file of the user's or root's.
    pub fn read(&self, directory: &Path) -> Result<Option<Text>, Problem> {
        let folder = directory.join(".ferrum");
        let path = folder.join("config.toml");
        match fs::symlink_metadata(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(whole(&path, format!("cannot be looked at: {e}"), "")),
            Ok(meta) if !meta.is_dir() => {
                let hint = "remove it or make it a plain directory";
                return Err(whole(&path, "`.ferrum` is not a directory".to_owned(), hint));
            }
            Ok(_) => {}
        }
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(whole(&path, format!("cannot be looked at: {e}"), "")),
            Ok(_) => {}
        }
        let outside = self.work_tree.is_some_and(|top| !directory.starts_with(top));
        self.read_file(&path, directory, outside).map(Some)
    }

    /// The text of a file that is taken for a project file of `directory`.
    ///
    /// # Errors
    /// A [`Problem`].
    pub fn read_file(&self, path: &Path, directory: &Path, outside: bool) -> Result<Text, Problem> {
        let file = open(path)?;
        let problem = |message: String, hint: &str| Err(whole(path, message, hint));
        let meta = match file.metadata() {
            Ok(meta) => meta,
            Err(e) => return problem(format!("cannot be looked at: {e}"), ""),
        };
        if !meta.is_file() {
            return Err(not_plain(path));
        }
        if meta.uid() != self.uid && meta.uid() != 0 {
            let hint = "project policy must belong to you or to root";
            return problem(format!("belongs to uid {}", meta.uid()), hint);
        }
        if outside && meta.mode() & 0o022 != 0 {
            let message = "lies above the repository and others can write it";
            return problem(message.to_owned(), "chmod go-w it, or remove it");
        }
        Ok(Text {
            text: text_of(path, file)?,
            path: path.to_path_buf(),
            directory: directory.to_path_buf(),
        })
    }
}

fn whole(file: &Path, message: String, hint: &str) -> Problem {
    Problem {
        file: file.to_path_buf(),
        place: Place { line: 0, column: 0 },
        message,
        hint: hint.to_owned(),
    }
}

fn not_plain(path: &Path) -> Problem {
    let hint = "project policy must be a plain file, not a link, directory, pipe or device";
    whole(path, "is not a regular file".to_owned(), hint)
}

/// Does not follow a link and does not wait for a pipe's other end.
fn open(path: &Path) -> Result<File, Problem> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    opened.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => not_plain(path),
        _ => whole(
            path,
            format!("cannot be opened: {e}"),
            "check the path and its permissions",
        ),
    })
}

fn text_of(path: &Path, file: File) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    let read = file.take(PROJECT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| whole(path, format!("cannot be read: {e}"), ""))?;
    if bytes.len() > PROJECT_BYTES_MAX {
        return Err(whole(path, "is larger than 1 MiB".to_owned(), ""));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let place = Place::after(&String::from_utf8_lossy(good));
        let (message, hint) = ("is not UTF-8 text here", "save the file as UTF-8");
        Problem {
            place,
            ..whole(path, message.to_owned(), hint)
        }
    })
}

impl Text {
    /// # Errors
    /// The first [`Problem`].
    pub fn understood(self) -> Result<ProjectFile, Problem> {
        let policy =
            ProjectPolicy::parse(&self.text).map_err(|e| self.problem(e.place, e.message, e.hint))?;
        let (project, mut problems) = self.with_roots(policy);
        match problems.is_empty() {
            true => Ok(project),
            false => Err(problems.swap_remove(0)),
        }
    }

    #[must_use]
    pub fn problem(&self, place: Place, message: String, hint: String) -> Problem {
        Problem {
            file: self.path.clone(),
            place,
            message,
            hint,
        }
    }

    /// Opens the roots that the policy names. One that is not there is a problem and left out: the
    /// file counts only without any.
    #[must_use]
    pub fn with_roots(&self, policy: ProjectPolicy) -> (ProjectFile, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut resolve = |roots: &Option<Vec<String>>, key: &str| {
            let mut resolved = Vec::new();
            for root in roots.as_ref()? {
                match fs::canonicalize(self.directory.join(root)) {
                    Ok(path) => resolved.push(path),
                    Err(e) => {
                        let place = policy.places.get(key).copied().unwrap_or_default();
                        let hint = "name an existing directory".to_owned();
                        problems.push(self.problem(place, format!("{key}: {root}: {e}"), hint));
                    }
                }
            }
            Some(resolved)
        };
        let writable_roots = resolve(&policy.writable_roots, "tools.writable_roots");
        let readable_roots = resolve(&policy.readable_roots, "tools.readable_roots");
        let project = ProjectFile {
            path: self.path.clone(),
            directory: self.directory.clone(),
            policy,
            writable_roots,
            readable_roots,
        };
        (project, problems)
    }
}
