//! The staged switch, event by event.

mod bars;
mod live;
mod reload;
mod shadow;

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Endpoint, Engine, OrderFlow, Policy, PolicySettings, Timestamp};
use crate::scenario::Verb;
use crate::supervisor::clock::BootClock;
use crate::supervisor::config::{
    CancelOnDisconnect, Depth, EndpointConfig, Exclusivity, FailbackMode, GroupConfig, Hook, HookAction, Hooks,
    ProbeConfig, ProbeKind, Probing, Require, Terms,
};
use crate::supervisor::hooks::{HookReport, HookRequest, HookResult, ReconcileCounts, Stage};
use crate::supervisor::journal::{Follow, flow_text};
use crate::supervisor::probes::{Evidence, Fault, Limits, NoEvidence, Verdict};

use super::task::{self, Ledger, Message};
use super::{Command, Core, DriverState, Effect, Entry, Event, GroupStatus, Observed, Outcome, Plan, first_start};

const SECOND: u64 = 1_000_000_000;

fn endpoint(endpoint: Endpoint) -> EndpointConfig {
    EndpointConfig {
        endpoint,
        explicit_priority: true,
        probes: vec![ProbeConfig { kind: ProbeKind::Tcp, slow_after: None, terms: Terms::default() }],
        require: Require::All,
        watch: None,
        shared_fate: Vec::new(),
        cancel_on_disconnect: CancelOnDisconnect::Session,
    }
}

pub(super) fn hook(idempotent: bool) -> Vec<Hook> {
    vec![Hook {
        action: HookAction::Command(vec!["true".to_owned()]),
        timeout: Duration::from_secs(2),
        idempotent,
        proves: Some("session closed".to_owned()),
        holds: None,
    }]
}

pub(super) fn config(change: impl FnOnce(&mut GroupConfig)) -> GroupConfig {
    let settings = PolicySettings { failure_threshold: 2, failback_success_threshold: 2, ..PolicySettings::default() };
    let mut config = GroupConfig {
        feed: None,
        rto: None,
        name: "main".to_owned(),
        exclusivity: Exclusivity::Unknown,
        required_depth: Depth::Reachable,
        policy: Policy::new(settings).unwrap(),
        shadow: None,
        probing: Probing {
            interval: Duration::from_secs(1),
            interval_when_failing: Duration::from_millis(250),
            timeout: Duration::from_millis(800),
            jitter: 0.0,
        },
        endpoints: vec![
            endpoint(Endpoint::primary("east", "r", "tcp://127.0.0.1:1")),
            endpoint(Endpoint::backup("west", "r", "tcp://127.0.0.1:2", 10)),
            endpoint(Endpoint::backup("north", "r", "tcp://127.0.0.1:3", 20)),
        ],
        failback: FailbackMode::Automatic,
        hooks: Hooks {
            fence: hook(false),
            switch: hook(false),
            reconcile: hook(true),
            halt: hook(true),
            flow: Vec::new(),
        },
        max_hold: Duration::from_secs(300),
        no_evidence_alarm: Duration::from_secs(30),
        follow_within: Duration::from_secs(2),
    };
    change(&mut config);
    config
}

/// A group whose effects are looked at instead of carried out.
struct World {
    core: Core,
    now: u64,
    running: Option<(u64, HookRequest)>,
    abandoned: Vec<u64>,
    records: Vec<Entry>,
    published: String,
    reply: Option<Result<String, String>>,
    /// How often probes were let log on again.
    cleared: u32,
}

impl World {
    fn new(config: GroupConfig) -> Self {
        let mut engine = Engine::new(config.policy.clone());
        for endpoint in &config.endpoints {
            engine.register(endpoint.endpoint.clone()).unwrap();
        }
        Self::of(config, engine, DriverState::new())
    }

    fn of(config: GroupConfig, engine: Engine, state: DriverState) -> Self {
        let core = Core::new(config, engine, state, Timestamp::ZERO);
        let published = flow_text(core.engine());
        Self {
            core,
            now: 0,
            running: None,
            abandoned: Vec::new(),
            records: Vec::new(),
            published,
            reply: None,
            cleared: 0,
        }
    }

    fn event(&mut self, event: Event) {
        let effects = self.core.handle(Timestamp::from_nanos(self.now), event);
        let mut durable = true;
        for effect in effects {
            match effect {
                Effect::Record { entry, durable: now_durable } => {
                    durable = now_durable;
                    self.records.push(entry);
                }
                Effect::Publish { path, .. } => {
                    assert!(path.open().is_none() || durable, "flow opened before its record was durable");
                    self.published = flow_text(self.core.engine());
                }
                Effect::Run { ticket, request, .. } => {
                    assert!(self.running.is_none(), "two hooks at once");
                    if request.stage == Stage::Halt {
                        let code = self.core.halt_code().unwrap();
                        assert!(request.detail == Some(format!("HALT {code}")), "{request:?}");
                        assert!(code == "NO_TARGET_AVAILABLE" || request.reason == code, "it was ordered: {request:?}");
                    }
                    assert!(durable || request.stage == Stage::Flow, "a hook started before its record was durable");
                    assert!(
                        matches!(self.records.last(), Some(Entry::HookStart { ticket: last, .. }) if *last == ticket)
                    );
                    self.running = Some((ticket, *request));
                }
                Effect::ClearLogons => self.cleared += 1,
                Effect::Abandon { ticket } => self.abandoned.push(ticket),
                Effect::Reply(reply) => self.reply = Some(reply),
            }
        }
    }

