//! What was counted -> rates a month with their intervals, and what each trigger comes to.
//!
//! Events that come independently of each other have a number that is Poisson distributed; its interval is exact
//! (Garwood 1936). Where blips come in bursts, the variance is larger by a factor that is measured ([`Clusters`]), and the
//! interval is that of as many events fewer (quasi-Poisson).
//!
//! [`Clusters`]: super::clusters::Clusters

use std::time::Duration;

use super::episode::{Evidence, Fires};
use super::fit::{ACCEPTED, FEWEST, Family, Fitted};
use super::length::{Grid, Length};
use super::report::{Basis, Delays, Estimate, Fit, Lengths, Point, TriggerReport, Verdict};
use super::settings::CalibrationSettings;
use super::special::gamma_quantile;
use crate::planning::{Probing, counted};
use crate::sim::Rule;

/// Share of intervals that hold the truth. So high because a limit is taken to be kept if the interval keeps to it.
pub(super) const CONFIDENCE: f64 = 0.99;
/// The number of standard deviations that a normal number is within so often.
const DEVIATIONS: f64 = 2.575_829_303_548_901;
/// 30 days, in seconds.
pub(super) const MONTH: f64 = 2_592_000.0;
/// The most points of a curve.
const POINTS: usize = 200;

const TAIL: f64 = (1.0 - CONFIDENCE) / 2.0;

/// The interval of the number that is expected where `count` came, with a variance of so many times that number.
pub(super) fn poisson(count: f64, dispersion: f64) -> (f64, f64) {
    let shape = count / dispersion;
    (dispersion * gamma_quantile(shape, TAIL), dispersion * gamma_quantile(shape + 1.0, 1.0 - TAIL))
}

/// The evidence of one endpoint, or of several, and what follows from it alone.
pub(super) struct Sight<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) probing: Probing,
    grid: Grid,
    /// How much larger the variance of the number of blips is than if they came independently.
    dispersion: f64,
    exponential: Option<Fitted>,
    log_normal: Option<Fitted>,
    used: Result<Fitted, String>,
}

impl<'a> Sight<'a> {
    /// `alike`: the intervals of all that is in the evidence are about the same.
    pub(super) fn new(evidence: &'a Evidence, outage_after: Duration, alike: bool) -> Self {
        let nanos = Duration::from_nanos;
        let slowest = nanos(evidence.slowest_failure.unwrap_or(0));
        let probing = Probing::nearest(nanos(evidence.interval), nanos(evidence.interval_when_failing()), slowest);
        let steps = outage_after.as_nanos() / probing.interval_when_failing().as_nanos().max(1);
        let grid = Grid {
            before: probing.interval().as_secs_f64(),
            step: probing.interval_when_failing().as_secs_f64(),
            most: u64::try_from(steps).unwrap_or(u64::MAX - 1).saturating_add(1),
        };
        let fit = |family| Fitted::of(family, &evidence.blips, &grid).filter(|_| alike);
        let (exponential, log_normal) = (fit(Family::Exponential), fit(Family::LogNormal));
        let used = choice(evidence.blip_count(), alike, exponential, log_normal);
        let dispersion = evidence.clusters.dispersion();
        Self { evidence, probing, grid, dispersion, exponential, log_normal, used }
    }

    /// Time in which a false failover could come, in seconds: all but gaps and outages.
    pub(super) fn exposure(&self) -> f64 {
        seconds(self.evidence.covered.saturating_sub(self.evidence.outage))
    }

    /// How much larger the variance of the number of blips is than if they came independently.
    pub(super) const fn dispersion(&self) -> f64 {
        self.dispersion
    }

    /// Blips seen in an hour in which the path is well. A probe after a success finds a blip with probability
    /// `1 - exp(-rate * I)`, so the rate comes from the share of such probes that did.
    pub(super) fn blips_per_hour(&self) -> Estimate {
        let (well, interval) = (seconds(self.evidence.well), self.grid.before);
        let count = self.evidence.blip_count() as f64;
        let rate = |count: f64| {
            if well <= 0.0 {
                return if count > 0.0 { f64::INFINITY } else { 0.0 };
            }
            let share = (count * interval / well).min(0.999_999);
            -(-share).ln_1p() / interval * 3_600.0
        };
        let (low, high) = poisson(count, self.dispersion);
        Estimate { value: rate(count), low: rate(low), high: rate(high) }
    }

