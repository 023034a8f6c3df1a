//! Print mode: one prompt, one turn. Each complete assistant message goes to stdout, everything
//! else to stderr.

use crate::agent::call::CallResult;
use crate::agent::message::{Message, Role, Usage, close_pairs};
use crate::agent::redact::Redactor;
use crate::agent::turn::{Conversation, End, Turn, TurnError};
use crate::host::client::ToolHost;
use crate::provider::{Event, Provider, ProviderError};
use crate::session::log::{self, Log, LogError};
use crate::session::{record, select};
use crate::tools::catalog;
use crate::ui::terminal_text::{sanitise, without_thinking};
use crate::ui::{View, render};
use ferrum_proto::seal::{Granted, Ready};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// What a session that broke off left open when it is taken up again.
const LOST_RESULT: &str = "no result: the session was interrupted; whether the call had an effect is unknown";

/// Least time between two progress lines: stderr may be a log file.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Everything that one run needs besides the host.
pub struct Plan {
    pub provider: Provider,
    /// What stands before the conversation: system prompt, context files, skills.
    pub preface: Vec<Message>,
    pub prompt: String,
    /// `--session NAME`: taken up again, or made.
    pub session: Option<String>,
    /// `--title`.
    pub title: Option<String>,
    /// The data directory; sessions lie in `sessions` below it.
    pub data: PathBuf,
    /// Values that must not appear in tool output.
    pub secrets: Vec<SecretString>,
}

/// Where the output goes.
pub struct Output<'a> {
    pub answers: &'a mut dyn Write,
    /// Answers go to a terminal, so they are cleaned.
    pub answers_terminal: bool,
    pub rest: &'a mut dyn Write,
}

/// How the run ended.
#[derive(Debug)]
pub enum Exit {
    Answered,
    /// By a budget, with a partial answer; the text says which.
    Stopped(String),
    Failed(PrintError),
    /// SIGINT.
    Cancelled,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// The program's exit code. A host that could not be had is for the caller to tell apart.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Answered => 0,
            Self::Stopped(_)
            | Self::Failed(PrintError::Turn(TurnError::Provider(ProviderError::Overflow(_)))) => 3,
            Self::Failed(PrintError::Name(_)) => 2,
            Self::Failed(_) => 1,
            Self::Cancelled => 130,
            Self::Terminated => 143,
        }
    }
}

/// What a run cannot go on from.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    #[error(transparent)]
    Name(select::NameError),
    #[error(transparent)]
    Session(LogError),
    #[error(transparent)]
    Turn(TurnError),
    #[error("cannot write the answer: {0}")]
    Output(String),
    #[error("cannot listen for signals: {0}")]
    Signals(String),
}

/// What is known when the run is over.
#[derive(Debug)]
pub struct Report {
    pub exit: Exit,
    /// Calls that policy refused, for `--fail-on-denial`.
    pub refused: u32,
    pub usage: Usage,
    pub session: Option<PathBuf>,
}

/// Runs one turn in print mode. Errors are in the report; printing them is the caller's.
pub async fn run<H: ToolHost>(host: &H, plan: Plan, output: Output<'_>) -> Report {
    let mut report = Report {
        exit: Exit::Answered,
        refused: 0,
        usage: Usage::default(),
        session: None,
    };
    report.exit = turn(host, plan, output, &mut report)
        .await
        .unwrap_or_else(Exit::Failed);
    report
}

async fn turn<H: ToolHost>(
    host: &H,
    plan: Plan,
    output: Output<'_>,
    report: &mut Report,
) -> Result<Exit, PrintError> {
    let granted = host.granted();
    let tools = catalog::exposed(&granted.tools);
    let redactor = Redactor::new(plan.secrets);
    let mut view = Printer {
        output,
        failed: None,
        last_progress: None,
    };
    let directory = select::directory(&plan.data);
    let path = match &plan.session {
        Some(name) => select::named(&directory, name).map_err(PrintError::Name)?,
        None => select::fresh(&directory),
    };
    let mut conversation = Conversation::default();
    conversation.messages.extend(plan.preface);
    let has_header = take_up(&path, &mut conversation, &mut view).map_err(PrintError::Session)?;
    conversation.messages.push(Message::text(Role::User, plan.prompt));
    let header = header(&plan.provider, granted, plan.title);
    let mut provider = plan.provider;
    let open_log = |ready: &Ready| open(&path, has_header, &header, granted, ready);
    let mut log = None;
    let mut turn = Turn {
        host,
        provider: &mut provider,
        conversation: &mut conversation,
        log: &mut log,
        open_log: &open_log,
        tools: &tools,
        redactor: &redactor,
        view: &mut view,
        rounds_max: granted.max_tool_rounds,
        refused: 0,
        usage: Usage::default(),
    };
    let ended = until_signal(&mut turn).await?;
    report.refused = turn.refused;
    report.usage = std::mem::take(&mut turn.usage);
    let exit = match ended {
        Ended::Turn(Ok(End::Answered)) => Exit::Answered,
        Ended::Turn(Ok(End::Stopped(why))) => Exit::Stopped(why),
        Ended::Turn(Err(error)) => {
            // What was reached stays usable, whatever broke; the first error is the one to tell.
            let _ = turn.interrupted("error").await;
            Exit::Failed(PrintError::Turn(error))
        }
        Ended::Signal(exit, reason) => {
            turn.interrupted(reason).await.map_err(PrintError::Session)?;
            exit
        }
    };
    report.session = log.map(|log| log.path().to_owned());
    match view.failed {
        Some(error) => Err(PrintError::Output(error.to_string())),
        None => Ok(exit),
    }
}

