//! The text of the user's `config.toml` → [`Settings`]. Pure: no file, no environment.

use super::document::{Document, Section};
use super::error::ConfigError;
use super::settings::{
    Color, DiffMode, McpIsolation, McpServer, ModelEntry, ProviderEntry, Settings, THINKING, Tools,
};
use crate::provider::ProviderKind;
use ferrum_proto::charter::{Ancestors, HomeMode, Limits, Origin, RootMode};
use ferrum_proto::terms::{Network, Require, Shell, Tier};
use secrecy::SecretString;
use std::path::Path;

/// What the file says, where each value stands, and what the user should know about it.
#[derive(Debug, Default)]
pub(super) struct UserFile {
    pub settings: Settings,
    pub origins: Vec<(String, Origin)>,
    pub notices: Vec<String>,
}

pub const TIERS: [(&str, Tier); 3] = [("low", Tier::Low), ("medium", Tier::Medium), ("high", Tier::High)];

pub const NETWORKS: [(&str, Network); 3] = [
    ("none", Network::None),
    ("private", Network::Private),
    ("full", Network::Full),
];

pub const SHELLS: [(&str, Shell); 2] = [("static", Shell::Static), ("auto", Shell::Auto)];

/// 0 means adaptive.
pub(super) const TOOL_ROUNDS_MAX: u64 = 100_000;

/// Above every model; keeps sums of token counts far from overflow.
const CONTEXT_TOKENS_MAX: u64 = 1 << 32;

/// # Errors
/// Syntax, a wrong type or a word that is not one of the allowed ones: with line and column.
pub(super) fn parse(file: &Path, text: &str) -> Result<UserFile, ConfigError> {
    let document = Document::new(file, text);
    let mut settings = Settings::default();
    {
        let table = document.parse()?;
        read(&document, table.get_ref(), &mut settings)?;
    }
    let (notices, origins) = document.into_findings();
    Ok(UserFile {
        settings,
        origins,
        notices,
    })
}

