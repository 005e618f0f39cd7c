//! What a record costs, beside the least that the same disk takes for as many bytes in the same minute.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use broker_failover::engine::{Endpoint, Engine, Evaluation, FenceClaim, Input, Policy, ProbeResult, Timestamp};
use broker_failover::scenario::config_line;
use broker_failover::supervisor::journal::{Body, ConfigRecord, Entry, Journal, JournalHandle, Options};

use crate::gates::{Gates, Plan};
use crate::process::{Folder, now, pause};
use crate::table::print_table;

/// Records that are written together.
const GROUP: usize = 64;
/// Microseconds of a bare sync from which on it is the disk that a record waits for, so that a prepared file is the measure.
/// On a faster one the processor's part, about a microsecond for each record, and the wake-ups of writer and caller are most
/// of what that ratio says; there the growing file, which is what one would write otherwise, is the measure.
const DISK_DECIDES: f64 = 200.0;
/// Of one way in a row, so that a change of the disk's mood meets all of them.
const STRETCH: usize = 20;

pub(crate) fn measure(plan: Plan, gates: &mut Gates) {
    if !plan.wants("6") {
        return;
    }
    let stretches = match plan {
        Plan { trial: true, .. } => 1,
        Plan { smoke: true, .. } => 5,
        Plan { smoke: false, .. } => 30,
    };
    let folder = Folder::on_disk();
    let (journal, _) =
        Journal::open(Options::new(folder.path().join("journal"), "hash"), Timestamp::ZERO).expect("a journal");
    let mut desk = Desk::new(journal.handle());
    let mut raw = Raw::new(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");

    let mut times = Way::ALL.map(|_| Vec::new());
    for _ in 0..stretches {
        for (way, times) in Way::ALL.into_iter().zip(&mut times) {
            for _ in 0..STRETCH {
                let entries: Vec<_> = if way == Way::JournalMany { desk.probes(GROUP) } else { Vec::new() };
                let entry = (way == Way::Journal).then(|| desk.decision());
                let begun = now();
                match way {
                    Way::Journal => {
                        let written = entry.map(|entry| desk.journal.append_durable_blocking(entry));
                        written.expect("an entry").expect("a disk");
                    }
                    Way::JournalMany => {
                        let last = entries.into_iter().map(|entry| desk.journal.append_durable(entry)).last();
                        runtime.block_on(last.expect("entries")).expect("a disk");
                    }
                    Way::Growing => raw.grow(1),
                    Way::GrowingMany => raw.grow(GROUP),
                    Way::Prepared => raw.overwrite(1),
                    Way::PreparedMany => raw.overwrite(GROUP),
                }
                times.push((now() - begun) as f64 / 1e3);
            }
        }
    }
    let hand_over = desk.hand_over(stretches * 8);
    drop(journal);

    let times = times.map(Spread::of);
    let [one, growing, prepared, many, growing_many, prepared_many] = &times;
    let line = |(way, spread): (Way, &Spread)| {
        let records = way.records() as f64;
        let per_record = |value: f64| format!("{:.1}", value / records);
        [way.name().to_owned(), per_record(spread.median), per_record(spread.high)]
    };
    println!(
        "\n6: {} of each, {STRETCH} in a row by turns; a record has about {} bytes\n",
        times[0].count,
        Raw::RECORD
    );
    print_table(["a record on disk", "median, us", "99th percentile, us"], Way::ALL.into_iter().zip(&times).map(line));
    println!(
        "\n6b: hand-over of an observation: median {:.0} ns, 99th percentile {:.0} ns",
        hand_over.median, hand_over.high
    );
    gates.noisy("6", "durable, against the growing file", one.median / growing.median, [1.2, 0.75]);
    gates.noisy("6a", "64 at once, against the growing file", many.median / growing_many.median, [1.5, 1.1]);
    let of_disk = [
        ("6", "durable, against the prepared file", one.median / prepared.median, [1.2, 1.05]),
        ("6a", "64 at once, against the prepared file", many.median / prepared_many.median, [1.5, 1.1]),
    ];
    for (id, what, value, limits) in of_disk {
        if prepared.median < DISK_DECIDES {
            gates.told(id, what, value, limits);
        } else {
            gates.noisy(id, what, value, limits);
        }
    }
    gates.noisy("6b", "hand-over, ns", hand_over.median, [200.0, 50.0]);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Journal,
    Growing,
    Prepared,
    JournalMany,
    GrowingMany,
    PreparedMany,
}

impl Way {
    const ALL: [Self; 6] =
        [Self::Journal, Self::Growing, Self::Prepared, Self::JournalMany, Self::GrowingMany, Self::PreparedMany];

    const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal: a decision",
            Self::Growing => "append + fdatasync, growing file",
            Self::Prepared => "pwrite + fdatasync, prepared file",
            Self::JournalMany => "journal: 64 at once, each",
            Self::GrowingMany => "64 in one append + fdatasync, each",
            Self::PreparedMany => "64 in one pwrite + fdatasync, each",
        }
    }

    const fn records(self) -> usize {
        match self {
            Self::Journal | Self::Growing | Self::Prepared => 1,
            Self::JournalMany | Self::GrowingMany | Self::PreparedMany => GROUP,
        }
    }
}

