//! A history replayed through the supervisor's loop, result by result, and what is said of each switch.
#![cfg(feature = "calibrate")]
#![expect(clippy::disallowed_macros, reason = "the seed is said aloud")]

mod independent;

use std::path::Path;
use std::time::Duration;

use broker_failover::calibration::counterfactual::{
    Afterwards, Assumptions, Counterfactual, CounterfactualError, Replayed, Why,
};
use broker_failover::engine::{Reason, SwitchKind};
use broker_failover::supervisor::config::{self, GroupConfig};

const SECOND: u64 = 1_000_000_000;
/// Histories begin long after 1970.
const START: u64 = 1_790_000_000 * SECOND;

const EXACT: Assumptions = Assumptions {
    fence: Duration::ZERO,
    switch: Duration::ZERO,
    reconcile: Duration::ZERO,
    person_fails_back: false,
    outage: Duration::from_secs(60),
    rto: None,
};

const THREE_SECONDS: Assumptions = Assumptions {
    fence: Duration::from_secs(1),
    switch: Duration::from_secs(1),
    reconcile: Duration::from_secs(1),
    ..EXACT
};

/// A group of `names`, the first of which is the primary; `policy` and `rest` are TOML.
pub(crate) fn group(names: &[&str], policy: &str, rest: &str) -> GroupConfig {
    use std::fmt::Write as _;
    let mut text = format!(
        "[supervisor]\nsocket = \"s\"\njournal = \"j\"\n[[group]]\nname = \"main\"\nexclusivity = \"venue-arbitrated\"\n[group.policy]\n{policy}\n{rest}\n"
    );
    for (place, name) in names.iter().enumerate() {
        let role = if place == 0 { "primary = true".to_owned() } else { format!("priority = {}", 10 * place) };
        let _ = write!(
            text,
            "[[group.endpoint]]\nname = \"{name}\"\nregion = \"r\"\nurl = \"tcp://127.0.0.1:{}\"\n{role}\nprobe = {{ tcp = {{}} }}\n",
            place + 1
        );
    }
    let checked = config::parse(&text, Path::new(""));
    let config = checked.config.unwrap_or_else(|| panic!("{:#?}\n{text}", checked.findings));
    config.groups.into_iter().next().unwrap()
}

const HOOKS: &str = "[group.hooks]\nfence = { command = [\"true\"], timeout = \"1s\", proves = \"stopped\" }\n[group.failback]\nmode = \"automatic\"";

fn two(policy: &str) -> GroupConfig {
    group(&["east", "west"], policy, HOOKS)
}

/// One result of each endpoint every `step` seconds: a letter for each, `.` a success, `x` a failure, a space none.
fn replay(
    group: &GroupConfig,
    assumptions: Assumptions,
    step: u64,
    rows: &[&str],
) -> Result<Replayed, CounterfactualError> {
    let mut counterfactual = Counterfactual::new(group, assumptions)?;
    let longest = rows.iter().map(|row| row.len()).max().unwrap_or_default();
    for slot in 0..longest {
        for (one, row) in group.endpoints.iter().zip(rows) {
            let at = START + slot as u64 * step * SECOND;
            match row.as_bytes().get(slot) {
                Some(b'.') => counterfactual.sample(at, &one.endpoint.name, true)?,
                Some(b'x') => counterfactual.sample(at, &one.endpoint.name, false)?,
                _ => {}
            }
        }
    }
    counterfactual.finish()
}

/// Seconds since the start.
fn since(at: u64) -> u64 {
    (at - START) / SECOND
}

