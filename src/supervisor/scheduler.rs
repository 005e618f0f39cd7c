//! When to ask: each endpoint's slots, and the one result that each slot yields.
//!
//! # Slots
//!
//! A slot is due every `interval`, at a fixed rate: a slot's due time follows from the one before it, never from an
//! answer, so that a probe that hangs delays no later slot. Each slot yields exactly one [`SlotResult`], in slot order,
//! at the latest when its `timeout` is over; if the probe gives none, the scheduler does. Where one failed, or the
//! latest has had no answer for `interval_when_failing`, the next is due `interval_when_failing` after it, until the
//! newest succeeds. A kind that must not overlap is not asked again before its answer is in, except that a slot which
//! comes due by `interval` and finds it running is a failure, `OVERLAP`.
//!
//! Where a session that was held open to an endpoint ends, a [`Confirmer`] asks for extra slots at once.
//!
//! What comes due within a 64th of the shortest interval of all endpoints, 8 ms at most, is done in one go.
//!
//! An endpoint that is told to be patient (429, 418) is not asked until then, and neither is any that shares a
//! `shared_fate` key with it; their slots yield `THROTTLED`.
//!
//! # Our own faults are not the path's
//!
//! The deadline counts from when the probe could start. No answer counts as a `TIMEOUT` only after the sockets were
//! read once more, and only if this process was not itself late for half of the time. A slot noticed late by more than
//! three intervals, or a suspend, ends in an [`Event::Stall`]: what was in flight yields `FROZEN`, the slots that were
//! missed are named, and it goes on with the next one.
//!
//! # Threads
//!
//! Two, whatever the number of endpoints. One carries all probes as non-blocking tasks and starts each when it is due. The
//! other looks whether that one keeps time, and keeps it in its place while it does not: if a probe blocks the first
//! thread, it is left to that probe and another takes its place, and the endpoint's slots fail until the call returns. (A
//! probe that holds a session has a thread of its own for that.) Who has a [`Confirmer`] can live on the first thread too
//! ([`Confirmer::runtime`]), so that what it learns becomes a probe there and then.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tracing::trace;

use super::clock::{self, BootClock};
use super::config::Probing;
use super::probes::{Fault, Prober, Verdict};
use crate::engine::{EndpointId, Timestamp};
use crate::manager::Clock;

mod core;
#[cfg(test)]
mod tests;

pub use core::confirm::{CONFIRM_SPAN, Confirmed, Confirming, MOST_BURSTS, MOST_CONFIRMS, SHORTEST_SPACING};
use core::{Actions, Core, Now, Start};

/// What the scheduler tells a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A slot came to its one result.
    Slot(SlotResult),
    /// Slots were missed, or what was in flight proves nothing: the fault is ours.
    Stall(Stall),
    /// An answer came after its slot had been given up; it was dropped.
    Late(Late),
}

/// The one result of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotResult {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Which [`Group::watch`] of it: a result of an older one is of an older configuration.
    pub run: u64,
    /// The slot's number, counted from 0 in each run. Numbers that are missing are those that a [`Stall`] names.
    pub slot: u64,
    /// When it was due.
    pub due: Timestamp,
    /// When its result was known. (It is told when all earlier slots' are.)
    pub at: Timestamp,
    /// What it came to.
    pub verdict: Verdict,
}

/// A span in which this process did not do its part for an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Which [`Group::watch`] of it.
    pub run: u64,
    /// Why.
    pub cause: StallCause,
    /// Its beginning, as far as known.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The slots that were missed; they yield no result. May be empty.
    pub slots: std::ops::Range<u64>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasted = Duration::from_nanos(self.until.nanos_since(self.from));
        match self.slots.end.saturating_sub(self.slots.start) {
            0 => write!(f, "{}, for {lasted:?}; no slot was missed", self.cause),
            1 => write!(f, "{}, for {lasted:?}; slot {} was missed", self.cause, self.slots.start),
            missed => {
                write!(f, "{}, for {lasted:?}; {missed} slots were missed, from {}", self.cause, self.slots.start)
            }
        }
    }
}

