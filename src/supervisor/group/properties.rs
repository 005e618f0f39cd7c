//! What holds for the decision loop in every sequence of events, crashes and failures of the journal.
//!
//! How many sequences there are is `BROKER_FAILOVER_CASES` (400 unless it is set), and which ones is
//! `BROKER_FAILOVER_SEED` (0 unless it is set: the same tree gives the same verdict twice).

mod shadow;
mod steps;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::engine::{
    Engine, Epoch, FailoverOutcome, HaltCode, HaltOrder, Input, OrderFlow, Output, Policy, RestartKind,
    ResumeAfterHalt, SwitchKind, Timestamp,
};
use crate::scenario::Verb;
use crate::supervisor::config::GroupConfig;
use crate::supervisor::hooks::{HookReport, HookRequest, HookResult, ReconcileCounts, Stage};
use crate::supervisor::journal::{Body, Follow, ShadowRecord, StageRecord, SwitchStage, awake, flow_text};
use crate::supervisor::probes::{Evidence, Fault, NoEvidence, Verdict};
use crate::supervisor::reload::of_group;

use super::core::Plan;
use super::{Command, Core, DriverState, Effect, Entry, Event, Observed, Outcome, Reloaded, adapted};
use steps::{Edit, Setting, Step, Trouble, Which, settings, steps};

const SECOND: u64 = 1_000_000_000;
const NAMES: [&str; 3] = ["east", "west", "north"];

/// What the journal says: an engine and a memory that follow the records.
#[derive(Clone)]
struct Disk {
    engine: Engine,
    memory: DriverState,
    at: Timestamp,
    /// How each epoch was proved to be fenced, by the records.
    fenced: BTreeMap<u64, u32>,
    /// The kind of the switch to each epoch.
    kinds: BTreeMap<u64, SwitchKind>,
    /// Epochs that were left while no fence was required.
    unfenced: BTreeSet<u64>,
    last: Option<Entry>,
}

impl Disk {
    fn follow(&mut self, now: Timestamp, entry: &Entry) -> Result<(), TestCaseError> {
        self.at = self.at.max(now);
        match entry {
            Entry::Input { verb: Verb::Input(input), answer } => self.input(now, input, answer)?,
            Entry::Input { verb: Verb::Restart(kind), .. } => {
                let policy = self.engine.policy().clone();
                self.engine = Engine::restore(policy, self.engine.snapshot(now), now, *kind).unwrap();
            }
            Entry::Input { .. } => prop_assert!(false, "no input of an engine: {entry:?}"),
            Entry::HookEnd { stage: Stage::Fence, epoch, report, .. } if report.result == HookResult::Ok => {
                *self.fenced.entry(*epoch).or_default() += 1;
            }
            Entry::Command { command: Command::ConfirmFence { epoch }, refused: None, .. } => {
                *self.fenced.entry(*epoch).or_default() += 1;
            }
            Entry::HookStart { request, .. } => self.stage_before(request)?,
            Entry::Stage(record) => self.stage(record)?,
            _ => {}
        }
        self.memory.fold(&entry.to_body());
        self.last = Some(entry.clone());
        Ok(())
    }

    /// A hook that moves something starts only after the record of the stage that leads to it.
    fn stage_before(&self, request: &HookRequest) -> Result<(), TestCaseError> {
        let last = (self.memory.stage.stage, self.memory.stage.epoch);
        let (present, before) = (request.epoch, request.epoch.saturating_sub(1));
        let leads = match request.stage {
            Stage::Fence => last == (SwitchStage::Decided, present),
            Stage::Switch => matches!(last, (SwitchStage::Decided | SwitchStage::Fenced, epoch) if epoch == before),
            _ => true,
        };
        prop_assert!(leads, "{request:?} starts after {last:?}");
        Ok(())
    }

