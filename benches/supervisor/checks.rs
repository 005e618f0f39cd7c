//! What checking costs: processor time, memory, and whether every slot is kept, beside haproxy checking the same servers.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use broker_failover::engine::{EndpointId, Input};
use broker_failover::scenario::Verb;
use broker_failover::supervisor::config::{self, Config};
use broker_failover::supervisor::group::Command;
use broker_failover::supervisor::journal::{self, Body};
use broker_failover::supervisor::probes::{Resolver, Verdict, of_endpoint};
use broker_failover::supervisor::running::{StartOptions, Supervisor};
use broker_failover::supervisor::scheduler::{Event, Options, Scheduler, Watch};
use tokio::sync::mpsc;

use crate::gates::{Gates, Plan};
use crate::process::{Folder, Haproxy, Server, address, another, now, pause, wait_until};
use crate::table::print_table;

/// Endpoints of a group.
const GROUP: usize = 10;
/// Both sides' timeout, in milliseconds.
const TIMEOUT: u64 = 800;
/// Where the servers are: few, and each of them many.
const ADDRESSES: std::ops::Range<u8> = 20..40;

pub(crate) fn measure(plan: Plan, gates: &mut Gates) {
    if !plan.wants("5") {
        return;
    }
    let mut server = Server::start("a", ADDRESSES.map(address).collect(), false);
    // By turns: the machine's mood lasts longer than a turn.
    let (turns, seconds) = if plan.smoke || plan.trial { (1, 2) } else { (5, 4) };
    let mut lines = Vec::new();
    let mut rss = Vec::new();
    let mut loads = vec![Load::new("http", 2_000, 1_000)];
    if !plan.smoke && !plan.trial {
        let more = [("tcp", 2_000, 1_000), ("http", 2, 1_000), ("http", 2_000, 100), ("tcp", 2_000, 100)];
        loads.extend(more.map(|(kind, endpoints, interval)| Load::new(kind, endpoints, interval)));
    }
    for load in loads {
        let [mut ours, mut probes, mut theirs] = [const { Vec::new() }; 3];
        for _ in 0..turns {
            ours.push(load.supervised(seconds));
            probes.push(load.scheduled(seconds));
            theirs.push(load.balanced(&mut server, seconds));
        }
        let [ours, probes, theirs] = [ours, probes, theirs].map(Cost::of_turns);
        for (who, cost) in [("supervisor", &ours), ("its probes alone", &probes), ("haproxy", &theirs)] {
            lines.push(load.line(who, cost, &theirs));
        }
        let Load { kind, endpoints, interval } = load;
        let what = format!("{kind}, {endpoints} every {interval} ms");
        if endpoints > 2 {
            let (share, missed) = (format!("{what}: share delivered"), format!("{what}: slots that came to nothing"));
            if interval == 1_000 {
                gates.least("5b", share, ours.delivered(load), [0.99, 0.999]);
                gates.most("5b", missed, ours.missed as f64, [0.0, 0.0]);
            } else {
                // A machine with other work has no room for as many.
                gates.told("5b", missed, ours.missed as f64, [0.0, 0.0]);
                gates.told("5b", format!("{what}: share not delivered"), 1.0 - ours.delivered(load), [0.01, 0.001]);
            }
            let goal = if kind == "http" { 1.0 } else { 0.9 };
            gates.noisy("5", format!("{what}: CPU per check, its probes alone"), probes.cpu / theirs.cpu, [1.3, goal]);
            // haproxy keeps no record of a check.
            gates.noisy("5", format!("{what}: CPU per check, supervisor"), ours.cpu / theirs.cpu, [1.3, goal]);
        }
        if interval == 1_000 && kind == "http" {
            rss.push((endpoints, ours.rss / theirs.rss));
        }
    }
    for (endpoints, ratio) in rss {
        gates.noisy("5c", format!("{endpoints} endpoints: memory, against haproxy"), ratio, [1.0, 0.5]);
    }
    println!("\n5: {turns} turns of {seconds} s each, timeout {TIMEOUT} ms; processor time of the whole process\n");
    let head =
        ["checks", "who", "delivered", "came to nothing", "CPU us/check", "against haproxy", "of a core", "RSS, MB"];
    print_table(head, lines);
}

#[derive(Clone, Copy)]
struct Load {
    kind: &'static str,
    endpoints: usize,
    interval: u64,
}

/// What a while of checking took.
struct Cost {
    /// Checks in a second.
    rate: f64,
    missed: u64,
    /// Microseconds for each check.
    cpu: f64,
    /// Megabytes.
    rss: f64,
}

impl Cost {
    /// All that was missed; of the rest, the median of each.
    fn of_turns(turns: Vec<Self>) -> Self {
        let median = |of: fn(&Self) -> f64| {
            let mut values: Vec<_> = turns.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            rate: median(|turn| turn.rate),
            missed: turns.iter().map(|turn| turn.missed).sum(),
            cpu: median(|turn| turn.cpu),
            rss: median(|turn| turn.rss),
        }
    }

    fn delivered(&self, load: Load) -> f64 {
        self.rate / load.rate()
    }
}