    fn slot(&mut self, name: &str, ok: bool) {
        let verdict = if ok {
            Verdict::Success(Evidence::default())
        } else {
            Verdict::PathFault { fault: Fault::Refused, text: "refused".to_owned() }
        };
        self.verdict(name, verdict);
    }

    fn verdict(&mut self, name: &str, verdict: Verdict) {
        let endpoint = self.core.engine().id(name).unwrap();
        self.event(Event::Slot(Observed { endpoint, verdict }));
    }

    /// One slot of each endpoint, a second later: `+` a success, `x` a failure.
    fn round(&mut self, results: &str) {
        self.now += SECOND;
        for (name, result) in ["east", "west", "north"].into_iter().zip(results.chars()) {
            self.slot(name, result == '+');
        }
    }

    fn rounds(&mut self, rounds: &[&str]) {
        rounds.iter().for_each(|round| self.round(round));
    }

    fn end_hook(&mut self, stage: Stage, result: HookResult) {
        let (ticket, request) = self.running.take().unwrap_or_else(|| panic!("no hook runs, {stage:?} was expected"));
        assert_eq!(request.stage, stage);
        let counts = (result == HookResult::Ok && stage == Stage::Reconcile).then_some(ReconcileCounts {
            resting: 1,
            filled: 0,
            unknown: 0,
        });
        self.event(Event::HookEnded {
            ticket,
            report: HookReport { result, millis: 1, output: String::new(), counts },
        });
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
        self.event(Event::Deadline);
    }

    fn command(&mut self, command: Command) -> Result<String, String> {
        self.event(Event::Command { command, caller: None });
        self.reply.take().unwrap()
    }

    fn stage(&self) -> Option<Stage> {
        self.running.as_ref().map(|(_, request)| request.stage)
    }

    /// The stages of switches, as the journal has them, each with the kind of the record that follows it.
    fn stages(&self) -> Vec<String> {
        let words = |entry: &Entry| match entry {
            Entry::Stage(record) => {
                let by = record.fence.as_ref().map_or_else(String::new, |fence| format!(" by {}", fence.by));
                Some(format!("{} {} -> {:?} #{}{by}", record.stage.name(), record.from, record.to, record.epoch))
            }
            _ => None,
        };
        self.records.iter().filter_map(words).collect()
    }

    fn noted(&self, wanted: &str) -> bool {
        self.records.iter().any(|entry| matches!(entry, Entry::Note { code, .. } if *code == wanted))
    }
}

#[test]
fn a_failover_is_decided_fenced_switched_reconciled_and_opened() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    assert_eq!(world.published, "OPEN east #1");
    world.rounds(&["x++", "x++"]);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((&*request.endpoint, request.epoch), ("east", 1));
    world.end_hook(Stage::Fence, HookResult::Ok);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.epoch), (Stage::Switch, "west", 2));
    world.end_hook(Stage::Switch, HookResult::Ok);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!(request.stage, Stage::Reconcile);
    assert!(request.detail.unwrap().contains("session closed"));
    assert_eq!(request.cancel_on_disconnect.as_deref(), Some("session"));
    assert_eq!(world.published, "HOLD RECONCILING");
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!((world.stage(), &*world.published), (None, "OPEN west #2"));
    assert_eq!(
        world.stages(),
        [
            "decided east -> Some(\"west\") #1",
            "fenced east -> Some(\"west\") #1 by fence hook 0",
            "switched east -> Some(\"west\") #2",
            "reconciled east -> Some(\"west\") #2",
            "open east -> Some(\"west\") #2",
        ]
    );
}

#[test]
fn the_stages_of_a_switch_that_failed_and_of_one_that_needs_no_fence_are_written_down() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    assert_eq!(
        world.stages()[2..],
        ["failed east -> Some(\"west\") #2", "decided west -> Some(\"north\") #2"],
        "the path whose transport could not be moved is fenced and left in turn"
    );
    let settings = PolicySettings { require_fence: false, failure_threshold: 2, ..PolicySettings::default() };
    let mut world = World::new(config(|config| {
        config.policy = Policy::new(settings.clone()).unwrap();
        config.hooks = Hooks::default();
    }));
    world.rounds(&["+++", "x++", "x++"]);
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).is_ok());
    let stages: Vec<_> = world.stages().into_iter().map(|stage| stage.replace(" east -> Some(\"west\")", "")).collect();
    assert_eq!(stages, ["decided #1", "switched #2", "reconciled #2", "open #2"]);
}

