//! The state that the records describe: one engine per group, told the same as the one that decides.
//!
//! The writer keeps one beside the deciding engines, so that it can begin a segment with the state of every group
//! without asking anybody, and so that a record that does not describe what happened is noticed when it is written,
//! not at the next start. Recovery, verification and export follow the records with the same code.

use std::collections::HashMap;
use std::fmt;

use super::record::{
    AgedHold, AgedProof, Answer, Body, Checkpoint, ConfigRecord, FenceProof, Flow, HealthRecord, HookStartRecord,
    OpenHook, OpenSwitch, Record, Seconds, SegmentRecord, Seq, StageRecord, TriggerRecord,
};
use crate::engine::{
    EndpointId, EndpointState, Engine, Evidence, FailoverOutcome, Health, HoldReason, Input, InputError, OrderFlow,
    Output, Policy, ProbeResult, RestartKind, RestoreError, Snapshot, SnapshotFlow, Timestamp,
};
use crate::scenario::{self, Verb};
use crate::supervisor::hooks::{HookResult, Stage};

/// What a caller keeps of a group beside its engine and wants back after a restart. It follows the records; at the
/// head of each segment it is saved, so that older segments can go.
pub trait Follow: Send {
    /// Follows one record of the group.
    fn fold(&mut self, record: &Body);
    /// Everything that it knows.
    fn save(&self) -> serde_json::Value;
    /// Replaces what it knows by what was saved.
    ///
    /// # Errors
    /// That was not saved by it, in words.
    fn load(&mut self, saved: &serde_json::Value) -> Result<(), String>;
}

/// Makes a [`Follow`] for a group.
pub type MakeFollow = fn() -> Box<dyn Follow>;

/// Of a caller that keeps nothing.
struct Nothing;

impl Follow for Nothing {
    fn fold(&mut self, _: &Body) {}

    fn save(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn load(&mut self, _: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }
}

/// Keeps nothing beside the engine.
#[must_use]
pub fn follow_nothing() -> Box<dyn Follow> {
    Box::new(Nothing)
}

/// The state that the records describe.
pub(super) struct Mirror {
    follow: MakeFollow,
    run: Option<Run>,
    groups: HashMap<String, Group>,
    head: Head,
}

/// One run of the supervisor.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Number of its `start`.
    pub(super) start: Seq,
    /// The latest time of its records.
    pub(super) at: Timestamp,
    /// Hash of its configuration.
    pub(super) config_hash: String,
    /// Version of the crate that wrote it.
    version: String,
    /// Whether its last record is `stop`.
    pub(super) stopped: bool,
}

/// How many records of the head of a segment are still to come.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    left: u64,
    /// They are what is known; otherwise they must say what is known already.
    load: bool,
}

/// One group.
pub(super) struct Group {
    pub(super) config: ConfigRecord,
    policy: Policy,
    pub(super) state: State,
    /// The time of its last record, in the run in which it was.
    pub(super) at: Timestamp,
    hooks: Vec<OpenHook>,
    switch: Option<OpenSwitch>,
    fence: Option<(FenceProof, Aged)>,
    halt_confirmed: bool,
    /// Number of the record from which order flow has been held for a switch, and for how long that is.
    held: Option<(Seq, Aged)>,
    driver: Box<dyn Follow>,
    /// Endpoints are mostly asked in turn: whose result probably comes next.
    next: u16,
}

/// A group's engine.
pub(super) enum State {
    /// It runs.
    Live(Box<Engine>),
    /// It waits for a `snapshot` to run from; this is how it was left.
    Dormant(Box<Snapshot>),
}

/// An age that goes on in one run and stands still between two.
#[derive(Clone, Copy, Debug)]
struct Aged {
    carried: u64,
    since: Timestamp,
}

impl Aged {
    fn age(self, now: Timestamp) -> u64 {
        self.carried.saturating_add(now.nanos_since(self.since))
    }
}

/// The most hooks of one group that can be under way; more are a fault of the caller.
const MOST_HOOKS: usize = 64;

impl Mirror {
    pub(super) fn new(follow: MakeFollow) -> Self {
        Self { follow, run: None, groups: HashMap::new(), head: Head::default() }
    }

