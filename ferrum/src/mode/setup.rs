//! `ferrum setup`: finds what could answer, asks what it should be, tries it, and writes
//! `config.toml`. Keys stay where they are: the file gets the names of their variables. Runs no
//! tool; a host comes up only to say whether isolation is full here.

mod ask;
mod find;

use super::{notice, provider, runtime, write_out};
use crate::agent::message::{Message, Role};
use crate::cli::SetupArgs;
use crate::config::{Change, Config, ConfigFile, Preset, ProviderEntry};
use crate::exit::{Failure, Kind};
use crate::host::Prober;
use crate::provider::{ProviderError, ProviderKind, Request};
use crate::start::Start;
use ferrum_proto::charter::Wish;
use ferrum_proto::terms::{Isolation, Shell};
use find::{Candidate, candidates};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// For the first words of a model, which may have to be loaded before.
const TRY_WAIT: Duration = Duration::from_secs(180);
/// Names of models that a message holds.
const NAMED_MAX: usize = 12;
/// Characters of the model's answer that are shown.
const ANSWER_CHARS_MAX: usize = 80;

/// # Errors
/// A [`Failure`] when nothing was written.
pub fn run(start: Start, asked: &SetupArgs) -> Result<ExitCode, Failure> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let asks = terminal && !asked.yes;
    if !terminal && !asked.yes && asked.provider.is_none() {
        return Err(Failure::new(Kind::Usage, "setup asks questions, and there is no terminal to ask at").with_hint(
            "ferrum setup --yes takes what is found first; ferrum setup --provider NAME --model MODEL says what to \
             take, with --base-url URL and --api-key-env VARIABLE for a provider of your own",
        ));
    }
    let Start { config, hosts, .. } = start;
    if config.offline {
        let failed = Failure::new(Kind::Usage, "FERRUM_OFFLINE is set, so no model can be asked");
        return Err(failed.with_hint("unset it for the setup"));
    }
    config.notices.iter().for_each(|text| notice(text));
    runtime()?.block_on(async {
        let chosen = candidate(&config, asked, asks).await?;
        let (model, context_tokens) = model(&config, &chosen, asked, asks).await?;
        let prober = hosts.probe();
        let shell = shell(&config, asked, asks, prober).await?;
        if !asked.no_test {
            attempt(&config, &chosen, &model, asks).await?;
        }
        let change = Change {
            provider: chosen.name.clone(),
            entry: keys(&config, &chosen),
            actual_model: (short(&model) != model).then(|| model.clone()),
            model: Some(short(&model).to_owned()),
            context_tokens,
            shell,
        };
        write(&config, &change, asked.dry_run)?;
        if !asked.dry_run {
            write_out(&next(&chosen))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn candidate(config: &Config, asked: &SetupArgs, asks: bool) -> Result<Candidate, Failure> {
    if let Some(name) = &asked.provider {
        if let Some(own) = own(config, name, asked) {
            return Ok(own);
        }
        let found = candidates(config)
            .await
            .into_iter()
            .find(|found| found.name == *name);
        return found.ok_or_else(|| not_found(name));
    }
    write_out("Looking for keys and for servers of this machine…\n")?;
    let mut found = candidates(config).await;
    if found.is_empty() {
        return Err(nothing());
    }
    if !asks {
        return Ok(found.remove(0));
    }
    let names: Vec<String> = found
        .iter()
        .map(|one| format!("{}: {}", one.name, one.what))
        .collect();
    let chosen = ask::choose("Which one?", &names, false)?;
    let at = names.iter().position(|name| *name == chosen).unwrap_or(0);
    Ok(found.remove(at))
}

/// What the command line or the configuration says of this name.
fn own(config: &Config, name: &str, asked: &SetupArgs) -> Option<Candidate> {
    let configured = config.settings.providers.get(name).cloned();
    let mut entry = match (&asked.base_url, configured, Preset::named(name)) {
        (_, Some(entry), _) if asked.kind.is_none() => entry,
        (Some(_), _, _) => ProviderEntry::plain(kind(asked)),
        (None, _, Some(preset)) if asked.api_key_env.is_some() => preset.entry(&config.environment),
        (None, _, _) => return None,
    };
    entry.base_url = asked.base_url.clone().or(entry.base_url);
    entry.api_key_env = asked.api_key_env.clone().or(entry.api_key_env);
    Some(Candidate::own(name, entry))
}

fn kind(asked: &SetupArgs) -> ProviderKind {
    let words = ProviderKind::WORDS;
    let named = asked
        .kind
        .as_deref()
        .and_then(|word| words.iter().find(|(known, _)| *known == word));
    named.map_or(ProviderKind::OpenAiCompatible, |(_, kind)| *kind)
}

fn not_found(name: &str) -> Failure {
    let hint = match Preset::named(name).map(|preset| preset.key) {
        Some(Some(key)) => format!("export {key}, or name another variable with --api-key-env"),
        Some(None) => "run ferrum login first".to_owned(),
        None => "give its address with --base-url, and its key's variable with --api-key-env".to_owned(),
    };
    Failure::new(
        Kind::Usage,
        format!("the provider `{name}` is not to be found here"),
    )
    .with_hint(hint)
}

fn nothing() -> Failure {
    Failure::new(
        Kind::Usage,
        "there is no key in the environment, no login, and no model server on the usual ports",
    )
    .with_hint(
        "start a server (llama.cpp 8080, Ollama 11434, LM Studio 1234, vLLM 8000), export a key such as \
         OPENAI_API_KEY, run ferrum login, or name a provider with --provider, --base-url and --api-key-env",
    )
}

/// The model, and the length of its context where the provider states it.
async fn model(
    config: &Config,
    chosen: &Candidate,
    asked: &SetupArgs,
    asks: bool,
) -> Result<(String, Option<u64>), Failure> {
    let listed = if chosen.models.is_empty() {
        chosen.list(config).await
    } else {
        Ok(chosen.models.clone())
    };
    let models = match listed {
        Ok(models) => models,
        Err(ProviderError::Config(why)) => return Err(Failure::new(Kind::Usage, why)),
        Err(error) => {
            notice(&format!(
                "the models of {} cannot be listed: {error}",
                chosen.name
            ));
            Vec::new()
        }
    };
    let names: Vec<String> = models.iter().map(|model| model.id.clone()).collect();
    let name = match &asked.model {
        Some(name) => name.clone(),
        None if asks && names.is_empty() => {
            ask::choose("Which model? Its name, as the provider has it:", &names, true)?
        }
        None if asks => ask::choose("Which model? A number or a name", &names, true)?,
        None if chosen.local || names.len() == 1 => {
            names.first().cloned().ok_or_else(|| no_model(chosen, &names))?
        }
        None => return Err(no_model(chosen, &names)),
    };
    let found = models.iter().find(|model| model.id == name);
    if found.is_none() && !names.is_empty() {
        notice(&format!("{} does not list the model `{name}`", chosen.name));
    }
    Ok((name, found.and_then(|model| model.context_tokens)))
}

/// A server that serves one file may call it by its whole path; its last part is easier to say.
fn short(model: &str) -> &str {
    let last = model.rsplit('/').next().filter(|last| !last.is_empty());
    last.filter(|_| model.starts_with('/')).unwrap_or(model)
}

fn no_model(chosen: &Candidate, names: &[String]) -> Failure {
    let hint = if names.is_empty() {
        "pass --model NAME".to_owned()
    } else {
        let more = if names.len() > NAMED_MAX { ", …" } else { "" };
        let some = names
            .iter()
            .take(NAMED_MAX)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        format!("pass --model with one of: {some}{more}")
    };
    Failure::new(Kind::Usage, format!("no model of {} was chosen", chosen.name)).with_hint(hint)
}

/// `auto` is offered where the walls are all there, since they then bound what it lets through.
async fn shell(
    config: &Config,
    asked: &SetupArgs,
    asks: bool,
    prober: Result<Prober, crate::host::Cause>,
) -> Result<Option<&'static str>, Failure> {
    let word = |shell| match shell {
        Shell::Auto => "auto",
        Shell::Static => "static",
    };
    if asked.shell.is_some() || !asks || config.states("tools.shell") {
        return Ok(asked.shell.map(word));
    }
    let Ok(mut prober) = prober else { return Ok(None) };
    let looked = prober.look(&Wish::default()).await;
    prober.close().await;
    let full = looked.is_ok_and(|(_, ready)| ready.isolation == Isolation::Full);
    if !full {
        return Ok(None);
    }
    write_out(
        "Isolation is full here: the kernel bounds whatever commands do. With shell = \"auto\" commands may use all \
         of bash;\nwith \"static\" each command must also be readable by the text policy.\n",
    )?;
    Ok(ask::agree("Use shell = \"auto\"?", true)?.then_some("auto"))
}

/// One small request. At the terminal a failure is a question, elsewhere it ends the setup.
async fn attempt(config: &Config, chosen: &Candidate, model: &str, asks: bool) -> Result<(), Failure> {
    write_out(&format!("Trying {}…\n", short(model)))?;
    match tokio::time::timeout(TRY_WAIT, answer(config, chosen, model)).await {
        Ok(Ok(text)) => write_out(&format!("It answers: {text}\n")),
        Ok(Err(error)) => untried(&error.to_string(), asks),
        Err(_) => untried(&format!("no answer within {} s", TRY_WAIT.as_secs()), asks),
    }
}

fn untried(why: &str, asks: bool) -> Result<(), Failure> {
    if asks {
        notice(why);
        if ask::agree("Write the configuration anyway?", false)? {
            return Ok(());
        }
    }
    let failed = Failure::new(Kind::Error, format!("the model does not answer: {why}"));
    Err(failed.with_hint("nothing was written; --no-test writes without trying"))
}

async fn answer(config: &Config, chosen: &Candidate, model: &str) -> Result<String, ProviderError> {
    let mut provider = provider::open(config, chosen.choice(config, model)?)?;
    let messages = [Message::text(Role::User, "Answer with one word: ready")];
    let request = Request {
        epoch: 0,
        messages: &messages,
        tools: &[],
        may_call: false,
        nudge: None,
        buffered: true,
    };
    let completion = provider.complete(request, &mut |_| {}).await?;
    let text = completion.message.visible_text();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(if line.is_empty() {
        "(without words)".to_owned()
    } else {
        line.chars().take(ANSWER_CHARS_MAX).collect()
    })
}

/// The keys of the entry. An entry that stands already keeps what is not named here.
fn keys(config: &Config, chosen: &Candidate) -> Vec<(&'static str, String)> {
    let entry = &chosen.entry;
    let mut keys = vec![("type", entry.kind.name().to_owned())];
    keys.extend(entry.base_url.clone().map(|url| ("base_url", url)));
    keys.extend(entry.api_key_env.clone().map(|name| ("api_key_env", name)));
    let same = |known: &ProviderEntry| {
        known.kind == entry.kind && known.base_url == entry.base_url && known.api_key_env == entry.api_key_env
    };
    if config.settings.providers.get(&chosen.name).is_some_and(same) {
        keys.clear();
    }
    keys
}

fn write(config: &Config, change: &Change, dry_run: bool) -> Result<(), Failure> {
    let file = ConfigFile::open(&config.file)?;
    let text = file.with(change)?;
    if dry_run {
        return write_out(&text);
    }
    file.write(&text)?;
    write_out(&format!("Wrote {}.\n", config.file.display()))
}

fn next(chosen: &Candidate) -> String {
    let key = chosen.entry.api_key_env.as_deref();
    let key = key.map(|name| format!("Keep {name} exported: the file holds its name, not the key.\n"));
    let now = "Now: ferrum -p \"what does this project do?\"   (ferrum doctor shows the walls)\n";
    format!("{}{now}", key.unwrap_or_default())
}
