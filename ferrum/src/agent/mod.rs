//! The model loop: what is sent, what is run, when it ends.

pub mod call;
pub mod event;
pub mod guard;
pub mod message;
pub mod redact;
pub mod session;
pub mod turn;
mod words;
