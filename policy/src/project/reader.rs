//! Reading a project file to its end, with everything that is wrong with it.

use super::{Expectation, PROJECT_BYTES_MAX, Place, ProjectError, ProjectPolicy, Selection};
use crate::{Network, Require, ShellMode, Tier};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Problems of one file that are told: placing one takes time.
pub(super) const PROBLEMS_MAX: usize = 256;

/// What a file says, and what is wrong with it, in the order of the text.
pub(super) fn read(text: &str) -> (ProjectPolicy, Vec<ProjectError>) {
    let reader = Reader {
        text,
        lines: text.match_indices('\n').map(|(at, _)| at + 1).collect(),
        problems: RefCell::default(),
        places: RefCell::default(),
    };
    let mut policy = reader.keep(reader.document(text)).unwrap_or_default();
    policy.places = reader.places.into_inner();
    let mut problems = reader.problems.into_inner();
    problems.sort_by_key(|problem| problem.place);
    // What syntax left is no value either.
    problems.dedup_by_key(|problem| problem.place);
    (policy, problems)
}

struct Reader<'a> {
    text: &'a str,
    /// Where each line but the first begins.
    lines: Vec<usize>,
    problems: RefCell<Vec<ProjectError>>,
    places: RefCell<BTreeMap<String, Place>>,
}

type Key<'i> = Spanned<Cow<'i, str>>;
type Value<'i> = Spanned<DeValue<'i>>;

const TOP: &[&str] = &[
    "safety",
    "max_tool_rounds",
    "tools",
    "isolation",
    "skills",
    "mcp",
    "expect",
];
const TOOLS: &[&str] = &[
    "allow",
    "deny",
    "readable_roots",
    "writable_roots",
    "network",
    "shell",
];
const SKILLS: &[&str] = &["inherit_global", "allow", "deny"];
const MCP: &[&str] = &["enabled", "allow", "deny"];
const EXPECT: &[&str] = &["tool", "input", "safety", "verdict"];

