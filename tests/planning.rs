//! The planning figures of `references/planning.md`, each computed from its inputs.

use std::time::Duration;

use broker_failover::planning::*;
use proptest::prelude::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn minutes(minutes: u64) -> Duration {
    S(60 * minutes)
}

/// Both within so much of each other.
fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "found {found}, expected {expected} within {tolerance}");
}

/// A time on the clock of the story.
fn clock(hours: u64, minutes: u64, seconds: f64) -> Duration {
    S(hours * 3_600 + minutes * 60) + Duration::from_secs_f64(seconds)
}

// ---- Trigger patience and the recovery budget ---------------------------------------------------------------------------

/// On a hot, a warm and a cold standby: the recovery, and whether it fits in 900 s.
type Tiers = [(u64, bool); 3];

/// Trigger, detection, recovery.
const TABLE: [(&str, u64, Tiers); 7] = [
    ("window 60s", 60, [(240, true), (380, true), (980, false)]),
    ("window 300s", 300, [(480, true), (620, true), (1_220, false)]),
    ("window 900s", 900, [(1_080, false), (1_220, false), (1_820, false)]),
    ("1", 0, [(180, true), (320, true), (920, false)]),
    ("3", 20, [(200, true), (340, true), (940, false)]),
    ("6", 50, [(230, true), (370, true), (970, false)]),
    ("12", 110, [(290, true), (430, true), (1_030, false)]),
];

/// The plan of the default inputs, with the table's triggers in its order.
fn default_plan() -> Plan {
    let triggers = TABLE.iter().map(|(trigger, ..)| trigger.parse().unwrap()).collect();
    Plan::new(PlanSettings { triggers, ..PlanSettings::default() }).unwrap()
}

#[test]
fn the_default_inputs_are_those_of_the_example() {
    let settings = PlanSettings::default();
    assert_eq!((settings.rto, settings.promotion, settings.capacity), (S(900), S(60), S(600)));
    assert_eq!(settings.state.transfer(settings.state_rate), S(140), "140 GB at 1 GB/s");
    assert_eq!(settings.interval, S(10));
    assert_eq!((settings.blips.per_day(), settings.blip_mean), (96.0, S(20)));
    assert_eq!(default_plan().stages(Tier::Hot).shift, S(120));
}

#[test]
fn recovery_by_trigger_and_tier() {
    let plan = default_plan();
    assert_eq!(plan.rows().len(), TABLE.len());
    for (row, (trigger, detection, cells)) in plan.rows().iter().zip(TABLE) {
        assert_eq!(row.detection, S(detection), "{trigger}");
        let found = row.cells.map(|cell| (cell.recovery.as_secs(), cell.fits));
        assert_eq!(found, cells, "{trigger}");
    }
    assert!(plan.fits());
}

#[test]
fn the_detection_that_the_rto_leaves_room_for() {
    let left = Tier::ALL.map(|tier| default_plan().detection_left(tier));
    assert_eq!(left, [Some(S(720)), Some(S(580)), None], "a cold standby misses it whatever the trigger");
    assert_eq!(default_plan().stages(Tier::Cold).downstream(), S(920));
}

#[test]
fn a_window_behaves_like_a_number_of_failures_and_both_are_one_axis_of_patience() {
    let probing = Probing::every(S(10)).unwrap();
    for (window, failures) in [(60, 7), (300, 31), (900, 91)] {
        assert_eq!(Trigger::Window(S(window)).failures(&probing), failures);
        let same = Trigger::Consecutive(u32::try_from(failures).unwrap());
        assert_eq!(Trigger::Window(S(window)).patience(&probing), same.patience(&probing));
    }
    let plan = Plan::new(PlanSettings::default()).unwrap();
    let rows = plan.rows();
    assert!(rows.windows(2).all(|two| two[0].detection < two[1].detection), "the default order is that of patience");
    assert!(rows.windows(2).all(|two| two[0].false_failovers_per_day > two[1].false_failovers_per_day));
}

