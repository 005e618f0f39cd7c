//! A budget that is spent while the supervisor runs. `check` refuses what could spend it at its own pace, so that it takes
//! reloads, each of which asks at once.

use std::fs;

use broker_failover::supervisor::control::{Answer, Request, ask};
use serde_json::{Value, json};

use crate::brokers::Mode;
use crate::desk::{edit, endpoint};
use crate::rig::{Rig, Setting};

/// What two slots of two paths of two groups ask in an hour.
const MOST: u64 = 8;

/// Two groups whose four probes are charged to one budget, and whose next slots are an hour away.
fn rig() -> Rig {
    let policy = "failure_threshold = 1\ncooldown = \"1h\"\nmax_health_age = \"5h\"".to_owned();
    let probing = "interval = \"1h\"\ninterval_when_failing = \"30m\"\ntimeout = \"1500ms\"\njitter = 0.0".to_owned();
    let endpoint = "budget = \"address\"".to_owned();
    let rig = Rig::new(&Setting { policy, probing, endpoint, ..Setting::default() });
    let text = fs::read_to_string(rig.file("config.toml")).expect("a configuration");
    let (head, group) = text.split_once("[[group]]").expect("a group");
    let second = group.replace("name = \"main\"", "name = \"second\"");
    let budget = format!("[[budget]]\nname = \"address\"\nrequests = {MOST}\nper = \"1h\"\n");
    fs::write(rig.file("config.toml"), format!("{head}{budget}[[group]]{group}[[group]]{second}")).expect("ours");
    rig
}

fn asked(rig: &Rig) -> u64 {
    rig.fronts.iter().map(|front| front.counts().accepted).sum()
}

fn groups(rig: &Rig) -> Vec<Value> {
    match ask(&rig.file("control.sock"), &Request::Status { status: true }) {
        Ok(Answer::Ok(groups)) => groups.as_array().expect("groups").clone(),
        other => panic!("{other:?}"),
    }
}

/// `group text` of each slot that found nothing left.
fn over_budget(rig: &Rig) -> Vec<String> {
    let text =
        |record: &Value| record["body"]["text"].as_str().filter(|text| text.contains("OverBudget")).map(str::to_owned);
    let all = rig.journal();
    all.iter().filter_map(|record| Some(format!("{} {}", record["group"].as_str()?, text(record)?))).collect()
}

#[test]
fn b14_a_budget_that_two_groups_have_spent_asks_nobody_is_no_evidence_and_moves_nobody() {
    let mut rig = rig();
    rig.start(&["--first-start", "main=east", "--first-start", "second=east"]);
    rig.wait("every path of both groups was asked once", |rig| {
        let known = |group: &Value| {
            let all = group["endpoints"].as_array().expect("endpoints");
            group["order_flow"] == "OPEN east #1" && all.iter().all(|one| one["state"] == "HEALTHY")
        };
        groups(rig).iter().all(known)
    });
    assert_eq!(asked(&rig), MOST / 2);
    edit(&rig, "interval_when_failing = \"30m\"", "interval_when_failing = \"31m\"");
    rig.obey(&["reload"]);
    rig.wait("every path of both groups was asked again", |rig| asked(rig) == MOST);
    assert_eq!(over_budget(&rig), [""; 0], "the last of them too");

    // Whoever asked now would find east dead, and one failure moves flow.
    rig.set("east", Mode::Refuse);
    edit(&rig, "interval_when_failing = \"31m\"", "interval_when_failing = \"32m\"");
    rig.obey(&["reload"]);
    rig.wait("four slots that asked nobody", |rig| over_budget(rig).len() >= 4);
    let mut found = over_budget(&rig);
    found.sort();
    let says = "OverBudget: not asked: the 8 requests of budget address for 3600s are spent";
    let of = |group: &str, path: &str| format!("{group} {path}: {says}");
    assert_eq!(found, [of("main", "east"), of("main", "west"), of("second", "east"), of("second", "west")]);
    assert_eq!(asked(&rig), MOST, "nobody was asked");
    for group in groups(&rig) {
        assert_eq!(group["order_flow"], "OPEN east #1", "{group:#}");
        let east = endpoint(&group, "east");
        assert_eq!((&east["state"], &east["consecutive_failures"]), (&json!("HEALTHY"), &json!(0)));
    }
    assert_eq!(rig.started(), ["reconcile east 1", "reconcile east 1"], "nobody was fenced");

    // Probes that a reload makes ask at once, and are charged to the budget that came with them.
    edit(&rig, "requests = 8", "requests = 16");
    edit(&rig, "interval_when_failing = \"32m\"", "interval_when_failing = \"33m\"");
    rig.obey(&["reload"]);
    rig.wait("both groups have left east", |rig| groups(rig).iter().all(|group| group["order_flow"] == "OPEN west #2"));
    assert_eq!(over_budget(&rig).len(), 4, "and none of them found the old one");
    assert!(rig.terminate().success());
    rig.verify();
}
