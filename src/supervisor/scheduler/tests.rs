//! The slots on a virtual clock: exact numbers, both sides of each boundary.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::core::{Actions, Core, Now, Start, Ticket};
use super::*;
use crate::supervisor::probes::{Evidence, NoEvidence, ProbeFuture};

mod confirm;

const MS: u64 = 1_000_000;
/// Everything begins here.
const T0: u64 = 1_000 * MS;

struct Nobody {
    overlaps: bool,
}

impl Prober for Nobody {
    fn overlaps(&self) -> bool {
        self.overlaps
    }

    fn probe(&self, _: Instant) -> ProbeFuture<'_> {
        Box::pin(std::future::pending())
    }
}

/// A core, driven by hand.
struct Bench {
    core: Core,
    now: u64,
    suspended: u64,
    outlet: usize,
    events: mpsc::Receiver<Event>,
    started: VecDeque<(u64, Ticket)>,
    /// Whether the worker does what it is told.
    works: bool,
    polled: u64,
}

impl Bench {
    fn new() -> Self {
        Self::with_room(10_000)
    }

    fn with_room(room: usize) -> Self {
        let (sender, events) = mpsc::channel(room);
        let mut core = Core::new(7, 0);
        let outlet = core.add_outlet(sender);
        Self { core, now: T0, suspended: 0, outlet, events, started: VecDeque::new(), works: true, polled: 0 }
    }

    fn at(&self) -> Now {
        Now { at: self.now, suspended: self.suspended }
    }

    /// interval / interval_when_failing / timeout in ms.
    fn watch(&mut self, endpoint: u16, pace: [u64; 3], overlaps: bool, keys: &[&str]) -> u64 {
        let [interval, fast, timeout] = pace.map(Duration::from_millis);
        let watch = Watch {
            endpoint: EndpointId::from_index(endpoint),
            probing: Probing { interval, interval_when_failing: fast, timeout, jitter: 0.0 },
            prober: Arc::new(Nobody { overlaps }),
            shared_fate: keys.iter().map(ToString::to_string).collect(),
        };
        self.core.watch(self.outlet, watch, self.at())
    }

    /// Lets the timekeeper run until `millis` after the beginning; it is never late.
    fn run_to(&mut self, millis: u64) {
        let until = T0 + millis * MS;
        loop {
            self.tick();
            let next = self.core.plan(self.now);
            if next > until {
                break;
            }
            self.now = next;
        }
        self.now = until;
    }

    fn tick(&mut self) {
        let mut actions = Actions::default();
        self.core.tick(self.at(), self.polled, &mut actions);
        for expire in actions.expire {
            if self.works {
                self.core.expire(&expire, self.at());
            }
        }
        let now = (self.now - T0) / MS;
        self.started.extend(actions.start.into_iter().map(|Start { ticket, .. }| (now, ticket)));
    }

    /// When the slots started since the last call were started, in ms.
    fn starts(&mut self) -> Vec<u64> {
        self.started.iter().map(|(at, _)| *at).collect()
    }

    fn ticket(&self, started: usize) -> Ticket {
        self.started[started].1
    }

    fn answer(&mut self, started: usize, verdict: Verdict) {
        let ticket = self.ticket(started);
        self.core.complete(ticket, verdict, self.at());
    }

    /// What was told: due time in ms, slot, and in short what it came to.
    fn told(&mut self) -> Vec<(u64, u64, String)> {
        let mut told = Vec::new();
        self.core.flush();
        while let Ok(event) = self.events.try_recv() {
            told.push(match event {
                Event::Slot(result) => {
                    let due = (result.due.as_nanos() - T0) / MS;
                    (due, result.slot, short(&result.verdict))
                }
                Event::Stall(stall) => {
                    let text = format!("{:?} {}..{}", stall.cause, stall.slots.start, stall.slots.end);
                    ((stall.from.as_nanos() - T0) / MS, stall.slots.start, text)
                }
                Event::Late(late) => (0, late.slot, "late".to_owned()),
            });
        }
        told
    }

    fn kinds(&mut self) -> Vec<String> {
        self.told().into_iter().map(|(_, _, kind)| kind).collect()
    }
}

fn short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Success(_) => "+".to_owned(),
        Verdict::PathFault { fault, .. } => format!("{fault:?}"),
        Verdict::NoEvidence { cause, .. } => format!("?{cause:?}"),
    }
}

