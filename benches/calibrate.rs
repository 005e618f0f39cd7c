//! Calibration against the csv crate's bare iteration over the same file. See `references/performance.md`.
//!
//! `--ten-million` measures one history of ten million rows instead, once: time, rate and peak memory.

#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a benchmark reads the clock and prints")]

mod support;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use broker_failover::calibration::{CalibrationSettings, History, HistoryOptions, calibrate};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore as _, SeedableRng as _};
use support::{Bench, Limits};

/// Enough that what is computed once at the end, the fits, is a small part, as it is of any history of some hours.
const ROWS: u64 = 100_000;
const MANY: u64 = 10_000_000;
/// 2025-10-09, in milliseconds.
const START: u64 = 1_760_000_000_000;
const NAMES: [&str; 4] = ["us-east-1", "us-west-2", "leased-line", "internet"];

/// At least half the speed of bare iteration.
const HALF: Limits = Limits::at_most(2.0, 1.0).instructions(1.85).strict();

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("broker-failover-calibrate-{}", std::process::id()));
    let measured =
        fs::create_dir_all(&folder).and_then(|()| match std::env::args().any(|argument| argument == "--ten-million") {
            true => ten_million(&folder).map(|()| ExitCode::SUCCESS),
            false => compare(&folder),
        });
    let _ = fs::remove_dir_all(&folder);
    measured.unwrap_or_else(|error| {
        println!("FAILED: {error}");
        ExitCode::FAILURE
    })
}

fn compare(folder: &Path) -> io::Result<ExitCode> {
    let (csv, json) = (folder.join("history.csv"), folder.join("history.jsonl"));
    write_csv(&csv, ROWS)?;
    write_json(&json, ROWS)?;
    let (gzip, zstd) = (folder.join("history.csv.gz"), folder.join("history.csv.zst"));
    let plain = fs::read(&csv)?;
    let mut encoder = flate2::write::GzEncoder::new(File::create(&gzip)?, flate2::Compression::default());
    encoder.write_all(&plain)?;
    encoder.finish()?;
    fs::write(&zstd, zstd::encode_all(&plain[..], 3)?)?;

    let mut bench = Bench::default();
    let bare_file = csv.clone();
    let bare = bench.long(format!("csv crate: {ROWS} records, bare"), move |passes| {
        (0..passes).for_each(|_| assert_eq!(records(&bare_file), ROWS));
    });
    let samples_file = csv.clone();
    bench.long(format!("history: {ROWS} samples of CSV"), move |passes| {
        (0..passes).for_each(|_| assert_eq!(samples(&samples_file), ROWS));
    });
    let ours = bench.long(format!("calibrate: {ROWS} rows of CSV"), pass(csv));
    bench.row("5", ours, bare, HALF);
    for (name, file) in [("CSV in gzip", gzip), ("CSV in zstd", zstd), ("JSON Lines", json)] {
        bench.long(format!("calibrate: {ROWS} rows of {name}"), pass(file));
    }
    Ok(bench.main())
}

fn pass(file: PathBuf) -> impl FnMut(u64) + 'static {
    move |passes| {
        for _ in 0..passes {
            let mut history = open(&file);
            let report = calibrate(&mut history, &CalibrationSettings::default(), || {}).expect("a sound history");
            assert_eq!(black_box(report).reading.used, ROWS);
        }
    }
}

fn open(file: &Path) -> History {
    History::open(file, &HistoryOptions { now: u64::MAX, ..HistoryOptions::default() }).expect("a sound history")
}

fn samples(file: &Path) -> u64 {
    open(file).samples().fold(0, |count, sample| {
        black_box(sample.expect("a sound row"));
        count + 1
    })
}

/// What nothing that reads CSV with that crate can be faster than.
fn records(file: &Path) -> u64 {
    let mut reader = csv::Reader::from_path(file).expect("it was written");
    let (mut record, mut count) = (csv::ByteRecord::new(), 0);
    while reader.read_byte_record(&mut record).expect("a sound row") {
        black_box(&record);
        count += 1;
    }
    count
}

/// Four endpoints, a probe a second each, one blip in a thousand probes on average.
fn rows(rows: u64, mut take: impl FnMut(u64, &str, bool, u64) -> io::Result<()>) -> io::Result<()> {
    let mut dice = Pcg64Mcg::seed_from_u64(1);
    let mut failing = [0_u64; NAMES.len()];
    for row in 0..rows {
        let path = (row % NAMES.len() as u64) as usize;
        let draw = dice.next_u64();
        failing[path] = match failing[path] {
            0 if draw % 1_000 == 0 => 1 + (draw >> 32) % 20,
            left => left.saturating_sub(1),
        };
        let at = START + row / NAMES.len() as u64 * 1_000 + path as u64 * 10 + (draw >> 20) % 5;
        take(at, NAMES[path], failing[path] == 0, 800 + (draw >> 40) % 4_000)?;
    }
    Ok(())
}

fn write_csv(file: &Path, count: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    writeln!(out, "timestamp_ms,endpoint,ok,latency_ms")?;
    rows(count, |at, name, ok, micros| writeln!(out, "{at},{name},{ok},{}.{:03}", micros / 1_000, micros % 1_000))?;
    out.flush()
}

fn write_json(file: &Path, count: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    rows(count, |at, name, ok, micros| {
        writeln!(out, r#"{{"timestamp_ms":{at},"endpoint":"{name}","ok":{ok},"latency_us":{micros}}}"#)
    })?;
    out.flush()
}

/// One history of ten million rows: how long it takes, and how much memory.
fn ten_million(folder: &Path) -> io::Result<()> {
    let file = folder.join("history.csv");
    write_csv(&file, MANY)?;
    let size = file.metadata()?.len();
    let start = Instant::now();
    assert_eq!(records(&file), MANY);
    let bare = start.elapsed().as_secs_f64();
    let before = peak()?;
    let start = Instant::now();
    let mut history = open(&file);
    let report = calibrate(&mut history, &CalibrationSettings::default(), || {}).map_err(io::Error::other)?;
    let ours = start.elapsed().as_secs_f64();
    assert_eq!(report.reading.used, MANY);
    let million = MANY as f64 / 1e6;
    println!("{MANY} rows of CSV, {:.0} MB", size as f64 / 1e6);
    println!("csv crate, bare: {bare:.2} s, {:.1} million rows a second", million / bare);
    println!("calibrate: {ours:.2} s, {:.1} million rows a second: {:.2} times as long", million / ours, ours / bare);
    println!("peak memory: {} KiB, {before} KiB before it", peak()?);
    Ok(())
}

/// The most memory that this process had so far, in KiB.
fn peak() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.trim().parse().ok());
    peak.ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}
