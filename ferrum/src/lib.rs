//! The front of Ferrum: operator, providers, sessions.
//!
//! It holds the keys and the network, and therefore it never writes the workspace and never
//! starts a program: everything that a model asks for goes over the tool socket to a confined
//! host. What it gives up before it meets untrusted bytes stands in [`confine`].

pub mod agent;
pub mod audit;
pub mod cli;
pub mod clock;
pub mod config;
pub mod confine;
pub mod context;
pub mod exit;
mod filter;
pub mod host;
pub mod image;
pub mod login;
pub mod mode;
pub mod output;
pub mod provider;
pub mod session;
pub mod start;
pub mod sys;
pub mod tools;
pub mod trust;
pub mod ui;
pub mod usage;
