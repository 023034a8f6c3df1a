//! What the operator sees.

pub mod paint;
pub mod render;
pub mod terminal_text;
