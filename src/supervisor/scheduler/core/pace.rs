//! An endpoint's pace: how soon after its newest slot the next is due, and how long the far side is left alone.

use std::time::Duration;

use super::super::super::probes::{NoEvidence, Verdict};
use super::super::nanos;
use super::{Context, Core, Entry, Item, LONGEST, MILLI, Now, Running, mix, scaled, share};
use crate::engine::EndpointId;

/// The first wait where patience is asked for without saying how much; it doubles each time.
const FIRST_PATIENCE: u64 = 1_000 * MILLI;
/// The longest of those waits: five minutes.
const LONGEST_PATIENCE: u64 = 300_000 * MILLI;

impl Core {
    /// For how long an endpoint is to be left alone, if it is.
    pub(in super::super) fn patience(&mut self, outlet: usize, endpoint: EndpointId, now: Now) -> Option<Duration> {
        let mut until = None;
        if let Some(index) = self.find(outlet, endpoint) {
            self.on(index, |entry, ctx| until = entry.patience(now.at, ctx));
        }
        until.map(|until| Duration::from_nanos(until.saturating_sub(now.at)))
    }
}

impl Entry {
    /// The newest slot, if it has no result yet.
    pub(super) fn newest_running(&self) -> Option<&Running> {
        match self.window.back() {
            Some(Item::Running(newest)) if newest.slot + 1 == self.next_slot => Some(newest),
            _ => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.window.iter().any(|item| matches!(item, Item::Running(_)))
    }

    /// The pace in force at `now`: the distance from the newest slot to the next.
    pub(super) fn step(&self, now: u64) -> u64 {
        let fast = if self.overlaps {
            self.failing || self.newest_running().is_some_and(|newest| now >= newest.started.saturating_add(self.fast))
        } else {
            // While it is running, a sooner slot would show nothing but that.
            self.failing && !self.is_running()
        };
        if fast { self.fast } else { self.interval }
    }

    /// A result may have changed the pace. Brought forward, the next slot is due now at the earliest: it is not late.
    pub(super) fn set_due(&mut self, now: u64) {
        let due = self.last_due.saturating_add(self.step(now));
        self.next_due = if due < self.next_due { due.max(now.min(self.next_due)) } else { due };
    }

    /// When there is something to do next.
    pub(super) fn next_moment(&self) -> u64 {
        let mut next = self.next_due.min(self.confirm_due().unwrap_or(u64::MAX));
        for item in &self.window {
            if let Item::Running(running) = item {
                next = next.min(running.give_up.unwrap_or(running.deadline));
            }
        }
        match self.newest_running() {
            Some(newest) if self.overlaps => next.min(newest.started.saturating_add(self.fast)),
            _ => next,
        }
    }

    pub(super) fn pace(&mut self, slot: u64, newest: bool, verdict: &Verdict) {
        match verdict {
            Verdict::Success(_) => {
                self.asked = 0;
                self.paced_by = self.paced_by.max(slot);
                if newest {
                    self.failing = false;
                }
            }
            Verdict::PathFault { .. } if slot >= self.paced_by => {
                self.paced_by = slot;
                self.failing = true;
            }
            Verdict::PathFault { .. } | Verdict::NoEvidence { .. } => {}
        }
    }

    /// Until when nothing is asked, if anything is not to be asked at `due`.
    pub(super) fn patience(&self, due: u64, ctx: &Context<'_>) -> Option<u64> {
        let keys = self.shared_fate.iter().filter_map(|key| ctx.patience.get(key).copied());
        let until = keys.fold(self.patient_until, u64::max);
        (until > due).then_some(until)
    }

    pub(super) fn be_patient(&mut self, verdict: &Verdict, now: u64, ctx: &mut Context<'_>) {
        let Verdict::NoEvidence { cause: NoEvidence::Throttled | NoEvidence::Banned, retry_after, .. } = verdict else {
            return;
        };
        let wait = match retry_after.map(nanos).filter(|wait| *wait > 0) {
            Some(wait) => wait.min(LONGEST),
            None => {
                let wait = FIRST_PATIENCE.saturating_mul(1_u64.checked_shl(self.asked).unwrap_or(u64::MAX));
                self.asked = self.asked.saturating_add(1);
                wait.min(LONGEST_PATIENCE)
            }
        };
        *ctx.random = mix(*ctx.random);
        let until = now.saturating_add(wait).saturating_add(scaled(self.interval, share(*ctx.random)));
        self.patient_until = self.patient_until.max(until);
        ctx.patience.retain(|_, until| *until > now);
        for key in &self.shared_fate {
            let known = ctx.patience.entry(key.clone()).or_default();
            *known = until.max(*known);
        }
    }
}
