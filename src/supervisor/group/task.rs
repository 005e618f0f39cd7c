//! Carries out what the [`Core`] decides: records, publications, hooks, in their order.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, warn};

use crate::engine::{EndpointId, Epoch, Input, ProbeResult, Reason, Timestamp};
use crate::manager::Clock;
use crate::path::{Path, PathReader};
use crate::scenario::Verb;

use super::super::clock::BootClock;
use super::super::hooks::{self, HookReport, HookRequest, Stage};
use super::super::journal::{Body, Peer, StageRecord};
use super::super::probes::Limits;
use super::super::reload::GroupChange;
use super::super::scheduler::{self, SlotResult};
use super::outlets::{Changes, GroupFeed, Outlets};
use super::status::GroupStatus;
use super::{Command, Core, Effect, Entry, Event, Observed, Outcome, Reloaded, Sending};

/// Messages that may wait for a group before its senders wait in turn.
const INBOX: usize = 1024;

/// Results that are taken one after another before anything else is looked at.
const MOST_TOGETHER: usize = 64;

/// A hook's end. Boxed: a channel keeps room for 32 of them, and every group has one.
type Ended = (u64, Box<HookReport>);

/// Where records go.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// Writes it down soon.
    fn append(&self, group: &Arc<str>, at: Timestamp, entry: Entry);

    /// Writes it down, and everything before it; ends when it is on disk.
    fn append_durable(
        &self,
        group: &Arc<str>,
        at: Timestamp,
        entry: &Entry,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// An endpoint that the scheduler asks, and by what its results are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its name.
    pub name: String,
    /// What the scheduler knows it by, for as long as the group has it.
    pub key: EndpointId,
    /// Which watch of it: a result of another one is of an older configuration.
    pub run: u64,
}

/// A reload, as one of the groups that it changes meets it: the group says what it finds, and then waits, so that
/// nothing happens between that and the change.
#[derive(Debug)]
pub struct Offer {
    /// What would change.
    pub change: GroupChange,
    /// Hash of the new file.
    pub hash: String,
    /// Where it says what must be recorded first, or why it refuses.
    pub found: oneshot::Sender<Result<Found, String>>,
    /// What is asked from then on, once that is on disk. Dropped: nothing changes.
    pub go: oneshot::Receiver<Vec<Watched>>,
}

/// What a group says of a reload that it does not refuse.
#[derive(Debug)]
pub struct Found {
    /// When that was.
    pub at: Timestamp,
    /// What must be on disk before the group changes.
    pub records: Vec<Body>,
    /// What becomes of what is under way, in words.
    pub words: Vec<String>,
}

/// What the group's endpoints are found to be.
#[derive(Debug)]
pub struct Results {
    /// The scheduler's events.
    pub events: mpsc::Receiver<scheduler::Event>,
    /// Which endpoints they are of.
    pub watched: Vec<Watched>,
    /// What their probes may ask.
    pub limits: Limits,
}

/// What a group is sent.
#[derive(Debug)]
pub enum Message {
    /// Something happened.
    Event(Event),
    /// The configuration is to change.
    Reload(Box<Offer>),
    /// A person asked for something and waits for the answer.
    Ask {
        /// What is wanted.
        command: Command,
        /// Who asks, as the kernel says.
        caller: Option<Peer>,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<String, String>>,
    },
    /// A gateway says that orders may leave on a path, and waits for the answer.
    Sending {
        /// What it says.
        sending: Sending,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<String, String>>,
    },
    /// Somebody wants to see the whole state.
    Look(oneshot::Sender<GroupStatus>),
    /// Stop: a running hook is abandoned. Answered when that is recorded.
    Stop(oneshot::Sender<()>),
}

/// A running group.
#[derive(Clone, Debug)]
pub struct GroupHandle {
    /// Its name.
    pub name: String,
    /// Where its events go.
    pub inbox: mpsc::Sender<Message>,
    /// What the order path reads.
    pub reader: PathReader,
    /// What subscribers are told from.
    pub changes: Changes,
}