/// The closed form with this mean length, and the magnitudes that a simulation of 30 days gave.
fn daily(failures: u32, mean: u64) -> f64 {
    let blips = Blips::new(Rate::per_hour(4), S(mean)).unwrap();
    blips.false_failovers_per_day(Trigger::Consecutive(failures), &Probing::every(S(10)).unwrap())
}

#[test]
fn false_failovers_a_day_by_the_closed_form() {
    for (failures, expected, tolerance) in [(1, 75.5, 0.05), (3, 27.8, 0.05), (6, 6.2, 0.05), (12, 0.31, 0.005)] {
        near(daily(failures, 20), expected, tolerance);
    }
    near(daily(12, 60), 14.1, 0.05);
}

#[test]
fn the_closed_form_lies_a_little_above_the_simulation() {
    for (failures, simulated) in [(1, 71.70), (3, 25.30), (6, 5.97), (7, 3.33), (12, 0.20)] {
        let closed = daily(failures, 20);
        // Thirty days of a Poisson count: three standard deviations, and the overlaps that the form leaves out.
        let sampling = 3.0 * (simulated / 30.0_f64).sqrt();
        assert!(closed > simulated && closed < simulated * 1.12 + sampling, "{failures}: {closed} and {simulated}");
    }
    let closed = daily(12, 60);
    assert!(closed > 13.2 && closed < 13.2 * 1.12, "{closed}");
    assert!(daily(31, 20) < 0.005 && daily(91, 20) < 0.005, "windows of 300 s and 900 s: 0.00");
}

#[test]
fn the_closed_form_holds_for_a_faster_pace_after_the_first_failure() {
    // Blips one by one: the first probe comes after a uniform phase, the next ones at the faster pace.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let (interval, failing, mean) = (4.0, 1.0, 5.0);
    let [every, again] = [interval, failing].map(Duration::from_secs_f64);
    let probing = Probing::new(every, again, Duration::ZERO).unwrap();
    let blips = Blips::new(Rate::per_hour(4), Duration::from_secs_f64(mean)).unwrap();
    for failures in [1, 3, 8] {
        let seen = (0..200_000).filter(|_| {
            let length = -mean * uniform().ln();
            length > uniform() * interval + f64::from(failures - 1) * failing
        });
        let simulated = seen.count() as f64 / 200_000.0;
        near(blips.probability(Trigger::Consecutive(failures), &probing), simulated, 0.005);
    }
}

#[test]
fn lone_failures_by_the_closed_form() {
    let each: Share = "0.1%".parse().unwrap();
    for (failures, expected) in [(1, 86.3), (2, 0.0863), (3, 0.000_086_3)] {
        near(lone_failures_per_day(each, failures, S(1)), expected, expected * 0.001);
    }
}

#[test]
fn worst_case_detection_from_real_settings() {
    for (interval, timeout, worst) in [(1_000, 800, 3_800), (5_000, 2_000, 17_000), (10_000, 5_000, 35_000)] {
        let [interval, timeout, worst] = [interval, timeout, worst].map(Duration::from_millis);
        let probing = Probing::new(interval, interval, timeout).unwrap();
        assert_eq!(probing.detection(Trigger::Consecutive(3)).hung.1, worst, "3 x interval + timeout");
    }
}

// ---- Data at risk --------------------------------------------------------------------------------------------------------

const ORDERS: Replication = Replication { writes: Rate::per_second(200), lag: Duration::from_millis(800) };

#[test]
fn data_at_risk_is_rate_times_lag() {
    assert_eq!(ORDERS.at_risk(), 160);
}

#[test]
fn data_at_risk_grows_while_the_link_is_cut() {
    let cut = ORDERS.after_cut(S(1_199));
    assert_eq!((cut.lag, cut.at_risk()), (Duration::from_millis(1_199_800), 239_960));
}

#[test]
fn the_lag_reaches_a_bound_of_20_s_after_19_2_s_of_cut() {
    assert_eq!(ORDERS.cut_that_reaches(S(20)), Duration::from_millis(19_200));
    assert_eq!(ORDERS.after_cut(Duration::from_millis(19_200)).lag, S(20));
}

