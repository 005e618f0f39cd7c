//! Recovery time, error budget, data at risk and the price of a standby: plain arithmetic, with units in types.
//!
//! Nothing here reads a clock, a file or an engine, and nothing panics or wraps: a result that does not fit is the
//! largest there is. Durations are [`std::time::Duration`], shares are exact to a billionth, and only closed forms and
//! quotients are floating-point numbers. `references/planning.md` has the formulas and where each number is from.
//!
//! Each question has a file of its own:
//!
//! - [`Stages`]: what a recovery consists of. Stages in order add up; stages beside each other cost the longest.
//! - [`Tier`]: what a standby still has to do when it is needed.
//! - [`Trigger`] and [`Probing`]: when a path counts as down, and how long that takes at best and at worst.
//! - [`Blips`]: how often a trigger fires though nothing is lost.
//! - [`ErrorBudget`]: what an availability allows in a month, and what an outage uses of it.
//! - [`Replication`]: what is lost with a replica that lags.
//! - [`Lease`]: from when on a new holder may take over.
//! - [`Fleet`] and [`choices`]: room for the load, and how many ways there are to share workers.
//! - [`RoutingLayer`]: the recovery time below which no plan can go.
//! - [`Ladder`]: which standby is the cheapest that meets the target, with the arithmetic of those that were rejected.
//! - [`Plan`]: all of it in one table, as the `plan` command prints it.
//!
//! ```
//! use std::time::Duration;
//! use broker_failover::planning::{Plan, PlanSettings, Tier};
//!
//! let plan = Plan::new(PlanSettings { rto: Duration::from_secs(900), ..PlanSettings::default() })?;
//! assert_eq!(plan.detection_left(Tier::Hot), Some(Duration::from_secs(720)));
//! assert_eq!(plan.detection_left(Tier::Cold), None, "no trigger can meet it");
//! # Ok::<(), broker_failover::planning::PlanError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod at_risk;
mod blips;
mod budget;
mod bytes;
mod capacity;
mod detection;
mod error;
mod ladder;
mod lease;
mod money;
mod plan;
mod rate;
mod record;
mod routing;
mod rung;
mod shards;
mod share;
mod stages;
mod text;
mod tier;
mod trigger;

pub use at_risk::{Caught, Replication};
pub use blips::{Blips, lone_failures_per_day};
pub use budget::{ErrorBudget, Month};
pub use bytes::{Bytes, Throughput};
pub use capacity::{Fleet, Quota};
pub use detection::{Detection, Probing};
pub use error::{PlanError, TextError};
pub use ladder::{Candidate, Ladder, LadderSettings, Priced, Verdict, break_even};
pub use lease::Lease;
pub use money::Money;
pub use plan::{Budgeting, Cell, Plan, PlanSettings, Row};
pub use rate::{Rate, YEAR};
pub use record::DecisionRecord;
pub use routing::{BelowFloor, RoutingLayer};
pub use rung::Rung;
pub use shards::choices;
pub use share::Share;
pub use stages::{Preparation, Stage, Stages, Step};
pub use text::{Seconds, Spoken, counted};
pub use tier::Tier;
pub use trigger::Trigger;
