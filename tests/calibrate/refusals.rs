//! Bad histories: one clear error each, with the file, the line and the column.

use std::io::Write as _;
use std::path::Path;

use super::{Folder, HEADER, START, refusal, small};

/// What is said of a file of this content.
fn said(folder: &Folder, content: impl AsRef<[u8]>) -> String {
    refusal(&folder.file("history", content), &[])
}

/// A good row, so that the bad one is in the middle.
fn row() -> String {
    format!("{START},east,true,1\n")
}

#[test]
fn a_file_that_is_no_history_is_refused_as_a_whole() {
    let folder = Folder::new("whole");
    assert_eq!(said(&folder, ""), ": is empty; expected a header and rows of CSV, or JSON Lines");
    assert_eq!(said(&folder, HEADER), ":1: the header is all there is; expected a row for each result of a probe");
    assert_eq!(
        said(&folder, b"\x7fELF\x02\x01\x01\0\0\0"),
        ": is binary: there is a byte 0x7f near its beginning; expected CSV or JSON Lines, plain, in gzip or in zstd"
    );
    let utf_16: Vec<u8> = small().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(said(&folder, utf_16).contains("is binary: there is a byte 0x00"));
    for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let marked: Vec<u8> = format!("\u{feff}{}", small()).encode_utf16().flat_map(bytes).collect();
        let expected = ": is text in UTF-16; expected UTF-8 (iconv -f UTF-16 -t UTF-8 makes it that)";
        assert_eq!(said(&folder, marked), expected);
    }
    let missing = refusal(&folder.0.join("nowhere.csv"), &[]);
    assert_eq!(missing, ": cannot be read: No such file or directory (os error 2)");
    assert_eq!(refusal(&folder.0, &[]), ": is a folder without a journal; expected its segments, or a file");
    assert!(said(&folder, "\n\n").contains("expected"), "blank lines alone");
}

#[test]
fn a_header_that_is_not_as_it_should_be_is_refused_with_what_it_should_be() {
    let folder = Folder::new("header");
    let names = "timestamp (or timestamp_s, timestamp_ms, timestamp_us, timestamp_ns), endpoint, ok, and latency_s, \
                 latency_ms, latency_us or latency_ns";
    let header = |header: &str| said(&folder, format!("{header}\n{}", row()));
    assert_eq!(
        header("timestamp_s,endpoint,ok,latncy_ms"),
        format!(":1: found a column \"latncy_ms\"; expected a header of {names} (--ignore-other-columns skips others)")
    );
    for missing in ["timestamp", "endpoint", "ok"] {
        let columns: Vec<_> =
            ["timestamp_s", "endpoint", "ok"].into_iter().filter(|name| !name.starts_with(missing)).collect();
        let found = header(&columns.join(","));
        assert_eq!(found, format!(":1: found no column {missing:?} in the header; expected {names}"));
    }
    assert_eq!(
        header("timestamp_s,endpoint,ok,latency"),
        ":1: column \"latency\": has no unit; expected latency_s, latency_ms, latency_us, latency_ns or --latency-unit"
    );
    assert_eq!(
        header("timestamp_s,endpoint,timestamp_ms,ok"),
        ":1: column \"timestamp_ms\": found beside column \"timestamp_s\"; expected one of the two"
    );
    // No header at all.
    assert!(said(&folder, row()).starts_with(":1: found a column \"1760000000\""));
    let file = folder.file("stated.csv", small());
    assert_eq!(
        refusal(&file, &["--timestamp-unit", "ms"]),
        ":1: column \"timestamp_s\": says its unit itself; expected no --timestamp-unit beside it, found ms"
    );
}

