//! What a gateway reads from the feed, against one atomic load and against the least that a sequence lock costs; and what
//! the supervisor pays to write it. See `references/performance.md`.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod support;

use std::env;
use std::fs;
use std::hint::{black_box, spin_loop};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use broker_failover::engine::{EndpointId, Epoch, OrderAction, OrderFlow};
use broker_failover::feed::{self, FeedReader, FeedWriter, Published, Terms, WhenStale};
use support::{Bench, Limits, Subject};

fn main() -> ExitCode {
    let memory = Folder::new(Path::new("/dev/shm"));
    let disk = Folder::new(&env::temp_dir());
    let mut bench = Bench::default();
    alone(&mut bench, "floor: AtomicU64 load, Acquire", AtomicU64::new(1), |word, iterations| {
        repeat(iterations, || word.load(Ordering::Acquire));
    });
    let seqlock = alone(&mut bench, "floor: sequence lock, 48 bytes", SequenceLock::default(), SequenceLock::read);
    let boottime = bench.subject("floor: CLOCK_BOOTTIME", |iterations| repeat(iterations, feed::now));

    let read = alone(&mut bench, "read()", memory.reader("read"), |reader, iterations| {
        repeat(iterations, || reader.read().map_or(0, |snapshot| snapshot.sequence() + snapshot.endpoint_hash()));
    });
    let may = alone(&mut bench, "may_submit(known time)", memory.reader("may"), |reader, iterations| {
        repeat(iterations, || reader.may_submit(black_box(1)).into());
    });
    let now = alone(&mut bench, "may_submit(now())", memory.reader("now"), |reader, iterations| {
        repeat(iterations, || reader.may_submit(feed::now()).into());
    });
    let written = written(&mut bench, &memory);
    bench.row("1c", read, seqlock, Limits::at_most(2.0, 1.3));
    bench.row("1c", may, seqlock, Limits::at_most(2.0, 1.3));
    bench.row("1d", now, boottime, Limits::at_most(1.5, 1.2));
    bench.row("1b", written, read, Limits::at_most(4.0, 2.0));

    for (name, folder) in [("memory", &memory), ("disk", &disk)] {
        let mut writer = folder.writer("write");
        bench.uncounted(format!("publish(), file in {name}"), move |iterations| {
            for _ in 0..iterations {
                writer.publish(open(), terms()).expect("a file that can be written");
            }
        });
    }
    bench.main()
}

/// Sums what `read` says, so that no reading can be left out.
#[inline(always)]
fn repeat(iterations: u64, read: impl Fn() -> u64) {
    let sum = (0..iterations).fold(0_u64, |sum, _| sum.wrapping_add(read()));
    black_box(sum);
}

fn alone<T: 'static>(bench: &mut Bench, name: &str, shared: T, read: impl Fn(&T, u64) + 'static) -> Subject {
    let shared = black_box(Box::new(shared));
    bench.subject(name, move |iterations| read(&shared, iterations))
}

/// `read()` while another thread publishes 1,000 times a second, far more often than a supervisor does.
fn written(bench: &mut Bench, folder: &Folder) -> Subject {
    let reader = folder.reader("written");
    let mut writer = folder.writer("written");
    bench.clocked("read(), written every ms", move |iterations| {
        let (started, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    writer.publish(open(), terms()).expect("a file that can be written");
                    started.store(true, Ordering::Release);
                    let due = Instant::now() + Duration::from_millis(1);
                    while Instant::now() < due && !stop.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                }
            });
            while !started.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let start = Instant::now();
            repeat(iterations, || {
                reader
                    .read()
                    .map_or(0, |snapshot| snapshot.sequence() + u64::from(snapshot.permits(OrderAction::Query)))
            });
            let took = start.elapsed();
            stop.store(true, Ordering::Relaxed);
            took
        })
    })
}

fn open() -> Published {
    let (endpoint, epoch) = (EndpointId::from_index(0), Epoch::new(1).expect("an epoch"));
    Published::new(Some((endpoint, epoch)), "east", OrderFlow::Open { endpoint, epoch }, true)
}

fn terms() -> Terms {
    Terms { valid_for: Duration::from_secs(3_600), when_stale: WhenStale::Hold }
}

/// A folder of feeds, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(place: &Path) -> Self {
        let folder = place.join(format!("broker-failover-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn writer(&self, name: &str) -> FeedWriter {
        FeedWriter::open(self.0.join(name)).expect("a feed")
    }

    /// A reader of a feed that says OPEN.
    fn reader(&self, name: &str) -> FeedReader {
        self.writer(name).publish(open(), terms()).expect("a file that can be written");
        FeedReader::open(self.0.join(name)).expect("a feed")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The least that gives 48 bytes which belong together.
#[derive(Default)]
struct SequenceLock {
    version: AtomicU64,
    words: [AtomicU64; 6],
}

impl SequenceLock {
    fn read(&self, iterations: u64) {
        repeat(iterations, || {
            loop {
                let version = self.version.load(Ordering::Acquire);
                let sum = self.words.iter().fold(0_u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
                fence(Ordering::Acquire);
                if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                    return sum;
                }
            }
        });
    }
}
