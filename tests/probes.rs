//! Each probe kind against each fault, with real sockets: so many slots, exactly so many results, all of one kind.

#![cfg(feature = "supervisor")]

mod brokers;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use brokers::certificates::Authority;
use brokers::{FrontEnd, Mode};
use broker_failover::engine::{
    Endpoint, EndpointId, EndpointState, Engine, FailoverOutcome, FenceStatus, Policy, ProbeResult, Timestamp,
};
use broker_failover::supervisor::config::{
    CancelOnDisconnect, EndpointConfig, ExecConfig, HttpConfig, ProbeConfig, ProbeKind, Probing, Require, TlsConfig,
};
use broker_failover::supervisor::probes::{
    Evidence, Fault, NoEvidence, ProbeFuture, Prober, ProberError, Resolver, Verdict, of_endpoint, probe_once,
};
use broker_failover::supervisor::scheduler::{Event, Options, Scheduler, SlotResult, Watch};
use tokio::sync::mpsc;
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_millis(100);
/// Long enough for a busy machine; only what hangs gets there.
const PATIENT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(400);
/// Slots of each case.
const SLOTS: u64 = 6;

fn http() -> HttpConfig {
    HttpConfig {
        path: "/health".to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        expect_status: vec![200],
        expect_body: Some("ok".to_owned()),
        tls: TlsConfig::default(),
    }
}

fn trusting(ca_file: &PathBuf) -> TlsConfig {
    TlsConfig { ca_file: Some(ca_file.clone()), server_name: None }
}

fn exec(script: &str) -> ProbeKind {
    ProbeKind::Exec(ExecConfig { command: ["sh", "-c", script].map(str::to_owned).to_vec() })
}

