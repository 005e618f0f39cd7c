//! The same history in every form that is read comes to the same answer.

use std::io::Write as _;
use std::path::Path;

use broker_failover::calibration::{History, HistoryOptions};
use serde_json::Value;

use super::{Folder, HEADER, SMALL, START, calibrated, json, rows, small};

/// Everything but how it was written down.
fn answer(history: &Path, arguments: &[&str]) -> Value {
    let mut report = json(history, arguments);
    for key in ["format", "compression"] {
        report["reading"][key] = Value::Null;
    }
    report
}

#[test]
fn every_form_and_unit_comes_to_the_same() {
    let folder = Folder::new("forms");
    let plain = folder.file("plain.csv", small());
    let expected = answer(&plain, &[]);
    assert_eq!(expected["endpoints"][0]["blips"]["count"], 7);

    let each = |row: &dyn Fn(u64, bool) -> String| -> String {
        SMALL.chars().enumerate().map(|(slot, result)| row(START + 10 * slot as u64, result == '.')).collect()
    };
    let latency = |ok: bool| if ok { "12.5" } else { "" };
    let text = |seconds: u64| broker_failover::supervisor::journal::format_time(seconds * 1_000_000);
    let forms = [
        ("header,ok,latency_us,endpoint,timestamp_ms\n", None),
        ("timestamp,endpoint,ok,latency\n", Some(["--timestamp-unit", "us", "--latency-unit", "ms"])),
    ];
    // Columns in another order, one that is skipped, a byte order mark and the line ends of another system.
    let row = |at: u64, ok: bool| format!("x,{},{},east,{at}000\r\n", u8::from(ok), if ok { "12500" } else { "" });
    let file = folder.file("order.csv", format!("\u{feff}{}{}", forms[0].0.replace('\n', "\r\n"), each(&row)));
    assert_eq!(answer(&file, &["--ignore-other-columns"]), expected);
    let row = |at: u64, ok: bool| format!("{at}000000,\"east\",{ok},{}\n", latency(ok));
    let file = folder.file("flags.csv", format!("{}{}", forms[1].0, each(&row)));
    assert_eq!(answer(&file, &forms[1].1.unwrap()), expected);
    let row = |at: u64, ok: bool| format!("{},east,{ok},{}\n", text(at), latency(ok));
    let file = folder.file("text.csv", format!("timestamp,endpoint,ok,latency_ms\n{}", each(&row)));
    assert_eq!(answer(&file, &[]), expected);
    let row = |at: u64, ok: bool| {
        let latency = if ok { ",\"latency_ns\":12500000" } else { "" };
        format!("{{\"ok\":{ok},\"endpoint\":\"e\\u0061st\",\"timestamp_ns\":{at}000000000{latency}}}\n")
    };
    let file = folder.file("lines.jsonl", each(&row));
    assert_eq!(answer(&file, &[]), expected);
    assert_eq!(json(&file, &[])["reading"]["format"], "json_lines");
    let row = |at: u64, ok: bool| {
        let latency = if ok { "12.5" } else { "null" };
        format!("\n{{\"timestamp\":\"{}\",\"endpoint\":\"east\",\"ok\":{ok},\"latency_ms\":{latency}}}", text(at))
    };
    let file = folder.file("text.jsonl", each(&row));
    assert_eq!(answer(&file, &[]), expected);
}

#[test]
fn gzip_and_zstd_are_known_by_their_first_bytes_even_in_several_parts() {
    let folder = Folder::new("wrapped");
    let content = small();
    let expected = answer(&folder.file("plain", &content), &[]);
    let (first, second) = content.as_bytes().split_at(1_000);
    let gzip = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |part: &[u8]| zstd::encode_all(part, 3).unwrap();
    // Tools put an index into a frame that readers pass over.
    let index = |kind: u8| [&[kind, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    for (name, parts) in [
        ("gzip", [gzip(first), gzip(second)].concat()),
        ("zstd", [zstd(first), zstd(second)].concat()),
        ("zstd", [zstd(first), index(0x50), zstd(second), index(0x5e)].concat()),
        ("zstd", [index(0x5a), zstd(first), zstd(second)].concat()),
    ] {
        let file = folder.file("wrapped", parts);
        assert_eq!(answer(&file, &[]), expected, "{name}");
        assert_eq!(json(&file, &[])["reading"]["compression"], name);
    }
}

/// Gives three bytes, and is interrupted before each.
struct Interrupted(std::vec::IntoIter<u8>, bool);

impl std::io::Read for Interrupted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let mut count = 0;
        for (place, byte) in buffer.iter_mut().take(3).zip(self.0.by_ref()) {
            *place = byte;
            count += 1;
        }
        Ok(count)
    }
}

