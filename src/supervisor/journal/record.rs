//! What the journal holds: one JSON object a line.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::super::hooks::{HookReport, HookRequest, Stage};
use super::shadow::ShadowRecord;
use super::stamp;
use crate::engine::{
    EndpointState, Engine, FailoverDecision, FailoverOutcome, HaltOrder, Input, InputError, OrderFlow, Output,
    Snapshot, SwitchKind, Timestamp,
};
use crate::scenario::{self, Verb};

/// Number of a record. Starts at 1, goes up by one with each line, across segments and restarts.
pub type Seq = u64;

/// The format that this crate writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

/// What a caller appends: when, of which group, what.
///
/// Texts must be bounded and free of secrets: the journal writes what it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// On the supervisor's [`BootClock`](super::super::clock::BootClock). For an input: the `now` that the engine was
    /// given.
    pub at: Timestamp,
    /// The group; `None` for what concerns the supervisor as a whole.
    pub group: Option<Arc<str>>,
    /// What.
    pub body: Body,
}

impl Entry {
    /// Something of one group.
    #[must_use]
    pub fn of(group: &Arc<str>, at: Timestamp, body: Body) -> Self {
        Self { at, group: Some(Arc::clone(group)), body }
    }

    /// An input of a group's engine and what the engine answered.
    #[must_use]
    pub fn input(group: &Arc<str>, at: Timestamp, input: Input, result: &Result<Output, InputError>) -> Self {
        Self::of(group, at, Body::Input { verb: Verb::Input(input), answer: Answer::of(result) })
    }

    /// Something of the supervisor as a whole that an operator should see.
    #[must_use]
    pub fn note(at: Timestamp, code: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { at, group: None, body: Body::Note(NoteRecord::new(code, text)) }
    }
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number.
    pub seq: Seq,
    /// Seconds on CLOCK_BOOTTIME since the supervisor's start, in nanoseconds here.
    pub at: Timestamp,
    /// The first 8 characters of the boot id; the whole of it stands in `start` and `segment`.
    pub boot: String,
    /// Microseconds since 1970 on the wall clock. For audit.
    pub wall: u64,
    /// The group.
    pub group: Option<String>,
    /// What.
    pub body: Body,
}

impl Record {
    /// The wall time as the line has it: RFC 3339, UTC, microseconds.
    #[must_use]
    pub fn wall_text(&self) -> String {
        stamp::format(self.wall)
    }
}

/// The kinds of records; the key of a kind is [`Body::kind`].
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly every record is an input; a box would be made for each hand-over")]
pub enum Body {
    /// `segment`: the first line of each segment. Written by the journal itself.
    Segment(SegmentRecord),
    /// `start`: a supervisor began to write. Written by the journal itself.
    Start(StartRecord),
    /// `config`: what a group's engine was made of, from here on. Of a group that is known already it must be followed
    /// by a `snapshot` unless the line is the same and the group is running.
    Config(ConfigRecord),
    /// `snapshot`: the state of a group. Appended by the caller: the group's engine is this, from now on (after a
    /// start, or after a reload, which leaves the health of some endpoints as it was and says so). At the head of a
    /// segment, written by the journal itself: everything about the group.
    Snapshot(Box<Checkpoint>),
    /// `input`: what a group's engine was told or asked, as the line of a scenario, and what it answered.
    Input {
        /// An input, or a restart.
        verb: Verb,
        /// The answer. The journal checks it against its own engine and completes it.
        answer: Answer,
    },
    /// `hook_start`: a hook is about to run. Durable before it does.
    HookStart(Box<HookStartRecord>),
    /// `hook_end`: it ended, or was given up.
    HookEnd(Box<HookEndRecord>),
    /// `stage`: a switch came this far.
    Stage(Box<StageRecord>),
    /// `command`: a person asked for something.
    Command(CommandRecord),
    /// `note`: something that an operator should see.
    Note(NoteRecord),
    /// `stop`: the supervisor ended on purpose.
    Stop(StopRecord),
}

