//! What the whole-program tests share: a sacrificial machine of a user, running `ferrum` in it,
//! and looking at the result from outside.
//!
//! Nothing in here decides whether a wall holds. It builds the scene, runs the program and
//! reports what is to be seen from outside; the tests judge.

pub mod listen;
pub mod outside;
pub mod place;
pub mod processes;
pub mod provider;
pub mod run;
pub mod scene;
pub mod schema;
pub mod sys;
pub mod who;
pub mod wire;

/// True where a missing kernel feature or program must fail instead of being named and passed
/// over: CI sets the variable.
#[must_use]
pub fn walls_are_required() -> bool {
    std::env::var_os("FERRUM_REQUIRE_WALLS").is_some_and(|value| value == "1")
}

/// Names something that this machine cannot show. Never silent.
#[expect(clippy::print_stderr, reason = "a test's own report")]
pub fn not_tried(what: &str) {
    eprintln!("not tried: {what}");
}
