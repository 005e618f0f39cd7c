//! A quota that paths share, under a ban; an account that is another one; a depth that is not proved.

use std::time::Duration;

use serde_json::{Value, json};

use crate::brokers::Mode;
use crate::desk::{edit, endpoint, open};
use crate::rig::{Rig, Setting};

const QUOTA: &str = "shared_fate = [\"quota\"]";

fn shares_a_quota() -> Setting {
    Setting { endpoints: 3, endpoint: QUOTA.to_owned(), ..Setting::default() }
}

/// The same, but for the last of the three.
fn with_north_outside() -> Rig {
    let rig = Rig::new(&shares_a_quota());
    let (name, keys) = ("name = \"north\"", "cancel_on_disconnect = \"session\"\nshared_fate = [\"quota\"]");
    let file = rig.file("config.toml");
    let text = std::fs::read_to_string(&file).expect("a configuration");
    let (before, north) = text.split_once(name).expect("north");
    let north = north.replacen(keys, "cancel_on_disconnect = \"session\"", 1);
    std::fs::write(&file, format!("{before}{name}{north}")).expect("a configuration");
    rig
}

fn throttle(status: u16, after: &str) -> Mode {
    Mode::Throttle { status, retry_after: Some(after.to_owned()) }
}

/// 429 first, then, since it goes on asking, 418 for ten minutes: for whoever asks from this address.
fn ban(rig: &mut Rig, names: &[&str]) {
    names.iter().for_each(|name| rig.set(name, throttle(429, "1")));
    rig.wait("patience is asked for", |rig| {
        rig.records("note").iter().any(|note| note["text"].as_str().is_some_and(|text| text.contains("status 429")))
    });
    assert_eq!(rig.flow(), "OPEN east #1", "being asked for patience moves nothing");
    names.iter().for_each(|name| rig.set(name, throttle(418, "600")));
    rig.wait("the ban", |rig| rig.noted("BANNED"));
}

#[test]
fn b14_a_ban_of_the_quota_that_all_paths_share_pauses_every_probe_and_halts_with_shared_ban() {
    let mut rig = Rig::new(&shares_a_quota());
    open(&mut rig);
    ban(&mut rig, &["east", "west", "north"]);
    let group = rig.until("the halt hook has confirmed", |group| group["halt_confirmed"] == true);
    assert_eq!(group["order_flow"], "HALT SHARED_BAN");
    assert_eq!(rig.started(), ["reconcile east 1", "halt east 1"], "nobody was fenced, nobody was switched to");
    for name in ["east", "west", "north"] {
        assert_eq!(endpoint(&group, name)["bars"], json!(["SHARED_FATE"]), "{name}");
    }
    let asked = |rig: &Rig| rig.fronts.iter().map(|front| front.counts().requests).sum::<u64>();
    // A request that was under way when the first 418 came may still be counted.
    std::thread::sleep(Duration::from_millis(1_600));
    let before = asked(&rig);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(asked(&rig), before, "ten slots of each, and nobody was asked");
    assert!(rig.count("start fence") == 0);
    let throttled = |note: &&serde_json::Value| note["text"].as_str().is_some_and(|text| text.contains("Throttled"));
    assert!(rig.records("note").iter().filter(throttled).count() > 3, "each slot says that it did not ask");
}

#[test]
fn b14_a_path_outside_the_banned_quota_is_switched_to() {
    let mut rig = with_north_outside();
    open(&mut rig);
    ban(&mut rig, &["east", "west"]);
    let group = rig.until("flow is open on north", |group| group["order_flow"] == "OPEN north #2");
    assert_eq!(group["history"][0]["to"], "north");
    assert_eq!(endpoint(&group, "west")["bars"], json!(["SHARED_FATE"]));
    assert_eq!(rig.started(), ["reconcile east 1", "fence east 1", "switch north 2", "reconcile north 2"]);
    rig.verify();
}

