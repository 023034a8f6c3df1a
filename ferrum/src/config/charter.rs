//! The configuration as the charter that the launcher gets, once.

use super::{Config, Environment};
use ferrum_proto::charter::{Charter, Places, Root};
use ferrum_proto::terms::PathBytes;
use std::path::{Path, PathBuf};

impl Config {
    /// Everything that the operator's side says about tools.
    #[must_use]
    pub fn charter(&self) -> Charter {
        let settings = &self.settings;
        let tools = &settings.tools;
        let keys = settings
            .providers
            .values()
            .filter_map(|entry| entry.api_key_env.as_deref());
        let secret_names = Environment::secret_names(keys);
        let default_roots = [".".to_owned()];
        let writable = tools.writable_roots.as_deref().unwrap_or(&default_roots);
        Charter {
            ceiling: settings.safety.ceiling,
            tier: settings.safety.tier,
            network: tools.network,
            shell: tools.shell,
            require: settings.require,
            tools_allow: tools.allow.clone(),
            tools_deny: tools.deny.clone(),
            readable_roots: tools.readable_roots.iter().map(|path| self.root(path)).collect(),
            writable_roots: writable.iter().map(|path| self.root(path)).collect(),
            root: tools.root,
            home: tools.home,
            sockets: tools.sockets.iter().map(|path| self.absolute(path)).collect(),
            devices: tools.devices.iter().map(|path| self.absolute(path)).collect(),
            env_names: tools.env.clone(),
            ancestors: settings.ancestors,
            max_tool_rounds: settings.max_tool_rounds,
            limits: settings.limits,
            environment: self.environment.for_commands(&secret_names),
            secret_names,
            places: Places {
                home: bytes(&self.dirs.home),
                config: bytes(&self.dirs.config),
                data: bytes(&self.dirs.data),
                cache: bytes(&self.dirs.cache),
            },
            remembered: Vec::new(),
            origins: self.origins.clone(),
        }
    }

    /// `.` and `~` are no literal names of a directory; an absolute path is.
    fn root(&self, path: &str) -> Root {
        Root {
            path: self.absolute(path),
            literal: path.starts_with(['/', '~']),
        }
    }

    fn absolute(&self, path: &str) -> PathBytes {
        bytes(&self.dirs.expand(path))
    }
}

fn bytes(path: &Path) -> PathBytes {
    PathBytes::from(path)
}

/// The working directory as the user wrote it: `$PWD` where it names the same directory as `.`.
///
/// # Errors
/// When the working directory does not exist any more or cannot be looked at.
pub fn working_directory(pwd: Option<PathBuf>) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let here = std::fs::metadata(".")?;
    let same = |path: &PathBuf| {
        let meta = std::fs::metadata(path);
        meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == (here.dev(), here.ino()))
    };
    match pwd
        .filter(|path| path.is_absolute() && is_plain(path))
        .filter(same)
    {
        Some(path) => Ok(path),
        None => std::env::current_dir(),
    }
}

/// No `..` in it: such a path means different things to text and to the kernel.
fn is_plain(path: &Path) -> bool {
    !path
        .components()
        .any(|part| part == std::path::Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrum_proto::charter::Origin;
    use ferrum_proto::terms::Tier;

    fn config(text: &str) -> Config {
        let vars = [
            ("HOME", "/home/ada"),
            ("K", "s"),
            ("PATH", "/bin"),
            ("FERRUM_MAX_TOOL_ROUNDS", "5"),
        ];
        let environment = Environment::from_vars(vars.iter().map(|(n, v)| (n.into(), v.into())).collect());
        Config::from_text(environment, text).expect("valid")
    }

    #[test]
    fn an_empty_configuration_gives_the_working_directory() {
        let charter = config("").charter();
        assert_eq!((charter.tier, charter.ceiling), (Tier::Medium, Tier::Low));
        assert_eq!(
            charter.writable_roots,
            [Root {
                path: PathBytes(b".".to_vec()),
                literal: false
            }]
        );
        assert_eq!(
            charter.places.data.as_path(),
            Path::new("/home/ada/.local/share/ferrum")
        );
    }

    #[test]
    fn roots_are_literal_only_when_they_name_a_place() {
        let charter = config("[tools]\nwritable_roots = [\".\", \"~/w\", \"/srv\"]").charter();
        let roots: Vec<_> = charter
            .writable_roots
            .iter()
            .map(|r| (r.path.as_path(), r.literal))
            .collect();
        assert_eq!(
            roots,
            [
                (Path::new("."), false),
                (Path::new("/home/ada/w"), true),
                (Path::new("/srv"), true)
            ]
        );
    }

    #[test]
    fn keys_stay_here_and_the_environment_sets_the_rounds() {
        let charter = config("[providers.p]\ntype = \"fake\"\napi_key_env = \"K\"").charter();
        assert!(charter.secret_names.contains(&"K".to_owned()));
        assert!(
            !charter
                .environment
                .iter()
                .any(|(name, _)| name.0 == b"K" || name.0.starts_with(b"FERRUM_"))
        );
        assert_eq!(
            config("[providers.p]\ntype = \"fake\"\napi_key_env = \"K\"\nheaders = { A = \"b\" }")
                .secrets()
                .len(),
            2
        );
        assert_eq!(charter.max_tool_rounds, 5);
        let rounds = charter
            .origins
            .iter()
            .find(|(key, _)| key == "max_tool_rounds")
            .expect("named");
        let name = "FERRUM_MAX_TOOL_ROUNDS".to_owned();
        assert_eq!(rounds.1, Origin::Environment { name });
    }

    #[test]
    fn pwd_counts_only_when_it_is_the_same_directory() {
        let real = std::env::current_dir().expect("a working directory");
        assert_eq!(working_directory(Some("/".into())).expect("exists"), real);
        assert_eq!(working_directory(Some(real.clone())).expect("exists"), real);
        assert_eq!(
            working_directory(Some(real.join("src/.."))).expect("exists"),
            real
        );
        assert_eq!(working_directory(None).expect("exists"), real);
    }
}
