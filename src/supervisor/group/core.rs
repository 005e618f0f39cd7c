//! The decision loop of a group as a state machine: decided -> fenced -> switched -> reconciled -> open.

mod commands;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{
    EndpointId, Engine, EngineError, Evaluation, FailoverDecision, FailoverOutcome, FenceClaim, HaltOrder, Input,
    InputError, OrderFlow, Output, ProbeResult, Reason, RestartKind, SwitchEvent, Timestamp,
};
use crate::path::Path;
use crate::scenario::Verb;

use super::super::config::{FailbackMode, GroupConfig};
use super::super::hooks::{HookReport, HookRequest, Stage};
use super::super::journal::{Follow, Peer, ShadowRecord, StageRecord};
use super::super::probes::Verdict;
use super::DriverState;
use super::bars::Measured;
use super::certificates::Seen;
use super::hooks::Lane;
use super::live::{Live, Sending};
use super::sessions::{SessionNews, SessionState};
use super::shadow::Shadow;

/// Failed switches in a row after which the group halts instead of trying once more.
pub(super) const MOST_FAILED_SWITCHES: u32 = 3;

/// Code of the note that stands before the record of an input that begins a halt, or gives one another code.
pub(super) const HALT_BEGINS: &str = "HALT";

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A slot came to its one result.
    Slot(Observed),
    /// This process was frozen, suspended or late: what it had seen proves nothing any more.
    Stall {
        /// In words.
        text: String,
    },
    /// Something about the session that is held open to an endpoint: no evidence.
    Session {
        /// The endpoint.
        endpoint: String,
        /// What.
        news: SessionNews,
    },
    /// A hook ended.
    HookEnded {
        /// Which run.
        ticket: u64,
        /// How.
        report: HookReport,
    },
    /// A person asked for something.
    Command {
        /// What.
        command: Command,
        /// Who, as the kernel says.
        caller: Option<Peer>,
    },
    /// A gateway says that orders may leave on a path.
    Sending(Sending),
    /// A moment that [`Core::next_deadline`] named has come.
    Deadline,
    /// What [`Core::reloaded`] made of this loop is on disk: it goes on as that.
    Reloaded(Box<Core>),
    /// The journal cannot be trusted any more.
    JournalFailed {
        /// In words.
        text: String,
        /// The effects that were not carried out: the record that could not be written, and what was to follow it.
        undone: Vec<Effect>,
    },
}

/// The one result of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// What its probes came to.
    pub verdict: Verdict,
}

/// What a person may ask of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// The active path, in this epoch, can no longer submit orders: a person made sure.
    ConfirmFence {
        /// The epoch that was fenced.
        epoch: u64,
    },
    /// Orders in flight are settled for this epoch: a person made sure.
    ConfirmReconciled {
        /// The epoch.
        epoch: u64,
    },
    /// A hook of which it is not known whether it ran may be repeated.
    RepeatHook,
    /// Halt trading.
    Halt {
        /// Reason in words.
        text: String,
    },
    /// Lift a halt.
    Resume,
    /// Give the active path a new epoch.
    Rearm,
    /// Move flow to an endpoint.
    Switchover {
        /// The endpoint.
        target: String,
    },
    /// Move flow back to the primary, through every gate.
    Failback,
    /// Go on probing and assessing, run no hook, move nothing.
    Pause,
    /// End a pause.
    Unpause,
    /// Let an endpoint be a target again that was found to front another account: a person made sure.
    Unbar {
        /// The endpoint.
        endpoint: String,
    },
    /// Let probes log on again after logons were refused: a person made sure of the credential.
    ClearLogons,
    /// Put an endpoint into maintenance or take it out.
    Maintenance {
        /// The endpoint.
        endpoint: String,
        /// Into it, or out of it.
        on: bool,
    },
}

/// Something to do, in the order of the list. A durable record is on disk before the next effect starts.
#[derive(Debug)]
pub enum Effect {
    /// Write it down.
    Record {
        /// What.
        entry: Entry,
        /// Whether everything up to it must be on disk before the next effect.
        durable: bool,
    },
    /// Let the order path see it.
    Publish {
        /// The path.
        path: Path,
        /// Reason of the decision behind it.
        reason: Option<Reason>,
    },
    /// Run a hook; its end comes back as [`Event::HookEnded`].
    Run {
        /// Number of this run.
        ticket: u64,
        /// Place in the stage's list of hooks.
        level: usize,
        /// What it is told.
        request: HookRequest,
    },
    /// Kill this run; its end still comes back.
    Abandon {
        /// Number of the run.
        ticket: u64,
    },
    /// Let probes log on again.
    ClearLogons,
    /// Answer whoever asked by this event.
    Reply(Result<String, String>),
}

