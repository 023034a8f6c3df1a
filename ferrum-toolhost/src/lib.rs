//! Ferrum's launcher and tool host: the only program that touches project files and runs commands.
//!
//! One binary, three roles, each started by exec with an empty environment and only the descriptors
//! that it needs. The **launcher** holds the user's ordinary authority and parses nothing but our
//! own bounded control frames. A **host** holds one session's grant, sealed for its life; in role **check** it only says what policy would answer. The
//! **stage** is a step of the host between fork and exec of one command.
//!
//! Trust flows inwards only: what the host reads from the project, from commands or from the
//! front is hostile, and nothing that it learns ever widens its own walls.

pub mod admit;
pub mod check;
pub mod command;
pub mod confine;
pub mod exec;
pub mod from_wire;
pub mod fs;
pub mod guard;
pub mod host;
pub mod launcher;
pub mod outbox;
pub mod preflight;
pub mod prober;
pub mod remedy;
pub mod report;
pub mod seal;
pub mod serve;
pub mod session;
pub mod sys;
pub mod tool;

/// For `ferrum-toolhost --version`: the build and the wire that it speaks.
#[expect(clippy::print_stdout, reason = "the program's one line to a person")]
pub fn print_version() {
    println!(
        "ferrum-toolhost {} (protocol {})",
        ferrum_proto::BUILD,
        ferrum_proto::PROTOCOL
    );
}

/// Started by hand: says what the program is and ends with a usage error.
#[expect(clippy::print_stderr, reason = "the program's one line to a person")]
pub fn refuse_to_start() {
    eprintln!("ferrum-toolhost is started by ferrum; there is nothing to run by hand");
    std::process::exit(2);
}
