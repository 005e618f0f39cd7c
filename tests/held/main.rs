//! WebSocket probes, and sessions that are held open beside the probes: real sockets, exact numbers of results.

#![cfg(feature = "supervisor")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may wait, look at the clock and print"
)]

#[path = "../brokers/certificates.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with other test programs")]
mod certificates;
mod config;
mod server;
#[path = "../brokers/sessions.rs"]
mod sessions;
mod watch;
mod websocket;
