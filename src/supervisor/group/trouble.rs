//! A hook that fails again and again, for whoever looks at the state: what failed, how often, and what could be done.

use std::time::Duration;

use crate::engine::{HoldReason, OrderFlow, Timestamp};
use crate::planning::counted;

use super::super::hooks::{HookReport, HookResult, Stage};
use super::core::Core;

/// The most characters of a hook's output that are told.
const TOLD: usize = 200;

/// Failures of one stage in one epoch.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    stage: Stage,
    epoch: u64,
    failures: u32,
    why: String,
}

impl Trouble {
    /// One failure more than `before`, if that is of the same stage and epoch.
    pub(super) fn after(before: Option<Self>, stage: Stage, epoch: u64, report: &HookReport) -> Self {
        let before = before.filter(|before| before.stage == stage && before.epoch == epoch);
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        Self { stage, epoch, failures, why: in_words(report) }
    }
}

fn in_words(report: &HookReport) -> String {
    let how = match &report.result {
        HookResult::Ok => report.counts.map_or_else(
            || "no counts".to_owned(),
            |counts| format!("{} of unknown fate", counted(counts.unknown, "order")),
        ),
        failed => failed.to_string(),
    };
    let last = report.output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let last: String = last.trim().chars().take(TOLD).collect();
    if last.is_empty() { how } else { format!("{how}: {last}") }
}

impl Core {
    /// What keeps failing now, and what a person can do about it.
    pub(super) fn hook_trouble(&self, now: Timestamp) -> Option<String> {
        let Trouble { stage, epoch, failures, why } = self.lane.trouble()?;
        let flow = self.engine.order_flow();
        let (matters, by_hand) = match stage {
            Stage::Fence => (self.fence_wanted(now), format!("; or confirm-fence --epoch {epoch}")),
            Stage::Reconcile => (
                matches!(flow, OrderFlow::Hold { reason: HoldReason::Reconciling }),
                format!("; or confirm-reconciled --epoch {epoch}"),
            ),
            Stage::Halt => (flow.is_halt() && !self.memory.halt_confirmed, String::new()),
            Stage::Switch | Stage::Flow => (false, String::new()),
        };
        let present = *stage == Stage::Halt || self.engine.epoch().is_some_and(|present| present.get() == *epoch);
        if !(matters && present) {
            return None;
        }
        let next = self.lane.retry_of(*stage).map_or(0, |at| at.nanos_since(now));
        let next = match Duration::from_nanos(next).as_secs_f64() {
            left if left > 0.0 && self.lane.is_idle() => format!("again in {left:.0} s"),
            _ => "being tried again".to_owned(),
        };
        let name = stage.name();
        let times = match failures {
            1 => "once, with".to_owned(),
            _ => format!("{failures} times, the last time with"),
        };
        Some(format!("the {name} hook failed {times} {why}; {next}{by_hand}"))
    }
}