    /// Stages come in their order, and say what is so.
    fn stage(&self, record: &StageRecord) -> Result<(), TestCaseError> {
        use SwitchStage::{Abandoned, Decided, Failed, Fenced, Open, Reconciled, Switched};
        let last = self.memory.stage.stage;
        let follows = match record.stage {
            Decided => last != Decided,
            Fenced => last == Decided,
            Switched | Failed => matches!(last, Decided | Fenced),
            Reconciled => last == Switched,
            Open => matches!(last, Switched | Reconciled),
            Abandoned => last == Decided,
        };
        prop_assert!(follows, "{record:?} after {last:?}");
        let epoch = self.engine.epoch().map_or(0, Epoch::get);
        match record.stage {
            Open => {
                let flow = self.engine.order_flow();
                let is_open = matches!(flow, OrderFlow::Open { epoch, .. } if epoch.get() == record.epoch);
                prop_assert!(is_open, "{record:?} at {flow:?}");
            }
            Fenced => {
                prop_assert!(self.fenced.contains_key(&record.epoch), "{record:?} without a proof");
                prop_assert!(record.fence.as_ref().is_some_and(|fence| fence.epoch == record.epoch));
            }
            Switched => prop_assert!(record.epoch == epoch && !self.memory.spent),
            Failed => prop_assert!(record.epoch < epoch || self.memory.spent && !self.memory.carried),
            _ => {}
        }
        Ok(())
    }

    fn input(&mut self, now: Timestamp, input: &Input, stated: &Outcome) -> Result<(), TestCaseError> {
        let result = self.engine.apply(now, input.clone());
        match (&result, stated) {
            (Ok(Output::Decision(decision)), Outcome::Decided(outcome, reason)) => {
                prop_assert_eq!((decision.outcome.name(), decision.reason.code()), (*outcome, *reason));
                if let FailoverOutcome::Switched(event) = decision.outcome {
                    self.kinds.insert(event.epoch.get(), event.kind);
                    if !self.engine.policy().settings().require_fence {
                        self.unfenced.insert(event.epoch.get() - 1);
                    }
                }
            }
            (Ok(Output::Health(change)), Outcome::Probed { to, .. }) => prop_assert_eq!(change.to.name(), *to),
            (Ok(_), Outcome::Taken) => {}
            (Err(error), Outcome::Refused(code)) => prop_assert_eq!(error.code(), *code),
            _ => prop_assert!(false, "{input:?}: recorded {stated:?}, read back {result:?}"),
        }
        Ok(())
    }
}

/// The shadow policy of a group.
#[derive(Clone)]
enum Shadowed {
    Not,
    By(Policy),
    /// By its own policy, whatever that is.
    Same,
}

impl Shadowed {
    fn put(&self, config: GroupConfig) -> GroupConfig {
        let shadow = match self {
            Self::Not => None,
            Self::By(policy) => Some(policy.clone()),
            Self::Same => Some(config.policy.clone()),
        };
        GroupConfig { shadow, ..config }
    }
}

struct World {
    config: GroupConfig,
    /// The configuration of the first start: with every endpoint.
    first: GroupConfig,
    core: Core,
    now: u64,
    /// Everything that was written.
    written: Disk,
    /// Everything up to the last durable record.
    durable: Disk,
    running: Option<(u64, HookRequest)>,
    published: String,
    /// The highest epoch that was ever published, in any run.
    epoch: Option<Epoch>,
    reply: Option<Result<String, String>>,
    journal_failed: bool,
    shadowed: Shadowed,
    /// What was said of the shadow.
    shadows: Vec<ShadowRecord>,
    /// All other effects, if somebody wants to know.
    trace: Option<Vec<String>>,
    seen: Rc<RefCell<BTreeSet<String>>>,
}

impl World {
    fn new(config: GroupConfig, seen: Rc<RefCell<BTreeSet<String>>>) -> Self {
        let mut engine = Engine::new(config.policy.clone());
        for endpoint in &config.endpoints {
            engine.register(endpoint.endpoint.clone()).unwrap();
        }
        let memory = DriverState::new();
        let core = Core::new(config.clone(), engine.clone(), memory.clone(), Timestamp::ZERO);
        let disk = Disk {
            engine,
            memory,
            at: Timestamp::ZERO,
            fenced: BTreeMap::new(),
            kinds: BTreeMap::new(),
            unfenced: BTreeSet::new(),
            last: None,
        };
        Self {
            published: flow_text(core.engine()),
            epoch: core.engine().epoch(),
            first: config.clone(),
            config,
            core,
            now: 0,
            written: disk.clone(),
            durable: disk,
            running: None,
            reply: None,
            journal_failed: false,
            shadowed: Shadowed::Not,
            shadows: Vec::new(),
            trace: None,
            seen,
        }
    }

