//! The programs as a whole, seen from outside. Each module is one subject.

mod automation;
mod boundary;
mod cli;
mod confinement;
mod context;
mod explain;
mod lasting;
mod ordinary;
mod policy_show;
mod tidy;
mod turn;
