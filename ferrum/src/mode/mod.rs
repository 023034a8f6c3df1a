//! The ways to run.

pub mod print;