fn good() -> Verdict {
    Verdict::Success(Evidence::default())
}

fn refused() -> Verdict {
    Verdict::fault(Fault::Refused, "refused")
}

fn throttled(seconds: Option<u64>) -> Verdict {
    let retry_after = seconds.map(Duration::from_secs);
    Verdict::NoEvidence { cause: NoEvidence::Throttled, text: String::new(), retry_after }
}

#[test]
fn slots_are_due_at_a_fixed_rate_whatever_the_answers_take() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 80], true, &[]);
    for slot in 0..10 {
        bench.run_to(slot as u64 * 100 + 7 * slot as u64);
        bench.answer(slot, good());
    }
    assert_eq!(bench.starts(), [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    assert_eq!(bench.kinds(), ["+"; 10]);
}

#[test]
fn a_slot_without_an_answer_yields_a_timeout_at_its_deadline_and_delays_no_later_slot() {
    let mut bench = Bench::new();
    bench.watch(0, [50, 50, 125], true, &[]);
    bench.run_to(124);
    assert_eq!((bench.starts(), bench.told()), (vec![0, 50, 100], vec![]));
    bench.answer(1, good());
    assert_eq!(bench.told(), [], "in slot order: the first is still out");
    bench.run_to(125);
    assert_eq!(bench.told(), [(0, 0, "Timeout".to_owned()), (50, 1, "+".to_owned())]);
    bench.run_to(224);
    assert_eq!(bench.starts(), [0, 50, 100, 150, 200]);
    assert_eq!(bench.told(), []);
    bench.run_to(225);
    assert_eq!(bench.told(), [(100, 2, "Timeout".to_owned())]);
}

#[test]
fn at_most_timeout_over_shortest_interval_run_at_once() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 10, 95], true, &[]);
    let mut most = 0;
    for ms in 0..1_000 {
        bench.run_to(ms);
        most = most.max(bench.core.stats().running);
    }
    assert_eq!(most, 10);
}

#[test]
fn late_slots_do_not_exceed_what_may_run_at_once() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 150], true, &[]);
    bench.run_to(0);
    bench.answer(0, good());
    // Three slots at once, where two may run.
    bench.now = T0 + 350 * MS;
    bench.run_to(350);
    assert_eq!(bench.starts(), [0, 350, 350]);
    bench.answer(1, good());
    bench.answer(2, good());
    assert_eq!(bench.kinds(), ["+", "+", "+", "?Frozen"]);
}

#[test]
fn a_start_that_is_a_little_late_costs_the_next_one_nothing() {
    // The timeout is a multiple of the interval: at each slot another one's deadline is just ahead.
    for (pace, rate) in [([100, 100, 100], 100), ([100, 50, 200], 50)] {
        let mut bench = Bench::new();
        bench.watch(0, pace, true, &[]);
        // Each moment is noticed at most half an interval late, and not always equally.
        for late in [0, 20, 1, 5, 24].into_iter().cycle() {
            bench.tick();
            bench.now = bench.core.plan(bench.now) + late * MS;
            if bench.now > T0 + 1_000 * MS {
                break;
            }
        }
        let told = bench.told();
        assert!(told.len() >= 3 && told.iter().all(|(_, _, kind)| kind == "Timeout"), "{told:?}");
        assert!(told.iter().zip(0..).all(|((due, _, _), place)| *due == place * rate), "{told:?}");
    }
}

#[test]
fn a_failure_quickens_the_pace_and_a_success_of_the_newest_slows_it() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 20, 80], true, &[]);
    bench.run_to(5);
    bench.answer(0, refused());
    bench.run_to(25);
    bench.answer(1, refused());
    bench.run_to(45);
    bench.answer(2, good());
    bench.run_to(145);
    assert_eq!(bench.starts(), [0, 20, 40, 140]);
    assert_eq!(bench.kinds(), ["Refused", "Refused", "+"]);
}

#[test]
fn silence_quickens_the_pace_before_it_is_a_failure() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 10, 100], true, &[]);
    bench.run_to(9);
    assert_eq!(bench.starts(), [0]);
    bench.run_to(30);
    assert_eq!(bench.starts(), [0, 10, 20, 30], "phi + f, phi + 2f: three timeouts by phi + 2f + T");
    bench.run_to(120);
    assert_eq!(bench.kinds(), ["Timeout"; 3]);
}

