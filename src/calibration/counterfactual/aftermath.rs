//! What the history says of each switch, outage and halt once it has gone on.

use std::time::Duration;

use crate::engine::{EndpointState, Epoch, HaltCode, HaltOrder, OrderFlow, SwitchKind, Timestamp};

use super::Assumptions;
use super::outcome::{Afterwards, Halt, Outage, Stay, Switch, Totals, Why};
use super::world::World;

/// What an endpoint's results say.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    last: Option<u64>,
    /// First and last failed result of the present failure.
    failing: Option<(u64, u64)>,
    /// The newest success that ended a failure.
    recovered: Option<u64>,
    /// The switch that left it and whose aftermath is open.
    watched_by: Option<usize>,
    /// Its present failure, if it was active in it.
    episode: Option<Episode>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    left: Option<u64>,
    flow_back: Option<u64>,
    was_down: bool,
    no_target: bool,
}

/// What was found. Times are nanoseconds since the first result.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) switches: Vec<Switch>,
    pub(super) outages: Vec<Outage>,
    pub(super) halts: Vec<Halt>,
}

#[derive(Debug)]
pub(super) struct Aftermath {
    assumptions: Assumptions,
    gap: u64,
    heard: Vec<Heard>,
    found: Found,
    epoch: u64,
    /// Since when the active path is being left.
    leaving: Option<u64>,
    /// The sums when the present stay began.
    stay_began: Totals,
    is_halted: bool,
    /// Outages that are over, while order flow is not open again; whether there was nowhere to go.
    unsettled: Vec<(Outage, bool)>,
}

impl Aftermath {
    pub(super) fn new(assumptions: Assumptions, gap: u64, endpoints: usize) -> Self {
        Self {
            assumptions,
            gap,
            heard: vec![Heard::default(); endpoints],
            found: Found::default(),
            epoch: Epoch::FIRST.get(),
            leaving: None,
            stay_began: Totals::default(),
            is_halted: false,
            unsettled: Vec::new(),
        }
    }

    /// The monitor stopped: how what was failing went on, nobody saw.
    pub(super) fn stop(&mut self) {
        (0..self.heard.len()).for_each(|endpoint| self.lose_sight(endpoint));
    }

    /// A result, before the loop has it.
    pub(super) fn hear(&mut self, now: u64, endpoint: usize, ok: bool) {
        let Some(heard) = self.heard.get(endpoint) else { return };
        if heard.last.is_some_and(|last| now.saturating_sub(last) > self.gap) {
            self.lose_sight(endpoint);
        }
        if ok {
            self.recover(endpoint, now);
        }
        let Some(heard) = self.heard.get_mut(endpoint) else { return };
        heard.last = Some(now);
        if !ok {
            heard.failing = Some((heard.failing.map_or(now, |(first, _)| first), now));
        }
    }

    fn lose_sight(&mut self, endpoint: usize) {
        self.settle(endpoint, None);
    }

    fn recover(&mut self, endpoint: usize, now: u64) {
        if let Some(heard) = self.heard.get_mut(endpoint).filter(|heard| heard.failing.is_some()) {
            heard.recovered = Some(now);
            self.settle(endpoint, Some(now));
        }
    }

    /// The present failure of an endpoint is over, or nobody sees it any more.
    fn settle(&mut self, endpoint: usize, recovered: Option<u64>) {
        let Some(heard) = self.heard.get_mut(endpoint) else { return };
        let (failing, watched_by, episode) = (heard.failing.take(), heard.watched_by.take(), heard.episode.take());
        if let Some(switch) = watched_by.and_then(|place| self.found.switches.get_mut(place)) {
            let last_failure = failing.map_or(switch.decided, |(_, last)| last);
            switch.afterwards = afterwards(switch, self.assumptions.hold(), last_failure, recovered);
        }
        if let (Some((start, last_failure)), Some(episode)) = (failing, episode) {
            let Episode { left, flow_back, was_down, no_target } = episode;
            let why = match left {
                _ if no_target => Why::NoTarget,
                Some(_) => Why::Late,
                None if was_down => Why::Unheard,
                None => Why::NotDown,
            };
            let outage = Outage { endpoint, start, end: recovered, last_failure, left, flow_back, why };
            if outage.length() > self.assumptions.outage {
                self.unsettled.push((outage, no_target));
            }
        }
    }

    /// What the last event changed in the loop.
    pub(super) fn look(&mut self, now: u64, world: &World, totals: Totals) {
        let engine = world.engine();
        if engine.epoch().is_some_and(|epoch| epoch.get() > self.epoch) {
            self.switched(now, world, totals);
        }
        self.leaving = if engine.is_spent() { self.leaving.or(Some(now)) } else { None };
        self.look_at_flow(now, world);
        let Some(heard) = world.active().and_then(|active| self.heard.get_mut(active)) else { return };
        if heard.failing.is_some() {
            let episode = heard.episode.get_or_insert_default();
            let health = engine.active().and_then(|id| engine.health(id));
            episode.was_down |= health.is_some_and(|health| health.state() == EndpointState::Down);
            episode.no_target |= engine.order_flow() == OrderFlow::Halt { code: HaltCode::NoTargetAvailable };
            if engine.is_spent() {
                episode.left = episode.left.or(self.leaving);
            }
        }
    }

