//! `{"subscribe":true}` on the control socket, and `follow`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::brokers::Mode;
use crate::rig::{LIMIT, Rig, Setting};

/// A subscriber.
struct Subscriber(BufReader<UnixStream>);

impl Subscriber {
    fn new(rig: &Rig, request: &Value) -> Self {
        let mut stream = UnixStream::connect(rig.file("control.sock")).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        writeln!(stream, "{request}").unwrap();
        Self(BufReader::new(stream))
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The changes until `flow`, keepalives left out.
    fn until(&mut self, flow: &str) -> Vec<Value> {
        let mut changes = Vec::new();
        loop {
            let next = self.next();
            if next["keepalive"] != true {
                changes.push(next);
            }
            if changes.last().is_some_and(|last| last["order_flow"] == flow) {
                return changes;
            }
        }
    }
}

#[test]
fn a_subscriber_hears_the_present_state_and_then_every_change_in_order() {
    let mut rig = Rig::open(&Setting::default());
    let mut subscriber = Subscriber::new(&rig, &json!({"subscribe": true, "group": "main"}));
    let first = subscriber.next();
    let number = first["number"].as_u64().unwrap();
    let expected = json!({
        "number": number, "group": "main", "endpoint": "east", "epoch": 1, "order_flow": "OPEN east #1",
        "may_submit": true, "may_cancel": true, "may_query": true, "reason": null, "halt_text": null,
    });
    assert_eq!(first, expected);
    rig.set("east", Mode::Reset);
    let changes = subscriber.until("OPEN west #2");
    let flows: Vec<_> = changes.iter().map(|change| change["order_flow"].as_str().unwrap()).collect();
    assert_eq!(flows, ["HOLD SWITCHING", "HOLD RECONCILING", "OPEN west #2"], "{changes:?}");
    let numbers: Vec<_> = changes.iter().filter_map(|change| change["number"].as_u64()).collect();
    assert_eq!(numbers, [number + 1, number + 2, number + 3]);
    let ends: Vec<_> = changes.iter().map(|change| (change["endpoint"].as_str(), change["epoch"].as_u64())).collect();
    assert_eq!(ends, [(Some("east"), Some(1)), (Some("west"), Some(2)), (Some("west"), Some(2))]);
    assert!(changes[0]["reason"].is_string() && changes[0]["may_cancel"] == false && changes[1]["may_cancel"] == true);
    rig.obey(&["halt", "desk", "asked"]);
    let halted = subscriber.until("HALT OPERATOR");
    assert_eq!(halted.last().unwrap()["halt_text"], "desk asked");
    rig.obey(&["halt", "again"]);
    assert_eq!(subscriber.until("HALT OPERATOR").last().unwrap()["halt_text"], "again");
    // Nothing happens now, and that is said too.
    let mut quiet = subscriber.next();
    while quiet["keepalive"] != true {
        quiet = subscriber.next();
    }
    assert_eq!(quiet["groups"][0]["group"], "main");
    assert!(quiet["groups"][0]["beat_age"].as_f64().is_some_and(|age| age < 60.0), "{quiet}");
    assert!(rig.terminate().success());
    let mut rest = String::new();
    while subscriber.0.read_line(&mut rest).is_ok_and(|length| length > 0) {}
    assert!(rest.lines().all(|line| line.contains("keepalive") || line.contains("ended")), "{rest}");
}

#[test]
fn a_subscription_that_cannot_be_is_refused_and_the_connection_goes_on() {
    let rig = Rig::open(&Setting::default());
    let mut subscriber = Subscriber::new(&rig, &json!({"subscribe": true, "group": "other"}));
    assert_eq!(subscriber.next(), json!({"error": "no group \"other\"; there is: main"}));
    writeln!(subscriber.0.get_mut(), "{}", json!({"subscribe": false})).unwrap();
    assert_eq!(subscriber.next(), json!({"error": "subscribe is false; nothing was done"}));
    writeln!(subscriber.0.get_mut(), "{}", json!({"subscribe": true})).unwrap();
    assert_eq!(subscriber.next()["order_flow"], "OPEN east #1");
}

#[test]
fn neither_idle_connections_nor_subscribers_keep_a_halt_waiting() {
    let rig = Rig::open(&Setting::default());
    // As many as may subscribe, of whom nobody reads after the first line; one more is told.
    let request = json!({"subscribe": true});
    let mut subscribers: Vec<_> = (0..64).map(|_| Subscriber::new(&rig, &request)).collect();
    for one in &mut subscribers {
        assert_eq!(one.next()["error"], Value::Null);
    }
    assert_eq!(Subscriber::new(&rig, &request).next()["error"], "there are 64 subscriptions already");
    let mut idle: Vec<_> =
        (0..140).map(|_| UnixStream::connect(rig.file("control.sock")).expect("a connection")).collect();
    // The oldest of them made room, and learn of it by the end of their connection; far sooner than they would have been
    // closed for their silence.
    let begun = Instant::now();
    assert_eq!(rig.obey(&["halt", "desk"]), "HALT OPERATOR");
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    let oldest = idle.first_mut().unwrap();
    oldest.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(std::io::Read::read(oldest, &mut [0]).unwrap(), 0);
    drop(subscribers);
}

#[test]
fn a_subscriber_that_hangs_up_leaves_its_place_at_once() {
    let mut rig = Rig::open(&Setting::default());
    let request = json!({"subscribe": true});
    let begun = Instant::now();
    for _ in 0..20 {
        // All of them have places, though those of before had them until just now.
        let mut places = Vec::new();
        rig.wait("a place for each", |rig| {
            while places.len() < 64 {
                let mut one = Subscriber::new(rig, &request);
                if one.next()["error"].is_string() {
                    return false;
                }
                places.push(one);
            }
            true
        });
        assert_eq!(Subscriber::new(&rig, &request).next()["error"], "there are 64 subscriptions already");
    }
    // With a keepalive between them, which is when they were missed at the latest, twenty times five seconds.
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[test]
fn a_subscriber_that_will_ask_nothing_more_is_told_all_the_same() {
    let rig = Rig::open(&Setting::default());
    let mut subscriber = Subscriber::new(&rig, &json!({"subscribe": true}));
    assert_eq!(subscriber.next()["order_flow"], "OPEN east #1");
    subscriber.0.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    rig.obey(&["halt", "desk"]);
    assert_eq!(subscriber.until("HALT OPERATOR").last().unwrap()["halt_text"], "desk");
}

#[test]
fn follow_ends_when_nobody_reads_it_any_more_though_nothing_changes() {
    let rig = Rig::open(&Setting::default());
    let mut follow = Rig::binary(&["follow", "--config"]);
    let mut follow = follow.arg(rig.file("config.toml")).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(follow.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("main: OPEN east #1"), "{line}");
    drop(out);
    // With the next keepalive.
    let begun = Instant::now();
    let status = loop {
        match follow.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
        assert!(begun.elapsed() < LIMIT, "it waits for a change");
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn follow_prints_one_line_a_change_until_the_supervisor_ends() {
    let mut rig = Rig::open(&Setting::default());
    let mut follow = Rig::binary(&["follow", "--config"]);
    let mut follow = follow.arg(rig.file("config.toml")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "main: OPEN east #1 (epoch 1 on east; may submit, cancel, query)");
    rig.obey(&["halt", "desk", "asked"]);
    assert_eq!(line(), "main: HALT OPERATOR (epoch 1 on east; may cancel), desk asked");
    assert!(rig.terminate().success());
    let output = follow.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the supervisor has ended"), "{output:?}");
    let refused = Rig::binary(&["follow", "--config"]).arg(rig.file("config.toml")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no supervisor answers there"), "{refused:?}");
}
