//! The steps between a parsed command line and the first thread, in the only right order.

use crate::audit::chain::Keyed;
use crate::audit::key::{self, KeyError};
use crate::cli::{Cli, Command, PolicyCommand};
use crate::config::{Config, ConfigError, Environment, working_directory};
use crate::confine::{Configures, Confinement, confine};
use crate::exit::{Failure, Kind};
use crate::host::{Cause, Checker, Control, Fault, Hosts, Launcher, Opened, Place, Prober};
use crate::trust::Trust;
use ferrum_proto::charter::Wish;
use ferrum_proto::seal::Granted;
use ferrum_proto::terms::PathBytes;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What every mode gets: the configuration, and a launcher that has been asked for a host
/// already. No thread and no runtime exist yet.
pub struct Start {
    pub config: Config,
    /// The working directory as the user wrote it.
    pub cwd: PathBuf,
    /// What the front itself has given up.
    pub confinement: Confinement,
    /// What the operator has to accept before it counts.
    pub trust: Trust,
    pub hosts: Waiting,
    /// What audit logs are chained with; only where a session is begun.
    pub audit: Option<Keyed>,
}

/// The launcher and the host that was asked for, until there is a runtime to hear them.
#[derive(Debug)]
pub struct Waiting {
    launcher: Launcher,
    control: Control,
    first: Option<Opened>,
    place: Place,
}

impl Start {
    /// Launcher, configuration, charter, first host, confinement.
    ///
    /// The launcher comes first, since it loads while we read; it is told nothing before the
    /// configuration is known to be sound. Everything for it is sent without waiting.
    ///
    /// # Errors
    /// Any [`Failure`]; the launcher then ends with its socket.
    pub fn new(cli: &Cli) -> Result<Self, Failure> {
        cli.dir().map_or(Ok(()), enter)?;
        let (launcher, control) = Launcher::spawn()?;
        // Not before: programs that commands start should find it as the user has it.
        crate::sys::ignore_file_size_signal();
        let mut config = Config::load(Environment::of_process())?;
        if cli.command.is_none() && cli.print.untrusted {
            config.distrust();
        }
        let cwd = find_cwd(&config)?;
        let wish = cli.wish();
        check_ceiling(&config, &wish)?;
        let mut hosts = Waiting {
            launcher,
            control,
            first: None,
            place: Place {
                cwd: PathBytes::from(cwd.as_path()),
                wish,
            },
        };
        let needs = Needs::of(cli);
        let trust = Trust::load(&config.dirs.data)?;
        let mut charter = config.charter();
        if needs.remembers {
            let real = std::fs::canonicalize(&cwd).unwrap_or_else(|_| cwd.clone());
            charter.remembered = trust.remembered(&real);
        }
        let asked = hosts.ask(charter, needs.first);
        asked.map_err(|cause| cause.with_end_of(&hosts.launcher))?;
        if needs.data {
            make_directory("data", &config.dirs.data, "FERRUM_DATA_DIR")?;
        }
        if needs.configures == Configures::Everything {
            make_directory("config", &config.dirs.config, "FERRUM_CONFIG_DIR")?;
        }
        let audit = match needs.audit {
            true => Some(key::read_or_make(&config.dirs.config, &config.dirs.data)?),
            false => None,
        };
        let confinement = confine(&config.dirs, needs.configures);
        Ok(Self {
            config,
            cwd,
            confinement,
            trust,
            hosts,
            audit,
        })
    }
}

/// What the launcher is asked for at the start.
#[derive(Debug, Clone, Copy)]
enum First {
    /// Nothing yet: the command opens its hosts itself.
    None,
    Session,
    Check,
}

/// What a command gets at the start.
struct Needs {
    first: First,
    /// A project policy that was in force before counts. A host in role check starts nothing, and
    /// must come up for the operator to see what is wrong.
    remembers: bool,
    /// The data directory is made.
    data: bool,
    configures: Configures,
    /// The key of the audit log is read or made.
    audit: bool,
}

