//! Both sides of every time boundary, on a virtual clock with durations as they are in use.

use std::time::Duration;

use broker_failover::engine::*;

const NS: u64 = 1;
const SECOND: u64 = 1_000_000_000;
const HEALTH: u64 = 30 * SECOND;
const COOLDOWN: u64 = 60 * SECOND;
const WINDOW: u64 = 3_600 * SECOND;
const END: u64 = u64::MAX;

const NO_FENCE: FenceStatus = FenceStatus::Unconfirmed;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// One failure is DOWN and one success is enough, so that only time decides; nothing needs to be fenced.
fn quick() -> PolicySettings {
    PolicySettings {
        failure_threshold: 1,
        failback_success_threshold: 1,
        max_failbacks_per_window: 2,
        require_fence: false,
        ..PolicySettings::default()
    }
}

struct Desk {
    engine: Engine,
    east: EndpointId,
    west: EndpointId,
}

impl Desk {
    fn new(settings: PolicySettings) -> Self {
        let mut engine = Engine::new(Policy::new(settings).unwrap());
        let east = engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).unwrap();
        let west = engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).unwrap();
        Self { engine, east, west }
    }

    /// Flow is on the backup since `now`, and the primary answers again.
    fn failed_over(settings: PolicySettings, now: u64) -> Self {
        let mut desk = Self::new(settings);
        desk.fail_over(now);
        desk
    }

    fn fail_over(&mut self, now: u64) {
        self.ok(now, self.west);
        self.fail(now, self.east);
        let decision = self.engine.evaluate_failover(at(now), NO_FENCE).unwrap();
        assert_eq!((decision.outcome.name(), decision.active), ("SWITCHED", self.west));
        self.ok(now, self.east);
    }

    fn ok(&mut self, now: u64, id: EndpointId) {
        self.engine.record_probe(at(now), id, ProbeResult::Success).unwrap();
    }

    fn fail(&mut self, now: u64, id: EndpointId) {
        self.engine.record_probe(at(now), id, ProbeResult::FAILED).unwrap();
    }

    fn failover(&mut self, now: u64) -> FailoverDecision {
        self.engine.evaluate_failover(at(now), NO_FENCE).unwrap()
    }

    /// Asks for a failback with fresh evidence of both endpoints.
    fn failback(&mut self, now: u64) -> FailoverDecision {
        self.ok(now, self.east);
        self.ok(now, self.west);
        self.engine.evaluate_failback(at(now), NO_FENCE).unwrap()
    }

    fn restart(&mut self, down: u64, up: u64) {
        let (policy, snapshot) = (self.engine.policy().clone(), self.engine.snapshot(at(down)));
        self.engine = Engine::restore(policy, snapshot, at(up), RestartKind::Monitor).unwrap();
    }
}

fn name(decision: FailoverDecision) -> &'static str {
    decision.outcome.name()
}

fn notes(decision: FailoverDecision) -> Vec<Note> {
    decision.notes.iter().collect()
}

const RECONCILING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Reconciling };
const SWITCHING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Switching };
const STARTING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Starting };

// Cooldown -----------------------------------------------------------------------------------------------------------

#[test]
fn a_failback_waits_until_exactly_the_cooldown_has_elapsed() {
    let start = 7 * SECOND;
    let mut desk = Desk::failed_over(quick(), start);
    for now in [start, start + NS, start + COOLDOWN - NS] {
        let decision = desk.failback(now);
        assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", Some(at(start + COOLDOWN))), "at {now}");
    }
    assert_eq!(name(desk.failback(start + COOLDOWN)), "SWITCHED");
}

#[test]
fn a_cooldown_of_zero_gates_nothing_even_in_the_nanosecond_of_the_switch() {
    let mut desk = Desk::failed_over(PolicySettings { cooldown: Duration::ZERO, ..quick() }, SECOND);
    assert_eq!(name(desk.failback(SECOND)), "SWITCHED");
}

#[test]
fn a_cooldown_never_delays_a_failover() {
    let mut desk = Desk::failed_over(quick(), SECOND);
    desk.fail(SECOND, desk.west);
    let decision = desk.failover(SECOND);
    assert_eq!((name(decision), decision.active), ("SWITCHED", desk.east));
}

#[test]
fn the_cooldown_counts_from_the_last_switch_of_any_kind() {
    let mut desk = Desk::failed_over(quick(), 0);
    let again = 50 * SECOND;
    desk.ok(again, desk.west);
    assert_eq!(desk.engine.switch_failed(2), Ok(SWITCHING));
    assert_eq!(name(desk.engine.rearm(at(again)).unwrap()), "SWITCHED");
    assert_eq!(desk.failback(COOLDOWN).earliest(), Some(at(again + COOLDOWN)));
    assert_eq!(name(desk.failback(again + COOLDOWN - NS)), "COOLDOWN_ACTIVE");
    assert_eq!(name(desk.failback(again + COOLDOWN)), "SWITCHED");
}

// Cooldown that grows ------------------------------------------------------------------------------------------------

/// A failback an hour is inside the window of two hours, and doubles the cooldown of 60 s up to 200 s.
fn growing() -> PolicySettings {
    PolicySettings {
        cooldown_max: Some(Duration::from_secs(200)),
        max_failbacks_per_window: 9,
        failback_window: Duration::from_nanos(2 * WINDOW),
        ..quick()
    }
}

