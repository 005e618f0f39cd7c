//! The durable journal: what it promises, case by case.
#![cfg(feature = "supervisor")]
#![expect(clippy::disallowed_methods, reason = "tests of time and of processes wait, and measure")]
#![expect(clippy::disallowed_macros, reason = "what is skipped, and what was counted, is said aloud")]

mod any_order;
#[cfg(feature = "cli")]
mod command_line;
mod damage;
mod desk;
mod exports;
mod file;
mod kills;
mod power_cuts;
mod segments;
mod storage;
mod write_back;