    fn saw(&self, what: impl Into<String>) {
        self.seen.borrow_mut().insert(what.into());
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    /// The effects of an event but for what is said of the shadow, which nothing may follow from.
    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let is_shadow = |effect: &Effect| matches!(effect, Effect::Record { entry: Entry::Shadow(_), .. });
        let (said, effects): (Vec<_>, Vec<_>) = self.core.handle(self.now(), event).into_iter().partition(is_shadow);
        for effect in said {
            if let Effect::Record { entry: Entry::Shadow(record), durable: false } = effect {
                self.shadows.push(*record);
            }
        }
        if let Some(trace) = &mut self.trace {
            trace.extend(effects.iter().map(|effect| format!("{effect:?}")));
        }
        effects
    }

    fn event(&mut self, event: Event, trouble: Trouble) -> Result<(), TestCaseError> {
        let lifts = matches!(&event, Event::Command { command: Command::Resume, .. });
        let before = (self.core.engine().order_flow(), self.core.engine().epoch());
        let mut effects = self.handle(event);
        let mut place = 0;
        while place < effects.len() {
            match trouble {
                Trouble::Crash { before, loses } if before == place => return self.crash(loses),
                Trouble::Journal { from } if place >= from && !self.journal_failed => {
                    if matches!(effects[place], Effect::Record { durable: true, .. }) {
                        self.journal_failed = true;
                        self.saw(if self.running.is_some() { "journal fails, hook runs" } else { "journal fails" });
                        let undone = effects.split_off(place);
                        let text = "no space left".to_owned();
                        effects = self.handle(Event::JournalFailed { text, undone });
                        place = 0;
                        // What a moment that was not written decided is forgotten: the path is what is on disk.
                        prop_assert_eq!(self.core.engine().active(), self.durable_or_written().engine.active());
                        prop_assert_eq!(self.core.engine().epoch(), self.durable_or_written().engine.epoch());
                        continue;
                    }
                }
                _ => {}
            }
            self.effect(&effects[place])?;
            place += 1;
        }
        if let Trouble::Crash { loses, .. } = trouble {
            return self.crash(loses);
        }
        self.check(before.0, lifts)
    }

    /// With a journal that failed: everything that was written before the record that could not be.
    fn durable_or_written(&self) -> &Disk {
        &self.written
    }

    fn effect(&mut self, effect: &Effect) -> Result<(), TestCaseError> {
        match effect {
            Effect::Record { entry, durable } => {
                if !self.journal_failed {
                    self.written.follow(self.now(), entry)?;
                    if *durable {
                        self.durable = self.written.clone();
                    }
                }
            }
            Effect::Publish { path, .. } => {
                let epoch = path.active().map(|active| active.epoch);
                prop_assert!(epoch >= self.epoch, "a published epoch was taken back");
                if epoch > self.epoch {
                    prop_assert!(!self.journal_failed, "a new epoch although nothing can be recorded");
                    prop_assert_eq!(&self.durable.last, &self.written.last, "an epoch before its record was durable");
                    self.epoch = epoch;
                }
                if path.open().is_some() {
                    prop_assert!(!self.journal_failed, "flow opened although nothing can be recorded");
                    prop_assert_eq!(
                        &self.durable.last,
                        &self.written.last,
                        "flow opened before its record was durable"
                    );
                    let OrderFlow::Open { endpoint, epoch } = path.order_flow() else { unreachable!() };
                    prop_assert_eq!(Some(endpoint), self.durable.engine.active());
                    prop_assert_eq!(Some(epoch), self.durable.engine.epoch());
                }
                self.published = match path.order_flow() {
                    OrderFlow::Open { endpoint, epoch } => format!("OPEN {} #{epoch}", self.core.name(endpoint)),
                    OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
                    OrderFlow::Halt { .. } => "HALT".to_owned(),
                };
            }
            Effect::Run { ticket, level, request } => self.run(*ticket, *level, request)?,
            Effect::Abandon { ticket } => {
                prop_assert_eq!(self.running.as_ref().map(|(running, _)| running), Some(ticket));
            }
            Effect::ClearLogons => {}
            Effect::Reply(reply) => self.reply = Some(reply.clone()),
        }
        Ok(())
    }