#[test]
fn an_older_success_does_not_end_the_quick_pace() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 10, 100], true, &[]);
    bench.run_to(11);
    bench.answer(0, refused());
    bench.run_to(21);
    bench.answer(1, good());
    bench.run_to(30);
    assert_eq!(bench.starts(), [0, 10, 20, 30], "slot 2 is newer and has no answer");
    bench.answer(3, good());
    bench.run_to(129);
    assert_eq!(bench.starts().len(), 4);
    bench.run_to(130);
    assert_eq!(bench.starts().last(), Some(&130));
}

#[test]
fn an_older_failure_after_a_newer_success_changes_no_pace() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 250], true, &[]);
    bench.run_to(200);
    bench.answer(2, good());
    bench.run_to(270);
    assert_eq!(bench.kinds(), ["Timeout"]);
    bench.run_to(310);
    assert_eq!(bench.starts(), [0, 100, 200, 300]);
}

#[test]
fn a_kind_that_must_not_overlap_fails_the_slot_that_finds_it_running() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 10, 250], false, &[]);
    bench.run_to(249);
    assert_eq!(bench.starts(), [0], "no sooner slot: it could only find it running");
    bench.run_to(260);
    // 0 times out at 250; 100 and 200 found it running; then the quick pace: at once, since 210 is over.
    assert_eq!(
        bench.told(),
        [(0, 0, "Timeout".to_owned()), (100, 1, "Overlap".to_owned()), (200, 2, "Overlap".to_owned())]
    );
    assert_eq!(bench.starts(), [0, 250]);
}

#[test]
fn a_slow_but_healthy_kind_that_must_not_overlap_returns_to_its_interval() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 10, 90], false, &[]);
    bench.run_to(30);
    bench.answer(0, refused());
    bench.run_to(60);
    assert_eq!(bench.starts(), [0, 30], "10 is over; and then none before the answer");
    bench.answer(1, good());
    bench.run_to(130);
    assert_eq!(bench.starts(), [0, 30, 130]);
    assert_eq!(bench.kinds(), ["Refused", "+"]);
}

#[test]
fn a_late_answer_is_dropped_and_told() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 50], true, &[]);
    bench.run_to(50);
    bench.answer(0, good());
    assert_eq!(bench.told(), [(0, 0, "Timeout".to_owned()), (0, 0, "late".to_owned())]);
    assert_eq!(bench.core.stats().late, 1);
}

#[test]
fn throttled_pauses_all_that_share_a_key_and_each_slot_says_so() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 50], true, &["quota"]);
    bench.watch(1, [100, 100, 50], true, &["quota", "uplink"]);
    bench.watch(2, [100, 100, 50], true, &["other"]);
    bench.run_to(1);
    bench.answer(0, throttled(Some(2)));
    bench.answer(1, good());
    bench.answer(2, good());
    let mut slot = 3;
    for at in (100..=2_000).step_by(100) {
        bench.run_to(at);
        assert_eq!(bench.starts().len() - slot, 1, "only the third is asked at {at}");
        bench.answer(slot, good());
        slot += 1;
    }
    let told = bench.kinds();
    assert_eq!(told.iter().filter(|kind| *kind == "?Throttled").count(), 41);
    assert_eq!(told.iter().filter(|kind| *kind == "+").count(), 22);
    bench.run_to(2_110);
    assert!(bench.starts().len() > slot + 1, "asked again after the pause and at most an interval of jitter");
}

#[test]
fn whatever_else_would_ask_is_told_how_long_to_wait() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 50], true, &["quota"]);
    bench.watch(1, [100, 100, 50], true, &["quota"]);
    bench.watch(2, [100, 100, 50], true, &[]);
    let all = |bench: &mut Bench| {
        let now = bench.at();
        [0, 1, 2, 3].map(|endpoint| bench.core.patience(bench.outlet, EndpointId::from_index(endpoint), now))
    };
    bench.run_to(1);
    assert_eq!(all(&mut bench), [None; 4]);
    bench.answer(0, throttled(Some(2)));
    let [Some(own), shared, None, None] = all(&mut bench) else { panic!("{:?}", all(&mut bench)) };
    assert_eq!(shared, Some(own), "whoever shares its fate waits as long");
    // With a share of the interval, so that not all come back together.
    assert!((2_000..2_100).contains(&own.as_millis()), "{own:?}");
    bench.now += u64::try_from(own.as_nanos()).unwrap() - 1;
    assert_eq!(all(&mut bench)[..2], [Some(Duration::from_nanos(1)); 2]);
    bench.now += 1;
    assert_eq!(all(&mut bench), [None; 4]);
}

