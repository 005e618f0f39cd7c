//! The engine against a minimal state machine. See `references/performance.md`.

#[path = "support/minimal.rs"]
mod minimal;
mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_failover::engine::{
    Endpoint, EndpointId, Engine, EngineError, FailoverDecision, FenceStatus, Policy, PolicySettings, ProbeResult,
    Timestamp,
};
use minimal::{Machine, Outcome};
use parking_lot::Mutex;
use support::{Bench, Limits};

const THRESHOLD: u32 = 3;
const MAX_AGE: Duration = Duration::from_secs(30);
/// Nanoseconds between two probes.
const STEP: u64 = 1_000;
/// Probes in a script, which then repeats.
const PROBES: usize = 65_536;

const STEADY: Limits = Limits::at_most(3.0, 2.0);
const CYCLE: Limits = Limits::at_most(4.0, 2.0);
/// A quarter of the naive scan at most; at best 30 ns where that takes 795.
const LARGE: Limits = Limits::at_most(0.25, 0.038);

fn main() -> ExitCode {
    let mut bench = Bench::default();
    floors(&mut bench);
    record(&mut bench, "2", "record, 1 % failures", 2, 1, STEADY.instructions(1.7));
    record(&mut bench, "2", "record, 1 % failures, 1,000 endpoints", 1_000, 1, STEADY.instructions(1.7));
    record(&mut bench, "2", "record, 50 % failures", 2, 50, STEADY.instructions(2.05));
    record_and_evaluate(&mut bench, "2a", "record + evaluate, 1 % failures", 2, 1, STEADY.instructions(2.6));
    record_and_evaluate(
        &mut bench,
        "2a",
        "record + evaluate, 1 % failures, 10 endpoints",
        10,
        1,
        STEADY.instructions(2.6),
    );
    record_and_evaluate(&mut bench, "2e", "record + evaluate, 50 % failures", 2, 50, STEADY.instructions(3.6));
    no_action(&mut bench, "2b", "evaluate: NO_ACTION", 2, STEADY.instructions(3.4));
    no_action(&mut bench, "2b", "evaluate: NO_ACTION, 1,000 endpoints", 1_000, STEADY.instructions(3.4));
    cycle(&mut bench, "2c", "failover cycle", 2, CYCLE.instructions(4.2));
    cycle(&mut bench, "2c", "failover cycle, 10 endpoints", 10, CYCLE.instructions(2.8));
    cycle(&mut bench, "2c", "failover cycle, 1,000 endpoints", 1_000, LARGE.instructions(0.065));
    fence_required(&mut bench, "2d", "evaluate: FENCE_REQUIRED", 2, STEADY.instructions(3.6));
    fence_required(&mut bench, "2d", "evaluate: FENCE_REQUIRED, 10 endpoints", 10, STEADY.instructions(1.0));
    fence_required(&mut bench, "2d", "evaluate: FENCE_REQUIRED, 1,000 endpoints", 1_000, LARGE.instructions(0.011));
    bench.main()
}

/// What no design can go below on this machine, to read the other numbers by.
fn floors(bench: &mut Bench) {
    let word = black_box(Box::new(AtomicU64::new(1)));
    bench.subject("floor: AtomicU64 load, Acquire", move |iterations| {
        let sum = (0..iterations).fold(0, |sum: u64, _| sum.wrapping_add(word.load(Ordering::Acquire)));
        black_box(sum);
    });
    let counter = black_box(Box::new(Mutex::new(0_u64)));
    bench.subject("floor: parking_lot Mutex, lock and unlock", move |iterations| {
        for _ in 0..iterations {
            *counter.lock() += 1;
        }
    });
}

/// What both machines can do. Before each operation the machine goes through `black_box`: it is read from memory, as it
/// is when anything else happens between two probes, instead of being kept in registers across the benchmark's loop.
trait Decides: 'static {
    type Decision;

    /// The first endpoint is active.
    fn with(endpoints: u16, require_fence: bool) -> Self;

    fn active(&self) -> u16;

    /// Whether the state changed.
    fn record(&mut self, now: u64, probe: Probe) -> bool;

    fn evaluate(&mut self, now: u64) -> Self::Decision;
}

impl Decides for Machine {
    type Decision = Outcome;

    fn with(endpoints: u16, require_fence: bool) -> Self {
        Self::new(endpoints.into(), THRESHOLD, MAX_AGE.as_nanos() as u64, require_fence)
    }

    fn active(&self) -> u16 {
        self.active() as u16
    }

    #[inline(always)]
    fn record(&mut self, now: u64, Probe { endpoint, success }: Probe) -> bool {
        self.record_probe(now, endpoint.into(), success)
    }

    #[inline(always)]
    fn evaluate(&mut self, now: u64) -> Outcome {
        self.evaluate(now, false)
    }
}

impl Decides for Engine {
    type Decision = Result<FailoverDecision, EngineError>;

    fn with(endpoints: u16, require_fence: bool) -> Self {
        let settings = PolicySettings {
            failure_threshold: THRESHOLD,
            max_health_age: MAX_AGE,
            require_fence,
            ..PolicySettings::default()
        };
        let mut engine = Engine::new(Policy::new(settings).expect("a legal policy"));
        engine.register(Endpoint::primary("0", "r", "u")).expect("a legal primary");
        for index in 1..endpoints {
            let backup = Endpoint::backup(index.to_string(), "r", "u", index.into());
            engine.register(backup).expect("a legal backup");
        }
        engine
    }

    fn active(&self) -> u16 {
        self.active().map_or(0, |id| id.index() as u16)
    }

