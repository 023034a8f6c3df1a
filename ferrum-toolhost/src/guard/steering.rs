//! Which files of the roots a turn touched that programs or agents obey without being asked.
//!
//! Names come from the walk and the watch that the guard has anyway. What was there is looked at
//! twice a turn, before its first act and at its end; content is never read.

use crate::fs::walk::{CACHE_TAG, NOISY};
use ferrum_proto::limits::{FINDING_BYTES_MAX, SURVEY_FILES_MAX, SURVEY_FINDINGS_MAX};
use ferrum_proto::reply::{Steering, Survey};
use ferrum_proto::terms::PathBytes;
use policy::steering::{obeyed_by_git, row_of};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that are kept in mind at most: a tree of vendored packages may hold any number.
const KNOWN_MAX: usize = 50_000;

/// Files of a directory that git's settings name, at most.
const NAMED_MAX: usize = 1_000;

/// What tells that a file was touched. No command can set the change time.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The files and what was found since the last survey.
#[derive(Debug)]
pub(super) struct Obeyed {
    roots: Vec<PathBuf>,
    known: BTreeMap<PathBuf, Stamp>,
    /// Files, and directories of files, that git's settings name.
    named: BTreeSet<PathBuf>,
    findings: Vec<String>,
    /// A turn has begun: stamps are of its beginning.
    begun: bool,
}

impl Obeyed {
    pub(super) fn new(roots: &[PathBuf], found: Vec<PathBuf>) -> Self {
        Self {
            roots: roots.to_vec(),
            known: found
                .into_iter()
                .take(KNOWN_MAX)
                .map(|path| (path, None))
                .collect(),
            named: BTreeSet::new(),
            findings: Vec::new(),
            begun: false,
        }
    }

    /// What git's settings name belongs to the table, whatever it is called.
    pub(super) fn name(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let is_inside = |path: &PathBuf| self.roots.iter().any(|root| path.starts_with(root));
        self.named.extend(paths.into_iter().filter(is_inside));
    }

    /// Before an act; true for the first one since the last survey. Whatever happened until then
    /// was done by somebody outside.
    pub(super) fn begin(&mut self) -> bool {
        if std::mem::replace(&mut self.begun, true) {
            return false;
        }
        self.known
            .iter_mut()
            .for_each(|(path, stamp)| *stamp = stamp_of(path));
        self.know(&self.named_files());
        true
    }

    /// Names that appeared outside a turn.
    pub(super) fn know(&mut self, paths: &[PathBuf]) {
        for path in paths {
            self.insert(path.clone(), stamp_of(path));
        }
    }

    /// Names that appeared in the turn.
    pub(super) fn see(&mut self, paths: &[PathBuf]) {
        for path in paths {
            self.insert(path.clone(), None);
        }
    }

    fn insert(&mut self, path: PathBuf, stamp: Stamp) {
        if self.known.len() < KNOWN_MAX {
            self.known.entry(path).or_insert(stamp);
        }
    }

    /// A file tool wrote these. Outside the roots nobody knows whether they were there before.
    pub(super) fn wrote(&mut self, paths: &[PathBuf]) {
        for path in paths {
            if self.row(path).is_none() {
                continue;
            }
            let is_inside = self.roots.iter().any(|root| path.starts_with(root));
            self.insert(path.clone(), if is_inside { None } else { Some((0, 0, 0, 0, 0)) });
        }
    }

    pub(super) fn found(&mut self, findings: &[String]) {
        for finding in findings
            .iter()
            .take(SURVEY_FINDINGS_MAX.saturating_sub(self.findings.len()))
        {
            let end = finding.floor_char_boundary(FINDING_BYTES_MAX);
            self.findings.push(finding[..end].to_owned());
        }
    }

    /// What the turn touched; the next act begins another.
    pub(super) fn survey(&mut self) -> Survey {
        let mut survey = Survey {
            findings: std::mem::take(&mut self.findings),
            ..Survey::default()
        };
        if !std::mem::take(&mut self.begun) {
            return survey;
        }
        self.see(&self.named_files());
        for (path, before) in &self.known {
            let now = stamp_of(path);
            if now.is_none() || now == *before {
                continue;
            }
            let Some(row) = self.row(path) else { continue };
            if survey.files.len() == SURVEY_FILES_MAX {
                survey.more += 1;
                continue;
            }
            survey.files.push(Steering {
                path: PathBytes::from(path.as_path()),
                kind: row.kind.to_owned(),
                created: before.is_none(),
            });
        }
        survey
    }