#[test]
fn a_bad_row_in_the_middle_is_refused_with_its_line_and_column() {
    let folder = Folder::new("rows");
    let third = |bad: &[u8]| {
        let mut content = format!("{HEADER}{}", row()).into_bytes();
        content.extend([bad, b"\n", row().as_bytes()].concat());
        said(&folder, content)
    };
    let cases: &[(&[u8], &str)] = &[
        (b"x,east,true,1", ":3: column \"timestamp_s\": found \"x\"; expected a number of s since 1970, zero or more"),
        (
            b"NaN,east,true,1",
            ":3: column \"timestamp_s\": found \"NaN\"; expected a number of s since 1970, zero or more",
        ),
        (
            b"-5,east,true,1",
            ":3: column \"timestamp_s\": found \"-5\"; expected a number of s since 1970, zero or more",
        ),
        (b"1760000000,east,maybe,1", ":3: column \"ok\": found \"maybe\"; expected true, false, 1 or 0"),
        (b"1760000000,east,,1", ":3: column \"ok\": found \"\"; expected true, false, 1 or 0"),
        (
            b"1760000000,east,1,NaN",
            ":3: column \"latency_ms\": found \"NaN\"; expected a number of ms, zero or more, or nothing",
        ),
        (
            b"1760000000,east,1,-2",
            ":3: column \"latency_ms\": found \"-2\"; expected a number of ms, zero or more, or nothing",
        ),
        (
            b"1760000000,east,1,inf",
            ":3: column \"latency_ms\": found \"inf\"; expected a number of ms, zero or more, or nothing",
        ),
        (b"1760000000,,1,1", ":3: column \"endpoint\": found no name; expected that of an endpoint"),
        (b"1760000000,ea\xffst,1,1", ":3: column \"endpoint\": found \"ea\u{fffd}st\", which is no UTF-8"),
        (b"1760000000,east,1", ":3: found 3 fields; expected 4, as in the header"),
        (b"1760000000,east,1,1,1", ":3: found 5 fields; expected 4, as in the header"),
    ];
    for (bad, expected) in cases {
        assert_eq!(third(bad), *expected);
    }
}

#[test]
fn a_moment_in_the_future_or_before_2000_is_refused_with_what_it_would_be_in_another_unit() {
    let folder = Folder::new("moments");
    let at = |at: &str| said(&folder, format!("{HEADER}{at},east,true,1\n"));
    assert_eq!(
        at("0"),
        ":2: column \"timestamp_s\": found \"0\", which is 1970-01-01T00:00:00.000000Z; expected a moment since 2000"
    );
    let milliseconds = at("1760000000000");
    assert!(milliseconds.contains("expected no future date; in ms it would be 2025-10-09T08:53:20"), "{milliseconds}");
    let seconds = said(&folder, "timestamp_ms,endpoint,ok\n1760000000,east,true\n");
    assert!(seconds.contains("expected a moment since 2000; in s it would be 2025-10-09"), "{seconds}");
    for (date, when) in
        [("2199-01-01T00:00:00Z", "2199-01-01T00:00:00.000000Z"), ("2999-01-01T00:00:00Z", "beyond 2554")]
    {
        let future = said(&folder, format!("timestamp,endpoint,ok\n{date},east,true\n"));
        assert!(future.contains(&format!("which is {when}; expected no future date")), "{future}");
    }
}

#[test]
fn units_that_are_mixed_or_not_stated_are_refused() {
    let folder = Folder::new("units");
    // A unit that is stated, by the name of the column or by a flag, is of numbers.
    let stated = folder.file("stated.csv", "timestamp,endpoint,ok\n2025-10-09T08:53:20Z,east,true\n");
    let expected = "found \"2025-10-09T08:53:20Z\", which is RFC 3339 and has no unit; expected a number of s since 1970, \
                    as is stated";
    let found = refusal(&stated, &["--timestamp-unit", "s"]);
    assert_eq!(found, format!(":2: column \"timestamp\": {expected}"));
    let found = said(&folder, "timestamp_s,endpoint,ok\n2025-10-09T08:53:20Z,east,true\n");
    assert_eq!(found, format!(":2: column \"timestamp_s\": {expected}"));
    let found = said(&folder, "{\"timestamp_s\":\"2025-10-09T08:53:20Z\",\"endpoint\":\"east\",\"ok\":true}\n");
    assert_eq!(found, format!(":1: column \"timestamp_s\": {expected}"));
    let mixed = said(&folder, format!("{HEADER}{}2025-10-09T08:53:30Z,east,true,1\n", row()));
    assert_eq!(
        mixed,
        ":3: column \"timestamp_s\": found \"2025-10-09T08:53:30Z\"; expected a number, as in the rows before: one file, \
         one unit"
    );
    let mixed = said(&folder, "timestamp,endpoint,ok\n2025-10-09T08:53:20Z,east,true\n1760000010,east,true\n");
    assert!(mixed.starts_with(":3: column \"timestamp\": found \"1760000010\"; expected RFC 3339"), "{mixed}");
    let unstated = said(&folder, "timestamp,endpoint,ok\n1760000000,east,true\n");
    assert!(unstated.contains("found a number without a unit; expected RFC 3339, a column timestamp_s"), "{unstated}");
    let seconds = format!("{{\"timestamp_s\":{START},\"endpoint\":\"east\",\"ok\":true}}\n");
    let millis = format!("{{\"timestamp_ms\":{START}000,\"endpoint\":\"east\",\"ok\":true}}\n");
    assert_eq!(
        said(&folder, format!("{seconds}{millis}")),
        ":2: column \"timestamp_ms\": expected \"timestamp_s\", as before: one file, one unit"
    );
}