    #[inline(always)]
    fn record(&mut self, now: u64, Probe { endpoint, success }: Probe) -> bool {
        let result = if success { ProbeResult::Success } else { ProbeResult::FAILED };
        let recorded = self.record_probe(Timestamp::from_nanos(now), EndpointId::from_index(endpoint), result);
        matches!(&recorded, Ok(change) if change.from != change.to)
    }

    #[inline(always)]
    fn evaluate(&mut self, now: u64) -> Self::Decision {
        self.evaluate_failover(Timestamp::from_nanos(now), FenceStatus::Unconfirmed)
    }
}

#[derive(Clone, Copy)]
struct Probe {
    endpoint: u16,
    success: bool,
}

/// Probes of random endpoints, with so many failures; the same ones on every machine and in every run.
fn script(endpoints: u16, per_cent: u64) -> Box<[Probe; PROBES]> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) % limit
    };
    let mut probe = || Probe { endpoint: below(endpoints.into()) as u16, success: below(100) >= per_cent };
    Box::new(std::array::from_fn(|_| probe()))
}

fn record(bench: &mut Bench, id: &'static str, name: &str, endpoints: u16, per_cent: u64, limits: Limits) {
    fn operation<M: Decides>(endpoints: u16, per_cent: u64) -> impl FnMut(u64) {
        let (mut machine, script) = (M::with(endpoints, false), script(endpoints, per_cent));
        let (mut now, mut at) = (0, 0);
        move |iterations| {
            let mut changes = 0_u64;
            for _ in 0..iterations {
                now += STEP;
                at += 1;
                changes += u64::from(black_box(&mut machine).record(now, script[at % PROBES]));
            }
            black_box(changes);
        }
    }
    let ours = bench.subject(format!("engine: {name}"), operation::<Engine>(endpoints, per_cent));
    let minimal = bench.subject(format!("minimal: {name}"), operation::<Machine>(endpoints, per_cent));
    bench.row(id, ours, minimal, limits);
}

/// Decisions are written out in full, as if somebody read every field.
fn record_and_evaluate(bench: &mut Bench, id: &'static str, name: &str, endpoints: u16, per_cent: u64, limits: Limits) {
    fn operation<M: Decides>(endpoints: u16, per_cent: u64) -> impl FnMut(u64) {
        let (mut machine, script) = (M::with(endpoints, false), script(endpoints, per_cent));
        let (mut now, mut at) = (0, 0);
        move |iterations| {
            let mut changes = 0_u64;
            for _ in 0..iterations {
                now += STEP;
                at += 1;
                let machine = black_box(&mut machine);
                changes += u64::from(machine.record(now, script[at % PROBES]));
                black_box(&machine.evaluate(now));
            }
            black_box(changes);
        }
    }
    let ours = bench.subject(format!("engine: {name}"), operation::<Engine>(endpoints, per_cent));
    let minimal = bench.subject(format!("minimal: {name}"), operation::<Machine>(endpoints, per_cent));
    bench.row(id, ours, minimal, limits);
}

/// Evaluates a machine that stays as it is.
fn evaluate<M: Decides>(mut machine: M) -> impl FnMut(u64) {
    let mut now = STEP;
    move |iterations| {
        for _ in 0..iterations {
            now += 1;
            black_box(&black_box(&mut machine).evaluate(now));
        }
    }
}

fn all_healthy<M: Decides>(endpoints: u16) -> M {
    let mut machine = M::with(endpoints, true);
    for endpoint in 0..endpoints {
        machine.record(STEP, Probe { endpoint, success: true });
    }
    machine
}

fn active_down<M: Decides>(endpoints: u16) -> M {
    let mut machine = all_healthy::<M>(endpoints);
    for _ in 0..THRESHOLD {
        machine.record(STEP, Probe { endpoint: 0, success: false });
    }
    machine
}

fn no_action(bench: &mut Bench, id: &'static str, name: &str, endpoints: u16, limits: Limits) {
    let ours = bench.subject(format!("engine: {name}"), evaluate(all_healthy::<Engine>(endpoints)));
    let minimal = bench.subject(format!("minimal: {name}"), evaluate(all_healthy::<Machine>(endpoints)));
    bench.row(id, ours, minimal, limits);
}

fn fence_required(bench: &mut Bench, id: &'static str, name: &str, endpoints: u16, limits: Limits) {
    let ours = bench.subject(format!("engine: {name}"), evaluate(active_down::<Engine>(endpoints)));
    let minimal = bench.subject(format!("minimal: {name}"), evaluate(active_down::<Machine>(endpoints)));
    bench.row(id, ours, minimal, limits);
}

/// Three failures of the active endpoint, a success of another, and the switch to that one.
fn cycle(bench: &mut Bench, id: &'static str, name: &str, endpoints: u16, limits: Limits) {
    fn operation<M: Decides>(endpoints: u16) -> impl FnMut(u64) {
        let (mut machine, mut now) = (M::with(endpoints, false), 0);
        move |iterations| {
            for _ in 0..iterations {
                now += STEP;
                let machine = black_box(&mut machine);
                let active = machine.active();
                for _ in 0..THRESHOLD {
                    machine.record(now, Probe { endpoint: active, success: false });
                }
                machine.record(now, Probe { endpoint: active ^ 1, success: true });
                black_box(&machine.evaluate(now));
            }
            // Each cycle moved flow to the other of the first two.
            assert!(machine.active() < 2);
        }
    }
    let ours = bench.subject(format!("engine: {name}"), operation::<Engine>(endpoints));
    let minimal = bench.subject(format!("minimal: {name}"), operation::<Machine>(endpoints));
    bench.row(id, ours, minimal, limits);
}
