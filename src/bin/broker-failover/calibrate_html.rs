//! `calibrate --html`: the report as one file that needs no other and runs nothing.

use std::fmt::Write as _;
use std::time::Duration;

use broker_failover::calibration::counterfactual::Replayed;
use broker_failover::calibration::{
    Basis, Estimate, Fit, Names, PathReport, Reading, Report, Timeline, TriggerReport, Verdict,
};
use broker_failover::planning::Spoken;

use crate::calibrate_plots as plots;
use crate::calibrate_replay::Replay;
use crate::calibrate_replay_output::{self as replay, moment};
use crate::calibrate_times as times;
use crate::svg::{escape, significant};

/// Rows of a table of switches; more are in the JSON.
const MOST_ROWS: usize = 200;
/// Endpoints with plots of their own; more are in the JSON.
const MOST_PATHS: usize = 12;

/// A cell with more characters may be broken into lines.
const LONG_CELL: usize = 32;

/// Light by default, dark where the reader's system is, light again on paper.
const STYLE: &str = include_str!("calibrate.css");

/// What a report says of itself, and what it shows.
pub(crate) struct Content<'a> {
    /// The command line that made it.
    pub(crate) command: &'a str,
    /// The history's name, as given.
    pub(crate) input: &'a str,
    pub(crate) report: &'a Report,
    pub(crate) timeline: &'a Timeline,
    pub(crate) names: &'a Names,
    pub(crate) replay: Option<&'a Replay>,
}

pub(crate) fn html(content: &Content<'_>) -> String {
    let report = content.report;
    let title = format!("Calibration: {}", content.input);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
        escape(&title)
    );
    answer(&mut out, report);
    made(&mut out, content);
    probes(&mut out, content);
    let shown: Vec<&PathReport> = match &*report.endpoints {
        [only] => vec![only],
        several => several.iter().take(MOST_PATHS).chain([&report.overall]).collect(),
    };
    let whole = if report.endpoints.len() > 1 { "; \u{201c}all\u{201d} is all endpoints together" } else { "" };
    section(&mut out, "Length of blips", &format!("How long failures lasted that passed by themselves{whole}."));
    for path in &shown {
        let note = format!("{}: {}.", basis(path.lengths.used), path.lengths.why);
        pair(&mut out, path, &plots::lengths(path), &note, &lengths_table(path));
    }
    section(
        &mut out,
        "False failovers against patience",
        "How often each trigger would fire for a blip, in a month of 30 days.",
    );
    for path in &shown {
        let note =
            format!("The band is the interval that holds the truth in {} % of cases.", percent(report.confidence));
        pair(&mut out, path, &plots::false_failovers(path, report.max_false_per_month), &note, &false_table(path));
    }
    section(
        &mut out,
        "Detection against patience",
        "From a fault that lasts until the trigger fires; in outages of the history, from the first failed probe (half, worst).",
    );
    let left = report.rto_seconds.map(|rto| (rto - report.recovery_seconds).max(0.0));
    for path in &shown {
        pair(&mut out, path, &plots::detection(path, left), "", &detection_table(path));
    }
    if report.endpoints.len() > MOST_PATHS {
        let more = report.endpoints.len() - MOST_PATHS;
        let _ = writeln!(out, "<p>{more} more endpoints are in the JSON report.</p>");
    }
    if let Some(replay) = content.replay {
        replays(&mut out, content, &replay.replayed, &replay.notes);
    }
    out.push_str("</section>\n</main>\n</body>\n</html>\n");
    out
}

fn percent(share: f64) -> f64 {
    (share * 1_000.0).round() / 10.0
}

fn spoken(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "unbounded".to_owned(), |time| Spoken(time).to_string())
}