    pub(super) fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// In the order of their names.
    pub(super) fn groups(&self) -> impl ExactSizeIterator<Item = (&str, &Group)> {
        let mut groups: Vec<_> = self.groups.iter().map(|(name, group)| (name.as_str(), group)).collect();
        groups.sort_unstable_by_key(|(name, _)| *name);
        groups.into_iter()
    }

    pub(super) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name)
    }

    /// The oldest record that an unfinished switch or hook began with.
    pub(super) fn oldest_open(&self) -> Option<Seq> {
        let opens = self.groups.values().flat_map(|group| {
            let hooks = group.hooks.iter().map(|hook| hook.seq);
            hooks.chain(group.switch.as_ref().map(|switch| switch.seq)).chain(group.held.map(|(seq, _)| seq))
        });
        opens.min()
    }

    /// Follows one record.
    ///
    /// # Errors
    /// It contradicts what came before, in words.
    pub(super) fn follow(&mut self, record: &Record) -> Result<(), String> {
        let answer = self.take(record.seq, record.at, record.group.as_deref(), &record.body);
        let answer = answer.map_err(|what| self.by_another_version(what))?;
        match (&record.body, answer) {
            (Body::Input { answer: recorded, .. }, Some(computed)) if *recorded != computed => {
                Err(format!("the engine answers \"{computed}\" to this input; the record says \"{recorded}\""))
            }
            _ => Ok(()),
        }
        .map_err(|what| self.by_another_version(what))
    }

    /// An engine of another version may decide otherwise, which is no fault of the disk.
    fn by_another_version(&self, what: String) -> String {
        let ours = env!("CARGO_PKG_VERSION");
        match &self.run {
            Some(Run { version, .. }) if version != ours => {
                format!("{what}; version {version} wrote it, this is {ours}: start that one and stop it, then this one")
            }
            _ => what,
        }
    }

    /// Follows a record that is about to be written; for an input, gives the answer in full.
    ///
    /// # Errors
    /// It does not describe what happened, in words. The mirror may have followed it.
    pub(super) fn take(
        &mut self,
        seq: Seq,
        at: Timestamp,
        group: Option<&str>,
        body: &Body,
    ) -> Result<Option<Answer>, String> {
        if self.head.left > 0 {
            return self.take_head(at, group, body).map(|()| None);
        }
        if let Body::Segment(segment) = body {
            return self.begin_segment(at, segment).map(|()| None);
        }
        if let Body::Start(start) = body {
            for group in self.groups.values_mut() {
                group.sleep();
            }
            let (config_hash, version) = (start.config_hash.clone(), start.version.clone());
            self.run = Some(Run { start: seq, at, config_hash, version, stopped: false });
            return Ok(None);
        }
        let run = self.run.as_mut().ok_or("a record before the first \"start\"")?;
        run.at = run.at.max(at);
        run.stopped = matches!(body, Body::Stop(_));
        match group {
            None => supervisor_wide(body).map(|()| None),
            Some(name) => self.take_of_group(seq, at, name, body),
        }
    }

    fn take_of_group(&mut self, seq: Seq, at: Timestamp, name: &str, body: &Body) -> Result<Option<Answer>, String> {
        if let (Body::Config(config), None) = (body, self.groups.get(name)) {
            let mut group = Group::new(config.clone(), at, (self.follow)())?;
            group.driver.fold(body);
            self.groups.insert(name.to_owned(), group);
            return Ok(None);
        }
        let group = self.groups.get_mut(name).ok_or_else(|| format!("group {name:?} has no \"config\" yet"))?;
        let answer = group.take(seq, at, body)?;
        group.at = match body {
            // A run's time begins anew.
            Body::Snapshot(_) => at,
            _ => group.at.max(at),
        };
        group.driver.fold(body);
        Ok(answer)
    }

    fn begin_segment(&mut self, at: Timestamp, segment: &SegmentRecord) -> Result<(), String> {
        if segment.format != super::record::FORMAT {
            return Err(format!("format {}; this version reads {}", segment.format, super::record::FORMAT));
        }
        let known = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let load = self.run.is_none() && self.groups.is_empty();
        if load && segment.run > 0 {
            let (config_hash, version) = (segment.config_hash.clone(), segment.version.clone());
            self.run = Some(Run { start: segment.run, at, config_hash, version, stopped: false });
        }
        if !load && segment.groups != known {
            return Err(format!("{} groups at the head of the segment; {known} are known", segment.groups));
        }
        self.head = Head { left: u64::from(segment.groups).saturating_mul(2), load };
        Ok(())
    }

    fn take_head(&mut self, at: Timestamp, group: Option<&str>, body: &Body) -> Result<(), String> {
        self.head.left = self.head.left.saturating_sub(1);
        let name = group.ok_or("a record without a group at the head of a segment")?;
        match body {
            Body::Config(config) if self.head.load => {
                self.groups.insert(name.to_owned(), Group::new(config.clone(), at, (self.follow)())?);
                Ok(())
            }
            Body::Config(config) => match self.groups.get(name) {
                Some(group) if group.config == *config => Ok(()),
                _ => Err(format!("the head of the segment does not repeat the configuration of group {name:?}")),
            },
            Body::Snapshot(checkpoint) => {
                let group = self.groups.get_mut(name).ok_or_else(|| format!("group {name:?} has no \"config\""))?;
                if self.head.load {
                    return group.load(at, checkpoint);
                }
                let mut known = group.checkpoint();
                if known.driver.is_none() {
                    // Whoever reads this keeps nothing beside the engine, and cannot judge what the writer kept.
                    known.driver.clone_from(&checkpoint.driver);
                }
                if known == **checkpoint && group.at == at {
                    return Ok(());
                }
                let known = serde_json::to_string(&known).unwrap_or_default();
                Err(format!("the head of the segment does not repeat the state of group {name:?}, which is {known}"))
            }
            _ => Err(format!("a record of kind {:?} at the head of a segment", body.kind())),
        }
    }
}

