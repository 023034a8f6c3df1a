//! One session with its host and its output. Turns are played in it, each to an end that is
//! recorded and told, whatever ends it: the model, a budget, a signal, a reader who left.

use super::opening::{Audit, Opening, header};
use super::signals::Signals;
use crate::agent::event::{Event, Interrupted, Reason, Sink, TurnEnd};
use crate::agent::message::Message;
use crate::agent::redact::{Redacted, Redactor};
use crate::agent::session::Session;
use crate::agent::turn::{Conversation, End, State, Turn, TurnError};
use crate::audit::chain::Keyed;
use crate::audit::{self, AuditError};
use crate::context::{self, Instruction};
use crate::exit::{Failure, Kind};
use crate::host::client::ToolHost;
use crate::image;
use crate::output::{Outlet, Output, SessionFacts};
use crate::provider::{Provider, ProviderError};
use crate::session::log::LogError;
use crate::session::select::{self, SelectError, Which};
use crate::tools::catalog::{self, Tool};
use crate::trust::Trust;
use crate::usage::{Counted, Ledger};
use ferrum_proto::reply::Survey;
use ferrum_proto::seal::Ready;
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that a session needs besides the host and the output.
pub struct Plan {
    pub provider: Provider,
    /// What stands before the conversation: system prompt, context files, skills.
    pub preface: Vec<Message>,
    /// Files of the checkout that the preface was made from.
    pub instructions: Vec<Instruction>,
    /// `--untrusted`, for the session's header.
    pub untrusted: bool,
    /// Whether pictures of the session are sent to the model.
    pub takes_images: bool,
    pub which: Which,
    /// `--title`.
    pub title: Option<String>,
    /// The data directory; sessions lie in `sessions` below it.
    pub data: PathBuf,
    /// Values that must not appear in tool output.
    pub secrets: Vec<SecretString>,
    /// What the audit log is chained with.
    pub audit: Keyed,
    pub budget: Budget,
}

/// What bounds each turn, and what counts as failure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    /// `--max-rounds`; 0 means as policy says.
    pub rounds_max: u32,
    /// `--timeout`.
    pub time: Option<Duration>,
    /// `--fail-on-denial`.
    pub fail_on_denial: bool,
}

/// A session that turns are played in.
pub struct Dialogue<'a, H> {
    host: &'a H,
    provider: Provider,
    conversation: Conversation,
    opening: Opening,
    session: Option<Session>,
    tools: Vec<&'static Tool>,
    redactor: Redactor,
    budget: Budget,
    outlet: Outlet,
    output: &'a mut Output,
    instructions: Vec<Instruction>,
    data: PathBuf,
    ledger: Ledger,
}

/// What ended a turn.
enum Ended {
    Turn(Result<End, TurnError>),
    Cut(Reason),
}

impl<'a, H: ToolHost> Dialogue<'a, H> {
    /// Finds the session and reads what it holds; writes nothing.
    ///
    /// # Errors
    /// [`Failure`] for a session that does not exist or cannot be read.
    pub fn new(host: &'a H, plan: Plan, outlet: Outlet, output: &'a mut Output) -> Result<Self, Failure> {
        let granted = host.granted();
        let directory = select::directory(&plan.data);
        let chosen = select::choose(&directory, &plan.which, granted.cwd.as_path())?;
        if !chosen.notice.is_empty() {
            output.record(Event::Notice(&chosen.notice));
        }
        let mut fields = header(&plan.provider, granted, plan.title);
        if plan.untrusted {
            fields.insert("untrusted".into(), true.into());
        }
        let audit = Audit {
            directory: audit::place::directory(&plan.data),
            keyed: plan.audit,
        };
        let (opening, taken) = Opening::new(chosen.path, fields, audit)?;
        for told in &taken.diagnostics {
            output.record(Event::Notice(told));
        }
        output.begin(SessionFacts {
            id: select::id(&opening.path),
            path: opening.path.display().to_string(),
            resumed: opening.is_resumed(),
            provider: plan.provider.name.clone(),
            model: plan.provider.model.clone(),
        });
        let mut conversation = Conversation::default();
        conversation.messages.extend(plan.preface);
        let mut messages = taken.messages;
        if !plan.takes_images {
            image::leave_out(&mut messages);
        }
        conversation.messages.extend(messages);
        let ledger = Ledger::new(&plan.data, &plan.provider.name, &plan.provider.model);
        Ok(Self {
            host,
            provider: plan.provider,
            conversation,
            opening,
            session: None,
            tools: catalog::exposed(&granted.tools),
            redactor: Redactor::new(plan.secrets),
            budget: plan.budget,
            outlet,
            output,
            instructions: plan.instructions,
            data: plan.data,
            ledger,
        })
    }

