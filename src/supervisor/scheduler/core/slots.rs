//! An endpoint's slots: what is due is started, and each comes to one result, told in their order.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::probes::{Fault, NoEvidence, Verdict};
use super::super::{Event, SlotResult, Stall, StallCause};
use super::{Actions, Context, Entry, Expire, Item, LATE_INTERVALS, MILLI, MOST_BACKLOG, Running, Start, Ticket};
use crate::engine::Timestamp;

impl Entry {
    /// Probes that run and are not about to end. What is being given up ends before another starts. What is within half
    /// an interval of its deadline would have ended already, had we not started it late: that must cost no other its slot.
    fn waited_for(&self, now: u64) -> u64 {
        let ending = now.saturating_add(self.fast / 2);
        let waited_for = |item: &&Item| matches!(item, Item::Running(running) if running.give_up.is_none() && !running.extra && running.deadline > ending);
        self.window.iter().filter(waited_for).count() as u64
    }

    pub(super) fn place_of(&self, token: u64) -> Option<usize> {
        self.window.iter().rposition(|item| matches!(item, Item::Running(running) if running.token == token))
    }

    pub(super) fn due(&mut self, now: u64, polled: u64, ctx: &mut Context<'_>, actions: &mut Actions) {
        self.expire_due(now, polled, ctx, actions);
        if self.overlaps && self.newest_running().is_some() {
            // It may have been without an answer for long enough.
            self.next_due = self.next_due.min(self.last_due.saturating_add(self.step(now)));
        }
        while self.next_due <= now {
            let step = self.step(now);
            if now - self.next_due > LATE_INTERVALS * step {
                let from = self.next_due;
                self.stall(StallCause::Late, from, now, ctx);
                break;
            }
            let due = self.next_due;
            if ctx.outlet.backlog.len() >= MOST_BACKLOG {
                self.miss(due);
            } else {
                self.told_missed(now, ctx);
                self.start(due, now, ctx, actions);
            }
            self.next_slot += 1;
            self.last_due = due;
            self.next_due = due.saturating_add(self.step(now));
        }
        self.start_extra(now, ctx, actions);
        self.tell(ctx);
    }

    /// Deadlines that are over. The worker is asked to look first; one that does not is not waited for.
    fn expire_due(&mut self, now: u64, polled: u64, ctx: &mut Context<'_>, actions: &mut Actions) {
        let mut place = 0;
        while let Some(item) = self.window.get_mut(place) {
            if let Item::Running(running) = item {
                let lost = running.worker != ctx.worker;
                let ticket = Ticket { index: ctx.index, run: self.run, slot: running.slot, token: running.token };
                match running.give_up {
                    None if running.deadline <= now && !lost => {
                        running.give_up = Some(now.saturating_add((self.timeout / 4).clamp(5 * MILLI, 250 * MILLI)));
                        actions.expire.push(Expire(ticket));
                    }
                    Some(give_up) if give_up <= now => {
                        let verdict = if lost || running.token == polled {
                            self.stuck = running.token;
                            blocking()
                        } else {
                            frozen("the thread that carries the probes did not get to it")
                        };
                        self.resolve(place, verdict, now, ctx);
                        // Resolving tells what is ready, and so may have taken items away in front.
                        place = 0;
                        continue;
                    }
                    None if running.deadline <= now => {
                        self.resolve(place, blocking(), now, ctx);
                        place = 0;
                        continue;
                    }
                    _ => {}
                }
            }
            place += 1;
        }
    }

    fn start(&mut self, due: u64, now: u64, ctx: &mut Context<'_>, actions: &mut Actions) {
        let slot = self.next_slot;
        let verdict = if let Some(until) = self.patience(due, ctx) {
            let retry_after = Some(Duration::from_nanos(until - due));
            let text = "not asked: the far side, or one that shares its fate, wants patience".to_owned();
            Verdict::NoEvidence { cause: NoEvidence::Throttled, text, retry_after }
        } else if self.blocks.is_some() {
            still_blocking()
        } else if !self.overlaps && self.is_running() {
            Verdict::fault(Fault::Overlap, "the slot before it is still running")
        } else if self.waited_for(now) >= self.timeout.div_ceil(self.fast) {
            // On time, there would be room: late slots were started together.
            frozen("this process is late: the slots before it are still running")
        } else {
            return self.run(due, now, false, ctx, actions);
        };
        self.pace(slot, true, &verdict);
        let result = self.result(slot, due, now, verdict);
        self.window.push_back(Item::Ready(result));
    }

    /// Starts the next slot's probe. Whoever calls counts the slot.
    pub(super) fn run(&mut self, due: u64, now: u64, extra: bool, ctx: &mut Context<'_>, actions: &mut Actions) {
        let (slot, token, worker) = (self.next_slot, *ctx.next_token, ctx.worker);
        *ctx.next_token += 1;
        ctx.stats.started += 1;
        ctx.stats.running += 1;
        ctx.stats.confirming += u64::from(extra);
        // Being late is our own fault; the path gets its full time.
        let deadline = now.saturating_add(self.timeout);
        let ticket = Ticket { index: ctx.index, run: self.run, slot, token };
        actions.start.push(Start { ticket, prober: Arc::clone(&self.prober), deadline, extra });
        let running = Running { slot, token, worker, due, started: now, deadline, extra, give_up: None, task: None };
        self.window.push_back(Item::Running(running));
    }

    fn result(&self, slot: u64, due: u64, at: u64, verdict: Verdict) -> Event {
        let (due, at) = (Timestamp::from_nanos(due), Timestamp::from_nanos(at));
        Event::Slot(SlotResult { endpoint: self.endpoint, run: self.run, slot, due, at, verdict })
    }

