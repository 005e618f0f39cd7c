//! Every trigger through the same calm days and the same outages.

use std::ops::Range;
use std::time::Duration;

use thiserror::Error;

use super::dice::Dice;
use super::outcome::{Detected, Row, Run, Table};
use super::rule::Rule;
use super::watch::Watch;
use super::weather::{Weather, nanos};
use crate::engine::{EngineError, PolicyError, Silence};
use crate::planning::{Blips, PlanSettings, Probing, Rate, Share};

const DAY: Duration = Duration::from_secs(86_400);
const MOST_SEEDS: u32 = 100_000;
const MOST_DAYS: u32 = 36_500;
/// Probes and blips of one seed: some minutes of work, and no more memory than for a thousand.
const MOST_EVENTS: u64 = 1_000_000_000;
/// Slots of weather that are made at once, and after which it is told how far a run is.
const AT_ONCE: u64 = 65_536;
/// What comes before an outage: at least so long, so many probes, and so many blips' lengths.
const LEAD: (Duration, u32, u32) = (Duration::from_secs(3_600), 64, 10);

/// What to simulate. The defaults are the worked example of `references/planning.md`, not a recommendation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationSettings {
    /// Runs, each with a seed of its own. Default 30, 1 to 100,000.
    pub seeds: u32,
    /// The seed of the first run; those of the others follow. Default 1.
    pub first_seed: u64,
    /// Calm days in each run. Default 1, 1 to 36,500.
    pub days: u32,
    /// From one probe to the next. Default 10 s, above zero, at most a day.
    pub interval: Duration,
    /// Probes that fail one by one though the path works, time-outs say. Default none.
    pub probe_loss: Share,
    /// How often blips come. Default 4 an hour.
    pub blips: Rate,
    /// Their mean lengths, a table for each. Default 20 s and 60 s, above zero, at most a day.
    pub blip_means: Vec<Duration>,
    /// The rows of each table. Default 1, 3, 6, 12 failures and windows of 60 s, 300 s and 900 s.
    pub triggers: Vec<Rule>,
    /// How long the outages last, of which each run has one with failing probes and one without any. Default 1 h, above
    /// zero, at most 36,500 days.
    pub outage: Duration,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        let PlanSettings { interval, triggers, blips, blip_mean, .. } = PlanSettings::default();
        Self {
            seeds: 30,
            first_seed: 1,
            days: 1,
            interval,
            probe_loss: Share::NONE,
            blips,
            blip_means: vec![blip_mean, blip_mean * 3],
            triggers: triggers.into_iter().map(Rule::Planned).collect(),
            outage: Duration::from_secs(3_600),
        }
    }
}

/// Why nothing was simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulationError {
    /// A value that is out of bounds.
    #[error("{key} is {found}; expected {expected}")]
    Setting {
        /// Which.
        key: &'static str,
        /// The value.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A trigger that no engine can be given.
    #[error("trigger {trigger}: {error}")]
    Trigger {
        /// Which.
        trigger: Rule,
        /// Why.
        error: PolicyError,
    },
    /// The engine refused an input.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Checked [`SimulationSettings`].
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    settings: SimulationSettings,
    probing: Probing,
    blips: Vec<Blips>,
}

