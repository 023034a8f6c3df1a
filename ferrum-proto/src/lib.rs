//! The wire between Ferrum's three programs-in-role: front, launcher and tool host.
//!
//! This crate holds types, limits, framing and the tables of what may follow what. It does no
//! I/O and decides nothing. Every value that crosses a socket is one of its enums, encoded by
//! bincode's own derive inside a length-prefixed frame.
//!
//! Message order on the tool socket (front ↔ host):
//!
//! ```text
//! front                               host
//! Hello ─────────────────────────────►
//!       ◄───────────────────────────── Hello
//!       ◄───────────────────────────── Granted | SealFailed        policy decided
//!       ◄───────────────────────────── Ready   | SealFailed        walls in force
//! Call{id} ──────────────────────────►
//!       ◄───────────────────────────── Progress{id}*  Chunk{id}*  Reply{id}
//! Cancel{id} ────────────────────────►
//! ```
//!
//! With a host in role check, after `Granted`:
//!
//! ```text
//! Explain{id} ───────────────────────►
//!       ◄───────────────────────────── Explained{id}               in the order of the questions
//! ```
//!
//! With one that only looks at project files: `Linted` instead of `Granted`, and no more.
//!
//! Message order on the control socket (front ↔ launcher):
//!
//! ```text
//! front                               launcher
//! Hello ─────────────────────────────►
//!       ◄───────────────────────────── Hello
//! Charter (once) ────────────────────►
//! OpenHost{host} + tool socket ──────►                              or OpenCheck{host} + tool socket
//!       ◄───────────────────────────── HostStarted{host} | HostRefused{host}
//! CloseHost{host} ───────────────────►
//!       ◄───────────────────────────── HostExited{host}
//! ```
//!
//! The seal itself (charter ∩ wish) reaches the host as a sealed memory file from the launcher,
//! never over a socket: see [`seal`].
//!
//! Anything that the tables in [`order`] do not list ends the connection.

pub mod charter;
pub mod control;
pub mod frame;
pub mod limits;
pub mod order;
pub mod reply;
pub mod request;
pub mod seal;
pub mod terms;

/// Version of the wire. Both sides must state the same one; there is no negotiation, because
/// both programs are built and installed together.
pub const PROTOCOL: u16 = 1;

/// Version of the build and a mark of this wire's sources, stated in each `Hello`: frames have no
/// names in them, so programs of two builds would misread each other without a word.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("FERRUM_WIRE"));
