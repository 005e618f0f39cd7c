//! A configuration that is read again while the supervisor runs.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::brokers::Mode;
use crate::rig::{LIMIT, Rig, Setting, all_hooks, signal};

/// Edits the file.
fn edit(rig: &Rig, from: &str, to: &str) {
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    assert!(text.contains(from), "{from:?} is not in {text}");
    fs::write(rig.file("config.toml"), text.replacen(from, to, 1)).unwrap();
}

/// Replaces the probe of one endpoint.
fn edit_probe(rig: &Rig, name: &str, probe: &str) {
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (before, rest) = text.split_once(&format!("name = \"{name}\"")).unwrap();
    let (keys, after) = rest.split_once("probe = ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    fs::write(rig.file("config.toml"), format!("{before}name = \"{name}\"{keys}probe = {probe}\n{after}")).unwrap();
}

fn notes(rig: &Rig, code: &str) -> Vec<String> {
    let of = |note: Value| (note["code"] == code).then(|| note["text"].as_str().unwrap_or_default().to_owned());
    rig.records("note").into_iter().filter_map(of).collect()
}

/// SIGHUP, and the note with that code that follows.
fn hangup(rig: &mut Rig, code: &str) -> String {
    let before = notes(rig, code).len();
    signal(rig.pid(), "HUP");
    rig.wait(code, |rig| notes(rig, code).len() > before);
    notes(rig, code).pop().unwrap()
}

fn endpoint<'a>(group: &'a Value, name: &str) -> &'a Value {
    group["endpoints"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

fn all_well(rig: &mut Rig) {
    let others = rig.fronts.len() - 1;
    rig.until("all are well", |group| group["eligible_targets"].as_array().is_some_and(|all| all.len() == others));
}

/// The slots of an endpoint between which the longest time passed, by the journal.
fn longest_gap(rig: &Rig, name: &str) -> f64 {
    let records = rig.journal();
    let of = |record: &Value| (record["body"]["line"]["probe"] == name).then(|| record["at"].as_f64().unwrap());
    let times: Vec<_> = records.iter().filter_map(of).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}

#[test]
fn a_backup_that_is_asked_otherwise_is_unknown_and_the_others_are_as_they_were() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    all_well(&mut rig);
    rig.until("many successes", |group| endpoint(group, "east")["consecutive_successes"].as_u64() > Some(20));
    let before = rig.group();
    edit_probe(&rig, "west", "{ http = { path = \"/other\", expect_body = \"nobody says this\" } }");
    let text = hangup(&mut rig, "RELOADED");
    assert_eq!(text, "endpoint west: its probes");
    let group = rig.until("west fails by the new probe", |group| endpoint(group, "west")["state"] == "DOWN");
    for name in ["east", "north"] {
        let successes = |group: &Value| endpoint(group, name)["consecutive_successes"].as_u64();
        assert!(successes(&group) >= successes(&before), "{name} lost its successes: {group:#}");
    }
    assert_eq!(group["order_flow"], "OPEN east #1");
    assert!(rig.started().is_empty() || rig.started().iter().all(|hook| hook == "reconcile east 1"));
    // It is the same path in the journal, too: a failover goes to north.
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    rig.verify();
}

#[test]
fn a_failover_is_not_delayed_because_a_backup_is_asked_otherwise() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    all_well(&mut rig);
    // West will not answer for a long time.
    rig.set("west", Mode::Hang);
    rig.set("east", Mode::Refuse);
    edit(&rig, "region = \"west\"", "region = \"elsewhere\"");
    hangup(&mut rig, "RELOADED");
    let group = rig.until("flow opens on north", |group| group["may_submit"] == true && group["epoch"] == 2);
    assert_eq!(group["order_flow"], "OPEN north #2");
}

