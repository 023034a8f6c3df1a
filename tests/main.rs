//! The programs as a whole, seen from outside. Each module is one subject.

#![cfg(target_os = "linux")]

mod confinement;