/// `{"format":1,"version":"0.1.0","boot_id":"..","pid":7,"config_hash":"..","run":2,"groups":1}`: followed by a
/// `config` and a `snapshot` of each group, so that this segment can be read without older ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentRecord {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of this crate.
    pub version: String,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Process id of the supervisor.
    pub pid: u32,
    /// Hash of its configuration file.
    pub config_hash: String,
    /// Number of the `start` of the run that the segment begins in; 0 before the first.
    pub run: Seq,
    /// How many groups follow, two records each.
    pub groups: u32,
}

/// `{"version":"0.1.0","config_hash":"..","boot_id":"..","pid":7}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRecord {
    /// Version of this crate.
    pub version: String,
    /// Hash of its configuration file.
    pub config_hash: String,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Process id of the supervisor.
    pub pid: u32,
}

/// `{"line":{"config":{..}},"hash":".."}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRecord {
    /// The first line of a scenario: policy and endpoints ([`scenario::config_line`]).
    pub line: String,
    /// Hash of the configuration file that says so.
    pub hash: String,
}

/// `{"snapshot":{..}}`; at the head of a segment with everything else about the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The engine, without health.
    pub snapshot: Snapshot,
    /// Health of each endpoint that was probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<HealthRecord>,
    /// Hooks that started and did not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<OpenHook>,
    /// The switch that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<OpenSwitch>,
    /// The last fence that was proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<AgedProof>,
    /// Whether a halt hook confirmed the present halt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub halt_confirmed: bool,
    /// Since when order flow has been held for a switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<AgedHold>,
    /// The group takes no part in this run: its state is kept as it was left.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dormant: bool,
    /// What the caller keeps beside the engine ([`Follow`](super::Follow)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<serde_json::Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Checkpoint {
    /// Of a snapshot alone, as a caller appends it.
    #[must_use]
    pub fn of(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            health: Vec::new(),
            hooks: Vec::new(),
            switch: None,
            fence: None,
            halt_confirmed: false,
            held: None,
            dormant: false,
            driver: None,
        }
    }
}

/// Health of an endpoint. At the head of a segment counts stop at what the policy asks for: more decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthRecord {
    /// The endpoint.
    pub endpoint: String,
    /// Consecutive failures.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Consecutive successes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub successes: u32,
    /// When the last result came.
    pub probed_at: Seconds,
    /// Why it was a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What its trigger remembers, where that is more than the counts say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerRecord>,
}

/// What a trigger remembers that looks at more than failures in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerRecord {
    /// The state that it came to.
    pub state: EndpointState,
    /// Results since it was last disarmed, up to the minimum history.
    pub results: u32,
    /// Whether it counts failures in a row and nothing else by now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain: bool,
    /// When the present run of failures began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Seconds>,
    /// The newest results as bits, the last one lowest, failures set.
    #[serde(default, skip_serializing_if = "is_none_set")]
    pub recent: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_none_set(bits: &u64) -> bool {
    *bits == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A hook that started and did not end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenHook {
    /// Number of its `hook_start`.
    pub seq: Seq,
    /// The hook.
    pub hook: HookStartRecord,
}

/// A switch that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSwitch {
    /// Number of its first `stage`.
    pub seq: Seq,
    /// Its last stage.
    pub last: StageRecord,
}

/// A fence that was proved, and how long ago that was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgedProof {
    /// The proof.
    pub proof: FenceProof,
    /// Its age.
    pub age: Seconds,
}

/// Since when order flow has been held for a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgedHold {
    /// Number of the record that began it.
    pub seq: Seq,
    /// How long ago that was; time while no supervisor ran counts as none.
    pub age: Seconds,
}

/// `{"ticket":3,"level":0,"request":{..}}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookStartRecord {
    /// Number of the run; unique in one run of the supervisor.
    pub ticket: u64,
    /// Place in the stage's list of hooks.
    pub level: u32,
    /// What the hook is told.
    pub request: HookRequest,
}

/// `{"ticket":3,"stage":"fence","level":0,"endpoint":"east","epoch":1,"report":{..}}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookEndRecord {
    /// Number of the run.
    pub ticket: u64,
    /// Its stage.
    pub stage: Stage,
    /// Place in the stage's list of hooks.
    pub level: u32,
    /// The endpoint.
    pub endpoint: String,
    /// The epoch.
    pub epoch: u64,
    /// How it ended.
    pub report: HookReport,
}