impl GroupHandle {
    /// Asks for `command` on behalf of `caller`, whom the journal names, and waits for the answer.
    ///
    /// # Errors
    /// Why it was refused.
    pub async fn ask(&self, command: Command, caller: Option<Peer>) -> Result<String, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the group has stopped".to_owned();
        self.inbox.send(Message::Ask { command, caller, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Tells where a gateway says that orders may leave, and waits for the answer.
    ///
    /// # Errors
    /// They must not, and trading halts; or there is no such endpoint.
    pub async fn sends(&self, sending: Sending) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the group has stopped".to_owned();
        self.inbox.send(Message::Sending { sending, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?.map(drop)
    }

    /// The whole state now; `None` once the group has stopped.
    pub async fn status(&self) -> Option<GroupStatus> {
        let (look, seen) = oneshot::channel();
        self.inbox.send(Message::Look(look)).await.ok()?;
        seen.await.ok()
    }

    /// Stops the group and waits until its last record is written.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.inbox.send(Message::Stop(done)).await.is_ok() {
            // A group that is gone already has stopped too.
            let _ = stopped.await;
        }
    }
}

/// Resolves, with its name, when the loop of one of `groups` has ended; never if there are none.
pub async fn until_one_ends(groups: &[GroupHandle]) -> String {
    let mut loops = tokio::task::JoinSet::new();
    for GroupHandle { name, inbox, .. } in groups.iter().cloned() {
        loops.spawn(async move {
            inbox.closed().await;
            name
        });
    }
    match loops.join_next().await {
        Some(Ok(name)) => name,
        Some(Err(_)) | None => std::future::pending().await,
    }
}

/// Starts a group on the present runtime. Its order flow is published to `feed`, if there is one, as soon as it runs.
pub fn start<L: Ledger>(
    core: Core,
    ledger: L,
    clock: BootClock,
    results: Results,
    feed: Option<GroupFeed>,
) -> GroupHandle {
    let (inbox, messages) = mpsc::channel(INBOX);
    let (outlets, reader, changes) = Outlets::new(core.config(), core.engine(), clock.now(), feed);
    let name = core.config().name.clone();
    // At most one hook runs at a time, so its end always finds room.
    let (ended, ends) = mpsc::channel(2);
    let task = Task {
        ledger,
        clock,
        outlets,
        ended,
        running: HashMap::new(),
        journal_failed: false,
        group: Arc::from(&*name),
        known: known(&results.watched, &core),
        core,
        limits: results.limits,
    };
    tokio::spawn(task.run(messages, ends, results.events));
    GroupHandle { name, inbox, reader, changes }
}

struct Task<L> {
    core: Core,
    ledger: L,
    clock: BootClock,
    outlets: Outlets,
    ended: mpsc::Sender<Ended>,
    /// The hooks that run, and how to abandon each that was not abandoned yet.
    running: HashMap<u64, Option<oneshot::Sender<()>>>,
    journal_failed: bool,
    group: Arc<str>,
    known: Vec<Known>,
    limits: Limits,
}

/// An endpoint as the scheduler's results have it, and as the engine does.
struct Known {
    key: EndpointId,
    run: u64,
    id: EndpointId,
}

/// Looked up once, not for each result.
fn known(watched: &[Watched], core: &Core) -> Vec<Known> {
    let known = |Watched { name, key, run }: &Watched| match core.engine().id(name) {
        Ok(id) => Some(Known { key: *key, run: *run, id }),
        Err(error) => {
            error!(group = core.config().name, endpoint = name, %error, "its results are lost");
            None
        }
    };
    watched.iter().filter_map(known).collect()
}

impl<L: Ledger> Task<L> {
    async fn run(
        mut self,
        mut messages: mpsc::Receiver<Message>,
        mut ends: mpsc::Receiver<Ended>,
        mut events: mpsc::Receiver<scheduler::Event>,
    ) {
        self.outlets.beat().await;
        self.step(Event::Deadline, None).await;
        let mut alarm = Alarm::default();
        loop {
            if let Some(text) = self.outlets.new_trouble() {
                self.append(self.clock.now(), Entry::Note { code: "FEED_FAILED", text });
            }
            alarm.set(self.core.next_deadline(), &self.clock);
            tokio::select! {
                Some(event) = events.recv() => {
                    self.observe(event).await;
                    // What was handed over with it needs no other look at everything else.
                    for _ in 1..MOST_TOGETHER {
                        if !messages.is_empty() {
                            break;
                        }
                        let Ok(event) = events.try_recv() else { break };
                        self.observe(event).await;
                    }
                }
                Some((ticket, report)) = ends.recv() => {
                    self.running.remove(&ticket);
                    self.step(Event::HookEnded { ticket, report: *report }, None).await;
                }
                message = messages.recv() => match message {
                    Some(Message::Event(event)) => self.step(event, None).await,
                    Some(Message::Reload(offer)) => self.reload(*offer).await,
                    Some(Message::Ask { command, caller, answer }) => {
                        self.step(Event::Command { command, caller }, Some(answer)).await;
                    }
                    Some(Message::Sending { sending, answer }) => {
                        self.step(Event::Sending(sending), Some(answer)).await;
                    }
                    // Whoever asked may be gone.
                    Some(Message::Look(look)) => drop(look.send(self.status())),
                    Some(Message::Stop(done)) => {
                        self.stop(&mut ends).await;
                        // Nobody may be waiting any more.
                        let _ = done.send(());
                        return;
                    }
                    None => return self.stop(&mut ends).await,
                },
                () = self.outlets.due() => self.outlets.beat().await,
                () = alarm.ring() => {
                    if self.core.next_deadline().is_some_and(|due| due <= self.clock.now()) {
                        self.step(Event::Deadline, None).await;
                    }
                }
            }
        }
    }