#[test]
fn an_invalid_file_changes_nothing_and_every_finding_is_told() {
    let mut rig = Rig::open(&Setting::default());
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    edit(&rig, "interval = \"100ms\"", "interval = 100\ncoffee = true");
    let text = hangup(&mut rig, "RELOAD_REFUSED");
    let line = good.lines().position(|line| line.starts_with("interval = ")).unwrap() + 1;
    for part in [&*format!("{line}:12: error: group[0].probing.interval"), "coffee", "expected", "nothing was changed"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(rig.refuse(&["reload"]).contains("coffee"), "a command finds the supervisor although the file is at fault");
    fs::write(rig.file("config.toml"), "[").unwrap();
    assert!(hangup(&mut rig, "RELOAD_REFUSED").contains("nothing was changed"));
    fs::remove_file(rig.file("config.toml")).unwrap();
    assert!(hangup(&mut rig, "RELOAD_REFUSED").contains("cannot be read"));
    assert_eq!(rig.flow(), "OPEN east #1");
    fs::write(rig.file("config.toml"), good).unwrap();
    assert!(rig.obey(&["reload"]).contains("says the same as before"));
    let commands = rig.records("command");
    let asked: Vec<_> = commands.iter().filter(|one| one["command"] == "reload").collect();
    assert!(asked.iter().any(|one| one["peer"]["pid"].as_u64() > Some(0) && one["refused"].is_null()), "{asked:?}");
    assert!(asked.iter().any(|one| one["peer"]["pid"].as_u64() > Some(0) && !one["refused"].is_null()), "{asked:?}");
    assert!(asked.iter().any(|one| one["peer"].is_null() && !one["refused"].is_null()), "{asked:?}");
    rig.set("east", Mode::Refuse);
    rig.until("it acts as before", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn what_the_active_path_is_and_what_only_a_restart_can_change_is_refused() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    let east = rig.fronts[0].address();
    let without_north = format!("url = \"http://{}\"\npriority = 20", rig.fronts[2].address());
    for (from, to, part) in [
        (&*format!("http://{east}"), "http://127.0.0.1:1", "the active endpoint \"east\" has url http://127.0.0.1:1"),
        ("region = \"east\"", "region = \"mars\"", "region mars"),
        ("primary = true", "primary = true\naccount = \"other\"", "account"),
        ("name = \"east\"", "name = \"orient\"", "the primary is \"orient\"; expected \"east\""),
        ("primary = true", "priority = 5", "primary"),
        ("socket = \"control.sock\"", "socket = \"other.sock\"", "needs a restart"),
        ("journal = \"journal\"", "journal = \"elsewhere\"", "needs a restart"),
        (&*format!("listen = \"{}\"", rig.listen), "", "needs a restart"),
        ("name = \"main\"", "name = \"desk\"", "--first-start"),
    ] {
        // A second change, which must not be made either.
        fs::write(rig.file("config.toml"), &good).unwrap();
        edit(&rig, &without_north, &without_north.replace("20", "5"));
        edit(&rig, from, to);
        let text = hangup(&mut rig, "RELOAD_REFUSED");
        assert!(text.contains(part) && text.ends_with("nothing was changed"), "{part:?} is not in {text}");
        assert_eq!(endpoint(&rig.group(), "north")["priority"], 20, "{from}");
    }
    assert!(notes(&rig, "RELOADED").is_empty());
    fs::write(rig.file("config.toml"), good).unwrap();
    rig.kill();
    rig.start(&[]);
    assert_eq!(rig.flow(), "OPEN east #1");
}

#[test]
fn an_endpoint_comes_goes_and_comes_again() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    all_well(&mut rig);
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (before, rest) = good.split_once("[[group.endpoint]]\nname = \"west\"").unwrap();
    let (_, after) = rest.split_once("[[group.endpoint]]").unwrap();
    fs::write(rig.file("config.toml"), format!("{before}[[group.endpoint]]{after}")).unwrap();
    assert!(rig.obey(&["reload"]).ends_with("reloaded: main: endpoint west is gone"));
    let group = rig.group();
    assert_eq!((group["endpoints"].as_array().unwrap().len(), &group["eligible_targets"]), (2, &json!(["north"])));
    rig.some_slots();
    let asked = rig.fronts[1].counts().accepted;
    rig.some_slots();
    assert!(rig.fronts[1].counts().accepted <= asked + 1, "it is asked still");
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    fs::write(rig.file("config.toml"), &good).unwrap();
    assert!(rig.obey(&["reload"]).contains("endpoint west is new"));
    rig.until("west is a target", |group| group["eligible_targets"] == json!(["west"]));
    // What the journal says is what is: over a kill, and for whoever reads it.
    rig.kill();
    rig.verify();
    rig.start(&[]);
    let group = rig.until("west is a target", |group| group["eligible_targets"] == json!(["west"]));
    assert_eq!(group["order_flow"], "OPEN north #2");
}

#[test]
fn no_slot_of_an_endpoint_that_did_not_change_is_missed() {
    let probing =
        "interval = \"100ms\"\ninterval_when_failing = \"100ms\"\ntimeout = \"1500ms\"\njitter = 0.0".to_owned();
    let mut rig = Rig::open(&Setting { endpoints: 3, probing, ..Setting::default() });
    all_well(&mut rig);
    for round in 0..20 {
        let (from, to) = if round % 2 == 0 { ("west", "elsewhere") } else { ("elsewhere", "west") };
        edit(&rig, &format!("region = \"{from}\""), &format!("region = \"{to}\""));
        rig.obey(&["reload"]);
        std::thread::sleep(Duration::from_millis(37));
    }
    // East and north had a slot every 100 ms throughout; a machine that is busy may be late, and says so.
    let busy = rig.noted("STALLED");
    for name in ["east", "north"] {
        let slots = rig.journal().iter().filter(|record| record["body"]["line"]["probe"] == name).count();
        let gap = longest_gap(&rig, name);
        assert!(busy || slots > 5, "{name}: {slots} slots");
        assert!(busy || gap < 1.0, "{name} was not asked for {gap} s");
    }
    assert_eq!(notes(&rig, "RELOADED").len(), 20);
}

#[test]
fn other_hooks_are_used_from_the_next_on_and_one_that_runs_goes_on() {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("fence", "hang");
    rig.set("east", Mode::Refuse);
    rig.wait("the fence hangs", |rig| rig.count("child ") == 1);
    // A second level, which succeeds.
    rig.behave("fence.1", "ok");
    let fence = "fence = { command = [\"./hook.sh\"], timeout = \"20s\", proves = \"session closed\" }";
    let level = |level: u8| {
        format!("{{ command = [\"./hook.sh\", \"{level}\"], timeout = \"20s\", proves = \"session closed\" }}")
    };
    edit(&rig, fence, &format!("fence = [{}, {}]", level(0), level(1)));
    assert_eq!(hangup(&mut rig, "RELOADED"), "fence hooks (1 -> 2)");
    assert_eq!((rig.count("start fence"), &*rig.flow()), (1, "HOLD SWITCHING"));
    // What a running fence proves is not changed under it.
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    edit(&rig, "proves = \"session closed\"", "proves = \"something else\"");
    assert!(hangup(&mut rig, "RELOAD_REFUSED").contains("fence hook 0 runs"));
    fs::write(rig.file("config.toml"), good).unwrap();
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert_eq!((rig.count("start fence 0"), rig.count("start fence 1")), (1, 1));
    rig.verify();
}

#[test]
fn a_switchover_whose_target_goes_is_dropped_or_leads_elsewhere() {
    let hooks: String = all_hooks().lines().skip(1).map(|line| format!("{line}\n")).collect();
    let setting = Setting { endpoints: 3, hooks, failback: "manual", ..Setting::default() };
    let mut rig = Rig::open(&setting);
    all_well(&mut rig);
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (without, rest) = good.split_once("[[group.endpoint]]\nname = \"north\"").unwrap();
    let (_, after) = rest.split_once("[group.failback]").unwrap();
    // Nothing was begun: a person would have had to confirm the fence.
    assert!(rig.obey(&["switchover", "north"]).starts_with("FENCE_REQUIRED: accepted; "));
    assert!(!rig.group()["plan"].is_null());
    fs::write(rig.file("config.toml"), format!("{without}[group.failback]{after}")).unwrap();
    assert!(hangup(&mut rig, "RELOADED").contains("the switchover to north has no target any more: it is dropped"));
    let group = rig.group();
    assert_eq!((&group["plan"], &group["order_flow"]), (&Value::Null, &"OPEN east #1".into()));
    assert!(rig.refuse(&["confirm-fence", "--epoch", "1"]).contains("no fence is wanted"));
    fs::write(rig.file("config.toml"), &good).unwrap();
    hangup(&mut rig, "RELOADED");
    all_well(&mut rig);
    // A fence was begun: the path must be left all the same.
    edit(&rig, "[group.hooks]\n", "[group.hooks]\nfence = { command = [\"./hook.sh\"], timeout = \"20s\" }\n");
    hangup(&mut rig, "RELOADED");
    rig.behave("fence", "fail");
    assert!(rig.obey(&["switchover", "north"]).starts_with("FENCE_REQUIRED: accepted; "));
    rig.wait("the fence fails", |rig| rig.count("failed fence") >= 1);
    let with_fence = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (_, after) = with_fence.split_once("[group.failback]").unwrap();
    fs::write(rig.file("config.toml"), format!("{without}[group.failback]{after}")).unwrap();
    assert!(hangup(&mut rig, "RELOADED").contains("its path is left for another target"));
    rig.behave("fence", "ok");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    rig.verify();
}

#[test]
fn another_policy_is_a_restart_of_the_monitor_and_keeps_cooldown_and_order_flow() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    rig.set("east", Mode::Healthy);
    rig.until("the cooldown bars the failback", |group| group["failback_answer"] == "COOLDOWN_ACTIVE");
    edit(&rig, "failure_threshold = 2", "failure_threshold = 3");
    assert_eq!(hangup(&mut rig, "RELOADED"), "policy failure_threshold 2 -> 3");
    assert_eq!(rig.flow(), "OPEN west #2");
    rig.until("the cooldown goes on", |group| group["failback_answer"] == "COOLDOWN_ACTIVE");
    edit(&rig, "cooldown = \"1h\"", "cooldown = \"1s\"");
    hangup(&mut rig, "RELOADED");
    rig.until("the failback", |group| group["order_flow"] == "OPEN east #3");
    // A fence that is wanted stays wanted.
    rig.behave("fence", "fail");
    rig.set("east", Mode::Refuse);
    rig.wait("the fence fails", |rig| rig.count("failed fence") >= 1);
    let unfenced = "exclusivity = \"last-login-wins\"\n[group.policy]\nrequire_fence = false";
    edit(&rig, "[group.policy]", unfenced);
    assert!(hangup(&mut rig, "RELOAD_REFUSED").contains("require_fence is false while epoch 3 is being left"));
    assert_eq!(rig.count("start switch"), 2);
    rig.verify();
}

