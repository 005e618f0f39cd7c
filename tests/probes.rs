//! Each probe kind against each fault, with real sockets: so many slots, exactly so many results, all of one kind.

#![cfg(feature = "supervisor")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may look at the clock, wait and print"
)]

mod brokers;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_failover::engine::{
    Endpoint, EndpointId, EndpointState, Engine, FailoverOutcome, FenceStatus, Policy, ProbeResult, Timestamp,
};
use broker_failover::supervisor::config::{
    CancelOnDisconnect, EndpointConfig, ExecConfig, HttpConfig, ProbeConfig, ProbeKind, Probing, Require, Terms,
    TlsConfig,
};
use broker_failover::supervisor::probes::{
    Evidence, Fault, NoEvidence, ProbeFuture, Prober, ProberError, Resolver, Verdict, of_endpoint, probe_once,
};
use broker_failover::supervisor::scheduler::{Event, Options, Scheduler, SlotResult, Watch};
use brokers::certificates::Authority;
use brokers::{FrontEnd, Mode};
use tokio::sync::mpsc;
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_millis(250);
/// Long enough for a busy machine; only what hangs gets there.
const PATIENT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(900);
/// Slots of each case.
const SLOTS: u64 = 5;

fn http() -> HttpConfig {
    HttpConfig {
        path: "/health".to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        expect_status: vec![200],
        expect_body: Some("ok".to_owned()),
        account_pointer: None,
        competing_session_status: vec![409],
        tls: TlsConfig::default(),
    }
}

fn trusting(ca_file: &Path) -> TlsConfig {
    TlsConfig { ca_file: Some(ca_file.to_owned()), server_name: None }
}

fn exec(script: &str) -> ProbeKind {
    ProbeKind::Exec(ExecConfig {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        competing_session_exit: Some(75),
        logon_refused_exit: Some(76),
    })
}

fn endpoint(url: &str, kinds: &[ProbeKind]) -> EndpointConfig {
    EndpointConfig {
        endpoint: Endpoint::primary("east", "us-east-1", url),
        explicit_priority: true,
        probes: kinds
            .iter()
            .map(|kind| ProbeConfig { kind: kind.clone(), slow_after: None, terms: Terms::default() })
            .collect(),
        require: Require::All,
        watch: None,
        shared_fate: Vec::new(),
        cancel_on_disconnect: CancelOnDisconnect::Unknown,
    }
}

fn prober(url: &str, kinds: &[ProbeKind]) -> Arc<dyn Prober> {
    of_endpoint(&endpoint(url, kinds), &Resolver::default()).expect("a prober")
}

fn kind_of(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Success(_) => "+".to_owned(),
        Verdict::PathFault { fault, .. } => format!("{fault:?}"),
        Verdict::NoEvidence { cause, .. } => format!("?{cause:?}"),
    }
}

/// One endpoint, and what each of its slots must come to.
struct Case {
    name: String,
    prober: Arc<dyn Prober>,
    timeout: Duration,
    jitter: f64,
    shared_fate: Vec<String>,
    expected: Vec<&'static str>,
}

impl Case {
    fn new(name: impl Into<String>, prober: Arc<dyn Prober>, expected: &'static str) -> Self {
        let timeout = if expected == "Timeout" { SHORT } else { PATIENT };
        let expected = vec![expected; SLOTS as usize];
        Self { name: name.into(), prober, timeout, jitter: 0.5, shared_fate: Vec::new(), expected }
    }

    fn sharing(mut self, key: &str) -> Self {
        self.shared_fate.push(key.to_owned());
        self
    }
}

/// Runs all cases at once, and compares slot by slot. A machine that froze this process meanwhile says nothing of the
/// probes (and the scheduler says that it was frozen): then all is done again.
async fn run(cases: &[Case]) {
    for _ in 0..10 {
        if is_as_expected(cases).await {
            return;
        }
    }
    panic!("this machine froze us ten times in a row");
}

/// As [`run`], of one case that cannot be used twice.
async fn run_anew(case: impl Fn() -> Case) {
    for _ in 0..10 {
        if is_as_expected(&[case()]).await {
            return;
        }
    }
    panic!("this machine froze us ten times in a row");
}

async fn is_as_expected(cases: &[Case]) -> bool {
    let Some(found) = attempt_at(cases).await else { return false };
    let expected: BTreeMap<_, _> = cases.iter().map(|case| (&*case.name, case.expected.clone())).collect();
    let found: BTreeMap<_, Vec<_>> =
        found.iter().map(|(name, kinds)| (*name, kinds.iter().map(String::as_str).collect())).collect();
    assert_eq!(found, expected);
    true
}

