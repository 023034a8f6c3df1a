//! The programs as a whole, seen from outside. Each module is one subject.

mod audit;
mod automation;
mod boundary;
mod cli;
mod codex;
mod confinement;
mod context;
mod explain;
mod lasting;
mod login;
mod ordinary;
mod policy_check;
mod policy_show;
mod policy_verify;
mod setup;
mod tidy;
mod turn;