/// Flow goes to the backup at `now`; how long the cooldown is from then on, which is also what it names.
fn cools_for(desk: &mut Desk, now: u64) -> u64 {
    desk.fail_over(now);
    let decision = desk.failback(now);
    assert_eq!(name(decision), "COOLDOWN_ACTIVE");
    let opens = decision.earliest().unwrap().as_nanos();
    assert_eq!(name(desk.failback(opens - NS)), "COOLDOWN_ACTIVE");
    assert_eq!(name(desk.failback(opens)), "SWITCHED");
    opens - now
}

#[test]
fn each_failback_inside_the_window_doubles_the_cooldown_up_to_its_most() {
    let mut desk = Desk::new(growing());
    let cooldowns: Vec<_> = (0..5).map(|round| cools_for(&mut desk, round * 300 * SECOND) / SECOND).collect();
    assert_eq!(cooldowns, [60, 120, 200, 200, 200]);
    // When all have left the window, it is as it was.
    assert_eq!(cools_for(&mut desk, 10 * WINDOW), COOLDOWN);
}

#[test]
fn a_cooldown_shrinks_one_nanosecond_after_a_failback_left_the_window() {
    // The failback was at 60 s. It leaves the window while the cooldown of the next switch runs, doubled by it.
    let left = COOLDOWN + 2 * WINDOW + NS;
    for (switched, opens) in [
        (left - COOLDOWN - NS, left),          // 60 s are over when it leaves
        (left - COOLDOWN, left),               // and so they are here,
        (left - COOLDOWN + NS, left + NS),     // not here,
        (left - 2 * COOLDOWN, left),           // and 120 s are over when it leaves
        (left - 2 * COOLDOWN - NS, left - NS), // or before that.
    ] {
        let mut desk = Desk::new(growing());
        assert_eq!(cools_for(&mut desk, 0), COOLDOWN);
        assert_eq!(switched + cools_for(&mut desk, switched), opens, "switched at {switched}");
    }
}

#[test]
fn a_grown_cooldown_outlives_a_restart() {
    let mut desk = Desk::new(growing());
    assert_eq!(cools_for(&mut desk, 0), COOLDOWN);
    desk.fail_over(100 * SECOND);
    desk.restart(110 * SECOND, 0);
    let opens = 110 * SECOND;
    let decision = desk.failback(opens - NS);
    assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", Some(at(opens))));
    assert_eq!(name(desk.failback(opens)), "SWITCHED");
}

#[test]
fn a_grown_cooldown_delays_no_failover() {
    let mut desk = Desk::new(growing());
    assert_eq!(cools_for(&mut desk, 0), COOLDOWN);
    desk.fail_over(COOLDOWN);
    desk.fail(COOLDOWN, desk.west);
    assert_eq!(name(desk.failover(COOLDOWN)), "SWITCHED");
}

#[test]
fn a_cooldown_that_grows_to_the_end_of_time_holds_and_names_when_it_shrinks() {
    let longest = Some(Duration::from_nanos(END));
    let cooldown = Duration::from_nanos(END / 2 + 1);
    let mut desk = Desk::new(PolicySettings { cooldown_max: longest, cooldown, ..growing() });
    desk.fail_over(0);
    assert_eq!(desk.failback(0).earliest(), Some(at(END / 2 + 1)));
    assert_eq!(name(desk.failback(END / 2 + 1)), "SWITCHED");
    desk.fail_over(END / 2 + 1);
    // Twice as long would be beyond the end of time, and so is the stated one from here.
    let decision = desk.failback(END / 2 + 2);
    assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", None));
}

// Age of evidence ----------------------------------------------------------------------------------------------------

#[test]
fn a_failover_takes_a_target_of_exactly_the_greatest_age_and_none_one_nanosecond_older() {
    for (age, outcome) in [(HEALTH, "SWITCHED"), (HEALTH + NS, "NO_TARGET_AVAILABLE")] {
        let mut desk = Desk::new(quick());
        desk.ok(SECOND, desk.west);
        desk.fail(SECOND + age, desk.east);
        assert_eq!(desk.engine.eligible_targets(at(SECOND + age)).count(), usize::from(outcome == "SWITCHED"));
        assert_eq!(name(desk.failover(SECOND + age)), outcome);
    }
}

#[test]
fn a_switchover_takes_a_target_of_exactly_the_greatest_age_and_none_one_nanosecond_older() {
    let mut desk = Desk::new(quick());
    desk.ok(SECOND, desk.west);
    let stale = EngineError::TargetNotEligible {
        target: "west".into(),
        state: EndpointState::Healthy,
        fresh: false,
        maintenance: false,
        bars: Bars::NONE,
    };
    assert_eq!(desk.engine.switchover(at(SECOND + HEALTH + NS), "west", NO_FENCE), Err(stale));
    assert_eq!(name(desk.engine.switchover(at(SECOND + HEALTH), "west", NO_FENCE).unwrap()), "SWITCHED");
}

