//! The switches that are still remembered.

use std::collections::VecDeque;

use super::decision::SwitchEvent;
use super::fence::Epoch;

/// A switch, and whether it could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The switch.
    pub event: SwitchEvent,
    /// True until `switch_failed` was reported for its epoch.
    pub applied: bool,
}

/// The newest switches, up to a limit; older ones are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    entries: VecDeque<HistoryEntry>,
    dropped: u64,
}

impl History {
    pub(super) fn restored(entries: impl IntoIterator<Item = HistoryEntry>, dropped: u64, limit: u32) -> Self {
        let mut history = Self { entries: entries.into_iter().collect(), dropped };
        history.trim(limit);
        history
    }

    pub(super) fn push(&mut self, event: SwitchEvent, limit: u32) {
        self.entries.push_back(HistoryEntry { event, applied: true });
        self.trim(limit);
    }

    fn trim(&mut self, limit: u32) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        while self.entries.len() > limit {
            self.entries.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// The switch to `epoch` could not be carried out. It is the newest one, if it is still kept.
    pub(super) fn mark_failed(&mut self, epoch: Epoch) {
        if let Some(newest) = self.entries.back_mut().filter(|newest| newest.event.epoch == epoch) {
            newest.applied = false;
        }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = HistoryEntry> {
        self.entries.iter().copied()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
