//! Each thing that a gateway may report of a path, and what it makes of it.

use std::time::Instant;

use broker_failover::report::Session;
use serde_json::Value;

use crate::gateway::{Side, reported};
use crate::rig::{Rig, Setting, heard_of, signal};

/// What becomes of a path.
type Change = fn(&mut Side);

/// Nothing moves, however many failures there are.
fn patient() -> Setting {
    Setting {
        policy: "failure_threshold = 1000000\ncooldown = \"1h\"\nsilence = \"note\"".to_owned(),
        ..Setting::default()
    }
}

fn endpoint(group: &Value, index: usize) -> &Value {
    &group["endpoints"][index]
}

fn error(group: &Value) -> &str {
    endpoint(group, 0)["last_probe_error"].as_str().unwrap_or_default()
}

fn well(rig: &mut Rig) {
    rig.until("east is well", |group| endpoint(group, 0)["state"] == "HEALTHY" && error(group).is_empty());
}

#[test]
fn each_fault_is_named_and_the_next_good_report_ends_it() {
    let (mut rig, gateway) = reported(patient(), ", max_heartbeat_age = \"2s\"");
    let cases: [(&str, Change, &str); 6] = [
        ("down", |side| side.session = Session::Down, "NoSession: no session, as the gateway said "),
        ("logging on", |side| side.session = Session::LoggingOn, "NoSession: logging on, as the gateway said "),
        (
            "heartbeat",
            |side| side.heartbeat_age_ms = Some(2001),
            "StaleHeartbeat: a session on which nothing has come in for 2.001s, more than 2s",
        ),
        ("never", |side| side.heartbeat_age_ms = None, "StaleHeartbeat: a session on which nothing ever came in"),
        // Half of them: one report or three in a slot.
        (
            "half",
            |side| side.orders = (1, 2, 3),
            " orders without an answer: their outcome is unknown, they were not refused",
        ),
        (
            // One order or three.
            "all",
            |side| side.orders = (0, 0, 1),
            " without an answer: ",
        ),
    ];
    for (what, change, expected) in cases {
        gateway.set("east", change);
        rig.until(what, |group| error(group).contains(expected));
        gateway.set("east", |side| *side = Side::default());
        well(&mut rig);
    }
    // What is no fault: refusals only, nothing sent at all, fewer than half unanswered, a heartbeat of just that age.
    for (what, change) in [
        ("rejects", (|side| side.orders = (0, 9, 0)) as Change),
        ("quiet", |side| side.orders = (0, 0, 0)),
        ("few unanswered", |side| side.orders = (2, 2, 3)),
        ("just fresh", |side| side.heartbeat_age_ms = Some(2000)),
    ] {
        gateway.set("east", change);
        let failures = |rig: &Rig| rig.records("input").iter().filter(|input| input["line"]["ok"] == false).count();
        let (before, successes) = (failures(&rig), rig.group()["endpoints"][0]["consecutive_successes"].as_u64());
        rig.until(what, |group| endpoint(group, 0)["consecutive_successes"].as_u64() > successes.map(|n| n + 3));
        assert_eq!(failures(&rig), before, "{what}");
        gateway.set("east", |side| *side = Side::default());
    }
    assert_eq!((rig.group()["epoch"].as_u64(), rig.count("start fence")), (Some(1), 0), "nothing moved");
}

#[test]
fn silence_is_no_evidence_by_default_and_never_a_success() {
    let setting = Setting { probing: format!("{}\nno_evidence_alarm = \"1s\"", patient().probing), ..patient() };
    let (mut rig, gateway) = reported(setting, "");
    gateway.set("east", |side| side.mute = true);
    rig.until("it is noted", |group| group["active_silent"] == true);
    let successes = |rig: &Rig| rig.group()["endpoints"][0]["consecutive_successes"].clone();
    let before = successes(&rig);
    let silent = |rig: &Rig| {
        let text = "east: Silent: the gateway has reported nothing for ";
        rig.records("note")
            .iter()
            .filter(|note| note["text"].as_str().is_some_and(|note| note.starts_with(text)))
            .count()
    };
    rig.wait("several slots of silence", |rig| silent(rig) > 5);
    assert_eq!((successes(&rig), rig.flow()), (before, "OPEN east #1".to_owned()));
    // The other path was reported all the time.
    assert_eq!(rig.group()["endpoints"][1]["fresh"], true);
    gateway.set("east", |side| side.mute = false);
    rig.until("it reports again", |group| group["active_silent"] == false && endpoint(group, 0)["fresh"] == true);
}