#[test]
fn orders_caught_in_the_middle() {
    assert_eq!(Caught { lost: ORDERS.at_risk(), returned: 120 }.to_reconcile(), 40);
}

// ---- Lease bounds --------------------------------------------------------------------------------------------------------

fn lease() -> Lease {
    Lease::new(S(10), S(5)).unwrap()
}

#[test]
fn the_holder_stops_and_the_taker_waits_a_margin_longer() {
    let sent = clock(19, 59, 59.0);
    assert_eq!(lease().holder_stops(sent), clock(20, 0, 9.0));
    assert_eq!(lease().earliest_claim(sent), clock(20, 0, 14.0));
    assert_eq!(lease().claim_without_clocks(clock(19, 59, 59.5)), clock(20, 0, 14.5));
    assert_eq!(lease().holder_stops(clock(19, 29, 59.0)), clock(19, 30, 9.0), "the home that fenced itself");
}

#[test]
fn a_clock_gap_above_the_margin_lets_the_taker_in_too_early() {
    let sent = clock(19, 59, 59.0);
    let gap = S(3) + Duration::from_millis(4_900);
    assert_eq!(gap, Duration::from_millis(7_900));
    let claim = lease().claim_passes(sent, gap);
    assert_eq!(claim, clock(20, 0, 6.1));
    assert_eq!(lease().overlap(gap), lease().holder_stops(sent) - claim);
    assert_eq!(lease().overlap(gap), Duration::from_millis(2_900));
    assert!(!lease().is_safe(gap) && !lease().is_safe(S(5)) && lease().is_safe(S(5) - Duration::from_nanos(1)));
    assert_eq!(lease().alarm_above(), Duration::from_millis(2_500), "half the margin");
}

// ---- The timing chain ----------------------------------------------------------------------------------------------------

/// Capacity runs beside the gate and the promotion; the rest follows.
fn chain(gate: u64, promotion: u64) -> Stages {
    Stages {
        gate: S(gate),
        promotion: S(promotion),
        capacity: S(60),
        preparation: Preparation::BesideGate,
        shift: S(15),
        ttl: S(60),
        backoff: S(30),
        ..Stages::NONE
    }
}

const DETECT: Duration = Duration::from_secs(60);

#[test]
fn timing_chain_with_a_person_at_the_gate() {
    assert_eq!(chain(120, 120).recovery(DETECT), S(405));
    near(405.0 / 60.0, 6.75, 1e-9);
}

#[test]
fn timing_chain_with_pre_approved_rules() {
    assert_eq!(chain(10, 120).recovery(DETECT), S(295));
}

#[test]
fn timing_chain_read_only_first() {
    assert_eq!(chain(120, 0).recovery(DETECT), S(285));
    assert_eq!(chain(10, 0).recovery(DETECT), S(225), "capacity is now the longer side");
}

#[test]
fn the_lease_bound_is_hidden_behind_slow_detection_and_shows_behind_a_fast_one() {
    // Counted from the fault at 20:00:00.
    let bound = lease().earliest_claim(clock(19, 59, 59.0)) - clock(20, 0, 0.0);
    assert_eq!(bound, S(14));
    let bounded = Stages { gate_not_before: bound, ..chain(10, 120) };
    assert_eq!(bounded.recovery(DETECT), S(295));
    assert_eq!(bounded.recovery(S(1)), S(14 + 120 + 105));
}

// ---- The error budget ----------------------------------------------------------------------------------------------------

fn four_nines(month: Month) -> ErrorBudget {
    ErrorBudget::new("99.99%".parse().unwrap(), month).unwrap()
}

fn in_minutes(duration: Duration) -> f64 {
    duration.as_secs_f64() / 60.0
}

#[test]
fn error_budget_of_both_months() {
    near(in_minutes(four_nines(Month::ThirtyDays).allowed()), 4.32, 1e-9);
    near(in_minutes(four_nines(Month::Average).allowed()), 4.38, 0.005);
    near(in_minutes(Month::Average.length()), 30.44 * 1_440.0, 1e-6);
}