    /// Opens the session without a turn: its event comes now.
    ///
    /// # Errors
    /// [`Failure`] when the walls or the file cannot be had.
    pub async fn open(&mut self) -> Result<(), Failure> {
        let ready = self.host.ready().await?;
        let granted = self.host.granted();
        let session = self
            .session
            .insert(self.opening.open(granted, ready).map_err(failed)?);
        session.durable().await.map_err(failed)?;
        session.tell(granted, self.output);
        Ok(())
    }

    /// Says that nothing comes of something, and hands it back.
    pub fn told(&mut self, failure: Failure) -> Failure {
        self.output.record(Event::Error(&failure));
        failure
    }

    /// Waits until nobody reads stdout any more.
    pub async fn reader_gone(&self) {
        self.outlet.broken().await;
    }

    /// Plays one turn to its end and tells the end.
    ///
    /// # Errors
    /// [`Failure`] for every end but an answer; it has been told as an event, and the session is
    /// whole.
    pub async fn turn(&mut self, message: Message, signals: &mut Signals) -> Result<(), Failure> {
        if let Err(error) = image::fits(&self.conversation.messages, &message) {
            return Err(self.told(Failure::new(Kind::Usage, error.to_string())));
        }
        let granted = self.host.granted();
        let mut shown = Redacted::new(&mut *self.output, &self.redactor);
        let mut sink = Counted {
            inner: &mut shown,
            ledger: &self.ledger,
        };
        let open = |ready: Ready| self.opening.open(granted, ready);
        let mut turn = Turn {
            host: self.host,
            provider: &mut self.provider,
            conversation: &mut self.conversation,
            session: &mut self.session,
            open: &open,
            tools: &self.tools,
            redactor: &self.redactor,
            sink: &mut sink,
            rounds_max: lower(granted.max_tool_rounds, self.budget.rounds_max),
            state: State::default(),
        };
        let ended = play(&mut turn, message, self.budget.time, &self.outlet, signals).await;
        let remembered = match turn.survey().await {
            Ok(None) => Ok(()),
            Ok(Some(survey)) => distrust(turn.sink, &survey, &self.instructions, &self.data),
            Err(error) => Err(failed(error)),
        };
        if let Err(failure) = remembered {
            // What was reached stays usable, whatever broke; the first error is the one to tell.
            let _ = turn.interrupted(Reason::Error).await;
            turn.sink.record(Event::Error(&failure));
            return Err(failure);
        }
        match ended {
            Ended::Turn(Ok(end)) => match turn.close(end.word()).await {
                Ok(()) => ended_by_itself(&mut turn, &end, self.budget.fail_on_denial),
                Err(error) => Err(self.told(failed(error))),
            },
            Ended::Turn(Err(error)) => {
                let _ = turn.interrupted(Reason::Error).await;
                Err(self.told(failed(error)))
            }
            Ended::Cut(reason) => {
                let failure = why_cut(reason, &self.outlet);
                cut(&mut turn, reason, failure).await
            }
        }
    }
}

/// Instructions that the turn changed are not believed again before the operator accepts them.
fn distrust(
    sink: &mut impl Sink,
    survey: &Survey,
    instructions: &[Instruction],
    data: &Path,
) -> Result<(), Failure> {
    let told = survey.files.iter().map(|file| file.path.as_path());
    let told = told.filter(|path| context::is_instruction(path));
    // A name that leads elsewhere is in no table, and of a host that died nothing is told.
    let seen = instructions.iter().filter(|file| file.is_changed());
    let paths: BTreeSet<&Path> = told
        .chain(seen.flat_map(|file| [file.path.as_path(), &file.real]))
        .collect();
    if paths.is_empty() {
        return Ok(());
    }
    Trust::update(data, |trust| trust.distrust(paths.iter().copied()))?;
    for path in paths {
        let text = format!(
            "{}: from the next start on this is information for the model, not instructions, until `ferrum trust` accepts it",
            path.display()
        );
        sink.record(Event::Notice(&text));
    }
    Ok(())
}