    fn run(&mut self, ticket: u64, level: usize, request: &HookRequest) -> Result<(), TestCaseError> {
        prop_assert!(self.running.is_none(), "two hooks at once");
        prop_assert!(self.core.hook(request.stage, level).is_some(), "no such hook");
        if self.journal_failed {
            prop_assert!(matches!(request.stage, Stage::Halt | Stage::Flow), "{:?} unrecorded", request.stage);
        } else {
            let last = if request.stage == Stage::Flow { &self.written.last } else { &self.durable.last };
            let announced = matches!(last, Some(Entry::HookStart { ticket: started, .. }) if *started == ticket);
            prop_assert!(announced, "a hook started before its record was durable: {last:?}");
        }
        if request.stage == Stage::Switch {
            let disk = &self.durable;
            prop_assert_eq!(disk.engine.epoch().map(|epoch| epoch.get()), Some(request.epoch));
            prop_assert!(!disk.engine.is_spent());
            let kind = disk.kinds.get(&request.epoch);
            let fenced = disk.fenced.contains_key(&(request.epoch - 1));
            let needs = !disk.unfenced.contains(&(request.epoch - 1)) && kind != Some(&SwitchKind::Rearm);
            prop_assert!(fenced || !needs, "epoch {} was not fenced", request.epoch - 1);
        }
        if request.stage == Stage::Fence {
            prop_assert!(self.durable.engine.is_spent(), "a fence of an epoch that could open again");
        }
        self.saw(format!("{:?} hook", request.stage));
        if level > 0 {
            self.saw(format!("{:?} hook, next level", request.stage));
        }
        self.running = Some((ticket, request.clone()));
        Ok(())
    }

    fn check(&mut self, before: OrderFlow, lifts: bool) -> Result<(), TestCaseError> {
        let engine = self.core.engine();
        let flow = engine.order_flow();
        // What is published is what is decided.
        let text = flow_text(engine);
        self.saw(text.split(['#']).next().unwrap_or_default());
        let shown = if flow.is_halt() { "HALT" } else { &*text };
        prop_assert_eq!(&*self.published, shown);
        // Halts.
        if self.journal_failed {
            prop_assert_eq!(&*text, "HALT JOURNAL_FAILED");
        }
        match before {
            OrderFlow::Halt { code: HaltCode::Operator | HaltCode::Caller } => {
                prop_assert!(flow.is_halt() || lifts, "a halt was lifted by nobody: {text}");
            }
            OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => {
                let latched = self.config.policy.settings().resume_after_halt == ResumeAfterHalt::Operator;
                prop_assert!(
                    flow.is_halt() || (!latched || lifts) && !matches!(flow, OrderFlow::Open { .. }),
                    "{text}"
                );
            }
            _ => {}
        }
        // Open.
        if matches!(flow, OrderFlow::Open { .. }) {
            prop_assert!(!engine.is_spent());
            let epoch = engine.epoch().map_or(0, |epoch| epoch.get());
            prop_assert!(self.journal_failed || !self.written.fenced.contains_key(&epoch), "open, and fenced");
            prop_assert!(self.core.state().unknown_hooks.is_empty(), "open, and nobody knows what a hook did");
            if self.config.policy.settings().require_reconciliation && !self.config.hooks.switch.is_empty() {
                prop_assert!(self.core.state().carried, "open on a path that the transport was not moved to");
            }
        }
        if let Some(next) = self.core.next_deadline() {
            prop_assert!(next > self.now(), "{next:?} is not after {}", self.now);
        }
        if !self.journal_failed {
            self.same_on_disk()?;
        }
        Ok(())
    }

    /// Whoever reads the journal now knows what the loop knows.
    fn same_on_disk(&self) -> Result<(), TestCaseError> {
        let (disk, live) = (&self.written.engine, self.core.engine());
        prop_assert_eq!(flow_text(disk), flow_text(live));
        prop_assert_eq!(disk.active(), live.active());
        prop_assert_eq!(disk.epoch(), live.epoch());
        prop_assert_eq!(disk.is_spent(), live.is_spent());
        prop_assert_eq!(disk.is_operator_placed(), live.is_operator_placed());
        prop_assert_eq!(disk.halt_order().map(HaltOrder::code), live.halt_order().map(HaltOrder::code));
        prop_assert_eq!(disk.last_switch_age(self.now()), live.last_switch_age(self.now()));
        prop_assert!(disk.failback_ages(self.now()).eq(live.failback_ages(self.now())));
        prop_assert!(disk.history().eq(live.history()));
        let plain = |memory: &DriverState| {
            let mut memory = memory.clone();
            // Words and spans are the configuration's to tell.
            memory.proof.iter_mut().for_each(|proof| (proof.by, proof.until) = (String::new(), None));
            memory
        };
        prop_assert_eq!(plain(&self.written.memory), plain(self.core.state()));
        Ok(())
    }

