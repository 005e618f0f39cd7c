//! The slots on real threads, sockets and clocks. What is counted is slots; exact times are the unit tests' part.

#![cfg(feature = "supervisor")]
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a test may look at the clock and print")]

mod brokers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker_failover::engine::{Endpoint, EndpointId};
use broker_failover::supervisor::config::{
    CancelOnDisconnect, EndpointConfig, HttpConfig, ProbeConfig, ProbeKind, Probing, Require, Terms, TlsConfig,
};
use broker_failover::supervisor::probes::{NoEvidence, Prober, Resolver, Verdict, of_endpoint};
use broker_failover::supervisor::scheduler::{Event, Group, Options, Scheduler, SlotResult, Watch};
use brokers::{FrontEnd, Mode};
use tokio::sync::{Mutex, mpsc};

/// Descriptors, threads and CPU belong to the process: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn prober(url: &str, kind: ProbeKind) -> Arc<dyn Prober> {
    let config = EndpointConfig {
        endpoint: Endpoint::primary("east", "us-east-1", url),
        explicit_priority: true,
        probes: vec![ProbeConfig { kind, slow_after: None, terms: Terms::default() }],
        require: Require::All,
        watch: None,
        shared_fate: Vec::new(),
        cancel_on_disconnect: CancelOnDisconnect::Unknown,
    };
    of_endpoint(&config, &Resolver::default()).expect("a prober")
}

fn http(front_end: &FrontEnd) -> Arc<dyn Prober> {
    let config = HttpConfig {
        path: "/health".to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        expect_status: vec![200],
        expect_body: Some("ok".to_owned()),
        account_pointer: None,
        competing_session_status: Vec::new(),
        tls: TlsConfig::default(),
    };
    prober(&front_end.url("http"), ProbeKind::Http(config))
}

/// interval / interval_when_failing / timeout in ms.
fn watch(index: u16, pace: [u64; 3], prober: &Arc<dyn Prober>) -> Watch {
    let [interval, interval_when_failing, timeout] = pace.map(Duration::from_millis);
    Watch {
        endpoint: EndpointId::from_index(index),
        probing: Probing { interval, interval_when_failing, timeout, jitter: 1.0 },
        prober: Arc::clone(prober),
        shared_fate: Vec::new(),
    }
}

fn started(room: usize) -> (Scheduler, Group, mpsc::Receiver<Event>) {
    let scheduler = Scheduler::start(Options::default()).expect("threads");
    let (sender, events) = mpsc::channel(room);
    let group = scheduler.group(sender);
    (scheduler, group, events)
}

async fn next_slot(events: &mut mpsc::Receiver<Event>) -> SlotResult {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
        if let Event::Slot(result) = event.expect("slots do not stop").expect("the scheduler lives") {
            return result;
        }
    }
}

fn is_good(result: &SlotResult) -> bool {
    matches!(result.verdict, Verdict::Success(_))
}

fn is_frozen(result: &SlotResult) -> bool {
    matches!(result.verdict, Verdict::NoEvidence { cause: NoEvidence::Frozen, .. })
}

/// The TCP sockets of this process. (Other descriptors are no measure: each test that waits for its turn has a runtime
/// of its own already, which brings some.)
fn descriptors() -> usize {
    let table = |name| std::fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    let inodes: std::collections::BTreeSet<String> = (table("tcp") + &table("tcp6"))
        .lines()
        .filter_map(|line| line.split_whitespace().nth(9).map(|inode| format!("socket:[{inode}]")))
        .collect();
    let open = std::fs::read_dir("/proc/self/fd").expect("procfs").flatten();
    open.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .filter(|target| target.to_str().is_some_and(|target| inodes.contains(target)))
        .count()
}

/// The scheduler's threads.
fn threads() -> usize {
    let all = std::fs::read_dir("/proc/self/task").expect("procfs").flatten();
    all.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("bf-")))
        .count()
}

