//! What happens in a turn, in its order, for whoever shows it or writes it down. One type for
//! every form of output; nothing here can change the turn.

use super::call::CallResult;
use super::message::{Message, ToolUse, Usage};
use super::turn::End;
use crate::exit::Failure;
use ferrum_proto::reply::Survey;
use ferrum_proto::seal::{Granted, Ready};

/// One thing that happened.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// Policy and walls in force. Once a session; where answers stream, their first words may
    /// come before it.
    Session {
        granted: &'a Granted,
        ready: &'a Ready,
    },
    /// The next words of an answer that is coming.
    AssistantDelta(&'a str),
    /// The next words of its reasoning.
    ThinkingDelta(&'a str),
    /// A whole answer with text in it; its record is durable.
    Assistant(&'a Message),
    /// A call that is about to run. It gets exactly one result before the turn ends.
    ToolCall(ToolUse<'a>),
    /// A long call is alive.
    Progress(&'a str),
    ToolResult {
        id: &'a str,
        name: &'a str,
        result: &'a CallResult,
    },
    /// What one request took.
    Usage(&'a Usage),
    Notice(&'a str),
    /// What the turn left that programs or agents obey without being asked; before its end.
    Steering {
        granted: &'a Granted,
        survey: &'a Survey,
    },
    /// The turn came to its own end; everything of it is durable.
    TurnEnd(TurnEnd<'a>),
    /// The turn was cut from outside; what there was is durable.
    Interrupted(Interrupted<'a>),
    /// The turn, or the program, cannot go on.
    Error(&'a Failure),
}

/// How a turn ended by itself.
#[derive(Clone, Copy)]
pub struct TurnEnd<'a> {
    pub end: &'a End,
    pub totals: &'a Totals,
    /// What the program would end with now.
    pub exit_code: u8,
}

/// How a turn was cut.
#[derive(Clone, Copy)]
pub struct Interrupted<'a> {
    pub reason: Reason,
    /// `model` or `tool`: what was waited for.
    pub phase: &'static str,
    /// The words of the answer that was coming.
    pub partial: &'a str,
    pub totals: &'a Totals,
    pub exit_code: u8,
}

/// Counts of one turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rounds of tool calls.
    pub rounds: u32,
    /// Calls that policy refused.
    pub refused: u32,
    pub usage: Usage,
}

/// Why a turn was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// SIGINT.
    Cancelled,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// `--timeout`.
    Timeout,
    /// Nobody reads stdout any more.
    OutputClosed,
    /// The turn failed; the event is then an error.
    Error,
}

impl Reason {
    /// The word of the event stream and of the session's record.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::Timeout => "timeout",
            Self::OutputClosed => "output_closed",
            Self::Error => "error",
        }
    }
}

/// Where the events of a turn go.
#[allow(async_fn_in_trait, reason = "used on a current-thread runtime only")]
pub trait Sink {
    /// True when text is wanted as it comes; then a failed attempt cannot be hidden.
    fn streams(&self) -> bool;

    fn record(&mut self, event: Event<'_>);

    /// Waits while more is waiting for its reader than memory should hold.
    async fn room(&mut self) {}
}