#[test]
fn a_failback_takes_a_primary_of_exactly_the_greatest_age_and_none_one_nanosecond_older() {
    let mut desk = Desk::failed_over(quick(), 0);
    desk.ok(COOLDOWN, desk.east);
    let late = desk.engine.evaluate_failback(at(COOLDOWN + HEALTH + NS), NO_FENCE).unwrap();
    assert_eq!((name(late), late.reason), ("NO_ACTION", Reason::PrimaryNotFresh));
    let in_time = desk.engine.evaluate_failback(at(COOLDOWN + HEALTH), NO_FENCE).unwrap();
    assert_eq!(name(in_time), "SWITCHED");
}

#[test]
fn an_active_path_is_called_stale_one_nanosecond_past_the_greatest_age_and_is_never_left_for_it() {
    let mut desk = Desk::new(quick());
    assert_eq!(notes(desk.failover(0)), [Note::NeverProbedActive]);
    desk.ok(SECOND, desk.east);
    assert_eq!(notes(desk.failover(SECOND + HEALTH)), []);
    for now in [SECOND + HEALTH + NS, END] {
        desk.ok(now, desk.west);
        let decision = desk.failover(now);
        assert_eq!((name(decision), notes(decision)), ("NO_ACTION", vec![Note::StaleActive]));
        assert_eq!(desk.engine.order_flow(), OrderFlow::Open { endpoint: desk.east, epoch: Epoch::FIRST });
    }
}

#[test]
fn a_reconciliation_opens_at_exactly_the_greatest_age_and_starts_over_one_nanosecond_later() {
    let open = |desk: &Desk| OrderFlow::Open { endpoint: desk.west, epoch: Epoch::new(2).unwrap() };
    for (age, opens) in [(HEALTH, true), (HEALTH + NS, false)] {
        let mut desk = Desk::failed_over(quick(), SECOND);
        let flow = desk.engine.confirm_reconciled(at(SECOND + age), 2).unwrap();
        assert_eq!(flow, if opens { open(&desk) } else { STARTING });
    }
}

#[test]
fn a_spent_path_is_rearmed_at_exactly_the_greatest_age_and_not_one_nanosecond_later() {
    let mut desk = Desk::new(quick());
    desk.ok(SECOND, desk.east);
    assert_eq!(desk.engine.fence_started(1), Ok(SWITCHING));
    let (state, bars) = (EndpointState::Healthy, Bars::NONE);
    let refused = Err(EngineError::NotRearmable { spent: true, state, fresh: false, bars });
    assert_eq!(desk.engine.rearm(at(SECOND + HEALTH + NS)), refused);
    let nowhere = desk.engine.assess_failover(at(SECOND + HEALTH + NS), NO_FENCE).unwrap();
    assert_eq!(name(nowhere), "NO_TARGET_AVAILABLE");
    let proven = desk.engine.assess_failover(at(SECOND + HEALTH), NO_FENCE).unwrap();
    assert_eq!((name(proven), proven.reason), ("SWITCHED", Reason::ActiveProven));
    assert_eq!(name(desk.engine.rearm(at(SECOND + HEALTH)).unwrap()), "SWITCHED");
}

#[test]
fn a_path_that_answers_ends_a_switch_at_exactly_the_greatest_age_and_not_one_nanosecond_later() {
    let mut desk = Desk::new(PolicySettings { require_fence: true, ..quick() });
    desk.ok(0, desk.west);
    desk.fail(0, desk.east);
    assert_eq!((name(desk.failover(0)), desk.engine.order_flow()), ("FENCE_REQUIRED", SWITCHING));
    desk.ok(SECOND, desk.east);
    let mut late = desk.engine.clone();
    assert_eq!(name(late.evaluate_failover(at(SECOND + HEALTH + NS), NO_FENCE).unwrap()), "NO_ACTION");
    assert_eq!(late.order_flow(), SWITCHING);
    assert_eq!(name(desk.failover(SECOND + HEALTH)), "NO_ACTION");
    assert_eq!(desk.engine.order_flow(), RECONCILING);
}

#[test]
fn a_path_that_answers_ends_a_halt_at_exactly_the_greatest_age_and_not_one_nanosecond_later() {
    let mut desk = Desk::new(quick());
    desk.fail(0, desk.east);
    assert!(desk.failover(0).requires_trading_halt());
    desk.ok(SECOND, desk.east);
    let mut late = desk.engine.clone();
    assert_eq!(name(late.evaluate_failover(at(SECOND + HEALTH + NS), NO_FENCE).unwrap()), "NO_ACTION");
    assert!(late.order_flow().is_halt());
    assert_eq!(name(desk.failover(SECOND + HEALTH)), "NO_ACTION");
    assert_eq!(desk.engine.order_flow(), RECONCILING);
}

// Triggers -----------------------------------------------------------------------------------------------------------

/// The window of a trigger, longer than a result is evidence.
const PATIENCE: u64 = 75 * SECOND;

fn patient() -> Desk {
    let trigger = Trigger::new(TriggerRule::Window(Duration::from_nanos(PATIENCE))).unwrap();
    Desk::new(PolicySettings { trigger: Some(trigger), ..quick() })
}

fn state(desk: &Desk, id: EndpointId) -> EndpointState {
    desk.engine.health(id).unwrap().state()
}