    /// `kill -9`, and a start from what is on disk.
    fn crash(&mut self, loses: bool) -> Result<(), TestCaseError> {
        if loses {
            self.written = self.durable.clone();
        }
        let disk = self.written.clone();
        if let Some((stage, _)) = disk.memory.running {
            self.saw(format!("crash in a {stage:?} hook"));
        }
        let snapshot = adapted(&self.config, disk.engine.snapshot(disk.at));
        self.now = 1;
        let engine = Engine::restore(self.config.policy.clone(), snapshot, self.now(), RestartKind::Monitor);
        let engine = engine.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let idempotent = |stage: Stage| {
            let list = match stage {
                Stage::Flow => return true,
                Stage::Fence => &self.config.hooks.fence,
                Stage::Switch => &self.config.hooks.switch,
                Stage::Reconcile => &self.config.hooks.reconcile,
                Stage::Halt => &self.config.hooks.halt,
            };
            list.iter().all(|hook| hook.idempotent)
        };
        let open = disk.memory.running.filter(|(stage, _)| !idempotent(*stage));
        let memory = disk.memory.clone().restarted(idempotent);
        prop_assert!(
            open.is_none_or(|hook| memory.unknown_hooks.contains(&hook)),
            "a hook without an end is forgotten"
        );
        self.core = Core::new(self.config.clone(), engine.clone(), memory, self.now());
        prop_assert!(engine.epoch() >= self.epoch, "a published epoch was lost in a crash");
        // What is on disk is what a run begins with, and publishes first.
        self.epoch = engine.epoch();
        self.running = None;
        self.journal_failed = false;
        self.published = match engine.order_flow() {
            OrderFlow::Halt { .. } => "HALT".to_owned(),
            _ => flow_text(&engine),
        };
        // The state with which the new run begins is written before anything else.
        self.written = Disk { engine: engine.clone(), memory: self.core.state().clone(), at: self.now(), ..disk };
        self.durable = self.written.clone();
        let before = (engine.active(), engine.epoch(), engine.order_flow());
        self.event(Event::Deadline, Trouble::None)?;
        let engine = self.core.engine();
        prop_assert_eq!((engine.active(), engine.epoch()), (before.0, before.1), "the restart itself switched");
        let opened = matches!(engine.order_flow(), OrderFlow::Open { .. }) && before.2 != engine.order_flow();
        prop_assert!(!opened, "the restart itself opened flow");
        prop_assert!(!before.2.is_halt() || engine.order_flow().is_halt(), "the restart itself lifted a halt");
        let switches = self.running.as_ref().is_some_and(|(_, request)| request.stage == Stage::Switch);
        prop_assert!(!switches, "a switch hook ran before anything was known");
        for (stage, _) in &self.core.state().unknown_hooks {
            let runs = self.running.as_ref().is_some_and(|(_, request)| request.stage == *stage);
            prop_assert!(!runs, "{stage:?} was repeated without asking");
        }
        Ok(())
    }

    fn slot(&mut self, index: usize, verdict: u8, trouble: Trouble) -> Result<(), TestCaseError> {
        let verdict = match verdict {
            0 => Verdict::Success(Evidence::default()),
            1 => Verdict::PathFault { fault: Fault::Refused, text: "refused".to_owned() },
            _ => Verdict::NoEvidence { cause: NoEvidence::Throttled, text: "429".to_owned(), retry_after: None },
        };
        // Who is not in the file is not asked.
        let Ok(endpoint) = self.core.engine().id(NAMES[index]) else { return self.event(Event::Deadline, trouble) };
        self.event(Event::Slot(Observed { endpoint, verdict }), trouble)
    }

