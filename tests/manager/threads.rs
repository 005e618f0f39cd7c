//! Many threads at once.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32};

use broker_failover::manager::{ProbeAborted, ProbeFault};
use broker_failover::path::{ActivePath, Path, PathDetails};

use super::*;

/// Every moment is told once, and to one caller at a time: two that could overtake each other would bring their inputs
/// to the engine in another order than that of their times.
#[derive(Default)]
struct Ticks {
    next: AtomicU64,
    busy: AtomicBool,
}

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        assert!(!self.busy.swap(true, SeqCst), "two threads read the clock at once");
        let now = self.next.fetch_add(1, SeqCst);
        if now % 256 == 0 {
            thread::yield_now();
        }
        self.busy.store(false, SeqCst);
        Timestamp::from_nanos(now)
    }
}

const CYCLES: u32 = 120;
const READERS: usize = 2;
const STEADY: EndpointId = EndpointId::from_index(3);
const CRASHING: EndpointId = EndpointId::from_index(4);
const HANGING: EndpointId = EndpointId::from_index(5);

/// Tries until there is an answer, so often that any scheduler lets the others go on meanwhile.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_000_000 {
        if let Some(answer) = attempt() {
            return answer;
        }
        thread::yield_now();
    }
    panic!("no progress")
}

/// Returns after every reader has read once more.
fn let_all_read(rounds: &[AtomicU64; READERS]) {
    for round in rounds {
        let before = round.load(SeqCst);
        until(|| (round.load(SeqCst) > before).then_some(()));
    }
}

/// What surrounds the manager: which of the paths that trade answer, and how far its readers are.
#[derive(Default)]
struct World {
    up: [AtomicBool; 3],
    over: AtomicBool,
    rounds: [AtomicU64; READERS],
}

/// Ends the world even if its owner panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The one thread that decides. It writes down which switches there truly were.
struct Evaluator<'a, P> {
    manager: &'a Manager<P, Ticks>,
    world: &'a World,
    switches: Vec<HistoryEntry>,
}

impl<P: Probe> Evaluator<'_, P> {
    fn active(&self) -> ActivePath {
        self.manager.active().unwrap()
    }

    fn probe_all(&self) {
        for id in (0..3).map(EndpointId::from_index) {
            let _ = self.manager.probe(id).unwrap();
        }
    }

    fn note(&mut self, decision: &FailoverDecision) -> Option<u64> {
        let event = *decision.event()?;
        let before = self.switches.last().map_or((EAST, 1), |last| (last.event.to, last.event.epoch.get()));
        assert_eq!((event.from, event.epoch.get()), (before.0, before.1 + 1));
        assert_eq!(self.active(), ActivePath { endpoint: event.to, epoch: event.epoch });
        self.switches.push(HistoryEntry { event, applied: true });
        Some(event.epoch.get())
    }

    fn reconcile(&self, epoch: u64) {
        let _ = self.manager.confirm_reconciled(epoch - 1).unwrap_err();
        let _ = self.manager.confirm_reconciled(epoch).unwrap();
        // A late failure may have come between: then the next success opens.
        until(|| {
            self.probe_all();
            self.manager.permits(OrderAction::Submit).then_some(())
        });
        assert!(self.manager.reader().still_open(self.active()));
    }

    /// The active path is lost: fence it and move. Late results of other threads may ask for patience.
    fn fail_over(&mut self, lost: ActivePath) -> u64 {
        let fence = until(|| {
            self.probe_all();
            self.manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap().fence()
        });
        assert_eq!((fence.endpoint, fence.epoch), (lost.endpoint, lost.epoch));
        let _ = self.manager.fence_started(fence.epoch.get()).unwrap();
        until(|| {
            self.probe_all();
            let decision = self.manager.evaluate_failover(fence.confirm()).unwrap();
            self.note(&decision)
        })
    }

    fn cycle(&mut self, number: u32) {
        let path = self.active();
        let up = &self.world.up[path.endpoint.index()];
        match number % 5 {
            // The path dies.
            0 | 1 => {
                up.store(false, SeqCst);
                let epoch = self.fail_over(path);
                up.store(true, SeqCst);
                let stale = FenceStatus::Confirmed { endpoint: path.endpoint, epoch: path.epoch.get() };
                assert_eq!(self.manager.evaluate_failover(stale).unwrap_err().code(), "STALE_FENCE");
                self.reconcile(epoch);
            }
            // It dies, and the switch away from it fails: it is left again.
            2 => {
                up.store(false, SeqCst);
                let epoch = self.fail_over(path);
                let _ = self.manager.switch_failed(epoch).unwrap();
                self.switches.last_mut().unwrap().applied = false;
                up.store(true, SeqCst);
                let epoch = self.fail_over(self.active());
                self.reconcile(epoch);
            }
            // A fence was begun and could not be completed, and the path works.
            3 => {
                let _ = self.manager.fence_started(path.epoch.get()).unwrap();
                let epoch = until(|| {
                    self.probe_all();
                    let decision = self.manager.rearm().ok()?;
                    self.note(&decision)
                });
                self.reconcile(epoch);
            }
            // A person halts trading for a while.
            _ => {
                let _ = self.manager.halt(HaltOrder::operator("desk"));
                assert!(self.manager.must_halt());
                let _ = self.manager.resume().unwrap();
                self.reconcile(path.epoch.get());
            }
        }
        let_all_read(&self.world.rounds);
    }
}

