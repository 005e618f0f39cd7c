//! Disks that fail, fill up or refuse.

use std::fs;
use std::io::{self};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker_failover::engine::*;
use broker_failover::supervisor::group::Entry as GroupEntry;
use broker_failover::supervisor::group::task::Ledger;
use broker_failover::supervisor::journal::*;

use crate::desk::*;

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

struct FaultyPrepared {
    file: Box<dyn PreparedFile>,
    plan: Arc<Plan>,
}

impl PreparedFile for FaultyPrepared {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.plan.call("write recent")?;
        self.file.write_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.plan.call("sync recent")?;
        self.file.sync()
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

    fn prepare(&mut self, name: &str, bytes: usize) -> io::Result<Box<dyn PreparedFile>> {
        self.plan.call("prepare")?;
        let file = self.disk.prepare(name, bytes)?;
        Ok(Box::new(FaultyPrepared { file, plan: Arc::clone(&self.plan) }))
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
    /// Where no file can be prepared: each decision waits for the segment.
    fn faulty(&self, options: Options) -> (Journal, Recovered, Arc<Plan>) {
        let plan = Plan::default();
        plan.fail("prepare", io::ErrorKind::Unsupported);
        let opened = self.open_on(options, plan);
        *opened.2.failing.lock().unwrap() = None;
        opened
    }

    fn open_on(&self, options: Options, plan: Plan) -> (Journal, Recovered, Arc<Plan>) {
        let plan = Arc::new(plan);
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
    let failed =
        runtime.block_on(Ledger::append_durable(&desk.journal, &Arc::from("main"), at(5), &entry)).unwrap_err();
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
fn decisions_wait_for_the_recent_records_and_the_segment_follows_within_a_second() {
    let folder = Folder::new("recent");
    let (journal, _, plan) = folder.open_on(folder.options(), Plan::default());
    let desk = Desk::new("main", &journal.handle());
    let (begun, syncs, recent) = (Instant::now(), plan.count("sync"), plan.count("sync recent"));
    for _ in 0..50 {
        desk.durably(note("decided"));
    }
    let (syncs, recent) = (plan.count("sync") - syncs, plan.count("sync recent") - recent);
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(syncs + recent >= 50 && syncs <= seconds + 1, "{recent} and {syncs} syncs in {seconds} s");
    let syncs = plan.count("sync");
    wait_until("the segment's sync", || plan.count("sync") > syncs);
    journal.close(at(1), "end").unwrap();
    folder.verify().unwrap();
}

#[test]
fn recent_records_that_do_not_fit_have_the_segment_synced() {
    let folder = Folder::new("recent-full");
    let (journal, _, plan) = folder.open_on(folder.options(), Plan::default());
    let desk = Desk::new("main", &journal.handle());
    let long = note(&"x".repeat(60_000));
    let mut last = 0;
    for _ in 0..40 {
        let syncs = plan.count("sync") + plan.count("sync recent");
        last = desk.durably(long.clone());
        assert!(plan.count("sync") + plan.count("sync recent") > syncs, "on disk with record {last}");
    }
    assert!(plan.count("sync recent") > 20 && fs::metadata(folder.0.join("RECENT")).unwrap().len() == 1 << 20);
    drop(journal);
    assert_eq!(folder.verify().unwrap().records(), last);
}

#[test]
fn recent_records_that_cannot_be_put_on_disk_fail_the_journal() {
    for action in ["write recent", "sync recent"] {
        let folder = Folder::new("recent-fails");
        let (journal, _, plan) = folder.open_on(folder.options(), Plan::default());
        let mut desk = Desk::new("main", &journal.handle());
        desk.fail_over();
        let mut last = desk.durably(note("good"));
        plan.fail(action, io::ErrorKind::Other);
        let failed = loop {
            match desk.evaluate(FenceClaim::None) {
                Ok(seq) => last = seq,
                Err(failed) => break failed,
            }
        };
        assert!(matches!(&failed, JournalFailed::Storage { file, .. } if file == "RECENT"), "{action}: {failed:?}");
        let calls = plan.calls();
        assert_eq!(desk.evaluate(FenceClaim::None), Err(failed));
        drop(journal);
        assert_eq!(plan.calls(), calls, "{action}: storage was touched after its first failure");
        let (journal, recovered) = folder.open();
        assert!(recovered.next > last, "{action}: a durable record is lost");
        journal.close(at(50), "end").unwrap();
        folder.verify().unwrap();
    }
}

#[test]
fn a_segment_that_cannot_be_put_on_disk_fails_the_journal_though_decisions_do_not_wait_for_it() {
    let folder = Folder::new("segment-fails");
    let (journal, _, plan) = folder.open_on(folder.options(), Plan::default());
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    plan.fail("sync", io::ErrorKind::Other);
    let mut last = 0;
    let failed = loop {
        match desk.evaluate(FenceClaim::None) {
            Ok(seq) => last = seq,
            Err(failed) => break failed,
        }
    };
    assert!(matches!(&failed, JournalFailed::Storage { file, .. } if file.ends_with(".jsonl")), "{failed:?}");
    let calls = plan.calls();
    assert_eq!(journal.handle().append(desk.entry(note("more"))), Err(failed.clone()));
    assert_eq!(journal.close(at(9), "end"), Err(failed));
    assert_eq!(plan.calls(), calls, "storage was touched after its first failure");
    // The kernel may have dropped what it could not write.
    let recent = folder.0.join("RECENT");
    assert!(String::from_utf8_lossy(&fs::read(recent).unwrap()).contains(&format!("{{\"seq\":{last},")));
    let (journal, recovered) = folder.open();
    assert!(recovered.next > last, "a durable record is lost");
    journal.close(at(50), "end").unwrap();
    folder.verify().unwrap();
}

#[test]
fn where_somebody_removes_the_recent_records_decisions_wait_for_the_segment() {
    let folder = Folder::new("recent-removed");
    let (journal, _, plan) = folder.open_on(folder.options(), Plan::default());
    let desk = Desk::new("main", &journal.handle());
    desk.durably(note("good"));
    fs::remove_file(folder.0.join("RECENT")).unwrap();
    let syncs = plan.count("sync");
    desk.durably(note("the first to find out"));
    assert!(plan.count("sync") > syncs, "the segment was not synced");
    let (syncs, recent) = (plan.count("sync"), plan.count("sync recent"));
    let last = desk.durably(note("more"));
    assert_eq!((plan.count("sync") - syncs, plan.count("sync recent") - recent), (1, 0));
    journal.close(at(9), "end").unwrap();
    assert!(folder.verify().unwrap().records() > last);
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
