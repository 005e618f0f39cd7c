//! What the order path reads, against one atomic load and against what others read there. See
//! `references/performance.md`.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod support;

use std::hint::{black_box, spin_loop};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use broker_failover::engine::{Endpoint, Engine, HaltOrder, OrderFlow, Policy, ProbeResult};
use broker_failover::manager::{Manager, ProbeError};
use broker_failover::path::{ActivePath, PathReader};
use failsafe::CircuitBreaker;
use recloser::Recloser;
use support::{Bench, Limits, Subject};
use tokio::sync::watch;

/// One load, and what it takes to pick the bits out of it.
const LOAD: Limits = Limits::at_most(1.5, 1.1);

fn main() -> ExitCode {
    let mut bench = Bench::default();
    let load = alone(&mut bench, "floor: AtomicU64 load, Acquire", AtomicU64::new(1), load_word);
    let by_hand = alone(&mut bench, "floor: load, two fields taken out", AtomicU64::new(1), load_fields);
    let seqlock = alone(&mut bench, "floor: sequence lock, 32 bytes", SequenceLock::default(), SequenceLock::read);

    let must_halt = alone(&mut bench, "must_halt()", reader(), read_must_halt);
    let active = alone(&mut bench, "active()", reader(), read_active);
    alone(&mut bench, "path().open()", reader(), read_open);
    alone(&mut bench, "order_flow()", reader(), read_order_flow);
    let details = alone(&mut bench, "details()", reader(), read_details);
    bench.row("1", must_halt, load, LOAD.instructions(1.9));
    bench.row("1", active, by_hand, LOAD.instructions(1.75));

    // All of them are asked for one bit: may orders be sent?
    let arc_swap = alone(&mut bench, "arc-swap: load", swapped(), read_swapped);
    let watch = alone(&mut bench, "tokio watch: borrow", watched(), read_watched);
    let failsafe = alone(&mut bench, "failsafe: is_call_permitted", breaker(), ask_breaker);
    let recloser = alone(&mut bench, "recloser: call(Ok)", Recloser::default(), call_recloser);
    bench.row("1a", must_halt, arc_swap, Limits::faster(20.0, 30.0));
    bench.row("1a", must_halt, watch, Limits::faster(30.0, 45.0));
    bench.row("1a", must_halt, failsafe, Limits::faster(30.0, 45.0));
    // Its check alone is private; the whole call takes nearly twice as long, so the limits are nearly twice as wide.
    bench.row("1a", must_halt, recloser, Limits::faster(38.0, 57.0));

    let two = two_threads(&mut bench, "must_halt(), 2 threads", reader(), read_must_halt);
    let two_watch = two_threads(&mut bench, "tokio watch: borrow, 2 threads", watched(), read_watched);
    let two_failsafe = two_threads(&mut bench, "failsafe: is_call_permitted, 2 threads", breaker(), ask_breaker);
    let published = published(&mut bench);
    bench.row("1b", two, must_halt, LOAD);
    bench.row("1b", published, must_halt, LOAD);
    bench.row("1b", two, two_watch, Limits::faster(50.0, 200.0));
    bench.row("1b", two, two_failsafe, Limits::faster(50.0, 200.0));

    bench.row("1c", details, seqlock, Limits::at_most(2.0, 1.3).instructions(1.7));
    bench.row("1c", details, arc_swap, Limits::faster(8.0, 14.0));
    bench.main()
}

/// Sums what `read` says, so that no reading can be left out.
#[inline(always)]
fn repeat(iterations: u64, read: impl Fn() -> u64) {
    let sum = (0..iterations).fold(0_u64, |sum, _| sum.wrapping_add(read()));
    black_box(sum);
}

fn alone<T: 'static>(bench: &mut Bench, name: &str, shared: T, read: impl Fn(&T, u64) + 'static) -> Subject {
    let shared = black_box(Box::new(shared));
    bench.subject(name, move |iterations| read(&shared, iterations))
}

/// The same reads on another thread all the while.
fn two_threads<T: Sync + 'static>(
    bench: &mut Bench,
    name: &str,
    shared: T,
    read: impl Fn(&T, u64) + Sync + 'static,
) -> Subject {
    let shared = black_box(Box::new(shared));
    bench.clocked(name, move |iterations| beside(|| read(&shared, 256), || read(&shared, iterations)))
}

/// `must_halt()` while another thread changes the published path 100,000 times a second.
fn published(bench: &mut Bench) -> Subject {
    let manager = manager();
    let reader = manager.reader();
    bench.clocked("must_halt(), written every 10 us", move |iterations| {
        let mut halted = false;
        let mut due = Instant::now();
        let write = || {
            halted = !halted;
            if halted {
                let _ = manager.halt(HaltOrder::operator(""));
            } else {
                let _ = manager.resume();
            }
            due += Duration::from_micros(10);
            while Instant::now() < due {
                spin_loop();
            }
        };
        beside(write, || read_must_halt(&reader, iterations))
    })
}

