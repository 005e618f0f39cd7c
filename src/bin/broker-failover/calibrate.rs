//! `calibrate`: what a history of real probes says about the patience of each trigger.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use broker_failover::calibration::{
    CalibrationError, CalibrationSettings, History, HistoryOptions, Meter as Reading, Report, Unit, calibrate,
};
use broker_failover::sim::Rule;
use broker_failover::supervisor::config::{GroupConfig, duration};
use serde::Serialize;

use crate::calibrate_html::{self, Content};
use crate::calibrate_output;
use crate::calibrate_replay::{Replay, ReplayArguments, Seen};
use crate::plan::{exists, flag_refused, not_an_input, refuse, write_new};
use crate::printed::printed;

/// Bytes from which on reading takes long enough to say how far it is.
const LONG: u64 = 64 << 20;

/// Calibrate triggers on a history of real probes: how often blips come and how long they are, how often each trigger would
/// have failed over for nothing, how soon it detects an outage, and the smallest patience that keeps to your limits.
///
/// HISTORY is the folder of a supervisor's journal, or a file of CSV or JSON Lines, plain, in gzip or in zstd, or - for
/// such a file on standard input, with the
/// columns timestamp, endpoint, ok and, if you have it, latency.
///
/// A timestamp is RFC 3339 with an offset (2026-11-29T22:13:05.25Z), or a number since 1970 in a column timestamp_s,
/// timestamp_ms, timestamp_us or timestamp_ns. ok is true, false, 1 or 0. A latency is a number in a column latency_s,
/// latency_ms, latency_us or latency_ns, or nothing. One file has one form and one unit.
#[derive(Clone, clap::Args)]
#[command(
    after_help = "A DURATION is integers with units: 250ms, 60s, 1h 30m (ns, us, ms, s, m, h, d). A UNIT is s, ms, us or ns. \
    A TRIGGER is a number of failures in a row, 3; a window of nothing but failures, \"window 60s\"; or failures among the \
    newest results, \"3 of 5\".\n\n\
    Exit status: 0 calibrated, and a trigger is recommended if a limit was given; 1 nothing is recommended: no trigger keeps \
    to the limits, or the history is too short to say so; 2 the command line or the history is at fault."
)]
pub(crate) struct Arguments {
    /// The folder of a journal, a file, or - for standard input, which neither --replay nor --html takes
    history: PathBuf,

    /// Only this endpoint; may be repeated [default: all]
    #[arg(long = "endpoint", value_name = "NAME", help_heading = "History")]
    endpoints: Vec<String>,
    /// Of a journal, only this group; its endpoints then go by their plain names, else as GROUP/ENDPOINT [default: all]
    #[arg(long, value_name = "NAME", help_heading = "History")]
    group: Option<String>,
    /// The unit of a column timestamp that holds numbers [default: none; it then holds RFC 3339]
    #[arg(long, value_name = "UNIT", help_heading = "History")]
    timestamp_unit: Option<Unit>,
    /// The unit of a column latency
    #[arg(long, value_name = "UNIT", help_heading = "History")]
    latency_unit: Option<Unit>,
    /// Skip columns that have no meaning here, instead of refusing them
    #[arg(long, help_heading = "History")]
    ignore_other_columns: bool,

    /// A longer time between two results is a gap, of which nothing is known [default: 3 intervals]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Rules")]
    max_gap: Option<Duration>,
    /// From one probe to the next [default: what is usual in the history]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Rules")]
    interval: Option<Duration>,
    /// A run of failures is an outage if more than this lies between its first failed probe and its last, else a blip
    /// [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Rules")]
    outage_after: Option<Duration>,
    /// A row of the tables; may be repeated [default: 1, 3, 6, window 60s, 12, window 300s, window 900s]
    #[arg(long = "trigger", value_name = "TRIGGER", help_heading = "Rules")]
    triggers: Vec<Rule>,