    /// The same with the blips that no probe saw.
    pub(super) fn blips_per_hour_with_unseen(&self) -> Option<f64> {
        let seen = self.used.as_ref().ok()?.length.seen(&self.grid);
        (seen > 0.0).then(|| self.blips_per_hour().value / seen)
    }

    pub(super) fn lengths(&self) -> Lengths {
        let (used, why) = match &self.used {
            Ok(fit) => {
                let other = if fit.family() == Family::Exponential { self.log_normal } else { self.exponential };
                let also = other.as_ref().is_some_and(accepted);
                let reason =
                    if also { "both fit, and this one is the likelier; intervals cover both" } else { "it alone fits" };
                (basis(fit), reason.to_owned())
            }
            Err(why) => (Basis::Counted, why.clone()),
        };
        Lengths {
            used,
            why,
            exponential: self.exponential.as_ref().map(fit_report),
            log_normal: self.log_normal.as_ref().map(fit_report),
            quantiles: self.quantiles(),
            survival: self.survival(),
        }
    }

    /// Within which length so many of the blips were, from the first failed probe to the next success.
    fn quantiles(&self) -> Vec<Point> {
        let all = self.evidence.blip_count();
        let at = |share: f64| {
            let wanted = (share * all as f64).ceil().max(1.0) as u64;
            let mut below = 0;
            let (failures, _) = self.evidence.blips.iter().find(|(_, count)| {
                below += **count;
                below >= wanted
            })?;
            let seconds = self.grid.span(failures + 1);
            Some(Point { seconds, share, exponential: None, log_normal: None })
        };
        [0.5, 0.9, 0.99, 1.0].into_iter().filter_map(at).collect()
    }

    fn survival(&self) -> Vec<Point> {
        let all = self.evidence.blip_count() as f64;
        let mut left = self.evidence.blip_count();
        let every = self.evidence.blips.len().div_ceil(POINTS).max(1);
        let mut points = Vec::new();
        for (index, (failures, count)) in self.evidence.blips.iter().enumerate() {
            if index % every == 0 {
                let share = |fit: &Fitted| fit.length.blip_reaches(*failures, &self.grid);
                points.push(Point {
                    seconds: self.grid.span(*failures),
                    share: left as f64 / all,
                    exponential: self.exponential.as_ref().map(share),
                    log_normal: self.log_normal.as_ref().map(share),
                });
            }
            left -= count;
        }
        points
    }

    /// False failovers a month of a trigger that fired in so many blips, and what that is computed with.
    ///
    /// A fit speaks for failures in a row and for windows, and only where at least one blip of this history lasted so
    /// long: beyond that, and for failures among the newest results, what was counted speaks. Where both distributions
    /// fit, which of them is the right one is not known: the interval is that of either.
    fn false_per_month(&self, rule: Rule, fired: u64) -> (Estimate, Basis) {
        let fit = self.used.as_ref().ok().filter(|_| fired > 0 && matches!(rule, Rule::Planned(_)));
        if let Some(fit) = fit {
            let failures = rule.failures(&self.probing);
            let other = if fit.family() == Family::Exponential { self.log_normal } else { self.exponential };
            let other = other.filter(accepted).and_then(|other| self.fitted_per_month(&other, failures));
            if let Some(mut month) = self.fitted_per_month(fit, failures) {
                if let Some(other) = other {
                    (month.low, month.high) = (month.low.min(other.low), month.high.max(other.high));
                }
                return (month, basis(fit));
            }
        }
        let exposure = self.exposure();
        let month = |count: f64| match exposure > 0.0 {
            true => count / exposure * MONTH,
            false if count > 0.0 => f64::INFINITY,
            false => 0.0,
        };
        let (low, high) = poisson(fired as f64, self.dispersion_of(fired));
        (Estimate { value: month(fired as f64), low: month(low), high: month(high) }, Basis::Counted)
    }

    /// The rate of blips times the share that reaches so many failures. The variances of the logarithms add up.
    fn fitted_per_month(&self, fit: &Fitted, failures: u64) -> Option<Estimate> {
        let (exposure, blips) = (self.exposure(), self.evidence.blip_count() as f64);
        let share = |length: &Length| length.blip_reaches(failures, &self.grid);
        let value = blips / exposure * MONTH * share(&fit.length);
        let factor = (DEVIATIONS * (self.dispersion / blips + fit.log_variance(share)).sqrt()).exp();
        let sound = value > 0.0 && value.is_finite() && factor.is_finite();
        sound.then(|| Estimate { value, low: value / factor, high: value * factor })
    }