/// The recommendation, before anything else.
fn answer(out: &mut String, report: &Report) {
    let (class, head) = match &report.recommendation.trigger {
        Some(trigger) => ("answer", format!("Recommended trigger: {trigger}")),
        None => ("answer none", "No trigger is recommended".to_owned()),
    };
    let _ = writeln!(
        out,
        "<div class=\"{class}\"><strong>{}</strong><p>{}</p></div>",
        escape(&head),
        escape(&report.recommendation.why)
    );
}

/// How a reader can make it again.
fn made(out: &mut String, content: &Content<'_>) {
    let (report, version) = (content.report, env!("CARGO_PKG_VERSION"));
    let Reading { format, compression, .. } = &report.reading;
    let wrapped = compression.map_or(String::new(), |wrapped| format!(" in {wrapped}"));
    let limits = match (report.max_false_per_month, report.rto_seconds) {
        (None, None) => "none stated".to_owned(),
        (most, rto) => {
            let most = most.map(|most| format!("at most {most} false failovers a month"));
            let rto = rto.map(|rto| format!("back within {}", spoken(rto)));
            most.into_iter().chain(rto).collect::<Vec<_>>().join(", ")
        }
    };
    let facts = [
        ("Command", content.command.to_owned()),
        ("Version", format!("broker-failover {version}")),
        ("History", format!("{} ({format}{wrapped})", content.input)),
        ("Rows", rows_in_words(&report.reading)),
        ("Span", format!("{} to {}, {}", report.from, report.to, spoken(report.span_seconds))),
        ("Limits", limits),
        (
            "Outage",
            format!(
                "a run of failures of more than {} from its first failed probe to its last; a shorter one is a blip",
                spoken(report.outage_after_seconds)
            ),
        ),
    ];
    out.push_str("<dl class=\"made\">\n");
    for (name, value) in facts {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    out.push_str("</dl>\n<section>\n");
}

fn rows_in_words(reading: &Reading) -> String {
    let Reading { rows, used, duplicates, conflicts, reordered, late, clock_steps, .. } = reading;
    let rare = [
        (duplicates, "left out as duplicates"),
        (conflicts, "of these say something else than the first"),
        (reordered, "put in order"),
        (late, "left out as too late to be put in order"),
        (clock_steps, "times the clock was set"),
    ];
    let rare = rare.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!("; {count} {what}"));
    format!("{rows}, of which {used} count{}", rare.collect::<String>())
}

/// Begins a section, and ends the one before.
fn section(out: &mut String, head: &str, lead: &str) {
    let _ = writeln!(out, "</section>\n<section>\n<h2>{}</h2>\n<p>{}</p>", escape(head), escape(lead));
}

/// A plot with its table beside it.
fn pair(out: &mut String, path: &PathReport, plot: &str, note: &str, table: &str) {
    let name = escape(&path.endpoint);
    let _ = writeln!(
        out,
        "<h3>{name}</h3>\n<div class=\"pair\">\n<figure>\n{plot}<figcaption>{}</figcaption>\n</figure>\n{table}</div>",
        escape(note)
    );
}

