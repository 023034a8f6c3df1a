//! What the operator sees.

pub mod render;
pub mod terminal_text;
