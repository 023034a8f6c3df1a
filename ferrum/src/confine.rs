//! What the front gives up for its whole life, once the launcher runs and before any thread
//! exists: core dumps, being looked into, new privileges, capabilities, every write outside its
//! own directories, every exec, and the system calls of `filter`.
//!
//! Landlock's and seccomp's restrictions hold for the calling thread and what it starts later;
//! that is why this comes before the runtime. A kernel that lacks a layer is reported, not fatal:
//! the front then keeps that authority, while tool hosts judge their own walls and refuse.

use crate::config::Dirs;
use crate::{filter, login, sys};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::path::PathBuf;

/// What was given up, layer by layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confinement {
    pub layers: Vec<Layer>,
}

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub name: &'static str,
    pub in_force: bool,
    /// Extent where in force, else what failed.
    pub detail: String,
}

impl Confinement {
    /// One line for each layer that is missing.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let missing = self.layers.iter().filter(|layer| !layer.in_force);
        missing
            .map(|layer| format!("ferrum itself runs without {}: {}", layer.name, layer.detail))
            .collect()
    }

    fn add(&mut self, name: &'static str, result: Result<String, String>) {
        let in_force = result.is_ok();
        let detail = result.unwrap_or_else(|error| error);
        self.layers.push(Layer {
            name,
            in_force,
            detail,
        });
    }
}

/// What a front may write in the config directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configures {
    /// State files that exist: what the operator wrote is read-only.
    State,
    /// All of it. For commands of the operator's that run no model and no tool.
    Everything,
}

/// Confines this thread, which must be the only one. Directories that are missing now cannot be
/// written later.
#[must_use]
pub fn confine(dirs: &Dirs, configures: Configures) -> Confinement {
    let mut report = Confinement::default();
    report.add("the core dump ban", no_core_dumps());
    report.add("no new privileges", no_new_privileges());
    report.add("the capability drop", no_capabilities());
    report.add("Landlock", write_only_own(dirs, configures));
    report.add("seccomp", filter_calls());
    report
}

fn no_core_dumps() -> Result<String, String> {
    use nix::sys::{prctl, resource};
    resource::setrlimit(resource::Resource::RLIMIT_CORE, 0, 0).map_err(|error| error.desc().to_owned())?;
    prctl::set_dumpable(false).map_err(|error| error.desc().to_owned())?;
    Ok("no core dumps; other processes of the user cannot look into this one".to_owned())
}

fn no_new_privileges() -> Result<String, String> {
    nix::sys::prctl::set_no_new_privs().map_err(|error| error.desc().to_owned())?;
    Ok("set".to_owned())
}

fn no_capabilities() -> Result<String, String> {
    let bounding = sys::drop_bounding_set();
    sys::drop_capabilities().map_err(|error| error.desc().to_owned())?;
    Ok(match bounding {
        Ok(()) => "all sets are empty".to_owned(),
        // Nothing can be gained from the bounding set without an exec.
        Err(_) => "all sets but the bounding one are empty".to_owned(),
    })
}

fn filter_calls() -> Result<String, String> {
    let program = filter::program();
    sys::install_filter(&program).map_err(|error| format!("{} (CONFIG_SECCOMP_FILTER)", error.desc()))?;
    Ok("exec, ptrace, mounts, namespaces, keyrings and kernel interfaces are refused".to_owned())
}

/// The newest ABI whose rights we handle; the crate takes what the kernel has.
const HANDLED: ABI = ABI::V7;

fn write_only_own(dirs: &Dirs, configures: Configures) -> Result<String, String> {
    let status =
        restrict(dirs, configures).map_err(|error| format!("the rules could not be applied: {error}"))?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => format!("version {}", effective_abi as i32),
        LandlockStatus::NotEnabled => {
            return Err("it is disabled in this kernel (boot with lsm=landlock,…)".into());
        }
        LandlockStatus::NotImplemented => {
            return Err("this kernel does not have it (5.13 or later does)".into());
        }
    };
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(format!("{version}: writes only in Ferrum's own places, no exec")),
        RulesetStatus::PartiallyEnforced => Ok(format!(
            "{version}: writes only in Ferrum's own places, no exec, as far as this version goes"
        )),
        RulesetStatus::NotEnforced => Err("the kernel enforces none of the rules".into()),
    }
}

fn restrict(dirs: &Dirs, configures: Configures) -> Result<RestrictionStatus, RulesetError> {
    let writes = AccessFs::from_write(HANDLED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writes | AccessFs::Execute)?
        .scope(Scope::from_all(HANDLED))?
        .create()?;
    for path in own_directories(dirs, configures) {
        if let Ok(fd) = PathFd::new(&path) {
            rules = rules.add_rule(PathBeneath::new(fd, writes))?;
        }
    }
    for path in own_files(dirs) {
        if let Ok(fd) = PathFd::new(&path) {
            rules = rules.add_rule(PathBeneath::new(fd, AccessFs::from_file(HANDLED) & writes))?;
        }
    }
    rules.restrict_self()
}