#[test]
fn a_reader_that_is_interrupted_is_read_to_its_end() {
    let content = small();
    let (first, second) = content.as_bytes().split_at(1_000);
    let zstd = |part: &[u8]| zstd::encode_all(part, 3).unwrap();
    let options = HistoryOptions { now: u64::MAX, ..HistoryOptions::default() };
    for bytes in [content.clone().into_bytes(), [zstd(first), zstd(second)].concat()] {
        let mut history = History::read(Interrupted(bytes.into_iter(), false), "given", &options).unwrap();
        assert_eq!(history.samples().map(Result::unwrap).count(), SMALL.len());
    }
}

#[test]
fn rows_out_of_order_and_repeated_ones_are_put_right_counted_and_said() {
    let folder = Folder::new("order");
    let expected = answer(&folder.file("plain.csv", small()), &[]);
    let text = rows("east", SMALL);
    let mut lines: Vec<_> = text.lines().collect();
    lines.swap(3, 9);
    lines.insert(30, lines[20]);
    lines.insert(60, lines[59]);
    // A row of the same moment that says otherwise: the failure counts, and here there is one already.
    let failed = lines.iter().position(|line| line.contains("false")).unwrap();
    let otherwise = lines[failed].replace("false", "true");
    lines.push(&otherwise);
    let file = folder.file("mixed.csv", format!("{HEADER}{}\n", lines.join("\n")));
    let found = answer(&file, &[]);
    for key in ["endpoints", "overall", "from", "to"] {
        assert_eq!(found[key], expected[key], "{key}");
    }
    let reading = &found["reading"];
    let count = |key: &str| reading[key].as_u64().unwrap();
    assert_eq!((count("rows"), count("used")), (SMALL.len() as u64 + 3, SMALL.len() as u64));
    assert_eq!((count("duplicates"), count("conflicts"), count("late")), (3, 1, 0));
    assert!(count("reordered") >= 6, "{reading}");
    let (said, _) = calibrated(&file, &[]);
    assert!(said.contains("3 left out as duplicates; 1 of these say something else"), "{said}");
}

#[test]
fn a_file_that_holds_one_endpoint_after_the_other_is_fine_for_each_of_them() {
    let folder = Folder::new("after");
    let many = SMALL.repeat(60);
    let both = folder.file("both.csv", format!("{HEADER}{}{}", rows("east", &many), rows("west", &many)));
    let report = json(&both, &[]);
    let alone = json(&folder.file("one.csv", format!("{HEADER}{}", rows("east", &many))), &[]);
    let mut west = report["endpoints"][1].clone();
    assert_eq!(west["endpoint"], "west");
    west["endpoint"] = "east".into();
    west["outage_list"] = alone["endpoints"][0]["outage_list"].clone();
    assert_eq!((&report["endpoints"][0], &west), (&alone["endpoints"][0], &alone["endpoints"][0]));
    assert_eq!(report["overall"]["blips"]["count"], 2 * report["endpoints"][0]["blips"]["count"].as_u64().unwrap());
    // A whole block that is there twice counts once.
    let twice = folder.file("twice.csv", format!("{HEADER}{0}{0}", rows("east", &many)));
    let twice = json(&twice, &[]);
    assert_eq!(twice["endpoints"], alone["endpoints"]);
    let reading = &twice["reading"];
    let left_out = reading["duplicates"].as_u64().unwrap() + reading["late"].as_u64().unwrap();
    assert_eq!((left_out, &reading["clock_steps"]), (many.len() as u64, &1.into()));
}