impl Reader<'_> {
    /// Notes what is wrong, and goes on without it.
    fn keep<T>(&self, read: Result<T, ProjectError>) -> Option<T> {
        read.map_err(|problem| self.note(problem)).ok()
    }

    fn note(&self, problem: ProjectError) {
        if !self.is_full() {
            self.problems.borrow_mut().push(problem);
        }
    }

    fn is_full(&self) -> bool {
        self.problems.borrow().len() >= PROBLEMS_MAX
    }

    /// Remembers where a known key stands.
    fn at(&self, table: &str, key: &Key<'_>) {
        let name = dotted(table, key.get_ref());
        self.places
            .borrow_mut()
            .insert(name, self.place(key.span().start));
    }

    fn document(&self, text: &str) -> Result<ProjectPolicy, ProjectError> {
        let whole = 0..0;
        if text.len() > PROJECT_BYTES_MAX {
            let message = format!("the file is larger than {PROJECT_BYTES_MAX} bytes");
            return Err(self.error(&whole, message, ""));
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = error.span().unwrap_or_else(|| whole.clone());
            let message = error.message().replace('\n', ": ");
            self.note(self.error(&span, message, ""));
        }
        Ok(self.policy(table.get_ref()))
    }

    fn policy(&self, table: &DeTable<'_>) -> ProjectPolicy {
        let mut policy = ProjectPolicy::default();
        for (key, value) in table {
            let inner = || self.keep(self.table(key, value));
            match key.get_ref().as_ref() {
                "safety" => policy.safety = self.leaf("", key, self.tier(key, value)),
                "max_tool_rounds" => policy.max_tool_rounds = self.leaf("", key, self.rounds(key, value)),
                "tools" => inner()
                    .into_iter()
                    .for_each(|table| self.tools(table, &mut policy)),
                "isolation" => inner()
                    .into_iter()
                    .for_each(|table| self.isolation(table, &mut policy)),
                "skills" => policy.skills = inner().map(|table| self.skills(table)),
                "mcp" => inner().into_iter().for_each(|table| self.mcp(table, &mut policy)),
                "expect" => policy.expect = self.expectations(key, value),
                _ => self.unknown(key, "", TOP),
            }
        }
        policy
    }

    /// The value of a known key, where it could be read.
    fn leaf<T>(&self, table: &str, key: &Key<'_>, read: Result<T, ProjectError>) -> Option<T> {
        self.at(table, key);
        self.keep(read)
    }

    fn tools(&self, table: &DeTable<'_>, policy: &mut ProjectPolicy) {
        for (key, value) in table {
            let strings = || self.leaf("tools", key, self.strings(key, value));
            match key.get_ref().as_ref() {
                "allow" => policy.tools_allow = strings(),
                "deny" => policy.tools_deny = strings().unwrap_or_default(),
                "readable_roots" => policy.readable_roots = strings(),
                "writable_roots" => policy.writable_roots = strings(),
                "network" => {
                    let words =
                        [Network::Full, Network::Private, Network::None].map(|word| (word.name(), word));
                    policy.network = self.leaf("tools", key, self.word(key, value, &words));
                }
                "shell" => {
                    let words = [ShellMode::Auto, ShellMode::Static].map(|word| (word.name(), word));
                    policy.shell = self.leaf("tools", key, self.word(key, value, &words));
                }
                _ => self.unknown(key, "tools", TOOLS),
            }
        }
    }

    fn isolation(&self, table: &DeTable<'_>, policy: &mut ProjectPolicy) {
        for (key, value) in table {
            if key.get_ref() == "require" {
                let words = [Require::Any, Require::Kernel, Require::Full].map(|word| (word.name(), word));
                policy.require = self.leaf("isolation", key, self.word(key, value, &words));
            } else {
                self.unknown(key, "isolation", &["require"]);
            }
        }
    }

    fn skills(&self, table: &DeTable<'_>) -> Selection {
        let mut selection = Selection::all();
        for (key, value) in table {
            let strings = || self.leaf("skills", key, self.strings(key, value));
            match key.get_ref().as_ref() {
                "inherit_global" => {
                    let read = self.leaf("skills", key, self.boolean(key, value));
                    selection.inherit = read.unwrap_or(true);
                }
                "allow" => selection.allow = strings(),
                "deny" => selection.deny = strings().unwrap_or_default(),
                _ => self.unknown(key, "skills", SKILLS),
            }
        }
        selection
    }

    fn mcp(&self, table: &DeTable<'_>, policy: &mut ProjectPolicy) {
        let mut selection = Selection::all();
        for (key, value) in table {
            let strings = || self.leaf("mcp", key, self.strings(key, value));
            match key.get_ref().as_ref() {
                "enabled" => policy.mcp_enabled = self.leaf("mcp", key, self.boolean(key, value)),
                "allow" => selection.allow = strings(),
                "deny" => selection.deny = strings().unwrap_or_default(),
                _ => self.unknown(key, "mcp", MCP),
            }
        }
        policy.mcp = Some(selection);
    }

    fn expectations(&self, key: &Key<'_>, value: &Value<'_>) -> Vec<Expectation> {
        let Some(rows) = value.get_ref().as_array() else {
            let wrong = self.kind(key, value, "a list of tables ([[expect]])");
            self.note(wrong);
            return Vec::new();
        };
        rows.iter()
            .filter_map(|row| {
                self.keep(
                    self.table(key, row)
                        .and_then(|table| self.expectation(table, row)),
                )
            })
            .collect()
    }

    fn expectation(&self, table: &DeTable<'_>, row: &Value<'_>) -> Result<Expectation, ProjectError> {
        let (mut tool, mut input, mut safety, mut allow) = (None, None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "tool" => tool = Some(self.string(key, value)?),
                "input" => input = Some(self.string(key, value)?),
                "safety" => safety = Some(self.tier(key, value)?),
                "verdict" => allow = Some(self.word(key, value, &[("allow", true), ("deny", false)])?),
                _ => self.unknown(key, "expect", EXPECT),
            }
        }
        let place = self.place(row.span().start);
        match (tool, input, allow) {
            (Some(tool), Some(input), Some(allow)) => Ok(Expectation {
                tool,
                input,
                safety,
                allow,
                place,
            }),
            _ => Err(self.error(&row.span(), "[[expect]] needs tool, input and verdict", "")),
        }
    }

    fn tier(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Tier, ProjectError> {
        let words = [Tier::Low, Tier::Medium, Tier::High];
        self.word(key, value, &words.map(|word| (word.name(), word)))
    }

    fn rounds(&self, key: &Key<'_>, value: &Value<'_>) -> Result<u32, ProjectError> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok());
        match number {
            Some(rounds) if rounds > 0 => Ok(rounds),
            _ => Err(self.kind(key, value, "a whole number of at least 1")),
        }
    }

    fn word<T: Copy>(
        &self,
        key: &Key<'_>,
        value: &Value<'_>,
        words: &[(&str, T)],
    ) -> Result<T, ProjectError> {
        let given = self.string(key, value)?;
        if let Some((_, word)) = words.iter().find(|(name, _)| *name == given) {
            return Ok(*word);
        }
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let hint = format!("use one of {}", names.join(", "));
        Err(self.error(
            &value.span(),
            format!("{} cannot be {given:?}", key.get_ref()),
            hint,
        ))
    }

    fn string(&self, key: &Key<'_>, value: &Value<'_>) -> Result<String, ProjectError> {
        match value.get_ref().as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(self.kind(key, value, "a string")),
        }
    }

    fn strings(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Vec<String>, ProjectError> {
        match value.get_ref().as_array() {
            Some(items) => items.iter().map(|item| self.string(key, item)).collect(),
            None => Err(self.kind(key, value, "a list of strings")),
        }
    }

    fn boolean(&self, key: &Key<'_>, value: &Value<'_>) -> Result<bool, ProjectError> {
        value
            .get_ref()
            .as_bool()
            .ok_or_else(|| self.kind(key, value, "true or false"))
    }

    fn table<'t, 'i>(&self, key: &Key<'_>, value: &'t Value<'i>) -> Result<&'t DeTable<'i>, ProjectError> {
        value
            .get_ref()
            .as_table()
            .ok_or_else(|| self.kind(key, value, "a table"))
    }

    fn kind(&self, key: &Key<'_>, value: &Value<'_>, wanted: &str) -> ProjectError {
        let found = value.get_ref().type_str();
        self.error(
            &value.span(),
            format!("{} must be {wanted}, found {found}", key.get_ref()),
            "",
        )
    }

    fn unknown(&self, key: &Key<'_>, table: &str, known: &[&str]) {
        let name = key.get_ref();
        let hint = match known.iter().min_by_key(|candidate| distance(name, candidate)) {
            Some(nearest) if distance(name, nearest) <= 3 => {
                format!("did you mean {}?", dotted(table, nearest))
            }
            _ => format!("a project file may hold {} here", known.join(", ")),
        };
        let problem = self.error(&key.span(), format!("unknown key {}", dotted(table, name)), hint);
        self.note(problem);
    }

    fn error(
        &self,
        span: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ProjectError {
        ProjectError {
            place: self.place(span.start),
            message: message.into(),
            hint: hint.into(),
        }
    }

    fn place(&self, at: usize) -> Place {
        if self.is_full() {
            return Place::default();
        }
        let at = self.text.floor_char_boundary(at.min(self.text.len()));
        let line = self.lines.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).map_or(0, |before| self.lines[before]);
        let in_line = Place::after(&self.text[start..at]);
        Place {
            line: in_line.line + u32::try_from(line).unwrap_or(u32::MAX - 1),
            ..in_line
        }
    }
}

fn dotted(table: &str, key: &str) -> String {
    if table.is_empty() {
        key.to_owned()
    } else {
        format!("{table}.{key}")
    }
}

/// Edits between two short names; a long one is as far as it is long.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, c) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, other) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(c != *other);
            diagonal = row[at + 1];
            row[at + 1] = substituted.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
