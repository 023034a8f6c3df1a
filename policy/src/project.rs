//! `.ferrum/config.toml` of a project: text → [`ProjectPolicy`]. Unknown keys are errors.

use crate::{Network, Require, ShellMode, Tier};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest project file, in bytes: it is read before anything is known about who wrote it.
pub const PROJECT_BYTES_MAX: usize = 1 << 20;

/// Problems of one file that are told: placing one takes time.
const PROBLEMS_MAX: usize = 256;

/// What one project file asks to narrow. Every field is "no opinion" when `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectPolicy {
    pub safety: Option<Tier>,
    pub max_tool_rounds: Option<u32>,
    pub network: Option<Network>,
    pub shell: Option<ShellMode>,
    pub require: Option<Require>,
    pub tools_allow: Option<Vec<String>>,
    pub tools_deny: Vec<String>,
    /// As written, relative to the directory that holds `.ferrum`.
    pub readable_roots: Option<Vec<String>>,
    pub writable_roots: Option<Vec<String>>,
    pub skills: Option<Selection>,
    pub mcp_enabled: Option<bool>,
    pub mcp: Option<Selection>,
    /// `[[expect]]`: what the project wants policy to answer. It narrows nothing.
    pub expect: Vec<Expectation>,
    /// Where each key stands, by its dotted name.
    pub places: BTreeMap<String, Place>,
}

/// A place in a file, counted from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The place right after `text`.
    #[must_use]
    pub fn after(text: &str) -> Self {
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            line: narrow(line),
            column: narrow(column),
        }
    }
}

/// A narrowing of named things: skills or MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub inherit: bool,
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

/// One row of `[[expect]]`: a check of the policy that a project carries for its CI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    pub tool: String,
    pub input: String,
    /// The file's own tier when it is not named.
    pub safety: Option<Tier>,
    /// True for `allow`, false for `deny`.
    pub allow: bool,
    pub place: Place,
}

/// Why a project file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectError {
    pub place: Place,
    pub message: String,
    pub hint: String,
}

impl ProjectPolicy {
    /// Reads a project file. An empty one has no opinion.
    ///
    /// # Errors
    /// [`ProjectError`] for anything that is not a known key with a value of its kind, and for a text
    /// above [`PROJECT_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let (policy, mut problems) = Self::examine(text);
        if problems.is_empty() {
            Ok(policy)
        } else {
            Err(problems.swap_remove(0))
        }
    }

    /// Reads a project file to its end and tells everything that is wrong with it, in the order of
    /// the text. What could be read counts only when nothing is wrong.
    #[must_use]
    pub fn examine(text: &str) -> (Self, Vec<ProjectError>) {
        // A byte order mark says nothing; places are counted after it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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

    /// The same policy as if the file did not hold `key` (a dotted name from [`Self::places`]).
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        let mut rest = self.clone();
        match key {
            "safety" => rest.safety = None,
            "max_tool_rounds" => rest.max_tool_rounds = None,
            "isolation.require" => rest.require = None,
            "tools.allow" => rest.tools_allow = None,
            "tools.deny" => rest.tools_deny.clear(),
            "tools.readable_roots" => rest.readable_roots = None,
            "tools.writable_roots" => rest.writable_roots = None,
            "tools.network" => rest.network = None,
            "tools.shell" => rest.shell = None,
            "mcp.enabled" => rest.mcp_enabled = None,
            "mcp.allow" => change(&mut rest.mcp, |mcp| mcp.allow = None),
            "mcp.deny" => change(&mut rest.mcp, |mcp| mcp.deny.clear()),
            "skills.inherit_global" => change(&mut rest.skills, |skills| skills.inherit = true),
            "skills.allow" => change(&mut rest.skills, |skills| skills.allow = None),
            "skills.deny" => change(&mut rest.skills, |skills| skills.deny.clear()),
            _ => {}
        }
        rest
    }
}

