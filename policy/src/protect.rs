//! Credential and system paths that no tier may change, and those that no tier but low may read.
//!
//! One table for text and walls: the host's view covers the same names. All comparisons are by
//! path components; `/home/user/.sshx` is not in `/home/user/.ssh`.

use crate::Ground;
use std::path::{Component, Path, PathBuf};

/// Below the home directory: absent from every view, never written, read by text only at low.
#[rustfmt::skip]
pub const CREDENTIALS_HOME: &[&str] = &[
    ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".vault-token", ".vault", ".netrc", "_netrc",
    ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials", ".config/gh",
    ".config/glab-cli", ".config/hub", ".config/gcloud", ".config/doctl", ".config/op", ".config/rclone",
    ".config/containers/auth.json", ".config/helm/registry", ".config/sops", ".config/ferrum",
    ".local/share/ferrum", ".local/share/keyrings", ".local/share/kwalletd", ".password-store", ".npmrc",
    ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json",
    ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config", ".terraform.d/credentials.tfrc.json",
    ".pulumi/credentials.json", ".oci", ".bluemix", ".s3cfg", ".boto", ".pgpass", ".my.cnf", ".mylogin.cnf",
    ".databrickscfg", ".huggingface/token", ".cache/huggingface/token", ".kaggle/kaggle.json", ".mozilla",
    ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".config/Bitwarden", ".config/1Password",
    ".config/keepassxc", ".electrum", ".bitcoin", ".ethereum",
];

/// Below the home directory: what shells and sessions run on their own. Readable, never written.
#[rustfmt::skip]
pub const START_UP_HOME: &[&str] = &[
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc",
    ".login", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".config/fish",
    ".config/environment.d", ".config/systemd", ".config/autostart", ".local/share/systemd", ".gitconfig",
    ".config/git/config", ".config/git/hooks", ".pythonrc", ".pdbrc", ".gdbinit", ".config/gdb",
];

/// Absolute: never written at any tier.
#[rustfmt::skip]
pub const SYSTEM_UNWRITABLE: &[&str] = &[
    "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/hosts", "/etc/pam.d", "/etc/ld.so.preload", "/etc/ssh", "/boot", "/proc", "/sys", "/dev",
];

/// Absolute: reading them is refused at medium and high.
#[rustfmt::skip]
const SYSTEM_SECRET: &[&str] = &[
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/ssl/private", "/etc/krb5.keytab", "/root/.ssh", "/run/secrets", "/var/run/secrets",
];

/// Device files that are no place to store anything and are written by ordinary commands.
const DEVICES_WRITABLE: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/stdout",
    "/dev/stderr",
];

/// What below `/dev` belongs to the session, and bash's own names for network connections, which
/// are no files.
const DEVICE_PLACES: &[&str] = &[
    "/dev/shm",
    "/dev/fd",
    "/dev/pts",
    "/dev/mqueue",
    "/dev/tcp",
    "/dev/udp",
];

#[rustfmt::skip]
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc",
    "/root", "/run", "/sbin", "/sys", "/usr", "/var",
];

/// True for `/`, the top-level system directories and what lies in them, except the places below
/// `/var` and `/usr` where people keep checkouts (`/usr/src`, `/usr/local/src`, `/var/www`,
/// `/var/lib/…` workspaces, `/var/tmp`) and what lies in `/root`, root's own home.
#[must_use]
pub fn is_system_root(path: &Path) -> bool {
    const LIVED_IN: &[&str] = &[
        "/usr/src",
        "/usr/local/src",
        "/var/www",
        "/var/lib",
        "/var/tmp",
        "/root",
        "/run/user",
    ];
    if path == Path::new("/") || path == Path::new("/home") || path == Path::new("/opt") {
        return true;
    }
    let lived_in = LIVED_IN
        .iter()
        .any(|place| path.starts_with(place) && path != Path::new(place));
    !lived_in && SYSTEM_DIRECTORIES.iter().any(|system| path.starts_with(system))
}

