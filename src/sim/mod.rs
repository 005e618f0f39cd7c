//! Triggers tried out on random blips and outages: how often each fires for nothing, how long it takes, what it misses.
//!
//! The very engine that runs in production is fed with probe results and asked after each, one trigger at a time; only the
//! world around it is made up. Nothing here reads a clock or starts a thread, and the dice are a published generator that
//! is seeded: the same settings give the same answers on every machine. `references/simulation.md` has the model and what
//! it can't tell.
//!
//! - [`Weather`]: when probes fail though nothing is lost, drawn from a seed.
//! - [`Watch`]: an engine with one trigger that is told what the probes found.
//! - [`Simulation`]: every trigger through the same calm days and outages, as the `simulate` command prints it.
//!
//! ```
//! use broker_failover::sim::{Simulation, SimulationSettings};
//!
//! let settings = SimulationSettings { seeds: 2, triggers: vec!["1".parse()?, "3".parse()?], ..Default::default() };
//! let tables = Simulation::new(settings)?.run(|_, _| {})?;
//! let [eager, patient] = &tables[0].rows[..] else { panic!("two triggers") };
//! assert!(eager.false_failovers() > patient.false_failovers());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod dice;
mod experiment;
mod outcome;
mod rule;
mod watch;
mod weather;

#[cfg(test)]
mod tests;

pub use experiment::{Simulation, SimulationError, SimulationSettings};
pub use outcome::{Detected, Row, Run, Table};
pub use rule::Rule;
pub use watch::Watch;
pub use weather::Weather;
