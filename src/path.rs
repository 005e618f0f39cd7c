//! The published path: what the order path reads, without a lock and without a clock.
//!
//! Everything that matters before an order leaves (which endpoint, which epoch, what order flow permits) is one
//! 64-bit word, so that no part of it can be torn from another and reading it costs one atomic load. When and why
//! it last changed stands beside it, in two slots that the writer fills in turn: a writer that is preempted halfway
//! never delays a reader.
//!
//! A word can be outdated by the time the order is on the wire: the epoch must travel with the order to whatever
//! sends it, and the broker-side fence is the real guard.

#[cfg(loom)]
use loom::sync::Arc;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::engine::{EndpointId, Engine, Epoch, HaltCode, HoldReason, OrderAction, OrderFlow, Reason, Timestamp};

/// One reading of the published path: endpoint, epoch and order flow, as of one moment.
///
/// Layout, from the lowest bit: endpoint 16, order flow 3 (the highest of them set: a halt), cancels allowed 1,
/// epoch 44. An endpoint of all ones: none is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "orders must not be sent against the path"]
pub struct Path(u64);

/// The active endpoint and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActivePath {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Its epoch. Send it along with every order, and refuse an order of another epoch where it leaves.
    pub epoch: Epoch,
}

const NO_ENDPOINT: u64 = 0xffff;
const FLOW_SHIFT: u32 = 16;
const HALT: u64 = 1 << 18;
const CANCELS: u64 = 1 << 19;
const EPOCH_SHIFT: u32 = 20;

const FLOW_OPEN: u64 = 0;
const FLOW_STARTING: u64 = 1;
const FLOW_SWITCHING: u64 = 2;
const FLOW_RECONCILING: u64 = 3;
const FLOW_NO_TARGET: u64 = 4;
const FLOW_OPERATOR: u64 = 5;
const FLOW_CALLER: u64 = 6;

impl Path {
    /// What `engine` would publish.
    pub(crate) fn of(engine: &Engine) -> Self {
        let flow = match engine.order_flow() {
            OrderFlow::Open { .. } => FLOW_OPEN,
            OrderFlow::Hold { reason: HoldReason::Starting } => FLOW_STARTING,
            OrderFlow::Hold { reason: HoldReason::Switching } => FLOW_SWITCHING,
            OrderFlow::Hold { reason: HoldReason::Reconciling } => FLOW_RECONCILING,
            OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => FLOW_NO_TARGET,
            OrderFlow::Halt { code: HaltCode::Operator } => FLOW_OPERATOR,
            OrderFlow::Halt { code: HaltCode::Caller } => FLOW_CALLER,
        };
        let endpoint = engine.active().map_or(NO_ENDPOINT, |id| id.index() as u64);
        let epoch = engine.epoch().map_or(0, Epoch::get);
        let cancels = if engine.permits(OrderAction::Cancel) { CANCELS } else { 0 };
        Self(epoch << EPOCH_SHIFT | cancels | flow << FLOW_SHIFT | endpoint)
    }

    /// The same path while it is being left: nothing may be done there any more.
    #[cfg(feature = "supervisor")]
    pub(crate) const fn closed(self) -> Self {
        let flow = if self.must_halt() { self.0 & 7 << FLOW_SHIFT } else { FLOW_SWITCHING << FLOW_SHIFT };
        Self(self.0 & !(7 << FLOW_SHIFT | CANCELS) | flow)
    }

    /// The active endpoint and its epoch; `None` before a primary was registered.
    #[inline]
    #[must_use]
    pub const fn active(self) -> Option<ActivePath> {
        let endpoint = EndpointId::from_index((self.0 & NO_ENDPOINT) as u16);
        match Epoch::new(self.0 >> EPOCH_SHIFT) {
            Some(epoch) => Some(ActivePath { endpoint, epoch }),
            None => None,
        }
    }

    /// Order flow. The words of an ordered halt are the manager's to tell.
    #[inline]
    pub const fn order_flow(self) -> OrderFlow {
        // Nearly always, and first for that.
        if let Some(ActivePath { endpoint, epoch }) = self.open() {
            return OrderFlow::Open { endpoint, epoch };
        }
        match self.0 >> FLOW_SHIFT & 7 {
            FLOW_SWITCHING => OrderFlow::Hold { reason: HoldReason::Switching },
            FLOW_RECONCILING => OrderFlow::Hold { reason: HoldReason::Reconciling },
            FLOW_NO_TARGET => OrderFlow::Halt { code: HaltCode::NoTargetAvailable },
            FLOW_OPERATOR => OrderFlow::Halt { code: HaltCode::Operator },
            FLOW_CALLER => OrderFlow::Halt { code: HaltCode::Caller },
            _ => OrderFlow::Hold { reason: HoldReason::Starting },
        }
    }

