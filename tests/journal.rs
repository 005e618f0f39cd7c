//! The durable journal: what it promises, case by case.
#![cfg(feature = "supervisor")]
#![expect(clippy::disallowed_methods, reason = "tests of time and of processes wait, and measure")]
#![expect(clippy::disallowed_macros, reason = "what is skipped, and what was counted, is said aloud")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker_failover::engine::*;
use broker_failover::scenario::{Replay, Verb, config_line};
use broker_failover::supervisor::group::Entry as GroupEntry;
use broker_failover::supervisor::group::task::Ledger;
use broker_failover::supervisor::hooks::{HookReport, HookRequest, HookResult, Stage};
use broker_failover::supervisor::journal::*;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

// ---------------------------------------------------------------------------------------------------------- scaffold

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (id, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("journal-{name}-{id}-{next}"));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn options(&self) -> Options {
        Options::new(&self.0, "hash")
    }

    fn open(&self) -> (Journal, Recovered) {
        Journal::open(self.options(), at(0)).unwrap()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        found.sort();
        found
    }

    fn newest(&self) -> PathBuf {
        self.segments().pop().unwrap()
    }

    fn text(&self) -> String {
        self.segments().iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for_each(&self.0, |record, _| records.push(record.clone())).unwrap();
        records
    }

    fn recover(&self) -> Result<Recovered, ReadError> {
        recover(&self.0, follow_nothing)
    }

    fn verify(&self) -> Result<Counts, ReadError> {
        verify(&self.0, follow_nothing)
    }

    fn exported(&self, group: &str) -> Vec<Exported> {
        let mut lines = Vec::new();
        assert!(export(&self.0, group, None, |line| lines.push(line.clone())).unwrap());
        lines
    }

    /// A journal in which the copies can be damaged.
    fn copy(&self, name: &str) -> Self {
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

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn new_engine() -> Engine {
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
fn patient_engine() -> Engine {
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
struct Desk {
    name: Arc<str>,
    engine: Engine,
    journal: JournalHandle,
    now: u64,
}

impl Desk {
    /// A group that was never configured.
    fn new(name: &str, journal: &JournalHandle) -> Self {
        let engine = if name == "patient" { patient_engine() } else { new_engine() };
        let desk = Self { name: name.into(), engine, journal: journal.clone(), now: 1 };
        desk.append(desk.config());
        desk
    }

    /// A group as a journal has it, on a supervisor whose clock is at `now`.
    fn recovered(name: &str, journal: &JournalHandle, recovered: &Recovered, now: u64) -> Self {
        let group = &recovered.groups[name];
        let engine = if name == "patient" { patient_engine() } else { new_engine() };
        let policy = engine.policy().clone();
        let restored = Engine::restore(policy, group.snapshot.clone(), at(now), RestartKind::Monitor).unwrap();
        let desk = Self { name: name.into(), engine: restored, journal: journal.clone(), now };
        desk.append(Body::Config(ConfigRecord { line: group.config.clone(), hash: "hash".to_owned() }));
        desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.engine.snapshot(at(now))))));
        desk
    }

    fn new_or_recovered(name: &str, journal: &JournalHandle, recovered: &Recovered) -> Self {
        if recovered.groups.contains_key(name) {
            Self::recovered(name, journal, recovered, 1)
        } else {
            Self::new(name, journal)
        }
    }

    fn config(&self) -> Body {
        let line = config_line(self.engine.policy(), self.engine.endpoints().map(|(_, endpoint)| endpoint));
        Body::Config(ConfigRecord { line, hash: "hash".to_owned() })
    }

    fn entry(&self, body: Body) -> Entry {
        Entry::of(&self.name, at(self.now), body)
    }

    fn append(&self, body: Body) {
        self.journal.append(self.entry(body)).unwrap();
    }

    fn durably(&self, body: Body) -> Seq {
        self.journal.append_durable_blocking(self.entry(body)).unwrap()
    }

    fn apply(&mut self, input: Input) -> Entry {
        self.now += 10;
        let result = self.engine.apply(at(self.now), input.clone());
        Entry::input(&self.name, at(self.now), input, &result)
    }

    fn tell(&mut self, input: Input) {
        let entry = self.apply(input);
        self.journal.append(entry).unwrap();
    }

    fn decide(&mut self, input: Input) -> Result<Seq, JournalFailed> {
        let entry = self.apply(input);
        self.journal.append_durable_blocking(entry)
    }

    fn forget(&mut self) {
        self.now += 10;
        let snapshot = self.engine.snapshot(at(self.now));
        self.engine =
            Engine::restore(self.engine.policy().clone(), snapshot, at(self.now), RestartKind::Monitor).unwrap();
        let answer = Answer::short(Answer::TAKEN, None);
        self.append(Body::Input { verb: Verb::Restart(RestartKind::Monitor), answer });
    }

    fn probe(&mut self, endpoint: &str, ok: bool) {
        let result = if ok { ProbeResult::Success } else { ProbeResult::Failure("Refused: connection".into()) };
        self.tell(Input::Probe { endpoint: endpoint.to_owned(), result });
    }

    fn evaluate(&mut self, claim: FenceClaim) -> Result<Seq, JournalFailed> {
        self.decide(Input::Evaluate(Evaluation::Failover, claim))
    }

    fn epoch(&self) -> u64 {
        self.engine.epoch().unwrap().get()
    }

    fn snapshot(&self) -> Snapshot {
        self.engine.snapshot(at(self.now))
    }

    /// The active path dies, is fenced, and flow goes to the next one; reconciliation is still to come.
    fn fail_over(&mut self) {
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

    fn request(&self, stage: Stage) -> HookRequest {
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

    fn hook_start(&self, stage: Stage, ticket: u64) -> Body {
        Body::HookStart(Box::new(HookStartRecord { ticket, level: 0, request: self.request(stage) }))
    }

    fn hook_end(&self, stage: Stage, ticket: u64, result: HookResult) -> Body {
        let report = HookReport { result, millis: 12, output: "done".to_owned(), counts: None };
        let (endpoint, epoch) = ("east".to_owned(), self.epoch());
        Body::HookEnd(Box::new(HookEndRecord { ticket, stage, level: 0, endpoint, epoch, report }))
    }

    fn stage(&self, stage: SwitchStage) -> Body {
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

fn note(text: &str) -> Body {
    Body::Note(NoteRecord { code: "TEST".into(), text: text.to_owned() })
}

/// Order flow as the journal writes it.
fn flow(engine: &Engine) -> String {
    match engine.order_flow() {
        OrderFlow::Open { endpoint, epoch } => format!("OPEN {} #{epoch}", engine.endpoint(endpoint).unwrap().name),
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { .. } => {
            format!("HALT {}", engine.halt_order().map_or("NO_TARGET_AVAILABLE", HaltOrder::code))
        }
    }
}

/// Replays exported lines and compares every answer with the recorded one. Gives how many were compared.
fn replay_alike(lines: &[Exported]) -> usize {
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
fn sealed(line: &str, prev: &str) -> (String, String) {
    let body = line.split(",\"prev\":\"").next().unwrap();
    let covered = format!("{body},\"prev\":\"{prev}");
    let line = format!("{covered}\",\"crc\":\"{:08x}\"}}", crc32fast::hash(covered.as_bytes()));
    let link: String = Sha256::digest(line.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    (line, link)
}

/// Rewrites a journal of one segment with every checksum and link right again.
fn forge(path: &Path, change: impl Fn(&str) -> String) {
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

fn damage(error: &ReadError) -> &Damage {
    match error {
        ReadError::Damaged(damage) => damage,
        ReadError::Io { .. } => panic!("{error}"),
    }
}

/// A small journal: one segment, one failover, and a last record of the group.
fn small(name: &str) -> (Folder, Snapshot) {
    let folder = Folder::new(name);
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    desk.probe("west", true);
    drop(journal);
    (folder, desk.snapshot())
}

// --------------------------------------------------------------------------------------------------------- the file

#[test]
fn a_journal_is_json_lines_with_its_keys_in_one_order() {
    let (folder, _) = small("reads");
    let text = folder.text();
    let keys = ["{\"seq\":", ",\"at\":", ",\"boot\":", ",\"wall\":", ",\"group\":", ",\"kind\":", ",\"body\":"];
    for (line, seq) in text.lines().zip(1..) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["seq"], seq);
        let mut place = 0;
        for key in keys {
            place += line[place..].find(key).unwrap_or_else(|| panic!("{key} in {line}"));
        }
        assert!(line[place..].contains(",\"prev\":\"") && line.ends_with("\"}"));
    }
    let inputs: Vec<_> = text.lines().filter(|line| line.contains("\"kind\":\"input\"")).collect();
    assert!(inputs[0].contains(
        r#""body":{"line":{"at":0.011,"probe":"east","ok":true},"answer":{"outcome":"HEALTHY","flow":"OPEN east #1"}}"#
    ));
    let switch = r#""switch":{"kind":"FAILOVER","from":"east","to":"west","epoch":2},"flow":"HOLD RECONCILING"}"#;
    assert!(text.contains(switch), "{text}");
}

#[test]
fn what_is_appended_is_what_is_read_back() {
    let folder = Folder::new("back");
    let (journal, recovered) = folder.open();
    assert_eq!((recovered.next, recovered.config_hash.as_deref(), recovered.groups.len()), (1, None, 0));
    let mut desk = Desk::new("Übersee \"1\"", &journal.handle());
    desk.probe("east", true);
    let bodies = [
        desk.hook_start(Stage::Fence, 1),
        desk.hook_end(Stage::Fence, 1, HookResult::Exit(-9)),
        desk.stage(SwitchStage::Decided),
        desk.stage(SwitchStage::Fenced),
        Body::Command(CommandRecord {
            peer: Some(Peer { uid: 1000, pid: 7 }),
            command: serde_json::json!({"halt": {"text": "Mittag\n\u{2028}"}}),
            refused: Some("no".to_owned()),
        }),
        note("control \u{0} characters, \u{1f980}"),
    ];
    bodies.iter().for_each(|body| desk.append(body.clone()));
    journal.close(at(99), "SIGTERM").unwrap();
    let records = folder.records();
    let read: Vec<_> = records.iter().map(|record| record.body.clone()).collect();
    assert!(matches!(&read[..3], [Body::Segment(_), Body::Start(_), Body::Config(_)]), "{read:?}");
    assert_eq!(read[4..10], bodies);
    // The last segment: the whole state, and the stop.
    assert!(matches!(&read[10..13], [Body::Segment(_), Body::Config(_), Body::Snapshot(_)]), "{read:?}");
    assert_eq!(read[13..], [Body::Stop(StopRecord { reason: "SIGTERM".to_owned() })]);
    assert!(records[3..10].iter().all(|record| record.group.as_deref() == Some("Übersee \"1\"")));
    assert_eq!(records[3].at, at(11));
    assert!(folder.recover().unwrap().stopped);
}

#[test]
fn a_record_that_is_not_what_happened_is_refused_before_it_is_written() {
    let folder = Folder::new("contradiction");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    let kept = desk.durably(note("before"));
    let lie = Answer::short("NO_ACTION", Some("ACTIVE_DOWN"));
    let evaluate = Verb::Input(Input::Evaluate(Evaluation::Failover, FenceClaim::None));
    let failed =
        journal.handle().append_durable_blocking(desk.entry(Body::Input { verb: evaluate, answer: lie })).unwrap_err();
    assert!(matches!(&failed, JournalFailed::Contradiction { seq, .. } if *seq == kept + 1), "{failed}");
    assert_eq!(journal.handle().append(desk.entry(note("after"))), Err(failed.clone()));
    assert_eq!(journal.close(at(1), "end"), Err(failed));
    assert_eq!(folder.records().last().unwrap().seq, kept);
    // The journal is as good as it was.
    let (journal, _) = folder.open();
    journal.close(at(1), "end").unwrap();
}

#[test]
fn an_input_that_could_not_be_replayed_is_refused() {
    let folder = Folder::new("long");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    let long = ProbeResult::Failure("x".repeat(1 << 20).into());
    let failed = desk.decide(Input::Probe { endpoint: "east".to_owned(), result: long }).unwrap_err();
    assert!(failed.to_string().contains("at most 1048576"), "{failed}");
    drop(journal);
    assert!(folder.verify().unwrap().torn.is_none());
}

#[test]
fn inputs_of_a_group_that_waits_for_its_snapshot_are_refused() {
    let (folder, _) = small("waits");
    let (journal, recovered) = folder.open();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 5);
    desk.probe("east", true);
    desk.durably(note("fine"));
    drop(journal);
    let (journal, recovered) = folder.open();
    let restored = recovered.groups["main"].snapshot.clone();
    let engine = Engine::restore(desk.engine.policy().clone(), restored, at(0), RestartKind::Monitor).unwrap();
    let mut desk = Desk { journal: journal.handle(), engine, ..desk };
    let failed = desk.decide(Input::Validate).unwrap_err();
    assert!(failed.to_string().contains("waits for a \"snapshot\""), "{failed}");
}

// ------------------------------------------------------------------------------------------------- faults of storage

/// A folder of the file system that can be made to fail, and counts what is asked of it.
struct Faulty {
    disk: Disk,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    calls: Mutex<Vec<&'static str>>,
    /// Fail these from now on.
    failing: Mutex<Option<(&'static str, io::ErrorKind)>>,
    /// How much of a write that fails is written all the same.
    partial: AtomicUsize,
    /// Syncs wait while this is set.
    stuck: AtomicBool,
}

impl Plan {
    fn call(&self, what: &'static str) -> io::Result<()> {
        self.calls.lock().unwrap().push(what);
        match *self.failing.lock().unwrap() {
            Some((failing, kind)) if failing == what => Err(kind.into()),
            _ => Ok(()),
        }
    }

    fn fail(&self, what: &'static str, kind: io::ErrorKind) {
        *self.failing.lock().unwrap() = Some((what, kind));
    }

    fn count(&self, what: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| **call == what).count()
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

/// Lets the writer go on when a test ends, however it ends.
struct Unstuck(Arc<Plan>);

impl Drop for Unstuck {
    fn drop(&mut self) {
        self.0.stuck.store(false, Ordering::Relaxed);
    }
}

struct FaultyFile {
    file: Box<dyn SegmentFile>,
    plan: Arc<Plan>,
}

impl SegmentFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.plan.call("write").inspect_err(|_| {
            let partial = self.plan.partial.load(Ordering::Relaxed).min(bytes.len());
            self.file.write(&bytes[..partial]).unwrap();
        })?;
        self.file.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        while self.plan.stuck.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.plan.call("sync")?;
        self.file.sync()
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        self.plan.call("reserve")?;
        self.file.reserve(bytes)
    }
}

impl Faulty {
    fn file(&self, file: Box<dyn SegmentFile>) -> Box<dyn SegmentFile> {
        Box::new(FaultyFile { file, plan: Arc::clone(&self.plan) })
    }
}

impl Storage for Faulty {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.plan.call("create")?;
        let file = self.disk.create(name)?;
        Ok(self.file(file))
    }

    fn append(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.plan.call("append")?;
        let file = self.disk.append(name)?;
        Ok(self.file(file))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.plan.call("rename")?;
        self.disk.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.plan.call("remove")?;
        self.disk.remove(name)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.plan.call("sync folder")?;
        self.disk.sync()
    }
}

impl Folder {
    fn faulty(&self, options: Options) -> (Journal, Recovered, Arc<Plan>) {
        let plan = Arc::new(Plan::default());
        let storage = Box::new(Faulty { disk: Disk::new(&self.0), plan: Arc::clone(&plan) });
        let (journal, recovered) = Journal::open_on(options, at(0), storage).unwrap();
        (journal, recovered, plan)
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_disk_that_hangs_is_one_that_failed() {
    let folder = Folder::new("hung-disk");
    let (journal, _, plan) = folder.faulty(folder.options());
    let desk = Desk::new("main", &journal.handle());
    desk.durably(note("good"));
    let unstuck = Unstuck(Arc::clone(&plan));
    plan.stuck.store(true, Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let entry = GroupEntry::Note { code: "STUCK", text: "never on disk".to_owned() };
    let failed = runtime.block_on(Ledger::append_durable(&desk.journal, "main", at(5), &entry)).unwrap_err();
    assert!(failed.contains("cannot sync") && failed.contains("no answer within 10s"), "{failed}");
    // Nobody else takes it for a disk that works, also not once it answers again.
    drop(unstuck);
    assert!(matches!(desk.journal.failed(), Some(JournalFailed::Storage { action: "sync", .. })));
    assert!(desk.journal.append(desk.entry(note("more"))).is_err());
    assert!(journal.close(at(9), "SIGTERM").is_err());
}

#[test]
fn b40_a_failed_sync_releases_no_decision_and_is_final() {
    let folder = Folder::new("failed-sync");
    let (journal, _, plan) = folder.faulty(folder.options());
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    desk.durably(note("good"));
    plan.fail("sync", io::ErrorKind::Other);
    let failed = desk.evaluate(FenceClaim::None).unwrap_err();
    assert!(matches!(&failed, JournalFailed::Storage { action: "sync", full: false, .. }), "{failed:?}");
    // The disk works again; the journal does not try it.
    *plan.failing.lock().unwrap() = None;
    let calls = plan.calls();
    assert_eq!(desk.evaluate(FenceClaim::None), Err(failed.clone()));
    assert_eq!(journal.handle().append(desk.entry(note("more"))), Err(failed.clone()));
    assert_eq!(journal.handle().failed(), Some(failed.clone()));
    assert_eq!(journal.close(at(1), "end"), Err(failed));
    assert_eq!(plan.calls(), calls, "storage was touched after its first failure");
}

#[test]
fn every_kind_of_failure_is_final_and_leaves_a_journal_that_opens() {
    for action in ["write", "sync", "create", "rename", "sync folder"] {
        let folder = Folder::new("final");
        let options = Options { segment_size: 4096, ..folder.options() };
        let (journal, _, plan) = folder.faulty(options.clone());
        let mut desk = Desk::new("main", &journal.handle());
        desk.fail_over();
        let acknowledged = desk.durably(note("good"));
        plan.partial.store(100, Ordering::Relaxed);
        plan.fail(action, io::ErrorKind::PermissionDenied);
        let mut last = acknowledged;
        let failed = loop {
            match desk.evaluate(FenceClaim::None) {
                Ok(seq) => last = seq,
                Err(failed) => break failed,
            }
        };
        assert!(matches!(&failed, JournalFailed::Storage { .. }), "{action}: {failed:?}");
        let calls = plan.calls();
        assert_eq!(desk.evaluate(FenceClaim::None), Err(failed));
        drop(journal);
        assert_eq!(plan.calls(), calls, "{action}: storage was touched after its first failure");
        let (journal, recovered) = Journal::open(options, at(0)).unwrap();
        assert!(recovered.next > last, "{action}: a durable record is lost");
        let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
        desk.probe("east", true);
        journal.close(at(50), "end").unwrap();
        folder.verify().unwrap();
    }
}

#[test]
fn b40_a_full_disk_fails_the_journal_and_says_so() {
    let folder = Folder::new("enospc");
    let (journal, _, plan) = folder.faulty(folder.options());
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    let good = desk.snapshot();
    plan.partial.store(57, Ordering::Relaxed);
    plan.fail("write", io::ErrorKind::StorageFull);
    let epoch = desk.epoch();
    let failed = desk.decide(Input::Reconciled(epoch)).unwrap_err();
    assert!(matches!(&failed, JournalFailed::Storage { action: "write", full: true, .. }), "{failed:?}");
    drop(journal);
    // What was written in part is cut at the next start.
    let (_, recovered) = folder.open();
    assert_eq!(recovered.torn.as_ref().map(|torn| torn.bytes.len()), Some(57));
    assert_eq!(recovered.groups["main"].snapshot, good);
}

#[test]
fn a_disk_that_is_really_full_fails_the_journal_and_what_was_durable_stays() {
    let mount = Folder::new("tmpfs");
    fs::create_dir_all(&mount.0).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&mount.0).output();
    if !mounted.as_ref().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: a small file system cannot be mounted here: {mounted:?}");
        return;
    }
    struct Unmount<'a>(&'a Path);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).output();
        }
    }
    let unmount = Unmount(&mount.0);
    let folder = mount.0.join("journal");
    let options = Options { segment_size: 64 << 10, ..Options::new(&folder, "hash") };
    let (journal, _) = Journal::open(options, at(0)).unwrap();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    let mut last = 0;
    let failed = loop {
        desk.probe("west", true);
        match desk.evaluate(FenceClaim::None) {
            Ok(seq) => last = seq,
            Err(failed) => break failed,
        }
    };
    assert!(matches!(&failed, JournalFailed::Storage { full: true, .. }), "{failed:?}");
    assert!(last > 100, "only {last} records fitted");
    drop(journal);
    // It can be read; to write to it, there must be room again.
    let recovered = recover(&folder, follow_nothing).unwrap();
    assert!(recovered.next > last, "a durable record is lost: {} after {last}", recovered.next);
    let wider = Command::new("mount").args(["-o", "remount,size=1m"]).arg(&mount.0).output().unwrap();
    assert!(wider.status.success());
    let (journal, recovered) = Journal::open(Options::new(&folder, "hash"), at(0)).unwrap();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    desk.probe("west", true);
    journal.close(at(50), "end").unwrap();
    verify(&folder, follow_nothing).unwrap();
    drop(unmount);
}