/// What the journal keeps of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An input of the engine.
    Input {
        /// As in a scenario.
        verb: Verb,
        /// What the engine answered, in short.
        answer: Outcome,
    },
    /// A hook is about to run.
    HookStart {
        /// Number of the run.
        ticket: u64,
        /// Place in the stage's list of hooks.
        level: usize,
        /// What it is told.
        request: HookRequest,
    },
    /// A hook ended.
    HookEnd {
        /// Number of the run.
        ticket: u64,
        /// Its stage.
        stage: Stage,
        /// Place in the stage's list of hooks.
        level: usize,
        /// The endpoint that it was told.
        endpoint: String,
        /// The epoch that it was told.
        epoch: u64,
        /// How it ended.
        report: HookReport,
    },
    /// A switch came this far.
    Stage(Box<StageRecord>),
    /// A person's command.
    Command {
        /// What was asked.
        command: Command,
        /// Who asked, as the kernel says.
        caller: Option<Peer>,
        /// Why it was refused, if it was.
        refused: Option<String>,
    },
    /// Something that an operator should see.
    Note {
        /// Upper-case code from a closed list.
        code: &'static str,
        /// In words.
        text: String,
    },
    /// The shadow policy would do otherwise from now on, or no longer. Nothing ever follows from it.
    Shadow(Box<ShadowRecord>),
}

/// What the engine answered, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A decision: outcome and reason code.
    Decided(&'static str, &'static str),
    /// A probe's result was counted.
    Probed {
        /// The endpoint's state before it.
        from: &'static str,
        /// And after it.
        to: &'static str,
    },
    /// Taken.
    Taken,
    /// Refused, with this code.
    Refused(&'static str),
}

/// Why the active path is being left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// It is lost.
    Failover,
    /// The primary is back.
    Failback,
    /// An operator chose this target.
    Switchover(String),
}

/// How the active path was fenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The epoch that was fenced.
    pub epoch: u64,
    /// `fence hook 0, which proves: session closed`, or who confirmed it.
    pub by: String,
    /// Place of the fence hook in its list; null for a person.
    pub level: Option<usize>,
    /// When that stops being a proof, in nanoseconds on the group's clock.
    pub until: Option<u64>,
}

impl Plan {
    pub(super) fn of(evaluation: &Evaluation) -> Self {
        match evaluation {
            Evaluation::Failover => Self::Failover,
            Evaluation::Failback => Self::Failback,
            Evaluation::Switchover(target) => Self::Switchover(target.clone()),
        }
    }

    fn evaluation(&self) -> Evaluation {
        match self {
            Self::Failover => Evaluation::Failover,
            Self::Failback => Evaluation::Failback,
            Self::Switchover(target) => Evaluation::Switchover(target.clone()),
        }
    }
}

/// The decision loop. See the [module](super).
#[derive(Clone, Debug)]
pub struct Core {
    pub(super) config: GroupConfig,
    pub(super) engine: Engine,
    /// What another policy would make of the same; nothing is ever done because of it.
    pub(super) shadow: Option<Shadow>,
    /// The engine before each decision of the present event that moved flow: what holds if that decision could not be
    /// made durable.
    undecided: Vec<Engine>,
    /// What the records say; see there.
    pub(super) memory: DriverState,
    /// A dry run: no hook runs, nothing moves, nothing is changed.
    pub(super) dry_run: bool,
    /// When the proof in memory stops being one.
    pub(super) proof_until: Option<Timestamp>,
    /// The path that was last left, for the reconcile hook.
    pub(super) left: Option<EndpointId>,
    /// Endpoints without a result since the start: nothing is evaluated before all have one.
    pub(super) awaited: Vec<EndpointId>,
    /// Endpoints without a result since a reload made them others.
    pub(super) unheard: Vec<EndpointId>,
    pub(super) lane: Lane,
    /// What probes measured beside health.
    pub(super) measured: Measured,
    pub(super) live: Live,
    /// Certificates that probes saw.
    pub(super) certificates: Vec<Seen>,
    /// Sessions that are held open, by endpoint.
    pub(super) sessions: BTreeMap<String, SessionState>,
    pub(super) last_reason: Reason,
    held_since: Option<Timestamp>,
    /// For how long it had been held before this loop began.
    held_before: Duration,
    pub(super) last_answer: [Option<Outcome>; 2],
    failback_possible: bool,
    pub(super) last_evidence: Option<Timestamp>,
    pub(super) silent: bool,
    pub(super) journal_failed: bool,
    published: Path,
    /// The moment of the last event: what was due then was done.
    handled: Timestamp,
}

