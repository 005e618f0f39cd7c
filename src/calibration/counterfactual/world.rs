//! The loop that runs in production, with hooks that always succeed.

use std::time::Duration;

use crate::engine::{
    EndpointId, EndpointState, Engine, HaltCode, OrderFlow, Policy, PolicySettings, Reason, ResumeAfterHalt,
    SwitchEvent, Timestamp,
};
use crate::supervisor::config::{Depth, FailbackMode, GroupConfig, Hook, HookAction, Hooks};
use crate::supervisor::group::{Command, Core, DriverState, Effect, Entry, Event, Observed, Outcome};
use crate::supervisor::hooks::{HookReport, HookResult, ReconcileCounts, Stage};
use crate::supervisor::probes::{Evidence, Fault, NoEvidence, Verdict};

use super::Assumptions;

/// The loop and the hook that it waits for. Times are nanoseconds since the first result.
#[derive(Debug)]
pub(super) struct World {
    core: Core,
    ids: Vec<EndpointId>,
    /// Endpoints without a result since the start, or since the monitor stopped, and when that was.
    awaited: Vec<usize>,
    since: u64,
    assumptions: Assumptions,
    running: Option<Running>,
    /// The newest reason of a SWITCHED.
    reason: Option<Reason>,
    /// When a failback became possible that is left to a person.
    pub(super) failback_possible: Vec<u64>,
}

#[derive(Debug)]
struct Running {
    ticket: u64,
    stage: Stage,
    ends: u64,
    result: HookResult,
}

impl World {
    pub(super) fn new(group: &GroupConfig, assumptions: &Assumptions) -> Result<Self, String> {
        let config = prepared(group, assumptions)?;
        let mut engine = Engine::new(config.policy.clone());
        let mut ids = Vec::new();
        for one in &config.endpoints {
            ids.push(engine.register(one.endpoint.clone()).map_err(|error| error.to_string())?);
        }
        engine.validate_configuration().map_err(|error| error.to_string())?;
        let core = Core::new(config, engine, DriverState::new(), Timestamp::ZERO);
        Ok(Self {
            core,
            awaited: (0..ids.len()).collect(),
            since: 0,
            ids,
            assumptions: *assumptions,
            running: None,
            reason: None,
            failback_possible: Vec::new(),
        })
    }

    pub(super) fn engine(&self) -> &Engine {
        self.core.engine()
    }

    pub(super) fn active(&self) -> Option<usize> {
        self.engine().active().map(EndpointId::index)
    }

    /// Whether orders can be sent: order flow is open and the transport is where it belongs.
    pub(super) fn is_open(&self) -> bool {
        let moving = self.running.as_ref().is_some_and(|running| running.stage == Stage::Switch);
        matches!(self.engine().order_flow(), OrderFlow::Open { .. }) && !moving
    }

    /// The newest switch, and why.
    pub(super) fn last_switch(&self) -> Option<(SwitchEvent, Option<Reason>)> {
        self.engine().history().last().map(|entry| (entry.event, self.reason))
    }

    pub(super) fn result(&mut self, now: u64, endpoint: usize, ok: bool) {
        let verdict = match ok {
            true => Verdict::Success(Evidence::default()),
            false => Verdict::PathFault { fault: Fault::Timeout, text: String::new() },
        };
        self.slot(now, endpoint, verdict);
    }

    pub(super) fn no_evidence(&mut self, now: u64, endpoint: usize) {
        self.slot(now, endpoint, Verdict::no_evidence(NoEvidence::Frozen, "the history has no result"));
    }

    fn slot(&mut self, now: u64, endpoint: usize, verdict: Verdict) {
        self.awaited.retain(|one| *one != endpoint);
        if let Some(id) = self.ids.get(endpoint) {
            self.event(now, Event::Slot(Observed { endpoint: *id, verdict }));
        }
    }

    /// The monitor had stopped until now.
    pub(super) fn stop(&mut self, now: u64) {
        self.awaited = (0..self.ids.len()).collect();
        self.since = now;
        self.event(now, Event::Stall { text: String::new() });
    }

    /// Endpoints that had a chance to be heard of since the start or a stop, and were not.
    pub(super) fn silent(&self, now: u64, within: u64) -> Vec<usize> {
        if self.awaited.is_empty() || now.saturating_sub(self.since) <= within {
            return Vec::new();
        }
        self.awaited.clone()
    }