/// A table; the first cell of a row heads it.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = "<div class=\"wide\"><table>\n<thead><tr>".to_owned();
    heads.iter().for_each(|head| {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(head));
    });
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let (long, cell) = (cell.chars().count() > LONG_CELL, escape(cell));
            let _ = match place {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ if long => write!(out, "<td class=\"long\">{cell}</td>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

fn probes(out: &mut String, content: &Content<'_>) {
    let report = content.report;
    let row = |path: &PathReport| content.names.find(&path.endpoint).map_or(usize::MAX, |index| index.0 as usize);
    let paths: Vec<_> = report.endpoints.iter().take(MOST_PATHS).map(|path| (path, row(path))).collect();
    let width = Spoken(content.timeline.spans().1);
    let _ = writeln!(
        out,
        "<h2>What was seen</h2>\n<div class=\"stack\">\n<figure>\n{}",
        times::timeline(content.timeline, &paths)
    );
    let _ = writeln!(
        out,
        "<figcaption>Times are UTC. Each column is {width}; in steps of an eighth it shows the share of its probes that \
         failed. A gap is neither health nor failure; a column with few probes has less than half of those that it should \
         have.</figcaption>\n</figure>"
    );
    let heads = [
        "Endpoint",
        "Probes",
        "Failed",
        "Every",
        "Covered",
        "Gaps",
        "Longest gap",
        "Blips",
        "Blips an hour",
        "Longest blip",
        "Outages",
        "In outages",
    ];
    let cells = |path: &PathReport| {
        vec![
            path.endpoint.clone(),
            path.samples.to_string(),
            path.failed.to_string(),
            spoken(path.interval_seconds),
            spoken(path.covered_seconds),
            format!("{} of more than {}", path.gaps.count, spoken(path.gaps.longer_than_seconds)),
            spoken(path.gaps.longest_seconds),
            format!(
                "{}{}",
                path.blips.count,
                if path.blips.cut > 0 { format!(" and {} cut off", path.blips.cut) } else { String::new() }
            ),
            estimate(&path.blips.per_hour),
            spoken(path.blips.longest_seconds),
            path.outages.to_string(),
            spoken(path.outage_seconds),
        ]
    };
    out.push_str(&table(&heads, report.endpoints.iter().map(cells)));
    let outages: Vec<_> = report.endpoints.iter().flat_map(|path| &path.outage_list).collect();
    if !outages.is_empty() {
        let rows = outages.iter().take(MOST_ROWS).map(|outage| {
            let end = outage.to.clone().unwrap_or_else(|| "not seen".to_owned());
            vec![
                outage.from.clone(),
                outage.endpoint.clone(),
                Spoken(Duration::from_millis(outage.millis)).to_string(),
                end,
            ]
        });
        out.push_str(&table(&["Outage from", "Endpoint", "Length", "Answered again"], rows));
    }
    out.push_str("</div>\n");
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Exponential => "Computed with the exponential fit",
        Basis::LogNormal => "Computed with the log-normal fit",
        Basis::Counted => "Computed with what was counted, with neither fit",
    }
}

fn lengths_table(path: &PathReport) -> String {
    let fit = |name: &str, fit: &Option<Fit>| {
        fit.as_ref().map(|fit| {
            let good = if fit.accepted { "fits" } else { "does not fit" };
            vec![
                format!("{name} fit"),
                format!(
                    "mean {}, median {}; {good} (p = {:.3})",
                    spoken(fit.mean_seconds),
                    spoken(fit.median_seconds),
                    fit.p_value
                ),
            ]
        })
    };
    let quantile = |point: &broker_failover::calibration::Point| {
        let share =
            if point.share >= 1.0 { "the longest".to_owned() } else { format!("{} % up to", percent(point.share)) };
        vec![share, spoken(point.seconds)]
    };
    let rows = [vec!["blips".to_owned(), path.blips.count.to_string()]]
        .into_iter()
        .chain(path.lengths.quantiles.iter().map(quantile))
        .chain(fit("exponential", &path.lengths.exponential))
        .chain(fit("log-normal", &path.lengths.log_normal));
    table(&["", "Length"], rows)
}

fn estimate(estimate: &Estimate) -> String {
    let high = if estimate.high.is_finite() { significant(estimate.high) } else { "unbounded".to_owned() };
    format!("{} ({} to {high})", significant(estimate.value), significant(estimate.low))
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NotAsked => "-",
        Verdict::Keeps => "keeps",
        Verdict::TooMany => "too many",
        Verdict::NotProven => "not proven",
        Verdict::TooSlow => "too slow",
    }
}

fn false_table(path: &PathReport) -> String {
    let cells = |row: &TriggerReport| {
        vec![
            row.trigger.clone(),
            spoken(row.patience_seconds),
            row.false_failovers.to_string(),
            estimate(&row.false_per_month),
            verdict(row.verdict).to_owned(),
        ]
    };
    table(&["Trigger", "Patience", "Counted", "A month", "Limits"], path.triggers.iter().map(cells))
}