    /// Whether trading must halt.
    #[inline]
    #[must_use]
    pub const fn must_halt(self) -> bool {
        self.0 & HALT != 0
    }

    /// The path on which new orders may be sent now; `None` while flow is held or halted.
    #[inline]
    #[must_use]
    pub const fn open(self) -> Option<ActivePath> {
        if self.0 >> FLOW_SHIFT & 7 == FLOW_OPEN { self.active() } else { None }
    }

    /// Whether `action` is allowed on the active path.
    #[inline]
    #[must_use]
    pub const fn permits(self, action: OrderAction) -> bool {
        match action {
            OrderAction::Cancel => self.0 & CANCELS != 0,
            OrderAction::Submit | OrderAction::Query => self.order_flow().permits(action, false),
        }
    }
}

/// The published path with its circumstances. While a change is being published it may still tell of the path before:
/// decide about orders by [`PathReader::path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathDetails {
    /// The path.
    pub path: Path,
    /// When endpoint, epoch and order flow became so, on the manager's clock. Whether a halt allows cancels follows
    /// the health of the active path, and may have changed since.
    pub since: Timestamp,
    /// The reason of the decision that made it so; `None` where no decision did (a probe that opened flow, a
    /// reconciliation, a halt).
    pub reason: Option<Reason>,
}

#[derive(Debug)]
struct Shared {
    word: AtomicU64,
    /// How often details were published; its lowest bit says in which slot the latest are.
    version: AtomicU64,
    details: [[AtomicU64; 3]; 2],
}

/// The one writer.
#[derive(Debug)]
pub(crate) struct PathPublisher {
    shared: Arc<Shared>,
    published: PathDetails,
    version: u64,
}

/// A reader of the published path; clone one for each thread of the order path.
#[derive(Clone, Debug)]
pub struct PathReader {
    shared: Arc<Shared>,
}

/// A writer and a first reader of `path`.
pub(crate) fn publish(path: Path, since: Timestamp) -> (PathPublisher, PathReader) {
    let slot = || [AtomicU64::new(path.0), AtomicU64::new(since.as_nanos()), AtomicU64::new(0)];
    let shared =
        Arc::new(Shared { word: AtomicU64::new(path.0), version: AtomicU64::new(0), details: [slot(), slot()] });
    let published = PathDetails { path, since, reason: None };
    (PathPublisher { shared: Arc::clone(&shared), published, version: 0 }, PathReader { shared })
}

impl PathPublisher {
    /// Publishes `path` if it differs from what is published.
    #[inline]
    pub(crate) fn publish(&mut self, path: Path, now: Timestamp, reason: Option<Reason>) {
        let changed = path.0 ^ self.published.path.0;
        if changed == 0 {
            return;
        }
        // Cancels come and go with the probes of a halted path; they must not hide since when and why it is halted.
        let PathDetails { since, reason: known, .. } = self.published;
        let (since, reason) = if changed == CANCELS { (since, known) } else { (now, reason) };
        self.published = PathDetails { path, since, reason };
        self.shared.word.store(path.0, Ordering::Release);
        self.version = self.version.wrapping_add(1);
        // A reader that sees any of the values below must also see the version that was published before them, and
        // with it that the slot it is reading is not the latest any more.
        fence(Ordering::Release);
        let values = [path.0, since.as_nanos(), encode(reason)];
        for (slot, value) in self.shared.slot(self.version).iter().zip(values) {
            slot.store(value, Ordering::Relaxed);
        }
        self.shared.version.store(self.version, Ordering::Release);
    }
}

impl Shared {
    #[inline]
    fn slot(&self, version: u64) -> &[AtomicU64; 3] {
        let [even, odd] = &self.details;
        if version & 1 == 0 { even } else { odd }
    }
}

impl PathReader {
    /// The path now: one atomic load.
    #[inline]
    pub fn path(&self) -> Path {
        Path(self.shared.word.load(Ordering::Acquire))
    }

    /// The active endpoint and its epoch, which cannot be torn.
    #[inline]
    #[must_use]
    pub fn active(&self) -> Option<ActivePath> {
        self.path().active()
    }

    /// Order flow.
    #[inline]
    pub fn order_flow(&self) -> OrderFlow {
        self.path().order_flow()
    }

    /// Whether trading must halt.
    #[inline]
    #[must_use]
    pub fn must_halt(&self) -> bool {
        self.path().must_halt()
    }

