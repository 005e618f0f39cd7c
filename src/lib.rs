//! Decides which network path to a broker carries order flow.
pub mod engine;
#[cfg(feature = "scenario")]
pub mod scenario;
