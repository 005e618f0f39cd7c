//! The binary: `check`, `check --probe`, and a supervisor that holds its session.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::acceptor::Acceptor;
use crate::sessions::opened;
use crate::{folder, identity, part, prober, slot};

fn file(folder: &Path, url: &str, fix: &str) -> PathBuf {
    let text = format!(
        r#"
[supervisor]
socket = "control.sock"
journal = "journal"

[[group]]
name = "main"
probing = {{ interval = "1s", timeout = "800ms" }}

[[group.endpoint]]
name = "east"
region = "us-east-1"
url = "{url}"
primary = true
probe = {{ fix = {{ {fix} }} }}

[[group.endpoint]]
name = "west"
region = "us-west-2"
url = "tcp://127.0.0.1:1"
priority = 10
probe = {{ tcp = {{}} }}
"#
    );
    let path = folder.join("broker.toml");
    fs::write(&path, text).expect("written");
    path
}

fn check(file: &Path, more: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_broker-failover"))
        .arg("check")
        .arg(file)
        .args(more)
        .output()
        .expect("the binary runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

fn keys(sender: &str) -> String {
    format!(
        "version = \"FIX.4.4\", sender_comp_id = \"{sender}\", target_comp_id = \"BROKER\", reset_on_logon = \"never\", \
         sequence_file = \"east.seq\""
    )
}

#[test]
fn check_refuses_what_no_session_can_be_held_with_and_says_where() {
    let folder = folder("check");
    for (url, change, expected) in [
        ("tcp://127.0.0.1:5", "", "expected fix:// or fixs:// and a host"),
        ("fix://127.0.0.1", "", "with a port where the scheme has none"),
        ("fix://127.0.0.1:5", ", version = \"FIX.5.0\"", "duplicate key"),
        ("fix://127.0.0.1:5", ", default_appl_ver_id = \"9\"", "none: only FIXT.1.1 has it"),
        ("fix://127.0.0.1:5", ", heart_beat_interval = \"1500ms\"", "whole seconds, from 1 s to 1 h"),
        ("fix://127.0.0.1:5", ", heart_beat_interval = \"0s\"", "a duration above zero"),
        ("fix://127.0.0.1:5", ", heart_beat_interval = \"2h\"", "whole seconds, from 1 s to 1 h"),
        ("fix://127.0.0.1:5", ", sender_sub_id = \"a\\u0001b\"", "printable ASCII"),
        ("fix://127.0.0.1:5", ", username = \"\"", "printable ASCII"),
        ("fix://127.0.0.1:5", ", logon_fields = { 34 = \"1\" }", "a field that has no key of its own here"),
        ("fix://127.0.0.1:5", ", logon_fields = { 096 = \"1\" }", "a tag: a number above zero"),
        ("fix://127.0.0.1:5", ", password = \"x\", password_env = \"Y\"", "one of them at most"),
        ("fix://127.0.0.1:5", ", password_file = \"nowhere\"", "a file that exists"),
        ("fix://127.0.0.1:5", ", relogon_wait = \"2m\"", "at most relogon_wait_max"),
        ("fix://127.0.0.1:5", ", competing_session_text = [\" \"]", "texts that some Logouts hold"),
        ("fix://127.0.0.1:5", ", account_tag = 0", "an integer from 1 to"),
        ("fix://127.0.0.1:5", ", account_tag = 1", "an account to read and none to compare it with"),
        ("fix://127.0.0.1:5", ", password = 12345678", "found a value of type integer"),
        ("fix://127.0.0.1:5", ", nonsense = 1", "an unknown key"),
    ] {
        let (output, text) = check(&file(&folder, url, &(keys("PROBE") + change)), &[]);
        assert!(!output.status.success() && text.contains(expected), "{change}: {text}");
        assert!(!text.contains("12345678") && !text.contains("panicked"), "{text}");
    }
    let incomplete = "version = \"FIXT.1.1\", sender_comp_id = \"PROBE\", target_comp_id = \"B\", \
                      reset_on_logon = \"never\", sequence_file = \"x.seq\"";
    let (_, text) = check(&file(&folder, "fix://127.0.0.1:5", incomplete), &[]);
    assert!(text.contains("FIXT.1.1 needs it"), "{text}");
    let (_, text) = check(&file(&folder, "fix://127.0.0.1:5", "version = \"FIX.4.4\""), &[]);
    for key in ["sender_comp_id", "target_comp_id", "reset_on_logon", "sequence_file"] {
        assert!(text.contains(&format!("fix.{key}")) && text.contains("the key is missing"), "{text}");
    }
}

#[test]
fn check_warns_and_shows_no_secret() {
    let folder = folder("warn");
    let quick =
        keys("PROBE") + ", heart_beat_interval = \"1s\", password = \"hunter2\", logon_fields = { 96 = \"s1gn\" }";
    let path = file(&folder, "fix://127.0.0.1:5", &quick);
    let slow = fs::read_to_string(&path).expect("read").replace("interval = \"1s\"", "interval = \"2s\"");
    fs::write(&path, slow.replace("heart_beat_interval = \"2s\"", "heart_beat_interval = \"1s\"")).expect("written");
    let (output, text) = check(&path, &["--print-effective"]);
    assert!(output.status.success(), "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "a session that is silent for 2s is given up, before a slot has asked it",
        "a password without a user name",
        "a bare TCP probe",
        "fix.password = ...",
        "96: ...",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("hunter2") && !text.contains("s1gn"), "{text}");
}

#[test]
fn check_warns_of_a_trigger_that_needs_more_failures_than_logons_are_tried_at_the_pace_of_the_slots() {
    let folder = folder("patient");
    let warned = |failures: u32| {
        let path = file(&folder, "fix://127.0.0.1:5", &keys("PROBE"));
        let text = fs::read_to_string(&path).expect("read");
        let policy = format!("policy = {{ failure_threshold = {failures} }}\nprobing =");
        fs::write(&path, text.replace("probing =", &policy)).expect("written");
        let (output, text) = check(&path, &[]);
        assert!(output.status.success(), "{text}");
        text.contains(&format!("the trigger needs {failures} failures, and after 3 in a row a fix probe waits"))
    };
    assert_eq!((warned(3), warned(4)), (false, true));
}

#[test]
fn check_refuses_two_probes_of_one_identity_or_with_one_file() {
    let folder = folder("apart");
    let two = |west: &str| {
        let path = file(&folder, "fix://127.0.0.1:5", &keys("PROBE"));
        let text = fs::read_to_string(&path).expect("read").replace("tcp://", "fix://");
        let text = text.replace("{ tcp = {} }", &format!("{{ fix = {{ {west} }} }}"));
        fs::write(&path, text).expect("written");
        check(&path, &[])
    };
    let (output, text) = two(&keys("PROBE").replace("east.seq", "west.seq"));
    assert!(
        !output.status.success() && text.contains("session FIX.4.4 PROBE -> BROKER is another probe's too"),
        "{text}"
    );
    let (output, text) = two(&keys("OTHER"));
    assert!(!output.status.success() && text.contains("east.seq is another session's too"), "{text}");
    let (output, text) = two(&keys("OTHER").replace("east.seq", "west.seq"));
    assert!(output.status.success(), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_probe_logs_on_and_out_but_not_beside_a_supervisor_that_holds_the_session() {
    let acceptor = Acceptor::start(|number, mut peer| async move {
        peer.next = if number == 1 { 1 } else { 4 };
        peer.accept("98=0|108=30|").await;
        peer.serve().await;
    })
    .await;
    let folder = folder("check-probe");
    let config = identity(&folder);
    let path = file(&folder, &acceptor.url(), &keys(&config.sender_comp_id));
    let held = prober(&acceptor.url(), &config);
    assert_eq!(slot(&held).await.0, "+");
    let ask = || {
        let path = path.clone();
        tokio::task::spawn_blocking(move || check(&path, &["--probe"]).1)
    };
    let text = ask().await.expect("no panic");
    let expected = format!("east.seq is in use by process {}", std::process::id());
    assert!(text.contains("no evidence: CompetingSession") && text.contains(&expected), "{text}");
    assert_eq!(slot(&held).await.0, "+");
    part(held).await;

    let text = ask().await.expect("no panic");
    assert!(text.contains("main: east: answers as it should"), "{text}");
    assert_eq!(acceptor.read(), ["A1", "12", "53", "A4", "55"], "it says goodbye before it ends");
    assert_eq!(opened(&config.sender_comp_id), 2);
}