async fn attempt_at(cases: &[Case]) -> Option<BTreeMap<&str, Vec<String>>> {
    let scheduler = Scheduler::start(Options::default()).expect("threads");
    let (sender, mut events) = mpsc::channel(10_000);
    let group = scheduler.group(sender);
    for (index, case) in (0..).zip(cases) {
        group.watch(Watch {
            endpoint: EndpointId::from_index(index),
            probing: Probing {
                interval: INTERVAL,
                interval_when_failing: INTERVAL,
                timeout: case.timeout,
                jitter: case.jitter,
            },
            prober: Arc::clone(&case.prober),
            shared_fate: case.shared_fate.clone(),
        });
    }
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    while found.len() < cases.len()
        || cases.iter().any(|case| found.get(&*case.name).is_none_or(|kinds| kinds.len() < case.expected.len()))
    {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
        match event.expect("slots do not stop").expect("the scheduler lives") {
            Event::Slot(SlotResult { endpoint, slot, verdict, .. }) => {
                let case = &cases[endpoint.index()];
                let kinds = found.entry(&case.name).or_default();
                assert_eq!(kinds.len() as u64, slot, "{}: each slot once, in order", case.name);
                let kind = kind_of(&verdict);
                if kind == "?Frozen" {
                    println!("{}: {verdict:?}", case.name);
                    return None;
                }
                assert_no_secret(&verdict);
                kinds.push(kind);
            }
            Event::Stall(stall) => {
                println!("{stall:?}");
                return None;
            }
            Event::Late(late) => panic!("{late:?}"),
        }
    }
    for case in cases {
        if let Some(kinds) = found.get_mut(&*case.name) {
            kinds.truncate(case.expected.len());
        }
    }
    Some(found)
}