#[test]
fn an_outage_is_left_and_the_time_that_the_path_went_on_failing_was_saved() {
    let east = format!("..{}{}", "x".repeat(20), ".".repeat(20));
    let replayed = replay(&two("cooldown = \"5s\""), THREE_SECONDS, 1, &[&east, &".".repeat(42)]).unwrap();
    let [failover, failback] = &*replayed.switches else { panic!("{:#?}", replayed.switches) };
    assert_eq!((failover.kind, failover.from, failover.to, failover.epoch), (SwitchKind::Failover, 0, 1, 2));
    assert_eq!(failover.failing_since.map(since), Some(2));
    // The third failure in a row is that of second 4; then fence, switch and reconciliation.
    let times = [failover.decided, failover.switched, failover.opened.unwrap()].map(since);
    assert_eq!(times, [4, 5, 7]);
    assert_eq!(failover.reason, Some(Reason::ActiveDown));
    // East answers in second 22.
    let saved = Afterwards::Saved { time: Duration::from_secs(15), recovered: Some(START + 22 * SECOND) };
    assert_eq!(failover.afterwards, saved);
    // Three successes in a row, and the cooldown is over long since.
    assert_eq!(
        (failback.kind, since(failback.decided), failback.afterwards),
        (SwitchKind::Failback, 24, Afterwards::Well)
    );
    assert_eq!(failover.stay.until, Some(failback.switched));
    assert_eq!(replayed.cost(0), Duration::from_secs(6));
    let totals = replayed.totals;
    // Seconds 2 to 4 failing, 3 held for each switch; without any failover 20.
    assert_eq!((totals.failing, totals.held), (Duration::from_secs(2), Duration::from_secs(6)));
    assert_eq!(totals.primary_failing, Duration::from_secs(20));
    assert!((totals.gained_seconds() - 12.0).abs() < 1e-9);
    assert_eq!(totals.observed, totals.well + totals.failing + totals.held);
}

#[test]
fn a_path_that_answers_again_while_it_is_left_was_left_for_nothing() {
    for (failures, is_false) in [(3, true), (4, true), (8, true), (9, false)] {
        // Left at the third failure, open three seconds later: up to three more, waiting is no worse.
        let east = format!("..{}{}", "x".repeat(failures), ".".repeat(30));
        let replayed = replay(&two(""), THREE_SECONDS, 1, &[&east, &".".repeat(40)]).unwrap();
        let first = replayed.switches.first().unwrap();
        assert_eq!(first.is_false(), is_false, "{failures}: {first:#?}");
        assert_eq!(replayed.false_failovers(), usize::from(is_false));
    }
}

#[test]
fn without_a_failed_result_after_flow_is_open_nothing_was_saved() {
    let replayed = replay(&two(""), EXACT, 1, &["..xxx....", "........."]).unwrap();
    assert_eq!(replayed.switches[0].afterwards, Afterwards::False { recovered: START + 5 * SECOND });
    let replayed = replay(&two(""), EXACT, 1, &["..xxxx...", "........."]).unwrap();
    let saved = Afterwards::Saved { time: Duration::from_secs(2), recovered: Some(START + 6 * SECOND) };
    assert_eq!(replayed.switches[0].afterwards, saved);
}

#[test]
fn a_history_that_ends_in_the_outage_says_at_least() {
    let replayed = replay(&two(""), EXACT, 1, &["..xxxxxxxx", ".........."]).unwrap();
    let saved = Afterwards::Saved { time: Duration::from_secs(5), recovered: None };
    assert_eq!(replayed.switches[0].afterwards, saved);
    let replayed = replay(&two(""), EXACT, 1, &["..xxx", "....."]).unwrap();
    assert_eq!(replayed.switches[0].afterwards, Afterwards::Unknown);
}

#[test]
fn a_gap_is_the_monitors_silence_and_never_a_failure() {
    // Two failures, 31 seconds without any result, two failures: never three in a row.
    let gap = " ".repeat(31);
    let (east, west) = (format!("...xx{gap}xx...."), format!(".....{gap}......"));
    let replayed = replay(&two(""), EXACT, 1, &[&east, &west]).unwrap();
    assert_eq!(replayed.switches, []);
    assert_eq!((replayed.totals.stops, replayed.totals.stopped), (1, Duration::from_secs(32)));
    // One nanosecond of `max_health_age` less, and it is no stop: the policy decides what a silence of 30 s is.
    let gap = " ".repeat(29);
    let (east, west) = (format!("...xx{gap}xx...."), format!(".....{gap}......"));
    let replayed = replay(&two(""), EXACT, 1, &[&east, &west]).unwrap();
    assert_eq!((replayed.totals.stops, replayed.switches.len()), (0, 1));
}