/// How far a switch came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchStage {
    /// It was decided to leave the path.
    Decided,
    /// The path provably cannot submit orders any more.
    Fenced,
    /// The transport was moved.
    Switched,
    /// Orders in flight are settled.
    Reconciled,
    /// Order flow is open. The switch is over.
    Open,
    /// The transport could not be moved; another target, or a halt, is next.
    Failed,
    /// The switch is not wanted any more. It is over.
    Abandoned,
}

impl SwitchStage {
    /// Whether a switch that came this far is over.
    #[must_use]
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Open | Self::Abandoned)
    }

    /// Its name in the journal.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::Fenced => "fenced",
            Self::Switched => "switched",
            Self::Reconciled => "reconciled",
            Self::Open => "open",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// `{"stage":"fenced","kind":"FAILOVER","from":"east","to":"west","epoch":1,"fence":{..}}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRecord {
    /// How far.
    pub stage: SwitchStage,
    /// What kind of switch, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SwitchKind>,
    /// The path that is left.
    pub from: String,
    /// The path that flow goes to, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `decided` and `fenced`: the epoch that is left. Otherwise: the new one.
    pub epoch: u64,
    /// For `fenced`: what was proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceProof>,
    /// Anything more, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Which fence succeeded, what it proves, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FenceProof {
    /// The path that cannot submit orders any more.
    pub endpoint: String,
    /// Its epoch.
    pub epoch: u64,
    /// `hook level 0`, or which person said so.
    pub by: String,
    /// What it proves, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proves: Option<String>,
    /// How long that holds; absent: until undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Seconds>,
}

/// `{"peer":{"uid":1000,"pid":7},"command":{"halt":{"text":".."}},"refused":".."}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRecord {
    /// Who asked, as the kernel says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// What was asked.
    pub command: serde_json::Value,
    /// Why it was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The other end of the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// Process.
    pub pid: i32,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a person (user {}, process {})", self.uid, self.pid)
    }
}

/// `{"code":"TORN_TAIL","text":".."}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteRecord {
    /// Upper-case code.
    pub code: Cow<'static, str>,
    /// In words.
    pub text: String,
    /// The same for programs, where it is of the shadow policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Box<ShadowRecord>>,
}

impl NoteRecord {
    /// A code and words.
    #[must_use]
    pub fn new(code: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into(), shadow: None }
    }
}

/// `{"reason":"SIGTERM"}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRecord {
    /// Why.
    pub reason: String,
}

/// What an engine answered to an input, in short: enough to check that a replay decides alike.
///
/// A caller states `outcome` and `reason` ([`Answer::of`]); the journal completes the rest from its own engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Of a probe: the endpoint's state. Of a decision: its outcome. Otherwise TAKEN; REFUSED.
    pub outcome: Cow<'static, str>,
    /// Reason code of a decision, or code of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// The switch that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Box<Switch>>,
    /// The fence that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Box<Fence>>,
    /// Notes of a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Cow<'static, str>>,
    /// Order flow, if the input changed it: `OPEN west #2`, `HOLD SWITCHING`, `HALT NO_TARGET_AVAILABLE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its kind.
    pub kind: SwitchKind,
    /// The path that was left.
    pub from: String,
    /// The path that is active.
    pub to: String,
    /// The new epoch.
    pub epoch: u64,
}

/// A fence that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// The path to fence.
    pub endpoint: String,
    /// Its epoch.
    pub epoch: u64,
    /// Where flow would go.
    pub target: String,
}

impl Answer {
    /// The outcome of an input that was taken and has nothing more to say.
    pub const TAKEN: &'static str = "TAKEN";
    /// The outcome of an input that the engine refused.
    pub const REFUSED: &'static str = "REFUSED";

    /// What a caller states of an engine's answer.
    #[must_use]
    pub fn of(result: &Result<Output, InputError>) -> Self {
        match result {
            Ok(Output::Health(change)) => Self::short(change.to.name(), None),
            Ok(Output::Decision(decision)) => Self::short(decision.outcome.name(), Some(decision.reason.code())),
            Ok(Output::Flow(_) | Output::Heard(_) | Output::Done) => Self::short(Self::TAKEN, None),
            Err(error) => Self::short(Self::REFUSED, Some(error.code())),
        }
    }

