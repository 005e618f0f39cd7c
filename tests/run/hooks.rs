//! What hooks do, and what follows from how they end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::brokers::Mode;
use crate::rig::{Rig, Setting, all_hooks, hook, lives, signal};

/// Waits until a stage's hook has failed so often.
fn failures(rig: &mut Rig, stage: &str, at_least: usize) {
    rig.wait(&format!("{at_least} failures of {stage}"), |rig| {
        let ended = |end: &&Value| end["stage"] == stage && end["report"]["result"] != "OK";
        rig.records("hook_end").iter().filter(ended).count() >= at_least
    });
}

#[test]
fn a_failover_is_fenced_switched_reconciled_and_opened_in_that_order() {
    let mut rig = Rig::open(&Setting::default());
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!(rig.started(), ["reconcile east 1", "fence east 1", "switch west 2", "reconcile west 2"]);
    let log = rig.hooks();
    let fence = log.iter().find(|line| line.starts_with("start fence")).unwrap();
    assert!(fence.contains("to=west reason=FENCE_NOT_CONFIRMED"), "{fence}");
    let reconcile = log.iter().rfind(|line| line.starts_with("start reconcile")).unwrap();
    assert!(reconcile.contains("to=east") && reconcile.contains("cod=session"), "{reconcile}");
    assert!(reconcile.contains("fenced epoch 1 by fence hook 0, which proves: session closed"), "{reconcile}");

    // One hook at a time, and none without its record before it and its result after it.
    let mut open: Option<Value> = None;
    for record in rig.journal() {
        match record["kind"].as_str() {
            Some("hook_start") => {
                assert_eq!(open, None, "{record}");
                open = Some(record["body"]["ticket"].clone());
            }
            Some("hook_end") => assert_eq!(open.take(), Some(record["body"]["ticket"].clone())),
            _ => {}
        }
    }
    let inputs = rig.records("input");
    let place = |what: &dyn Fn(&Value) -> bool| inputs.iter().position(what).expect("an input");
    let started = place(&|input| !input["line"]["fence_started"].is_null());
    let switched = place(&|input| input["answer"]["outcome"] == "SWITCHED");
    let opened = place(&|input| input["answer"]["flow"] == "OPEN west #2");
    assert!(started < switched && switched < opened);
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn b34a_a_fence_that_fails_is_retried_and_never_switches_until_a_person_stands_in() {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("fence", "fail");
    rig.set("east", Mode::Refuse);
    failures(&mut rig, "fence", 3);
    let group = rig.group();
    assert_eq!((&group["order_flow"], &group["epoch"]), (&"HOLD SWITCHING".into(), &1.into()));
    assert_eq!(rig.count("start switch"), 0);
    let ends = rig.records("hook_end");
    assert!(ends.iter().filter(|end| end["stage"] == "fence").all(|end| end["report"]["result"] == json!({"EXIT": 3})));
    assert!(rig.refuse(&["confirm-fence", "--epoch", "2"]).contains("not the present epoch"));
    // While a hook runs, its end is waited for, and that is said.
    rig.behave("fence", "hang");
    let before = rig.count("start fence");
    rig.wait("another attempt is under way", |rig| rig.count("start fence") > before && rig.count("child ") > 0);
    let said = rig.obey(&["confirm-fence", "--epoch", "1"]);
    assert_eq!(said.trim(), "epoch 1 is fenced; the hook that runs has to end first, at the latest at its deadline");
    let of_last = |key| rig.hooks().iter().rev().find_map(|line| number_after(line, key)).unwrap();
    let (hook, child) = (of_last("pid="), of_last("child "));
    signal(hook, "KILL");
    signal(child, "KILL");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    // Who said so is in the journal, and the reconcile hook is told.
    let commands = rig.records("command");
    let confirmed = commands.iter().rfind(|one| one["refused"].is_null()).unwrap();
    assert_eq!(confirmed["command"], json!({"confirm-fence": {"epoch": 1}}));
    assert!(confirmed["peer"]["uid"].is_u64() && confirmed["peer"]["pid"].as_u64().is_some_and(|pid| pid > 0));
    assert!(rig.hooks().iter().any(|line| line.starts_with("start reconcile") && line.contains("by a person (user ")));
}

fn number_after(line: &str, key: &str) -> Option<u32> {
    line.split_once(key)?.1.split(' ').next()?.parse().ok()
}

#[test]
fn b34a_a_fence_that_crashes_never_switches() {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("fence", "crash");
    rig.set("east", Mode::Refuse);
    failures(&mut rig, "fence", 2);
    assert!(rig.records("hook_end").iter().any(|end| end["report"]["result"] == json!({"EXIT": -11})));
    assert_eq!((rig.count("start switch"), &*rig.flow()), (0, "HOLD SWITCHING"));
}

#[test]
fn b34c_a_hook_that_hangs_ends_at_its_deadline_with_everything_that_it_started() {
    let hooks = all_hooks().replacen("timeout = \"20s\"", "timeout = \"500ms\"", 1);
    let mut rig = Rig::open(&Setting { hooks, ..Setting::default() });
    rig.behave("fence", "hang");
    rig.set("east", Mode::Refuse);
    failures(&mut rig, "fence", 2);
    assert!(rig.records("hook_end").iter().any(|end| end["report"]["result"] == "TIMEOUT"));
    assert_eq!(rig.count("start switch"), 0);
    let children: Vec<u32> = rig.hooks().iter().filter_map(|line| line.strip_prefix("child ")?.parse().ok()).collect();
    assert!(children.len() >= 2, "{children:?}");
    let ended = rig.records("hook_end").len();
    rig.wait("the children of hooks that ended are gone", |_| {
        children.iter().take(ended.saturating_sub(1)).all(|child| !lives(*child))
    });
    rig.behave("fence", "ok");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn b34b_a_switch_that_fails_never_reads_as_switched_and_the_next_target_is_tried() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.behave("switch", "fail");
    rig.set("east", Mode::Refuse);
    rig.wait("the first switch fails", |rig| rig.count("failed switch 0 west 2") == 1);
    rig.behave("switch", "ok");
    rig.until("flow opens", |group| group["may_submit"] == true);
    let group = rig.group();
    let history: Vec<_> =
        group["history"].as_array().unwrap().iter().map(|one| (&one["to"], &one["applied"])).collect();
    assert_eq!(history[0], (&"west".into(), &false.into()), "{group:#}");
    assert_eq!(history.last().unwrap().1, true);
    // West was never carried to, but its epoch was published: it is fenced like any other before the next.
    let started = rig.started();
    assert_eq!(started[1..5], ["fence east 1", "switch west 2", "fence west 2", "switch north 3"], "{started:?}");
    assert!(!rig.journal().iter().any(|record| record["body"]["answer"]["flow"] == "OPEN west #2"));
}

#[test]
fn b02_a_switch_whose_session_cannot_go_on_is_not_tried_for_ever() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.behave("switch", "fail");
    rig.set("east", Mode::Refuse);
    rig.until("it halts", |group| group["order_flow"] == "HALT SWITCH_FAILED");
    rig.until("the halt is confirmed", |group| group["halt_confirmed"] == true);
    rig.some_slots();
    rig.some_slots();
    assert_eq!(rig.count("start switch"), 3, "{:?}", rig.started());
    let group = rig.group();
    assert!(group["history"].as_array().unwrap().iter().all(|one| one["applied"] == false), "{group:#}");
    assert_eq!(group["waits_for"], "resume");
    // Once a person has seen to it, it goes on, and through a reconciliation.
    rig.behave("switch", "ok");
    rig.obey(&["resume"]);
    rig.until("flow opens", |group| group["may_submit"] == true);
    let started = rig.started();
    let last: Vec<_> = started[started.len() - 2..].iter().map(|one| one.split(' ').next().unwrap()).collect();
    assert_eq!(last, ["switch", "reconcile"]);
}

