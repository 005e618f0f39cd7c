//! A simulation as tables for people, and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use broker_failover::engine::Silence;
use broker_failover::planning::{Seconds, Share, Spoken};
use broker_failover::sim::{Detected, Row, SimulationSettings, Table};
use serde_json::{Value, json};

use crate::table::{ALARM, GOOD, PLAIN};

/// Widths of the columns of a mean length in the table of silent outages.
const SILENT: usize = 12;

pub(crate) fn text(out: &mut impl Write, settings: &SimulationSettings, tables: &[Table]) -> io::Result<()> {
    writeln!(out, "Calm days and outages by trigger; {}\n", sample(settings))?;
    for table in tables {
        trade_off(out, table)?;
    }
    silent(out, settings, tables)?;
    notes(out, settings)
}

/// What was drawn, in words.
pub(crate) fn sample(settings: &SimulationSettings) -> String {
    let SimulationSettings { seeds, first_seed, days, interval, probe_loss, blips, .. } = settings;
    let last = first_seed + u64::from(*seeds) - 1;
    let seeds = if *seeds == 1 { format!("seed {first_seed}") } else { format!("seeds {first_seed} to {last}") };
    let days = if *days == 1 { "1 day".to_owned() } else { format!("{days} days") };
    let lost = if *probe_loss == Share::NONE { String::new() } else { format!(", {probe_loss} of them lost") };
    let each = if first_seed == &last { "" } else { " each" };
    format!("{seeds}, {days}{each}; a probe every {}{lost}; blips {}", Spoken(*interval), blips.spoken())
}

fn trade_off(out: &mut impl Write, table: &Table) -> io::Result<()> {
    writeln!(out, "Blips of {} on average", Seconds(table.blip_mean))?;
    writeln!(out, "{:<16} {:^27}   {:^17}   {:>13}", "", "FALSE FAILOVERS A DAY", "FROM FIRST PROBE", "FROM FAULT")?;
    writeln!(
        out,
        "{:<16} {:>9} {:>6} {:>10}   {:>8} {:>8}   {:>8} {:>8} {:>8}",
        "TRIGGER", "SIMULATED", "+-", "FORMULA", "P50", "P95", "P50", "P95", "MISSED"
    )?;
    for row in &table.rows {
        let closed = row.closed_form.map_or_else(|| "-".to_owned(), |daily| format!("{daily:.2}"));
        let time = |percent, measure: fn(&Detected) -> Duration| {
            row.detection(percent, measure)
                .map_or_else(|| "missed".to_owned(), |time| Seconds(tenths(time)).to_string())
        };
        let [probe, fault]: [fn(&Detected) -> Duration; 2] = [|found| found.from_probe, |found| found.from_fault];
        let style = if row.missed() > 0 { ALARM } else { PLAIN };
        writeln!(
            out,
            "{:<16} {:>9.2} {:>6.2} {closed:>10}   {:>8} {:>8}   {:>8} {:>8} {style}{:>8}{style:#}",
            row.rule,
            row.false_failovers_per_day(),
            row.standard_error(),
            time(50, probe),
            time(95, probe),
            time(50, fault),
            time(95, fault),
            row.missed(),
        )?;
    }
    writeln!(out)
}

/// To a tenth of a second: the phase of a probe is random to a nanosecond. What is shorter is told to a millisecond.
fn tenths(time: Duration) -> Duration {
    let grain = if time < Duration::from_secs(1) { 1 } else { 100 };
    let millis = (time.as_micros() + grain * 500) / (grain * 1_000) * grain;
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

fn silent(out: &mut impl Write, settings: &SimulationSettings, tables: &[Table]) -> io::Result<()> {
    let seeds = settings.seeds as usize;
    writeln!(out, "Outages that take the prober with them: detected of {seeds}")?;
    let means = tables
        .iter()
        .map(|table| format!("   {:^1$}", format!("BLIPS OF {}", Seconds(table.blip_mean)), 2 * SILENT + 1));
    let head = format!("{:<16}{}", "", means.collect::<String>());
    writeln!(out, "{}", head.trim_end())?;
    let both = format!("   {:>SILENT$} {:>SILENT$}", "AS HEALTH", "AS FAILURE");
    writeln!(out, "{:<16}{}", "SILENCE READ", both.repeat(tables.len()))?;
    for (index, rule) in settings.triggers.iter().enumerate() {
        write!(out, "{rule:<16}")?;
        for row in tables.iter().filter_map(|table| table.rows.get(index)) {
            for (silence, before) in [(Silence::Note, "   "), (Silence::Failure, " ")] {
                let detected = row.silent_detected(silence);
                let style = if detected < seeds { ALARM } else { GOOD };
                write!(out, "{before}{style}{detected:>SILENT$}{style:#}")?;
            }
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn notes(out: &mut impl Write, settings: &SimulationSettings) -> io::Result<()> {
    let outage = Spoken(settings.outage);
    writeln!(
        out,
        "+- is one standard error of SIMULATED. FORMULA is what `plan` computes; it leaves overlapping blips out."
    )?;
    writeln!(
        out,
        "P50 and P95 are times within which half and 95% of the outages were detected. MISSED are outages that ended,"
    )?;
    writeln!(
        out,
        "after {outage}, undetected. Silence read as health detects what a blip had brought down just before: luck."
    )?;
    writeln!(
        out,
        "Blips and their lengths are an assumption: measure yours. The order of the rows holds, their sizes are yours."
    )
}

pub(crate) fn json(settings: &SimulationSettings, tables: &[Table]) -> Value {
    let tables: Vec<_> = tables
        .iter()
        .map(|table| {
            json!({
                "blip_mean_seconds": table.blip_mean.as_secs_f64(),
                "triggers": table.rows.iter().map(row_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "seeds": settings.seeds,
        "first_seed": settings.first_seed,
        "days": settings.days,
        "interval_seconds": settings.interval.as_secs_f64(),
        "probe_loss": settings.probe_loss.as_f64(),
        "blips_per_day": settings.blips.per_day(),
        "outage_seconds": settings.outage.as_secs_f64(),
        "tables": tables,
    })
}

fn row_json(row: &Row) -> Value {
    let times = |measure: fn(&Detected) -> Duration| {
        let at = |percent| row.detection(percent, measure).map(|time| time.as_secs_f64());
        json!({ "p50": at(50), "p95": at(95) })
    };
    json!({
        "trigger": row.rule.to_string(),
        "failures": row.failures,
        "patience_seconds": row.patience.as_secs_f64(),
        "false_failovers": row.false_failovers(),
        "false_failovers_per_day": row.false_failovers_per_day(),
        "standard_error_per_day": row.standard_error(),
        "closed_form_per_day": row.closed_form,
        "detection_from_first_probe_seconds": times(|found| found.from_probe),
        "detection_from_fault_seconds": times(|found| found.from_fault),
        "outages": row.runs.len(),
        "missed": row.missed(),
        "silent_detected_as_health": row.silent_detected(Silence::Note),
        "silent_detected_as_failure": row.silent_detected(Silence::Failure),
    })
}