    /// Whether `path` still is the path on which orders may be sent: the check to repeat just before the write.
    #[inline]
    #[must_use]
    pub fn still_open(&self, path: ActivePath) -> bool {
        self.path().open() == Some(path)
    }

    /// The path with when and why it became so. Repeats only while two changes are published during one read.
    #[inline]
    #[must_use]
    pub fn details(&self) -> PathDetails {
        loop {
            let version = self.shared.version.load(Ordering::Acquire);
            let [word, since, reason] = self.shared.slot(version);
            let (word, since, reason) =
                (word.load(Ordering::Relaxed), since.load(Ordering::Relaxed), reason.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if self.shared.version.load(Ordering::Relaxed) == version {
                return PathDetails { path: Path(word), since: Timestamp::from_nanos(since), reason: decode(reason) };
            }
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }
}

/// 0: none; otherwise one more than the place in [`Reason::ALL`].
fn encode(reason: Option<Reason>) -> u64 {
    let place = reason.and_then(|reason| Reason::ALL.iter().position(|one| *one == reason));
    place.map_or(0, |place| place as u64 + 1)
}

fn decode(code: u64) -> Option<Reason> {
    let place = usize::try_from(code.checked_sub(1)?).ok()?;
    Reason::ALL.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Endpoint, FenceStatus, HaltOrder, Policy, PolicySettings, ProbeResult};

    #[test]
    fn the_word_says_what_the_engine_says() {
        let mut engine =
            Engine::new(Policy::new(PolicySettings { failure_threshold: 1, ..Default::default() }).unwrap());
        let same = |engine: &Engine| {
            let path = Path::of(engine);
            assert_eq!(path.active().map(|active| active.endpoint), engine.active());
            assert_eq!(path.active().map(|active| active.epoch), engine.epoch());
            assert_eq!(path.order_flow(), engine.order_flow());
            assert_eq!(path.must_halt(), engine.order_flow().is_halt());
            for action in [OrderAction::Submit, OrderAction::Cancel, OrderAction::Query] {
                assert_eq!(path.permits(action), engine.permits(action), "{action:?} in {:?}", engine.order_flow());
            }
            assert_eq!(path.open().is_some(), engine.permits(OrderAction::Submit));
        };
        let now = Timestamp::ZERO;
        same(&engine);
        let east = engine.register(Endpoint::primary("east", "r", "u")).unwrap();
        let west = engine.register(Endpoint::backup("west", "r", "u", 1)).unwrap();
        same(&engine);
        let _ = engine.record_probe(now, east, ProbeResult::Success).unwrap();
        same(&engine);
        let _ = engine.halt(HaltOrder::operator("desk"));
        same(&engine);
        let _ = engine.halt(HaltOrder::new("HOLD_EXPIRED", "").unwrap());
        same(&engine);
        let _ = engine.resume().unwrap();
        same(&engine);
        let _ = engine.record_probe(now, east, ProbeResult::FAILED).unwrap();
        let _ = engine.evaluate_failover(now, FenceStatus::Unconfirmed).unwrap();
        same(&engine);
        let _ = engine.record_probe(now, west, ProbeResult::Success).unwrap();
        let fence = engine.evaluate_failover(now, FenceStatus::Unconfirmed).unwrap().fence().unwrap();
        same(&engine);
        let _ = engine.evaluate_failover(now, fence.confirm()).unwrap();
        same(&engine);
        let _ = engine.fence_started(2).unwrap();
        same(&engine);
    }

    #[test]
    fn every_reason_survives_publication() {
        for reason in Reason::ALL.into_iter().map(Some).chain([None]) {
            assert_eq!(decode(encode(reason)), reason);
        }
        assert_eq!(decode(u64::MAX), None);
    }
}

/// Every interleaving of the publisher and its readers, as far as the memory model lets them differ:
/// `RUSTFLAGS="--cfg loom" cargo test --release --lib path::`
#[cfg(all(test, loom))]
mod interleavings {
    use std::collections::BTreeSet;
    use std::sync::{Arc as Shelf, Mutex};

    use loom::thread;

    use super::*;

    const HALTED: u64 = 3;

    /// What is published in `epoch`: every part of it follows from the epoch, so that a mixture of two shows.
    fn published(epoch: u64) -> PathDetails {
        let flow = if epoch == HALTED { FLOW_NO_TARGET } else { FLOW_OPEN };
        PathDetails {
            path: Path(epoch << EPOCH_SHIFT | flow << FLOW_SHIFT | (epoch + 100)),
            since: Timestamp::from_nanos(epoch * 1_000),
            reason: Reason::ALL.get(epoch as usize).copied().filter(|_| epoch > 1),
        }
    }

