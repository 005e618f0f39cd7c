//! A history, read to its end -> the report.

use std::time::Duration;

use super::episode::{Evidence, Interruption, Rules, Track};
use super::estimate::{CONFIDENCE, MONTH, Sight, seconds};
use super::field::written;
use super::history::History;
use super::recommend::recommend;
use super::report::{Blips, Delays, Gaps, Outage, PathReport, Reading, Report};
use super::sample::{EndpointIndex, Names, Sample};
use super::settings::{CalibrationError, CalibrationSettings};

/// Samples between two calls of `progress`.
const STRIDE: u64 = 1 << 16;
/// Intervals whose quotient is at most this are about the same.
const ALIKE: f64 = 1.1;

/// Reads a history to its end and says what each trigger would have come to. `progress` is called now and then; how far
/// the reading is, [`History::meter`] tells.
///
/// # Errors
/// A setting that is out of bounds, or a history that is at fault; nothing is computed from a part of one.
pub fn calibrate(
    history: &mut History,
    settings: &CalibrationSettings,
    mut progress: impl FnMut(),
) -> Result<Report, CalibrationError> {
    let mut calibration = Calibration::new(settings)?;
    let mut count = 0_u64;
    while let Some(sample) = history.next() {
        calibration.take(&sample?, history.names());
        count += 1;
        if count % STRIDE == 0 {
            progress();
        }
    }
    calibration.finish(history.names(), history.reading())
}

/// A calibration that is told sample by sample.
pub(super) struct Calibration<'a> {
    settings: &'a CalibrationSettings,
    rules: Rules,
    /// By index; none of an endpoint that was not asked for.
    tracks: Vec<Option<Track>>,
    first: u64,
    last: u64,
}

impl<'a> Calibration<'a> {
    pub(super) fn new(settings: &'a CalibrationSettings) -> Result<Self, CalibrationError> {
        settings.check()?;
        let rules = Rules {
            triggers: settings.triggers.clone(),
            outage_after: nanos(settings.outage_after),
            interval: settings.interval.map(nanos),
            max_gap: settings.max_gap.map(nanos),
        };
        Ok(Self { settings, rules, tracks: Vec::new(), first: u64::MAX, last: 0 })
    }

    /// The next sample; for each endpoint in the order of time.
    #[inline]
    pub(super) fn take(&mut self, sample: &Sample, names: &Names) {
        let index = sample.endpoint.0 as usize;
        while index >= self.tracks.len() {
            let name = names.name(at(self.tracks.len()));
            let wanted = self.settings.endpoints.is_empty() || self.settings.endpoints.iter().any(|one| one == name);
            self.tracks.push(wanted.then(|| Track::new(&self.rules)));
        }
        if let Some(Some(track)) = self.tracks.get_mut(index) {
            (self.first, self.last) = (self.first.min(sample.at), self.last.max(sample.at));
            track.take(sample, &self.rules);
        }
    }

    /// What it comes to.
    pub(super) fn finish(self, names: &Names, reading: Reading) -> Result<Report, CalibrationError> {
        missing(self.settings, names)?;
        let ended = |(index, track): (usize, Option<Track>)| Some((names.name(at(index)), track?.end(&self.rules)));
        let mut evidence: Vec<_> = self.tracks.into_iter().enumerate().filter_map(ended).collect();
        evidence.sort_by(|a, b| a.0.cmp(b.0));
        Ok(report(reading, self.settings, &evidence, (self.first.min(self.last), self.last)))
    }
}

fn at(index: usize) -> EndpointIndex {
    EndpointIndex(u32::try_from(index).unwrap_or(u32::MAX))
}

/// An endpoint that was asked for and is not there.
fn missing(settings: &CalibrationSettings, names: &Names) -> Result<(), CalibrationError> {
    let known = |name: &&String| names.find(name).is_some();
    let Some(unknown) = settings.endpoints.iter().find(|name| !known(name)) else { return Ok(()) };
    Err(CalibrationError::Setting {
        key: "endpoint",
        found: format!("{unknown:?}"),
        expected: format!("one of those in the history: {}", listed(names)),
    })
}

