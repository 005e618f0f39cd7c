//! A policy that is only tried out beside a supervisor's own.

use std::process::Output;

use serde_json::Value;

use crate::brokers::Mode;
use crate::rig::{Rig, Setting};

const THREE: &str = "failure_threshold = 3\ncooldown = \"1h\"\n[group.shadow]\n";

/// Slots so far apart that a busy machine is not late by three of them, which would be a stall.
const SLOTS: &str = "interval = \"1s\"\ninterval_when_failing = \"200ms\"\ntimeout = \"1500ms\"";

fn open(shadow: &str) -> Rig {
    let policy = format!("{THREE}{shadow}");
    Rig::open(&Setting { policy, probing: SLOTS.to_owned(), ..Setting::default() })
}

/// The notes of that code, as programs read them.
fn notes(rig: &Rig, code: &str) -> Vec<Value> {
    rig.records("note").into_iter().filter(|note| note["code"] == code).collect()
}

#[test]
fn a_less_patient_shadow_says_that_it_would_have_moved_and_when_the_group_did() {
    let mut rig = open("failure_threshold = 1");
    let group = rig.group();
    assert_eq!((&group["shadow"]["shadow_first"], &group["shadow"]["differs"]), (&Value::from(0), &Value::Null));
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let group = rig.until("the difference is over", |group| group["shadow"]["differs"].is_null());
    assert_eq!((&group["shadow"]["shadow_first"], &group["shadow"]["group_first"]), (&Value::from(1), &Value::from(0)));
    let (_, _, metrics) = rig.get("/metrics");
    for line in [
        "broker_failover_shadow_differences_total{group=\"main\",first=\"shadow\"} 1\n",
        "broker_failover_shadow_differences_total{group=\"main\",first=\"group\"} 0\n",
        "broker_failover_shadow_differs{group=\"main\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    // Hooks ran for the group's decision only.
    assert_eq!((rig.count("start fence"), rig.count("start switch")), (1, 1));
    rig.terminate();
    let (began, ended) = (notes(&rig, "SHADOW_DIFFERS"), notes(&rig, "SHADOW_ENDED"));
    assert_eq!((began.len(), ended.len()), (1, 1), "{began:#?} {ended:#?}");
    let shadow = &began[0]["shadow"];
    assert_eq!((&shadow["endpoint"], &shadow["epoch"]), (&Value::from("east"), &Value::from(1)));
    assert_eq!((&shadow["group"]["outcome"], &shadow["group"]["state"]), (&"NO_ACTION".into(), &"DEGRADED".into()));
    assert_eq!((&shadow["shadow"]["outcome"], &shadow["shadow"]["target"]), (&"FENCE_REQUIRED".into(), &"west".into()));
    let over = &ended[0]["shadow"];
    assert_eq!(over["ended"], "AGREED");
    // Two slots of a failing path later.
    assert!(over["lasted"].as_f64().unwrap() > 0.05, "{over}");
    rig.verify();
    // The journal says so to people.
    let read = |arguments: &[&str]| -> Output {
        let mut command = Rig::binary(&["journal"]);
        command.args(arguments).arg(rig.file("journal")).args(["--group", "main"]).output().expect("the binary")
    };
    let shown = String::from_utf8_lossy(&read(&["show"]).stdout).into_owned();
    assert!(shown.contains("SHADOW_DIFFERS: east #1: group NO_ACTION"), "{shown}");
    assert!(shown.contains("then they agreed"), "{shown}");
    // In its export they are comments, which no replay goes by.
    let exported = read(&["export"]);
    let lines = String::from_utf8_lossy(&exported.stdout).into_owned();
    let said: Vec<_> = lines.lines().filter(|line| line.contains("SHADOW_")).collect();
    assert!(exported.status.success() && said.len() == 2, "{lines}");
    assert!(said.iter().all(|line| line.starts_with('#')), "{said:?}");
}

#[test]
fn a_more_patient_shadow_says_whether_it_would_have_lost_the_path_too_and_a_restart_begins_it_anew() {
    let mut rig = open("trigger = { failures = 10, of = 16 }");
    rig.set("east", Mode::Refuse);
    let group = rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!(group["shadow"]["group_first"], 1);
    rig.until("the shadow has lost it as well", |group| group["shadow"]["differs"].is_null());
    // It is written a little later.
    rig.wait("the end is written", |rig| !notes(rig, "SHADOW_ENDED").is_empty());
    let ended = notes(&rig, "SHADOW_ENDED");
    assert_eq!((ended.len(), &ended[0]["shadow"]["ended"]), (1, &Value::from("AGREED")));
    rig.kill();
    rig.start(&[]);
    let group = rig.until("everybody is known", |group| {
        group["endpoints"].as_array().is_some_and(|all| all.iter().all(|one| one["state"] != "UNKNOWN"))
    });
    assert_eq!((&group["shadow"]["group_first"], &group["order_flow"]), (&Value::from(0), &"OPEN west #2".into()));
    rig.verify();
}