#[test]
fn decisions_that_wait_together_share_one_write_and_one_sync() {
    let folder = Folder::new("group");
    let (journal, _, plan) = folder.faulty(folder.options());
    let desk = Desk::new("main", &journal.handle());
    desk.durably(note("settled"));
    // The writer is inside a sync while 64 decisions come, and observations between them.
    let _unstuck = Unstuck(Arc::clone(&plan));
    plan.stuck.store(true, Ordering::Relaxed);
    let writes = plan.count("write");
    let first = journal.handle().append_durable(desk.entry(note("first")));
    wait_until("the first decision's write", || plan.count("write") > writes);
    let waiting: Vec<_> = (0..64)
        .map(|number| {
            desk.append(note("observed"));
            journal.handle().append_durable(desk.entry(note(&number.to_string())))
        })
        .collect();
    let (writes, syncs) = (plan.count("write"), plan.count("sync"));
    plan.stuck.store(false, Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seqs: Vec<_> = runtime.block_on(async {
        first.await.unwrap();
        let mut seqs = Vec::new();
        for durable in waiting {
            seqs.push(durable.await.unwrap());
        }
        seqs
    });
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 2), "{seqs:?}");
    assert_eq!(plan.count("write") - writes, 1, "writes for 64 decisions");
    // One for the first, one for the 64.
    assert_eq!(plan.count("sync") - syncs, 2, "syncs for 64 decisions");
}