/// Why slots were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StallCause {
    /// This process was not running, or far too late.
    Late,
    /// The machine was suspended.
    Suspend,
    /// The receiver of the events did not take them.
    Backlog,
    /// A probe blocked the thread that carries the probes.
    Blocked,
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Late => "this process was not running, or far too late",
            Self::Suspend => "this machine was suspended",
            Self::Backlog => "the group did not take its results",
            Self::Blocked => "a probe blocked the thread of all probes",
        })
    }
}

/// An answer that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Which [`Group::watch`] of it.
    pub run: u64,
    /// The slot that it was for.
    pub slot: u64,
}

/// What to ask, and how often.
#[derive(Clone)]
pub struct Watch {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The pace. Zero durations are taken as 1 ms, and `interval_when_failing` as no longer than `interval`.
    pub probing: Probing,
    /// Who asks.
    pub prober: Arc<dyn Prober>,
    /// What it shares with others: told to be patient, all of them are.
    pub shared_fate: Vec<String>,
}

/// How the scheduler runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The clock of all times that it tells.
    pub clock: BootClock,
    /// Seed of every jitter.
    pub seed: u64,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Results told.
    pub results: u64,
    /// Probes started.
    pub started: u64,
    /// Those among them that stood outside the pace.
    pub confirms: u64,
    /// Probes running now.
    pub running: u64,
    /// Those among them that stand outside the pace.
    pub confirming: u64,
    /// Late answers dropped.
    pub late: u64,
    /// Stalls told.
    pub stalls: u64,
    /// Threads that a probe blocks now.
    pub blocked: u64,
}

/// Threads that probes may block at once. From then on, a blocked thread stalls all endpoints.
pub const MOST_BLOCKED: u64 = 8;
/// How long a probe may occupy its thread at once before the thread is left to it.
const BLOCKED_AFTER: Duration = Duration::from_millis(250);
/// How often to look while work waits for a thread.
const LOOK: Duration = Duration::from_millis(50);
/// How late the thread that carries the probes may be before the other one keeps time in its place: each look costs as
/// much as a check.
const GRACE: Duration = LOOK;
/// How long who hands over stays awake for a confirming probe's result: to be woken takes longer than a refusal does.
const AWAKE: Duration = Duration::from_millis(1);
/// How long to wait for a thread that ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the slots of any number of groups. Dropped, it stops.
pub struct Scheduler {
    shared: Arc<Shared>,
    timekeeper: Option<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts the two threads. Events are handed over on the present runtime: a receiver that is woken from its own
    /// runtime costs no switch of threads.
    ///
    /// # Errors
    ///
    /// The system gives no thread, no event queue or no timer, or there is no present runtime.
    pub fn start(options: Options) -> io::Result<Self> {
        let receivers = Handle::try_current().map_err(io::Error::other)?;
        let (worker, runtime) = Worker::new(0)?;
        let shared = Arc::new(Shared {
            clock: options.clock,
            core: Mutex::new(Core::new(options.seed, clock::suspended())),
            wake: Condvar::new(),
            told: Notify::new(),
            awake_until: AtomicU64::new(0),
            gives_way: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            worker: Mutex::new(Arc::clone(&worker)),
            ended: Condvar::new(),
            workers: Mutex::new(0),
        });
        worker.start(runtime, &shared)?;
        receivers.spawn(hand_over(Arc::clone(&shared)));
        let timekeeper = {
            let shared = Arc::clone(&shared);
            Builder::new().name("bf-slots".to_owned()).spawn(move || keep_time(&shared, worker))?
        };
        Ok(Self { shared, timekeeper: Some(timekeeper) })
    }

    /// A new group, with no endpoint yet. Its events go to `events`; while nobody takes them, no slot is started.
    #[must_use = "dropped, the group is gone"]
    pub fn group(&self, events: mpsc::Sender<Event>) -> Group {
        Group { outlet: self.shared.core.lock().add_outlet(events), shared: Arc::clone(&self.shared) }
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.core.lock().stats()
    }

