//! Cases from the field, each named after its id.

use broker_failover::report::Session;
use serde_json::Value;

use crate::brokers::Mode;
use crate::gateway::{Gateway, reported};
use crate::rig::{Rig, Setting, heard_of};

fn quick() -> Setting {
    let policy = "failure_threshold = 3\ncooldown = \"1h\"\nsilence = \"note\"".to_owned();
    Setting { policy, ..Setting::default() }
}

#[test]
fn b08_a_session_that_is_gone_is_a_failure_in_every_slot() {
    let policy = quick().policy.replace("= 3", "= 1000000");
    let (mut rig, gateway) = reported(Setting { policy, ..quick() }, "");
    gateway.set("east", |side| side.session = Session::Down);
    let error = |group: &Value| group["endpoints"][0]["last_probe_error"].as_str().unwrap_or_default().to_owned();
    rig.until("it is down", |group| error(group).starts_with("NoSession"));
    let failed = |rig: &Rig| rig.journal().iter().position(|record| record["body"]["line"]["ok"] == false);
    rig.wait("it is written down", |rig| failed(rig).is_some());
    let first = failed(&rig).unwrap();
    let of_east = |record: &&Value| heard_of(record) == Some("east");
    rig.wait("twenty slots", |rig| rig.journal().iter().skip(first).filter(of_east).count() > 20);
    for record in rig.journal().iter().skip(first).filter(of_east) {
        let line = &record["body"]["line"];
        let named = line["error"].as_str().is_some_and(|text| text.starts_with("NoSession: no session"));
        assert!(line["ok"] == false && named, "neither skipped nor a success: {record}");
    }

    // The watchdog of the field took that for well. Here the path is left.
    let (mut rig, gateway) = reported(quick(), "");
    gateway.set("east", |side| side.session = Session::Down);
    rig.until("flow is on west", |group| group["order_flow"] == "OPEN west #2");
    gateway.set("west", |side| side.session = Session::LoggingOn);
    rig.until("there is nowhere to go", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
}

#[test]
fn b12_orders_by_rest_and_no_stream_is_no_path() {
    let probes =
        "probe = [{ http = { path = \"/health\", expect_body = \"ok\" } }, { report = { max_silence = \"3s\" } }]";
    let mut rig = Rig::new(&Setting { endpoint: probes.to_owned(), ..quick() });
    let gateway = Gateway::start(&rig, 2);
    rig.start(&["--first-start", "east"]);
    rig.until("open", |group| group["order_flow"] == "OPEN east #1" && group["endpoints"][1]["state"] == "HEALTHY");
    assert!(rig.fronts[0].counts().accepted > 0, "REST answers, and goes on to");
    gateway.set("east", |side| side.session = Session::Down);
    rig.until("flow is on west", |group| group["order_flow"] == "OPEN west #2");
    let error = rig.group()["endpoints"][0]["last_probe_error"].clone();
    assert!(error.as_str().is_some_and(|text| text.starts_with("NoSession")), "{error}");
    // And the other way round.
    rig.set("west", Mode::Refuse);
    rig.until("nowhere to go", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    let error = rig.group()["endpoints"][1]["last_probe_error"].clone();
    assert!(error.as_str().is_some_and(|text| text.starts_with("Refused")), "{error}");
}

#[test]
fn b13_a_503_is_an_unknown_outcome_and_nothing_was_refused() {
    let (mut rig, gateway) = reported(quick(), "");
    std::fs::write(rig.file("counts"), "{\"resting\":0,\"filled\":0,\"unknown\":1}").unwrap();
    gateway.set("east", |side| side.orders = (0, 0, 1));
    rig.until("the order of unknown fate keeps the hold", |group| {
        group["order_flow"] == "HOLD RECONCILING" && group["epoch"] == 2
    });
    rig.wait("it is noted", |rig| rig.noted("ORDERS_UNKNOWN"));
    let error = rig.group()["endpoints"][0]["last_probe_error"].as_str().unwrap_or_default().to_owned();
    assert!(error.starts_with("Unanswered: "), "{error}");
    assert!(error.contains("outcome is unknown, ") && error.ends_with("not refused"), "{error}");
    assert_eq!(rig.group()["may_submit"], false);
    // The broker's book has it: the late acceptance is no new order, and flow opens.
    std::fs::write(rig.file("counts"), "{\"resting\":1,\"filled\":0,\"unknown\":0}").unwrap();
    rig.until("flow is on west", |group| group["order_flow"] == "OPEN west #2");

    // On both paths: nowhere to go, and no tour of them.
    gateway.set("west", |side| side.orders = (0, 0, 1));
    rig.until("nowhere to go", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    assert_eq!(rig.group()["epoch"], 2);
}
