//! The `websocket` probe against each fault: so many slots, exactly so many results, all of one kind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker_failover::engine::{Endpoint, EndpointId};
use broker_failover::supervisor::config::{
    CancelOnDisconnect, EndpointConfig, Identity, ProbeConfig, ProbeKind, Probing, Require, Terms, TlsConfig,
    WebSocketConfig,
};
use broker_failover::supervisor::probes::{
    Evidence, Limits, Prober, Resolver, Verdict, of_endpoint, probe_once, within,
};
use broker_failover::supervisor::scheduler::{Event, Options, Scheduler, SlotResult, Watch};
use tokio::sync::mpsc;

use crate::certificates::Authority;
use crate::server::{Mode, Server, close, frame};

const INTERVAL: Duration = Duration::from_millis(250);
/// Long enough for a busy machine; only what hangs gets there.
const PATIENT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(900);
/// Slots of each case.
const SLOTS: usize = 4;

fn ping() -> WebSocketConfig {
    WebSocketConfig {
        path: "/stream".to_owned(),
        headers: vec![("X-Key".to_owned(), "s3cret".to_owned())],
        subprotocol: None,
        subscribe: None,
        expect_message: None,
        competing_session_status: vec![409],
        tls: TlsConfig::default(),
    }
}

fn subscribing() -> WebSocketConfig {
    let subscribe = Some(r#"{"op":"logon","key":"s3cret"}"#.to_owned());
    WebSocketConfig { subscribe, expect_message: Some("\"ok\":true".to_owned()), ..ping() }
}

fn endpoint(url: &str, config: &WebSocketConfig, slow_after: Option<Duration>) -> EndpointConfig {
    EndpointConfig {
        endpoint: Endpoint::primary("east", "us-east-1", url),
        explicit_priority: true,
        probes: vec![ProbeConfig { kind: ProbeKind::WebSocket(config.clone()), slow_after, terms: Terms::default() }],
        require: Require::All,
        watch: None,
        shared_fate: Vec::new(),
        cancel_on_disconnect: CancelOnDisconnect::Unknown,
    }
}

fn prober(url: &str, config: &WebSocketConfig) -> Arc<dyn Prober> {
    of_endpoint(&endpoint(url, config, None), &Resolver::default()).expect("a prober")
}

fn kind_of(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Success(_) => "+".to_owned(),
        Verdict::PathFault { fault, .. } => format!("{fault:?}"),
        Verdict::NoEvidence { cause, .. } => format!("?{cause:?}"),
    }
}

fn text_of(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Success(_) => "",
        Verdict::PathFault { text, .. } | Verdict::NoEvidence { text, .. } => text,
    }
}

/// One server, and what each slot of its endpoint must come to.
struct Case {
    name: &'static str,
    prober: Arc<dyn Prober>,
    expected: &'static str,
    /// What its texts must say.
    says: &'static str,
}

/// Runs all cases at once. A machine that froze this process meanwhile says nothing of the probes (and the scheduler
/// says that it was frozen): then all is done again.
async fn run(cases: &[Case]) {
    for _ in 0..10 {
        let Some(found) = attempt_at(cases).await else { continue };
        for (case, verdicts) in cases.iter().zip(found) {
            let kinds: Vec<_> = verdicts.iter().map(kind_of).collect();
            let mut expected = vec![case.expected; SLOTS];
            if case.expected == "?Banned" {
                // Nobody asks again before it is over.
                expected[1..].fill("?Throttled");
            }
            assert_eq!(kinds, expected, "{}: {verdicts:?}", case.name);
            assert!(verdicts.iter().all(|one| text_of(one).contains(case.says)), "{}: {verdicts:?}", case.name);
            assert!(!format!("{verdicts:?}").contains("s3cret"), "{}: {verdicts:?}", case.name);
        }
        return;
    }
    panic!("this machine froze us ten times in a row");
}