#[test]
fn b06_a_fence_that_times_out_leaves_one_attempt_at_a_time_and_then_a_halt() {
    let hooks = all_hooks().replacen("timeout = \"20s\"", "timeout = \"300ms\"", 1) + "max_hold = \"3s\"\n";
    let mut rig = Rig::open(&Setting { hooks, ..Setting::default() });
    rig.behave("fence", "hang");
    rig.set("east", Mode::Refuse);
    rig.until("the hold expires", |group| group["order_flow"] == "HALT HOLD_EXPIRED");
    let before = rig.count("start fence");
    rig.wait("retries go on", |rig| rig.count("start fence") > before);
    // Never two at once: the one before was killed as a whole.
    let alive = rig
        .hooks()
        .iter()
        .filter_map(|line| line.strip_prefix("child ")?.parse().ok())
        .filter(|pid| lives(*pid))
        .count();
    assert!(alive <= 1, "{alive} at once");
    assert_eq!(rig.count("start switch"), 0);
    rig.until("and the halt is confirmed", |group| group["halt_confirmed"] == true);
}

#[test]
fn fence_levels_are_tried_in_order_and_the_one_that_succeeds_is_told() {
    let level = |number: u8, proves: &str, more: &str| {
        format!("{{ command = [\"./hook.sh\", \"{number}\"], timeout = \"20s\", proves = \"{proves}\"{more} }}")
    };
    let last = level(2, "credential revoked", ", holds = \"10m\"");
    let levels = [level(0, "session closed", ""), level(1, "process stopped", ""), last].join(", ");
    let rest: String = all_hooks().lines().skip(1).map(|line| format!("{line}\n")).collect();
    let mut rig = Rig::open(&Setting { hooks: format!("fence = [{levels}]\n{rest}"), ..Setting::default() });
    rig.behave("fence.0", "fail");
    rig.behave("fence.1", "crash");
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let fences: Vec<_> = rig.hooks().into_iter().filter(|line| line.starts_with("start fence")).collect();
    assert_eq!(fences.len(), 3, "{fences:?}");
    for (number, line) in fences.iter().enumerate() {
        assert!(line.starts_with(&format!("start fence {number} east 1")), "{line}");
    }
    let proof = rig.group()["proof"].clone();
    assert_eq!((&proof["epoch"], &proof["level"]), (&1.into(), &2.into()));
    assert_eq!(proof["by"], "fence hook 2, which proves: credential revoked");
    let until = proof["until"].as_u64().unwrap();
    assert!(until > 600_000_000_000, "ten minutes after the fence, on a clock that has run for a while: {until}");
    // The switch has it, too, as of the very hook that succeeded: what it proves, and for how many seconds.
    let fenced: Vec<_> = rig.records("stage").into_iter().filter(|stage| stage["stage"] == "fenced").collect();
    let by = "fence hook 2";
    assert_eq!(fenced.len(), 1, "{fenced:?}");
    assert_eq!(
        fenced[0]["fence"],
        json!({"endpoint": "east", "epoch": 1, "by": by, "proves": "credential revoked", "holds": 600.0})
    );
}

