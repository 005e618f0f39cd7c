//! The one thread that writes.

use std::io;
use std::time::Duration;

use thiserror::Error;

use super::line::{Link, Place, Stamp, write_line};
use super::mirror::Mirror;
use super::queue::{Done, Item, Shared, latecomers, next_batch};
use super::read::SegmentInfo;
use super::recent::{self, Recent};
use super::record::{Body, Entry, FORMAT, SegmentRecord, Seq, StartRecord};
use super::retention::{Keep, expendable};
use super::segment::{SegmentFile, Storage, UNFINISHED, name};
use crate::engine::Timestamp;
use crate::manager::Clock;
use crate::scenario::LONGEST_LINE;
use crate::supervisor::clock::{self, BootClock};

/// What was written is put on disk at least as often as this.
pub const SYNC_EVERY: Duration = Duration::from_secs(1);
/// At so many that wait for one sync the next to come wait for another.
const MOST_TOGETHER: usize = 1_024;

/// Nothing can be recorded any more: the first failure is final, and nothing is tried again on this journal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JournalFailed {
    /// Storage failed. What is on disk beyond the last durable record is unknown until the journal is opened again.
    #[error("the journal failed: cannot {action} {file}: {error}")]
    Storage {
        /// What was tried: `write`, `sync`, ...
        action: &'static str,
        /// The file.
        file: String,
        /// What the system said.
        error: String,
        /// Whether the disk is full.
        full: bool,
    },
    /// A record does not describe what happened: the journal's own engine answers otherwise. It was not written.
    #[error("the journal failed: record {seq} contradicts what came before: {what}")]
    Contradiction {
        /// The number that it would have had.
        seq: Seq,
        /// In words.
        what: String,
    },
    /// It was closed.
    #[error("the journal is closed")]
    Closed,
}

/// What never changes while a journal is open.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) boot_id: String,
    pub(super) pid: u32,
    pub(super) config_hash: String,
}

impl Identity {
    pub(super) fn start(&self) -> Body {
        Body::Start(StartRecord {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config_hash: self.config_hash.clone(),
            boot_id: self.boot_id.clone(),
            pid: self.pid,
        })
    }
}

/// The segment that is written, and everything that the next line needs.
pub(super) struct Writer {
    pub(super) storage: Box<dyn Storage>,
    pub(super) file: Box<dyn SegmentFile>,
    /// Where decisions are put on disk before the segment is.
    pub(super) recent: Option<Recent>,
    pub(super) identity: Identity,
    pub(super) stamp: Stamp,
    pub(super) mirror: Mirror,
    /// Oldest first; the last one is being written.
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) next: Seq,
    pub(super) link: Link,
    pub(super) segment_size: u64,
    pub(super) keep: Keep,
    /// Size of the head of the segment that is written.
    pub(super) head: u64,
    pub(super) clock: BootClock,
    /// Lines that are not written yet.
    pub(super) buffer: Vec<u8>,
    /// The newest line that was written, with its end.
    pub(super) newest: Vec<u8>,
    /// When the oldest line was written that the segment on disk does not have yet.
    pub(super) unsynced: Option<Timestamp>,
    /// How long the last sync took.
    pub(super) last_sync: Duration,
    /// Storage failed: it is not touched again.
    pub(super) failed: Option<JournalFailed>,
}

impl Writer {
    fn current(&self) -> String {
        name(self.segments.last().map_or(1, |segment| segment.first))
    }

    /// The first failure of storage is the last thing that is asked of it.
    fn fail(&mut self, action: &'static str, file: String, error: &io::Error) -> JournalFailed {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let failed = JournalFailed::Storage { action, file, error: error.to_string(), full };
        self.failed.get_or_insert(failed).clone()
    }

    fn refuse_if_failed(&self) -> Result<(), JournalFailed> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Makes the first segment of a new journal.
    pub(super) fn begin(&mut self, at: Timestamp) -> Result<(), JournalFailed> {
        self.open_segment(at, wall())
    }

