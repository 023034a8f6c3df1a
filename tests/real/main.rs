//! Ferrum against real servers, as they are installed by `.ci/real`: see docs/CONTRIBUTING.md.
//!
//! What is not installed is named and passed over; where `FERRUM_REQUIRE_REAL=1` it fails.

mod gguf;
mod litellm;
mod llama;
mod server;
