//! A calibration as tables for people.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use broker_failover::calibration::{Basis, Estimate, Fit, PathReport, Reading, Report, TriggerReport, Verdict};
use broker_failover::planning::{Seconds, Spoken};
use broker_failover::supervisor::visible::visible;

use crate::table::{ALARM, CARE, GOOD, PLAIN};

pub(crate) fn text(out: &mut impl Write, history: &str, report: &Report) -> io::Result<()> {
    reading(out, history, report)?;
    let together = (report.endpoints.len() > 1).then_some(&report.overall);
    let paths: Vec<_> = report.endpoints.iter().chain(together).collect();
    seen(out, &paths)?;
    lengths(out, &paths)?;
    for path in &report.endpoints {
        triggers(out, path, report)?;
    }
    recommendation(out, report)?;
    notes(out, report)
}

fn reading(out: &mut impl Write, history: &str, report: &Report) -> io::Result<()> {
    let Reading { format, compression, rows, used, duplicates, conflicts, reordered, late, clock_steps } =
        &report.reading;
    let format = format.replace('_', " ");
    let wrapped = compression.map_or_else(String::new, |wrapped| format!(" in {wrapped}"));
    let moment = |text: &str| text.replace('T', " ").split('.').next().unwrap_or_default().to_owned();
    let (from, to, span) = (moment(&report.from), moment(&report.to), spoken(report.span_seconds));
    writeln!(out, "{}: {format}{wrapped}, {from} to {to} UTC, {span}", visible(history))?;
    let mut said = vec![format!("{} rows, {} used", thousands(*rows), thousands(*used))];
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            said.push(format!("{} {what}", thousands(count)));
        }
    };
    say(*reordered, "put in order");
    say(*duplicates, "left out as duplicates");
    say(*conflicts, "of these say something else than the first (the failure counts)");
    say(*late, "left out as too late to be put in order");
    say(*clock_steps, "times the clock was set");
    writeln!(out, "{}\n", said.join("; "))
}

fn width(paths: &[&PathReport]) -> usize {
    paths.iter().map(|path| visible(&path.endpoint).chars().count()).max().unwrap_or(0).max(8)
}

fn seen(out: &mut impl Write, paths: &[&PathReport]) -> io::Result<()> {
    let width = width(paths);
    writeln!(
        out,
        "{:<width$} {:>12} {:>9} {:>12} {:>14} {:>8} {:>24} {:>14}",
        "ENDPOINT", "PROBES", "INTERVAL", "COVERED", "GAPS", "BLIPS", "AN HOUR (99 %)", "OUTAGES"
    )?;
    for path in paths {
        let total = |count: u64, seconds: f64| match count {
            0 => "none".to_owned(),
            _ => format!("{count}: {}", coarse(seconds)),
        };
        writeln!(
            out,
            "{:<width$} {:>12} {:>9} {:>12} {:>14} {:>8} {:>24} {:>14}",
            visible(&path.endpoint),
            thousands(path.samples),
            Seconds(duration(path.interval_seconds)),
            coarse(path.covered_seconds),
            total(path.gaps.count, path.gaps.seconds),
            thousands(path.blips.count),
            estimate(&path.blips.per_hour),
            total(path.outages, path.outage_seconds),
        )?;
    }
    writeln!(out)
}

fn lengths(out: &mut impl Write, paths: &[&PathReport]) -> io::Result<()> {
    let width = width(paths);
    writeln!(
        out,
        "{:<width$} {:>8} {:>8} {:>8} {:>8}  {:<24} LOG-NORMAL",
        "LENGTHS", "P50", "P90", "P99", "LONGEST", "EXPONENTIAL"
    )?;
    for path in paths {
        write!(out, "{:<width$}", visible(&path.endpoint))?;
        for share in [0.5, 0.9, 0.99, 1.0] {
            let point = path.lengths.quantiles.iter().find(|point| point.share == share);
            let text = point.map_or_else(|| "-".to_owned(), |point| Seconds(duration(point.seconds)).to_string());
            write!(out, " {text:>8}")?;
        }
        let used = |basis| if path.lengths.used == basis { " *" } else { "" };
        let exponential = format!("{}{}", fit(path.lengths.exponential.as_ref()), used(Basis::Exponential));
        let log_normal = format!("{}{}", fit(path.lengths.log_normal.as_ref()), used(Basis::LogNormal));
        let row = format!("  {exponential:<24} {log_normal}");
        writeln!(out, "{}", row.trim_end())?;
        if path.lengths.used == Basis::Counted {
            writeln!(out, "{:width$} no fit is used: {}", "", path.lengths.why)?;
        }
        if path.blips.dispersion > 1.5 {
            let times = path.blips.dispersion;
            writeln!(
                out,
                "{:width$} {CARE}bursts{CARE:#}: {times:.1} times the variance of blips that come one by one",
                ""
            )?;
        }
    }
    writeln!(out)
}

