//! Extra slots after a session's end: exact numbers, both sides of each boundary, and their bound.

use proptest::prelude::*;

use super::*;

/// Short enough that what comes due together is started to the millisecond.
const PACE: [u64; 3] = [120, 60, 90];

impl Bench {
    /// A session to an endpoint ended.
    fn confirm(&mut self, endpoint: u16, spacing: u64, failures: u32) -> Confirmed {
        let how = Confirming { spacing: Duration::from_millis(spacing), failures };
        self.core.confirm(self.outlet, EndpointId::from_index(endpoint), how, self.at())
    }

    /// One endpoint whose first slot has succeeded; a session to it ends after 10 ms.
    fn lost(overlaps: bool, spacing: u64, failures: u32) -> Self {
        let mut bench = Self::new();
        bench.watch(0, PACE, overlaps, &[]);
        bench.run_to(0);
        bench.answer(0, good());
        bench.run_to(10);
        assert_eq!(bench.confirm(0, spacing, failures), Confirmed::Begun);
        bench
    }

    fn confirms(&self) -> u64 {
        self.core.stats().confirms
    }
}

#[test]
fn a_killed_path_is_asked_until_as_many_have_failed_as_decide_and_no_more() {
    let mut bench = Bench::lost(true, 5, 3);
    for (started, until) in [(1, 14), (2, 19), (3, 24)] {
        bench.run_to(until - 4);
        bench.answer(started, refused());
        bench.run_to(until);
    }
    assert_eq!(bench.starts(), [0, 10, 15, 20], "at once, and 5 ms apart to the millisecond");
    bench.run_to(59);
    assert_eq!(bench.starts().len(), 4, "decided: the fourth would show nothing more");
    bench.run_to(60);
    assert_eq!(bench.starts(), [0, 10, 15, 20, 60], "the ordinary slots keep their own pace, a failing one now");
    bench.answer(4, good());
    let told: Vec<_> = bench.told().into_iter().map(|(due, slot, kind)| format!("{due} {slot} {kind}")).collect();
    assert_eq!(told, ["0 0 +", "10 1 Refused", "15 2 Refused", "20 3 Refused", "60 4 +"]);
    assert_eq!(bench.confirms(), 3);
}

#[test]
fn one_success_ends_it_whatever_came_before() {
    let mut bench = Bench::lost(true, 5, 3);
    bench.run_to(10);
    bench.answer(1, refused());
    bench.run_to(15);
    bench.answer(2, good());
    bench.run_to(119);
    assert_eq!((bench.starts(), bench.confirms()), (vec![0, 10, 15], 2));
    bench.run_to(120);
    assert_eq!(bench.starts(), [0, 10, 15, 120]);
}

#[test]
fn a_success_that_was_asked_for_before_the_session_ended_says_nothing_of_its_end() {
    let mut bench = Bench::new();
    bench.watch(0, PACE, true, &[]);
    bench.run_to(0);
    assert_eq!(bench.confirm(0, 5, 2), Confirmed::Begun);
    bench.run_to(1);
    bench.answer(0, good());
    bench.answer(1, refused());
    bench.run_to(50);
    bench.answer(2, refused());
    bench.run_to(59);
    assert_eq!(bench.starts(), [0, 0, 5], "both extra slots, although the ordinary one succeeded");
}

#[test]
fn failures_of_ordinary_slots_count_too() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 80], true, &[]);
    bench.run_to(0);
    bench.answer(0, good());
    bench.run_to(98);
    bench.confirm(0, 5, 2);
    bench.run_to(98);
    bench.answer(1, refused());
    bench.run_to(100);
    bench.answer(2, refused());
    bench.run_to(199);
    assert_eq!((bench.starts(), bench.confirms()), (vec![0, 98, 100], 1));
}

#[test]
fn a_path_that_hangs_is_asked_at_the_spacing_and_left_a_timeout_later() {
    let mut bench = Bench::lost(true, 5, 3);
    bench.run_to(10 + 89);
    assert_eq!(bench.starts(), [0, 10, 15, 20, 80], "without an answer for 60 ms the ordinary pace is the failing one");
    assert_eq!(bench.kinds(), ["+"]);
    bench.run_to(10 + 90);
    assert_eq!(bench.kinds(), ["Timeout"]);
    bench.run_to(20 + 90);
    assert_eq!(bench.kinds(), ["Timeout", "Timeout"]);
    bench.run_to(1_000);
    let later = bench.kinds();
    assert!(later.len() > 10 && later.iter().all(|kind| kind == "Timeout"), "none is called our own fault: {later:?}");
    assert_eq!(bench.confirms(), 3);
}

