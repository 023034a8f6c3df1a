//! The collection as data: one folder for each area, one `cases.toml` in each.

use crate::keys::Keys;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// One case as it stands in its file.
#[derive(Debug, Clone)]
pub struct Case {
    pub area: String,
    /// The folder that holds its files.
    pub folder: PathBuf,
    pub id: String,
    pub title: String,
    /// The tool that is called.
    pub tool: String,
    pub tier: String,
    /// Run with and without a program `rg` on `PATH`.
    pub both_engines: bool,
    pub under_terminal: bool,
    pub setup: Vec<Keys>,
    pub during: Option<Keys>,
    pub input: Keys,
    pub expect: Keys,
    /// What a provider answers, where the case is about that: see `stream.rs`.
    pub answers: Option<Keys>,
}

impl Case {
    pub fn name(&self) -> String {
        format!("{}::{}", self.area, self.id)
    }
}

/// Keys that say something to people.
const FOR_PEOPLE: [&str; 4] = ["note", "basis", "fault", "slow"];
const TOOLS: [&str; 8] = ["read", "write", "edit", "ls", "find", "grep", "bash", "wait"];

/// Every case below `directory`, which may also be the folder of one area.
///
/// # Errors
/// A sentence that names the file.
pub fn collection(directory: &Path) -> Result<Vec<Case>, String> {
    let mut folders = vec![directory.to_path_buf()];
    let entries = std::fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    folders.extend(entries.flatten().map(|entry| entry.path()));
    folders.sort();
    let mut cases = Vec::new();
    for folder in folders
        .iter()
        .filter(|folder| folder.join("cases.toml").is_file())
    {
        let file = folder.join("cases.toml");
        area(folder, &mut cases).map_err(|problem| format!("{}: {problem}", file.display()))?;
    }
    if cases.is_empty() {
        return Err(format!("{} holds no cases.toml", directory.display()));
    }
    Ok(cases)
}

fn area(folder: &Path, cases: &mut Vec<Case>) -> Result<(), String> {
    let text = std::fs::read_to_string(folder.join("cases.toml")).map_err(|e| e.to_string())?;
    let file: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let area = file.get("area").and_then(Value::as_str).ok_or("no area")?;
    for entry in file.get("case").and_then(Value::as_array).into_iter().flatten() {
        let table = entry.as_table().ok_or("a case is no table")?.clone();
        let id = table.get("id").and_then(Value::as_str).unwrap_or("?").to_owned();
        // A case that cannot be read is a failing case, not the end of the run.
        cases.push(read(area, folder, table.into()).unwrap_or_else(|problem| broken(area, &id, &problem)));
    }
    Ok(())
}

fn read(area: &str, folder: &Path, mut keys: Keys) -> Result<Case, String> {
    for key in FOR_PEOPLE {
        keys.take(key);
    }
    let mut expect = keys.part("expect")?.ok_or("no expect")?;
    for key in FOR_PEOPLE {
        expect.take(key);
    }
    // A second right answer may stand beside the first or around it.
    let mut expect = expect.rest().collect::<Table>();
    for key in ["or_files", "or_result", "or_outcome"] {
        expect.extend(keys.take(key).map(|value| (key.to_owned(), value)));
    }
    let tool = keys.text("feature")?.ok_or("no feature")?;
    let answers = (tool == crate::stream::FEATURE).then(|| crate::stream::answers(&mut keys));
    let is_known = TOOLS.contains(&tool.as_str())
        || crate::start::FEATURES.contains(&tool.as_str())
        || tool == crate::image::FEATURE;
    if answers.is_none() && !is_known {
        return Err(format!("the runner cannot express feature {tool}"));
    }
    let engine = keys.text("engine")?;
    let both_engines = match engine.as_deref() {
        Some("both") => true,
        None => false,
        Some(other) => return Err(format!("the runner cannot express engine {other}")),
    };
    let case = Case {
        area: area.to_owned(),
        folder: folder.to_path_buf(),
        id: keys.text("id")?.ok_or("no id")?,
        title: keys.text("title")?.ok_or("no title")?,
        tool,
        tier: keys.text("tier")?.unwrap_or_else(|| "medium".to_owned()),
        both_engines,
        under_terminal: keys.flag("under_pty")?.unwrap_or(false),
        setup: keys.tables("setup")?.unwrap_or_default(),
        during: keys.part("during")?,
        input: keys.part("input")?.ok_or("no input")?,
        expect: expect.into(),
        answers,
    };
    keys.nothing_left("the case")?;
    Ok(case)
}

/// Stands for a case that could not be read: its expectation is the problem.
fn broken(area: &str, id: &str, problem: &str) -> Case {
    let mut expect = Table::new();
    expect.insert("broken".to_owned(), problem.to_owned().into());
    Case {
        area: area.to_owned(),
        folder: PathBuf::new(),
        id: id.to_owned(),
        title: problem.to_owned(),
        tool: String::new(),
        tier: String::new(),
        both_engines: false,
        under_terminal: false,
        setup: Vec::new(),
        during: None,
        input: Keys::default(),
        expect: expect.into(),
        answers: None,
    }
}