impl Load {
    const fn new(kind: &'static str, endpoints: usize, interval: u64) -> Self {
        Self { kind, endpoints, interval }
    }

    /// Checks that are wanted in a second.
    fn rate(self) -> f64 {
        self.endpoints as f64 * 1_000.0 / self.interval as f64
    }

    fn targets(self) -> impl Iterator<Item = SocketAddr> {
        ADDRESSES.map(address).cycle().take(self.endpoints)
    }

    fn line(self, who: &str, cost: &Cost, other: &Cost) -> [String; 8] {
        let Self { kind, endpoints, interval } = self;
        [
            format!("{kind}, {endpoints} every {interval} ms"),
            who.to_owned(),
            format!("{:.2} %", 100.0 * cost.delivered(self)),
            if who == "haproxy" { String::new() } else { cost.missed.to_string() },
            format!("{:.1}", cost.cpu),
            format!("{:.2}", cost.cpu / other.cpu),
            format!("{:.1} %", cost.cpu * cost.rate / 1e4),
            format!("{:.1}", cost.rss),
        ]
    }

    /// The configuration of a supervisor.
    fn config(self) -> String {
        let Self { kind, interval, .. } = self;
        let mut text = "[supervisor]\nsocket = \"control\"\njournal = \"journal\"\n".to_owned();
        let probe = if kind == "http" { "http = { path = \"/health\" }" } else { "tcp = {}" };
        for (index, target) in self.targets().enumerate() {
            let (group, place) = (index / GROUP, index % GROUP);
            if place == 0 {
                let _ = write!(
                    text,
                    "[[group]]\nname = \"g{group}\"\nexclusivity = \"last-login-wins\"\n[group.policy]\nrequire_fence = false\n\
                     require_reconciliation = false\n[group.probing]\ninterval = \"{interval}ms\"\n\
                     interval_when_failing = \"{interval}ms\"\ntimeout = \"{TIMEOUT}ms\"\njitter = 1.0\n\
                     [group.failback]\nmode = \"manual\"\n"
                );
            }
            let role = if place == 0 { "primary = true".to_owned() } else { format!("priority = {place}") };
            let _ = write!(
                text,
                "[[group.endpoint]]\nname = \"e{place}\"\nregion = \"r\"\nurl = \"{kind}://{target}\"\n{role}\n\
                 probe = {{ {probe} }}\n"
            );
        }
        text
    }

    /// The whole supervisor: probes, engines, journal. What it did stands in its journal.
    fn supervised(self, seconds: u64) -> Cost {
        let folder = Folder::on_disk();
        let file = folder.path().join("config.toml");
        fs::write(&file, self.config()).expect("a configuration");
        let mut child = Watched::start("supervise", &file);
        let mut counted = watched(child.0.id(), seconds, || [0, 0]);
        child.end();
        // A result is written down when it is known.
        let read = journal::for_each(&folder.path().join("journal"), |record, _| {
            if counted.window.contains(&record.wall) {
                match &record.body {
                    Body::Input { verb: Verb::Input(Input::Probe { .. }), .. } => counted.checks += 1,
                    Body::Note(note) if matches!(&*note.code, "NO_EVIDENCE" | "STALLED") => counted.missed += 1,
                    _ => {}
                }
            }
        });
        read.expect("a sound journal");
        counted.cost()
    }

    /// Only the scheduler and the probes: what haproxy does too.
    fn scheduled(self, seconds: u64) -> Cost {
        let folder = Folder::for_sockets();
        let file = folder.path().join("config.toml");
        fs::write(&file, self.config()).expect("a configuration");
        let mut child = Watched::start("schedule", &file);
        let counted = watched(child.0.id(), seconds, || child.counts());
        child.end();
        counted.cost()
    }

    fn balanced(self, server: &mut Server, seconds: u64) -> Cost {
        let folder = Folder::for_sockets();
        let Self { kind, interval, .. } = self;
        let check = if kind == "http" { "  option httpchk GET /health\n" } else { "" };
        let mut text = format!(
            "defaults\n  mode tcp\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n  \
             timeout check {TIMEOUT}ms\n  default-server check inter {interval}ms fall 3 rise 3\n\
             listen orders\n  bind {}\n",
            address(9)
        );
        for (index, target) in self.targets().enumerate() {
            if index % GROUP == 0 {
                let _ = write!(text, "backend g{}\n{check}", index / GROUP);
            }
            let _ = writeln!(text, "  server e{} {target}", index % GROUP);
        }
        let haproxy = Haproxy::start(folder.path(), "haproxy", 1, &text);
        // It does not count its checks. Where nothing but a connection is made, the server's process does not see it.
        let counted = if kind == "http" {
            watched(haproxy.id(), seconds, || [server.count(), 0])
        } else {
            watched(haproxy.id(), seconds, || [opened(), 0])
        };
        counted.cost()
    }
}

/// What a process did in a window.
struct Counted {
    /// In microseconds since 1970.
    window: Range<u64>,
    checks: u64,
    missed: u64,
    /// Processor time, in microseconds.
    cpu: f64,
    rss: f64,
}

