//! Row 4d: from SIGKILL to the new path published, where a session is held open to the path that dies; beside haproxy
//! with `observe layer4`, which learns it from its clients' requests.

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

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
}

impl Times {
    fn own(&self) -> f64 {
        self.published - self.refused
    }
}

pub(crate) fn measure(plan: Plan, gates: &mut Gates) {
    if !plan.wants("4d") {
        return;
    }
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
            spread(of(Times::own)),
            format!("{:.2}", median(published) / theirs),
        ]);
    }
    lines.push([
        "haproxy, observe layer4, a request each 5 ms: first answer".to_owned(),
        String::new(),
        String::new(),
        spread(observing),
        String::new(),
        "1".to_owned(),
    ]);
    lines.push([
        "ordinary checks every 100 ms, 3 failures: mean floor".to_owned(),
        String::new(),
        String::new(),
        format!("{floor:.1}"),
        String::new(),
        format!("{:.2}", floor / theirs),
    ]);
    println!(
        "\n4d: SIGKILL of a server to which a session is held; {repetitions} kills each; ms, p50 (least to most)\n"
    );
    print_table(["what", "plain thread: EOF", "and refused", "published", "our own share", "to haproxy"], lines);
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
    if let Some(own) = p50("closing", Times::own) {
        gates.told("4d", "our own share: refused to the old path closed, p50 in us", own * 1_000.0, [100.0, 30.0]);
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
    let closes = variant == "closing";
    // Looks all the time, since what is measured is shorter than any sleep, and gives way to everybody: it must not have
    // one of two processors to itself.
    let published = thread::spawn(move || {
        let begun = now();
        loop {
            let open = reader.path().open();
            if open.map_or(closes, |path| path.endpoint.index() != 0) {
                return now();
            }
            assert!(now() - begun < PATIENCE.as_nanos() as u64, "another path is published");
            thread::yield_now();
        }
    });
    pause(2);
    let struck = now();
    scene.kill(0);
    let since = |at: u64| at.saturating_sub(struck) as f64 / MILLI;
    let (eof, refused) = plain.join().expect("no panic");
    Times { eof: since(eof), refused: since(refused), published: since(published.join().expect("no panic")) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (first, last) = (values.first().copied().unwrap_or(f64::NAN), values.last().copied().unwrap_or(f64::NAN));
    format!("{:.2} ({first:.2} to {last:.2})", median(values))
}