#[test]
fn a_path_that_is_well_again_before_it_was_fenced_is_a_switch_abandoned() {
    let mut world = World::new(config(|config| config.hooks.fence.clear()));
    world.rounds(&["+++", "x++", "x++", "+++"]);
    assert_eq!(world.stages(), ["decided east -> Some(\"west\") #1", "abandoned east -> Some(\"west\") #1"]);
}

#[test]
fn b34_a_failed_fence_never_leads_to_a_switch_and_a_person_can_stand_in() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    for result in [HookResult::Exit(1), HookResult::Timeout, HookResult::Unreachable("gone".to_owned())] {
        world.end_hook(Stage::Fence, result);
        assert_eq!((world.stage(), &*world.published), (None, "HOLD SWITCHING"));
        while world.stage().is_none() {
            world.round("x++");
        }
    }
    assert_eq!(world.core.engine().epoch().unwrap().get(), 1);
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    assert!(world.command(Command::ConfirmFence { epoch: 7 }).is_err());
    assert!(world.command(Command::ConfirmFence { epoch: 1 }).is_ok());
    world.round("x++");
    assert_eq!((world.stage(), world.core.engine().epoch().unwrap().get()), (Some(Stage::Switch), 2));
}

#[test]
fn b34_a_failed_switch_tries_the_next_target_and_then_halts() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    // West never carried flow, but its epoch was published: it is fenced like any other.
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.running.as_ref().unwrap().1.endpoint, "north");
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT SWITCH_FAILED"));
}

#[test]
fn b10_unknown_orders_and_failed_reconciliations_keep_the_hold() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    world.end_hook(Stage::Reconcile, HookResult::Timeout);
    assert_eq!((world.stage(), &*world.published), (None, "HOLD RECONCILING"));
    world.wait(1);
    let (ticket, _) = world.running.take().unwrap();
    let counts = Some(ReconcileCounts { resting: 0, filled: 0, unknown: 1 });
    let report = HookReport { result: HookResult::Ok, millis: 1, output: String::new(), counts };
    world.event(Event::HookEnded { ticket, report });
    assert_eq!((world.stage(), &*world.published), (None, "HOLD RECONCILING"));
    assert!(world.noted("ORDERS_UNKNOWN"));
    assert!(world.command(Command::ConfirmReconciled { epoch: 1 }).unwrap_err().starts_with("STALE_RECONCILE"));
    world.round("x++");
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).is_ok());
    assert_eq!(world.published, "OPEN west #2");
}

#[test]
fn a_hold_that_lasts_too_long_becomes_a_halt_and_retries_go_on() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    for _ in 0..299 {
        world.round("x++");
    }
    assert_eq!(world.published, "HOLD SWITCHING");
    world.round("x++");
    assert_eq!(world.published, "HALT HOLD_EXPIRED");
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    world.end_hook(Stage::Halt, HookResult::Ok);
    world.rounds(&["x++", "x++"]);
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn a_switchover_that_was_decided_before_a_crash_is_begun_after_it_if_it_is_still_possible() {
    let begun = World::new(config(|_| {}));
    let decided = DriverState { plan: Some(Plan::Switchover("west".to_owned())), ..DriverState::new() };
    for (round, stage, plan) in [("+++", Some(Stage::Fence), decided.plan.clone()), ("+x+", None, None)] {
        let mut world = World::of(config(|_| {}), begun.core.engine().clone(), decided.clone());
        world.round(round);
        assert_eq!((world.stage(), &world.core.state().plan), (stage, &plan), "{round}");
    }
}

#[test]
fn of_two_switchovers_that_wait_for_a_fence_the_later_one_is_carried_out() {
    let mut world = World::new(config(|config| config.hooks.fence.clear()));
    world.rounds(&["+++"]);
    for target in ["west", "north"] {
        let said = world.command(Command::Switchover { target: target.to_owned() }).unwrap();
        assert_eq!(said, "FENCE_REQUIRED: accepted; east in epoch 1 waits for a person's confirm-fence --epoch 1");
    }
    assert!(world.command(Command::ConfirmFence { epoch: 1 }).is_ok());
    assert_eq!(world.core.engine().active().map(|id| world.core.name(id)).as_deref(), Some("north"));
}

