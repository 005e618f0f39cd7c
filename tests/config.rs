//! The supervisor's configuration file.
#![cfg(feature = "supervisor")]

use std::path::Path;
use std::time::Duration;

use broker_failover::engine::{Policy, PolicySettings, Silence, Trigger, TriggerRule};
use broker_failover::supervisor::config::{Require, Severity, effective, json_schema, load, load_plan, parse};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs");

fn example() -> String {
    std::fs::read_to_string(format!("{FOLDER}/example.toml")).unwrap()
}

/// The findings of the example with `from` replaced by `to`, as text.
fn findings(from: &str, to: &str, severity: Severity) -> Vec<String> {
    let text = example();
    assert!(text.contains(from), "{from}");
    let checked = parse(&text.replacen(from, to, 1), Path::new(FOLDER));
    assert_eq!(checked.config.is_none(), checked.findings.iter().any(|finding| finding.severity == Severity::Error));
    checked.findings.iter().filter(|finding| finding.severity == severity).map(ToString::to_string).collect()
}

fn error(from: &str, to: &str) -> String {
    let found = findings(from, to, Severity::Error);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

#[test]
fn the_example_is_accepted_as_it_stands() {
    let checked = load(&Path::new(FOLDER).join("example.toml")).unwrap();
    let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings));
    let group = &config.groups[0];
    assert_eq!(group.policy, Policy::default());
    assert!(config.supervisor.socket.ends_with("tests/configs/state/control.sock"));
    let warnings: Vec<_> = checked.findings.iter().map(|finding| (finding.line, &*finding.key)).collect();
    let unstated = ["exclusivity", "required_depth"].map(|key| (6, format!("group[0].{key}")));
    let warnings: Vec<_> = warnings.into_iter().map(|(line, key)| (line, key.to_owned())).collect();
    assert_eq!(warnings[..2], unstated);
    assert_eq!(warnings[2..], [(26, "group[0].endpoint[1].probe".to_owned())]);
    let detection = group.detection();
    assert_eq!(detection.refused.1.as_millis(), 1500);
    assert_eq!(detection.hung.1.as_millis(), 2300);
}

#[test]
fn the_defaults_of_the_file_are_the_defaults_of_the_engine() {
    let text = example().replace("failure_threshold = 3\ncooldown = \"60s\"\n", "");
    let checked = parse(&text, Path::new(FOLDER));
    assert_eq!(checked.config.unwrap().groups[0].policy.settings(), &PolicySettings::default());
}

/// The example with a shadow policy of these keys.
fn shadowed(keys: &str) -> String {
    example().replacen("[group.probing]", &format!("[group.shadow]\n{keys}\n[group.probing]"), 1)
}

#[test]
fn a_shadow_is_the_policy_but_for_the_keys_that_it_states() {
    let shadow = |text: &str| {
        let checked = parse(text, Path::new(FOLDER));
        let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings));
        config.groups[0].shadow.clone().unwrap().settings().clone()
    };
    let default = PolicySettings::default();
    let mut text = shadowed("failure_threshold = 2\nrequire_fence = false");
    let expected = PolicySettings { failure_threshold: 2, require_fence: false, ..default.clone() };
    assert_eq!(shadow(&text), expected);
    // The group's own values, not the defaults.
    text = text.replacen("cooldown = \"60s\"", "cooldown = \"5s\"\nsilence = \"failure\"\nhistory_limit = 7", 1);
    let group = PolicySettings { silence: Silence::Failure, history_limit: 7, ..expected };
    assert_eq!(shadow(&text), PolicySettings { cooldown: Duration::from_secs(5), ..group });
    // A trigger and a threshold are one choice.
    let window = TriggerRule::Window(Duration::from_secs(9));
    let trigger = |rule| Trigger::new(rule).ok();
    for (policy, keys, expected) in [
        ("failure_threshold = 3", "trigger = { window = \"9s\" }", (3, trigger(window))),
        ("failure_threshold = 3", "trigger = { consecutive = 4 }", (4, trigger(TriggerRule::Consecutive(4)))),
        ("trigger = { window = \"9s\" }", "failure_threshold = 4", (4, None)),
        ("trigger = { window = \"9s\" }", "cooldown = \"1s\"", (3, trigger(window))),
    ] {
        let found = shadow(&shadowed(keys).replacen("failure_threshold = 3", policy, 1));
        assert_eq!((found.failure_threshold, found.trigger), expected, "{policy}, {keys}");
    }
}

