//! A gateway with a session on each path, which it reports, and what it does may be changed at any time.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use broker_failover::report::{Report, ReportError, Reporter, Session};
use broker_failover::supervisor::control::{Answer, Request, ask};
use serde_json::Value;

use crate::rig::{NAMES, Rig, Setting};

/// A report every so often for each path: half of what is permitted.
const EVERY: Duration = Duration::from_millis(40);

/// What is true of one path.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) session: Session,
    pub(crate) heartbeat_age_ms: Option<u64>,
    /// Orders in each report.
    pub(crate) orders: (u64, u64, u64),
    /// Reports nothing.
    pub(crate) mute: bool,
    /// Sends under this epoch, whatever is published.
    pub(crate) stuck: Option<u64>,
}

impl Default for Side {
    fn default() -> Self {
        Self { session: Session::Up, heartbeat_age_ms: Some(10), orders: (1, 0, 0), mute: false, stuck: None }
    }
}

#[derive(Default)]
struct Shared {
    sides: Mutex<BTreeMap<&'static str, Side>>,
    /// The path on which it sends, and its epoch, as the supervisor said.
    follows: Mutex<Option<(String, u64)>>,
    stop: AtomicBool,
    /// The last answer that was none of taken, by path.
    refused: Mutex<BTreeMap<&'static str, String>>,
}

pub(crate) struct Gateway {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateway {
    /// It reports the first `paths` paths, and follows order flow by asking for the state.
    pub(crate) fn start(rig: &Rig, paths: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let socket = rig.file("control.sock");
        let mut threads = Vec::new();
        for name in &NAMES[..paths] {
            locked(&shared.sides).insert(name, Side::default());
            let (shared, socket) = (Arc::clone(&shared), socket.clone());
            threads.push(std::thread::spawn(move || report(&shared, socket, name)));
        }
        let follower = Arc::clone(&shared);
        threads.push(std::thread::spawn(move || follow(&follower, &socket)));
        Self { shared, threads }
    }

    /// Changes what is true of a path.
    pub(crate) fn set(&self, name: &str, change: impl FnOnce(&mut Side)) {
        change(locked(&self.shared.sides).get_mut(name).expect("a path"));
    }

    pub(crate) fn refused(&self, name: &str) -> Option<String> {
        locked(&self.shared.refused).get(name).cloned()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What it panicked of, it said.
            let _ = thread.join();
        }
    }
}

fn follow(shared: &Shared, socket: &Path) {
    while !shared.stop.load(Ordering::Relaxed) {
        if let Ok(Answer::Ok(groups)) = ask(socket, &Request::Status { status: true }) {
            let group = &groups[0];
            let path = group["active"].as_str().map(str::to_owned).zip(group["epoch"].as_u64());
            // Nothing is sent in a hold; the path is remembered all the same.
            *locked(&shared.follows) = path.filter(|_| group["may_submit"] == true);
        }
        std::thread::sleep(EVERY);
    }
}

fn report(shared: &Shared, socket: PathBuf, name: &'static str) {
    let mut reporter = Reporter::new(socket);
    let mut epoch = 1;
    while !shared.stop.load(Ordering::Relaxed) {
        std::thread::sleep(EVERY);
        let side = locked(&shared.sides)[name].clone();
        if side.mute {
            continue;
        }
        let follows = locked(&shared.follows).clone().filter(|(path, _)| path == name);
        let sending = side.stuck.or(follows.map(|(_, epoch)| epoch));
        epoch = sending.unwrap_or(epoch);
        let (acks, rejects, unknown) = side.orders;
        let report = Report {
            session: side.session,
            sending: sending.is_some(),
            acks,
            rejects,
            unknown,
            heartbeat_age_ms: side.heartbeat_age_ms,
            ..Report::new("main", name, epoch)
        };
        match reporter.report(&report) {
            Ok(()) => drop(locked(&shared.refused).remove(name)),
            Err(ReportError::Refused(why)) => drop(locked(&shared.refused).insert(name, why)),
            // It may not run just now.
            Err(ReportError::Unreachable(_)) => {}
        }
    }
}

/// A supervisor that knows no more of its paths than a gateway reports, and the gateway.
pub(crate) fn reported(setting: Setting, keys: &str) -> (Rig, Gateway) {
    let endpoint = format!("probe = {{ report = {{ max_silence = \"3s\"{keys} }} }}");
    let mut rig = Rig::new(&Setting { endpoint, ..setting });
    let gateway = Gateway::start(&rig, rig.fronts.len());
    rig.start(&["--first-start", "east"]);
    let is_well = |one: &Value| one["state"] == "HEALTHY";
    rig.until("flow is open on east, and every endpoint is well", |group| {
        group["order_flow"] == "OPEN east #1"
            && group["endpoints"].as_array().is_some_and(|all| all.iter().all(is_well))
    });
    (rig, gateway)
}

/// Lines of its own over a connection.
pub(crate) struct Raw(BufReader<UnixStream>);

impl Raw {
    pub(crate) fn connect(rig: &Rig) -> Self {
        let stream = UnixStream::connect(rig.file("control.sock")).expect("a socket");
        stream.set_read_timeout(Some(crate::rig::LIMIT)).expect("a timeout");
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("sent");
    }

    pub(crate) fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn ask(&mut self, line: &str) -> Value {
        self.send(line.as_bytes());
        self.send(b"\n");
        self.answer()
    }
}

/// A good report of a path as a line.
pub(crate) fn line(report: &Report) -> String {
    serde_json::json!({ "report": report }).to_string()
}