impl Core {
    /// The loop of a group whose engine is as it was left, at `now`.
    #[must_use]
    pub fn new(config: GroupConfig, engine: Engine, memory: DriverState, now: Timestamp) -> Self {
        let awaited = engine.endpoints().map(|(id, _)| id).collect();
        let left = engine.history().last().map(|entry| entry.event.from);
        let mut core = Self {
            published: Path::of(&engine),
            shadow: config.shadow.clone().map(|policy| Shadow::new(&engine, policy)),
            undecided: Vec::new(),
            memory: DriverState { spent: engine.is_spent(), ..memory },
            dry_run: false,
            proof_until: None,
            left,
            awaited,
            unheard: Vec::new(),
            lane: Lane::default(),
            measured: Measured::default(),
            live: Live::default(),
            certificates: Vec::new(),
            sessions: BTreeMap::new(),
            last_reason: Reason::ActiveUnknown,
            held_since: None,
            held_before: Duration::ZERO,
            last_answer: [None, None],
            failback_possible: false,
            last_evidence: Some(now),
            silent: false,
            journal_failed: false,
            handled: now,
            config,
            engine,
        };
        // How long ago that was, nobody knows: what holds only for a time holds no more.
        core.describe_proof(now, Duration::ZERO);
        core.mark_hold(now);
        core.mark_live(now);
        core
    }

    /// Runs no hook, moves nothing and obeys no command from now on.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Order flow had been held for so long when it was last seen: a supervisor that crashes again and again makes no
    /// hold longer than `max_hold`.
    #[must_use]
    pub fn held_for(self, before: Duration) -> Self {
        Self { held_before: if self.held_since.is_some() { before } else { Duration::ZERO }, ..self }
    }

    /// The engine, to look at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The group's configuration.
    #[must_use]
    pub fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// What a paused loop would do now; `None` if it is not paused, or would do nothing.
    #[must_use]
    pub fn would_answer(&self, now: Timestamp) -> Option<String> {
        if !self.is_paused() || !self.awaited.is_empty() {
            return None;
        }
        let decision = self.engine.assess_failover(now, crate::engine::FenceStatus::Unconfirmed).ok()?;
        let idle = matches!(decision.outcome, FailoverOutcome::NoAction);
        (!idle).then(|| format!("{}: {}", decision.outcome.name(), decision.reason))
    }

