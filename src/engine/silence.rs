//! Results that were due and did not come, and whether the monitor was there to take them.
//!
//! A monitor that stopped is not an endpoint that died. So a missing result counts for something only if the monitor
//! gave signs of life while it was awaited: results of other endpoints, ticks, further results that became due.
//! Whoever tells nothing of this is not asked anything, and pays nothing for it.

use std::time::Duration;

use super::endpoint::EndpointId;
use super::error::EngineError;
use super::health::ProbeResult;
use super::policy::Silence;
use super::time::{Timestamp, checked_nanos};
use super::{Engine, Patience};

/// What a tick, or a result that became due, brought to light.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a monitor that stopped should be seen by somebody"]
pub struct Heard {
    /// The monitor had stopped until now: while results were awaited, nothing at all arrived for as long as the shortest
    /// of their spans. None of them counts, and every trigger has to be armed anew.
    pub monitor_stopped: bool,
    /// Results found missing now. Which: [`Engine::missing`]. Under [`Silence::Failure`] each was counted.
    pub missing: u32,
}

/// The monitor, as far as its signs of life say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observer {
    /// The last sign of life.
    heard: Timestamp,
    /// The shortest span of a result that is awaited, or a shorter one.
    shortest: u64,
    /// When the first of the awaited results is overdue, or a moment before that.
    overdue_at: Timestamp,
    /// Results that the last tick, or due result, found missing.
    missing: u32,
}

impl Observer {
    /// The end of time.
    const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);
}

/// Silence.
impl Engine {
    /// The scheduler is alive: a sign of life, and the moment at which results that are overdue are found missing.
    /// Tell it more often than the shortest span of [`due`](Self::due).
    pub fn tick(&mut self, now: Timestamp) -> Heard {
        self.observe(now);
        let monitor_stopped = self.hear(now);
        let missing = self.give_up(now);
        self.saw(now);
        Heard { monitor_stopped, missing }
    }

    /// A result of `id` is due within `span` from now on; a tick besides. It is missing if the first tick, or due
    /// result, that comes `span` later or after it finds it still awaited. One result of an endpoint is awaited at a
    /// time: while one is, another does not become due. Any result of the endpoint is an answer.
    ///
    /// A span of zero is taken as 1 ns, and one that does not fit 2^64 - 1 ns as that.
    ///
    /// # Errors
    /// UNKNOWN_ENDPOINT.
    pub fn due(&mut self, now: Timestamp, id: EndpointId, span: Duration) -> Result<Heard, EngineError> {
        if id.index() >= self.patiences.len() {
            return Err(EngineError::unknown_id(id));
        }
        let heard = self.tick(now);
        let span = checked_nanos(span).unwrap_or(u64::MAX).max(1);
        if let (Some(patience), Some(observer)) = (self.patiences.get_mut(id.index()), &mut self.observer) {
            patience.await_result(now, span);
            observer.shortest = observer.shortest.min(span);
            let overdue_at = patience.overdue_at().unwrap_or(Observer::NEVER);
            observer.overdue_at = observer.overdue_at.min(overdue_at);
        }
        Ok(heard)
    }

    /// The endpoints whose results the last tick, or due result, found missing.
    pub fn missing(&self) -> impl Iterator<Item = EndpointId> {
        self.endpoints().map(|(id, _)| id).zip(&self.patiences).filter(|(_, it)| it.is_missing()).map(|(id, _)| id)
    }

    /// The endpoints of which a result is awaited.
    pub fn awaited(&self) -> impl Iterator<Item = EndpointId> {
        let awaited = |(_, it): &(_, &Patience)| it.awaited_for().is_some();
        self.endpoints().map(|(id, _)| id).zip(&self.patiences).filter(awaited).map(|(id, _)| id)
    }

    /// From the first tick or due result on, every result is a sign of life.
    fn observe(&mut self, now: Timestamp) {
        if self.observer.is_some() {
            return;
        }
        let overdue_at = Observer::NEVER;
        self.observer = Some(Observer { heard: now, shortest: u64::MAX, overdue_at, missing: 0 });
        for (standing, patience) in self.standings.iter_mut().zip(&mut self.patiences) {
            standing.calm = false;
            if standing.plain.take().is_some() {
                patience.go_on_armed();
            }
        }
    }

    /// A sign of life. Whether the monitor had stopped until now: nothing came for too long while results were awaited.
    pub(super) fn hear(&mut self, now: Timestamp) -> bool {
        let Some(observer) = &mut self.observer else { return false };
        let silent_for = now.nanos_since(observer.heard);
        // By a clock that went back, time goes on from here.
        observer.heard = now;
        if silent_for < observer.shortest {
            return false;
        }
        // One of those that made it the shortest may have been answered since.
        observer.shortest = self.patiences.iter().filter_map(Patience::awaited_for).min().unwrap_or(u64::MAX);
        let stopped = silent_for >= observer.shortest;
        if stopped {
            observer.shortest = u64::MAX;
            self.patiences.iter_mut().for_each(Patience::refill);
        }
        stopped
    }

    /// Finds out which results are overdue, and how many.
    fn give_up(&mut self, now: Timestamp) -> u32 {
        let due = |observer: &Observer| now >= observer.overdue_at || observer.missing > 0;
        if !self.observer.as_ref().is_some_and(due) {
            return 0;
        }
        let mut missing = 0;
        for index in 0..self.patiences.len() {
            let gone = self.patiences.get_mut(index).is_some_and(|patience| patience.gives_up(now));
            if let (true, Ok(id)) = (gone, u16::try_from(index)) {
                missing += 1;
                if self.policy.settings().silence == Silence::Failure {
                    // The endpoint is there: its place was counted.
                    let _ = self.count_patiently(now, EndpointId(id), ProbeResult::MISSING);
                }
            }
        }
        let overdue_at = self.patiences.iter().filter_map(Patience::overdue_at).min().unwrap_or(Observer::NEVER);
        if let Some(observer) = &mut self.observer {
            (observer.overdue_at, observer.missing) = (overdue_at, missing);
        }
        missing
    }
}