/// How long `here` takes while another thread repeats `there`.
fn beside(mut there: impl FnMut() + Send, here: impl FnOnce()) -> Duration {
    let (started, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                there();
                started.store(true, Ordering::Release);
            }
        });
        while !started.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let start = Instant::now();
        here();
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        took
    })
}

fn load_word(word: &AtomicU64, iterations: u64) {
    repeat(iterations, || word.load(Ordering::Acquire));
}

/// What `active()` does, without its question whether an endpoint is active at all.
fn load_fields(word: &AtomicU64, iterations: u64) {
    repeat(iterations, || {
        let word = word.load(Ordering::Acquire);
        (word >> 20) + (word & 0xffff)
    });
}

/// A manager whose path is open.
fn manager() -> Manager<impl Fn(&Endpoint) -> Result<(), ProbeError> + Send + Sync> {
    let mut engine = Engine::new(Policy::default());
    let east = engine.register(Endpoint::primary("east", "r", "u")).expect("a legal primary");
    engine.register(Endpoint::backup("west", "r", "u", 1)).expect("a legal backup");
    let manager = Manager::new(engine, |_: &Endpoint| Ok(()));
    manager.record_probe(east, ProbeResult::Success).expect("a registered endpoint");
    manager
}

fn reader() -> PathReader {
    manager().reader()
}

fn sum(ActivePath { endpoint, epoch }: ActivePath) -> u64 {
    epoch.get() + endpoint.index() as u64
}

fn read_must_halt(reader: &PathReader, iterations: u64) {
    repeat(iterations, || reader.must_halt().into());
}

fn read_open(reader: &PathReader, iterations: u64) {
    repeat(iterations, || reader.path().open().map_or(0, sum));
}

fn read_active(reader: &PathReader, iterations: u64) {
    repeat(iterations, || reader.active().map_or(0, sum));
}

fn read_order_flow(reader: &PathReader, iterations: u64) {
    repeat(iterations, || match reader.order_flow() {
        OrderFlow::Open { endpoint, epoch } => sum(ActivePath { endpoint, epoch }),
        OrderFlow::Hold { .. } => 1,
        OrderFlow::Halt { .. } => 2,
    });
}

fn read_details(reader: &PathReader, iterations: u64) {
    repeat(iterations, || {
        let details = reader.details();
        details.path.active().map_or(0, sum) + details.since.as_nanos() + u64::from(details.reason.is_some())
    });
}

/// The least that gives 32 bytes which belong together.
#[derive(Default)]
struct SequenceLock {
    version: AtomicU64,
    words: [AtomicU64; 4],
}

impl SequenceLock {
    fn read(&self, iterations: u64) {
        repeat(iterations, || {
            loop {
                let version = self.version.load(Ordering::Acquire);
                let sum = self.words.iter().fold(0_u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
                fence(Ordering::Acquire);
                if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                    return sum;
                }
            }
        });
    }
}

/// What others would publish: endpoint, epoch, whether to halt.
struct Published {
    _endpoint: u64,
    _epoch: u64,
    halt: bool,
}

impl Published {
    const OPEN: Self = Self { _endpoint: 0, _epoch: 1, halt: false };
}

fn swapped() -> ArcSwap<Published> {
    ArcSwap::new(Arc::new(Published::OPEN))
}

fn read_swapped(swapped: &ArcSwap<Published>, iterations: u64) {
    repeat(iterations, || swapped.load().halt.into());
}

fn watched() -> (watch::Sender<Published>, watch::Receiver<Published>) {
    watch::channel(Published::OPEN)
}

fn read_watched((_, receiver): &(watch::Sender<Published>, watch::Receiver<Published>), iterations: u64) {
    repeat(iterations, || receiver.borrow().halt.into());
}

fn breaker() -> impl CircuitBreaker + Sync + 'static {
    let backoff = failsafe::backoff::constant(Duration::from_secs(60));
    let policy = failsafe::failure_policy::consecutive_failures(3, backoff);
    failsafe::Config::new().failure_policy(policy).build()
}

fn ask_breaker(breaker: &impl CircuitBreaker, iterations: u64) {
    repeat(iterations, || breaker.is_call_permitted().into());
}

fn call_recloser(breaker: &Recloser, iterations: u64) {
    repeat(iterations, || breaker.call(|| Ok::<u64, ()>(1)).unwrap_or(0));
}
