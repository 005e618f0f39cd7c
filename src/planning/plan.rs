//! All of it in one table: every trigger on every tier, against one target.

use std::time::Duration;

use super::blips::Blips;
use super::budget::{ErrorBudget, Month};
use super::bytes::{Bytes, Throughput};
use super::detection::Probing;
use super::error::PlanError;
use super::ladder::{Ladder, LadderSettings};
use super::rate::Rate;
use super::routing::{BelowFloor, RoutingLayer};
use super::share::Share;
use super::stages::{Preparation, Stages};
use super::tier::Tier;
use super::trigger::Trigger;

const S: fn(u64) -> Duration = Duration::from_secs;

/// What a plan is made of. The defaults are the worked example of `references/planning.md`, not a recommendation.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSettings {
    /// Recovery takes at most this. Default 15 min.
    pub rto: Duration,
    /// Judge by the worst case (worst phase, a path that hangs) instead of counting from the first failed probe. Default
    /// false.
    pub worst_case: bool,
    /// Checks and approval. Default 0.
    pub gate: Duration,
    /// From the fault on, the moment before which the gate does not close. Default 0.
    pub gate_not_before: Duration,
    /// The standby becomes the one that may write. Default 60 s.
    pub promotion: Duration,
    /// Machines that have to start (cold only). Default 10 min.
    pub capacity: Duration,
    /// State that has to be loaded (warm and cold). Default 140 GB.
    pub state: Bytes,
    /// How fast it is loaded. Default 1 GB/s.
    pub state_rate: Throughput,
    /// When capacity and state load begin. Default after the promotion.
    pub preparation: Preparation,
    /// Traffic moves. Default: what the routing layer usually takes, or 120 s without one.
    pub shift: Option<Duration>,
    /// Clients that keep the old address. Default 0.
    pub ttl: Duration,
    /// Clients that wait before they try again. Default 0.
    pub backoff: Duration,
    /// From one probe to the next. Default 10 s, above zero.
    pub interval: Duration,
    /// The same after a failure. Default: as before it.
    pub interval_when_failing: Option<Duration>,
    /// When a probe is given up. Default 0: every fault answers at once.
    pub timeout: Duration,
    /// The rows of the table, at least one. Default 1, 3, 6, 12 failures and windows of 60 s, 300 s and 900 s.
    pub triggers: Vec<Trigger>,
    /// How often blips come. Default 4 an hour.
    pub blips: Rate,
    /// Their mean length. Default 20 s, above zero.
    pub blip_mean: Duration,
    /// The error budget that a recovery uses. Default: not asked.
    pub budget: Option<Budgeting>,
    /// What moves traffic. Default: not asked.
    pub routing: Option<RoutingLayer>,
    /// The options to price. Its `rto` and `routing` are the plan's. Default: none.
    pub ladder: Option<LadderSettings>,
}

/// The availability that was promised, and how much of the flow an outage hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgeting {
    /// Below 100 %.
    pub availability: Share,
    /// The month that it is counted over.
    pub month: Month,
    /// The share that an outage hits.
    pub hit: Share,
}

impl Default for PlanSettings {
    fn default() -> Self {
        let gigabyte = Bytes(1_000_000_000);
        Self {
            rto: S(900),
            worst_case: false,
            gate: S(0),
            gate_not_before: S(0),
            promotion: S(60),
            capacity: S(600),
            state: Bytes(140 * gigabyte.0),
            state_rate: Throughput::per_second(gigabyte).unwrap_or(Throughput::SLOWEST),
            preparation: Preparation::AfterPromotion,
            shift: None,
            ttl: S(0),
            backoff: S(0),
            interval: S(10),
            interval_when_failing: None,
            timeout: S(0),
            triggers: vec![
                Trigger::Consecutive(1),
                Trigger::Consecutive(3),
                Trigger::Consecutive(6),
                Trigger::Window(S(60)),
                Trigger::Consecutive(12),
                Trigger::Window(S(300)),
                Trigger::Window(S(900)),
            ],
            blips: Blips::default().rate(),
            blip_mean: Blips::default().mean(),
            budget: None,
            routing: None,
            ladder: None,
        }
    }
}

