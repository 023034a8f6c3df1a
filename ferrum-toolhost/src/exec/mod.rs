//! Running one command: stage, output, end, and what is known about it afterwards.

pub mod cgroup;
pub mod check;
pub mod denial;
pub mod environment;
pub mod outcome;
pub mod output;
pub mod processes;
pub mod run;
pub mod syntax;