    fn named_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in &self.named {
            match fs::read_dir(path) {
                Ok(entries) => files.extend(entries.flatten().take(NAMED_MAX).map(|entry| entry.path())),
                Err(_) => files.push(path.clone()),
            }
        }
        files
    }

    fn row(&self, path: &Path) -> Option<&'static policy::steering::Row> {
        if self.named.iter().any(|named| path.starts_with(named)) {
            return obeyed_by_git();
        }
        let root = self
            .roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len());
        let Some(root) = root else {
            // Written by a tool at low: only its own name says something.
            return row_of(Path::new(path.file_name()?));
        };
        let relative = path.strip_prefix(root).ok()?;
        if is_noise(root, relative) {
            return None;
        }
        row_of(relative)
    }
}

/// Below a directory that nobody wrote by hand.
fn is_noise(root: &Path, relative: &Path) -> bool {
    let Some(parent) = relative.parent() else {
        return false;
    };
    parent.iter().any(is_noisy_name)
        || parent
            .ancestors()
            .take_while(|part| !part.as_os_str().is_empty())
            .any(|part| root.join(part).join(OsStr::from_bytes(CACHE_TAG)).exists())
}

pub(super) fn is_noisy_name(name: &OsStr) -> bool {
    NOISY.iter().any(|noisy| name == *noisy)
}

fn stamp_of(path: &Path) -> Stamp {
    let meta = fs::symlink_metadata(path).ok().filter(|meta| !meta.is_dir())?;
    Some((
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.ctime(),
        meta.ctime_nsec(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_what_it_touched_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let (make, agents) = (put("Makefile", "a"), put("AGENTS.md", "a"));
        let mut obeyed = Obeyed::new(std::slice::from_ref(&root), vec![make.clone(), agents.clone()]);
        // Somebody outside, before the turn.
        put("AGENTS.md", "b");
        assert!(obeyed.begin());
        assert!(!obeyed.begin());
        put("Makefile", "longer");
        let envrc = put("sub/.envrc", "x");
        let noise = [
            put("node_modules/m/package.json", "{}"),
            put("out/Makefile", ""),
            put("src/main.rs", ""),
        ];
        put("out/CACHEDIR.TAG", "");
        obeyed.see(&noise);
        obeyed.see(std::slice::from_ref(&envrc));
        obeyed.found(&["put back x".to_owned()]);
        let survey = obeyed.survey();
        let told: Vec<(&Path, &str, bool)> = survey
            .files
            .iter()
            .map(|file| (file.path.as_path(), file.kind.as_str(), file.created))
            .collect();
        assert_eq!(
            told,
            [(make.as_path(), "build", false), (envrc.as_path(), "shell", true)]
        );
        assert_eq!(survey.findings, ["put back x"]);
        // The next turn has nothing to tell, nor has what happened between the two.
        put("Makefile", "outside");
        assert!(obeyed.begin());
        assert_eq!(obeyed.survey(), Survey::default());
    }

    #[test]
    fn a_survey_is_bounded_on_both_sides_of_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let mut obeyed = Obeyed::new(std::slice::from_ref(&root), Vec::new());
        obeyed.begin();
        for number in 0..=SURVEY_FILES_MAX {
            let path = root.join(format!("{number}.mk"));
            fs::write(&path, "").unwrap();
            obeyed.see(&[path]);
        }
        obeyed.found(&vec!["x".repeat(FINDING_BYTES_MAX + 1); SURVEY_FINDINGS_MAX + 1]);
        let survey = obeyed.survey();
        assert_eq!((survey.files.len(), survey.more), (SURVEY_FILES_MAX, 1));
        assert_eq!(survey.findings.len(), SURVEY_FINDINGS_MAX);
        assert!(survey.findings.iter().all(|line| line.len() == FINDING_BYTES_MAX));
    }
}