    async fn observe(&mut self, event: scheduler::Event) {
        match event {
            scheduler::Event::Slot(slot) => self.slot(slot).await,
            scheduler::Event::Stall(stall) => self.step(Event::Stall { text: stall.to_string() }, None).await,
            scheduler::Event::Late(late) => warn!(group = &*self.group, slot = late.slot, "late answer dropped"),
        }
    }

    async fn slot(&mut self, slot: SlotResult) {
        let SlotResult { endpoint: key, run, verdict, .. } = slot;
        let is_it = |one: &&Known| one.key == key && one.run == run;
        // Until a reload, they stand in the order of their keys.
        let first = self.known.get(key.index()).filter(is_it);
        match first.or_else(|| self.known.iter().find(is_it)) {
            Some(&Known { id: endpoint, .. }) => self.step(Event::Slot(Observed { endpoint, verdict }), None).await,
            None => debug!(group = &*self.group, run, "a result of an older configuration is dropped"),
        }
    }

    /// Says what it finds, and changes if it is told to. Whoever asks bounds the time until then.
    async fn reload(&mut self, offer: Offer) {
        let Offer { change, hash, found, go } = offer;
        let at = self.clock.now();
        let reloaded = match self.core.reloaded(at, &change, &hash) {
            Ok(Reloaded { core, records, words }) => {
                if found.send(Ok(Found { at, records, words })).is_err() {
                    return;
                }
                core
            }
            // Whoever asks may have given up.
            Err(why) => return drop(found.send(Err(why))),
        };
        if let Ok(watched) = self.outlets.beating(go).await {
            self.step(Event::Reloaded(reloaded), None).await;
            self.known = known(&watched, &self.core);
            self.outlets.reconfigured(self.core.config()).await;
        }
    }