fn supervisor_wide(body: &Body) -> Result<(), String> {
    match body {
        Body::Note(_) | Body::Command(_) | Body::Stop(_) => Ok(()),
        _ => Err(format!("a record of kind {:?} without a group", body.kind())),
    }
}

impl Group {
    fn new(config: ConfigRecord, at: Timestamp, driver: Box<dyn Follow>) -> Result<Self, String> {
        let engine = scenario::parse_config(&config.line).map_err(|fault| fault.to_string())?;
        Ok(Self {
            policy: engine.policy().clone(),
            config,
            state: State::Live(Box::new(engine)),
            at,
            hooks: Vec::new(),
            switch: None,
            fence: None,
            halt_confirmed: false,
            held: None,
            driver,
            next: 0,
        })
    }

    fn sleep(&mut self) {
        if let State::Live(engine) = &self.state {
            self.state = State::Dormant(Box::new(engine.snapshot(self.at)));
        }
        self.go_on_from(Timestamp::ZERO);
        self.at = Timestamp::ZERO;
    }

    /// Ages go on from `start`, the beginning of another run: the time between two counts as none.
    fn go_on_from(&mut self, start: Timestamp) {
        let ages = [self.fence.as_mut().map(|(_, age)| age), self.held.as_mut().map(|(_, age)| age)];
        for age in ages.into_iter().flatten() {
            *age = Aged { carried: age.age(self.at), since: start };
        }
    }

    pub(super) const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The engine's snapshot as of the last record.
    pub(super) fn snapshot(&self) -> Snapshot {
        match &self.state {
            State::Live(engine) => engine.snapshot(self.at),
            State::Dormant(snapshot) => (**snapshot).clone(),
        }
    }

    pub(super) fn hooks(&self) -> impl Iterator<Item = &HookStartRecord> {
        self.hooks.iter().map(|open| &open.hook)
    }

    pub(super) fn stage(&self) -> Option<&StageRecord> {
        self.switch.as_ref().map(|open| &open.last)
    }

    pub(super) fn fence(&self) -> Option<AgedProof> {
        let (proof, age) = self.fence.as_ref()?;
        Some(AgedProof { proof: proof.clone(), age: Seconds(age.age(self.at)) })
    }

    pub(super) fn held(&self) -> Option<AgedHold> {
        self.held.map(|(seq, age)| AgedHold { seq, age: Seconds(age.age(self.at)) })
    }