fn change(selection: &mut Option<Selection>, change: impl FnOnce(&mut Selection)) {
    if let Some(selection) = selection {
        change(selection);
    }
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

impl Selection {
    /// No narrowing.
    #[must_use]
    pub fn all() -> Self {
        Self {
            inherit: true,
            allow: None,
            deny: Vec::new(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> ProjectError {
        ProjectPolicy::parse(text).expect_err(text)
    }

    #[test]
    fn every_key_is_read() {
        let text = "safety = \"high\"\nmax_tool_rounds = 5\n[tools]\nallow = [\"read\"]\ndeny = [\"bash\"]\n\
                    readable_roots = [\"docs\"]\nwritable_roots = [\".\"]\nnetwork = \"none\"\nshell = \"static\"\n\
                    [isolation]\nrequire = \"full\"\n[skills]\ninherit_global = false\nallow = [\"a\"]\n[mcp]\nenabled = false\n\
                    [[expect]]\ntool = \"bash\"\ninput = \"ls\"\nverdict = \"allow\"\n";
        let policy = ProjectPolicy::parse(text).expect("valid");
        assert_eq!(policy.safety, Some(Tier::High));
        assert_eq!(policy.max_tool_rounds, Some(5));
        assert_eq!(policy.tools_allow, Some(vec!["read".to_owned()]));
        assert_eq!(policy.network, Some(Network::None));
        assert_eq!(policy.shell, Some(ShellMode::Static));
        assert_eq!(policy.require, Some(Require::Full));
        assert!(policy.skills.is_some_and(|skills| !skills.inherit));
        assert_eq!(policy.mcp_enabled, Some(false));
        assert_eq!(policy.expect.len(), 1);
        let at = |key: &str| policy.places.get(key).map(|place| (place.line, place.column));
        assert_eq!(at("safety"), Some((1, 1)));
        assert_eq!(
            (at("tools.network"), at("mcp.enabled")),
            (Some((8, 1)), Some((16, 1)))
        );
        assert_eq!(policy.places.len(), 12);
    }

    #[test]
    fn everything_that_is_wrong_is_told_in_the_order_of_the_text() {
        let text = "safety = \"hi\"\n[tools]\nshll = 1\ndeny = 2\n[isolation]\nrequire = \"ful\"\n[[expect]]\ntool = 1\n";
        let (_, problems) = ProjectPolicy::examine(text);
        let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
        assert_eq!(lines, [1, 3, 4, 6, 8], "{problems:?}");
        assert!(problems[1].hint.contains("tools.shell"), "{problems:?}");
    }

    #[test]
    fn an_error_of_syntax_does_not_hide_the_others() {
        let text = "safety = \n[tools]\nnetwork = \"non\"\nshell static\n[mcp]\nenabld = true\n";
        let (_, problems) = ProjectPolicy::examine(text);
        let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
        assert_eq!(lines[..3], [1, 3, 4], "{problems:?}");
        assert_eq!(error(text).place.line, 1);
    }

    #[test]
    fn a_file_of_mistakes_is_told_in_part() {
        let text: String = (0..20_000).map(|n| format!("k{n} = 1\n")).collect();
        let (_, problems) = ProjectPolicy::examine(&text);
        assert_eq!(problems.len(), PROBLEMS_MAX);
        let last = u32::try_from(PROBLEMS_MAX).expect("small");
        assert!(
            problems
                .iter()
                .all(|problem| (1..=20_000).contains(&problem.place.line))
        );
        assert!(problems[0].place.line <= last, "{:?}", problems[0]);
    }

    #[test]
    fn every_key_can_be_left_out() {
        let text = "safety = \"high\"\nmax_tool_rounds = 5\n[tools]\nallow = [\"read\"]\ndeny = [\"bash\"]\n\
                    readable_roots = [\"docs\"]\nwritable_roots = [\".\"]\nnetwork = \"none\"\nshell = \"static\"\n\
                    [isolation]\nrequire = \"full\"\n[skills]\ninherit_global = false\nallow = [\"a\"]\ndeny = [\"b\"]\n\
                    [mcp]\nenabled = false\nallow = [\"a\"]\ndeny = [\"b\"]\n";
        let policy = ProjectPolicy::parse(text).expect("valid");
        for key in policy.places.keys() {
            assert_ne!(policy.without(key), policy, "{key}");
        }
        let places = policy.places.clone();
        let none = places.keys().fold(policy, |rest, key| rest.without(key));
        let empty = ProjectPolicy {
            skills: Some(Selection::all()),
            mcp: Some(Selection::all()),
            places,
            ..ProjectPolicy::default()
        };
        assert_eq!(none, empty);
    }

    #[test]
    fn an_empty_file_has_no_opinion() {
        assert_eq!(ProjectPolicy::parse(""), Ok(ProjectPolicy::default()));
        assert_eq!(
            ProjectPolicy::parse("# nothing\n\n"),
            Ok(ProjectPolicy::default())
        );
    }

    #[test]
    fn unknown_keys_fail_with_place_and_nearest_key() {
        let unknown = error("safty = \"high\"\n");
        assert_eq!((unknown.place.line, unknown.place.column), (1, 1));
        assert!(
            unknown.message.contains("safty") && unknown.hint.contains("safety"),
            "{unknown:?}"
        );
        let nested = error("safety = \"low\"\n[tools]\n  writeable_roots = [\".\"]\n");
        assert_eq!((nested.place.line, nested.place.column), (3, 3));
        assert!(nested.hint.contains("writable_roots"), "{nested:?}");
        for text in [
            "[[mcp.servers]]\nname = \"x\"\n",
            "[providers.p]\ntype = \"x\"\n",
            "[tools.x]\n",
            "provider = 1\n",
        ] {
            assert!(error(text).message.contains("unknown key"), "{text}");
        }
    }

    #[test]
    fn wrong_kinds_and_broken_files_fail() {
        for text in [
            "safety = 1",
            "safety = \"maximum\"",
            "max_tool_rounds = 0",
            "max_tool_rounds = -1",
            "max_tool_rounds = 1.5",
            "max_tool_rounds = 99999999999",
            "tools = 1",
            "[tools]\nallow = \"read\"",
            "[tools]\nallow = [1]",
            "[mcp]\nenabled = \"no\"",
            "[isolation]\nrequire = \"none\"",
            "safety = \"low\"\nsafety = \"high\"",
            "[tools]\n[tools]\n",
            "safety",
            "[",
            "[[expect]]\ntool = \"bash\"\n",
        ] {
            let error = error(text);
            assert!(error.place.line >= 1 && error.place.column >= 1, "{text}");
        }
        assert_eq!(error("\u{feff}x = 1").place, Place { line: 1, column: 1 });
        assert!(ProjectPolicy::parse("\u{feff}safety = \"high\"").is_ok());
        let big = format!("#{}", "x".repeat(PROJECT_BYTES_MAX));
        assert!(ProjectPolicy::parse(&big).is_err());
    }
}
