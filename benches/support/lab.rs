//! A failover lab as one would write it down: every probe of a day as a value, a window as a queue of checks, one trigger
//! after the other. What the simulation is compared with, and must agree with fire for fire.

use std::collections::VecDeque;
use std::ops::Range;

/// Something that hears one check after the other and says whether it holds.
pub(crate) enum Trigger {
    /// Failures in a row.
    Consecutive { needed: u32, failures: u32 },
    /// Every check of the newest `span` seconds has failed.
    Window { span: u64, checks: VecDeque<(u64, bool)> },
}

impl Trigger {
    pub(crate) fn consecutive(needed: u32) -> Self {
        Self::Consecutive { needed, failures: 0 }
    }

    pub(crate) fn window(span: u64) -> Self {
        Self::Window { span, checks: VecDeque::new() }
    }

    fn hear(&mut self, now: u64, healthy: bool) -> bool {
        match self {
            Self::Consecutive { needed, failures } => {
                *failures = if healthy { 0 } else { *failures + 1 };
                *failures >= *needed
            }
            Self::Window { span, checks } => {
                checks.push_back((now, healthy));
                while checks.front().is_some_and(|(then, _)| then + *span < now) {
                    checks.pop_front();
                }
                checks.iter().all(|(_, healthy)| !healthy)
            }
        }
    }
}

/// How often `trigger` fires on a timeline of checks that succeed (`true`) or fail, one every `interval` seconds. It fires
/// again only after it has let go.
pub(crate) fn fires(mut trigger: Trigger, timeline: &[bool], interval: u64) -> u64 {
    let (mut fires, mut fired) = (0, false);
    for (slot, healthy) in (0..).zip(timeline) {
        let holds = trigger.hear(slot * interval, *healthy);
        fires += u64::from(holds && !fired);
        fired = holds;
    }
    fires
}

/// A day of checks, the first of them a success, of which `failing` fail.
pub(crate) fn timeline(slots: u64, failing: &[Range<u64>]) -> Vec<bool> {
    let mut timeline = vec![true; slots as usize + 1];
    for run in failing {
        timeline[run.start as usize..run.end as usize].fill(false);
    }
    timeline
}
