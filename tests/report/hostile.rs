//! Gateways that are hostile, broken or two.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use broker_failover::report::{Report, ReportError, Reporter, Session};
use serde_json::json;

use crate::gateway::{Gateway, Raw, line, reported};
use crate::rig::{Rig, Setting};

fn patient() -> Setting {
    Setting {
        policy: "failure_threshold = 1000000\ncooldown = \"1h\"\nsilence = \"note\"".to_owned(),
        ..Setting::default()
    }
}

/// A supervisor whose east no gateway reports yet.
fn unreported() -> Rig {
    let (mut rig, gateway) = reported(patient(), "");
    drop(gateway);
    rig.until("nobody reports", |group| group["endpoints"][0]["state"] == "HEALTHY");
    rig
}

fn good() -> Report {
    Report { session: Session::Up, heartbeat_age_ms: Some(1), ..Report::new("main", "east", 1) }
}

#[test]
fn each_line_that_is_no_report_has_one_clear_answer_and_changes_nothing() {
    let mut rig = unreported();
    let mut raw = Raw::connect(&rig);
    let with = |key: &str, value: serde_json::Value| {
        let mut report = json!({ "report": good() });
        report["report"][key] = value;
        report.to_string()
    };
    let without = |key: &str| {
        let mut report = json!({ "report": good() });
        report["report"].as_object_mut().unwrap().remove(key);
        report.to_string()
    };
    let text = line(&good());
    let long = "x".repeat(700);
    let cases = [
        (with("group", "other".into()), "no group \"other\"; there is: main"),
        (
            with("endpoint", "south".into()),
            "no endpoint \"south\" with a report probe in group \"main\"; there is: east, west",
        ),
        (with("endpoint", long.as_str().into()), &*format!("no endpoint \"{}\" with", &long[..64])),
        (with("version", 2.into()), "version 2; expected 1"),
        (with("epoch", 0.into()), "epoch 0; expected the epoch that the gateway was told, from 1"),
        (with("epoch", (-1).into()), "invalid value: integer `-1`, expected u64"),
        (with("epoch", "1".into()), "invalid type: string \"1\", expected u64"),
        (with("epoch", 1.5.into()), "invalid type: floating point `1.5`, expected u64"),
        (with("epoch", json!(null)), "invalid type: null, expected u64"),
        (with("acks", (-3).into()), "invalid value: integer `-3`, expected u64"),
        (with("acks", 1e300.into()), "invalid type: floating point"),
        (text.replace("\"acks\":0", "\"acks\":NaN"), "expected value at line 1 column"),
        (text.replace("\"acks\":0", "\"acks\":18446744073709551616"), "expected u64"),
        (text.replace("\"acks\":0", "\"acks\":0,\"acks\":0"), "duplicate field `acks`"),
        (with("session", "asleep".into()), "unknown variant `asleep`, expected one of `up`, `logging-on`, `down`"),
        (with("sending", 1.into()), "invalid type: integer `1`, expected a boolean"),
        (with("heartbeat_age_ms", (-1).into()), "integer `-1`"),
        (with("acknowledged", 1.into()), "unknown field `acknowledged`, expected one of `version`, `group`"),
        (without("unknown"), "missing field `unknown`"),
        (without("at_ms"), "missing field `at_ms`"),
        (
            with("at_ms", u64::MAX.into()),
            "at_ms 18446744073709551615 is ahead of the clock; expected CLOCK_BOOTTIME, which is ",
        ),
        (text.replace("\"report\":{", "\"report\":{{"), "not a report: "),
        (format!("{text}{text}"), "trailing characters"),
        (text.replacen('{', "{\"report\":1,", 1), "not a report: "),
        ("{\"report\":true}".to_owned(), "not a report: invalid type: boolean `true`"),
        (with("group", "y".repeat(1000).into()), "expected 1024 at most"),
    ];
    let before = rig.group();
    for (case, expected) in &cases {
        let answer = raw.ask(case);
        let why = answer["error"].as_str().unwrap_or_else(|| panic!("{case} was taken: {answer}"));
        assert!(why.contains(expected) && why.ends_with("; nothing was changed"), "{case}\n{why}\n{expected}");
        // No more than the rate.
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = rig.group();
    for key in ["order_flow", "epoch", "two_live_paths"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_eq!(after["endpoints"][0]["last_probe_error"], json!(null));
    // The connection is as good as before.
    assert_eq!(raw.ask(&line(&good())), json!({ "ok": "taken" }));
    let known = after["endpoints"][0]["consecutive_successes"].as_u64();
    rig.until("it counts", |group| {
        group["endpoints"][0]["consecutive_successes"].as_u64() == known.map(|known| known + 1)
    });
    // Of a line with no end, nothing after it is a request of its own.
    let mut raw = Raw::connect(&rig);
    raw.send(&[b'{'; 64 * 1024]);
    assert!(raw.answer()["error"].as_str().unwrap().starts_with("a request of more than 65536 bytes"));
}

#[test]
fn half_a_report_is_none() {
    let mut rig = unreported();
    let down = line(&Report { session: Session::Down, ..good() });
    for length in [1, down.len() / 2, down.len() - 1] {
        let mut stream = UnixStream::connect(rig.file("control.sock")).unwrap();
        stream.write_all(&down.as_bytes()[..length]).unwrap();
        drop(stream);
    }
    // Another connection may report at once, and what it says is all that counts.
    let mut reporter = Reporter::new(rig.file("control.sock"));
    reporter.report(&good()).unwrap();
    let successes = rig.group()["endpoints"][0]["consecutive_successes"].as_u64();
    rig.until("slots", |group| group["endpoints"][0]["consecutive_successes"].as_u64() >= successes);
    assert_eq!(rig.group()["endpoints"][0]["last_probe_error"], json!(null));
    let failed = rig.records("input").into_iter().find(|input| input["line"]["ok"] == false);
    assert_eq!(failed, None);
}

#[test]
fn an_old_report_is_no_success() {
    let mut rig = unreported();
    let silent = |rig: &Rig| {
        let of = |note: &serde_json::Value| {
            note["text"].as_str().is_some_and(|text| text.starts_with("east: Silent: the gateway has"))
        };
        rig.records("note").iter().filter(|note| of(note)).count()
    };
    rig.wait("silence", |rig| silent(rig) > 0);
    let successes = rig.group()["endpoints"][0]["consecutive_successes"].clone();
    let mut reporter = Reporter::new(rig.file("control.sock"));
    // It waited somewhere for longer than silence may last.
    let old = good();
    std::thread::sleep(Duration::from_millis(3100));
    reporter.report(&old).unwrap();
    let seen = silent(&rig);
    rig.wait("slots after it", |rig| silent(rig) > seen + 5);
    assert_eq!(rig.group()["endpoints"][0]["consecutive_successes"], successes);
}

#[test]
fn one_gateway_reports_an_endpoint_at_a_time() {
    let mut rig = unreported();
    let socket = rig.file("control.sock");
    let (mut first, mut second) = (Reporter::new(&socket), Reporter::new(&socket));
    rig.wait("nobody else reports any more", |_| first.report(&good()).is_ok());
    let Err(ReportError::Refused(why)) = second.report(&Report { session: Session::Down, ..good() }) else { panic!() };
    let pid = std::process::id();
    assert!(why.starts_with("another connection reports \"east\" (user "), "{why}");
    assert!(
        why.ends_with(&format!("process {pid}); expected one gateway for each endpoint; nothing was changed")),
        "{why}"
    );
    assert_eq!(rig.group()["endpoints"][0]["last_probe_error"], json!(null), "the second one changed nothing");
    // Who may not report may still give itself away.
    let stray = Report { epoch: 9, sending: true, ..good() };
    let Err(ReportError::Refused(why)) = second.report(&stray) else { panic!() };
    assert!(why.starts_with("TWO_LIVE_PATHS: "), "{why}");
    rig.until("trading is halted", |group| group["order_flow"] == "HALT TWO_LIVE_PATHS");
    // The first one is gone: the second takes over.
    drop(first);
    rig.wait("its connection has ended", |_| second.report(&Report { session: Session::Down, ..good() }).is_ok());
    rig.until("the second is heard", |group| {
        group["endpoints"][0]["last_probe_error"].as_str().is_some_and(|text| text.starts_with("NoSession"))
    });
}

#[test]
fn a_flood_of_reports_is_told_so_and_delays_neither_a_halt_nor_anybody_elses_slots() {
    let (mut rig, gateway) = reported(patient(), "");
    let stop = Arc::new(AtomicBool::new(false));
    let (taken, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let floods: Vec<_> = (0..8_usize)
        .map(|number| {
            let (stop, taken, refused) = (Arc::clone(&stop), Arc::clone(&taken), Arc::clone(&refused));
            let mut raw = Raw::connect(&rig);
            std::thread::spawn(move || {
                // Half of them send where they must not, so that the group has to look at each. (This one may not: it
                // is of an endpoint that is not there.)
                let report = Report { endpoint: "south".to_owned(), sending: number % 2 == 0, ..good() };
                while !stop.load(Ordering::Relaxed) {
                    let answer = raw.ask(&line(&Report { at_ms: broker_failover::report::now_ms(), ..report.clone() }));
                    let why = answer["error"].as_str().unwrap_or_default();
                    let counted =
                        if why.starts_with("more than 50 reports a second, 100 at once") { &refused } else { &taken };
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // One that never takes an answer.
    let mut deaf = UnixStream::connect(rig.file("control.sock")).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let endless = format!("{}\n", line(&good())).repeat(2000);
    let _ = deaf.write_all(endless.as_bytes());
    rig.wait("the floods are refused", |_| refused.load(Ordering::Relaxed) > 200);
    let known = rig.group()["endpoints"][0]["consecutive_successes"].as_u64();
    rig.until("slots go on", |group| {
        group["endpoints"][0]["consecutive_successes"].as_u64() > known.map(|known| known + 5)
    });
    let asked = Instant::now();
    rig.obey(&["halt", "while", "it", "rains"]);
    println!("a halt during eight floods, by a process of its own: {:?}", asked.elapsed());
    assert!(asked.elapsed() < Duration::from_secs(30));
    assert_eq!(rig.flow(), "HALT OPERATOR");
    stop.store(true, Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    floods.into_iter().for_each(|flood| flood.join().unwrap());
    let (taken, most) = (taken.load(Ordering::Relaxed), 8.0 * 50.0_f64.mul_add(seconds + 2.0, 100.0));
    println!("{taken} of at most {most:.0} reports were looked at in {seconds:.1} s");
    assert!((taken as f64) <= most);
    assert_eq!(gateway.refused("west"), None);
}

#[test]
fn so_many_gateways_leave_room_for_a_command() {
    let rig = unreported();
    let status = line(&good());
    let mut gateways: Vec<_> = (0..80).map(|_| Raw::connect(&rig)).collect();
    let answers: Vec<_> = gateways.iter_mut().map(|raw| raw.ask(&status)).collect();
    let full = answers
        .iter()
        .filter(|answer| answer["error"].as_str().is_some_and(|why| why.starts_with("64 gateways are connected")))
        .count();
    assert_eq!(full, 16);
    rig.obey(&["halt"]);
}

#[test]
fn connections_that_found_no_place_to_report_or_take_no_answer_make_room_for_a_command() {
    let rig = unreported();
    // As many as there are places, and each has said that it is a gateway's. Each says so at once: a place that is not
    // seen to be free yet would be made by the one that has been silent for longest.
    let report = line(&good());
    let gateways: Vec<_> = (0..128)
        .map(|_| {
            let mut gateway = Raw::connect(&rig);
            gateway.ask(&report);
            gateway
        })
        .collect();
    // A command gives up after 15 s, long before any of them would go by itself.
    rig.obey(&["halt", "now"]);
    // The places that are free again, and the queue before them, go to those who report for nothing and never listen:
    // their answers cost little, so that a slow machine too has filled their sockets soon.
    let question = "{\"report\"}\n";
    let deaf = || {
        let mut deaf = UnixStream::connect(rig.file("control.sock")).unwrap();
        deaf.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        let _ = deaf.write_all(question.repeat(2_000).as_bytes());
        deaf
    };
    let deaf: Vec<_> = (0..128).map(|_| deaf()).collect();
    rig.obey(&["halt", "again"]);
    drop((gateways, deaf));
}

#[test]
fn a_supervisor_that_restarts_is_reported_to_again() {
    let (mut rig, gateway) = reported(patient(), "");
    rig.kill();
    rig.start(&[]);
    rig.until("it is reported to again", |group| {
        group["endpoints"].as_array().is_some_and(|all| all.iter().all(|one| one["state"] == "HEALTHY"))
    });
    let _: Gateway = gateway;
}