fn fit(fit: Option<&Fit>) -> String {
    let Some(fit) = fit else { return "-".to_owned() };
    let mean = Seconds(duration((fit.mean_seconds * 10.0).round() / 10.0));
    match fit.sigma {
        None => format!("mean {mean}, p {:.3}", fit.p_value),
        Some(sigma) => format!("mean {mean}, sigma {sigma:.2}, p {:.3}", fit.p_value),
    }
}

fn triggers(out: &mut impl Write, path: &PathReport, report: &Report) -> io::Result<()> {
    writeln!(out, "{}", visible(&path.endpoint))?;
    writeln!(
        out,
        "{:<16} {:>8} {:>7} {:>28} {:>8}   {:>8} {:>8} {:>8} {:>9}  {}",
        "TRIGGER",
        "PATIENCE",
        "FIRED",
        "FALSE A MONTH (99 %)",
        "BY",
        "P50",
        "P95",
        "WORST",
        "OUTAGES",
        if report.max_false_per_month.is_some() { "LIMITS" } else { "" }
    )?;
    for row in &path.triggers {
        let (style, word) = verdict(row);
        let TriggerReport { trigger, false_failovers, detection_seconds: delay, .. } = row;
        let time = |seconds: f64| Seconds(duration((seconds * 10.0).round() / 10.0)).to_string();
        let outages = match row.outages_detected + row.outages_missed {
            0 => "-".to_owned(),
            all => format!("{} of {all}", row.outages_detected),
        };
        let line = format!(
            "{trigger:<16} {:>8} {:>7} {:>28} {:>8}   {:>8} {:>8} {:>8} {outages:>9}  {style}{word}{style:#}",
            Seconds(duration(row.patience_seconds)).to_string(),
            thousands(*false_failovers),
            estimate(&row.false_per_month),
            basis(row.basis),
            time(delay.p50),
            time(delay.p95),
            time(delay.worst),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

fn verdict(row: &TriggerReport) -> (Style, &'static str) {
    match row.verdict {
        Verdict::NotAsked => (PLAIN, ""),
        Verdict::Keeps => (GOOD, "ok"),
        Verdict::TooMany => (ALARM, "too many"),
        Verdict::NotProven => (CARE, "not proven"),
        Verdict::TooSlow => (ALARM, "too slow"),
    }
}

const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Exponential => "exp",
        Basis::LogNormal => "lognorm",
        Basis::Counted => "count",
    }
}

fn recommendation(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.max_false_per_month.is_none() {
        return Ok(());
    }
    let (style, verdict) = match &report.recommendation.trigger {
        Some(trigger) => (GOOD, format!("Recommended: {trigger}")),
        None => (ALARM, "Nothing is recommended".to_owned()),
    };
    writeln!(out, "{style}{verdict}{style:#}")?;
    wrapped(out, &format!("{}.", report.recommendation.why))?;
    writeln!(out)
}

/// A sentence in lines of at most 110 characters.
fn wrapped(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 110 {
            writeln!(out, "{line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{line}")
}

fn notes(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let outage = Spoken(duration(report.outage_after_seconds));
    wrapped(
        out,
        &format!(
            "An outage is a run of failures with more than {outage} between its first failed probe and its last; a shorter \
             one is a blip, so a trigger that is more patient than that never fires for nothing here. Gaps are neither \
             health nor failure: they are left out of every rate. A month is 30 days. LENGTHS of blips are from the first \
             failed probe to the next success; p is the probability of lengths that fit no better; * is the fit that is used. \
             FIRED counts the blips of this history; BY says what the month is computed with. P50, P95 and WORST are \
             detection from the fault. Past blips promise nothing: calibrate again when the path changes."
        ),
    )
}

fn estimate(estimate: &Estimate) -> String {
    let Estimate { value, low, high } = *estimate;
    format!("{} ({} to {})", number(value), number(low), number(high))
}

fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => "any".to_owned(),
        value if value >= 1_000.0 => thousands(value.round() as u64),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.01 || value <= 0.0 => format!("{value:.2}"),
        value => format!("{value:.0e}"),
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Two units at most: to an hour from two days on, to a minute from two hours on.
fn coarse(seconds: f64) -> String {
    let grain = match seconds {
        seconds if seconds >= 172_800.0 => 3_600.0,
        seconds if seconds >= 7_200.0 => 60.0,
        _ => return spoken(seconds),
    };
    spoken((seconds / grain).round() * grain)
}

fn spoken(seconds: f64) -> String {
    Spoken(duration(seconds)).to_string()
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