#[test]
fn a_dry_run_and_a_pause_reload_too() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.obey(&["pause"]);
    edit(&rig, "region = \"west\"", "region = \"elsewhere\"");
    hangup(&mut rig, "RELOADED");
    assert_eq!(rig.group()["paused"], true);
    assert!(rig.terminate().success());
    let hooks = rig.hooks();
    rig.start(&["--dry-run"]);
    edit(&rig, "region = \"elsewhere\"", "region = \"west\"");
    hangup(&mut rig, "RELOADED");
    all_well(&mut rig);
    assert_eq!(rig.hooks(), hooks);
}

#[test]
fn a_hundred_signals_and_a_hundred_reloads_leave_nothing_behind() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    all_well(&mut rig);
    let before = held(&rig);
    // A thread that reads a file ends some seconds after it was last needed.
    let settles = |rig: &mut Rig| {
        let (mut least, begun) = (held(rig), Instant::now());
        while (least.0 > before.0 || least.1 > before.1) && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(50));
            let now = held(rig);
            least = (least.0.min(now.0), least.1.min(now.1));
        }
        assert!(least.0 <= before.0 && least.1 <= before.1, "descriptors and threads: {before:?} -> {least:?}");
    };
    for _ in 0..10 {
        toggle(&rig);
        rig.obey(&["reload"]);
    }
    let small = memory(&rig);
    for _ in 0..100 {
        toggle(&rig);
        rig.obey(&["reload"]);
    }
    assert_eq!(notes(&rig, "RELOADED").len(), 110);
    let grown = memory(&rig).saturating_sub(small);
    assert!(grown < 8_000, "100 reloads took {grown} kB");
    settles(&mut rig);
    // Signals that come at once are few reloads, and the file is what is in force at the end.
    let begun = Instant::now();
    toggle(&rig);
    for _ in 0..100 {
        signal(rig.pid(), "HUP");
    }
    rig.wait("it is reloaded", |rig| notes(rig, "RELOADED").len() == 111);
    rig.some_slots();
    assert_eq!(notes(&rig, "RELOADED").len(), 111, "{:?}", begun.elapsed());
    assert_eq!(endpoint(&rig.group(), "west")["state"], "HEALTHY");
    settles(&mut rig);
    assert_eq!(rig.flow(), "OPEN east #1");
    assert!(rig.started().iter().all(|hook| hook == "reconcile east 1"), "{:?}", rig.started());
    rig.verify();
}