#[test]
fn error_budget_weighted_by_the_share_that_was_hit() {
    let hit = Share::percent(40);
    let budget = four_nines(Month::ThirtyDays);
    let cases = [
        (chain(120, 120).recovery(DETECT), 2.7, 0.005, 62.5, 0.05),
        (chain(10, 120).recovery(DETECT), 1.97, 0.005, 45.5, 0.05),
        (minutes(25), 10.0, 1e-9, 231.5, 0.05),
    ];
    for (outage, weighted, within, percent, nearly) in cases {
        near(in_minutes(hit.of(outage)), weighted, within);
        near(budget.used(outage, hit) * 100.0, percent, nearly);
    }
    near(budget.used(minutes(25), hit), 2.3, 0.05);
    near(in_minutes(hit.of(minutes(2))), 0.8, 1e-9);
}

// ---- Capacity and shards -------------------------------------------------------------------------------------------------

#[test]
fn a_standby_with_a_quarter_of_the_machines_carries_four_times_its_load() {
    near(Fleet { instances: 15, processors: 8 }.load_of(60).unwrap(), 4.0, 1e-12);
    assert!(Fleet { instances: 0, processors: 8 }.load_of(60).is_err());
}

#[test]
fn a_quota_is_counted_against_what_will_run() {
    let (quota, home) = (Quota { limit: 512 }, Quota { limit: 640 });
    let (now, will_run, surge) = (
        Fleet { instances: 15, processors: 8 },
        Fleet { instances: 60, processors: 8 },
        Fleet { instances: 15, processors: 8 },
    );
    assert!(quota.fits(now, surge), "against what runs today it looks fine");
    assert_eq!((will_run.total(), quota.left(will_run)), (480, 32));
    assert!(!quota.fits(will_run, surge));
    assert!(!quota.is_at_parity(home) && home.is_at_parity(home) && home.fits(will_run, surge));
}

#[test]
fn shuffle_shards() {
    assert_eq!(choices(8, 2), Some(28));
    assert_eq!(choices(50, 4), Some(230_300));
    near(choices(2_048, 4).unwrap() as f64, 7.3e11, 0.05e11);
}

// ---- The ladder and the routing layer ------------------------------------------------------------------------------------

#[test]
fn the_rungs_as_they_usually_are() {
    let table = [
        (Rung::BackupAndRestore, "hours", "hours", Some((2, Some(5)))),
        (Rung::PilotLight, "tens of minutes to hours", "seconds to minutes", Some((10, Some(20)))),
        (Rung::WarmStandby, "minutes", "seconds", Some((30, Some(50)))),
        (Rung::OneWriter, "seconds for reads, minutes for writes", "seconds", None),
        (Rung::ActiveActive, "seconds to zero", "near zero", Some((200, None))),
    ];
    let found = Rung::ALL.map(|rung| (rung, rung.usual_rto(), rung.usual_rpo(), rung.usual_cost()));
    assert_eq!(found, table);
}

#[test]
fn routing_layers_and_how_fast_they_move_traffic() {
    let dns = |ttl| RoutingLayer::Dns { ttl: S(ttl) }.failover();
    assert_eq!(dns(60), (minutes(5), minutes(15)));
    assert_eq!(dns(300), (minutes(15), minutes(60)));
    assert_eq!(RoutingLayer::Anycast.failover(), (S(1), S(60)), "seconds to tens of seconds");
    assert_eq!(RoutingLayer::ClientSide { check: S(10) }.floor(), S(10), "the client's check interval");
    // What was measured lies within: 6 s, 25 min with a TTL of 300 s, 9 min with one of 30 s.
    let cases = [
        (RoutingLayer::GlobalLoadBalancer, S(6)),
        (RoutingLayer::Dns { ttl: S(300) }, minutes(25)),
        (RoutingLayer::Dns { ttl: S(30) }, minutes(9)),
    ];
    for (layer, measured) in cases {
        let (best, usual) = layer.failover();
        assert!(best <= measured && measured <= usual, "{layer}");
    }
}

