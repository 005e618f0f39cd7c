//! Depth, exclusivity, shared fate, accounts and budgets, as an operator meets them: `check` on files, and the binary's
//! `run` between real sockets.

#![cfg(feature = "cli")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may wait, look at the clock and print"
)]

#[path = "../brokers/mod.rs"]
mod brokers;
mod budgets;
mod config;
mod desk;
mod fate;
mod logons;
#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "../run/rig.rs"]
mod rig;
#[path = "../brokers/sessions.rs"]
mod sessions;
