//! Samples of one endpoint -> runs of failures, each a blip or an outage, and what every trigger would have done.
//!
//! A run is failures without a success or a gap between them. It is an outage if more than a stated time lies between its
//! first failed probe and its last, else a blip. A run that a gap or an end of the history cuts off is an outage if it was
//! long enough already; otherwise it is neither, and counts nowhere.

use std::time::Duration;

use super::clusters::Clusters;
use super::fit::Counts;
use super::latency::Latencies;
use super::sample::Sample;
use crate::planning::Trigger;
use crate::sim::Rule;

/// Times between two probes of which the usual one is taken.
const LEARNING: usize = 256;
/// The same after a failure, and latencies: the first so many stand for all.
const SAMPLED: usize = 4_096;
/// Outages that are listed.
const LISTED: usize = 100;
/// A longer time than so many intervals is a gap, unless the owner says otherwise.
const GAP: u64 = 3;

/// What the owner says about reading a history.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) triggers: Vec<Rule>,
    pub(super) outage_after: u64,
    pub(super) interval: Option<u64>,
    pub(super) max_gap: Option<u64>,
}

/// An outage: first and last failure, and the success after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interruption {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) over: Option<u64>,
}

/// What a trigger did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fires {
    pub(super) in_blips: u64,
    pub(super) missed: u64,
    /// In outages: nanoseconds from the first failure to the trigger, the first so many.
    pub(super) delays: Vec<u64>,
    pub(super) in_outages: u64,
}

/// What was counted of one endpoint, or of several. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) samples: u64,
    pub(super) failed: u64,
    pub(super) covered: u64,
    /// After a success: when a blip can begin.
    pub(super) well: u64,
    pub(super) gap_limit: u64,
    pub(super) gaps: u64,
    pub(super) gap: u64,
    pub(super) longest_gap: u64,
    /// Blips by how many probes failed.
    pub(super) blips: Counts,
    pub(super) longest_blip: u64,
    pub(super) cut: u64,
    pub(super) outages: u64,
    pub(super) outage: u64,
    pub(super) listed: Vec<Interruption>,
    pub(super) fires: Vec<Fires>,
    pub(super) clusters: Clusters,
    pub(super) interval: u64,
    after_failure: Vec<u64>,
    /// Of successful probes.
    pub(super) latencies: Latencies,
    pub(super) slowest_failure: Option<u64>,
}

impl Evidence {
    /// How many blips there were.
    pub(super) fn blip_count(&self) -> u64 {
        self.blips.values().sum()
    }

    /// The usual time from one probe to the next after a failure.
    pub(super) fn interval_when_failing(&self) -> u64 {
        let mut steps = self.after_failure.clone();
        median(&mut steps).map_or(self.interval, |step| step.clamp(1, self.interval.max(1)))
    }

    /// Adds another endpoint's.
    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.failed += other.failed;
        self.covered += other.covered;
        self.well += other.well;
        self.gap_limit = self.gap_limit.max(other.gap_limit);
        self.gaps += other.gaps;
        self.gap += other.gap;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        for (failures, count) in &other.blips {
            *self.blips.entry(*failures).or_default() += count;
        }
        self.longest_blip = self.longest_blip.max(other.longest_blip);
        self.cut += other.cut;
        self.outages += other.outages;
        self.outage += other.outage;
        self.fires.resize(self.fires.len().max(other.fires.len()), Fires::default());
        for (fires, more) in self.fires.iter_mut().zip(&other.fires) {
            fires.in_blips += more.in_blips;
            fires.missed += more.missed;
            fires.in_outages += more.in_outages;
            fires.delays.extend(&more.delays);
        }
        self.clusters.add(&other.clusters);
        self.interval = self.interval.max(other.interval);
        self.after_failure.extend(&other.after_failure);
        self.latencies.add(&other.latencies);
        self.slowest_failure = self.slowest_failure.max(other.slowest_failure);
    }
}

/// A run of failures that goes on.
#[derive(Clone, Debug)]
struct Run {
    first: u64,
    last: u64,
    failures: u64,
    /// Its beginning was seen: a success came before it.
    begun: bool,
}

/// One endpoint.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// The first samples, until the usual interval is known.
    learning: Vec<Sample>,
    learned: bool,
    last: Option<(u64, bool)>,
    run: Option<Run>,
    /// When each trigger fired in the present run.
    fired: Vec<Option<u64>>,
    /// The newest results, the last one lowest, failures set; for failures among the newest results.
    recent: u64,
    /// Triggers of that kind whose condition holds.
    down: u64,
    evidence: Evidence,
}

impl Track {
    pub(super) fn new(rules: &Rules) -> Self {
        let evidence = Evidence { fires: vec![Fires::default(); rules.triggers.len()], ..Evidence::default() };
        Self {
            learning: Vec::new(),
            learned: false,
            last: None,
            run: None,
            fired: vec![None; rules.triggers.len()],
            recent: 0,
            down: 0,
            evidence,
        }
    }

    /// The next sample, later than the one before.
    #[inline]
    pub(super) fn take(&mut self, sample: &Sample, rules: &Rules) {
        if self.learned {
            self.step(sample, rules);
            return;
        }
        self.learning.push(*sample);
        if self.learning.len() > LEARNING {
            self.learn(rules);
        }
    }

    /// What was counted. A run that still goes on is cut off here.
    pub(super) fn end(mut self, rules: &Rules) -> Evidence {
        if !self.learned {
            self.learn(rules);
        }
        self.finish(None, rules);
        self.evidence
    }

