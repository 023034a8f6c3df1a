//! Sessions: append-only JSON lines, one record a line.

pub mod log;
pub mod peek;
pub mod record;
pub mod select;
