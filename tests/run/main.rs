//! The binary's `run` as a gateway meets it: real sockets, hooks that are shell scripts, commands over the socket.

#![cfg(feature = "cli")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may wait, look at the clock and print"
)]

#[path = "../brokers/mod.rs"]
mod brokers;
mod cases;
mod commands;
mod hooks;
mod kills;
mod reloads;
mod restarts;
mod rig;
#[path = "../brokers/sessions.rs"]
mod sessions;
mod shadow;
mod starts;
