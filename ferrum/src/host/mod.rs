//! The other side of the boundary, as the front sees it: one launcher, one tool host at a time.
//!
//! Whatever comes from there is judged by the tables of `ferrum_proto::order`; the first message
//! that they do not admit ends the connection. Nothing is ever run here instead.

pub mod checker;
pub mod client;
pub mod control;
pub mod fault;
pub mod hosts;
pub mod launch;
pub mod probe;

pub use checker::Checker;
pub use client::{HostClient, ToolHost, ToolResult};
pub use control::{Control, Opened};
pub use fault::{Cause, Fault};
pub use hosts::{Hosts, Place};
pub use launch::{LaunchError, Launcher};
pub use probe::Prober;

#[cfg(test)]
pub(crate) mod script;
