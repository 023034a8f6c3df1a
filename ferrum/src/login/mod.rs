//! The login with a ChatGPT account: how it is got, kept, and kept fresh.
//!
//! Tokens are in `auth.json` alone and have no `Debug`. Whoever reads them gets them from
//! [`AuthFile`]; whoever changes them holds its lock.

mod auth_file;
mod callback;
mod credentials;
mod issuer;
mod paste;
mod pkce;
mod tokens;

pub(crate) use auth_file::FILES;
pub use auth_file::{AuthFile, AuthFileError, Login};
pub use callback::{Callback, unheard_redirect};
pub use credentials::Account;
pub(crate) use credentials::now_ms;
pub use issuer::{Device, Given, ISSUER, Issuer, IssuerError};
pub use paste::{Pasted, pasted};
pub use pkce::Attempt;
pub use tokens::{Claims, login};
