//! The durable journal: everything that was told and decided, as JSON Lines that an operator reads.
//!
//! # The file
//!
//! A folder of segments, each named by the number of its first record (`00000000000000000001.jsonl`), append only.
//! One record is one line, keys always in this order:
//!
//! ```json
//! {"seq":17,"at":3.25,"boot":"5e0c8a1f","wall":"2026-11-29T22:13:05.123456Z","group":"main","kind":"input",
//!  "body":{"line":{"at":3.25,"probe":"east","ok":true},"answer":{"outcome":"HEALTHY","flow":"OPEN east #1"}},
//!  "prev":"c0ffee..","crc":"89abcdef"}
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | `seq` | number: 1, 2, 3, .. without a gap, across segments and restarts |
//! | `at` | seconds on CLOCK_BOOTTIME since the supervisor's start; begins anew with each `start` |
//! | `boot` | the first 8 characters of the kernel's boot id |
//! | `wall` | wall time, for audit; nothing is computed with it but retention by age |
//! | `group` | name of the group, or null |
//! | `kind`, `body` | what: see [`Body`] and its records |
//! | `prev` | the first 128 bits of the SHA-256 of the line before (without its end), hexadecimal; zeros at first |
//! | `crc` | CRC-32 (IEEE) of the line up to the end of `prev`'s value, hexadecimal |
//!
//! The chain makes a line that was changed, removed or added visible unless all later ones are written anew. It can't
//! show that the newest lines were removed, or the oldest segments: retention does the latter.
//!
//! A segment begins with a `segment` record, then a `config` and a `snapshot` of each group: everything that older
//! segments have to say about the present. So a segment can be read alone, and older ones may go. A segment gets its
//! name when its head is on disk: there is none with half a head. A supervisor that stops begins one more, so that the
//! next one, which may be of another version, need not follow any decision of this one to know the state.
//!
//! `input` records hold the very lines that replay reads. The journal keeps an engine of its own per group, tells it
//! the same, and checks that it answers the same: what is written is known to replay.
//!
//! Unknown kinds and keys are errors: they were written by another version. The writer puts down what it is given:
//! whoever appends keeps secrets out.
//!
//! # Durability
//!
//! One thread writes. Observations ([`JournalHandle::append`]) are written within [`WRITE_WITHIN`], which outlives a
//! kill of the process, and are on disk within [`SYNC_EVERY`] from then on. A decision ([`JournalHandle::append_durable`]) resolves
//! when it and everything appended before it is on disk: one write and one sync for all that wait. The first failure of
//! storage is final ([`JournalFailed`]): what the kernel did with pages that it could not write is unknown, so nothing
//! is tried again.
//!
//! While a journal is open there is a file `RECENT` beside the segments, of a length that never changes. What the segment on
//! disk may not have yet is put there, too, and it is this file that a decision waits for: a sync of a file that grew has its
//! length to commit as well. The segment is written first, so that it is all that an operator or a program needs to read,
//! and is on disk within [`SYNC_EVERY`]. Whoever closes the journal in order removes the file. Where it cannot be made, a
//! decision waits for the segment.
//!
//! # Opening
//!
//! A broken last line (no end, or a wrong checksum) is a write that did not come to its end: it is cut, kept aside as
//! `torn-<seq>.bin`, and noted. Damage anywhere else is an error that names segment, line and what is wrong, and
//! nothing is changed: a journal that can't be trusted must not be decided by. A broken line inside a segment's head
//! counts as elsewhere, since a head is on disk before its segment has a name; so does a flipped bit that splits the
//! last line in two, or that joins the last two.
//!
//! Before that, where the newest segment ends or is broken, its lines go on from `RECENT`, as far as those continue the
//! chain, and then from the segment again, behind the place of those lines. They are put back, which is noted (LOST_TAIL).
//! `RECENT` also says up to which line the segment is on disk. So a blank behind that line and behind what is in `RECENT` is
//! what a power cut left of records that nobody was told to be durable: it is cut like a torn line, with all behind it.
//! After a kill, which loses nothing that was written, the end of the segment is written anew all the same: a sync that
//! failed may have left pages that only look as if they were on disk.

mod export;
mod line;
mod mirror;
mod queue;
mod read;
mod recent;
mod record;
mod retention;
mod segment;
mod shadow;
mod stamp;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;