/// Runs the turn; what cuts it drops it, which cancels whatever it waits for.
async fn play<H: ToolHost, S: Sink>(
    turn: &mut Turn<'_, H, S>,
    message: Message,
    time: Option<Duration>,
    outlet: &Outlet,
    signals: &mut Signals,
) -> Ended {
    let out_of_time = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = turn.run(message) => Ended::Turn(ended),
        kind = signals.next() => Ended::Cut(match kind {
            Kind::Cancelled => Reason::Cancelled,
            _ => Reason::Terminated,
        }),
        () = out_of_time => Ended::Cut(Reason::Timeout),
        () = outlet.broken() => Ended::Cut(Reason::OutputClosed),
    }
}

fn ended_by_itself<H: ToolHost, S: Sink>(
    turn: &mut Turn<'_, H, S>,
    end: &End,
    fail_on_denial: bool,
) -> Result<(), Failure> {
    let refused = turn.state.totals.refused;
    let result = match end {
        End::Answered if fail_on_denial && refused > 0 => Err(Failure::new(
            Kind::Denied,
            match refused {
                1 => "a tool call was refused".to_owned(),
                _ => format!("{refused} tool calls were refused"),
            },
        )),
        End::Answered => Ok(()),
        End::Stopped(why) => Err(Failure::new(Kind::Budget, why)),
    };
    turn.sink.record(Event::TurnEnd(TurnEnd {
        end,
        totals: &turn.state.totals,
        exit_code: result.as_ref().map_or_else(|failure| failure.kind.code(), |()| 0),
    }));
    result
}

fn why_cut(reason: Reason, outlet: &Outlet) -> Failure {
    match reason {
        Reason::Cancelled => Failure::new(Kind::Cancelled, "cancelled"),
        Reason::Terminated => Failure::new(Kind::Terminated, "terminated"),
        Reason::Timeout => Failure::new(Kind::Budget, "the time of --timeout is used up"),
        Reason::OutputClosed => outlet
            .failure()
            .unwrap_or_else(|| Failure::new(Kind::OutputClosed, "nobody reads stdout any more")),
        Reason::Error => Failure::new(Kind::Error, "the turn failed"),
    }
}

async fn cut<H: ToolHost, S: Sink>(
    turn: &mut Turn<'_, H, S>,
    reason: Reason,
    failure: Failure,
) -> Result<(), Failure> {
    match turn.interrupted(reason).await {
        Ok(at) => turn.sink.record(Event::Interrupted(Interrupted {
            reason,
            phase: at.phase,
            partial: &at.partial,
            totals: &turn.state.totals,
            exit_code: failure.kind.code(),
        })),
        Err(error) => {
            let failure = failed(error);
            turn.sink.record(Event::Error(&failure));
            return Err(failure);
        }
    }
    Err(failure)
}

/// Of two bounds of which 0 is none, the one that counts.
fn lower(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, one) | (one, 0) => one,
        (a, b) => a.min(b),
    }
}

fn failed(error: TurnError) -> Failure {
    match error {
        TurnError::Host(fault) => fault.into(),
        TurnError::Provider(error) => error.into(),
        TurnError::Log(error) => error.into(),
        TurnError::Audit(error) => error.into(),
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        let kind = match error {
            ProviderError::Config(_) => Kind::Usage,
            ProviderError::Overflow(_) => Kind::Budget,
            _ => Kind::Error,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::new(Kind::Error, error.to_string())
    }
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        Self::new(Kind::Error, error.to_string()).with_hint("nothing is run that cannot be logged")
    }
}

impl From<SelectError> for Failure {
    fn from(error: SelectError) -> Self {
        let kind = match error {
            SelectError::Log(_) => Kind::Error,
            SelectError::Name(_) | SelectError::None(_) | SelectError::Ambiguous { .. } => Kind::Usage,
        };
        let hint = match error {
            SelectError::None(_) | SelectError::Ambiguous { .. } => "ferrum sessions list names them",
            SelectError::Log(_) | SelectError::Name(_) => "",
        };
        Self::new(kind, error.to_string()).with_hint(hint)
    }
}

#[cfg(test)]
#[path = "dialogue_tests.rs"]
mod tests;
