//! Patience as a policy: what holds for every trigger and every history of results.
//!
//! Histories are random. How many there are of each is `BROKER_FAILOVER_CASES`, as for the scenarios of
//! `properties.rs`, but one in ten of them.

use std::time::Duration;

use broker_failover::engine::*;
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn trigger(rule: TriggerRule) -> Trigger {
    Trigger::new(rule).unwrap()
}

fn window(nanos: u64) -> Trigger {
    trigger(TriggerRule::Window(Duration::from_nanos(nanos)))
}

fn in_a_row(failures: u32) -> Trigger {
    trigger(TriggerRule::Consecutive(failures))
}

fn among(failures: u32, of: u32) -> Trigger {
    trigger(TriggerRule::Failures { failures, of })
}

/// One backup, watched by one trigger.
struct Watch {
    engine: Engine,
    id: EndpointId,
}

impl Watch {
    fn new(trigger: Trigger, change: impl FnOnce(&mut PolicySettings)) -> Self {
        let mut settings = PolicySettings { trigger: Some(trigger), ..PolicySettings::default() };
        if let TriggerRule::Consecutive(failures) = trigger.rule() {
            settings.failure_threshold = failures;
        }
        change(&mut settings);
        let mut engine = Engine::new(Policy::new(settings).unwrap());
        let id = engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).unwrap();
        Self { engine, id }
    }

    fn record(&mut self, now: u64, ok: bool) -> EndpointState {
        let result = if ok { ProbeResult::Success } else { ProbeResult::FAILED };
        self.engine.record_probe(at(now), self.id, result).unwrap().to
    }

    fn restart(&mut self, now: u64) {
        let (policy, snapshot) = (self.engine.policy().clone(), self.engine.snapshot(at(now)));
        self.engine = Engine::restore(policy, snapshot, at(now), RestartKind::Monitor).unwrap();
    }

    fn move_away(&mut self, url: u64) {
        let update = EndpointUpdate { url: Some(format!("https://{url}.example")), ..EndpointUpdate::default() };
        self.engine.update_endpoint("west", update).unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Result(bool),
    Restart,
    Moved,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        9 => proptest::bool::weighted(0.3).prop_map(Happening::Result),
        1 => Just(Happening::Restart),
        1 => Just(Happening::Moved),
    ]
}