    fn learn(&mut self, rules: &Rules) {
        let samples = std::mem::take(&mut self.learning);
        let pairs = samples.windows(2).filter_map(|pair| match pair {
            [before, after] => Some((before.ok, after.at.saturating_sub(before.at))),
            _ => None,
        });
        let (well, failing): (Vec<_>, Vec<_>) = pairs.partition(|(ok, _)| *ok);
        let steps = |pairs: &[(bool, u64)]| pairs.iter().map(|(_, step)| *step).collect::<Vec<_>>();
        let usual = median(&mut steps(&well)).or_else(|| median(&mut steps(&failing))).unwrap_or(0);
        self.evidence.interval = rules.interval.unwrap_or(usual);
        self.evidence.gap_limit = rules.max_gap.unwrap_or(self.evidence.interval.saturating_mul(GAP));
        self.learned = true;
        for sample in &samples {
            self.step(sample, rules);
        }
    }

    #[inline]
    fn step(&mut self, sample: &Sample, rules: &Rules) {
        let Sample { at, ok, latency, .. } = *sample;
        self.evidence.samples += 1;
        if let Some((before, was_ok)) = self.last {
            let passed = at.saturating_sub(before);
            if passed > self.evidence.gap_limit {
                self.gap(passed, rules);
            } else {
                self.evidence.covered += passed;
                if was_ok {
                    self.evidence.well += passed;
                    self.evidence.clusters.pass(passed);
                } else if self.evidence.after_failure.len() < SAMPLED {
                    self.evidence.after_failure.push(passed);
                }
            }
        }
        if let Some(latency) = latency {
            self.latency(latency, ok);
        }
        self.recent = self.recent << 1 | u64::from(!ok);
        if !ok {
            self.failure(at, rules);
        } else if self.run.is_some() || self.down != 0 {
            self.success(at, rules);
        }
        self.last = Some((at, ok));
    }

    #[inline]
    fn latency(&mut self, latency: Duration, ok: bool) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if ok {
            self.evidence.latencies.take(nanos);
        } else {
            self.evidence.slowest_failure = self.evidence.slowest_failure.max(Some(nanos));
        }
    }

    #[cold]
    fn gap(&mut self, passed: u64, rules: &Rules) {
        self.evidence.gaps += 1;
        self.evidence.gap = self.evidence.gap.saturating_add(passed);
        self.evidence.longest_gap = self.evidence.longest_gap.max(passed);
        self.finish(None, rules);
        (self.last, self.recent, self.down) = (None, 0, 0);
    }

    fn failure(&mut self, at: u64, rules: &Rules) {
        self.evidence.failed += 1;
        let begun = self.last.is_some_and(|(_, ok)| ok);
        let run = self.run.get_or_insert(Run { first: at, last: at, failures: 0, begun });
        run.last = at;
        run.failures += 1;
        let (failures, since) = (run.failures, at - run.first);
        for (index, (rule, fired)) in rules.triggers.iter().zip(&mut self.fired).enumerate() {
            let fires = match *rule {
                Rule::Planned(Trigger::Consecutive(needed)) => fired.is_none() && failures >= u64::from(needed.max(1)),
                Rule::Planned(Trigger::Window(window)) => {
                    fired.is_none() && failures > 1 && u128::from(since) >= window.as_nanos()
                }
                Rule::Among { failures, of } => {
                    let bit = 1_u64.checked_shl(u32::try_from(index).unwrap_or(u32::MAX)).unwrap_or(0);
                    let holds = among(self.recent, of) >= failures;
                    let fires = holds && self.down & bit == 0;
                    self.down |= if holds { bit } else { 0 };
                    fires
                }
            };
            if fires {
                fired.get_or_insert(since);
            }
        }
    }

    fn success(&mut self, at: u64, rules: &Rules) {
        self.finish(Some(at), rules);
        for (index, rule) in rules.triggers.iter().enumerate() {
            if let Rule::Among { failures, of } = *rule {
                if among(self.recent, of) < failures {
                    self.down &= !1_u64.checked_shl(u32::try_from(index).unwrap_or(u32::MAX)).unwrap_or(0);
                }
            }
        }
    }

    /// The run is over: by a success, or because nothing more is known of it.
    fn finish(&mut self, over: Option<u64>, rules: &Rules) {
        let Some(run) = self.run.take() else { return };
        let evidence = &mut self.evidence;
        let length = run.last - run.first;
        let is_outage = length > rules.outage_after;
        let whole = run.begun && over.is_some();
        if is_outage {
            evidence.outages += 1;
            evidence.outage = evidence.outage.saturating_add(over.unwrap_or(run.last) - run.first);
            if evidence.listed.len() < LISTED {
                evidence.listed.push(Interruption { first: run.first, last: run.last, over });
            }
        } else if whole {
            *evidence.blips.entry(run.failures).or_default() += 1;
            evidence.longest_blip = evidence.longest_blip.max(length);
            evidence.clusters.blip();
        } else {
            evidence.cut += 1;
        }
        for (fires, fired) in evidence.fires.iter_mut().zip(&mut self.fired) {
            match (is_outage, fired.take()) {
                (true, Some(delay)) => {
                    fires.in_outages += 1;
                    if fires.delays.len() < SAMPLED {
                        fires.delays.push(delay);
                    }
                }
                (true, None) => fires.missed += 1,
                (false, Some(_)) => fires.in_blips += u64::from(whole),
                (false, None) => {}
            }
        }
    }
}

/// Failures among the newest results.
fn among(recent: u64, of: u32) -> u32 {
    (recent & (u64::MAX >> (u64::BITS - of.clamp(1, u64::BITS)))).count_ones()
}

/// The middle one.
fn median(numbers: &mut [u64]) -> Option<u64> {
    let middle = numbers.len() / 2;
    (!numbers.is_empty()).then(|| *numbers.select_nth_unstable(middle).1)
}
