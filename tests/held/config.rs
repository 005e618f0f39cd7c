//! The keys of WebSocket probes and held sessions.

use std::path::Path;

use broker_failover::supervisor::config::{Checked, Identity, ProbeKind, Severity, effective, parse};

/// A group whose primary has these keys, and that adds this to `[group.probing]`.
fn text(url: &str, endpoint: &str, probing: &str) -> String {
    format!(
        "[supervisor]\nsocket = \"control\"\njournal = \"journal\"\n[[group]]\nname = \"main\"\n[group.probing]\n{probing}\n\
         [[group.endpoint]]\nname = \"east\"\nregion = \"e\"\nurl = \"{url}\"\nprimary = true\n{endpoint}\n\
         [[group.endpoint]]\nname = \"west\"\nregion = \"w\"\nurl = \"tcp://127.0.0.1:2\"\npriority = 10\nprobe = {{ tcp = {{}} }}\n"
    )
}

pub(crate) fn checked(url: &str, endpoint: &str, probing: &str) -> Checked {
    parse(&text(url, endpoint, probing), Path::new("."))
}

pub(crate) fn findings(checked: &Checked, severity: Severity) -> Vec<String> {
    checked.findings.iter().filter(|one| one.severity == severity).map(ToString::to_string).collect()
}

fn errors(url: &str, endpoint: &str) -> Vec<String> {
    findings(&checked(url, endpoint, ""), Severity::Error)
}

#[test]
fn a_websocket_probe_is_read_and_its_secrets_are_not_told() {
    let probe = r#"probe = { websocket = { path = "/ws", headers = { X-Key = "s3cret" }, subscribe = "s3cret", expect_message = "ok" } }"#;
    let url = "wss://u:s3cret@127.0.0.1:1";
    let checked = checked(url, probe, "");
    let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings));
    let ProbeKind::WebSocket(read) = &config.groups[0].endpoints[0].probes[0].kind else { panic!() };
    assert_eq!(
        (&*read.path, read.subscribe.as_deref(), read.expect_message.as_deref()),
        ("/ws", Some("s3cret"), Some("ok"))
    );
    let shown = format!("{:?} {:?}", checked.findings, effective(&text(url, probe, ""), Path::new(".")));
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("subscribe"), "{shown}");
}

#[test]
fn what_a_websocket_probe_cannot_do_is_one_clear_error() {
    for (url, probe, says) in [
        ("https://127.0.0.1:1", "websocket = {}", "expected ws:// or wss:// and a host"),
        ("ws://127.0.0.1:1", "websocket = { subscribe = \"x\" }", "subscribe: no expect_message"),
        ("ws://127.0.0.1:1", "websocket = { path = \"x\" }", "path \"x\""),
        ("ws://127.0.0.1:1", "websocket = { headers = { Upgrade = \"x\" } }", "handshake's own"),
        ("ws://127.0.0.1:1", "websocket = { expect = \"x\" }", "an unknown key"),
        ("ws://127.0.0.1:1", "websocket = { ca_file = \"missing.pem\" }", "missing.pem is not a file"),
        (
            "ws://127.0.0.1:1",
            "websocket = { expect_message = \"\" }",
            "a blank text; expected a text that the right answer",
        ),
        (
            "ws://127.0.0.1:1",
            "websocket = { subscribe = \"x\", expect_message = \" \" }",
            "expect_message: a blank text",
        ),
        ("http://127.0.0.1:1", "http = { expect_body = \"\" }", "expect_body: a blank text"),
        ("ws://127.0.0.1:1", "http = {}", "expected http:// or https:// and a host"),
    ] {
        let errors = errors(url, &format!("probe = {{ {probe} }}"));
        assert!(errors.len() == 1 && errors[0].contains(says), "{probe}: {errors:#?}");
    }
    // The shallower kinds may look at such a path too.
    for probe in ["tcp = {}", "tls = {}"] {
        assert_eq!(errors("wss://127.0.0.1", &format!("probe = {{ {probe} }}")), Vec::<String>::new());
    }
}

const PROBE: &str = "probe = { http = {} }";

fn watching(url: &str, watch: &str, probing: &str) -> Checked {
    checked(url, &format!("{PROBE}\nwatch = {watch}"), probing)
}

