//! The scheduler without threads and clocks: what is due, what a slot came to, what is told.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::AbortHandle;

use super::super::probes::{Prober, Verdict};
use super::{Event, Late, Stall, StallCause, Stats, Watch, nanos};
use crate::engine::EndpointId;

pub(super) mod confirm;
mod pace;
mod slots;

use confirm::Confirm;
use slots::frozen;

const MILLI: u64 = 1_000_000;
/// No duration of the pace is shorter.
const SHORTEST: u64 = MILLI;
/// No duration of the pace is longer: a day.
const LONGEST: u64 = 86_400_000 * MILLI;
/// A slot noticed late by more of its intervals than this is a stall.
const LATE_INTERVALS: u64 = 3;
/// A suspend as long as this is one; less is the two clocks' reading.
const SUSPENDED: u64 = 10 * MILLI;
/// Slots that come due within this share of the shortest interval are started together: each waking up costs as much as
/// a check.
const TOGETHER: u64 = 64;
/// And within no more than this.
const LONGEST_TOGETHER: u64 = 8 * MILLI;
/// Events that wait for their receiver; from then on its slots are not started.
const MOST_BACKLOG: usize = 1_024;
/// How often to try a receiver again.
const RETRY: u64 = 5 * MILLI;
/// Our own delays that are remembered.
const MOST_LAGS: usize = 256;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// By the clock of all times.
    pub(super) at: u64,
    /// Time spent suspended until then.
    pub(super) suspended: u64,
}

/// A slot that is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    index: usize,
    run: u64,
    slot: u64,
    /// Unique, never 0.
    pub(super) token: u64,
}

/// Ask now.
pub(super) struct Start {
    pub(super) ticket: Ticket,
    pub(super) prober: Arc<dyn Prober>,
    pub(super) deadline: u64,
    /// Whether it stands outside the pace.
    pub(super) extra: bool,
}

/// Look whether there is an answer, and give it up otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expire(pub(super) Ticket);

/// What the worker has to do.
#[derive(Default)]
pub(super) struct Actions {
    pub(super) start: Vec<Start>,
    pub(super) expire: Vec<Expire>,
}

impl Actions {
    pub(super) fn is_empty(&self) -> bool {
        self.start.is_empty() && self.expire.is_empty()
    }
}

pub(super) struct Core {
    entries: Vec<Option<Entry>>,
    /// Each entry's next moment.
    timers: BTreeSet<(u64, usize)>,
    /// Extra slots that are due: nothing waits so that they are started together with others.
    urgent: BTreeSet<(u64, usize)>,
    outlets: Vec<Option<Outlet>>,
    /// Outlets that something was told since they were flushed, and those that had no room for all.
    unflushed: Vec<usize>,
    full: Vec<usize>,
    /// Keys that are told to be patient, and until when.
    patience: HashMap<String, u64>,
    /// When the worker wakes; it is late by as much as it wakes later.
    planned: u64,
    /// When the timekeeper looks whether it did.
    pub(super) watched_until: u64,
    suspended: u64,
    /// The longest of our own delays, newest last: each is longer than all that follow.
    lags: VecDeque<(u64, u64)>,
    /// The number of the worker.
    worker: u64,
    shortest: u64,
    next_run: u64,
    next_token: u64,
    random: u64,
    seed: u64,
    stats: Stats,
}

/// One endpoint's slots.
struct Entry {
    endpoint: EndpointId,
    run: u64,
    outlet: usize,
    prober: Arc<dyn Prober>,
    overlaps: bool,
    interval: u64,
    fast: u64,
    timeout: u64,
    shared_fate: Vec<String>,
    /// The number of the next slot, and when it is due.
    next_slot: u64,
    next_due: u64,
    /// When the slot before it was due.
    last_due: u64,
    failing: bool,
    /// The newest slot whose result has set the pace.
    paced_by: u64,
    patient_until: u64,
    /// How often in a row patience was asked for without saying how much.
    asked: u32,
    /// The token of the last probe that was given up while it occupied the worker.
    stuck: u64,
    /// The worker that a probe of this endpoint blocks.
    blocks: Option<u64>,
    /// Slots, in order, that are not told yet.
    window: VecDeque<Item>,
    /// Slots that are not started because the receiver does not take the events.
    missed: Option<Stall>,
    /// Its place in `timers`.
    timer: u64,
    /// Extra slots, and the place of the next in `urgent`.
    confirm: Confirm,
    urgent: Option<u64>,
}

enum Item {
    Running(Running),
    Ready(Event),
}

struct Running {
    slot: u64,
    token: u64,
    worker: u64,
    due: u64,
    started: u64,
    deadline: u64,
    /// Whether it stands outside the pace.
    extra: bool,
    /// If the worker was told to look: when it is given up without it.
    give_up: Option<u64>,
    task: Option<AbortHandle>,
}

