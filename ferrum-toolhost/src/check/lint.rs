//! Looking at project files for their author: everything that is wrong, what is in vain, and
//! whether policy answers what they expect.

use super::Check;
use crate::guard::repos;
use crate::seal::project::{Around, Problem, Text};
use crate::seal::{self, Decision, to_wire};
use ferrum_proto::reply::{self, Explanation, Linted, PROBLEMS_MAX};
use ferrum_proto::request::{Act, Query};
use ferrum_proto::seal::{Lint, Seal};
use ferrum_proto::terms::{Isolation, PathBytes};
use policy::{Expectation, Place, ProjectFile, ProjectPolicy};
use std::fs;
use std::path::{Path, PathBuf};

/// What reading the files came to.
pub struct Examined {
    pub files: Vec<PathBuf>,
    pub problems: Vec<reply::Problem>,
    /// There while no problem is an error.
    pub decision: Option<Decision>,
}

/// Reads and narrows. Runs in the confined reader, as every look at a project's text.
#[must_use]
pub fn examine(seal: &Seal, lint: &Lint) -> Examined {
    let mut found = Found::default();
    let Ok(cwd) = std::env::current_dir() else {
        found.whole(Path::new("."), "the working directory cannot be told");
        return found.end(None);
    };
    let home = seal.charter.places.home.as_path();
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_path_buf());
    let uid = nix::unistd::geteuid().as_raw();
    let work_tree = repos::work_tree_around(&cwd, &home, uid);
    let around = Around {
        charter: &seal.charter,
        work_tree: work_tree.as_deref(),
        uid,
    };
    match &lint.file {
        Some(file) => found.take(around.read_file(file.as_path(), &cwd, false).map(Some)),
        None => around.texts(&cwd).for_each(|text| found.take(text)),
    }
    let place = seal::Place { cwd, home, work_tree };
    match seal::inputs(seal, &place, found.projects.clone(), &mut Vec::new()) {
        Ok(inputs) => found.remarks(&inputs),
        Err(failed) => found.whole(Path::new("config.toml"), &failed.message),
    }
    if found.is_bad() {
        return found.end(None);
    }
    match seal::decide_with(seal, place, found.projects.clone()) {
        Ok(decision) => found.end(Some(decision)),
        Err(failed) => {
            found.whole(Path::new("config.toml"), &failed.message);
            found.end(None)
        }
    }
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    projects: Vec<ProjectFile>,
    problems: Vec<reply::Problem>,
}

impl Found {
    fn is_bad(&self) -> bool {
        self.problems.iter().any(|problem| problem.is_error)
    }

    fn take(&mut self, read: Result<Option<Text>, Problem>) {
        let text = match read {
            Ok(None) => return,
            Ok(Some(text)) => text,
            Err(problem) => {
                self.files.push(problem.file.clone());
                return self.problem(problem, true);
            }
        };
        self.files.push(text.path.clone());
        let (policy, problems) = ProjectPolicy::examine(&text.text);
        for problem in problems {
            self.problem(text.problem(problem.place, problem.message, problem.hint), true);
        }
        // What can be read is looked at further, so that one run tells everything.
        let (project, problems) = text.with_roots(policy);
        problems
            .into_iter()
            .for_each(|problem| self.problem(problem, true));
        self.projects.push(project);
    }

    fn whole(&mut self, file: &Path, message: &str) {
        let problem = Problem {
            file: file.to_path_buf(),
            place: Place::default(),
            message: message.to_owned(),
            hint: String::new(),
        };
        self.problem(problem, true);
    }

