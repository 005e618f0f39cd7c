//! The plots of a calibration with two axes, as SVG inside its HTML report. Colours are the report's, so that they
//! follow its light and dark; whatever is told by a colour is told by a shape or a dash besides.

use std::fmt::Write as _;

use broker_failover::calibration::{PathReport, Point, TriggerReport};

use crate::svg::{LEFT, Scale, curve, escape, label, legend, line, open, points, significant};

const WIDTH: f64 = 760.0;
const RIGHT: f64 = 744.0;
/// Top and bottom of the field of a plot with two axes, and where "none" is below it.
const FIELD: (f64, f64) = (40.0, 262.0);
const NONE: f64 = 284.0;

/// The axis at the left, with a line across for each tick.
fn axis(out: &mut String, scale: Scale, text: &str) {
    for tick in scale.ticks() {
        let y = scale.at(tick);
        line(out, (LEFT, y), (RIGHT, y), "grid");
        label(out, (LEFT - 8.0, y + 4.0), "tick", "end", &plain(tick));
    }
    line(out, (LEFT, FIELD.0), (LEFT, FIELD.1), "axis");
    let (middle, text) = ((FIELD.0 + FIELD.1) / 2.0, escape(text));
    let _ = writeln!(
        out,
        r#"<text transform="translate(18 {middle}) rotate(-90)" class="tick" text-anchor="middle">{text}</text>"#
    );
}

