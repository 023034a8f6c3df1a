//! One turn: from the user's message to the last answer. This is the loop of the whole program.
//!
//! It holds no authority of its own: requests go to the provider, tool calls to the host, records
//! to the session. Each await is a point where the turn may be dropped (the operator interrupts);
//! what was recorded by then, completed by [`Turn::interrupted`], is a valid conversation.

use super::call::{CallOutcome, CallResult, Planned, cut, execute};
use super::event::{Event, Reason, Sink, Totals};
use super::guard::{Advice, Guard};
use super::message::{Message, Role, ToolUse, open_calls};
use super::redact::Redactor;
use super::session::{self, Open, Session};
use super::words::Words;
use crate::audit::{self, AuditError};
use crate::host::client::{Fault, ToolHost};
use crate::provider::{self, Completion, Finish, Provider, ProviderError, Request};
use crate::session::log::LogError;
use crate::session::record;
use crate::tools::catalog::Tool;
use ferrum_proto::reply::Survey;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

/// Read-only calls that run at once.
const PARALLEL_MAX: usize = 8;

/// How long a turn's end waits for the host to look round, in milliseconds.
const SURVEY_MS_MAX: u64 = 5_000;

const LAST_REQUEST: &str = "The tool budget of this turn is used up. Do not call tools. Give your findings so far, what is \
     unfinished, and the next steps.";
const CUT_RESULT: &str = "not run: the message was cut by the provider's output limit, so its calls are not whole. Use smaller steps.";
const NOT_RUN_RESULT: &str = "not run: the turn was interrupted before it";
const INTERRUPTED_RESULT: &str = "no result: interrupted; whether the call had an effect is unknown";

/// The conversation as it is sent.
#[derive(Debug, Default)]
pub struct Conversation {
    pub messages: Vec<Message>,
    /// Grows whenever earlier messages change.
    pub epoch: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Answered,
    /// By a budget, with what there was until then.
    Stopped(String),
}

impl End {
    /// The word of event stream and audit log.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Stopped(_) => "stopped",
        }
    }
}

/// What a turn cannot go on from.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Log(#[from] LogError),
    /// What is to be done cannot be logged, so it is not done.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The walls are not to be had.
    #[error(transparent)]
    Host(#[from] Fault),
}

/// One turn and everything it needs.
pub struct Turn<'a, H, S> {
    pub host: &'a H,
    pub provider: &'a mut Provider,
    pub conversation: &'a mut Conversation,
    /// Opened beside the first request.
    pub session: &'a mut Option<Session>,
    pub open: Open<'a>,
    pub tools: &'a [&'static Tool],
    pub redactor: &'a Redactor,
    pub sink: &'a mut S,
    /// 0 means adaptive.
    pub rounds_max: u32,
    pub state: State,
}

/// What a turn has come to so far.
#[derive(Debug, Default)]
pub struct State {
    pub totals: Totals,
    /// The words of the answer that is coming.
    partial: String,
    /// Id and name of the calls that were announced and have no result yet.
    running: Vec<(String, String)>,
    /// A call that can change something was sent.
    acted: bool,
}

/// Where a turn was when it was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutAt {
    /// `model` or `tool`.
    pub phase: &'static str,
    /// The words of the answer that was coming.
    pub partial: String,
}

