//! Environment variables that decide what later commands run or obey.

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "PATH", "HOME", "PWD", "OLDPWD", "TMPDIR", "IFS", "CDPATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS",
    "PS4", "PROMPT_COMMAND", "BASH_XTRACEFD", "GLOBIGNORE", "EXECIGNORE",
    "INPUTRC", "SHELL", "PAGER", "MANPAGER", "GIT_PAGER", "LESSOPEN", "LESSCLOSE", "EDITOR",
    "VISUAL", "BROWSER", "SUDO_EDITOR", "SUDO_ASKPASS", "SSH_ASKPASS", "RUSTC", "RUSTC_WRAPPER", "RUSTDOC",
    "CARGO_HOME", "RUSTUP_HOME", "MAKEFLAGS",
    "GNUMAKEFLAGS", "MFLAGS", "MAKEFILES", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT",
    "PYTHONBREAKPOINT", "PYTHONUSERBASE", "NODE_OPTIONS", "NODE_PATH", "RUBYOPT", "RUBYLIB", "GEM_HOME",
    "GEM_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
    "LUA_PATH", "LUA_CPATH", "LUA_INIT", "TCLLIBPATH", "PHPRC", "PHP_INI_SCAN_DIR",
    "TAR_OPTIONS", "RSYNC_RSH", "CVS_RSH", "GREP_OPTIONS",
    "RIPGREP_CONFIG_PATH", "FZF_DEFAULT_COMMAND", "VIMINIT", "EXINIT", "GDBINIT", "OPENSSL_CONF",
    "CURL_HOME", "WGETRC", "NETRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "ZDOTDIR",
    "GCONV_PATH", "LOCPATH", "HOSTALIASES",
    "CONFIG_SHELL", "CONFIG_SITE", "PIP_CONFIG_FILE", "NPM_CONFIG_USERCONFIG",
    "npm_config_script_shell", "DBUS_SESSION_BUS_ADDRESS", "AWK_LIBPATH",
    "AWKPATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "COLLECT_GCC",
];

const PREFIXES: &[&str] = &[
    "LD_",
    "GIT_",
    "PERL5",
    "BASH_FUNC_",
    "DYLD_",
    "GLIBC_",
    "FERRUM_",
    "CARGO_TARGET_",
];

/// git variables that are only names and dates.
const GIT_DATA: &[&str] = &["GIT_AUTHOR_", "GIT_COMMITTER_"];
const GIT_DATA_NAMES: &[&str] = &[
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
    "GIT_MERGE_AUTOEDIT",
    "GIT_LFS_SKIP_SMUDGE",
];

/// True when a value for `name` can change which program a command runs or what it obeys.
pub(super) fn has_authority(name: &str) -> bool {
    if GIT_DATA.iter().any(|prefix| name.starts_with(prefix)) || GIT_DATA_NAMES.contains(&name) {
        return false;
    }
    if name.starts_with("CARGO_TARGET_") {
        return name.ends_with("_RUNNER") || name.ends_with("_LINKER");
    }
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.ends_with("_WRAPPER")
}

/// Variables that only change how text is shown: all that high lets through.
pub(super) fn is_display(name: &str) -> bool {
    name.starts_with("LC_") || matches!(name, "LANG" | "TZ" | "NO_COLOR")
}