#[test]
fn observations_are_written_soon_and_synced_within_a_second() {
    let folder = Folder::new("soon");
    let (journal, _, plan) = folder.faulty(folder.options());
    let desk = Desk::new("main", &journal.handle());
    desk.durably(note("settled"));
    let (writes, syncs) = (plan.count("write"), plan.count("sync"));
    let begun = Instant::now();
    desk.append(note("observed"));
    wait_until("the write", || plan.count("write") > writes);
    let written = begun.elapsed();
    assert_eq!(plan.count("sync"), syncs, "an observation waits for no sync");
    wait_until("the sync", || plan.count("sync") > syncs);
    let synced = begun.elapsed();
    println!("written after {written:?}, on disk after {synced:?}");
    // Bounds of the writer's own waiting; a busy machine may add its own.
    assert!(synced > Duration::from_millis(500) && synced < Duration::from_secs(5), "{synced:?}");
}

#[test]
fn whoever_appends_too_much_waits_until_there_is_room() {
    let folder = Folder::new("room");
    let (journal, _, plan) = folder.faulty(folder.options());
    let desk = Desk::new("main", &journal.handle());
    let _unstuck = Unstuck(Arc::clone(&plan));
    plan.stuck.store(true, Ordering::Relaxed);
    let _durable = journal.handle().append_durable(desk.entry(note("stuck")));
    wait_until("an empty queue", || journal.handle().backlog() == 0);
    let handle = journal.handle();
    let entry = desk.entry(note("x"));
    (0..LONGEST_QUEUE).for_each(|_| handle.append(entry.clone()).unwrap());
    let more = {
        let (handle, entry) = (handle.clone(), entry.clone());
        std::thread::spawn(move || handle.append(entry))
    };
    std::thread::sleep(Duration::from_millis(50));
    assert!(!more.is_finished(), "the queue took more than its bound");
    // A decision never waits for room.
    let decision = handle.append_durable(entry);
    plan.stuck.store(false, Ordering::Relaxed);
    more.join().unwrap().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        handle.room().await;
        decision.await.unwrap();
    });
}

#[test]
fn whoever_waits_is_told_that_the_journal_failed() {
    let folder = Folder::new("told");
    let (journal, _, plan) = folder.faulty(folder.options());
    let desk = Desk::new("main", &journal.handle());
    let handle = journal.handle();
    let told = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(handle.until_failed())
    });
    plan.fail("write", io::ErrorKind::Other);
    desk.append(note("an observation"));
    let failed = told.join().unwrap();
    assert!(matches!(&failed, JournalFailed::Storage { action: "write", .. }), "{failed:?}");
    assert_eq!(journal.handle().failed(), Some(failed));
}

// ------------------------------------------------------------------------------------------------------ torn, damaged

#[test]
fn b40_a_journal_cut_at_every_byte_of_its_last_line_goes_on_from_the_line_before() {
    let (folder, whole) = small("cut");
    let bytes = fs::read(folder.newest()).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    // The state without the last record.
    let shorter = {
        let copy = folder.copy("cut-shorter");
        fs::write(copy.newest(), &bytes[..last]).unwrap();
        copy.recover().unwrap()
    };
    assert!(shorter.torn.is_none());
    for cut in last..=bytes.len() {
        let copy = folder.copy("cut-at");
        fs::write(copy.newest(), &bytes[..cut]).unwrap();
        let (journal, recovered) = copy.open();
        let group = &recovered.groups["main"];
        if cut == bytes.len() {
            assert_eq!((&group.snapshot, &recovered.torn), (&whole, &None));
        } else {
            assert_eq!(group.snapshot, shorter.groups["main"].snapshot, "cut at {cut}");
            let torn = recovered.torn.as_ref().map_or(&[][..], |torn| &torn.bytes);
            assert_eq!(torn, &bytes[last..cut]);
            let aside = copy.0.join(format!("torn-{}.bin", recovered.next));
            assert_eq!(fs::read(&aside).ok(), (cut > last).then(|| bytes[last..cut].to_vec()));
        }
        let next = recovered.next;
        let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
        desk.probe("south", true);
        let appended = desk.durably(note("record 11"));
        drop(journal);
        // Nothing later is hidden by what was torn.
        let (journal, recovered) = copy.open();
        assert!(recovered.torn.is_none() && recovered.next == appended + 1);
        drop(journal);
        let records = copy.records();
        assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == seq));
        let noted = records.iter().any(|record| matches!(&record.body, Body::Note(note) if note.code == "TORN_TAIL"));
        assert_eq!(noted, cut > last && cut < bytes.len());
        assert!(records.iter().any(|record| record.body == note("record 11")) && records[0].seq < next);
        copy.verify().unwrap();
    }
}

#[test]
fn b40_one_bit_flipped_anywhere_is_refused_or_was_the_torn_last_line() {
    let (folder, _) = small("flip");
    let bytes = fs::read(folder.newest()).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let lines_before = |place: usize| 1 + bytes[..place].iter().filter(|byte| **byte == b'\n').count() as u64;
    let copy = folder.copy("flipped");
    let path = copy.newest();
    let (mut refused, mut torn) = (0, 0);
    for place in 0..bytes.len() {
        for bit in [5, place % 8] {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            fs::write(&path, &flipped).unwrap();
            match copy.recover() {
                Ok(recovered) => {
                    let torn_at = recovered.torn.as_ref().map(|torn| torn.offset);
                    assert_eq!(torn_at, Some(last as u64), "byte {place}, bit {bit} went unnoticed");
                    assert!(place >= last, "byte {place}, bit {bit} took the last line with it");
                    torn += 1;
                }
                Err(error) => {
                    // A newline made of a byte of the last line leaves two broken lines: refused, too.
                    assert!(place < last || flipped[place] == b'\n', "byte {place}, bit {bit}: {error}");
                    let damage = damage(&error);
                    assert_eq!(format!("{}", path.file_name().unwrap().to_str().unwrap()), damage.segment);
                    // The place is named, or that of the line that does not fit it.
                    assert!(damage.line.abs_diff(lines_before(place)) <= 1, "byte {place}, bit {bit}: {error}");
                    refused += 1;
                }
            }
            assert_eq!(fs::read(&path).unwrap(), flipped, "reading changes nothing");
        }
    }
    println!("{refused} flipped bits refused, {torn} in the last line");
}

