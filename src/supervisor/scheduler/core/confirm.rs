//! Extra slots: what a held session's end is worth.
//!
//! That a session ended is neither a failure nor evidence of health: it is a reason to ask at once. A burst of ordinary
//! slots, `spacing` apart, asks until as many have failed as make the path DOWN, or one succeeds. A path that was killed
//! is left within milliseconds; one dropped session of a path that works costs one slot.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::super::super::probes::{NoEvidence, Verdict};
use super::super::nanos;
use super::{Actions, Context, Core, Entry, LONGEST, MILLI, MOST_BACKLOG, Now};
use crate::engine::EndpointId;

/// The most extra slots of one burst. A trigger that needs more failures has the rest from the ordinary slots.
pub const MOST_CONFIRMS: u32 = 16;
/// So many whole bursts fit into any [`CONFIRM_SPAN`], or more that end early: further ends of sessions wait for the
/// ordinary slots.
pub const MOST_BURSTS: u32 = 6;
/// The span in which extra slots are counted.
pub const CONFIRM_SPAN: Duration = Duration::from_secs(60);
/// No two extra slots of an endpoint are closer: a tenth of a millisecond.
pub const SHORTEST_SPACING: Duration = Duration::from_micros(100);

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirming {
    /// Between two extra slots, at a fixed rate; at least half of it where one is late. Shorter than [`SHORTEST_SPACING`] is
    /// taken as that.
    pub spacing: Duration,
    /// As many failures decide; taken as 1 at least and [`MOST_CONFIRMS`] at most.
    pub failures: u32,
}

impl Confirming {
    /// The most extra slots of an endpoint in any such span.
    #[must_use]
    pub fn most_within(self, span: Duration) -> u128 {
        let spans = span.as_nanos().div_ceil(CONFIRM_SPAN.as_nanos());
        spans.saturating_mul(u128::from(MOST_BURSTS * self.failures.clamp(1, MOST_CONFIRMS)))
    }
}

/// What became of a wish to ask at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// A burst has begun.
    Begun,
    /// One is under way.
    Joined,
    /// There were too many lately; the ordinary slots go on.
    Spent,
    /// The endpoint cannot be asked now: it wants patience, a probe of it blocks, or nobody takes its results.
    Barred,
    /// The endpoint is not asked at all.
    Unwatched,
}

/// The extra slots of one endpoint.
#[derive(Default)]
pub(super) struct Confirm {
    burst: Option<Burst>,
    /// When extra slots were started in the last span, oldest first.
    spent: VecDeque<u64>,
}

struct Burst {
    spacing: u64,
    needed: u32,
    /// Only slots that began after the session's end can tell of it.
    first: u64,
    due: u64,
    started: u32,
    /// Extra slots without a result yet.
    open: u32,
    failures: u32,
}

impl Confirm {
    /// Begins a burst at `now`, if the budget has a whole one left; `next` is the number of the next slot.
    pub(super) fn begin(&mut self, how: Confirming, next: u64, now: u64) -> Confirmed {
        if self.burst.is_some() {
            return Confirmed::Joined;
        }
        let needed = how.failures.clamp(1, MOST_CONFIRMS);
        let span = nanos(CONFIRM_SPAN);
        while self.spent.front().is_some_and(|at| now.saturating_sub(*at) >= span) {
            self.spent.pop_front();
        }
        if self.spent.len() + needed as usize > (MOST_BURSTS * needed) as usize {
            return Confirmed::Spent;
        }
        let spacing = nanos(how.spacing).clamp(nanos(SHORTEST_SPACING), LONGEST);
        self.burst = Some(Burst { spacing, needed, first: next, due: now, started: 0, open: 0, failures: 0 });
        Confirmed::Begun
    }

    /// When the next extra slot is due.
    pub(super) fn due(&self) -> Option<u64> {
        self.burst.as_ref().filter(|burst| burst.started < burst.needed).map(|burst| burst.due)
    }