    /// The dispersion of a part of the blips: what is taken at random of a crowd is less crowded.
    pub(super) fn dispersion_of(&self, part: u64) -> f64 {
        let all = self.evidence.blip_count().max(1) as f64;
        1.0 + (self.dispersion - 1.0) * (part as f64 / all).min(1.0)
    }

    pub(super) fn trigger(&self, rule: Rule, fires: &Fires, settings: &CalibrationSettings) -> TriggerReport {
        let (false_per_month, basis) = self.false_per_month(rule, fires.in_blips);
        let best = rule.patience(&self.probing);
        let interval = self.probing.interval();
        let worst = best.saturating_add(interval).saturating_add(self.probing.timeout());
        let after = |part: f64| (best.as_secs_f64() + part * interval.as_secs_f64()).min(worst.as_secs_f64());
        let detection = Delays { p50: after(0.5), p95: after(0.95), worst: worst.as_secs_f64() };
        let verdict = verdict(settings, worst, &false_per_month);
        TriggerReport {
            trigger: rule.to_string(),
            failures: rule.failures(&self.probing),
            patience_seconds: best.as_secs_f64(),
            false_failovers: fires.in_blips,
            false_per_month,
            basis,
            detection_seconds: detection,
            outages_detected: fires.in_outages,
            outages_missed: fires.missed,
            outage_detection_seconds: delays(&fires.delays),
            verdict,
        }
    }
}

fn verdict(settings: &CalibrationSettings, worst: Duration, month: &Estimate) -> Verdict {
    let Some(most) = settings.max_false_per_month else { return Verdict::NotAsked };
    let slow = settings.rto.is_some_and(|rto| worst.saturating_add(settings.recovery) > rto);
    match () {
        () if slow => Verdict::TooSlow,
        () if month.high <= most => Verdict::Keeps,
        () if month.value <= most => Verdict::NotProven,
        () => Verdict::TooMany,
    }
}

/// The fit that the false failovers are computed with, or why there is none.
fn choice(blips: u64, alike: bool, exponential: Option<Fitted>, log_normal: Option<Fitted>) -> Result<Fitted, String> {
    if !alike {
        return Err("the endpoints are probed at different intervals".to_owned());
    }
    if blips < FEWEST {
        return Err(format!("{}; a fit takes {FEWEST}", counted(blips, "blip")));
    }
    let fits = [exponential, log_normal].into_iter().flatten();
    let likeliest = fits.filter(accepted).min_by(|a, b| a.aic().total_cmp(&b.aic()));
    likeliest.ok_or_else(|| match (exponential, log_normal) {
        (None, None) => "too few different lengths to fit".to_owned(),
        _ => "no fitted distribution agrees with the lengths".to_owned(),
    })
}

fn accepted(fit: &Fitted) -> bool {
    fit.p_value >= ACCEPTED
}

const fn basis(fit: &Fitted) -> Basis {
    match fit.family() {
        Family::Exponential => Basis::Exponential,
        Family::LogNormal => Basis::LogNormal,
    }
}

fn fit_report(fit: &Fitted) -> Fit {
    let sigma = match fit.length {
        Length::Exponential { .. } => None,
        Length::LogNormal { deviation, .. } => Some(deviation),
    };
    Fit {
        mean_seconds: fit.length.mean(),
        median_seconds: fit.length.median(),
        sigma,
        log_likelihood: fit.log_likelihood,
        aic: fit.aic(),
        chi_squared: fit.chi_squared,
        degrees_of_freedom: fit.degrees,
        p_value: fit.p_value,
        accepted: accepted(fit),
    }
}

fn delays(nanos: &[u64]) -> Option<Delays> {
    let mut sorted = nanos.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map(|nanos| seconds(*nanos))
    };
    Some(Delays { p50: at(50)?, p95: at(95)?, worst: at(100)? })
}

pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_count_is_garwoods_and_wider_for_bursts() {
        let (low, high) = poisson(0.0, 1.0);
        assert!(low == 0.0 && (high - 5.298_317).abs() < 1e-5, "{high}");
        let (low, high) = poisson(10.0, 1.0);
        assert!((low - 3.716_9).abs() < 1e-3 && (high - 21.397_8).abs() < 1e-3, "{low} {high}");
        let (wide_low, wide_high) = poisson(10.0, 4.0);
        assert!(wide_low < low && wide_high > high);
    }
}