#[test]
fn an_rto_below_the_routing_layer_is_refused_with_the_reason() {
    let refused = RoutingLayer::Dns { ttl: S(300) }.admits(S(90)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "an RTO of 1m 30s is below the floor of DNS with a TTL of 5m, which moves traffic in 15m to 1h, with a tail of \
         hours: no standby and no trigger helps"
    );
    assert_eq!(RoutingLayer::GlobalLoadBalancer.admits(S(90)), Ok(()));
}

/// A decision, a promotion and a move of traffic, one after the other.
fn incident(decision: Duration, promotion: Duration, routing: Duration) -> Duration {
    Stages { gate: decision, promotion, shift: routing, ..Stages::NONE }.recovery(Duration::ZERO)
}

#[test]
fn the_worked_incident_took_47_minutes_and_not_12() {
    let took = incident(minutes(21), S(90), minutes(25));
    assert_eq!(took.as_secs() / 60, 47);
    assert!(took > minutes(12));
    assert!(minutes(12) < RoutingLayer::Dns { ttl: S(300) }.floor(), "it never could have");
}

#[test]
fn the_game_days_came_down_to_minutes() {
    // The source says about 5 and about 2.5 minutes; the stages add up to a little more.
    assert_eq!(incident(minutes(4), S(85), S(6)), S(331));
    assert_eq!(incident(S(90), S(80), S(6)), S(176));
}

#[test]
fn a_restore_of_4_tb_takes_five_and_a_half_hours() {
    let (data, speed): (Bytes, Throughput) = ("4TB".parse().unwrap(), "200MB/s".parse().unwrap());
    near(data.transfer(speed).as_secs_f64() / 3_600.0, 5.5, 0.1);
}

#[test]
fn a_minute_every_three_years_is_worth_far_less_than_a_second_region() {
    let hourly = Money::units(22_000);
    let avoided = Rate::in_years(1, 3).a_year_of(minutes(1));
    let worth = hourly.an_hour_for(avoided);
    assert_eq!(avoided, S(20));
    assert!(worth < Money::units(1_000) && worth > Money::units(100), "{worth}");
    assert_eq!(Money::units(41_000).times(12), Money::units(492_000));
}

#[test]
fn twenty_minutes_a_year_are_worth_about_1300() {
    // From 12 minutes to 30 seconds, once or twice a year.
    let saved = minutes(12) - S(30);
    let (once, twice) = (Rate::in_years(1, 1).a_year_of(saved), Rate::in_years(2, 1).a_year_of(saved));
    assert!(once < minutes(20) && minutes(20) < twice);
    assert_eq!(Money::units(4_000).an_hour_for(minutes(20)).to_string(), "1,333");
}

#[test]
fn a_load_balancer_breaks_even_at_eight_and_a_half_minutes_a_month() {
    let needed = break_even(Money::units(3_100), Money::units(22_000)).unwrap();
    near(in_minutes(needed), 8.5, 0.05);
}

#[test]
fn the_deep_check_triggers_after_three_of_every_ten_seconds() {
    let probing = Probing::every(S(10)).unwrap();
    assert_eq!(Trigger::Consecutive(3).patience(&probing), S(20));
    assert_eq!(probing.detection(Trigger::Consecutive(3)).refused.1, S(30));
}

fn option(name: &str, rung: Rung, rto: Duration, rpo: Duration, cost: u64, unpriced: &str) -> Candidate {
    let (name, unpriced) = (name.to_owned(), unpriced.to_owned());
    Candidate { name, rung: Some(rung), rto, rpo, cost_per_month: Money::units(cost), unpriced }
}