/// Waits until `condition` holds; what is freed is freed a moment later.
async fn settles(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_come_in_slot_order_once_each_while_some_hang_and_others_answer() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let front_end = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let (scheduler, group, mut events) = started(1_000);
    let probe = http(&front_end);
    for index in 0..8 {
        group.watch(watch(index, [40, 40, 500], &probe));
    }
    let mut next = BTreeMap::new();
    let (mut good, mut bad) = (0, 0);
    for result in 0..1_600 {
        match result {
            300 | 900 => front_end.set(Mode::Hang).await,
            600 | 1_200 => front_end.set(Mode::Healthy).await,
            _ => {}
        }
        let result = next_slot(&mut events).await;
        let (slot, due) = next.entry(result.endpoint).or_insert((result.slot, result.due));
        assert!(result.slot >= *slot && result.due >= *due, "{result:?}");
        (*slot, *due) = (result.slot + 1, result.due);
        *(if is_good(&result) { &mut good } else { &mut bad }) += 1;
    }
    assert!(good >= 200 && bad >= 20, "{good} and {bad}");
    assert_eq!(scheduler.stats().late, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_timeout_over_shortest_interval_connections_are_open_at_once() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let front_end = FrontEnd::start(Mode::Hang, None).await.expect("a port");
    let (_scheduler, group, mut events) = started(1_000);
    group.watch(watch(0, [200, 50, 480], &http(&front_end)));
    for _ in 0..60 {
        assert!(!is_good(&next_slot(&mut events).await));
    }
    // One that was started late may not be over yet, and the front end learns of a close a moment after it.
    let most = front_end.counts().most_open;
    assert!((3..=10 + 2).contains(&most), "{most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pace_follows_failure_and_recovery_exactly() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let front_end = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let (_scheduler, group, mut events) = started(1_000);
    group.watch(watch(0, [500, 100, 2_000], &http(&front_end)));
    let mut last: Option<SlotResult> = None;
    let mut steps = [0, 0];
    for slot in 0..16 {
        match slot {
            3 => front_end.set(Mode::Status(500)).await,
            10 => front_end.set(Mode::Healthy).await,
            _ => {}
        }
        let result = next_slot(&mut events).await;
        let quiet = |result: &SlotResult| result.at.nanos_since(result.due) < 100_000_000;
        if let Some(last) = last.filter(|last| quiet(last) && last.slot + 1 == result.slot && !is_frozen(last)) {
            let step = result.due.nanos_since(last.due);
            let expected = if is_good(&last) { 500_000_000 } else { 100_000_000 };
            assert_eq!(step, expected, "after {last:?}");
            steps[usize::from(is_good(&last))] += 1;
        }
        last = Some(result);
    }
    assert!(steps[0] >= 2 && steps[1] >= 2, "{steps:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reloads_leave_no_descriptor_thread_or_probe_behind() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let front_ends = [Mode::Healthy, Mode::Hang, Mode::Refuse, Mode::Slow(Duration::from_millis(30))];
    let mut probes = Vec::new();
    let mut alive = Vec::new();
    for mode in front_ends {
        let front_end = FrontEnd::start(mode, None).await.expect("a port");
        probes.push(http(&front_end));
        alive.push(front_end);
    }
    let before = descriptors();
    let (scheduler, group, mut events) = started(10_000);
    settles("two threads, whatever the number of endpoints", || threads() == 2).await;
    let running = descriptors();
    for reload in 0..100_u64 {
        for (index, probe) in (0..40).zip(probes.iter().cycle()) {
            group.watch(watch(index, [20, 10, 200], probe));
        }
        for _ in 0..40 {
            next_slot(&mut events).await;
        }
        // At most 20 probes of each endpoint, a connection each, at both of its ends.
        let most = running + 40 * 20 * 2;
        assert!(descriptors() <= most, "{} after {reload} reloads", descriptors());
    }
    let run = group.watch(watch(0, [20, 10, 200], &probes[0]));
    assert_eq!(run, 4_000);
    for index in 0..40 {
        assert!(group.unwatch(EndpointId::from_index(index)));
    }
    assert_eq!(scheduler.stats().running, 0);
    settles("connections are left", || descriptors() <= running).await;
    assert_eq!(threads(), 2);
    drop(group);
    scheduler.stop();
    settles("something is left", || descriptors() <= before && threads() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_ten_thousand_timeouts_pile_nothing_up() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let front_end = FrontEnd::start(Mode::Hang, None).await.expect("a port");
    let (scheduler, group, mut events) = started(10_000);
    settles("two threads", || threads() == 2).await;
    let before = descriptors();
    let probe = http(&front_end);
    for index in 0..50 {
        group.watch(watch(index, [20, 20, 60], &probe));
    }
    let mut failures = 0;
    while failures < 10_000 {
        let result = next_slot(&mut events).await;
        assert!(!is_good(&result));
        failures += usize::from(!is_frozen(&result));
        if failures % 500 == 0 {
            // Three probes of each endpoint, a connection each; the other end, in this process too, may be slow to
            // close. A leak would be ten thousand.
            let (descriptors, running) = (descriptors(), scheduler.stats().running);
            assert!(running <= 50 * 3 * 2, "{running} running, half of it being given up");
            assert!(descriptors <= before + 3_000, "{descriptors} descriptors");
            assert_eq!(threads(), 2);
        }
    }
    drop(group);
    settles("connections are left", || descriptors() <= before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_dropped_or_deaf_is_not_asked_for_any_more() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let front_end = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let (scheduler, group, mut events) = started(10);
    group.watch(watch(0, [20, 20, 2_000], &http(&front_end)));
    next_slot(&mut events).await;
    let (sender, mut others) = mpsc::channel(10);
    let deaf = scheduler.group(sender);
    deaf.watch(watch(0, [20, 20, 2_000], &http(&front_end)));
    assert!(next_slot(&mut others).await.run > 0);
    drop(group);
    assert!(next_slot(&mut others).await.slot > 0, "the other group goes on");
    drop(others);
    settles("still asked", || scheduler.stats().running == 0).await;
    let asked = front_end.counts().requests;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(front_end.counts().requests <= asked + 2, "{} then {}", asked, front_end.counts().requests);
}