    /// An outcome and its reason code.
    #[must_use]
    pub fn short(outcome: &'static str, reason: Option<&'static str>) -> Self {
        Self { outcome: outcome.into(), reason: reason.map(Cow::Borrowed), ..Self::default() }
    }

    /// Everything: `engine` has taken the input, `before` is order flow as it was.
    pub(super) fn full(result: &Result<Output, InputError>, engine: &Engine, before: &Flow) -> Self {
        let mut answer = Self::of(result);
        if let Ok(Output::Decision(decision)) = result {
            answer.complete(decision, engine);
        }
        answer.flow = (Flow::of(engine) != *before).then(|| flow_text(engine));
        answer
    }

    fn complete(&mut self, decision: &FailoverDecision, engine: &Engine) {
        let name = |id| engine.endpoint(id).map_or_else(String::new, |endpoint| endpoint.name.clone());
        match decision.outcome {
            FailoverOutcome::Switched(event) => {
                let (from, to, epoch) = (name(event.from), name(event.to), event.epoch.get());
                self.switch = Some(Box::new(Switch { kind: event.kind, from, to, epoch }));
            }
            FailoverOutcome::FenceRequired(order) => {
                let (endpoint, target) = (name(order.endpoint), name(order.target));
                self.fence = Some(Box::new(Fence { endpoint, epoch: order.epoch.get(), target }));
            }
            _ => {}
        }
        self.notes = decision.notes.iter().map(|note| Cow::Borrowed(note.code())).collect();
    }

    /// Whether a caller's short answer can be this one's.
    pub(super) fn agrees_with(&self, stated: &Self) -> bool {
        let alike = self.outcome == stated.outcome && self.reason == stated.reason;
        // A caller need not know the state that a probe led to.
        alike || stated.outcome == Self::TAKEN && self.reason.is_none() && stated.reason.is_none()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.outcome)?;
        self.reason.iter().try_for_each(|reason| write!(f, " {reason}"))?;
        self.switch.iter().try_for_each(|to| write!(f, " {} -> {} #{}", to.from, to.to, to.epoch))?;
        self.fence.iter().try_for_each(|of| write!(f, " {} #{} for {}", of.endpoint, of.epoch, of.target))?;
        self.notes.iter().try_for_each(|note| write!(f, " [{note}]"))?;
        self.flow.iter().try_for_each(|flow| write!(f, ", {flow}"))
    }
}

/// What [`flow_text`] says, to be compared: nearly no input changes it, and its words need not be made for each.
#[derive(PartialEq)]
pub(super) struct Flow {
    flow: OrderFlow,
    halt: Option<String>,
}

impl Flow {
    pub(super) fn of(engine: &Engine) -> Self {
        Self { flow: engine.order_flow(), halt: engine.halt_order().map(|order| order.code().to_owned()) }
    }
}

/// Order flow in words, as records, status and screens have it: `OPEN east #1`, `HOLD SWITCHING`, `HALT OPERATOR`.
#[must_use]
pub fn flow_text(engine: &Engine) -> String {
    match engine.order_flow() {
        OrderFlow::Open { endpoint, epoch } => {
            let name = engine.endpoint(endpoint).map_or("?", |endpoint| &endpoint.name);
            format!("OPEN {name} #{epoch}")
        }
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { .. } => {
            let code = engine.halt_order().map_or(HaltOrder::NO_TARGET_AVAILABLE, HaltOrder::code);
            format!("HALT {code}")
        }
    }
}

/// Nanoseconds, written as a plain decimal of seconds, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(
    /// Nanoseconds.
    pub u64,
);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(scenario::seconds(self.0)).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let nanos = scenario::parse_seconds(raw.get());
        nanos.map(Self).ok_or_else(|| serde::de::Error::custom(format!("{raw} is not a plain decimal of seconds")))
    }
}

impl Body {
    /// Its key in the journal.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Segment(_) => "segment",
            Self::Start(_) => "start",
            Self::Config(_) => "config",
            Self::Snapshot(_) => "snapshot",
            Self::Input { .. } => "input",
            Self::HookStart(_) => "hook_start",
            Self::HookEnd(_) => "hook_end",
            Self::Stage(_) => "stage",
            Self::Command(_) => "command",
            Self::Note(_) => "note",
            Self::Stop(_) => "stop",
        }
    }
}