    fn switched(&mut self, now: u64, world: &World, totals: Totals) {
        let Some((event, reason)) = world.last_switch() else { return };
        self.epoch = event.epoch.get();
        self.end_stay(Some(now), totals);
        let (from, to) = (event.from.index(), event.to.index());
        let decided = self.leaving.take().unwrap_or(now);
        let place = self.found.switches.len();
        let mut switch = Switch {
            decided,
            switched: now,
            opened: None,
            from,
            to,
            kind: event.kind,
            reason,
            epoch: event.epoch.get(),
            failing_since: None,
            afterwards: Afterwards::Well,
            stay: Stay::default(),
        };
        if let Some(heard) = self.heard.get_mut(from).filter(|_| event.kind == SwitchKind::Failover) {
            switch.failing_since = heard.failing.map(|(first, _)| first);
            switch.afterwards = match (heard.failing, heard.recovered) {
                (Some(_), _) => {
                    heard.watched_by = Some(place);
                    Afterwards::Unknown
                }
                // It answered again while it was being fenced, or answers and is DOWN by its failures among the newest.
                (None, recovered) => Afterwards::False { recovered: recovered.unwrap_or(decided).max(decided) },
            };
            if let Some(episode) = &mut heard.episode {
                episode.left = episode.left.or(Some(decided));
            }
        }
        self.found.switches.push(switch);
    }

    fn end_stay(&mut self, until: Option<u64>, totals: Totals) {
        let began = std::mem::replace(&mut self.stay_began, totals);
        if let Some(switch) = self.found.switches.last_mut() {
            switch.stay = Stay {
                until,
                failing: totals.failing.saturating_sub(began.failing),
                halted: totals.halted.saturating_sub(began.halted),
            };
        }
    }

    fn look_at_flow(&mut self, now: u64, world: &World) {
        let engine = world.engine();
        if world.is_open() {
            if let Some(switch) = self.found.switches.last_mut() {
                switch.opened = switch.opened.or(Some(now));
            }
            for episode in self.heard.iter_mut().filter_map(|heard| heard.episode.as_mut()) {
                if episode.left.is_some() {
                    episode.flow_back = episode.flow_back.or(Some(now));
                }
            }
            let settled = std::mem::take(&mut self.unsettled);
            settled.into_iter().for_each(|(outage, no_target)| self.judge(outage, no_target, Some(now)));
        }
        let is_halted = engine.order_flow().is_halt();
        if is_halted && !self.is_halted {
            let code = engine.halt_order().map_or(HaltOrder::NO_TARGET_AVAILABLE, HaltOrder::code).to_owned();
            let endpoint = world.active().unwrap_or_default();
            self.found.halts.push(Halt { endpoint, code, start: now, end: None });
        } else if let Some(halt) = self.found.halts.last_mut().filter(|_| self.is_halted && !is_halted) {
            halt.end = Some(now);
        }
        self.is_halted = is_halted;
    }

    /// Keeps an outage that was not left, or late. `open` is when flow is open again, if it was not before.
    fn judge(&mut self, outage: Outage, no_target: bool, open: Option<u64>) {
        let flow_back = outage.flow_back.or(open);
        let late = |rto: Duration| {
            flow_back.is_none_or(|back| back.saturating_sub(outage.start) > Timestamp::from_elapsed(rto).as_nanos())
        };
        if outage.left.is_none() || no_target || self.assumptions.rto.is_some_and(late) {
            self.found.outages.push(Outage { flow_back, ..outage });
        }
    }

    /// The end of the history.
    pub(super) fn finish(mut self, totals: Totals) -> Found {
        (0..self.heard.len()).for_each(|endpoint| self.lose_sight(endpoint));
        let unsettled = std::mem::take(&mut self.unsettled);
        unsettled.into_iter().for_each(|(outage, no_target)| self.judge(outage, no_target, None));
        self.end_stay(None, totals);
        self.found
    }
}

/// What became of the path that `switch` left, whose last failed result and first success are known.
fn afterwards(switch: &Switch, hold: Duration, last_failure: u64, recovered: Option<u64>) -> Afterwards {
    let hold = Timestamp::from_elapsed(hold).as_nanos();
    match (switch.opened, recovered) {
        (None, Some(recovered)) if recovered <= switch.decided.saturating_add(hold) => Afterwards::False { recovered },
        (None, Some(recovered)) => Afterwards::InVain { recovered },
        (None, None) => Afterwards::Unknown,
        (Some(opened), recovered) => {
            // Waiting would have been no worse up to this moment.
            let worth = opened.saturating_add(opened.saturating_sub(switch.decided));
            match recovered {
                Some(recovered) if last_failure <= opened || recovered <= worth => Afterwards::False { recovered },
                None if last_failure <= worth => Afterwards::Unknown,
                _ => {
                    let until = recovered.unwrap_or(last_failure);
                    Afterwards::Saved { time: Duration::from_nanos(until.saturating_sub(opened)), recovered }
                }
            }
        }
    }
}