#[test]
fn a_window_is_filled_by_failures_that_reach_back_exactly_its_length_and_not_one_nanosecond_less() {
    for (last, filled) in [(PATIENCE - NS, false), (PATIENCE, true), (PATIENCE + NS, true)] {
        let mut desk = patient();
        desk.ok(SECOND, desk.west);
        for failure in [0, 25 * SECOND, 50 * SECOND, last] {
            desk.fail(SECOND + failure, desk.east);
        }
        desk.ok(SECOND + last, desk.west);
        let expected = if filled { EndpointState::Down } else { EndpointState::Degraded };
        assert_eq!(state(&desk, desk.east), expected, "at {last}");
        assert_eq!(name(desk.failover(SECOND + last)), if filled { "SWITCHED" } else { "NO_ACTION" });
    }
}

#[test]
fn a_window_begins_with_its_first_failure_and_not_with_the_success_before_it() {
    let mut desk = patient();
    desk.ok(0, desk.east);
    for failure in [NS, 25 * SECOND, 50 * SECOND, PATIENCE] {
        desk.fail(failure, desk.east);
    }
    assert_eq!(state(&desk, desk.east), EndpointState::Degraded);
    desk.fail(PATIENCE + NS, desk.east);
    assert_eq!(state(&desk, desk.east), EndpointState::Down);
    // One success ends it, and another window has to be filled.
    desk.ok(PATIENCE + NS, desk.east);
    desk.fail(PATIENCE + 2 * NS, desk.east);
    assert_eq!(state(&desk, desk.east), EndpointState::Degraded);
}

#[test]
fn a_hole_of_exactly_the_greatest_age_leaves_a_window_whole_and_one_nanosecond_more_begins_it_anew() {
    for (hole, whole) in [(HEALTH, true), (HEALTH + NS, false)] {
        let mut desk = patient();
        for failure in [0, HEALTH, HEALTH + hole, PATIENCE + 2 * NS] {
            desk.fail(failure, desk.east);
        }
        let expected = if whole { EndpointState::Down } else { EndpointState::Degraded };
        assert_eq!(state(&desk, desk.east), expected, "after a hole of {hole}");
        if !whole {
            // From the failure after the hole on it is filled as any other.
            let begun = HEALTH + hole;
            for failure in [begun + 45 * SECOND, begun + PATIENCE - NS] {
                desk.fail(failure, desk.east);
                assert_eq!(state(&desk, desk.east), EndpointState::Degraded);
            }
            desk.fail(begun + PATIENCE, desk.east);
            assert_eq!(state(&desk, desk.east), EndpointState::Down);
        }
    }
}

#[test]
fn two_failures_a_window_apart_do_not_fill_it_if_nobody_looked_in_between() {
    let mut desk = patient();
    for failure in [0, PATIENCE, 100 * PATIENCE] {
        desk.fail(failure, desk.east);
        assert_eq!(state(&desk, desk.east), EndpointState::Degraded, "at {failure}");
    }
}

#[test]
fn a_window_is_not_filled_by_a_clock_that_goes_back() {
    let mut desk = patient();
    for failure in [100 * SECOND, 0, 50 * SECOND, 100 * SECOND + PATIENCE - NS] {
        desk.fail(failure, desk.east);
    }
    assert_eq!(state(&desk, desk.east), EndpointState::Degraded);
}

#[test]
fn a_window_to_the_end_of_time_is_filled_there() {
    let trigger = Trigger::new(TriggerRule::Window(Duration::from_nanos(END))).unwrap();
    let longest = Duration::from_nanos(END);
    let mut desk = Desk::new(PolicySettings { trigger: Some(trigger), max_health_age: longest, ..quick() });
    desk.fail(0, desk.east);
    desk.fail(END - NS, desk.east);
    assert_eq!(state(&desk, desk.east), EndpointState::Degraded);
    desk.fail(END, desk.east);
    assert_eq!(state(&desk, desk.east), EndpointState::Down);
}

// Silence ------------------------------------------------------------------------------------------------------------

const SPAN: u64 = 2 * SECOND;

/// East is active and answered at 0; one failure is DOWN, and a missing result is one. West answers at 0 too.
fn listening(silence: Silence) -> Desk {
    let mut desk = Desk::new(PolicySettings { silence, ..quick() });
    desk.ok(0, desk.east);
    desk.ok(0, desk.west);
    desk
}

impl Desk {
    fn due(&mut self, now: u64, id: EndpointId) -> Heard {
        self.engine.due(at(now), id, Duration::from_nanos(SPAN)).unwrap()
    }

    fn tick(&mut self, now: u64) -> (bool, u32) {
        let Heard { monitor_stopped, missing } = self.engine.tick(at(now));
        (monitor_stopped, missing)
    }
}