#[test]
fn b40_a_damaged_journal_is_not_opened_and_not_touched() {
    let (folder, _) = small("damaged");
    let path = folder.newest();
    let mut bytes = fs::read(&path).unwrap();
    let fifth = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(3).unwrap().0 + 20;
    bytes[fifth] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::open(folder.options(), at(0)).unwrap_err();
    let OpenError::Read(ReadError::Damaged(damage)) = &error else { panic!("{error}") };
    assert_eq!((damage.line, &*damage.segment), (5, "00000000000000000001.jsonl"));
    assert!(error.to_string().contains("line 5: the checksum of the line"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn lines_that_are_missing_doubled_or_moved_are_named() {
    let (folder, _) = small("order");
    let text = fs::read_to_string(folder.newest()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let refused = |lines: &[&str]| {
        let copy = folder.copy("order-changed");
        fs::write(copy.newest(), lines.join("\n") + "\n").unwrap();
        let error = copy.recover().unwrap_err();
        (damage(&error).line, damage(&error).what.clone())
    };
    let missing = [&lines[..4], &lines[5..]].concat();
    assert_eq!(refused(&missing), (5, "record 6; expected 5".to_owned()));
    let doubled = [&lines[..5], &lines[4..]].concat();
    assert_eq!(refused(&doubled), (6, "record 5; expected 6".to_owned()));
    let moved = [&lines[..4], &lines[5..6], &lines[4..5], &lines[6..]].concat();
    assert_eq!(refused(&moved), (5, "record 6; expected 5".to_owned()));
    assert_eq!(refused(&lines[1..]).1, "record 2; expected 1, as the file is named");
}

#[test]
fn a_line_that_was_changed_with_its_checksum_breaks_the_chain() {
    let (folder, _) = small("chain");
    let path = folder.newest();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let prev = lines[4].split("\"prev\":\"").nth(1).unwrap().split('"').next().unwrap();
    let (changed, _) = sealed(&lines[4].replace("west", "east"), prev);
    assert_ne!(changed, lines[4]);
    fs::write(&path, text.replace(lines[4], &changed)).unwrap();
    let error = folder.recover().unwrap_err();
    assert_eq!(damage(&error).line, 6);
    assert!(error.to_string().contains("\"prev\" is another"), "{error}");
}

#[test]
fn an_answer_that_the_engine_does_not_give_is_damage_even_with_every_checksum_right() {
    let (folder, _) = small("outcome");
    forge(&folder.newest(), |line| line.replace("\"outcome\":\"DOWN\"", "\"outcome\":\"DEGRADED\""));
    let error = folder.recover().unwrap_err();
    let what = &damage(&error).what;
    assert_eq!(what, "the engine answers \"DOWN\" to this input; the record says \"DEGRADED\"");
}

#[test]
fn what_another_version_wrote_is_an_error_and_not_skipped() {
    for (from, to, expected) in [
        ("\"kind\":\"input\"", "\"kind\":\"inputs\"", "the kind \"inputs\" is unknown"),
        ("\"outcome\":\"DOWN\"", "\"outcome\":\"DOWN\",\"why\":1", "unknown field `why`"),
        ("\"format\":1", "\"format\":2", "format 2; this version reads format 1"),
        (",\"kind\":\"input\"", ",\"more\":1,\"kind\":\"input\"", "unknown field `more`"),
    ] {
        let (folder, _) = small("version");
        forge(&folder.newest(), |line| line.replace(from, to));
        let error = folder.recover().unwrap_err();
        assert!(damage(&error).what.contains(expected), "{error}");
    }
}

#[test]
fn where_another_version_decided_otherwise_the_way_out_is_said() {
    let (folder, _) = small("upgrade");
    forge(&folder.newest(), |line| {
        line.replace("\"version\":\"0.1.0\"", "\"version\":\"0.0.9\"")
            .replace("\"outcome\":\"DOWN\"", "\"outcome\":\"DEGRADED\"")
    });
    let error = folder.recover().unwrap_err();
    let expected = "version 0.0.9 wrote it, this is 0.1.0: start that one and stop it, then this one";
    assert!(damage(&error).what.ends_with(expected), "{error}");
}

#[test]
fn after_a_stop_no_decision_of_the_last_run_is_followed() {
    let (folder, state) = small("stopped");
    let (journal, recovered) = folder.open();
    let desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    assert_eq!(recovered.groups["main"].snapshot, state);
    journal.close(at(9), "SIGTERM").unwrap();
    let newest = fs::read_to_string(folder.newest()).unwrap();
    let kinds: Vec<_> =
        newest.lines().map(|line| line.split("\"kind\":\"").nth(1).unwrap().split('"').next().unwrap()).collect();
    assert_eq!(kinds, ["segment", "config", "snapshot", "stop"]);
    assert_eq!(folder.recover().unwrap().groups["main"].snapshot, desk.snapshot());
}

#[test]
fn only_one_process_writes_and_the_other_is_told_which() {
    let folder = Folder::new("lock");
    let (journal, _) = folder.open();
    let error = Journal::open(folder.options(), at(0)).unwrap_err();
    let expected = format!("is in use by process {}; nothing was changed", std::process::id());
    assert!(error.to_string().ends_with(&expected), "{error}");
    drop(journal);
    folder.open();
}

// ------------------------------------------------------------------------------------- segments, retention, restarts

/// Writes so much that there are many small segments; gives the state that it ends in.
fn long(folder: &Folder, options: Options, rounds: usize) -> BTreeMap<String, Snapshot> {
    let (journal, recovered) = Journal::open(options, at(0)).unwrap();
    let mut desks = ["main", "other"].map(|name| Desk::new_or_recovered(name, &journal.handle(), &recovered));
    for round in 0..rounds {
        let desk = &mut desks[round % 2];
        desk.fail_over();
        let epoch = desk.epoch();
        desk.append(desk.hook_start(Stage::Switch, round as u64));
        desk.append(desk.hook_end(Stage::Switch, round as u64, HookResult::Ok));
        desk.decide(Input::Reconciled(epoch)).unwrap();
        for endpoint in ["east", "west", "south", "east", "west", "south"] {
            desk.probe(endpoint, round % 3 > 0);
            desk.now += 100;
        }
        desk.evaluate(FenceClaim::None).unwrap();
        if round % 5 == 0 {
            desk.forget();
        }
    }
    journal.close(at(u64::from(u32::MAX)), "end").unwrap();
    assert!(folder.segments().len() > 1);
    desks.into_iter().map(|desk| (desk.name.to_string(), desk.snapshot())).collect()
}

fn states(recovered: &Recovered) -> BTreeMap<String, Snapshot> {
    recovered.groups.iter().map(|(name, group)| (name.clone(), group.snapshot.clone())).collect()
}

#[test]
fn each_segment_can_be_read_without_the_older_ones() {
    let folder = Folder::new("alone");
    let ended = long(&folder, Options { segment_size: 6000, ..folder.options() }, 12);
    let counts = folder.verify().unwrap();
    assert!(counts.segments.len() > 4, "{counts:?}");
    assert_eq!(states(&folder.recover().unwrap()), ended);
    // From each segment on: the same state, and every later answer as recorded.
    let segments = folder.segments();
    for oldest in 1..segments.len() {
        let copy = folder.copy("alone-from");
        segments[..oldest].iter().for_each(|path| fs::remove_file(copy.0.join(path.file_name().unwrap())).unwrap());
        copy.verify().unwrap();
        assert_eq!(states(&copy.recover().unwrap()), ended, "from segment {oldest}");
    }
}

#[test]
fn a_segment_that_is_missing_in_the_middle_is_named() {
    let folder = Folder::new("gap");
    long(&folder, Options { segment_size: 6000, ..folder.options() }, 8);
    let segments = folder.segments();
    fs::remove_file(&segments[1]).unwrap();
    let error = folder.recover().unwrap_err();
    let third = segments[2].file_name().unwrap().to_str().unwrap();
    assert_eq!(damage(&error).segment, third);
    assert!(damage(&error).what.ends_with("a segment is missing"), "{error}");
}

#[test]
fn damage_in_an_old_segment_is_found_too() {
    let folder = Folder::new("old");
    long(&folder, Options { segment_size: 6000, ..folder.options() }, 8);
    let path = &folder.segments()[0];
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
    assert!(Journal::open(folder.options(), at(0)).is_err());
}

#[test]
fn a_segment_whose_head_was_not_finished_is_begun_again() {
    let (folder, state) = small("unfinished");
    let next = folder.recover().unwrap().next;
    fs::write(folder.0.join(format!("{next:020}.jsonl.new")), "{\"seq\":").unwrap();
    let (journal, recovered) = folder.open();
    assert_eq!(recovered.groups["main"].snapshot, state);
    drop(journal);
    assert!(fs::read_dir(&folder.0).unwrap().all(|entry| !entry.unwrap().path().to_str().unwrap().ends_with(".new")));
    folder.verify().unwrap();
}

#[test]
fn retention_keeps_what_the_present_needs() {
    let folder = Folder::new("retention");
    let keep = Keep { age: Duration::MAX, size: 60_000 };
    let ended = long(&folder, Options { segment_size: 6000, keep, ..folder.options() }, 40);
    let counts = folder.verify().unwrap();
    assert!(counts.bytes() < 80_000 && counts.segments[0].first > 1, "{counts:?}");
    assert_eq!(states(&folder.recover().unwrap()), ended);
    assert!(replay_alike(&folder.exported("main")) > 10);
}

#[test]
fn b25_the_records_of_an_unfinished_switch_are_never_dropped() {
    let folder = Folder::new("unfinished-switch");
    let nothing = Keep { age: Duration::ZERO, size: 0 };
    let (journal, _) = Journal::open(Options { segment_size: 4000, keep: nothing, ..folder.options() }, at(0)).unwrap();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    let decided = desk.durably(desk.stage(SwitchStage::Decided));
    let started = desk.durably(desk.hook_start(Stage::Fence, 7));
    let probes = |desk: &mut Desk| (0..100).for_each(|_| desk.probe("west", true));
    probes(&mut desk);
    desk.durably(note("settled"));
    let oldest = || folder.verify().unwrap().segments[0].first;
    assert!(oldest() <= decided, "the switch's first record is gone");
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!(group.stage.as_ref().map(|stage| stage.stage), Some(SwitchStage::Decided));
    assert_eq!(group.pending.iter().map(|hook| hook.ticket).collect::<Vec<_>>(), [7]);
    desk.append(desk.hook_end(Stage::Fence, 7, HookResult::Ok));
    desk.append(desk.stage(SwitchStage::Open));
    probes(&mut desk);
    desk.durably(note("settled"));
    assert!(oldest() > started, "nothing needs it any more");
}

#[test]
fn a_restart_finds_the_same_state_with_the_time_that_was_down_counted_as_none() {
    let folder = Folder::new("restart");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    let epoch = desk.epoch();
    desk.decide(Input::Reconciled(epoch)).unwrap();
    desk.decide(Input::Maintenance { endpoint: "south".to_owned(), on: true }).unwrap();
    drop(journal);
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!((&group.snapshot, recovered.stopped), (&desk.snapshot(), false));
    assert_eq!(group.snapshot.last_switch_age, Some(20_000_000));
    assert_eq!(group.config, {
        let Body::Config(config) = desk.config() else { unreachable!() };
        config.line
    });
    // A group that nobody mentions stays as it was, through any number of restarts and segments.
    for _ in 0..3 {
        let (journal, recovered) = Journal::open(Options { segment_size: 1, ..folder.options() }, at(0)).unwrap();
        assert_eq!(recovered.groups["main"].snapshot, desk.snapshot());
        let other = Desk::new_or_recovered("other", &journal.handle(), &recovered);
        other.durably(note("alone"));
        other.durably(note("alone"));
        journal.close(at(1_000_000), "end").unwrap();
    }
    assert_eq!(folder.recover().unwrap().groups["main"].snapshot, desk.snapshot());
    folder.verify().unwrap();
}

#[test]
fn b10_a_crash_between_switched_and_reconciled_goes_on_at_reconcile() {
    let folder = Folder::new("b10");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    desk.durably(desk.stage(SwitchStage::Fenced));
    desk.durably(desk.hook_start(Stage::Switch, 1));
    desk.durably(desk.hook_end(Stage::Switch, 1, HookResult::Ok));
    desk.durably(desk.stage(SwitchStage::Switched));
    desk.durably(desk.hook_start(Stage::Reconcile, 2));
    drop(journal);
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!(group.snapshot.order_flow, SnapshotFlow::Reconciling);
    assert!(group.held_for > Duration::ZERO && group.held_for < Duration::from_millis(500), "{:?}", group.held_for);
    assert_eq!(group.stage.as_ref().map(|stage| stage.stage), Some(SwitchStage::Switched));
    assert_eq!(group.pending.iter().map(|hook| hook.request.stage).collect::<Vec<_>>(), [Stage::Reconcile]);
    let fence = group.fence.as_ref().unwrap();
    assert_eq!((fence.proof.proves.as_deref(), fence.proof.epoch), (Some("session closed"), 2));
    // Three records tell it: decided, moved, settled; the third is not there.
    let kinds: Vec<_> = folder
        .records()
        .iter()
        .filter_map(|record| match &record.body {
            Body::Input { answer, .. } if answer.switch.is_some() => Some("decided"),
            Body::HookEnd(end) if end.stage == Stage::Switch => Some("moved"),
            Body::Input { verb: Verb::Input(Input::Reconciled(_)), .. } => Some("settled"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["decided", "moved"]);
}

#[test]
fn b19_a_halt_and_whether_it_was_confirmed_outlive_a_restart_and_a_recovery_of_the_path() {
    let folder = Folder::new("b19");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    desk.decide(Input::Halt(HaltOrder::operator("desk asked"))).unwrap();
    desk.durably(desk.hook_start(Stage::Halt, 1));
    desk.durably(desk.hook_end(Stage::Halt, 1, HookResult::Exit(1)));
    let halted = |confirmed| {
        let recovered = folder.recover().unwrap();
        let group = &recovered.groups["main"];
        assert!(matches!(&group.snapshot.order_flow, SnapshotFlow::Halted { code, .. } if code == "OPERATOR"));
        assert_eq!(group.halt_confirmed, confirmed);
    };
    halted(false);
    drop(journal);
    let (journal, recovered) = folder.open();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    (0..5).for_each(|_| desk.probe("east", true));
    desk.evaluate(FenceClaim::None).unwrap();
    halted(false);
    desk.durably(desk.hook_end(Stage::Halt, 2, HookResult::Ok));
    drop(journal);
    halted(true);
}

#[test]
fn b34_a_hook_that_failed_is_recorded_as_failed_and_proves_nothing() {
    let folder = Folder::new("b34");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    desk.decide(Input::FenceStarted(1)).unwrap();
    desk.durably(desk.stage(SwitchStage::Decided));
    for ticket in 1..=3 {
        desk.durably(desk.hook_start(Stage::Fence, ticket));
        desk.durably(desk.hook_end(Stage::Fence, ticket, HookResult::Timeout));
    }
    drop(journal);
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!((group.fence.as_ref(), group.pending.len()), (None, 0));
    assert_eq!(group.stage.as_ref().map(|stage| stage.stage), Some(SwitchStage::Decided));
    assert!(group.snapshot.active.as_ref().unwrap().spent);
    let ends = folder.records().iter().filter(|record| matches!(&record.body, Body::HookEnd(_))).count();
    assert_eq!(ends, 3, "each retry is recorded");
}

/// Counts the records of a group: what a caller keeps beside the engine.
#[derive(Default)]
struct Counting(u64);

impl Follow for Counting {
    fn fold(&mut self, _: &Body) {
        self.0 += 1;
    }

    fn save(&self) -> serde_json::Value {
        self.0.into()
    }

    fn load(&mut self, saved: &serde_json::Value) -> Result<(), String> {
        self.0 = saved.as_u64().ok_or("a number is expected")?;
        Ok(())
    }
}

#[test]
fn what_a_caller_keeps_beside_the_engine_comes_back_whatever_segments_are_left() {
    let folder = Folder::new("follow");
    let keep = Keep { age: Duration::ZERO, size: 0 };
    let follow: MakeFollow = || Box::new(Counting::default());
    let options = Options { segment_size: 3000, keep, follow, ..folder.options() };
    let (journal, _) = Journal::open(options.clone(), at(0)).unwrap();
    let desk = Desk::new("main", &journal.handle());
    (0..99).for_each(|_| desk.append(note("x")));
    drop(journal);
    let (_, recovered) = Journal::open(options, at(0)).unwrap();
    assert!(folder.verify().unwrap().segments[0].first > 1);
    assert_eq!(recovered.groups["main"].driver, serde_json::json!(100));
}

#[test]
fn threads_that_append_at_once_keep_their_own_order_and_lose_nothing() {
    const THREADS: usize = 8;
    const RECORDS: usize = 500;
    let folder = Folder::new("threads");
    let (journal, _) = Journal::open(Options { segment_size: 20_000, ..folder.options() }, at(0)).unwrap();
    let main = Desk::new("main", &journal.handle());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (handle, main) = (journal.handle(), &main);
            scope.spawn(move || {
                let mut last = 0;
                for record in 0..RECORDS {
                    let entry = main.entry(note(&format!("{thread} {record}")));
                    if record % 50 == 0 {
                        let seq = handle.append_durable_blocking(entry).unwrap();
                        assert!(seq > last);
                        last = seq;
                    } else {
                        handle.append(entry).unwrap();
                    }
                }
            });
        }
    });
    journal.close(at(2), "end").unwrap();
    let mut next = [0; THREADS];
    for record in folder.records() {
        let Body::Note(note) = &record.body else { continue };
        let (thread, number) = note.text.split_once(' ').unwrap();
        let next = &mut next[thread.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *next);
        *next += 1;
    }
    assert_eq!(next, [RECORDS; THREADS]);
    folder.verify().unwrap();
}

// ------------------------------------------------------------------------------------------------------------- kills

/// The child of the next test: appends until it is killed, and says what is durable.
#[test]
fn child_of_the_kills() {
    let Some(folder) = std::env::var_os("JOURNAL_CHILD") else { return };
    let keep = Keep { age: Duration::MAX, size: 300_000 };
    let options = Options { segment_size: 30_000, keep, ..Options::new(PathBuf::from(folder), "hash") };
    let (journal, recovered) = Journal::open(options, at(0)).unwrap();
    let mut desk = Desk::new_or_recovered("main", &journal.handle(), &recovered);
    let mut out = io::stdout();
    loop {
        let said = |seq: Seq, epoch: u64, out: &mut io::Stdout| {
            writeln!(out, "durable {seq} {epoch}").and_then(|()| out.flush()).unwrap();
        };
        for endpoint in ["east", "west", "south"].iter().cycle().take(20) {
            desk.probe(endpoint, true);
        }
        desk.fail_over();
        let epoch = desk.epoch();
        said(desk.durably(desk.hook_start(Stage::Switch, 1)), epoch, &mut out);
        said(desk.decide(Input::Reconciled(epoch)).unwrap(), epoch, &mut out);
    }
}

#[test]
fn two_hundred_kills_lose_no_durable_record() {
    let folder = Folder::new("kills");
    // A fixed sequence of moments; each falls somewhere else, since nothing else is in step with it.
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let (mut acknowledged, mut torn, mut rotated, mut epoch) = (0, 0, 0, 0);
    for run in 0..200 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_of_the_kills", "--nocapture"])
            .env("JOURNAL_CHILD", &folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (say, hear) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let Some((seq, epoch)) = line.strip_prefix("durable ").and_then(|rest| rest.split_once(' ')) else {
                    continue;
                };
                say.send((seq.parse::<Seq>().unwrap(), epoch.parse::<u64>().unwrap())).unwrap();
            }
        });
        // One in four is killed wherever it is, most likely while it starts; the others while they decide.
        let first = if run % 4 == 0 { None } else { hear.recv().ok() };
        std::thread::sleep(Duration::from_micros(random % 30_000));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        let (mut last, mut told) = (0, epoch);
        for durable in first.into_iter().chain(hear) {
            (last, told) = durable;
            acknowledged += 1;
        }
        if !folder.0.exists() {
            continue;
        }
        let recovered = folder.recover().unwrap();
        assert!(recovered.next > last, "record {last} was durable; the journal ends before {}", recovered.next);
        torn += usize::from(recovered.torn.is_some());
        rotated = folder.segments().len();
        if let Some(group) = recovered.groups.get("main") {
            let now = group.snapshot.active.as_ref().unwrap().epoch.get();
            assert!(now >= told, "epoch {told} was durable; the journal says {now}");
            epoch = now;
        }
    }
    let counts = folder.verify().unwrap();
    println!(
        "{acknowledged} durable records acknowledged, {} records in {rotated} segments, {torn} torn lines, epoch {epoch}",
        counts.records()
    );
    assert!(acknowledged > 200, "too few decisions were made to mean anything: {acknowledged}");
    // Every decision of all those lives, replayed as one.
    // How many there are depends on how fast this machine is; that there are many shows that something was tested.
    assert!(replay_alike(&folder.exported("main")) > 200);
}