#[test]
fn what_an_endpoint_shares_can_change_and_its_slots_do_not_notice() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 50], true, &["quota"]);
    bench.watch(1, [100, 100, 50], true, &[]);
    bench.run_to(1);
    bench.answer(0, good());
    bench.answer(1, good());
    assert!(bench.core.share(bench.outlet, EndpointId::from_index(1), vec!["quota".to_owned()]));
    assert!(!bench.core.share(bench.outlet, EndpointId::from_index(2), Vec::new()));
    bench.run_to(100);
    assert_eq!(bench.starts(), [0, 0, 100, 100]);
    bench.answer(2, throttled(Some(2)));
    bench.answer(3, good());
    bench.run_to(1_000);
    assert_eq!(bench.starts().len(), 4, "told to be patient, both are");
}

#[test]
fn another_pace_does_not_undo_the_patience_that_was_asked_for() {
    let mut bench = Bench::new();
    let prober: Arc<dyn Prober> = Arc::new(Nobody { overlaps: true });
    let watch = |prober: &Arc<dyn Prober>, interval| Watch {
        endpoint: EndpointId::from_index(0),
        probing: Probing {
            interval: Duration::from_millis(interval),
            interval_when_failing: Duration::from_millis(interval),
            timeout: Duration::from_millis(50),
            jitter: 0.0,
        },
        prober: Arc::clone(prober),
        shared_fate: Vec::new(),
    };
    bench.core.watch(bench.outlet, watch(&prober, 100), bench.at());
    bench.run_to(1);
    bench.answer(0, throttled(Some(2)));
    bench.core.watch(bench.outlet, watch(&prober, 200), bench.at());
    bench.run_to(1_900);
    assert_eq!(bench.starts().len(), 1);
    assert!(bench.kinds().iter().all(|kind| kind == "?Throttled"), "each slot says so");
    // Another prober asks somebody else, or otherwise.
    let other: Arc<dyn Prober> = Arc::new(Nobody { overlaps: true });
    bench.core.watch(bench.outlet, watch(&other, 200), bench.at());
    bench.run_to(1_950);
    assert_eq!(bench.starts().len(), 2);
}

#[test]
fn patience_without_a_measure_doubles_and_ends_with_a_success() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 50], true, &[]);
    let mut waits = Vec::new();
    let mut asked = 0;
    for round in 0..6 {
        while bench.starts().len() <= round {
            let now = (bench.now - T0) / MS;
            bench.run_to(now + 1);
        }
        let at = (bench.now - T0) / MS;
        waits.push(at - asked);
        asked = at;
        bench.answer(round, if round == 4 { good() } else { throttled(None) });
    }
    assert!(waits.windows(2).skip(1).take(3).all(|pair| pair[1] > pair[0] * 3 / 2), "{waits:?}");
    assert!(waits[1] >= 1_000 && waits[4] >= 8_000, "{waits:?}");
    assert_eq!(waits[5], 100);
}

#[test]
fn a_peers_wish_for_patience_is_bounded_by_a_day_and_zero_is_none() {
    let mut bench = Bench::new();
    bench.watch(0, [60_000, 60_000, 50_000], true, &[]);
    bench.run_to(1);
    bench.answer(0, throttled(Some(0)));
    for minute in 1..4 {
        bench.run_to(minute * 60_000);
        if bench.starts().len() == 2 {
            bench.answer(1, throttled(Some(u64::MAX)));
        }
    }
    assert!(bench.starts()[1] >= 60_000, "zero does not stop it, and does not mean at once either");
    let day = 86_400_000;
    bench.run_to(day);
    assert_eq!(bench.starts().len(), 2);
    bench.run_to(day + 300_000);
    assert!(bench.starts().len() > 2, "asked again after a day");
}

#[test]
fn noticed_late_by_more_than_three_intervals_is_a_stall() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 380], true, &[]);
    bench.run_to(0);
    bench.answer(0, good());
    // Exactly three intervals late: caught up.
    bench.now = T0 + 400 * MS;
    bench.run_to(400);
    assert_eq!(bench.starts(), [0, 400, 400, 400, 400]);
    for started in 1..5 {
        bench.answer(started, good());
    }
    assert_eq!(bench.kinds(), ["+"; 5]);
    // A moment more: missed, and said so.
    bench.now = T0 + 801 * MS;
    bench.run_to(801);
    assert_eq!(bench.told(), [(500, 5, "Late 5..9".to_owned())]);
    bench.run_to(900);
    bench.answer(5, good());
    assert_eq!(bench.told(), [(900, 9, "+".to_owned())]);
}