#[test]
fn a_result_is_missing_when_exactly_its_span_is_over_and_not_one_nanosecond_earlier() {
    for (now, missing) in [(SPAN - NS, 0), (SPAN, 1), (SPAN + NS, 1)] {
        let mut desk = listening(Silence::Failure);
        assert_eq!(desk.due(0, desk.east), Heard::default());
        assert_eq!(desk.tick(SECOND), (false, 0));
        assert_eq!(desk.tick(now), (false, missing), "at {now}");
        assert_eq!(desk.engine.missing().count(), missing as usize);
        let expected = if missing == 1 { EndpointState::Down } else { EndpointState::Healthy };
        assert_eq!(state(&desk, desk.east), expected);
        assert_eq!(name(desk.failover(now)), if missing == 1 { "SWITCHED" } else { "NO_ACTION" });
        // It is awaited no more.
        assert_eq!(desk.tick(now), (false, 0));
    }
}

#[test]
fn a_missing_result_is_told_and_changes_nothing_unless_silence_is_a_failure() {
    let mut desk = listening(Silence::Note);
    let _ = desk.due(0, desk.east);
    let _ = desk.tick(SECOND);
    let before = desk.engine.health(desk.east).cloned();
    assert_eq!(desk.tick(SPAN), (false, 1));
    assert_eq!(desk.engine.health(desk.east).cloned(), before);
}

#[test]
fn an_answer_at_the_end_of_the_span_is_an_answer_and_a_later_one_counts_for_itself() {
    let mut desk = listening(Silence::Failure);
    let _ = desk.due(0, desk.east);
    let _ = desk.tick(SECOND);
    desk.ok(SPAN, desk.east);
    assert_eq!(desk.tick(SPAN), (false, 0));
    let _ = desk.due(SPAN, desk.east);
    let _ = desk.tick(SPAN + SECOND);
    assert_eq!(desk.tick(2 * SPAN), (false, 1));
    desk.ok(2 * SPAN, desk.east);
    assert_eq!(state(&desk, desk.east), EndpointState::Healthy);
}

/// What shows that the monitor lives, halfway through the span.
type Sign = fn(&mut Desk, u64);

#[test]
fn any_sign_of_life_shows_that_the_monitor_runs_up_to_one_nanosecond_short_of_the_span() {
    let signs: [Sign; 3] =
        [|desk, now| _ = desk.tick(now), |desk, now| desk.ok(now, desk.west), |desk, now| _ = desk.due(now, desk.west)];
    for sign in signs {
        for (first, stopped) in [(SPAN - NS, false), (SPAN, true)] {
            let mut desk = listening(Silence::Failure);
            let _ = desk.due(0, desk.east);
            sign(&mut desk, first);
            let (late, missing) = desk.tick(SPAN);
            // Whatever came first after it tells of the stop.
            assert!(!late);
            assert_eq!(missing, u32::from(!stopped), "with a sign at {first}");
            let expected = if stopped { EndpointState::Healthy } else { EndpointState::Down };
            assert_eq!(state(&desk, desk.east), expected);
        }
    }
}

#[test]
fn what_finds_that_the_monitor_had_stopped_says_so() {
    let mut desk = listening(Silence::Failure);
    let _ = desk.due(0, desk.east);
    assert_eq!(desk.tick(SPAN), (true, 0));
    assert_eq!(desk.tick(10 * SPAN), (false, 0), "nothing is awaited any more");
    let _ = desk.due(10 * SPAN, desk.east);
    assert_eq!(desk.due(11 * SPAN, desk.west), Heard { monitor_stopped: true, missing: 0 });
    let change = desk.engine.record_probe(at(12 * SPAN), desk.west, ProbeResult::Success).unwrap();
    assert!(change.monitor_stopped);
    // An evaluation is none: it shows that somebody decides, not that anybody looks.
    let _ = desk.due(12 * SPAN, desk.east);
    assert_eq!(name(desk.failover(12 * SPAN + SECOND)), "NO_ACTION");
    assert_eq!(desk.tick(13 * SPAN), (true, 0));
}

#[test]
fn after_a_stop_a_trigger_has_to_be_armed_anew_and_a_path_that_was_down_stays_so() {
    let settings = || PolicySettings { failure_threshold: 3, ..quick() };
    let mut desk = Desk::new(settings());
    (0..2).for_each(|_| desk.fail(0, desk.east));
    (0..3).for_each(|_| desk.fail(0, desk.west));
    let _ = desk.due(0, desk.east);
    assert_eq!(desk.tick(SPAN), (true, 0));
    assert_eq!([desk.east, desk.west].map(|id| state(&desk, id)), [EndpointState::Degraded, EndpointState::Down]);
    for expected in [EndpointState::Degraded, EndpointState::Degraded, EndpointState::Down] {
        desk.fail(SPAN, desk.east);
        assert_eq!(state(&desk, desk.east), expected);
    }
    desk.fail(SPAN, desk.west);
    assert_eq!(state(&desk, desk.west), EndpointState::Down);
}

#[test]
fn after_a_stop_a_window_is_filled_anew_however_short_the_stop_was() {
    let trigger = Trigger::new(TriggerRule::Window(Duration::from_nanos(4 * SECOND))).unwrap();
    let mut desk = Desk::new(PolicySettings { trigger: Some(trigger), ..quick() });
    desk.fail(0, desk.east);
    let _ = desk.due(0, desk.west);
    // From here on the failures would reach back far enough, and leave no hole.
    for (now, expected) in [
        (SPAN, EndpointState::Degraded),
        (4 * SECOND, EndpointState::Degraded),
        (SPAN + 4 * SECOND - NS, EndpointState::Degraded),
        (SPAN + 4 * SECOND, EndpointState::Down),
    ] {
        desk.fail(now, desk.east);
        assert_eq!(state(&desk, desk.east), expected, "at {now}");
    }
}

