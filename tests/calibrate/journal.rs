//! The supervisor's own journal as a history.

use std::sync::Arc;
use std::time::Duration;

use broker_failover::engine::{Endpoint, Engine, Input, Policy, PolicySettings, ProbeResult, RestartKind, Timestamp};
use broker_failover::scenario::config_line;
use broker_failover::supervisor::journal::{Body, Checkpoint, ConfigRecord, Entry, Journal, Options};

use super::{Folder, json, refusal};

fn engine() -> Engine {
    let mut engine = Engine::new(Policy::new(PolicySettings::default()).unwrap());
    engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).unwrap();
    engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).unwrap();
    engine
}

/// A run of the supervisor: a probe of both endpoints every so many milliseconds; of the first `x` fails, of the second `m` is in maintenance
/// and fails.
fn run(folder: &Folder, millis: u64, east: &str, west: &str) {
    let name = "main";
    let mut options = Options::new(folder.0.join("journal"), "hash");
    // Small segments, so that there are several.
    options.segment_size = 8_192;
    let (journal, recovered) = Journal::open(options, Timestamp::ZERO).unwrap();
    let (handle, group) = (journal.handle(), Arc::<str>::from(name));
    let mut now = 0;
    let at = Timestamp::from_nanos;
    let known = recovered.groups.get(name);
    let mut engine = match known {
        Some(known) => {
            Engine::restore(engine().policy().clone(), known.snapshot.clone(), at(now), RestartKind::Monitor).unwrap()
        }
        None => engine(),
    };
    let line = config_line(engine.policy(), engine.endpoints().map(|(_, endpoint)| endpoint));
    handle.append(Entry::of(&group, at(now), Body::Config(ConfigRecord { line, hash: "hash".to_owned() }))).unwrap();
    if known.is_some() {
        let snapshot = Checkpoint::of(engine.snapshot(at(now)));
        handle.append(Entry::of(&group, at(now), Body::Snapshot(Box::new(snapshot)))).unwrap();
    }
    let mut tell = |input: Input, now: u64| {
        let result = engine.apply(at(now), input.clone());
        handle.append(Entry::input(&group, at(now), input, &result)).unwrap();
    };
    let mut resting = false;
    for (first, second) in east.chars().zip(west.chars()) {
        if (second == 'm') != resting {
            resting = !resting;
            tell(Input::Maintenance { endpoint: "west".to_owned(), on: resting }, now);
        }
        let result = |ok: bool| if ok { ProbeResult::Success } else { ProbeResult::FAILED };
        tell(Input::Probe { endpoint: "east".to_owned(), result: result(first == '.') }, now);
        tell(Input::Probe { endpoint: "west".to_owned(), result: result(second == '.') }, now);
        now += millis * 1_000_000;
    }
    journal.close(at(now), "the end").unwrap();
}

