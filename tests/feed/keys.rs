//! The feed's keys in the configuration.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use broker_failover::feed::{FeedWriter, Terms, WhenStale};
use broker_failover::supervisor::config::{Checked, effective, parse};

use crate::file::Folder;
use crate::rig::is_root;

/// A file with these keys for its first group, and a second group with those.
fn text(first: &str, second: &str) -> String {
    let group = |name: &str, keys: &str| {
        format!(
            "[[group]]\nname = {name:?}\n{keys}\n[[group.endpoint]]\nname = \"east\"\nregion = \"e\"\nurl = \
             \"tcp://127.0.0.1:1\"\nprimary = true\nprobe = {{ tcp = {{}} }}\n[[group.endpoint]]\nname = \"west\"\nregion = \
             \"w\"\nurl = \"tcp://127.0.0.1:2\"\npriority = 1\nprobe = {{ tcp = {{}} }}\n"
        )
    };
    let second = if second.is_empty() { String::new() } else { group("other", second) };
    format!("[supervisor]\nsocket = \"s\"\njournal = \"j\"\n{}{second}", group("main", first))
}

fn checked(folder: &Path, first: &str, second: &str) -> Checked {
    parse(&text(first, second), folder)
}

fn terms(keys: &str) -> Terms {
    let checked = checked(Path::new("/dev/shm"), &format!("feed = \"x.feed\"\n{keys}"), "");
    let config = checked.config.unwrap_or_else(|| panic!("{:?}", checked.findings));
    let feed = config.groups[0].feed.clone().unwrap();
    assert_eq!(feed.path, Path::new("/dev/shm/x.feed"));
    feed.terms
}

fn findings(checked: &Checked, key: &str) -> Vec<String> {
    let all = checked.findings.iter().map(ToString::to_string);
    all.filter(|finding| finding.contains(key)).collect()
}

#[test]
fn by_default_the_feed_holds_as_long_as_a_path_may_be_dead_unseen_and_then_gateways_hold() {
    let hold = |valid_for| Terms { valid_for, when_stale: WhenStale::Hold };
    // interval 1 s, twice a quarter of it, and a timeout of 800 ms.
    assert_eq!(terms(""), hold(Duration::from_millis(2_300)));
    assert_eq!(terms("[group.probing]\ninterval = \"100ms\"\ntimeout = \"100ms\""), hold(Duration::from_secs(2)));
    assert_eq!(terms("[group.probing]\ninterval = \"60s\""), hold(Duration::from_secs(30)));
    let stated = terms("feed_valid_for = \"7s\"\nfeed_when_stale = \"keep\"");
    assert_eq!(stated, Terms { valid_for: Duration::from_secs(7), when_stale: WhenStale::Keep });
    let derived = effective(&text("feed = \"x.feed\"", ""), Path::new("/dev/shm"));
    assert!(derived.iter().any(|one| one.key == "group[0].feed_valid_for" && one.value == "2.3s"), "{derived:?}");
    assert!(checked(Path::new("."), "", "").config.is_some_and(|config| config.groups[0].feed.is_none()));
}

#[test]
fn what_cannot_be_is_an_error_at_its_key() {
    for (keys, found) in [
        ("feed_valid_for = \"5s\"", "there is no feed"),
        ("feed_when_stale = \"keep\"", "there is no feed"),
        ("feed = \"x\"\nfeed_valid_for = \"99ms\"", "at least 100ms"),
        ("feed = \"x\"\nfeed_when_stale = \"go on\"", "\"hold\" or \"keep\""),
        ("feed = \"\"", "names no file"),
        ("feed = 7", "a string"),
    ] {
        let checked = checked(Path::new("/dev/shm"), keys, "");
        assert!(checked.config.is_none(), "{keys}");
        let told = findings(&checked, "feed");
        assert!(told.len() == 1 && told[0].contains(found), "{keys}: {:?}", checked.findings);
    }
    // Whatever else is wrong with the group hides none of it.
    for (keys, other) in [
        ("feed = \"x\"\nfeed_valid_for = \"99ms\"\nrto = 7", "rto"),
        ("feed_valid_for = \"5s\"\n[group.policy]\nfailure_threshold = 0", "failure_threshold"),
    ] {
        let checked = checked(Path::new("/dev/shm"), keys, "");
        let told = [findings(&checked, "feed").len(), findings(&checked, other).len()];
        assert_eq!(told, [1, 1], "{keys}: {:?}", checked.findings);
    }
    let twice = checked(Path::new("/dev/shm"), "feed = \"x\"", "feed = \"x\"");
    assert!(twice.config.is_none());
    assert!(findings(&twice, "group[1].feed")[0].contains("is the feed of another group"), "{:?}", twice.findings);
}