/// West is another path than before.
fn toggle(rig: &Rig) {
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    let other = if text.contains("region = \"west\"") { ("west", "elsewhere") } else { ("elsewhere", "west") };
    edit(rig, &format!("region = \"{}\"", other.0), &format!("region = \"{}\"", other.1));
}

/// Memory of the supervisor that is in use, in kB.
fn memory(rig: &Rig) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", rig.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).unwrap()
}

/// Descriptors and threads of the supervisor.
fn held(rig: &Rig) -> (usize, usize) {
    let folder = std::path::PathBuf::from(format!("/proc/{}", rig.pid()));
    (rig.folder_entries(&folder.join("fd")), rig.folder_entries(&folder.join("task")))
}

#[test]
fn a_kill_during_reloads_leaves_one_consistent_configuration() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    all_well(&mut rig);
    for round in 0..12_u64 {
        toggle(&rig);
        signal(rig.pid(), "HUP");
        std::thread::sleep(Duration::from_millis(round * 2));
        rig.kill();
        rig.verify();
        rig.start(&[]);
        assert_eq!(rig.flow(), "OPEN east #1", "round {round}");
    }
    all_well(&mut rig);
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    rig.verify();
}

#[test]
fn an_exported_journal_decides_alike_over_a_reload() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    all_well(&mut rig);
    edit(&rig, "region = \"north\"", "region = \"elsewhere\"");
    hangup(&mut rig, "RELOADED");
    all_well(&mut rig);
    edit(&rig, "priority = 20", "priority = 5");
    hangup(&mut rig, "RELOADED");
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    assert!(rig.terminate().success());
    let exported = rig.file("exported.jsonl");
    let output = Rig::binary(&["journal", "export", "--group", "main"]).arg(rig.file("journal")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::write(&exported, &output.stdout).unwrap();
    let replay = Rig::binary(&["replay"]).arg(&exported).output().unwrap();
    assert!(replay.status.success(), "{replay:?}");
    let decisions = String::from_utf8_lossy(&replay.stdout).into_owned();
    assert!(decisions.contains("SWITCHED") && decisions.contains("north"), "{decisions}");
}