fn read<'a>(
    document: &'a Document<'a>,
    table: &'a toml::de::DeTable<'a>,
    settings: &mut Settings,
) -> Result<(), ConfigError> {
    let top = document.top(table);
    settings.provider = top.string("provider")?;
    settings.model = top.string("model")?;
    set(
        &mut settings.max_context_tokens,
        top.number("max_context_tokens", 1, CONTEXT_TOKENS_MAX)?,
    );
    set(
        &mut settings.max_tool_rounds,
        small(top.number("max_tool_rounds", 0, TOOL_ROUNDS_MAX)?),
    );
    set(&mut settings.thinking, top.choice("thinking", &THINKING)?);
    set(&mut settings.color, top.choice("color", &Color::WORDS)?);
    set(
        &mut settings.diff_mode,
        top.choice("diff_mode", &DiffMode::WORDS)?,
    );
    set(&mut settings.mcp_enabled, top.boolean("mcp_enabled")?);
    safety(&top, settings)?;
    if let Some(section) = top.section("tools")? {
        tools(section, &mut settings.tools)?;
    }
    if let Some(section) = top.section("isolation")? {
        let words = [
            ("any", Require::Any),
            ("kernel", Require::Kernel),
            ("full", Require::Full),
        ];
        settings.require = section.choice("require", &words)?;
        section.finish();
    }
    if let Some(section) = top.section("project")? {
        let words = [("all", Ancestors::All), ("nearest", Ancestors::Nearest)];
        set(&mut settings.ancestors, section.choice("ancestors", &words)?);
        section.finish();
    }
    if let Some(section) = top.section("limits")? {
        limits(section, &mut settings.limits)?;
    }
    if let Some(section) = top.section("skills")? {
        let links = section.boolean("allow_external_global_symlinks")?;
        set(&mut settings.skills_external_symlinks, links);
        section.finish();
    }
    for (name, section) in top.named_sections("providers")? {
        settings.providers.insert(name, provider(section)?);
    }
    for (name, section) in top.named_sections("models")? {
        settings.models.insert(name, model(section)?);
    }
    if let Some(section) = top.section("mcp")? {
        for server in section.listed_sections("servers")? {
            settings.mcp_servers.push(mcp_server(server)?);
        }
        section.finish();
    }
    top.finish();
    Ok(())
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The range check of the key has already bounded the number.
fn small(number: Option<u64>) -> Option<u32> {
    number.map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

/// `safety = "medium"`, or a table with `tier` and `ceiling`.
fn safety(top: &Section<'_>, settings: &mut Settings) -> Result<(), ConfigError> {
    let safety = &mut settings.safety;
    if !top.is_table("safety") {
        set(&mut safety.tier, top.choice("safety", &TIERS)?);
        return Ok(());
    }
    let Some(section) = top.section("safety")? else {
        return Ok(());
    };
    let tier = section.choice("tier", &TIERS)?;
    set(&mut safety.ceiling, section.choice("ceiling", &TIERS)?);
    // A ceiling alone lifts the built-in tier with it; a stated tier must agree with it.
    safety.tier = tier.unwrap_or(safety.tier.max(safety.ceiling));
    if safety.tier < safety.ceiling {
        let message = format!(
            "is \"{}\", below the ceiling \"{}\"",
            safety.tier.name(),
            safety.ceiling.name()
        );
        return Err(section.error("tier", &message, "raise `safety.tier` or lower `safety.ceiling`"));
    }
    section.finish();
    Ok(())
}

fn tools(section: Section<'_>, tools: &mut Tools) -> Result<(), ConfigError> {
    tools.allow = section.strings("allow")?;
    set(&mut tools.deny, section.strings("deny")?);
    set(&mut tools.readable_roots, section.strings("readable_roots")?);
    tools.writable_roots = section.strings("writable_roots")?;
    let roots = [("cwd", RootMode::Cwd), ("repository", RootMode::Repository)];
    set(&mut tools.root, section.choice("root", &roots)?);
    tools.network = section.choice("network", &NETWORKS)?;
    set(&mut tools.shell, section.choice("shell", &SHELLS)?);
    let homes = [("project", HomeMode::Project), ("fresh", HomeMode::Fresh)];
    set(&mut tools.home, section.choice("home", &homes)?);
    set(&mut tools.env, section.strings("env")?);
    set(&mut tools.sockets, section.strings("sockets")?);
    set(&mut tools.devices, section.strings("devices")?);
    for (key, paths) in [("sockets", &tools.sockets), ("devices", &tools.devices)] {
        if let Some(path) = paths.iter().find(|path| !path.starts_with(['/', '~'])) {
            return Err(section.error(
                key,
                &format!("holds \"{path}\", which is not an absolute path"),
                "",
            ));
        }
    }
    section.finish();
    Ok(())
}

fn limits(section: Section<'_>, limits: &mut Limits) -> Result<(), ConfigError> {
    /// The kernel's own bound on process ids.
    const PIDS_MAX: u64 = 4 << 20;
    set(&mut limits.pids, small(section.number("pids", 0, PIDS_MAX)?));
    set(&mut limits.memory, section.size("memory")?);
    set(&mut limits.file, section.size("file")?);
    set(&mut limits.shm, section.size("shm")?);
    section.finish();
    Ok(())
}

fn provider(section: Section<'_>) -> Result<ProviderEntry, ConfigError> {
    let Some(kind) = section.choice("type", &ProviderKind::WORDS)? else {
        let hint = "add for instance type = \"openai-compatible\"";
        return Err(section.error("type", "is missing", hint));
    };
    let headers = section.named_strings("headers")?;
    let entry = ProviderEntry {
        kind,
        base_url: section.string("base_url")?,
        api_key_env: section.string("api_key_env")?,
        default_model: section.string("default_model")?,
        streaming: section.boolean("streaming")?.unwrap_or(true),
        stream_usage: section.boolean("stream_usage")?.unwrap_or(true),
        allow_insecure_http: section.boolean("allow_insecure_http")?.unwrap_or(false),
        extra_body: section.json("extra_body")?,
        headers: headers
            .into_iter()
            .map(|(name, value)| (name, SecretString::from(value)))
            .collect(),
    };
    section.finish();
    Ok(entry)
}

fn model(section: Section<'_>) -> Result<ModelEntry, ConfigError> {
    let entry = ModelEntry {
        provider: section.string("provider")?,
        actual_model: section.string("actual_model")?,
        max_context_tokens: section.number("max_context_tokens", 1, CONTEXT_TOKENS_MAX)?,
        supports_images: section.boolean("supports_images")?.unwrap_or(true),
    };
    section.finish();
    Ok(entry)
}

fn mcp_server(section: Section<'_>) -> Result<McpServer, ConfigError> {
    let required = |key: &'static str| match section.string(key)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(section.error(key, "is missing", "")),
    };
    let words = [
        ("user", McpIsolation::User),
        ("workspace", McpIsolation::Workspace),
    ];
    let server = McpServer {
        name: required("name")?,
        command: required("command")?,
        args: section.strings("args")?.unwrap_or_default(),
        env: section.strings("env")?.unwrap_or_default(),
        enabled: section.boolean("enabled")?.unwrap_or(true),
        isolation: section.choice("isolation", &words)?.unwrap_or(McpIsolation::User),
    };
    section.finish();
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<UserFile, ConfigError> {
        parse(Path::new("/c/config.toml"), text)
    }

    fn settings(text: &str) -> Settings {
        read(text).expect("valid").settings
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let found = settings("");
        assert_eq!(found.max_context_tokens, 256_000);
        assert_eq!(found.safety.tier, Tier::Medium);
        assert_eq!(found.safety.ceiling, Tier::Low);
        assert_eq!(found.tools, Tools::default());
        assert!(found.provider.is_none() && found.providers.is_empty());
    }

    #[test]
    fn safety_is_a_word_or_a_table() {
        assert_eq!(settings("safety = \"high\"").safety.tier, Tier::High);
        let table = settings("[safety]\ntier = \"high\"\nceiling = \"medium\"").safety;
        assert_eq!((table.tier, table.ceiling), (Tier::High, Tier::Medium));
        assert_eq!(settings("[safety]\nceiling = \"high\"").safety.tier, Tier::High);
        assert_eq!(settings("safety.ceiling = \"low\"").safety.tier, Tier::Medium);
        let error = read("[safety]\ntier = \"low\"\nceiling = \"high\"").expect_err("below the ceiling");
        assert_eq!((error.line, error.column), (2, 8));
    }

    #[test]
    fn every_table_is_read() {
        let found = settings(
            "provider = \"p\"\nmax_tool_rounds = 7\nthinking = \"xhigh\"\n\
             [tools]\nallow = [\"read\"]\nnetwork = \"none\"\nshell = \"auto\"\nwritable_roots = [\"~/x\"]\n\
             [isolation]\nrequire = \"full\"\n[project]\nancestors = \"nearest\"\n\
             [limits]\nmemory = \"2G\"\npids = 10\n\
             [providers.p]\ntype = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
             extra_body = { top_k = 3, deep = { on = true, list = [1.5, \"a\"] } }\nheaders = { X-A = \"b\" }\n\
             [models.m]\nactual_model = \"n\"\n\
             [[mcp.servers]]\nname = \"time\"\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n",
        );
        assert_eq!(found.max_tool_rounds, 7);
        assert_eq!(found.require, Some(Require::Full));
        assert_eq!(found.ancestors, Ancestors::Nearest);
        assert_eq!((found.limits.memory, found.limits.pids), (2 << 30, 10));
        assert_eq!(found.tools.shell, Shell::Auto);
        let provider = &found.providers["p"];
        let body = serde_json::Value::Object(provider.extra_body.clone());
        assert_eq!(
            body.to_string(),
            r#"{"deep":{"list":[1.5,"a"],"on":true},"top_k":3}"#
        );
        assert_eq!(provider.headers.len(), 1);
        assert_eq!(found.models["m"].actual_model.as_deref(), Some("n"));
        assert_eq!(found.mcp_servers[0].command, "uvx");
    }

    #[test]
    fn a_wrong_value_is_an_error_with_line_column_and_key() {
        for (text, line, column, part) in [
            ("model = 3", 1, 9, "`model` must be a string, not 3"),
            ("\nsafety = \"lo\"", 2, 10, "\"low\", \"medium\", \"high\""),
            (
                "[tools]\ndeny = \"bash\"",
                2,
                8,
                "`tools.deny` must be a list of strings",
            ),
            ("[tools]\nsockets = [\"x\"]", 2, 11, "not an absolute path"),
            ("max_tool_rounds = -1", 1, 19, "a whole number from 0"),
            ("[providers]\np = 1", 2, 5, "`providers.p` must be a table"),
            (
                "[providers.p]\nbase_url = \"x\"",
                1,
                1,
                "`providers.p.type` is missing",
            ),
            (
                "[[mcp.servers]]\nname = \"x\"",
                1,
                1,
                "`mcp.servers.command` is missing",
            ),
            ("tools = 1", 1, 9, "`tools` must be a table"),
            ("mcp.servers = [1]", 1, 15, "a list of tables"),
            ("a = ", 1, 5, "string"),
            ("a = 1\na = 2", 2, 1, "duplicate key"),
        ] {
            let error = read(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(error.message.contains(part), "{text}: {}", error.message);
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_keys_are_named_and_ignored() {
        let found = read("safty = \"high\"\n[tools]\nrots = []\nzzz = 1").expect("ignored");
        assert_eq!(found.settings.safety.tier, Tier::Medium);
        assert_eq!(
            found.notices,
            [
                "/c/config.toml:3: unknown key `tools.rots` is ignored (did you mean `root`?)",
                "/c/config.toml:4: unknown key `tools.zzz` is ignored",
                "/c/config.toml:1: unknown key `safty` is ignored (did you mean `safety`?)",
            ]
        );
    }

    #[test]
    fn origins_name_the_line_of_each_value() {
        let found = read("model = \"m\"\n[tools]\nnetwork = \"none\"").expect("valid");
        let line = |key: &str| {
            found.origins.iter().find_map(|(name, origin)| match origin {
                Origin::User { line, .. } if name == key => Some(*line),
                _ => None,
            })
        };
        assert_eq!((line("model"), line("tools.network")), (Some(1), Some(3)));
    }

    proptest! {
        #[test]
        fn no_text_panics_the_reader(text in "\\PC{0,64}|[\\[\\]={}\"'a-z0-9.,\n #-]{0,128}") {
            let _ = read(&text);
        }
    }
}
