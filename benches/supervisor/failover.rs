//! From a fault to the active path published, beside haproxy watching the same servers with the same settings.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use broker_failover::path::PathReader;
use broker_failover::supervisor::config;
use broker_failover::supervisor::group::Command;
use broker_failover::supervisor::running::{StartOptions, Supervisor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::MissedTickBehavior;

use crate::gates::{Gates, Plan};
use crate::process::{Folder, Haproxy, Server, address, now, pause, wait_until};
use crate::table::print_table;

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Between two requests of the client.
const REQUESTS: Duration = Duration::from_millis(2);
/// No failover takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
const MILLI: f64 = 1e6;

pub(crate) fn measure(plan: Plan, gates: &mut Gates) {
    let repetitions = match plan {
        Plan { trial: true, .. } => 1,
        Plan { smoke: true, .. } => 4,
        Plan { smoke: false, .. } => 20,
    };
    if plan.wants("4") {
        equal_settings(repetitions, gates);
    }
    if plan.wants("4b") && !plan.smoke {
        fast_again(repetitions, gates);
    }
    if plan.wants("4c") && !plan.smoke {
        ten_milliseconds(repetitions, gates);
    }
    if plan.wants("4e") {
        nothing_happens(plan, gates);
    }
}

/// How both sides check, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) interval: u64,
    pub(crate) again: u64,
    pub(crate) timeout: u64,
    pub(crate) threshold: u64,
}

impl Pace {
    /// The least time from a fault, a `phase` before the next check, to the decision.
    pub(crate) fn floor(self, phase: f64, fault: Fault) -> f64 {
        let hang = if fault == Fault::Hang { self.timeout as f64 } else { 0.0 };
        phase + (self.threshold - 1) as f64 * self.again as f64 + hang
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    Hang,
    Error,
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Hang => "hung",
            Self::Error => "answers 500",
        }
    }
}

/// Rows 4, 4a, 4'' and 4f.
fn equal_settings(repetitions: u32, gates: &mut Gates) {
    let pace = Pace { interval: 100, again: 100, timeout: 100, threshold: 3 };
    let mut scene = Scene::new(pace, &["bare", "staged"], Some(pace));
    let mut table = Table::new("4", pace, repetitions);
    let killed = table.row(&mut scene, Fault::Kill);
    let hung = table.row(&mut scene, Fault::Hang);
    let failing = table.row(&mut scene, Fault::Error);
    let (first, second) = table.second(&mut scene);
    table.print();
    gates.most("4", "killed: first answer, against haproxy", killed.against_haproxy(), [1.05, 1.0]);
    gates.most("4", "killed: published, beyond the floor + 5 ms", killed.beyond_floor(5.0), [1.05, 1.02]);
    gates.most("4a", "hung: first answer, against haproxy", hung.against_haproxy(), [0.75, 0.67]);
    gates.most("4a", "hung: published, beyond the floor", hung.beyond_floor(0.0), [1.08, 1.03]);
    gates.noisy("4", "answers 500: first answer, against haproxy", failing.against_haproxy(), [1.05, 1.0]);
    gates.most("4''", "a second failover, against the first", second / first, [1.05, 1.0]);
    gates.most("4f", "orders submitted twice", scene.twice() as f64, [0.0, 0.0]);
}

/// Row 4b.
fn fast_again(repetitions: u32, gates: &mut Gates) {
    let pace = Pace { interval: 100, again: 10, timeout: 100, threshold: 3 };
    let mut scene = Scene::new(pace, &["bare", "staged"], Some(pace));
    let mut table = Table::new("4b", pace, repetitions);
    let killed = table.row(&mut scene, Fault::Kill);
    let hung = table.row(&mut scene, Fault::Hang);
    table.print();
    gates.most("4b", "killed: first answer, against haproxy", killed.against_haproxy(), [1.05, 1.0]);
    gates.most("4b", "hung: first answer, against haproxy", hung.against_haproxy(), [0.60, 0.48]);
    gates.most("4f", "orders submitted twice", scene.twice() as f64, [0.0, 0.0]);
}

