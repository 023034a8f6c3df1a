//! Sessions: append-only JSON lines, one record a line.

pub mod check;
pub mod log;
pub mod peek;
pub mod record;
pub mod select;