    fn end_hook(&mut self, how: u8, trouble: Trouble) -> Result<(), TestCaseError> {
        let Some((ticket, request)) = self.running.take() else { return Ok(()) };
        let result = match how {
            0..=5 => HookResult::Ok,
            6 | 7 => HookResult::Exit(1),
            8 => HookResult::Timeout,
            _ => HookResult::Unreachable("gone".to_owned()),
        };
        let answers = request.stage == Stage::Reconcile && result == HookResult::Ok;
        let unknown = u64::from(how == 5);
        let counts = answers.then_some(ReconcileCounts { resting: 0, filled: 0, unknown });
        let report = HookReport { result, millis: 1, output: String::new(), counts };
        self.event(Event::HookEnded { ticket, report }, trouble)
    }

    fn command(&mut self, command: Command, trouble: Trouble) -> Result<(), TestCaseError> {
        self.reply = None;
        self.event(Event::Command { command, caller: None }, trouble)
    }

    fn epoch(&self, which: Which) -> u64 {
        let present = self.core.engine().epoch().map_or(0, |epoch| epoch.get());
        match which {
            Which::Present => present,
            Which::Before => present - 1,
        }
    }

    fn step(&mut self, step: &Step, trouble: Trouble) -> Result<(), TestCaseError> {
        match step {
            Step::Round(verdicts) => {
                self.now += SECOND;
                for (index, verdict) in verdicts.iter().enumerate() {
                    self.slot(index, *verdict, if index == 2 { trouble } else { Trouble::None })?;
                }
                Ok(())
            }
            Step::Wait(seconds) => {
                self.now += seconds * SECOND;
                self.event(Event::Deadline, trouble)
            }
            Step::EndHook(how) => self.end_hook(*how, trouble),
            Step::LateHook(ticket) => self.late_hook(*ticket),
            Step::Stall => self.event(Event::Stall { text: "frozen".to_owned() }, trouble),
            Step::Pause(true) => self.command(Command::Pause, trouble),
            Step::Pause(false) => self.command(Command::Unpause, trouble),
            Step::Halt => self.command(Command::Halt { text: "desk".to_owned() }, trouble),
            Step::Resume => self.command(Command::Resume, trouble),
            Step::Rearm => self.command(Command::Rearm, trouble),
            Step::Failback => self.command(Command::Failback, trouble),
            Step::RepeatHook => self.command(Command::RepeatHook, trouble),
            Step::Switchover(target) => {
                let target = NAMES.get(*target).unwrap_or(&"nowhere");
                let alone = self.core.state().plan.is_none();
                self.command(Command::Switchover { target: (*target).to_owned() }, trouble)?;
                let taken = self.reply.as_ref().is_some_and(|reply| reply.as_deref() == Ok("FENCE_REQUIRED"));
                if alone && taken && matches!(trouble, Trouble::None) {
                    let wanted = Some(Plan::Switchover((*target).to_owned()));
                    prop_assert_eq!(&self.core.state().plan, &wanted, "where the operator wants it is forgotten");
                }
                Ok(())
            }
            Step::Maintenance(endpoint, on) => {
                let endpoint = NAMES[*endpoint].to_owned();
                self.command(Command::Maintenance { endpoint, on: *on }, trouble)
            }
            Step::ConfirmFence(which) => {
                let (epoch, fenced) = (self.epoch(*which), self.written.fenced.clone());
                self.command(Command::ConfirmFence { epoch }, trouble)?;
                if matches!(which, Which::Before) {
                    prop_assert!(!matches!(self.reply, Some(Ok(_))), "a stale fence was confirmed");
                    prop_assert_eq!(&fenced, &self.written.fenced);
                }
                Ok(())
            }
            Step::ConfirmReconciled(which) => {
                let epoch = self.epoch(*which);
                self.command(Command::ConfirmReconciled { epoch }, trouble)?;
                prop_assert!(!(matches!(which, Which::Before) && matches!(self.reply, Some(Ok(_)))));
                Ok(())
            }
            Step::Reload(edit) => self.reload(*edit, trouble),
        }
    }