    /// At most so many false failovers in a month of 30 days, on each endpoint; a trigger is then recommended
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    max_false_per_month: Option<f64>,
    /// From a fault to the end of the recovery it takes at most this [default: not asked]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "max_false_per_month", help_heading = "Limits")]
    rto: Option<Duration>,
    /// What the recovery takes once the fault is detected; `plan` works it out [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "rto", help_heading = "Limits")]
    recovery: Option<Duration>,

    #[command(flatten)]
    replay: ReplayArguments,

    /// As JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Also write the report with its plots to this file, as HTML that needs no other file; one that exists is not
    /// overwritten
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Overwrite it
    #[arg(long, requires = "html", help_heading = "Output")]
    force: bool,
}

impl Arguments {
    fn settings(&self) -> CalibrationSettings {
        let defaults = CalibrationSettings::default();
        CalibrationSettings {
            triggers: if self.triggers.is_empty() { defaults.triggers } else { self.triggers.clone() },
            endpoints: self.endpoints.clone(),
            outage_after: self.outage_after.unwrap_or(defaults.outage_after),
            interval: self.interval,
            max_gap: self.max_gap,
            max_false_per_month: self.max_false_per_month,
            rto: self.rto,
            recovery: self.recovery.unwrap_or(defaults.recovery),
        }
    }

    /// What the history goes by.
    fn history_name(&self) -> String {
        if self.is_stream() { "standard input".to_owned() } else { self.history.display().to_string() }
    }

    fn is_stream(&self) -> bool {
        self.history == Path::new("-")
    }

    fn open(&self) -> Result<History, String> {
        let opened = match self.is_stream() {
            true => History::read(io::stdin(), self.history_name(), &self.options()),
            false => History::open(&self.history, &self.options()),
        };
        opened.map_err(|error| error.to_string())
    }