    pub(super) const fn halt_confirmed(&self) -> bool {
        self.halt_confirmed
    }

    pub(super) fn driver(&self) -> serde_json::Value {
        self.driver.save()
    }

    fn take(&mut self, seq: Seq, at: Timestamp, body: &Body) -> Result<Option<Answer>, String> {
        match body {
            Body::Config(config) => self.reconfigure(config)?,
            Body::Snapshot(checkpoint) => {
                let Checkpoint { snapshot, health, .. } = &**checkpoint;
                let engine = awake(&self.policy, snapshot, health, at).map_err(|error| error.to_string())?;
                self.state = State::Live(Box::new(engine));
                if self.at > Timestamp::ZERO {
                    // A reload: the run goes on, and time with it.
                    self.at = self.at.max(at);
                }
                self.go_on_from(at);
                if let Some(saved) = &checkpoint.driver {
                    self.driver.load(saved)?;
                }
                self.hold(seq, at);
            }
            Body::Input { verb, answer } => return self.input(seq, at, verb, answer).map(Some),
            Body::HookStart(start) => {
                self.hooks.retain(|open| open.hook.request.stage != start.request.stage);
                if self.hooks.len() >= MOST_HOOKS {
                    return Err(format!("{MOST_HOOKS} hooks are under way already"));
                }
                self.hooks.push(OpenHook { seq, hook: (**start).clone() });
            }
            Body::HookEnd(end) => {
                self.hooks.retain(|open| open.hook.request.stage != end.stage);
                if end.stage == Stage::Halt {
                    self.halt_confirmed = end.report.result == HookResult::Ok;
                }
            }
            Body::Stage(stage) => self.stage_reached(seq, at, stage),
            Body::Command(_) | Body::Note(_) => {}
            Body::Segment(_) | Body::Start(_) | Body::Stop(_) => {
                return Err(format!("a record of kind {:?} of one group", body.kind()));
            }
        }
        Ok(None)
    }

    fn reconfigure(&mut self, config: &ConfigRecord) -> Result<(), String> {
        let same = self.config.line == config.line;
        if !same {
            let engine = scenario::parse_config(&config.line).map_err(|fault| fault.to_string())?;
            self.policy = engine.policy().clone();
        }
        self.config = config.clone();
        if let (State::Live(engine), false) = (&self.state, same) {
            self.state = State::Dormant(Box::new(engine.snapshot(self.at)));
        }
        Ok(())
    }

    fn input(&mut self, seq: Seq, at: Timestamp, verb: &Verb, stated: &Answer) -> Result<Answer, String> {
        let State::Live(engine) = &mut self.state else {
            return Err("an input of a group that waits for a \"snapshot\"".to_owned());
        };
        let before = Flow::of(engine);
        let result = match verb {
            Verb::Input(Input::Probe { endpoint, result }) => probe(engine, &mut self.next, at, endpoint, result),
            Verb::Input(input) => engine.apply(at, input.clone()),
            Verb::Restart(kind) => {
                let restarted = Engine::restore(self.policy.clone(), engine.snapshot(at), at, *kind);
                **engine = restarted.map_err(|error| error.to_string())?;
                Ok(Output::Flow(engine.order_flow()))
            }
            Verb::Status | Verb::WallStep(_) => {
                return Err(format!("the verb {:?} is no input of an engine", verb.name()));
            }
        };
        let answer = Answer::full(&result, engine, &before);
        if !answer.agrees_with(stated) {
            return Err(format!("the engine answers \"{answer}\" to this input; the record says \"{stated}\""));
        }
        if let Ok(Output::Decision(decision)) = &result {
            if let FailoverOutcome::Switched(event) = decision.outcome {
                // A hook of an older epoch can end in nothing that matters any more.
                self.hooks.retain(|open| {
                    open.hook.request.epoch >= event.epoch.get() || open.hook.request.stage == Stage::Halt
                });
            }
        }
        if matches!(verb, Verb::Input(Input::Halt(_))) || answer.flow.as_deref().is_some_and(is_halt) {
            self.halt_confirmed = false;
        }
        self.hold(seq, at);
        Ok(answer)
    }