    fn reload(&mut self, edit: Edit, trouble: Trouble) -> Result<(), TestCaseError> {
        let new = self.shadowed.put(edit.applied(&self.config, &self.first));
        let primary = |config: &GroupConfig| config.endpoints.iter().any(|one| one.endpoint.primary);
        // What a file is refused for whatever the state.
        if !primary(&new) || new.endpoints.len() < 2 {
            return Ok(());
        }
        let Some(change) = of_group(&self.config, &new) else { return Ok(()) };
        let (before, memory) = (self.core.engine().clone(), self.core.state().clone());
        let Reloaded { core, records, .. } = match self.core.reloaded(self.now(), &change, "hash") {
            Ok(reloaded) => reloaded,
            Err(why) => {
                self.saw(format!("reload refused: {}", why.split(' ').next().unwrap_or_default()));
                return Ok(());
            }
        };
        match trouble {
            // It dies before anything is written: the file may be the old one again.
            Trouble::Crash { before: 0..4, loses } => return self.crash(loses),
            // The journal cannot record it, so it does not happen.
            Trouble::Journal { .. } if !self.journal_failed => {
                self.journal_failed = true;
                let event = Event::JournalFailed { text: "no space left".to_owned(), undone: Vec::new() };
                for effect in self.handle(event) {
                    self.effect(&effect)?;
                }
                prop_assert_eq!(self.core.config(), &self.config);
                return self.check(before.order_flow(), false);
            }
            _ => {}
        }
        for record in records {
            match record {
                Body::Config(_) => {}
                Body::Snapshot(checkpoint) => {
                    let engine = awake(&new.policy, &checkpoint.snapshot, &checkpoint.health, self.now());
                    self.written.engine = engine.map_err(|error| TestCaseError::fail(error.to_string()))?;
                    self.written.memory.load(checkpoint.driver.as_ref().unwrap()).unwrap();
                    self.written.at = self.now();
                }
                other => prop_assert!(false, "a reload records {other:?}"),
            }
        }
        self.durable = self.written.clone();
        self.config = new;
        self.saw(format!("reload in {}", flow_text(&before).split(['#']).next().unwrap_or_default()));
        if let Some((_, request)) = &self.running {
            self.saw(format!("reload in a {:?} hook", request.stage));
        }
        if let Trouble::Crash { loses, .. } = trouble {
            return self.crash(loses);
        }
        let path = |engine: &Engine| {
            (engine.active().and_then(|id| engine.endpoint(id)).map(|one| one.name.clone()), engine.epoch())
        };
        prop_assert_eq!(path(core.engine()), path(&before), "the reload itself switched");
        prop_assert_eq!(flow_text(core.engine()), flow_text(&before), "the reload itself changed order flow");
        prop_assert_eq!(core.engine().is_spent(), before.is_spent());
        prop_assert!(core.state().carried || !memory.carried);
        for (id, endpoint) in core.engine().endpoints() {
            let known = before.id(&endpoint.name).ok().filter(|_| !change.unknown.contains(&endpoint.name));
            let expected = known.and_then(|id| before.health(id)).cloned().unwrap_or_default();
            prop_assert_eq!(core.engine().health(id), Some(&expected));
        }
        self.event(Event::Reloaded(core), Trouble::None)
    }

    fn late_hook(&mut self, ticket: u64) -> Result<(), TestCaseError> {
        if self.running.as_ref().is_some_and(|(running, _)| *running == ticket) {
            return Ok(());
        }
        let (memory, fenced) = (self.core.state().clone(), self.written.fenced.clone());
        let report = HookReport { result: HookResult::Ok, millis: 1, output: String::new(), counts: None };
        self.event(Event::HookEnded { ticket, report }, Trouble::None)?;
        prop_assert_eq!(&memory.proof, &self.core.state().proof);
        prop_assert_eq!(fenced, self.written.fenced.clone());
        Ok(())
    }

    /// A journal that failed bars nobody from being told to halt.
    fn tells_of_the_halt(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..4 {
            self.end_hook(0, Trouble::None)?;
            self.step(&Step::Wait(31), Trouble::None)?;
        }
        let memory = self.core.state();
        let asked = self.config.hooks.halt.is_empty() || memory.is_unknown(Stage::Halt);
        prop_assert!(memory.halt_confirmed || asked, "nobody was told to halt: {:?}", self.running);
        Ok(())
    }