    /// Stops both threads and gives up every probe. Returns when all is gone, or after two seconds if a probe blocks.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        drop(self.shared.core.lock());
        self.shared.wake.notify_all();
        self.shared.told.notify_one();
        if let Some(timekeeper) = self.timekeeper.take() {
            // It panics only if we have a bug; there is nothing left to do about it here.
            let _ = timekeeper.join();
        }
        let mut workers = self.shared.workers.lock();
        while *workers > 0 && !self.shared.ended.wait_for(&mut workers, FAREWELL).timed_out() {}
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.end();
    }
}

/// The endpoints of one group. Dropped, they are not asked any more.
pub struct Group {
    shared: Arc<Shared>,
    outlet: usize,
}

impl Group {
    /// Asks an endpoint from now on; returns the number of this run. If it was asked already, its slots begin anew, and
    /// those of no other endpoint change; what was in flight is given up without a result. The same prober goes on to be
    /// as patient as it was told to be.
    pub fn watch(&self, watch: Watch) -> u64 {
        let run = self.shared.core.lock().watch(self.outlet, watch, self.shared.now());
        self.shared.worker.lock().notify.notify_one();
        run
    }

    /// Changes what an endpoint shares with others, and nothing about its slots; whether it is asked.
    pub fn share(&self, endpoint: EndpointId, shared_fate: Vec<String>) -> bool {
        self.shared.core.lock().share(self.outlet, endpoint, shared_fate)
    }

    /// What asks an endpoint at once, when there is a reason to.
    #[must_use]
    pub fn confirmer(&self, endpoint: EndpointId, how: Confirming) -> Confirmer {
        Confirmer { shared: Arc::clone(&self.shared), outlet: self.outlet, endpoint, how }
    }

    /// Does not ask an endpoint any more; whether it was asked.
    pub fn unwatch(&self, endpoint: EndpointId) -> bool {
        self.shared.core.lock().unwatch(self.outlet, endpoint)
    }
}

/// Asks an endpoint at once, outside its pace: until as many slots have failed as decide, or one succeeds.
#[derive(Clone)]
pub struct Confirmer {
    shared: Arc<Shared>,
    outlet: usize,
    endpoint: EndpointId,
    how: Confirming,
}

impl Confirmer {
    /// Asks, if there is a reason to and the budget allows it.
    pub fn confirm(&self) -> Confirmed {
        let shared = &self.shared;
        let mut core = shared.core.lock();
        let confirmed = core.confirm(self.outlet, self.endpoint, self.how, shared.now());
        if confirmed == Confirmed::Begun {
            shared.hurry(false);
            drop(core);
            shared.worker.lock().notify.notify_one();
        }
        confirmed
    }

    /// For how long the endpoint, or one that shares its fate, was told to be left alone, if that is not over: whatever else
    /// would ask it waits too.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.shared.core.lock().patience(self.outlet, self.endpoint, self.shared.now())
    }

    /// The thread of the probes: what learns there that it should ask wakes no other thread to do so. It ends with the
    /// scheduler, or when a probe that blocked it is done; what it carried ends with it.
    #[must_use]
    pub fn runtime(&self) -> Handle {
        self.shared.worker.lock().runtime.clone()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.shared.core.lock().remove_outlet(self.outlet);
    }
}

struct Shared {
    clock: BootClock,
    core: Mutex<Core>,
    /// Wakes the timekeeper.
    wake: Condvar,
    /// Results are to be handed over.
    told: Notify,
    /// Until when who hands them over stays awake.
    awake_until: AtomicU64,
    /// Whether it gives way to others until then.
    gives_way: AtomicBool,
    stop: AtomicBool,
    /// The one that does what is due.
    worker: Mutex<Arc<Worker>>,
    /// Worker threads alive, and the news that one ended.
    workers: Mutex<u64>,
    ended: Condvar,
}

impl Shared {
    fn now(&self) -> Now {
        let (boottime, suspended) = clock::both();
        Now { at: self.clock.at(boottime).as_nanos(), suspended }
    }