/// Row 4c.
fn ten_milliseconds(repetitions: u32, gates: &mut Gates) {
    let pace = Pace { interval: 10, again: 10, timeout: 10, threshold: 3 };
    let mut scene = Scene::new(pace, &["bare", "staged"], Some(pace));
    let mut table = Table::new("4c", pace, repetitions);
    let killed = table.row(&mut scene, Fault::Kill);
    let hung = table.row(&mut scene, Fault::Hang);
    table.print();
    gates.noisy("4c", "killed: first answer, against haproxy", killed.against_haproxy(), [1.05, 0.95]);
    gates.noisy("4c", "hung: first answer, against haproxy", hung.against_haproxy(), [0.70, 0.62]);
    gates.most("4f", "orders submitted twice", scene.twice() as f64, [0.0, 0.0]);
}

/// Row 4e: a healthy path is asked every one or two milliseconds. Each side alone, in turn.
fn nothing_happens(plan: Plan, gates: &mut Gates) {
    let (turns, seconds, intervals) = match plan {
        Plan { trial: true, .. } => (1, 1, 1..=1),
        Plan { smoke: true, .. } => (1, 5, 1..=1),
        Plan { smoke: false, .. } => (3, 15, 1..=2),
    };
    let mut lines = Vec::new();
    let sides = if plan.smoke { 2 } else { 4 };
    for interval in intervals {
        let pace = Pace { interval, again: interval, timeout: 50, threshold: 2 };
        // haproxy's default timeout is its interval.
        let default = Pace { timeout: interval, ..pace };
        let mut left = [0; 4];
        for _ in 0..turns {
            for (side, left) in left.iter_mut().enumerate().take(sides) {
                let groups: &[_] = [&["bare"] as &[_], &["held"], &[], &[]][side];
                let mut scene = Scene::new(pace, groups, [None, None, Some(pace), Some(default)][side]);
                for _ in 0..seconds {
                    scene.settle();
                    let before = scene.left();
                    pause(1_000);
                    *left += u32::from(scene.left() != before);
                }
            }
        }
        gates.most("4e", format!("false failovers at {interval} ms"), f64::from(left[0]), [0.0, 0.0]);
        gates.most("4e", format!("the same with sessions held, at {interval} ms"), f64::from(left[1]), [0.0, 0.0]);
        let mut told = left.into_iter().map(|left| format!("{left} of {}", turns * seconds)).take(sides);
        let mut next = || told.next().unwrap_or_default();
        lines.push([format!("{interval} ms, 2 failures"), next(), next(), next(), next()]);
    }
    println!("\n4e: runs of 1 s in which a healthy path was left\n");
    print_table(
        ["checks", "ours, timeout 50 ms", "ours, with watch", "haproxy, timeout 50 ms", "haproxy, its default timeout"],
        lines,
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Haproxy,
}

impl Side {
    /// What its checks ask for.
    const fn path(self) -> &'static str {
        match self {
            Self::Ours => "/bare",
            Self::Haproxy => "/haproxy",
        }
    }
}

/// What one fault came to, in milliseconds since it.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// From the fault to the next check.
    phase: f64,
    /// Until another path was published, without and with stages. Zero for haproxy.
    published: f64,
    staged: f64,
    /// Until the first order was answered by another path.
    pub(crate) answered: f64,
}

/// What a scene is made of.
pub(crate) struct Setup<'a> {
    pub(crate) pace: Pace,
    /// Groups of the supervisor: `bare` (no hooks), `staged` (one for every stage), `held`, `first`, `quick`,
    /// `default` and `closing` (a session is held to each path). Without any, there is no supervisor.
    pub(crate) groups: &'a [&'a str],
    /// haproxy with this pace beside it.
    pub(crate) beside: Option<Pace>,
    /// Whether haproxy leaves a server with the first failed request of a client.
    pub(crate) observe: bool,
    /// Between two requests of the client.
    pub(crate) requests: Duration,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(pace: Pace, groups: &'a [&'a str], beside: Option<Pace>) -> Self {
        Self { pace, groups, beside, observe: false, requests: REQUESTS }
    }
}

/// Three front ends, a supervisor and haproxy.
pub(crate) struct Scene {
    pace: Pace,
    requests: Duration,
    servers: Vec<Server>,
    haproxy: Option<Haproxy>,
    supervisor: Option<Supervisor>,
    readers: Vec<PathReader>,
    runtime: Runtime,
    client: Runtime,
    next_order: Arc<AtomicU64>,
    orders: HashMap<u64, u32>,
    _folder: Folder,
    _journal: Folder,
}