#[test]
fn what_was_in_flight_during_a_stall_proves_nothing() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 80], true, &[]);
    bench.run_to(1);
    bench.now = T0 + 900 * MS;
    bench.run_to(900);
    assert_eq!(bench.told(), [(0, 0, "?Frozen".to_owned()), (100, 1, "Late 1..10".to_owned())]);
    // The worker may be the first to run again.
    bench.run_to(1_000);
    assert_eq!(bench.starts().last(), Some(&1_000));
    bench.now = T0 + 5_000 * MS;
    bench.answer(1, good());
    assert_eq!(bench.kinds(), ["?Frozen"]);
}

#[test]
fn a_suspend_is_a_stall_however_short() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 80], true, &[]);
    bench.run_to(1);
    bench.now += 30 * MS;
    bench.suspended += 30 * MS;
    bench.answer(0, good());
    assert_eq!(bench.kinds(), ["?Frozen"]);
    bench.tick();
    assert_eq!(bench.told(), [(1, 1, "Suspend 1..1".to_owned())]);
    bench.run_to(100);
    bench.answer(1, good());
    assert_eq!(bench.kinds(), ["+"]);
}

#[test]
fn a_timeout_while_we_were_late_for_half_of_it_is_no_evidence() {
    for (late, kind) in [(40, "Timeout"), (41, "?Frozen")] {
        let mut bench = Bench::new();
        bench.watch(0, [100, 100, 80], true, &[]);
        bench.run_to(10);
        bench.core.plan(bench.now);
        // The deadline at 80 is noticed that much later.
        bench.now = T0 + (80 + late) * MS;
        bench.tick();
        assert_eq!(bench.kinds()[0], kind, "{late}");
    }
}

#[test]
fn a_start_that_is_late_leaves_the_path_its_full_time() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 80], true, &[]);
    bench.now = T0 + 50 * MS;
    bench.run_to(128);
    assert_eq!(bench.told(), []);
    bench.run_to(130);
    assert_eq!(bench.told(), [(0, 0, "Timeout".to_owned())]);
}

#[test]
fn a_worker_that_does_not_look_is_not_waited_for() {
    let mut bench = Bench::new();
    bench.works = false;
    bench.watch(0, [1_000, 1_000, 80], true, &[]);
    bench.watch(1, [1_000, 1_000, 80], true, &[]);
    bench.run_to(1);
    bench.polled = bench.ticket(0).token;
    bench.run_to(92);
    assert_eq!(bench.told(), []);
    bench.run_to(100);
    assert_eq!(bench.kinds(), ["Timeout", "?Frozen"], "the one that blocks it is at fault, the other is not");
}

#[test]
fn a_probe_that_blocks_its_thread_fails_alone_until_it_returns() {
    let mut bench = Bench::new();
    bench.works = false;
    bench.watch(0, [100, 100, 500], true, &[]);
    bench.watch(1, [100, 100, 500], true, &[]);
    bench.run_to(1);
    let token = bench.ticket(0).token;
    bench.polled = token;
    bench.run_to(150);
    let mut untaken: Vec<Start> = Vec::new();
    bench.core.abandon(token, &mut untaken, bench.at());
    assert_eq!(bench.kinds(), ["?Frozen", "?Frozen", "Blocked 2..2"]);
    assert_eq!(bench.core.stats().blocked, 1);
    bench.works = true;
    bench.polled = 0;
    bench.run_to(450);
    assert_eq!(bench.starts(), [0, 0, 100, 100, 200, 300, 400], "only the other is asked");
    for started in 4..7 {
        bench.answer(started, good());
    }
    assert_eq!(bench.kinds(), ["+"; 3]);
    bench.run_to(500);
    assert_eq!(bench.kinds(), ["Timeout", "Overlap", "Overlap", "Overlap", "Overlap", "Overlap"]);
    bench.answer(0, good());
    assert_eq!(bench.kinds(), ["late"]);
    bench.core.released(0);
    assert_eq!(bench.core.stats().blocked, 0);
    bench.run_to(600);
    assert_eq!(bench.starts().len(), 7 + 3, "both are asked again");
}

