//! Decides which network path to a broker carries order flow.
pub mod engine;
pub mod manager;
pub mod path;
#[cfg(feature = "scenario")]
pub mod scenario;