impl Scene {
    fn new(pace: Pace, groups: &[&str], beside: Option<Pace>) -> Self {
        Self::start(Setup::new(pace, groups, beside))
    }

    pub(crate) fn start(setup: Setup<'_>) -> Self {
        let Setup { pace, groups, beside, observe, requests } = setup;
        let (folder, journal) = (Folder::for_sockets(), Folder::on_disk());
        let servers: Vec<Server> =
            NAMES.iter().zip(1..).map(|(name, last)| Server::start(name, vec![address(last)], true)).collect();
        let haproxy =
            beside.map(|pace| Haproxy::start(folder.path(), "haproxy", 2, &balancing(pace, observe, &servers)));
        let runtime = |threads| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
            runtime.expect("a runtime")
        };
        let (runtime, client) = (runtime(2), runtime(1));
        let supervisor = (!groups.is_empty()).then(|| {
            let text = supervising(pace, groups, &servers);
            let checked = config::parse(&text, journal.path());
            let config = checked.config.unwrap_or_else(|| panic!("{:?}", checked.findings));
            let first_start = config.groups.iter().map(|group| format!("{}=a", group.name)).collect();
            let options = StartOptions { first_start, ..StartOptions::default() };
            runtime.block_on(Supervisor::start(&config, &options)).expect("a supervisor")
        });
        let readers = supervisor.iter().flat_map(|one| one.groups.iter()).map(|group| group.reader.clone()).collect();
        let mut scene = Self {
            pace,
            requests,
            servers,
            haproxy,
            supervisor,
            readers,
            runtime,
            client,
            next_order: Arc::default(),
            orders: HashMap::new(),
            _folder: folder,
            _journal: journal,
        };
        scene.command(&Command::ConfirmReconciled { epoch: 1 });
        scene.settle();
        scene
    }

    fn command(&self, command: &Command) {
        for group in self.supervisor.iter().flat_map(|supervisor| supervisor.groups.iter()) {
            // Refused if it is so already, or just not now.
            let _ = self.runtime.block_on(group.ask(command.clone(), None));
        }
    }

    /// Everything is well, and `a` carries flow.
    pub(crate) fn settle(&mut self) {
        let begun = now();
        loop {
            let elsewhere = |reader: &PathReader| reader.path().open().is_none_or(|path| path.endpoint.index() != 0);
            let ours = !self.readers.iter().any(elsewhere);
            let theirs = self.haproxy.iter().flat_map(|haproxy| haproxy.servers("status")).all(|status| status == "UP");
            if ours && theirs {
                break;
            }
            assert!(now() - begun < 30_000_000_000, "it does not settle: {ours} {theirs}");
            if !ours {
                self.command(&Command::Switchover { target: "a".to_owned() });
            }
            pause(5);
        }
        pause(3 * self.pace.interval + 20);
    }

    /// A session is held to every path of every group.
    pub(crate) fn until_held(&self) {
        let begun = now();
        let held = || {
            self.supervisor.iter().flat_map(|one| one.groups.iter()).all(|group| {
                let status = self.runtime.block_on(group.status()).expect("the group lives");
                status.endpoints.iter().all(|one| one.session == Some("open"))
            })
        };
        while !held() {
            assert!(now() - begun < 30_000_000_000, "no session is held");
            pause(5);
        }
    }

    pub(crate) fn address(&self, index: usize) -> SocketAddr {
        self.servers[index].address()
    }

    pub(crate) fn reader(&self, group: usize) -> PathReader {
        self.readers[group].clone()
    }

    pub(crate) fn kill(&mut self, index: usize) {
        self.servers[index].kill();
    }

    pub(crate) fn revive(&mut self) {
        self.servers[0].revive();
    }

    /// How often flow was moved.
    fn left(&self) -> u64 {
        let ours: u64 =
            self.readers.iter().filter_map(|reader| reader.path().active()).map(|path| path.epoch.get()).sum();
        let theirs = self.haproxy.iter().flat_map(|haproxy| haproxy.servers("chkdown"));
        ours + theirs.filter_map(|times| times.parse::<u64>().ok()).sum::<u64>()
    }

    /// Orders that came to a front end more than once, or to more than one.
    fn twice(&self) -> usize {
        self.orders.values().filter(|times| **times > 1).count()
    }

    /// One fault of server `index`, `phase` milliseconds before the next check of `side`.
    pub(crate) fn strike(&mut self, side: Side, index: usize, fault: Fault, phase: f64) -> Times {
        let answers = self.start_orders(side, self.servers[index].name());
        let interval = self.pace.interval * 1_000_000;
        let last = self.next_check(index, side);
        wait_until(last + interval - (phase * MILLI) as u64);
        let watch = (side == Side::Ours).then(|| watch(&self.readers, index));
        let struck = now();
        let server = &mut self.servers[index];
        match fault {
            Fault::Kill => server.kill(),
            Fault::Hang => server.hang(),
            Fault::Error => server.fail(),
        }
        let since = |at: u64| at.saturating_sub(struck) as f64 / MILLI;
        let answered = answers.first_after(struck);
        let published = watch.map_or_else(Vec::new, |watch| watch.join().expect("no panic"));
        for server in &self.servers {
            for order in server.take_orders() {
                *self.orders.entry(order).or_default() += 1;
            }
        }
        Times {
            phase: (last + interval) as f64 / MILLI - struck as f64 / MILLI,
            published: published.first().map_or(0.0, |at| since(*at)),
            staged: published.get(1).map_or(0.0, |at| since(*at)),
            answered: since(answered),
        }
    }

    /// The moment of the next check by `side`.
    fn next_check(&self, index: usize, side: Side) -> u64 {
        let server = &self.servers[index];
        let before = server.last(side.path());
        let begun = now();
        loop {
            match server.last(side.path()) {
                Some(last) if Some(last) != before => return last,
                _ => thread::sleep(Duration::from_micros(100)),
            }
            assert!(now() - begun < 30_000_000_000, "{} is not checked", server.name());
        }
    }

    /// A client that sends an order every [`REQUESTS`], each once: through haproxy, or along the published path.
    fn start_orders(&self, side: Side, dead: &'static str) -> Answers {
        let addresses: Vec<SocketAddr> = self.servers.iter().map(Server::address).collect();
        let reader = self.readers.first().cloned();
        let route = move || match side {
            Side::Haproxy => Some(address(9)),
            Side::Ours => addresses.get(reader.as_ref()?.path().open()?.endpoint.index()).copied(),
        };
        let (sender, answers) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, next, requests) = (Arc::clone(&stop), Arc::clone(&self.next_order), self.requests);
        self.client.spawn(async move {
            let mut ticks = tokio::time::interval(requests);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            while !stopped.load(Ordering::Acquire) {
                ticks.tick().await;
                let Some(address) = route() else { continue };
                let (number, sender) = (next.fetch_add(1, Ordering::Relaxed), sender.clone());
                tokio::spawn(async move {
                    let answer = tokio::time::timeout(Duration::from_secs(1), order(address, number)).await;
                    if let Ok(Ok(Some(name))) = answer {
                        // Whoever waited may have what it wanted.
                        let _ = sender.send((now(), name));
                    }
                });
            }
        });
        Answers { answers, dead, stop }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            let _ = self.runtime.block_on(supervisor.stop("measured"));
        }
    }
}