    /// Takes one record: follows it and makes its line. Nothing is written yet.
    ///
    /// An input's answer is completed in its place: a record is too large to be moved about.
    pub(super) fn push(&mut self, entry: &mut Entry, wall: u64) -> Result<Seq, JournalFailed> {
        // A supervisor that stops leaves everything in a head, so that the next one, which may be of another version,
        // follows no record to know the state.
        if self.is_full() || matches!(entry.body, Body::Stop(_)) {
            self.write()?;
            self.rotate(wall)?;
        }
        let (at, group, body) = (entry.at, entry.group.as_deref(), &mut entry.body);
        let seq = self.next;
        let contradiction = |what| JournalFailed::Contradiction { seq, what };
        if matches!(body, Body::Segment(_)) {
            return Err(contradiction("only the journal writes a record of kind \"segment\"".to_owned()));
        }
        let full = self.mirror.take(seq, at, group, body).map_err(contradiction)?;
        if let (Body::Input { answer, .. }, Some(full)) = (&mut *body, full) {
            *answer = full;
        }
        self.line(wall, at, group, body)?;
        Ok(seq)
    }

    fn line(&mut self, wall: u64, at: Timestamp, group: Option<&str>, body: &Body) -> Result<(), JournalFailed> {
        let (seq, before) = (self.next, self.buffer.len());
        let place = Place { seq, prev: self.link };
        let made = write_line(&mut self.buffer, place, &mut self.stamp, wall, (at, group, body));
        let length = self.buffer.len().saturating_sub(before);
        let made = match (made, seq.checked_add(1)) {
            (Err(error), _) => Err(error.to_string()),
            (Ok(_), None) => Err("there are no numbers left".to_owned()),
            (Ok(_), _) if length > LONGEST_LINE && matches!(body, Body::Input { .. }) => {
                Err(format!("an input of {length} bytes; at most {LONGEST_LINE}, so that it can be replayed"))
            }
            (Ok(link), Some(next)) => Ok((link, next)),
        };
        match made {
            Ok(made) => (self.link, self.next) = made,
            Err(what) => {
                self.buffer.truncate(before);
                return Err(JournalFailed::Contradiction { seq, what });
            }
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.last = seq;
            segment.wall = wall;
        }
        Ok(())
    }

    /// Whether the next record belongs into another segment. A segment holds at least as much as its head.
    fn is_full(&self) -> bool {
        let written = self.segments.last().map_or(0, |segment| segment.bytes);
        let size = written.saturating_add(length(&self.buffer));
        size >= self.segment_size && size >= self.head.saturating_mul(2)
    }

    /// Writes the lines that were made.
    pub(super) fn write(&mut self) -> Result<(), JournalFailed> {
        self.refuse_if_failed()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write(&self.buffer) {
            return Err(self.fail("write", self.current(), &error));
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.bytes = segment.bytes.saturating_add(length(&self.buffer));
        }
        if let Some(recent) = &mut self.recent {
            recent.add(&self.buffer);
        }
        self.wrote();
        self.unsynced.get_or_insert(self.clock.now());
        Ok(())
    }

    /// The lines in the buffer are written.
    fn wrote(&mut self) {
        if let Some(newest) = self.buffer.split_inclusive(|byte| *byte == b'\n').next_back() {
            self.newest.clear();
            self.newest.extend_from_slice(newest);
        }
        self.buffer.clear();
    }

    /// For how long something that was written has not been on disk.
    fn unsynced_for(&self) -> Option<Duration> {
        self.unsynced.map(|since| Duration::from_nanos(self.clock.now().nanos_since(since)))
    }

    /// Whether the segment should be on disk again.
    fn is_due(&self) -> bool {
        self.unsynced_for().is_some_and(|age| age >= SYNC_EVERY)
    }

    /// Writes the lines that were made and makes all durable: with the recent ones if that will do, which is faster.
    fn make_durable(&mut self) -> Result<(), JournalFailed> {
        self.write()?;
        if self.is_due() || !self.recent.as_ref().is_some_and(Recent::is_complete) {
            return self.sync();
        }
        self.timed(|writer| {
            if let Some(Err(error)) = writer.recent.as_mut().map(Recent::sync) {
                writer.without_recent(error)?;
            }
            writer.file.is_named().map_err(|error| (writer.current(), error))
        })?;
        if self.recent.is_none() { self.sync() } else { Ok(()) }
    }

