//! Gateways that report to the binary's `run`: real sockets, real hooks, and clients in Rust, C and Python.

#![cfg(feature = "cli")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may wait, look at the clock and print"
)]

#[path = "../brokers/mod.rs"]
mod brokers;
mod cases;
mod check;
mod clients;
mod faults;
mod gateway;
mod hostile;
mod live;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../run/rig.rs"]
mod rig;
#[path = "../brokers/sessions.rs"]
mod sessions;