    async fn step(&mut self, event: Event, mut answer: Option<oneshot::Sender<Result<String, String>>>) {
        let now = self.clock.now();
        if let Event::JournalFailed { text, .. } = &event {
            self.fail_journal(text);
        }
        let mut effects = VecDeque::from(self.core.handle(now, event));
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Record { entry, durable: false } => self.append(now, entry),
                Effect::Record { entry, durable: true } => {
                    if let Err(text) = self.append_durable(now, &entry).await {
                        // What was to follow the record must not happen.
                        self.fail_journal(&text);
                        effects.push_front(Effect::Record { entry, durable: true });
                        let undone = effects.into();
                        effects = VecDeque::from(self.core.handle(now, Event::JournalFailed { text, undone }));
                    }
                }
                Effect::Publish { path, reason } => self.publish(path, now, reason).await,
                Effect::Run { ticket, level, request } => self.start_hook(ticket, level, *request),
                Effect::Abandon { ticket } => {
                    if let Some(abandon) = self.running.get_mut(&ticket).and_then(Option::take) {
                        // It may have ended by itself.
                        let _ = abandon.send(());
                    }
                }
                Effect::ClearLogons => self.limits.clear_logons(&self.group),
                Effect::Reply(reply) => {
                    if let Some(answer) = answer.take() {
                        let _ = answer.send(reply);
                    }
                }
            }
        }
        if self.core.engine().order_flow().is_halt() {
            // A halt may get another code or other words, which the published path does not have.
            self.outlets.tell(Path::of(self.core.engine()), self.core.engine(), None);
        }
        if let Some(answer) = answer {
            let _ = answer.send(Err("the journal failed: nothing was changed".to_owned()));
        }
    }

    fn fail_journal(&mut self, text: &str) {
        if !std::mem::replace(&mut self.journal_failed, true) {
            error!(group = &*self.group, error = text, "journal failed: nothing is decided any more");
        }
    }

    fn append(&self, now: Timestamp, entry: Entry) {
        self.log(&entry);
        if !self.journal_failed {
            self.ledger.append(&self.group, now, entry);
        }
    }

    async fn append_durable(&mut self, now: Timestamp, entry: &Entry) -> Result<(), String> {
        self.log(entry);
        if self.journal_failed {
            return Ok(());
        }
        self.outlets.beating(self.ledger.append_durable(&self.group, now, entry)).await
    }

    fn status(&self) -> GroupStatus {
        let feed_trouble = self.outlets.trouble().map(str::to_owned);
        GroupStatus { feed_trouble, ..GroupStatus::of(&self.core, self.clock.now()) }
    }

    async fn publish(&mut self, path: Path, now: Timestamp, reason: Option<Reason>) {
        if !self.outlets.publish(path, self.core.engine(), now, reason).await {
            return;
        }
        let (flow, reason) = (self.outlets.order_flow(), reason.map_or("", Reason::code));
        if path.must_halt() {
            error!(group = &*self.group, order_flow = flow, reason, "order flow changed");
        } else {
            info!(group = &*self.group, order_flow = flow, reason, "order flow changed");
        }
    }

    fn start_hook(&mut self, ticket: u64, level: usize, request: HookRequest) {
        let Some(hook) = self.core.hook(request.stage, level).cloned() else { return };
        let (abandon, abandoned) = oneshot::channel::<()>();
        self.running.insert(ticket, Some(abandon));
        let ended = self.ended.clone();
        tokio::spawn(async move {
            // A hook whose runner panics has failed, like one that crashes; its end comes back all the same.
            let run = tokio::spawn(async move {
                hooks::run(&hook, &request, async {
                    if abandoned.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                })
                .await
            });
            let report = run.await.unwrap_or_else(|error| HookReport {
                result: hooks::HookResult::Unreachable(format!("the hook's runner ended: {error}")),
                millis: 0,
                output: String::new(),
                counts: None,
            });
            let _ = ended.send((ticket, Box::new(report))).await;
        });
    }

    /// Abandons what runs and writes down how it ended.
    async fn stop(&mut self, ends: &mut mpsc::Receiver<Ended>) {
        self.outlets.stop().await;
        let running = std::mem::take(&mut self.running);
        let abandoned = running.into_values().map(|abandon| abandon.map(|abandon| abandon.send(())));
        for _ in abandoned.collect::<Vec<_>>() {
            if let Some((ticket, report)) = ends.recv().await {
                let now = self.clock.now();
                for effect in self.core.handle(now, Event::HookEnded { ticket, report: *report }) {
                    // Nothing new is begun: only the end is recorded.
                    match effect {
                        Effect::Record { entry: entry @ Entry::HookEnd { .. }, durable: true } => {
                            let _ = self.append_durable(now, &entry).await;
                        }
                        Effect::Record { entry: entry @ Entry::HookEnd { .. }, durable: false } => {
                            self.append(now, entry);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Says that an endpoint is in another state now, and nothing of each result that changes none.
    fn log_health(&self, endpoint: &str, [from, to]: [&str; 2], result: &ProbeResult) {
        if from == to {
            return;
        }
        let group = &*self.group;
        match result {
            ProbeResult::Failure(error) => warn!(group, endpoint, from, to, %error, "health"),
            ProbeResult::Success => info!(group, endpoint, from, to, "health"),
        }
    }

    fn log(&self, entry: &Entry) {
        let group = &*self.group;
        match entry {
            Entry::Input {
                verb: Verb::Input(Input::Probe { endpoint, result }),
                answer: Outcome::Probed { from, to },
            } => self.log_health(endpoint, [from, to], result),
            Entry::Input { verb, answer } => {
                let engine = self.core.engine();
                let endpoint = engine.active().and_then(|id| engine.endpoint(id)).map_or("", |active| &active.name);
                let epoch = engine.epoch().map_or(0, Epoch::get);
                let (outcome, reason) = match answer {
                    Outcome::Decided(outcome, reason) => (*outcome, *reason),
                    Outcome::Refused(code) => ("REFUSED", *code),
                    Outcome::Probed { to, .. } => (*to, ""),
                    Outcome::Taken => ("TAKEN", ""),
                };
                info!(group, input = verb.name(), endpoint, epoch, outcome, reason, "input");
            }
            Entry::HookStart { ticket, level, request } => {
                let HookRequest { stage, endpoint, epoch, .. } = &**request;
                info!(group, ticket, level, stage = stage.name(), endpoint, epoch, "hook started");
            }
            Entry::HookEnd { ticket, stage, epoch, report, .. } => {
                let HookReport { result, millis, output, .. } = &**report;
                let name = stage.name();
                match (stage, result) {
                    (Stage::Flow, _) | (_, hooks::HookResult::Ok) => {
                        info!(group, ticket, stage = name, epoch, %result, millis, "hook ended");
                    }
                    _ => error!(group, ticket, stage = name, epoch, %result, millis, output, "hook failed"),
                }
            }
            Entry::Stage(record) => {
                let StageRecord { stage, from, to, epoch, .. } = &**record;
                info!(group, stage = stage.name(), from, to, epoch, "switch");
            }
            Entry::Command { command, caller, refused } => {
                let (caller, refused) = (caller.map(tracing::field::display), refused.as_deref());
                // As text, which the log quotes: its words are a person's.
                let command = command.to_string();
                warn!(group, command, caller, refused, "command");
            }
            // One for each slot, in the journal; what changes with it has a line of its own, and so has long silence.
            Entry::Note { code: "NO_EVIDENCE", text } => debug!(group, code = "NO_EVIDENCE", text, "note"),
            Entry::Note { code, text } => warn!(group, code, text, "note"),
            Entry::Shadow(shadow) => warn!(group, code = shadow.code(), text = shadow.to_string(), "note"),
        }
    }
}

/// Rings when time alone makes something due. Each result moves the silence alarm away; what is set for a later moment
/// than before is left to ring too early, which costs less than to set it anew each time.
#[derive(Default)]
struct Alarm {
    rings: Option<(Timestamp, Pin<Box<tokio::time::Sleep>>)>,
}

impl Alarm {
    fn set(&mut self, due: Option<Timestamp>, clock: &BootClock) {
        let Some(due) = due else { return };
        if self.rings.as_ref().is_none_or(|(at, _)| due < *at) {
            let wait = Duration::from_nanos(due.nanos_since(clock.now()));
            self.rings = Some((due, Box::pin(tokio::time::sleep(wait))));
        }
    }

    async fn ring(&mut self) {
        match &mut self.rings {
            Some((_, sleep)) => sleep.await,
            None => std::future::pending().await,
        }
        self.rings = None;
    }
}
