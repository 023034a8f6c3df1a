//! Cases about a start: which prompt goes out, which tools and skills, what is told, what is an
//! error. The product answers one prompt; a scripted model says what it got.

use crate::case::Case;
use crate::expect::Scene;
use crate::files::{self, Before};
use crate::ground::Ground;
use crate::keys::Keys;
use crate::observe::{self, Seen};
use crate::product::{self, PATIENCE, Ran};
use crate::setup::{self, Prepared};
use ferrum_tests::provider::{self, Provider, Request};
use ferrum_tests::who;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Table;

/// Features whose cases are about a start.
pub const FEATURES: [&str; 3] = ["context", "skills", "config"];

type Problems = Vec<String>;

/// # Errors
/// Everything that is not as the case expects.
pub fn of(case: &Case) -> Result<(), Problems> {
    match judge(case) {
        Ok(problems) if problems.is_empty() => Ok(()),
        Ok(problems) => Err(problems),
        Err(problem) => Err(vec![problem]),
    }
}

fn judge(case: &Case) -> Result<Problems, String> {
    let mut ground = Ground::new(&who::ordinary(), &case.folder)?;
    let mut expect = case.expect.clone();
    let outside = ground.home().join("outside.txt");
    let wants_write = expect.text("write_outside")?;
    let model = model(wants_write.is_some().then(|| outside.display().to_string()));
    ground.port = model.port;
    let prepared = setup::all(&case.setup, &ground)?;
    configure(&ground, &model, &prepared)?;
    let list = expect.clone().tables("files")?.unwrap_or_default();
    let paths: Vec<PathBuf> = files::paths(&list, &ground);
    let before = Before::of(&ground, &paths);
    let (seen, shown) = run(case, &ground, &prepared, &expect)?;
    let start = Start {
        requests: model.requests(),
        told: [&seen.stdout[..], &seen.stderr[..], &shown[..]].concat(),
        seen: &seen,
        ground: &ground,
    };
    let mut problems = Problems::new();
    if let Some(wanted) = wants_write {
        start.outside(&wanted, &outside, &mut problems)?;
    }
    start.ends(&mut expect, &mut problems)?;
    start.prompt(&mut expect, &mut problems)?;
    start.skills(&mut expect, &mut problems)?;
    start.tools(&mut expect, &mut problems)?;
    let ran = Ran {
        seen,
        shown,
        ..Ran::default()
    };
    let scene = Scene {
        ran: &ran,
        before: &before,
        ground: &ground,
    };
    // What every case can ask for: files, limits, the terminal.
    problems.extend(scene.problems(&expect));
    problems.extend(crate::verdict::always(
        &case.tool, false, &ran, &prepared, &ground,
    ));
    Ok(problems)
}

/// Answers; before that it writes a file outside, where the case wants to see that.
fn model(outside: Option<String>) -> Provider {
    let mut write =
        outside.map(|path| provider::calls(&[("write", json!({ "path": path, "content": "x" }))]));
    Provider::answering(move || Some(write.take().unwrap_or_else(|| provider::says("done"))))
}

/// The case's own configuration, with the scripted model where it names no provider.
fn configure(ground: &Ground, model: &Provider, prepared: &Prepared) -> Result<(), String> {
    let file = ground.config().join("config.toml");
    let own = std::fs::read_to_string(&file).unwrap_or_default() + &prepared.config;
    let mut merged: Table = match own.parse() {
        Ok(table) => table,
        // A broken file is the case's own affair.
        Err(_) => return ground.hand_over().map_err(|e| e.to_string()),
    };
    if !merged.contains_key("provider") {
        let ours: Table = model.config().parse().map_err(|e| format!("{e}"))?;
        for (key, value) in ours {
            merged.entry(key).or_insert(value);
        }
    }
    // A case may have made everything read-only; this file is the tester's.
    ground.hand_over().map_err(|e| e.to_string())?;
    std::fs::write(&file, merged.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
    ground.hand_over().map_err(|e| e.to_string())
}

fn run(case: &Case, ground: &Ground, prepared: &Prepared, expect: &Keys) -> Result<(Seen, Vec<u8>), String> {
    let mut input = case.input.clone();
    let arguments = input.texts("argv")?.ok_or("input has no argv")?;
    let directory = input.text("start_in")?.unwrap_or_default();
    input.nothing_left("input")?;
    let mut command = product::ferrum(ground, prepared);
    command
        .args(arguments.iter().map(|word| ground.fill(word)))
        .args(
            ["--safety".to_owned(), case.tier.clone()]
                .iter()
                .filter(|_| case.tier != "medium"),
        )
        .current_dir(ground.cwd().join(directory));
    let speaks_of_terminal = expect.clone().rest().any(|(key, _)| key.starts_with("terminal_"));
    let terminal = (case.under_terminal || speaks_of_terminal)
        .then(|| observe::terminal(&mut command))
        .transpose()?;
    let limit = expect.clone().number("within_s")?;
    let deadline = limit.map_or(PATIENCE, |s| Duration::from_secs_f64(s + 20.0));
    let seen = observe::run(command, Vec::new(), deadline, None)?;
    let shown = terminal
        .map(|receiver| observe::shown(&receiver))
        .unwrap_or_default();
    Ok((seen, shown))
}

/// What is known once the product has ended.
struct Start<'a> {
    requests: Vec<Request>,
    told: Vec<u8>,
    seen: &'a Seen,
    ground: &'a Ground,
}

