//! A folder, and a group that writes into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::scenario::{Replay, Verb, config_line};
use broker_failover::supervisor::hooks::{HookReport, HookRequest, HookResult, Stage};
use broker_failover::supervisor::journal::*;
use sha2::{Digest, Sha256};

/// A folder of its own, removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (id, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("journal-{name}-{id}-{next}"));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(&self.0, "hash")
    }

    pub(crate) fn open(&self) -> (Journal, Recovered) {
        Journal::open(self.options(), at(0)).unwrap()
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        found.sort();
        found
    }

    pub(crate) fn newest(&self) -> PathBuf {
        self.segments().pop().unwrap()
    }

    pub(crate) fn text(&self) -> String {
        self.segments().iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for_each(&self.0, |record, _| records.push(record.clone())).unwrap();
        records
    }

    pub(crate) fn recover(&self) -> Result<Recovered, ReadError> {
        recover(&self.0, follow_nothing)
    }

    pub(crate) fn verify(&self) -> Result<Counts, ReadError> {
        verify(&self.0, follow_nothing)
    }

    pub(crate) fn exported(&self, group: &str) -> Vec<Exported> {
        let mut lines = Vec::new();
        assert!(export(&self.0, group, None, |line| lines.push(line.clone())).unwrap());
        lines
    }

    /// A journal in which the copies can be damaged.
    pub(crate) fn copy(&self, name: &str) -> Self {
        let copy = Self::new(name);
        fs::create_dir_all(&copy.0).unwrap();
        for path in self.segments() {
            fs::copy(&path, copy.0.join(path.file_name().unwrap())).unwrap();
        }
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

pub(crate) fn new_engine() -> Engine {
    let settings = PolicySettings {
        cooldown: Duration::from_millis(500),
        failback_window: Duration::from_secs(20),
        max_health_age: Duration::from_secs(2),
        max_failbacks_per_window: 1,
        history_limit: 4,
        ..PolicySettings::default()
    };
    let mut engine = Engine::new(Policy::new(settings).unwrap());
    engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).unwrap();
    engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).unwrap();
    engine.register(Endpoint::backup("south", "sa-east-1", "https://south.example", 20)).unwrap();
    engine
}

/// Endpoints whose triggers remember more than failures in a row.
pub(crate) fn patient_engine() -> Engine {
    let trigger = |rule| Trigger::new(rule).unwrap();
    let among = trigger(TriggerRule::Failures { failures: 2, of: 3 });
    let window = trigger(TriggerRule::Window(Duration::from_millis(700)));
    let settings =
        PolicySettings { trigger: Some(among), minimum_history: Some(4), ..new_engine().policy().settings().clone() };
    let mut engine = Engine::new(Policy::new(settings).unwrap());
    engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).unwrap();
    engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10).with_trigger(window)).unwrap();
    let patient = trigger(TriggerRule::Consecutive(5));
    engine.register(Endpoint::backup("south", "sa-east-1", "https://south.example", 20).with_trigger(patient)).unwrap();
    engine
}

/// A group as a supervisor has it: an engine, and a handle to have its inputs recorded.
pub(crate) struct Desk {
    pub(crate) name: Arc<str>,
    pub(crate) engine: Engine,
    pub(crate) journal: JournalHandle,
    pub(crate) now: u64,
}

impl Desk {
    /// A group that was never configured.
    pub(crate) fn new(name: &str, journal: &JournalHandle) -> Self {
        let engine = if name == "patient" { patient_engine() } else { new_engine() };
        let desk = Self { name: name.into(), engine, journal: journal.clone(), now: 1 };
        desk.append(desk.config());
        desk
    }

