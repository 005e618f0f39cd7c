//! Which hook runs next, and what follows from how it ended. One at a time per group.

use std::time::Duration;

use crate::engine::{Epoch, HaltOrder, HoldReason, Input, OrderFlow, Timestamp};
use crate::planning::counted;

use super::super::config::{CancelOnDisconnect, Hook};
use super::super::hooks::{HookReport, HookRequest, HookResult, ReconcileCounts, Stage};
use super::super::journal::flow_text;
use super::core::{Core, Effect, Entry, note};
use super::trouble::Trouble;

/// The first wait before a failed hook is tried again; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The hook that runs, and where each stage stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    ticket: u64,
    running: Option<Running>,
    fence: Attempts,
    reconcile: Attempts,
    halt: Attempts,
    trouble: Option<Trouble>,
    /// The order flow that the flow hook was last told of in this run, in words. What it was told before a restart
    /// nobody knows.
    told: Option<String>,
}

#[derive(Clone, Debug)]
struct Running {
    ticket: u64,
    stage: Stage,
    endpoint: String,
    epoch: u64,
    level: usize,
    abandoned: bool,
    flow: String,
}

/// Where a stage with retries stands: which level is next, and not before when.
#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    level: usize,
    failures: u32,
    not_before: Option<Timestamp>,
}

impl Attempts {
    fn due(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|at| now >= at)
    }

    /// The next level at once, or after the last one all of them again, later and later.
    fn failed(&mut self, now: Timestamp, levels: usize) {
        self.level += 1;
        if self.level < levels {
            return;
        }
        self.level = 0;
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(10)).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        let wait = Timestamp::from_elapsed(wait).as_nanos();
        self.not_before = Some(Timestamp::from_nanos(now.as_nanos().saturating_add(wait)));
    }
}

