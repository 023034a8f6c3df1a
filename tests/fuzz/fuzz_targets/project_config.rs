//! Any text as a project's file: an answer or an error with a place, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::ProjectPolicy;

fuzz_target!(|text: &str| {
    if let Err(error) = ProjectPolicy::parse(text) {
        assert!(!error.message.is_empty());
    }
});
