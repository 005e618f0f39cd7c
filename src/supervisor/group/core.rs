//! The decision loop of a group as a state machine: decided -> fenced -> switched -> reconciled -> open.

mod commands;
mod deciding;
mod inputs;
mod results;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{
    EndpointId, Engine, Evaluation, FailoverDecision, FailoverOutcome, FenceClaim, HaltOrder, Input, InputError,
    OrderFlow, Output, Reason, Timestamp,
};
use crate::path::Path;
use crate::scenario::Verb;

use super::super::config::GroupConfig;
use super::super::hooks::{HookReport, HookRequest, Stage};
use super::super::journal::{Peer, ShadowRecord, StageRecord};
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

impl fmt::Display for Command {
    /// In the words of the command line: `halt: desk asked`, `switchover west`, `confirm-fence, epoch 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfirmFence { epoch } => write!(f, "confirm-fence, epoch {epoch}"),
            Self::ConfirmReconciled { epoch } => write!(f, "confirm-reconciled, epoch {epoch}"),
            Self::RepeatHook => f.write_str("repeat-hook"),
            Self::Halt { text } => write!(f, "halt: {text}"),
            Self::Resume => f.write_str("resume"),
            Self::Rearm => f.write_str("rearm"),
            Self::Switchover { target } => write!(f, "switchover {target}"),
            Self::Failback => f.write_str("failback"),
            Self::Pause => f.write_str("pause"),
            Self::Unpause => f.write_str("unpause"),
            Self::Unbar { endpoint } => write!(f, "unbar {endpoint}"),
            Self::ClearLogons => f.write_str("clear-logons"),
            Self::Maintenance { endpoint, on } => {
                write!(f, "maintenance {endpoint} {}", if *on { "on" } else { "off" })
            }
        }
    }
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
        request: Box<HookRequest>,
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
        request: Box<HookRequest>,
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
        report: Box<HookReport>,
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
    /// Of the last decision that moved something or asked for a fence.
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
            let text = format!("it is not known whether the {stage} hook of epoch {epoch} ran");
            self.halt(now, "HOOK_UNKNOWN", text, effects);
        }
    }

    pub(super) fn halt(&mut self, now: Timestamp, code: &str, text: String, effects: &mut Vec<Effect>) {
        if let Ok(order) = HaltOrder::new(code, text) {
            let _ = self.take(now, Input::Halt(order), effects);
        }
    }

    fn expire_hold(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let limit = Timestamp::from_elapsed(self.config.max_hold.saturating_sub(self.held_before)).as_nanos();
        if self.held_since.is_none_or(|since| now.nanos_since(since) < limit) {
            return;
        }
        self.halt(now, "HOLD_EXPIRED", format!("order flow was held for {:?}", self.config.max_hold), effects);
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