    fn epoch(path: Path) -> u64 {
        let epoch = path.active().unwrap().epoch.get();
        assert_eq!(path, published(epoch).path, "torn");
        epoch
    }

    fn epoch_of_details(reader: &PathReader) -> u64 {
        let details = reader.details();
        let epoch = epoch(details.path);
        assert_eq!(details, published(epoch), "a mixture");
        epoch
    }

    /// Every interleaving; or, where there are too many, those in which threads are interrupted at most
    /// `interruptions` times.
    fn interleave(interruptions: impl Into<Option<usize>>, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = interruptions.into();
        builder.check(model);
    }

    /// Publishes the epochs 2 to `last` on another thread while `read` runs on this one. Returns all that was ever
    /// read, which shows that the interleavings that matter were among those that were tried.
    fn while_publishing<T: Ord + Send + 'static>(
        last: u64,
        interruptions: impl Into<Option<usize>>,
        read: impl Fn(&PathReader) -> T + Send + Sync + 'static,
    ) -> BTreeSet<T> {
        let readings = Shelf::new(Mutex::new(BTreeSet::new()));
        let shelf = Shelf::clone(&readings);
        interleave(interruptions, move || {
            let PathDetails { path, since, .. } = published(1);
            let (mut publisher, reader) = publish(path, since);
            let writer = thread::spawn(move || {
                for PathDetails { path, since, reason } in (2..=last).map(published) {
                    publisher.publish(path, since, reason);
                }
            });
            shelf.lock().unwrap().insert(read(&reader));
            writer.join().unwrap();
            assert_eq!(epoch(reader.path()), last, "what was published last is what there is to read");
            assert_eq!(epoch_of_details(&reader), last);
        });
        std::mem::take(&mut readings.lock().unwrap())
    }

    /// All triples of epochs up to `last` that never go back.
    fn rising(last: u64) -> BTreeSet<[u64; 3]> {
        let from = move |least: u64| least..=last;
        from(1).flat_map(|a| from(a).flat_map(move |b| from(b).map(move |c| [a, b, c]))).collect()
    }

    #[test]
    fn endpoint_and_epoch_are_never_torn_and_epochs_never_go_back() {
        let read = |reader: &PathReader| [(); 3].map(|()| epoch(reader.path()));
        assert_eq!(while_publishing(4, None, read), rising(4));
    }

    #[test]
    fn details_never_mix_two_publications() {
        // Three publications, so that the slot that is filled first is filled again.
        assert_eq!(while_publishing(4, None, epoch_of_details), BTreeSet::from([1, 2, 3, 4]));
    }

    #[test]
    fn details_never_go_back_and_the_path_is_never_behind_them() {
        let read = |reader: &PathReader| [epoch_of_details(reader), epoch_of_details(reader), epoch(reader.path())];
        assert_eq!(while_publishing(3, 3, read), rising(3));
    }

    #[test]
    fn whoever_knows_of_a_halt_reads_it() {
        let read = |reader: &PathReader| {
            let known = reader.details().path.must_halt() || reader.must_halt();
            let path = reader.path();
            (known, path.must_halt() && path.open().is_none())
        };
        let readings = while_publishing(HALTED, None, read);
        assert_eq!(readings, BTreeSet::from([(false, false), (false, true), (true, true)]));
    }

    #[test]
    fn what_was_done_before_flow_opened_is_visible_to_whoever_sees_it_open() {
        interleave(None, || {
            let PathDetails { path, since, .. } = published(1);
            let (mut publisher, reader) = publish(path, since);
            let transport = Arc::new(AtomicU64::new(1));
            let moved = Arc::clone(&transport);
            let writer = thread::spawn(move || {
                moved.store(2, Ordering::Relaxed);
                let PathDetails { path, since, reason } = published(2);
                publisher.publish(path, since, reason);
            });
            let open = reader.path().open().unwrap().epoch.get();
            assert!(transport.load(Ordering::Relaxed) >= open, "flow is open on a path that is not connected");
            writer.join().unwrap();
        });
    }

    #[test]
    fn two_readers_do_not_disturb_each_other() {
        interleave(2, || {
            let PathDetails { path, since, .. } = published(1);
            let (mut publisher, reader) = publish(path, since);
            let readers = [reader.clone(), reader].map(|reader| {
                thread::spawn(move || {
                    let details = epoch_of_details(&reader);
                    assert!(details <= epoch(reader.path()));
                })
            });
            for PathDetails { path, since, reason } in (2..=3).map(published) {
                publisher.publish(path, since, reason);
            }
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }
}
