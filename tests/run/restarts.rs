//! A configuration that was changed while no supervisor ran: the state belongs to the names of endpoints, and yields.

use std::fs;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::brokers::Mode;
use crate::rig::{Rig, Setting};

/// Edits the file.
fn edit(rig: &Rig, from: &str, to: &str) {
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    assert!(text.contains(from), "{from:?} is not in {text}");
    fs::write(rig.file("config.toml"), text.replacen(from, to, 1)).unwrap();
}

/// A group that left east for west, and whose supervisor was stopped.
fn left_on_west(failback: &'static str) -> Rig {
    let mut rig = Rig::open(&Setting { endpoints: 3, failback, ..Setting::default() });
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    rig.set("east", Mode::Healthy);
    assert!(rig.terminate().success());
    rig
}

/// The records that a state is made of.
fn state(rig: &Rig) -> Vec<Value> {
    let told = |record: &Value| record["kind"] != "start" && record["kind"] != "stop" && record["kind"] != "segment";
    rig.journal().into_iter().filter(told).collect()
}

fn last(rig: &Rig, kind: &str) -> Value {
    rig.records(kind).pop().unwrap_or_default()
}

/// What every restart keeps, and that it ran no hook by itself.
fn goes_on_west(rig: &mut Rig) {
    let started = rig.started();
    rig.start(&[]);
    assert_eq!(rig.flow(), "OPEN west #2");
    rig.until("every endpoint is known", |group| {
        group["endpoints"].as_array().is_some_and(|all| all.iter().all(|one| one["state"] != "UNKNOWN"))
    });
    assert_eq!((rig.flow().as_str(), rig.started()), ("OPEN west #2", started));
}

#[test]
fn without_the_active_endpoint_in_the_file_it_does_not_start_and_the_state_stays() {
    let mut rig = left_on_west("manual");
    let (good, before, hooks) = (fs::read_to_string(rig.file("config.toml")).unwrap(), state(&rig), rig.hooks());
    edit(&rig, "name = \"west\"", "name = \"orient\"");
    for arguments in [&[][..], &["--first-start", "main=orient"]] {
        let (status, err) = rig.refused(arguments);
        assert_eq!(status, 2, "{err}");
        let why =
            "group \"main\": the active endpoint \"west\" is not in the file any more; expected it to be there until";
        assert!(err.contains(why), "{err}");
        assert_eq!(
            (state(&rig), rig.hooks()),
            (before.clone(), hooks.clone()),
            "a start that is refused decides nothing"
        );
    }
    rig.verify();
    // With the file as it was everything goes on.
    fs::write(rig.file("config.toml"), good).unwrap();
    goes_on_west(&mut rig);
}

#[test]
fn another_address_of_the_active_endpoint_is_taken_at_a_start_and_what_the_state_says_of_its_name_stays() {
    let mut rig = left_on_west("manual");
    let (old, new) = (rig.fronts[1].address().to_string(), rig.fronts[2].address().to_string());
    // North goes, so that whoever asks its front end asks west.
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (before, north) = text.split_once("[[group.endpoint]]\nname = \"north\"").unwrap();
    let (_, after) = north.split_once("[group.failback]").unwrap();
    fs::write(rig.file("config.toml"), format!("{before}[group.failback]{after}")).unwrap();
    edit(&rig, &old, &new);
    let asked = rig.fronts[1].counts().accepted;
    goes_on_west(&mut rig);
    rig.some_slots();
    assert_eq!(rig.fronts[1].counts().accepted, asked, "the old address is asked still");
    let endpoints = last(&rig, "snapshot")["snapshot"]["endpoints"].clone();
    assert_eq!(endpoints[1]["endpoint"]["url"], format!("http://{new}"), "{endpoints}");
}

#[test]
fn another_primary_is_taken_at_a_start_and_nothing_moves_to_it_by_the_restart() {
    let mut rig = left_on_west("automatic");
    edit(&rig, "primary = true", "priority = 15");
    edit(&rig, "priority = 20", "primary = true");
    goes_on_west(&mut rig);
    let group = rig.until("the cooldown bars the failback", |group| group["failback_answer"] == "COOLDOWN_ACTIVE");
    let is_primary = |one: &&Value| one["primary"] == true;
    let primary: Vec<_> = group["endpoints"].as_array().unwrap().iter().filter(is_primary).collect();
    assert!(primary.len() == 1 && primary[0]["name"] == "north", "{group:#}");
    // Flow goes home to the primary that the file names now, by a person's word or when the cooldown is over.
    rig.obey(&["switchover", "north"]);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #3");
    assert!(rig.refuse(&["failback"]).contains("NO_ACTION"));
}

#[test]
fn another_policy_is_taken_at_a_start_and_the_ages_that_it_measures_stay() {
    let mut rig = left_on_west("automatic");
    goes_on_west(&mut rig);
    rig.until("an hour bars the failback", |group| group["failback_answer"] == "COOLDOWN_ACTIVE");
    assert!(rig.terminate().success());
    edit(&rig, "cooldown = \"1h\"", "cooldown = \"1ms\"");
    rig.start(&[]);
    rig.until("the switch is older than that, and the failback is made", |group| group["order_flow"] == "OPEN east #3");
    let told = rig.records("config");
    let mut cooldowns: Vec<_> = told.iter().map(|one| &one["line"]["config"]["policy"]["cooldown"]).collect();
    // Each head of a segment says it again.
    cooldowns.dedup();
    assert_eq!(cooldowns, ["1h", "1ms"]);
}

#[test]
fn a_backup_that_is_gone_at_a_start_takes_its_switches_out_of_the_history_and_they_are_counted() {
    let mut rig = left_on_west("manual");
    goes_on_west(&mut rig);
    rig.obey(&["switchover", "north"]);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #3");
    assert!(rig.terminate().success());
    let before = last(&rig, "snapshot")["snapshot"].clone();
    assert_eq!((before["history"].as_array().unwrap().len(), &before["history_dropped"]), (2, &json!(0)), "{before}");
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (east, rest) = text.split_once("[[group.endpoint]]\nname = \"west\"").unwrap();
    let (_, north) = rest.split_once("[[group.endpoint]]").unwrap();
    fs::write(rig.file("config.toml"), format!("{east}[[group.endpoint]]{north}")).unwrap();
    rig.start(&[]);
    assert_eq!(rig.flow(), "OPEN north #3");
    let after = last(&rig, "snapshot")["snapshot"].clone();
    assert_eq!((after["history"].as_array().unwrap().len(), &after["history_dropped"]), (0, &json!(2)), "{after}");
    rig.verify();
}

#[test]
fn each_start_is_recorded_with_the_hash_of_its_file_and_shown_with_it() {
    let mut rig = left_on_west("manual");
    let hash = |rig: &Rig| -> String {
        Sha256::digest(fs::read(rig.file("config.toml")).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let mut hashes = vec![hash(&rig)];
    edit(&rig, "cooldown = \"1h\"", "cooldown = \"2h\"");
    goes_on_west(&mut rig);
    hashes.push(hash(&rig));
    assert_ne!(hashes[0], hashes[1]);
    for (kind, key) in [("start", "config_hash"), ("config", "hash")] {
        let mut told: Vec<_> = rig.records(kind).iter().map(|one| one[key].as_str().unwrap().to_owned()).collect();
        told.dedup();
        assert_eq!(told, hashes, "{kind}");
    }
    let shown = Rig::binary(&["journal", "show"]).arg(rig.file("journal")).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for hash in hashes {
        assert!(shown.contains(&format!("configuration {hash}")), "{shown}");
    }
}
