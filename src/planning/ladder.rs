//! Which standby is the cheapest that meets the target.

use std::time::Duration;

use super::error::PlanError;
use super::money::Money;
use super::rate::Rate;
use super::routing::RoutingLayer;
use super::rung::Rung;
use super::text::nanos;

/// What the options are measured against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderSettings {
    /// Recovery takes at most this.
    pub rto: Duration,
    /// At most this is lost, as a span of writes. `None`: not a matter of the decision.
    pub rpo: Option<Duration>,
    /// What moves traffic: nothing recovers faster. `None`: not a matter of the decision.
    pub routing: Option<RoutingLayer>,
    /// What an hour of downtime costs.
    pub downtime_per_hour: Money,
    /// Outages that need a recovery.
    pub events: Rate,
    /// The currency of every sum, in the words to print.
    pub currency: String,
    /// The options.
    pub candidates: Vec<Candidate>,
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is called.
    pub name: String,
    /// Which rung of the ladder it is.
    pub rung: Option<Rung>,
    /// How long a recovery takes, measured.
    pub rto: Duration,
    /// How much it may lose, as a span of writes.
    pub rpo: Duration,
    /// What it costs to run.
    pub cost_per_month: Money,
    /// What it costs that is not in the sum; empty: nothing.
    pub unpriced: String,
}

/// What became of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It meets the target, and no other that does costs less.
    Chosen,
    /// It recovers too late.
    MissesRto {
        /// By so much.
        by: Duration,
    },
    /// It loses too much.
    MissesRpo {
        /// By so much.
        by: Duration,
    },
    /// It meets the target and costs more a year, expected downtime included. By nothing at all: it is no better.
    Dearer {
        /// By so much.
        by: Money,
    },
}

/// An option with its arithmetic, a year of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced {
    /// The option.
    pub candidate: Candidate,
    /// How long a recovery takes: its own time, or the routing layer's floor if that is longer.
    pub rto: Duration,
    /// What it costs to run: twelve months.
    pub running: Money,
    /// Expected downtime: events in a year times the recovery time.
    pub downtime: Duration,
    /// What that costs.
    pub loss: Money,
    /// Both together.
    pub total: Money,
    /// What became of it.
    pub verdict: Verdict,
}

/// What an option buys over the chosen one, a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    /// Downtime that it avoids.
    pub(super) avoided: Duration,
    /// What that is worth.
    pub(super) worth: Money,
    /// What it costs more to run.
    pub(super) extra: Money,
}

/// The options, priced, and the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    settings: LadderSettings,
    options: Vec<Priced>,
}

impl Ladder {
    /// Prices every option and takes the cheapest that meets the target: the least sum of running cost and expected
    /// downtime. Of equal ones the one that recovers faster, then the one that was named first.
    ///
    /// # Errors
    /// There is no option.
    pub fn new(settings: LadderSettings) -> Result<Self, PlanError> {
        if settings.candidates.is_empty() {
            return Err(PlanError::new("rung", "none", "at least one option"));
        }
        let mut options: Vec<_> = settings.candidates.iter().map(|candidate| price(&settings, candidate)).collect();
        let meets = |one: &&Priced| matches!(one.verdict, Verdict::Dearer { .. });
        let least = options.iter().filter(meets).min_by_key(|one| (one.total, one.rto)).cloned();
        if let Some(least) = least {
            let mut chosen = false;
            for one in &mut options {
                if let Verdict::Dearer { .. } = one.verdict {
                    let first = !chosen && (one.total, one.rto) == (least.total, least.rto);
                    chosen |= first;
                    let by = one.total.above(least.total);
                    one.verdict = if first { Verdict::Chosen } else { Verdict::Dearer { by } };
                }
            }
        }
        Ok(Self { settings, options })
    }

    /// What the options were measured against.
    #[must_use]
    pub const fn settings(&self) -> &LadderSettings {
        &self.settings
    }

    /// Every option, in the order in which they were named.
    #[must_use]
    pub fn options(&self) -> &[Priced] {
        &self.options
    }

    /// The decision. `None`: no option meets the target.
    #[must_use]
    pub fn chosen(&self) -> Option<&Priced> {
        self.options.iter().find(|one| one.verdict == Verdict::Chosen)
    }

    /// What an option buys over the chosen one.
    pub(super) fn over(&self, option: &Priced) -> Option<Over> {
        let chosen = self.chosen()?;
        let avoided = chosen.downtime.saturating_sub(option.downtime);
        let worth = self.settings.downtime_per_hour.an_hour_for(avoided);
        Some(Over { avoided, worth, extra: option.running.above(chosen.running) })
    }
}

