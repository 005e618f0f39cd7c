//! Cases from the field, each named after its id; those that are about hooks or commands stand beside them.

use std::fs;

use serde_json::Value;

use crate::brokers::Mode;
use crate::rig::{Rig, Setting, all_hooks, heard_of, hook};

#[test]
fn b03_a_planned_logoff_of_all_paths_halts_once_and_a_restart_assumes_no_new_day() {
    // There is no session calendar: maintenance is how a planned close is told.
    let mut rig = Rig::open(&Setting::default());
    rig.obey(&["pause"]);
    rig.set("east", Mode::Close);
    rig.set("west", Mode::Close);
    rig.until("all are down", |group| group["endpoints"].as_array().unwrap().iter().all(|one| one["state"] == "DOWN"));
    rig.kill();
    rig.start(&[]);
    rig.some_slots();
    assert_eq!((&*rig.flow(), rig.count("start halt")), ("OPEN east #1", 0));
    rig.set("east", Mode::Healthy);
    rig.set("west", Mode::Healthy);
    rig.until("east is back", |group| group["endpoints"][0]["state"] == "HEALTHY");
    rig.obey(&["unpause"]);
    rig.some_slots();
    let group = rig.group();
    assert_eq!((&group["order_flow"], &group["epoch"]), (&"OPEN east #1".into(), &1.into()));
}

#[test]
fn b07_two_that_steal_one_login_are_stopped_by_the_limiter() {
    // Failures that come back after each failback, fed as plain faults: the limiter stops it, each step a new epoch.
    let policy = "failure_threshold = 1\ncooldown = \"0s\"\nfailback_success_threshold = 1\nmax_failbacks_per_window = 2\n\
                  failback_window = \"1h\"";
    let mut rig = Rig::open(&Setting { policy: policy.to_owned(), ..Setting::default() });
    let mut epoch = 1;
    for _ in 0..2 {
        rig.set("east", Mode::Refuse);
        rig.until("away", |group| group["order_flow"] == format!("OPEN west #{}", epoch + 1));
        rig.set("east", Mode::Healthy);
        rig.until("and back", |group| group["order_flow"] == format!("OPEN east #{}", epoch + 2));
        epoch += 2;
    }
    rig.set("east", Mode::Refuse);
    rig.until("away", |group| group["order_flow"] == format!("OPEN west #{}", epoch + 1));
    rig.set("east", Mode::Healthy);
    rig.until("suppressed", |group| group["failback_answer"] == "FLAP_SUPPRESSED");
    // The limiter outlives a restart.
    rig.kill();
    rig.start(&[]);
    rig.until("still suppressed", |group| group["failback_answer"] == "FLAP_SUPPRESSED");
    assert_eq!(rig.flow(), format!("OPEN west #{}", epoch + 1));
    // But it never holds a failover.
    rig.set("west", Mode::Refuse);
    rig.until("a failover passes", |group| group["order_flow"] == format!("OPEN east #{}", epoch + 2));
}