    fn problem(&mut self, problem: Problem, is_error: bool) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(reply::Problem {
                file: PathBytes::from(problem.file.as_path()),
                line: problem.place.line,
                column: problem.place.column,
                is_error,
                message: clipped(problem.message),
                hint: clipped(problem.hint),
            });
        }
    }

    fn remarks(&mut self, inputs: &seal::Inputs) {
        for remark in policy::lint::remarks(&inputs.user, &inputs.projects, !self.is_bad()) {
            let problem = Problem {
                file: remark.file,
                place: remark.place,
                message: remark.message,
                hint: remark.hint,
            };
            self.problem(problem, remark.is_error);
        }
        for project in &inputs.projects {
            for expectation in &project.policy.expect {
                if let Err(message) = act(expectation) {
                    let problem = Problem {
                        file: project.path.clone(),
                        place: expectation.place,
                        message,
                        hint: String::new(),
                    };
                    self.problem(problem, true);
                }
            }
        }
    }

    /// In the order of the files and of their texts.
    fn end(mut self, decision: Option<Decision>) -> Examined {
        let order = |file: &PathBytes| self.files.iter().position(|known| known == file.as_path());
        self.problems
            .sort_by_key(|problem| (order(&problem.file), problem.line, problem.column));
        Examined {
            files: self.files,
            problems: self.problems,
            decision,
        }
    }
}

impl Check {
    /// The report. Expectations are judged as in a session with full isolation, so that they do
    /// not depend on the machine that looks.
    pub(super) fn report(&mut self, files: &[PathBuf], mut problems: Vec<reply::Problem>) -> Linted {
        self.assumed.mounts = true;
        let projects = self.decision.inputs.projects.clone();
        let mut expectations = Vec::new();
        for project in &projects {
            let rows = project.policy.expect.iter().take(PROBLEMS_MAX + 1);
            expectations.extend(rows.filter_map(|row| self.expectation(project, row)));
        }
        if let Some(first) = expectations.get(PROBLEMS_MAX) {
            problems.truncate(PROBLEMS_MAX - 1);
            problems.push(reply::Problem {
                file: first.file.clone(),
                line: first.line,
                column: 1,
                is_error: true,
                message: format!(
                    "{PROBLEMS_MAX} expectations are checked at most; this one and those after it are not"
                ),
                hint: "take expectations out, or check their files apart".into(),
            });
        }
        expectations.truncate(PROBLEMS_MAX);
        Linted {
            expectations,
            ..report_of(files, problems)
        }
    }

    fn expectation(&mut self, project: &ProjectFile, expected: &Expectation) -> Option<reply::Expectation> {
        let own = self.decision.grant.tier();
        let tier = to_wire::tier(expected.safety.unwrap_or(own));
        let query = Query {
            tier: Some(tier),
            shell: None,
            isolation: Some(Isolation::Full),
            tool: expected.tool.clone(),
            act: act(expected).ok()?,
            detail: false,
        };
        let answer = match self.explain(&query) {
            Ok((answer, _)) => answer,
            Err(e) => Explanation::Unanswerable {
                message: e.message,
                hint: e.hint,
            },
        };
        Some(reply::Expectation {
            file: PathBytes::from(project.path.as_path()),
            line: expected.place.line,
            tool: expected.tool.clone(),
            input: clipped(expected.input.clone()),
            tier,
            allow: expected.allow,
            answer,
        })
    }
}

/// A file may hold a value of a megabyte.
fn clipped(mut text: String) -> String {
    const CHARS_MAX: usize = 300;
    if let Some((at, _)) = text.char_indices().nth(CHARS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// Where there is nothing to judge.
#[must_use]
pub fn report_of(files: &[PathBuf], problems: Vec<reply::Problem>) -> Linted {
    Linted {
        files: files.iter().map(|file| PathBytes::from(file.as_path())).collect(),
        problems,
        expectations: Vec::new(),
    }
}

fn act(expected: &Expectation) -> Result<Act, String> {
    let input = expected.input.clone();
    match expected.tool.as_str() {
        "bash" | "wait" => Ok(Act::Run(input)),
        "read" | "ls" | "find" | "grep" => Ok(Act::Read(input)),
        "write" | "edit" => Ok(Act::Change(input)),
        "exec" => Ok(Act::Execute(input)),
        "mcp" => Ok(Act::Server(input)),
        "connect" => match input.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Act::Connect {
                host: host.to_owned(),
                port: port.parse().unwrap_or_default(),
            }),
            _ => Err(format!("[[expect]] input {input:?} is no HOST:PORT")),
        },
        other => Err(format!(
            "[[expect]] tool cannot be {other:?}: bash, wait, read, ls, find, grep, write, edit, exec, connect or mcp"
        )),
    }
}