#[test]
fn a_shadow_is_checked_as_the_policy_is() {
    let said = |keys: &str| {
        let checked = parse(&shadowed(keys), Path::new(FOLDER));
        let said: Vec<_> = checked.findings.iter().map(ToString::to_string).collect();
        (checked.config.is_none(), said.join("\n"))
    };
    for (keys, refused, expected) in [
        ("cooldwn = 1", true, "group[0].shadow.cooldwn: an unknown key; expected one of: failure_threshold"),
        ("cooldown = 60", true, "12:12: error: group[0].shadow.cooldown: found 60; expected a duration"),
        (
            "trigger = { failures = 4, of = 3 }",
            true,
            "group[0].shadow.trigger.failures: failures is 4; expected at most",
        ),
        (
            "cooldown_max = \"1s\"",
            true,
            "group[0].shadow: cooldown_max is 1s; expected at least cooldown, which is 60s",
        ),
        ("cooldown = \"60s\"", false, "warning: group[0].shadow: the same as policy: it will never differ"),
        ("max_health_age = \"1s\"", false, "group[0].shadow.max_health_age: 1s is not comfortably above"),
    ] {
        let (is_refused, said) = said(keys);
        assert!(is_refused == refused && said.contains(expected), "{keys}: {said}\nexpected {expected}");
    }
}

#[test]
fn a_trigger_is_that_of_the_policy_or_the_endpoints_own() {
    let text = example()
        .replace("failure_threshold = 3\n", "trigger = { consecutive = 5 }\n")
        .replace("priority = 10\n", "priority = 10\ntrigger = { window = \"2s\" }\n");
    let config = parse(&text, Path::new(FOLDER)).config.unwrap();
    let group = &config.groups[0];
    let rules = (group.policy.trigger().rule(), group.endpoints[1].endpoint.trigger.map(Trigger::rule));
    assert_eq!(rules, (TriggerRule::Consecutive(5), Some(TriggerRule::Window(Duration::from_secs(2)))));
    assert_eq!((group.policy.settings().failure_threshold, group.endpoints[0].endpoint.trigger), (5, None));
    // Five in a row are four quarters of a second after the first; a window of two seconds is eight.
    let detection = group.detection();
    assert_eq!((detection.refused.0.as_millis(), detection.refused.1.as_millis()), (1000, 3000));
}