impl Simulation {
    /// Checks `settings`.
    ///
    /// # Errors
    /// The first value out of bounds, with the bounds.
    pub fn new(settings: SimulationSettings) -> Result<Self, SimulationError> {
        let refuse = |key, found: String, expected: &str| {
            Err(SimulationError::Setting { key, found, expected: expected.to_owned() })
        };
        let SimulationSettings { seeds, first_seed, days, interval, blips, outage, .. } = settings;
        if !(1..=MOST_SEEDS).contains(&seeds) {
            return refuse("seeds", seeds.to_string(), &format!("1 to {MOST_SEEDS}"));
        }
        if first_seed.checked_add(u64::from(seeds)).is_none() {
            let most = u64::MAX - u64::from(seeds);
            return refuse("seed", first_seed.to_string(), &format!("at most {most} for {seeds} seeds"));
        }
        if !(1..=MOST_DAYS).contains(&days) {
            return refuse("days", days.to_string(), &format!("1 to {MOST_DAYS}"));
        }
        if interval.is_zero() || interval > DAY {
            return refuse("interval", format!("{interval:?}"), "above zero, and at most a day");
        }
        if outage.is_zero() || outage > DAY * MOST_DAYS {
            return refuse("outage", format!("{outage:?}"), &format!("above zero, and at most {MOST_DAYS} days"));
        }
        let probes = |span: Duration| span.as_nanos() / interval.as_nanos();
        if probes((DAY * days).max(outage)) > u128::from(MOST_EVENTS) {
            let expected = format!("at most {MOST_EVENTS} probes in the days or the outage of a seed");
            return refuse("interval", format!("{interval:?}"), &expected);
        }
        if blips.within(DAY * days) > MOST_EVENTS {
            return refuse("blips", blips.to_string(), &format!("at most {MOST_EVENTS} in the days of a seed"));
        }
        if settings.triggers.is_empty() {
            return refuse("triggers", "empty".to_owned(), "at least one");
        }
        settings.triggers.iter().try_for_each(|rule| rule.trigger().map(|_| ()))?;
        if settings.blip_means.is_empty() {
            return refuse("blip_mean", "empty".to_owned(), "at least one");
        }
        let blips = |mean: &Duration| Blips::new(settings.blips, *mean).ok().filter(|_| *mean <= DAY);
        let Some(blips) = settings.blip_means.iter().map(blips).collect() else {
            let wrong = settings.blip_means.iter().find(|mean| mean.is_zero() || **mean > DAY);
            let found = format!("{:?}", wrong.copied().unwrap_or_default());
            return refuse("blip_mean", found, "above zero, and at most a day");
        };
        let Ok(probing) = Probing::every(interval) else {
            return refuse("interval", format!("{interval:?}"), "above zero");
        };
        Ok(Self { settings, probing, blips })
    }

    /// The settings that were checked.
    #[must_use]
    pub fn settings(&self) -> &SimulationSettings {
        &self.settings
    }

    fn slots(&self) -> u64 {
        nanos(DAY * self.settings.days) / nanos(self.settings.interval).max(1)
    }

    /// The first slot of the outages: what comes before must be long enough for every trigger to know the weather.
    fn first_of_outage(&self, blips: &Blips) -> u64 {
        let (span, probes, lengths) = LEAD;
        let lead = span.max(self.settings.interval * probes).max(blips.mean().saturating_mul(lengths));
        nanos(lead) / nanos(self.settings.interval) + 1
    }

    /// Slots of one run, for all triggers together, if no outage is found before its end.
    fn work(&self, blips: &Blips) -> u64 {
        let leads = 2 * (self.first_of_outage(blips) - 1);
        let outages = 3 * nanos(self.settings.outage).div_ceil(nanos(self.settings.interval));
        (self.slots() + leads + outages).saturating_mul(self.settings.triggers.len() as u64)
    }

    /// A table for each mean length of a blip. `progress` hears often how much of how much is done.
    ///
    /// # Errors
    /// None with settings that were checked.
    pub fn run(&self, mut progress: impl FnMut(u64, u64)) -> Result<Vec<Table>, SimulationError> {
        let work = self.blips.iter().map(|blips| self.work(blips)).fold(0, u64::saturating_add);
        let all = work.saturating_mul(self.settings.seeds.into());
        let mut done = 0_u64;
        let mut table = |blips: &Blips| {
            let mut rows: Vec<_> = self.settings.triggers.iter().map(|rule| self.row(*rule, blips)).collect();
            for seed in (self.settings.first_seed..).take(self.settings.seeds as usize) {
                let after = done.saturating_add(self.work(blips));
                // An outage may be a slot shorter than was reckoned.
                let runs = self.seed(seed, blips, &mut |more| {
                    done = done.saturating_add(more).min(after);
                    progress(done, all);
                })?;
                rows.iter_mut().zip(runs).for_each(|(row, run)| row.runs.push(run));
                done = after;
                progress(done, all);
            }
            Ok(Table { blip_mean: blips.mean(), rows })
        };
        self.blips.iter().map(&mut table).collect()
    }

    fn row(&self, rule: Rule, blips: &Blips) -> Row {
        let closed_form = match rule {
            Rule::Planned(trigger) if self.settings.probe_loss == Share::NONE => {
                Some(blips.false_failovers_per_day(trigger, &self.probing))
            }
            _ => None,
        };
        let (failures, patience) = (rule.failures(&self.probing), rule.patience(&self.probing));
        Row { rule, failures, patience, closed_form, days: self.settings.days, runs: Vec::new() }
    }