/// East alone is told that we are shut out, for three seconds, and is well when they are over.
fn short_ban(rig: &mut Rig) {
    rig.set("east", throttle(418, "3"));
    rig.wait("the ban", |rig| rig.noted("BANNED"));
    rig.set("east", Mode::Healthy);
}

/// What came of the slots of a path since the ban was told of: `true` where it answered, `false` where nobody was asked.
fn answered_since_the_ban(rig: &Rig, name: &str) -> Vec<bool> {
    let of = |record: &Value| {
        let (body, silent) = (&record["body"], format!("{name}: Throttled"));
        let is_silent = body["text"].as_str().is_some_and(|text| text.starts_with(&silent));
        (is_silent || body["line"]["probe"] == name).then_some(!is_silent)
    };
    let all = rig.journal();
    all.iter().skip_while(|record| record["body"]["code"] != "BANNED").filter_map(of).collect()
}

/// Each path that shares the fate was left alone from the ban on until it was over, the one that was well too.
fn was_left_alone(rig: &Rig, names: &[&str]) {
    for name in names {
        let slots = answered_since_the_ban(rig, name);
        // One may have been under way when the other's answer came.
        let since = usize::from(slots[0]);
        let pause = slots[since..].iter().take_while(|answered| !**answered).count();
        assert!(pause > 3 && slots[since + pause..].iter().all(|answered| *answered), "{name}: {slots:?}");
    }
}

fn is_free(group: &Value, name: &str) -> bool {
    let one = endpoint(group, name);
    one["state"] == "HEALTHY" && one["bars"] == json!([])
}