    /// Keeps who hands over awake for a moment. While there is `more` to be asked it gives way to others, since what comes
    /// next decides nothing yet.
    fn hurry(&self, more: bool) {
        self.gives_way.store(more, Ordering::Release);
        let now = self.clock.now().as_nanos();
        let until = self.awake_until.swap(now.saturating_add(nanos(AWAKE)), Ordering::AcqRel);
        if until <= now {
            self.told.notify_one();
        }
    }

    /// Unlocks, and wakes whoever has something to do now. What is told is handed over when the worker has nothing left to
    /// do, unless it is `urgent`.
    fn settle(&self, worker: &Worker, core: MutexGuard<'_, Core>, urgent: bool) {
        let (sooner, unflushed) = (core.sooner(), core.is_unflushed());
        drop(core);
        if unflushed {
            let told = if urgent { &self.told } else { &worker.told };
            told.notify_one();
        }
        if sooner {
            worker.notify.notify_one();
        }
    }
}

/// Hands over what was told, from the runtime of those who receive it.
async fn hand_over(shared: Arc<Shared>) {
    let hurried = async || {
        while shared.clock.now().as_nanos() < shared.awake_until.load(Ordering::Acquire) {
            if shared.gives_way.load(Ordering::Acquire) {
                thread::yield_now();
            }
            tokio::task::yield_now().await;
        }
    };
    loop {
        tokio::select! {
            biased;
            () = shared.told.notified() => {}
            () = hurried() => shared.told.notified().await,
        }
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let mut core = shared.core.lock();
        core.flush();
        if !core.is_confirming() {
            shared.awake_until.store(0, Ordering::Release);
        }
    }
}

/// Keeps time in the worker's place while that does not.
fn keep_time(shared: &Arc<Shared>, mut worker: Arc<Worker>) {
    let mut actions = Actions::default();
    let mut core = shared.core.lock();
    let mut look = Look::default();
    while !shared.stop.load(Ordering::Acquire) {
        let now = shared.now();
        if core.sooner() {
            worker.notify.notify_one();
        }
        let mut wake_at = core.planned().saturating_add(nanos(GRACE));
        let mut waiting = worker.is_behind() || !actions.is_empty();
        if waiting || wake_at <= now.at {
            core.tick(now, worker.polling.load(Ordering::Acquire), &mut actions);
            waiting = MutexGuard::unlocked(&mut core, || worker.post(&mut actions, now.at));
            wake_at = core.plan(now.at);
        }
        if waiting {
            wake_at = wake_at.min(now.at.saturating_add(nanos(LOOK)));
            if let (Some(token), true) = (look.blocked_by(&worker, now.at), core.stats().blocked < MOST_BLOCKED) {
                if let Ok(next) = worker.next(shared) {
                    *shared.worker.lock() = Arc::clone(&next);
                    worker.abandoned.store(true, Ordering::Release);
                    worker.notify.notify_one();
                    let mut inbox = std::mem::take(&mut *worker.inbox.lock());
                    core.abandon(token, &mut inbox.actions.start, now);
                    actions.start.append(&mut inbox.actions.start);
                    actions.expire.append(&mut inbox.actions.expire);
                    worker = next;
                    continue;
                }
            }
        }
        if shared.stop.load(Ordering::Acquire) {
            // Asked for while the core was unlocked: nobody would wake us.
            break;
        }
        core.watched_until = wake_at;
        let wait = wake_at.saturating_sub(shared.clock.now().as_nanos());
        shared.wake.wait_for(&mut core, Duration::from_nanos(wait));
    }
    core.clear();
    drop(core);
    worker.notify.notify_one();
}

/// What was seen of the worker when it was last looked at.
#[derive(Default)]
struct Look {
    polls: u64,
    since: u64,
}