#[test]
fn what_the_blocking_probes_endpoint_had_waiting_is_not_handed_on() {
    let mut bench = Bench::new();
    bench.works = false;
    bench.watch(0, [100, 100, 50], true, &[]);
    bench.run_to(1);
    let token = bench.ticket(0).token;
    bench.polled = token;
    let mut actions = Actions::default();
    bench.run_to(70);
    assert_eq!(bench.kinds(), ["Timeout"], "given up while it occupies the worker");
    bench.now = T0 + 100 * MS;
    bench.core.tick(bench.at(), token, &mut actions);
    assert_eq!(actions.start.len(), 1);
    bench.core.abandon(token, &mut actions.start, bench.at());
    assert_eq!(actions.start.len(), 0);
    assert_eq!(bench.kinds(), ["Overlap"]);
}

#[test]
fn a_receiver_that_takes_nothing_stops_the_slots_and_is_told_what_was_missed() {
    let mut bench = Bench::with_room(1);
    bench.watch(0, [10, 10, 5], true, &[]);
    let mut asked = 0;
    for ms in 0..20_000 {
        bench.run_to(ms);
        while asked < bench.starts().len() {
            bench.answer(asked, good());
            asked += 1;
        }
    }
    assert_eq!(asked, 1 + 1_024);
    let told = loop {
        let told = bench.told();
        let now = (bench.now - T0) / MS;
        bench.run_to(now + 1);
        if let Some(stall) = told.into_iter().find(|(_, _, kind)| kind.starts_with("Backlog")) {
            break stall;
        }
    };
    assert_eq!(told.1, 1_025, "{told:?}");
    assert!(bench.starts().len() > asked);
}

#[test]
fn a_new_run_begins_anew_and_no_other_endpoint_notices() {
    let mut bench = Bench::new();
    bench.watch(0, [100, 100, 80], true, &[]);
    bench.watch(1, [100, 100, 80], true, &[]);
    bench.run_to(30);
    let run = bench.watch(0, [50, 50, 40], true, &[]);
    assert_eq!(run, 2);
    bench.answer(0, good());
    assert_eq!(bench.told(), [], "of an older run");
    bench.answer(1, good());
    bench.run_to(130);
    assert_eq!(bench.starts(), [0, 0, 30, 80, 100, 130]);
    assert!(bench.core.unwatch(bench.outlet, EndpointId::from_index(0)));
    assert!(!bench.core.unwatch(bench.outlet, EndpointId::from_index(0)));
    bench.core.clear();
    assert_eq!(bench.core.stats().running, 0);
    assert_eq!(bench.core.plan(bench.now), u64::MAX);
}

#[test]
fn zero_and_contradictory_paces_have_a_meaning() {
    let mut bench = Bench::new();
    bench.watch(0, [0, 5, 0], true, &[]);
    for ms in 0..100 {
        bench.run_to(ms);
    }
    assert_eq!(bench.starts().len(), 100, "1 ms, and the quick pace no slower than the ordinary");
}

#[test]
fn each_group_has_a_phase_which_its_endpoints_share() {
    let phases = |seed: u64| {
        let mut core = Core::new(seed, 0);
        let outlets: Vec<usize> = (0..25).map(|_| core.add_outlet(mpsc::channel(10).0)).collect();
        let phase = |place: usize| {
            let probing = Probing {
                interval: Duration::from_secs(1),
                interval_when_failing: Duration::from_secs(1),
                timeout: Duration::from_secs(1),
                jitter: 0.1,
            };
            let (outlet, endpoint) = (outlets[place / 2], EndpointId::from_index(place as u16 % 2));
            let watch =
                Watch { endpoint, probing, prober: Arc::new(Nobody { overlaps: true }), shared_fate: Vec::new() };
            core.watch(outlet, watch, Now { at: T0, suspended: 0 });
            let phase = core.plan(0);
            core.unwatch(outlet, endpoint);
            phase
        };
        (0..50).map(phase).collect::<Vec<_>>()
    };
    let one = phases(1);
    assert!(one.iter().all(|at| (T0..T0 + 100 * MS).contains(at)), "{one:?}");
    assert!(one.chunks(2).all(|group| group[0] == group[1]), "{one:?}");
    assert!(one.windows(2).filter(|two| two[0] != two[1]).count() >= 20, "{one:?}");
    assert_eq!(one, phases(1));
    assert_ne!(one, phases(2));
}
