//! `ferrum login`: gets tokens for a ChatGPT account and keeps them in `auth.json`. Runs no model
//! and no tool.

use super::{interrupted, notice, provider, runtime, write_out};
use crate::cli::{LoginArgs, ModelArgs};
use crate::config::{Change, Config, ConfigFile};
use crate::exit::{Failure, Kind};
use crate::login::{
    Attempt, AuthFile, AuthFileError, Callback, Claims, Given, Issuer, IssuerError, Login, Pasted, login,
    now_ms, pasted, unheard_redirect,
};
use crate::start::Start;
use secrecy::ExposeSecret;
use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;

/// For the whole of it.
const BROWSER: Duration = Duration::from_secs(5 * 60);
const DEVICE: Duration = Duration::from_secs(15 * 60);
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// The entry of the configuration that uses the login.
const PROVIDER: &str = "openai-codex";

/// # Errors
/// A [`Failure`] when there is no login in the end; an earlier one is then still there.
pub fn run(start: Start, asked: &LoginArgs) -> Result<ExitCode, Failure> {
    let config = start.config;
    config.notices.iter().for_each(|text| notice(text));
    let file = AuthFile::new(&config.dirs.config);
    // Before the operator does anything for it.
    file.lock(LOCK_WAIT, &|| false).map_err(unkept)?;
    runtime()?.block_on(async {
        tokio::select! {
            ended = log_in(&config, &file, asked) => ended,
            kind = interrupted() => Err(Failure::new(kind, "the login was cancelled")),
        }
    })
}