#[test]
fn results_of_an_endpoint_that_came_or_moved_later_are_answers_and_signs_of_life_too() {
    for moved in [false, true] {
        let mut desk = listening(Silence::Failure);
        let _ = desk.tick(0);
        let late = if moved {
            let update = EndpointUpdate { url: Some("elsewhere".into()), ..EndpointUpdate::default() };
            desk.engine.update_endpoint("west", update).unwrap();
            desk.west
        } else {
            desk.engine.register(Endpoint::backup("north", "ca-central-1", "https://north.example", 20)).unwrap()
        };
        let _ = desk.due(0, late);
        let _ = desk.due(0, desk.east);
        desk.ok(SECOND, late);
        assert_eq!(desk.tick(SPAN), (false, 1), "east alone is missing");
        assert_eq!(state(&desk, late), EndpointState::Healthy);
        assert_eq!(state(&desk, desk.east), EndpointState::Down);
    }
}

#[test]
fn a_result_stays_awaited_when_the_trigger_changes() {
    let mut desk = listening(Silence::Failure);
    let _ = desk.due(0, desk.west);
    let trigger = Some(Trigger::new(TriggerRule::Consecutive(2)).unwrap());
    desk.engine.update_endpoint("west", EndpointUpdate { trigger, ..EndpointUpdate::default() }).unwrap();
    assert_eq!(desk.tick(SECOND), (false, 0));
    assert_eq!(desk.tick(SPAN), (false, 1));
    assert_eq!(state(&desk, desk.west), EndpointState::Degraded);
}

#[test]
fn one_result_is_awaited_at_a_time_and_a_restart_or_another_address_awaits_none() {
    let mut desk = listening(Silence::Failure);
    let _ = desk.due(0, desk.west);
    let _ = desk.due(SECOND, desk.west);
    assert_eq!(desk.tick(SPAN), (false, 1), "the first of them");
    assert_eq!(desk.tick(SPAN + SECOND), (false, 0), "the second was none");

    for forget in [
        |desk: &mut Desk| desk.restart(SPAN, SPAN),
        |desk: &mut Desk| {
            let update = EndpointUpdate { url: Some("elsewhere".into()), ..EndpointUpdate::default() };
            desk.engine.update_endpoint("west", update).unwrap();
        },
    ] {
        let mut desk = listening(Silence::Failure);
        let _ = desk.due(SPAN, desk.west);
        forget(&mut desk);
        let _ = desk.tick(SPAN + SECOND);
        assert_eq!(desk.tick(2 * SPAN), (false, 0));
    }
}

#[test]
fn a_clock_that_goes_back_makes_no_result_missing_and_stops_no_monitor() {
    let mut desk = listening(Silence::Failure);
    let _ = desk.due(100 * SPAN, desk.east);
    for now in [0, SPAN - NS, 100 * SPAN] {
        // From 0 on a span passes in which nothing arrives.
        let stopped = now == 100 * SPAN;
        assert_eq!(desk.tick(now), (stopped, 0), "at {now}");
    }
}

// Window of failbacks ------------------------------------------------------------------------------------------------

/// Two failbacks, at `COOLDOWN` and ten minutes later, spend the budget of two; flow is on the backup again.
fn two_failbacks() -> (Desk, u64, u64) {
    let (first, second) = (COOLDOWN, COOLDOWN + 600 * SECOND);
    let mut desk = Desk::failed_over(quick(), 0);
    assert_eq!(name(desk.failback(first)), "SWITCHED");
    desk.fail_over(second - COOLDOWN);
    assert_eq!(name(desk.failback(second)), "SWITCHED");
    desk.fail_over(second);
    (desk, first, second)
}

#[test]
fn the_failback_window_is_inclusive_and_its_budget_frees_one_nanosecond_later() {
    let (mut desk, first, second) = two_failbacks();
    for now in [second + COOLDOWN, first + WINDOW - NS, first + WINDOW] {
        let decision = desk.failback(now);
        let suppressed = ("FLAP_SUPPRESSED", Some(at(first + WINDOW + NS)));
        assert_eq!((name(decision), decision.earliest()), suppressed, "at {now}");
    }
    assert_eq!(desk.engine.failback_ages(at(first + WINDOW)).collect::<Vec<_>>(), [WINDOW, WINDOW - 600 * SECOND]);
    assert_eq!(desk.engine.failback_ages(at(first + WINDOW + NS)).count(), 1);
    assert_eq!(name(desk.failback(first + WINDOW + NS)), "SWITCHED");
}

#[test]
fn the_next_failback_waits_for_the_second_oldest_to_leave_the_window() {
    let (mut desk, first, second) = two_failbacks();
    let third = first + WINDOW + NS;
    assert_eq!(name(desk.failback(third)), "SWITCHED");
    desk.fail_over(third);
    let decision = desk.failback(third + COOLDOWN);
    assert_eq!((name(decision), decision.earliest()), ("FLAP_SUPPRESSED", Some(at(second + WINDOW + NS))));
    assert_eq!(name(desk.failback(second + WINDOW)), "FLAP_SUPPRESSED");
    assert_eq!(name(desk.failback(second + WINDOW + NS)), "SWITCHED");
}