/// What a reader saw: epoch by epoch the endpoint, and moment by moment the details.
#[derive(Default)]
struct Seen {
    pairs: BTreeSet<(Epoch, EndpointId)>,
    details: BTreeMap<Timestamp, (Option<ActivePath>, OrderFlow, Option<Reason>)>,
    states: BTreeSet<&'static str>,
}

impl Seen {
    fn path(&mut self, path: Path) -> ActivePath {
        let active = path.active().unwrap();
        self.pairs.insert((active.epoch, active.endpoint));
        let state = match path.order_flow() {
            OrderFlow::Open { endpoint, epoch } => {
                assert_eq!(ActivePath { endpoint, epoch }, active);
                "open"
            }
            OrderFlow::Hold { reason } => reason.name(),
            OrderFlow::Halt { .. } => "halt",
        };
        self.states.insert(state);
        assert_eq!(path.must_halt(), state == "halt");
        assert_eq!(path.open().is_some(), state == "open");
        active
    }

    /// Each reason leads to one state only: a word and a reason of two changes would show.
    fn details(&mut self, details: PathDetails) {
        let PathDetails { path, since, reason } = details;
        let flow = path.order_flow();
        let fits = match reason {
            None => flow != NO_TARGET,
            Some(Reason::NoEligibleTarget) => flow == NO_TARGET,
            Some(Reason::FenceNotConfirmed) => flow == SWITCHING,
            Some(
                Reason::ActiveDown
                | Reason::EpochSpent
                | Reason::ActiveProven
                | Reason::ActiveHealthy
                | Reason::OperatorRearm,
            ) => flow == RECONCILING,
            Some(_) => false,
        };
        assert!(fits, "{flow:?} for {reason:?}");
        let whole = (path.active(), flow, reason);
        assert_eq!(*self.details.entry(since).or_insert(whole), whole, "two changes at {since:?}");
    }

    fn all(manager: &Manager<impl Probe, Ticks>, world: &World, round: &AtomicU64) -> Self {
        let (reader, mut seen) = (manager.reader(), Self::default());
        let (mut epoch, mut since, mut epoch_of_details) = (Epoch::FIRST, Timestamp::ZERO, Epoch::FIRST);
        while !world.over.load(SeqCst) {
            for path in [reader.path(), reader.path()] {
                let active = seen.path(path);
                assert!(epoch <= active.epoch, "the epoch went back");
                epoch = active.epoch;
            }
            let active = manager.active().unwrap();
            assert!(epoch <= active.epoch);
            if reader.still_open(active) {
                seen.pairs.insert((active.epoch, active.endpoint));
            }
            let details = reader.details();
            seen.details(details);
            let told = seen.path(details.path);
            assert!(since <= details.since && epoch_of_details <= told.epoch, "the details went back");
            (since, epoch_of_details) = (details.since, told.epoch);
            epoch = seen.path(reader.path()).epoch;
            assert!(told.epoch <= epoch, "the path is behind its details");
            if round.fetch_add(1, SeqCst) % 64 == 63 {
                thread::yield_now();
            }
        }
        seen
    }
}