#[test]
fn a_certificate_that_expires_soon_is_said_once_with_those_that_expire_together() {
    let mut world = World::new(config(|_| {}));
    let day = Duration::from_secs(86_400);
    let mut succeed = |endpoint: usize, left: Duration| {
        let endpoint = world.core.engine().endpoints().nth(endpoint).unwrap().0;
        let evidence = Evidence { certificate_expires_in: Some(left), ..Evidence::default() };
        world.records.clear();
        world.event(Event::Slot(Observed { endpoint, verdict: Verdict::Success(evidence) }));
        let text = |entry: &Entry| match entry {
            Entry::Note { code: "CERTIFICATE_EXPIRES", text } => Some(text.clone()),
            _ => None,
        };
        world.records.iter().find_map(text)
    };
    assert_eq!(succeed(0, 15 * day), None);
    assert_eq!(succeed(1, 400 * day), None);
    assert_eq!(succeed(0, 10 * day).as_deref(), Some("the certificate of east expires in 10 days"));
    assert_eq!(succeed(0, 9 * day), None);
    let west = succeed(1, 9 * day).unwrap();
    assert!(west.contains("and so does that of east"), "{west}");
    assert_eq!(succeed(0, 400 * day), None);
    assert!(succeed(0, 10 * day).is_some(), "after a renewal it is said anew");
}

#[test]
fn a_hold_goes_on_across_restarts_and_a_halt_ends_it() {
    let begun = World::new(config(|_| {}));
    let held = |before: u64| {
        let mut world = World::of(config(|_| {}), begun.core.engine().clone(), DriverState::new());
        world.rounds(&["+++", "x++", "x++"]);
        let engine = world.core.engine().clone();
        let mut world = World::of(config(|_| {}), engine, world.core.state().clone());
        world.core = world.core.held_for(Duration::from_secs(before));
        world
    };
    let mut world = held(299);
    world.wait(0);
    assert_eq!(world.core.next_deadline(), Some(Timestamp::from_nanos(SECOND)));
    world.now = SECOND - 1;
    world.event(Event::Deadline);
    assert_eq!(world.published, "HOLD SWITCHING");
    world.now = SECOND;
    world.event(Event::Deadline);
    assert_eq!(world.published, "HALT HOLD_EXPIRED");
    // What is not held has been held for no time.
    let mut open = World::of(config(|_| {}), begun.core.engine().clone(), DriverState::new());
    open.core = open.core.held_for(Duration::from_secs(299));
    open.rounds(&["+++", "x++", "x++", "x++"]);
    assert_eq!(open.published, "HOLD SWITCHING");
}

#[test]
fn b19_a_halt_is_retried_until_its_hook_confirms_it() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "xxx", "xxx"]);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT NO_TARGET_AVAILABLE"));
    assert!(world.noted("SUSPECT_OBSERVER"));
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    assert!(!world.core.state().halt_confirmed);
    world.wait(1);
    world.end_hook(Stage::Halt, HookResult::Ok);
    assert!(world.core.state().halt_confirmed);
    // A path that comes back is switched to, fenced as ever, and reconciled; nothing opens by itself.
    world.rounds(&["x+x"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Reconcile), "HOLD RECONCILING"));
}

#[test]
fn the_waits_between_attempts_at_a_halt_grow_and_are_bounded() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "xxx", "xxx"]);
    assert_eq!(world.stage(), Some(Stage::Halt));
    for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
        world.end_hook(Stage::Halt, HookResult::Exit(1));
        let due = world.now + seconds * SECOND;
        world.now = due - 1;
        world.event(Event::Deadline);
        assert_eq!(world.stage(), None, "a nanosecond before {seconds} s");
        assert_eq!(world.core.next_deadline().map(Timestamp::as_nanos), Some(due));
        world.now = due;
        world.event(Event::Deadline);
        assert_eq!(world.stage(), Some(Stage::Halt), "after {seconds} s");
    }
    // Another halt is told at once, and its waits begin anew.
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    assert!(world.command(Command::Halt { text: "by hand".to_owned() }).is_ok());
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    assert_eq!(world.stage(), None);
    world.wait(1);
    assert_eq!(world.stage(), Some(Stage::Halt));
}

#[test]
fn a_failback_waits_for_its_gates_and_is_staged_like_a_failover() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    for _ in 0..59 {
        world.round("+++");
        assert_eq!((world.stage(), &*world.published), (None, "OPEN west #2"));
    }
    world.round("+++");
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.target.as_deref()), (Stage::Fence, "west", Some("east")));
    assert_eq!(world.published, "HOLD SWITCHING");
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    assert_eq!(world.published, "OPEN east #3");
}