#[test]
fn b14_an_active_path_without_evidence_for_too_long_is_in_the_metrics_the_status_and_the_log() {
    let default = Setting::default();
    let probing = format!("{}\nno_evidence_alarm = \"1s\"", default.probing);
    let mut rig = Rig::open(&Setting { probing, ..default });
    let metric = |rig: &Rig, value: u8| {
        rig.get("/metrics").2.contains(&format!("\nbroker_failover_active_silent{{group=\"main\"}} {value}\n"))
    };
    let logged = |rig: &Rig| {
        let log = fs::read_to_string(rig.file("err.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("ACTIVE_SILENT")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(metric(&rig, 0) && logged(&rig).is_empty(), "{}", rig.tell());
    let throttle = || Mode::Throttle { status: 429, retry_after: None };
    rig.set("east", throttle());
    rig.until("it is loud", |group| group["active_silent"] == true);
    assert!(metric(&rig, 1), "{}", rig.get("/metrics").2);
    rig.wait("it is logged", |rig| !logged(rig).is_empty());
    let lines = logged(&rig);
    assert!(lines[0].contains("main") && lines[0].contains("no evidence on the active path east"), "{lines:?}");
    rig.wait("it is in the journal", |rig| rig.noted("ACTIVE_SILENT"));
    // It is no fault: nothing is left for it.
    assert_eq!((rig.flow().as_str(), rig.count("start fence")), ("OPEN east #1", 0));
    rig.set("east", Mode::Healthy);
    rig.until("it is over", |group| group["active_silent"] == false);
    assert!(metric(&rig, 0) && logged(&rig).len() == 1, "said once: {:?}", logged(&rig));
}

#[test]
fn b17_one_slow_answer_moves_nothing_and_hooks_never_overlap() {
    let setting = Setting {
        policy: "failure_threshold = 3\ncooldown = \"1h\"".to_owned(),
        probing: "interval = \"500ms\"\ninterval_when_failing = \"500ms\"\ntimeout = \"400ms\"".to_owned(),
        ..Setting::default()
    };
    let mut rig = Rig::open(&setting);
    let failures = |rig: &Rig| {
        let failed = |input: &Value| input["line"]["probe"] == "east" && input["line"]["ok"] == false;
        rig.records("input").iter().filter(|input| failed(input)).count()
    };
    rig.set("east", Mode::Hang);
    rig.wait("one slow answer", |rig| failures(rig) >= 1);
    rig.set("east", Mode::Healthy);
    rig.until("east is well", |group| group["endpoints"][0]["state"] == "HEALTHY");
    if failures(&rig) < 3 {
        assert_eq!((&*rig.flow(), rig.count("start fence")), ("OPEN east #1", 0));
    } else {
        println!("SKIPPED: the machine was too busy for a single slow answer");
    }
}

#[test]
fn b20_a_path_that_hangs_is_left_and_its_late_answers_count_for_nothing() {
    let probing = "interval = \"200ms\"\ninterval_when_failing = \"100ms\"\ntimeout = \"1s\"".to_owned();
    let mut rig = Rig::open(&Setting { probing, ..Setting::default() });
    rig.set("east", Mode::Hang);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let group = rig.group();
    let error = group["endpoints"][0]["last_probe_error"].to_string();
    assert!(error.to_lowercase().contains("timeout"), "{error}");
    let before = rig.group()["endpoints"][0]["consecutive_failures"].as_u64().unwrap();
    rig.until("it goes on counting", |group| group["endpoints"][0]["consecutive_failures"].as_u64() > Some(before));
}

#[test]
fn b22_nothing_is_presumed_after_a_restart() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.until("all are well", |group| group["eligible_targets"].as_array().is_some_and(|all| all.len() == 2));
    rig.kill();
    // While it was away west died; what it knew of it is worth nothing.
    rig.set("west", Mode::Refuse);
    rig.set("east", Mode::Refuse);
    rig.start(&[]);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    assert!(!rig.started().iter().any(|one| one.contains("west")), "{:?}", rig.started());

    // A path that hangs is not known before its deadline, and nothing is decided before.
    let probing = "interval = \"200ms\"\ntimeout = \"3s\"".to_owned();
    let mut rig = Rig::open(&Setting { endpoints: 3, probing, ..Setting::default() });
    rig.kill();
    rig.set("west", Mode::Hang);
    rig.set("east", Mode::Refuse);
    rig.start(&[]);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    let records = rig.journal();
    let start = records.iter().rposition(|record| record["kind"] == "start").unwrap();
    let decided = records.iter().skip(start).position(|record| !record["body"]["line"]["evaluate"].is_null()).unwrap();
    for name in ["east", "west", "north"] {
        let known = records.iter().skip(start).position(|record| heard_of(record) == Some(name)).unwrap();
        assert!(known < decided, "{name} was not known when it was decided");
    }
}

#[test]
fn b25_what_was_decided_for_an_older_epoch_is_refused() {
    let mut rig = Rig::open(&Setting { endpoints: 3, failback: "manual", ..Setting::default() });
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    // A person who was slow answers for the epoch before.
    assert!(rig.refuse(&["confirm-fence", "--epoch", "1"]).contains("epoch 1 is not the present epoch 2"));
    let why = rig.refuse(&["confirm-reconciled", "--epoch", "1"]);
    assert!(why.contains("NOT_RECONCILING"), "{why}");
    rig.behave("fence", "fail");
    rig.set("west", Mode::Refuse);
    rig.wait("west is fenced in vain", |rig| rig.count("failed fence 0 west 2") >= 1);
    assert!(rig.refuse(&["confirm-fence", "--epoch", "1"]).contains("not the present epoch"));
    assert_eq!((rig.group()["epoch"].as_u64(), rig.count("start switch")), (Some(2), 1));
}

#[test]
fn b29_everything_failing_at_once_from_here_names_the_observer() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.until("all are well", |group| group["eligible_targets"].as_array().is_some_and(|all| all.len() == 2));
    for name in ["north", "west"] {
        rig.set(name, Mode::Refuse);
    }
    rig.until("the backups are down", |group| group["eligible_targets"].as_array().is_some_and(Vec::is_empty));
    rig.set("east", Mode::Refuse);
    let group = rig.until("it halts", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    assert_eq!((&group["active"], &group["epoch"]), (&"east".into(), &1.into()));
    rig.wait("the observer is suspected", |rig| rig.noted("SUSPECT_OBSERVER"));
    assert_eq!(rig.count("start fence"), 0, "nobody is fenced when there is nowhere to go");
    // The link comes back: the same path, the same epoch, after a reconciliation.
    for name in ["east", "west", "north"] {
        rig.set(name, Mode::Healthy);
    }
    rig.until("flow is open again", |group| group["may_submit"] == true);
}

#[test]
fn b34d_a_hook_that_cannot_be_started_is_a_failure() {
    let hooks = all_hooks().replacen("./hook.sh", "./fence.sh", 1);
    let setting = Setting { hooks, ..Setting::default() };
    let mut rig = Rig::new(&setting);
    let (status, err) = rig.refused(&["--first-start", "east"]);
    assert!(status == 2 && err.contains("./fence.sh\" is not a file"), "{err}");
    fs::copy(rig.file("hook.sh"), rig.file("fence.sh")).unwrap();
    rig.start(&["--first-start", "east"]);
    rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #1");
    fs::remove_file(rig.file("fence.sh")).unwrap();
    rig.set("east", Mode::Refuse);
    rig.wait("it fails", |rig| rig.records("hook_end").iter().any(|end| end["stage"] == "fence"));
    let end = rig.records("hook_end").into_iter().rfind(|end| end["stage"] == "fence").unwrap();
    assert!(end["report"]["result"]["UNREACHABLE"].is_string(), "{end}");
    assert_eq!((&*rig.flow(), rig.count("start switch")), ("HOLD SWITCHING", 0));
}

#[test]
fn b34e_a_hook_that_is_not_known_to_have_run_is_repeated_only_by_a_person() {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("switch", "hang");
    rig.set("east", Mode::Refuse);
    rig.wait("the switch is under way", |rig| rig.count("start switch") == 1);
    rig.kill();
    rig.behave("switch", "ok");
    rig.start(&[]);
    rig.some_slots();
    let group = rig.group();
    assert_eq!(group["order_flow"], "HOLD RECONCILING");
    assert!(group["waits_for"].to_string().contains("not known whether the switch hook of epoch 2 ran"), "{group:#}");
    assert_eq!(rig.count("start switch"), 1);
    // The question survives another kill, and whatever else runs meanwhile.
    rig.obey(&["halt", "look first"]);
    rig.until("the halt is confirmed", |group| group["halt_confirmed"] == true);
    rig.kill();
    rig.start(&[]);
    rig.some_slots();
    assert_eq!(rig.count("start switch"), 1);
    assert!(rig.refuse(&["switchover", "east"]).contains("under way"));
    assert!(rig.obey(&["repeat-hook"]).contains("switch hook of epoch 2"));
    rig.obey(&["resume"]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!(rig.count("start switch"), 2);

    // One that may be repeated is repeated.
    let fence = hook("fence", "");
    let rest: String = ["switch", "reconcile", "halt"].map(|stage| hook(stage, ", idempotent = true")).concat();
    let mut rig = Rig::open(&Setting { hooks: fence + &rest, ..Setting::default() });
    rig.behave("switch", "hang");
    rig.set("east", Mode::Refuse);
    rig.wait("the switch is under way", |rig| rig.count("start switch") == 1);
    rig.kill();
    rig.behave("switch", "ok");
    rig.start(&[]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!(rig.count("start switch"), 2);
    assert!(fs::metadata(rig.file("hooks.log")).is_ok());
}

#[test]
fn the_log_has_one_line_for_each_change_with_its_group_endpoint_epoch_outcome_and_reason() {
    let mut rig = Rig::new(&Setting { failback: "manual", ..Setting::default() });
    rig.start(&["--first-start", "east", "--log", "json"]);
    rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #1");
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    rig.terminate();
    let log = fs::read_to_string(rig.file("err.log")).unwrap();
    let lines: Vec<Value> =
        log.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |message: &str| -> Vec<&Value> { lines.iter().filter(|line| line["message"] == message).collect() };
    let healths: Vec<_> = of("health").into_iter().filter(|line| line["endpoint"] == "east").collect();
    let states: Vec<_> =
        healths.iter().map(|line| (line["from"].as_str().unwrap(), line["to"].as_str().unwrap())).collect();
    let expected = [("UNKNOWN", "HEALTHY"), ("HEALTHY", "DEGRADED"), ("DEGRADED", "DOWN")];
    assert_eq!(states, expected, "a result that changes nothing is not a line");
    assert!(healths[2]["error"].as_str().unwrap().starts_with("Refused: "), "{}", healths[2]);
    let switched = of("input").into_iter().find(|line| line["outcome"] == "SWITCHED").unwrap();
    let told = ["group", "endpoint", "epoch", "reason"].map(|key| switched[key].to_string());
    assert_eq!(told, ["\"main\"", "\"west\"", "2", "\"ACTIVE_DOWN\""]);
    let stages: Vec<_> = of("switch").iter().map(|line| line["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["decided", "fenced", "switched", "reconciled", "open"]);
}