fn decision() -> Ladder {
    let tax =
        "conflict handling, about two engineer-quarters, and a lasting tax on every feature that touches balances";
    Ladder::new(LadderSettings {
        rto: minutes(12),
        rpo: Some(S(30)),
        routing: None,
        downtime_per_hour: Money::units(22_000),
        events: Rate::in_years(1, 3),
        currency: "USD".to_owned(),
        candidates: vec![
            option("warm standby behind DNS", Rung::WarmStandby, minutes(47), S(30), 0, ""),
            option("warm standby behind a load balancer", Rung::WarmStandby, minutes(1), S(30), 3_100, ""),
            option("active-active", Rung::ActiveActive, S(5), S(0), 3_100 + 41_000, tax),
        ],
    })
    .unwrap()
}

#[test]
fn active_active_is_rejected_with_the_arithmetic() {
    let ladder = decision();
    let chosen = ladder.chosen().unwrap();
    assert_eq!(chosen.candidate.name, "warm standby behind a load balancer");
    let verdicts: Vec<_> = ladder.options().iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts[0], Verdict::MissesRto { by: minutes(35) });
    let Verdict::Dearer { by } = verdicts[2] else { panic!("{verdicts:?}") };
    assert!(by > Money::units(491_000) && by < Money::units(492_000), "{by}");
}

const RECORD: &str = "\
# Decision: warm standby behind a load balancer

## Target

- Recovery within 12m (RTO).
- Loss of at most 30s of writes (RPO).
- Downtime costs 22,000 USD an hour.
- Outages that need a recovery: 1 in 3 years.

## Decision

**warm standby behind a load balancer** recovers in 1m and costs 37,200 USD a year to run. Its expected downtime of 20s a year costs 122 USD: 37,322 USD in all, the least of the options that meet the target.

## Options

Sums are USD a year.

| option | rung | RTO | RPO | running | downtime | its cost | in all | verdict |
|---|---|---|---|---|---|---|---|---|
| warm standby behind DNS | warm standby | 47m | 30s | 0 | 15m 40s | 5,744 | 5,744 | misses the RTO |
| warm standby behind a load balancer | warm standby | 1m | 30s | 37,200 | 20s | 122 | 37,322 | **chosen** |
| active-active | active-active | 5s | 0s | 529,200 | 1.667s | 10.19 | 529,210 | costs more |

## Rejected

### warm standby behind DNS

It recovers in 47m, 35m later than the target.

- To run: 0 USD a month x 12 = 0 USD a year.
- Expected downtime: 1 in 3 years x 47m = 15m 40s a year.
- Its cost: 15m 40s x 22,000 USD an hour = 5,744 USD a year.
- In all: 0 + 5,744 = 5,744 USD a year.

### active-active

It meets the target and costs more.

- To run: 44,100 USD a month x 12 = 529,200 USD a year.
- Expected downtime: 1 in 3 years x 5s = 1.667s a year.
- Its cost: 1.667s x 22,000 USD an hour = 10.19 USD a year.
- In all: 529,200 + 10.19 = 529,210 USD a year.
- Against the chosen one it avoids 18.333s a year, worth 112 USD, and costs 492,000 USD more to run.
- In all it costs 491,888 USD a year more.
- It would pay from 22h 21m 49s of avoided downtime a year on.

Not in these sums: conflict handling, about two engineer-quarters, and a lasting tax on every feature that touches balances.
";

#[test]
fn the_decision_record_reads_as_it_did() {
    assert_eq!(DecisionRecord(&decision()).to_string(), RECORD);
}

#[test]
fn nothing_from_outside_breaks_a_record() {
    let hostile = option("a | b\n# c\u{1b}[31m", Rung::PilotLight, minutes(1), S(0), 1, "x\ny");
    let ladder = Ladder::new(LadderSettings { candidates: vec![hostile], ..decision().settings().clone() }).unwrap();
    let record = DecisionRecord(&ladder).to_string();
    assert!(record.starts_with("# Decision: a \\| b # c [31m\n"), "{record}");
    assert!(!record.chars().any(|c| c.is_control() && c != '\n'));
}

#[test]
fn of_two_equal_options_the_second_is_no_better() {
    let twice = ["one", "two"].map(|name| option(name, Rung::WarmStandby, minutes(1), S(0), 1, ""));
    let ladder = Ladder::new(LadderSettings { candidates: twice.to_vec(), ..decision().settings().clone() }).unwrap();
    let record = DecisionRecord(&ladder).to_string();
    assert!(
        record.starts_with("# Decision: one\n") && record.contains("It meets the target and is no better."),
        "{record}"
    );
}