#[test]
fn many_threads_tear_nothing_lose_nothing_and_do_not_deadlock() {
    watched(|| {
        let (hanging, entered, answer) = Slow::new();
        let world = World { up: [true, true, true].map(AtomicBool::new), ..World::default() };
        let [steady_calls, crashes] = [(); 2].map(|()| AtomicU32::new(0));
        let settings = PolicySettings {
            failure_threshold: 2,
            failback_success_threshold: 1,
            history_limit: 10_000,
            ..Default::default()
        };
        let mut engine = east_and_west(settings);
        for (name, trades) in [("north", true), ("steady", false), ("crashing", false), ("hanging", false)] {
            engine.register(Endpoint::backup(name, "r", "u", 20)).unwrap();
            engine.set_maintenance(name, !trades).unwrap();
        }
        let paths = ["east", "west", "north"];
        let probe = |endpoint: &Endpoint| match endpoint.name.as_str() {
            // Every fifth probe is interrupted.
            "steady" if steady_calls.fetch_add(1, SeqCst) % 5 == 0 => Err(ProbeError::Aborted),
            "steady" => Ok(()),
            "crashing" if crashes.fetch_add(1, SeqCst) == 0 => panic!("crash"),
            // The same without a word from the panic hook, which takes long.
            "crashing" => resume_unwind(Box::new("crash")),
            "hanging" => hanging.probe(endpoint),
            path => {
                let up = paths.iter().position(|name| *name == path).is_some_and(|path| world.up[path].load(SeqCst));
                if up { Ok(()) } else { Err(ProbeError::failed("closed")) }
            }
        };
        let manager = Manager::with_clock(engine, probe, Ticks::default());
        for id in [EAST, WEST] {
            let _ = manager.probe(id).unwrap();
        }

        let (counted, switches, seen) = thread::scope(|threads| {
            let _ending = Ending(&world.over);
            let hung = threads.spawn(|| manager.probe(HANGING).unwrap());
            entered.recv().unwrap();
            let answer = answer;
            let steady = [(); 3].map(|()| {
                threads.spawn(|| {
                    let probed = (0..1_000).filter(|_| match manager.probe(STEADY) {
                        Ok(change) => change.to == EndpointState::Healthy,
                        Err(fault) => fault != ProbeFault::Aborted(ProbeAborted),
                    });
                    let recorded = (0..1_000).filter(|_| manager.record_probe(STEADY, ProbeResult::Success).is_ok());
                    probed.count() + recorded.count()
                })
            });
            let crashing =
                [(); 2].map(|()| threads.spawn(|| (0..500).filter(|_| manager.probe(CRASHING).is_ok()).count()));
            let flapping = [(); 2].map(|()| {
                threads.spawn(|| {
                    while !world.over.load(SeqCst) {
                        for id in (0..3).map(EndpointId::from_index) {
                            let _ = manager.probe(id).unwrap();
                        }
                        thread::yield_now();
                    }
                })
            });
            let readers = world.rounds.each_ref().map(|round| {
                let (manager, world) = (&manager, &world);
                threads.spawn(move || Seen::all(manager, world, round))
            });

            let mut evaluator = Evaluator { manager: &manager, world: &world, switches: Vec::new() };
            (0..CYCLES).for_each(|number| evaluator.cycle(number));
            let counted = [
                steady.map(|thread| thread.join().unwrap()).iter().sum::<usize>(),
                crashing.map(|thread| thread.join().unwrap()).iter().sum(),
            ];
            // All that while one probe hung, and nobody noticed but its caller.
            assert!(!hung.is_finished());
            assert_eq!(health_of(&manager, HANGING), Health::default());
            answer.send(Ok(())).unwrap();
            assert_eq!(hung.join().unwrap().to, EndpointState::Healthy);
            world.over.store(true, SeqCst);
            flapping.into_iter().for_each(|thread| thread.join().unwrap());
            (counted, evaluator.switches, readers.map(|thread| thread.join().unwrap()))
        });

        // No result is lost, and none counts twice.
        assert_eq!(counted, [3 * (1_000 + 1_000) - 3_000 / 5, 2 * 500]);
        let (steady, crashing) = (health_of(&manager, STEADY), health_of(&manager, CRASHING));
        assert_eq!([steady.consecutive_successes(), crashing.consecutive_failures()].map(|n| n as usize), counted);
        assert_eq!(crashing.last_probe_error(), Some("panic: crash"));
        assert_eq!(health_of(&manager, HANGING).consecutive_successes(), 1);

        // The history is exactly what the evaluator was answered.
        assert_eq!(manager.read(|engine, _| engine.history().collect::<Vec<_>>()), switches);
        assert!(switches.len() >= CYCLES as usize);

        // Whatever was read was true at some time.
        let mut truth: BTreeSet<_> = switches.iter().map(|switch| (switch.event.epoch, switch.event.to)).collect();
        truth.insert((Epoch::FIRST, EAST));
        let mut moments = BTreeMap::new();
        for Seen { pairs, details, states } in seen {
            assert!(pairs.is_subset(&truth), "never published: {:?}", pairs.difference(&truth));
            assert!(pairs.len() >= CYCLES as usize / 2, "the reader slept: {}", pairs.len());
            assert!(states.contains("open"));
            for (since, whole) in details {
                assert_eq!(*moments.entry(since).or_insert(whole), whole, "two readers saw two changes at {since:?}");
            }
        }
    });
}