    #[expect(clippy::disallowed_methods, reason = "what is later than today is no history")]
    fn options(&self) -> HistoryOptions {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        HistoryOptions {
            timestamp_unit: self.timestamp_unit,
            latency_unit: self.latency_unit,
            ignore_other_columns: self.ignore_other_columns,
            group: self.group.clone(),
            now: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let (report, replay) = match answer(arguments) {
        Ok(answer) => answer,
        Err(message) => return refuse(&message),
    };
    let mut out = anstream::stdout().lock();
    let written = match arguments.json {
        true => {
            let json = Json { report: &report, replay: replay.as_ref().map(Replay::json) };
            serde_json::to_writer_pretty(&mut out, &json).map_err(io::Error::from).and_then(|()| writeln!(out))
        }
        false => calibrate_output::text(&mut out, &arguments.history_name(), &report).and_then(|()| match &replay {
            Some(replay) => writeln!(out).and_then(|()| replay.text(&mut out)),
            None => Ok(()),
        }),
    };
    let answered = report.max_false_per_month.is_none() || report.recommendation.trigger.is_some();
    printed(written, "the calibration", ExitCode::from(u8::from(!answered)))
}

/// The report, and with a replay what that came to.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<serde_json::Value>,
}

/// Everything that is asked for. The history is read once for the report, and once more for what needs it whole.
fn answer(arguments: &Arguments) -> Result<(Report, Option<Replay>), String> {
    // What would be refused in the end is refused before a long reading.
    let twice = [("--replay", arguments.replay.replay.is_some()), ("--html", arguments.html.is_some())];
    if let Some((flag, _)) = twice.into_iter().find(|(_, asked)| *asked && arguments.is_stream()) {
        return Err(format!("standard input: can be read once, and {flag} reads the history twice; expected a file"));
    }
    if let Some(file) = arguments.html.as_ref().filter(|file| !arguments.force && file.exists()) {
        return Err(exists(file));
    }
    if let Some(file) = &arguments.html {
        let read = [Some(arguments.history.as_path()), arguments.replay.replay.as_deref()];
        not_an_input(file, read.into_iter().flatten())?;
    }
    let group = arguments.replay.group(arguments.group.as_deref())?;
    let report = report(arguments)?;
    if group.is_none() && arguments.html.is_none() {
        return Ok((report, None));
    }
    if let Some(group) = group.as_ref().filter(|_| arguments.group.is_none() && report.reading.format == "journal") {
        if groups_of(&report).contains(&*group.name) {
            // The journal has it by the same name: that is the one which is meant.
            return answer(&Arguments { group: Some(group.name.clone()), ..arguments.clone() });
        }
        one_group(arguments, group, &report)?;
    }
    let mut history = arguments.open()?;
    let asked = group.as_ref().map(|group| (group, arguments.replay.assumptions(group, &report)));
    let mut meter = Meter::of(history.meter());
    let seen = Seen::read(&arguments.history, &mut history, &arguments.endpoints, asked, || meter.show());
    meter.end();
    let Seen { timeline, replayed } = seen?;
    let replay = group.zip(replayed).map(|(group, replayed)| Replay::new(replayed, &group, &report));
    if let Some(file) = &arguments.html {
        let content = Content {
            command: &command_line(),
            input: &arguments.history_name(),
            report: &report,
            timeline: &timeline,
            names: history.names(),
            replay: replay.as_ref(),
        };
        write_new(file, calibrate_html::html(&content).as_bytes(), arguments.force)?;
    }
    Ok((report, replay))
}

/// The groups of a journal that was read without `--group`.
fn groups_of(report: &Report) -> BTreeSet<&str> {
    let names = report.endpoints.iter().map(|path| path.endpoint.as_str());
    names.filter_map(|name| name.split_once('/')).map(|(group, _)| group).collect()
}

/// Refuses to replay a journal of whose endpoints the group has none, because their names say their groups.
fn one_group(arguments: &Arguments, group: &GroupConfig, report: &Report) -> Result<(), String> {
    let names = || report.endpoints.iter().map(|path| path.endpoint.as_str());
    let known = |name: &str| group.endpoints.iter().any(|one| one.endpoint.name.trim() == name);
    if names().any(known) {
        return Ok(());
    }
    let groups: Vec<_> = groups_of(report).into_iter().map(|group| format!("{group:?}")).collect();
    Err(format!(
        "{}: without --group its endpoints go as GROUP/ENDPOINT, and group {:?} of the configuration has none of these; \
         expected --group with one of the journal's groups: {}",
        arguments.history_name(),
        group.name,
        groups.join(", ")
    ))
}

/// The command line as it would have to be typed.
fn command_line() -> String {
    let quoted = |word: std::borrow::Cow<'_, str>| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy()));
    std::iter::once("broker-failover".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn report(arguments: &Arguments) -> Result<Report, String> {
    let mut history = arguments.open()?;
    let mut meter = Meter::of(history.meter());
    let report = calibrate(&mut history, &arguments.settings(), || meter.show());
    meter.end();
    report.map_err(|error| match error {
        CalibrationError::Setting { key, found, expected } => flag_refused(key, &found, &expected),
        CalibrationError::History(error) => error.to_string(),
    })
}

/// How far a long reading is, on standard error, if somebody looks at it.
struct Meter {
    reading: Reading,
    shown: Option<u64>,
}

impl Meter {
    fn of(reading: Reading) -> Self {
        let (_, all) = reading.progress();
        let wanted = all >= LONG && io::stderr().is_terminal();
        Self { reading, shown: wanted.then_some(0) }
    }

    fn show(&mut self) {
        let Some(shown) = self.shown else { return };
        let (read, all) = self.reading.progress();
        let percent = (u128::from(read) * 100 / u128::from(all.max(1))) as u64;
        if shown < percent {
            self.shown = Some(percent);
            let _ = write!(io::stderr(), "\rread {percent} %");
        }
    }

    /// Leaves an empty line.
    fn end(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r{:16}\r", "");
        }
    }
}
