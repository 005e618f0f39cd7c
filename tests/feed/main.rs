//! The feed as a gateway meets it: from Rust, from C in another process, from Python, and from a supervisor that is killed,
//! frozen, stopped and started again; and the subscription that says the same over the control socket.

#![cfg(feature = "cli")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may wait, look at the clock and print"
)]

#[path = "../brokers/mod.rs"]
mod brokers;
mod file;
mod gateways;
mod keys;
mod languages;
mod loops;
#[allow(dead_code, reason = "the tests of `run` use the rest")]
#[path = "../run/rig.rs"]
mod rig;
#[path = "../brokers/sessions.rs"]
mod sessions;
mod subscription;
mod threads;