#[test]
fn a_watch_has_its_defaults_and_fits_the_pace() {
    let read = |watch: &str, probing: &str| {
        let checked = watching("http://127.0.0.1:1", watch, probing);
        let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings));
        config.groups[0].endpoints[0].watch.clone().expect("a watch")
    };
    let watch = read("{ tcp = {} }", "");
    assert_eq!((watch.confirm_spacing.as_millis(), watch.ping_interval.as_secs()), (10, 5));
    let quick = "interval = \"8ms\"\ninterval_when_failing = \"4ms\"\ntimeout = \"50ms\"";
    assert_eq!(read("{ tcp = {} }", quick).confirm_spacing.as_millis(), 4, "never slower than the ordinary slots");
    assert_eq!(read("{ tcp = {}, confirm_spacing = \"100us\" }", "").confirm_spacing.as_micros(), 100);
    assert_eq!(read("{ tcp = {}, confirm_spacing = \"250ms\" }", "").confirm_spacing.as_millis(), 250);
    assert_eq!(read("{ tcp = {}, ping_interval = \"100ms\" }", "").ping_interval.as_millis(), 100);
    assert_eq!(read("{ tcp = {}, ping_interval = \"1h\" }", "").ping_interval.as_secs(), 3_600);
}

#[test]
fn a_watch_that_cannot_be_is_one_clear_error() {
    for (url, watch, says) in [
        ("http://127.0.0.1:1", "{}", "no session; expected exactly one of tcp, tls, websocket"),
        ("http://127.0.0.1:1", "{ tcp = {}, tls = {} }", "tcp with tls"),
        ("http://127.0.0.1:1", "{ websocket = {} }", "expected ws:// or wss:// and a host"),
        (
            "http://127.0.0.1:1",
            "{ tcp = {}, confirm_spacing = \"99us\" }",
            "from 100µs to interval_when_failing (250ms)",
        ),
        ("http://127.0.0.1:1", "{ tcp = {}, confirm_spacing = \"251ms\" }", "from 100µs to interval_when_failing"),
        ("http://127.0.0.1:1", "{ tcp = {}, ping_interval = \"99ms\" }", "from 100ms to 3600s"),
        ("http://127.0.0.1:1", "{ tcp = {}, ping_interval = \"61m\" }", "from 100ms to 3600s"),
        ("http://127.0.0.1:1", "{ tcp = {}, ping = \"1s\" }", "an unknown key"),
        ("https://127.0.0.1:1", "{ tls = { ca_file = \"missing.pem\" } }", "missing.pem is not a file"),
    ] {
        let errors = findings(&watching(url, watch, ""), Severity::Error);
        assert!(errors.len() == 1 && errors[0].contains(says), "{watch}: {errors:#?}");
    }
    let upgrade = "probe = { tcp = {} }\nwatch = { websocket = { headers = { Upgrade = \"s3cret\" } } }";
    let errors = errors("ws://127.0.0.1:1", upgrade);
    assert!(errors.len() == 1 && errors[0].contains("handshake's own") && !errors[0].contains("s3cret"), "{errors:?}");
}

#[test]
fn what_is_dangerous_about_a_watch_is_a_warning() {
    let warnings = |url: &str, endpoint: &str, probing: &str| {
        let checked = checked(url, endpoint, probing);
        assert!(checked.config.is_some(), "{:#?}", checked.findings);
        findings(&checked, Severity::Warning).join("\n")
    };
    let http = "http://127.0.0.1:1";
    let about = |text: &str| text.contains("watch");
    assert!(!about(&warnings(http, &format!("{PROBE}\nwatch = {{ tcp = {{}} }}"), "")));
    let logs_on = "probe = { http = { competing_session_status = [409] } }\nwatch = { tcp = {} }";
    assert!(warnings(http, logs_on, "").contains("up to 3 of them at once"));
    let subscribes = "probe = { tcp = {} }\nwatch = { websocket = { subscribe = \"s3cret\" } }";
    let told = warnings("ws://127.0.0.1:1", subscribes, "");
    assert!(told.contains("may log on") && !told.contains("s3cret"), "{told}");
    let window = format!("{PROBE}\ntrigger = {{ window = \"2s\" }}\nwatch = {{ tcp = {{}} }}");
    assert!(warnings(http, &window, "").contains("a window of 2s"));
    let many = format!("{PROBE}\ntrigger = {{ consecutive = 17 }}\nwatch = {{ tcp = {{}} }}");
    assert!(warnings(http, &many, "").contains("needs 17 failures"));
    let slow = format!("{PROBE}\nwatch = {{ tcp = {{}}, confirm_spacing = \"200ms\" }}");
    assert!(warnings(http, &slow, "timeout = \"200ms\"").contains("not below timeout"));
    assert!(!warnings(http, &slow, "timeout = \"201ms\"").contains("not below timeout"));
}