/// A trigger on every tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The trigger.
    pub trigger: Trigger,
    /// How many failed probes in a row it takes.
    pub failures: u64,
    /// From the first failed probe on.
    pub detection: Duration,
    /// From the fault on, at the worst phase, where the path hangs.
    pub detection_worst: Duration,
    /// By the closed form of [`Blips`].
    pub false_failovers_per_day: f64,
    /// In the order of [`Tier::ALL`].
    pub cells: [Cell; 3],
}

/// A trigger on one tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The tier.
    pub tier: Tier,
    /// How long a recovery takes.
    pub recovery: Duration,
    /// Whether that is at most the RTO.
    pub fits: bool,
    /// What one recovery uses of the error budget; 1.0 is a month's. `None`: not asked.
    pub budget_used: Option<f64>,
}

/// A table by trigger and tier, and the decision, if there is anything to decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    settings: PlanSettings,
    stages: Stages,
    probing: Probing,
    blips: Blips,
    budget: Option<(ErrorBudget, Share)>,
    rows: Vec<Row>,
    floor: Option<BelowFloor>,
    ladder: Option<Ladder>,
}

impl Plan {
    /// Computes the table.
    ///
    /// # Errors
    /// The first value that no plan can be made of. Nothing was computed then.
    pub fn new(settings: PlanSettings) -> Result<Self, PlanError> {
        let failing = settings.interval_when_failing.unwrap_or(settings.interval);
        let probing = Probing::new(settings.interval, failing, settings.timeout)?;
        let blips = Blips::new(settings.blips, settings.blip_mean)?;
        if settings.triggers.is_empty() {
            return Err(PlanError::new("triggers", "none", "at least one"));
        }
        let budget = match settings.budget {
            Some(asked) => Some((ErrorBudget::new(asked.availability, asked.month)?, asked.hit)),
            None => None,
        };
        let stages = Stages {
            gate: settings.gate,
            gate_not_before: settings.gate_not_before,
            promotion: settings.promotion,
            capacity: settings.capacity,
            state_load: settings.state.transfer(settings.state_rate),
            preparation: settings.preparation,
            shift: shift(&settings)?,
            ttl: settings.ttl,
            backoff: settings.backoff,
        };
        let floor = settings.routing.and_then(|layer| layer.admits(settings.rto).err());
        let (rto, routing) = (settings.rto, settings.routing);
        let ladder = settings.ladder.clone().map(|ladder| Ladder::new(LadderSettings { rto, routing, ..ladder }));
        let ladder = ladder.transpose()?;
        let mut plan = Self { settings, stages, probing, blips, budget, rows: Vec::new(), floor, ladder };
        plan.rows = plan.settings.triggers.iter().map(|trigger| plan.row(*trigger)).collect();
        Ok(plan)
    }

    fn row(&self, trigger: Trigger) -> Row {
        let detection = trigger.patience(&self.probing);
        let detection_worst = self.probing.detection(trigger).hung.1;
        let judged = if self.settings.worst_case { detection_worst } else { detection };
        let cell = |tier| {
            let recovery = self.stages(tier).recovery(judged);
            let fits = recovery <= self.settings.rto && self.floor.is_none();
            Cell { tier, recovery, fits, budget_used: self.budget.map(|(budget, hit)| budget.used(recovery, hit)) }
        };
        Row {
            trigger,
            failures: trigger.failures(&self.probing),
            detection,
            detection_worst,
            false_failovers_per_day: self.blips.false_failovers_per_day(trigger, &self.probing),
            cells: Tier::ALL.map(cell),
        }
    }

    /// What it was made of.
    #[must_use]
    pub const fn settings(&self) -> &PlanSettings {
        &self.settings
    }

    /// A row for each trigger, in order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What a standby of this tier has to do.
    #[must_use]
    pub const fn stages(&self, tier: Tier) -> Stages {
        self.stages.for_tier(tier)
    }

    /// The longest detection that the RTO leaves room for. `None`: no trigger can meet it.
    #[must_use]
    pub fn detection_left(&self, tier: Tier) -> Option<Duration> {
        self.stages(tier).detection_left(self.settings.rto).filter(|_| self.floor.is_none())
    }

