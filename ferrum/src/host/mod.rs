//! The way to the confined tool host.

pub mod client;
