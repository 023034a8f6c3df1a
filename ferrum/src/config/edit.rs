//! Changing the user's `config.toml`: what is not touched stays as it was written, comments and
//! order included.

use super::error::ConfigError;
use super::{file, user};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// What is to stand in the file. `None` leaves a key as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Which provider answers from now on.
    pub provider: String,
    pub model: Option<String>,
    /// Keys of `[providers.NAME]`.
    pub entry: Vec<(&'static str, String)>,
    /// What the provider calls `model`, where that is another name.
    pub actual_model: Option<String>,
    /// The context of `model`, for its entry of `[models]`.
    pub context_tokens: Option<u64>,
    /// `tools.shell`.
    pub shell: Option<&'static str>,
}

/// The file as it was read.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// # Errors
    /// As reading a configuration: a file that is none of ours is not changed.
    pub fn open(path: &Path) -> Result<Self, ConfigError> {
        Ok(Self {
            text: file::read(path)?.unwrap_or_default(),
            path: path.to_owned(),
        })
    }

    /// The file's new text.
    ///
    /// # Errors
    /// When it could not be read as a configuration.
    pub fn with(&self, change: &Change) -> Result<String, ConfigError> {
        let fail = |what: String| ConfigError::file(&self.path, what, "change the file by hand");
        let mut document: DocumentMut = self
            .text
            .parse()
            .map_err(|error: toml_edit::TomlError| fail(error.message().to_owned()))?;
        let root = document.as_table_mut();
        set(root, "provider", change.provider.as_str().into());
        if let Some(model) = &change.model {
            set(root, "model", model.as_str().into());
        }
        if let Some(shell) = change.shell {
            set(
                table(root, "tools").ok_or_else(|| fail("`tools` is no table".into()))?,
                "shell",
                shell.into(),
            );
        }
        if !change.entry.is_empty() {
            let entry = named(root, "providers", &change.provider);
            let entry = entry.ok_or_else(|| fail("`providers` is no table of tables".into()))?;
            for (key, value) in &change.entry {
                set(entry, key, value.as_str().into());
            }
        }
        let says_more = change.context_tokens.is_some() || change.actual_model.is_some();
        if let Some(model) = change.model.as_deref().filter(|_| says_more) {
            let entry = named(root, "models", model);
            let entry = entry.ok_or_else(|| fail("`models` is no table of tables".into()))?;
            set(entry, "provider", change.provider.as_str().into());
            if let Some(actual) = &change.actual_model {
                set(entry, "actual_model", actual.as_str().into());
            }
            if let Some(tokens) = change.context_tokens {
                let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
                set(entry, "max_context_tokens", tokens.into());
            }
        }
        let text = document.to_string();
        user::parse(&self.path, &text)?;
        Ok(text)
    }

    /// Puts the new text in the place of the old one, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written, or when somebody else has changed the file meanwhile.
    pub fn write(&self, text: &str) -> Result<(), ConfigError> {
        let fail = |what: String, hint: &str| Err(ConfigError::file(&self.path, what, hint));
        if file::read(&self.path)?.unwrap_or_default() != self.text {
            return fail("was changed meanwhile; nothing was written".into(), "start again");
        }
        if self.path.is_symlink() {
            let hint = "add the lines that --dry-run prints to the file that it points to";
            return fail(
                "is a link, which would be replaced; nothing was written".into(),
                hint,
            );
        }
        match self.replace(text) {
            Ok(()) => Ok(()),
            Err(error) => fail(format!("cannot be written: {error}"), "check its directory"),
        }
    }

    fn replace(&self, text: &str) -> std::io::Result<()> {
        let mode = std::fs::metadata(&self.path).map_or(0o600, |meta| meta.permissions().mode() & 0o777);
        let beside = self
            .path
            .with_file_name(format!(".config.toml.{}", uuid::Uuid::new_v4()));
        let put = || {
            let mut file = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)
        };
        let done = put();
        if done.is_err() {
            // Nobody looks for it.
            let _ = std::fs::remove_file(&beside);
        }
        done
    }
}

/// A new value in the place of the old one; what surrounds the old one stays.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => {
            table.insert(key, Item::Value(value));
        }
    }
}

fn table<'a>(parent: &'a mut dyn TableLike, key: &str) -> Option<&'a mut dyn TableLike> {
    parent
        .entry(key)
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
}

