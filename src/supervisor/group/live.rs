//! Two live paths: a gateway that says that orders may leave on another path than the active one.
//!
//! Mostly an epoch alone decides. An epoch belongs to one endpoint for ever, so that no delay explains a report of the
//! present epoch on another endpoint, or of one that was never given. An older epoch is one of a path that was left: a
//! gateway may not have heard of that yet, for `follow_within` after the switch was carried out. Until then order flow is
//! not open on the new path either.

use std::collections::VecDeque;

use crate::engine::{Epoch, HaltOrder, Timestamp};

use super::super::journal::Peer;
use super::core::{Core, Effect, note};

/// Code of the halt, and of the note with the evidence.
pub(super) const TWO_LIVE_PATHS: &str = "TWO_LIVE_PATHS";

/// Epochs of which it is known when they were carried out. An older one counts as left when the oldest of these was.
const MOST_EPOCHS: usize = 64;
/// Pairs of endpoint and epoch that are noted in one epoch: a hostile gateway has many to report.
const MOST_NOTED: usize = 16;

/// A gateway says that orders may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// On this endpoint, by name.
    pub endpoint: String,
    /// Under this epoch.
    pub epoch: u64,
    /// When that was so, on the group's clock.
    pub at: Timestamp,
    /// Who says so, as the kernel says.
    pub peer: Peer,
    /// Its report, as a line of JSON: the evidence.
    pub line: String,
}

/// Since when each path is the only one on which orders may leave, and what was said against it.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    /// Epochs that were carried out; in order.
    carried: VecDeque<Carried>,
    /// What was noted in the present epoch.
    noted: Vec<(String, u64)>,
}

/// An epoch whose transport was moved.
#[derive(Clone, Debug)]
struct Carried {
    epoch: u64,
    /// Its endpoint's name: a reload may have removed that meanwhile, and a gateway may send there all the same.
    endpoint: String,
    at: Timestamp,
}

impl Live {
    /// `epoch` has been carried out.
    fn carried(&mut self, epoch: u64, now: Timestamp, endpoint: impl FnOnce() -> String) {
        if self.carried.back().is_none_or(|last| last.epoch < epoch) {
            self.carried.push_back(Carried { epoch, endpoint: endpoint(), at: now });
            self.noted.clear();
            if self.carried.len() > MOST_EPOCHS {
                self.carried.pop_front();
            }
        }
    }

    /// When `epoch` had been left for a path to which the transport was moved; `None`: not yet.
    fn left(&self, epoch: u64) -> Option<Timestamp> {
        self.carried.iter().find(|later| later.epoch > epoch).map(|later| later.at)
    }

    /// Whether flow was on `endpoint` in `epoch`.
    fn was(&self, endpoint: &str, epoch: u64) -> bool {
        self.carried.iter().any(|one| one.epoch == epoch && one.endpoint == endpoint)
    }
}

impl Core {
    /// Remembers when the present epoch was carried out.
    pub(super) fn mark_live(&mut self, now: Timestamp) {
        let is_carried = self.memory.carried || self.config.hooks.switch.is_empty();
        if let (true, Some(epoch), Some(active)) = (is_carried, self.engine.epoch(), self.engine.active()) {
            let engine = &self.engine;
            let name = || engine.endpoint(active).map_or_else(String::new, |endpoint| endpoint.name.clone());
            self.live.carried(epoch.get(), now, name);
        }
    }

    /// Whether a gateway may send where it says it does; if it never may, trading halts.
    pub(super) fn sending(
        &mut self,
        now: Timestamp,
        sending: &Sending,
        effects: &mut Vec<Effect>,
    ) -> Result<String, String> {
        let why = match self.stray(sending) {
            Ok(None) => return Ok("it may".to_owned()),
            Ok(Some(why)) => why,
            Err(unknown) => return Err(unknown),
        };
        let Sending { endpoint, epoch, peer: Peer { uid, pid }, line, .. } = sending;
        let text = format!(
            "a gateway (user {uid}, process {pid}) reports that orders may leave on {endpoint} in epoch {epoch}: {why}"
        );
        let begins = !self.dry_run && !self.journal_failed && self.halt_code().as_deref() != Some(TWO_LIVE_PATHS);
        let pair = (endpoint.clone(), *epoch);
        let is_news = self.live.noted.len() < MOST_NOTED && !self.live.noted.contains(&pair);
        if begins || is_news {
            // The evidence stands in the journal before the halt that makes it durable.
            note(effects, TWO_LIVE_PATHS, format!("{text}; its report: {line}"));
        }
        if is_news {
            self.live.noted.push(pair);
        }
        if begins {
            if let Ok(order) = HaltOrder::new(TWO_LIVE_PATHS, text.clone()) {
                let _ = self.take(now, crate::engine::Input::Halt(order), effects);
            }
        }
        let then = if self.dry_run { "a dry run: nothing is changed" } else { "trading is halted" };
        Err(format!("{TWO_LIVE_PATHS}: {text}; {then}"))
    }

    /// Why orders must not leave there, whatever delays there are; `None` if they may, or a change may be in flight.
    fn stray(&self, sending: &Sending) -> Result<Option<String>, String> {
        let Sending { endpoint, epoch, at, .. } = sending;
        let id = self.engine.id(endpoint).ok();
        if id.is_none() && !self.live.was(endpoint, *epoch) {
            let names: Vec<_> = self.engine.endpoints().map(|(_, endpoint)| &*endpoint.name).collect();
            let (group, there) = (&self.config.name, names.join(", "));
            return Err(format!("no endpoint of that name in group {group:?}; there is: {there}; nothing was changed"));
        }
        let (Some(active), Some(present)) = (self.engine.active(), self.engine.epoch().map(Epoch::get)) else {
            return Ok(None);
        };
        let name = self.name(active);
        if *epoch > present {
            return Ok(Some(format!("the present epoch is {present}, on {name}, and that one was never given")));
        }
        if *epoch == present {
            return Ok((id != Some(active)).then(|| format!("that is the epoch of {name}")));
        }
        let Some(left) = self.live.left(*epoch) else { return Ok(None) };
        let (late, grace) = (at.nanos_since(left), Timestamp::from_elapsed(self.config.follow_within).as_nanos());
        Ok((*at >= left && late >= grace).then(|| {
            let late = std::time::Duration::from_nanos(late);
            format!("that path was left {late:.1?} before; flow is on {name} in epoch {present}")
        }))
    }
}
