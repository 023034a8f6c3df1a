//! One turn: from the user's message to the last answer. This is the loop of the whole program.
//!
//! It holds no authority of its own: requests go to the provider, tool calls to the host, records
//! to the session. Each await is a point where the turn may be dropped (the operator interrupts);
//! what was recorded by then, completed by [`Turn::interrupted`], is a valid conversation.

use super::call::{CallResult, Planned, cut, execute};
use super::guard::{Advice, Guard};
use super::message::{Message, Role, Usage, open_calls};
use super::redact::Redactor;
use crate::host::client::{Fault, ToolHost};
use crate::provider::{Completion, Event, Finish, Provider, ProviderError, Request};
use crate::session::log::{Log, LogError};
use crate::session::record;
use crate::tools::catalog::Tool;
use crate::ui::View;
use ferrum_proto::seal::Ready;
use futures_util::future::join_all;
use serde_json::{Map, json};
use std::pin::pin;

/// Read-only calls that run at once.
const PARALLEL_MAX: usize = 8;

const LAST_REQUEST: &str = "The tool budget of this turn is used up. Do not call tools. Give your findings so far, what is \
     unfinished, and the next steps.";
const CUT_RESULT: &str = "not run: the message was cut by the provider's output limit, so its calls are not whole. Use smaller steps.";
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

/// What a turn cannot go on from.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Log(#[from] LogError),
    /// The walls are not to be had.
    #[error(transparent)]
    Host(#[from] Fault),
}

/// Opens the session's file once the walls are known: its header names them.
pub type OpenLog<'a> = &'a dyn Fn(&Ready) -> Result<Log, LogError>;

/// One turn and everything it needs.
pub struct Turn<'a, H, V> {
    pub host: &'a H,
    pub provider: &'a mut Provider,
    pub conversation: &'a mut Conversation,
    /// Opened beside the first request.
    pub log: &'a mut Option<Log>,
    pub open_log: OpenLog<'a>,
    pub tools: &'a [&'static Tool],
    pub redactor: &'a Redactor,
    pub view: &'a mut V,
    /// 0 means adaptive.
    pub rounds_max: u32,
    /// Calls that policy refused.
    pub refused: u32,
    pub usage: Usage,
}

impl<H: ToolHost, V: View> Turn<'_, H, V> {
    /// Runs the turn for the user's message, which is the conversation's last.
    ///
    /// # Errors
    /// [`TurnError`]; the session then holds everything up to it.
    pub async fn run(&mut self) -> Result<End, TurnError> {
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
        }
    }

    /// Completes the record of a turn that was dropped: calls without a result get one.
    ///
    /// # Errors
    /// [`LogError`] when that cannot be stored.
    pub async fn interrupted(&mut self, reason: &str) -> Result<(), LogError> {
        let open = open_calls(&self.conversation.messages);
        let phase = if open.is_empty() { "model" } else { "tools" };
        for id in open {
            self.record_result(&id, INTERRUPTED_RESULT.to_owned(), true)?;
        }
        let Some(log) = &self.log else { return Ok(()) };
        let mut fields = Map::new();
        fields.insert("interrupted".into(), json!({"reason": reason, "phase": phase}));
        log.append(record::metadata(&fields))?;
        log.durable().await
    }

    /// Sends one request. Beside the first one, the walls come up and the session is opened.
    async fn ask(&mut self, advice: Advice) -> Result<Completion, TurnError> {
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
            buffered: !self.view.streams(),
        };
        let view = &mut *self.view;
        let mut on_event = |event: Event<'_>| view.event(event);
        let asking = self.provider.complete(request, &mut on_event);
        if self.log.is_some() {
            return Ok(asking.await?);
        }
        let opening = open(self.host, self.open_log, self.conversation.messages.last());
        let (answer, (log, ready)) = beside(asking, opening).await?;
        *self.log = Some(log);
        self.view.ready(self.host.granted(), &ready);
        Ok(answer?)
    }

    /// Stores and shows the answer; returns whether it holds tool calls.
    async fn record_answer(&mut self, message: Message) -> Result<bool, TurnError> {
        if let Some(usage) = &message.usage {
            add(&mut self.usage, usage);
        }
        let has_calls = message.tool_uses().next().is_some();
        let has_text = !message.visible_text().trim().is_empty();
        if !has_text && !has_calls {
            self.view.notice("the model gave an answer without text");
        }
        if message.content.is_empty() {
            return Ok(false);
        }
        self.push(message)?;
        // Nothing is shown, and nothing is changed, before the words behind it are durable. Where
        // an answer only looks at things, writing and looking overlap.
        if has_text || !has_calls || self.has_mutating_call() {
            self.durable().await?;
        }
        if has_text && let Some(message) = self.conversation.messages.last() {
            self.view.assistant(message);
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
        for id in open_calls(&self.conversation.messages) {
            self.record_result(&id, why.to_owned(), true)?;
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
                self.view.tool_call(&call.name, &call.input);
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

    /// One call that may run beside others, without progress.
    async fn look(&self, call: &Planned) -> CallResult {
        execute(self.host, self.log.as_ref(), call, &mut |_| {}).await
    }

    /// One call that runs alone, with progress.
    async fn act(&mut self, call: &Planned) -> CallResult {
        let view = &mut *self.view;
        execute(self.host, self.log.as_ref(), call, &mut |text| {
            view.progress(text)
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
        self.refused += u32::from(result.refused);
        guard.call(format!("{} {}", call.name, call.input), result.is_error);
        self.view.tool_result(&call.name, &result);
        self.record_result(&call.id, result.text, result.is_error)?;
        Ok(())
    }

    fn record_result(&mut self, id: &str, text: String, is_error: bool) -> Result<(), LogError> {
        self.push(Message::tool_result(id, text, is_error))
    }

    /// Adds to the conversation and hands the record to the session's writer.
    fn push(&mut self, message: Message) -> Result<(), LogError> {
        if let Some(log) = &self.log {
            log.append(record::message(&message))?;
        }
        self.conversation.messages.push(message);
        Ok(())
    }

    async fn durable(&self) -> Result<(), LogError> {
        match &self.log {
            Some(log) => log.durable().await,
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

async fn open(
    host: &impl ToolHost,
    open_log: OpenLog<'_>,
    user: Option<&Message>,
) -> Result<(Log, Ready), TurnError> {
    let ready = host.ready().await?;
    let log = open_log(&ready)?;
    if let Some(user) = user.filter(|message| message.role == Role::User) {
        log.append(record::message(user))?;
    }
    Ok((log, ready))
}

fn add(total: &mut Usage, one: &Usage) {
    let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b)).or(a).or(b);
    total.input_tokens = sum(total.input_tokens, one.input_tokens);
    total.output_tokens = sum(total.output_tokens, one.output_tokens);
    total.total_tokens = sum(total.total_tokens, one.total_tokens);
    total.cache_read_tokens = total.cache_read_tokens.saturating_add(one.cache_read_tokens);
    total.cache_write_tokens = total.cache_write_tokens.saturating_add(one.cache_write_tokens);
    total.source = one.source;
}

#[cfg(test)]
#[path = "turn_tests.rs"]
pub(crate) mod tests;