/// `[group.name]`, without a header of its own for the group.
fn named<'a>(root: &'a mut Table, group: &str, name: &str) -> Option<&'a mut dyn TableLike> {
    let group = root.entry(group).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    match group {
        Item::Value(Value::InlineTable(group)) => {
            let entry = group
                .entry(name)
                .or_insert_with(|| Value::InlineTable(toml_edit::InlineTable::new()));
            entry
                .as_inline_table_mut()
                .map(|entry| entry as &mut dyn TableLike)
        }
        group => table(group.as_table_like_mut()?, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> Change {
        Change {
            provider: "local".into(),
            model: Some("some/model:7b".into()),
            entry: vec![
                ("type", "openai-compatible".into()),
                ("base_url", "http://127.0.0.1:8080/v1".into()),
            ],
            actual_model: None,
            context_tokens: Some(4096),
            shell: Some("auto"),
        }
    }

    fn changed(text: &str) -> Result<String, ConfigError> {
        let path = PathBuf::from("/c/config.toml");
        ConfigFile {
            path,
            text: text.to_owned(),
        }
        .with(&change())
    }

    fn holds(text: &str) {
        let found = user::parse(Path::new("/c/config.toml"), text)
            .expect("valid")
            .settings;
        assert_eq!(
            (found.provider.as_deref(), found.model.as_deref()),
            (Some("local"), Some("some/model:7b")),
            "{text}"
        );
        assert_eq!(
            found.providers["local"].base_url.as_deref(),
            Some("http://127.0.0.1:8080/v1")
        );
        assert_eq!(found.models["some/model:7b"].max_context_tokens, Some(4096));
        assert_eq!(found.tools.shell, ferrum_proto::terms::Shell::Auto);
    }

    #[test]
    fn an_empty_file_becomes_a_short_one() {
        let text = changed("").expect("valid");
        assert_eq!(
            text,
            "provider = \"local\"\nmodel = \"some/model:7b\"\n\n[tools]\nshell = \"auto\"\n\n\
             [providers.local]\ntype = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:8080/v1\"\n\n\
             [models.\"some/model:7b\"]\nprovider = \"local\"\nmax_context_tokens = 4096\n"
        );
        assert_eq!(
            ConfigFile {
                path: "/c".into(),
                text: text.clone()
            }
            .with(&change()),
            Ok(text)
        );
    }

    #[test]
    fn comments_order_and_other_keys_stay() {
        let text = "# mine\nmodel = 'old'   # the model\nmax_tool_rounds = 3\n\n# tools of mine\n[tools]\ndeny = [\n  \"bash\", # no\n]\n\
                    [providers.other]\ntype = \"fake\" # for play\n";
        let new = changed(text).expect("valid");
        holds(&new);
        for kept in [
            "# mine\n",
            "# the model\n",
            "max_tool_rounds = 3\n",
            "# tools of mine\n[tools]\n",
            "  \"bash\", # no\n",
            "type = \"fake\" # for play\n",
        ] {
            assert!(new.contains(kept), "{kept:?} is gone: {new}");
        }
        assert!(new.contains("model = \"some/model:7b\"   # the model"), "{new}");
    }

    #[test]
    fn tables_have_many_forms() {
        for text in [
            "providers.local.type = \"fake\"\n",
            "providers = { local = { type = \"fake\", streaming = false } }\n",
            "tools = { deny = [\"bash\"] }\nmodels = {}\n",
            "[providers]\nlocal = { type = \"fake\" }\n[models.x]\n",
            "[providers.local]\ntype = \"fake\"\n[tools]\nshell = \"static\"\n",
        ] {
            holds(&changed(text).unwrap_or_else(|error| panic!("{text}: {error}")));
        }
        for text in ["provider = \n", "providers = 1\n", "[safety]\ntier = \"sky\"\n"] {
            assert!(changed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn it_is_written_whole_with_its_mode_and_not_over_another_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.toml");
        let fresh = ConfigFile::open(&path).expect("absent");
        fresh.write("model = \"a\"\n").expect("written");
        let mode = || std::fs::metadata(&path).expect("its mode").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
        let file = ConfigFile::open(&path).expect("there");
        assert!(
            fresh
                .write("x")
                .expect_err("changed")
                .message
                .contains("meanwhile")
        );
        file.write("model = \"b\"\n").expect("written");
        assert_eq!(
            (mode(), std::fs::read_to_string(&path).expect("text").as_str()),
            (0o644, "model = \"b\"\n")
        );
        let link = dir.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(ConfigFile::open(&link).expect("there").write("x").is_err());
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("list").count(),
            2,
            "something was left behind"
        );
    }

    proptest! {
        /// Whatever is a configuration before is one afterwards, with every other value as it was.
        #[test]
        fn other_values_survive(rounds in 0u32..1000, deny in any::<bool>(), comment in "[ -~]{0,20}") {
            let deny = if deny { "deny = [\"bash\"]" } else { "" };
            let text = format!("#{comment}\nmax_tool_rounds = {rounds} #{comment}\n[tools] #{comment}\n{deny}\n#{comment}");
            let new = changed(&text).expect("valid");
            let found = user::parse(Path::new("/c"), &new).expect("valid").settings;
            prop_assert_eq!(found.max_tool_rounds, rounds);
            prop_assert_eq!(found.tools.deny.len(), usize::from(!deny.is_empty()));
            prop_assert_eq!(new.matches(&format!("#{comment}")).count() >= 4, true);
        }
    }
}