    /// An extra slot is started.
    pub(super) fn started(&mut self, now: u64) {
        if let Some(burst) = &mut self.burst {
            burst.started += 1;
            burst.open += 1;
            // At a fixed rate, like all slots: what we are late is not added up, unless they would come too close.
            let least = (burst.spacing / 2).max(nanos(SHORTEST_SPACING));
            burst.due = burst.due.saturating_add(burst.spacing).max(now.saturating_add(least));
            self.spent.push_back(now);
        }
    }

    /// A slot, `extra` or ordinary, came to its result.
    pub(super) fn resolved(&mut self, slot: u64, extra: bool, verdict: &Verdict) {
        let Some(burst) = &mut self.burst else { return };
        if slot < burst.first {
            return;
        }
        burst.open = burst.open.saturating_sub(u32::from(extra));
        let ends = match verdict {
            Verdict::Success(_) | Verdict::NoEvidence { cause: NoEvidence::Throttled, .. } => true,
            Verdict::PathFault { .. } => {
                burst.failures += 1;
                burst.failures >= burst.needed
            }
            Verdict::NoEvidence { .. } => false,
        };
        if ends || burst.started >= burst.needed && burst.open == 0 {
            self.burst = None;
        }
    }

    /// No extra slot can be started: what is asked already yields its results as ever.
    pub(super) fn end(&mut self) {
        self.burst = None;
    }

    /// What a new run of the same prober takes over: its budget is not new.
    pub(super) fn carried_over(&self) -> Self {
        Self { burst: None, spent: self.spent.clone() }
    }
}

impl Core {
    /// Asks an endpoint at once, outside its pace.
    pub(in super::super) fn confirm(
        &mut self,
        outlet: usize,
        endpoint: EndpointId,
        how: Confirming,
        now: Now,
    ) -> Confirmed {
        let mut confirmed = Confirmed::Unwatched;
        if let Some(index) = self.find(outlet, endpoint) {
            self.on(index, |entry, ctx| {
                confirmed = if entry.is_barred(now.at, ctx) {
                    Confirmed::Barred
                } else {
                    entry.confirm.begin(how, entry.next_slot, now.at)
                };
            });
        }
        confirmed
    }
}

impl Entry {
    /// When the next extra slot can be started: a kind that must not overlap waits for its answer.
    pub(super) fn confirm_due(&self) -> Option<u64> {
        self.confirm.due().filter(|_| self.overlaps || !self.is_running())
    }

    /// Keeps its place in `urgent`.
    pub(super) fn mark_urgent(&mut self, index: usize, urgent: &mut BTreeSet<(u64, usize)>) {
        let due = self.confirm_due();
        if due != self.urgent {
            self.urgent.map(|at| urgent.remove(&(at, index)));
            due.map(|at| urgent.insert((at, index)));
            self.urgent = due;
        }
    }

    /// Whether an extra slot would show nothing of the path.
    fn is_barred(&self, now: u64, ctx: &Context<'_>) -> bool {
        self.blocks.is_some() || ctx.outlet.backlog.len() >= MOST_BACKLOG || self.patience(now, ctx).is_some()
    }

    pub(super) fn start_extra(&mut self, now: u64, ctx: &mut Context<'_>, actions: &mut Actions) {
        if self.confirm_due().is_none_or(|due| due > now) {
            return;
        }
        if self.is_barred(now, ctx) {
            return self.confirm.end();
        }
        self.told_missed(now, ctx);
        self.run(now, now, true, ctx, actions);
        self.next_slot += 1;
        self.confirm.started(now);
        ctx.stats.confirms += 1;
        if !self.overlaps {
            // The ordinary slot that would come due meanwhile is this one: it must not find itself running.
            self.last_due = now;
            self.next_due = now.saturating_add(self.interval);
        }
    }
}

const _: () = assert!(SHORTEST_SPACING.as_nanos() < MILLI as u128, "an ordinary pace may be as short as a millisecond");
