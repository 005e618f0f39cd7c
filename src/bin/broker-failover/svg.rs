//! What plots share: scales, shapes, and text that cannot break out of its element.

use std::fmt::Write as _;

use broker_failover::supervisor::visible::steers;

/// Where the field of a plot begins, right of the numbers and names at its left.
pub(crate) const LEFT: f64 = 84.0;

/// From values to places on an axis.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) logarithmic: bool,
}

impl Scale {
    pub(crate) const fn linear((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self { low, high, from, to, logarithmic: false }
    }

    pub(crate) const fn logarithmic((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self { low, high, from, to, logarithmic: true }
    }

    pub(crate) fn at(self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Logarithmic, from a power of ten to another; 0.1 to 1 if no value is above zero.
    pub(crate) fn powers(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Self {
        let (mut low, mut high) = (f64::MAX, f64::MIN_POSITIVE);
        let values = values.filter(|value| *value > 0.0 && value.is_finite());
        values.for_each(|value| (low, high) = (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.1, 1.0) } else { (low, high) };
        let (bottom, top) = (low.log10().floor(), high.log10().ceil());
        Self::logarithmic((10_f64.powf(bottom), 10_f64.powf(top.max(bottom + 1.0))), ends)
    }

    /// Powers of ten, or about five round numbers.
    pub(crate) fn ticks(self) -> Vec<f64> {
        if self.logarithmic {
            let (from, to) = ((self.low.log10() - 1e-9).ceil() as i32, (self.high.log10() + 1e-9).floor() as i32);
            return (from..=to).map(|power| 10_f64.powi(power)).collect();
        }
        let step = round_step((self.high - self.low) / 5.0);
        let first = (self.low / step).ceil();
        (0..12)
            .map(|place| (first + f64::from(place)) * step)
            .take_while(|tick| *tick <= self.high * 1.000_001)
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(f64::MIN_POSITIVE).log10().floor());
    let rounds = [1.0, 2.0, 5.0].map(|round| round * power);
    rounds.into_iter().find(|round| *round >= step * 0.999_999).unwrap_or(10.0 * power)
}

/// Text as the content of an element, or of an attribute in quotes. Control characters, which XML may not have and
/// which can turn the direction of what follows, become escapes that can be read.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if steers(c) => escaped.extend(c.escape_default()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Begins a picture with a title, which is what is read out of it.
pub(crate) fn open((width, height): (f64, f64), title: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n"
    )
}

/// Text at a place.
pub(crate) fn label(out: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#);
}

/// A line between two places.
pub(crate) fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
    let _ = writeln!(out, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#);
}

/// A rectangle; its title is shown to whoever points at it.
pub(crate) fn rect(
    out: &mut String,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    class: &str,
    title: Option<&str>,
) {
    let _ = write!(out, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}""#);
    let _ = match title {
        Some(title) => writeln!(out, "><title>{}</title></rect>", escape(title)),
        None => writeln!(out, "/>"),
    };
}

/// A key to what is drawn, in a line at the top.
pub(crate) fn legend(out: &mut String, entries: &[(&str, &str)]) {
    let mut x = LEFT;
    for (class, text) in entries {
        let _ = writeln!(out, r#"<line x1="{x:.1}" y1="14" x2="{:.1}" y2="14" class="{class}"/>"#, x + 26.0);
        label(out, (x + 32.0, 18.0), "tick", "start", text);
        x += 46.0 + 6.6 * text.chars().count() as f64;
    }
}

/// A line through places.
pub(crate) fn curve(out: &mut String, places: impl IntoIterator<Item = (f64, f64)>, class: &str) {
    let _ = writeln!(out, r#"<polyline points="{}" class="{class}"/>"#, points(places));
}

/// A point of a path or a list of points.
pub(crate) fn point((x, y): (f64, f64)) -> String {
    format!("{x:.1},{y:.1}")
}

/// The list of points of a polyline or a polygon.
pub(crate) fn points(places: impl IntoIterator<Item = (f64, f64)>) -> String {
    places.into_iter().map(point).collect::<Vec<_>>().join(" ")
}

/// A number with three digits that count.
pub(crate) fn significant(value: f64) -> String {
    match value {
        _ if value >= 99.5 => format!("{value:.0}"),
        _ if value >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(
            escape("<script>alert('1')</script>\"&\u{1b}[31m\u{202e}"),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\\u{1b}[31m\\u{202e}"
        );
        assert_eq!(escape("Zürich"), "Zürich");
    }

    #[test]
    fn ticks_are_round_and_within_the_scale() {
        assert_eq!(Scale::linear((0.0, 1.0), (0.0, 9.0)).ticks().len(), 6);
        assert_eq!(Scale::linear((0.0, 61.0), (0.0, 9.0)).ticks(), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(Scale::powers([0.3, 20.0].into_iter(), (0.0, 9.0)).ticks(), [0.1, 1.0, 10.0, 100.0].map(f64::from));
        assert_eq!(Scale::powers(std::iter::empty(), (0.0, 9.0)).ticks(), [0.1, 1.0]);
    }

    #[test]
    fn values_beyond_a_scale_are_at_its_ends() {
        let scale = Scale::logarithmic((1.0, 100.0), (10.0, 30.0));
        assert_eq!([0.0, 1.0, 10.0, 1e9].map(|value| scale.at(value).round()), [10.0, 10.0, 20.0, 30.0]);
    }
}