fn listed(names: &Names) -> String {
    const SHOWN: usize = 20;
    let mut list: Vec<_> = names.iter().take(SHOWN).map(|(_, name)| name).collect();
    if names.len() > SHOWN {
        list.push("..");
    }
    list.join(", ")
}

fn report(
    reading: Reading,
    settings: &CalibrationSettings,
    evidence: &[(&str, Evidence)],
    (first, last): (u64, u64),
) -> Report {
    let sights: Vec<_> = evidence.iter().map(|(_, one)| Sight::new(one, settings.outage_after, true)).collect();
    let endpoints: Vec<_> = evidence
        .iter()
        .zip(&sights)
        .map(|((name, _), sight)| path(name, sight, settings, outages(name, &sight.evidence.listed)))
        .collect();
    let mut all = Evidence::default();
    evidence.iter().for_each(|(_, one)| all.add(one));
    let intervals = evidence.iter().map(|(_, one)| one.interval as f64);
    let (least, most) = intervals.fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
    let together = Sight::new(&all, settings.outage_after, most <= least * ALIKE);
    let overall = path("all", &together, settings, Vec::new());
    let recommendation = recommend(settings, &endpoints, &sights);
    Report {
        reading,
        from: written(first),
        to: written(last),
        span_seconds: seconds(last - first),
        outage_after_seconds: settings.outage_after.as_secs_f64(),
        month_seconds: MONTH,
        confidence: CONFIDENCE,
        max_false_per_month: settings.max_false_per_month,
        rto_seconds: settings.rto.map(|rto| rto.as_secs_f64()),
        recovery_seconds: settings.recovery.as_secs_f64(),
        endpoints,
        overall,
        recommendation,
    }
}

fn outages(endpoint: &str, list: &[Interruption]) -> Vec<Outage> {
    let outage = |one: &Interruption| Outage {
        endpoint: endpoint.to_owned(),
        from: written(one.first),
        to: one.over.map(written),
        millis: (one.last - one.first) / 1_000_000,
    };
    list.iter().map(outage).collect()
}

fn path(name: &str, sight: &Sight<'_>, settings: &CalibrationSettings, outage_list: Vec<Outage>) -> PathReport {
    let evidence = sight.evidence;
    let triggers = settings.triggers.iter().zip(&evidence.fires);
    let latency = |share| evidence.latencies.quantile(share).map(seconds);
    let latencies = || Some(Delays { p50: latency(0.5)?, p95: latency(0.95)?, worst: latency(1.0)? });
    PathReport {
        endpoint: name.to_owned(),
        samples: evidence.samples,
        failed: evidence.failed,
        interval_seconds: sight.probing.interval().as_secs_f64(),
        interval_when_failing_seconds: sight.probing.interval_when_failing().as_secs_f64(),
        covered_seconds: seconds(evidence.covered),
        well_seconds: seconds(evidence.well),
        gaps: Gaps {
            longer_than_seconds: seconds(evidence.gap_limit),
            count: evidence.gaps,
            seconds: seconds(evidence.gap),
            longest_seconds: seconds(evidence.longest_gap),
        },
        blips: Blips {
            count: evidence.blip_count(),
            cut: evidence.cut,
            per_hour: sight.blips_per_hour(),
            per_hour_with_unseen: sight.blips_per_hour_with_unseen(),
            dispersion: sight.dispersion(),
            longest_seconds: seconds(evidence.longest_blip),
        },
        lengths: sight.lengths(),
        outages: evidence.outages,
        outage_seconds: seconds(evidence.outage),
        outage_list,
        latency_seconds: latencies(),
        slowest_failure_seconds: evidence.slowest_failure.map(seconds),
        triggers: triggers.map(|(rule, fires)| sight.trigger(*rule, fires, settings)).collect(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
