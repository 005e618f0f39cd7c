//! What the records cost.

use std::fs;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use broker_failover::engine::*;
use broker_failover::supervisor::journal::*;

use crate::desk::*;

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
