//! Where things of the user and of Ferrum lie.

use super::error::ConfigError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Absolute directories; none of them need exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    pub home: PathBuf,
    /// `FERRUM_CONFIG_DIR`, else `~/.config/ferrum`. `XDG_CONFIG_HOME` is not read: existing
    /// installations rely on that.
    pub config: PathBuf,
    /// `FERRUM_DATA_DIR`, else `$XDG_DATA_HOME/ferrum`, else `~/.local/share/ferrum`.
    pub data: PathBuf,
    /// `$XDG_CACHE_HOME/ferrum`, else `~/.cache/ferrum`.
    pub cache: PathBuf,
    /// `$XDG_RUNTIME_DIR/ferrum`, where the variable is set.
    pub runtime: Option<PathBuf>,
}

impl Dirs {
    /// The directories of this process's environment, for commands that read no configuration.
    ///
    /// # Errors
    /// As [`Dirs::find`].
    pub fn of_process() -> Result<Self, ConfigError> {
        Self::find(|name| std::env::var_os(name), account_home)
    }

    /// Reads the variables through `var`; `account_home` is asked when `HOME` is of no use.
    ///
    /// # Errors
    /// When there is no home directory, or a `FERRUM_*` variable holds a relative path: guessing
    /// would put files into the working directory.
    pub fn find(
        var: impl Fn(&str) -> Option<OsString>,
        account_home: impl FnOnce() -> Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let path = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let home = absolute("HOME").or_else(account_home).filter(|home| home.is_absolute()).ok_or_else(|| {
            ConfigError::file(
                "HOME",
                "there is no home directory: the variable is not set to an absolute path and the account has none",
                "set HOME",
            )
        })?;
        let own = |name: &str| match path(name) {
            Some(path) if path.is_relative() => Err(ConfigError::file(
                name,
                format!("{} is not an absolute path", path.display()),
                format!("give {name} a path that starts with /"),
            )),
            other => Ok(other),
        };
        let below = |base: Option<PathBuf>, fallback: &str| {
            base.unwrap_or_else(|| home.join(fallback)).join("ferrum")
        };
        Ok(Self {
            config: own("FERRUM_CONFIG_DIR")?.unwrap_or_else(|| below(None, ".config")),
            data: own("FERRUM_DATA_DIR")?.unwrap_or_else(|| below(absolute("XDG_DATA_HOME"), ".local/share")),
            cache: below(absolute("XDG_CACHE_HOME"), ".cache"),
            runtime: absolute("XDG_RUNTIME_DIR").map(|dir| dir.join("ferrum")),
            home,
        })
    }

    /// Replaces a leading `~` by the home directory.
    #[must_use]
    pub fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => self.home.join(rest.trim_start_matches('/')),
            _ => Path::new(path).to_path_buf(),
        }
    }
}

/// The home directory that the account database names.
pub(super) fn account_home() -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).ok()??;
    Some(user.dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(vars: &[(&str, &str)]) -> Result<Dirs, ConfigError> {
        let var = |name: &str| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| OsString::from(v))
        };
        Dirs::find(var, || None)
    }

    #[test]
    fn ferrums_own_variables_come_before_the_general_ones() {
        let plain = find(&[("HOME", "/home/ada")]).expect("a home is enough");
        assert_eq!(plain.config, Path::new("/home/ada/.config/ferrum"));
        assert_eq!(plain.data, Path::new("/home/ada/.local/share/ferrum"));
        assert_eq!(plain.cache, Path::new("/home/ada/.cache/ferrum"));
        let all = [
            ("HOME", "/home/ada"),
            ("XDG_CONFIG_HOME", "/ignored"),
            ("XDG_DATA_HOME", "/d"),
            ("XDG_CACHE_HOME", "/c"),
            ("FERRUM_CONFIG_DIR", "/fc"),
        ];
        let dirs = find(&all).expect("valid");
        assert_eq!(
            (dirs.config, dirs.data, dirs.cache),
            ("/fc".into(), "/d/ferrum".into(), "/c/ferrum".into())
        );
    }

    #[test]
    fn no_home_and_relative_paths_are_errors_that_name_the_variable() {
        assert!(find(&[]).expect_err("no home").to_string().contains("HOME"));
        assert!(find(&[("HOME", "relative")]).is_err());
        let error = find(&[("HOME", "/h"), ("FERRUM_DATA_DIR", "x")]).expect_err("relative");
        assert!(error.to_string().contains("FERRUM_DATA_DIR"));
    }

    #[test]
    fn only_a_leading_tilde_of_ones_own_is_expanded() {
        let dirs = find(&[("HOME", "/h")]).expect("valid");
        assert_eq!(dirs.expand("~/src"), Path::new("/h/src"));
        assert_eq!(dirs.expand("~"), Path::new("/h"));
        assert_eq!(dirs.expand("~bob/src"), Path::new("~bob/src"));
        assert_eq!(dirs.expand("a/~"), Path::new("a/~"));
    }
}
