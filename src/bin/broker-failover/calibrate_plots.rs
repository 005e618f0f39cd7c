//! The plots of a calibration, as SVG inside its HTML report. Colours are the report's, so that they follow its light and
//! dark; whatever is told by a colour is told by a shape or a dash besides.

use std::fmt::Write as _;

use broker_failover::calibration::counterfactual::{Afterwards, Replayed};
use broker_failover::calibration::{Bin, PathReport, Timeline, TriggerReport};

use crate::calibrate_replay::{moment, name};
use crate::svg::{Scale, escape, points, significant};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 744.0;
/// Of a plot over time, which takes the whole width of the page.
const WIDE: f64 = 1140.0;
const WIDE_RIGHT: f64 = 1124.0;
/// Top and bottom of the field of a plot with two axes, and where "none" is below it.
const FIELD: (f64, f64) = (40.0, 262.0);
const NONE: f64 = 284.0;

/// Height of the row of an endpoint.
const ROW: f64 = 34.0;
/// A name longer than this is cut off in a plot; the table beside it has it whole.
const LONGEST_NAME: usize = 12;

fn open((width, height): (f64, f64), title: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n"
    )
}

fn label(out: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#);
}

fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
    let _ = writeln!(out, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#);
}

fn rect(out: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, title: Option<&str>) {
    let _ = write!(out, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}""#);
    let _ = match title {
        Some(title) => writeln!(out, "><title>{}</title></rect>", escape(title)),
        None => writeln!(out, "/>"),
    };
}

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['\u{2026}']).collect()
}

/// A key to what is drawn, in a line at the top.
fn legend(out: &mut String, entries: &[(&str, &str)]) {
    let mut x = LEFT;
    for (class, text) in entries {
        let _ = writeln!(out, r#"<line x1="{x:.1}" y1="14" x2="{:.1}" y2="14" class="{class}"/>"#, x + 26.0);
        label(out, (x + 32.0, 18.0), "tick", "start", text);
        x += 46.0 + 6.6 * text.chars().count() as f64;
    }
}

/// Moments below a plot whose axis is wall time.
fn dates(out: &mut String, across: Scale, (top, bottom): (f64, f64)) {
    for place in 0..=4 {
        let at = across.low + (across.high - across.low) * f64::from(place) / 4.0;
        let x = across.at(at);
        line(out, (x, top), (x, bottom + 4.0), "grid");
        let anchor = ["start", "middle", "middle", "middle", "end"][place as usize];
        let text = moment(at.max(0.0) as u64);
        let text = text.get(..16).map_or(text.clone(), |minute| minute.replace('T', " "));
        label(out, (x, bottom + 18.0), "tick", anchor, &text);
    }
}

/// What is known of a span of the timeline.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Probed,
    /// Less than half of the probes that it should have.
    Thin,
    Nothing,
}

impl Known {
    const fn class(self) -> Option<&'static str> {
        match self {
            Self::Probed => Some("answered"),
            Self::Thin => Some("thin"),
            Self::Nothing => None,
        }
    }
}

/// What is known of each span of an endpoint. Spans without probes are a gap if they are as many as make one; fewer lie
/// between two probes.
fn known(row: &[Bin], spans: usize, width: f64, path: &PathReport) -> Vec<Known> {
    let expected = width / path.interval_seconds.max(f64::MIN_POSITIVE);
    let one = |place: usize, bin: &Bin| {
        let count = f64::from(bin.answered) + f64::from(bin.failed);
        let is_whole = place > 0 && place + 1 < row.len();
        match count {
            0.0 => Known::Nothing,
            _ if count < expected / 2.0 && expected >= 2.0 && is_whole => Known::Thin,
            _ => Known::Probed,
        }
    };
    let mut known: Vec<_> = row.iter().enumerate().map(|(place, bin)| one(place, bin)).collect();
    let near = (path.gaps.longer_than_seconds / width).ceil() as usize;
    let mut place = 0;
    while place < known.len() {
        let empty = known[place..].iter().take_while(|one| **one == Known::Nothing).count();
        if empty > 0 && empty < near && place > 0 && place + empty < known.len() {
            let before = known[place - 1];
            known[place..place + empty].fill(before);
        }
        place += empty.max(1);
    }
    known.resize(spans.max(known.len()), Known::Nothing);
    known
}

/// Neighbours that are the same, together: from, to, what.
fn runs<T: PartialEq + Copy>(values: impl IntoIterator<Item = T>) -> Vec<(usize, usize, T)> {
    let mut runs: Vec<(usize, usize, T)> = Vec::new();
    for (place, one) in values.into_iter().enumerate() {
        match runs.last_mut() {
            Some((_, end, last)) if *last == one => *end = place + 1,
            _ => runs.push((place, place + 1, one)),
        }
    }
    runs
}

/// The spans of an endpoint as bars; from below, the share of its probes that failed.
fn bars(out: &mut String, row: &[Bin], timeline: &Timeline, path: &PathReport, across: Scale, (y, height): (f64, f64)) {
    let (start, width) = timeline.spans();
    let width = width.as_nanos() as f64;
    let at = |place: usize| across.at(start as f64 + place as f64 * width);
    for (from, to, known) in runs(known(row, timeline.len(), width / 1e9, path)) {
        if let Some(class) = known.class() {
            rect(out, (at(from), y), (at(to) - at(from), height), class, None);
        }
    }
    // In steps of an eighth, the least of which is told for whatever failed at all.
    let eighths =
        |bin: &Bin| (u64::from(bin.failed) * 8).div_ceil((u64::from(bin.answered) + u64::from(bin.failed)).max(1));
    for (from, to, failed) in runs(row.iter().map(eighths)).into_iter().filter(|(.., failed)| *failed > 0) {
        let part = height * failed as f64 / 8.0;
        let class = if failed == 8 { "failed" } else { "some" };
        // A failure is never too thin to be seen.
        rect(out, (at(from), y + height - part), ((at(to) - at(from)).max(1.0), part), class, None);
    }
}