#[test]
fn a_record_without_a_decision_says_so() {
    let late = option("late", Rung::BackupAndRestore, S(86_400), S(0), 1, "");
    let ladder = Ladder::new(LadderSettings { candidates: vec![late], ..decision().settings().clone() }).unwrap();
    assert!(DecisionRecord(&ladder).to_string().starts_with("# Decision: no option meets the target\n"));
}

// ---- No input is too large -----------------------------------------------------------------------------------------------

fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..10_000_u64).prop_map(Duration::from_millis),
        any::<(u64, u32)>().prop_map(|(seconds, nanos)| Duration::new(seconds, nanos % 1_000_000_000)),
    ]
}

fn any_trigger() -> impl Strategy<Value = Trigger> {
    prop_oneof![any::<u32>().prop_map(Trigger::Consecutive), any_span().prop_map(Trigger::Window)]
}

fn any_routing() -> impl Strategy<Value = Option<RoutingLayer>> {
    let layer = prop_oneof![
        Just(RoutingLayer::Anycast),
        Just(RoutingLayer::GlobalLoadBalancer),
        any_span().prop_map(|check| RoutingLayer::ClientSide { check }),
        any_span().prop_map(|ttl| RoutingLayer::Dns { ttl }),
    ];
    proptest::option::of(layer)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_made_or_refused_and_keeps_its_promises(
        spans in proptest::array::uniform12(any_span()),
        triggers in proptest::collection::vec(any_trigger(), 1..4),
        (state, rate, count, hourly, cost) in any::<(u64, u64, u64, u64, u64)>(),
        (worst_case, beside, availability) in any::<(bool, bool, u32)>(),
        routing in any_routing(),
    ) {
        let [rto, gate, gate_not_before, promotion, capacity, ttl, backoff, interval, timeout, mean, rpo, own] = spans;
        let settings = PlanSettings {
            rto, worst_case, gate, gate_not_before, promotion, capacity, ttl, backoff, interval, timeout, triggers, routing,
            state: Bytes(state),
            state_rate: Throughput::per_second(Bytes(rate)).unwrap_or(Throughput::SLOWEST),
            preparation: if beside { Preparation::BesideGate } else { Preparation::AfterPromotion },
            blips: Rate::per_second(count),
            blip_mean: mean,
            budget: Some(Budgeting {
                availability: Share::billionths(availability),
                month: Month::Average,
                hit: Share::ALL,
            }),
            ladder: Some(LadderSettings {
                rpo: Some(rpo),
                downtime_per_hour: Money::units(hourly),
                events: Rate::per_second(count),
                candidates: vec![option("one", Rung::PilotLight, own, rpo, cost, ""), option("two", Rung::WarmStandby, own, own, cost / 2, "")],
                ..decision().settings().clone()
            }),
            ..PlanSettings::default()
        };
        let Ok(plan) = Plan::new(settings) else { return Ok(()) };
        for row in plan.rows() {
            prop_assert!(row.false_failovers_per_day >= 0.0);
            let judged = if worst_case { row.detection_worst } else { row.detection };
            for cell in row.cells {
                // Against the longest duration there is, sums that do not fit compare equal.
                let bounded = rto < Duration::MAX;
                prop_assert_eq!(bounded && cell.fits, bounded && plan.detection_left(cell.tier).is_some_and(|left| judged <= left), "{:?}", cell);
            }
        }
        let ladder = plan.ladder().unwrap();
        let meets = ladder.options().iter().filter(|one| !matches!(one.verdict, Verdict::MissesRto { .. } | Verdict::MissesRpo { .. }));
        prop_assert_eq!(ladder.chosen().map(|one| one.total), meets.map(|one| one.total).min());
        prop_assert!(!DecisionRecord(ladder).to_string().is_empty());
    }
}