fn detection_table(path: &PathReport) -> String {
    let cells = |row: &TriggerReport| {
        let delays = &row.detection_seconds;
        let seen = row
            .outage_detection_seconds
            .map_or_else(|| "-".to_owned(), |seen| format!("{}, {}", spoken(seen.p50), spoken(seen.worst)));
        vec![
            row.trigger.clone(),
            spoken(delays.p50),
            spoken(delays.p95),
            spoken(delays.worst),
            format!("{} of {}", row.outages_detected, row.outages_detected + row.outages_missed),
            seen,
        ]
    };
    table(&["Trigger", "Half", "95 %", "Worst", "Outages", "In those"], path.triggers.iter().map(cells))
}

fn replays(out: &mut String, content: &Content<'_>, replayed: &Replayed, notes: &[String]) {
    let lead = format!(
        "What the engine would have done with group {} of the configuration: {}.",
        replayed.group,
        replay::summary(replayed)
    );
    section(out, "Replay", &lead);
    let paths: Vec<_> = replayed
        .endpoints
        .iter()
        .map(|name| {
            let path = content.report.endpoints.iter().find(|path| path.endpoint == *name);
            (path, content.names.find(name).map_or(usize::MAX, |index| index.0 as usize))
        })
        .collect();
    let _ = writeln!(
        out,
        "<div class=\"stack\">\n<figure>\n{}</figure>",
        times::replay(replayed, content.timeline, &paths)
    );
    let sums = replay::sums(replayed).into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    out.push_str(&table(&["Where the time went", ""], sums));
    out.push_str("</div>\n");
    let name = |place| replay::name(replayed, place).to_owned();
    if !replayed.switches.is_empty() {
        let rows = replayed.switches.iter().enumerate().take(MOST_ROWS).map(|(place, switch)| {
            vec![
                moment(switch.decided),
                switch.epoch.to_string(),
                switch.kind.name().to_owned(),
                format!("{} \u{2192} {}", name(switch.from), name(switch.to)),
                switch.reason.map_or(String::new(), |reason| reason.code().to_owned()),
                switch.held().map_or_else(|| "-".to_owned(), |held| Spoken(held).to_string()),
                Spoken(replayed.cost(place)).to_string(),
                replay::afterwards(replayed, place),
            ]
        });
        out.push_str(&table(&["Decided", "Epoch", "Kind", "Path", "Reason", "Held", "Cost", "Afterwards"], rows));
        if replayed.switches.len() > MOST_ROWS {
            let more = replayed.switches.len() - MOST_ROWS;
            let _ = writeln!(out, "<p>{more} more switches are in the JSON report.</p>");
        }
    }
    if !replayed.outages.is_empty() {
        out.push_str("<h3>Outages of the active path that were not left, or late</h3>\n");
        let rows = replayed.outages.iter().take(MOST_ROWS).map(|outage| {
            vec![
                moment(outage.start),
                name(outage.endpoint),
                Spoken(outage.length()).to_string(),
                replay::outage_in_words(outage),
            ]
        });
        out.push_str(&table(&["First failed", "Endpoint", "Length", "Why"], rows));
    }
    if !replayed.halts.is_empty() {
        out.push_str("<h3>Halts</h3>\n");
        let rows = replayed.halts.iter().take(MOST_ROWS).map(|halt| {
            vec![moment(halt.start), name(halt.endpoint), halt.code.clone(), replay::halt_in_words(replayed, halt)]
        });
        out.push_str(&table(&["Began", "On", "Code", "For"], rows));
    }
    out.push_str("<h3>Assumed</h3>\n<ul>\n");
    for sentence in notes {
        let _ = writeln!(out, "<li>{}.</li>", escape(sentence));
    }
    out.push_str("</ul>\n");
}
