//! The feed of a real supervisor, read by a C program in another process.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::brokers::Mode;
use crate::languages::{self, Watcher, say};
use crate::rig::{Rig, Setting, signal};

/// What a busy machine needs: nothing here is stale while the supervisor lives.
const VALID_FOR: Duration = Duration::from_secs(5);

/// A supervisor with a feed, beside the folder or in memory, whose group has these keys too.
fn rig(setting: &Setting, feed: &Path, keys: &str) -> Rig {
    let rig = Rig::new(setting);
    set(&rig, feed, keys);
    rig
}

fn set(rig: &Rig, feed: &Path, keys: &str) {
    let text = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (before, after) = text.split_once("name = \"main\"\n").unwrap();
    let after = &after[after.find("[group.policy]").unwrap()..];
    let text = format!("{before}name = \"main\"\nfeed = {feed:?}\n{keys}\n{after}");
    fs::write(rig.file("config.toml"), text).unwrap();
}

fn open(rig: &mut Rig) {
    rig.start(&["--first-start", "east"]);
    let known = |one: &serde_json::Value| one["state"] != "UNKNOWN";
    rig.until("flow is open on east, and every endpoint is known", |group| {
        group["order_flow"] == "OPEN east #1" && group["endpoints"].as_array().is_some_and(|all| all.iter().all(known))
    });
}

fn until(rig: &mut Rig, reader: &Path, feed: &Path, expected: &str) -> String {
    let mut said = String::new();
    rig.wait(&format!("the feed says {expected:?}"), |_| {
        said = say(reader, feed);
        said.starts_with(expected)
    });
    said
}

/// The same of a supervisor that was killed or frozen: if that met it in the middle of a publication, the feed cannot be
/// read any more, which permits as little.
fn until_lapsed(rig: &mut Rig, reader: &Path, feed: &Path, expected: &str) {
    rig.wait(&format!("the feed says {expected:?}, or nothing"), |_| {
        let said = say(reader, feed);
        said.starts_with(expected) || said == "unreadable"
    });
}