async fn attempt_at(cases: &[Case]) -> Option<Vec<Vec<Verdict>>> {
    let scheduler = Scheduler::start(Options::default()).expect("threads");
    let (sender, mut events) = mpsc::channel(10_000);
    let group = scheduler.group(sender);
    for (index, case) in (0..).zip(cases) {
        let timeout = if case.expected == "Timeout" { SHORT } else { PATIENT };
        let probing = Probing { interval: INTERVAL, interval_when_failing: INTERVAL, timeout, jitter: 0.5 };
        let (endpoint, prober) = (EndpointId::from_index(index), Arc::clone(&case.prober));
        group.watch(Watch { endpoint, probing, prober, shared_fate: Vec::new() });
    }
    let mut found: Vec<Vec<Verdict>> = vec![Vec::new(); cases.len()];
    while found.iter().any(|verdicts| verdicts.len() < SLOTS) {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
        match event.expect("slots do not stop").expect("the scheduler lives") {
            Event::Slot(SlotResult { endpoint, slot, verdict, .. }) => {
                let verdicts = &mut found[endpoint.index()];
                if verdicts.len() < SLOTS {
                    assert_eq!(verdicts.len() as u64, slot, "each slot once, in order");
                    if kind_of(&verdict) == "?Frozen" {
                        return None;
                    }
                    verdicts.push(verdict);
                }
            }
            Event::Stall(stall) => {
                println!("{stall:?}");
                return None;
            }
            Event::Late(late) => panic!("{late:?}"),
        }
    }
    Some(found)
}

/// A frame that says it is 1 TiB long.
fn huge() -> Vec<u8> {
    [vec![0x82, 127], (1_u64 << 40).to_be_bytes().to_vec()].concat()
}

