//! Whether calibration finds what a history was made of.

#![expect(clippy::disallowed_macros, reason = "a test reports what it counted")]

use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore as _, SeedableRng as _};

use super::calibrate::Calibration;
use super::*;

const SECOND: f64 = 1e9;
const START: u64 = 1_760_000_000_000_000_000;
const INTERVAL: f64 = 10.0;
const DAYS: f64 = 10.0;
/// Blips in an hour in which the path is well.
const RATE: f64 = 4.0;

/// Random numbers of one history.
struct Dice(Pcg64Mcg);

impl Dice {
    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// How long the blips of a history are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Mean 20 s.
    Exponential,
    /// Median 15 s, sigma 0.8.
    LogNormal,
    /// Four in five short, one between 100 s and 140 s.
    Mixture,
}

impl Kind {
    fn draw(self, dice: &mut Dice) -> f64 {
        match self {
            Self::Exponential => dice.exponential(20.0),
            Self::LogNormal => (15_f64.ln() + 0.8 * dice.normal()).exp(),
            Self::Mixture if dice.uniform() > 0.2 => dice.exponential(8.0),
            Self::Mixture => 100.0 + 40.0 * dice.uniform(),
        }
    }

    /// P(L > x), by formulas that calibration does not use.
    fn survival(self, x: f64) -> f64 {
        match self {
            Self::Exponential => (-x / 20.0).exp(),
            Self::LogNormal if x <= 0.0 => 1.0,
            Self::LogNormal => 0.5 * libm::erfc((x / 15.0).ln() / 0.8 / std::f64::consts::SQRT_2),
            Self::Mixture => 0.8 * (-x / 8.0).exp() + 0.2 * ((140.0 - x) / 40.0).clamp(0.0, 1.0),
        }
    }

    /// The mean of P(L > x) over an interval, by the midpoint rule.
    fn over(self, from: f64) -> f64 {
        const STEPS: u32 = 2_000;
        let at = |step: u32| self.survival(from + INTERVAL * (f64::from(step) + 0.5) / f64::from(STEPS));
        (0..STEPS).map(at).sum::<f64>() / f64::from(STEPS)
    }

    fn mean(self) -> f64 {
        (0..2_000).map(|interval| self.over(INTERVAL * f64::from(interval)) * INTERVAL).sum()
    }
}

/// Well for a time that is exponentially distributed, then a blip, and so on; a probe every interval at a random phase.
fn report(seed: u64, settings: &CalibrationSettings, mut gap: impl FnMut(&mut Dice) -> f64, kind: Kind) -> Report {
    let mut dice = Dice(Pcg64Mcg::seed_from_u64(seed));
    let mut names = Names::default();
    let endpoint = names.index("east").unwrap();
    let mut calibration = Calibration::new(settings).unwrap();
    let mut at = INTERVAL * dice.uniform();
    let mut begin = gap(&mut dice);
    let mut end = begin + kind.draw(&mut dice);
    while at < DAYS * 86_400.0 {
        while end <= at {
            begin = end + gap(&mut dice);
            end = begin + kind.draw(&mut dice);
        }
        let sample = Sample { at: START + (at * SECOND) as u64, endpoint, ok: at < begin, latency: None };
        calibration.take(&sample, &names);
        at += INTERVAL;
    }
    calibration.finish(&names, Reading::default()).unwrap()
}

fn holds(estimate: &Estimate, truth: f64) -> bool {
    estimate.low <= truth && truth <= estimate.high
}

/// In how many of a hundred seeds every true value lies inside its interval, and what the lengths were taken for.
fn recovered(kind: Kind) -> (usize, Vec<Basis>) {
    let triggers = ["1", "2", "3", "6", "window 60s", "12"].map(|text| text.parse().unwrap());
    let settings = CalibrationSettings { triggers: triggers.to_vec(), ..CalibrationSettings::default() };
    let well = 1.0 / (1.0 + RATE / 3_600.0 * kind.mean());
    // More than 31 failures are an outage: more than five minutes from the first to the last.
    let month = |failures: u64| {
        let share = kind.over(INTERVAL * (failures - 1) as f64) - kind.over(INTERVAL * 31.0);
        RATE / 3_600.0 * 2_592_000.0 * well * share
    };
    let mut used = Vec::new();
    let inside = |seed: u64| {
        let report = report(seed, &settings, |dice| dice.exponential(3_600.0 / RATE), kind);
        let path = &report.endpoints[0];
        used.push(path.lengths.used);
        let wrong: Vec<_> = path
            .triggers
            .iter()
            .filter(|row| !holds(&row.false_per_month, month(row.failures)))
            .map(|row| (row.trigger.clone(), month(row.failures), row.false_per_month, row.basis))
            .collect();
        let seen = RATE * kind.over(0.0);
        if !wrong.is_empty() || !holds(&path.blips.per_hour, seen) {
            println!("{kind:?}, seed {seed}: blips {:?}, true {seen}; {wrong:?}", path.blips.per_hour);
            return false;
        }
        true
    };
    let count = (1..=100).map(inside).filter(|inside| *inside).count();
    println!("{kind:?}: every true value inside its interval in {count} of 100 seeds");
    (count, used)
}