#[test]
fn a_primary_lost_during_its_failback_leaves_the_fenced_path_all_the_same() {
    let mut world = World::new(config(|config| {
        config.policy =
            Policy::new(PolicySettings { cooldown: Duration::ZERO, failure_threshold: 2, ..Default::default() })
                .unwrap();
    }));
    world.rounds(&["+++", "x++", "x++"]);
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    world.rounds(&["+++", "+++", "+++"]);
    assert_eq!(world.stage(), Some(Stage::Fence));
    world.rounds(&["x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.running.as_ref().unwrap().1.endpoint, "north");
}

#[test]
fn manual_failback_is_reported_once_and_done_by_a_person() {
    let mut world = World::new(config(|config| config.failback = FailbackMode::Manual));
    world.rounds(&["+++", "x++", "x++"]);
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    assert!(world.command(Command::Failback).unwrap_err().starts_with("NO_ACTION"));
    for _ in 0..100 {
        world.round("+++");
    }
    assert_eq!(world.published, "OPEN west #2");
    assert_eq!(world.records.iter().filter(|e| matches!(e, Entry::Note { code: "FAILBACK_POSSIBLE", .. })).count(), 1);
    assert!(world.command(Command::Failback).unwrap().starts_with("FENCE_REQUIRED: accepted; "));
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn a_pause_assesses_and_moves_nothing() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    assert!(world.command(Command::Pause).is_ok());
    world.rounds(&["x++", "x++", "x++"]);
    assert_eq!((world.stage(), &*world.published), (None, "OPEN east #1"));
    assert!(world.noted("PAUSED_ANSWER"));
    assert!(world.command(Command::Switchover { target: "west".to_owned() }).is_err());
    assert!(world.command(Command::Unpause).is_ok());
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn a_failover_during_reconciliation_abandons_the_hook_and_does_not_wait_for_it() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    let (ticket, _) = world.running.clone().unwrap();
    world.rounds(&["xx+", "xx+"]);
    assert_eq!((world.abandoned.clone(), &*world.published), (vec![ticket], "HOLD SWITCHING"));
    world.end_hook(Stage::Reconcile, HookResult::Abandoned);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.epoch), (Stage::Fence, "west", 2));
}

#[test]
fn a_freeze_is_told_before_the_fence() {
    let mut world = World::new(config(|config| config.hooks.flow = hook(true)));
    world.rounds(&["+++"]);
    world.end_hook(Stage::Flow, HookResult::Ok);
    world.rounds(&["x++", "x++"]);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, request.detail.as_deref()), (Stage::Flow, Some("HOLD SWITCHING")));
    world.end_hook(Stage::Flow, HookResult::Timeout);
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn without_a_fence_hook_only_a_person_moves_flow() {
    let mut world = World::new(config(|config| config.hooks.fence = Vec::new()));
    world.rounds(&["+++", "x++", "x++", "x++"]);
    assert_eq!((world.stage(), &*world.published), (None, "HOLD SWITCHING"));
    assert!(world.command(Command::ConfirmFence { epoch: 1 }).is_ok());
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn b14_throttled_results_count_as_nothing_and_silence_is_loud() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    for _ in 0..40 {
        world.now += SECOND;
        let throttled = Verdict::NoEvidence { cause: NoEvidence::Throttled, text: "429".to_owned(), retry_after: None };
        world.verdict("east", throttled);
        world.slot("west", true);
    }
    assert_eq!((world.stage(), &*world.published), (None, "OPEN east #1"));
    assert!(world.noted("ACTIVE_SILENT"));
}

#[test]
fn a_stall_forgets_what_was_seen_and_waits_for_every_endpoint() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++"]);
    world.event(Event::Stall { text: "frozen for 10 s".to_owned() });
    world.slot("east", false);
    assert_eq!(world.core.engine().health(world.core.engine().id("east").unwrap()).unwrap().consecutive_failures(), 1);
    world.slot("east", false);
    assert_eq!(world.stage(), None, "west and north have not been heard of since");
    world.slot("west", true);
    world.slot("north", true);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
}

#[test]
fn a_freeze_that_is_told_for_each_endpoint_is_recorded_once_and_waits_for_the_disk_once() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++"]);
    let stall = |world: &mut World| {
        let effects = world.core.handle(Timestamp::from_nanos(world.now), Event::Stall { text: "frozen".to_owned() });
        effects.iter().find_map(|effect| match effect {
            Effect::Record { entry: Entry::Input { verb: Verb::Restart(_), .. }, durable } => Some(*durable),
            _ => None,
        })
    };
    assert_eq!([(); 3].map(|()| stall(&mut world)), [Some(true), None, None]);
    world.slot("east", true);
    assert_eq!(stall(&mut world), Some(true), "there was something to forget");
}

#[test]
fn a_journal_that_fails_halts_and_takes_back_what_was_not_durable() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.core.engine().epoch().unwrap().get(), 2);
    // The record of SWITCHED could not be written: nothing of what followed it happened.
    let (ticket, request) = world.running.take().unwrap();
    let entry = world.records.iter().rfind(|entry| is_switched(entry)).unwrap().clone();
    let undone =
        vec![Effect::Record { entry, durable: true }, Effect::Run { ticket, level: 0, request: Box::new(request) }];
    world.event(Event::JournalFailed { text: "no space left".to_owned(), undone });
    assert_eq!(world.stage(), Some(Stage::Halt), "the hook that was not started does not bar the halt hook");
    assert_eq!(world.core.engine().epoch().unwrap().get(), 1);
    assert_eq!(world.published, "HALT JOURNAL_FAILED");
    world.rounds(&["x++", "x++"]);
    world.end_hook(Stage::Halt, HookResult::Ok);
    assert_eq!((world.stage(), world.core.engine().epoch().unwrap().get()), (None, 1));
    assert!(world.command(Command::Resume).is_err());
}

