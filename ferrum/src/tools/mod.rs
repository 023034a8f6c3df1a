//! The tools as the model sees them: what it is shown, how its arguments are read, and the two
//! that the front answers itself. None of them acts on the project here.

pub mod args;
pub mod catalog;
pub mod history;