#[test]
fn a_kind_that_must_not_overlap_waits_for_its_answer_and_is_never_found_running() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 50, 80], false, &[]);
    bench.run_to(0);
    assert_eq!(bench.confirm(0, 5, 2), Confirmed::Begun);
    bench.run_to(20);
    assert_eq!(bench.starts(), [0], "the ordinary slot is still out");
    bench.answer(0, good());
    bench.run_to(20);
    assert_eq!(bench.starts(), [0, 20]);
    bench.run_to(99);
    bench.answer(1, good());
    assert_eq!(bench.kinds(), ["+", "+"]);
    bench.run_to(119);
    assert_eq!(bench.starts(), [0, 20], "the ordinary slot of 100 ms was this one");
    bench.run_to(120);
    bench.answer(2, good());
    bench.run_to(220);
    assert_eq!((bench.starts(), bench.kinds()), (vec![0, 20, 120, 220], vec!["+".to_owned()]));
}

#[test]
fn extra_slots_that_are_late_keep_the_rate_and_half_their_distance() {
    for (late, third) in [(0, 30), (4, 30), (5, 30), (6, 31), (50, 75)] {
        let mut bench = Bench::lost(true, 10, 3);
        bench.run_to(10);
        bench.now = T0 + (20 + late) * MS;
        bench.tick();
        bench.run_to(third - 1);
        let before = bench.confirms();
        bench.run_to(third);
        assert_eq!((before, bench.confirms()), (2, 3), "the second one was late by {late} ms");
    }
}

#[test]
fn a_second_end_during_a_burst_adds_nothing() {
    let mut bench = Bench::lost(true, 5, 3);
    assert_eq!(bench.confirm(0, 5, 3), Confirmed::Joined);
    bench.run_to(110);
    assert_eq!(bench.confirms(), 3);
}

#[test]
fn the_budget_is_whole_again_a_span_later_and_not_before() {
    let mut bench = Bench::new();
    bench.watch(0, PACE, true, &[]);
    let answers = |bench: &mut Bench| {
        let out: Vec<_> = (0..bench.started.len()).map(|place| bench.ticket(place)).collect();
        out.into_iter().for_each(|ticket| bench.core.complete(ticket, refused(), bench.at()));
    };
    bench.run_to(10);
    answers(&mut bench);
    for burst in 0..u64::from(MOST_BURSTS) {
        bench.run_to(burst * 5_000 + 10);
        assert_eq!(bench.confirm(0, 1, 2), Confirmed::Begun);
        for step in 10..13 {
            bench.run_to(burst * 5_000 + step);
            answers(&mut bench);
        }
    }
    assert_eq!(bench.confirms(), u64::from(MOST_BURSTS) * 2);
    assert_eq!(bench.confirm(0, 1, 2), Confirmed::Spent);
    bench.run_to(60_010);
    assert_eq!(bench.confirm(0, 1, 2), Confirmed::Spent, "the first extra slot is exactly a span ago, not the second");
    bench.now += MS - 1;
    assert_eq!(bench.confirm(0, 1, 2), Confirmed::Spent);
    bench.now += 1;
    assert_eq!(bench.confirm(0, 1, 2), Confirmed::Begun);
}

#[test]
fn a_path_that_wants_patience_or_is_not_asked_gets_no_extra_slot() {
    let mut bench = Bench::new();
    assert_eq!(bench.confirm(0, 5, 3), Confirmed::Unwatched);
    bench.watch(0, [100, 100, 80], true, &["key"]);
    bench.watch(1, [100, 100, 80], true, &["key"]);
    bench.run_to(0);
    bench.answer(0, throttled(Some(30)));
    bench.answer(1, good());
    bench.run_to(10);
    assert_eq!([bench.confirm(0, 5, 3), bench.confirm(1, 5, 3)], [Confirmed::Barred; 2]);
    let mut bench = Bench::lost(true, 5, 3);
    bench.run_to(10);
    bench.answer(1, throttled(Some(30)));
    bench.run_to(110);
    assert_eq!(bench.confirms(), 1, "it asked for patience");
}