    /// Writes the lines that were made and puts the segment on disk.
    pub(super) fn sync(&mut self) -> Result<(), JournalFailed> {
        self.write()?;
        if self.unsynced.is_some() {
            self.timed(|writer| writer.file.sync().map_err(|error| (writer.current(), error)))?;
            self.unsynced = None;
            self.restart_recent()?;
        }
        Ok(())
    }

    /// The segment is on disk.
    fn restart_recent(&mut self) -> Result<(), JournalFailed> {
        match self.recent.as_mut().map(|recent| recent.restart(&self.newest)) {
            Some(Err(error)) => self.without_recent(error).map_err(|(file, error)| self.fail("sync", file, &error)),
            _ => Ok(()),
        }
    }

    /// Somebody removed the recent records: the segment has them, too. Any other failure is one.
    fn without_recent(&mut self, error: io::Error) -> Result<(), (String, io::Error)> {
        if error.kind() != io::ErrorKind::NotFound {
            return Err((recent::FILE.to_owned(), error));
        }
        tracing::warn!(file = recent::FILE, %error, "decisions wait for the journal's segment");
        self.recent = None;
        Ok(())
    }

    fn timed(&mut self, sync: impl FnOnce(&mut Self) -> Result<(), (String, io::Error)>) -> Result<(), JournalFailed> {
        let begun = self.clock.now();
        sync(self).map_err(|(file, error)| self.fail("sync", file, &error))?;
        self.last_sync = Duration::from_nanos(self.clock.now().nanos_since(begun));
        Ok(())
    }

    /// From now on decisions need not wait for the segment, which is on disk.
    pub(super) fn prepare(&mut self) {
        match Recent::make(self.storage.as_mut(), &self.newest) {
            Ok(recent) => self.recent = Some(recent),
            Err(error) => tracing::info!(file = recent::FILE, %error, "decisions wait for the journal's segment"),
        }
    }

    /// Puts the segment on disk, for good: nothing else holds its records any more.
    fn end(&mut self) -> Result<(), JournalFailed> {
        self.sync()?;
        if self.recent.take().is_some() {
            // One that stays does no harm.
            let _ = self.storage.remove(recent::FILE);
        }
        Ok(())
    }

    /// Ends the segment and begins the next one. Nothing of the next is there before all of this one is on disk.
    fn rotate(&mut self, wall: u64) -> Result<(), JournalFailed> {
        self.sync()?;
        let at = self.mirror.run().map_or(Timestamp::ZERO, |run| run.at);
        self.open_segment(at, wall)?;
        self.retain(wall);
        Ok(())
    }

    /// Makes a segment under another name, and gives it its own when its head is on disk: a segment that is there has
    /// its whole head.
    fn open_segment(&mut self, at: Timestamp, wall: u64) -> Result<(), JournalFailed> {
        self.refuse_if_failed()?;
        let first = self.next;
        self.segments.push(SegmentInfo { first, last: first, bytes: 0, wall });
        self.write_head(at, wall)?;
        self.file = match self.store_segment(&name(first)) {
            Ok(file) => file,
            Err((action, file, error)) => return Err(self.fail(action, file, &error)),
        };
        self.head = length(&self.buffer);
        if let Some(segment) = self.segments.last_mut() {
            segment.bytes = self.head;
        }
        self.wrote();
        self.unsynced = None;
        self.restart_recent()
    }

    fn store_segment(&mut self, name: &str) -> Result<Box<dyn SegmentFile>, (&'static str, String, io::Error)> {
        let unfinished = format!("{name}{UNFINISHED}");
        let failed = |action| {
            let file = unfinished.clone();
            move |error| (action, file, error)
        };
        let mut file = self.storage.create(&unfinished).map_err(failed("create"))?;
        // Only a help: without it the file grows.
        let _ = file.reserve(self.segment_size);
        file.write(&self.buffer).map_err(failed("write"))?;
        file.sync().map_err(failed("sync"))?;
        self.storage.rename(&unfinished, name).map_err(failed("rename"))?;
        self.storage.sync().map_err(|error| ("sync", "the folder".to_owned(), error))?;
        Ok(file)
    }