#[test]
fn silence_of_the_active_path_alone_moves_nothing_and_is_told() {
    let east = format!("....{}....", " ".repeat(100));
    let replayed = replay(&two(""), EXACT, 1, &[&east, &".".repeat(108)]).unwrap();
    assert_eq!(replayed.switches, []);
    // Fresh up to and including 30 s after its last result.
    assert_eq!(replayed.totals.stale, Duration::from_secs(70));
    assert_eq!(replayed.totals.stops, 0);
}

#[test]
fn an_endpoint_that_the_history_knows_only_later_does_not_stop_the_others() {
    let group = group(&["east", "west", "north"], "", HOOKS);
    let east = format!("{}xxxxxx", ".".repeat(40));
    let (west, north) = (".".repeat(46), format!("{}..", " ".repeat(44)));
    let replayed = replay(&group, EXACT, 1, &[&east, &west, &north]).unwrap();
    assert_eq!(replayed.switches.iter().map(|one| one.to).collect::<Vec<_>>(), [1]);
    // Within the first 30 s nothing is evaluated.
    let east = format!("{}xxxxxx", ".".repeat(4));
    let replayed = replay(&group, EXACT, 1, &[&east, &west, &north]).unwrap();
    assert_eq!(since(replayed.switches[0].decided), 31);
}

#[test]
fn with_nowhere_to_go_it_halts_and_the_outage_is_listed() {
    let east = format!("..{}...", "x".repeat(70));
    let west = format!("..{}...", "x".repeat(70));
    let replayed = replay(&two(""), EXACT, 1, &[&east, &west]).unwrap();
    assert_eq!(replayed.switches, []);
    let [halt] = &*replayed.halts else { panic!("{:#?}", replayed.halts) };
    assert_eq!((&*halt.code, since(halt.start), halt.end.map(since)), ("NO_TARGET_AVAILABLE", 4, Some(72)));
    let [outage] = &*replayed.outages else { panic!("{:#?}", replayed.outages) };
    assert_eq!((outage.why, outage.left, since(outage.start)), (Why::NoTarget, None, 2));
    assert_eq!((outage.length(), outage.flow_back.map(since)), (Duration::from_secs(69), Some(72)));
    assert_eq!(replayed.totals.halted, Duration::from_secs(68));
}

#[test]
fn an_outage_that_never_fires_the_trigger_is_listed_by_the_stated_rule() {
    // Patience of 100 failures; the outage is one of 62 s from its first failed result to its last.
    let east = format!("..{}....", "x".repeat(63));
    let rows = [&*east, &".".repeat(69)];
    let replayed = replay(&two("failure_threshold = 100"), EXACT, 1, &rows).unwrap();
    let [outage] = &*replayed.outages else { panic!("{:#?}", replayed.outages) };
    assert_eq!((outage.why, outage.left, outage.length()), (Why::NotDown, None, Duration::from_secs(62)));
    for (rule, listed) in [(61, 1), (62, 0)] {
        let assumptions = Assumptions { outage: Duration::from_secs(rule), ..EXACT };
        let replayed = replay(&two("failure_threshold = 100"), assumptions, 1, &rows).unwrap();
        assert_eq!(replayed.outages.len(), listed, "{rule}");
    }
}

#[test]
fn an_outage_is_left_late_one_nanosecond_after_the_stated_time() {
    let east = format!("..{}....", "x".repeat(70));
    let rows = [&*east, &".".repeat(76)];
    // Two seconds to the third failure, three to flow that is open again.
    for (rto, late) in [(Duration::from_secs(5), 0), (Duration::from_nanos(4_999_999_999), 1)] {
        let assumptions = Assumptions { rto: Some(rto), ..THREE_SECONDS };
        let replayed = replay(&two(""), assumptions, 1, &rows).unwrap();
        assert_eq!(replayed.outages.len(), late);
        assert!(replayed.outages.iter().all(|one| one.why == Why::Late && one.flow_back == Some(START + 7 * SECOND)));
    }
}