    /// Keeps since when order flow is held for a switch.
    fn hold(&mut self, seq: Seq, at: Timestamp) {
        let held = match &self.state {
            State::Live(engine) => matches!(
                engine.order_flow(),
                OrderFlow::Hold { reason: HoldReason::Switching | HoldReason::Reconciling }
            ),
            State::Dormant(snapshot) => {
                matches!(snapshot.order_flow, SnapshotFlow::Switching | SnapshotFlow::Reconciling)
            }
        };
        let begins = (seq, Aged { carried: 0, since: at });
        self.held = if held { self.held.or(Some(begins)) } else { None };
    }

    fn stage_reached(&mut self, seq: Seq, at: Timestamp, stage: &StageRecord) {
        let began = self.switch.as_ref().map_or(seq, |open| open.seq);
        if let Some(proof) = &stage.fence {
            self.fence = Some((proof.clone(), Aged { carried: 0, since: at }));
        }
        if stage.stage.is_last() {
            self.switch = None;
            self.hooks.retain(|open| open.hook.request.stage == Stage::Halt);
        } else {
            self.switch = Some(OpenSwitch { seq: began, last: stage.clone() });
        }
    }

    /// What the head of a segment says of this group.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        let driver = self.driver.save();
        Checkpoint {
            snapshot: self.snapshot(),
            health: match &self.state {
                State::Live(engine) => health(engine),
                State::Dormant(_) => Vec::new(),
            },
            hooks: self.hooks.clone(),
            switch: self.switch.clone(),
            fence: self.fence(),
            halt_confirmed: self.halt_confirmed,
            held: self.held(),
            dormant: matches!(self.state, State::Dormant(_)),
            driver: (!driver.is_null()).then_some(driver),
        }
    }

    fn load(&mut self, at: Timestamp, checkpoint: &Checkpoint) -> Result<(), String> {
        let Checkpoint { snapshot, health, hooks, switch, fence, halt_confirmed, held, dormant, driver } = checkpoint;
        self.at = at;
        self.state = if *dormant {
            State::Dormant(Box::new(snapshot.clone()))
        } else {
            let engine = awake(&self.policy, snapshot, health, at).map_err(|error| error.to_string())?;
            State::Live(Box::new(engine))
        };
        self.hooks.clone_from(hooks);
        self.switch.clone_from(switch);
        self.fence = fence.as_ref().map(|fence| (fence.proof.clone(), Aged { carried: fence.age.0, since: at }));
        self.halt_confirmed = *halt_confirmed;
        self.held = held.map(|held| (held.seq, Aged { carried: held.age.0, since: at }));
        driver.as_ref().map_or(Ok(()), |saved| self.driver.load(saved))
    }
}

/// [`Engine::apply`] without a copy of the name, which is looked for at `next` first: of the records, most are these.
fn probe(
    engine: &mut Engine,
    next: &mut u16,
    at: Timestamp,
    endpoint: &str,
    result: &ProbeResult,
) -> Result<Output, InputError> {
    let guess = EndpointId::from_index(*next);
    let id = match engine.endpoint(guess) {
        Some(one) if one.name == endpoint => guess,
        _ => engine.id(endpoint)?,
    };
    *next = u16::try_from(id.index() + 1).unwrap_or(0);
    Ok(Output::Health(engine.record_probe(at, id, result.clone())?))
}

fn is_halt(flow: &str) -> bool {
    flow.starts_with("HALT")
}

/// Counts of an endpoint beyond this decide nothing.
fn count_limit(engine: &Engine, id: EndpointId) -> u32 {
    let settings = engine.policy().settings();
    let least = settings.failure_threshold.max(settings.failback_success_threshold);
    least.max(engine.trigger(id).needs()).max(settings.minimum_history.unwrap_or(0))
}

/// Health of each endpoint that was probed, in order of registration, as far as it decides anything.
pub(super) fn health(engine: &Engine) -> Vec<HealthRecord> {
    counted_health(engine, 0)
}