async fn log_in(config: &Config, file: &AuthFile, asked: &LoginArgs) -> Result<ExitCode, Failure> {
    let issuer = Issuer::new(&provider::issuer(config)).map_err(refused)?;
    let (whole, given) = if asked.device {
        (DEVICE, tokio::time::timeout(DEVICE, by_device(&issuer)).await)
    } else {
        (BROWSER, tokio::time::timeout(BROWSER, by_browser(&issuer)).await)
    };
    let late = |_| {
        Failure::new(
            Kind::Error,
            format!(
                "nobody confirmed the login within {} minutes",
                whole.as_secs() / 60
            ),
        )
    };
    let given = given.map_err(late)??;
    let body = issuer.redeem(&given).await.map_err(refused)?;
    let fresh = login(&body, None, now_ms())
        .map_err(|what| Failure::new(Kind::Error, format!("the issuer's answer cannot be used: {what}")))?;
    let mut locked = file.lock(LOCK_WAIT, &|| false).map_err(unkept)?;
    locked.store(&fresh).map_err(unkept)?;
    drop(locked);
    write_out(&who(&fresh, file))?;
    if !asked.auth_only {
        configure(config, asked.model.clone()).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn who(login: &Login, file: &AuthFile) -> String {
    let claims = Claims::of(login.access.expose_secret());
    let email = claims.email.unwrap_or_else(|| "your account".to_owned());
    let plan = claims.plan.map(|plan| format!(" ({plan})")).unwrap_or_default();
    format!("Logged in as {email}{plan}; kept in {}.\n", file.path().display())
}

/// A browser of this machine comes to the listener, one of another machine to the terminal.
async fn by_browser(issuer: &Issuer) -> Result<Given, Failure> {
    let attempt = Attempt::new();
    let callback = match Callback::bind().await {
        Ok(callback) => Some(callback),
        Err(error) => {
            notice(&format!(
                "no port for the browser's answer is free ({error}); paste the address instead"
            ));
            None
        }
    };
    let redirect = callback
        .as_ref()
        .map_or_else(unheard_redirect, Callback::redirect);
    write_out(&format!(
        "Open this address in a browser and log in:\n\n  {}\n\n\
         If the browser cannot reach this machine, paste the address that it ends at, or the code, here:\n",
        issuer.authorize(&attempt, &redirect)
    ))?;
    let mut lines = lines_of_stdin();
    loop {
        let answer = tokio::select! {
            answer = heard(callback.as_ref(), &attempt.state) => answer,
            Some(line) = lines.recv() => pasted(&line, &attempt.state),
        };
        match answer {
            Pasted::Code(code) => {
                return Ok(Given {
                    code,
                    verifier: attempt.verifier,
                    redirect,
                });
            }
            Pasted::Refused(why) => {
                return Err(Failure::new(Kind::Error, format!("the login was refused: {why}")));
            }
            Pasted::OtherAttempt => notice("that belongs to another login"),
            Pasted::Nothing => notice("that holds no code"),
        }
    }
}

async fn heard(callback: Option<&Callback>, state: &str) -> Pasted {
    match callback {
        Some(callback) => callback.answer(state).await,
        None => std::future::pending().await,
    }
}

/// Reads in a thread that ends with the program.
fn lines_of_stdin() -> mpsc::Receiver<String> {
    let (lines, read) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if !line.trim().is_empty() && lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    read
}

async fn by_device(issuer: &Issuer) -> Result<Given, Failure> {
    let device = issuer.device().await.map_err(refused)?;
    write_out(&format!(
        "Open {} in a browser on any machine and enter this code:\n\n  {}\n\n",
        issuer.device_page(),
        device.user_code
    ))?;
    let mut failures = 0;
    loop {
        tokio::time::sleep(device.interval).await;
        match issuer.confirmed(&device).await {
            Ok(given) => return Ok(given),
            Err(IssuerError::Pending) => failures = 0,
            // A network that is away for a moment costs no login.
            Err(IssuerError::Failed(_)) if failures < 3 => failures += 1,
            Err(error) => return Err(refused(error)),
        }
    }
}

/// Makes the account's models answer from now on.
async fn configure(config: &Config, model: Option<String>) -> Result<(), Failure> {
    let file = ConfigFile::open(&config.file)?;
    let mut change = Change {
        provider: PROVIDER.to_owned(),
        entry: vec![("type", PROVIDER.to_owned())],
        model,
        ..Change::default()
    };
    file.write(&file.with(&change)?)?;
    if change.model.is_none() {
        change.model = first_model(config).await;
        let file = ConfigFile::open(&config.file)?;
        file.write(&file.with(&change)?)?;
    }
    let next = match &change.model {
        Some(model) => format!("{model} answers from now on. Try: ferrum -p \"what is here?\"\n"),
        None => "Choose a model: ferrum login --model NAME, or --model NAME with each call.\n".to_owned(),
    };
    write_out(&format!(
        "{} names the provider \"{PROVIDER}\". {next}",
        config.file.display()
    ))
}

/// The model that the account's list begins with.
async fn first_model(config: &Config) -> Option<String> {
    let fresh = Config::load(config.environment.clone()).ok()?;
    let asked = ModelArgs {
        provider: Some(PROVIDER.to_owned()),
        model: Some("any".to_owned()),
        ..ModelArgs::default()
    };
    let listed = async {
        let choice = fresh.provider(&asked).map_err(|error| error.to_string())?;
        let provider = provider::open(&fresh, choice).map_err(|error| error.to_string())?;
        provider.models().await.map_err(|error| error.to_string())
    };
    match listed.await {
        Ok(models) => models.into_iter().next().map(|model| model.id),
        Err(error) => {
            notice(&format!("the account's models cannot be listed: {error}"));
            None
        }
    }
}

fn refused(error: IssuerError) -> Failure {
    Failure::new(Kind::Error, error.to_string())
}

fn unkept(error: AuthFileError) -> Failure {
    let hint = match error {
        AuthFileError::Content { .. } => "move the file away and log in again",
        AuthFileError::Busy { .. } => "wait for the other login, or end it",
        AuthFileError::Io { .. } | AuthFileError::GivenUp => "",
    };
    Failure::new(Kind::Error, error.to_string()).with_hint(hint)
}
