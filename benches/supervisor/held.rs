//! Row 4d: from SIGKILL to the new path published, where a session is held open to the path that dies; beside haproxy
//! with `observe layer4`, which learns it from its clients' requests.

use std::io::Read;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber, set_global_default};
use tracing::{Event, Level, Metadata};

use crate::failover::{Fault, PATIENCE, Pace, Scene, Setup, Side, random};
use crate::gates::{Gates, Plan};
use crate::process::{now, pause};
use crate::table::print_table;

const MILLI: f64 = 1e6;
/// Between two requests of haproxy's client: as in the survey that the gate is from.
const REQUESTS: Duration = Duration::from_millis(5);

/// What one kill came to, in milliseconds since it.
struct Times {
    /// Until a plain thread that is blocked on a session of its own was woken.
    eof: f64,
    /// Until a connection that this thread then asked for was refused. So far it is the kernel's share: nobody who asks
    /// once more after the session's end is sooner.
    refused: f64,
    /// Until another path was published.
    published: f64,
    /// Since the supervisor had learnt that its session ended, without the probe that decided. Not a number if an ordinary
    /// check was sooner.
    own: f64,
    /// Since it had that probe's answer.
    decided: f64,
}

/// When the supervisor in this process learnt that a session ended, and that a probe failed, and when it published a path:
/// what it traces. A thread that looked at the path all the time would take a processor from what it measures.
static ENDS: Moments = Moments(Mutex::new(Vec::new()));
static FAILURES: Moments = Moments(Mutex::new(Vec::new()));
static PUBLICATIONS: Moments = Moments(Mutex::new(Vec::new()));

struct Moments(Mutex<Vec<Moment>>);

#[derive(Clone, Copy)]
struct Moment {
    at: u64,
    /// How long that took which came to its end.
    nanos: u64,
}

impl Moments {
    fn add(&self, moment: Moment) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(moment);
    }

    /// Those in `range`, in order.
    fn within(&self, range: Range<u64>) -> Vec<Moment> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().copied().filter(|moment| range.contains(&moment.at)).collect()
    }
}

impl Visit for Moment {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "nanos" {
            self.nanos = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Hears of those three, and of nothing else.
struct Listener;

impl Listener {
    fn heard(metadata: &Metadata<'_>) -> Option<&'static Moments> {
        match metadata.target() {
            _ if *metadata.level() != Level::TRACE => None,
            "broker_failover::supervisor::running::held" => Some(&ENDS),
            "broker_failover::supervisor::scheduler" => Some(&FAILURES),
            "broker_failover::supervisor::group::outlets" => Some(&PUBLICATIONS),
            _ => None,
        }
    }
}

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::heard(metadata).is_some()
    }