// ------------------------------------------------------------------------------------------------------------ export

#[test]
fn an_export_replays_to_the_recorded_answers_across_restarts() {
    let folder = Folder::new("export");
    let mut answers = 0;
    for life in 0..4 {
        let (journal, recovered) = folder.open();
        let mut desk = Desk::new_or_recovered("main", &journal.handle(), &recovered);
        desk.fail_over();
        let epoch = desk.epoch();
        desk.append(desk.hook_start(Stage::Fence, 1));
        desk.decide(Input::Reconciled(epoch)).unwrap();
        desk.now += 200 * life;
        (0..3).for_each(|_| desk.probe("east", true));
        // Gated by the cooldown: its age must have been carried over.
        desk.decide(Input::Evaluate(Evaluation::Failback, FenceClaim::None)).unwrap();
        drop(journal);
        answers = folder.records().iter().filter(|record| matches!(record.body, Body::Input { .. })).count();
    }
    let exported = folder.exported("main");
    assert_eq!(replay_alike(&exported), answers, "every input is there");
    let restarts = exported.iter().filter(|line| line.line.contains("\"restart\":\"monitor\"")).count();
    assert_eq!(restarts, 3);
    assert!(exported[0].line.starts_with("# group \"main\", from record 3 of "), "{}", exported[0].line);
    assert!(exported[1].line.starts_with("{\"config\":{"));
    assert!(exported.iter().any(|line| line.line.starts_with("# ") && line.line.contains("hook_start")));
    // Up to a record in the middle.
    let mut some = Vec::new();
    export(&folder.0, "main", Some(10), |line| some.push(line.clone())).unwrap();
    assert_eq!(some[..], exported[..some.len()]);
    assert!(!export(&folder.0, "nobody", None, |_| panic!("a line")).unwrap());
}

