//! The login as what requests are sent with: fresh before it expires, and once more after a 401.
//!
//! A refresh token may be good for one use, so a refresh happens under the file's lock, after
//! looking again, and is seen through to the disk once it was asked for, whoever waits for it.

use super::auth_file::{AuthFile, AuthFileError, Login};
use super::issuer::{Issuer, IssuerError};
use super::tokens::{self, Claims};
use crate::provider::ProviderError;
use crate::provider::credentials::{Credentials, Pending, Token};
use secrecy::{ExposeSecret, SecretString};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// A token is refreshed so long before its end.
const EARLY_MS: u64 = 5 * 60 * 1_000;
/// Longer than another process needs for a refresh of its own.
const LOCK_WAIT: Duration = Duration::from_secs(45);

/// The account that the operator has logged in with.
#[derive(Debug, Clone)]
pub struct Account {
    file: AuthFile,
    issuer: String,
}

impl Account {
    #[must_use]
    pub fn new(file: AuthFile, issuer: &str) -> Self {
        Self {
            file,
            issuer: issuer.to_owned(),
        }
    }

    fn present(&self) -> Result<Login, ProviderError> {
        let login = self.file.read().map_err(|error| unusable(&error))?;
        login.ok_or_else(|| ProviderError::Login(format!("{} holds no login", self.file.path().display())))
    }

    /// Another login than one with the access token `stale`.
    async fn refreshed(&self, stale: SecretString) -> Result<Token, ProviderError> {
        let (answer, answered) = oneshot::channel();
        let account = self.clone();
        // A thread of its own is not dropped with whoever waits; the program's end waits for it.
        tokio::task::spawn_blocking(move || {
            let fresh = account.refresh(&stale, &|| answer.is_closed());
            // The login is stored already.
            let _ = answer.send(fresh);
        });
        let gone = |_| ProviderError::Login("the refresh of the token broke off".to_owned());
        Ok(token(answered.await.map_err(gone)??))
    }

    fn refresh(&self, stale: &SecretString, gone: &dyn Fn() -> bool) -> Result<Login, ProviderError> {
        let mut locked = self
            .file
            .lock(LOCK_WAIT, gone)
            .map_err(|error| unusable(&error))?;
        let login = locked.read().map_err(|error| unusable(&error))?;
        let login = login.ok_or_else(|| ProviderError::Login("the login was removed".to_owned()))?;
        if login.access.expose_secret() != stale.expose_secret() && is_fresh(&login) {
            return Ok(login);
        }
        let body = ask(&self.issuer, &login.refresh).map_err(|error| refused(&self.issuer, error))?;
        let fresh = tokens::login(&body, Some(&login), now_ms())
            .map_err(|what| ProviderError::Malformed(format!("the issuer's answer: {what}")))?;
        locked.store(&fresh).map_err(|error| unusable(&error))?;
        Ok(fresh)
    }
}

impl Credentials for Account {
    fn token(&self) -> Pending<'_> {
        Box::pin(async {
            let login = self.present()?;
            if is_fresh(&login) {
                return Ok(token(login));
            }
            self.refreshed(login.access).await
        })
    }

    fn refreshed_after_401<'a>(&'a self, refused: &'a Token) -> Pending<'a> {
        Box::pin(self.refreshed(refused.bearer.clone()))
    }
}

fn ask(issuer: &str, token: &SecretString) -> Result<Vec<u8>, IssuerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| IssuerError::Failed(error.to_string()))?;
    runtime.block_on(async { Issuer::new(issuer)?.refresh(token).await })
}

fn is_fresh(login: &Login) -> bool {
    login.expires_ms > now_ms().saturating_add(EARLY_MS)
}

fn token(login: Login) -> Token {
    let claims = Claims::of(login.access.expose_secret());
    Token {
        bearer: login.access,
        account: login.account.or(claims.account),
        fedramp: claims.fedramp,
    }
}

fn unusable(error: &AuthFileError) -> ProviderError {
    ProviderError::Login(error.to_string())
}

fn refused(issuer: &str, error: IssuerError) -> ProviderError {
    match error {
        IssuerError::Refused(_) => ProviderError::Login(error.to_string()),
        IssuerError::Failed(cause) => ProviderError::Connect {
            url: issuer.to_owned(),
            cause: format!("the token cannot be refreshed: {cause}"),
        },
        IssuerError::Pending => ProviderError::Login("the login is not confirmed".to_owned()),
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