    fn stalled(&mut self, stall: Stall, ctx: &mut Context<'_>) {
        self.window.push_back(Item::Ready(Event::Stall(stall)));
        ctx.stats.stalls += 1;
    }

    pub(super) fn expire(&mut self, place: usize, now: u64, ctx: &mut Context<'_>) {
        let Some(Item::Running(running)) = self.window.get(place) else { return };
        let first = ctx.lags.partition_point(|(at, _)| *at <= running.started);
        let lag = ctx.lags.get(first).map_or(0, |(_, lag)| *lag);
        let verdict = if lag > self.timeout / 2 {
            frozen(&format!("this process was late by {:?}", Duration::from_nanos(lag)))
        } else {
            Verdict::timeout(Duration::from_nanos(self.timeout))
        };
        self.resolve(place, verdict, now, ctx);
    }

    /// A running slot comes to its result.
    pub(super) fn resolve(&mut self, place: usize, verdict: Verdict, now: u64, ctx: &mut Context<'_>) {
        let Some(item) = self.window.get_mut(place) else { return };
        let Item::Running(running) = item else { return };
        let (slot, due, extra) = (running.slot, running.due, running.extra);
        if let Some(task) = running.task.take() {
            task.abort();
        }
        ctx.stats.running -= 1;
        ctx.stats.confirming -= u64::from(extra);
        let newest = slot + 1 == self.next_slot;
        self.be_patient(&verdict, now, ctx);
        self.pace(slot, newest, &verdict);
        self.confirm.resolved(slot, extra, &verdict);
        let event = self.result(slot, due, now, verdict);
        if let Some(item) = self.window.get_mut(place) {
            *item = Item::Ready(event);
        }
        self.set_due(now);
        self.tell(ctx);
    }

    /// Tells, in slot order, what is ready.
    fn tell(&mut self, ctx: &mut Context<'_>) {
        while let Some(Item::Ready(_)) = self.window.front() {
            if let Some(Item::Ready(event)) = self.window.pop_front() {
                ctx.stats.results += u64::from(matches!(event, Event::Slot(_)));
                ctx.outlet.backlog.push_back(event);
            }
        }
    }

    /// We were not there: what is in flight proves nothing, and what came due meanwhile is missed.
    pub(super) fn stall(&mut self, cause: StallCause, from: u64, now: u64, ctx: &mut Context<'_>) {
        self.freeze(now, ctx, |_| true);
        self.told_missed(now, ctx);
        let first = self.next_slot;
        if self.next_due <= now {
            let step = self.step(now);
            let missed = (now - self.next_due) / step + 1;
            self.last_due = self.next_due.saturating_add(step.saturating_mul(missed - 1));
            self.next_due = self.next_due.saturating_add(step.saturating_mul(missed));
            self.next_slot += missed;
        }
        let (from, until) = (Timestamp::from_nanos(from), Timestamp::from_nanos(now));
        let (endpoint, run, slots) = (self.endpoint, self.run, first..self.next_slot);
        self.stalled(Stall { endpoint, run, cause, from, until, slots }, ctx);
        self.tell(ctx);
    }

    /// What is in flight proves nothing.
    fn freeze(&mut self, now: u64, ctx: &mut Context<'_>, which: impl Fn(&Running) -> bool) -> bool {
        let mut any = false;
        while let Some(place) =
            self.window.iter().position(|item| matches!(item, Item::Running(running) if which(running)))
        {
            self.resolve(place, frozen("in flight while this process was not running"), now, ctx);
            any = true;
        }
        any
    }

    fn miss(&mut self, due: u64) {
        let at = Timestamp::from_nanos(due);
        let (endpoint, run, slot) = (self.endpoint, self.run, self.next_slot);
        let cause = StallCause::Backlog;
        let missed = self.missed.get_or_insert(Stall { endpoint, run, cause, from: at, until: at, slots: slot..slot });
        missed.slots.end = slot + 1;
    }

    /// The receiver takes events again: tells what was missed.
    pub(super) fn told_missed(&mut self, now: u64, ctx: &mut Context<'_>) {
        if let Some(missed) = self.missed.take() {
            self.stalled(Stall { until: Timestamp::from_nanos(now), ..missed }, ctx);
        }
    }

    /// The worker `blocked` is left to the probe with the token `polled`.
    pub(super) fn abandoned(&mut self, blocked: u64, polled: u64, now: u64, ctx: &mut Context<'_>) {
        if self.stuck == polled || self.place_of(polled).is_some() {
            // It is waited for until its deadline, and nothing else of this endpoint is asked before it returns.
            self.blocks = Some(blocked);
            let others = |item: &Item| matches!(item, Item::Running(running) if running.token != polled);
            while let Some(place) = self.window.iter().position(others) {
                self.resolve(place, still_blocking(), now, ctx);
            }
            return;
        }
        if self.freeze(now, ctx, |running| running.worker == blocked) {
            let (endpoint, run, slot) = (self.endpoint, self.run, self.next_slot);
            let at = Timestamp::from_nanos(now);
            let cause = StallCause::Blocked;
            self.stalled(Stall { endpoint, run, cause, from: at, until: at, slots: slot..slot }, ctx);
            self.tell(ctx);
        }
    }
}

pub(super) fn frozen(text: &str) -> Verdict {
    Verdict::no_evidence(NoEvidence::Frozen, text)
}

fn blocking() -> Verdict {
    Verdict::fault(Fault::Timeout, "no answer in time; the probe blocks its thread")
}

fn still_blocking() -> Verdict {
    Verdict::fault(Fault::Overlap, "an earlier probe still blocks its thread")
}
