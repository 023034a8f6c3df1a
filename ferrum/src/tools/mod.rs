//! The tools as the model sees them.

pub mod args;