#[test]
fn every_error_says_where_what_and_what_would_be_right() {
    let cases = [
        (
            "cooldown = \"60s\"",
            "cooldown = 60",
            "10:12: error: group[0].policy.cooldown: found 60; expected a duration",
        ),
        (
            "cooldown",
            "cooldwn",
            "10:1: error: group[0].policy.cooldwn: an unknown key; expected one of: failure_threshold",
        ),
        (
            "failure_threshold = 3",
            "failure_threshold = 0",
            "9:21: error: group[0].policy.failure_threshold: found 0; expected an integer from 1",
        ),
        (
            "priority = 10",
            "priority = -1",
            "25:12: error: group[0].endpoint[1].priority: found -1; expected an integer from 0",
        ),
        (
            "url = \"tcp://127.0.0.1:18082\"",
            "url = \"tcp://user:secret@127.0.0.1\"",
            "24:7: error: group[0].endpoint[1].url: \"tcp://...@127.0.0.1\"; expected tcp://",
        ),
        (
            "probe = { tcp = {} }",
            "probe = { tcp = {}, exec = { command = [\"true\"] } }",
            "26:9: error: group[0].endpoint[1].probe: 2 kinds; expected exactly one of",
        ),
        ("primary = true\n", "", "error: group[0]: none of 2 endpoints is primary"),
        (
            "name = \"west\"",
            "name = \"east\"",
            "error: group[0].endpoint[1]: an endpoint called \"east\" is already registered",
        ),
        ("./fence.sh", "./no-such-file", "error: group[0].hooks.fence.command: \"./no-such-file\" is not a file"),
        (
            "webhook = \"http:",
            "webhook = \"https:",
            "error: group[0].hooks.switch.webhook: \"https://127.0.0.1:18090/switch\"; expected an http://",
        ),
        (
            "timeout  = \"800ms\"",
            "timeout = \"0s\"",
            "error: group[0].probing.timeout: zero; expected a duration above zero",
        ),
        ("interval_when_failing = \"250ms\"", "interval_when_failing = \"2s\"", "longer than interval"),
        ("mode = \"automatic\"", "mode = \"sometimes\"", "found \"sometimes\"; expected \"automatic\" or \"manual\""),
        ("listen  = \"127.0.0.1:9464\"", "listen = \"here\"", "2:10: error: supervisor.listen: not an address"),
        (
            "cooldown = \"60s\"",
            "trigger = { window = \"60s\", failures = 3 }",
            "10:11: error: group[0].policy.trigger: window with failures; expected \"consecutive\" alone",
        ),
        (
            "cooldown = \"60s\"",
            "trigger = { failures = 4, of = 3 }",
            "group[0].policy.trigger.failures: failures is 4; expected at most of, which is 3",
        ),
        ("cooldown = \"60s\"", "trigger = { window = \"0s\" }", "trigger.window: window is 0ns; expected 1ns to"),
        (
            "cooldown = \"60s\"",
            "trigger = { consecutive = 4 }",
            "group[0].policy: consecutive is 4; expected failure_threshold, which is 3",
        ),
        (
            "cooldown = \"60s\"",
            "minimum_history = 2",
            "group[0].policy: minimum_history is 2; expected at least 3, which the trigger needs",
        ),
        ("priority = 10", "trigger = {}", "group[0].endpoint[1].trigger: no key; expected \"consecutive\" alone"),
        (
            "journal = \"state/journal\"",
            "",
            "supervisor.journal: the key is missing; expected a value: Folder of the journal",
        ),
    ];
    for (from, to, expected) in cases {
        let error = error(from, to);
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

/// The findings at the group's `rto`, with the example otherwise as it is but for one replacement.
fn rto(rto: &str, from: &str, to: &str) -> Vec<String> {
    let text = example().replacen("name = \"main-account\"", &format!("name = \"main-account\"\nrto = {rto:?}"), 1);
    assert!(text.contains(from), "{from}");
    let checked = parse(&text.replacen(from, to, 1), Path::new(FOLDER));
    let at_rto: Vec<_> = checked.findings.iter().filter(|finding| finding.key == "group[0].rto").collect();
    assert_eq!(checked.config.is_none(), !at_rto.is_empty(), "{:#?}", checked.findings);
    at_rto.into_iter().map(ToString::to_string).collect()
}

#[test]
fn a_recovery_time_that_the_settings_cannot_keep_is_refused_with_what_would_meet_it() {
    // Detection 2.3 s, fence 2 s, switch 2 s, reconcile 30 s.
    assert_eq!(rto("36300ms", "", ""), [""; 0]);
    assert_eq!(
        rto("36299ms", "", ""),
        [
            "8:7: error: group[0].rto: 36.299s cannot be met: at worst 36.3s, of which detection 2.3s (interval 1s + 2 x \
          interval_when_failing 250ms + timeout 800ms) + fence 2s + switch 2s + reconcile 30s; expected at least 36.3s, or \
          shorter deadlines of hooks, or failure_threshold at most 2, or interval at most 999ms and \
          interval_when_failing in proportion"
        ]
    );
    // What would meet it does.
    assert_eq!(rto("36299ms", "failure_threshold = 3", "failure_threshold = 2"), [""; 0]);
    assert_eq!(rto("36299ms", "timeout = \"30s\" }", "timeout = \"29s\" }"), [""; 0]);
    // Where the hooks alone take longer, no way of probing helps.
    let hooks = rto("34s", "", "").concat();
    assert!(hooks.ends_with("expected at least 36.3s, or shorter deadlines of hooks"), "{hooks}");
    assert!(rto("0s", "", "").concat().contains("zero; expected a duration above zero"));
}

#[test]
fn a_recovery_that_waits_for_a_person_or_ends_in_a_halt_meets_no_recovery_time() {
    let cases = [
        ("fence     = { command = [\"./fence.sh\"], timeout = \"2s\" }", "", "there is no fence hook"),
        ("reconcile = { command = [\"./reconcile.sh\"], timeout = \"30s\" }", "", "there is no reconcile hook"),
        ("[group.hooks]", "[group.hooks]\nmax_hold = \"33s\"", "the hooks may take 34s, and max_hold halts after 33s"),
    ];
    for (from, to, expected) in cases {
        let found = rto("1h", from, to).concat();
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert_eq!(rto("1h", "[group.hooks]", "[group.hooks]\nmax_hold = \"34s\""), [""; 0]);
    assert_eq!(rto("1h", "cooldown = \"60s\"", "require_reconciliation = true"), [""; 0]);
}

#[test]
fn a_freeze_that_is_awaited_belongs_to_the_recovery() {
    let flow = "[group.hooks]\nflow = { command = [\"true\"], timeout = \"1s\" }\n#";
    assert_eq!(rto("37300ms", "[group.hooks]", flow), [""; 0]);
    assert!(rto("37299ms", "[group.hooks]", flow).concat().contains("+ flow 1s + fence 2s"));
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = example().replace("cooldown = \"60s\"", "cooldown = 60\nx = 1").replace("./halt.sh", "./gone");
    let checked = parse(&text, Path::new(FOLDER));
    let lines: Vec<_> = checked.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| &*f.key).collect();
    assert_eq!(lines, ["group[0].policy.cooldown", "group[0].policy.x", "group[0].hooks.halt.command"]);
    let broken = parse("a = \n[supervisor\n", Path::new(FOLDER));
    assert!(broken.config.is_none() && broken.findings.len() >= 2);
}

/// A sound file with every kind of probe and of session, one key a line.
const RICH: &str = r#"
[supervisor]
listen = "127.0.0.1:9464"
socket = "s"
report_socket = "r"
report_users = ["0"]
journal = "j"
[[budget]]
name = "address"
requests = 900
logons = 900
per = "1s"
[[group]]
name = "main"
exclusivity = "dual-live"
required_depth = "reachable"
rto = "1h"
follow_within = "10s"
feed = "feed"
feed_valid_for = "5s"
feed_when_stale = "hold"
[group.policy]
failure_threshold = 3
cooldown = "60s"
cooldown_max = "90s"
max_health_age = "1m"
require_fence = true
resume_after_halt = "operator"
[group.shadow]
cooldown = "61s"
[group.probing]
interval = "1s"
interval_when_failing = "250ms"
timeout = "800ms"
jitter = 0.1
[group.failback]
mode = "manual"
[group.hooks]
max_hold = "30m"
[group.hooks.fence]
command = ["true"]
timeout = "2s"
idempotent = true
proves = "it is out"
[group.hooks.switch]
webhook = "http://127.0.0.1:1/"
timeout = "2s"
[group.hooks.reconcile]
command = ["true"]
timeout = "2s"
[[group.endpoint]]
name = "east"
region = "r"
account = "U1"
url = "wss://127.0.0.1:1"
primary = true
shared_fate = ["isp"]
require = "any"
budget = "address"
cancel_on_disconnect = "none"
trigger = { consecutive = 3 }
[group.endpoint.probe.websocket]
path = "/"
headers = { key = "k" }
subscribe = "s"
expect_message = "m"
proves = "authenticated"
identity = "own"
credential = "c"
slow_after = "1s"
[group.endpoint.watch]
confirm_spacing = "20ms"
ping_interval = "1s"
[group.endpoint.watch.websocket]
path = "/"
headers = { key = "k" }
[[group.endpoint]]
name = "west"
region = "r"
account = "U1"
url = "https://127.0.0.1:1"
priority = 10
[[group.endpoint.probe]]
[group.endpoint.probe.http]
path = "/"
method = "POST"
headers = { key = "k" }
expect_status = [200]
expect_body = "ok"
account_pointer = "/id"
proves = "order-path"
budget = "address"
[[group.endpoint.probe]]
[group.endpoint.probe.exec]
command = ["true"]
competing_session_exit = 3
[[group.endpoint.probe]]
[group.endpoint.probe.report]
max_silence = "3s"
max_heartbeat_age = "40s"
min_answers = 3
unknown_share = 0.5
[[group.endpoint]]
name = "north"
region = "r"
account = "U1"
url = "fix://127.0.0.1:1"
priority = 20
[group.endpoint.probe.fix]
version = "FIXT.1.1"
sender_comp_id = "A"
target_comp_id = "B"
username = "u"
password = "p"
heart_beat_interval = "30s"
reset_on_logon = "always"
default_appl_ver_id = "9"
sequence_file = "q"
relogon_wait = "1s"
relogon_wait_max = "2s"
account_tag = 1
logon_fields = { 1 = "x" }
competing_session_text = ["other"]
"#;

/// Places and keys of the errors of a file.
fn errors(text: &str) -> Vec<(usize, String)> {
    let all = parse(text, Path::new("")).findings;
    let errors = all.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| (finding.line, format!("{}: {}", finding.key, finding.found))).collect()
}

#[test]
fn a_value_of_the_wrong_kind_is_one_error_whatever_it_is_of() {
    assert_eq!(errors(RICH), []);
    let lines: Vec<_> = RICH.lines().collect();
    let mut tried = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once(" = ") else { continue };
        for wrong in ["[[]]", "1979-05-27"] {
            let wrong = format!("{key} = {wrong}");
            let mut text = lines.clone();
            text[at] = &wrong;
            let found = errors(&text.join("\n"));
            assert!(matches!(&found[..], [(line, _)] if *line == at + 1), "{wrong}: {found:#?}");
        }
        tried += 1;
    }
    assert!(tried > 80);
}