    /// The blips that the false failovers are computed from.
    #[must_use]
    pub const fn blips(&self) -> Blips {
        self.blips
    }

    /// The error budget, if it was asked, and the share that an outage hits.
    #[must_use]
    pub const fn budget(&self) -> Option<(ErrorBudget, Share)> {
        self.budget
    }

    /// Why the RTO is refused, whatever the trigger and the tier.
    #[must_use]
    pub const fn below_floor(&self) -> Option<BelowFloor> {
        self.floor
    }

    /// The options, priced, if there are any.
    #[must_use]
    pub const fn ladder(&self) -> Option<&Ladder> {
        self.ladder.as_ref()
    }

    /// Whether the target can be met: by some trigger on some tier, and by some option if there are any.
    #[must_use]
    pub fn fits(&self) -> bool {
        let by_trigger = self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.fits);
        by_trigger && self.ladder.as_ref().is_none_or(|ladder| ladder.chosen().is_some())
    }
}

/// How long traffic takes to move. What is stated must be possible.
fn shift(settings: &PlanSettings) -> Result<Duration, PlanError> {
    match (settings.shift, settings.routing) {
        (Some(shift), Some(layer)) if shift < layer.floor() => {
            let expected = format!("at least {:?}: {layer} moves no traffic sooner", layer.floor());
            Err(PlanError::new("shift", format!("{shift:?}"), expected))
        }
        (Some(shift), _) => Ok(shift),
        (None, Some(layer)) => Ok(layer.failover().1),
        (None, None) => Ok(S(120)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut PlanSettings)) -> Result<Plan, PlanError> {
        let mut settings = PlanSettings::default();
        change(&mut settings);
        Plan::new(settings)
    }

    #[test]
    fn the_routing_layer_sets_the_shift_unless_it_is_stated() {
        let dns = Some(RoutingLayer::Dns { ttl: S(60) });
        let shift = |stated| with(|settings| (settings.routing, settings.shift) = (dns, stated));
        assert_eq!(shift(None).map(|plan| plan.stages.shift), Ok(S(900)));
        assert_eq!(shift(Some(S(300))).map(|plan| plan.stages.shift), Ok(S(300)));
        let refused = shift(Some(S(299))).unwrap_err();
        assert_eq!(refused.key, "shift");
        assert!(
            refused.to_string().contains("at least 300s: DNS with a TTL of 1m moves no traffic sooner"),
            "{refused}"
        );
    }

    #[test]
    fn below_the_floor_nothing_fits() {
        let plan = with(|settings| {
            settings.routing = Some(RoutingLayer::Dns { ttl: S(300) });
            settings.shift = Some(S(900));
            settings.rto = S(899);
        })
        .unwrap();
        assert!(!plan.fits() && plan.detection_left(Tier::Hot).is_none());
        let reason = plan.below_floor().unwrap().to_string();
        assert!(reason.contains("14m 59s") && reason.contains("15m to 1h, with a tail of hours"), "{reason}");
    }

    #[test]
    fn values_that_no_plan_can_be_made_of_are_refused_by_name() {
        let refused = |change: fn(&mut PlanSettings)| with(change).unwrap_err().key;
        assert_eq!(refused(|settings| settings.interval = S(0)), "interval");
        assert_eq!(refused(|settings| settings.interval_when_failing = Some(S(11))), "interval_when_failing");
        assert_eq!(refused(|settings| settings.blip_mean = S(0)), "blip_mean");
        assert_eq!(refused(|settings| settings.triggers.clear()), "triggers");
        let always = Budgeting { availability: Share::ALL, month: Month::Average, hit: Share::ALL };
        assert_eq!(with(|settings| settings.budget = Some(always)).unwrap_err().key, "availability");
    }

    #[test]
    fn the_worst_case_adds_the_phase_and_the_timeout() {
        let plan = with(|settings| (settings.worst_case, settings.timeout) = (true, S(5))).unwrap();
        let nominal = with(|_| {}).unwrap();
        for (worst, nominal) in plan.rows().iter().zip(nominal.rows()) {
            assert_eq!(worst.cells[0].recovery, nominal.cells[0].recovery + S(15), "{}", worst.trigger);
        }
    }
}