#[test]
fn b12_two_sessions_of_one_login_are_refused_where_the_broker_allows_one() {
    let login = |key: &str| format!("headers = {{ X-Key = \"{key}\" }}");
    let file = |exclusivity: &str, probe: &str, east: &str, west: &str| {
        let east = format!("probe = {{ websocket = {{ {probe} }} }}\nwatch = {{ websocket = {{ {east} }} }}");
        let text = text("ws://127.0.0.1:1", &east, "").replace("tcp://127.0.0.1:2", "ws://127.0.0.1:2");
        let text = text.replace("name = \"main\"", &format!("name = \"main\"\nexclusivity = \"{exclusivity}\""));
        let checked = parse(&format!("{text}watch = {{ websocket = {{ {west} }} }}\n"), Path::new("."));
        findings(&checked, Severity::Error)
    };
    let (one, other) = (login("s3cret"), login("0ther"));
    for exclusivity in ["unknown", "last-login-wins", "oldest-evicted", "refused-until-aged", "venue-arbitrated"] {
        let errors = file(exclusivity, &one, &one, &other);
        let says = format!("its login is that of the probe of east too, where exclusivity is {exclusivity}");
        assert!(errors.len() == 1 && errors[0].contains(&says), "{errors:#?}");
        let errors = file(exclusivity, &other, &one, &one);
        assert!(
            errors.len() == 1
                && errors[0].contains("endpoint[1].watch.websocket: its login is that of the watch of east")
        );
        assert!(!errors[0].contains("s3cret"));
        assert_eq!(file(exclusivity, &one, &other, &login("third")), Vec::<String>::new());
        // Whoever shows nothing logs on nowhere.
        assert_eq!(file(exclusivity, "", "", ""), Vec::<String>::new());
    }
    assert_eq!(file("dual-live", &one, &one, &one), Vec::<String>::new());
    // The file itself may say that two are one login.
    let named = |key: &str| format!("{}, credential = \"desk\"", login(key));
    for (probe, east, west, says) in [
        (named("s3cret"), named("0ther"), login("third"), "its login is that of the probe of east too"),
        (login("s3cret"), named("0ther"), named("third"), "its login is that of the watch of east too"),
    ] {
        let errors = file("unknown", &probe, &east, &west);
        assert!(errors.len() == 1 && errors[0].contains(says), "{errors:#?}");
        assert_eq!(file("dual-live", &probe, &east, &west), Vec::<String>::new());
    }
}

#[test]
fn a_held_session_that_logs_on_counts_as_the_probes_do_unless_it_names_its_credential() {
    let of = |keys: &str| {
        checked("ws://127.0.0.1:1", &format!("probe = {{ tcp = {{}} }}\nwatch = {{ websocket = {{ {keys} }} }}"), "")
    };
    let named = |keys: &str| {
        let config = of(keys).config.unwrap_or_else(|| panic!("{:#?}", of(keys).findings));
        let terms = &config.groups[0].endpoints[0].watch.as_ref().expect("a watch").terms;
        (terms.identity, terms.credential.clone())
    };
    assert_eq!(named(""), (Identity::None, "none".to_owned()));
    for shows in ["headers = { X-Key = \"s3cret\" }", "subscribe = \"s3cret\""] {
        assert_eq!(named(shows), (Identity::Own, "own".to_owned()), "{shows}");
        assert_eq!(named(&format!("{shows}, credential = \" desk \"")), (Identity::Own, "desk".to_owned()));
    }
    for (keys, says) in [
        ("credential = \"desk\"", "a credential of a session that does not log on"),
        ("subscribe = \"x\", credential = \" \"", "credential: blank"),
        ("subscribe = \"x\", identity = \"trading\"", "an unknown key"),
    ] {
        let errors = findings(&of(keys), Severity::Error);
        assert!(errors.len() == 1 && errors[0].contains(says), "{keys}: {errors:#?}");
    }
}
