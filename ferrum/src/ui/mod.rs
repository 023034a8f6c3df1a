//! What the operator sees.

pub mod terminal_text;
