//! Kinds of failure → wording, hint and exit code. Only `main` uses what is decided here.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | answer given; the tool ran |
//! | 1 | unrecoverable error; tool error |
//! | 2 | usage, configuration or policy |
//! | 3 | stopped by a budget, with a partial answer |
//! | 4 | the required isolation is not available |
//! | 5 | a tool call was refused |
//! | 130, 143 | cancelled, terminated |
//! | 141 | whoever read stdout is gone |

use crate::config::ConfigError;
use crate::host::{Cause, Fault, LaunchError};
use crate::ui::terminal_text::sanitise;
use ferrum_proto::seal::SealFailure;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// What kind of end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing that the user could have written differently.
    Error,
    /// Command line, configuration or policy.
    Usage,
    /// Rounds, context or time are used up; a partial answer is there.
    Budget,
    /// Walls that are required are missing on this machine.
    Isolation,
    /// Policy said no to a tool call.
    Denied,
    /// Ctrl-C.
    Cancelled,
    /// SIGTERM, SIGHUP.
    Terminated,
    /// Nobody reads stdout any more: what SIGPIPE does to a program that does not ask.
    OutputClosed,
}

impl Kind {
    /// The documented exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Error => 1,
            Self::Usage => 2,
            Self::Budget => 3,
            Self::Isolation => 4,
            Self::Denied => 5,
            Self::Cancelled => 130,
            Self::Terminated => 143,
            Self::OutputClosed => 141,
        }
    }

    /// The word of the event stream.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Usage => "usage",
            Self::Budget => "budget",
            Self::Isolation => "isolation",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::OutputClosed => "output_closed",
        }
    }
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind.code())
    }
}

/// The end of the program for a reason that is told to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    /// What happened, with the file, key or wall; lower case, no full stop.
    pub message: String,
    /// What to do; empty when there is nothing to say.
    pub hint: String,
}

impl Failure {
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: String::new(),
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Prints it on stderr. A closed stderr is no reason to fail twice; a reader who left wants
    /// no message about it.
    pub fn report(&self) {
        if self.kind == Kind::OutputClosed {
            return;
        }
        let mut text = format!("ferrum: {}\n", self.message);
        if !self.hint.is_empty() {
            text.push_str(&format!("  hint: {}\n", self.hint));
        }
        let mut stderr = std::io::stderr().lock();
        let text = if stderr.is_terminal() {
            sanitise(&text)
        } else {
            text
        };
        let _ = stderr.write_all(text.as_bytes());
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Kind::Usage, error.to_string()).with_hint(error.hint)
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let hint = match error {
            LaunchError::Missing { .. } => "build and install both programs together: cargo build --release",
            LaunchError::System { .. } => "",
        };
        Self::new(Kind::Error, error.to_string()).with_hint(hint)
    }
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        let kind = match &cause {
            Cause::Seal(failed) => match failed.kind {
                SealFailure::Policy => Kind::Usage,
                SealFailure::Isolation => Kind::Isolation,
                SealFailure::Setup => Kind::Error,
            },
            Cause::PolicyChanged => Kind::Usage,
            Cause::NoLauncher(_)
            | Cause::Launcher(_)
            | Cause::Refused(_)
            | Cause::Closed { .. }
            | Cause::Frame(_)
            | Cause::Order(_)
            | Cause::Build { .. }
            | Cause::Silent { .. }
            | Cause::Text(_)
            | Cause::Socket(_)
            | Cause::Request(_)
            | Cause::Pending => Kind::Error,
        };
        Self::new(kind, cause.to_string()).with_hint(cause.hint())
    }
}

impl From<Fault> for Failure {
    /// A call that was never sent is told by its cause alone.
    fn from(fault: Fault) -> Self {
        let message = fault.to_string();
        match fault {
            Fault::NotStarted(cause) => cause.into(),
            Fault::EffectUnknown(cause) => Self {
                message,
                ..Self::from(cause)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrum_proto::seal::SealFailed;

    #[test]
    fn codes_are_the_documented_ones() {
        let seal = |kind| {
            let failed = SealFailed {
                kind,
                message: "m".into(),
                hint: "h".into(),
            };
            Failure::from(Fault::NotStarted(Cause::Seal(failed)))
        };
        assert_eq!(seal(SealFailure::Policy).kind.code(), 2);
        assert_eq!(seal(SealFailure::Isolation).kind.code(), 4);
        assert_eq!(seal(SealFailure::Setup).kind.code(), 1);
        assert_eq!(seal(SealFailure::Setup).hint, "h");
        let missing = Failure::from(LaunchError::Missing {
            looked: vec!["/x/ferrum-toolhost".into()],
        });
        assert_eq!(missing.kind.code(), 1);
        assert!(missing.hint.contains("cargo build --release"));
        assert_eq!(Failure::from(ConfigError::file("/c", "m", "h")).kind.code(), 2);
        let fault = Failure::from(Fault::EffectUnknown(Cause::Closed {
            cut: false,
            how: None,
        }));
        assert!(fault.message.contains("unknown"));
        assert_eq!((Kind::Cancelled.code(), Kind::Terminated.code()), (130, 143));
    }
}