#[test]
fn the_cooldown_is_named_before_the_window_and_alone() {
    let (mut desk, _, second) = two_failbacks();
    let decision = desk.failback(second + COOLDOWN - NS);
    assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", Some(at(second + COOLDOWN))));
}

#[test]
fn a_failover_is_never_delayed_by_a_spent_failback_budget() {
    let (mut desk, _, second) = two_failbacks();
    let now = second + COOLDOWN;
    assert_eq!(name(desk.failback(now)), "FLAP_SUPPRESSED");
    desk.fail(now, desk.west);
    let decision = desk.failover(now);
    assert_eq!((name(decision), decision.active), ("SWITCHED", desk.east));
}

// Restart ------------------------------------------------------------------------------------------------------------

#[test]
fn a_restart_carries_the_elapsed_cooldown_and_counts_the_time_down_as_zero() {
    for up in [0, 5 * SECOND, 1_000_000 * SECOND] {
        let mut desk = Desk::failed_over(quick(), 100 * SECOND);
        desk.restart(120 * SECOND, up);
        assert_eq!(desk.engine.last_switch_age(at(up)), Some(20 * SECOND));
        let opens = up + 40 * SECOND;
        let decision = desk.failback(opens - NS);
        assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", Some(at(opens))));
        assert_eq!(name(desk.failback(opens)), "SWITCHED");
    }
}

#[test]
fn a_restart_carries_the_ages_of_failbacks() {
    let (mut desk, first, second) = two_failbacks();
    let down = second + COOLDOWN;
    desk.restart(down, 0);
    let opens = WINDOW + NS - (down - first);
    let decision = desk.failback(opens - NS);
    assert_eq!((name(decision), decision.earliest()), ("FLAP_SUPPRESSED", Some(at(opens))));
    assert_eq!(name(desk.failback(opens)), "SWITCHED");
}

#[test]
fn ages_add_up_over_many_restarts() {
    let mut desk = Desk::failed_over(quick(), 0);
    for _ in 0..59 {
        desk.restart(SECOND, 0);
    }
    assert_eq!(name(desk.failback(SECOND - NS)), "COOLDOWN_ACTIVE");
    assert_eq!(name(desk.failback(SECOND)), "SWITCHED");
}

#[test]
fn evidence_does_not_outlive_a_restart_however_fresh() {
    let mut desk = Desk::new(quick());
    desk.ok(SECOND, desk.west);
    desk.restart(SECOND, SECOND);
    assert_eq!(desk.engine.health(desk.west), Some(&Health::default()));
    desk.fail(SECOND, desk.east);
    assert_eq!(name(desk.failover(SECOND)), "NO_TARGET_AVAILABLE");
}

// Clocks that misbehave ----------------------------------------------------------------------------------------------

#[test]
fn everything_may_happen_in_the_first_nanosecond() {
    let mut desk = Desk::failed_over(quick(), 0);
    let decision = desk.failback(0);
    assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", Some(at(COOLDOWN))));
    assert_eq!(notes(decision), []);
    assert!(matches!(desk.engine.confirm_reconciled(at(0), 2), Ok(OrderFlow::Open { .. })));
}

#[test]
fn a_clock_that_stands_still_changes_no_answer() {
    let mut desk = Desk::failed_over(quick(), SECOND);
    let first = desk.failback(SECOND);
    let engine = desk.engine.clone();
    for _ in 0..10 {
        assert_eq!(desk.engine.evaluate_failback(at(SECOND), NO_FENCE), Ok(first));
    }
    assert_eq!(desk.engine, engine);
}

#[test]
fn a_clock_that_goes_back_is_noted_and_no_time_has_elapsed() {
    let start = 1_000 * SECOND;
    let mut desk = Desk::failed_over(quick(), start);
    let back = start - 500 * SECOND;
    let decision = desk.engine.evaluate_failback(at(back), NO_FENCE).unwrap();
    assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", Some(at(start + COOLDOWN))));
    assert_eq!(notes(decision), [Note::ClockWentBack]);
    assert_eq!(desk.engine.last_switch_age(at(back)), Some(0));
    assert_eq!(notes(desk.failover(start - NS)), [Note::ClockWentBack]);
    assert_eq!(notes(desk.failover(start)), []);
    let west = desk.engine.health(desk.west).unwrap();
    assert!(desk.engine.is_fresh(at(0), west), "a result of the future is no older than now");
}

#[test]
fn failbacks_keep_their_order_when_the_clock_goes_back_and_survive_a_restart() {
    let mut desk = Desk::failed_over(quick(), 900 * SECOND);
    assert_eq!(name(desk.failback(1_000 * SECOND)), "SWITCHED");
    // The clock goes back by more than a quarter of an hour, and stays there.
    desk.fail_over(10 * SECOND);
    assert_eq!(name(desk.failback(10 * SECOND + COOLDOWN)), "SWITCHED");
    let now = 2_000 * SECOND;
    // From the first failback to the second no time has elapsed.
    let ages = [1_000 * SECOND, 1_000 * SECOND];
    assert_eq!(desk.engine.failback_ages(at(now)).collect::<Vec<_>>(), ages);
    desk.restart(now, 0);
    assert_eq!(desk.engine.failback_ages(at(0)).collect::<Vec<_>>(), ages);
}