fn is_switched(entry: &Entry) -> bool {
    matches!(entry, Entry::Input { answer: Outcome::Decided("SWITCHED", _), .. })
}

#[test]
fn a_journal_that_fails_takes_back_nothing_that_is_on_disk() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    world.rounds(&["x++", "x++"]);
    world.event(Event::JournalFailed { text: "no space left".to_owned(), undone: Vec::new() });
    assert_eq!(world.published, "HALT JOURNAL_FAILED");
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.epoch), (Stage::Halt, "west", 2));
}

#[test]
fn a_journal_that_fails_while_a_hook_runs_lets_it_end_and_then_only_halts() {
    for (stages, running) in [(0, Stage::Fence), (1, Stage::Switch), (2, Stage::Reconcile)] {
        let mut world = World::new(config(|_| {}));
        world.rounds(&["+++", "x++", "x++"]);
        for stage in [Stage::Fence, Stage::Switch].into_iter().take(stages) {
            world.end_hook(stage, HookResult::Ok);
        }
        let epoch = world.core.engine().epoch();
        world.event(Event::JournalFailed { text: "no space left".to_owned(), undone: Vec::new() });
        world.end_hook(running, HookResult::Ok);
        world.end_hook(Stage::Halt, HookResult::Exit(1));
        world.wait(1);
        world.end_hook(Stage::Halt, HookResult::Ok);
        world.rounds(&["x++", "+++", "+++"]);
        assert_eq!((world.stage(), &*world.published), (None, "HALT JOURNAL_FAILED"));
        assert_eq!(world.core.engine().epoch(), epoch);
    }
}

#[test]
fn nothing_is_due_again_after_it_was_done() {
    // A wait that is over and still named would make the loop spin.
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "xxx", "xxx"]);
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    world.wait(1);
    for _ in 0..3 {
        let next = world.core.next_deadline();
        assert!(next.is_none_or(|at| at.as_nanos() > world.now), "{next:?} is past");
        world.wait(0);
    }
    world.end_hook(Stage::Halt, HookResult::Ok);
    let next = world.core.next_deadline();
    assert!(next.is_none_or(|at| at.as_nanos() > world.now), "{next:?} is past");
}

#[test]
fn a_refused_confirmation_moves_nothing() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).unwrap_err().contains("under way"));
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).is_err());
    assert!(!world.core.state().carried);
}

#[test]
fn a_person_who_confirms_a_fence_closes_the_path_even_if_it_recovered_meanwhile() {
    let mut world = World::new(config(|config| config.hooks.fence = Vec::new()));
    world.rounds(&["+++", "x++", "x++"]);
    // It recovers, and is reconciled: nobody needs to leave it any more, and a late confirmation is refused.
    world.round("+++");
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.published, "OPEN east #1");
    assert!(world.command(Command::ConfirmFence { epoch: 1 }).unwrap_err().contains("no fence is wanted"));
    world.rounds(&["x++", "x++"]);
    assert_eq!((world.stage(), &*world.published), (None, "HOLD SWITCHING"), "an old word is no proof");
    // An operator's move: flow stays open until a person has fenced the path, and is closed by that.
    world.round("+++");
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    let said = world.command(Command::Switchover { target: "north".to_owned() }).unwrap();
    assert!(said.starts_with("FENCE_REQUIRED: accepted; "), "{said}");
    assert_eq!(world.published, "OPEN east #1");
    assert!(world.command(Command::ConfirmFence { epoch: 1 }).is_ok());
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.epoch), (Stage::Switch, "north", 2));
}