impl<H: ToolHost, S: Sink> Turn<'_, H, S> {
    /// Runs the turn for the user's message.
    ///
    /// # Errors
    /// [`TurnError`]; the session then holds everything up to it.
    pub async fn run(&mut self, user: Message) -> Result<End, TurnError> {
        self.push(user)?;
        if let Some(session) = &mut self.session {
            session.turns += 1;
        }
        let mut guard = Guard::new(self.rounds_max);
        let mut advice = Advice::Go;
        loop {
            let answer = self.ask(advice).await?;
            let finish = answer.finish;
            let calls = self.record_answer(answer.message).await?;
            if let Some(end) = self.ends(finish, advice, calls).await? {
                return Ok(end);
            }
            self.run_calls(&mut guard).await?;
            advice = guard.round();
            self.state.totals.rounds = guard.rounds();
        }
    }

    /// At a turn's end, however it came: what it left that programs or agents obey unasked, as an
    /// event and in the session. `None` where nothing was done; empty where nothing can be known.
    ///
    /// # Errors
    /// [`TurnError`] when it cannot be stored.
    pub async fn survey(&mut self) -> Result<Option<Survey>, TurnError> {
        if !std::mem::take(&mut self.state.acted) {
            return Ok(None);
        }
        // A cancelled command is ended first, which takes some tens of milliseconds.
        let asked = tokio::time::timeout(Duration::from_millis(SURVEY_MS_MAX), self.host.survey()).await;
        let survey = match asked {
            Ok(Ok(survey)) => survey,
            Ok(Err(fault)) => return self.unknown(&fault.cause().to_string()),
            Err(_) => return self.unknown("the tool host is still busy"),
        };
        if survey == Survey::default() {
            return Ok(Some(survey));
        }
        let granted = self.host.granted();
        self.sink.record(Event::Steering {
            granted,
            survey: &survey,
        });
        if let Some(session) = &mut self.session {
            let fields = Map::from_iter([("steering".to_owned(), record::steering(&survey))]);
            session.log.append(record::metadata(&fields))?;
            session.audit.append(&audit::record::steering(&survey))?;
            session.durable().await?;
        }
        Ok(Some(survey))
    }

    fn unknown(&mut self, why: &str) -> Result<Option<Survey>, TurnError> {
        let text = format!("which files that programs or agents obey this turn touched is not known: {why}");
        self.sink.record(Event::Notice(&text));
        Ok(Some(Survey::default()))
    }

    /// Completes the record of a turn that was dropped: calls without a result get one.
    ///
    /// # Errors
    /// [`TurnError`] when that cannot be stored.
    pub async fn interrupted(&mut self, reason: Reason) -> Result<CutAt, TurnError> {
        let open = self.open_calls();
        let at = CutAt {
            phase: if open.is_empty() { "model" } else { "tool" },
            partial: self.redactor.cut_text(&std::mem::take(&mut self.state.partial)),
        };
        let running = std::mem::take(&mut self.state.running);
        let mut logged = Ok(());
        for (id, name) in open {
            let began = running.iter().any(|(running, _)| *running == id);
            let result = if began {
                CallResult::error(CallOutcome::Interrupted, INTERRUPTED_RESULT.to_owned())
            } else {
                CallResult::error(CallOutcome::NotRun, NOT_RUN_RESULT.to_owned())
            };
            if began {
                let (id, name, result) = (&id, &name, &result);
                self.sink.record(Event::ToolResult { id, name, result });
            }
            logged = logged.and(self.log_result(&id, &name, &result));
            self.record_result(&id, result.text, true)?;
        }
        // The session is completed first, even where nothing more can be logged.
        let anchor = self.anchor(reason.word()).await;
        let Some(session) = &self.session else {
            return Ok(at);
        };
        let mut cut = json!({"reason": reason.word(), "phase": at.phase});
        if !at.partial.is_empty() {
            cut["partial"] = json!(at.partial);
        }
        let mut fields = Map::from_iter([("interrupted".to_owned(), cut)]);
        if let Ok(Some(anchor)) = &anchor {
            fields.insert("audit".to_owned(), anchor.clone());
        }
        session.log.append(record::metadata(&fields))?;
        session.log.durable().await?;
        logged.and(anchor.map(|_| at))
    }

    /// At the end of a turn that ended by itself: the session repeats where the audit log stands.
    ///
    /// # Errors
    /// [`TurnError`] when that cannot be stored.
    pub async fn close(&mut self, outcome: &str) -> Result<(), TurnError> {
        let anchor = self.anchor(outcome).await?;
        let (Some(session), Some(anchor)) = (&self.session, anchor) else {
            return Ok(());
        };
        let fields = Map::from_iter([("audit".to_owned(), anchor)]);
        // Without it the log's end is found by the anchors before: nothing has to wait for it.
        Ok(session.log.note(record::metadata(&fields)).await?)
    }

    /// Logs the turn's end. What the session repeats must be on disk before the session is: a
    /// crash in between would look as if the log's end had been cut off.
    async fn anchor(&mut self, outcome: &str) -> Result<Option<Value>, TurnError> {
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        let refused = self.state.totals.refused;
        session
            .audit
            .append(&audit::record::turn(session.turns, outcome, refused))?;
        session.audit.durable().await?;
        Ok(Some(session.audit.anchor().to_json()))
    }

    /// Id and name of the calls of the last message that have no result.
    fn open_calls(&self) -> Vec<(String, String)> {
        let messages = &self.conversation.messages;
        let open = open_calls(messages);
        let calls = messages
            .iter()
            .rev()
            .find(|message| message.role == Role::Assistant);
        let names = calls.into_iter().flat_map(Message::tool_uses);
        let named = names.filter(|call| open.iter().any(|id| id == call.id));
        named
            .map(|call| (call.id.to_owned(), call.name.to_owned()))
            .collect()
    }

    /// Logs every call of the last message before anything is done for one of them.
    fn log_calls(&mut self) -> Result<(), TurnError> {
        let (Some(session), Some(message)) = (&mut self.session, self.conversation.messages.last()) else {
            return Ok(());
        };
        for call in message.tool_uses() {
            let arguments = self.redactor.value(call.input);
            let fields = audit::record::call(session.turns, call.id, call.name, &arguments);
            session.audit.append(&fields)?;
        }
        Ok(())
    }

    fn log_result(&mut self, id: &str, name: &str, result: &CallResult) -> Result<(), TurnError> {
        match &mut self.session {
            Some(session) => Ok(session.log_result(id, name, result)?),
            None => Ok(()),
        }
    }

    /// Sends one request. Beside the first one, the walls come up and the session is opened.
    async fn ask(&mut self, advice: Advice) -> Result<Completion, TurnError> {
        self.sink.room().await;
        let request = Request {
            epoch: self.conversation.epoch,
            messages: &self.conversation.messages,
            tools: self.tools,
            may_call: !matches!(advice, Advice::Stop(_)),
            nudge: match advice {
                Advice::Go => None,
                Advice::Nudge(text) => Some(text),
                Advice::Stop(_) => Some(LAST_REQUEST),
            },
            buffered: !self.sink.streams(),
        };
        let sink = RefCell::new(&mut *self.sink);
        let mut words = Words::new(&sink, &mut self.state.partial);
        let mut on_event = |event: provider::Event<'_>| words.hear(event);
        let asking = self.provider.complete(request, &mut on_event);
        let answer = if self.session.is_some() {
            asking.await?
        } else {
            let user = self.conversation.messages.last();
            let opening = async {
                // Kept at once: the turn may be dropped while the answer is still coming.
                let session = self
                    .session
                    .insert(session::open(self.host, self.open, user).await?);
                session.tell(self.host.granted(), &mut **sink.borrow_mut());
                Ok(())
            };
            beside(asking, opening).await?.0?
        };
        words.complete(&answer.message);
        self.state.partial.clear();
        Ok(answer)
    }

    /// Stores and shows the answer; returns whether it holds tool calls.
    async fn record_answer(&mut self, mut message: Message) -> Result<bool, TurnError> {
        if self.redactor.message(&mut message) {
            self.sink.record(Event::Notice(
                "the answer held the value of a key; it is redacted where it is shown and stored",
            ));
        }
        if let Some(usage) = &message.usage {
            self.state.totals.usage.add(usage);
            self.sink.record(Event::Usage(usage));
        }
        let has_calls = message.tool_uses().next().is_some();
        let has_text = !message.visible_text().trim().is_empty();
        if !has_text && !has_calls {
            self.sink
                .record(Event::Notice("the model gave an answer without text"));
        }
        if message.content.is_empty() {
            return Ok(false);
        }
        self.push(message)?;
        self.log_calls()?;
        // Nothing is shown, and nothing is changed, before the words behind it are durable. Where
        // an answer only looks at things, writing and looking overlap.
        if has_text || !has_calls || self.has_mutating_call() {
            self.durable().await?;
        }
        if has_text && let Some(message) = self.conversation.messages.last() {
            self.sink.record(Event::Assistant(message));
        }
        Ok(has_calls)
    }

    /// Whether the turn ends with this answer. Calls that are not run get results all the same.
    async fn ends(&mut self, finish: Finish, advice: Advice, calls: bool) -> Result<Option<End>, TurnError> {
        let end = match (finish, advice) {
            (Finish::Length, _) => End::Stopped(
                "the answer was cut by the provider's output limit (finish reason length)".to_owned(),
            ),
            (Finish::Filtered, _) => {
                End::Stopped("the answer was cut by the provider's content filter".to_owned())
            }
            (Finish::Done, Advice::Stop(why)) => End::Stopped(why.to_owned()),
            (Finish::Done, _) if calls => return Ok(None),
            (Finish::Done, _) => End::Answered,
        };
        let why = if finish == Finish::Done {
            "not run: the tool budget of this turn is used up"
        } else {
            CUT_RESULT
        };
        for (id, name) in self.open_calls() {
            let result = CallResult::error(CallOutcome::NotRun, why.to_owned());
            self.record_result(&id, result.text.clone(), true)?;
            self.log_result(&id, &name, &result)?;
        }
        self.durable().await?;
        Ok(Some(end))
    }

    /// Runs the calls of the last message: neighbouring read-only ones at once, the others one by
    /// one, results always in the model's order.
    async fn run_calls(&mut self, guard: &mut Guard) -> Result<(), TurnError> {
        let Some(message) = self.conversation.messages.last() else {
            return Ok(());
        };
        let calls: Vec<Planned> = message
            .tool_uses()
            .map(|call| Planned::new(call, self.tools))
            .collect();
        let mut rest = calls.as_slice();
        while let Some(first) = rest.first() {
            let run = rest
                .iter()
                .take(PARALLEL_MAX)
                .take_while(|call| call.is_read_only())
                .count();
            let (batch, after) = rest.split_at(run.max(1));
            rest = after;
            for call in batch {
                self.announce(call);
            }
            let results = if run > 1 {
                join_all(batch.iter().map(|call| self.look(call))).await
            } else {
                vec![self.act(first).await]
            };
            for (call, result) in batch.iter().zip(results) {
                self.finish_call(call, result, guard)?;
            }
        }
        Ok(())
    }

    fn announce(&mut self, call: &Planned) {
        self.state.running.push((call.id.clone(), call.name.clone()));
        self.sink.record(Event::ToolCall(ToolUse {
            id: &call.id,
            name: &call.name,
            input: &self.redactor.value(&call.input),
            invalid: None,
        }));
    }

    /// One call that may run beside others, without progress.
    async fn look(&self, call: &Planned) -> CallResult {
        execute(self.host, self.session.as_ref(), call, &mut |_| {}).await
    }

    /// One call that runs alone, with progress.
    async fn act(&mut self, call: &Planned) -> CallResult {
        self.state.acted |= !call.is_read_only();
        let sink = &mut *self.sink;
        execute(self.host, self.session.as_ref(), call, &mut |text| {
            sink.record(Event::Progress(text))
        })
        .await
    }

    fn finish_call(
        &mut self,
        call: &Planned,
        mut result: CallResult,
        guard: &mut Guard,
    ) -> Result<(), TurnError> {
        result.text = cut(self.redactor.apply(result.text));
        self.state.totals.refused += u32::from(result.outcome.refusal().is_some());
        guard.call(format!("{} {}", call.name, call.input), result.is_error);
        self.state.running.retain(|(id, _)| *id != call.id);
        self.sink.record(Event::ToolResult {
            id: &call.id,
            name: &call.name,
            result: &result,
        });
        self.record_result(&call.id, result.text.clone(), result.is_error)?;
        self.log_result(&call.id, &call.name, &result)
    }

    fn record_result(&mut self, id: &str, text: String, is_error: bool) -> Result<(), LogError> {
        self.push(Message::tool_result(id, text, is_error))
    }

    /// Adds to the conversation and hands the record to the session's writer.
    fn push(&mut self, message: Message) -> Result<(), LogError> {
        if let Some(session) = &self.session {
            for line in record::messages(&message) {
                session.log.append(line)?;
            }
        }
        self.conversation.messages.push(message);
        Ok(())
    }

    async fn durable(&self) -> Result<(), TurnError> {
        match &self.session {
            Some(session) => session.durable().await,
            None => Ok(()),
        }
    }

    fn has_mutating_call(&self) -> bool {
        let Some(message) = self.conversation.messages.last() else {
            return false;
        };
        message.tool_uses().any(|call| {
            !matches!(
                call.name,
                "read" | "ls" | "find" | "grep" | "history_search" | "history_read"
            )
        })
    }
}

/// Waits for the answer and for the session. The request is on its way first; a session that
/// cannot be had ends the wait at once, an answer that failed does not: the session keeps the
/// prompt.
async fn beside<A, B>(
    asking: impl Future<Output = A>,
    opening: impl Future<Output = Result<B, TurnError>>,
) -> Result<(A, B), TurnError> {
    let (mut asking, mut opening) = (pin!(asking), pin!(opening));
    let mut early = None;
    let opened = loop {
        tokio::select! {
            biased;
            answer = &mut asking, if early.is_none() => early = Some(answer),
            opened = &mut opening => break opened?,
        }
    };
    match early {
        Some(answer) => Ok((answer, opened)),
        None => Ok((asking.await, opened)),
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
pub(crate) mod tests;