#[test]
fn exponential_blips_are_recovered_in_93_of_100_seeds_and_mostly_told_to_be_such() {
    let (count, used) = recovered(Kind::Exponential);
    assert!(count >= 93, "{count}");
    let told = used.iter().filter(|basis| **basis == Basis::Exponential).count();
    assert!(told >= 80, "{told}");
}

#[test]
fn log_normal_blips_are_recovered_in_93_of_100_seeds_and_mostly_told_to_be_such() {
    let (count, used) = recovered(Kind::LogNormal);
    assert!(count >= 93, "{count}");
    let told = used.iter().filter(|basis| **basis == Basis::LogNormal).count();
    assert!(told >= 80, "{told}");
}

#[test]
fn where_no_distribution_fits_what_was_counted_is_used_and_recovers_in_93_of_100_seeds() {
    let (count, used) = recovered(Kind::Mixture);
    assert!(count >= 93, "{count}");
    assert!(used.iter().all(|basis| *basis == Basis::Counted), "{used:?}");
}

#[test]
fn blips_that_come_in_bursts_are_recovered_because_their_intervals_are_wider() {
    // Calm for 20 h on average, then an hour with 40 blips, their rate and their gaps in between.
    let settings = CalibrationSettings::default();
    let mut held = 0;
    for seed in 1..=100 {
        let (mut calm_until, mut stormy_until, mut now) = (0.0, 0.0, 0.0);
        let gap = |dice: &mut Dice| {
            let before = now;
            loop {
                if now >= stormy_until {
                    calm_until = now + dice.exponential(20.0 * 3_600.0);
                    stormy_until = calm_until + 3_600.0;
                    now = calm_until;
                }
                now += dice.exponential(90.0);
                if now < stormy_until {
                    break now - before;
                }
                now = stormy_until;
            }
        };
        let report = report(seed, &settings, gap, Kind::Exponential);
        let path = &report.endpoints[0];
        assert!(path.blips.dispersion > 3.0, "{}", path.blips.dispersion);
        // A storm of an hour has 40 blips, of which those count that some probe sees, every 21 h.
        let truth = 40.0 / 21.0 * Kind::Exponential.over(0.0);
        held += usize::from(holds(&path.blips.per_hour, truth));
    }
    println!("bursts: the true rate inside its interval in {held} of 100 seeds");
    assert!(held >= 93, "{held}");
}

fn samples(results: &[(f64, bool)], settings: &CalibrationSettings) -> PathReport {
    let mut names = Names::default();
    let endpoint = names.index("east").unwrap();
    let mut calibration = Calibration::new(settings).unwrap();
    for (seconds, ok) in results {
        let sample = Sample { at: START + (seconds * SECOND) as u64, endpoint, ok: *ok, latency: None };
        calibration.take(&sample, &names);
    }
    calibration.finish(&names, Reading::default()).unwrap().endpoints.remove(0)
}

/// A probe every 10 s: `.` succeeds, `x` fails, a space never came.
fn every_ten_seconds(results: &str) -> Vec<(f64, bool)> {
    let sample = |(slot, result)| (result != ' ').then_some((slot as f64 * 10.0, result == '.'));
    results.chars().enumerate().filter_map(sample).collect()
}

fn with(triggers: &[&str], outage_after: u64) -> CalibrationSettings {
    let triggers = triggers.iter().map(|text| text.parse().unwrap()).collect();
    CalibrationSettings { triggers, outage_after: Duration::from_secs(outage_after), ..CalibrationSettings::default() }
}

#[test]
fn a_run_is_an_outage_from_just_above_the_stated_length_on() {
    let settings = with(&["2", "window 30s", "9"], 30);
    let path = samples(&every_ten_seconds(".....xxxx....xxxxx...x..."), &settings);
    assert_eq!((path.blips.count, path.outages, path.blips.cut), (2, 1, 0));
    assert_eq!((path.outage_seconds, path.blips.longest_seconds), (50.0, 30.0));
    let row = |index: usize| {
        let row = &path.triggers[index];
        (row.false_failovers, row.outages_detected, row.outages_missed, row.outage_detection_seconds.map(|d| d.worst))
    };
    assert_eq!(row(0), (1, 1, 0, Some(10.0)));
    assert_eq!(row(1), (1, 1, 0, Some(30.0)));
    assert_eq!(row(2), (0, 0, 1, None));
}

#[test]
fn a_gap_is_neither_health_nor_failure() {
    let settings = with(&["2"], 300);
    // Two slots that never came are no gap yet, three are.
    let path = samples(&every_ten_seconds("......  ......   ......"), &settings);
    assert_eq!((path.gaps.count, path.gaps.seconds, path.covered_seconds), (1, 40.0, 180.0));
    // A run that a gap cuts off at either end counts nowhere, its failures neither.
    for cut in ["......xxx    ......", "......    xxx......", "......   xxx    ....", "xxx.......", "......xxx"] {
        let path = samples(&every_ten_seconds(cut), &settings);
        assert_eq!((path.blips.count, path.blips.cut, path.triggers[0].false_failovers), (0, 1, 0), "{cut}");
    }
    // It is an outage all the same if it is long enough already.
    let path = samples(&every_ten_seconds("......xxxxxx    ......"), &with(&["2"], 40));
    assert_eq!((path.outages, path.outage_list[0].to.as_deref(), path.outage_list[0].millis), (1, None, 50_000));
}

