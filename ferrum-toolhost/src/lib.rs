//! The tool host: the only code that touches project files or runs commands.
//!
//! Trust flows one way: a frame becomes a checked request in [`from_wire`], facts become a
//! permit in [`admit`], and only a permit makes a [`tool`] act.

pub mod admit;
pub mod from_wire;
pub mod fs;
pub mod sys;
pub mod tool;