#[test]
fn an_export_goes_on_over_a_restart_whose_snapshot_was_written_a_little_later() {
    let (folder, _) = small("later");
    let (journal, recovered) = folder.open();
    let group = &recovered.groups["main"];
    let policy = new_engine().policy().clone();
    let engine = Engine::restore(policy, group.snapshot.clone(), at(3), RestartKind::Monitor).unwrap();
    let mut desk = Desk { name: "main".into(), engine, journal: journal.handle(), now: 450 };
    desk.append(desk.config());
    desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.snapshot()))));
    (0..3).for_each(|_| desk.probe("east", true));
    // On either side of the cooldown of 500 ms, which the switch began 10 ms before the restart (`decide` takes 10 ms).
    for now in [482, 483] {
        desk.now = now;
        let failback = Input::Evaluate(Evaluation::Failback, FenceClaim::None);
        desk.decide(failback).unwrap();
    }
    drop(journal);
    let exported = folder.exported("main");
    let answers: Vec<_> = exported.iter().filter_map(|line| line.answer.as_ref()).collect();
    assert_eq!(replay_alike(&exported), answers.len());
    assert!(exported[1].line.starts_with("{\"config\":{") && exported[1].line.contains("east.example"));
    let outcomes: Vec<_> = answers.iter().rev().take(2).map(|answer| &*answer.outcome).collect();
    assert_eq!(outcomes, ["FENCE_REQUIRED", "COOLDOWN_ACTIVE"]);
}

#[test]
fn an_export_begins_anew_where_the_configuration_changed() {
    let (folder, _) = small("reconfigured");
    let (journal, recovered) = folder.open();
    let group = &recovered.groups["main"];
    let policy = Policy::new(PolicySettings { failure_threshold: 1, ..PolicySettings::default() }).unwrap();
    let engine = Engine::restore(policy, group.snapshot.clone(), at(1), RestartKind::Monitor).unwrap();
    let mut desk = Desk { name: "main".into(), engine, journal: journal.handle(), now: 1 };
    desk.append(desk.config());
    desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.snapshot()))));
    desk.probe("west", false);
    desk.evaluate(FenceClaim::None).unwrap();
    journal.close(at(100), "end").unwrap();
    let exported = folder.exported("main");
    assert_eq!(replay_alike(&exported), 2);
    assert!(exported[1].line.contains("\"failure_threshold\":1") && exported[1].line.ends_with("\"endpoints\":[]}}"));
    assert!(exported[2].line.starts_with("{\"restore\":{"));
    folder.verify().unwrap();
}

#[test]
fn a_reload_that_leaves_some_health_as_it_was_is_read_back_and_exported_as_that() {
    let folder = Folder::new("reloaded");
    let (journal, _) = Journal::open(Options { segment_size: 4000, ..folder.options() }, at(0)).unwrap();
    let mut desk = Desk::new("main", &journal.handle());
    for name in ["east", "west", "south", "west"] {
        desk.probe(name, true);
    }
    desk.probe("east", false);
    // South is asked otherwise from now on; the others are as they were.
    let (seen, snapshot) = (desk.now, desk.snapshot());
    let health = |endpoint: &str, failures, successes, probed_at: u64, error: Option<&str>| HealthRecord {
        endpoint: endpoint.to_owned(),
        failures,
        successes,
        probed_at: Seconds(at(probed_at).as_nanos()),
        error: error.map(str::to_owned),
        trigger: None,
    };
    let refused = "Refused: connection";
    let health = vec![health("east", 1, 0, seen, Some(refused)), health("west", 0, 2, seen - 10, None)];
    let mut engine =
        Engine::restore(desk.engine.policy().clone(), snapshot.clone(), at(seen), RestartKind::Monitor).unwrap();
    let id = |engine: &Engine, name: &str| engine.id(name).unwrap();
    engine.record_probe(at(seen), id(&engine, "east"), ProbeResult::Failure(refused.into())).unwrap();
    for _ in 0..2 {
        engine.record_probe(at(seen - 10), id(&engine, "west"), ProbeResult::Success).unwrap();
    }
    desk.engine = engine;
    desk.append(desk.config());
    desk.append(Body::Snapshot(Box::new(Checkpoint { health, ..Checkpoint::of(snapshot) })));
    // Two more failures are three in a row, and west is where flow goes: the journal's own engine agrees, also after
    // the heads of many segments.
    (0..40).for_each(|_| desk.probe("west", true));
    desk.probe("east", false);
    desk.probe("east", false);
    desk.evaluate(FenceClaim::None).unwrap();
    drop(journal);
    folder.verify().unwrap();
    let exported = folder.exported("main");
    let answers: Vec<_> = exported.iter().filter_map(|line| line.answer.as_ref()).collect();
    assert_eq!(replay_alike(&exported), answers.len());
    let last = answers.last().unwrap();
    assert_eq!((&*last.outcome, last.fence.as_ref().map(|fence| &*fence.target)), ("FENCE_REQUIRED", Some("west")));
    assert!(!exported.iter().any(|line| line.line.contains("\"restart\"")), "a restart would forget all health");
}

