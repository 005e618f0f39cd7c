//! Two live paths: a gateway that goes on sending on a path that was left.

use std::process::Command;

use broker_failover::report::Session;
use serde_json::Value;

use crate::gateway::reported;
use crate::rig::{Rig, Setting};

fn quick() -> Setting {
    let policy = "failure_threshold = 2\ncooldown = \"1h\"\nsilence = \"note\"".to_owned();
    Setting { policy, ..Setting::default() }
}

#[test]
fn a_gateway_that_sends_on_a_path_that_was_left_halts_trading() {
    let (mut rig, gateway) = reported(quick(), "");
    gateway.set("east", |side| (side.session, side.stuck) = (Session::Down, Some(1)));
    rig.until("trading is halted", |group| group["order_flow"] == "HALT TWO_LIVE_PATHS");
    rig.wait("the halt hook has run", |rig| rig.count("end halt") == 1);
    let group = rig.group();
    assert_eq!(
        (&group["two_live_paths"], &group["epoch"], &group["may_submit"]),
        (&true.into(), &2.into(), &false.into())
    );
    let text = group["halt_text"].as_str().unwrap();
    let pid = std::process::id();
    assert!(
        text.contains(&format!("process {pid}) reports that orders may leave on east in epoch 1: that path was left "))
    );
    assert!(text.ends_with("s before; flow is on west in epoch 2"), "{text}");
    rig.wait("the gateway is told", |_| gateway.refused("east").is_some_and(|why| why.starts_with("TWO_LIVE_PATHS: ")));
    assert_eq!(gateway.refused("west"), None);

    // The evidence is in the journal, before the halt.
    let records = rig.journal();
    let note = records.iter().position(|record| record["body"]["code"] == "TWO_LIVE_PATHS").unwrap();
    let evidence = records[note]["body"]["text"].as_str().unwrap();
    let (_, report) = evidence.split_once("its report: ").unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!((&report["endpoint"], &report["epoch"], &report["sending"]), (&"east".into(), &1.into(), &true.into()));
    let halt = records.iter().position(|record| record["body"]["line"]["halt"]["code"] == "TWO_LIVE_PATHS");
    assert!(halt.is_some_and(|halt| halt > note), "{halt:?} {:?}", records[note + 1]);

    // The alarm: metric and log.
    let (_, _, metrics) = rig.get("/metrics");
    assert!(metrics.contains("broker_failover_two_live_paths{group=\"main\"} 1"), "{metrics}");
    let log = std::fs::read_to_string(rig.file("err.log")).unwrap();
    assert!(log.contains("TWO_LIVE_PATHS"), "{log}");

    // It outlives a restart, and a resume while it goes on.
    rig.kill();
    rig.start(&[]);
    assert_eq!(rig.flow(), "HALT TWO_LIVE_PATHS");
    rig.obey(&["resume"]);
    rig.until("trading is halted again", |group| group["order_flow"] == "HALT TWO_LIVE_PATHS");
    // Until that gateway stops.
    gateway.set("east", |side| side.stuck = None);
    rig.wait("it stops", |_| gateway.refused("east").is_none());
    rig.obey(&["resume"]);
    rig.until("flow is open", |group| group["order_flow"] == "OPEN west #2" && group["two_live_paths"] == false);
    rig.terminate();
    rig.verify();
    replays(&rig);
}

/// What the journal exports gives the same decisions again.
fn replays(rig: &Rig) {
    let exported = rig.file("incident.jsonl");
    let mut command = Rig::binary(&["journal", "export", "--group", "main"]);
    let output = command.arg(rig.file("journal")).output().expect("the binary");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(&exported, &output.stdout).unwrap();
    let mut command: Command = Rig::binary(&["replay"]);
    let output = command.arg(&exported).output().expect("the binary");
    let answers = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{answers}{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_to_string(&exported).unwrap().contains("TWO_LIVE_PATHS"));
}

#[test]
fn a_gateway_that_follows_alarms_nobody_however_often_flow_moves() {
    let (mut rig, gateway) = reported(quick(), "");
    for epoch in 2..6 {
        let target = if epoch % 2 == 0 { "west" } else { "east" };
        rig.obey(&["switchover", target]);
        rig.until("flow has moved", |group| group["order_flow"] == format!("OPEN {target} #{epoch}"));
    }
    assert!(!rig.noted("TWO_LIVE_PATHS"));
    assert_eq!((gateway.refused("east"), gateway.refused("west")), (None, None));
}