/// When each of `readers` tells of another open path than `index`; looked at ten times in a millisecond.
fn watch(readers: &[PathReader], index: usize) -> thread::JoinHandle<Vec<u64>> {
    let readers = readers.to_vec();
    thread::spawn(move || {
        let mut times = vec![0; readers.len()];
        let begun = now();
        while times.contains(&0) && now() - begun < PATIENCE.as_nanos() as u64 {
            for (reader, at) in readers.iter().zip(&mut times) {
                if *at == 0 && reader.path().open().is_some_and(|path| path.endpoint.index() != index) {
                    *at = now();
                }
            }
            thread::sleep(Duration::from_micros(50));
        }
        times
    })
}

struct Answers {
    answers: mpsc::Receiver<(u64, String)>,
    dead: &'static str,
    stop: Arc<AtomicBool>,
}

impl Answers {
    /// When the first order was answered, after `struck`, by a server that lives.
    fn first_after(&self, struck: u64) -> u64 {
        loop {
            let (at, name) = self.answers.recv_timeout(PATIENCE).expect("another path answers");
            if at > struck && name != self.dead {
                return at;
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// One order; the name of the server that took it.
async fn order(address: SocketAddr, number: u64) -> std::io::Result<Option<String>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("POST /order/{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let taken = answer.starts_with("HTTP/1.1 200 ");
    Ok(answer.rsplit("\r\n\r\n").next().filter(|_| taken).map(str::to_owned))
}

/// haproxy in front of `servers`: the first, and the others for when it is lost.
fn balancing(pace: Pace, observe: bool, servers: &[Server]) -> String {
    let Pace { interval, again, timeout, threshold } = pace;
    // What it does if nothing is said of timeouts: a check may take as long as the interval.
    let own = if timeout == interval { String::new() } else { format!("  timeout check {timeout}ms\n") };
    let observe = if observe { " observe layer4 error-limit 1 on-error mark-down" } else { "" };
    let mut text = format!(
        "defaults\n  mode tcp\n  retries 0\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n{own}\
         listen orders\n  bind {}\n  option httpchk GET /haproxy\n  \
         default-server check inter {interval}ms fastinter {again}ms fall {threshold} rise 3{observe}\n",
        address(9)
    );
    for (server, index) in servers.iter().zip(0..) {
        let backup = if index == 0 { "" } else { " backup" };
        let _ = writeln!(text, "  server {} {}{backup}", server.name(), server.address());
    }
    text
}

/// A supervisor of the same servers. The group `staged` has a hook for every stage, each of which does nothing; the
/// others have none and need none.
fn supervising(pace: Pace, groups: &[&str], servers: &[Server]) -> String {
    let Pace { interval, again, timeout, threshold } = pace;
    let mut text = "[supervisor]\nsocket = \"control\"\njournal = \"journal\"\n".to_owned();
    for name in groups {
        let staged = matches!(*name, "staged" | "closing");
        let threshold = if matches!(*name, "first" | "closing") { 1 } else { threshold };
        let watch = match *name {
            "held" | "default" => "watch = { tcp = {} }\n",
            "first" | "quick" | "closing" => "watch = { tcp = {}, confirm_spacing = \"200us\" }\n",
            _ => "",
        };
        let _ = write!(
            text,
            "[[group]]\nname = \"{name}\"\nexclusivity = \"last-login-wins\"\n[group.policy]\n\
             failure_threshold = {threshold}\ncooldown = \"1ms\"\n\
             require_fence = {staged}\nrequire_reconciliation = {staged}\n\
             [group.probing]\ninterval = \"{interval}ms\"\ninterval_when_failing = \"{again}ms\"\n\
             timeout = \"{timeout}ms\"\n[group.failback]\nmode = \"manual\"\n"
        );
        if staged {
            text.push_str(
                "[group.hooks]\nfence = { command = [\"true\"], timeout = \"2s\" }\n\
                 switch = { command = [\"true\"], timeout = \"2s\" }\nreconcile = { command = [\"echo\", \
                 '{\"resting\":0,\"filled\":0,\"unknown\":0}'], timeout = \"2s\" }\n",
            );
        }
        for (server, index) in servers.iter().zip(0..) {
            let role = if index == 0 { "primary = true".to_owned() } else { format!("priority = {}", 10 * index) };
            let _ = write!(
                text,
                "[[group.endpoint]]\nname = \"{}\"\nregion = \"r\"\nurl = \"http://{}\"\n{role}\n\
                 probe = {{ http = {{ path = \"/{name}\" }} }}\n{watch}",
                server.name(),
                server.address()
            );
        }
    }
    text
}

/// What one kind of fault came to.
struct Row {
    pace: Pace,
    fault: Fault,
    ours: Vec<Times>,
    haproxy: Vec<Times>,
}

impl Row {
    fn new(pace: Pace, fault: Fault) -> Self {
        Self { pace, fault, ours: Vec::new(), haproxy: Vec::new() }
    }

    /// Our mean until the first answer by another path, to haproxy's.
    fn against_haproxy(&self) -> f64 {
        mean(&self.ours, |times| times.answered) / mean(&self.haproxy, |times| times.answered)
    }

    /// Our mean until publication to the mean of the floors and `allowed`.
    fn beyond_floor(&self, allowed: f64) -> f64 {
        mean(&self.ours, |times| times.published) / (self.floor(&self.ours) + allowed)
    }

    fn floor(&self, times: &[Times]) -> f64 {
        mean(times, |times| self.pace.floor(times.phase, self.fault))
    }

    fn line(&self, what: &str) -> [String; 9] {
        let text = |times: &[Times], of: fn(&Times) -> f64| {
            let worst = times.iter().map(of).fold(0.0, f64::max);
            format!("{:.1} ({worst:.1})", mean(times, of))
        };
        let late = |times: &[Times], of: fn(&Times) -> f64| format!("{:+.1}", mean(times, of) - self.floor(times));
        [
            what.to_owned(),
            format!("{:.1}", self.floor(&self.ours)),
            text(&self.ours, |times| times.published),
            late(&self.ours, |times| times.published),
            text(&self.ours, |times| times.staged),
            text(&self.ours, |times| times.answered),
            text(&self.haproxy, |times| times.answered),
            late(&self.haproxy, |times| times.answered),
            format!("{:.2}", self.against_haproxy()),
        ]
    }
}

fn mean(times: &[Times], of: impl Fn(&Times) -> f64) -> f64 {
    times.iter().map(of).sum::<f64>() / times.len() as f64
}

struct Table {
    title: String,
    pace: Pace,
    repetitions: u32,
    lines: Vec<[String; 9]>,
}

impl Table {
    fn new(id: &str, pace: Pace, repetitions: u32) -> Self {
        let Pace { interval, again, timeout, threshold } = pace;
        let title = format!(
            "{id}: checks every {interval} ms, every {again} ms once one failed, timeout {timeout} ms, {threshold} \
             failures; {repetitions} faults for each side; ms from the fault, mean (worst)"
        );
        Self { title, pace, repetitions, lines: Vec::new() }
    }

    /// Phases that cover the interval evenly, each at a random place of its part; both sides get the same.
    fn phases(&self) -> Vec<f64> {
        let part = self.pace.interval as f64 / f64::from(self.repetitions);
        (0..self.repetitions).map(|index| part * (f64::from(index) + random())).collect()
    }

    fn row(&mut self, scene: &mut Scene, fault: Fault) -> Row {
        let mut row = Row::new(self.pace, fault);
        for (index, phase) in self.phases().into_iter().enumerate() {
            for side in in_turn(index) {
                let times = scene.strike(side, 0, fault, phase);
                if side == Side::Ours { &mut row.ours } else { &mut row.haproxy }.push(times);
                scene.servers[0].revive();
                scene.settle();
            }
        }
        self.lines.push(row.line(fault.name()));
        row
    }

    /// A second server is killed 0.2 s (and what it takes until its checks have the wanted phase) after flow came to
    /// it. Our means until the first and the second publication.
    fn second(&mut self, scene: &mut Scene) -> (f64, f64) {
        let mut rows = [0, 1].map(|_| Row::new(self.pace, Fault::Kill));
        for (index, phase) in self.phases().into_iter().enumerate() {
            for side in in_turn(index) {
                for (server, row) in rows.iter_mut().enumerate() {
                    let times = scene.strike(side, server, Fault::Kill, phase);
                    if side == Side::Ours { &mut row.ours } else { &mut row.haproxy }.push(times);
                    pause(200);
                }
                scene.servers[..2].iter_mut().for_each(Server::revive);
                scene.settle();
            }
        }
        self.lines.push(rows[0].line("killed, to be followed"));
        self.lines.push(rows[1].line("the next one killed, 0.2 s later"));
        let [first, second] = rows.map(|row| mean(&row.ours, |times| times.published));
        (first, second)
    }

    fn print(self) {
        println!("\n{}\n", self.title);
        let head = [
            "fault",
            "floor",
            "published",
            "beyond floor",
            "with all stages",
            "first answer",
            "haproxy's first answer",
            "beyond floor",
            "ratio",
        ];
        print_table(head, self.lines);
    }
}

/// Neither side is always the first.
fn in_turn(index: usize) -> [Side; 2] {
    if index % 2 == 0 { [Side::Ours, Side::Haproxy] } else { [Side::Haproxy, Side::Ours] }
}

/// From 0 to 1; another every time.
pub(crate) fn random() -> f64 {
    let mut word = now();
    for _ in 0..3 {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
    }
    (word >> 11) as f64 / (1_u64 << 53) as f64
}