    /// A group as a journal has it, on a supervisor whose clock is at `now`.
    pub(crate) fn recovered(name: &str, journal: &JournalHandle, recovered: &Recovered, now: u64) -> Self {
        let group = &recovered.groups[name];
        let engine = if name == "patient" { patient_engine() } else { new_engine() };
        let policy = engine.policy().clone();
        let restored = Engine::restore(policy, group.snapshot.clone(), at(now), RestartKind::Monitor).unwrap();
        let desk = Self { name: name.into(), engine: restored, journal: journal.clone(), now };
        desk.append(Body::Config(ConfigRecord { line: group.config.clone(), hash: "hash".to_owned() }));
        desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.engine.snapshot(at(now))))));
        desk
    }

    pub(crate) fn new_or_recovered(name: &str, journal: &JournalHandle, recovered: &Recovered) -> Self {
        if recovered.groups.contains_key(name) {
            Self::recovered(name, journal, recovered, 1)
        } else {
            Self::new(name, journal)
        }
    }

    pub(crate) fn config(&self) -> Body {
        let line = config_line(self.engine.policy(), self.engine.endpoints().map(|(_, endpoint)| endpoint));
        Body::Config(ConfigRecord { line, hash: "hash".to_owned() })
    }

    pub(crate) fn entry(&self, body: Body) -> Entry {
        Entry::of(&self.name, at(self.now), body)
    }

    pub(crate) fn append(&self, body: Body) {
        self.journal.append(self.entry(body)).unwrap();
    }

    pub(crate) fn durably(&self, body: Body) -> Seq {
        self.journal.append_durable_blocking(self.entry(body)).unwrap()
    }

    pub(crate) fn apply(&mut self, input: Input) -> Entry {
        self.now += 10;
        let result = self.engine.apply(at(self.now), input.clone());
        Entry::input(&self.name, at(self.now), input, &result)
    }

    pub(crate) fn tell(&mut self, input: Input) {
        let entry = self.apply(input);
        self.journal.append(entry).unwrap();
    }

    pub(crate) fn decide(&mut self, input: Input) -> Result<Seq, JournalFailed> {
        let entry = self.apply(input);
        self.journal.append_durable_blocking(entry)
    }

    pub(crate) fn forget(&mut self) {
        self.now += 10;
        let snapshot = self.engine.snapshot(at(self.now));
        self.engine =
            Engine::restore(self.engine.policy().clone(), snapshot, at(self.now), RestartKind::Monitor).unwrap();
        let answer = Answer::short(Answer::TAKEN, None);
        self.append(Body::Input { verb: Verb::Restart(RestartKind::Monitor), answer });
    }

    pub(crate) fn probe(&mut self, endpoint: &str, ok: bool) {
        let result = if ok { ProbeResult::Success } else { ProbeResult::Failure("Refused: connection".into()) };
        self.tell(Input::Probe { endpoint: endpoint.to_owned(), result });
    }

    pub(crate) fn evaluate(&mut self, claim: FenceClaim) -> Result<Seq, JournalFailed> {
        self.decide(Input::Evaluate(Evaluation::Failover, claim))
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.engine.epoch().unwrap().get()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.engine.snapshot(at(self.now))
    }

    /// The active path dies, is fenced, and flow goes to the next one; reconciliation is still to come.
    pub(crate) fn fail_over(&mut self) {
        for name in ["east", "west", "south"] {
            self.probe(name, true);
        }
        let active = self.engine.endpoint(self.engine.active().unwrap()).unwrap().name.clone();
        for _ in 0..3 {
            self.probe(&active, false);
        }
        self.evaluate(FenceClaim::None).unwrap();
        let epoch = self.epoch();
        self.decide(Input::FenceStarted(epoch)).unwrap();
        self.evaluate(FenceClaim::Epoch(epoch)).unwrap();
        assert_eq!(self.epoch(), epoch + 1);
    }

    pub(crate) fn request(&self, stage: Stage) -> HookRequest {
        HookRequest {
            stage,
            group: self.name.to_string(),
            endpoint: "east".to_owned(),
            url: "https://east.example".to_owned(),
            epoch: self.epoch(),
            target: Some("west".to_owned()),
            reason: "ACTIVE_DOWN".to_owned(),
            detail: None,
            cancel_on_disconnect: None,
        }
    }

    pub(crate) fn hook_start(&self, stage: Stage, ticket: u64) -> Body {
        Body::HookStart(Box::new(HookStartRecord { ticket, level: 0, request: self.request(stage) }))
    }

    pub(crate) fn hook_end(&self, stage: Stage, ticket: u64, result: HookResult) -> Body {
        let report = HookReport { result, millis: 12, output: "done".to_owned(), counts: None };
        let (endpoint, epoch) = ("east".to_owned(), self.epoch());
        Body::HookEnd(Box::new(HookEndRecord { ticket, stage, level: 0, endpoint, epoch, report }))
    }

    pub(crate) fn stage(&self, stage: SwitchStage) -> Body {
        let fence = (stage == SwitchStage::Fenced).then(|| FenceProof {
            endpoint: "east".to_owned(),
            epoch: self.epoch(),
            by: "hook level 0".to_owned(),
            proves: Some("session closed".to_owned()),
            holds: Some(Seconds(60_000_000_000)),
        });
        Body::Stage(Box::new(StageRecord {
            stage,
            kind: Some(SwitchKind::Failover),
            from: "east".to_owned(),
            to: Some("west".to_owned()),
            epoch: self.epoch(),
            fence,
            detail: None,
        }))
    }
}

