//! What is printed, and how a run ends.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Folder, HEADER, calibrated, command, json, rows, small};

/// The tables of the small history. They are meant to change only with the method.
const SMALL: &str = include_str!("small.out");

#[test]
fn the_tables_are_these_byte_for_byte() {
    let folder = Folder::new("golden");
    let file = folder.file("history.csv", small());
    let limits =
        ["--outage-after", "1m", "--trigger", "1", "--trigger", "3", "--trigger", "2 of 5", "--trigger", "window 90s"];
    let (found, status) = calibrated(&file, &[&limits[..], &["--max-false-per-month", "10", "--rto", "1m"]].concat());
    let found = found.replace(&file.display().to_string(), "history.csv");
    assert_eq!((found.as_str(), status), (SMALL, 1));
    assert!(SMALL.lines().all(|line| line.chars().count() <= 130 && line == line.trim_end()));
}

#[test]
fn the_exit_status_says_whether_a_trigger_is_recommended() {
    let folder = Folder::new("status");
    let calm = folder.file("calm.csv", format!("{HEADER}{}", rows("east", &".".repeat(8_640 * 2))));
    assert_eq!(calibrated(&calm, &[]).1, 0, "no limit was given");
    // Nothing in two days is at most 79.5 a month.
    let (text, status) = calibrated(&calm, &["--max-false-per-month", "80"]);
    assert_eq!(status, 0);
    assert!(text.contains("\nRecommended: 1 failure\n"), "{text}");
    let (text, status) = calibrated(&calm, &["--max-false-per-month", "1"]);
    assert_eq!(status, 1);
    assert!(text.contains("\nNothing is recommended\nthe history is too short"), "{text}");
    let report = json(&calm, &["--max-false-per-month", "1"]);
    assert_eq!(
        (&report["recommendation"]["trigger"], &report["recommendation"]["days_needed"]),
        (&().into(), &159.0.into())
    );
}

#[test]
fn on_the_example_week_it_answers_what_the_readme_says() {
    let example = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/history.example.csv.zst"));
    let (text, status) = calibrated(example, &["--max-false-per-month", "150"]);
    assert!(status == 0 && text.contains("\nRecommended: "), "{text}");
    let (text, status) = calibrated(example, &["--max-false-per-month", "1"]);
    assert!(status == 1 && text.contains("the history is too short"), "{text}");
}

#[test]
fn as_json_what_is_unbounded_is_null_and_what_is_counted_is_a_number() {
    let folder = Folder::new("unbounded");
    let one = folder.file("one.csv", format!("{HEADER}{}", rows("east", "x")));
    let report = json(&one, &[]);
    let path = &report["endpoints"][0];
    assert_eq!((&path["samples"], &path["failed"], &path["blips"]["cut"]), (&1.into(), &1.into(), &1.into()));
    let month = &path["triggers"][0]["false_per_month"];
    assert_eq!((&month["value"], &month["low"], &month["high"]), (&0.0.into(), &0.0.into(), &().into()));
    let (text, _) = calibrated(&one, &[]);
    assert!(text.contains("0.00 (0.00 to any)"), "{text}");
}

#[test]
fn only_the_endpoints_that_were_asked_for_count() {
    let folder = Folder::new("asked");
    let both = format!("{HEADER}{}{}", rows("east", "....x....x..."), rows("west", "......xxx...."));
    let file = folder.file("both.csv", both);
    let report = json(&file, &["--endpoint", "west"]);
    assert_eq!(report["endpoints"].as_array().map(Vec::len), Some(1));
    assert_eq!((&report["endpoints"][0]["endpoint"], &report["overall"]["samples"]), (&"west".into(), &13.into()));
}

/// Output, errors and exit status of `calibrate -` with this on its standard input.
fn piped(input: &[u8], arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.args(["calibrate", "-"]).args(arguments).env_remove("CLICOLOR_FORCE");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    // What refuses its flags reads nothing, and ends before everything is written.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it is UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn standard_input_is_read_like_a_file_compressed_or_not() {
    let folder = Folder::new("piped");
    let (expected, status) = calibrated(&folder.file("history.csv", small()), &["--json"]);
    let plain = small().into_bytes();
    assert_eq!(piped(&plain, &["--json"]), (expected.clone(), String::new(), Some(status)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&plain).unwrap();
    for (name, bytes) in [("gzip", encoder.finish().unwrap()), ("zstd", zstd::encode_all(&plain[..], 3).unwrap())] {
        let (found, said, _) = piped(&bytes, &["--json"]);
        let wrapped = expected.replace("\"compression\": null", &format!("\"compression\": \"{name}\""));
        assert_eq!((found, &*said), (wrapped, ""));
    }
    assert!(piped(&plain, &[]).0.starts_with("standard input: csv, 2025-10-09"));
    let (found, said, status) = piped(b"timestamp_s,endpoint,ok\n1760000000,east,maybe\n", &[]);
    assert_eq!((&*found, status), ("", Some(2)));
    let expected = "broker-failover: standard input:2: column \"ok\": found \"maybe\"; expected true, false, 1 or 0\n";
    assert_eq!(said, expected);
    assert!(piped(b"", &[]).1.starts_with("broker-failover: standard input: is empty; expected"));
}

#[test]
fn what_reads_a_history_twice_refuses_standard_input() {
    for flag in ["--replay", "--html"] {
        let (found, said, status) = piped(small().as_bytes(), &[flag, "nowhere"]);
        let expected = format!(
            "broker-failover: standard input: can be read once, and {flag} reads the history twice; expected a file\n"
        );
        assert_eq!((&*found, said, status), ("", expected, Some(2)));
    }
    assert!(!std::path::Path::new("nowhere").exists());
}

#[test]
fn names_that_would_steer_the_terminal_are_printed_as_escapes() {
    let folder = Folder::new("steering");
    let name = "ea\u{202e}st\u{2066}";
    let file = folder.file("history.csv", format!("{HEADER}{}", rows(name, "....x....x...")));
    let (text, _) = calibrated(&file, &[]);
    assert!(text.contains("ea\\u{202e}st\\u{2066}"), "{text}");
    let refused = String::from_utf8(command(&file, &["--endpoint", "west"]).stderr).unwrap();
    assert!(refused.contains("one of those in the history: ea\\u{202e}st\\u{2066}"), "{refused}");
    for shown in [text, refused] {
        assert!(!shown.contains(['\u{202e}', '\u{2066}']), "{shown}");
    }
}