fn assert_no_secret(verdict: &Verdict) {
    assert!(!format!("{verdict:?}").contains("s3cret"), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_against_each_fault() {
    let slow = Mode::Slow(Duration::from_millis(50));
    let throttle = |status, after: &str| Mode::Throttle { status, retry_after: Some(after.to_owned()) };
    let modes = [
        ("healthy", Mode::Healthy, "+"),
        ("refuse", Mode::Refuse, "Refused"),
        ("reset", Mode::Reset, "Reset"),
        ("close", Mode::Close, "Reset"),
        ("hang", Mode::Hang, "Timeout"),
        ("slow", slow.clone(), "+"),
        ("500", Mode::Status(500), "UnexpectedAnswer"),
        ("409, said to mean another session", Mode::Status(409), "?CompetingSession"),
        ("301 is not followed", Mode::Status(301), "UnexpectedAnswer"),
        ("wrong body", Mode::Body("maintenance".to_owned()), "UnexpectedAnswer"),
        ("cut mid-answer", Mode::Cut, "Reset"),
        ("half-open", Mode::HalfOpen, "Timeout"),
        ("garbage", Mode::Garbage, "UnexpectedAnswer"),
        ("429", throttle(429, "60"), "?Throttled"),
        ("401", Mode::Status(401), "LogonRefused"),
        ("418", throttle(418, "Sun, 06 Nov 2190 08:49:37 GMT"), "?Banned"),
    ];
    let mut cases = Vec::new();
    let mut front_ends = Vec::new();
    for (name, mode, expected) in modes {
        let front_end = FrontEnd::start(mode, None).await.expect("a port");
        let url = front_end.url("http").replace("//", "//user:s3cret@");
        let mut config = http();
        config.headers.push(("X-Key".to_owned(), "s3cret".to_owned()));
        let mut case = Case::new(name, prober(&url, &[ProbeKind::Http(config)]), expected);
        if expected == "?Banned" {
            // Nobody asks again before it is over.
            case.expected[1..].fill("?Throttled");
        }
        cases.push(case);
        front_ends.push(front_end);
    }
    // The right answer, too late.
    let front_end = FrontEnd::start(slow, None).await.expect("a port");
    let mut config = endpoint(&front_end.url("http"), &[ProbeKind::Http(http())]);
    config.probes[0].slow_after = Some(Duration::from_millis(50));
    let limited = of_endpoint(&config, &Resolver::default()).expect("a prober");
    cases.push(Case::new("slow_after", limited, "Slow"));
    run(&cases).await;
    let throttled: Vec<_> =
        [13, 15].map(|place| &front_ends[place]).iter().map(|front_end| front_end.counts().requests).collect();
    assert!(throttled.iter().all(|requests| *requests <= 10), "one request in each attempt: {throttled:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_against_each_fault_and_what_it_cannot_see() {
    let mut cases = Vec::new();
    let mut front_ends = Vec::new();
    for (name, mode, expected) in [
        ("healthy", Mode::Healthy, "+"),
        ("refuse", Mode::Refuse, "Refused"),
        ("hang: not seen", Mode::Hang, "+"),
        ("500: not seen", Mode::Status(500), "+"),
        ("close: not seen", Mode::Close, "+"),
        ("reset: not seen", Mode::Reset, "+"),
    ] {
        let front_end = FrontEnd::start(mode, None).await.expect("a port");
        cases.push(Case::new(name, prober(&front_end.url("tcp"), &[ProbeKind::Tcp]), expected));
        front_ends.push(front_end);
    }
    let healthy = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    cases.push(Case::new("slow_after", slow_after_nothing(&healthy.url("tcp"), &[ProbeKind::Tcp]), "Slow"));
    let (full, _kept) = full_listener();
    cases.push(Case::new("unanswered", prober(&format!("tcp://{full}"), &[ProbeKind::Tcp]), "Timeout"));
    run(&cases).await;
}

/// To which every answer is too late.
fn slow_after_nothing(url: &str, kinds: &[ProbeKind]) -> Arc<dyn Prober> {
    let mut config = endpoint(url, kinds);
    config.probes[0].slow_after = Some(Duration::from_nanos(1));
    of_endpoint(&config, &Resolver::default()).expect("a prober")
}

/// A listener whose queue is full: the kernel answers no further connection, as where packets are lost.
fn full_listener() -> (SocketAddr, impl Sized) {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    listen(&listener, 0).expect("a listener");
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().expect("an address");
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let waiting: Vec<_> = std::iter::from_fn(connect).collect();
    (address, (listener, waiting))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_and_https_against_each_certificate_and_fault() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let ca_file = trusted.file("tls");
    let tls = trusting(&ca_file);
    let host = "127.0.0.1";
    let servers = [
        ("good", Some(trusted.server(host, -10..90)), Mode::Healthy, ["+", "+"]),
        ("expired", Some(trusted.server(host, -90..-1)), Mode::Healthy, ["Tls", "Tls"]),
        ("not yet valid", Some(trusted.server(host, 400..800)), Mode::Healthy, ["?LocalClock", "?LocalClock"]),
        ("not yet valid, wrong name", Some(trusted.server("west.example", 400..800)), Mode::Healthy, ["Tls", "Tls"]),
        ("wrong name", Some(trusted.server("west.example", -10..90)), Mode::Healthy, ["Tls", "Tls"]),
        ("untrusted", Some(other.server(host, -10..90)), Mode::Healthy, ["Tls", "Tls"]),
        ("not TLS", None, Mode::Garbage, ["Timeout", "Timeout"]),
        ("refuse", Some(trusted.server(host, -10..90)), Mode::Refuse, ["Refused", "Refused"]),
        ("reset", Some(trusted.server(host, -10..90)), Mode::Reset, ["Reset", "Reset"]),
        ("close", Some(trusted.server(host, -10..90)), Mode::Close, ["Reset", "Reset"]),
        ("hang", Some(trusted.server(host, -10..90)), Mode::Hang, ["Timeout", "Timeout"]),
        ("half-open", Some(trusted.server(host, -10..90)), Mode::HalfOpen, ["+", "Timeout"]),
        ("500", Some(trusted.server(host, -10..90)), Mode::Status(500), ["+", "UnexpectedAnswer"]),
        ("cut mid-answer", Some(trusted.server(host, -10..90)), Mode::Cut, ["+", "Reset"]),
        (
            "wrong body",
            Some(trusted.server(host, -10..90)),
            Mode::Body("maintenance".to_owned()),
            ["+", "UnexpectedAnswer"],
        ),
        (
            "429",
            Some(trusted.server(host, -10..90)),
            Mode::Throttle { status: 429, retry_after: Some("60".to_owned()) },
            ["+", "?Throttled"],
        ),
    ];
    let mut cases = Vec::new();
    let mut front_ends = Vec::new();
    for (name, server, mode, expected) in servers {
        let front_end = FrontEnd::start(mode, server).await.expect("a port");
        let https = ProbeKind::Http(HttpConfig { tls: tls.clone(), ..http() });
        let [by_tls, by_https] = expected;
        let probe = prober(&front_end.url("tls"), &[ProbeKind::Tls(tls.clone())]);
        cases.push(Case::new(format!("tls: {name}"), probe, by_tls));
        cases.push(Case::new(format!("https: {name}"), prober(&front_end.url("https"), &[https]), by_https));
        front_ends.push(front_end);
    }
    // The right answer, too late.
    let front_end = FrontEnd::start(Mode::Healthy, Some(trusted.server(host, -10..90))).await.expect("a port");
    let https = ProbeKind::Http(HttpConfig { tls: tls.clone(), ..http() });
    for (scheme, kind) in [("tls", ProbeKind::Tls(tls.clone())), ("https", https)] {
        cases.push(Case::new(
            format!("{scheme}: slow_after"),
            slow_after_nothing(&front_end.url(scheme), &[kind]),
            "Slow",
        ));
    }
    run(&cases).await;
    std::fs::remove_file(ca_file).expect("ours");
}

#[tokio::test]
async fn a_certificate_tells_how_long_it_still_holds_and_may_have_another_name() {
    let authority = Authority::new();
    let ca_file = authority.file("expiry");
    let front_end = FrontEnd::start(Mode::Healthy, Some(authority.server("gw.example", -1..30))).await.expect("a port");
    let tls = TlsConfig { ca_file: Some(ca_file.clone()), server_name: Some("gw.example".to_owned()) };
    for (scheme, kind) in
        [("tls", ProbeKind::Tls(tls.clone())), ("https", ProbeKind::Http(HttpConfig { tls: tls.clone(), ..http() }))]
    {
        let verdict = probe_once(&*prober(&front_end.url(scheme), &[kind]), PATIENT).await;
        let Verdict::Success(Evidence { certificate_expires_in: Some(left), .. }) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(left.as_secs().div_ceil(86_400), 30, "{left:?}");
    }
    std::fs::remove_file(ca_file).expect("ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exec_against_each_end_of_a_program() {
    let marker = "broker-failover-probe-that-hangs";
    let missing = ProbeKind::Exec(ExecConfig {
        command: vec!["/nonexistent/probe".to_owned()],
        competing_session_exit: None,
        logon_refused_exit: None,
    });
    let mut cases = vec![
        Case::new("exit 0", prober("fix://127.0.0.1:1", &[exec("exit 0")]), "+"),
        Case::new(
            "exit 3",
            prober("fix://127.0.0.1:1", &[exec("echo https://u:s3cret@h >&2; exit 3")]),
            "UnexpectedAnswer",
        ),
        Case::new("exit 75", prober("fix://127.0.0.1:1", &[exec("echo in use >&2; exit 75")]), "?CompetingSession"),
        Case::new("killed", prober("fix://127.0.0.1:1", &[exec("kill -TERM $$")]), "UnexpectedAnswer"),
        Case::new("missing", prober("fix://127.0.0.1:1", &[missing]), "Error"),
        Case::new("endless output", prober("fix://127.0.0.1:1", &[exec("head -c 1000000 /dev/zero")]), "+"),
        Case::new(
            "leaves a child",
            prober("fix://127.0.0.1:1", &[exec(&format!("sh -c 'sleep 600; : {marker}' &"))]),
            "+",
        ),
    ];
    run(&cases).await;
    // It ignores being asked politely, and so does what it starts.
    let script = format!("trap '' TERM; sh -c 'sleep 600; : {marker}' & sleep 600; : {marker}");
    cases = vec![Case::new("hang", prober("fix://127.0.0.1:1", &[exec(&script)]), "Timeout")];
    // Never a second copy: the slots that come due while it runs are failures of their own kind.
    cases[0].expected = ["Timeout", "Overlap", "Overlap", "Overlap", "Timeout"].to_vec();
    run(&cases).await;
    for _ in 0..100 {
        if processes(marker) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} processes are left", processes(marker));
}

/// Processes whose command line holds `marker`.
fn processes(marker: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("procfs");
    all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_fail_or_hang_are_dns_faults_and_delay_no_other() {
    let front_end = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let hung = Arc::new(AtomicU64::new(0));
    let resolver = Resolver::new({
        let hung = Arc::clone(&hung);
        move |name| match name {
            "good.example" => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
            "none.example" => Ok(Vec::new()),
            "panic.example" => panic!("in the resolver"),
            "full.example" => Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error())),
            name if name.starts_with("hang") => {
                hung.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_secs(20));
                Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
            }
            _ => Err(io::Error::other("Name or service not known")),
        }
    });
    let port = front_end.address().port();
    let by = |scheme: &str, kind: ProbeKind, name: &str, expected: &'static str| {
        let config = endpoint(&format!("{scheme}://{name}:{port}"), &[kind]);
        let mut case =
            Case::new(format!("{scheme}: {name}"), of_endpoint(&config, &resolver).expect("a prober"), expected);
        if name.starts_with("hang") {
            case.timeout = SHORT;
        }
        case
    };
    let case = |name: &str, expected| by("http", ProbeKind::Http(http()), name, expected);
    let tls = || TlsConfig { ca_file: None, server_name: None };
    let mut cases = vec![
        case("good.example", "+"),
        case("bad.example", "Dns"),
        case("none.example", "Dns"),
        case("panic.example", "Error"),
        case("full.example", "?LocalExhausted"),
        case("127.0.0.1", "+"),
    ];
    cases.extend((0..16).map(|number| case(&format!("hang{number}.example"), "Dns")));
    let https = || ProbeKind::Http(HttpConfig { tls: tls(), ..http() });
    for (scheme, kind) in [("tcp", ProbeKind::Tcp), ("tls", ProbeKind::Tls(tls())), ("https", https())] {
        cases.push(by(scheme, kind.clone(), "bad.example", "Dns"));
        cases.push(by(scheme, kind, &format!("hang-{scheme}.example"), "Dns"));
    }
    run(&cases).await;
    assert_eq!(hung.load(Ordering::SeqCst), 19, "one look-up for each name, however many slots wait for it");
    assert_eq!(resolver.running(), 19);
}

#[tokio::test]
async fn the_system_resolver_is_asked_for_names() {
    let front_end = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let url = format!("tcp://localhost:{}", front_end.address().port());
    let verdict = probe_once(&*prober(&url, &[ProbeKind::Tcp]), PATIENT).await;
    assert_eq!(kind_of(&verdict), "+", "::1 refuses, 127.0.0.1 accepts: {verdict:?}");
}

#[test]
fn what_cannot_be_carried_out_is_refused_before_anything_is_asked() {
    let refused = |url: &str, kinds: &[ProbeKind]| {
        of_endpoint(&endpoint(url, kinds), &Resolver::default()).err().expect("refused").to_string()
    };
    let with = |change: &dyn Fn(&mut HttpConfig)| {
        let mut config = http();
        change(&mut config);
        ProbeKind::Http(config)
    };
    let url = "http://h";
    assert!(refused(url, &[]).contains("no probe"));
    assert!(refused("tcp://h", &[ProbeKind::Tcp]).contains("default port"));
    assert!(refused("tcp://h:1", &[with(&|_| {})]).contains("found tcp://"));
    assert!(refused(url, &[with(&|c| c.method = "GET /".to_owned())]).contains("method"));
    assert!(refused(url, &[with(&|c| c.path = "/a b".to_owned())]).contains("path"));
    assert!(refused(url, &[with(&|c| c.path = "health".to_owned())]).contains("path"));
    let text = refused(url, &[with(&|c| c.headers.push(("X".to_owned(), "s3cret\r\nY: z".to_owned())))]);
    assert!(text.contains("header \"X\"") && !text.contains("s3cret"));
    assert!(
        refused(
            url,
            &[ProbeKind::Exec(ExecConfig {
                command: Vec::new(),
                competing_session_exit: None,
                logon_refused_exit: None
            })]
        )
        .contains("command")
    );
    let tls = |ca_file: &str| ProbeKind::Tls(TlsConfig { ca_file: Some(ca_file.into()), server_name: None });
    assert!(refused("tls://h", &[tls("/nonexistent.pem")]).contains("/nonexistent.pem"));
    assert!(refused("tls://h", &[tls("/dev/null")]).contains("no certificate"));
    let name = TlsConfig { ca_file: None, server_name: Some("a b".to_owned()) };
    assert!(refused("tls://h", &[ProbeKind::Tls(name)]).contains("server_name"));
    let error = of_endpoint(&endpoint("https://u:s3cret@h:x", &[ProbeKind::Tcp]), &Resolver::default()).err();
    assert!(matches!(error, Some(ProberError::Url(_))) && !format!("{error:?}").contains("s3cret"));
}

/// A prober that plays what it is told, slot by slot.
struct Script<F>(F, AtomicU64);

impl<F> Script<F>
where
    F: Fn(u64) -> ProbeFuture<'static> + Send + Sync + 'static,
{
    fn prober(play: F) -> Arc<dyn Prober> {
        Arc::new(Self(play, AtomicU64::new(0)))
    }
}

impl<F> Prober for Script<F>
where
    F: Fn(u64) -> ProbeFuture<'static> + Send + Sync,
{
    fn overlaps(&self) -> bool {
        true
    }

    fn probe(&self, _: Instant) -> ProbeFuture<'_> {
        (self.0)(self.1.fetch_add(1, Ordering::SeqCst))
    }
}

