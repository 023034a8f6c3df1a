//! The front of Ferrum: operator, providers, sessions.

pub mod cli;
pub mod confine;
pub mod config;
mod filter;
pub mod host;
mod sys;
