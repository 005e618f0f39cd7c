//! The staged switch, event by event.

mod bars;
mod durable;
mod hooks;
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
