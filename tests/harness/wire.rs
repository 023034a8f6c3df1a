//! The wire, spoken raw.