    /// Whether there has been no evidence on the active path for longer than `no_evidence_alarm`.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// What the last failback evaluation answered.
    #[must_use]
    pub fn failback_answer(&self) -> Option<&'static str> {
        match self.last_answer.last() {
            Some(Some(Outcome::Decided(outcome, _))) => Some(outcome),
            _ => None,
        }
    }

    /// Takes one event and says what must be done, in order.
    #[must_use]
    pub fn handle(&mut self, now: Timestamp, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !matches!(event, Event::JournalFailed { .. }) {
            self.undecided.clear();
        }
        self.handled = now;
        match event {
            Event::Slot(observed) => self.observe(now, observed, &mut effects),
            Event::Stall { text } => self.forget(now, text, &mut effects),
            Event::Session { endpoint, news } => self.hear_of_session(endpoint, news, &mut effects),
            Event::HookEnded { ticket, report } => self.hook_ended(now, ticket, report, &mut effects),
            Event::Command { command, caller } => self.command(now, command, caller, &mut effects),
            Event::Sending(sending) => {
                let reply = self.sending(now, &sending, &mut effects);
                effects.push(Effect::Reply(reply));
            }
            Event::Deadline => {}
            Event::Reloaded(core) => {
                *self = Self { undecided: Vec::new(), handled: now, ..*core };
                // The same path may have another number now.
                self.publish(&mut effects, None);
            }
            Event::JournalFailed { text, undone } => self.fail_journal(now, &text, &undone, &mut effects),
        }
        self.drive(now, &mut effects);
        // Whether a halted path takes cancels follows its probes, which no decision tells.
        self.publish(&mut effects, None);
        self.mark_live(now);
        effects
    }

    /// The next moment at which time alone makes something due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let after = |since: Timestamp, span: Duration| {
            Timestamp::from_nanos(since.as_nanos().saturating_add(Timestamp::from_elapsed(span).as_nanos()))
        };
        let hold = self.held_since.map(|since| after(since, self.config.max_hold.saturating_sub(self.held_before)));
        let silence = self.last_evidence.filter(|_| !self.silent).map(|at| after(at, self.config.no_evidence_alarm));
        let retry = self.lane.next_retry();
        // What was due at the last event was done then, or waits for something else than time.
        [hold, silence, retry].into_iter().flatten().filter(|at| *at > self.handled).min()
    }

    fn observe(&mut self, now: Timestamp, observed: Observed, effects: &mut Vec<Effect>) {
        let Observed { endpoint, verdict } = observed;
        let first = !(self.awaited.is_empty() && self.unheard.is_empty());
        self.awaited.retain(|id| *id != endpoint);
        self.unheard.retain(|id| *id != endpoint);
        let result = match verdict {
            Verdict::Success(evidence) => {
                self.see_certificate(now, endpoint, evidence.certificate_expires_in, effects);
                self.succeeded(now, endpoint, &evidence, effects);
                ProbeResult::Success
            }
            Verdict::PathFault { fault, text } => {
                self.faulted(now, endpoint, fault, &text, effects);
                ProbeResult::Failure(format!("{fault:?}: {text}").into())
            }
            Verdict::NoEvidence { cause, text, retry_after } => {
                self.withheld(now, endpoint, cause, retry_after, effects);
                let name = self.name(endpoint);
                note(effects, "NO_EVIDENCE", format!("{name}: {cause:?}: {text}"));
                return self.say_targets(now, first, effects);
            }
        };
        if self.engine.active() == Some(endpoint) {
            self.last_evidence = Some(now);
            self.silent = false;
        }
        let input = Input::Probe { endpoint: self.name(endpoint), result: result.clone() };
        let apply = |engine: &mut Engine, _: &Input| Ok(Output::Health(engine.record_probe(now, endpoint, result)?));
        let _ = self.take_as(now, input, apply, effects);
        self.say_targets(now, first, effects);
    }

    /// Once every endpoint has been heard of: a backup that cannot be used is better known before it is needed.
    fn say_targets(&self, now: Timestamp, first: bool, effects: &mut Vec<Effect>) {
        if first && self.awaited.is_empty() && self.unheard.is_empty() {
            note(effects, "TARGETS", self.targets_text(now));
        }
    }

    /// What was seen before a freeze proves nothing: the same as a restart of the monitor.
    fn forget(&mut self, now: Timestamp, text: String, effects: &mut Vec<Effect>) {
        let restarted =
            Engine::restore(self.engine.policy().clone(), self.engine.snapshot(now), now, RestartKind::Monitor);
        if let Ok(engine) = restarted {
            self.engine = engine;
            self.measured.stalled();
            self.begin_shadow_anew(now);
            let all: Vec<_> = self.engine.endpoints().map(|(id, _)| id).collect();
            // A freeze is told once for each endpoint. To forget nothing again must not wait for the disk again: the group
            // would be blind, and a halt would wait, for as long as all of that takes.
            let heard = self.awaited.len() < all.len();
            self.awaited = all;
            let entry = Entry::Input { verb: Verb::Restart(RestartKind::Monitor), answer: Outcome::Taken };
            self.record(entry, heard, effects);
            note(effects, "STALLED", text);
        }
    }

    fn fail_journal(&mut self, now: Timestamp, text: &str, undone: &[Effect], effects: &mut Vec<Effect>) {
        if self.journal_failed {
            return;
        }
        self.journal_failed = true;
        // A decision that is not durable did not happen. One that is durable did.
        let moved = |effect: &&Effect| {
            matches!(effect, Effect::Record { entry: Entry::Input { answer: Outcome::Decided("SWITCHED", _), .. }, .. })
        };
        let lost = undone.iter().filter(moved).count();
        if let Some(engine) = self.undecided.len().checked_sub(lost).and_then(|kept| self.undecided.get(kept)) {
            self.engine = engine.clone();
        }
        for effect in undone {
            if let Effect::Run { ticket, .. } = effect {
                self.lane.never_started(*ticket);
            }
        }
        if let Ok(order) = HaltOrder::new("JOURNAL_FAILED", text) {
            let _ = self.engine.halt(order);
            self.memory.halt_confirmed = false;
            self.memory.halt_told = false;
            self.lane.halted();
            // Whether or not it differs from what was last to be published: that may be among what was not carried out.
            self.published = Path::of(&self.engine);
            effects.push(Effect::Publish { path: self.published, reason: None });
        }
        self.mark_hold(now);
    }

    /// Writes it down, and remembers it as whoever reads it will.
    pub(super) fn record(&mut self, entry: Entry, durable: bool, effects: &mut Vec<Effect>) {
        // Most records are of probes, and these have nothing to say to the memory.
        if !matches!(entry, Entry::Input { answer: Outcome::Probed { .. }, .. }) {
            self.memory.fold(&entry.to_body());
        }
        effects.push(Effect::Record { entry, durable });
    }

    /// Whether the record would be remembered.
    fn is_news(&self, entry: &Entry) -> bool {
        let mut memory = self.memory.clone();
        memory.fold(&entry.to_body());
        memory != self.memory
    }

    /// The answer to an evaluation that changes nothing and says what the last one said: nearly every result is followed
    /// by two of these, and they leave no trace.
    fn same_answer(&mut self, now: Timestamp, input: &Input) -> Option<FailoverDecision> {
        let Input::Evaluate(evaluation, claim) = input else { return None };
        let last = self.last_answer.get(asks(evaluation))?.as_ref()?;
        let decision = self.engine.assess(now, evaluation, *claim).ok()?;
        let is_idle = self.memory.plan.is_none() && !self.memory.spent;
        let moves = matches!(decision.outcome, FailoverOutcome::Switched(_) | FailoverOutcome::FenceRequired(_));
        let changes = moves || decision.order_flow() != self.engine.order_flow();
        (is_idle && !changes && *last == Outcome::decided(&decision)).then(|| {
            self.last_reason = decision.reason;
            decision
        })
    }

    /// One input of the engine, with its record and its publication in the right order: what closes order flow is
    /// published at once, what opens it after the record is durable. A new epoch opens something too (a held path may be
    /// asked for its orders), and must not be seen before it is sure: at once only the old one ends.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        input: Input,
        effects: &mut Vec<Effect>,
    ) -> Result<Output, InputError> {
        if let Some(decision) = self.same_answer(now, &input) {
            return Ok(Output::Decision(decision));
        }
        self.take_as(now, input, |engine, input| engine.apply(now, input.clone()), effects)
    }

    /// The same, by `apply`, which may know the endpoint by more than its name.
    fn take_as(
        &mut self,
        now: Timestamp,
        input: Input,
        apply: impl FnOnce(&mut Engine, &Input) -> Result<Output, InputError>,
        effects: &mut Vec<Effect>,
    ) -> Result<Output, InputError> {
        let is_probe = matches!(input, Input::Probe { .. });
        let before = (self.engine.order_flow(), self.engine.epoch(), self.engine.is_spent());
        let halt_before = self.halt_code();
        if self.would_switch(now, &input) {
            self.say_stages(now, effects);
            self.undecided.push(self.engine.clone());
        }
        let asks = match &input {
            Input::Evaluate(evaluation, _) => Some(asks(evaluation)),
            _ => None,
        };
        let result = apply(&mut self.engine, &input);
        self.shadow_hears(now, &input, &result);
        let after = (self.engine.order_flow(), self.engine.epoch(), self.engine.is_spent());
        let answer = Outcome::of(&result);
        let reason = match &result {
            Ok(Output::Decision(decision)) => {
                self.last_reason = decision.reason;
                Some(decision.reason)
            }
            _ => None,
        };
        let changed = before != after;
        // Asking again and getting the same answer is not news.
        let repeated =
            asks.and_then(|kind| self.last_answer.get(kind)).is_some_and(|last| *last == Some(answer.clone()));
        if let Some(last) = asks.and_then(|kind| self.last_answer.get_mut(kind)) {
            *last = Some(answer.clone());
        }
        let path = Path::of(&self.engine);
        if changed && self.engine.epoch() != before.1 {
            self.publish_path(self.published.closed(), reason, effects);
        } else if changed && path.open().is_none() {
            self.publish_path(path, reason, effects);
        }
        if self.engine.order_flow().is_halt() && self.halt_code() != halt_before {
            self.halt_begins(effects);
        }
        let durable = changed || !is_probe && asks.is_none();
        let entry = Entry::Input { verb: Verb::Input(input), answer };
        if changed || !repeated || is_probe || self.is_news(&entry) {
            self.record(entry, durable, effects);
        }
        if changed {
            self.publish(effects, reason);
            self.mark_hold(now);
            if self.engine.order_flow() != before.0 {
                self.lane.restart_reconciling();
            }
        }
        result
    }

    /// Code of the present halt.
    pub(super) fn halt_code(&self) -> Option<String> {
        let halted = self.engine.order_flow().is_halt();
        halted.then(|| self.engine.halt_order().map_or(HaltOrder::NO_TARGET_AVAILABLE, HaltOrder::code).to_owned())
    }

    /// A halt that no hook was told of yet.
    fn halt_begins(&mut self, effects: &mut Vec<Effect>) {
        self.lane.halted();
        let code = self.halt_code().unwrap_or_default();
        if code == HaltOrder::NO_TARGET_AVAILABLE && self.all_fail() {
            note(
                effects,
                "SUSPECT_OBSERVER",
                "every path fails from here at once: suspect this host, its uplink or the broker".to_owned(),
            );
        }
        self.record(Entry::Note { code: HALT_BEGINS, text: code }, false, effects);
    }

    fn would_switch(&self, now: Timestamp, input: &Input) -> bool {
        let decision = match input {
            Input::Rearm => return true,
            Input::Evaluate(evaluation, claim) => self.engine.assess(now, evaluation, *claim),
            _ => return false,
        };
        decision.is_ok_and(|decision| decision.event().is_some())
    }

    fn publish(&mut self, effects: &mut Vec<Effect>, reason: Option<Reason>) {
        self.publish_path(Path::of(&self.engine), reason, effects);
    }

    fn publish_path(&mut self, path: Path, reason: Option<Reason>, effects: &mut Vec<Effect>) {
        if path != self.published {
            self.published = path;
            effects.push(Effect::Publish { path, reason });
        }
    }

    fn mark_hold(&mut self, now: Timestamp) {
        use crate::engine::HoldReason::{Reconciling, Switching};
        let held = matches!(self.engine.order_flow(), OrderFlow::Hold { reason: Reconciling | Switching });
        self.held_since = if held { self.held_since.or(Some(now)) } else { None };
        if !held {
            self.held_before = Duration::ZERO;
        }
    }

    fn all_fail(&self) -> bool {
        self.engine
            .endpoints()
            .all(|(id, _)| self.engine.health(id).is_some_and(|health| health.consecutive_failures() > 0))
    }

    /// Everything that follows from the state as it is now.
    fn drive(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.watch_silence(now, effects);
        if self.journal_failed {
            // A pause that nobody can end any more does not bar the halt.
            if !self.dry_run {
                self.next_hook(now, effects);
            }
            return;
        }
        self.follow_measured(now, effects);
        self.say_stages(now, effects);
        if !self.dry_run {
            if let (FenceClaim::Epoch(epoch), false) = (self.claim(now), self.engine.is_spent()) {
                // A person fenced it: whatever its probes say, it cannot be presumed able to trade.
                let _ = self.take(now, Input::FenceStarted(epoch), effects);
            }
            self.expire_hold(now, effects);
            self.give_up(now, effects);
        }
        let decides = self.awaited.is_empty()
            && !self.waits_for_reloaded(now)
            && !self.lane.decides()
            && self.memory.unknown_hooks.is_empty();
        self.compare_shadow(now, decides, effects);
        if decides {
            if self.is_paused() {
                self.assess(now, effects);
            } else if self.memory.failed_switches < MOST_FAILED_SWITCHES {
                self.leave_banned(now, effects);
                self.evaluate(now, effects);
            }
        }
        self.say_stages(now, effects);
        if !self.is_paused() {
            self.next_hook(now, effects);
        }
    }

    /// Whether no hook runs and nothing moves, because a person wants it so.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.memory.paused || self.dry_run
    }

    /// What cannot be gone on with: a switch all of whose hooks failed, switches that fail one after the other, flow that
    /// is open on a path of which it is not known whether the transport was moved to it.
    fn give_up(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let levels = self.config.hooks.switch.len();
        let is_carried = self.memory.carried || self.memory.spent || self.lane.decides();
        if !is_carried && levels > 0 && self.memory.switch_level >= levels {
            self.lane.start_fence();
            if let Some(epoch) = self.engine.epoch() {
                let _ = self.take(now, Input::SwitchFailed(epoch.get()), effects);
            }
        }
        let failed = self.memory.failed_switches;
        if failed >= MOST_FAILED_SWITCHES && self.engine.halt_order().is_none() {
            self.halt(now, "SWITCH_FAILED", format!("{failed} switches in a row could not be carried out"), effects);
        }
        if let (Some((stage, epoch)), OrderFlow::Open { .. }) =
            (self.memory.unknown_hooks.first(), self.engine.order_flow())
        {
            let text = format!("it is not known whether the {stage:?} hook of epoch {epoch} ran");
            self.halt(now, "HOOK_UNKNOWN", text, effects);
        }
    }

    pub(super) fn halt(&mut self, now: Timestamp, code: &str, text: String, effects: &mut Vec<Effect>) {
        if let Ok(order) = HaltOrder::new(code, text) {
            let _ = self.take(now, Input::Halt(order), effects);
        }
    }

    fn watch_silence(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(last) = self.last_evidence.filter(|_| !self.silent) else { return };
        let silent_for = now.nanos_since(last);
        if silent_for >= Timestamp::from_elapsed(self.config.no_evidence_alarm).as_nanos() {
            self.silent = true;
            let active = self.engine.active().map(|id| self.name(id)).unwrap_or_default();
            let long = Duration::from_nanos(silent_for).as_secs_f64();
            note(effects, "ACTIVE_SILENT", format!("no evidence on the active path {active} for {long:.1} s"));
        }
    }

    fn expire_hold(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let limit = Timestamp::from_elapsed(self.config.max_hold.saturating_sub(self.held_before)).as_nanos();
        if self.held_since.is_none_or(|since| now.nanos_since(since) < limit) {
            return;
        }
        self.halt(now, "HOLD_EXPIRED", format!("order flow was held for {:?}", self.config.max_hold), effects);
    }

    fn evaluate(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let claim = self.claim(now);
        if claim != FenceClaim::None && self.complete(now, claim, effects) {
            return;
        }
        let Ok(decision) = self.decide(now, Evaluation::Failover, claim, effects) else { return };
        match decision.outcome {
            FailoverOutcome::FenceRequired(_) => self.leave(now, effects),
            FailoverOutcome::NoAction if self.is_to_be_begun() => {
                // A crash came between the decision and the fence.
                let plan = self.memory.plan.as_ref().map_or(Evaluation::Failover, Plan::evaluation);
                self.start(now, plan, effects);
            }
            FailoverOutcome::NoAction if self.engine.permits(crate::engine::OrderAction::Submit) => {
                self.fail_back(now, effects);
            }
            _ => {}
        }
    }

    /// Whether a move that is not forced was decided, and the hook that must fence the path was not begun.
    fn is_to_be_begun(&self) -> bool {
        let is_planned = self.memory.plan.as_ref().is_some_and(|plan| *plan != Plan::Failover);
        is_planned && !self.engine.is_spent() && !self.config.hooks.fence.is_empty()
    }

    /// A fence of the present epoch is confirmed: complete what it was begun for. False if that cannot be done.
    fn complete(&mut self, now: Timestamp, claim: FenceClaim, effects: &mut Vec<Effect>) -> bool {
        let evaluation = match &self.memory.plan {
            Some(Plan::Failover) | None => return false,
            Some(plan) => plan.evaluation(),
        };
        // If the target was lost meanwhile, the plan is a failover from now on: the spent epoch must be left all the same.
        self.decide(now, evaluation, claim, effects).is_ok_and(|decision| decision.event().is_some())
    }

    fn fail_back(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let unfenced = crate::engine::FenceStatus::Unconfirmed;
        let Ok(possible) = self.engine.assess_failback(now, unfenced) else { return };
        let warranted = matches!(possible.outcome, FailoverOutcome::FenceRequired(_) | FailoverOutcome::Switched(_));
        let was_possible = std::mem::replace(&mut self.failback_possible, warranted);
        let by_hand = self.config.failback == FailbackMode::Manual || self.cannot_fence();
        if !(warranted && by_hand) {
            self.start(now, Evaluation::Failback, effects);
        } else if !was_possible {
            note(effects, "FAILBACK_POSSIBLE", "the primary is stable; a person may fail back".to_owned());
        }
    }

    /// Whether a fence is required and only a person could make one.
    fn cannot_fence(&self) -> bool {
        self.engine.policy().settings().require_fence && self.config.hooks.fence.is_empty()
    }

    /// Starts a move that is not forced.
    fn start(&mut self, now: Timestamp, evaluation: Evaluation, effects: &mut Vec<Effect>) {
        let decided = self.decide(now, evaluation, FenceClaim::None, effects);
        if decided.is_ok_and(|decision| decision.fence().is_some()) {
            self.leave(now, effects);
        }
    }

    /// The active path must be fenced: its epoch is spent from now on, if there is a hook to begin with.
    fn leave(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.engine.is_spent() {
            return;
        }
        self.lane.start_fence();
        if let Some(epoch) = self.engine.epoch().filter(|_| !self.config.hooks.fence.is_empty()) {
            let _ = self.take(now, Input::FenceStarted(epoch.get()), effects);
        }
    }

    fn decide(
        &mut self,
        now: Timestamp,
        evaluation: Evaluation,
        claim: FenceClaim,
        effects: &mut Vec<Effect>,
    ) -> Result<FailoverDecision, InputError> {
        match self.take(now, Input::Evaluate(evaluation, claim), effects)? {
            Output::Decision(decision) => {
                if let Some(event) = decision.event() {
                    self.switched(event);
                }
                Ok(decision)
            }
            _ => Err(EngineError::NoActiveEndpoint.into()),
        }
    }

    /// Flow moved in the engine; the transport is next.
    pub(super) fn switched(&mut self, event: &SwitchEvent) {
        self.left = Some(event.from);
        self.failback_possible = false;
        self.lane.start_switch();
    }

    /// What a pause would do, said once per change.
    fn assess(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let unfenced = crate::engine::FenceStatus::Unconfirmed;
        let Ok(decision) = self.engine.assess_failover(now, unfenced) else { return };
        let answer = Outcome::decided(&decision);
        let Some(last) = self.last_answer.first_mut() else { return };
        if *last != Some(answer.clone()) {
            *last = Some(answer);
            note(effects, "PAUSED_ANSWER", format!("{}: {}", decision.outcome.name(), decision.reason));
        }
    }

    /// The claim that the present epoch is fenced, while its proof holds.
    pub(super) fn claim(&self, now: Timestamp) -> FenceClaim {
        let present = self.engine.epoch().map(crate::engine::Epoch::get);
        match &self.memory.proof {
            Some(proof) if Some(proof.epoch) == present && self.proof_until.is_none_or(|until| now < until) => {
                FenceClaim::Epoch(proof.epoch)
            }
            _ => FenceClaim::None,
        }
    }

    /// Whether the present epoch is fenced, as far as is known.
    pub(super) fn is_fenced(&self, now: Timestamp) -> bool {
        self.claim(now) != FenceClaim::None
    }

    /// What the configuration says of a hook's proof, and for how long it still holds if it holds for `at_most` or less.
    pub(super) fn describe_proof(&mut self, now: Timestamp, at_most: Duration) {
        let Some(proof) = &mut self.memory.proof else { return };
        let hook = proof.level.and_then(|level| self.config.hooks.fence.get(level));
        if let (Some(level), Some(proves)) = (proof.level, hook.and_then(|hook| hook.proves.as_ref())) {
            proof.by = format!("fence hook {level}, which proves: {proves}");
        }
        self.proof_until = hook.and_then(|hook| hook.holds).map(|holds| {
            let holds = Timestamp::from_elapsed(holds.min(at_most)).as_nanos();
            Timestamp::from_nanos(now.as_nanos().saturating_add(holds))
        });
        proof.until = self.proof_until.map(Timestamp::as_nanos);
    }

    pub(super) fn name(&self, id: EndpointId) -> String {
        self.engine.endpoint(id).map_or_else(String::new, |endpoint| endpoint.name.clone())
    }
}

/// Which of the last answers an evaluation is compared with.
const fn asks(evaluation: &Evaluation) -> usize {
    matches!(evaluation, Evaluation::Failback) as usize
}

impl Outcome {
    fn decided(decision: &FailoverDecision) -> Self {
        Self::Decided(decision.outcome.name(), decision.reason.code())
    }

    fn of(result: &Result<Output, InputError>) -> Self {
        match result {
            Ok(Output::Decision(decision)) => Self::decided(decision),
            Ok(Output::Health(change)) => Self::Probed { from: change.from.name(), to: change.to.name() },
            Ok(Output::Flow(_) | Output::Heard(_) | Output::Done) => Self::Taken,
            Err(error) => Self::Refused(error.code()),
        }
    }
}

pub(super) fn note(effects: &mut Vec<Effect>, code: &'static str, text: String) {
    effects.push(Effect::Record { entry: Entry::Note { code, text }, durable: false });
}