    fn write_head(&mut self, at: Timestamp, wall: u64) -> Result<(), JournalFailed> {
        let of = |(name, group): (&str, &super::mirror::Group)| {
            let checkpoint = Body::Snapshot(Box::new(group.checkpoint()));
            (name.to_owned(), group.at, Body::Config(group.config.clone()), checkpoint)
        };
        let groups: Vec<_> = self.mirror.groups().map(of).collect();
        let head = Body::Segment(SegmentRecord {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: self.identity.boot_id.clone(),
            pid: self.identity.pid,
            config_hash: self.identity.config_hash.clone(),
            run: self.mirror.run().map_or(0, |run| run.start),
            groups: u32::try_from(groups.len()).unwrap_or(u32::MAX),
        });
        self.line(wall, at, None, &head)?;
        for (name, at, config, checkpoint) in groups {
            self.line(wall, at, Some(&name), &config)?;
            self.line(wall, at, Some(&name), &checkpoint)?;
        }
        Ok(())
    }

    /// Drops segments that are not needed any more. One that cannot be removed stays: it does no harm.
    pub(super) fn retain(&mut self, wall: u64) {
        let going = expendable(&self.segments, self.keep, self.mirror.oldest_open(), wall);
        for _ in 0..going {
            let Some(oldest) = self.segments.first() else { return };
            let name = name(oldest.first);
            let removed = self.storage.remove(&name).and_then(|()| {
                self.segments.remove(0);
                // Before the next one goes: after a power cut a newer one must not be gone while an older one is back.
                self.storage.sync()
            });
            if let Err(error) = removed {
                tracing::warn!(segment = %name, %error, "an old segment of the journal cannot be removed");
                return;
            }
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970.
pub(super) fn wall() -> u64 {
    clock::wall() / 1_000
}

/// The body of the writer's thread: until the journal is closed or fails.
pub(super) fn run(shared: &Shared, mut writer: Writer) -> Result<(), JournalFailed> {
    let mut batch = Vec::new();
    let mut waiting = Waiting::default();
    loop {
        let more = next_batch(shared, &mut batch, writer.unsynced_for(), writer.last_sync);
        let result = write_batch(shared, &mut writer, &mut batch, &mut waiting);
        if let Err(why) = &result {
            // Nobody can append any more before anybody is told.
            shared.close(why);
            let queued = shared.left();
            let Waiting { durable, refused } = waiting;
            let untold = durable.into_iter().map(|(done, _)| done).chain(refused);
            for done in untold.chain(queued.into_iter().filter_map(|item| item.done)) {
                // Whoever does not wait any more need not be told.
                let _ = done.send(Err(why.clone()));
            }
            return result;
        }
        if !more {
            return writer.end();
        }
    }
}

/// Those who wait for a batch.
#[derive(Default)]
struct Waiting {
    /// For what was taken to be durable.
    durable: Vec<(Done, Seq)>,
    /// For what was not taken.
    refused: Vec<Done>,
}

/// One write and, if anybody waits for it or it is time, one sync for all of `batch`.
fn write_batch(
    shared: &Shared,
    writer: &mut Writer,
    batch: &mut Vec<Item>,
    waiting: &mut Waiting,
) -> Result<(), JournalFailed> {
    let mut pushed = push_batch(writer, batch, waiting);
    while pushed.is_ok() && (1..MOST_TOGETHER).contains(&waiting.durable.len()) && latecomers(shared, batch) {
        pushed = push_batch(writer, batch, waiting);
    }
    // What came before a record that was refused is good.
    if !waiting.durable.is_empty() || pushed.is_err() {
        writer.make_durable()?;
    } else if writer.is_due() {
        writer.sync()?;
    } else {
        writer.write()?;
    }
    for (done, seq) in waiting.durable.drain(..) {
        let _ = done.send(Ok(seq));
    }
    pushed
}

/// Makes the lines of `batch`, up to the first record that is refused.
fn push_batch(writer: &mut Writer, batch: &mut Vec<Item>, waiting: &mut Waiting) -> Result<(), JournalFailed> {
    let mut pushed = Ok(());
    for Item { entry, wall, done } in batch.iter_mut() {
        if pushed.is_ok() {
            match writer.push(entry, *wall) {
                Ok(seq) => waiting.durable.extend(done.take().map(|done| (done, seq))),
                Err(why) => pushed = Err(why),
            }
        }
        waiting.refused.extend(done.take());
    }
    batch.clear();
    pushed
}
