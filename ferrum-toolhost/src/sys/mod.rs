//! The only place for unsafe code: raw system calls that the crates lack, and nothing else.

pub mod xattr;
