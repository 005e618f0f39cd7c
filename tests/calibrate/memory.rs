//! A history that is longer takes no more memory.

#![expect(clippy::disallowed_macros, reason = "the process that is measured says so on its standard output")]

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use broker_failover::calibration::{CalibrationSettings, History, HistoryOptions, calibrate};

use super::{Folder, HEADER, START};

/// Names the file to read in the process that is measured.
const FILE: &str = "CALIBRATE_MEMORY_FILE";

/// The most memory, in KiB, of a process that calibrates a history of so many rows.
fn peak(folder: &Folder, rows: u64) -> u64 {
    let path = folder.0.join("history.csv");
    let mut out = BufWriter::new(File::create(&path).expect("there is room for files"));
    write!(out, "{HEADER}").unwrap();
    for row in 0..rows {
        writeln!(out, "{},{},{},12.5", START + row / 2, ["east", "west"][row as usize % 2], row % 1_000 > 6).unwrap();
    }
    out.flush().unwrap();
    drop(out);
    let this = std::env::current_exe().expect("a test knows its file");
    let mut child = Command::new(this);
    child.args(["--exact", "memory::a_long_history_takes_no_more_memory_than_a_short_one", "--nocapture"]);
    let output = child.env(FILE, &path).output().expect("the test runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let peak = text.lines().find_map(|line| line.split("peak KiB: ").nth(1));
    peak.and_then(|peak| peak.trim().parse().ok()).expect("it says how much")
}

fn measured(path: &Path) {
    let options = HistoryOptions { now: u64::MAX, ..HistoryOptions::default() };
    let mut history = History::open(path, &options).unwrap();
    let mut called = 0;
    let report = calibrate(&mut history, &CalibrationSettings::default(), || called += 1).unwrap();
    assert_eq!(report.reading.used, report.reading.rows);
    assert_eq!(called, report.reading.used >> 16, "progress is told of");
    let (read, all) = history.meter().progress();
    assert_eq!((read, all), (path.metadata().unwrap().len(), read));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("peak KiB: {}", line.trim().trim_end_matches(" kB"));
}

#[test]
fn a_long_history_takes_no_more_memory_than_a_short_one() {
    if let Some(file) = std::env::var_os(FILE) {
        return measured(Path::new(&file));
    }
    let folder = Folder::new("memory");
    let (short, long) = (peak(&folder, 50_000), peak(&folder, 500_000));
    println!("peak memory: {short} KiB for 50,000 rows, {long} KiB for 500,000");
    // Nine times the rows are 16 MB more of file.
    assert!(long < short + 4_096, "{short} KiB for 50,000 rows, {long} KiB for 500,000");
}