#[test]
fn what_is_dangerous_is_a_warning() {
    let warned = |folder: &Path, keys: &str, word: &str| {
        let checked = checked(folder, keys, "");
        assert!(checked.config.is_some(), "{:?}", checked.findings);
        findings(&checked, "feed").iter().any(|finding| finding.contains(word))
    };
    let memory = Path::new("/dev/shm");
    assert!(warned(memory, "feed = \"x\"\nfeed_valid_for = \"999ms\"", "a busy machine is late by more"));
    assert!(!warned(memory, "feed = \"x\"\nfeed_valid_for = \"1s\"", "busy machine"));
    assert!(warned(memory, "feed = \"x\"\nfeed_valid_for = \"31s\"", "after the supervisor died"));
    assert!(!warned(memory, "feed = \"x\"\nfeed_valid_for = \"30s\"", "after the supervisor died"));
    let folder = Folder::new("keys");
    let place = folder.feed();
    let place = place.parent().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place, open).unwrap();
    assert!(warned(place, "feed = \"other.feed\"", "others may write in"));
    assert!(!warned(memory, "feed = \"x\"", "others may write in"), "what is there belongs to its owner");
}

#[test]
fn what_a_start_would_refuse_to_write_is_an_error() {
    let folder = Folder::new("places");
    let place = folder.feed().parent().unwrap().to_owned();
    let make = |name: &str, how: &dyn Fn(&Path)| how(&place.join(name));
    make("text", &|path| std::fs::write(path, "something else").unwrap());
    make("folder", &|path| std::fs::create_dir(path).unwrap());
    make("pipe", &|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()));
    make("link", &|path| symlink(place.join("text"), path).unwrap());
    make("nowhere", &|path| symlink(place.join("missing"), path).unwrap());
    make("shared", &|path| {
        drop(FeedWriter::open(path).unwrap());
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
    });
    let mut cases = vec![
        ("text", "found 14 bytes; expected 64 bytes"),
        ("folder", "found a folder"),
        ("pipe", "found a pipe"),
        ("link", "found a symbolic link"),
        ("text/below/main.feed", "Not a directory"),
        ("nowhere/main.feed", "nowhere: Not a directory"),
        ("shared", "found mode 666"),
    ];
    if is_root() {
        make("foreign", &|path| {
            drop(FeedWriter::open(path).unwrap());
            chown(path, Some(1), None).unwrap();
        });
        cases.push(("foreign", "found a file of user 1; expected one of user 0"));
    } else {
        make("closed", &|path| {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o555)).unwrap();
        });
        cases.push(("closed/main.feed", "Permission denied"));
    }
    for (name, found) in cases {
        let checked = checked(&place, &format!("feed = {name:?}"), "");
        assert!(checked.config.is_none(), "{name}");
        let told = findings(&checked, "error: group[0].feed: ");
        assert!(told.len() == 1 && told[0].contains(found), "{name}: {:?}", checked.findings);
        assert!(FeedWriter::open(place.join(name)).is_err(), "{name}: and a start refuses it");
    }
    // What a start makes, and what it takes over, also while another writes it: that is the supervisor of before.
    let below = place.join("new/below/main.feed");
    for _ in 0..2 {
        assert!(checked(&place, "feed = \"new/below/main.feed\"", "").config.is_some());
        assert!(!place.join("new").exists() || below.exists(), "a look makes nothing");
        let writer = FeedWriter::open(&below).unwrap();
        assert!(checked(&place, "feed = \"new/below/main.feed\"", "").config.is_some());
        drop(writer);
    }
}