#[test]
fn a_new_pace_ends_a_burst_and_does_not_renew_its_budget_another_prober_does() {
    let prober: Arc<dyn Prober> = Arc::new(Nobody { overlaps: true });
    let watch = |prober: &Arc<dyn Prober>| Watch {
        endpoint: EndpointId::from_index(0),
        probing: Probing {
            interval: Duration::from_secs(1),
            interval_when_failing: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            jitter: 0.0,
        },
        prober: Arc::clone(prober),
        shared_fate: Vec::new(),
    };
    let mut bench = Bench::new();
    for number in 0..MOST_BURSTS {
        bench.core.watch(bench.outlet, watch(&prober), bench.at());
        assert_eq!(bench.confirm(0, 1, 1), Confirmed::Begun);
        bench.run_to(u64::from(number) * 10);
    }
    bench.core.watch(bench.outlet, watch(&prober), bench.at());
    assert_eq!(bench.confirm(0, 1, 1), Confirmed::Spent);
    let other: Arc<dyn Prober> = Arc::new(Nobody { overlaps: true });
    bench.core.watch(bench.outlet, watch(&other), bench.at());
    assert_eq!(bench.confirm(0, 1, 1), Confirmed::Begun);
}

#[test]
fn spacing_and_failures_are_bounded() {
    let mut bench = Bench::lost(true, 0, u32::MAX);
    let mut starts = Vec::new();
    for _ in 0..100 {
        bench.tick();
        starts.push(bench.started.len());
        bench.now += u64::try_from(SHORTEST_SPACING.as_nanos()).unwrap();
    }
    let expected: Vec<_> = (0..100).map(|step| 1 + (step + 1).min(MOST_CONFIRMS as usize)).collect();
    assert_eq!(starts, expected, "one each tenth of a millisecond, sixteen at most");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Lost,
    Answer(usize, u8),
    Suspend(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..400).prop_map(Step::Wait),
        1 => (400_u64..4_000).prop_map(Step::Wait),
        5 => Just(Step::Lost),
        6 => (0_usize..8, 0_u8..6).prop_map(|(place, kind)| Step::Answer(place, kind)),
        1 => (20_u64..2_000).prop_map(Step::Suspend),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Through any sequence of ends, answers and suspends: at most so many extra slots in any span, each slot once and
    /// in order, and no result that blames the path for what was asked in addition.
    #[test]
    fn extra_slots_stay_inside_their_budget(steps in steps(), failures in 1_u32..5, overlaps: bool) {
        let mut bench = Bench::new();
        bench.watch(0, [120, 60, 90], overlaps, &[]);
        let mut millis = 0;
        let mut extra = Vec::new();
        let mut results = Vec::new();
        for step in steps {
            match step {
                Step::Wait(span) => {
                    for _ in 0..span {
                        millis += 1;
                        let before = bench.confirms();
                        bench.run_to(millis);
                        extra.extend((before..bench.confirms()).map(|_| millis));
                    }
                }
                Step::Suspend(span) => {
                    millis += span;
                    bench.now += span * MS;
                    bench.suspended += span * MS;
                }
                Step::Lost => { let _ = bench.confirm(0, 5, failures); }
                Step::Answer(back, kind) => {
                    if let Some(place) = bench.started.len().checked_sub(back + 1) {
                        bench.answer(place, match kind {
                            0 | 1 => good(),
                            2 => Verdict::no_evidence(NoEvidence::LocalExhausted, "x"),
                            _ => refused(),
                        });
                    }
                }
            }
            results.extend(bench.told());
        }
        let budget = (MOST_BURSTS * failures) as usize;
        for (first, at) in extra.iter().enumerate() {
            let inside = extra[first..].iter().take_while(|other| *other - at < 60_000).count();
            prop_assert!(inside <= budget, "{} extra slots from {at} ms on, at most {budget}", inside);
        }
        let mut next = 0;
        for (_, slot, kind) in results {
            if let Some((_, range)) = kind.split_once(' ').filter(|(_, range)| range.contains("..")) {
                let (from, to) = range.split_once("..").unwrap();
                prop_assert_eq!(from.parse::<u64>().unwrap(), next);
                next = to.parse().unwrap();
            } else if kind != "late" {
                prop_assert_eq!(slot, next);
                next += 1;
                prop_assert!(!overlaps || kind != "Overlap");
            }
        }
    }
}