fn masked() -> Vec<u8> {
    [vec![0x81, 0x82, 1, 2, 3, 4], vec![b'h' ^ 1, b'i' ^ 2]].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_against_each_fault() {
    let cases = [
        ("healthy", Mode::Healthy, "+", ""),
        ("an unasked pong first", Mode::PongTwice, "+", ""),
        ("slow", Mode::Slow(Duration::from_millis(50)), "+", ""),
        ("refuse", Mode::Refuse, "Refused", "connect"),
        ("reset", Mode::Reset, "Reset", ""),
        ("hang", Mode::Hang, "Timeout", ""),
        ("reset in the handshake", Mode::ResetInHandshake, "Reset", "handshake"),
        ("cut in the handshake", Mode::CutInHandshake, "Reset", "handshake"),
        ("500", Mode::Status(500, ""), "UnexpectedAnswer", "status 500, expected [101]"),
        ("403", Mode::Status(403, ""), "UnexpectedAnswer", "status 403"),
        ("200", Mode::Status(200, ""), "UnexpectedAnswer", "status 200"),
        ("409", Mode::Status(409, ""), "?CompetingSession", "another session"),
        ("429", Mode::Status(429, "Retry-After: 60\r\n"), "?Throttled", ""),
        ("418", Mode::Status(418, "Retry-After: Sun, 06 Nov 2190 08:49:37 GMT\r\n"), "?Banned", ""),
        ("302", Mode::Status(302, "Location: ws://127.0.0.1:1/\r\n"), "UnexpectedAnswer", "status 302"),
        ("wrong key", Mode::WrongKey, "UnexpectedAnswer", "Sec-WebSocket-Accept"),
        ("a subprotocol unasked", Mode::Chooses("v2"), "UnexpectedAnswer", "subprotocol"),
        ("no pong", Mode::NoPong, "Timeout", ""),
        ("a pong with another payload", Mode::WrongPong, "Timeout", ""),
        ("closed", Mode::Sends(close(1008, "policy")), "Reset", "code 1008: \"policy\""),
        ("closed without a reason", Mode::Sends(close(1001, "")), "Reset", "code 1001"),
        ("closed without a code", Mode::Sends(frame(8, b"")), "Reset", "without a code"),
        ("a huge frame", Mode::Sends(huge()), "UnexpectedAnswer", "too long"),
        ("a masked frame", Mode::Sends(masked()), "UnexpectedAnswer", "masked"),
        ("an unknown opcode", Mode::Sends(frame(5, b"x")), "UnexpectedAnswer", ""),
        ("a text that is none", Mode::Sends(frame(1, &[0xff, 0xfe])), "UnexpectedAnswer", ""),
        ("messages without end", Mode::Repeats("tick"), "UnexpectedAnswer", "256 messages, and no pong"),
    ];
    let mut servers = Vec::new();
    let mut list = Vec::new();
    for (name, mode, expected, says) in cases {
        let server = Server::start_for_requests(mode, None).await;
        let url = server.url("ws").replace("//", "//user:s3cret@");
        list.push(Case { name, prober: prober(&url, &ping()), expected, says });
        servers.push(server);
    }
    let server = Server::start_for_requests(Mode::Slow(Duration::from_millis(50)), None).await;
    let slow = endpoint(&server.url("ws"), &ping(), Some(Duration::from_millis(50)));
    let prober = of_endpoint(&slow, &Resolver::default()).expect("a prober");
    list.push(Case { name: "slow_after", prober, expected: "Slow", says: "" });
    run(&list).await;
    let throttled: Vec<_> = servers[12..14].iter().map(|server| server.heads().len()).collect();
    assert!(throttled.iter().all(|asked| *asked <= 10), "one handshake in each attempt: {throttled:?}");
    let head = &servers[0].heads()[0];
    for line in
        ["GET /stream HTTP/1.1\r\n", "Sec-WebSocket-Version: 13\r\n", "authorization: Basic dXNlcjpzM2NyZXQ=\r\n"]
    {
        assert!(head.contains(line), "{head}");
    }
    let counts = servers[0].counts();
    assert!(counts.pings >= SLOTS as u64 && counts.sessions >= counts.pings, "a session and a ping a slot: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_needs_its_message() {
    let cases = [
        ("answered", Mode::Healthy, "+", ""),
        ("greeted first", Mode::Sends(frame(1, b"welcome")), "+", ""),
        ("in the greeting, as bytes", Mode::Sends(frame(2, b"{\"ok\":true}")), "+", ""),
        ("another message again and again", Mode::Repeats("{\"error\":1}"), "UnexpectedAnswer", "none contains"),
        ("closed", Mode::Sends(close(4001, "evicted")), "Reset", "code 4001: \"evicted\""),
        ("a huge frame", Mode::Sends(huge()), "UnexpectedAnswer", "too long"),
    ];
    let mut servers = Vec::new();
    let mut list = Vec::new();
    for (name, mode, expected, says) in cases {
        let server = Server::start_as_one_of_many(mode, None).await;
        list.push(Case { name, prober: prober(&server.url("ws"), &subscribing()), expected, says });
        servers.push(server);
    }
    let wanting = WebSocketConfig { subprotocol: Some("v2".to_owned()), ..subscribing() };
    for (name, mode, expected, says) in [
        ("the subprotocol", Mode::Chooses("v2"), "+", ""),
        ("another subprotocol", Mode::Chooses("v1"), "UnexpectedAnswer", "ubprotocol"),
        ("no subprotocol", Mode::Healthy, "UnexpectedAnswer", "subprotocol"),
    ] {
        let server = Server::start_as_one_of_many(mode, None).await;
        list.push(Case { name, prober: prober(&server.url("ws"), &wanting), expected, says });
        servers.push(server);
    }
    run(&list).await;
    let texts = servers[0].texts();
    assert!(texts.len() >= SLOTS && texts.iter().all(|text| text == r#"{"op":"logon","key":"s3cret"}"#), "{texts:?}");
    assert!(!list[0].prober.overlaps(), "it may log on");
    assert!(prober("ws://127.0.0.1:1", &ping()).overlaps());
}

#[tokio::test]
async fn another_message_than_the_one_expected_is_no_answer() {
    let server = Server::start(Mode::Healthy, None).await;
    let wrong = WebSocketConfig { expect_message: Some("\"ok\":false".to_owned()), ..subscribing() };
    let verdict = probe_once(&*prober(&server.url("ws"), &wrong), SHORT).await;
    assert_eq!(kind_of(&verdict), "Timeout", "{verdict:?}");
    assert_eq!(server.texts().len(), 1);
}

#[tokio::test]
async fn b14_two_refused_logons_stop_it_until_a_person_clears_them() {
    let server = Server::start_for_requests(Mode::Status(401, ""), None).await;
    let (limits, mut endpoint) = (Limits::default(), endpoint(&server.url("ws"), &ping(), None));
    endpoint.probes[0].terms = Terms { identity: Identity::Own, credential: "desk".to_owned(), ..Terms::default() };
    let prober = within(&limits, "main", &endpoint, &Resolver::default()).expect("a prober");
    let ask = async || probe_once(&*prober, PATIENT).await;
    for refused in [1, 2] {
        let verdict = ask().await;
        assert_eq!((kind_of(&verdict), server.heads().len()), ("LogonRefused".to_owned(), refused), "{verdict:?}");
    }
    let stopped = ask().await;
    assert_eq!(kind_of(&stopped), "?LogonsStopped");
    assert!(text_of(&stopped).contains("credential desk") && server.heads().len() == 2, "{stopped:?}");
    limits.clear_logons("main");
    assert_eq!((kind_of(&ask().await), server.heads().len()), ("LogonRefused".to_owned(), 3));
}

fn trusting(ca_file: &Path) -> WebSocketConfig {
    WebSocketConfig { tls: TlsConfig { ca_file: Some(ca_file.to_owned()), server_name: None }, ..ping() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wss_against_each_certificate_and_fault() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let ca_file = trusted.file("wss");
    let host = "127.0.0.1";
    let good = || Some(trusted.server(host, -10..90));
    let cases = [
        ("good", good(), Mode::Healthy, "+"),
        ("expired", Some(trusted.server(host, -90..-1)), Mode::Healthy, "Tls"),
        ("not yet valid", Some(trusted.server(host, 400..800)), Mode::Healthy, "?LocalClock"),
        ("wrong name", Some(trusted.server("west.example", -10..90)), Mode::Healthy, "Tls"),
        ("untrusted", Some(other.server(host, -10..90)), Mode::Healthy, "Tls"),
        ("reset", good(), Mode::Reset, "Reset"),
        ("hang", good(), Mode::Hang, "Timeout"),
        ("500", good(), Mode::Status(500, ""), "UnexpectedAnswer"),
        ("no pong", good(), Mode::NoPong, "Timeout"),
        ("closed", good(), Mode::Sends(close(1013, "later")), "Reset"),
    ];
    let mut servers = Vec::new();
    let mut list = Vec::new();
    for (name, tls, mode, expected) in cases {
        let server = Server::start_for_requests(mode, tls).await;
        list.push(Case { name, prober: prober(&server.url("wss"), &trusting(&ca_file)), expected, says: "" });
        servers.push(server);
    }
    run(&list).await;
    let verdict = probe_once(&*list[0].prober, PATIENT).await;
    let Verdict::Success(Evidence { certificate_expires_in: Some(left), .. }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(left.as_secs().div_ceil(86_400), 90);
    std::fs::remove_file(ca_file).expect("ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_over_tls_needs_its_message_too() {
    let authority = Authority::new();
    let ca_file = authority.file("wss-subscribe");
    let subscribing = WebSocketConfig { tls: trusting(&ca_file).tls, ..subscribing() };
    let cases = [
        ("answered", Mode::Healthy, "+", ""),
        ("another message again and again", Mode::Repeats("{\"error\":1}"), "UnexpectedAnswer", "none contains"),
        ("closed", Mode::Sends(close(4001, "evicted")), "Reset", "code 4001: \"evicted\""),
    ];
    let mut servers = Vec::new();
    let mut list = Vec::new();
    for (name, mode, expected, says) in cases {
        let server = Server::start_as_one_of_many(mode, Some(authority.server("127.0.0.1", -10..90))).await;
        list.push(Case { name, prober: prober(&server.url("wss"), &subscribing), expected, says });
        servers.push(server);
    }
    run(&list).await;
    let texts = servers[0].texts();
    assert!(texts.len() >= SLOTS && texts.iter().all(|text| text == r#"{"op":"logon","key":"s3cret"}"#), "{texts:?}");
    std::fs::remove_file(ca_file).expect("ours");
}

#[test]
fn what_cannot_be_carried_out_is_refused_before_anything_is_asked() {
    let refused = |url: &str, change: &dyn Fn(&mut WebSocketConfig)| {
        let mut config = ping();
        change(&mut config);
        let made = of_endpoint(&endpoint(url, &config, None), &Resolver::default());
        made.err().expect("refused").to_string()
    };
    let url = "ws://h";
    let cases: BTreeMap<&str, String> = [
        ("needs ws:// or wss://, found http://", refused("http://h", &|_| {})),
        ("path \"x\"", refused(url, &|config| config.path = "x".to_owned())),
        ("header \"a b\"", refused(url, &|config| config.headers = vec![("a b".to_owned(), "s3cret".to_owned())])),
        ("header \"X\"", refused(url, &|config| config.headers = vec![("X".to_owned(), "s3cret\r\nY: 1".to_owned())])),
        ("handshake's own", refused(url, &|config| config.headers = vec![("Upgrade".to_owned(), "h2c".to_owned())])),
        ("subprotocol \"a, b\"", refused(url, &|config| config.subprotocol = Some("a, b".to_owned()))),
        (
            "Sec-WebSocket-Key",
            refused(url, &|config| config.headers = vec![("Sec-WebSocket-Key".to_owned(), "s3cret".to_owned())]),
        ),
        ("ca_file", refused("wss://h", &|config| config.tls.ca_file = Some("/nonexistent".into()))),
    ]
    .into();
    for (says, error) in cases {
        assert!(error.contains(says) && !error.contains("s3cret"), "{says}: {error}");
    }
}