impl Needs {
    fn of(cli: &Cli) -> Self {
        let looks = Self {
            first: First::None,
            remembers: true,
            data: false,
            configures: Configures::State,
            audit: false,
        };
        let checks = Self {
            first: First::Check,
            remembers: false,
            ..looks
        };
        match &cli.command {
            None => Self {
                first: First::Session,
                data: true,
                audit: true,
                ..looks
            },
            Some(Command::Tool(_)) => Self {
                first: First::Session,
                data: true,
                audit: true,
                ..looks
            },
            Some(Command::Trust(_)) => Self { data: true, ..checks },
            Some(Command::Inspect(_)) => checks,
            Some(Command::Doctor(_)) => Self {
                remembers: false,
                ..looks
            },
            Some(Command::Setup(_) | Command::Login(_)) => Self {
                configures: Configures::Everything,
                ..looks
            },
            Some(Command::Policy(policy)) => match policy.question {
                PolicyCommand::Explain(_) => checks,
                PolicyCommand::Verify(_) => Self { data: true, ..looks },
                PolicyCommand::Show(_) | PolicyCommand::Check(_) | PolicyCommand::Init => looks,
            },
            // They need no launcher and do not come here.
            Some(Command::Audit(_) | Command::Sessions(_)) => looks,
        }
    }
}

impl Waiting {
    fn ask(&mut self, charter: ferrum_proto::charter::Charter, first: First) -> Result<(), Cause> {
        self.control.send_charter(charter)?;
        let (cwd, wish) = (&self.place.cwd, &self.place.wish);
        self.first = match first {
            First::None => None,
            First::Session => Some(self.control.open_host(cwd, wish)?),
            First::Check => Some(self.control.open_check(cwd, wish)?),
        };
        Ok(())
    }

    /// Takes the hosts over into the runtime that this is called in, and waits for the policy in
    /// force. The walls come up meanwhile: see `ToolHost::ready`.
    ///
    /// # Errors
    /// [`Fault`] when no host came up; turn it into a [`Failure`] for the exit code.
    pub async fn open(mut self) -> Result<Hosts, Fault> {
        let first = match self.first.take() {
            Some(first) => first,
            None => self
                .control
                .open_host(&self.place.cwd, &self.place.wish)
                .map_err(Fault::NotStarted)?,
        };
        Hosts::start(self.launcher, self.control, first, self.place).await
    }

    /// Takes over a host in role check, and waits for the policy in force.
    ///
    /// # Errors
    /// When none came up.
    pub(crate) async fn check(mut self) -> Result<(Checker, Granted), Cause> {
        let first = match self.first.take() {
            Some(first) => first,
            None => self.control.open_check(&self.place.cwd, &self.place.wish)?,
        };
        Checker::start(self.launcher, self.control, first).await
    }

    /// For looking at several hosts without calling any.
    ///
    /// # Errors
    /// When the control socket cannot be registered with the runtime.
    pub(crate) fn probe(self) -> Result<Prober, Cause> {
        Prober::new(self.launcher, self.control, self.place.cwd)
    }
}

/// Before the launcher starts, which keeps the directory that it was started in.
fn enter(dir: &Path) -> Result<(), Failure> {
    std::env::set_current_dir(dir)
        .map_err(|error| Failure::new(Kind::Usage, format!("--dir {}: {error}", dir.display())))
}

fn find_cwd(config: &Config) -> Result<PathBuf, Failure> {
    let pwd = config.variable("PWD").map(PathBuf::from);
    working_directory(pwd).map_err(|error| {
        Failure::new(
            Kind::Usage,
            format!("the working directory cannot be used: {error}"),
        )
        .with_hint("change into a directory that exists")
    })
}

/// The launcher checks this again; here the message can name the key.
fn check_ceiling(config: &Config, wish: &Wish) -> Result<(), ConfigError> {
    let ceiling = config.settings.safety.ceiling;
    match wish.tier {
        Some(tier) if tier < ceiling => Err(ConfigError::file(
            &config.file,
            format!(
                "--safety {} is below `safety.ceiling` = \"{}\"",
                tier.name(),
                ceiling.name()
            ),
            format!("ask for {} or higher, or change `safety.ceiling`", ceiling.name()),
        )),
        _ => Ok(()),
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let hint = match error {
            KeyError::Lost { .. } => {
                "put it back from a copy; without one, move `audit` and `sessions` of the data directory away: nobody can prove them any more"
            }
            KeyError::Io { .. } | KeyError::Unfit { .. } | KeyError::Missing(_) => {
                "what tools do is logged under this key, so nothing is run without it"
            }
        };
        Self::new(Kind::Error, error.to_string()).with_hint(hint)
    }
}

/// Sessions and keys are for the user's eyes alone.
fn make_directory(which: &str, path: &Path, variable: &str) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        Failure::new(
            Kind::Error,
            format!("the {which} directory {} cannot be made: {error}", path.display()),
        )
        .with_hint(format!("make it writable, or set {variable} to a place that is"))
    })
}