#[test]
fn a_proof_that_no_longer_holds_is_made_anew() {
    let mut world = World::new(config(|config| config.hooks.fence[0].holds = Some(Duration::from_secs(10))));
    world.rounds(&["+++", "x++", "x++", "xxx", "xxx", "xxx"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.published, "HALT NO_TARGET_AVAILABLE");
    world.end_hook(Stage::Halt, HookResult::Ok);
    for _ in 0..12 {
        world.round("xxx");
    }
    if world.stage() == Some(Stage::Fence) {
        world.end_hook(Stage::Fence, HookResult::Ok);
    }
    world.wait(60);
    world.rounds(&["x+x"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn what_a_fence_proves_and_for_how_long_is_recorded_with_the_switch_and_shown() {
    let mut world = World::new(config(|config| {
        config.hooks.fence = [hook(false), hook(false)].concat();
        config.hooks.fence[1].proves = Some("credential revoked".to_owned());
        config.hooks.fence[1].holds = Some(Duration::from_secs(10));
    }));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    world.now += SECOND;
    world.end_hook(Stage::Fence, HookResult::Ok);
    let proof = GroupStatus::of(&world.core, Timestamp::from_nanos(world.now)).proof.unwrap();
    assert_eq!((proof.level, proof.until), (Some(1), Some(world.now + 10 * SECOND)), "from the hook's end on");
    for stage in [Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    // A hook that says nothing of it, and a person, prove until somebody undoes it.
    world.rounds(&["xx+", "xx+"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    for stage in [Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    world.rounds(&["+xx", "+xx"]);
    assert!(world.command(Command::ConfirmFence { epoch: 3 }).is_ok());
    let proof = GroupStatus::of(&world.core, Timestamp::from_nanos(world.now)).proof.unwrap();
    assert_eq!((proof.epoch, proof.level, proof.until), (3, None, None));
    let of = |entry: &Entry| match entry {
        Entry::Stage(record) => record.fence.clone(),
        _ => None,
    };
    let proofs: Vec<_> = world.records.iter().filter_map(of).collect();
    let told: Vec<_> = proofs.iter().map(|proof| (&*proof.endpoint, proof.epoch, &*proof.by)).collect();
    assert_eq!(told, [("east", 1, "fence hook 1"), ("west", 2, "fence hook 0"), ("north", 3, "a person")]);
    let proved: Vec<_> =
        proofs.iter().map(|proof| (proof.proves.as_deref(), proof.holds.map(|holds| holds.0 / SECOND))).collect();
    assert_eq!(proved, [(Some("credential revoked"), Some(10)), (Some("session closed"), None), (None, None)]);
}

#[test]
fn a_hook_is_told_the_reason_of_the_decision_that_it_carries_out_whatever_is_answered_meanwhile() {
    let mut world = World::new(config(|_| {}));
    let reason = |world: &World| world.running.as_ref().map(|(_, request)| (request.stage, request.reason.clone()));
    let told = |stage, reason: &str| Some((stage, reason.to_owned()));
    world.rounds(&["+++", "x++", "x++", "x++"]);
    assert_eq!(reason(&world), told(Stage::Fence, "FENCE_NOT_CONFIRMED"));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(reason(&world), told(Stage::Switch, "ACTIVE_DOWN"));
    // West is well meanwhile, and the cooldown bars the way back.
    world.rounds(&["+++", "+++"]);
    world.end_hook(Stage::Switch, HookResult::Ok);
    assert_eq!(reason(&world), told(Stage::Reconcile, "ACTIVE_DOWN"));
    world.end_hook(Stage::Reconcile, HookResult::Exit(1));
    world.rounds(&["+++"]);
    assert_eq!(reason(&world), told(Stage::Reconcile, "ACTIVE_DOWN"), "when it is tried again, too");
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    world.rounds(&["+++"]);
    // A person halts: that is no decision of ours.
    assert!(world.command(Command::Halt { text: "look first".to_owned() }).is_ok());
    let code = world.core.engine().halt_order().unwrap().code().to_owned();
    assert_eq!(reason(&world), told(Stage::Halt, &code));
    world.end_hook(Stage::Halt, HookResult::Ok);
    assert!(world.command(Command::Resume).is_ok());
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    world.rounds(&["xxx", "xxx"]);
    assert_eq!(reason(&world), told(Stage::Halt, "NO_ELIGIBLE_TARGET"));
}

#[test]
fn b34_switches_that_fail_in_a_row_end_in_a_halt_that_a_person_lifts() {
    let mut world = World::new(config(|config| config.hooks.halt = Vec::new()));
    world.rounds(&["+++", "x++", "x++"]);
    for _ in 0..3 {
        world.end_hook(Stage::Fence, HookResult::Ok);
        world.end_hook(Stage::Switch, HookResult::Exit(1));
    }
    assert_eq!(world.published, "HALT SWITCH_FAILED");
    // The path that was not reached is fenced; then nothing is hammered.
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.rounds(&["x++"; 20]);
    assert_eq!((world.stage(), world.core.engine().epoch().unwrap().get()), (None, 4));
    assert!(world.command(Command::Resume).is_ok());
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn a_lost_state_folder_begins_held_on_the_stated_endpoint() {
    let config = config(|_| {});
    let engine = first_start(&config, "west", Timestamp::ZERO).unwrap();
    assert!(first_start(&config, "nowhere", Timestamp::ZERO).is_err());
    let mut world = World::of(config, engine, DriverState::new());
    assert_eq!(world.published, "HOLD RECONCILING");
    world.event(Event::Deadline);
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.core.engine().order_flow(), OrderFlow::Hold { reason: crate::engine::HoldReason::Starting });
    world.round("+++");
    assert_eq!(world.published, "OPEN west #1");
}

#[test]
fn folding_the_records_gives_the_state_that_was_lost() {
    let mut world = World::new(config(|_| {}));
    let stages = [Stage::Fence, Stage::Switch, Stage::Reconcile];
    world.rounds(&["+++", "x++", "x++"]);
    for (done, stage) in stages.into_iter().enumerate() {
        let mut folded = DriverState::new();
        world.records.iter().for_each(|entry| folded.fold(&entry.to_body()));
        assert_eq!(folded.running.map(|(stage, _)| stage), Some(stage), "after {done} stages");
        assert_eq!(folded.carried, world.core.state().carried);
        assert_eq!(folded.plan, world.core.state().plan);
        world.end_hook(stage, HookResult::Ok);
    }
    let mut folded = DriverState::new();
    world.records.iter().for_each(|entry| folded.fold(&entry.to_body()));
    assert_eq!((folded.running, folded.carried, folded.plan), (None, true, None));
}

/// A fault of ours, in the middle of a loop.
#[derive(Clone)]
struct Panics;

impl Ledger for Panics {
    fn append(&self, _: &Arc<str>, _: Timestamp, _: Entry) {
        panic!("a fault of the test");
    }

    async fn append_durable(&self, _: &Arc<str>, _: Timestamp, _: &Entry) -> Result<(), String> {
        panic!("a fault of the test");
    }
}

#[tokio::test]
async fn a_loop_that_ends_by_a_fault_of_its_own_is_noticed() {
    let start = |name: &str| {
        let config = config(|config| {
            name.clone_into(&mut config.name);
            config.hooks = Hooks::default();
        });
        let engine = first_start(&config, "east", Timestamp::ZERO).unwrap();
        let core = Core::new(config, engine, DriverState::new(), Timestamp::ZERO);
        let (_, events) = tokio::sync::mpsc::channel(1);
        let results = task::Results { events, watched: Vec::new(), limits: Limits::default() };
        task::start(core, Panics, BootClock::default(), results, None)
    };
    let groups = [start("lives"), start("breaks")];
    let command = Command::Pause;
    let (answer, _answered) = tokio::sync::oneshot::channel();
    groups[1].inbox.send(Message::Ask { command, caller: None, answer }).await.unwrap();
    assert_eq!(task::until_one_ends(&groups).await, "breaks");
    assert!(groups[0].status().await.is_some());
}

#[test]
fn a_hook_that_keeps_failing_is_told_with_its_reason_and_what_a_person_can_do() {
    let mut world = World::new(config(|_| {}));
    let trouble = |world: &World| world.core.hook_trouble(Timestamp::from_nanos(world.now));
    world.rounds(&["+++", "x++", "x++"]);
    assert_eq!(trouble(&world), None);
    for failures in 1..=2 {
        let (ticket, _) = world.running.take().unwrap();
        let output = "trying\ncannot reach the gateway\n".to_owned();
        let report = HookReport { result: HookResult::Exit(3), millis: 1, output, counts: None };
        world.event(Event::HookEnded { ticket, report });
        let times = if failures == 1 { "once, with" } else { "2 times, the last time with" };
        let expected = format!(
            "the fence hook failed {times} exit status 3: cannot reach the gateway; again in {failures} s; or \
             confirm-fence --epoch 1"
        );
        assert_eq!(trouble(&world), Some(expected));
        while world.stage().is_none() {
            world.round("x++");
        }
    }
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(trouble(&world), None, "what succeeded at last is no trouble");
    world.end_hook(Stage::Switch, HookResult::Ok);
    let (ticket, _) = world.running.take().unwrap();
    let counts = Some(ReconcileCounts { resting: 0, filled: 0, unknown: 2 });
    let report = HookReport { result: HookResult::Ok, millis: 1, output: String::new(), counts };
    world.event(Event::HookEnded { ticket, report });
    let text = trouble(&world).unwrap();
    assert!(text.contains("2 orders of unknown fate") && text.ends_with("or confirm-reconciled --epoch 2"), "{text}");
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).is_ok());
    assert_eq!(trouble(&world), None);
}

#[test]
fn a_paused_group_says_what_it_would_do_and_that_a_halt_hook_waits() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    let would = |world: &World| world.core.would_answer(Timestamp::from_nanos(world.now));
    assert!(world.command(Command::Pause).is_ok());
    assert_eq!(would(&world), None, "nothing to do");
    world.rounds(&["x++", "x++"]);
    assert!(would(&world).unwrap().starts_with("FENCE_REQUIRED: "), "{:?}", would(&world));
    let said = world.command(Command::Halt { text: "desk".to_owned() }).unwrap();
    assert_eq!(said, "HALT OPERATOR; paused: the halt hook runs only after unpause");
    assert_eq!(world.stage(), None);
    assert!(world.command(Command::Unpause).is_ok());
    assert_eq!((world.stage(), would(&world)), (Some(Stage::Halt), None));
}