impl Look {
    /// The token of the probe of which one and the same poll has occupied the thread for too long.
    fn blocked_by(&mut self, worker: &Worker, now: u64) -> Option<u64> {
        let (polls, token) = (worker.polls.load(Ordering::Acquire), worker.polling.load(Ordering::Acquire));
        if polls != self.polls || token == 0 {
            *self = Self { polls, since: now };
        }
        (now.saturating_sub(self.since) > nanos(BLOCKED_AFTER)).then_some(token)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The thread that carries the probes.
struct Worker {
    number: u64,
    runtime: Handle,
    inbox: Mutex<Inbox>,
    /// Something is due sooner than was planned, or waits in the inbox.
    notify: Notify,
    /// Results wait to be handed over.
    told: Notify,
    /// The token of the probe that is being polled; 0 if none is.
    polling: AtomicU64,
    /// How often a probe was polled.
    polls: AtomicU64,
    abandoned: AtomicBool,
}

/// What the timekeeper did in the worker's place.
#[derive(Default)]
struct Inbox {
    actions: Actions,
    /// When the first of it was posted.
    posted: u64,
}

impl Worker {
    fn new(number: u64) -> io::Result<(Arc<Self>, Runtime)> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let worker = Arc::new(Self {
            number,
            runtime: runtime.handle().clone(),
            inbox: Mutex::default(),
            notify: Notify::new(),
            told: Notify::new(),
            polling: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
        });
        Ok((worker, runtime))
    }

    /// What takes its place.
    fn next(&self, shared: &Arc<Shared>) -> io::Result<Arc<Self>> {
        let (worker, runtime) = Self::new(self.number + 1)?;
        worker.start(runtime, shared)?;
        Ok(worker)
    }

    fn start(self: &Arc<Self>, runtime: Runtime, shared: &Arc<Shared>) -> io::Result<()> {
        let alarm = {
            let _context = runtime.enter();
            Alarm::new()?
        };
        let (own, shared_too, number) = (Arc::clone(self), Arc::clone(shared), self.number);
        *shared.workers.lock() += 1;
        let spawned = Builder::new().name("bf-probes".to_owned()).spawn(move || {
            let alive = Alive { shared: shared_too, number };
            runtime.block_on(carry(&alive.shared, &own, &alarm));
            // A look-up may still hang; nobody waits for it.
            runtime.shutdown_background();
        });
        match spawned {
            Ok(_) => Ok(()),
            Err(error) => {
                *shared.workers.lock() -= 1;
                Err(error)
            }
        }
    }

    /// Whether something waits in the inbox.
    fn is_behind(&self) -> bool {
        !self.inbox.lock().actions.is_empty()
    }

    /// Hands `actions` over; whether anything waits for the worker now.
    fn post(&self, actions: &mut Actions, now: u64) -> bool {
        let mut inbox = self.inbox.lock();
        if !actions.is_empty() {
            if inbox.actions.is_empty() {
                inbox.posted = now;
            }
            inbox.actions.start.append(&mut actions.start);
            inbox.actions.expire.append(&mut actions.expire);
            drop(inbox);
            self.notify.notify_one();
            return true;
        }
        !inbox.actions.is_empty()
    }
}

/// A worker thread that has not ended.
struct Alive {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.shared.core.lock().released(self.number);
        *self.shared.workers.lock() -= 1;
        self.shared.ended.notify_all();
    }
}

async fn carry(shared: &Arc<Shared>, worker: &Arc<Worker>, alarm: &Alarm) {
    // A task of its own: it comes behind the probes that are ready, and what all of them tell is handed over at once.
    tokio::spawn({
        let (shared, worker) = (Arc::clone(shared), Arc::clone(worker));
        async move {
            loop {
                worker.told.notified().await;
                shared.told.notify_one();
            }
        }
    });
    let mut actions = Actions::default();
    let mut handles = Vec::new();
    loop {
        tokio::select! {
            () = alarm.rung() => {}
            () = worker.notify.notified() => {}
        }
        let Some(taken) = due(shared, worker, alarm, &mut actions) else { return };
        if !actions.expire.is_empty() {
            // Lets the sockets be read once more: an answer that lies there already is not late.
            // Once for the reading, once for those who then find something.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            let mut core = shared.core.lock();
            let now = shared.now();
            for expire in actions.expire.drain(..) {
                core.expire(&expire, now);
            }
            shared.settle(worker, core, false);
        }
        if actions.start.is_empty() {
            continue;
        }
        if actions.start.iter().any(|start| start.extra) {
            let core = shared.core.lock();
            shared.hurry(core.has_more_to_confirm());
        }
        for start in actions.start.drain(..) {
            let (ticket, task) = (start.ticket, ask(Arc::clone(shared), Arc::clone(worker), start, taken));
            handles.push((ticket, tokio::spawn(task).abort_handle()));
        }
        let mut core = shared.core.lock();
        for (ticket, handle) in handles.drain(..) {
            core.carried(ticket, handle);
        }
    }
}