#[test]
fn silence_is_a_failure_where_the_policy_says_so_and_the_path_is_left() {
    let setting = Setting {
        policy: "failure_threshold = 2\ncooldown = \"1h\"\nsilence = \"failure\"".to_owned(),
        ..Setting::default()
    };
    let (mut rig, gateway) = reported(setting, "");
    let begun = Instant::now();
    gateway.set("east", |side| side.mute = true);
    rig.until("flow is on west", |group| group["order_flow"] == "OPEN west #2");
    println!("from the last report, with 3 s of it silence, to flow on the other path: {:?}", begun.elapsed());
    let error = rig.group()["endpoints"][0]["last_probe_error"].clone();
    assert!(
        error.as_str().is_some_and(|text| text.starts_with("Silent: the gateway has reported nothing for ")),
        "{error}"
    );
}

#[test]
fn a_failover_is_driven_by_reports_alone() {
    let (mut rig, gateway) =
        reported(Setting { policy: patient().policy.replace("1000000", "3"), ..Setting::default() }, "");
    let begun = Instant::now();
    gateway.set("east", |side| side.session = Session::Down);
    rig.until("flow is on west", |group| group["order_flow"] == "OPEN west #2");
    println!("from the session's end to flow on the other path, with hooks: {:?}", begun.elapsed());
    assert_eq!(rig.started()[1..], ["fence east 1", "switch west 2", "reconcile west 2"]);
    // The gateway follows, and west has its orders.
    let known = rig.group()["endpoints"][1]["consecutive_successes"].as_u64();
    rig.until("west is reported on", |group| {
        endpoint(group, 1)["consecutive_successes"].as_u64() > known.map(|n| n + 3)
    });
    assert_eq!((gateway.refused("east"), gateway.refused("west")), (None, None));
    assert!(!rig.noted("TWO_LIVE_PATHS"));
}

#[test]
fn a_supervisor_that_was_frozen_blames_no_gateway() {
    let setting = Setting {
        policy: "failure_threshold = 1\ncooldown = \"1h\"\nsilence = \"failure\"".to_owned(),
        ..Setting::default()
    };
    let (mut rig, gateway) = reported(setting, "");
    signal(rig.pid(), "STOP");
    std::thread::sleep(std::time::Duration::from_secs(5));
    signal(rig.pid(), "CONT");
    rig.until("it saw that", |group| {
        group["endpoints"].as_array().unwrap().iter().all(|one| one["state"] == "HEALTHY")
    });
    rig.wait("it says so", |rig| rig.noted("STALLED"));
    let records = rig.journal();
    let stalled = records.iter().position(|record| record["body"]["code"] == "STALLED").unwrap();
    let heard = |record: &&Value| heard_of(record).is_some();
    rig.wait("slots after that", |rig| rig.journal().iter().skip(stalled).filter(heard).count() > 20);
    let failed = rig.records("input").into_iter().find(|input| input["line"]["ok"] == false);
    assert_eq!((failed, rig.flow()), (None, "OPEN east #1".to_owned()));
    drop(gateway);
}

#[test]
fn a_reload_that_asks_otherwise_begins_anew_and_one_without_the_probe_takes_no_reports() {
    let (mut rig, gateway) = reported(patient(), "");
    let file = std::fs::read_to_string(rig.file("config.toml")).unwrap();
    let path = rig.file("config.toml");
    let write = |text: String| std::fs::write(&path, text).unwrap();
    write(file.replace("max_silence = \"3s\"", "max_silence = \"3s\", min_answers = 1000000"));
    rig.obey(&["reload"]);
    rig.until("too few answers make no success", |group| endpoint(group, 0)["state"] == "UNKNOWN");
    rig.wait("and it is said", |rig| {
        let few = |note: &Value| note["text"].as_str().is_some_and(|text| text.starts_with("east: FewAnswers: "));
        rig.records("note").iter().any(few)
    });
    let (first, rest) = file.split_once("probe = {").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    write(format!("{first}probe = {{ http = {{ path = \"/health\" }} }}\n{rest}"));
    rig.obey(&["reload"]);
    rig.until("the other probe is asked", |group| endpoint(group, 0)["state"] == "HEALTHY");
    rig.wait("reports are refused", |_| gateway.refused("east").is_some());
    assert_eq!(
        gateway.refused("east").as_deref(),
        Some("no endpoint \"east\" with a report probe in group \"main\"; there is: west; nothing was changed")
    );
    // It may still say where it sends.
    gateway.set("east", |side| side.stuck = Some(9));
    rig.until("an epoch that was never given", |group| group["order_flow"] == "HALT TWO_LIVE_PATHS");
}