#[test]
fn a_gate_that_opens_beyond_the_end_of_time_names_no_moment() {
    let mut desk = Desk::failed_over(quick(), END - COOLDOWN + NS);
    let decision = desk.failback(END);
    assert_eq!((name(decision), decision.earliest()), ("COOLDOWN_ACTIVE", None));
    let mut desk = Desk::failed_over(quick(), END - COOLDOWN);
    assert_eq!(desk.failback(END - NS).earliest(), Some(at(END)));
    assert_eq!(name(desk.failback(END)), "SWITCHED");

    let settings = || PolicySettings { max_failbacks_per_window: 1, cooldown: Duration::ZERO, ..quick() };
    for (before_the_end, earliest) in [(WINDOW, None), (WINDOW + NS, Some(at(END)))] {
        let start = END - before_the_end;
        let mut desk = Desk::failed_over(settings(), start);
        assert_eq!(name(desk.failback(start)), "SWITCHED");
        desk.fail_over(start);
        let decision = desk.failback(END - NS);
        assert_eq!((name(decision), decision.earliest()), ("FLAP_SUPPRESSED", earliest));
    }
}

#[test]
fn the_longest_durations_hold_to_the_end_of_time() {
    let longest = Duration::from_nanos(END);
    let settings = PolicySettings { cooldown: longest, max_health_age: longest, ..quick() };
    let mut desk = Desk::failed_over(settings, 0);
    assert_eq!(name(desk.engine.assess_failback(at(END - NS), NO_FENCE).unwrap()), "COOLDOWN_ACTIVE");
    assert_eq!(name(desk.engine.assess_failback(at(END), NO_FENCE).unwrap()), "SWITCHED");
    desk.fail(END, desk.west);
    assert_eq!(name(desk.failover(END)), "SWITCHED");

    let settings =
        PolicySettings { max_failbacks_per_window: 1, failback_window: longest, cooldown: Duration::ZERO, ..quick() };
    let mut desk = Desk::failed_over(settings, 0);
    assert_eq!(name(desk.failback(0)), "SWITCHED");
    desk.fail_over(0);
    let decision = desk.failback(END);
    assert_eq!((name(decision), decision.earliest()), ("FLAP_SUPPRESSED", None));
}

#[test]
fn an_age_stops_at_its_end_instead_of_wrapping_over_a_restart() {
    let mut desk = Desk::failed_over(quick(), 0);
    desk.restart(END, 0);
    desk.restart(END, 0);
    assert_eq!(desk.engine.last_switch_age(at(END)), Some(END));
    assert_eq!(name(desk.failback(END)), "SWITCHED");
}

/// One input of a script, at a time of its own.
type Act = fn(&mut Desk, u64);

#[test]
fn no_times_however_wild_make_it_panic_or_break_the_count_of_epochs() {
    let times = [0, COOLDOWN, END - NS, END];
    let script: [Act; 7] = [
        |desk, now| desk.ok(now, desk.west),
        |desk, now| desk.fail(now, desk.east),
        |desk, now| _ = desk.failover(now),
        |desk, now| desk.ok(now, desk.east),
        |desk, now| _ = desk.engine.evaluate_failback(at(now), NO_FENCE),
        |desk, now| desk.restart(now, END - now),
        |desk, now| _ = desk.failback(now),
    ];
    let mut switched = 0;
    for order in 0..times.len().pow(7) {
        let mut desk = Desk::new(PolicySettings { require_reconciliation: false, ..quick() });
        let mut rest = order;
        for act in script {
            act(&mut desk, times[rest % times.len()]);
            rest /= times.len();
        }
        let epochs = desk.engine.epoch().unwrap().get() - 1;
        assert_eq!(Ok(epochs), u64::try_from(desk.engine.history().len()));
        switched += epochs;
    }
    assert!(switched > 0, "flow moved in none of them");
}

#[test]
fn the_last_epoch_refuses_to_be_left_and_nothing_changes() {
    let mut desk = Desk::new(quick());
    let mut snapshot = desk.engine.snapshot(at(0));
    snapshot.active.as_mut().unwrap().epoch = Epoch::new(Epoch::LAST.get() - 1).unwrap();
    snapshot.last_switch_age = Some(0);
    let policy = desk.engine.policy().clone();
    desk.engine = Engine::restore(policy, snapshot, at(0), RestartKind::Gateway).unwrap();
    desk.fail_over(0);
    assert_eq!(desk.engine.epoch(), Some(Epoch::LAST));
    desk.fail(0, desk.west);
    let before = desk.engine.clone();
    let exhausted = Err(EngineError::EpochsExhausted { present: Epoch::LAST });
    assert_eq!(desk.engine.evaluate_failover(at(0), NO_FENCE), exhausted);
    assert_eq!(desk.engine.switchover(at(0), "east", NO_FENCE), exhausted);
    assert_eq!(desk.engine, before);
}
