//! `ferrum -p` and `ferrum --jsonl`: command line and configuration → plan, result → exit code.
//! What is said and done in between is [`super::dialogue`]'s.

use super::dialogue::{Budget, Dialogue, Plan};
use super::preface::Preface;
use super::signals::Signals;
use super::{jsonl, prompt, runtime};
use crate::agent::event::{Event, Sink};
use crate::agent::message::{ContentBlock, Message, Role};
use crate::cli::{OutputForm, PrintArgs};
use crate::config::ProviderChoice;
use crate::exit::{Failure, Kind};
use crate::host::{Hosts, ToolHost};
use crate::image::{self, Picture};
use crate::output::{Json, Outlet, Output, StreamJson, Text};
use crate::start::Start;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a reader has beyond `--timeout`.
const GRACE: Duration = Duration::from_secs(5);

/// Takes the start as it went: where it failed, the form that was asked for says so too.
///
/// # Errors
/// Any [`Failure`]; what was reached is in the session.
pub fn run(start: Result<Start, Failure>, asked: &PrintArgs) -> Result<ExitCode, Failure> {
    let outlet = Outlet::standard()
        .map_err(|error| Failure::new(Kind::Error, format!("output cannot be started: {error}")))?;
    let mut output = form(asked, &outlet);
    let begun = Instant::now();
    runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let ended = match start {
            Ok(start) => answer(start, asked, &outlet, &mut output, &mut signals).await,
            Err(failure) => Err(told(failure, &mut output)),
        };
        let written = tokio::select! {
            biased;
            written = outlet.drained() => written,
            // A reader who never reads is not waited for by one who is told to go. What it has not
            // read is lost, which no exit code may hide.
            kind = signals.next() => Err(jsonl::stopped(kind)),
            // Nor by one whose time is up.
            () = patience(asked, begun) => {
                let what = "the time of --timeout is used up, and stdout is not read to its end";
                Err(Failure::new(Kind::Budget, what))
            }
        };
        ended.and(written).map(|()| ExitCode::SUCCESS)
    })
}

/// Waits for as long as a reader has once nothing more is said; without `--timeout` for ever.
async fn patience(asked: &PrintArgs, begun: Instant) {
    match asked.timeout {
        // Each message has its own time.
        Some(time) if asked.jsonl => tokio::time::sleep(time + GRACE).await,
        Some(time) => tokio::time::sleep(time.saturating_sub(begun.elapsed()) + GRACE).await,
        None => std::future::pending().await,
    }
}

fn form(asked: &PrintArgs, outlet: &Outlet) -> Output {
    let outlet = outlet.clone();
    match asked.output {
        _ if asked.jsonl => Output::Stream(StreamJson::new(outlet)),
        OutputForm::Text => Output::Text(Text::new(outlet, std::io::stdout().is_terminal())),
        OutputForm::Json => Output::Json(Json::new(outlet)),
        OutputForm::StreamJson => Output::Stream(StreamJson::new(outlet)),
    }
}

/// Says in the form that was asked for that nothing more comes.
fn told(failure: Failure, output: &mut Output) -> Failure {
    output.record(Event::Error(&failure));
    failure
}

async fn answer(
    start: Start,
    asked: &PrintArgs,
    outlet: &Outlet,
    output: &mut Output,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let begun = begin(start, asked, output, signals).await;
    let (hosts, plan, prompt) = begun.map_err(|failure| told(failure, output))?;
    let ended = match Dialogue::new(&hosts, plan, outlet.clone(), output) {
        Err(failure) => Err(failure),
        Ok(mut dialogue) => {
            let ended = match prompt {
                Some(prompt) => dialogue.turn(prompt, signals).await,
                None => jsonl::run(&mut dialogue, signals).await,
            };
            hosts.close().await;
            return ended;
        }
    };
    hosts.close().await;
    ended.map_err(|failure| told(failure, output))
}

/// Everything up to the policy in force, and the prompt where there is one for all.
async fn begin(
    start: Start,
    asked: &PrintArgs,
    output: &mut Output,
    signals: &mut Signals,
) -> Result<(Hosts, Plan, Option<Message>), Failure> {
    let choice = start.config.provider(&asked.model)?;
    let notices = start.config.notices.iter().chain(&choice.notice);
    notices.for_each(|text| output.record(Event::Notice(text)));
    for text in start.confinement.notices() {
        output.record(Event::Notice(&text));
    }
    let pictures = attached(asked, &choice)?;
    for picture in &pictures {
        output.record(Event::Notice(&picture.told));
    }
    let images: Vec<ContentBlock> = pictures.into_iter().map(|picture| picture.block).collect();
    let written = asked.written().map_err(|why| Failure::new(Kind::Usage, why))?;
    let prompt = match written {
        Some(written) => Some(message(prompt::compose(written, signals).await?, images)),
        None => None,
    };
    // The host is another process and sets itself up meanwhile.
    let takes_images = choice.supports_images;
    let (model, max_context_tokens) = (choice.model.clone(), choice.max_context_tokens);
    let provider = super::provider::open(&start.config, choice)?;
    let hosts = start.hosts.open().await?;
    let preface = Preface {
        config: &start.config,
        model: &model,
        max_context_tokens,
        untrusted: asked.untrusted,
        trust: &start.trust,
    };
    let (preface, instructions) = preface.read(&provider, hosts.granted(), output)?;
    let no_key = || Failure::new(Kind::Error, "there is no audit key");
    let plan = Plan {
        preface,
        instructions,
        untrusted: asked.untrusted,
        provider,
        takes_images,
        which: asked.which(),
        title: asked.title.clone(),
        data: start.config.dirs.data.clone(),
        secrets: start.config.secrets(),
        audit: start.audit.ok_or_else(no_key)?,
        budget: Budget {
            rounds_max: asked.max_rounds.unwrap_or(0),
            time: asked.timeout,
            fail_on_denial: asked.fail_on_denial,
        },
    };
    Ok((hosts, plan, prompt))
}

/// The pictures of `--image`, all or none.
fn attached(asked: &PrintArgs, choice: &ProviderChoice) -> Result<Vec<Picture>, Failure> {
    if !asked.images.is_empty() && !choice.supports_images {
        let what = format!(
            "the model `{}` takes no images, as the configuration says",
            choice.model
        );
        let hint = format!(
            "choose another model, or change `models.{}.supports_images`",
            choice.model
        );
        return Err(Failure::new(Kind::Usage, what).with_hint(hint));
    }
    image::attach(&asked.images).map_err(|error| Failure::new(Kind::Usage, error.to_string()))
}

/// Pictures come first: models read what is asked about them better so.
fn message(prompt: String, images: Vec<ContentBlock>) -> Message {
    let mut message = Message::text(Role::User, prompt);
    message.content.splice(0..0, images);
    message
}
