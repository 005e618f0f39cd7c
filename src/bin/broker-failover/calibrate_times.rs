//! The plots of a calibration over time, as SVG inside its HTML report: what was probed, and where flow would have been.

use std::fmt::Write as _;

use broker_failover::calibration::counterfactual::{Afterwards, Replayed};
use broker_failover::calibration::{Bin, PathReport, Timeline};

use crate::calibrate_replay_output::{moment, name};
use crate::svg::{LEFT, Scale, label, legend, line, open, rect};

/// Width and right end of a plot, which takes the whole width of the page; and where its rows begin.
const WIDTH: f64 = 1140.0;
const RIGHT: f64 = 1124.0;
const TOP: f64 = 40.0;

/// Height of the row of an endpoint.
const ROW: f64 = 34.0;
/// A name longer than this is cut off in a plot; the table beside it has it whole.
const LONGEST_NAME: usize = 12;

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['\u{2026}']).collect()
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
    Scale::linear((start as f64, end), (LEFT, RIGHT))
}

/// A row of probes for each endpoint. `rows` are the timeline's, in the order of `paths`.
pub(crate) fn timeline(timeline: &Timeline, paths: &[(&PathReport, usize)]) -> String {
    let bottom = TOP + ROW * paths.len() as f64;
    let mut out = open((WIDTH, bottom + 28.0), "Probes of each endpoint over time");
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
    dates(&mut out, across, (TOP - 8.0, bottom));
    for (place, (path, row)) in paths.iter().enumerate() {
        let y = TOP + ROW * place as f64;
        label(&mut out, (LEFT - 8.0, y + 16.0), "tick", "end", &short(&path.endpoint));
        line(&mut out, (LEFT, y + 11.0), (RIGHT, y + 11.0), "nothing");
        bars(&mut out, timeline.row(*row), timeline, path, across, (y, 22.0));
    }
    out.push_str("</svg>\n");
    out
}

/// Where flow would have been: a thick bar on the active path, thin bars of the probes below it, a mark for each switch.
pub(crate) fn replay(replayed: &Replayed, timeline: &Timeline, paths: &[(Option<&PathReport>, usize)]) -> String {
    let bottom = TOP + ROW * (paths.len() + 1) as f64;
    let mut out = open((WIDTH, bottom + 28.0), "Where order flow would have been");
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
    dates(&mut out, across, (TOP - 8.0, bottom));
    for (place, (path, row)) in paths.iter().enumerate() {
        let y = TOP + ROW * place as f64;
        label(&mut out, (LEFT - 8.0, y + 16.0), "tick", "end", &short(name(replayed, place)));
        line(&mut out, (LEFT, y + 20.0), (RIGHT, y + 20.0), "nothing");
        if let Some(path) = path {
            bars(&mut out, timeline.row(*row), timeline, path, across, (y + 17.0, 6.0));
        }
    }
    let mut since = (replayed.first, replayed.primary);
    let ends = replayed.switches.iter().map(|switch| (switch.switched, switch.to));
    for next in ends.chain([(replayed.last, replayed.primary)]) {
        let (x, y) = (across.at(since.0 as f64), TOP + ROW * since.1 as f64);
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
        let [from, to] = [switch.from, switch.to].map(|place| TOP + ROW * place as f64 + 7.5);
        line(&mut out, (x, from), (x, to), class);
        let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{to:.1}" r="3.5" class="{class}"/>"#);
    }
    let y = TOP + ROW * paths.len() as f64;
    label(&mut out, (LEFT - 8.0, y + 16.0), "tick", "end", "halted");
    line(&mut out, (LEFT, y + 11.0), (RIGHT, y + 11.0), "nothing");
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
