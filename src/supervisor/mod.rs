//! Everything with effects: probes on schedule, hooks, the durable journal, control and status.
//!
//! One supervisor watches many groups; a group is one broker account. Data flows one way in each group:
//!
//! ```text
//! scheduler + probes --SlotResult--\
//! control socket -Command, Sending--> group loop -> engine -> journal (durable) -> publish / hook
//! hooks ---------------HookReport--/                                                   |
//!        ^-----------------------------------------------------------------------------/
//! ```
//!
//! A group loop is the only caller of its engine. What closes order flow is published at once; what opens it is
//! published only after the journal holds the decision durably. No effect starts before its record is durable.

mod aside;
pub mod certificates;
pub mod clock;
pub mod config;
pub mod control;
pub mod demo;
pub mod group;
pub mod hooks;
pub mod journal;
pub mod probes;
pub mod reload;
pub mod report;
pub mod running;
pub mod scheduler;
pub mod serve;
pub mod visible;
