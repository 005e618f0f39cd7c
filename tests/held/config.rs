//! The keys of WebSocket probes and held sessions.

use std::path::Path;

use broker_failover::supervisor::config::{Checked, ProbeKind, Severity, parse};

/// A group whose primary has these keys, and that adds this to `[group.probing]`.
pub(crate) fn checked(url: &str, endpoint: &str, probing: &str) -> Checked {
    let text = format!(
        "[supervisor]\nsocket = \"control\"\njournal = \"journal\"\n[[group]]\nname = \"main\"\n[group.probing]\n{probing}\n\
         [[group.endpoint]]\nname = \"east\"\nregion = \"e\"\nurl = \"{url}\"\nprimary = true\n{endpoint}\n\
         [[group.endpoint]]\nname = \"west\"\nregion = \"w\"\nurl = \"tcp://127.0.0.1:2\"\npriority = 10\nprobe = {{ tcp = {{}} }}\n"
    );
    parse(&text, Path::new("."))
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
    let checked = checked("wss://u:s3cret@127.0.0.1:1", probe, "");
    let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings));
    let ProbeKind::WebSocket(read) = &config.groups[0].endpoints[0].probes[0].kind else { panic!() };
    assert_eq!(
        (&*read.path, read.subscribe.as_deref(), read.expect_message.as_deref()),
        ("/ws", Some("s3cret"), Some("ok"))
    );
    let shown = format!("{:?} {:?}", checked.findings, checked.effective);
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("subscribe"), "{shown}");
}

#[test]
fn what_a_websocket_probe_cannot_do_is_one_clear_error() {
    for (url, probe, says) in [
        ("https://127.0.0.1:1", "websocket = {}", "expected ws://, wss and host"),
        ("ws://127.0.0.1:1", "websocket = { subscribe = \"x\" }", "subscribe: no expect_message"),
        ("ws://127.0.0.1:1", "websocket = { path = \"x\" }", "path \"x\""),
        ("ws://127.0.0.1:1", "websocket = { headers = { Upgrade = \"x\" } }", "handshake's own"),
        ("ws://127.0.0.1:1", "websocket = { expect = \"x\" }", "an unknown key"),
        ("ws://127.0.0.1:1", "websocket = { ca_file = \"missing.pem\" }", "missing.pem is not a file"),
        ("ws://127.0.0.1:1", "http = {}", "expected http://, https and host"),
    ] {
        let errors = errors(url, &format!("probe = {{ {probe} }}"));
        assert!(errors.len() == 1 && errors[0].contains(says), "{probe}: {errors:#?}");
    }
    // The shallower kinds may look at such a path too.
    for probe in ["tcp = {}", "tls = {}"] {
        assert_eq!(errors("wss://127.0.0.1", &format!("probe = {{ {probe} }}")), Vec::<String>::new());
    }
}
