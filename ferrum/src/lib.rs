//! The front: providers, the model loop, sessions, what the operator sees.
//!
//! It never opens a project file and never starts a program: everything that the model asks for
//! goes over the tool socket to a confined host ([`host::client`]).

pub mod agent;
pub mod host;
pub mod mode;
pub mod provider;
pub mod session;
pub mod tools;
pub mod ui;
