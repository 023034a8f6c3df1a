//! Credentials that change while the program runs: an access token that is refreshed.
//!
//! A wire format with a fixed key needs none of this. Whoever keeps the login implements
//! [`Credentials`]; the adapter asks for a token before each request and again, once, after a 401.

use super::ProviderError;
use secrecy::SecretString;
use std::pin::Pin;

/// What one request is sent with. Has no `Debug`.
#[derive(Clone)]
pub struct Token {
    /// For `Authorization: Bearer`.
    pub bearer: SecretString,
    /// The account that the token acts for.
    pub account: Option<String>,
    /// The account is under FedRAMP rules, which the backend wants to be told.
    pub fedramp: bool,
}

/// A token in some moments; dropping it gives up waiting, never a token that was received.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Result<Token, ProviderError>> + 'a>>;

/// A login that can give tokens.
pub trait Credentials {
    /// A token that is good now, refreshed before when it is about to expire.
    ///
    /// # Errors
    /// [`ProviderError::Login`] when the operator must sign in again; whatever happened on the
    /// way to the issuer otherwise.
    fn token(&self) -> Pending<'_>;

    /// Another token than `refused`, which the backend has just answered with 401.
    ///
    /// # Errors
    /// As [`Credentials::token`], also when there is no other token to be had.
    fn refreshed_after_401<'a>(&'a self, refused: &'a Token) -> Pending<'a>;
}

/// A token that never changes: for tests, and for tokens from the environment.
pub struct Fixed(pub Token);

impl Credentials for Fixed {
    fn token(&self) -> Pending<'_> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn refreshed_after_401<'a>(&'a self, _: &'a Token) -> Pending<'a> {
        let error = ProviderError::Login("the token was refused".to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}
