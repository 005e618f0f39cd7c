//! Every state that small worlds can reach, and every input in each of them.
//!
//! A world has two or three endpoints, thresholds of 1 or 2, and durations of a few nanoseconds, so that one step of
//! time stops exactly on a boundary and another one nanosecond past it. The search is breadth-first, through the
//! public API only. It checks the invariants of `of_states` in every state and those of `of_steps` for every
//! input, finds a way out of every state, and at the end shows that nothing held for want of an example.
//!
//! # Why finitely many keys stand for all states
//!
//! Two states with the same `Sight::key` answer every further input alike, because the key holds all that can
//! decide an answer, then or later:
//!
//! - Moments enter the engine as ages only, and each age is compared with one bound. Once past its bound it can only
//!   grow, and the comparison cannot change again: ages are clipped one nanosecond past the bound. A switch that is
//!   `cooldown` old gates nothing, like one that never was. The age of an endpoint that is not HEALTHY is read for
//!   the notes on the active one only. A failback that left the window counts no more.
//! - Epochs are compared with the present one for equality, and go up by one. Claims of the search are relative to
//!   the present epoch, so its number is left out.
//! - Counters are compared with thresholds, and clipped there.
//! - What a trigger remembers is not shown by the engine; `Trail` says it again. A run of failures that fills its
//!   window does so for good, until a success or a hole ends it: its age is clipped at the window. Ages of awaited
//!   results and of signs of life are compared with their span, and clipped there.
//! - History is written and never read.
//! - The latest moment given is read for CLOCK_WENT_BACK only, and time in these worlds never goes back.
//!
//! That is an argument; `what_the_key_leaves_out_changes_no_answer` is the evidence.
//!
//! The smallest world is searched to the end. `BROKER_FAILOVER_DEPTH=25 cargo test --release --test exhaustive two`
//! reaches the end of all worlds of two endpoints; those of three grow about threefold with each step.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a test may look at the clock and print")]

mod flow_table;
mod inputs;
mod of_states;
mod of_steps;
mod runs;
mod search;
mod sight;
mod worlds;
