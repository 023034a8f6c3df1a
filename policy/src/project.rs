//! `.ferrum/config.toml` of a project: text → [`ProjectPolicy`]. Unknown keys are errors.

use crate::{Network, Require, ShellMode, Tier};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest project file, in bytes: it is read before anything is known about who wrote it.
pub const PROJECT_BYTES_MAX: usize = 1 << 20;

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
    pub line: u32,
}

/// Why a project file cannot be used. Line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectError {
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub hint: String,
}

impl ProjectPolicy {
    /// Reads a project file. An empty one has no opinion.
    ///
    /// # Errors
    /// [`ProjectError`] for anything that is not a known key with a value of its kind, for a text
    /// above [`PROJECT_BYTES_MAX`], and for a byte order mark.
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let reader = Reader { text };
        if text.len() > PROJECT_BYTES_MAX {
            return Err(reader.error(
                &(0..0),
                format!("the file is larger than {PROJECT_BYTES_MAX} bytes"),
                "",
            ));
        }
        if text.starts_with('\u{feff}') {
            return Err(reader.error(
                &(0..0),
                "the file begins with a byte order mark",
                "save it as UTF-8 without one",
            ));
        }
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            reader.error(&span, error.message().to_owned(), "")
        })?;
        reader.policy(table.get_ref())
    }
}

struct Reader<'a> {
    text: &'a str,
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
    fn policy(&self, table: &DeTable<'_>) -> Result<ProjectPolicy, ProjectError> {
        let mut policy = ProjectPolicy::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "safety" => policy.safety = Some(self.tier(key, value)?),
                "max_tool_rounds" => policy.max_tool_rounds = Some(self.rounds(key, value)?),
                "tools" => self.tools(self.table(key, value)?, &mut policy)?,
                "isolation" => self.isolation(self.table(key, value)?, &mut policy)?,
                "skills" => policy.skills = Some(self.skills(self.table(key, value)?)?),
                "mcp" => self.mcp(self.table(key, value)?, &mut policy)?,
                "expect" => policy.expect = self.expectations(key, value)?,
                _ => return Err(self.unknown(key, "", TOP)),
            }
        }
        Ok(policy)
    }

    fn tools(&self, table: &DeTable<'_>, policy: &mut ProjectPolicy) -> Result<(), ProjectError> {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "allow" => policy.tools_allow = Some(self.strings(key, value)?),
                "deny" => policy.tools_deny = self.strings(key, value)?,
                "readable_roots" => policy.readable_roots = Some(self.strings(key, value)?),
                "writable_roots" => policy.writable_roots = Some(self.strings(key, value)?),
                "network" => {
                    let words = [Network::Full, Network::Private, Network::None];
                    policy.network = Some(self.word(key, value, &words.map(|word| (word.name(), word)))?);
                }
                "shell" => {
                    let words = [ShellMode::Auto, ShellMode::Static];
                    policy.shell = Some(self.word(key, value, &words.map(|word| (word.name(), word)))?);
                }
                _ => return Err(self.unknown(key, "tools", TOOLS)),
            }
        }
        Ok(())
    }

    fn isolation(&self, table: &DeTable<'_>, policy: &mut ProjectPolicy) -> Result<(), ProjectError> {
        for (key, value) in table {
            if key.get_ref() != "require" {
                return Err(self.unknown(key, "isolation", &["require"]));
            }
            let words = [Require::Any, Require::Kernel, Require::Full];
            policy.require = Some(self.word(key, value, &words.map(|word| (word.name(), word)))?);
        }
        Ok(())
    }

    fn skills(&self, table: &DeTable<'_>) -> Result<Selection, ProjectError> {
        let mut selection = Selection::all();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "inherit_global" => selection.inherit = self.boolean(key, value)?,
                "allow" => selection.allow = Some(self.strings(key, value)?),
                "deny" => selection.deny = self.strings(key, value)?,
                _ => return Err(self.unknown(key, "skills", SKILLS)),
            }
        }
        Ok(selection)
    }

    fn mcp(&self, table: &DeTable<'_>, policy: &mut ProjectPolicy) -> Result<(), ProjectError> {
        let mut selection = Selection::all();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "enabled" => policy.mcp_enabled = Some(self.boolean(key, value)?),
                "allow" => selection.allow = Some(self.strings(key, value)?),
                "deny" => selection.deny = self.strings(key, value)?,
                _ => return Err(self.unknown(key, "mcp", MCP)),
            }
        }
        policy.mcp = Some(selection);
        Ok(())
    }

    fn expectations(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Vec<Expectation>, ProjectError> {
        let Some(rows) = value.get_ref().as_array() else {
            return Err(self.kind(key, value, "a list of tables ([[expect]])"));
        };
        rows.iter()
            .map(|row| self.expectation(self.table(key, row)?, row))
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
                _ => return Err(self.unknown(key, "expect", EXPECT)),
            }
        }
        let (line, _) = self.position(row.span().start);
        match (tool, input, allow) {
            (Some(tool), Some(input), Some(allow)) => Ok(Expectation {
                tool,
                input,
                safety,
                allow,
                line,
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

    fn unknown(&self, key: &Key<'_>, table: &str, known: &[&str]) -> ProjectError {
        let name = key.get_ref();
        let path = if table.is_empty() {
            name.to_string()
        } else {
            format!("{table}.{name}")
        };
        let hint = match known.iter().min_by_key(|candidate| distance(name, candidate)) {
            Some(nearest) if distance(name, nearest) <= 3 => format!("did you mean {nearest}?"),
            _ => format!("a project file may hold {}", known.join(", ")),
        };
        self.error(&key.span(), format!("unknown key {path}"), hint)
    }

    fn error(
        &self,
        span: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ProjectError {
        let (line, column) = self.position(span.start);
        ProjectError {
            line,
            column,
            message: message.into(),
            hint: hint.into(),
        }
    }

    fn position(&self, at: usize) -> (u32, u32) {
        let before = &self.text[..self.text.floor_char_boundary(at.min(self.text.len()))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (
            u32::try_from(line).unwrap_or(u32::MAX),
            u32::try_from(column).unwrap_or(u32::MAX),
        )
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
        assert_eq!((unknown.line, unknown.column), (1, 1));
        assert!(
            unknown.message.contains("safty") && unknown.hint.contains("safety"),
            "{unknown:?}"
        );
        let nested = error("safety = \"low\"\n[tools]\n  writeable_roots = [\".\"]\n");
        assert_eq!((nested.line, nested.column), (3, 3));
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
            "\u{feff}safety = \"low\"",
            "[[expect]]\ntool = \"bash\"\n",
        ] {
            let error = error(text);
            assert!(error.line >= 1 && error.column >= 1, "{text}");
        }
        let big = format!("#{}", "x".repeat(PROJECT_BYTES_MAX));
        assert!(ProjectPolicy::parse(&big).is_err());
    }
}