#[test]
fn bad_json_lines_are_refused_with_their_line_and_key() {
    let folder = Folder::new("json");
    let good = format!("{{\"timestamp_s\":{START},\"endpoint\":\"east\",\"ok\":true,\"latency_ms\":null}}\n");
    let second = |bad: &str| said(&folder, format!("{good}{bad}\n{good}"));
    let cases = [
        ("{", ":2: at byte "),
        ("[1]", ":2: at byte "),
        (r#"{"timestamp_s":1760000010,"endpoint":"east"}"#, ":2: found no key \"ok\"; expected timestamp"),
        (
            r#"{"timestamp_s":1760000010,"endpoint":7,"ok":true}"#,
            ":2: column \"endpoint\": found \"7\"; expected a string",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":{"a":1},"ok":true}"#,
            ":2: column \"endpoint\": found \"{\\\"a\\\":1}\"; expected a string",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":"east","ok":"true"}"#,
            ":2: column \"ok\": found \"true\"; expected true, false, 1 or 0, without quotes",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":"east","ok":2}"#,
            ":2: column \"ok\": found \"2\"; expected true, false, 1 or 0",
        ),
        (
            r#"{"timestamp_s":-1,"endpoint":"east","ok":true}"#,
            ":2: column \"timestamp_s\": found \"-1\"; expected a number of s",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":"east","ok":true,"latency_ms":-1}"#,
            ":2: column \"latency_ms\": found \"-1\"; expected a number of ms",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":"east","ok":true,"latency_ms":"1"}"#,
            ":2: column \"latency_ms\": found \"\\\"1\\\"\"; expected a number, or null",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":"east","ok":true,"region":"eu"}"#,
            ":2: found a key \"region\"; expected timestamp",
        ),
        (
            r#"{"timestamp_s":1760000010,"endpoint":"east","ok":true,"ok":false}"#,
            ":2: column \"ok\": found beside key \"ok\"; expected one of the two",
        ),
    ];
    for (bad, expected) in cases {
        let found = second(bad);
        assert!(found.starts_with(expected), "{bad}\n{found}\n{expected}");
    }
    let mut bytes = good.clone().into_bytes();
    bytes.extend(b"{\"endpoint\":\"\xff\"}\n");
    assert!(said(&folder, bytes).starts_with(":2: found \"{\\\"endpoint\\\":\\\"\u{fffd}\\\"}\", which is no UTF-8"));
}

#[test]
fn compressed_files_that_break_off_or_are_damaged_are_refused() {
    let folder = Folder::new("compressed");
    let content = format!("{HEADER}{}", super::rows("east", &super::SMALL.repeat(50)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content.as_bytes()).unwrap();
    let gzip = encoder.finish().unwrap();
    let zstd = zstd::encode_all(content.as_bytes(), 3).unwrap();
    for (name, whole) in [("gzip", gzip), ("zstd", zstd)] {
        for cut in [whole.len() / 2, whole.len() - 3] {
            let found = said(&folder, &whole[..cut]);
            let expected = format!("the {name} stream breaks off; expected its end: the file is truncated");
            assert!(found.ends_with(&expected), "{name} cut at {cut}: {found}");
        }
        let mut damaged = whole.clone();
        for byte in &mut damaged[whole.len() / 2..whole.len() / 2 + 8] {
            *byte ^= 0x5a;
        }
        let found = said(&folder, damaged);
        assert!(found.contains(&format!("the {name} stream ")) || found.contains("found "), "{name}: {found}");
    }
}

#[test]
fn what_follows_a_compressed_stream_is_said_to_follow_it() {
    let folder = Folder::new("followed");
    let gzip = |content: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |content: &str| zstd::encode_all(content.as_bytes(), 3).unwrap();
    let (small, large) = (small(), super::rows("west", &super::SMALL.repeat(50)));
    for (kind, part, first, second) in
        [("gzip", "member", gzip(&small), gzip(&large)), ("zstd", "frame", zstd(&small), zstd(&large))]
    {
        for more in [
            &b"x"[..],
            b"\0\0\0\0",
            b"a line that somebody appended\n",
            small.as_bytes(),
            b"\x1f\x8c",
            b"\x28\xb5\x2e\xfd",
            b"\x50\x2a\x4d\x19",
        ] {
            let found = said(&folder, [&first, more].concat());
            let expected = format!(
                "after the end of the {kind} stream something follows that is no {kind}; expected the end, or another \
                 {kind} {part}"
            );
            assert!(found.ends_with(&expected), "{more:?}: {found}");
        }
        // A second one that breaks off is one all the same.
        let found = said(&folder, [&first[..], &second[..second.len() - 3]].concat());
        let expected = format!("the {kind} stream breaks off; expected its end: the file is truncated");
        assert!(found.ends_with(&expected), "{found}");
    }
}

#[test]
fn values_on_the_command_line_are_refused_too() {
    let folder = Folder::new("flags");
    let file = folder.file("history.csv", small());
    let refused = |arguments: &[&str]| {
        let output = super::command(&file, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        refused(&["--endpoint", "west"]),
        "broker-failover: --endpoint is \"west\"; expected one of those in the history: east\n"
    );
    assert_eq!(
        refused(&["--max-false-per-month", "0"]),
        "broker-failover: --max-false-per-month is 0; expected a number above zero\n"
    );
    for (flag, value) in [("--outage-after", "0s"), ("--interval", "0s"), ("--max-gap", "0s")] {
        let expected = format!("broker-failover: {flag} is 0ns; expected above zero, and at most a year\n");
        assert_eq!(refused(&[flag, value]), expected);
    }
    assert_eq!(
        refused(&["--max-gap", "5s", "--interval", "10s"]),
        "broker-failover: --max-gap is 5s; expected at least the interval, which is 10s\n"
    );
    let triggers: Vec<_> = (1..=65).flat_map(|n| ["--trigger".to_owned(), n.to_string()]).collect();
    assert_eq!(
        refused(&triggers.iter().map(String::as_str).collect::<Vec<_>>()),
        "broker-failover: --trigger is given 65 times; expected 1 to 64\n"
    );
    assert!(refused(&["--rto", "1m"]).contains("--max-false-per-month"));
    assert!(refused(&["--trigger", "3 of 65"]).contains("of is 65; expected 1 to 64"));
    assert!(refused(&["--timestamp-unit", "minutes"]).contains("expected s, ms, us or ns"));
    assert_eq!(refusal(&file, &["--group", "main"]), ": is a file; only a journal has groups (--group)");
    assert!(!Path::new("history").exists());
}

#[test]
fn a_row_without_an_end_is_refused_before_it_fills_the_memory() {
    let folder = Folder::new("long-row");
    let long = "a".repeat(3 << 20);
    let too_long = "found a row of more than 1 MiB; expected a result of a probe a line";
    let open_quote = format!("{too_long}; is a quote left open?");
    assert_eq!(said(&folder, &long), format!(":1: {open_quote}"), "a header");
    assert_eq!(said(&folder, format!("{HEADER}{}{START},{long}", row())), format!(":3: {open_quote}"));
    let swallowed = row().repeat((3 << 20) / row().len());
    assert_eq!(said(&folder, format!("{HEADER}{}{START},\"east\n{swallowed}", row())), format!(":3: {open_quote}"));
    assert_eq!(said(&folder, format!("{{\"endpoint\":\"{long}")), format!(":1: {too_long}"));
}
