//! What a history comes to: plain numbers with their units in their names, as JSON has them.

use serde::Serialize;

/// A number and its confidence interval of 99 %. As JSON an end that is unbounded is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// `journal`, `csv` or `json_lines`.
    pub format: &'static str,
    /// `gzip`, `zstd`, or none.
    pub compression: Option<&'static str>,
    /// Rows, of a journal results of probes.
    pub rows: u64,
    /// Rows that count.
    pub used: u64,
    /// Rows that repeat another one of the same endpoint and time; left out.
    pub duplicates: u64,
    /// How many of these say something else than the one they repeat; the failure counts.
    pub conflicts: u64,
    /// Rows that came after a later one of the same endpoint, and were put in their place.
    pub reordered: u64,
    /// Rows that came later than the window of rows reaches; left out.
    pub late: u64,
    /// How often the clock was set back: the first of a stretch of late rows; in a journal, how often the wall clock
    /// left the monotonic one by more than a second.
    pub clock_steps: u64,
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was read.
    pub reading: Reading,
    /// First sample, RFC 3339.
    pub from: String,
    /// Last sample, RFC 3339.
    pub to: String,
    /// From the first to the last.
    pub span_seconds: f64,
    /// A run of failures longer than this, from the first failed probe to the last, is an outage; else a blip.
    pub outage_after_seconds: f64,
    /// The month of all rates by the month: 30 days.
    pub month_seconds: f64,
    /// Share of intervals that hold the truth: 0.99.
    pub confidence: f64,
    /// The owner's limit: false failovers a month.
    pub max_false_per_month: Option<f64>,
    /// The owner's limit: from a fault to the end of the recovery.
    pub rto_seconds: Option<f64>,
    /// What the recovery takes once the fault is detected.
    pub recovery_seconds: f64,
    /// One for each endpoint, by name.
    pub endpoints: Vec<PathReport>,
    /// All of them taken as one path that was watched for as long as all together.
    pub overall: PathReport,
    /// What is recommended.
    pub recommendation: Recommendation,
}

/// What the history says of one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathReport {
    /// Its name; `all` for all together.
    pub endpoint: String,
    /// Probes that count.
    pub samples: u64,
    /// Those that failed.
    pub failed: u64,
    /// The usual time from one probe to the next.
    pub interval_seconds: f64,
    /// The same after a failure.
    pub interval_when_failing_seconds: f64,
    /// Time that the probes cover: gaps are left out.
    pub covered_seconds: f64,
    /// Of that, the time after a success: when a blip can begin.
    pub well_seconds: f64,
    /// Where nothing is known.
    pub gaps: Gaps,
    /// Runs of failures that passed by themselves.
    pub blips: Blips,
    /// How long they were.
    pub lengths: Lengths,
    /// Runs of failures that were longer: how many, and the time that they took.
    pub outages: u64,
    /// The time of all of them, each from its first failed probe to the next success.
    pub outage_seconds: f64,
    /// The first hundred of them.
    pub outage_list: Vec<Outage>,
    /// How long successful probes took, if the history says so.
    pub latency_seconds: Option<Delays>,
    /// How long the slowest failed probe took, if the history says so: what a path that hangs costs beside the phase.
    pub slowest_failure_seconds: Option<f64>,
    /// What each trigger would have come to.
    pub triggers: Vec<TriggerReport>,
}

/// Where nothing is known of an endpoint: gaps are not health, and not failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// A longer time between two samples is a gap.
    pub longer_than_seconds: f64,
    /// How many.
    pub count: u64,
    /// All together.
    pub seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
}

/// Runs of failures that are no outage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Blips {
    /// Those whose beginning was seen.
    pub count: u64,
    /// Runs that a gap, or an end of the history, cut off: they count nowhere.
    pub cut: u64,
    /// Blips seen in an hour in which the path works; shorter ones that fall between two probes are not seen.
    pub per_hour: Estimate,
    /// With those that no probe saw, if the lengths follow a fitted distribution.
    pub per_hour_with_unseen: Option<f64>,
    /// The variance of their number as a multiple of what it is for blips that come independently of each other; more
    /// than 1 means bursts, and widens every interval.
    pub dispersion: f64,
    /// The longest, from its first failed probe to its last.
    pub longest_seconds: f64,
}