#[test]
fn either_all_groups_change_or_none() {
    // The second group stays where it is put.
    let mut rig = Rig::new(&Setting { endpoints: 3, failback: "manual", ..Setting::default() });
    // A second group, on the same front ends.
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (_, group) = text.split_once("[[group]]").unwrap();
    let desk = group.replace("name = \"main\"", "name = \"desk\"").replace("region = \"", "region = \"desk-");
    fs::write(rig.file("config.toml"), format!("{text}\n[[group]]{desk}")).unwrap();
    rig.start(&["--first-start", "main=east", "--first-start", "desk=west"]);
    rig.until("flow opens", |group| group["order_flow"] == "OPEN east #1");
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    // The first group's edit is sound; the second's moves its active path.
    edit(&rig, "region = \"west\"", "region = \"elsewhere\"");
    edit(&rig, "region = \"desk-west\"", "region = \"desk-elsewhere\"");
    let text = hangup(&mut rig, "RELOAD_REFUSED");
    assert!(text.contains("group \"desk\": the active endpoint \"west\" has"), "{text}");
    rig.wait("both are told", |rig| notes(rig, "RELOAD_REFUSED").len() == 2);
    assert!(notes(&rig, "RELOADED").is_empty());
    rig.some_slots();
    assert_eq!(endpoint(&rig.group(), "west")["state"], "HEALTHY");
    fs::write(rig.file("config.toml"), good).unwrap();
    edit(&rig, "region = \"west\"", "region = \"elsewhere\"");
    edit(&rig, "region = \"desk-north\"", "region = \"desk-elsewhere\"");
    let text = rig.obey(&["reload"]);
    assert!(text.contains("main: endpoint west: region") && text.contains("desk: endpoint north: region"), "{text}");
    assert_eq!(notes(&rig, "RELOADED").len(), 2);
    rig.verify();
}