impl Lane {
    /// Whether a hook runs whose end decides what comes next, so that nothing is evaluated meanwhile.
    pub(super) fn decides(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.stage, Stage::Fence | Stage::Switch))
    }

    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        let attempts = [self.fence, self.reconcile, self.halt];
        attempts.into_iter().filter_map(|attempts| attempts.not_before).min()
    }

    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Not before when a stage with retries is tried again.
    pub(super) fn retry_of(&self, stage: Stage) -> Option<Timestamp> {
        match stage {
            Stage::Fence => self.fence.not_before,
            Stage::Reconcile => self.reconcile.not_before,
            Stage::Halt => self.halt.not_before,
            Stage::Switch | Stage::Flow => None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    pub(super) fn halted(&mut self) {
        self.halt = Attempts::default();
    }

    pub(super) fn start_fence(&mut self) {
        self.fence = Attempts::default();
    }

    pub(super) fn start_switch(&mut self) {
        self.fence = Attempts::default();
        self.reconcile = Attempts::default();
    }

    /// The record that announces it could not be written.
    pub(super) fn never_started(&mut self, ticket: u64) {
        self.running.take_if(|running| running.ticket == ticket);
    }

    /// The fence hook that runs: its place in the list.
    pub(super) fn running_fence(&self) -> Option<usize> {
        self.running.as_ref().filter(|running| running.stage == Stage::Fence).map(|running| running.level)
    }

    /// Other hooks are tried from the first on, at once.
    pub(super) fn hooks_changed(&mut self) {
        (self.fence, self.reconcile, self.halt) = Default::default();
    }

    pub(super) fn restart_reconciling(&mut self) {
        self.reconcile = Attempts::default();
    }
}

impl Core {
    /// Starts the hook that is most wanted, if none runs.
    pub(super) fn next_hook(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if let Some(running) = &mut self.lane.running {
            let outdated = running.stage == Stage::Reconcile
                && (self.engine.epoch().map_or(0, Epoch::get) != running.epoch
                    || !is_reconciling(self.engine.order_flow()));
            if outdated && !running.abandoned {
                running.abandoned = true;
                effects.push(Effect::Abandon { ticket: running.ticket });
            }
            return;
        }
        let Some((stage, level)) = self.wanted(now) else { return };
        self.lane.ticket += 1;
        let request = self.request(now, stage);
        let (ticket, epoch, flow) = (self.lane.ticket, request.epoch, flow_text(&self.engine));
        let endpoint = request.endpoint.clone();
        self.lane.running = Some(Running { ticket, stage, endpoint, epoch, level, abandoned: false, flow });
        let entry = Entry::HookStart { ticket, level, request: Box::new(request.clone()) };
        self.record(entry, stage != Stage::Flow, effects);
        // The hook is told the url as it is configured; nobody else is.
        let configured = self.config.endpoints.iter().find(|one| one.endpoint.name == request.endpoint);
        let url = configured.map_or(request.url, |one| one.endpoint.url.clone());
        effects.push(Effect::Run { ticket, level, request: Box::new(HookRequest { url, ..request }) });
    }

    fn wanted(&self, now: Timestamp) -> Option<(Stage, usize)> {
        let hooks = &self.config.hooks;
        let flow = self.engine.order_flow();
        let goes_on = self.memory.unknown_hooks.is_empty() && !self.journal_failed;
        let carried = self.memory.carried || hooks.switch.is_empty();
        let fence = self.fence_wanted(now) && goes_on && !hooks.fence.is_empty();
        let untold = !hooks.flow.is_empty() && self.lane.told.as_deref() != Some(&*flow_text(&self.engine));
        let halt = flow.is_halt()
            && !self.memory.halt_confirmed
            && !self.memory.is_unknown(Stage::Halt)
            && !hooks.halt.is_empty();
        // A switch that a restart or a freeze interrupted goes on only on fresh evidence.
        let switch = !carried && !self.engine.is_spent() && goes_on && self.awaited.is_empty();
        let reconcile = carried && goes_on && is_reconciling(flow) && !hooks.reconcile.is_empty();
        if halt && self.lane.halt.due(now) {
            Some((Stage::Halt, self.lane.halt.level))
        } else if fence && untold {
            // The freeze: its answer is awaited before the fence.
            Some((Stage::Flow, 0))
        } else if fence && self.lane.fence.due(now) {
            Some((Stage::Fence, self.lane.fence.level))
        } else if switch {
            Some((Stage::Switch, self.memory.switch_level))
        } else if reconcile && self.lane.reconcile.due(now) {
            Some((Stage::Reconcile, self.lane.reconcile.level))
        } else if untold {
            Some((Stage::Flow, 0))
        } else {
            None
        }
    }

    pub(super) fn fence_wanted(&self, now: Timestamp) -> bool {
        self.engine.is_spent() && !self.is_fenced(now) && self.engine.policy().settings().require_fence
    }

    fn request(&self, now: Timestamp, stage: Stage) -> HookRequest {
        let active = self.engine.active();
        let endpoint = active.and_then(|id| self.engine.endpoint(id));
        let left = self.left.map(|id| self.name(id));
        let target = match stage {
            Stage::Fence => self.plan_target(now),
            Stage::Switch | Stage::Reconcile => left,
            Stage::Halt | Stage::Flow => None,
        };
        let detail = match stage {
            Stage::Reconcile => {
                self.memory.proof.as_ref().map(|proof| format!("fenced epoch {} by {}", proof.epoch, proof.by))
            }
            Stage::Flow | Stage::Halt => Some(flow_text(&self.engine)),
            Stage::Fence | Stage::Switch => None,
        };
        // A halt that was ordered follows from no decision.
        let ordered = self.engine.halt_order().filter(|_| stage == Stage::Halt).map(HaltOrder::code);
        let scope =
            self.left.and_then(|id| self.config.endpoints.get(id.index())).map(|left| left.cancel_on_disconnect);
        HookRequest {
            stage,
            group: self.config.name.clone(),
            endpoint: endpoint.map(|endpoint| endpoint.name.clone()).unwrap_or_default(),
            url: endpoint.map(|endpoint| endpoint.url.clone()).unwrap_or_default(),
            epoch: self.engine.epoch().map_or(0, Epoch::get),
            target,
            reason: ordered.unwrap_or(self.last_reason.code()).to_owned(),
            detail,
            cancel_on_disconnect: scope.filter(|_| stage == Stage::Reconcile).map(|scope| scope_name(scope).to_owned()),
        }
    }

    pub(super) fn hook_ended(&mut self, now: Timestamp, ticket: u64, report: HookReport, effects: &mut Vec<Effect>) {
        let Some(running) = self.lane.running.take_if(|running| running.ticket == ticket) else {
            return note(
                effects,
                "LATE_HOOK",
                format!("the end of hook run {ticket}, which nobody waits for, changes nothing"),
            );
        };
        let Running { stage, epoch, level, .. } = running;
        let (endpoint, kept) = (running.endpoint, Box::new(report.clone()));
        let entry = Entry::HookEnd { ticket, stage, level, endpoint, epoch, report: kept };
        self.record(entry, stage != Stage::Flow, effects);
        let ok = report.result == HookResult::Ok;
        if !ok || report.counts.is_some_and(|counts| counts.unknown > 0) {
            self.lane.trouble = Some(Trouble::after(self.lane.trouble.take(), stage, epoch, &report));
        }
        let present = self.engine.epoch().map_or(0, Epoch::get) == epoch;
        match stage {
            Stage::Flow => self.lane.told = Some(running.flow),
            Stage::Halt if ok => {}
            Stage::Halt => self.lane.halt.failed(now, self.config.hooks.halt.len()),
            _ if !present => {
                note(
                    effects,
                    "STALE_HOOK",
                    format!("{stage} hook of epoch {epoch} ended after that epoch; it changes nothing"),
                );
            }
            Stage::Fence if ok => self.describe_proof(now, Duration::MAX),
            Stage::Fence => self.lane.fence.failed(now, self.config.hooks.fence.len()),
            // Carried out; or the next level is next, or there is none and the switch is given up.
            Stage::Switch => {}
            Stage::Reconcile => self.reconcile_ended(now, epoch, &report, effects),
        }
    }

    fn reconcile_ended(&mut self, now: Timestamp, epoch: u64, report: &HookReport, effects: &mut Vec<Effect>) {
        if let (HookResult::Ok, Some(ReconcileCounts { unknown: 0, .. })) = (&report.result, report.counts) {
            let _ = self.take(now, Input::Reconciled(epoch), effects);
            return;
        }
        if let Some(ReconcileCounts { unknown, .. }) = report.counts.filter(|counts| counts.unknown > 0) {
            note(
                effects,
                "ORDERS_UNKNOWN",
                format!(
                    "{} of epoch {epoch} {} not settled: the hold stays",
                    counted(unknown, "order"),
                    if unknown == 1 { "is" } else { "are" }
                ),
            );
        }
        self.lane.reconcile.failed(now, self.config.hooks.reconcile.len());
    }

    /// The hook of `stage` at `level`.
    #[must_use]
    pub fn hook(&self, stage: Stage, level: usize) -> Option<&Hook> {
        let hooks = &self.config.hooks;
        let list = match stage {
            Stage::Fence => &hooks.fence,
            Stage::Switch => &hooks.switch,
            Stage::Reconcile => &hooks.reconcile,
            Stage::Halt => &hooks.halt,
            Stage::Flow => &hooks.flow,
        };
        list.get(level)
    }
}

fn is_reconciling(flow: OrderFlow) -> bool {
    matches!(flow, OrderFlow::Hold { reason: HoldReason::Reconciling })
}

const fn scope_name(scope: CancelOnDisconnect) -> &'static str {
    match scope {
        CancelOnDisconnect::Unknown => "unknown",
        CancelOnDisconnect::None => "none",
        CancelOnDisconnect::Session => "session",
        CancelOnDisconnect::Account => "account",
    }
}