    fn event(&self, event: &Event<'_>) {
        let mut moment = Moment { at: now(), nanos: 0 };
        if let Some(moments) = Self::heard(event.metadata()) {
            event.record(&mut moment);
            moments.add(moment);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

pub(crate) fn measure(plan: Plan, gates: &mut Gates) {
    if !plan.wants("4d") {
        return;
    }
    // Whoever was the first has it.
    let _ = set_global_default(Listener);
    let repetitions = match plan {
        Plan { trial: true, .. } => 1,
        Plan { smoke: true, .. } => 5,
        Plan { smoke: false, .. } => 31,
    };
    let pace = Pace { interval: 100, again: 100, timeout: 100, threshold: 3 };
    let variants: &[_] = if plan.smoke { &["quick"] } else { &["closing", "first", "quick", "default"] };
    let mut ours = Vec::new();
    for variant in variants {
        let times: Vec<_> = (0..repetitions).map(|_| kill(pace, variant)).collect();
        ours.push((*variant, times));
    }
    let setup = Setup { observe: true, requests: REQUESTS, ..Setup::new(pace, &[], Some(pace)) };
    let mut scene = Scene::start(setup);
    let mut observing = Vec::new();
    let mut floors = Vec::new();
    for place in 0..repetitions {
        let phase = pace.interval as f64 * (f64::from(place) + random()) / f64::from(repetitions);
        observing.push(scene.strike(Side::Haproxy, 0, Fault::Kill, phase).answered);
        floors.push(pace.floor(phase, Fault::Kill));
        scene.revive();
        scene.settle();
    }
    let floor = floors.iter().sum::<f64>() / floors.len() as f64;
    let theirs = median(observing.clone());
    let mut lines = Vec::new();
    for (variant, times) in &ours {
        let of = |of: fn(&Times) -> f64| times.iter().map(of).collect::<Vec<_>>();
        let published = of(|times| times.published);
        lines.push([
            words(variant).to_owned(),
            spread(of(|times| times.eof)),
            spread(of(|times| times.refused)),
            spread(published.clone()),
            spread(of(|times| times.own)),
            spread(of(|times| times.decided)),
            format!("{:.2}", median(published) / theirs),
        ]);
    }
    lines.push([
        "haproxy, observe layer4, a request each 5 ms: first answer".to_owned(),
        String::new(),
        String::new(),
        spread(observing),
        String::new(),
        String::new(),
        "1".to_owned(),
    ]);
    lines.push([
        "ordinary checks every 100 ms, 3 failures: mean floor".to_owned(),
        String::new(),
        String::new(),
        format!("{floor:.1}"),
        String::new(),
        String::new(),
        format!("{:.2}", floor / theirs),
    ]);
    println!(
        "\n4d: SIGKILL of a server to which a session is held; {repetitions} kills each; ms, p50 (least to most)\n"
    );
    print_table(
        [
            "what",
            "plain thread: EOF",
            "and refused",
            "published",
            "our own share",
            "since the last failure",
            "to haproxy",
        ],
        lines,
    );
    let p50 = |name: &str, of: fn(&Times) -> f64| {
        let times = ours.iter().find(|(variant, _)| *variant == name).map(|(_, times)| times);
        times.map(|times| median(times.iter().map(of).collect()))
    };
    let eof = p50("quick", |times| times.eof).unwrap_or_default();
    if let Some(published) = p50("quick", |times| times.published) {
        gates.noisy("4d", "killed: published, against haproxy observe layer4", published / theirs, [0.25, 0.25]);
        gates.told("4d", "killed: published, p50 in ms", published, [2.0, 1.2 * eof]);
        gates.told("4d", "killed: published, against checks every 100 ms", published / floor, [0.01, 0.01]);
    }
    // What opens another path waits for its record on disk; what closes the old one does not.
    for (what, of) in [
        ("from the session's end to the old path closed, without the probe", (|times| times.own) as fn(&Times) -> f64),
        ("from the failure that decides to the old path closed", |times| times.decided),
    ] {
        if let Some(own) = p50("closing", of) {
            gates.told("4d", format!("our own share: {what}, p50 in us"), own * 1_000.0, [100.0, 30.0]);
        }
    }
}

fn words(variant: &str) -> &'static str {
    match variant {
        "closing" => "ours, one failure decides: the old path closed, before the fence",
        "first" => "ours, one failure decides",
        "quick" => "ours, 3 failures, confirm_spacing 200 us",
        _ => "ours, 3 failures, confirm_spacing 10 ms (default)",
    }
}

/// One kill of a fresh scene's first server, at a random phase of its checks. (A session that was lost a moment ago is
/// not held again at once, so the same scene would not do.)
fn kill(pace: Pace, variant: &str) -> Times {
    let mut scene = Scene::start(Setup::new(pace, &[variant], None));
    scene.until_held();
    pause((random() * pace.interval as f64) as u64);
    let mut session = TcpStream::connect(scene.address(0)).expect("the server lives");
    let reader = scene.reader(0);
    let address = scene.address(0);
    let plain = thread::spawn(move || {
        let _ = session.read(&mut [0; 16]);
        let eof = now();
        let _ = TcpStream::connect(address);
        (eof, now())
    });
    pause(2);
    let struck = now();
    scene.kill(0);
    let (eof, refused) = plain.join().expect("no panic");
    let closes = variant == "closing";
    while reader.path().open().map_or(!closes, |path| path.endpoint.index() == 0) {
        assert!(now() - struck < PATIENCE.as_nanos() as u64, "another path is published");
        pause(1);
    }
    // It is traced behind the moment from which it can be seen.
    pause(1);
    let publications = PUBLICATIONS.within(struck..now());
    let published = if closes { publications.first() } else { publications.last() };
    let published = published.expect("what a reader sees was published").at;
    let failed = *FAILURES.within(struck..published).last().expect("its failure was traced");
    // An ordinary check may have been sooner than the session's end.
    let ended = ENDS.within(struck..published).first().map(|ended| ended.at);
    let span = |from: u64, to: u64| to.saturating_sub(from) as f64 / MILLI;
    Times {
        eof: span(struck, eof),
        refused: span(struck, refused),
        published: span(struck, published),
        own: ended.map_or(f64::NAN, |ended| span(ended + failed.nanos, published)),
        decided: span(failed.at, published),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(mut values: Vec<f64>) -> String {
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    let (first, last) = (values.first().copied().unwrap_or(f64::NAN), values.last().copied().unwrap_or(f64::NAN));
    format!("{:.2} ({first:.2} to {last:.2})", median(values))
}