#[test]
fn a_path_that_moves_all_the_time_is_never_torn() {
    const MOVES: u64 = 6_000;
    watched(|| {
        let settings = PolicySettings { require_fence: false, require_reconciliation: false, ..Default::default() };
        let manager = Manager::with_clock(east_and_west(settings), |_: &Endpoint| Ok(()), Ticks::default());
        success(&manager, EAST);
        success(&manager, WEST);
        // From here on all follows from the epoch: flow is on the primary in the odd ones, and moves with each tick.
        let check = |path: Path| {
            let ActivePath { endpoint, epoch } = path.open().unwrap();
            assert_eq!(endpoint, if epoch.get() % 2 == 1 { EAST } else { WEST }, "torn in epoch {epoch}");
            epoch.get()
        };
        let world = World::default();
        let reads = thread::scope(|threads| {
            let ending = Ending(&world.over);
            let [of_paths, of_details] = &world.rounds;
            let paths = threads.spawn(|| {
                let (reader, mut epochs) = (manager.reader(), BTreeSet::from([1]));
                while !world.over.load(SeqCst) {
                    let epoch = check(reader.path());
                    assert!(epochs.last().is_some_and(|latest| *latest <= epoch), "epoch {epoch} is older");
                    epochs.insert(epoch);
                    of_paths.fetch_add(1, SeqCst);
                }
                epochs.len()
            });
            let details = threads.spawn(|| {
                let (reader, mut epochs) = (manager.reader(), BTreeSet::new());
                while !world.over.load(SeqCst) {
                    let PathDetails { path, since, reason } = reader.details();
                    let epoch = check(path);
                    assert!(epoch <= check(reader.path()));
                    if epoch > 1 {
                        assert_eq!((since.as_nanos(), reason), (epoch + 1, Some(Reason::OperatorSwitchover)));
                    }
                    epochs.insert(epoch);
                    of_details.fetch_add(1, SeqCst);
                }
                epochs.len()
            });
            for target in ["west", "east"].into_iter().cycle().take(MOVES as usize) {
                let decision = manager.switchover(target, FenceStatus::Unconfirmed).unwrap();
                assert_eq!(manager.active(), Some(ActivePath { endpoint: decision.active, epoch: decision.epoch }));
                // So that each reads something even where all take turns on one core.
                if decision.epoch.get() % 256 == 0 {
                    let_all_read(&world.rounds);
                }
            }
            drop(ending);
            [paths.join().unwrap(), details.join().unwrap()]
        });
        assert_eq!(manager.active().map(|path| path.epoch.get()), Some(MOVES + 1));
        assert!(reads.iter().all(|epochs| *epochs >= (MOVES / 256) as usize), "the readers slept: {reads:?}");
    });
}