pub use export::{Exported, export};
pub use mirror::{Follow, MakeFollow, follow_nothing};
pub(super) use mirror::{awake, counted_health};
pub use queue::{JournalHandle, LONGEST_QUEUE, WRITE_WITHIN};
pub use read::{
    Counts, Damage, ReadError, Recovered, RecoveredGroup, SegmentInfo, Segments, Torn, for_each, recover, verify,
};
pub use record::{
    AgedHold, AgedProof, Answer, Body, Checkpoint, CommandRecord, ConfigRecord, Entry, FORMAT, Fence, FenceProof,
    HealthRecord, HookEndRecord, HookStartRecord, NoteRecord, OpenHook, OpenSwitch, Peer, Record, Seconds,
    SegmentRecord, Seq, StageRecord, StartRecord, StopRecord, Switch, SwitchStage, TriggerRecord, flow_text,
};
pub use retention::Keep;
pub use segment::{Disk, PreparedFile, SegmentFile, Storage};
pub use shadow::{ShadowAnswer, ShadowEnd, ShadowRecord};
pub use stamp::{format as format_time, read as read_time};
pub use writer::{JournalFailed, SYNC_EVERY};

use super::clock::BootClock;
use crate::engine::Timestamp;
use crate::manager::Clock;
use mirror::Mirror;
use queue::Shared;
use read::{Scan, Tail};
use segment::{Lock, Locked, UNFINISHED};
use writer::{Identity, Writer};

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its folder; made if it is not there.
    pub folder: PathBuf,
    /// A segment is closed at this size, in bytes (and not before it holds as much as its head).
    pub segment_size: u64,
    /// Which closed segments are kept.
    pub keep: Keep,
    /// Hash of the configuration file.
    pub config_hash: String,
    /// What the caller keeps of each group beside its engine.
    pub follow: MakeFollow,
}

impl Options {
    /// Segments of 16 MiB, kept for 90 days and up to 1 GiB.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, config_hash: impl Into<String>) -> Self {
        Self {
            folder: folder.into(),
            segment_size: 16 << 20,
            keep: Keep { age: Duration::from_secs(90 * 86_400), size: 1 << 30 },
            config_hash: config_hash.into(),
            follow: follow_nothing,
        }
    }
}

/// Why a journal cannot be written to. Nothing may be decided without one.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process writes to it.
    #[error("the journal {} is in use by {holder}; nothing was changed", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// `process 7`.
        holder: String,
    },
    /// It is damaged, or cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be written to.
    #[error(transparent)]
    Write(#[from] JournalFailed),
}

/// An open journal, and the lock on its folder. Dropping it closes it without a `stop` record.
pub struct Journal {
    handle: JournalHandle,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), JournalFailed>>>,
    _lock: Lock,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal, or begins one; says what it comes to; and appends a `start` record, durably. `at` is the
    /// supervisor's clock.
    ///
    /// The caller then restores each group that is configured, and appends its `config` and, unless the group is new,
    /// its `snapshot`. Groups that it does not mention stay as they were left.
    ///
    /// # Errors
    /// Another process has it, it is damaged, or storage fails.
    pub fn open(options: Options, at: Timestamp) -> Result<(Self, Recovered), OpenError> {
        let disk = Box::new(Disk::new(&options.folder));
        Self::open_on(options, at, disk)
    }

    /// [`open`](Self::open), writing through `storage`, which must be the options' folder or stand in for it. What is
    /// there is read from the folder itself.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_on(
        options: Options,
        at: Timestamp,
        mut storage: Box<dyn Storage>,
    ) -> Result<(Self, Recovered), OpenError> {
        let folder = options.folder.clone();
        segment::make_folder(&folder).map_err(|error| ReadError::io(&folder, error))?;
        let lock = lock(&folder)?;
        let (mirror, scan) = read::follow(&folder, options.follow)?;
        let recovered = Recovered::of(&mirror, &scan);
        let aside = scan.torn.as_ref().map(|torn| set_aside(&folder, torn)).transpose()?;
        mend(&folder, &scan)?;
        remove_unfinished(&folder, storage.as_mut())?;
        let mut writer = writer(options, storage, mirror, &scan, at)?;
        // Before anything more is written: so it is known at any moment how much of it nobody was promised.
        writer.sync()?;
        writer.prepare();
        let wall = writer::wall();
        let start = writer.identity.start();
        writer.push(&mut Entry { at, group: None, body: start }, wall)?;
        if let (Some(torn), Some(aside)) = (&scan.torn, aside) {
            let Torn { segment, line, bytes, .. } = torn;
            let text = format!(
                "{segment}, line {line}: {} bytes of a write that did not come to its end were cut and kept in {aside}",
                bytes.len()
            );
            tracing::warn!(code = "TORN_TAIL", text, "note");
            writer.push(&mut Entry::note(at, "TORN_TAIL", text), wall)?;
        }
        if let Some(Tail { segment, lost: lost @ 1.., .. }) = &scan.tail {
            let text = format!("{segment}: {lost} records had not reached the disk as a whole and were put back");
            tracing::warn!(code = "LOST_TAIL", text, "note");
            writer.push(&mut Entry::note(at, "LOST_TAIL", text), wall)?;
        }
        writer.sync()?;
        writer.retain(wall);
        let shared = Arc::new(Shared::default());
        let thread = {
            let shared = Arc::clone(&shared);
            let body = move || writer::run(&shared, writer);
            let spawned = std::thread::Builder::new().name("journal".to_owned()).spawn(body);
            spawned.map_err(|error| ReadError::io(&folder, error))?
        };
        let handle = JournalHandle::new(Arc::clone(&shared));
        Ok((Self { handle, shared, thread: Some(thread), _lock: lock }, recovered))
    }

    /// A handle to append with.
    #[must_use]
    pub fn handle(&self) -> JournalHandle {
        self.handle.clone()
    }

    /// Begins a segment, appends a `stop` record, puts everything on disk, and lets go of the folder. Blocks for as long as that takes.
    ///
    /// # Errors
    /// The journal failed, now or before.
    pub fn close(mut self, at: Timestamp, reason: impl Into<String>) -> Result<(), JournalFailed> {
        let body = Body::Stop(StopRecord { reason: reason.into() });
        self.handle.append(Entry { at, group: None, body })?;
        self.end()
    }

    fn end(&mut self) -> Result<(), JournalFailed> {
        self.shared.close(&JournalFailed::Closed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(JournalFailed::Closed),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Whoever needs to know how it ended calls `close`.
            let _ = self.end();
        }
    }
}