#[test]
fn b10_orders_of_unknown_fate_keep_the_hold_until_a_person_settles_them() {
    let mut rig = Rig::open(&Setting::default());
    fs::write(rig.file("counts"), r#"{"resting":1,"filled":0,"unknown":2}"#).unwrap();
    rig.set("east", Mode::Refuse);
    rig.wait("it reconciles twice", |rig| rig.count("end reconcile 0 west 2") >= 2);
    assert_eq!(rig.flow(), "HOLD RECONCILING");
    assert!(rig.noted("ORDERS_UNKNOWN"));
    // An answer that is none keeps it too.
    fs::write(rig.file("counts"), "done").unwrap();
    let before = rig.count("end reconcile 0 west 2");
    rig.wait("once more", |rig| rig.count("end reconcile 0 west 2") > before);
    assert_eq!(rig.flow(), "HOLD RECONCILING");
    assert!(rig.refuse(&["confirm-reconciled", "--epoch", "1"]).contains("STALE_RECONCILE"));
    rig.obey(&["confirm-reconciled", "--epoch", "2"]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let confirmed = rig.records("command").into_iter().rfind(|one| one["refused"].is_null()).unwrap();
    assert!(confirmed["peer"]["uid"].is_u64(), "{confirmed}");
}

#[test]
fn b10_a_crash_after_the_switch_goes_on_at_the_reconciliation() {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("reconcile", "fail");
    rig.set("east", Mode::Refuse);
    rig.wait("it reconciles in vain", |rig| rig.count("failed reconcile 0 west 2") >= 1);
    rig.kill();
    let switches = rig.count("start switch");
    rig.start(&[]);
    assert_eq!(rig.flow(), "HOLD RECONCILING");
    let before = rig.count("failed reconcile");
    rig.wait("it reconciles again", |rig| rig.count("failed reconcile") > before);
    rig.behave("reconcile", "ok");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!(rig.count("start switch"), switches, "the transport is moved once");
    let told = rig.hooks().into_iter().rfind(|line| line.starts_with("start reconcile")).unwrap();
    assert!(
        told.contains("to=east") && told.contains("cod=session") && told.contains("proves: session closed"),
        "{told}"
    );
}

#[test]
fn b13_orders_are_held_from_the_fault_until_they_are_settled() {
    // The published path is what a gateway asks before each order: it is not open for a moment between the fault and the
    // reconciliation, whatever the late answers of the old path say.
    let mut rig = Rig::open(&Setting::default());
    rig.behave("reconcile", "hang");
    rig.set("east", Mode::Status(503));
    rig.wait("it reconciles", |rig| rig.count("start reconcile 0 west 2") == 1);
    rig.set("east", Mode::Healthy);
    rig.some_slots();
    let group = rig.group();
    assert_eq!((&group["order_flow"], &group["may_submit"]), (&"HOLD RECONCILING".into(), &false.into()));
    let opened =
        |record: &Value| record["body"]["answer"]["flow"].as_str().is_some_and(|flow| flow.starts_with("OPEN"));
    assert_eq!(rig.journal().iter().filter(|record| opened(record)).count(), 1, "east, at the start");
    // Both paths answer 503: nowhere to go, and no ping-pong.
    let mut rig = Rig::open(&Setting::default());
    rig.set("west", Mode::Status(503));
    rig.until("west is down", |group| group["endpoints"][1]["state"] == "DOWN");
    rig.set("east", Mode::Status(503));
    rig.until("it halts", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    rig.some_slots();
    assert_eq!((rig.group()["epoch"].as_u64(), rig.count("start fence")), (Some(1), 0));
}

#[test]
fn b19_a_halt_is_shown_as_unconfirmed_and_retried_until_its_hook_succeeds() {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("halt", "fail");
    rig.set("west", Mode::Refuse);
    rig.until("west is down", |group| group["endpoints"][1]["state"] == "DOWN");
    rig.set("east", Mode::Refuse);
    let group = rig.until("it halts", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    assert_eq!(group["halt_confirmed"], false);
    failures(&mut rig, "halt", 2);
    let told = |line: &String| line.starts_with("start halt") && line.ends_with("detail=HALT NO_TARGET_AVAILABLE");
    assert!(rig.hooks().iter().any(told), "{}", rig.tell());
    assert!(rig.obey(&["status"]).contains("halt UNCONFIRMED"));
    assert!(rig.get("/metrics").2.contains("broker_failover_halt_unconfirmed{group=\"main\"} 1\n"));
    assert!(rig.noted("SUSPECT_OBSERVER"), "b29: every path fails at once from here");

    // Killed while it is unconfirmed: still halted, still unconfirmed, still retried.
    rig.kill();
    rig.start(&[]);
    let group = rig.group();
    assert_eq!((&group["order_flow"], &group["halt_confirmed"]), (&"HALT NO_TARGET_AVAILABLE".into(), &false.into()));
    rig.behave("halt", "ok");
    rig.until("the halt is confirmed", |group| group["halt_confirmed"] == true);

    // The network comes back: the path moves, fenced as ever, and orders wait for the reconciliation.
    rig.behave("reconcile", "fail");
    rig.set("west", Mode::Healthy);
    rig.until("the path moves", |group| group["epoch"] == 2);
    rig.wait("it reconciles", |rig| rig.count("failed reconcile 0 west 2") >= 1);
    assert_eq!(rig.group()["may_submit"], false);
    let started = rig.started();
    let fence = started.iter().position(|one| one == "fence east 1").unwrap();
    assert_eq!(started[fence + 1], "switch west 2");
}

#[test]
fn b19_with_resume_by_an_operator_nothing_trades_before_a_person_says_so() {
    let policy = "failure_threshold = 2\ncooldown = \"1h\"\nresume_after_halt = \"operator\"".to_owned();
    let mut rig = Rig::open(&Setting { policy, ..Setting::default() });
    rig.set("west", Mode::Refuse);
    rig.until("west is down", |group| group["endpoints"][1]["state"] == "DOWN");
    rig.set("east", Mode::Refuse);
    rig.until("it halts", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    rig.set("west", Mode::Healthy);
    rig.wait("the path moves", |rig| rig.succeeded("switch") == 1);
    rig.some_slots();
    assert_eq!(rig.flow(), "HALT NO_TARGET_AVAILABLE");
    rig.kill();
    rig.start(&[]);
    rig.some_slots();
    assert_eq!(rig.flow(), "HALT NO_TARGET_AVAILABLE");
    rig.obey(&["resume"]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!(rig.started().last().unwrap(), "reconcile west 2");
}

#[test]
fn a_hold_that_lasts_too_long_becomes_a_halt() {
    let hooks = all_hooks() + "max_hold = \"2s\"\n";
    let mut rig = Rig::open(&Setting { hooks, ..Setting::default() });
    rig.behave("reconcile", "fail");
    rig.set("east", Mode::Refuse);
    rig.until("the hold expires", |group| group["order_flow"] == "HALT HOLD_EXPIRED");
    rig.until("the halt is confirmed", |group| group["halt_confirmed"] == true);
    rig.behave("reconcile", "ok");
    assert_eq!(rig.obey(&["resume"]), "HOLD RECONCILING");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn a_freeze_is_told_before_the_fence_also_after_a_crash() {
    let hooks = all_hooks() + &hook("flow", "");
    let mut rig = Rig::open(&Setting { hooks, ..Setting::default() });
    rig.wait("the flow hook is told", |rig| rig.hooks().iter().any(|line| line.contains("detail=OPEN east #1")));
    rig.behave("flow", "hang");
    rig.set("east", Mode::Refuse);
    rig.wait("the freeze is told", |rig| rig.hooks().iter().any(|line| line.contains("detail=HOLD SWITCHING")));
    assert_eq!(rig.count("start fence"), 0);
    rig.kill();
    rig.behave("flow", "ok");
    rig.start(&[]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let log = rig.hooks();
    let told = log.iter().rposition(|line| line.contains("detail=HOLD SWITCHING")).unwrap();
    let fenced = log.iter().position(|line| line.starts_with("start fence")).unwrap();
    assert_eq!(log.iter().filter(|line| line.contains("detail=HOLD SWITCHING")).count(), 2, "{log:?}");
    assert!(told < fenced, "{log:?}");
}

#[test]
fn webhooks_are_told_the_same_and_a_status_that_is_no_success_is_a_failure() {
    webhooks("127.0.0.1:0");
}

#[test]
fn webhooks_may_have_an_ipv6_address() {
    if TcpListener::bind("[::1]:0").is_ok() {
        webhooks("[::1]:0");
    }
}

fn webhooks(address: &str) {
    let gateway = Gateway::start(address);
    let stages = ["fence", "switch", "reconcile", "halt"];
    let one =
        |stage: &&str| format!("{stage} = {{ webhook = \"http://{}/{stage}\", timeout = \"20s\" }}\n", gateway.address);
    let mut rig = Rig::open(&Setting { hooks: stages.iter().map(one).collect(), ..Setting::default() });
    gateway.refuse("fence");
    rig.set("east", Mode::Refuse);
    failures(&mut rig, "fence", 1);
    assert_eq!(rig.flow(), "HOLD SWITCHING");
    let ends = rig.records("hook_end");
    assert!(ends.iter().any(|end| end["report"]["result"] == json!({"STATUS": 503})), "{ends:?}");
    gateway.refuse("nothing");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let asked = gateway.asked.lock().unwrap().clone();
    let stages: Vec<_> = asked.iter().map(|one| one["stage"].as_str().unwrap_or_default()).collect();
    assert_eq!(stages[0], "reconcile");
    assert_eq!(stages[stages.len() - 3..], ["fence", "switch", "reconcile"]);
    let [east, west] = [0, 1].map(|place| rig.fronts[place].url("http"));
    let told = |stage: &str, endpoint: &str, url: &str, epoch: u64, target: &str| {
        json!({
            "stage": stage, "group": "main", "endpoint": endpoint, "url": url, "epoch": epoch, "target": target,
            "reason": "ACTIVE_DOWN", "detail": null, "cancel_on_disconnect": null,
        })
    };
    let mut reconcile = told("reconcile", "west", &west, 2, "east");
    reconcile["detail"] = "fenced epoch 1 by fence hook 0".into();
    reconcile["cancel_on_disconnect"] = "session".into();
    let mut fence = told("fence", "east", &east, 1, "west");
    fence["reason"] = "FENCE_NOT_CONFIRMED".into();
    let expected = [fence, told("switch", "west", &west, 2, "east"), reconcile];
    assert_eq!(asked[asked.len() - 3..], expected);
    // Of what it answers, only the end is kept.
    let ends = rig.records("hook_end");
    let outputs: Vec<_> = ends.iter().filter_map(|end| end["report"]["output"].as_str()).collect();
    assert!(outputs.iter().all(|output| output.len() <= 4_096), "{outputs:?}");
    assert!(outputs.iter().any(|output| output.len() > 4_000 && output.ends_with("\"unknown\":0}")), "{outputs:?}");
}

/// A supervisor whose hooks are all this script with these arguments.
fn scripted(script: &str, arguments: &[&str]) -> Rig {
    let mut rig = Rig::new(&Setting::default());
    fs::write(rig.file("other.sh"), format!("#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 99\n{script}")).unwrap();
    fs::set_permissions(rig.file("other.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let command = [&["./other.sh"], arguments].concat();
    let hooks = all_hooks().replace("[\"./hook.sh\"]", &format!("{command:?}"));
    rig.configure(&Setting { hooks, ..Setting::default() });
    rig.start(&["--first-start", "east"]);
    rig.until("flow opens on east, and west is well", |group| {
        group["order_flow"] == "OPEN east #1" && group["endpoints"][1]["state"] == "HEALTHY"
    });
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    rig
}

const COUNTS: &str = "echo '{\"resting\":0,\"filled\":0,\"unknown\":0}'\n";

#[test]
fn a_program_is_told_group_endpoint_epoch_target_and_reason_in_its_environment() {
    let script = "env | grep ^BROKER_FAILOVER_ | sort > env.$BROKER_FAILOVER_STAGE\n";
    let rig = scripted(&format!("{script}{COUNTS}"), &[]);
    let [east, west] = [0, 1].map(|place| rig.fronts[place].url("http"));
    for (stage, endpoint, url, epoch, target, detail, scope) in [
        ("fence", "east", &east, 1, "west", "", ""),
        ("switch", "west", &west, 2, "east", "", ""),
        (
            "reconcile",
            "west",
            &west,
            2,
            "east",
            "fenced epoch 1 by fence hook 0, which proves: session closed",
            "session",
        ),
    ] {
        let expected = [
            format!("CANCEL_ON_DISCONNECT={scope}"),
            format!("DETAIL={detail}"),
            format!("ENDPOINT={endpoint}"),
            format!("EPOCH={epoch}"),
            "GROUP=main".to_owned(),
            format!("REASON={}", if stage == "fence" { "FENCE_NOT_CONFIRMED" } else { "ACTIVE_DOWN" }),
            format!("STAGE={stage}"),
            format!("TARGET={target}"),
            format!("URL={url}"),
        ];
        let text = fs::read_to_string(rig.file(&format!("env.{stage}"))).unwrap();
        let told: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("BROKER_FAILOVER_")).collect();
        assert_eq!(told, expected, "{stage}");
    }
}

#[test]
fn no_shell_reads_what_a_program_is_given() {
    let arguments = ["$(touch pwned)", "; touch pwned", "*", "`touch pwned`", "two words", "$HOME", "> pwned", ""];
    let rig = scripted(&format!("printf '%s\\n' \"$@\" > \"given.$BROKER_FAILOVER_STAGE\"\n{COUNTS}"), &arguments);
    for stage in ["fence", "switch", "reconcile"] {
        let given = fs::read_to_string(rig.file(&format!("given.{stage}"))).unwrap();
        assert_eq!(given.lines().collect::<Vec<_>>(), arguments, "{stage}");
    }
    assert!(!rig.file("pwned").exists());
}

#[test]
fn of_what_a_program_prints_the_journal_keeps_the_end_and_no_more_than_its_limit() {
    // More than a pipe holds, on both outputs; the last of it are bytes that are no text.
    let script = "yes told | head -c 200000\nyes muttered | head -c 200000 >&2\n\
                  [ \"$BROKER_FAILOVER_STAGE\" = fence ] && head -c 9000 /dev/zero | tr '\\0' '\\377'\n";
    let rig = scripted(&format!("{script}{COUNTS}"), &[]);
    let ends = rig.records("hook_end");
    for stage in ["fence", "switch", "reconcile"] {
        let end = ends.iter().rfind(|end| end["stage"] == stage).unwrap();
        let output = end["report"]["output"].as_str().unwrap();
        assert!((3_500..=4_096).contains(&output.len()), "{stage}: {} bytes", output.len());
    }
}

#[test]
fn what_a_hook_mutters_on_standard_error_spoils_no_answer() {
    let mut rig = Rig::new(&Setting::default());
    rig.behave("reconcile", "mutter");
    rig.start(&["--first-start", "east"]);
    rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #1");
    assert_eq!(rig.count("start reconcile"), 1);
}

/// A gateway's side of webhooks.
struct Gateway {
    address: std::net::SocketAddr,
    asked: Arc<Mutex<Vec<Value>>>,
    refused: Arc<Mutex<String>>,
}

impl Gateway {
    fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, refused) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(String::new())));
        let (told, refuses) = (Arc::clone(&asked), Arc::clone(&refused));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                let body = loop {
                    let Ok(read @ 1..) = stream.read(&mut piece) else { break Value::Null };
                    request.extend_from_slice(&piece[..read]);
                    let text = String::from_utf8_lossy(&request);
                    let body = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
                    if let Some(body) = body {
                        break body;
                    }
                };
                let (status, answer) = if *refuses.lock().unwrap() == body["stage"] {
                    (503, "no")
                } else {
                    // More than is kept.
                    (200, &*format!("{}\n{{\"resting\":0,\"filled\":0,\"unknown\":0}}", "told ".repeat(2_000)))
                };
                told.lock().unwrap().push(body);
                let head =
                    format!("HTTP/1.1 {status} .\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
                let _ = stream.write_all((head + answer).as_bytes());
            }
        });
        Self { address, asked, refused }
    }

    fn refuse(&self, stage: &str) {
        stage.clone_into(&mut self.refused.lock().unwrap());
    }
}