fn sequence(said: &str) -> u64 {
    said.rsplit_once("sequence ").and_then(|(_, number)| number.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

const OPEN_EAST: &str = "flow 1 permits 7 epoch 1 on east valid submit";

#[test]
fn a_c_program_follows_a_failover_and_the_fence_hook_finds_the_freeze_in_the_feed() {
    let Some(reader) = languages::reader() else { return };
    // On a disk, which the rig's folder is on, and in memory.
    for memory in [None, Some(PathBuf::from(format!("/dev/shm/broker-failover-{}.feed", std::process::id())))] {
        let mut setting = Setting::default();
        let hook = |stage: &str| setting.hooks.lines().find(|line| line.starts_with(stage)).map(str::to_owned);
        let fence = hook("fence").expect("a fence hook");
        setting.hooks = setting.hooks.replace(&fence, &fence.replace("./hook.sh", "./fence.sh"));
        assert!(setting.hooks.contains("./fence.sh"), "{}", setting.hooks);
        let mut rig = Rig::new(&setting);
        let feed = memory.clone().unwrap_or_else(|| rig.file("main.feed"));
        let looks = rig.file("looks");
        let script =
            format!("#!/bin/sh\n{reader:?} say {feed:?} >> {looks:?}\nexec \"$(dirname \"$0\")\"/hook.sh \"$@\"\n");
        fs::write(rig.file("fence.sh"), script).unwrap();
        fs::set_permissions(rig.file("fence.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        set(&rig, &feed, "feed_valid_for = \"60s\"");
        open(&mut rig);
        until(&mut rig, reader, &feed, OPEN_EAST);
        let watcher = Watcher::start(reader, &feed, 2, Duration::from_secs(60));
        rig.set("east", Mode::Reset);
        rig.until("flow is open on west", |group| group["order_flow"] == "OPEN west #2");
        let (publications, epochs) = watcher.end();
        assert!(publications >= 2 && epochs >= 1, "{publications} {epochs}");
        let looks = fs::read_to_string(looks).unwrap();
        assert!(looks.starts_with("flow 17 permits 0 epoch 1 on east valid sequence "), "{looks}");
        let said = until(&mut rig, reader, &feed, "flow 1 permits 7 epoch 2 on west valid submit");
        assert!(rig.group()["feed_trouble"].is_null() && !rig.noted("FEED_FAILED"), "{said}");
        assert!(rig.terminate().success());
        if memory.is_some() {
            fs::remove_file(feed).unwrap();
        }
    }
}

#[test]
fn a_supervisor_that_is_killed_is_stale_after_its_moment_and_its_next_run_is_not() {
    let Some(reader) = languages::reader() else { return };
    let mut rig = rig(&Setting::default(), Path::new("main.feed"), "feed_valid_for = \"5s\"");
    let feed = rig.file("main.feed");
    open(&mut rig);
    let before = until(&mut rig, reader, &feed, OPEN_EAST);
    let file = fs::metadata(&feed).unwrap().ino();
    // Heartbeats keep it so.
    std::thread::sleep(VALID_FOR + Duration::from_secs(1));
    let later = until(&mut rig, reader, &feed, OPEN_EAST);
    assert!(sequence(&later) > sequence(&before), "{before} {later}");
    rig.kill();
    until_lapsed(&mut rig, reader, &feed, "flow 1 permits 7 epoch 1 on east stale sequence ");
    rig.start(&[]);
    let again = until(&mut rig, reader, &feed, OPEN_EAST);
    assert!(sequence(&again) > sequence(&later), "{later} {again}");
    assert_eq!(fs::metadata(&feed).unwrap().ino(), file, "a gateway that has the file mapped sees the next run");
    assert!(rig.terminate().success());
    let stopped = say(reader, &feed);
    assert!(stopped.starts_with("flow 1 permits 7 epoch 1 on east stale stopped sequence "), "{stopped}");
}

#[test]
fn a_supervisor_that_is_frozen_is_stale_and_one_that_goes_on_is_not() {
    let Some(reader) = languages::reader() else { return };
    let keys = "feed_valid_for = \"5s\"\nfeed_when_stale = \"keep\"";
    let mut rig = rig(&Setting::default(), Path::new("main.feed"), keys);
    let feed = rig.file("main.feed");
    open(&mut rig);
    until(&mut rig, reader, &feed, OPEN_EAST);
    signal(rig.pid(), "STOP");
    // Its operator chose that the gateway goes on.
    until_lapsed(&mut rig, reader, &feed, "flow 1 permits 7 epoch 1 on east stale submit keep sequence ");
    signal(rig.pid(), "CONT");
    until(&mut rig, reader, &feed, OPEN_EAST);
    // And a reload changes what the file says that the gateway should do.
    set(&rig, Path::new("main.feed"), "feed_valid_for = \"5s\"");
    let said = rig.obey(&["reload"]);
    assert!(said.contains("feed_when_stale keep -> hold"), "{said}");
    until(&mut rig, reader, &feed, "flow 1 permits 7 epoch 1 on east valid submit sequence ");
    signal(rig.pid(), "STOP");
    until_lapsed(&mut rig, reader, &feed, "flow 1 permits 7 epoch 1 on east stale sequence ");
    signal(rig.pid(), "CONT");
    set(&rig, Path::new("other.feed"), "");
    let refused = rig.refuse(&["reload"]);
    assert!(refused.contains("expected no change (it needs a restart)"), "{refused}");
}

#[test]
fn a_halt_is_in_the_feed_before_its_command_is_answered() {
    let Some(reader) = languages::reader() else { return };
    let mut rig = rig(&Setting::default(), Path::new("main.feed"), "feed_valid_for = \"60s\"");
    let feed = rig.file("main.feed");
    open(&mut rig);
    until(&mut rig, reader, &feed, OPEN_EAST);
    rig.obey(&["halt", "desk"]);
    let halted = say(reader, &feed);
    assert!(halted.starts_with("flow 33 permits 2 epoch 1 on east valid sequence "), "{halted}");
    // Cancels go with the health of the halted path.
    rig.set("east", Mode::Reset);
    until(&mut rig, reader, &feed, "flow 33 permits 0 ");
}

#[test]
fn a_start_refuses_what_is_no_feed_and_a_dry_run_leaves_it_alone() {
    let rig = rig(&Setting::default(), Path::new("main.feed"), "");
    let feed = rig.file("main.feed");
    fs::write(&feed, "an order book\n").unwrap();
    let (status, text) = rig.refused(&["--first-start", "east"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("found 14 bytes; expected 64 bytes; it was left as it was"), "{text}");
    assert_eq!(fs::read_to_string(&feed).unwrap(), "an order book\n");
    fs::remove_file(&feed).unwrap();
    let mut rig = rig;
    rig.start(&["--first-start", "east", "--dry-run"]);
    assert!(!feed.exists());
}

#[test]
fn a_feed_that_is_removed_is_loud_and_stops_nothing() {
    let mut rig = rig(&Setting::default(), Path::new("main.feed"), "feed_valid_for = \"1s\"");
    open(&mut rig);
    fs::remove_file(rig.file("main.feed")).unwrap();
    let group = rig.until("it is told", |group| !group["feed_trouble"].is_null());
    assert!(group["feed_trouble"].as_str().is_some_and(|text| text.contains("removed or replaced")), "{group}");
    rig.wait("it is noted", |rig| rig.noted("FEED_FAILED"));
    assert!(rig.get("/metrics").2.contains("broker_failover_feed_failing{group=\"main\"} 1"));
    rig.set("east", Mode::Reset);
    rig.until("flow is open on west", |group| group["order_flow"] == "OPEN west #2");
}