impl Running {
    fn give_up_task(self) {
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

struct Outlet {
    group: u64,
    sender: mpsc::Sender<Event>,
    /// Events that are not handed over yet.
    backlog: VecDeque<Event>,
    gone: bool,
}

impl Outlet {
    /// Hands over what the receiver has room for; whether something is left.
    fn flush(&mut self) -> bool {
        while let Some(event) = self.backlog.pop_front() {
            match self.sender.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    self.backlog.push_front(event);
                    return true;
                }
                Err(TrySendError::Closed(_)) => {
                    self.gone = true;
                    self.backlog.clear();
                }
            }
        }
        // Two hundred groups that keep room for what was told are half a megabyte.
        self.backlog = VecDeque::new();
        false
    }
}

impl Core {
    pub(super) fn new(seed: u64, suspended: u64) -> Self {
        Self {
            entries: Vec::new(),
            timers: BTreeSet::new(),
            urgent: BTreeSet::new(),
            outlets: Vec::new(),
            unflushed: Vec::new(),
            full: Vec::new(),
            patience: HashMap::new(),
            planned: u64::MAX,
            watched_until: u64::MAX,
            suspended,
            lags: VecDeque::new(),
            worker: 0,
            shortest: LONGEST,
            next_run: 0,
            next_token: 1,
            random: seed,
            seed,
            stats: Stats::default(),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }

    pub(super) fn add_outlet(&mut self, sender: mpsc::Sender<Event>) -> usize {
        let place = self.outlets.iter().position(Option::is_none).unwrap_or(self.outlets.len());
        let outlet = Outlet { group: place as u64, sender, backlog: VecDeque::new(), gone: false };
        match self.outlets.get_mut(place) {
            Some(free) => *free = Some(outlet),
            None => self.outlets.push(Some(outlet)),
        }
        place
    }

    pub(super) fn remove_outlet(&mut self, outlet: usize) {
        for index in 0..self.entries.len() {
            if self.entry(index).is_some_and(|entry| entry.outlet == outlet) {
                self.remove(index);
            }
        }
        if let Some(place) = self.outlets.get_mut(outlet) {
            *place = None;
        }
    }

    pub(super) fn watch(&mut self, outlet: usize, watch: Watch, now: Now) -> u64 {
        // Another pace does not undo that the far side asked for patience.
        let same = self.find(outlet, watch.endpoint).and_then(|index| self.entry(index));
        let same = same.filter(|entry| Arc::ptr_eq(&entry.prober, &watch.prober));
        let (patient_until, asked) = same.map_or((0, 0), |entry| (entry.patient_until, entry.asked));
        let confirm = same.map_or_else(Confirm::default, |entry| entry.confirm.carried_over());
        self.unwatch(outlet, watch.endpoint);
        let run = self.next_run;
        self.next_run += 1;
        let bounded = |duration: Duration| nanos(duration).clamp(SHORTEST, LONGEST);
        let interval = bounded(watch.probing.interval);
        let fast = bounded(watch.probing.interval_when_failing).min(interval);
        // The same group has the same phase, whatever else is watched. Its endpoints share it, so that what they come to
        // is handed over at once, until a failure, a reload or an extra slot moves one of them.
        let group = self.outlets.get(outlet).and_then(Option::as_ref).map_or(0, |outlet| outlet.group);
        let draw = mix(self.seed ^ mix(group));
        let jitter = if watch.probing.jitter.is_nan() { 0.0 } else { watch.probing.jitter.clamp(0.0, 1.0) };
        let phase = scaled(interval, share(draw) * jitter);
        let next_due = now.at.saturating_add(phase);
        let entry = Entry {
            endpoint: watch.endpoint,
            run,
            outlet,
            overlaps: watch.prober.overlaps(),
            prober: watch.prober,
            interval,
            fast,
            timeout: bounded(watch.probing.timeout),
            shared_fate: watch.shared_fate,
            next_slot: 0,
            next_due,
            last_due: next_due.saturating_sub(interval),
            failing: false,
            paced_by: 0,
            patient_until,
            asked,
            stuck: 0,
            blocks: None,
            window: VecDeque::new(),
            missed: None,
            timer: next_due,
            confirm,
            urgent: None,
        };
        let index = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        self.timers.insert((next_due, index));
        match self.entries.get_mut(index) {
            Some(free) => *free = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.shortest = self.shortest.min(fast);
        run
    }

    pub(super) fn unwatch(&mut self, outlet: usize, endpoint: EndpointId) -> bool {
        let found = self.find(outlet, endpoint);
        if let Some(index) = found {
            self.remove(index);
        }
        found.is_some()
    }

    pub(super) fn share(&mut self, outlet: usize, endpoint: EndpointId, shared_fate: Vec<String>) -> bool {
        let entry = self.find(outlet, endpoint).and_then(|index| self.entries.get_mut(index)).and_then(Option::as_mut);
        let found = entry.is_some();
        if let Some(entry) = entry {
            entry.shared_fate = shared_fate;
        }
        found
    }

    fn find(&self, outlet: usize, endpoint: EndpointId) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.as_ref().is_some_and(|entry| entry.outlet == outlet && entry.endpoint == endpoint))
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index).and_then(Option::as_ref)
    }

    fn remove(&mut self, index: usize) {
        let Some(entry) = self.entries.get_mut(index).and_then(Option::take) else { return };
        self.timers.remove(&(entry.timer, index));
        entry.urgent.map(|at| self.urgent.remove(&(at, index)));
        for item in entry.window {
            if let Item::Running(running) = item {
                self.stats.running -= 1;
                self.stats.confirming -= u64::from(running.extra);
                running.give_up_task();
            }
        }
        self.shortest = self.entries.iter().flatten().map(|entry| entry.fast).min().unwrap_or(LONGEST);
    }

    /// Everything goes; nothing is told.
    pub(super) fn clear(&mut self) {
        for index in 0..self.entries.len() {
            self.remove(index);
        }
    }

    /// Does what has come due. `polled` is the token of the probe that the worker is polling.
    pub(super) fn tick(&mut self, now: Now, polled: u64, actions: &mut Actions) {
        if self.planned < now.at {
            self.lagged(self.planned, now.at);
        }
        if now.suspended.saturating_sub(self.suspended) >= SUSPENDED {
            let from = now.at.saturating_sub(now.suspended.saturating_sub(self.suspended));
            for index in 0..self.entries.len() {
                self.on(index, |entry, ctx| entry.stall(StallCause::Suspend, from, now.at, ctx));
            }
        }
        self.suspended = now.suspended;
        while let Some(&(at, index)) = self.timers.first() {
            if at > now.at {
                break;
            }
            let gone = match self.entry(index) {
                Some(entry) => self.outlets.get(entry.outlet).and_then(Option::as_ref).is_none_or(|outlet| outlet.gone),
                None => true,
            };
            if gone {
                // Nobody listens any more.
                self.timers.remove(&(at, index));
                self.remove(index);
                continue;
            }
            self.on(index, |entry, ctx| entry.due(now.at, polled, ctx, actions));
        }
        self.unflushed.append(&mut self.full);
        self.flush();
    }

    /// Hands over what was told since the last time: all at once, since each handing over may wake a receiver.
    pub(super) fn flush(&mut self) {
        while let Some(place) = self.unflushed.pop() {
            if self.outlets.get_mut(place).and_then(Option::as_mut).is_some_and(Outlet::flush) {
                self.full.push(place);
            }
        }
    }

    /// Whether extra slots are under way, or to come.
    pub(super) fn is_confirming(&self) -> bool {
        self.stats.confirming > 0 || self.has_more_to_confirm()
    }

    /// Whether extra slots are to come.
    pub(super) fn has_more_to_confirm(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Whether something waits to be handed over.
    pub(super) fn is_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    /// When to tick again; it is remembered, so that being late can be told.
    pub(super) fn plan(&mut self, now: u64) -> u64 {
        let next = self.timers.first().map_or(u64::MAX, |(at, _)| *at);
        self.planned = next.max(now.saturating_add(self.together()));
        if !self.full.is_empty() {
            self.planned = self.planned.min(now.saturating_add(RETRY));
        }
        if let Some((at, _)) = self.urgent.first() {
            self.planned = self.planned.min((*at).max(now));
        }
        self.planned
    }

    /// When the next tick is to be.
    pub(super) fn planned(&self) -> u64 {
        self.planned
    }

    fn together(&self) -> u64 {
        (self.shortest / TOGETHER).min(LONGEST_TOGETHER)
    }

    /// Whether something has come up that is due before the planned tick.
    pub(super) fn sooner(&self) -> bool {
        self.timers.first().is_some_and(|(at, _)| at.saturating_add(self.together()) < self.planned)
            || self.urgent.first().is_some_and(|(at, _)| *at < self.planned)
    }

    /// What was to be done at `from` was done at `to`.
    pub(super) fn lagged(&mut self, from: u64, to: u64) {
        let lag = to.saturating_sub(from);
        if lag < SHORTEST / 4 {
            return;
        }
        while self.lags.back().is_some_and(|(_, shorter)| *shorter <= lag) {
            self.lags.pop_back();
        }
        if self.lags.len() == MOST_LAGS {
            self.lags.pop_front();
        }
        self.lags.push_back((to, lag));
    }

    /// The worker carries it.
    pub(super) fn carried(&mut self, ticket: Ticket, task: AbortHandle) {
        match self.running(ticket) {
            Some(running) => running.task = Some(task),
            // Finished already, or not wanted any more.
            None => task.abort(),
        }
    }

    fn running(&mut self, ticket: Ticket) -> Option<&mut Running> {
        let entry = self.entries.get_mut(ticket.index)?.as_mut()?;
        entry.window.iter_mut().rev().find_map(|item| match item {
            Item::Running(running) if running.token == ticket.token => Some(running),
            _ => None,
        })
    }

    /// The probe came to a verdict.
    pub(super) fn complete(&mut self, ticket: Ticket, verdict: Verdict, now: Now) {
        let suspended = now.suspended.saturating_sub(self.suspended) >= SUSPENDED;
        let planned = self.planned;
        self.on(ticket.index, |entry, ctx| {
            if entry.run != ticket.run {
                return;
            }
            let Some(place) = entry.place_of(ticket.token) else {
                let late = Late { endpoint: entry.endpoint, run: entry.run, slot: ticket.slot };
                ctx.stats.late += 1;
                ctx.outlet.backlog.push_back(Event::Late(late));
                return;
            };
            // The timekeeper is about to notice that we were not running: what was seen then proves nothing.
            let late = now.at.saturating_sub(planned) > LATE_INTERVALS * entry.step(now.at);
            if let Some(Item::Running(running)) = entry.window.get_mut(place) {
                // It ends by itself.
                running.task = None;
            }
            let verdict =
                if suspended || late { frozen("answered while this process was not running") } else { verdict };
            entry.resolve(place, verdict, now.at, ctx);
        });
    }

    /// The worker has looked: there is no answer.
    pub(super) fn expire(&mut self, expire: &Expire, now: Now) {
        self.on(expire.0.index, |entry, ctx| {
            if let Some(place) = entry.place_of(expire.0.token) {
                entry.expire(place, now.at, ctx);
            }
        });
    }

    /// A worker is left to the probe with the token `polled`, which blocks it. `untaken` is what it had not begun; what
    /// stays in there is for the next worker.
    pub(super) fn abandon(&mut self, polled: u64, untaken: &mut Vec<Start>, now: Now) {
        let blocked = self.worker;
        self.worker += 1;
        self.stats.blocked += 1;
        let next = self.worker;
        for start in untaken.iter() {
            if let Some(running) = self.running(start.ticket) {
                running.worker = next;
            }
        }
        for index in 0..self.entries.len() {
            self.on(index, |entry, ctx| entry.abandoned(blocked, polled, now.at, ctx));
        }
        untaken.retain(|start| self.running(start.ticket).is_some());
    }

    /// A worker that was left has come back, and ended.
    pub(super) fn released(&mut self, worker: u64) {
        if worker != self.worker {
            self.stats.blocked = self.stats.blocked.saturating_sub(1);
        }
        for entry in self.entries.iter_mut().flatten() {
            if entry.blocks == Some(worker) {
                entry.blocks = None;
            }
        }
    }

    /// Does something with an entry, and sets its timer anew.
    fn on(&mut self, index: usize, act: impl FnOnce(&mut Entry, &mut Context<'_>)) {
        let Some(entry) = self.entries.get_mut(index).and_then(Option::as_mut) else { return };
        let Some(outlet) = self.outlets.get_mut(entry.outlet).and_then(Option::as_mut) else { return };
        let mut context = Context {
            index,
            outlet,
            patience: &mut self.patience,
            lags: &self.lags,
            worker: self.worker,
            next_token: &mut self.next_token,
            random: &mut self.random,
            stats: &mut self.stats,
        };
        let told = context.outlet.backlog.len();
        act(entry, &mut context);
        if told == 0 && !context.outlet.backlog.is_empty() {
            self.unflushed.push(entry.outlet);
        }
        let timer = entry.next_moment();
        if timer != entry.timer {
            self.timers.remove(&(entry.timer, index));
            self.timers.insert((timer, index));
            entry.timer = timer;
        }
        entry.mark_urgent(index, &mut self.urgent);
    }
}

/// What an entry needs of the whole.
struct Context<'a> {
    index: usize,
    outlet: &'a mut Outlet,
    patience: &'a mut HashMap<String, u64>,
    lags: &'a VecDeque<(u64, u64)>,
    worker: u64,
    next_token: &'a mut u64,
    random: &'a mut u64,
    stats: &'a mut Stats,
}

/// SplitMix64: a step and a hash in one.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A draw as a share of 1, 1 excluded.
fn share(draw: u64) -> f64 {
    f64::from(u32::try_from(draw >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

fn scaled(of: u64, share: f64) -> u64 {
    nanos(Duration::from_nanos(of).mul_f64(share))
}