#[test]
fn b14_when_the_ban_is_over_every_path_is_asked_again_and_a_person_lifts_the_halt() {
    let mut rig = Rig::new(&shares_a_quota());
    open(&mut rig);
    short_ban(&mut rig);
    let group = rig.until("the halt hook has confirmed", |group| group["halt_confirmed"] == true);
    assert_eq!(group["order_flow"], "HALT SHARED_BAN");
    let names = ["east", "west", "north"];
    rig.until("every path answers again", |group| names.iter().all(|name| is_free(group, name)));
    rig.some_slots();
    assert_eq!(rig.flow(), "HALT SHARED_BAN", "its end alone opens nothing");
    was_left_alone(&rig, &names);
    rig.obey(&["resume"]);
    rig.until("flow is open again", |group| group["order_flow"] == "OPEN east #1");
    assert_eq!(rig.started(), ["reconcile east 1", "halt east 1", "reconcile east 1"]);
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn b14_when_the_ban_is_over_the_paths_that_were_left_are_targets_again_and_flow_stays_where_it_went() {
    let mut rig = with_north_outside();
    open(&mut rig);
    short_ban(&mut rig);
    rig.until("flow is open on north", |group| group["order_flow"] == "OPEN north #2");
    rig.until("both answer again", |group| is_free(group, "east") && is_free(group, "west"));
    let group = rig.until("and are targets", |group| group["eligible_targets"] == json!(["east", "west"]));
    assert_eq!(group["order_flow"], "OPEN north #2", "until its cooldown is over");
    rig.some_slots();
    was_left_alone(&rig, &["east", "west"]);
    assert_eq!(rig.started(), ["reconcile east 1", "fence east 1", "switch north 2", "reconcile north 2"]);
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn b07_an_answer_that_another_session_has_the_login_halts_and_steals_nothing_back() {
    let keys = "probe = { http = { path = \"/health\", expect_body = \"ok\", competing_session_status = [409] } }";
    let policy = "failure_threshold = 3\ncooldown = \"1h\"".to_owned();
    let mut rig = Rig::new(&Setting { endpoint: keys.to_owned(), policy, ..Setting::default() });
    open(&mut rig);
    rig.set("east", Mode::Status(409));
    let group = rig.until("the halt hook has confirmed", |group| group["halt_confirmed"] == true);
    assert_eq!((&group["order_flow"], &group["epoch"]), (&json!("HALT COMPETING_SESSION"), &json!(1)));
    let east = endpoint(&group, "east");
    assert_eq!((&east["state"], &east["consecutive_failures"]), (&json!("HEALTHY"), &json!(0)), "it is no failure");
    assert_eq!(rig.started(), ["reconcile east 1", "halt east 1"], "west was well all the time");
    assert_eq!(endpoint(&group, "west")["state"], "HEALTHY");
    rig.terminate();
    rig.verify();
}

#[test]
fn a_path_that_fronts_another_account_is_loudly_no_target_until_a_person_says_so() {
    let account = |id: &str| Mode::Body(format!("{{\"account\":{{\"id\":\"{id}\"}}}}"));
    let keys = "account = \"U1\"\nprobe = { http = { path = \"/account\", account_pointer = \"/account/id\" } }";
    let mut rig = Rig::new(&Setting { endpoint: keys.to_owned(), ..Setting::default() });
    rig.set("east", account("U1"));
    rig.set("west", account("U1"));
    open(&mut rig);
    rig.until("west is a target", |group| group["eligible_targets"] == json!(["west"]));
    rig.set("west", account("U2"));
    let group = rig.until("west is barred", |group| endpoint(group, "west")["bars"] == json!(["ACCOUNT_MISMATCH"]));
    assert_eq!((&group["order_flow"], &group["waits_for"]), (&json!("OPEN east #1"), &json!("unbar west")));
    assert!(rig.noted("ACCOUNT_MISMATCH"));
    let metric = "broker_failover_endpoint_account_mismatch{group=\"main\",endpoint=\"west\"} 1";
    assert!(rig.get("/metrics").2.contains(metric), "{}", rig.get("/metrics").2);

    rig.set("west", account("U1"));
    rig.until("west answers rightly", |group| endpoint(group, "west")["state"] == "HEALTHY");
    assert!(rig.refuse(&["switchover", "west"]).contains("ACCOUNT_MISMATCH"));
    rig.kill();
    rig.start(&[]);
    rig.until("west is known", |group| endpoint(group, "west")["state"] == "HEALTHY");
    assert_eq!(endpoint(&rig.group(), "west")["bars"], json!(["ACCOUNT_MISMATCH"]), "over a restart too");
    rig.obey(&["unbar", "west"]);
    rig.until("west is a target", |group| group["eligible_targets"] == json!(["west"]));

    rig.set("east", account("U2"));
    rig.until("trading halts", |group| group["order_flow"] == "HALT ACCOUNT_MISMATCH");
    rig.verify();
}

#[test]
fn a_green_path_below_the_required_depth_is_not_failed_over_to() {
    let both = "probe = [{ http = { path = \"/ping\", expect_body = \"ok\" } }, { exec = { command = [\"./deep.sh\"], \
                proves = \"order-path\" } }]\nrequire = \"any\"";
    let mut rig = Rig::new(&Setting { endpoint: both.to_owned(), ..Setting::default() });
    // As long as the file is there, the order path is proved.
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\" && [ -f \"deep.$BROKER_FAILOVER_ENDPOINT\" ]\n";
    std::fs::write(rig.file("deep.sh"), script).expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(rig.file("deep.sh"), executable).expect("an executable script");
    edit(&rig, "name = \"main\"\n", "name = \"main\"\nrequired_depth = \"order-path\"\n");
    open(&mut rig);
    let group = rig.until("west is green", |group| endpoint(group, "west")["state"] == "HEALTHY");
    assert_eq!(endpoint(&group, "west")["unusable"], "the required depth is not proved (DEPTH)");
    assert_eq!(group["eligible_targets"], json!([]));
    rig.set("east", Mode::Refuse);
    rig.until("there is nowhere to go", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    let reason = rig.records("input").iter().any(|input| input["answer"]["reason"] == "ONLY_BARRED_TARGETS");
    assert!(reason, "{}", rig.tell());
}
