//! A broken channel, told apart from a refusal and from a tool's own failure.

use ferrum_proto::frame::FrameError;
use ferrum_proto::order::OutOfOrder;
use ferrum_proto::seal::{SealFailed, SealFailure};
use std::fmt;

/// A call got no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was sent: there was no host to send it to, or the request does not fit.
    NotStarted(Cause),
    /// The call had been sent: whether it took effect is not known.
    EffectUnknown(Cause),
}

/// What broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// What was started as the launcher ended without a word: another program, or of another build.
    NoLauncher(String),
    /// The launcher is gone; tools stay away until Ferrum is started again.
    Launcher(String),
    /// The launcher did not start a host.
    Refused(String),
    /// The host could not come up.
    Seal(SealFailed),
    /// The host closed the connection. Says what the launcher knows of its end.
    Closed { cut: bool, how: Option<String> },
    /// The host sent bytes that are no message.
    Frame(FrameError),
    /// The host sent a message that may not come now.
    Order(OutOfOrder),
    /// The host is of another build.
    Build { theirs: String },
    /// The host did not answer in time.
    Silent { awaited: &'static str, seconds: u64 },
    /// The text of a result or of progress is not what it must be.
    Text(&'static str),
    /// The socket failed.
    Socket(String),
    /// The request itself is too large to be sent.
    Request(FrameError),
    /// As many calls as the wire allows are open.
    Pending,
    /// A fresh host came up under another policy than the session's.
    PolicyChanged,
}

impl Fault {
    #[must_use]
    pub fn cause(&self) -> &Cause {
        match self {
            Self::NotStarted(cause) | Self::EffectUnknown(cause) => cause,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(cause) => write!(f, "{cause}; nothing was run"),
            Self::EffectUnknown(cause) => write!(f, "{cause}; whether the call took effect is unknown"),
        }
    }
}

impl std::error::Error for Fault {}

impl Cause {
    /// What to do about it; empty where there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Launcher(_) => "the session is kept: start ferrum again to go on",
            Self::Seal(failed) => &failed.hint,
            Self::NoLauncher(_) | Self::Build { .. } => {
                "build and install both programs together: cargo build --release"
            }
            Self::PolicyChanged => "start ferrum again to work under the new policy",
            Self::Refused(_)
            | Self::Closed { .. }
            | Self::Frame(_)
            | Self::Order(_)
            | Self::Silent { .. }
            | Self::Text(_)
            | Self::Socket(_)
            | Self::Request(_)
            | Self::Pending => "",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLauncher(why) => write!(f, "ferrum-toolhost did not come up: {why}"),
            Self::Launcher(why) => write!(f, "the launcher of tool hosts is gone: {why}"),
            Self::Refused(why) => write!(f, "no tool host was started: {why}"),
            Self::Seal(failed) => seal_failed(f, failed),
            Self::Closed { cut, how } => {
                write!(f, "the tool host ended")?;
                if *cut {
                    write!(f, " in the middle of a message")?;
                }
                how.as_ref().map_or(Ok(()), |how| write!(f, " ({how})"))
            }
            Self::Frame(error) => write!(f, "the tool host broke the protocol: {error}"),
            Self::Order(error) => write!(f, "the tool host broke the protocol: {error}"),
            Self::Build { theirs } => {
                write!(
                    f,
                    "ferrum-toolhost is of another build ({theirs}) than ferrum ({}); install both together",
                    ferrum_proto::BUILD
                )
            }
            Self::Silent { awaited, seconds } => {
                write!(f, "the tool host sent no {awaited} within {seconds} s")
            }
            Self::Text(what) => write!(f, "the tool host broke the protocol: {what}"),
            Self::Socket(why) => write!(f, "the connection to the tool host failed: {why}"),
            Self::Request(error) => write!(f, "the request cannot be sent: {error}"),
            Self::Pending => write!(f, "too many tool calls are open at once"),
            Self::PolicyChanged => write!(
                f,
                "a new tool host came up under another policy than this session's"
            ),
        }
    }
}

fn seal_failed(f: &mut fmt::Formatter<'_>, failed: &SealFailed) -> fmt::Result {
    match failed.kind {
        SealFailure::Policy => write!(f, "the policy cannot be applied: {}", failed.message),
        SealFailure::Isolation => write!(f, "the required isolation is not available: {}", failed.message),
        SealFailure::Setup => write!(f, "the tool host could not be set up: {}", failed.message),
    }
}