#[test]
fn reloads_in_every_stage_of_failovers_and_failbacks_open_no_second_path() {
    let policy =
        "failure_threshold = 2\ncooldown = \"100ms\"\nfailback_success_threshold = 2\nmax_failbacks_per_window = 1000";
    let mut rig = Rig::open(&Setting { endpoints: 3, policy: policy.to_owned(), ..Setting::default() });
    all_well(&mut rig);
    for stage in ["fence", "switch", "reconcile"] {
        rig.behave(stage, "slow");
    }
    let pid = rig.pid();
    let config = rig.file("config.toml");
    // Somebody edits a path that does not carry flow, all the time.
    let going = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let editor = {
        let going = std::sync::Arc::clone(&going);
        std::thread::spawn(move || {
            let mut round = 0_u32;
            while going.load(std::sync::atomic::Ordering::Relaxed) {
                let text = fs::read_to_string(&config).unwrap();
                let new = match round % 3 {
                    0 => text.replacen("region = \"north\"", "region = \"elsewhere\"", 1),
                    1 => text.replacen("region = \"elsewhere\"", "region = \"north\"", 1),
                    _ if text.contains("timeout = \"20s\"") => text.replace("timeout = \"20s\"", "timeout = \"21s\""),
                    _ => text.replace("timeout = \"21s\"", "timeout = \"20s\""),
                };
                fs::write(config.with_extension("new"), new).unwrap();
                fs::rename(config.with_extension("new"), &config).unwrap();
                signal(pid, "HUP");
                std::thread::sleep(Duration::from_millis(23));
                round += 1;
            }
        })
    };
    for round in 0..4_u64 {
        rig.set("east", Mode::Refuse);
        let away = |group: &Value| group["may_submit"] == true && group["epoch"].as_u64() >= Some(2 * round + 2);
        rig.until("flow is elsewhere", away);
        rig.set("east", Mode::Healthy);
        rig.until("flow is back", |group| group["may_submit"] == true && group["active"] == "east");
    }
    going.store(false, std::sync::atomic::Ordering::Relaxed);
    editor.join().unwrap();
    assert!(notes(&rig, "RELOADED").len() > 10);
    // Each path was fenced before the next one was switched to.
    let mut fenced = std::collections::BTreeSet::new();
    for line in rig.hooks() {
        let words: Vec<_> = line.split(' ').collect();
        let epoch = || words[4].parse::<u64>().unwrap();
        match words[..2] {
            ["end", "fence"] => drop(fenced.insert(epoch())),
            ["start", "switch"] => assert!(fenced.contains(&(epoch() - 1)), "{line}"),
            _ => {}
        }
    }
    rig.verify();
    rig.kill();
    rig.start(&[]);
    rig.until("it goes on", |group| group["may_submit"] == true);
}