#[test]
fn a_value_of_the_wrong_kind_hides_nothing_that_is_wrong_beside_it() {
    for (kind, other) in [
        (("socket = \"s\"", "socket = 5"), ("127.0.0.1:9464", "here")),
        (("requests = 900", "requests = true"), ("per = \"1s\"", "per = \"0s\"")),
        (("exclusivity = \"dual-live\"", "exclusivity = 1"), ("rto = \"1h\"", "rto = \"0s\"")),
        (("name = \"main\"", "name = 1"), ("max_hold = \"30m\"", "max_hold = \"0s\"")),
        (("cooldown = \"60s\"", "cooldown = 60"), ("max_health_age = \"1m\"", "max_health_age = \"0s\"")),
        (("cooldown = \"60s\"", "cooldown = 60"), ("trigger = { consecutive = 3 }", "trigger = { failures = 3 }")),
        (("interval = \"1s\"", "interval = 1"), ("timeout = \"800ms\"", "timeout = \"0s\"")),
        (("timeout = \"2s\"", "timeout = 2"), ("[\"true\"]", "[\"./gone\"]")),
        (("[\"true\"]", "\"true\""), ("timeout = \"2s\"", "timeout = \"0s\"")),
        (("region = \"r\"", "region = 1"), ("wss://127.0.0.1:1", "ftp://127.0.0.1:1")),
        (("url = \"wss://127.0.0.1:1\"", "url = 1"), ("name = \"east\"", "name = \"ea\\u202Est\"")),
        (("path = \"/\"", "path = 1"), ("expect_message = \"m\"", "expect_message = \" \"")),
        (("confirm_spacing = \"20ms\"", "confirm_spacing = 20"), ("ping_interval = \"1s\"", "ping_interval = \"1ms\"")),
        (("method = \"POST\"", "method = 1"), ("account_pointer = \"/id\"", "account_pointer = \"id\"")),
        (("version = \"FIXT.1.1\"", "version = 5"), ("relogon_wait = \"1s\"", "relogon_wait = \"0s\"")),
        (("account_tag = 1", "account_tag = \"1\""), ("relogon_wait = \"1s\"", "relogon_wait = \"3s\"")),
    ] {
        let replaced = |text: &str, (from, to): (&str, &str)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        };
        let found = errors(&replaced(&replaced(RICH, kind), other));
        // (A url is told once by the probe, and once by the session.)
        let mut lines: Vec<_> = found.iter().map(|(line, _)| line).collect();
        lines.dedup();
        assert_eq!(lines.len(), 2, "{kind:?} {other:?}: {found:#?}");
    }
    // Of an array of tables, those that are tables are read.
    let text = "[supervisor]\nsocket = \"s\"\njournal = \"j\"\nbudget = 1\n[[group]]\nname = \"main\"\n\
                endpoint = [5, { name = \"east\", region = \"r\", url = \"ftp://x\", probe = { tcp = {} } }]\n";
    let found = errors(text);
    let told = ["supervisor.budget: an unknown key", "endpoint[0]: found 5", "endpoint[1].url: \"ftp://x\""];
    assert!(told.iter().all(|told| found.iter().any(|(_, found)| found.contains(told))), "{found:#?}");
}