#[test]
fn a_journal_is_read_as_its_supervisor_saw_it_maintenance_left_out() {
    let folder = Folder::new("journal");
    let east = format!("{}xxx{}x{}", ".".repeat(40), ".".repeat(40), ".".repeat(16));
    let west = format!("{}mmmmm{}", ".".repeat(50), ".".repeat(45));
    run(&folder, 1_000, &east, &west);
    let journal = folder.0.join("journal");
    let report = json(&journal, &["--group", "main"]);
    assert_eq!((&report["reading"]["format"], &report["reading"]["rows"]), (&"journal".into(), &195.into()));
    let path = |index: usize| &report["endpoints"][index];
    assert_eq!((&path(0)["endpoint"], &path(0)["interval_seconds"]), (&"east".into(), &1.0.into()));
    assert_eq!(
        (&path(0)["blips"]["count"], &path(0)["failed"], &path(0)["gaps"]["count"]),
        (&2.into(), &4.into(), &0.into())
    );
    assert_eq!(
        (&path(1)["failed"], &path(1)["gaps"]["count"], &path(1)["gaps"]["seconds"]),
        (&0.into(), &1.into(), &6.0.into())
    );
    // Without a group the endpoints say whose they are.
    assert_eq!(json(&journal, &[])["endpoints"][0]["endpoint"], "main/east");
    assert_eq!(refusal(&journal, &["--group", "other"]), ": holds no result of a probe of group \"other\"");
    assert!(refusal(&journal, &["--timestamp-unit", "s"]).contains("a journal has no columns with a unit"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the wall clock has to go on")]
fn the_time_between_two_runs_of_the_supervisor_is_a_gap() {
    let folder = Folder::new("runs");
    run(&folder, 1, &".".repeat(30), &".".repeat(30));
    std::thread::sleep(Duration::from_millis(200));
    run(&folder, 1, &".".repeat(60), &".".repeat(60));
    let report = json(&folder.0.join("journal"), &["--endpoint", "main/east"]);
    let path = &report["endpoints"][0];
    assert_eq!((&path["samples"], &path["gaps"]["count"]), (&90.into(), &1.into()));
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!((number(&path["covered_seconds"]) - 0.088).abs() < 1e-9, "{path}");
    assert!(number(&path["gaps"]["seconds"]) > 0.15, "{path}");
}

#[test]
fn a_journal_that_is_damaged_is_refused_with_the_segment_and_the_line() {
    let folder = Folder::new("damage");
    run(&folder, 1_000, &".".repeat(60), &".".repeat(60));
    let journal = folder.0.join("journal");
    let first = journal.join("00000000000000000001.jsonl");
    let text = std::fs::read_to_string(&first).unwrap().replacen("\"ok\":true", "\"ok\":trux", 1);
    let line = text.lines().position(|line| line.contains("trux")).unwrap() + 1;
    std::fs::write(&first, text).unwrap();
    let found = refusal(&journal, &[]);
    let expected = format!("/00000000000000000001.jsonl:{line}: the checksum of the line is not that of what it says");
    assert_eq!(found, expected);
}

/// A configuration of the group that is in the journal.
const REPLAYED: &str = r#"
[supervisor]
socket = "s"
journal = "j"
[[group]]
name = "main"
hooks = { fence = { command = ["true"], timeout = "1s", proves = "stopped" } }
[[group.endpoint]]
name = "east"
region = "us-east-1"
url = "tcp://127.0.0.1:1"
primary = true
probe = { tcp = {} }
[[group.endpoint]]
name = "west"
region = "us-west-2"
url = "tcp://127.0.0.1:2"
priority = 10
probe = { tcp = {} }
"#;

#[test]
fn no_page_is_written_into_the_journal_that_is_read() {
    let folder = Folder::new("page-inside");
    run(&folder, 1_000, &".".repeat(20), &".".repeat(20));
    let journal = folder.0.join("journal");
    let before = std::fs::read_dir(&journal).unwrap().count();
    for page in [journal.join("report.html"), journal.join("../journal/report.html")] {
        let said = refusal(&journal, &["--html", page.to_str().unwrap()]);
        let expected = format!("is in a folder that is an input, {}, and nothing was written", journal.display());
        assert!(said.contains(&expected), "{said}");
    }
    assert_eq!(std::fs::read_dir(&journal).unwrap().count(), before);
    let beside = folder.0.join("report.html");
    json(&journal, &["--html", beside.to_str().unwrap()]);
    assert!(beside.exists());
}

#[test]
fn a_journal_is_replayed_with_its_group_and_told_which_there_are() {
    let folder = Folder::new("replay-group");
    run(&folder, 1_000, &".".repeat(20), &".".repeat(20));
    let journal = folder.0.join("journal");
    let other = folder.file("other.toml", REPLAYED.replace("name = \"main\"", "name = \"other\""));
    assert_eq!(
        refusal(&journal, &["--replay", other.to_str().unwrap()]),
        ": without --group its endpoints go as GROUP/ENDPOINT, and group \"other\" of the configuration has none of these; \
         expected --group with one of the journal's groups: \"main\""
    );
    let config = folder.file("broker.toml", REPLAYED);
    let config = config.to_str().unwrap();
    let stated = json(&journal, &["--replay", config, "--group", "main"]);
    assert_eq!(stated["replay"]["group"], "main");
    assert_eq!(json(&journal, &["--replay", config]), stated, "the configuration's own need not be stated");
}