/// A tick's number without digits that say nothing.
fn plain(tick: f64) -> String {
    let text = format!("{tick:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The share of blips up to each length: as counted, and as both fits have it.
pub(crate) fn lengths(path: &PathReport) -> String {
    let mut out = open((WIDTH, 316.0), &format!("Length of blips of {}", path.endpoint));
    legend(
        &mut out,
        &[("key counted", "counted"), ("key exponential", "exponential"), ("key lognormal", "log-normal")],
    );
    let survival = &path.lengths.survival;
    let positive = survival.iter().map(|point| point.seconds).filter(|seconds| *seconds > 0.0);
    let (low, high) = positive.clone().fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
    let (low, high) = if low < high { (low, high) } else { (high.max(0.1) / 10.0, high.max(0.1) * 10.0) };
    let across = Scale::logarithmic((low * 0.8, high * 1.25), (LEFT, RIGHT));
    let up = Scale::linear((0.0, 1.0), (FIELD.1, FIELD.0));
    axis(&mut out, up, "share of the blips that were shorter");
    for tick in across.ticks() {
        let x = across.at(tick);
        line(&mut out, (x, FIELD.0), (x, FIELD.1 + 4.0), "grid");
        label(&mut out, (x, FIELD.1 + 18.0), "tick", "middle", &plain(tick));
    }
    line(&mut out, (LEFT, FIELD.1), (RIGHT, FIELD.1), "axis");
    label(
        &mut out,
        ((LEFT + RIGHT) / 2.0, 308.0),
        "tick",
        "middle",
        "seconds from the first failed probe to the last (logarithmic)",
    );
    // Up to a length and without it: a step at each length to the share that is shorter than the next.
    let shorter = survival.iter().skip(1).map(|next| 1.0 - next.share).chain([1.0]);
    let mut steps = vec![(LEFT, up.at(0.0))];
    for (point, shorter) in survival.iter().zip(shorter) {
        let (x, y) = (across.at(point.seconds), steps.last().map_or(FIELD.1, |(_, y)| *y));
        steps.extend([(x, y), (x, up.at(shorter))]);
    }
    steps.extend(steps.last().map(|(_, y)| (RIGHT, *y)));
    curve(&mut out, steps, "counted");
    let fit = |share: fn(&Point) -> Option<f64>| {
        // Below the shortest length that is not one failed probe alone there is nothing to compare.
        let positive = survival.iter().filter(|point| point.seconds > 0.0);
        positive.filter_map(move |point| Some((across.at(point.seconds), up.at(1.0 - share(point)?))))
    };
    curve(&mut out, fit(|point| point.exponential), "exponential");
    curve(&mut out, fit(|point| point.log_normal), "lognormal");
    out.push_str("</svg>\n");
    out
}

/// Triggers across, by the failed probes that they take.
fn triggers(out: &mut String, rows: &[&TriggerReport], bottom: f64) -> Scale {
    let most = rows.iter().map(|row| row.failures as f64).fold(2.0, f64::max);
    let least = rows.iter().map(|row| row.failures as f64).fold(most, f64::min).max(1.0);
    let across = Scale::logarithmic((least * 0.85, (most * 1.18).max(least * 2.0)), (LEFT, RIGHT));
    line(out, (LEFT, bottom), (RIGHT, bottom), "axis");
    let mut ends = [f64::MIN; 3];
    for row in rows {
        let x = across.at(row.failures as f64);
        let half = 3.3 * row.trigger.chars().count() as f64;
        let lane = ends.iter().position(|end| x - half > end + 6.0).unwrap_or(0);
        ends[lane] = x + half;
        line(out, (x, bottom), (x, bottom + 5.0), "axis");
        // The first and the last must not leave the picture.
        let middle = x.clamp(half + 2.0, WIDTH - half - 2.0);
        label(out, (middle, bottom + 18.0 + 15.0 * lane as f64), "tick", "middle", &row.trigger);
    }
    let text = "trigger, placed by the failed probes that it takes (logarithmic)";
    label(out, ((LEFT + RIGHT) / 2.0, bottom + 68.0), "tick", "middle", text);
    across
}

fn by_patience(path: &PathReport) -> Vec<&TriggerReport> {
    let mut rows: Vec<_> = path.triggers.iter().collect();
    rows.sort_by_key(|row| row.failures);
    rows
}

/// False failovers a month against patience, with the interval and the owner's limit.
pub(crate) fn false_failovers(path: &PathReport, limit: Option<f64>) -> String {
    let rows = by_patience(path);
    let bottom = NONE + 14.0;
    let mut out = open((WIDTH, bottom + 76.0), &format!("False failovers a month against patience, {}", path.endpoint));
    let mut entries = vec![("key counted", "estimate"), ("key band", "confidence interval")];
    entries.extend(limit.map(|_| ("key limit", "your limit")));
    legend(&mut out, &entries);
    let values =
        rows.iter().flat_map(|row| [row.false_per_month.value, row.false_per_month.low, row.false_per_month.high]);
    let up = Scale::powers(values.chain(limit), (FIELD.1, FIELD.0));
    let place = |value: f64| if value > 0.0 { up.at(value) } else { NONE };
    axis(&mut out, up, "false failovers a month");
    line(&mut out, (LEFT, NONE), (RIGHT, NONE), "grid dashed");
    label(&mut out, (LEFT - 8.0, NONE + 4.0), "tick", "end", "none");
    let across = triggers(&mut out, &rows, bottom);
    let x = |row: &TriggerReport| across.at(row.failures as f64);
    let high = rows.iter().map(|row| (x(row), place(row.false_per_month.high)));
    let low = rows.iter().rev().map(|row| (x(row), place(row.false_per_month.low)));
    let _ = writeln!(out, r#"<polygon points="{}" class="band"/>"#, points(high.chain(low)));
    if let Some(limit) = limit {
        let y = place(limit);
        line(&mut out, (LEFT, y), (RIGHT, y), "limit");
        label(&mut out, (RIGHT - 4.0, y - 6.0), "tick", "end", &format!("limit {}", plain(limit)));
    }
    curve(&mut out, rows.iter().map(|row| (x(row), place(row.false_per_month.value))), "counted");
    for row in &rows {
        let (x, y, value) = (x(row), place(row.false_per_month.value), row.false_per_month.value);
        let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="mark"/>"#);
        if value > 0.0 {
            label(&mut out, (x + 7.0, y - 7.0), "tick strong", "start", &significant(value));
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Detection against patience; `left` is what the owner's recovery time leaves for it.
pub(crate) fn detection(path: &PathReport, left: Option<f64>) -> String {
    let rows = by_patience(path);
    let mut out = open((WIDTH, FIELD.1 + 76.0), &format!("Detection against patience, {}", path.endpoint));
    let mut entries =
        vec![("key counted", "half of all faults"), ("key exponential", "95 %"), ("key lognormal", "worst")];
    entries.extend(left.map(|_| ("key limit", "what your recovery time leaves")));
    legend(&mut out, &entries);
    let values = rows.iter().flat_map(|row| [row.detection_seconds.p50, row.detection_seconds.worst]);
    let up = Scale::powers(values.chain(left), (FIELD.1, FIELD.0));
    axis(&mut out, up, "seconds from the fault");
    let across = triggers(&mut out, &rows, FIELD.1);
    let x = |row: &TriggerReport| across.at(row.failures as f64);
    if let Some(left) = left.filter(|left| *left > 0.0) {
        line(&mut out, (LEFT, up.at(left)), (RIGHT, up.at(left)), "limit");
        label(&mut out, (LEFT + 6.0, up.at(left) - 6.0), "tick", "start", &format!("{} s left", plain(left)));
    }
    curve(&mut out, rows.iter().map(|row| (x(row), up.at(row.detection_seconds.worst))), "lognormal");
    curve(&mut out, rows.iter().map(|row| (x(row), up.at(row.detection_seconds.p95))), "exponential");
    curve(&mut out, rows.iter().map(|row| (x(row), up.at(row.detection_seconds.p50))), "counted");
    let mut last = f64::MIN;
    for row in &rows {
        let (x, y) = (x(row), up.at(row.detection_seconds.p50));
        let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="mark"/>"#);
        // Where two are near, their numbers do not meet.
        let (beside, anchor) =
            if x - last < 40.0 { ((x - 6.0, y - 8.0), "end") } else { ((x + 6.0, y + 16.0), "start") };
        let (beside, anchor) = if x > RIGHT - 40.0 { ((x - 6.0, y + 18.0), "end") } else { (beside, anchor) };
        label(&mut out, beside, "tick strong", anchor, &significant(row.detection_seconds.p50));
        last = x;
    }
    out.push_str("</svg>\n");
    out
}