    /// One run of every trigger. `heard` is told of slots that were lived through.
    fn seed(&self, seed: u64, blips: &Blips, heard: &mut dyn FnMut(u64)) -> Result<Vec<Run>, SimulationError> {
        let SimulationSettings { interval, probe_loss, .. } = self.settings;
        let [calm_blips, calm_losses, lead_blips, lead_losses, mut fault] = Dice::of(seed);
        let fresh = |silence| {
            let watch = |rule: &Rule| Watch::new(*rule, interval, silence);
            self.settings.triggers.iter().map(watch).collect::<Result<Vec<_>, _>>()
        };

        let mut calm = fresh(Silence::Note)?;
        let mut weather = Weather::of(calm_blips, calm_losses, blips, probe_loss, interval);
        live(&mut calm, &mut weather, 1..self.slots() + 1, heard)?;

        let (mut before, mut strict) = (fresh(Silence::Note)?, fresh(Silence::Failure)?);
        let mut weather = Weather::of(lead_blips, lead_losses, blips, probe_loss, interval);
        let (interval, first) = (nanos(interval), self.first_of_outage(blips));
        live(&mut strict, &mut weather.clone(), 1..first, heard)?;
        live(&mut before, &mut weather, 1..first, heard)?;
        // The fault comes at any moment after the probe before the first of the outage.
        let outage = Outage::new(first, fault.below(interval), interval, nanos(self.settings.outage));

        let mut run = |((calm, before), strict): ((&Watch, &Watch), &Watch)| {
            Ok(Run {
                seed,
                false_failovers: calm.failovers(),
                outage: outage.detected(before, |watch, slot| watch.probe(slot, true), heard)?,
                silent_as_health: outage.detected(before, Watch::missing, heard)?.is_some(),
                silent_as_failure: outage.detected(strict, Watch::missing, heard)?.is_some(),
            })
        };
        calm.iter().zip(&before).zip(&strict).map(&mut run).collect()
    }
}

/// The same weather for all of them.
fn live(
    watches: &mut [Watch],
    weather: &mut Weather,
    slots: Range<u64>,
    heard: &mut dyn FnMut(u64),
) -> Result<(), EngineError> {
    let mut failing = Vec::new();
    let mut start = slots.start;
    while start < slots.end {
        let part = start..slots.end.min(start.saturating_add(AT_ONCE));
        start = part.end;
        weather.failing(part.clone(), &mut failing);
        watches.iter_mut().try_for_each(|watch| watch.live(part.clone(), &failing))?;
        heard((part.end - part.start).saturating_mul(watches.len() as u64));
    }
    Ok(())
}

struct Outage {
    slots: Range<u64>,
    /// Nanoseconds from the fault to the first slot.
    phase: u64,
    interval: u64,
}

impl Outage {
    /// One whose fault comes `phase` before the slot `first`, and that lasts for `length`.
    fn new(first: u64, phase: u64, interval: u64, length: u64) -> Self {
        // Slots that are due before it ends, which is before the first one if it is shorter than the phase.
        let due = length.saturating_sub(phase).div_ceil(interval);
        Self { slots: first..first.saturating_add(due), phase, interval }
    }

    /// When `hear`, told of one due probe after the other, says that the engine wants to leave.
    fn detected(
        &self,
        before: &Watch,
        hear: impl Fn(&mut Watch, u64) -> Result<bool, EngineError>,
        heard: &mut dyn FnMut(u64),
    ) -> Result<Option<Detected>, EngineError> {
        let mut watch = before.clone();
        let mut left = self.slots.clone();
        while left.start < left.end {
            let end = left.end.min(left.start.saturating_add(AT_ONCE));
            for slot in left.start..end {
                if hear(&mut watch, slot)? {
                    // The rest is not lived through.
                    heard(left.end - left.start);
                    let from_probe = (slot - self.slots.start).saturating_mul(self.interval);
                    let from_fault = from_probe.saturating_add(self.phase);
                    let [from_probe, from_fault] = [from_probe, from_fault].map(Duration::from_nanos);
                    return Ok(Some(Detected { from_probe, from_fault }));
                }
            }
            heard(end - left.start);
            left.start = end;
        }
        Ok(None)
    }
}
