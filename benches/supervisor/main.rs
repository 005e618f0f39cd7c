//! The supervisor beside haproxy and beside the disk. See `references/performance.md`.
//!
//! ```text
//! cargo bench --features supervisor --bench supervisor                      everything: twenty minutes
//! cargo bench --features supervisor --bench supervisor -- --smoke           what CI runs: a minute
//! cargo bench --features supervisor --bench supervisor -- --smoke --check   fails where a gate is missed twice in a row
//! cargo bench --features supervisor --bench supervisor -- 4c 6              only these rows
//! ```
#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a benchmark reads the clock and prints")]

mod checks;
mod failover;
mod gates;
mod held;
mod journal;
mod process;
#[path = "../support/table.rs"]
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = process::as_child() {
        return code;
    }
    process::raise_descriptors();
    let compared = process::Haproxy::is_there();
    gates::run(|plan, gates| {
        if compared {
            failover::measure(plan, gates);
            held::measure(plan, gates);
            checks::measure(plan, gates);
        }
        journal::measure(plan, gates);
    })
}