    /// Paths that work, hooks that succeed and a person who answers lead from anywhere to open flow.
    fn recovers(&mut self) -> Result<(), TestCaseError> {
        if self.journal_failed {
            self.tells_of_the_halt()?;
            self.crash(true)?;
        }
        self.command(Command::Unpause, Trouble::None)?;
        for name in NAMES {
            self.command(Command::Maintenance { endpoint: name.to_owned(), on: false }, Trouble::None)?;
        }
        for _ in 0..60 {
            let open = matches!(self.core.engine().order_flow(), OrderFlow::Open { .. });
            if open && self.running.is_none() && self.core.state().plan.is_none() {
                return Ok(());
            }
            if self.running.is_some() {
                self.end_hook(0, Trouble::None)?;
                continue;
            }
            let epoch = self.epoch(Which::Present);
            let hooks = self.config.hooks.clone();
            if !self.core.state().unknown_hooks.is_empty() {
                self.command(Command::RepeatHook, Trouble::None)?;
            } else if self.core.engine().halt_order().is_some()
                || matches!(self.core.engine().order_flow(), OrderFlow::Halt { .. })
            {
                self.command(Command::Resume, Trouble::None)?;
            }
            if hooks.fence.is_empty() && self.core.state().plan.is_some() {
                self.command(Command::ConfirmFence { epoch }, Trouble::None)?;
            }
            if hooks.reconcile.is_empty() {
                let epoch = self.epoch(Which::Present);
                self.command(Command::ConfirmReconciled { epoch }, Trouble::None)?;
            }
            self.step(&Step::Round([0, 0, 0]), Trouble::None)?;
            if self.running.is_none() {
                self.step(&Step::Wait(31), Trouble::None)?;
                self.step(&Step::Round([0, 0, 0]), Trouble::None)?;
            }
        }
        let state = format!("{} {:?}", flow_text(self.core.engine()), self.core.state());
        prop_assert!(false, "no way out of {state}, running {:?}", self.running);
        Ok(())
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn runner() -> (u32, TestRunner) {
    let cases = u32::try_from(number("BROKER_FAILOVER_CASES", 400)).unwrap();
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number("BROKER_FAILOVER_SEED", 0).to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    (cases, TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed)))
}

#[test]
fn in_every_sequence_of_events_crashes_and_failures() {
    let (cases, mut runner) = runner();
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    let verdict = runner.run(&(settings(), steps()), |(setting, steps)| {
        let mut world = World::new(setting.config(), Rc::clone(&seen));
        world.event(Event::Deadline, Trouble::None)?;
        let mut highest = 1;
        for (step, trouble) in &steps {
            world.step(step, *trouble)?;
            let epoch = world.durable.engine.epoch().map_or(0, |epoch| epoch.get());
            prop_assert!(epoch >= highest, "the epoch went back from {highest} to {epoch}");
            highest = epoch;
        }
        for kind in world.written.kinds.values() {
            world.saw(kind.name());
        }
        world.recovers()
    });
    if let Err(error) = verdict {
        panic!("{error}");
    }
    // It must have been everywhere.
    let places = [
        "FAILOVER",
        "FAILBACK",
        "SWITCHOVER",
        "REARM",
        "OPEN east ",
        "OPEN west ",
        "OPEN north ",
        "HOLD STARTING",
        "HOLD SWITCHING",
        "HOLD RECONCILING",
        "HALT NO_TARGET_AVAILABLE",
        "HALT OPERATOR",
        "HALT HOLD_EXPIRED",
        "HALT SWITCH_FAILED",
        "HALT JOURNAL_FAILED",
        "HALT HOOK_UNKNOWN",
        "Fence hook, next level",
        "Switch hook, next level",
        "Halt hook, next level",
        "Flow hook",
        "crash in a Fence hook",
        "crash in a Switch hook",
        "crash in a Reconcile hook",
        "crash in a Halt hook",
        "journal fails",
        "journal fails, hook runs",
        "reload in OPEN east ",
        "reload in HOLD SWITCHING",
        "reload in HOLD RECONCILING",
        "reload in HALT NO_TARGET_AVAILABLE",
        "reload in a Fence hook",
        "reload in a Switch hook",
        "reload in a Reconcile hook",
        "reload in a Halt hook",
        "reload refused: the",
        "reload refused: require_fence",
        "reload refused: there",
        "reload refused: fence",
    ];
    let seen = seen.borrow();
    let missed: Vec<_> = places.iter().filter(|place| !seen.contains(**place)).collect();
    assert!(cases < 400 || missed.is_empty(), "never seen: {missed:?}");
}
