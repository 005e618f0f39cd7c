//! What is printed, and how a run ends.

use super::{Folder, HEADER, calibrated, json, rows, small};

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
