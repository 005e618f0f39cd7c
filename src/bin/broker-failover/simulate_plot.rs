//! Patience against both of its prices, as one SVG file that needs no other.

use std::fmt::Write as _;

use broker_failover::planning::Seconds;
use broker_failover::sim::{Row, SimulationSettings, Table};

use crate::simulate_output::sample;
use crate::svg::{Scale, points, significant};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 744.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 836.0;
/// Top and bottom of the two panels, and of the band for none at all.
const CALM: (f64, f64) = (130.0, 354.0);
const NONE: f64 = 380.0;
const OUTAGE: (f64, f64) = (436.0, 660.0);

/// Entries of the legend in a line, and its height.
const A_LINE: usize = 4;
const LINE: f64 = 20.0;

/// Told apart by those who see no colours, too: each has a mark of its own.
const COLOURS: [&str; 5] = ["#0b5cad", "#c2410c", "#15803d", "#7e22ce", "#4b5563"];

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

pub(crate) fn svg(settings: &SimulationSettings, tables: &[Table]) -> String {
    let rows = || tables.iter().flat_map(|table| &table.rows);
    let most = rows().map(|row| row.failures as f64).fold(2.0, f64::max);
    let least = rows().map(|row| row.failures as f64).fold(most, f64::min);
    let across = Scale::logarithmic((least * 0.85, (most * 1.18).max(least * 2.0)), (LEFT, RIGHT));
    let daily = Scale::powers(rows().map(Row::false_failovers_per_day), (CALM.1, CALM.0));
    let times = rows().flat_map(|row| [detection(row, 50), detection(row, 95)]).flatten();
    let seconds = Scale::powers(times, (OUTAGE.1, OUTAGE.0));

    // Room for more lines of the legend than one.
    let more = LINE * (tables.len().saturating_sub(1) / A_LINE) as f64;
    let mut out = head(settings, HEIGHT + more);
    for (index, table) in tables.iter().enumerate() {
        legend(&mut out, index, &format!("blips of {} on average", Seconds(table.blip_mean)));
    }
    let _ = writeln!(out, r#"<g transform="translate(0 {more})">"#);
    grid(&mut out, daily, CALM, "false failovers a calm day");
    grid(&mut out, seconds, OUTAGE, "detection from the fault, seconds");
    let (calm, outage) = (CALM.0 - 24.0, OUTAGE.0 - 14.0);
    let _ = writeln!(out, r#"<text x="{LEFT}" y="{calm}" class="panel">The price of haste: false failovers</text>"#);
    let _ = writeln!(
        out,
        r#"<text x="{LEFT}" y="{outage}" class="panel">The price of patience: time to detect an outage (P50; whisker to P95)</text>"#
    );
    let _ =
        writeln!(out, r#"<text x="{}" y="{}" class="tick" text-anchor="end">none seen</text>"#, LEFT - 8.0, NONE + 4.0);
    let _ = writeln!(
        out,
        r#"<line x1="{LEFT}" x2="{RIGHT}" y1="{NONE}" y2="{NONE}" class="grid" stroke-dasharray="3 3"/>"#
    );
    for (index, table) in tables.iter().enumerate() {
        let mut points: Vec<_> = table.rows.iter().collect();
        points.sort_by_key(|row| row.failures);
        let numbers = tables.len() <= 2;
        curve(&mut out, &points, (index, numbers), across, daily);
        if index == 0 {
            whiskers(&mut out, &points, across, seconds);
        }
    }
    triggers(&mut out, tables, across);
    out.push_str("</g>\n</svg>\n");
    out
}

fn detection(row: &Row, percent: usize) -> Option<f64> {
    row.detection(percent, |found| found.from_fault).map(|time| time.as_secs_f64())
}

fn head(settings: &SimulationSettings, height: f64) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" font-family="sans-serif" font-size="13">
<title>Patience of a failover trigger against both of its prices</title>
<style>.grid{{stroke:#d4d7dc;stroke-width:1}}.axis{{stroke:#40464f;stroke-width:1}}.tick{{fill:#40464f;font-size:12px}}.panel{{fill:#1b1f24;font-size:14px;font-weight:bold}}.head{{fill:#1b1f24;font-size:18px;font-weight:bold}}</style>
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<text x="{LEFT}" y="30" class="head">Patience of a failover trigger against both of its prices</text>
<text x="{LEFT}" y="50" class="tick">{}</text>
"##,
        sample(settings)
    )
}

fn grid(out: &mut String, scale: Scale, (top, bottom): (f64, f64), label: &str) {
    for tick in scale.ticks() {
        let y = scale.at(tick);
        let _ = writeln!(out, r#"<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}" class="grid"/>"#);
        let (x, y) = (LEFT - 8.0, y + 4.0);
        let _ = writeln!(out, r#"<text x="{x}" y="{y:.1}" class="tick" text-anchor="end">{tick}</text>"#);
    }
    let _ = writeln!(out, r#"<line x1="{LEFT}" x2="{LEFT}" y1="{top}" y2="{bottom}" class="axis"/>"#);
    let middle = (top + bottom) / 2.0;
    let _ = writeln!(
        out,
        r#"<text transform="translate(24 {middle}) rotate(-90)" class="tick" text-anchor="middle">{label}</text>"#
    );
}

/// With a number at each of its points, if it should have some.
fn curve(out: &mut String, rows: &[&Row], (index, numbers): (usize, bool), across: Scale, daily: Scale) {
    let colour = colour(index);
    let place = |row: &Row| {
        let seen = row.false_failovers_per_day();
        (across.at(row.failures as f64), if seen > 0.0 { daily.at(seen) } else { NONE })
    };
    let path = points(rows.iter().map(|row| place(row)));
    let _ = writeln!(
        out,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{}"/>"#,
        path,
        if index == 0 { "none" } else { "7 4" }
    );
    // Labels of the first curve below it, of the others above: where two curves are near, they do not meet.
    let mut sides = Sides::new(index == 0);
    for row in rows {
        let (x, y) = place(row);
        mark(out, index, colour, x, y);
        if numbers && row.false_failovers() > 0 {
            label(out, colour, x, y, sides.below(x), &significant(row.false_failovers_per_day()));
        }
    }
}

/// On which side of a point its label is, so that those of neighbours do not meet.
struct Sides {
    usual: bool,
    last: f64,
    below: bool,
}

impl Sides {
    fn new(below: bool) -> Self {
        Self { usual: below, last: f64::MIN, below }
    }

    fn below(&mut self, x: f64) -> bool {
        let near = x - self.last < 48.0;
        self.below = if near { !self.below } else { self.usual };
        self.last = x;
        self.below
    }
}

fn label(out: &mut String, colour: &str, x: f64, y: f64, below: bool, text: &str) {
    let y = if below { y + 19.0 } else { y - 10.0 };
    let _ = writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" fill="{colour}" font-size="12" text-anchor="middle">{text}</text>"#
    );
}

fn mark(out: &mut String, index: usize, colour: &str, x: f64, y: f64) {
    let _ = match index % 2 {
        0 => writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.5" fill="{colour}"/>"#),
        _ => writeln!(
            out,
            r##"<rect x="{:.1}" y="{:.1}" width="9" height="9" fill="#ffffff" stroke="{colour}" stroke-width="2"/>"##,
            x - 4.5,
            y - 4.5
        ),
    };
}

fn whiskers(out: &mut String, rows: &[&Row], across: Scale, seconds: Scale) {
    const COLOUR: &str = "#1b1f24";
    let median = |row: &Row| detection(row, 50).map(|time| (across.at(row.failures as f64), seconds.at(time)));
    let path = points(rows.iter().filter_map(|row| median(row)));
    let _ = writeln!(out, r#"<polyline points="{path}" fill="none" stroke="{COLOUR}" stroke-width="2"/>"#);
    let mut sides = Sides::new(true);
    for row in rows {
        let x = across.at(row.failures as f64);
        let (Some((_, y)), Some(p50)) = (median(row), detection(row, 50)) else {
            let y = OUTAGE.0 + 14.0;
            let _ = writeln!(
                out,
                r##"<text x="{x:.1}" y="{y}" fill="#b91c1c" font-size="12" text-anchor="middle">missed</text>"##
            );
            continue;
        };
        if let Some(p95) = detection(row, 95) {
            let top = seconds.at(p95);
            let _ = writeln!(
                out,
                r#"<path d="M{x:.1} {y:.1}V{top:.1}M{:.1} {top:.1}H{:.1}" stroke="{COLOUR}" stroke-width="1.5"/>"#,
                x - 4.0,
                x + 4.0
            );
        }
        let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.5" fill="{COLOUR}"/>"#);
        label(out, COLOUR, x, y, sides.below(x), &format!("{} s", significant(p50)));
    }
}

fn legend(out: &mut String, index: usize, text: &str) {
    let (x, y) = (LEFT + 6.0 + 184.0 * (index % A_LINE) as f64, 72.0 + LINE * (index / A_LINE) as f64);
    mark(out, index, colour(index), x, y);
    let _ = writeln!(out, r#"<text x="{}" y="{}" class="tick">{text}</text>"#, x + 12.0, y + 4.0);
}

/// The names of the triggers below, each at its place; those that would meet go one line down.
fn triggers(out: &mut String, tables: &[Table], across: Scale) {
    let bottom = OUTAGE.1;
    let _ = writeln!(out, r#"<line x1="{LEFT}" x2="{RIGHT}" y1="{bottom}" y2="{bottom}" class="axis"/>"#);
    let mut rows: Vec<_> = tables.first().map_or(Vec::new(), |table| table.rows.iter().collect());
    rows.sort_by_key(|row| row.failures);
    let mut ends = [f64::MIN; 3];
    for row in rows {
        let (x, name) = (across.at(row.failures as f64), row.rule.to_string());
        let half = 3.4 * name.len() as f64;
        let line = ends.iter().position(|end| x - half > end + 6.0).unwrap_or(0);
        ends[line] = x + half;
        let y = bottom + 18.0 + 15.0 * line as f64;
        let _ = writeln!(out, r#"<line x1="{x:.1}" x2="{x:.1}" y1="{bottom}" y2="{:.1}" class="axis"/>"#, bottom + 5.0);
        let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" class="tick" text-anchor="middle">{name}</text>"#);
    }
    let (middle, y) = ((LEFT + RIGHT) / 2.0, HEIGHT - 18.0);
    let _ = writeln!(
        out,
        r#"<text x="{middle}" y="{y}" class="tick" text-anchor="middle">trigger, placed by the failed probes that it takes (logarithmic)</text>"#
    );
}