/// Why a directory cannot be a root unless the user's own config names it literally.
///
/// `own_dirs` are Ferrum's directories. The answer is a sentence part: "it is …".
#[must_use]
pub fn root_problem(path: &Path, home: &Path, own_dirs: &[PathBuf]) -> Option<String> {
    if path == home {
        return Some("it is the home directory".to_owned());
    }
    if home.starts_with(path) {
        return Some("it holds the home directory".to_owned());
    }
    if is_system_root(path) {
        return Some("it is a system directory".to_owned());
    }
    for name in CREDENTIALS_HOME.iter().chain(START_UP_HOME) {
        let protected = home.join(name);
        if path.starts_with(&protected) {
            return Some(format!("it lies in {}, which is protected", protected.display()));
        }
        if protected.starts_with(path) {
            return Some(format!("it holds {}, which is protected", protected.display()));
        }
    }
    for own in own_dirs {
        if path.starts_with(own) || own.starts_with(path) {
            return Some(format!("it overlaps {}, which is Ferrum's own", own.display()));
        }
    }
    if has_component(path, ".ferrum") {
        return Some("it lies in a .ferrum directory".to_owned());
    }
    has_component(path, ".git").then(|| "it lies in a git directory".to_owned())
}

/// Why no tier may write `path`, as a sentence part; `None` where the tables do not speak.
#[must_use]
pub fn write_problem(path: &Path, ground: &Ground) -> Option<String> {
    if let Some(own) = ground.protected.iter().find(|own| path.starts_with(own)) {
        return Some(format!("{} is protected", own.display()));
    }
    let mut homes = CREDENTIALS_HOME.iter().chain(START_UP_HOME);
    if let Ok(below) = path.strip_prefix(&ground.home)
        && let Some(name) = homes.find(|name| below.starts_with(name))
    {
        return Some(format!("~/{name} is protected"));
    }
    if let Some(system) = SYSTEM_UNWRITABLE.iter().find(|system| path.starts_with(system)) {
        let device = DEVICES_WRITABLE.iter().any(|device| path == Path::new(device))
            || DEVICE_PLACES.iter().any(|place| path.starts_with(place))
            || path.starts_with("/proc/self/fd");
        return (!device).then(|| format!("{system} is protected"));
    }
    if has_component(path, ".ferrum") {
        return Some("the .ferrum directory is protected".to_owned());
    }
    git_problem(path)
}

/// Why no file tool may write `path` itself. Git's own programs make and remove such a file, and
/// what they leave is looked at.
#[must_use]
pub fn git_entry_problem(path: &Path) -> Option<String> {
    path.ends_with(".git")
        .then(|| "a file of this name leads git to another directory".to_owned())
}

/// The parts of a git directory that git runs or obeys.
fn git_problem(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.components().filter_map(name_of).collect();
    let git = parts.iter().position(|part| *part == ".git")?;
    let inside = &parts[git + 1..];
    // A worktree's or submodule's own directory lies deeper: look at each level.
    let guarded = |part: &&str| {
        matches!(
            *part,
            "hooks" | "config" | "config.worktree" | "commondir" | "gitdir"
        )
    };
    let first = inside.first()?;
    let nested = matches!(*first, "modules" | "worktrees") && inside.iter().skip(1).any(guarded);
    let info = *first == "info" && inside.get(1) == Some(&"attributes");
    if guarded(first) || nested || info {
        return Some(format!(
            ".git/{} is protected: git runs or obeys it",
            inside.join("/")
        ));
    }
    None
}

/// Why `path` may not be read at medium and high, as a sentence part.
#[must_use]
pub fn read_problem(path: &Path, home: &Path, protected: &[PathBuf]) -> Option<String> {
    // The user's skills lie in Ferrum's own directory and are there to be read.
    let below = path.strip_prefix(home).ok();
    let skills = |own: &PathBuf| path.starts_with(own) && path.starts_with(own.join("skills"));
    if protected.iter().any(skills) || below.is_some_and(|below| below.starts_with(".config/ferrum/skills")) {
        return None;
    }
    if let Some(below) = below
        && let Some(name) = CREDENTIALS_HOME.iter().find(|name| below.starts_with(name))
    {
        return Some(format!("~/{name} may hold credentials"));
    }
    if let Some(system) = SYSTEM_SECRET.iter().find(|system| path.starts_with(system)) {
        return Some(format!("{system} may hold credentials"));
    }
    if path.starts_with("/proc")
        && path
            .file_name()
            .is_some_and(|name| name == "environ" || name == "mem")
    {
        return Some("the environment and memory of processes may hold credentials".to_owned());
    }
    // What is only unwritable (`.ferrum`, git's own parts, start-up files) may be read.
    let is_private = |own: &&PathBuf| {
        let start_up = START_UP_HOME.iter().any(|name| **own == home.join(name));
        !start_up && !has_component(own, ".ferrum") && !has_component(own, ".git")
    };
    let own = protected
        .iter()
        .filter(|own| path.starts_with(own))
        .find(is_private)?;
    Some(format!("{} is Ferrum's own", own.display()))
}