fn endpoint(url: &str, kinds: &[ProbeKind]) -> EndpointConfig {
    EndpointConfig {
        endpoint: Endpoint::primary("east", "us-east-1", url),
        explicit_priority: true,
        probes: kinds.iter().map(|kind| ProbeConfig { kind: kind.clone(), slow_after: None }).collect(),
        require: Require::All,
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
    shared_fate: Vec<String>,
    expected: Vec<&'static str>,
}

impl Case {
    fn new(name: impl Into<String>, prober: Arc<dyn Prober>, expected: &'static str) -> Self {
        let timeout = if expected == "Timeout" { SHORT } else { PATIENT };
        let expected = vec![expected; SLOTS as usize];
        Self { name: name.into(), prober, timeout, shared_fate: Vec::new(), expected }
    }

    fn sharing(mut self, key: &str) -> Self {
        self.shared_fate.push(key.to_owned());
        self
    }
}

/// Runs all cases at once, and compares slot by slot. A machine that froze this process meanwhile says nothing of the
/// probes (and the scheduler says that it was frozen): then all is done again.
async fn run(cases: &[Case]) {
    for attempt in 1.. {
        match attempt_at(cases).await {
            Some(found) => {
                let expected: BTreeMap<_, _> = cases.iter().map(|case| (&*case.name, case.expected.clone())).collect();
                let found: BTreeMap<_, Vec<_>> =
                    found.iter().map(|(name, kinds)| (*name, kinds.iter().map(String::as_str).collect())).collect();
                assert_eq!(found, expected);
                return;
            }
            None => assert!(attempt < 5, "this machine froze us five times in a row"),
        }
    }
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
                jitter: 0.5,
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
        ("301 is not followed", Mode::Status(301), "UnexpectedAnswer"),
        ("wrong body", Mode::Body("maintenance".to_owned()), "UnexpectedAnswer"),
        ("cut mid-answer", Mode::Cut, "Reset"),
        ("half-open", Mode::HalfOpen, "Timeout"),
        ("garbage", Mode::Garbage, "UnexpectedAnswer"),
        ("429", throttle(429, "60"), "?Throttled"),
        ("418", throttle(418, "Sun, 06 Nov 2190 08:49:37 GMT"), "?Throttled"),
    ];
    let mut cases = Vec::new();
    let mut front_ends = Vec::new();
    for (name, mode, expected) in modes {
        let front_end = FrontEnd::start(mode, None).await.expect("a port");
        let url = front_end.url("http").replace("//", "//user:s3cret@");
        let mut config = http();
        config.headers.push(("X-Key".to_owned(), "s3cret".to_owned()));
        cases.push(Case::new(name, prober(&url, &[ProbeKind::Http(config)]), expected));
        front_ends.push(front_end);
    }
    // The right answer, too late.
    let front_end = FrontEnd::start(slow, None).await.expect("a port");
    let mut config = endpoint(&front_end.url("http"), &[ProbeKind::Http(http())]);
    config.probes[0].slow_after = Some(Duration::from_millis(50));
    let limited = of_endpoint(&config, &Resolver::default()).expect("a prober");
    cases.push(Case::new("slow_after", limited, "Slow"));
    run(&cases).await;
    let throttled: Vec<_> = front_ends[12..14].iter().map(|front_end| front_end.counts().requests).collect();
    assert!(throttled.iter().all(|requests| *requests <= 5), "one request in each attempt: {throttled:?}");
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
    ] {
        let front_end = FrontEnd::start(mode, None).await.expect("a port");
        cases.push(Case::new(name, prober(&front_end.url("tcp"), &[ProbeKind::Tcp]), expected));
        front_ends.push(front_end);
    }
    run(&cases).await;
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
    let missing = ProbeKind::Exec(ExecConfig { command: vec!["/nonexistent/probe".to_owned()] });
    let mut cases = vec![
        Case::new("exit 0", prober("fix://127.0.0.1:1", &[exec("exit 0")]), "+"),
        Case::new("exit 3", prober("fix://127.0.0.1:1", &[exec("echo https://u:s3cret@h >&2; exit 3")]), "UnexpectedAnswer"),
        Case::new("killed", prober("fix://127.0.0.1:1", &[exec("kill -TERM $$")]), "UnexpectedAnswer"),
        Case::new("missing", prober("fix://127.0.0.1:1", &[missing]), "Error"),
        Case::new("endless output", prober("fix://127.0.0.1:1", &[exec("head -c 1000000 /dev/zero")]), "+"),
        Case::new("leaves a child", prober("fix://127.0.0.1:1", &[exec(&format!("sh -c 'sleep 600; : {marker}' &"))]), "+"),
    ];
    run(&cases).await;
    // It ignores being asked politely, and so does what it starts.
    let script = format!("trap '' TERM; sh -c 'sleep 600; : {marker}' & sleep 600; : {marker}");
    cases = vec![Case::new("hang", prober("fix://127.0.0.1:1", &[exec(&script)]), "Timeout")];
    // Never a second copy: the slots that come due while it runs are failures of their own kind.
    cases[0].expected = ["Timeout", "Overlap", "Overlap", "Overlap"].to_vec();
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
    let case = |name: &str, expected: &'static str| {
        let config = endpoint(&format!("http://{name}:{port}"), &[ProbeKind::Http(http())]);
        let mut case = Case::new(name, of_endpoint(&config, &resolver).expect("a prober"), expected);
        if name.starts_with("hang") {
            case.timeout = SHORT;
        }
        case
    };
    let mut cases = vec![
        case("good.example", "+"),
        case("bad.example", "Dns"),
        case("none.example", "Dns"),
        case("panic.example", "Error"),
        case("full.example", "?LocalExhausted"),
        case("127.0.0.1", "+"),
    ];
    cases.extend((0..20).map(|number| case(&format!("hang{number}.example"), "Dns")));
    run(&cases).await;
    assert_eq!(hung.load(Ordering::SeqCst), 20, "one look-up for each name, however many slots wait for it");
    assert_eq!(resolver.running(), 20);
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
    assert!(refused(url, &[ProbeKind::Exec(ExecConfig { command: Vec::new() })]).contains("command"));
    let tls = |ca_file: &str| ProbeKind::Tls(TlsConfig { ca_file: Some(ca_file.into()), server_name: None });
    assert!(refused("tls://h", &[tls("/nonexistent.pem")]).contains("/nonexistent.pem"));
    assert!(refused("tls://h", &[tls("/dev/null")]).contains("no certificate"));
    let name = TlsConfig { ca_file: None, server_name: Some("a b".to_owned()) };
    assert!(refused("tls://h", &[ProbeKind::Tls(name)]).contains("server_name"));
    let error = of_endpoint(&endpoint("https://u:s3cret@h:x", &[ProbeKind::Tcp]), &Resolver::default()).err();
    assert!(matches!(error, Some(ProberError::Url(_))) && !format!("{error:?}").contains("s3cret"));
}
