//! The manager: what it counts, publishes and tells, and that many threads at once neither tear nor lose anything.

// Its one test runs it.
#[path = "../../examples/embed.rs"]
mod embed;
mod events;
mod probes;
mod published;
mod threads;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::manager::{Clock, Manager, Probe, ProbeError};

const EAST: EndpointId = EndpointId::from_index(0);
const WEST: EndpointId = EndpointId::from_index(1);
const NOBODY: EndpointId = EndpointId::from_index(9);

const STARTING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Starting };
const SWITCHING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Switching };
const RECONCILING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Reconciling };
const NO_TARGET: OrderFlow = OrderFlow::Halt { code: HaltCode::NoTargetAvailable };
const ORDERED: OrderFlow = OrderFlow::Halt { code: HaltCode::Operator };

/// A clock that stands still until it is set.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(SeqCst))
    }
}

impl Hand {
    fn set(&self, nanos: u64) {
        self.0.store(nanos, SeqCst);
    }
}

fn east_and_west(settings: PolicySettings) -> Engine {
    let mut engine = Engine::new(Policy::new(settings).unwrap());
    engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).unwrap();
    engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).unwrap();
    engine
}

fn managed<P: Probe>(probe: P) -> Manager<P, Hand> {
    Manager::with_clock(east_and_west(PolicySettings::default()), probe, Hand::default())
}

/// A manager whose results come from outside, at a threshold of 1.
fn fed(clock: Hand) -> Manager<impl Probe, Hand> {
    let settings = PolicySettings { failure_threshold: 1, ..Default::default() };
    Manager::with_clock(east_and_west(settings), |_: &Endpoint| Ok(()), clock)
}

fn success(manager: &Manager<impl Probe, impl Clock>, id: EndpointId) {
    let _ = manager.record_probe(id, ProbeResult::Success).unwrap();
}

fn failure(manager: &Manager<impl Probe, impl Clock>, id: EndpointId) {
    let _ = manager.record_probe(id, ProbeResult::FAILED).unwrap();
}

fn engine_of(manager: &Manager<impl Probe, impl Clock>) -> Engine {
    manager.read(|engine, _| engine.clone())
}

fn health_of(manager: &Manager<impl Probe, impl Clock>, id: EndpointId) -> Health {
    manager.read(|engine, _| engine.health(id).unwrap().clone())
}

fn error_of(manager: &Manager<impl Probe, impl Clock>, id: EndpointId) -> String {
    health_of(manager, id).last_probe_error().unwrap().to_owned()
}

/// Runs `test` on a thread of its own. It is bounded by what it does; this only turns a deadlock into a failure.
fn watched<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let running = thread::spawn(move || done.send(test()).unwrap());
    match result.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(running.join().unwrap_err()),
        Err(RecvTimeoutError::Timeout) => panic!("deadlock"),
    }
}

fn move_to(manager: &Manager<impl Probe, impl Clock>, url: &str) {
    manager.update_endpoint("west", EndpointUpdate { url: Some(url.into()), ..Default::default() }).unwrap();
}

/// Says when it was entered, and answers when it is told how, or when nobody is left to tell.
struct Slow {
    entered: Sender<()>,
    answer: Mutex<Receiver<Result<(), ProbeError>>>,
}

impl Slow {
    fn new() -> (Self, Receiver<()>, Sender<Result<(), ProbeError>>) {
        let ((entered, is_entered), (answer, answers)) = (channel(), channel());
        (Self { entered, answer: Mutex::new(answers) }, is_entered, answer)
    }
}

impl Probe for Slow {
    fn probe(&self, _: &Endpoint) -> Result<(), ProbeError> {
        self.entered.send(()).unwrap();
        self.answer.lock().unwrap().recv().unwrap_or(Err(ProbeError::Aborted))
    }
}