impl Start<'_> {
    fn ended_well(&self) -> bool {
        self.seen.status == Some(0)
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.told).into_owned()
    }

    fn is_said(&self, word: &str) -> bool {
        self.said()
            .to_lowercase()
            .contains(&self.ground.fill(word).to_lowercase())
    }

    /// Text of the first request's messages with that role.
    fn text_of(&self, role: &str) -> String {
        let messages = self
            .requests
            .first()
            .and_then(|request| request.body["messages"].as_array());
        let texts = messages
            .into_iter()
            .flatten()
            .filter(|message| message["role"] == role);
        texts
            .filter_map(|message| message["content"].as_str())
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    fn system(&self) -> String {
        self.text_of("system")
    }

    fn was_refused(&self) -> bool {
        let last = self
            .requests
            .last()
            .map(|request| request.body["messages"].to_string());
        last.is_some_and(|text| text.contains("refused by policy"))
    }

    /// Name, description and place of each skill in the prompt.
    fn listed(&self) -> Vec<(String, String, String)> {
        let system = self.system();
        let index = system.split("# Skills\n").nth(1).unwrap_or_default();
        let lines = index.lines().filter_map(|line| line.strip_prefix("- "));
        lines
            .filter_map(|line| {
                let (name, rest) = line.split_once(": ")?;
                let (description, place) = rest.strip_suffix(')')?.rsplit_once(" (")?;
                Some((name.to_owned(), description.to_owned(), place.to_owned()))
            })
            .collect()
    }

    /// Writing outside came to nothing.
    fn outside(&self, wanted: &str, place: &Path, problems: &mut Problems) -> Result<(), String> {
        if wanted != "rejected" {
            return Err(format!("the runner cannot express write_outside {wanted}"));
        }
        if place.exists() {
            problems.push("something was written outside".to_owned());
        } else if self.ended_well() && !self.was_refused() {
            problems.push(format!("writing outside was not refused: {}", self.said()));
        }
        Ok(())
    }

    fn ends(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        match expect.text("start")?.as_deref() {
            None => {}
            Some("ok") if self.ended_well() && !self.requests.is_empty() => {}
            Some("ok") => problems.push(format!("it did not start: {}", self.said())),
            Some("error") if matches!(self.seen.status, Some(1..=5)) => {}
            Some("error") => problems.push(format!("it started all the same: {}", self.said())),
            Some(other) => return Err(format!("the runner cannot express start {other}")),
        }
        if let Some(words) = expect.texts("one_of")? {
            let mut holds = false;
            for word in &words {
                holds |= self.is(word)?;
            }
            if !holds {
                problems.push(format!("none of {words:?}: {}\n{}", self.said(), self.system()));
            }
        }
        if let Some(words) = expect.texts("error_mentions")?
            && !words.iter().any(|word| self.is_said(word))
        {
            problems.push(format!("none of {words:?} is said: {}", self.said()));
        }
        for word in expect.texts("warns")?.unwrap_or_default() {
            let prefixed = |line: &str| line.contains("ferrum:") && line.contains(&word);
            if !self.said().lines().any(prefixed) {
                problems.push(format!("no warning says {word:?}: {}", self.said()));
            }
        }
        if expect.flag("no_request_sent")? == Some(true) && !self.requests.is_empty() {
            problems.push("a request was sent".to_owned());
        }
        if let Some(tier) = expect.text("effective_safety")?
            && self.ended_well()
            && !self.system().contains(&format!("safety tier: {tier}\n"))
        {
            problems.push(format!("the tier is not {tier}: {}", self.system()));
        }
        Ok(())
    }

    /// One of a case's words for an end.
    fn is(&self, word: &str) -> Result<bool, String> {
        let listed = self.listed();
        Ok(match word {
            "included-with-replacement-and-warning" => {
                self.system().contains('\u{fffd}') && self.is_said("not UTF-8")
            }
            "skipped-with-warning" => self.ended_well() && self.is_said("left out"),
            "named-after-directory" => {
                let by_directory =
                    |(name, _, place): &(String, String, String)| place.contains(&format!("/{name}/"));
                !listed.is_empty() && listed.iter().all(by_directory)
            }
            "start-error" => matches!(self.seen.status, Some(1..=5)),
            "effective-high" => self.system().contains("safety tier: high\n"),
            "error-naming-HOME" => !self.ended_well() && self.is_said("HOME"),
            // The account's own home has no configuration, so the scripted tour answers.
            "passwd-home" | "answers-with-warning" => self.ended_well() && self.is_said("ferrum:"),
            "error-naming-path" => {
                !self.ended_well() && self.is_said(&self.ground.home().display().to_string())
            }
            other => return Err(format!("the runner cannot express {other}")),
        })
    }

    fn prompt(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let system = self.system();
        let lower = system.to_lowercase();
        let mut need = |good: bool, what: String| {
            if !good {
                problems.push(format!("{what}: {}", self.said()));
            }
        };
        if let Some(most) = expect.whole("system_context_max_bytes")? {
            let from = system.find("Instructions from files").unwrap_or(system.len());
            let bytes = i64::try_from(system.len() - from).unwrap_or(i64::MAX);
            need(
                (1..=most).contains(&bytes),
                format!("{bytes} bytes of context files"),
            );
        }
        for word in expect.texts("system_contains")?.unwrap_or_default() {
            need(
                system.contains(&self.ground.fill(&word)),
                format!("{word:?} is missing in {system}"),
            );
        }
        for word in expect.texts("system_not_contains")?.unwrap_or_default() {
            need(
                !system.contains(&self.ground.fill(&word)),
                format!("{word:?} is in the prompt"),
            );
        }
        if let Some(words) = expect.texts("system_contains_any")? {
            let any = words.iter().any(|word| lower.contains(&word.to_lowercase()));
            need(any, format!("none of {words:?} is in the prompt"));
        }
        if let Some(words) = expect.texts("system_order")? {
            let places: Vec<Option<usize>> = words.iter().map(|word| system.find(word.as_str())).collect();
            let in_order = places.iter().all(Option::is_some) && places.is_sorted();
            need(in_order, format!("{words:?} stand at {places:?}"));
        }
        for (word, count) in expect.part("system_count")?.unwrap_or_default().rest() {
            let found = i64::try_from(system.matches(&word).count()).ok();
            need(
                found == count.as_integer(),
                format!("{word} stands there {found:?} times"),
            );
        }
        Ok(())
    }

    fn skills(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let listed = self.listed();
        for (name, description) in expect.part("skills")?.unwrap_or_default().rest() {
            let is_it = |skill: &&(String, String, String)| skill.0 == name;
            match listed.iter().find(is_it) {
                Some(found) if Some(found.1.as_str()) == description.as_str() => {}
                found => problems.push(format!(
                    "skill {name} is {found:?}, not {description}: {}",
                    self.said()
                )),
            }
        }
        for name in expect.texts("skills_not")?.unwrap_or_default() {
            if listed.iter().any(|skill| skill.0 == name) {
                problems.push(format!("skill {name} is listed"));
            }
        }
        for name in expect.texts("skill_listed_once")?.unwrap_or_default() {
            let count = listed.iter().filter(|skill| skill.0 == name).count();
            if count != 1 {
                problems.push(format!("skill {name} is listed {count} times"));
            }
        }
        Ok(())
    }

    fn tools(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let list = self
            .requests
            .first()
            .and_then(|request| request.body["tools"].as_array());
        let names: Vec<&str> = list
            .into_iter()
            .flatten()
            .filter_map(|tool: &Value| tool["function"]["name"].as_str())
            .collect();
        for (key, wanted) in [("tools_has", true), ("tools_not", false)] {
            for name in expect.texts(key)?.unwrap_or_default() {
                if names.contains(&name.as_str()) != wanted {
                    problems.push(format!("{key} {name}: {names:?}"));
                }
            }
        }
        Ok(())
    }
}
