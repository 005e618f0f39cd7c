//! Decides, unattended, which network path to a broker carries a trading system's order flow right now, and refuses
//! every switch that is not evidenced.
//!
//! Several endpoints front **one account**. Flow on a dead path with positions open is expensive; two live paths in
//! front of one account is worse. So the engine moves flow only on evidence, asks for a fence of the path it leaves,
//! holds flow until orders in flight are reconciled, and says *halt* when there is nowhere to go. It opens no sockets
//! and sends no orders: you supply the probe, the fence and the switch.
//!
//! # Five-minute tour
//!
//! Register the endpoints and pass the start-up gate. A [`Manager`](manager::Manager) takes the probe, as a closure;
//! there is none without one.
//!
//! ```
//! use broker_failover::engine::{Endpoint, Engine, FailoverOutcome, FenceStatus, Policy};
//! use broker_failover::manager::{Manager, ProbeError};
//!
//! let mut engine = Engine::new(Policy::default());
//! let east = engine.register(Endpoint::primary("east", "us-east-1", "https://east.example"))?;
//! let west = engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10))?;
//! engine.validate_configuration()?;
//!
//! let manager = Manager::new(engine, |endpoint: &Endpoint| {
//!     // Log on, ask for the account, compare: whatever proves that orders would be taken.
//!     if endpoint.name == "east" { Err(ProbeError::failed("connection reset")) } else { Ok(()) }
//! });
//!
//! // The scheduler's part: one probe of every endpoint each interval, then one evaluation.
//! manager.probe(west)?;
//! for _ in 0..3 {
//!     manager.probe(east)?;
//! }
//! let decision = manager.evaluate_failover(FenceStatus::Unconfirmed)?;
//! let FailoverOutcome::FenceRequired(fence) = decision.outcome else { panic!("{decision:?}") };
//!
//! // Make `fence.endpoint` unable to submit orders. Only when that is certain:
//! manager.fence_started(fence.epoch.get())?;
//! let decision = manager.evaluate_failover(fence.confirm())?;
//! assert_eq!(decision.active, west);
//!
//! // Move the transport, settle the orders in flight against the broker's book, then open.
//! manager.confirm_reconciled(decision.epoch.get())?;
//!
//! // The order path: one atomic load, no lock, no clock.
//! let reader = manager.reader();
//! let path = reader.path().open().expect("flow is open");
//! assert_eq!((path.endpoint, path.epoch), (west, decision.epoch));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//!
//! - [`engine`]: the pure state machine. Time comes in as an argument; a refused input changes nothing.
//! - [`manager`]: the engine shared between threads; probes run outside its lock, panics are failures.
//! - [`path`]: what the order path reads: endpoint, epoch and order flow in one atomic word.
//! - `feed` (feature `feed`): the same for other processes and languages: 64 bytes of a memory-mapped file.
//! - [`planning`]: recovery time, error budget, data at risk and the price of a standby, as plain arithmetic.
//! - `scenario` (feature `scenario`): everything an engine was told as JSON Lines, and replay of it.
//! - `report` (feature `report`): what a gateway tells a supervisor of its own session and orders, and a client for it.
//! - `sim` (feature `sim`): triggers tried out on random blips and outages, in the real engine.
//! - `calibration` (feature `calibrate`): blips, outages and triggers measured on a history of real probes.
//! - `supervisor` (feature `supervisor`): everything with effects: probes on schedule, hooks, the durable journal,
//!   control and status. The binary runs it beside a gateway in any language.
//!
//! # Features
//!
//! None by default. `scenario` adds the scenario format (`serde_json`); `feed` adds the feed (`memmap2`, `rustix`); `sim` adds
//! the simulation (`rand_pcg`); `report` adds the client of a gateway that reports (`serde_json`, `rustix`); `supervisor`
//! adds everything with effects (`tokio`, `hyper`, `rustls` and more); `calibrate` adds calibration (`csv`, `flate2`,
//! `zstd`); `cli` adds the binary. A feature adds items; it never changes how existing items behave.

#[cfg(feature = "calibrate")]
pub mod calibration;
pub mod engine;
#[cfg(feature = "feed")]
pub mod feed;
pub mod manager;
pub mod path;
pub mod planning;
#[cfg(doctest)]
mod readme;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "scenario")]
pub mod scenario;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "supervisor")]
pub mod supervisor;
