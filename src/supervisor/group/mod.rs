//! One group: one broker account, its engine, and the switch as a staged state.
//!
//! [`core`] decides, without I/O or clock: events go in, effects come out in the order in which they must happen
//! (a record before the effect that it announces). [`task`] carries them out.

mod bars;
mod certificates;
pub mod core;
mod hooks;
mod ledger;
mod live;
mod outlets;
mod persist;
#[cfg(test)]
mod properties;
mod reload;
mod sessions;
mod shadow;
mod stages;
mod status;
pub mod task;
#[cfg(test)]
mod tests;
mod trouble;

pub use core::{Command, Core, Effect, Entry, Event, Observed, Outcome, Plan, Proof};
pub use live::Sending;
pub use outlets::{Change, Changes, GroupFeed, Recent};
pub use persist::{DriverState, first_start};
pub(super) use persist::{adapted, plain};
pub use reload::Reloaded;
pub use sessions::SessionNews;
pub use shadow::{ShadowCounts, ShadowStatus};
pub use stages::Reached;
pub use status::{DepthAges, EndpointStatus, GroupStatus, SwitchStatus};
