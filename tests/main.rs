//! The programs as a whole, seen from outside. Each module is one subject.

mod boundary;
mod cli;
mod confinement;
mod explain;
mod lasting;
mod login;
mod ordinary;
mod setup;
mod tidy;
mod turn;
