//! What a host says to the front.

use crate::seal::{Decided, Granted, Promise, Ready, SealFailed};
use crate::terms::{Containment, Isolation, PathBytes, Tier};
use bincode::{Decode, Encode};

/// Frames from a host to the front.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FromHost {
    /// First frame, once.
    Hello { protocol: u16, build: String },
    /// Policy is decided. Once.
    Granted(Box<Granted>),
    /// The walls are in force. Once, after `Granted`.
    Ready(Box<Ready>),
    /// Instead of `Granted` or `Ready`: the host exits after it.
    SealFailed(SealFailed),
    /// A long call is alive. At most 20 a second.
    Progress { id: u64, text: String },
    /// The next bytes of the call's text. The text as a whole is UTF-8.
    Chunk { id: u64, bytes: Vec<u8> },
    /// The call is over; its text came before.
    Reply { id: u64, reply: Reply },
    /// The answer to `Survey`.
    Surveyed { id: u64, survey: Survey },
    /// What a look at project files found. The host ends after it.
    Linted(Box<Linted>),
    /// The answer to `Explain`, in the order of the questions.
    Explained {
        id: u64,
        answer: Explanation,
        /// Where the question asked for it.
        basis: Option<Box<Basis>>,
    },
}

/// What a look at project files found.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Linted {
    /// Those that were looked at, nearest first.
    pub files: Vec<PathBytes>,
    /// At most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// Empty as long as a problem is an error.
    pub expectations: Vec<Expectation>,
}

/// Problems and expectations that one report carries.
pub const PROBLEMS_MAX: usize = 1_000;

/// One thing that is wrong with a project file, or in vain.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Problem {
    pub file: PathBytes,
    /// From 1; 0 where it is about the file as a whole.
    pub line: u32,
    /// In characters, from 1; 0 where it is about the file as a whole.
    pub column: u32,
    /// A warning does not keep the file from being used.
    pub is_error: bool,
    pub message: String,
    pub hint: String,
}

/// One `[[expect]]` of a project file, with what policy answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Expectation {
    pub file: PathBytes,
    pub line: u32,
    pub tool: String,
    pub input: String,
    /// The tier at which it was judged.
    pub tier: Tier,
    /// True for `allow`.
    pub allow: bool,
    pub answer: Explanation,
}

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Basis {
    /// The rule, in words.
    pub rule: String,
    /// Who brought it about; empty where the rule is built in.
    pub origins: Vec<Decided>,
    /// The promises that would hold if the rule were wrong, with what holds them on this machine.
    pub promises: Vec<Promise>,
    /// The smallest change of the configuration that turns a refusal into a permission; empty
    /// where there is none.
    pub change: String,
}

/// What policy says about an act.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Explanation {
    Allowed,
    Refused(Refusal),
    /// The question cannot be put here: a tier below the floor, a shell mode that may not be.
    Unanswerable {
        message: String,
        hint: String,
    },
}

/// What was touched since the last survey that somebody obeys without being asked: the table of
/// docs/POLICY.md.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Survey {
    /// At most [`SURVEY_FILES_MAX`](crate::limits::SURVEY_FILES_MAX).
    pub files: Vec<Steering>,
    /// How many more there are.
    pub more: u32,
    /// What the looks after calls found at places that git, a shell or Ferrum obey, one line each.
    pub findings: Vec<String>,
}

/// A file that steers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Steering {
    pub path: PathBytes,
    /// Row of the table.
    pub kind: String,
    /// It was not there before.
    pub created: bool,
}

/// How one call ended. Its text came in chunks before.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Reply {
    pub outcome: Outcome,
    /// Length of the text, for a check against the chunks.
    pub text_bytes: u64,
    pub denials: Vec<Denial>,
    /// For `bash` and `wait`.
    pub command: Option<CommandReport>,
    /// Files that this call created or changed, as far as it is known.
    pub changed: Vec<PathBytes>,
    pub timings: Timings,
}

/// Refusal, failure and success are three different things.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// The tool ran. A command's own status does not matter here.
    Done,
    /// The tool tried and could not; the text says why.
    Failed,
    /// Policy said no before anything started; the text is the sentence.
    Refused(Refusal),
}

/// A policy refusal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Refusal {
    /// Stable: listed in docs/POLICY.md.
    pub code: String,
    /// Position in the command, from 1; 0 where there is none.
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// A rewrite that passes; empty where there is none.
    pub hint: String,
}

/// Something that a wall refused.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Denial {
    /// Path or address, escaped.
    pub what: String,
    /// Name of the wall.
    pub wall: String,
    /// The config key that would allow it; empty where it may not be granted.
    pub remedy: String,
    /// False where it is inferred from a program's behaviour.
    pub certain: bool,
}

/// What is known of a command that ran.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CommandReport {
    pub end: CommandEnd,
    /// Exit status, or 128 + signal.
    pub status: Option<i32>,
    /// The signal that ended the command's own process, where one did.
    pub signal: Option<i32>,
    pub isolation: Isolation,
    pub containment: Containment,
    pub residual: Residual,
    /// Processes that were still there when the call ended.
    pub ended_with_call: u32,
    /// Names of some of them.
    pub ended_names: Vec<String>,
    pub output_incomplete: bool,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub cpu_us: Option<u64>,
    pub peak_memory: Option<u64>,
    /// Limits of the charter that nothing held during this call.
    pub limits_missing: Vec<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum CommandEnd {
    Exited,
    TimedOut,
    Cancelled,
}

/// Whether processes of the call are left after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Residual {
    None,
    Some,
    Unknown,
}

/// Microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Timings {
    /// From the frame's arrival to the verdict.
    pub admit_us: u64,
    /// From the verdict to the end.
    pub run_us: u64,
}