fn at_once(verdict: Verdict) -> ProbeFuture<'static> {
    Box::pin(async move { verdict })
}

fn good() -> Verdict {
    Verdict::Success(Evidence::default())
}

/// What an engine (three failures in a row, a fence that is confirmed) makes of each path's results, told in rounds.
fn engine_after(rounds: &[[&str; 2]]) -> (Engine, FailoverOutcome) {
    let mut engine = Engine::new(Policy::default());
    let ids = [
        engine.register(Endpoint::primary("P", "us-east-1", "https://p.example")).expect("P"),
        engine.register(Endpoint::backup("B", "us-west-2", "https://b.example", 10)).expect("B"),
    ];
    let mut now = 0;
    for round in rounds {
        now += 1_000_000_000;
        for (id, kind) in ids.into_iter().zip(round) {
            let result = match *kind {
                "+" => ProbeResult::Success,
                kind if kind.starts_with('?') => continue,
                kind => ProbeResult::Failure(kind.to_owned().into()),
            };
            engine.record_probe(Timestamp::from_nanos(now), id, result).expect("registered");
        }
    }
    let at = Timestamp::from_nanos(now);
    let decision = engine.evaluate_failover(at, FenceStatus::Unconfirmed).expect("an active path");
    (engine, decision.outcome)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_a_tcp_connect_passes_for_a_working_path_only_where_nothing_deeper_is_asked() {
    // A tunnel that accepts for a dead peer: it closes before an answer, or never gives one.
    let closes = FrontEnd::start(Mode::Close, None).await.expect("a port");
    let silent = FrontEnd::start(Mode::Hang, None).await.expect("a port");
    let backup = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let deep = [ProbeKind::Tcp, ProbeKind::Http(http())];
    let deepest_first = [ProbeKind::Http(http()), ProbeKind::Tcp];
    let mut cases = vec![
        Case::new("P", prober(&closes.url("http"), &deep), "Reset"),
        Case::new("P, other order", prober(&closes.url("http"), &deepest_first), "Reset"),
        Case::new("P, silent", prober(&silent.url("http"), &deep), "Timeout"),
        Case::new("P, control run", prober(&closes.url("tcp"), &[ProbeKind::Tcp]), "+"),
        Case::new("B", prober(&backup.url("http"), &deep), "+"),
    ];
    for case in &mut cases {
        case.expected.truncate(3);
    }
    run(&cases).await;
    let (_, outcome) = engine_after(&[["Reset", "+"]; 3]);
    assert!(matches!(outcome, FailoverOutcome::FenceRequired(_)), "{outcome:?}");
    let (_, outcome) = engine_after(&[["+", "+"]; 3]);
    assert!(matches!(outcome, FailoverOutcome::NoAction), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_peers_zero_or_huge_wish_makes_no_busy_loop_and_no_overflow() {
    let mut cases = Vec::new();
    let mut front_ends = Vec::new();
    for wish in ["0", "1", "86400", "18446744073709551615", "99999999999999999999999999"] {
        let mode = Mode::Throttle { status: 429, retry_after: Some(wish.to_owned()) };
        let front_end = FrontEnd::start(mode, None).await.expect("a port");
        cases.push(Case::new(wish, prober(&front_end.url("http"), &[ProbeKind::Http(http())]), "?Throttled"));
        front_ends.push(front_end);
    }
    run(&cases).await;
    for front_end in front_ends {
        // Five slots take one second; whatever is wished for, it is asked at its start and perhaps at its end.
        assert!(front_end.counts().requests <= 2 * 10, "{:?}", front_end.counts());
    }
    let zero = Probing {
        interval: Duration::ZERO,
        interval_when_failing: Duration::ZERO,
        timeout: Duration::ZERO,
        jitter: 0.0,
    };
    let scheduler = Scheduler::start(Options::default()).expect("threads");
    let (sender, mut events) = mpsc::channel(100);
    let group = scheduler.group(sender);
    let (endpoint, prober) = (EndpointId::from_index(0), Script::prober(|_| at_once(good())));
    group.watch(Watch { endpoint, probing: zero, prober, shared_fate: Vec::new() });
    let started = Instant::now();
    for _ in 0..50 {
        events.recv().await.expect("slots");
    }
    assert!(started.elapsed() >= Duration::from_millis(20), "zero is a millisecond, not a busy loop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_whatever_state_a_probe_is_in_each_slot_yields_one_result_and_only_an_answer_is_good() {
    let nothing = || -> ProbeFuture<'static> { Box::pin(std::future::pending()) };
    let scripts: [(&str, Arc<dyn Prober>, Vec<&str>); 4] = [
        (
            "the session is gone",
            Script::prober(|slot| match slot {
                0 | 1 => at_once(good()),
                _ => at_once(Verdict::fault(Fault::Error, "no session")),
            }),
            vec!["+", "+", "Error", "Error", "Error"],
        ),
        (
            "it falls silent",
            Script::prober(move |slot| if slot < 2 { at_once(good()) } else { nothing() }),
            vec!["+", "+", "Timeout", "Timeout", "Timeout"],
        ),
        (
            "it breaks",
            Script::prober(
                |slot| if slot == 0 { at_once(good()) } else { Box::pin(async { panic!("no session object") }) },
            ),
            vec!["+", "Panic", "Panic", "Panic", "Panic"],
        ),
        (
            "it cannot know",
            Script::prober(|slot| {
                let causes = [NoEvidence::LocalExhausted, NoEvidence::CompetingSession, NoEvidence::LocalClock];
                at_once(causes.get(slot as usize).map_or_else(good, |cause| Verdict::no_evidence(*cause, "")))
            }),
            vec!["?LocalExhausted", "?CompetingSession", "?LocalClock", "+", "+"],
        ),
    ];
    let scheduler = Scheduler::start(Options::default()).expect("threads");
    let (sender, mut events) = mpsc::channel(1_000);
    let group = scheduler.group(sender);
    let (interval, timeout) = (Duration::from_millis(300), Duration::from_millis(800));
    let probing = Probing { interval, interval_when_failing: interval, timeout, jitter: 0.0 };
    for (index, (_, prober, _)) in (0..).zip(&scripts) {
        let (endpoint, prober) = (EndpointId::from_index(index), Arc::clone(prober));
        group.watch(Watch { endpoint, probing: probing.clone(), prober, shared_fate: Vec::new() });
    }
    let mut told = vec![Vec::new(); scripts.len()];
    while told.iter().any(|kinds: &Vec<String>| kinds.len() < 5) {
        let Event::Slot(result) = events.recv().await.expect("slots") else { return };
        let kinds = &mut told[result.endpoint.index()];
        assert_eq!(result.slot, kinds.len() as u64);
        kinds.push(kind_of(&result.verdict));
    }
    for ((name, _, expected), told) in scripts.iter().zip(&told) {
        // Silence may be our own on a machine that froze; it is never good.
        let same = expected.iter().zip(told).all(|(expected, told)| expected == told || told == "?Frozen");
        assert!(same, "{name}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_orders_go_out_and_reports_do_not_come_back_is_a_failure_of_the_path() {
    let rest = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    // The stream's part is played by a program: it has an address of its own.
    let stream = ["exit 0", "exit 1"].map(exec);
    let of = |require: Require, kinds: &[ProbeKind]| {
        let mut config = endpoint(&rest.url("http"), kinds);
        config.require = require;
        of_endpoint(&config, &Resolver::default()).expect("a prober")
    };
    let rest_is = ProbeKind::Http(http());
    let [up, down] = &stream;
    let cases = [
        Case::new("both up", of(Require::All, &[rest_is.clone(), up.clone()]), "+"),
        Case::new("reports down", of(Require::All, &[rest_is.clone(), down.clone()]), "UnexpectedAnswer"),
        Case::new("reports down, asked first", of(Require::All, &[down.clone(), rest_is.clone()]), "UnexpectedAnswer"),
        Case::new("any", of(Require::Any, &[down.clone(), rest_is.clone()]), "+"),
        Case::new("none of any", of(Require::Any, &[down.clone(), down.clone()]), "UnexpectedAnswer"),
    ];
    run(&cases).await;
    assert!(!of(Require::All, &[rest_is, down.clone()]).overlaps(), "a part that must not overlap decides");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_being_asked_for_patience_stops_everyone_who_shares_the_quota_and_moves_nothing() {
    let throttle = Mode::Throttle { status: 418, retry_after: Some("600".to_owned()) };
    let [p, b, c] = [
        FrontEnd::start(throttle, None).await.expect("a port"),
        FrontEnd::start(Mode::Slow(Duration::from_millis(100)), None).await.expect("a port"),
        FrontEnd::start(Mode::Healthy, None).await.expect("a port"),
    ];
    let probe = |front_end: &FrontEnd| prober(&front_end.url("http"), &[ProbeKind::Http(http())]);
    let mut cases = [
        Case::new("B", probe(&b), "?Throttled").sharing("Q"),
        Case::new("C", probe(&c), "+").sharing("other"),
        Case::new("P", probe(&p), "?Throttled").sharing("Q"),
    ];
    for case in &mut cases {
        case.jitter = 0.0;
    }
    // Asked when P is, before anybody knew.
    cases[0].expected[0] = "+";
    cases[2].expected[0] = "?Banned";
    let before = p.counts().requests;
    run(&cases).await;
    assert!(p.counts().requests - before <= 10, "once in each attempt");
    assert!(b.counts().requests <= 10, "the same quota: not asked either");
    assert!(c.counts().requests >= 4);
    let (engine, outcome) = engine_after(&[["?Throttled", "+"]; 10]);
    assert!(matches!(outcome, FailoverOutcome::NoAction), "no evidence moves nothing: {outcome:?}");
    assert_eq!(engine.health(EndpointId::from_index(0)).expect("P").state(), EndpointState::Unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b17_one_slow_answer_is_one_failure_and_moves_nothing() {
    run_anew(|| {
        let slow_once = Script::prober(|slot| -> ProbeFuture<'static> {
            Box::pin(async move {
                if slot == 2 {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                }
                good()
            })
        });
        let mut case = Case::new("P", slow_once, "+");
        case.timeout = SHORT;
        case.expected = vec!["+", "+", "Timeout", "+", "+", "+", "+"];
        case
    })
    .await;
    let (_, outcome) = engine_after(&[["+", "+"], ["Timeout", "+"], ["+", "+"], ["Timeout", "+"], ["Timeout", "+"]]);
    assert!(matches!(outcome, FailoverOutcome::NoAction), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_a_hung_check_is_a_failure_each_time_and_its_late_answer_is_dropped() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    // A synchronous call that blocks its thread, ignores its deadline and in the end says "OK".
    let blocks = Script::prober(move |slot| {
        if slot == 0 {
            let _ = released.lock().expect("one call at a time").recv();
        }
        at_once(good())
    });
    let never = Script::prober(|_| -> ProbeFuture<'static> { Box::pin(std::future::pending()) });
    let healthy = Script::prober(|_| at_once(good()));
    let scheduler = Scheduler::start(Options::default()).expect("threads");
    let (sender, mut events) = mpsc::channel(1_000);
    let group = scheduler.group(sender);
    let (interval, timeout) = (Duration::from_millis(200), Duration::from_millis(700));
    let probing = Probing { interval, interval_when_failing: interval, timeout, jitter: 0.0 };
    for (index, prober) in (0..).zip([healthy, never, blocks]) {
        let endpoint = EndpointId::from_index(index);
        group.watch(Watch { endpoint, probing: probing.clone(), prober, shared_fate: Vec::new() });
    }
    let mut told = vec![Vec::new(); 3];
    while told.iter().any(|kinds: &Vec<String>| kinds.len() < 12) {
        match events.recv().await.expect("slots") {
            Event::Slot(result) => told[result.endpoint.index()].push(kind_of(&result.verdict)),
            Event::Stall(_) => {}
            Event::Late(late) => panic!("{late:?}"),
        }
    }
    let count = |told: &[String], kind: &str| told.iter().filter(|told| *told == kind).count();
    assert!(count(&told[0], "+") >= 6, "the others go on: {told:?}");
    assert_eq!(count(&told[1], "+") + count(&told[2], "+"), 0, "silence is never good: {told:?}");
    assert!(count(&told[1], "Timeout") >= 6, "{told:?}");
    assert!(count(&told[2], "Timeout") + count(&told[2], "Overlap") >= 6, "{told:?}");
    assert_eq!(scheduler.stats().blocked, 1, "one thread is left to it, however many slots pass");
    release.send(()).expect("it waits");
    let mut late = 0;
    let mut good_again = false;
    while late == 0 || !good_again {
        match events.recv().await.expect("slots") {
            Event::Late(found) => {
                assert_eq!((found.endpoint.index(), found.slot), (2, 0));
                late += 1;
            }
            Event::Slot(result) if result.endpoint.index() == 2 => {
                good_again |= kind_of(&result.verdict) == "+";
            }
            Event::Slot(_) | Event::Stall(_) => {}
        }
    }
    assert_eq!((scheduler.stats().late, scheduler.stats().blocked), (1, 0));
    scheduler.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_failure_error_panic_and_timeout_are_failures_alike() {
    run_anew(|| {
        let play = Script::prober(|slot| match slot {
            0 | 2 => at_once(Verdict::fault(Fault::Refused, "no")),
            1 => at_once(Verdict::fault(Fault::Error, "internal")),
            3 => Box::pin(async { panic!("at the disco") }),
            _ => Box::pin(std::future::pending()),
        });
        let mut case = Case::new("P", play, "Timeout");
        case.expected = vec!["Refused", "Error", "Refused", "Panic", "Timeout"];
        case
    })
    .await;
    let rounds = [["Refused", "+"], ["Error", "+"], ["Refused", "+"]];
    assert!(matches!(engine_after(&rounds[..2]).1, FailoverOutcome::NoAction));
    assert!(matches!(engine_after(&rounds).1, FailoverOutcome::FenceRequired(_)), "the third counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b26_a_half_open_path_fails_by_its_deadline_and_each_probe_dials_afresh() {
    let front_end = FrontEnd::start(Mode::Healthy, None).await.expect("a port");
    let probe = prober(&front_end.url("http"), &[ProbeKind::Http(http())]);
    for _ in 0..3 {
        assert_eq!(kind_of(&probe_once(&*probe, PATIENT).await), "+");
    }
    assert_eq!(front_end.counts().accepted, 3, "no connection is used twice");
    // It falls silent in the middle of an answer, without a reset.
    front_end.set(Mode::HalfOpen).await;
    run(&[Case::new("P", Arc::clone(&probe), "Timeout")]).await;
    front_end.set(Mode::Healthy).await;
    run(&[Case::new("P", Arc::clone(&probe), "+")]).await;

    // The other way round: the session that is open still works, a new one does not.
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let accepted = loop {
        // A probe that was under way at the end may still come.
        let before = front_end.counts();
        tokio::time::sleep(INTERVAL).await;
        if front_end.counts() == before && before.open == 0 {
            break before.accepted;
        }
    };
    let mut session = tokio::net::TcpStream::connect(front_end.address()).await.expect("connects");
    // What the kernel alone has accepted would be reset with the port.
    while front_end.counts().accepted == accepted {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    front_end.set(Mode::Refuse).await;
    run(&[Case::new("P", Arc::clone(&probe), "Refused")]).await;
    session.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("open");
    let mut answer = [0; 12];
    session.read_exact(&mut answer).await.expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 200", "the live session says +, the probe says what a new logon would meet");
}