    /// When the hook that runs ends.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.ends)
    }

    pub(super) fn end_hook(&mut self, now: u64) {
        let Some(Running { ticket, stage, result, .. }) = self.running.take() else { return };
        let settled = ReconcileCounts { resting: 0, filled: 0, unknown: 0 };
        let counts = (stage == Stage::Reconcile && result == HookResult::Ok).then_some(settled);
        let report = HookReport { result, millis: 0, output: String::new(), counts };
        self.event(now, Event::HookEnded { ticket, report });
    }

    /// Lifts a halt that only a person lifts, once the active path has proved itself. True if that was done.
    pub(super) fn person_acts(&mut self, now: u64) -> bool {
        let engine = self.engine();
        let at = Timestamp::from_nanos(now);
        let health = engine.active().and_then(|id| engine.health(id));
        let proven = health.is_some_and(|one| one.state() == EndpointState::Healthy && engine.is_fresh(at, one));
        let latched = match engine.order_flow() {
            OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => {
                engine.policy().settings().resume_after_halt == ResumeAfterHalt::Operator
            }
            OrderFlow::Halt { .. } => true,
            _ => false,
        };
        if !(latched && proven) || engine.is_spent() {
            return false;
        }
        self.event(now, Event::Command { command: Command::Resume, caller: None });
        true
    }

    fn event(&mut self, now: u64, event: Event) {
        for effect in self.core.handle(Timestamp::from_nanos(now), event) {
            match effect {
                Effect::Run { ticket, request, .. } => {
                    let ends = now.saturating_add(self.time_of(request.stage));
                    self.running = Some(Running { ticket, stage: request.stage, ends, result: HookResult::Ok });
                }
                Effect::Abandon { ticket } => {
                    if let Some(running) = self.running.as_mut().filter(|running| running.ticket == ticket) {
                        (running.ends, running.result) = (now, HookResult::Abandoned);
                    }
                }
                Effect::Record { entry: Entry::Note { code: "FAILBACK_POSSIBLE", .. }, .. } => {
                    self.failback_possible.push(now);
                }
                Effect::Record { entry: Entry::Input { answer: Outcome::Decided("SWITCHED", code), .. }, .. } => {
                    self.reason = Reason::ALL.into_iter().find(|reason| reason.code() == code);
                }
                Effect::Record { .. } | Effect::Publish { .. } | Effect::ClearLogons | Effect::Reply(_) => {}
            }
        }
    }

    fn time_of(&self, stage: Stage) -> u64 {
        Timestamp::from_elapsed(match stage {
            Stage::Fence => self.assumptions.fence,
            Stage::Switch => self.assumptions.switch,
            Stage::Reconcile => self.assumptions.reconcile,
            Stage::Halt | Stage::Flow => Duration::ZERO,
        })
        .as_nanos()
    }
}

/// The group with one hook for each stage of a switch, and nothing that only a person or the clock of a process could end.
fn prepared(group: &GroupConfig, assumptions: &Assumptions) -> Result<GroupConfig, String> {
    let settings = group.policy.settings();
    let by_hand = group.failback == FailbackMode::Manual || settings.require_fence && group.hooks.fence.is_empty();
    let failback =
        if by_hand && !assumptions.person_fails_back { FailbackMode::Manual } else { FailbackMode::Automatic };
    // The newest switch must be there to be looked at.
    let settings = PolicySettings { history_limit: settings.history_limit.max(1), ..settings.clone() };
    let policy = Policy::new(settings).map_err(|error| error.to_string())?;
    let hook = || {
        vec![Hook {
            action: HookAction::Command(Vec::new()),
            timeout: Duration::MAX,
            idempotent: true,
            proves: None,
            holds: None,
        }]
    };
    let hooks = Hooks { fence: hook(), switch: hook(), reconcile: hook(), halt: Vec::new(), flow: Vec::new() };
    Ok(GroupConfig {
        policy,
        failback,
        hooks,
        max_hold: Duration::MAX,
        no_evidence_alarm: Duration::MAX,
        // What it would do is looked at by a replay of its own.
        shadow: None,
        // The journal says that a path answered, and not how deep.
        required_depth: Depth::Reachable,
        ..group.clone()
    })
}