pub(crate) fn note(text: &str) -> Body {
    Body::Note(NoteRecord::new("TEST", text))
}

/// Order flow as the journal writes it.
pub(crate) fn flow(engine: &Engine) -> String {
    match engine.order_flow() {
        OrderFlow::Open { endpoint, epoch } => format!("OPEN {} #{epoch}", engine.endpoint(endpoint).unwrap().name),
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { .. } => {
            format!("HALT {}", engine.halt_order().map_or("NO_TARGET_AVAILABLE", HaltOrder::code))
        }
    }
}

/// Replays exported lines and compares every answer with the recorded one. Gives how many were compared.
pub(crate) fn replay_alike(lines: &[Exported]) -> usize {
    let mut replay = Replay::new();
    let mut compared = 0;
    for Exported { line, answer } in lines {
        let replayed = replay
            .line(line.as_bytes(), |replayed| (Answer::of(replayed.result), flow(replayed.engine)))
            .unwrap_or_else(|fault| panic!("{fault}: {line}"));
        let Some(recorded) = answer else { continue };
        let (replayed, flow) = replayed.unwrap();
        let short = (&recorded.outcome, &recorded.reason);
        assert_eq!(short, (&replayed.outcome, &replayed.reason), "{line}");
        if let Some(recorded) = &recorded.flow {
            assert_eq!(*recorded, flow, "{line}");
        }
        compared += 1;
    }
    replay.finish().unwrap();
    compared
}

/// Gives a line that was changed a right checksum, and gives the link for the next line.
pub(crate) fn sealed(line: &str, prev: &str) -> (String, String) {
    let body = line.split(",\"prev\":\"").next().unwrap();
    let covered = format!("{body},\"prev\":\"{prev}");
    let line = format!("{covered}\",\"crc\":\"{:08x}\"}}", crc32fast::hash(covered.as_bytes()));
    let link: String = Sha256::digest(line.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    (line, link)
}

/// Rewrites a journal of one segment with every checksum and link right again.
pub(crate) fn forge(path: &Path, change: impl Fn(&str) -> String) {
    let text = fs::read_to_string(path).unwrap();
    let mut prev = "0".repeat(32);
    let mut out = String::new();
    for line in text.lines() {
        let (line, link) = sealed(&change(line), &prev);
        prev = link;
        out += &line;
        out.push('\n');
    }
    fs::write(path, out).unwrap();
}

pub(crate) fn damage(error: &ReadError) -> &Damage {
    match error {
        ReadError::Damaged(damage) => damage,
        ReadError::Io { .. } => panic!("{error}"),
    }
}

/// A small journal: one segment, one failover, and a last record of the group.
pub(crate) fn small(name: &str) -> (Folder, Snapshot) {
    let folder = Folder::new(name);
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    desk.probe("west", true);
    drop(journal);
    (folder, desk.snapshot())
}
