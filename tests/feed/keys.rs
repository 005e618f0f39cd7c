//! The feed's keys in the configuration.

use std::path::Path;
use std::time::Duration;

use broker_failover::feed::{Terms, WhenStale};
use broker_failover::supervisor::config::{Checked, effective, parse};

use crate::file::Folder;

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
    std::fs::write(folder.feed(), "something else").unwrap();
    assert!(warned(place, "feed = \"main.feed\"", "found 14 bytes; expected 64 bytes"));
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place, open).unwrap();
    assert!(warned(place, "feed = \"other.feed\"", "others may write in"));
    assert!(!warned(memory, "feed = \"x\"", "others may write in"), "what is there belongs to its owner");
}