/// The arithmetic of one option. One that meets the target counts as dearer until the cheapest is known.
fn price(settings: &LadderSettings, candidate: &Candidate) -> Priced {
    let floor = settings.routing.map_or(Duration::ZERO, RoutingLayer::floor);
    let rto = candidate.rto.max(floor);
    let running = candidate.cost_per_month.times(12);
    let downtime = settings.events.a_year_of(rto);
    let loss = settings.downtime_per_hour.an_hour_for(downtime);
    let late = rto.saturating_sub(settings.rto);
    let lost = settings.rpo.map_or(Duration::ZERO, |rpo| candidate.rpo.saturating_sub(rpo));
    let verdict = if !late.is_zero() {
        Verdict::MissesRto { by: late }
    } else if !lost.is_zero() {
        Verdict::MissesRpo { by: lost }
    } else {
        Verdict::Dearer { by: Money::ZERO }
    };
    Priced { candidate: candidate.clone(), rto, running, downtime, loss, total: running.plus(loss), verdict }
}

/// How much downtime must be avoided for a cost to pay for itself, in the time that the cost is for. `None`: none is
/// enough, because downtime costs nothing.
#[must_use]
pub fn break_even(cost: Money, downtime_per_hour: Money) -> Option<Duration> {
    const HOUR: u128 = 3_600_000_000_000;
    let span = u128::from(cost.as_hundredths()).checked_mul(HOUR)?;
    Some(nanos(Some(span.checked_div(u128::from(downtime_per_hour.as_hundredths()))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn candidate(name: &str, rto: u64, cost: u64) -> Candidate {
        let (name, cost_per_month) = (name.to_owned(), Money::units(cost));
        Candidate { name, rung: None, rto: S(rto), rpo: S(1), cost_per_month, unpriced: String::new() }
    }

    fn settings(candidates: Vec<Candidate>) -> LadderSettings {
        LadderSettings {
            rto: S(600),
            rpo: None,
            routing: None,
            downtime_per_hour: Money::units(3_600),
            events: Rate::in_years(12, 1),
            currency: "USD".to_owned(),
            candidates,
        }
    }

    fn verdicts(settings: LadderSettings) -> Vec<Verdict> {
        Ladder::new(settings).unwrap().options().iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn downtime_belongs_to_the_price() {
        // 12 events of 500 s at 1 a second: 6,000 a year; of 100 s: 1,200.
        let slow_is_cheap = vec![candidate("slow", 500, 100), candidate("fast", 100, 501)];
        assert_eq!(verdicts(settings(slow_is_cheap)), [Verdict::Chosen, Verdict::Dearer { by: Money::units(12) }]);
        let fast_is_cheap = vec![candidate("slow", 500, 100), candidate("fast", 100, 499)];
        assert_eq!(verdicts(settings(fast_is_cheap)), [Verdict::Dearer { by: Money::units(12) }, Verdict::Chosen]);
    }

    #[test]
    fn both_sides_of_the_target() {
        let options = vec![candidate("exact", 600, 0), candidate("late", 601, 0)];
        assert_eq!(verdicts(settings(options)), [Verdict::Chosen, Verdict::MissesRto { by: S(1) }]);
        let lossy = Candidate { rpo: S(31), ..candidate("lossy", 1, 0) };
        let with_rpo = LadderSettings { rpo: Some(S(30)), ..settings(vec![lossy]) };
        assert_eq!(verdicts(with_rpo), [Verdict::MissesRpo { by: S(1) }]);
    }

    #[test]
    fn of_equal_ones_the_faster_then_the_first() {
        let free = LadderSettings { downtime_per_hour: Money::ZERO, ..settings(Vec::new()) };
        let choose = |candidates| {
            let ladder = Ladder::new(LadderSettings { candidates, ..free.clone() }).unwrap();
            ladder.chosen().map(|one| one.candidate.name.clone())
        };
        let both = vec![candidate("slow", 2, 1), candidate("a", 1, 1), candidate("b", 1, 1)];
        assert_eq!(choose(both).as_deref(), Some("a"));
        assert_eq!(choose(vec![candidate("late", 9_999, 1)]), None);
        assert!(Ladder::new(free).is_err());
    }

    #[test]
    fn the_routing_layer_is_a_floor_of_every_option() {
        let options = vec![candidate("instant", 0, 0)];
        let dns = Some(RoutingLayer::Dns { ttl: S(300) });
        let behind_dns = LadderSettings { routing: dns, ..settings(options) };
        assert_eq!(verdicts(behind_dns), [Verdict::MissesRto { by: S(300) }]);
    }

    #[test]
    fn a_cost_that_never_pays_says_so() {
        assert_eq!(break_even(Money::units(1), Money::ZERO), None);
        assert_eq!(break_even(Money::ZERO, Money::units(1)), Some(Duration::ZERO));
        assert!(break_even(Money::units(u64::MAX), Money::units(1)).is_some());
    }
}