fn any_trigger() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        (1..6_u32).prop_map(in_a_row),
        (1..30 * SECOND).prop_map(window),
        (1..9_u32, 1..9_u32).prop_map(|(one, other)| among(one.min(other), one.max(other))),
    ]
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("BROKER_FAILOVER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_u32);
    ProptestConfig { cases: (cases / 10).max(50), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_window_of_aligned_slots_is_so_many_failures_in_a_row(
        interval in 1..=30_u64,
        slots in 1..9_u32,
        history in vec(happening(), 0..80),
    ) {
        let interval = interval * SECOND;
        let mut patient = Watch::new(window(interval * u64::from(slots)), |_| ());
        let mut counting = Watch::new(in_a_row(slots + 1), |_| ());
        let mut now = 0;
        for (number, happening) in (0..).zip(history) {
            match happening {
                Happening::Result(ok) => prop_assert_eq!(patient.record(now, ok), counting.record(now, ok)),
                Happening::Restart => _ = [&mut patient, &mut counting].map(|watch| watch.restart(now)),
                Happening::Moved => _ = [&mut patient, &mut counting].map(|watch| watch.move_away(number)),
            }
            now += interval;
        }
    }

    #[test]
    fn n_failures_of_n_are_n_in_a_row(n in 1..=64_u32, history in vec((happening(), 0..99 * SECOND), 0..200)) {
        let mut patient = Watch::new(among(n, n), |_| ());
        let mut counting = Watch::new(in_a_row(n), |_| ());
        let mut now = 0;
        for (number, (happening, gap)) in (0..).zip(history) {
            now += gap;
            match happening {
                Happening::Result(ok) => prop_assert_eq!(patient.record(now, ok), counting.record(now, ok)),
                Happening::Restart => _ = [&mut patient, &mut counting].map(|watch| watch.restart(now)),
                Happening::Moved => _ = [&mut patient, &mut counting].map(|watch| watch.move_away(number)),
            }
        }
    }

    /// Each failure that is DOWN with N in a row is DOWN with K of N, and each of those with K of N has K behind it.
    #[test]
    fn k_of_n_fires_between_k_and_n_in_a_row(
        k in 1..9_u32,
        more in 0..5_u32,
        history in vec(any::<bool>(), 0..100),
    ) {
        let mut patient = Watch::new(among(k, k + more), |_| ());
        let mut hasty = Watch::new(among(k, 64), |_| ());
        let mut counting = Watch::new(in_a_row(k + more), |_| ());
        for ok in history {
            let [counted, waited, rushed] = [&mut counting, &mut patient, &mut hasty].map(|watch| watch.record(0, ok));
            prop_assert!(counted != EndpointState::Down || waited == EndpointState::Down);
            prop_assert!(waited != EndpointState::Down || rushed == EndpointState::Down);
        }
    }

    /// A restart, or another address, in the middle of whatever goes on: there are so many results before it is DOWN.
    #[test]
    fn no_trigger_fires_before_its_minimum_history(
        trigger in any_trigger(),
        more in proptest::option::of(0..6_u32),
        history in vec((happening(), 0..9 * SECOND), 0..80),
    ) {
        let minimum = more.map(|more| trigger.needs() + more);
        let mut watch = Watch::new(trigger, |settings| settings.minimum_history = minimum);
        let (mut now, mut results) = (0, 0);
        for (number, (happening, gap)) in (0..).zip(history) {
            now += gap;
            match happening {
                Happening::Result(ok) => {
                    results += 1;
                    let state = watch.record(now, ok);
                    let armed = results >= minimum.unwrap_or(trigger.needs());
                    prop_assert!(armed || state != EndpointState::Down, "DOWN with {results} results");
                }
                Happening::Restart => {
                    watch.restart(now);
                    results = 0;
                }
                Happening::Moved => {
                    watch.move_away(number);
                    results = 0;
                }
            }
        }
    }

    /// From the first failure on that an armed trigger sees, it answers as one that never had to wait.
    #[test]
    fn a_minimum_history_never_delays_an_armed_trigger(
        trigger in any_trigger(),
        more in 0..9_u32,
        history in vec((any::<bool>(), 0..=9 * SECOND), 0..80),
    ) {
        let minimum = trigger.needs() + more;
        let mut waiting = Watch::new(trigger, |settings| settings.minimum_history = Some(minimum));
        let mut at_once = Watch::new(trigger, |_| ());
        let (mut now, mut seen) = (0, false);
        for (results, (ok, gap)) in (1..).zip(history) {
            now += gap;
            let states = [&mut waiting, &mut at_once].map(|watch| watch.record(now, ok));
            seen |= results >= minimum && !ok;
            prop_assert!(!seen || states[0] == states[1], "{states:?} with {results} results");
        }
    }

    /// HEALTHY follows a success only, DEGRADED a failure only, and UNKNOWN nothing.
    #[test]
    fn the_other_states_mean_the_same_under_every_trigger(
        trigger in any_trigger(),
        history in vec((any::<bool>(), 0..99 * SECOND), 1..80),
    ) {
        let mut watch = Watch::new(trigger, |_| ());
        let mut now = 0;
        for (ok, gap) in history {
            now += gap;
            let state = watch.record(now, ok);
            let otherwise = if ok { EndpointState::Healthy } else { EndpointState::Degraded };
            prop_assert!(state == EndpointState::Down || state == otherwise);
        }
    }
}

/// A path that answers whenever the monitor runs. Ticks and results come every 100 ms, each slot has 2 s.
struct Watched {
    engine: Engine,
    ids: [EndpointId; 2],
    now: u64,
    /// Whether the slot of each is open, and when it was asked.
    asked: [Option<u64>; 2],
}

const TICK: u64 = SECOND / 10;
const SPAN: u64 = 2 * SECOND;

impl Watched {
    fn new(trigger: Trigger, silence: Silence) -> Self {
        let mut settings =
            PolicySettings { trigger: Some(trigger), silence, require_fence: false, ..Default::default() };
        if let TriggerRule::Consecutive(failures) = trigger.rule() {
            settings.failure_threshold = failures;
        }
        let mut engine = Engine::new(Policy::new(settings).unwrap());
        let east = engine.register(Endpoint::primary("east", "r", "e")).unwrap();
        let west = engine.register(Endpoint::backup("west", "r", "w", 10)).unwrap();
        Self { engine, ids: [east, west], now: 0, asked: [None, None] }
    }

    /// One tenth of a second of a running monitor. A probe takes `latency` ticks; `silent` gets no answer.
    fn run(&mut self, latency: u64, silent: Option<usize>, order: u8) {
        self.now += TICK;
        let now = at(self.now);
        for part in [order, order + 1, order + 2] {
            match part % 3 {
                0 => _ = self.engine.tick(now),
                1 => {
                    for (place, id) in self.ids.into_iter().enumerate() {
                        let is_in = self.asked[place].is_some_and(|asked| self.now >= asked + latency * TICK);
                        if is_in && silent != Some(place) {
                            self.engine.record_probe(now, id, ProbeResult::Success).unwrap();
                            self.asked[place] = None;
                        }
                    }
                }
                _ => {
                    for (place, id) in self.ids.into_iter().enumerate() {
                        if self.now % SPAN == place as u64 * SECOND {
                            _ = self.engine.due(now, id, Duration::from_nanos(SPAN)).unwrap();
                            self.asked[place].get_or_insert(self.now);
                        }
                    }
                }
            }
        }
    }

    fn switched(&mut self) -> bool {
        self.engine.evaluate_failover(at(self.now), FenceStatus::Unconfirmed).unwrap().event().is_some()
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Both paths answer whenever anybody asks. The monitor stops again and again, for at least the span of a slot, and
    /// whatever it does first when it wakes: nothing is switched, whatever silence means and the trigger says.
    #[test]
    fn a_stopped_monitor_never_causes_a_switch(
        trigger in any_trigger(),
        failure in any::<bool>(),
        latency in 1..19_u64,
        stretches in vec((1..80_u32, SPAN..100 * SPAN, 0..3_u8), 1..8),
    ) {
        let mut world = Watched::new(trigger, if failure { Silence::Failure } else { Silence::Note });
        for (ticks, stop, order) in stretches {
            for _ in 0..ticks {
                world.run(latency, None, order);
                prop_assert!(!world.switched(), "at {}", world.now);
                for id in world.ids {
                    let state = world.engine.health(id).unwrap().state();
                    prop_assert!(matches!(state, EndpointState::Healthy | EndpointState::Unknown), "{state} at {}", world.now);
                }
            }
            // It goes on in step with its slots; an answer that came meanwhile is still there, or is lost.
            world.now += stop / SPAN * SPAN;
            if order == 1 {
                world.asked = [None, None];
            }
        }
    }

    /// A path that gives no answer is left under every trigger if silence is a failure, and never if it is a note.
    #[test]
    fn silence_of_one_path_is_what_the_policy_says(trigger in any_trigger(), failure in any::<bool>(), order in 0..3_u8) {
        let mut world = Watched::new(trigger, if failure { Silence::Failure } else { Silence::Note });
        for _ in 0..40 {
            world.run(1, None, order);
        }
        let mut switched = false;
        for _ in 0..60 * 10 {
            world.run(1, Some(0), order);
            switched |= world.switched();
        }
        prop_assert_eq!(switched, failure);
    }
}

#[test]
fn an_endpoints_own_trigger_outranks_the_policy() {
    let mut engine = Engine::new(Policy::default());
    let east = engine.register(Endpoint::primary("east", "r", "e").with_trigger(in_a_row(1))).unwrap();
    let west = engine.register(Endpoint::backup("west", "r", "w", 10)).unwrap();
    let mut fail = |id| engine.record_probe(at(0), id, ProbeResult::FAILED).unwrap().to;
    assert_eq!([fail(east), fail(west)], [EndpointState::Down, EndpointState::Degraded]);
    // It outlives a restart, and a change of anything else.
    let snapshot = engine.snapshot(at(0));
    let mut engine = Engine::restore(Policy::default(), snapshot, at(0), RestartKind::Gateway).unwrap();
    engine.update_endpoint("east", EndpointUpdate { priority: Some(7), ..EndpointUpdate::default() }).unwrap();
    assert_eq!(engine.record_probe(at(0), east, ProbeResult::FAILED).unwrap().to, EndpointState::Down);
}

#[test]
fn another_trigger_is_armed_anew_and_the_same_one_is_not() {
    let change = |trigger| EndpointUpdate { trigger: Some(trigger), ..EndpointUpdate::default() };
    for (new, state) in [(in_a_row(3), EndpointState::Down), (in_a_row(2), EndpointState::Degraded)] {
        let mut watch = Watch::new(in_a_row(3), |_| ());
        watch.record(0, false);
        watch.record(0, false);
        watch.engine.update_endpoint("west", change(new)).unwrap();
        assert_eq!(watch.record(0, false), state, "{new:?}");
        assert_eq!(watch.record(0, false), EndpointState::Down, "{new:?}");
    }
}

#[cfg(feature = "scenario")]
#[test]
fn a_snapshot_without_triggers_is_what_it_was_and_one_with_them_comes_back() {
    let mut engine = Engine::new(Policy::default());
    engine.register(Endpoint::primary("east", "r", "e")).unwrap();
    let text = serde_json::to_string(&engine.snapshot(at(0))).unwrap();
    assert!(!text.contains("trigger"), "{text}");
    for own in [in_a_row(7), window(60 * SECOND), among(3, 5)] {
        let mut engine = Engine::new(Policy::default());
        engine.register(Endpoint::primary("east", "r", "e").with_trigger(own)).unwrap();
        let snapshot = engine.snapshot(at(0));
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot, "{text}");
    }
    let refused = text.replace("\"priority\":0", "\"priority\":0,\"trigger\":{\"failures\":5,\"of\":3}");
    let refused = serde_json::from_str::<Snapshot>(&refused).unwrap_err().to_string();
    assert!(refused.contains("failures is 5; expected at most of, which is 3"), "{refused}");
}