#[test]
fn what_is_legal_but_dangerous_is_a_warning() {
    let cases = [
        (
            "name = \"main-account\"\n[group.policy]",
            "name = \"main-account\"\nexclusivity = \"last-login-wins\"\n[group.policy]\nrequire_fence = false",
            "policy.require_fence",
        ),
        ("cooldown = \"60s\"", "max_health_age = \"2s\"", "policy.max_health_age"),
        ("priority = 10\n", "", "endpoint[1].priority"),
        ("priority = 10", "priority = 20", "endpoint[1].probe: a bare TCP probe"),
        ("tcp://127.0.0.1:18082", "tcp://localhost:18081", "are one address"),
        ("halt      = { command = [\"./halt.sh\"], timeout = \"2s\" }", "", "no halt hook"),
        ("[\"./halt.sh\"]", "[\"no-such-program\"]", "\"no-such-program\" is in no folder of PATH"),
    ];
    for (from, to, expected) in cases {
        let found = findings(from, to, Severity::Warning);
        assert!(found.iter().any(|warning| warning.contains(expected)), "{expected}: {found:#?}");
    }
}

#[test]
fn authorities_that_expire_soon_are_a_warning_that_names_who_else_trusts_them() {
    let folder = std::env::temp_dir().join(format!("broker-failover-authorities-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut soon = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let days =
        std::time::Duration::from_secs(broker_failover::supervisor::clock::wall() / 1_000_000_000 + 13 * 86_400 + 60);
    soon.not_after = rcgen::date_time_ymd(1970, 1, 1) + days;
    let long = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let pem =
        |params: &rcgen::CertificateParams| params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
    let text = |west: &str| {
        let endpoint = |name: &str, role: &str, file: &str, port: u16| {
            format!(
                "[[group.endpoint]]\nname = \"{name}\"\nregion = \"{name}\"\nurl = \"tls://127.0.0.1:{port}\"\n{role}\n\
                 probe = {{ tls = {{ ca_file = \"{file}\" }} }}\n"
            )
        };
        format!(
            "[supervisor]\nsocket = \"s\"\njournal = \"j\"\n[[group]]\nname = \"main\"\n{}{}",
            endpoint("east", "primary = true", "soon.pem", 1),
            endpoint("west", "priority = 1", west, 2)
        )
    };
    std::fs::write(folder.join("soon.pem"), format!("{}{}", pem(&long), pem(&soon))).unwrap();
    std::fs::write(folder.join("long.pem"), pem(&long)).unwrap();
    let warned = |west: &str| {
        let checked = parse(&text(west), &folder);
        assert!(checked.config.is_some(), "{:?}", checked.findings);
        let found: Vec<_> =
            checked.findings.iter().map(ToString::to_string).filter(|one| one.contains("authority")).collect();
        found
    };
    let [only] = &warned("long.pem")[..] else { panic!("one warning") };
    assert!(only.contains("soon.pem has an authority that expires in 13 days; expected"), "{only}");
    let [east, west] = &warned("soon.pem")[..] else { panic!("two warnings") };
    assert!(east.contains("and west trust it too: one expiry takes these paths together"), "{east}");
    assert!(west.contains("and east trust it too"), "{west}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_that_may_not_be_run_is_an_error() {
    let error = error("./halt.sh", "./example.toml");
    assert!(
        error.contains("halt.command: \"./example.toml\" is not executable; expected a program that exists"),
        "{error}"
    );
}

#[test]
fn values_that_follow_from_others_are_in_force_too() {
    let text = example().replace("interval_when_failing = \"250ms\"", "").replace("max_health_age", "# max_health_age");
    let effective = effective(&text, Path::new(FOLDER));
    let of = |key: &str| effective.iter().find(|one| one.key == key).map(|one| &*one.value);
    assert_eq!(of("group[0].probing.interval_when_failing"), Some("250ms"), "a quarter of 1s");
    assert_eq!(of("group[0].probing.no_evidence_alarm"), Some("30s"));
    assert_eq!(of("group[0].endpoint[0].priority"), Some("0"));
    assert_eq!(of("group[0].policy.minimum_history"), Some("3"));
    assert_eq!(of("group[0].endpoint[1].probe.tcp"), Some("{}"), "a probe of which nothing more is stated");
    assert_eq!((of("group[0].hooks.max_hold"), of("group[0].endpoint[0].require")), (Some("300s"), Some("\"all\"")));
    let keys: Vec<_> = effective.iter().map(|one| &one.key).collect();
    assert!(keys.is_sorted(), "{keys:#?}");
}

#[test]
fn b37_a_lease_is_an_unknown_key_and_no_store_is_asked_before_anything_moves() {
    // Nobody is to believe that a store keeps two supervisors apart while none is asked.
    let store = "store = \"etcd://127.0.0.1:2379\"\nttl = \"10s\"\n";
    for (table, key) in [
        ("[lease]", "lease"),
        ("[supervisor.lease]", "supervisor.lease"),
        ("[group.lease]", "group[0].lease"),
        ("[group.policy.lease]", "group[0].policy.lease"),
        ("[group.failback.lease]", "group[0].failback.lease"),
    ] {
        let text = format!("{}\n{table}\n{store}", example());
        let line = text.lines().position(|line| line == table).unwrap() + 1;
        let checked = parse(&text, Path::new(FOLDER));
        assert!(checked.config.is_none(), "{table}");
        let errors: Vec<_> = checked.findings.iter().filter(|one| one.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!((errors[0].line, &*errors[0].key, &*errors[0].found), (line, key, "an unknown key"));
        assert!(errors[0].expected.starts_with("one of: "), "{:?}", errors[0]);
    }
}

#[test]
fn a_hold_of_five_minutes_is_too_long_and_every_probe_must_succeed_unless_the_file_says_otherwise() {
    let of = |text: &str| {
        let group = parse(text, Path::new(FOLDER)).config.unwrap().groups.remove(0);
        (group.max_hold, group.endpoints[0].require)
    };
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(of(&example()), (minutes(5), Require::All));
    let stated = example()
        .replace("[group.hooks]", "[group.hooks]\nmax_hold = \"7m\"")
        .replace("primary = true", "primary = true\nrequire = \"any\"");
    assert_eq!(of(&stated), (minutes(7), Require::Any));
}

#[test]
fn a_hook_without_a_deadline_is_refused() {
    let timeouts = [("fence", "2s"), ("switch", "2s"), ("reconcile", "30s"), ("halt", "2s")];
    for (hook, timeout) in timeouts {
        let line = example().lines().find(|line| line.starts_with(hook)).unwrap().to_owned();
        let endless = line.replace(&format!(", timeout = \"{timeout}\""), "");
        assert_ne!(line, endless);
        let found = findings(&line, &endless, Severity::Error);
        let what = format!("group[0].hooks.{hook}.timeout: the key is missing; expected a value: Deadline; ");
        assert!(found.len() == 1 && found[0].contains(&what), "{found:?}");
    }
}

#[test]
fn secrets_are_not_told() {
    let text = example()
        .replace("https://127.0.0.1:18081", "https://user:secret@127.0.0.1:18081")
        .replace("path = \"/health\"", "headers = { authorization = \"Bearer secret\" }, path = \"/health\"");
    let checked = parse(&text, Path::new(FOLDER));
    assert!(checked.config.is_some());
    let effective = effective(&text, Path::new(FOLDER));
    assert!(!format!("{effective:?} {:?}", checked.findings).contains("secret"));
}

#[test]
fn the_schema_in_assets_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/config.schema.json");
    let generated = format!("{:#}\n", json_schema());
    let current = std::fs::read_to_string(file).unwrap_or_default() == generated;
    assert!(current, "regenerate it: broker-failover check --schema > assets/config.schema.json");
}

#[test]
fn what_a_start_would_refuse_or_no_hook_could_be_told_is_refused_here() {
    for (from, to, expected) in [
        ("path = \"/health\"", "path = \"/he alth\"", "probe: path \"/he alth\": expected / and then"),
        ("path = \"/health\"", "path = \"/\", headers = { \"a b\" = \"secret\" }", "probe: header \"a b\": the name"),
        ("https://127.0.0.1:18081", "https://user:sec%zz@127.0.0.1:18081", "url: the credentials before the @"),
        ("https://127.0.0.1:18081", "https://user:sec/ret@127.0.0.1:18081", "url: the port is not a number"),
        ("name = \"east\"", "name = \"ea\\u0000st\"", "name: \"ea\\0st\" holds control characters"),
        ("name = \"east\"", "name = \"ea\\nst\"", "name: \"ea\\nst\" holds control characters"),
        ("[\"./fence.sh\"", "[\"./fence.sh\", \"a\\u0000\"", "command: a NUL character"),
    ] {
        let found = error(from, to);
        assert!(found.contains(expected), "{expected}: {found}");
        assert!(!found.contains("sec"), "{found}");
    }
}

#[test]
fn names_hold_nothing_that_nobody_sees_and_no_finding_steers_a_terminal() {
    for hidden in ["\\u202E", "\\u2066", "\\u200B", "\\u2060", "\\u00AD", "\\u2028", "\\uFEFF", "\\U000E0041"] {
        for (from, key) in [
            ("name = \"main-account\"", "group[0].name"),
            ("name = \"east\"", "group[0].endpoint[0].name"),
            ("region = \"us-east-1\"", "group[0].endpoint[0].region"),
        ] {
            let found = error(from, &format!("{}{hidden}\"", &from[..from.len() - 1]));
            assert!(found.contains(&format!("{key}: ")) && found.contains("others that nobody sees"), "{found}");
        }
        for key in ["account = \"U1HIDDEN\"", "shared_fate = [\"isp\", \"HIDDEN\"]"] {
            let key = key.replace("HIDDEN", hidden);
            let found = error("priority = 10", &format!("priority = 10\n{key}"));
            assert!(found.contains("others that nobody sees"), "{found}");
        }
        let budget = format!("[[budget]]\nname = \"a{hidden}\"\nrequests = 1\nper = \"1s\"\n[[group]]");
        assert!(error("[[group]]", &budget).contains("budget[0].name: "), "{hidden}");
    }
    let found = error("priority = 10", "priority = 10\n\"a\\u202Eb\\u001B[2J\" = 1");
    assert!(found.contains("a\\u{202e}b\\u{1b}[2J: an unknown key"), "{found}");
    assert_eq!(findings("name = \"east\"", "name = \"東 Zürich\"", Severity::Error), [""; 0]);
    // People's own words are no name.
    let plain = "fence     = { command = [\"./fence.sh\"], timeout = \"2s\" }";
    let proves = |text: &str| plain.replace(" }", &format!(", proves = \"{text}\" }}"));
    assert_eq!(findings(plain, &proves("it is out ✔\u{fe0f}"), Severity::Error), [""; 0]);
    assert!(error(plain, &proves("it is\\u202E out")).contains("fence"));
}

#[test]
fn a_shadow_that_is_refused_hides_no_endpoint() {
    let text = example().replacen("[group.probing]", "[group.shadow]\ncooldown_max = \"1s\"\n[group.probing]", 1);
    let checked = parse(&text.replacen("tcp://", "ftp://", 1), Path::new(FOLDER));
    let found: Vec<_> = checked.findings.iter().filter(|one| one.severity == Severity::Error).collect();
    let keys = found.iter().map(|one| &*one.key).collect::<Vec<_>>();
    assert_eq!(keys, ["group[0].shadow", "group[0].endpoint[1].url"], "{found:#?}");
}

#[test]
fn a_refused_value_is_not_replaced_by_a_default_that_contradicts_others() {
    let quick = "interval_when_failing = \"250ms\"";
    let watched = "probe = { tcp = {} }\nwatch = { tcp = {}, confirm_spacing = \"400ms\" }";
    let text = example().replacen("probe = { tcp = {} }", watched, 1);
    for (value, errors) in [("500ms", 0), ("300ms", 1), ("0s", 1)] {
        let text = text.replacen(quick, &format!("interval_when_failing = \"{value}\""), 1);
        let checked = parse(&text, Path::new(FOLDER));
        let found: Vec<_> = checked.findings.iter().filter(|one| one.severity == Severity::Error).collect();
        assert_eq!(found.len(), errors, "{value}: {found:#?}");
    }
}

#[test]
fn a_file_without_an_end_is_refused_before_it_fills_the_memory() {
    let endless = Path::new("/dev/zero");
    for error in [load(endless).map(drop), load_plan(endless).map(drop)] {
        assert_eq!(error.unwrap_err().to_string(), "found more than 64 MiB; expected a file of TOML");
    }
}

#[test]
fn a_url_in_another_scheme_is_told_every_scheme_that_would_do() {
    let text = include_str!("../assets/broker.example.toml").replace("https://east", "ftp://east");
    let checked = parse(&text, Path::new(""));
    let finding = checked.findings.iter().find(|finding| finding.key.ends_with("endpoint[0].url"));
    let expected = "http:// or https:// and a host, with a port where the scheme has none";
    assert_eq!(finding.map(|finding| &*finding.expected), Some(expected));
}