/// Which distribution the false failovers are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// A fitted exponential distribution.
    Exponential,
    /// A fitted log-normal distribution.
    LogNormal,
    /// None: what was counted.
    Counted,
}

/// How long blips are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lengths {
    /// What the false failovers are computed with.
    pub used: Basis,
    /// Why.
    pub why: String,
    /// Exponential, by maximum likelihood.
    pub exponential: Option<Fit>,
    /// Log-normal, by maximum likelihood.
    pub log_normal: Option<Fit>,
    /// Quantiles of the length as the probes saw it: shares 0.5, 0.9, 0.99 and 1; from the first failed probe to the next success.
    pub quantiles: Vec<Point>,
    /// Share of the blips that lasted at least so long from the first failed probe to the last, for a plot; at most 200
    /// points.
    pub survival: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// A length.
    pub seconds: f64,
    /// A share, 0 to 1.
    pub share: f64,
    /// The same share by the exponential fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential: Option<f64>,
    /// The same share by the log-normal fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_normal: Option<f64>,
}

/// A fitted distribution of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Its mean.
    pub mean_seconds: f64,
    /// Its median.
    pub median_seconds: f64,
    /// Of a log-normal distribution: the standard deviation of the logarithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// Logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Akaike's criterion: the lower the better.
    pub aic: f64,
    /// Pearson's statistic over the classes of lengths.
    pub chi_squared: f64,
    /// Its degrees of freedom.
    pub degrees_of_freedom: u32,
    /// Probability of lengths that fit no better, if this is the distribution.
    pub p_value: f64,
    /// Whether that is at least 0.05.
    pub accepted: bool,
}

/// A run of failures that was no blip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outage {
    /// The endpoint.
    pub endpoint: String,
    /// First failed probe, RFC 3339.
    pub from: String,
    /// The next success, RFC 3339; absent if a gap or the end of the history came first.
    pub to: Option<String>,
    /// Milliseconds from the first failed probe to the last.
    pub millis: u64,
}

/// Half of something, most of it, the worst.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delays {
    /// Half are at most this.
    pub p50: f64,
    /// 95 % are.
    pub p95: f64,
    /// All are.
    pub worst: f64,
}

/// What is to be said of a trigger with regard to the owner's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No limit was given.
    NotAsked,
    /// It keeps to both limits, the whole interval of the estimate included.
    Keeps,
    /// More false failovers than the limit, by the estimate itself.
    TooMany,
    /// The estimate keeps to the limit, the upper end of its interval does not: more history may tell.
    NotProven,
    /// Detected too late for the recovery time.
    TooSlow,
}

/// What one trigger would have come to on this history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TriggerReport {
    /// The trigger.
    pub trigger: String,
    /// The failures that fire it.
    pub failures: u64,
    /// From the first of them to the last.
    pub patience_seconds: f64,
    /// How often a blip fired it in this history.
    pub false_failovers: u64,
    /// The same for a month.
    pub false_per_month: Estimate,
    /// What that is computed with.
    pub basis: Basis,
    /// From a fault that lasts to the trigger: any phase of the probes alike, a path that answers at once at best and
    /// hangs at worst.
    pub detection_seconds: Delays,
    /// Outages of this history that fired it.
    pub outages_detected: u64,
    /// Outages of this history that did not.
    pub outages_missed: u64,
    /// In those, from the first failed probe to the trigger.
    pub outage_detection_seconds: Option<Delays>,
    /// With regard to the owner's limits.
    pub verdict: Verdict,
}

/// The smallest patience that keeps to the limits on every endpoint, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The trigger; none if nothing is recommended.
    pub trigger: Option<String>,
    /// Why, in a sentence.
    pub why: String,
    /// Days of covered time, on each endpoint, that would support an answer, if this history is too short.
    pub days_needed: Option<f64>,
}