impl Counted {
    fn cost(self) -> Cost {
        let Self { window, checks, missed, cpu, rss } = self;
        let seconds = (window.end - window.start) as f64 / 1e6;
        Cost { rate: checks as f64 / seconds, missed, cpu: cpu / checks.max(1) as f64, rss }
    }
}

/// Waits until the process runs evenly, then watches it. `count` says how many checks there were, and how many of them
/// came to nothing.
fn watched(id: u32, seconds: u64, mut count: impl FnMut() -> [u64; 2]) -> Counted {
    pause(2_500);
    let wall = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
    let (before, cpu, begun, start) = (count(), processor_time(id), wall(), now());
    wait_until(start + seconds * 1_000_000_000);
    let (after, spent, ended) = (count(), processor_time(id) - cpu, wall());
    Counted {
        window: begun..ended,
        checks: after[0] - before[0],
        missed: after[1] - before[1],
        cpu: spent,
        rss: resident(id),
    }
}

/// A child of this program that says when it is ready and ends when it is told.
struct Watched(Child, BufReader<std::process::ChildStdout>);

impl Watched {
    fn start(role: &str, file: &Path) -> Self {
        let mut child = another(role).arg(file).spawn().expect("a child");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut watched = Self(child, output);
        assert_eq!(watched.line(), "ready", "{role}");
        watched
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.1.read_line(&mut line);
        line.trim().to_owned()
    }

    /// Results, and slots that yielded none or nothing.
    fn counts(&mut self) -> [u64; 2] {
        let _ = self.0.stdin.as_mut().map(|input| writeln!(input, "count"));
        let line = self.line();
        let mut numbers = line.split(' ').map(|number| number.parse().unwrap_or(0));
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time of a process, in microseconds.
fn processor_time(id: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).expect("procfs").flatten();
    let nanos = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e3
}

/// Resident memory of a process, in megabytes.
fn resident(id: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1e3
}

/// Connections that this machine opened so far: those of others too.
fn opened() -> u64 {
    let text = fs::read_to_string("/proc/net/snmp").expect("procfs");
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (head, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let value = head.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "ActiveOpens");
    value.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

fn configured(arguments: &[String]) -> io::Result<(Config, tokio::runtime::Runtime)> {
    crate::process::raise_descriptors();
    let file = arguments.first().map(Path::new).ok_or(io::ErrorKind::InvalidInput)?;
    let checked = config::load(file)?;
    let config = checked.config.ok_or_else(|| io::Error::other(format!("{:?}", checked.findings)))?;
    // As `broker-failover run` has it.
    Ok((config, tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?))
}

/// The child that is a whole supervisor.
pub(crate) fn supervise(arguments: &[String]) -> io::Result<()> {
    let (config, runtime) = configured(arguments)?;
    let first_start = config.groups.iter().map(|group| format!("{}=e0", group.name)).collect();
    let options = StartOptions { first_start, ..StartOptions::default() };
    let supervisor = runtime.block_on(Supervisor::start(&config, &options)).map_err(io::Error::other)?;
    for group in supervisor.groups.iter() {
        runtime.block_on(group.ask(Command::ConfirmReconciled { epoch: 1 }, None)).map_err(io::Error::other)?;
    }
    println!("ready");
    io::stdin().lines().map_while(Result::ok).for_each(drop);
    runtime.block_on(supervisor.stop("measured")).map_err(io::Error::other)
}

/// The child that only probes.
pub(crate) fn schedule(arguments: &[String]) -> io::Result<()> {
    let (config, runtime) = configured(arguments)?;
    let _context = runtime.enter();
    let scheduler = Scheduler::start(Options::default())?;
    let resolver = Resolver::default();
    let missed = Arc::new(AtomicU64::new(0));
    let mut watched = Vec::new();
    for group in &config.groups {
        let (sender, mut events) = mpsc::channel(1_024);
        let watch = scheduler.group(sender);
        for (endpoint, index) in group.endpoints.iter().zip(0..) {
            let prober = of_endpoint(endpoint, &resolver).map_err(io::Error::other)?;
            let (endpoint, probing) = (EndpointId::from_index(index), group.probing.clone());
            watch.watch(Watch { endpoint, probing, prober, shared_fate: Vec::new() });
        }
        watched.push(watch);
        let missed = Arc::clone(&missed);
        runtime.spawn(async move {
            while let Some(event) = events.recv().await {
                let nothing = match event {
                    Event::Slot(result) => u64::from(matches!(result.verdict, Verdict::NoEvidence { .. })),
                    Event::Stall(stall) => stall.slots.end - stall.slots.start,
                    Event::Late(_) => 0,
                };
                missed.fetch_add(nothing, Ordering::Relaxed);
            }
        });
    }
    println!("ready");
    for _ in io::stdin().lines().map_while(Result::ok) {
        println!("{} {}", scheduler.stats().results, missed.load(Ordering::Relaxed));
    }
    // Nobody may be left to hear of what comes still.
    drop(watched);
    scheduler.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