fn wall(timeline: &Timeline) -> Scale {
    let (start, width) = timeline.spans();
    let end = start as f64 + width.as_nanos() as f64 * timeline.len().max(1) as f64;
    Scale::linear((start as f64, end), (LEFT, WIDE_RIGHT))
}

/// A row of probes for each endpoint. `rows` are the timeline's, in the order of `paths`.
pub(crate) fn timeline(timeline: &Timeline, paths: &[(&PathReport, usize)]) -> String {
    let bottom = FIELD.0 + ROW * paths.len() as f64;
    let mut out = open((WIDE, bottom + 28.0), "Probes of each endpoint over time");
    legend(
        &mut out,
        &[
            ("key answered", "answered"),
            ("key some", "share that failed"),
            ("key failed", "all failed"),
            ("key thin", "few probes"),
            ("key nothing", "gap"),
        ],
    );
    let across = wall(timeline);
    dates(&mut out, across, (FIELD.0 - 8.0, bottom));
    for (place, (path, row)) in paths.iter().enumerate() {
        let y = FIELD.0 + ROW * place as f64;
        label(&mut out, (LEFT - 8.0, y + 16.0), "tick", "end", &short(&path.endpoint));
        line(&mut out, (LEFT, y + 11.0), (WIDE_RIGHT, y + 11.0), "nothing");
        bars(&mut out, timeline.row(*row), timeline, path, across, (y, 22.0));
    }
    out.push_str("</svg>\n");
    out
}

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

fn curve(out: &mut String, places: impl IntoIterator<Item = (f64, f64)>, class: &str) {
    let _ = writeln!(out, r#"<polyline points="{}" class="{class}"/>"#, points(places));
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
    let fit = |share: fn(&broker_failover::calibration::Point) -> Option<f64>| {
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

/// Where flow would have been: a thick bar on the active path, thin bars of the probes below it, a mark for each switch.
pub(crate) fn replay(replayed: &Replayed, timeline: &Timeline, paths: &[(Option<&PathReport>, usize)]) -> String {
    let bottom = FIELD.0 + ROW * (paths.len() + 1) as f64;
    let mut out = open((WIDE, bottom + 28.0), "Where order flow would have been");
    legend(
        &mut out,
        &[
            ("key active", "flow"),
            ("key good", "failover (filled)"),
            ("key false", "false failover (hollow)"),
            ("key halt", "halt"),
            ("key some", "share of the probes that failed"),
        ],
    );
    let across = wall(timeline);
    dates(&mut out, across, (FIELD.0 - 8.0, bottom));
    for (place, (path, row)) in paths.iter().enumerate() {
        let y = FIELD.0 + ROW * place as f64;
        label(&mut out, (LEFT - 8.0, y + 16.0), "tick", "end", &short(name(replayed, place)));
        line(&mut out, (LEFT, y + 20.0), (WIDE_RIGHT, y + 20.0), "nothing");
        if let Some(path) = path {
            bars(&mut out, timeline.row(*row), timeline, path, across, (y + 17.0, 6.0));
        }
    }
    let mut since = (replayed.first, replayed.primary);
    let ends = replayed.switches.iter().map(|switch| (switch.switched, switch.to));
    for next in ends.chain([(replayed.last, replayed.primary)]) {
        let (x, y) = (across.at(since.0 as f64), FIELD.0 + ROW * since.1 as f64);
        let title = format!("flow on {} from {}", name(replayed, since.1), moment(since.0));
        rect(&mut out, (x, y + 2.0), ((across.at(next.0 as f64) - x).max(1.0), 11.0), "active", Some(&title));
        since = next;
    }
    for switch in &replayed.switches {
        let x = across.at(switch.switched as f64);
        let class = match switch.afterwards {
            Afterwards::False { .. } | Afterwards::InVain { .. } => "false",
            Afterwards::Well => "back",
            Afterwards::Saved { .. } | Afterwards::Unknown => "good",
        };
        let [from, to] = [switch.from, switch.to].map(|place| FIELD.0 + ROW * place as f64 + 7.5);
        line(&mut out, (x, from), (x, to), class);
        let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{to:.1}" r="3.5" class="{class}"/>"#);
    }
    let y = FIELD.0 + ROW * paths.len() as f64;
    label(&mut out, (LEFT - 8.0, y + 16.0), "tick", "end", "halted");
    line(&mut out, (LEFT, y + 11.0), (WIDE_RIGHT, y + 11.0), "nothing");
    for halt in &replayed.halts {
        let (x, end) = (across.at(halt.start as f64), across.at(halt.end.unwrap_or(replayed.last) as f64));
        rect(
            &mut out,
            (x, y + 4.0),
            ((end - x).max(1.5), 14.0),
            "halt",
            Some(&format!("{} from {}", halt.code, moment(halt.start))),
        );
    }
    out.push_str("</svg>\n");
    out
}