#[test]
fn a_target_that_fails_too_is_told_as_the_cost() {
    // West takes flow in second 4 and fails from second 6 on; both are lost.
    let replayed =
        replay(&two("cooldown = \"1h\""), EXACT, 1, &["..xxxxxxxx..........", "......xxxxxxxx......"]).unwrap();
    let first = replayed.switches[0];
    assert_eq!((first.stay.failing, first.stay.halted), (Duration::from_secs(2), Duration::from_secs(2)));
    let second = replayed.switches[1];
    assert_eq!((second.kind, second.from, second.to, since(second.switched)), (SwitchKind::Failover, 1, 0, 10));
}

#[test]
fn a_target_that_is_lost_before_flow_opens_was_gone_to_in_vain() {
    let slow = Assumptions { reconcile: Duration::from_secs(10), ..EXACT };
    let east = format!("..{}..........", "x".repeat(24));
    let west = format!("......{}", "x".repeat(36));
    let replayed = replay(&two("cooldown = \"1h\""), slow, 1, &[&east, &west]).unwrap();
    let first = replayed.switches[0];
    assert_eq!(first.opened, None);
    assert_eq!(first.afterwards, Afterwards::InVain { recovered: START + 26 * SECOND });
    assert_eq!(first.held(), None);
}

#[test]
fn a_failback_that_is_a_persons_is_told_and_done_only_if_assumed() {
    let rows = ["..xxxxxx......................", ".............................."];
    for rest in [HOOKS.replace("automatic", "manual"), "[group.failback]\nmode = \"automatic\"".to_owned()] {
        let group = group(&["east", "west"], "cooldown = \"5s\"", &rest);
        let replayed = replay(&group, EXACT, 1, &rows).unwrap();
        assert_eq!(replayed.switches.len(), 1);
        assert_eq!(replayed.failback_possible.iter().map(|at| since(*at)).collect::<Vec<_>>(), [10]);
        let assumed = Assumptions { person_fails_back: true, ..EXACT };
        let replayed = replay(&group, assumed, 1, &rows).unwrap();
        let times: Vec<_> = replayed.switches.iter().map(|one| (one.kind, since(one.switched))).collect();
        assert_eq!(times, [(SwitchKind::Failover, 4), (SwitchKind::Failback, 10)]);
    }
}

#[test]
fn a_halt_that_a_person_lifts_is_lifted_once_the_path_has_proved_itself() {
    let rows = ["..xxxxx......", "..xxxxx......"];
    let replayed = replay(&two("resume_after_halt = \"operator\""), EXACT, 1, &rows).unwrap();
    assert_eq!(
        replayed.halts.iter().map(|halt| (since(halt.start), halt.end.map(since))).collect::<Vec<_>>(),
        [(4, Some(7))]
    );
}

#[test]
fn other_endpoints_than_the_groups_are_one_error_with_both_lists() {
    let mut counterfactual = Counterfactual::new(&two(""), EXACT).unwrap();
    for (at, name) in ["west", "north", "<script>", "north"].into_iter().enumerate() {
        counterfactual.sample(START + at as u64, name, true).unwrap();
    }
    let error = counterfactual.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the history has the endpoints \"<script>\", \"north\", \"west\"; group \"main\" of the configuration has \
         \"east\", \"west\"; expected the same names in both"
    );
}

#[test]
fn a_result_that_goes_back_in_time_is_refused_and_changes_nothing() {
    let mut counterfactual = Counterfactual::new(&two(""), EXACT).unwrap();
    counterfactual.sample(START + 1, "west", true).unwrap();
    let error = counterfactual.sample(START, "east", false).unwrap_err();
    assert!(error.to_string().starts_with("a result of \"east\" at 1790000000000000000 ns comes after"), "{error}");
    counterfactual.sample(START + 1, "east", true).unwrap();
    assert_eq!(counterfactual.finish().unwrap().samples, 2);
}

#[test]
fn no_times_however_wild_make_it_panic() {
    let mut counterfactual = Counterfactual::new(&two(""), THREE_SECONDS).unwrap();
    for at in [0, 1, u64::MAX - 1, u64::MAX, u64::MAX] {
        for name in ["east", "west"] {
            counterfactual.sample(at, name, at < 2).unwrap();
        }
    }
    assert_eq!(counterfactual.finish().unwrap().last, u64::MAX);
}