/// What is to be done now, with what waits in the inbox, and when that was; `None` if another worker does it, or nobody.
fn due(shared: &Shared, worker: &Worker, alarm: &Alarm, actions: &mut Actions) -> Option<u64> {
    let mut core = shared.core.lock();
    // The timekeeper abandons with the core locked.
    if shared.stop.load(Ordering::Acquire) || worker.abandoned.load(Ordering::Acquire) {
        return None;
    }
    let now = shared.now();
    let mut inbox = worker.inbox.lock();
    if !inbox.actions.is_empty() {
        core.lagged(inbox.posted, now.at);
        std::mem::swap(&mut inbox.actions, actions);
    }
    drop(inbox);
    core.tick(now, 0, actions);
    let next = core.plan(now.at);
    if next.saturating_add(nanos(GRACE)) < core.watched_until {
        shared.wake.notify_one();
    }
    shared.settle(worker, core, false);
    alarm.set(next.saturating_sub(now.at));
    Some(now.at)
}

/// Wakes the worker to the microsecond; a runtime's own timers know milliseconds.
struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// The longest wait; who is woken too early looks again.
    const LONGEST: u64 = 86_400_000_000_000;

    /// For the present runtime.
    #[expect(deprecated, reason = "what replaces it is unsafe, and asks for no more than what an `OwnedFd` promises")]
    fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        AsyncFd::with_interest(timer, Interest::READABLE).map(Self)
    }

    /// Rings once, `wait` nanoseconds from now. That it rang before is forgotten.
    fn set(&self, wait: u64) {
        const SECOND: u64 = 1_000_000_000;
        let wait = wait.clamp(1, Self::LONGEST);
        let it_value = Timespec { tv_sec: (wait / SECOND) as i64, tv_nsec: (wait % SECOND) as _ };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        // It fails for no time in these bounds.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once);
    }

    async fn rung(&self) {
        match self.0.readable().await {
            // What it would say is not read: to set it anew empties it.
            Ok(mut ready) => ready.clear_ready(),
            // The runtime ends.
            Err(_) => std::future::pending().await,
        }
    }
}

/// One slot's probe: to its verdict, whatever happens in it.
async fn ask(shared: Arc<Shared>, worker: Arc<Worker>, start: Start, now: u64) {
    let begun = Instant::now();
    let deadline = begun + Duration::from_nanos(start.deadline.saturating_sub(now));
    let verdict = {
        let mut probe = pin!(async { start.prober.probe(deadline).await });
        poll_fn(|cx| {
            worker.polling.store(start.ticket.token, Ordering::Release);
            worker.polls.store(worker.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
            let polled = catch_unwind(AssertUnwindSafe(|| probe.as_mut().poll(cx)));
            worker.polling.store(0, Ordering::Release);
            polled.unwrap_or_else(|payload| {
                let text = payload.downcast_ref::<&str>().copied();
                let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                Poll::Ready(Verdict::fault(Fault::Panic, text.unwrap_or("a panic without a text")))
            })
        })
        .await
    };
    if let Verdict::PathFault { fault, .. } = &verdict {
        trace!(token = start.ticket.token, ?fault, nanos = nanos(begun.elapsed()), "probe failed");
    }
    let mut core = shared.core.lock();
    let now = shared.now();
    core.complete(start.ticket, verdict, now);
    shared.settle(&worker, core, start.extra);
}