fn own_directories(dirs: &Dirs, configures: Configures) -> Vec<PathBuf> {
    let mut own = vec![dirs.data.clone(), dirs.config.join("color-palettes")];
    if configures == Configures::Everything {
        own.push(dirs.config.clone());
    }
    own.extend(dirs.runtime.clone());
    own.retain(|path| path.is_dir());
    own
}

/// State files that exist, and the terminals that we were started on: no other one of the user's.
fn own_files(dirs: &Dirs) -> Vec<PathBuf> {
    let state = login::FILES.into_iter().chain(["colors.toml", "history.txt"]);
    let state = state.map(|name| dirs.config.join(name));
    let devices = ["/dev/null", "/dev/tty"].map(PathBuf::from);
    let standard = (0..3).filter_map(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok());
    let terminals = standard.filter(|path| path.starts_with("/dev"));
    let files = state.chain(devices).chain(terminals);
    files.filter(|path| path.exists() && !path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::ErrorKind;
    use std::time::Duration;

    const CHILD: &str = "FERRUM_TEST_CONFINED_DIRECTORY";

    /// Confining is for life, so it is done in a process of its own: this test program again.
    #[test]
    #[expect(clippy::print_stderr, reason = "a skip must be seen")]
    #[expect(clippy::disallowed_methods, reason = "starts the test program itself")]
    fn a_confined_front_writes_only_its_own_places_and_starts_nothing() {
        let dir = tempfile::tempdir().expect("temporary directory");
        for name in ["data", "config/color-palettes", "outside"] {
            std::fs::create_dir_all(dir.path().join(name)).expect("directory");
        }
        for name in ["config/config.toml", "outside/file"] {
            File::create(dir.path().join(name)).expect("file");
        }
        login::AuthFile::new(&dir.path().join("config"))
            .lock(Duration::ZERO, &|| false)
            .expect("the files of a login");
        let output = std::process::Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "confine::tests::child", "--nocapture"])
            .env(CHILD, dir.path())
            .output()
            .expect("the test program starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        if text.contains("not confined here") {
            let required = std::env::var_os("FERRUM_REQUIRE_WALLS").is_some();
            assert!(!required, "{text}");
            eprintln!("SKIPPED: this kernel lacks a layer of the front's confinement: {text}");
        } else {
            assert!(text.contains("confined and checked"), "{text}");
        }
        assert!(!dir.path().join("outside/new").exists());
        assert!(dir.path().join("data/new").exists());
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "what the parent reads")]
    fn child() {
        let Some(dir) = std::env::var_os(CHILD).map(PathBuf::from) else {
            return;
        };
        let dirs = Dirs {
            home: dir.clone(),
            config: dir.join("config"),
            data: dir.join("data"),
            cache: dir.join("cache"),
            runtime: None,
        };
        let report = confine(&dirs, Configures::State);
        if !report.notices().is_empty() {
            println!("not confined here: {:?}", report.notices());
            return;
        }
        let refused = |path: &str| {
            let error = File::options()
                .append(true)
                .create(true)
                .open(dir.join(path))
                .expect_err(path);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}: {error}");
        };
        File::create(dir.join("data/new")).expect("the data directory is ours");
        File::create(dir.join("config/color-palettes/new")).expect("palettes are ours");
        // All that storing a token takes.
        login::AuthFile::new(&dir.join("config"))
            .lock(Duration::ZERO, &|| false)
            .expect("auth.json is ours")
            .store(&login::Login {
                access: "a".into(),
                refresh: "r".into(),
                expires_ms: 0,
                account: None,
            })
            .expect("and can be written");
        File::options().write(true).open("/dev/null").expect("/dev/null");
        for path in [
            "outside/new",
            "outside/file",
            "config/config.toml",
            "config/AGENTS.md",
            "config/auth.new",
        ] {
            refused(path);
        }
        assert!(std::fs::rename(dir.join("outside/file"), dir.join("data/moved")).is_err());
        assert!(std::fs::remove_file(dir.join("outside/file")).is_err());
        std::fs::read(dir.join("outside/file")).expect("reading is not restricted");
        calls_are_refused();
        std::thread::spawn(|| ()).join().expect("threads still start");
        println!("confined and checked");
    }

    fn calls_are_refused() {
        use nix::errno::Errno;
        use nix::sched::{CloneFlags, unshare};
        let none: [&std::ffi::CStr; 0] = [];
        assert_eq!(
            nix::unistd::execve(c"/bin/true", &none, &none).err(),
            Some(Errno::EPERM)
        );
        assert_eq!(unshare(CloneFlags::CLONE_NEWUSER), Err(Errno::EPERM));
        assert_eq!(nix::mount::umount("/proc"), Err(Errno::EPERM));
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("own status");
        let line = |name: &str| {
            status
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or_default()
                .to_owned()
        };
        assert!(line("NoNewPrivs").ends_with('1'));
        assert!(line("Seccomp:").ends_with('2'));
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert!(line(set).ends_with("0000000000000000"), "{}", line(set));
        }
    }
}
