//! What `check` says of reports.

use std::path::Path;
use std::time::Duration;

use broker_failover::engine::Silence;
use broker_failover::report::{Report, VERSION};
use broker_failover::supervisor::config::{Checked, ProbeKind, ReportConfig, effective, parse};

/// A file that is accepted without a warning; `supervisor`, `group`, `policy` and `report` are more keys.
fn file(supervisor: &str, group: &str, policy: &str, report: &str) -> Checked {
    parse(&text(supervisor, group, policy, report), Path::new("/nowhere"))
}

fn text(supervisor: &str, group: &str, policy: &str, report: &str) -> String {
    let hooks: String = ["fence", "switch", "reconcile", "halt"]
        .map(|stage| format!("{stage} = {{ command = [\"true\"], timeout = \"2s\" }}\n"))
        .concat();
    let endpoint = |name: &str, more: &str| {
        format!(
            "[[group.endpoint]]\nname = \"{name}\"\nregion = \"r\"\nurl = \"fix://127.0.0.1:{}\"\n{more}\n\
             probe = {{ report = {{ {report} }} }}\n",
            name.len()
        )
    };
    format!(
        "[supervisor]\nsocket = \"s\"\njournal = \"j\"\n{supervisor}\n[[group]]\nname = \"main\"\n\
         exclusivity = \"unknown\"\nrequired_depth = \"reachable\"\n{group}\n[group.policy]\n\
         {policy}\n{}{}[group.hooks]\n{hooks}",
        endpoint("east", "primary = true"),
        endpoint("north", "priority = 10"),
    )
}

const STATED: &str = "silence = \"failure\"";
const HEARTBEAT: &str = "max_heartbeat_age = \"20s\"";

fn findings(checked: &Checked) -> Vec<String> {
    checked.findings.iter().map(|one| format!("{}: {}; {}", one.key, one.found, one.expected)).collect()
}

#[test]
fn what_is_not_stated_has_its_default() {
    let checked = file("", "", STATED, HEARTBEAT);
    assert_eq!(findings(&checked), [""; 0]);
    let config = checked.config.unwrap();
    let group = &config.groups[0];
    let expected = ReportConfig {
        max_silence: Duration::from_secs(2),
        max_heartbeat_age: Duration::from_secs(20),
        min_answers: 0,
        unknown_share: 0.5,
        silence: Silence::Failure,
    };
    assert_eq!(group.endpoints[0].probes[0].kind, ProbeKind::Report(expected));
    assert_eq!(group.follow_within, Duration::from_secs(2));
    assert_eq!((config.supervisor.report_socket, config.supervisor.report_users), (None, Vec::new()));
    let values = effective(&text("", "", STATED, HEARTBEAT), Path::new("/nowhere"));
    let value = |key: &str| values.iter().find(|one| one.key == key).map(|one| one.value.clone());
    assert_eq!(value("group[0].endpoint[0].probe.report.max_silence").as_deref(), Some("2s"));
    // A path whose peer falls silent is DOWN when its heartbeat is too old, it is reported, and then as ever.
    let detection = config.groups[0].detection();
    assert_eq!((detection.refused.1.as_millis(), detection.hung.1.as_millis()), (1500, 2300 + 22_000));
}

#[test]
fn silence_that_is_left_to_the_default_is_warned_of() {
    let checked = file("", "", "", HEARTBEAT);
    assert!(checked.config.is_some());
    assert_eq!(
        findings(&checked),
        [
            "group[0].policy.silence: silence is not stated, and gateways report east, north: one that stops reporting will \
             be no evidence, noted after 30s and moving nobody; \"note\", if that is meant, or \"failure\": then the path \
             is left"
        ]
    );
    assert_eq!(findings(&file("", "", "silence = \"note\"", HEARTBEAT)), [""; 0]);
}

#[test]
fn times_that_do_not_go_together_are_warned_of_or_refused() {
    let found = |report: &str| findings(&file("", "", STATED, report));
    // The default fits 30 s heartbeats, and the path counts as working for all of it.
    let long = "group[0].endpoint[0].probe.report.max_heartbeat_age: a session on which nothing comes in counts as \
                working for 60s, longer than max_health_age (30s); two of the broker's intervals of heartbeats, and no more";
    assert_eq!((found("").len(), &*found("")[0]), (2, long));
    let short = found("max_heartbeat_age = \"900ms\"");
    assert!(short[0].contains("max_heartbeat_age: 900ms is shorter than interval (1s)"), "{short:?}");
    let silence = found("max_silence = \"31s\", max_heartbeat_age = \"20s\"");
    assert!(silence[0].contains("report.max_silence: 31s is longer than max_health_age"), "{silence:?}");
    let hasty = file("", "", STATED, "max_silence = \"1999ms\", max_heartbeat_age = \"20s\"");
    assert!(hasty.config.is_none());
    assert_eq!(
        findings(&hasty)[0],
        "group[0].endpoint[0].probe.report.max_silence: 1.999s is less than 2 x interval (1s); at least 2s"
    );
    let rto = file("", "rto = \"20s\"", STATED, HEARTBEAT);
    assert!(rto.config.is_none());
    assert!(findings(&rto)[0].contains(" + max_heartbeat_age and max_silence 22s)"), "{:?}", findings(&rto));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |supervisor: &str, report: &str| {
        let checked = file(supervisor, "", STATED, report);
        assert!(checked.config.is_none());
        findings(&checked)
    };
    let users = refused("report_users = [\"root\"]", HEARTBEAT);
    assert!(
        users[0].starts_with("supervisor.report_users: users without a report_socket; report_socket too"),
        "{users:?}"
    );
    let nobody = refused("report_socket = \"r\"\nreport_users = [\"no such user\"]", HEARTBEAT);
    assert_eq!(nobody[0], "supervisor.report_users: \"no such user\"; a user's number, or a name that /etc/passwd has");
    assert!(refused("", "max_heartbeat_age = \"0s\"")[0].contains("max_heartbeat_age: zero"));
    assert!(refused("", "unknown_share = 1.1")[0].contains("a number from 0 to 1"));
    assert!(refused("", "min_acks = 1")[0].contains("an unknown key; one of: max_silence"));
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml")).unwrap();
    let (before, rest) = text.split_once("probe = ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    let twice = format!("{before}probe = [{{ report = {{}} }}, {{ report = {{}} }}]\n{after}");
    let checked = parse(&twice, Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs")));
    assert!(checked.config.is_none());
    assert!(
        findings(&checked).iter().any(|one| one.contains("2 report probes; one at most")),
        "{:?}",
        findings(&checked)
    );
}

#[test]
fn the_documented_report_is_one() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/references/gateway-report.md")).unwrap();
    let (_, rest) = text.split_once("```json\n").unwrap();
    let (line, _) = rest.split_once('\n').unwrap();
    let inside = line.strip_prefix("{\"report\":").and_then(|rest| rest.strip_suffix('}')).unwrap();
    let report: Report = serde_json::from_str(inside).unwrap();
    assert_eq!((report.version, report.session.name(), report.latency_us), (VERSION, "up", Some(3150)));
    assert_eq!(serde_json::json!({ "report": report }), serde_json::from_str::<serde_json::Value>(line).unwrap());
}

#[test]
fn users_are_known_by_name_or_number() {
    let checked = file("report_socket = \"r\"\nreport_users = [\"root\", \"1234\"]", "", STATED, HEARTBEAT);
    let supervisor = checked.config.unwrap().supervisor;
    assert_eq!(supervisor.report_users, [0, 1234]);
    assert_eq!(supervisor.report_socket.as_deref(), Some(Path::new("/nowhere/r")));
}
