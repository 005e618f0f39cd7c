//! Where the time went: each span between two events belongs to what held when it began.

use std::time::Duration;

use crate::engine::OrderFlow;

use super::outcome::Totals;
use super::world::World;

/// The newest result of an endpoint.
#[derive(Clone, Copy, Debug)]
struct Newest {
    at: u64,
    ok: bool,
}

/// What is known of an endpoint at a moment.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Answers,
    Fails,
    Nothing,
}

/// Times are nanoseconds since the first result.
#[derive(Debug)]
pub(super) struct Account {
    newest: Vec<Option<Newest>>,
    primary: usize,
    gap: u64,
    at: u64,
    totals: Totals,
}

impl Account {
    pub(super) fn new(endpoints: usize, primary: usize, gap: u64) -> Self {
        Self { newest: vec![None; endpoints], primary, gap, at: 0, totals: Totals::default() }
    }

    pub(super) fn hear(&mut self, now: u64, endpoint: usize, ok: bool) {
        if let Some(newest) = self.newest.get_mut(endpoint) {
            *newest = Some(Newest { at: now, ok });
        }
    }

    /// Whether there was a result of this endpoint.
    pub(super) fn heard(&self, endpoint: usize) -> bool {
        self.newest.get(endpoint).is_some_and(Option::is_some)
    }

    pub(super) fn primary(&self) -> usize {
        self.primary
    }

    pub(super) fn stop(&mut self) {
        self.totals.stops += 1;
    }

    /// Time passes until `now`, with the world as it was since the last event.
    pub(super) fn pass(&mut self, now: u64, world: &World, stopped: bool) {
        let span = Duration::from_nanos(now.saturating_sub(self.at));
        let totals = &mut self.totals;
        let add = |sum: &mut Duration| *sum = sum.saturating_add(span);
        add(&mut totals.observed);
        if stopped {
            add(&mut totals.stopped);
        } else {
            let known = |endpoint: usize| match self.newest.get(endpoint).copied().flatten() {
                Some(newest) if self.at.saturating_sub(newest.at) > self.gap => Known::Nothing,
                Some(newest) if newest.ok => Known::Answers,
                Some(_) => Known::Fails,
                None => Known::Nothing,
            };
            if known(self.primary) == Known::Fails {
                add(&mut totals.primary_failing);
            }
            let active = world.active().map_or(Known::Nothing, known);
            add(match (world.is_open(), world.engine().order_flow(), active) {
                (true, _, Known::Answers) => &mut totals.well,
                (true, _, Known::Fails) => &mut totals.failing,
                (true, _, Known::Nothing) => &mut totals.stale,
                (false, OrderFlow::Halt { .. }, _) => &mut totals.halted,
                (false, ..) => &mut totals.held,
            });
        }
        self.at = self.at.max(now);
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }
}
