//! The durable journal: what it promises, case by case.
#![cfg(feature = "supervisor")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker_failover::engine::*;
use broker_failover::scenario::{Verb, config_line};
use broker_failover::supervisor::journal::*;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn options(&self) -> Options {
        Options::new(&self.0, "hash")
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

    fn text(&self) -> String {
        self.segments().iter().map(|path| fs::read_to_string(path).unwrap()).collect()
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
    let mut engine = Engine::new(Policy::default());
    engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).unwrap();
    engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).unwrap();
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
        let desk = Self { name: name.into(), engine: new_engine(), journal: journal.clone(), now: 1 };
        desk.append(desk.config());
        desk
    }

    /// A group as a journal has it.
    fn recovered(name: &str, journal: &JournalHandle, recovered: &Recovered, now: u64) -> Self {
        let group = &recovered.groups[name];
        let restored =
            Engine::restore(Policy::default(), group.snapshot.clone(), at(now), RestartKind::Monitor).unwrap();
        let desk = Self { name: name.into(), engine: restored, journal: journal.clone(), now };
        desk.append(desk.config());
        desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.engine.snapshot(at(now))))));
        desk
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

    fn probe(&mut self, endpoint: &str, ok: bool) {
        let result = if ok { ProbeResult::Success } else { ProbeResult::Failure("Refused: connection".into()) };
        self.tell(Input::Probe { endpoint: endpoint.to_owned(), result });
    }

    fn evaluate(&mut self, claim: FenceClaim) -> Result<Seq, JournalFailed> {
        self.decide(Input::Evaluate(Evaluation::Failover, claim))
    }

    /// East dies, is fenced, and flow goes west.
    fn fail_over(&mut self) {
        self.probe("east", true);
        self.probe("west", true);
        for _ in 0..3 {
            self.probe("east", false);
        }
        self.evaluate(FenceClaim::None).unwrap();
        let epoch = self.engine.epoch().unwrap().get();
        self.decide(Input::FenceStarted(epoch)).unwrap();
        self.evaluate(FenceClaim::Epoch(epoch)).unwrap();
    }
}

#[test]
fn a_journal_is_json_lines_that_a_person_reads() {
    let folder = Folder::new("reads");
    let (journal, recovered) = Journal::open(folder.options(), at(0)).unwrap();
    assert!(recovered.groups.is_empty() && recovered.config_hash.is_none() && recovered.next == 1);
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    journal.close(at(2_000), "SIGTERM").unwrap();
    println!("{}", folder.text());
    println!("{:?}", verify(&folder.0, follow_nothing));
}