enum Ended {
    Turn(Result<End, TurnError>),
    Signal(Exit, &'static str),
}

/// Runs the turn; a signal drops it, which cancels whatever it waits for.
async fn until_signal<H: ToolHost, V: View>(turn: &mut Turn<'_, H, V>) -> Result<Ended, PrintError> {
    let listen = |kind| signal(kind).map_err(|e| PrintError::Signals(e.to_string()));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(tokio::select! {
        ended = turn.run() => Ended::Turn(ended),
        _ = interrupt.recv() => Ended::Signal(Exit::Cancelled, "cancelled"),
        _ = terminate.recv() => Ended::Signal(Exit::Terminated, "terminated"),
    })
}

/// Takes up what the session holds already; returns whether it has its header.
fn take_up(path: &Path, conversation: &mut Conversation, view: &mut Printer<'_>) -> Result<bool, LogError> {
    if path.symlink_metadata().is_err() {
        return Ok(false);
    }
    let loaded = log::load(path)?;
    for told in &loaded.diagnostics {
        view.notice(told);
    }
    let has_header = loaded
        .records
        .iter()
        .any(|(_, r)| matches!(r.body, record::Body::Header(_)));
    let messages = record::conversation(loaded.records.into_iter().map(|(_, r)| r));
    conversation.messages.extend(close_pairs(messages, LOST_RESULT));
    Ok(has_header)
}

fn header(provider: &Provider, granted: &Granted, title: Option<String>) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    set("mode", json!("print"));
    set("provider", json!(provider.name));
    set("model", json!(provider.model));
    set("thinking", json!(provider.thinking.name()));
    set("color_mode", json!("auto"));
    set("diff_mode", json!("unified"));
    set("safety", json!(granted.tier.name()));
    set("tools", json!(granted.tools));
    set("cwd", json!(granted.cwd.as_path().to_string_lossy()));
    if let Some(title) = title {
        set("title", json!(title));
    }
    fields
}

/// Opens the session's file and states the policy and the walls in force in it: in the header of
/// a new one, in a metadata record of one that is taken up again.
fn open(
    path: &Path,
    has_header: bool,
    header: &Map<String, Value>,
    granted: &Granted,
    ready: &Ready,
) -> Result<Log, LogError> {
    let log = Log::open(path)?;
    let mut fields = header.clone();
    fields.insert("network".into(), json!(ready.network.name()));
    fields.insert("shell".into(), json!(ready.shell.name()));
    fields.insert(
        "isolation".into(),
        json!({
            "requested": granted.require.name(),
            "effective": ready.isolation.name(),
            "containment": ready.containment.name(),
        }),
    );
    if has_header {
        fields.remove("mode");
        fields.remove("cwd");
        log.append(record::metadata(&fields))?;
    } else {
        log.append(record::header(fields))?;
    }
    Ok(log)
}

/// Print mode's view. The first write that fails is kept; the turn goes on to a clean end.
struct Printer<'a> {
    output: Output<'a>,
    failed: Option<io::Error>,
    last_progress: Option<Instant>,
}

impl Printer<'_> {
    fn tell(&mut self, text: &str) {
        // Nobody reading stderr is no reason to stop.
        let _ = self.output.rest.write_all(text.as_bytes());
    }
}

impl View for Printer<'_> {
    fn streams(&self) -> bool {
        false
    }

    fn event(&mut self, event: Event<'_>) {
        if let Event::Retry { why, wait } = event {
            self.notice(&format!("{why}; trying again in {:.1} s", wait.as_secs_f64()));
        }
    }

    fn ready(&mut self, granted: &Granted, ready: &Ready) {
        self.tell(&render::ready(granted, ready));
        for notice in granted.notices.iter().chain(&ready.notices) {
            self.notice(notice);
        }
    }

    fn assistant(&mut self, message: &Message) {
        let mut text = without_thinking(&message.visible_text());
        if self.output.answers_terminal {
            text = sanitise(&text);
        }
        let text = text.trim_end();
        if text.trim().is_empty() || self.failed.is_some() {
            return;
        }
        let out = &mut self.output.answers;
        self.failed = writeln!(out, "{text}").and_then(|()| out.flush()).err();
    }

    fn tool_call(&mut self, name: &str, input: &Value) {
        self.last_progress = Some(Instant::now());
        self.tell(&render::tool_call(name, input));
    }

    fn tool_result(&mut self, name: &str, result: &CallResult) {
        self.tell(&render::tool_result(name, result));
    }

    fn progress(&mut self, text: &str) {
        if self
            .last_progress
            .is_some_and(|last| last.elapsed() < PROGRESS_EVERY)
        {
            return;
        }
        self.last_progress = Some(Instant::now());
        self.tell(&format!("  … {}\n", sanitise(text).trim()));
    }

    fn notice(&mut self, text: &str) {
        self.tell(&format!("ferrum: {}\n", sanitise(text)));
    }
}

#[cfg(test)]
#[path = "print_tests.rs"]
mod tests;
