//! Credential and system paths that no tier may change, and those that no tier but low may read.
