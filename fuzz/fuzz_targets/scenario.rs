//! Any bytes as a scenario file. `.ci/fuzz SECONDS` runs it with the golden scenarios as seeds.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::replay_holds(data));