#[test]
fn failures_among_the_newest_results_fire_across_runs_and_once() {
    let settings = with(&["3 of 5", "3"], 300);
    let fired = |results: &str| {
        let path = samples(&every_ten_seconds(results), &settings);
        path.triggers.iter().map(|row| row.false_failovers).collect::<Vec<_>>()
    };
    assert_eq!(fired(".....x.x.x......"), [1, 0]);
    assert_eq!(fired(".....x..x..x....."), [0, 0]);
    // Still down, so not again; well again, and then again.
    assert_eq!(fired(".....xxx.x.........."), [1, 1]);
    assert_eq!(fired(".....xxx.....xxx...."), [2, 2]);
    // What was before a gap is forgotten.
    assert_eq!(fired(".....x.x      x....."), [0, 0]);
}

#[test]
fn the_intervals_are_the_usual_ones_whatever_else_there_is() {
    let mut results = Vec::new();
    let mut at = 0.0;
    for round in 0..300 {
        for probe in 0..20 {
            let failing = round % 10 == 3 && (5..9).contains(&probe);
            results.push((at, !failing));
            at += if failing { 0.25 } else { 1.0 };
        }
    }
    let path = samples(&results, &with(&["3"], 300));
    assert_eq!((path.interval_seconds, path.interval_when_failing_seconds), (1.0, 0.25));
    assert_eq!((path.blips.count, path.blips.longest_seconds, path.gaps.count), (30, 0.75, 0));
    let row = &path.triggers[0];
    assert_eq!((row.patience_seconds, row.detection_seconds.worst), (0.5, 1.5));
}

#[test]
fn a_trigger_is_recommended_only_if_the_whole_interval_keeps_to_the_limit() {
    let calm = |days: usize| vec![true; days * 8_640];
    let asked = |days: usize, most: f64, rto: Option<u64>| {
        let settings = CalibrationSettings {
            max_false_per_month: Some(most),
            rto: rto.map(Duration::from_secs),
            ..with(&["3", "6"], 300)
        };
        let results: Vec<_> = calm(days).into_iter().enumerate().map(|(slot, ok)| (slot as f64 * 10.0, ok)).collect();
        let mut names = Names::default();
        let endpoint = names.index("east").unwrap();
        let mut calibration = Calibration::new(&settings).unwrap();
        for (seconds, ok) in results {
            let at = START + (seconds * SECOND) as u64;
            calibration.take(&Sample { at, endpoint, ok, latency: None }, &names);
        }
        calibration.finish(&names, Reading::default()).unwrap().recommendation
    };
    // Nothing happened in 30 days: at most 5.30 a month.
    assert_eq!(asked(31, 5.3, None).trigger.as_deref(), Some("3 consecutive"));
    let short = asked(3, 5.3, None);
    assert_eq!((short.trigger, short.days_needed), (None, Some(30.0)));
    assert!(short.why.starts_with("the history is too short"), "{}", short.why);
    // Three failures are detected within 30 s at worst, six within 60 s.
    assert_eq!(asked(31, 5.3, Some(30)).trigger.as_deref(), Some("3 consecutive"));
    let slow = asked(31, 5.3, Some(29));
    assert_eq!((slow.trigger, slow.days_needed), (None, None));
    assert_eq!(slow.why, "every trigger detects a fault too late for the recovery time");
}

#[test]
fn settings_out_of_bounds_are_refused_one_by_one() {
    let refusal = |settings: CalibrationSettings| match Calibration::new(&settings) {
        Ok(_) => panic!("{settings:?} was taken"),
        Err(error) => error.to_string(),
    };
    let defaults = CalibrationSettings::default;
    let zero = Some(Duration::ZERO);
    assert_eq!(
        refusal(CalibrationSettings { triggers: Vec::new(), ..defaults() }),
        "trigger is given 0 times; expected 1 to 64"
    );
    for (key, settings) in [
        ("outage_after", CalibrationSettings { outage_after: Duration::ZERO, ..defaults() }),
        ("interval", CalibrationSettings { interval: zero, ..defaults() }),
        ("max_gap", CalibrationSettings { max_gap: zero, ..defaults() }),
    ] {
        assert_eq!(refusal(settings), format!("{key} is 0ns; expected above zero, and at most a year"));
    }
    for most in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = refusal(CalibrationSettings { max_false_per_month: Some(most), ..defaults() });
        assert_eq!(refused, format!("max_false_per_month is {most}; expected a number above zero"));
    }
    assert!(refusal(CalibrationSettings { rto: zero, ..defaults() }).starts_with("rto is given alone"));
}