/// Health of each endpoint that was probed, in order of registration, with counts up to `most`, or as far as they decide
/// anything if that is further.
pub(in crate::supervisor) fn counted_health(engine: &Engine, most: u32) -> Vec<HealthRecord> {
    let of = |(id, endpoint): (_, &crate::engine::Endpoint)| {
        let health = engine.health(id)?;
        let limit = count_limit(engine, id).max(most);
        Some(HealthRecord {
            endpoint: endpoint.name.clone(),
            failures: health.consecutive_failures().min(limit),
            successes: health.consecutive_successes().min(limit),
            probed_at: Seconds(health.probed_at()?.as_nanos()),
            error: health.last_probe_error().map(str::to_owned),
            trigger: engine.evidence(id).map(|evidence| TriggerRecord {
                state: evidence.state,
                results: evidence.results,
                plain: evidence.plain,
                failing_since: evidence.failing_since.map(|since| Seconds(since.as_nanos())),
                recent: evidence.recent,
            }),
        })
    };
    engine.endpoints().filter_map(of).collect()
}

/// Why the head of a segment is no state of an engine.
#[derive(Debug)]
pub(in crate::supervisor) enum Unfit {
    Restore(RestoreError),
    Health(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restore(error) => error.fmt(f),
            Self::Health(text) => f.write_str(text),
        }
    }
}

/// The engine that had this snapshot and this health at `at`: the probes that made the health are repeated.
pub(in crate::supervisor) fn awake(
    policy: &Policy,
    snapshot: &Snapshot,
    health: &[HealthRecord],
    at: Timestamp,
) -> Result<Engine, Unfit> {
    let restore =
        |snapshot| Engine::restore(policy.clone(), snapshot, at, RestartKind::Monitor).map_err(Unfit::Restore);
    // A success of the active path ends HOLD STARTING. Held so while it is HEALTHY already, it was reconciled when its
    // last result was too old; so let it be reconciled again, after its probes.
    let active = snapshot.active.as_ref().filter(|_| snapshot.order_flow == SnapshotFlow::Starting);
    let state = |one: &HealthRecord| one.trigger.as_ref().map(|trigger| trigger.state);
    let well = |one: &HealthRecord| state(one).map_or(one.successes > 0, |state| state == EndpointState::Healthy);
    let healthy = |name: &str| health.iter().any(|one| one.endpoint == name && well(one));
    let stale = active.filter(|active| !active.spent && healthy(&active.endpoint));
    let mut engine = match stale {
        None => restore(snapshot.clone())?,
        Some(_) => restore(Snapshot { order_flow: SnapshotFlow::Reconciling, ..snapshot.clone() })?,
    };
    for one in health {
        repeat(&mut engine, one)?;
    }
    if let Some(active) = stale {
        let _ = engine.confirm_reconciled(at, active.epoch.get());
    }
    let restored = engine.snapshot(at);
    if restored.order_flow != snapshot.order_flow {
        return Err(Unfit::Health(format!("with this health order flow is {:?}", restored.order_flow)));
    }
    Ok(engine)
}

fn repeat(engine: &mut Engine, one: &HealthRecord) -> Result<(), Unfit> {
    let id = engine.id(&one.endpoint).map_err(|error| Unfit::Health(error.to_string()))?;
    if let Some(trigger) = &one.trigger {
        let (counts, at) = ((one.failures, one.successes), Timestamp::from_nanos(one.probed_at.0));
        let evidence = Evidence {
            state: trigger.state,
            results: trigger.results,
            plain: trigger.plain,
            failing_since: trigger.failing_since.map(|since| Timestamp::from_nanos(since.0)),
            recent: trigger.recent,
        };
        engine.recall(id, Health::recalled(trigger.state, counts, at, one.error.clone()), &evidence);
        return Ok(());
    }
    let (count, result) = match (one.failures, one.successes, &one.error) {
        (0, count @ 1.., None) => (count, ProbeResult::Success),
        (count @ 1.., 0, Some(error)) => (count, ProbeResult::Failure(error.clone().into())),
        _ => return Err(Unfit::Health(format!("{:?} can't have this health", one.endpoint))),
    };
    for _ in 0..count {
        let now = Timestamp::from_nanos(one.probed_at.0);
        engine.record_probe(now, id, result.clone()).map_err(|error| Unfit::Health(error.to_string()))?;
    }
    Ok(())
}