fn lock(folder: &Path) -> Result<Lock, OpenError> {
    Lock::take(folder).map_err(|locked| match locked {
        Locked::By(pid) if pid.is_empty() => {
            OpenError::Locked { folder: folder.to_owned(), holder: "another process".to_owned() }
        }
        Locked::By(pid) => OpenError::Locked { folder: folder.to_owned(), holder: format!("process {pid}") },
        Locked::Io(error) => ReadError::io(folder, error).into(),
    })
}

/// Keeps a torn last line aside.
fn set_aside(folder: &Path, torn: &Torn) -> Result<String, ReadError> {
    segment::keep_aside(folder, torn.seq, &torn.bytes).map_err(|error| ReadError::io(folder, error))
}

/// Writes the end of the newest segment anew, with the records that it lost and without a torn last line.
fn mend(folder: &Path, scan: &Scan) -> Result<(), ReadError> {
    let (segment, at, lines) = match (&scan.tail, &scan.torn) {
        (Some(tail), _) => (&tail.segment, u64::try_from(tail.offset).unwrap_or(u64::MAX), &*tail.lines),
        (None, Some(torn)) => (&torn.segment, torn.offset, &[][..]),
        (None, None) => return Ok(()),
    };
    let path = folder.join(segment);
    segment::end_with(&path, lines, at).map_err(|error| ReadError::io(&path, error))
}

/// Segments whose head was not complete: nothing was ever written to them that is not in the segment before.
fn remove_unfinished(folder: &Path, storage: &mut dyn Storage) -> Result<(), ReadError> {
    let names = segment::names(folder).map_err(|error| ReadError::io(folder, error))?;
    for name in names.iter().filter(|name| name.ends_with(UNFINISHED)) {
        storage.remove(name).map_err(|error| ReadError::io(&folder.join(name), error))?;
    }
    Ok(())
}

fn writer(
    options: Options,
    mut storage: Box<dyn Storage>,
    mirror: Mirror,
    scan: &Scan,
    at: Timestamp,
) -> Result<Writer, OpenError> {
    let Options { folder, segment_size, keep, config_hash, .. } = options;
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| "unknown".to_owned());
    let boot_id = boot_id.trim().to_owned();
    let boot: String = boot_id.chars().take(8).collect();
    let file: Box<dyn SegmentFile> = match scan.segments.last() {
        None => Box::new(NoFile),
        Some(newest) => {
            let name = segment::name(newest.first);
            let file = storage.append(&name).map_err(|error| ReadError::io(&folder.join(&name), error))?;
            storage.sync().map_err(|error| ReadError::io(&folder, error))?;
            file
        }
    };
    let is_new = scan.segments.is_empty();
    let clock = BootClock::default();
    let mut writer = Writer {
        storage,
        file,
        recent: None,
        identity: Identity { boot_id, pid: std::process::id(), config_hash },
        stamp: line::Stamp::new(&boot),
        mirror,
        segments: scan.segments.clone(),
        next: scan.next,
        link: scan.link,
        segment_size,
        keep,
        head: 0,
        clock,
        buffer: Vec::new(),
        newest: scan.newest.clone(),
        // What a killed process wrote may not be on disk yet, and is decided by from now on.
        unsynced: Some(clock.now()),
        last_sync: Duration::ZERO,
        failed: None,
    };
    if is_new {
        writer.begin(at)?;
    }
    Ok(writer)
}

/// Stands in until the first segment is made.
struct NoFile;

impl SegmentFile for NoFile {
    fn write(&mut self, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::Error::other("no segment is open"))
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Err(std::io::Error::other("no segment is open"))
    }

    fn reserve(&mut self, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}