// -------------------------------------------------------------------------------------------- anything in any order

#[derive(Clone, Debug)]
enum Op {
    Probe(usize, bool),
    Evaluate(u8, u8),
    Spend(bool),
    Reconciled,
    Halt,
    Resume,
    Rearm,
    Maintenance(usize, bool),
    Priority(usize, u32),
    Forget,
    Pass(u64),
    Hook(u8, bool),
    Stage(u8),
    Note(String),
    Reopen(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..3_usize, any::<bool>()).prop_map(|(endpoint, ok)| Op::Probe(endpoint, ok)),
        8 => (0..5_u8, 0..3_u8).prop_map(|(kind, claim)| Op::Evaluate(kind, claim)),
        1 => any::<bool>().prop_map(Op::Spend),
        2 => Just(Op::Reconciled),
        1 => Just(Op::Halt),
        1 => Just(Op::Resume),
        1 => Just(Op::Rearm),
        1 => (0..3_usize, any::<bool>()).prop_map(|(endpoint, on)| Op::Maintenance(endpoint, on)),
        1 => (0..3_usize, 0..50_u32).prop_map(|(endpoint, priority)| Op::Priority(endpoint, priority)),
        1 => Just(Op::Forget),
        4 => (0..3_000_u64).prop_map(Op::Pass),
        1 => (0..5_u8, any::<bool>()).prop_map(|(stage, start)| Op::Hook(stage, start)),
        1 => (0..7_u8).prop_map(Op::Stage),
        1 => "\\PC{0,20}".prop_map(Op::Note),
        1 => any::<bool>().prop_map(Op::Reopen),
    ]
}