/// The same bytes without a journal.
struct Raw {
    growing: File,
    prepared: File,
    place: u64,
    bytes: Vec<u8>,
}

impl Raw {
    const RECORD: usize = 300;
    const SIZE: usize = 32 << 20;

    fn new(folder: &Path) -> Self {
        let open = |name| OpenOptions::new().create(true).truncate(true).write(true).open(folder.join(name));
        let growing = open("growing").expect("a file");
        let mut prepared = open("prepared").expect("a file");
        prepared.write_all(&vec![0; Self::SIZE]).and_then(|()| prepared.sync_all()).expect("a disk");
        Self { growing, prepared, place: 0, bytes: vec![b'x'; Self::RECORD * GROUP] }
    }

    fn grow(&mut self, records: usize) {
        let bytes = &self.bytes[..records * Self::RECORD];
        self.growing.write_all(bytes).and_then(|()| self.growing.sync_data()).expect("a disk");
    }

    fn overwrite(&mut self, records: usize) {
        let bytes = &self.bytes[..records * Self::RECORD];
        self.prepared.write_all_at(bytes, self.place).and_then(|()| self.prepared.sync_data()).expect("a disk");
        self.place = (self.place + bytes.len() as u64) % (Self::SIZE - self.bytes.len()) as u64;
    }
}

/// A group that has things to write down.
struct Desk {
    engine: Engine,
    journal: JournalHandle,
    name: Arc<str>,
    at: u64,
}

impl Desk {
    fn new(journal: JournalHandle) -> Self {
        let mut engine = Engine::new(Policy::default());
        engine.register(Endpoint::primary("east", "us-east-1", "https://east.example")).expect("a primary");
        engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10)).expect("a backup");
        let line = config_line(engine.policy(), engine.endpoints().map(|(_, endpoint)| endpoint));
        let desk = Self { engine, journal, name: "main".into(), at: 0 };
        let body = Body::Config(ConfigRecord { line, hash: "hash".to_owned() });
        let entry = Entry::of(&desk.name, Timestamp::ZERO, body);
        desk.journal.append_durable_blocking(entry).expect("a disk");
        desk
    }

    fn told(&mut self, input: Input) -> Entry {
        self.at += 1_000;
        let at = Timestamp::from_nanos(self.at);
        let result = self.engine.apply(at, input.clone());
        Entry::input(&self.name, at, input, &result)
    }

    fn decision(&mut self) -> Entry {
        self.told(Input::Evaluate(Evaluation::Failover, FenceClaim::None))
    }

    fn probes(&mut self, count: usize) -> Vec<Entry> {
        let probe = || Input::Probe { endpoint: "west".to_owned(), result: ProbeResult::Success };
        (0..count).map(|_| self.told(probe())).collect()
    }

    /// What the thread that decides pays for a record that nobody waits for: nanoseconds for each.
    fn hand_over(&mut self, rounds: usize) -> Spread {
        const BATCH: usize = 200;
        let sample = |_| {
            let entries = self.probes(BATCH);
            let begun = now();
            for entry in entries {
                self.journal.append(entry).expect("a journal");
            }
            let took = (now() - begun) as f64 / BATCH as f64;
            // The writer has them off its hands.
            pause(4);
            took
        };
        Spread::of((0..rounds).map(sample).collect())
    }
}

struct Spread {
    count: usize,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |percent| samples[(samples.len() - 1) * percent / 100];
        Self { count: samples.len(), median: at(50), high: at(99) }
    }
}