/// The protected path that lies in `path`, which a recursive change would take along.
#[must_use]
pub fn holds_protected(path: &Path, ground: &Ground) -> Option<PathBuf> {
    let names = CREDENTIALS_HOME.iter().chain(START_UP_HOME);
    let mut homes = names.map(|name| ground.home.join(name));
    homes.find(|protected| protected.starts_with(path) && path != ground.home)
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|part| name_of(part) == Some(name))
}

fn name_of(part: Component<'_>) -> Option<&str> {
    match part {
        Component::Normal(name) => name.to_str(),
        Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isolation;

    fn ground() -> Ground {
        Ground {
            cwd: "/project".into(),
            home: "/home/user".into(),
            writable: vec!["/project".into()],
            readable: Vec::new(),
            private: vec!["/tmp".into()],
            protected: vec!["/home/user/.config/ferrum".into(), "/project/.ferrum".into()],
            isolation: Isolation::Full,
        }
    }

    #[test]
    fn writing_what_the_tables_name_is_refused_and_its_neighbours_are_not() {
        let refused = [
            "/home/user/.ssh/id_rsa",
            "/home/user/.bashrc",
            "/project/.ferrum/config.toml",
            "/project/sub/.ferrum/x",
            "/project/.git/hooks/pre-commit",
            "/project/.git/config",
            "/project/.git/modules/a/config",
            "/project/.git/worktrees/a/gitdir",
            "/etc/passwd",
            "/dev/sda",
            "/proc/sys/kernel/core_pattern",
        ];
        let free = [
            "/home/user/.sshx",
            "/home/user/.bashrc.d/x",
            "/project/ferrum/x",
            "/project/.git/index",
            "/project/.gitignore",
            "/etc/passwd.d",
            "/dev/null",
            "/dev/shm/x",
            "/project/config",
        ];
        for path in refused {
            assert!(write_problem(Path::new(path), &ground()).is_some(), "{path}");
        }
        assert!(git_entry_problem(Path::new("/project/sub/.git")).is_some());
        assert!(git_entry_problem(Path::new("/project/sub/.gitignore")).is_none());
        for path in free {
            assert_eq!(write_problem(Path::new(path), &ground()), None, "{path}");
        }
    }

    #[test]
    fn roots_that_hold_are_or_lie_in_what_is_protected_are_dropped() {
        let home = Path::new("/home/user");
        for path in [
            "/",
            "/home",
            "/home/user",
            "/etc",
            "/usr/lib/x",
            "/home/user/.config",
            "/home/user/.ssh/x",
            "/a/.git",
        ] {
            assert!(root_problem(Path::new(path), home, &[]).is_some(), "{path}");
        }
        for path in [
            "/project",
            "/home/user/project",
            "/srv/work",
            "/opt/checkout",
            "/usr/src/app",
            "/tmp/x",
        ] {
            assert_eq!(root_problem(Path::new(path), home, &[]), None, "{path}");
        }
        let own = [PathBuf::from("/data/ferrum")];
        assert!(root_problem(Path::new("/data"), home, &own).is_some());
        assert!(root_problem(Path::new("/root/checkout"), Path::new("/root"), &[]).is_none());
    }

    #[test]
    fn credentials_are_not_read() {
        let read = |path: &str| read_problem(Path::new(path), Path::new("/home/user"), &ground().protected);
        for path in [
            "/home/user/.netrc",
            "/home/user/.aws/credentials",
            "/home/user/.config/ferrum/auth.json",
            "/home/user/.config/ferrum/skillsx",
            "/etc/shadow",
            "/proc/1/environ",
        ] {
            assert!(read(path).is_some(), "{path}");
        }
        for path in [
            "/home/user/.bashrc",
            "/etc/passwd",
            "/proc/cpuinfo",
            "/project/.ferrum/config.toml",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