impl Desk {
    fn act(&mut self, op: &Op) {
        let name = |index: usize| ["east", "west", "south"][index].to_owned();
        let epoch = self.epoch();
        match op {
            Op::Probe(endpoint, ok) => self.probe(&name(*endpoint), *ok),
            Op::Evaluate(kind, claim) => {
                let claim = [FenceClaim::None, FenceClaim::Present, FenceClaim::Epoch(epoch)][usize::from(*claim)];
                let evaluation = match kind {
                    0 | 1 => Evaluation::Failover,
                    2 | 3 => Evaluation::Failback,
                    _ => Evaluation::Switchover("south".to_owned()),
                };
                self.tell(Input::Evaluate(evaluation, claim));
            }
            Op::Spend(true) => self.tell(Input::FenceStarted(epoch)),
            Op::Spend(false) => self.tell(Input::SwitchFailed(epoch)),
            Op::Reconciled => self.tell(Input::Reconciled(epoch)),
            Op::Halt => self.tell(Input::Halt(HaltOrder::operator("desk"))),
            Op::Resume => self.tell(Input::Resume),
            Op::Rearm => self.tell(Input::Rearm),
            Op::Maintenance(endpoint, on) => self.tell(Input::Maintenance { endpoint: name(*endpoint), on: *on }),
            Op::Priority(endpoint, priority) => {
                let update = EndpointUpdate { priority: Some(*priority), ..EndpointUpdate::default() };
                self.tell(Input::Update { name: name(*endpoint), update });
            }
            Op::Forget => self.forget(),
            Op::Pass(millis) => self.now += millis,
            Op::Hook(stage, start) => {
                let stages = [Stage::Fence, Stage::Switch, Stage::Reconcile, Stage::Halt, Stage::Flow];
                let stage = stages[usize::from(*stage)];
                let body = if *start { self.hook_start(stage, 1) } else { self.hook_end(stage, 1, HookResult::Ok) };
                self.append(body);
            }
            Op::Stage(stage) => {
                use SwitchStage::{Abandoned, Decided, Failed, Fenced, Open, Reconciled, Switched};
                let stages = [Decided, Fenced, Switched, Reconciled, Open, Failed, Abandoned];
                self.append(self.stage(stages[usize::from(*stage)]));
            }
            Op::Note(text) => self.append(note(text)),
            Op::Reopen(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happened_is_recovered_verified_and_replayed_alike(
        ops in proptest::collection::vec((0..3_usize, op()), 1..120),
        segment_size in 1..12_000_u64,
        keep_all in any::<bool>(),
    ) {
        let folder = Folder::new("any");
        let size = if keep_all { u64::MAX } else { 2 * segment_size };
        let options = Options { segment_size, keep: Keep { age: Duration::MAX, size }, ..folder.options() };
        let names = ["main", "other", "patient"];
        let (mut journal, recovered) = Journal::open(options.clone(), at(0)).unwrap();
        let mut desks = names.map(|name| Desk::new_or_recovered(name, &journal.handle(), &recovered));
        let mut inputs = 0;
        for (desk, op) in &ops {
            if let Op::Reopen(cleanly) = op {
                if *cleanly {
                    journal.close(at(1), "end").unwrap();
                } else {
                    drop(journal);
                }
                let (opened, recovered) = Journal::open(options.clone(), at(0)).unwrap();
                journal = opened;
                for (name, desk) in names.iter().zip(&desks) {
                    prop_assert_eq!(&recovered.groups[*name].snapshot, &desk.snapshot());
                }
                desks = names.map(|name| Desk::new_or_recovered(name, &journal.handle(), &recovered));
            } else {
                let wrote_before = !matches!(op, Op::Pass(_));
                desks[*desk].act(op);
                inputs += usize::from(wrote_before);
                // Time that no record tells of is not known after a restart.
                if !wrote_before {
                    desks[*desk].append(note("time passed"));
                }
            }
        }
        drop(journal);
        let counts = folder.verify().unwrap();
        let recovered = folder.recover().unwrap();
        for (name, desk) in names.iter().zip(&desks) {
            prop_assert_eq!(&recovered.groups[*name].snapshot, &desk.snapshot());
            let mut lines = Vec::new();
            let begun = export(&folder.0, name, None, |line| lines.push(line.clone())).unwrap();
            if begun {
                replay_alike(&lines);
            }
            prop_assert!(begun || counts.segments[0].first > 1, "nothing is gone, so the whole replays");
        }
        prop_assert!(inputs == 0 || counts.records() > 2);
    }

    #[test]
    fn a_journal_cut_anywhere_opens_if_only_its_last_line_is_touched(cut in 1..4_000_usize) {
        let (folder, _) = small("cut-anywhere");
        let bytes = fs::read(folder.newest()).unwrap();
        let cut = bytes.len() - cut.min(bytes.len() - 1);
        fs::write(folder.newest(), &bytes[..cut]).unwrap();
        // A cut is always in the last line that is left. Only the head was on disk before the file had its name.
        let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        prop_assert_eq!(Journal::open(folder.options(), at(0)).is_ok(), cut > head);
    }
}

// ------------------------------------------------------------------------------------------------------ measurements

fn median(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn timed(what: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    what();
    begun.elapsed()
}

/// `cargo test --release --features supervisor --test journal -- --ignored --nocapture what_a_record_costs`
#[test]
#[ignore = "a measurement"]
fn what_a_record_costs() {
    const ROUNDS: usize = 400;
    const STRETCH: usize = 20;
    const GROUP: usize = 64;
    let folder = Folder::new("cost");
    // Reserving room is what the journal does; `grown` is the same without.
    let (journal, _) = folder.open();
    let grown_folder = Folder::new("cost-grown");
    let grown = {
        struct Growing(Disk);
        struct GrowingFile(Box<dyn SegmentFile>);
        impl SegmentFile for GrowingFile {
            fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
                self.0.write(bytes)
            }
            fn sync(&mut self) -> io::Result<()> {
                self.0.sync()
            }
            fn reserve(&mut self, _: u64) -> io::Result<()> {
                Ok(())
            }
        }
        impl Storage for Growing {
            fn create(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
                Ok(Box::new(GrowingFile(self.0.create(name)?)))
            }
            fn append(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
                self.0.append(name)
            }
            fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
                self.0.rename(from, to)
            }
            fn remove(&mut self, name: &str) -> io::Result<()> {
                self.0.remove(name)
            }
            fn sync(&mut self) -> io::Result<()> {
                self.0.sync()
            }
        }
        Journal::open_on(grown_folder.options(), at(0), Box::new(Growing(Disk::new(&grown_folder.0)))).unwrap().0
    };
    let mut desk = Desk::new("main", &journal.handle());
    let mut other = Desk::new("main", &grown.handle());
    desk.durably(note("settled"));
    other.durably(note("settled"));
    let line = vec![b'x'; 300];
    let raw = |name: &str| fs::OpenOptions::new().append(true).create(true).open(folder.0.join(name)).unwrap();
    let (mut growing, mut reserved) = (raw("growing.raw"), raw("reserved.raw"));
    SegmentFile::reserve(&mut reserved, 16 << 20).unwrap();
    let zeroed = raw("zeroed.raw");
    (&zeroed).write_all(&vec![0; 16 << 20]).unwrap();
    zeroed.sync_all().unwrap();
    let zeroed = fs::OpenOptions::new().write(true).open(folder.0.join("zeroed.raw")).unwrap();
    let mut place = 0;
    let mut times: [Vec<Duration>; 7] = Default::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let lines = line.repeat(GROUP);
    // Each way for a stretch, in turn, so that a change of the disk's mood meets all of them.
    for turn in 0..times.len() * ROUNDS / STRETCH {
        let way = turn % times.len();
        for _ in 0..STRETCH {
            let entries: Vec<_> = (0..GROUP)
                .filter(|_| way == 5)
                .map(|_| desk.apply(Input::Probe { endpoint: "west".to_owned(), result: ProbeResult::Success }))
                .collect();
            times[way].push(timed(|| match way {
                0 => drop(desk.evaluate(FenceClaim::None).unwrap()),
                1 => drop(other.evaluate(FenceClaim::None).unwrap()),
                2 => {
                    growing.write_all(&line).unwrap();
                    growing.sync_data().unwrap();
                }
                3 => {
                    reserved.write_all(&line).unwrap();
                    reserved.sync_data().unwrap();
                }
                4 => {
                    std::os::unix::fs::FileExt::write_all_at(&zeroed, &line, place).unwrap();
                    place += line.len() as u64;
                    zeroed.sync_data().unwrap();
                }
                5 => {
                    let durable = entries.into_iter().map(|entry| desk.journal.append_durable(entry)).last();
                    runtime.block_on(durable.unwrap()).unwrap();
                }
                _ => {
                    growing.write_all(&lines).unwrap();
                    growing.sync_data().unwrap();
                }
            }));
        }
    }
    let [one @ .., journal_many, raw_many] = times;
    let names = ["journal", "journal, no room reserved", "raw growing", "raw reserved", "raw zeroed"];
    let base = median(one[2].clone()).0;
    for (name, times) in names.iter().zip(one) {
        let (p50, p99) = median(times);
        println!(
            "6  {name:<26} p50 {p50:>10.1?} p99 {p99:>10.1?}  {:.2}x raw growing",
            p50.as_secs_f64() / base.as_secs_f64()
        );
    }
    let [journal_many, raw_many] = [journal_many, raw_many].map(|times| median(times).0 / GROUP as u32);
    let ratio = journal_many.as_secs_f64() / raw_many.as_secs_f64();
    println!("6a group of {GROUP}, per record: journal {journal_many:?}, raw {raw_many:?}, {ratio:.2}x");
    // Hand-over alone: what the deciding thread pays for an observation.
    let mut costs = Vec::new();
    for _ in 0..200 {
        let entries: Vec<_> = (0..200)
            .map(|_| desk.apply(Input::Probe { endpoint: "west".to_owned(), result: ProbeResult::Success }))
            .collect();
        costs.push(timed(|| entries.into_iter().for_each(|entry| desk.journal.append(entry).unwrap())) / 200);
        std::thread::sleep(Duration::from_millis(2));
    }
    let (p50, p99) = median(costs);
    println!("6b hand-over of an observation: p50 {p50:?} p99 {p99:?}; an entry has {} bytes", size_of::<Entry>());
    drop((journal, grown));
    let bytes = folder.verify().unwrap().bytes();
    let (verified, recovered) = (timed(|| drop(folder.verify())), timed(|| drop(folder.recover())));
    println!("{bytes} bytes in one segment: recovered in {recovered:?}, verified in {verified:?}");
}

// ------------------------------------------------------------------------------------------------------ command line

#[cfg(feature = "cli")]
mod command_line {
    use super::*;

    fn journal(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
        command.arg("journal").args(&arguments[..1]).arg(folder).args(&arguments[1..]);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    #[test]
    fn verify_tells_sound_torn_and_damaged_apart() {
        let (folder, _) = small("cli-verify");
        let (status, out, error) = journal(&["verify"], &folder.0);
        assert_eq!((status, &*error), (Some(0), ""));
        assert!(out.contains("inputs are answered as recorded; groups: main"), "{out}");
        let bytes = fs::read(folder.newest()).unwrap();
        fs::write(folder.newest(), &bytes[..bytes.len() - 5]).unwrap();
        let (status, _, error) = journal(&["verify"], &folder.0);
        assert_eq!(status, Some(1));
        assert!(error.contains("did not come to its end"), "{error}");
        let mut flipped = bytes;
        flipped[400] ^= 1;
        fs::write(folder.newest(), flipped).unwrap();
        let (status, out, error) = journal(&["verify"], &folder.0);
        assert_eq!((status, &*out), (Some(2), ""));
        assert!(error.contains("00000000000000000001.jsonl, line 2: the checksum"), "{error}");
        let (status, _, error) = journal(&["verify"], &folder.0.join("nowhere"));
        assert_eq!(status, Some(2));
        assert!(error.contains("there is no journal"), "{error}");
    }

    #[test]
    fn show_says_in_words_what_happened_without_colours_in_a_pipe() {
        let (folder, _) = small("cli-show");
        let (status, out, _) = journal(&["show"], &folder.0);
        assert_eq!(status, Some(0));
        for piece in [
            "TIME (UTC)",
            "supervisor 0.1.0 started, process ",
            "probe east failed (Refused: connection): DOWN",
            "failover: FENCE_REQUIRED FENCE_NOT_CONFIRMED east #1 for west, HOLD SWITCHING",
            "failover, epoch 1 fenced: SWITCHED ACTIVE_DOWN east -> west #2, HOLD RECONCILING",
        ] {
            assert!(out.contains(piece), "{piece:?} in\n{out}");
        }
        assert!(!out.contains('\u{1b}'));
        let (_, none, _) = journal(&["show", "--group", "other"], &folder.0);
        assert_eq!(none.lines().count(), 1);
    }

    #[test]
    fn show_is_cut_to_what_is_new_since_when_and_how_many_rows() {
        let (folder, _) = small("cli-show-less");
        let rows = |flags: &[&str]| {
            let (status, out, error) = journal(&[&["show"], flags].concat(), &folder.0);
            assert_eq!((status, &*error), (Some(0), ""), "{flags:?}");
            out.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let all = rows(&[]);
        // One row for each change of a path's state, in place of one for each result.
        let brief = rows(&["--no-probes"]);
        let probes = |rows: &[String]| rows.iter().filter(|row| row.contains(" probe ")).cloned().collect::<Vec<_>>();
        let mut states = BTreeMap::new();
        let state = |row: &String| {
            let (question, answer) = row.split_once(" probe ").unwrap().1.split_once(": ").unwrap();
            (question.split(' ').next().unwrap().to_owned(), answer.split(',').next().unwrap().to_owned())
        };
        let news: Vec<_> = probes(&all)
            .into_iter()
            .filter(|row| {
                let (endpoint, answer) = state(row);
                states.insert(endpoint, answer.clone()) != Some(answer) || row.contains(", ")
            })
            .collect();
        assert_eq!(probes(&brief), news);
        assert!(probes(&brief).len() < probes(&all).len(), "{all:#?}");
        let others = |rows: &[String]| rows.len() - probes(rows).len();
        assert_eq!(others(&brief), others(&all), "nothing else repeats here");

        assert_eq!(rows(&["--last", "3"]), all[all.len() - 3..]);
        assert_eq!(rows(&["--last", "1000"]), all);
        assert_eq!(rows(&["--last", "2", "--no-probes"]), brief[brief.len() - 2..]);
        assert_eq!(rows(&["--last", "2", "--group", "nobody"]), [""; 0]);

        assert_eq!(rows(&["--since", "1h"]), all, "back from the last record");
        assert_eq!(rows(&["--since", "2000-01-01"]), all);
        assert_eq!(rows(&["--since", "2100-01-01T00:00:00Z"]), [""; 0]);
        // A time as a row has it, and as RFC 3339.
        let wall = |row: &String| row.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ");
        let middle = wall(&all[all.len() / 2]);
        let later: Vec<_> = all.iter().filter(|row| wall(row) >= middle).cloned().collect();
        assert_eq!(rows(&["--since", &middle]), later);
        assert_eq!(rows(&["--since", &format!("{}Z", middle.replace(' ', "T")), "--last", "1"]), all[all.len() - 1..]);
        let (status, _, error) = journal(&["show", "--since", "yesterday"], &folder.0);
        assert_eq!(status, Some(2));
        assert!(error.contains("expected a time such as 2026-11-29T22:13:05Z, or a duration back"), "{error}");
    }

    #[test]
    fn what_export_prints_is_what_replay_takes() {
        let (folder, _) = small("cli-export");
        let (status, scenario, error) = journal(&["export", "--group", "main"], &folder.0);
        assert_eq!((status, &*error), (Some(0), ""));
        let mut replay = Command::new(env!("CARGO_BIN_EXE_broker-failover"))
            .args(["replay", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        replay.stdin.take().unwrap().write_all(scenario.as_bytes()).unwrap();
        let output = replay.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().contains("\"outcome\":\"SWITCHED\""));
        let (status, _, error) = journal(&["export", "--group", "nobody"], &folder.0);
        assert_eq!(status, Some(2));
        assert!(error.contains("says nothing of a group \"nobody\""), "{error}");
    }
}

#[test]
fn for_how_long_order_flow_was_held_is_known_after_any_number_of_restarts_and_segments() {
    let folder = Folder::new("held");
    let open = || Journal::open(Options { segment_size: 4000, ..folder.options() }, at(0)).unwrap();
    let held = || folder.recover().unwrap().groups["main"].held_for;
    let (journal, _) = open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    (0..50).for_each(|_| desk.probe("west", true));
    desk.durably(note("settled"));
    drop(journal);
    // Since the evaluation that asked for a fence, which two more inputs of 10 ms followed.
    assert_eq!(held(), Duration::from_millis(520));
    for restarts in 1..=3 {
        let (journal, recovered) = open();
        let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
        (0..20).for_each(|_| desk.probe("west", true));
        desk.durably(note("settled"));
        drop(journal);
        // What each run adds, 1 ms until its snapshot and 20 probes, and nothing for the time between two.
        assert_eq!(held(), Duration::from_millis(520 + 201 * restarts));
    }
    let (journal, recovered) = open();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    desk.decide(Input::Halt(HaltOrder::operator("enough"))).unwrap();
    drop(journal);
    assert_eq!(held(), Duration::ZERO);
}
