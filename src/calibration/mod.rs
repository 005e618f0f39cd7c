//! Patience chosen by what happened: blips, outages and triggers measured on a history of real probes.
//!
//! A history is a journal of the supervisor, or a file of CSV or JSON Lines, also in gzip or zstd. It is read once, in
//! bounded memory, row by row: read, put in order, gaps left out, failures in a row taken together as a blip or an outage.
//! From what was counted come the lengths' distribution, the false failovers a month of each trigger with a confidence
//! interval, and the smallest patience that keeps to what the owner asks. `references/calibration.md` has the method.
//!
//! - [`History`]: the samples of one history, in order.
//! - [`calibrate()`]: what a history comes to, for each trigger asked about.
//! - [`Report`]: the answer, as the `calibrate` command prints it.
//! - [`counterfactual`]: the switches that a configuration would have made on it.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod calibrate;
mod clusters;
pub mod counterfactual;
mod csv;
mod episode;
mod error;
mod estimate;
mod field;
mod fit;
mod history;
mod input;
mod journal;
mod json;
mod latency;
mod length;
mod order;
mod recommend;
mod records;
mod report;
mod rows;
mod sample;
mod settings;
mod special;
mod timeline;

#[cfg(test)]
mod tests;

pub use calibrate::calibrate;
pub use error::{HistoryError, Place};
pub use field::Unit;
pub use history::{History, HistoryOptions, Meter};
pub use report::{
    Basis, Blips, Delays, Estimate, Fit, Gaps, Lengths, Outage, PathReport, Point, Reading, Recommendation, Report,
    TriggerReport, Verdict,
};
pub use sample::{EndpointIndex, Names, Sample};
pub use settings::{CalibrationError, CalibrationSettings};
pub use timeline::{Bin, Timeline};
